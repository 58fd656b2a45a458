"""Heads that are consistent by construction beside raw outputs: what they cost and what they gain.

An update of each agent, by turns; lotteries whose distributions are known; the probe environments;
and CartPole, trained briefly. Studies of MinAtar are `edrl suite` (docs/results/heads.md).
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import jax
import numpy as np
from tests.deep.probes import KINDS, Probe

from edrl.core.metrics import wasserstein
from edrl.core.particles import Particles
from edrl.deep.agents import StatisticsAgent
from edrl.deep.config import Config, preset
from edrl.deep.learner import Learner, new_learner, optimiser_for, seed_of, update
from edrl.deep.networks import network_for
from edrl.deep.rollout import Batch
from edrl.deep.training import train

PAIRS = {
    "er-dqn": ("er-dqn[head=chords]", "er-dqn[head=atoms]"),
    "qr-dqn[size=51]": ("qr-dqn[head=ordered,size=51]", "qr-dqn[head=atoms,size=51]"),
}
"""Agents with raw outputs, and the same with heads."""
ALL = [agent for plain, others in PAIRS.items() for agent in (plain, *others)]
_ACTIONS, _ROUNDS, _REPEAT = 6, 9, 20
_UPDATES, _LOTTERIES, _PRIZES, _SEEDS = 1_500, 256, 400, 2
_SHORT: dict[str, Any] = {"steps": 40_000, "evaluate_every": 20_000, "checkpoint_every": 40_000}


def run() -> dict[str, Any]:
    return {
        "update": _costs(),
        "lotteries": {agent: _lotteries(agent) for agent in ALL},
        "probes": {agent: _probes(agent) for agent in _expectiles()},
        "cartpole": {agent: _cartpole(agent) for agent in _expectiles()},
    }


def _expectiles() -> list[str]:
    return ["er-dqn", *PAIRS["er-dqn"]]


def _costs() -> dict[str, dict[str, float]]:
    """Processor time of an update with MinAtar's network, as a multiple of that without a head."""
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 2, (2, 32, 10, 10, 4)).astype(np.uint8)
    discounts = np.full(32, 0.99, np.float32)
    rewards = rng.normal(size=32).astype(np.float32)
    batch = Batch(frames[0], rng.integers(0, _ACTIONS, 32), rewards, discounts, frames[1])
    steps = {name: _updater(name, batch) for name in ALL}
    times: dict[str, list[float]] = {name: [] for name in ALL}
    for _ in range(_ROUNDS):
        for name, step in steps.items():
            start = process_time()
            for _ in range(_REPEAT):
                jax.block_until_ready(step())
            times[name].append((process_time() - start) / _REPEAT)
    return {
        name: _against(times[name], times[plain])
        for plain, others in PAIRS.items()
        for name in (plain, *others)
    }


def _updater(name: str, batch: Batch) -> Callable[[], Any]:
    config = preset("minatar", agent=name)
    family = config.family()
    network = network_for("minatar", (10, 10, 4), _ACTIONS, family.num_outputs)
    agent = StatisticsAgent(family, network)
    optimiser = optimiser_for(config, agent)
    state = [new_learner(agent, optimiser, jax.random.key(0))]

    def step() -> Any:
        state[0], losses = update(agent, optimiser, state[0], batch, seed_of(0, 0))
        return state[0].online, losses

    jax.block_until_ready(step())  # compiles
    return step


def _against(times: list[float], reference: list[float]) -> dict[str, float]:
    ratios = [time / other for time, other in zip(times, reference, strict=True)]
    return {
        "milliseconds": 1e3 * float(np.median(times)),
        "times_plain": float(np.median(ratios)),
        "times_plain_least": float(np.min(ratios)),
        "times_plain_most": float(np.max(ratios)),
        "rounds": _ROUNDS,
    }


def _prizes(places: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The prize at a level of the lottery at a place: from two outcomes to an exponential tail."""
    where, kind = places[:, :1], places[:, 1:]
    tail, two = -np.log1p(-levels) - 1, np.where(levels < 0.3, -2.0, 6 / 7)
    share = 1 / (1 + np.exp(-3 * kind))
    around = share * tail + (1 - share) * two
    return np.asarray(2 * np.sin(2 * where) + (0.05 + np.abs(kind)) * around)


def _lotteries(name: str) -> dict[str, float]:
    """Errors after learning lotteries from single draws, averaged over seeds."""
    found = [_learnt_lotteries(preset("classic", agent=name), seed) for seed in range(_SEEDS)]
    return {key: float(np.mean([one[key] for one in found])) for key in found[0]}


def _learnt_lotteries(config: Config, seed: int) -> dict[str, float]:
    family = config.family()
    agent = StatisticsAgent(family, network_for("mlp", (2,), 1, family.num_outputs))
    optimiser = optimiser_for(config, agent)
    rng = np.random.default_rng(seed)
    state = new_learner(agent, optimiser, jax.random.key(seed))
    for _ in range(_UPDATES):
        places = rng.uniform(-1, 1, (32, 2)).astype(np.float32)
        drawn = _prizes(places, rng.random((32, 1)))[:, 0].astype(np.float32)
        over = np.zeros(32, np.float32)
        batch = Batch(places, np.zeros(32, int), drawn, over, places)
        state, _ = update(agent, optimiser, state, batch, seed_of(0, 0))
    return _errors(agent, state)


def _errors(agent: StatisticsAgent, state: Learner) -> dict[str, float]:
    places = np.random.default_rng(99).uniform(-1, 1, (_LOTTERIES, 2)).astype(np.float32)
    levels = (np.arange(_PRIZES) + 0.5) / _PRIZES
    truth = Particles(_prizes(places, levels).astype(np.float32))
    values = agent.values(state.online, places)[:, 0]
    imputed = agent.family.impute(values)
    residual = np.abs(np.asarray(agent.family.residual(values))).max(axis=-1)
    return {
        "mean": float(np.mean(np.abs(agent.family.mean(values) - truth.mean()))),
        "statistics": float(np.mean(np.abs(values - agent.family.evaluate(truth)))),
        "wasserstein_1": float(np.mean(wasserstein(imputed, truth))),
        "standard_deviation": float(np.mean(np.abs(imputed.std() - truth.std()))),
        "crossed": float(np.mean(np.any(np.diff(values, axis=-1) < -1e-5, axis=-1))),
        "inconsistent_share": float(np.mean(residual > 1e-3 * np.ptp(values, axis=-1))),
        "residual": float(np.mean(residual)),
    }


def _probes(name: str) -> dict[str, Any]:
    """The largest error of an expected return, and the metrics of the last row."""
    return {kind: _probe(name, kind) for kind in KINDS}


def _probe(name: str, kind: str) -> dict[str, float]:
    config = Config(
        agent=name, env="probe", network="mlp", steps=700, replay=1_000, learn_after=100,
        update_every=1, target_every=25, batch=16, gamma=0.5, learning_rate=2e-3,
        adam_epsilon=1e-8, epsilon=(1.0, 1.0), evaluate_every=0, log_every=350, checkpoint_every=700,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as directory:
        trained = train(config, Path(directory) / "run", env=Probe(kind))
        observations = np.array([[-1.0], [0.0], [1.0]], np.float32)
        parameters = trained.state.learner.online
        means = np.asarray(trained.agent.action_values(parameters, observations, jax.random.key(0)))
        return {"error": float(np.nanmax(np.abs(means - _right(kind)))), **_last(trained.out)}


def _right(kind: str) -> np.ndarray:
    """Expected returns at the observations -1, 0 and 1; NaN where nobody comes."""
    nan = np.nan
    return {
        "constant": np.array([[nan, nan], [1, 1], [nan, nan]]),
        "observed": np.array([[-1, -1], [nan, nan], [1, 1]]),
        "delayed": np.array([[nan, nan], [0.5, 0.5], [1, 1]]),
        "action": np.array([[nan, nan], [0, 1], [nan, nan]]),
        "both": np.array([[1, 0], [nan, nan], [0, 1]]),
    }[kind]


def _last(out: Path) -> dict[str, float]:
    """What the last row of metrics says of consistency."""
    rows = np.atleast_1d(np.genfromtxt(out / "metrics.csv", delimiter=",", names=True))
    names = ("inconsistent_share", "imputation_residual")
    return {name: float(rows[name][-1]) for name in names}


def _cartpole(name: str) -> dict[str, float]:
    """The last evaluation after a short training, and how well it was foretold."""
    config = preset("classic", agent=name, **_SHORT)
    with tempfile.TemporaryDirectory() as directory:
        trained = train(config, Path(directory) / "run")
        scores = np.genfromtxt(trained.out / "evaluations.csv", delimiter=",", names=True)
        foretold = np.genfromtxt(trained.out / "calibration.csv", delimiter=",", names=True)[-1]
        return {
            "score": float(scores["mean"][-1]),
            "expected_by_got": float(foretold["expected"] / foretold["got"]),
            "spread_by_scatter": float(foretold["spread"] / foretold["scatter"]),
            "within": float(foretold["within"]),
            **_last(trained.out),
        }


def table(result: dict[str, Any]) -> str:
    """The tables of docs/results/heads.md."""
    parts = {
        "update": {"times_plain": "cost", "times_plain_least": "least", "times_plain_most": "most"},
        "lotteries": {
            "mean": "mean",
            "statistics": "statistics",
            "wasserstein_1": "W1",
            "standard_deviation": "deviation",
            "inconsistent_share": "inconsistent",
        },
        "cartpole": {
            "score": "score",
            "expected_by_got": "expected/got",
            "spread_by_scatter": "spread/scatter",
            "within": "within",
            "inconsistent_share": "inconsistent",
        },
    }
    return "\n".join(
        _part(result[part], columns) for part, columns in parts.items() if part in result
    )


def _part(rows: dict[str, dict[str, float]], columns: dict[str, str]) -> str:
    lines = [["agent", *columns.values()], ["---"] * (1 + len(columns))]
    for agent, row in rows.items():
        lines.append([f"`{agent}`", *(f"{row[name]:.3g}" for name in columns)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
