"""`python -m benchmarks.peers.ours atari er-dqn`: one of our own agents, through the gate."""

import sys
import tempfile
from pathlib import Path

import jax

from benchmarks.peers.gate import Gate
from benchmarks.peers.tasks import TASKS
from edrl.deep.config import preset
from edrl.deep.run import Run


def main(game: str, agent: str) -> None:
    task = TASKS[game]
    config = preset(
        "paper" if game == "atari" else "minatar",
        env="pong" if game == "atari" else "minatar/breakout",
        agent=agent,
        size=task.quantiles if agent == "qr-dqn" else None,
        learn_after=task.learn_after,
        replay=task.replay,
        batch=task.batch,
        update_every=task.update_every,
        target_every=task.target_every,
        gamma=task.gamma,
        epsilon=(task.epsilon, task.epsilon),
        learning_rate=task.learning_rate,
        adam_epsilon=task.adam_epsilon,
    )
    with tempfile.TemporaryDirectory() as directory:
        run = Run(config, Path(directory) / "run")
        run.begin()
        gate = Gate(task, ("edrl", "jax"), settle=lambda: jax.block_until_ready(run.state.learner))
        while True:
            run.advance()
            gate.step()


if __name__ == "__main__":
    main(*sys.argv[1:])
