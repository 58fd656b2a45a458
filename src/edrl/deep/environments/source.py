"""Where the environments of a run come from: lanes side by side, and one for each evaluation."""

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from edrl.core.check import fail
from edrl.deep.environments.environment import Environment
from edrl.deep.environments.in_jax import JaxEnvironment
from edrl.deep.environments.suite import make

if TYPE_CHECKING:
    import gymnasium

    from edrl.deep.environments.suite import Made

    EnvironmentLike = Made | Callable[[], gymnasium.Env | JaxEnvironment]


class EnvironmentSource:
    """Makes environments from a name, from a function, or from an object and its copies."""

    def __init__(self, env: "EnvironmentLike", sticky: bool) -> None:
        self._env, self._sticky = env, sticky
        self._unused = (
            None if isinstance(env, str | JaxEnvironment) or callable(env) else _copied(env)
        )

    def lanes(self, seed: int, count: int) -> list[Environment]:
        """Environments to train in; the first has the seed itself and is the object passed."""
        first = self._make(self._env() if callable(self._env) else self._env, seed)
        return [first, *(self.another(seed, lane) for lane in range(1, count))]

    def another(self, *numbers: int) -> Environment:
        """An environment that nobody uses, with a seed drawn from some numbers."""
        return self.with_seed(mixed_seed(*numbers))

    def with_seed(self, seed: int) -> Environment:
        """An environment that nobody uses."""
        if callable(self._env):
            return self._make(self._env(), seed)
        unused = self._env if self._unused is None else copy.deepcopy(self._unused)
        return self._make(unused, seed)

    def _make(self, env: "Made", seed: int) -> Environment:
        return make(env, seed=seed, sticky=self._sticky)


def mixed_seed(*numbers: int) -> int:
    """A seed of 31 bits for each sequence of numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0] >> 1)


def _copied(env: "gymnasium.Env") -> "gymnasium.Env":
    """A copy, made before it is used: one that has drawn itself, say, can often not be copied."""
    try:
        return copy.deepcopy(env)
    except Exception as error:
        right = f"evaluations play on copies of it, and it cannot be copied ({error})"
        raise fail("env", env, f"{right}: pass a function that makes it") from error
