"""The old `gym` interface over Gymnasium: as much of it as CleanRL's script of 2021 uses.

Gym itself is no longer maintained and does not support NumPy 2. Games are stepped without the
checks that Gymnasium puts around them, which gym did not have then.
"""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import ale_py
import gymnasium
import numpy as np


class Game:
    """A game with the old interface: `reset` returns an observation alone, `step` one flag for
    every kind of end.
    """

    def __init__(self, name: str) -> None:
        gymnasium.register_envs(ale_py)
        self._game: Any = gymnasium.make(name).unwrapped
        self.spec, self.ale = self._game.spec, self._game.ale
        self.action_space, self.observation_space = (
            self._game.action_space,
            self._game.observation_space,
        )
        self.get_action_meanings = self._game.get_action_meanings
        self._first_seed: int | None = None
        self.np_random = np.random.RandomState()  # the script calls the old generator's `randint`

    @property
    def unwrapped(self) -> "Game":
        return self

    def seed(self, seed: int) -> None:
        self._first_seed = seed
        self.np_random = np.random.RandomState(seed)

    def reset(self) -> np.ndarray:
        observation, _ = self._game.reset(seed=self._first_seed)
        self._first_seed = None
        return observation

    def step(self, action: int) -> tuple[np.ndarray, float, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self._game.step(action)
        return observation, reward, terminated or truncated, info

    def close(self) -> None:
        self._game.close()


class Wrapper:
    """Whatever a wrapper does not define is that of what it wraps."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)


class ObservationWrapper(Wrapper):
    """Subclasses define `observation`."""

    def reset(self, **options: Any) -> Any:
        return self.observation(self.env.reset(**options))

    def step(self, action: int) -> tuple[Any, float, bool, dict[str, Any]]:
        observation, reward, done, info = self.env.step(action)
        return self.observation(observation), reward, done, info


class RewardWrapper(Wrapper):
    """Subclasses define `reward`."""

    def step(self, action: int) -> tuple[Any, float, bool, dict[str, Any]]:
        observation, reward, done, info = self.env.step(action)
        return observation, self.reward(reward), done, info


def _statistics(on_step: Callable[[], None]) -> type[Wrapper]:
    """The wrapper that the script puts around four frames: where one step of the agent is one call
    of `step`.
    """

    class RecordEpisodeStatistics(Wrapper):
        def __init__(self, env: Any) -> None:
            super().__init__(env)
            self.score, self.length = 0.0, 0

        def reset(self, **options: Any) -> Any:
            self.score, self.length = 0.0, 0
            return self.env.reset(**options)

        def step(self, action: int) -> tuple[Any, float, bool, dict[str, Any]]:
            on_step()
            observation, reward, done, info = self.env.step(action)
            self.score += reward
            self.length += 1
            if done:
                info = {**info, "episode": {"r": self.score, "l": self.length}}
            return observation, reward, done, info

    return RecordEpisodeStatistics


def install(on_step: Callable[[], None]) -> None:
    """Make `import gym` give this; `on_step` is called in each step of the agent."""
    gym: Any = ModuleType("gym")
    wrappers: Any = ModuleType("gym.wrappers")
    gym.make, gym.spaces, gym.wrappers = Game, gymnasium.spaces, wrappers
    gym.Wrapper, gym.ObservationWrapper, gym.RewardWrapper = (
        Wrapper,
        ObservationWrapper,
        RewardWrapper,
    )
    wrappers.RecordEpisodeStatistics = _statistics(on_step)
    wrappers.TimeLimit = wrappers.Monitor = Wrapper  # imported by the script, but not used
    sys.modules.update({"gym": gym, "gym.wrappers": wrappers, "gym.spaces": gymnasium.spaces})
