"""A run whose environment hangs in compiled code, where Python's signal handlers never run."""

import ctypes
import sys
from typing import Any

import gymnasium
import numpy as np

from edrl.deep import Config, train


class Hanging(gymnasium.Env):
    """Locks a lock of C twice at the first step, and never comes back."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        mutex, c = ctypes.create_string_buffer(128), ctypes.CDLL(None)
        c.pthread_mutex_lock(mutex)
        print("hangs", flush=True)
        c.pthread_mutex_lock(mutex)


if __name__ == "__main__":
    config = Config(env="hanging", network="mlp", learn_after=10, replay=10, size=3)
    train(config, sys.argv[1], env=Hanging)
