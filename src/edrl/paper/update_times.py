"""How long one update of a deep agent takes, with exact imputation and with SciPy's solves.

It is a part of `imputation`, which shows and judges it.
"""

import time
from collections.abc import Callable

import jax
import numpy as np
from matplotlib.axes import Axes

from edrl import Expectiles, Particles
from edrl.core.imputation.scipy_reference import solve_rows
from edrl.deep.agents import StatisticsAgent
from edrl.deep.config import Config, preset
from edrl.deep.learner import new_learner, optimiser_for, seed_of, update
from edrl.deep.networks import network_for
from edrl.deep.rollout import Batch
from edrl.paper.experiment import Claim, Table, joined, judged, select, table
from edrl.report import style

ROUNDS = 5
_COMPARABLE = 2  # times, in the name of the limit
_NOISE = 0.03  # of the expectiles that SciPy imputes, in units of their range
_QR, _ER, _SCIPY = "QR-DQN", "ER-DQN", "SciPy's solves"
_OBSERVATION, _ACTIONS, _BATCH = (10, 10, 4), 6, 32  # as in MinAtar


def random_values(family: Expectiles, rows: int, seed: int) -> np.ndarray:
    """Expectiles of random distributions: 32 Gaussian atoms with random weights."""
    rng = np.random.default_rng(seed)
    mu = Particles(rng.normal(size=(rows, 32)), rng.dirichlet(np.ones(32), rows))
    return np.asarray(family.evaluate(mu))


def measure() -> Table:
    """Seconds of one update by QR-DQN and by ER-DQN with exact imputation, and of SciPy's solves.

    SciPy imputes a minibatch of eleven expectiles with noise, such as a network puts out.
    """
    rng, family = np.random.default_rng(0), Expectiles(11)
    batch = _random_batch(rng)
    clean = random_values(family, _BATCH, seed=1)
    noise = _NOISE * np.ptp(clean, axis=-1, keepdims=True) * rng.normal(size=clean.shape)
    with jax.enable_x64(False):  # as deep agents compute
        return _timed(batch, family, clean + noise)


def _random_batch(rng: np.random.Generator) -> Batch:
    frames = rng.integers(0, 2, (2, _BATCH, *_OBSERVATION)).astype(np.uint8)
    rewards = rng.normal(size=_BATCH).astype(np.float32)
    discounts = np.full(_BATCH, 0.99, np.float32)
    return Batch(frames[0], rng.integers(0, _ACTIONS, _BATCH), rewards, discounts, frames[1])


def _timed(batch: Batch, family: Expectiles, values: np.ndarray) -> Table:
    calls = {
        _QR: (_updater(preset("minatar", agent="qr-dqn", size=200), batch), 20),
        _ER: (_updater(preset("minatar", agent="er-dqn"), batch), 20),
        _SCIPY: (lambda: solve_rows(family, values), 1),
    }
    for call, _ in calls.values():
        call()  # compiles
    found = []
    for number in range(ROUNDS):
        # Rivals take turns, so that what else the machine does meets them all.
        for name, (call, repeat) in calls.items():
            found.append(table(round=number, part=name, seconds=seconds_of(call, repeat)))
    return joined(*found)


def seconds_of(call: Callable[[], object], repeat: int) -> float:
    """The mean over `repeat` calls."""
    begin = time.perf_counter()
    for _ in range(repeat):
        call()
    return (time.perf_counter() - begin) / repeat


def _updater(config: Config, batch: Batch) -> Callable[[], None]:
    family = config.family()
    network = network_for(config.network, _OBSERVATION, _ACTIONS, family.num_outputs)
    agent = StatisticsAgent(family, network)
    optimiser = optimiser_for(config, agent)
    state, seed = [new_learner(agent, optimiser, jax.random.key(0))], seed_of(0, 0)

    def step() -> None:
        state[0], losses = update(agent, optimiser, state[0], batch, seed)
        jax.block_until_ready((state[0].online, losses))

    return step


def draw(axes: Axes, updates: Table) -> None:
    """Bars: the median over rounds for each way to update."""
    qr, er, scipy = (
        1e3 * np.median(select(updates, part=part)["seconds"]) for part in (_QR, _ER, _SCIPY)
    )
    names = [
        "QR-DQN,\n200 quantiles",
        "ER-DQN, 11 expectiles,\nexact",
        "ER-DQN, 11 expectiles,\nSciPy, one core",
    ]
    colours = [style.COLOURS[agent] for agent in ("QR-DQN", "ER-DQN", "ER-DQN")]
    axes.barh(range(3), [qr, er, er], color=colours, height=0.6)
    axes.barh(2, scipy, left=er, color=style.COLOURS["ER-DQN (scipy-root)"], height=0.6)
    axes.set_yticks(range(3), names)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set(xlabel="milliseconds (median of rounds)", title="One update, MinAtar's network")


def judge(updates: Table) -> list[Claim]:
    """Appendix D.2 on training times, and exact imputation beside it."""
    qr, er, scipy = (select(updates, part=part)["seconds"] for part in (_QR, _ER, _SCIPY))
    limit = f"rounds in which the update takes more than {_COMPARABLE} times QR-DQN's"
    longer = {"scipy": er + scipy > _COMPARABLE * qr, "exact": er > _COMPARABLE * qr}
    rounds = {name: int(one.sum()) for name, one in longer.items()}
    measured = f"more than {_COMPARABLE} times QR-DQN's in {{}} of {len(qr)} rounds"
    return [
        judged(
            "appendix-d-times", "Appendix D.2",
            "With SciPy's solves for eleven expectiles, training times are comparable to QR-DQN's (one update with 32"
            " transitions, MinAtar's network, 200 quantiles)",
            measured.format(rounds["scipy"]), {limit: rounds["scipy"]},
            note="The paper spreads the solves over several CPUs, and its network is large: beside that they count for"
            " less. Here one core solves them, for a small network.",
        ),
        judged(
            "beyond-times", "edrl", "With exact imputation an update's time is comparable to QR-DQN's",
            measured.format(rounds["exact"]), {limit: rounds["exact"]},
        ),
    ]  # fmt: skip
