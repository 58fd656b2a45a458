"""Any Gymnasium environment with a discrete action space."""

from collections.abc import Iterable
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.envs import registration
from gymnasium.spaces import Box, Discrete

from edrl.core.check import fail
from edrl.core.words import Described
from edrl.deep.environments.environment import Step, check_saved_name, check_step, text_to_array
from edrl.deep.environments.spaces import (
    FrameReader,
    read_flag,
    read_picture,
    read_results,
    read_reward,
)
from edrl.named_modules import import_named


class Gymnasium:
    """A Gymnasium environment, by its id or as an object (which is used as it is, wrappers and
    all).

    Frames are uint8 if the observations are, otherwise float32; a discrete observation becomes a
    one-hot vector. Terminated means terminal, truncated only ended.

    Gymnasium has no way to save an environment, so resumption is not exact. A saved state is the
    number of episodes begun; after `load` the interrupted episode is lost and `reset` must start
    the next one. Each episode has a seed of its own, so the episodes after a resumption start as
    they would have without the interruption.
    """

    stack = 1
    restorable = False

    def __init__(self, env: str | gymnasium.Env, *, seed: int) -> None:
        self._env: gymnasium.Env = _made(env) if isinstance(env, str) else env
        spec = self._env.spec
        self.name = type(self._env.unwrapped).__name__ if spec is None else spec.id
        _refuse_what_adapts(self._env, self.name)
        self._seed = seed
        self._episodes = 0
        self._running = False

        actions = _checked_actions(self.name, self._env.action_space)
        observations = _checked_observations(self.name, self._env.observation_space)
        self._first_action = int(actions.start)
        self.num_actions = int(actions.n)
        self.action_names = self._names_of(actions)
        self._frame = FrameReader(self.name, observations)
        self.frame_shape, self.frame_dtype = self._frame.shape, self._frame.dtype
        self.scale = _scale(observations)

    def _names_of(self, actions: Discrete) -> tuple[str, ...]:
        """The environment's own, unless a wrapper has changed the actions; or their numbers."""
        meanings = getattr(self._env.unwrapped, "get_action_meanings", None)
        if callable(meanings) and actions == self._env.unwrapped.action_space:
            names = tuple(str(meaning) for meaning in cast(Iterable[object], meanings()))
            if len(names) == actions.n:
                return names
        return tuple(str(int(actions.start) + number) for number in range(int(actions.n)))

    def reset(self) -> np.ndarray:
        """Start an episode; its seed is drawn from the environment's and the episode's number."""
        words = np.random.SeedSequence([self._seed, self._episodes]).generate_state(1)
        results = self._env.reset(seed=int(words[0]))
        observation, _ = read_results(self.name, "reset", results)
        self._episodes += 1
        self._running = True
        return self._frame(observation)

    def step(self, action: int) -> Step:
        """Take an action, counted from 0 even if the action space starts elsewhere."""
        check_step(action, self.num_actions, self._running)
        results = self._env.step(self._first_action + int(action))
        observation, reward, terminated, truncated, _ = read_results(self.name, "step", results)
        terminal = read_flag(self.name, "terminated", terminated)
        self._running = not (terminal or read_flag(self.name, "truncated", truncated))
        number = read_reward(self.name, reward)
        return Step(self._frame(observation), number, number, terminal, not self._running)

    def render(self) -> np.ndarray:
        """The picture that the environment draws in the mode rgb_array."""
        if self._env.render_mode != "rgb_array":
            right = "it must be 'rgb_array' (for an id: register it with that in kwargs)"
            raise fail(f"render_mode of {self.name}", self._env.render_mode, right)
        try:
            picture = self._env.render()
        except gymnasium.error.DependencyNotInstalled as error:
            raise ImportError(f"{self.name} cannot be drawn: {error}") from error
        return read_picture(self.name, picture)

    @property
    def steps_per_second(self) -> float:
        """The pace at which the environment is meant to be watched."""
        pace = self._env.metadata.get("render_fps")
        return float(pace) if isinstance(pace, int | float) and pace > 0 else 15.0

    def save(self) -> dict[str, np.ndarray]:
        """The number of episodes begun, from which the seeds of the next ones follow."""
        return {"name": text_to_array(self.name), "episodes": np.array(self._episodes)}

    def load(self, state: dict[str, np.ndarray]) -> None:
        """Go on after the last episode that had begun; `reset` must follow."""
        check_saved_name(self.name, state)
        self._episodes = int(state["episodes"])
        self._running = False

    def close(self) -> None:
        """Close the Gymnasium environment."""
        self._env.close()


def _checked_actions(name: str, space: gymnasium.Space[Any]) -> Discrete:
    if not isinstance(space, Discrete):
        right = "agents choose among finitely many actions: it must be spaces.Discrete"
        raise fail(f"action space of {name}", space, right)
    return space


def _checked_observations(name: str, space: gymnasium.Space[Any]) -> Box | Discrete:
    if not isinstance(space, Box | Discrete):
        right = "it must be Box or Discrete (gymnasium.wrappers.FlattenObservation makes a Box)"
        raise fail(f"observation space of {name}", space, right)
    if 0 in (space.shape or ()):
        right = "it must have at least one number to observe"
        raise fail(f"observation space of {name}", space, right)
    return space


def _scale(observations: Box | Discrete) -> float:
    """What frames of bytes are multiplied by, to be 1 where they are brightest; 1 for others."""
    if isinstance(observations, Discrete) or observations.dtype != np.uint8:
        return 1.0
    brightest = float(np.max(observations.high))
    return 1 / brightest if brightest > 0 else 1.0


def _refuse_what_adapts(env: gymnasium.Env, name: str) -> None:
    """Evaluations and other lanes would play with other running averages than the agent learnt."""
    while isinstance(env, gymnasium.Wrapper):
        if type(env).__name__ in ("NormalizeObservation", "NormalizeReward"):
            right = "it adapts to what it sees, and evaluations see others: scale by fixed numbers"
            raise fail(
                f"wrapper of {name}",
                Described(type(env).__name__),
                f"{right} (TransformObservation, TransformReward)",
            )
        env = env.env


def registered(name: str) -> registration.EnvSpec:
    """What Gymnasium knows about an id, or about "module:id", if the module registers it."""
    module, _, identity = name.rpartition(":")
    if module:
        import_named(module)
    return gymnasium.spec(identity)


def _made(name: str) -> gymnasium.Env:
    """The environment with this id, able to draw itself if it can at all."""
    spec = registered(name)
    entry: Any = spec.entry_point
    creator = registration.load_env_creator(entry) if isinstance(entry, str) else entry
    modes = getattr(creator, "metadata", {}).get("render_modes", [])
    # Environments that cannot draw need not know of `render_mode` at all.
    return (
        gymnasium.make(spec, render_mode="rgb_array")
        if "rgb_array" in modes
        else gymnasium.make(spec)
    )
