"""What hangs in compiled code, where Python's signal handlers never run.

`python hanging.py train RUN` trains, `python hanging.py evaluate RUN` is the command. With a third
argument what hangs keeps the GIL.
"""

import ctypes
import sys
from typing import Any

import gymnasium
import numpy as np

from edrl import cli
from edrl.cli import evaluate, play
from edrl.deep import Config, train

_C = ctypes.PyDLL if len(sys.argv) == 4 else ctypes.CDLL


def hang(*given: Any, **named: Any) -> Any:
    """Lock a lock of C twice, and never come back."""
    mutex, c = ctypes.create_string_buffer(128), _C(None)
    c.pthread_mutex_lock(mutex)
    print("hangs", flush=True)
    c.pthread_mutex_lock(mutex)


class Hanging(gymnasium.Env):
    """Hangs at the first step."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    step = hang

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(1, np.float32), {}


def main(command: str, run: str) -> None:
    if command == "train":
        config = Config(env="hanging", network="mlp", learn_after=10, replay=10, size=3)
        train(config, run, env=Hanging)
    else:
        evaluate.play = play.film_episode = hang
        sys.argv = ["edrl", command, run]
        cli.main()


if __name__ == "__main__":
    main(*sys.argv[1:3])
