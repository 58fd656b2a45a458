"""`python -m benchmarks.peers.our_nature dqn`: an update of ours with Nature's network, through the gate."""

import sys

import jax
import numpy as np

from benchmarks.peers.gate import Gate
from benchmarks.peers.tasks import UPDATE
from edrl.deep.agents import StatisticsAgent
from edrl.deep.config import Config
from edrl.deep.learner import new_learner, optimiser_for, seed_of, update
from edrl.deep.networks import network_for
from edrl.deep.rollout import Batch

_ACTIONS, _SHAPE = 6, (84, 84, 4)


def main(name: str) -> None:
    config = Config(
        agent=name,
        size=UPDATE.quantiles if name == "qr-dqn" else None,
        learning_rate=UPDATE.learning_rate,
        adam_epsilon=UPDATE.adam_epsilon,
    )
    family, rng = config.family(), np.random.default_rng(0)
    network = network_for("nature", _SHAPE, _ACTIONS, family.num_outputs, 1 / 255)
    agent = StatisticsAgent(family, network)
    optimiser = optimiser_for(config, agent)
    learner, seed = new_learner(agent, optimiser, jax.random.key(0)), seed_of(0, 0)
    frames, after = rng.integers(0, 256, (2, UPDATE.batch, *_SHAPE), np.uint8)
    rewards = rng.normal(size=UPDATE.batch).astype(np.float32)
    discounts = np.full(UPDATE.batch, UPDATE.gamma, np.float32)
    batch = Batch(frames, rng.integers(0, _ACTIONS, UPDATE.batch), rewards, discounts, after)

    gate = Gate(UPDATE, ("edrl", "jax"), settle=lambda: jax.block_until_ready(learner))
    while True:
        learner, _ = update(agent, optimiser, learner, batch, seed)
        gate.step()


if __name__ == "__main__":
    main(*sys.argv[1:])
