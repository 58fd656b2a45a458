"""Five environments so small that a correct agent must solve them in seconds, each for one thing
that can be wrong.
"""

from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
import pytest


def others_are_slow(agents: Iterable[str], *quick: str) -> list[Any]:
    """Parameters of a test, of which the default suite runs some: each agent in one mode."""
    assert set(quick) <= set(agents)
    return [one if one in quick else pytest.param(one, marks=pytest.mark.slow) for one in agents]


class Probe(gymnasium.Env):
    """Observations [1], two actions; `kind` says what is probed.

    constant: one step, reward 1: can a value be learnt at all? observed: the reward is the
    observation: does the value depend on it? delayed: two steps, reward 1 at the second: is
    bootstrapping discounted? action: reward 1 for the second action: is the policy improved, and
    the loss at the action taken? both: reward 1 if the action fits the observation.
    """

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, kind: str):
        self.kind = kind
        self.state = 0.0

    def reset(
        self, *, seed: int | None = None, options: Any = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        random = self.kind in ("observed", "both")
        self.state = float(self.np_random.choice([-1.0, 1.0])) if random else 0.0
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        before = self.state
        reward = {
            "constant": 1.0, "observed": before, "delayed": before, "action": float(action == 1),
            "both": float((action == 1) == (before > 0)),
        }[self.kind]  # fmt: skip
        ended = self.kind != "delayed" or before == 1.0
        self.state = 1.0
        return self._observation(), reward, ended, False, {}

    def _observation(self) -> np.ndarray:
        return np.array([self.state], np.float32)


KINDS = ("constant", "observed", "delayed", "action", "both")
"""All of them, from the simplest on."""
