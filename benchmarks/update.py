"""What one update of each deep agent costs, against DQN's: batch 32, Nature's network on 84 x 84 x
4.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from benchmarks.timing import seconds
from edrl.deep.agents import StatisticsAgent
from edrl.deep.config import Config
from edrl.deep.learner import new_learner, optimiser_for, seed_of, update
from edrl.deep.networks import network_for
from edrl.deep.rollout import Batch

AGENTS = {
    "DQN": Config(agent="dqn"),
    "ER-DQN, 11 expectiles": Config(agent="er-dqn"),
    "ER-DQN, 11 expectiles, one atom a gap": Config(agent="er-dqn", imputation="exact-midpoint"),
    "ER-DQN-naive, 201 expectiles": Config(agent="er-dqn-naive"),
    "QR-DQN, 201 Huber quantiles": Config(agent="qr-dqn", size=201),
    "C51": Config(agent="c51"),
}
_ACTIONS, _ROUNDS, _REPEAT = 6, 9, 12


def run() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (2, 32, 84, 84, 4)).astype(np.uint8)
    rewards, discounts = rng.normal(size=32).astype(np.float32), np.full(32, 0.99, np.float32)
    batch = Batch(frames[0], rng.integers(0, _ACTIONS, 32), rewards, discounts, frames[1])
    updates = {name: _updater(config, batch) for name, config in AGENTS.items()}
    for step in updates.values():
        step()  # compiles
    times: dict[str, list[float]] = {name: [] for name in updates}
    for _ in range(_ROUNDS):
        for name, step in updates.items():
            times[name].append(seconds(step, _REPEAT))
    return {name: _against(times[name], times["DQN"]) for name in updates}


def _updater(config: Config, batch: Batch) -> Callable[[], Any]:
    family = config.family()
    network = network_for("nature", (84, 84, 4), _ACTIONS, family.num_outputs, 1 / 255)
    agent = StatisticsAgent(family, network)
    optimiser = optimiser_for(config, agent)
    state, seed = [new_learner(agent, optimiser, jax.random.key(0))], seed_of(0, 0)

    def step() -> Any:
        state[0], losses = update(agent, optimiser, state[0], batch, seed)
        return state[0].online, losses

    return step


def _against(times: list[float], reference: list[float]) -> dict[str, float]:
    ratios = [time / other for time, other in zip(times, reference, strict=True)]
    return {
        "milliseconds": 1e3 * float(np.median(times)),
        "times_dqn": float(np.median(ratios)),
        "times_dqn_least": float(np.min(ratios)),
        "times_dqn_most": float(np.max(ratios)),
        "rounds": _ROUNDS,
    }
