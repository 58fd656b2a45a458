"""`python -m benchmarks.peers.cleanrl_c51 atari`: CleanRL's C51, its installed script as it is,
through the gate.
"""

import os
import runpy
import sys
import tempfile

from benchmarks.peers import old_gym
from benchmarks.peers.gate import Gate
from benchmarks.peers.tasks import TASKS


def main(game: str) -> None:
    task = TASKS[game]
    gate = Gate(task, ("cleanrl", "torch"))
    old_gym.install(on_step=gate.step)
    flags = {
        "gym-id": "PongNoFrameskip-v4",
        "learning-rate": task.learning_rate,
        "total-timesteps": 10**9,
        "buffer-size": task.replay,
        "gamma": task.gamma,
        "target-network-frequency": task.target_every,
        "batch-size": task.batch,
        "start-e": task.epsilon,
        "end-e": task.epsilon,
        "learning-starts": task.learn_after,
        "train-frequency": task.update_every,
    }
    sys.argv[1:] = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)  # the script writes its logs to where it is run
        runpy.run_module("cleanrl.c51_atari", run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
