"""Playing without learning: scores, and the observations that an agent looks at."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from edrl.deep.agent import Agent
from edrl.deep.environments import Environment
from edrl.deep.networks import Parameters


@dataclass
class History:
    """The last frames of an episode, from which an observation is made."""

    frames: np.ndarray  # [stack, ...], oldest first
    fresh: bool = True  # whether the newest frame is its episode's first

    @property
    def newest(self) -> np.ndarray:
        return self.frames[-1]

    def begin(self, frame: np.ndarray) -> None:
        """A new episode: frames before its first are zero."""
        self.frames = np.zeros_like(self.frames)
        self.frames[-1] = frame
        self.fresh = True

    def append(self, frame: np.ndarray) -> None:
        """The next frame of the same episode."""
        self.frames = np.concatenate([self.frames[1:], frame[None]])
        self.fresh = False

    def observation(self) -> np.ndarray:
        """As replay memory gives it: [..., stack], or the plain frame if the stack is 1."""
        return self.frames[0] if len(self.frames) == 1 else np.moveaxis(self.frames, 0, -1)


def history_for(environment: Environment) -> History:
    """An empty history for an environment's frames."""
    return History(np.zeros((environment.stack, *environment.frame_shape), environment.frame_dtype))


@dataclass
class Evaluation:
    """Scores and lengths of episodes, and observations of the first one by the number of steps before them."""

    scores: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    remembered: dict[int, np.ndarray] = field(default_factory=dict)


def evaluate(
    agent: Agent,
    parameters: Parameters,
    environment: Environment,
    seed: int,
    epsilon: float,
    *,
    steps: int | None = None,
    episodes: int | None = None,
    remember: tuple[int, ...] = (),
) -> Evaluation:
    """Play epsilon-greedily for a number of steps, or of episodes.

    An episode that the steps cut short counts only if there is no other.
    """
    rng = np.random.default_rng(seed)
    found = Evaluation()
    history = history_for(environment)
    history.begin(environment.reset())
    score, length, taken = 0.0, 0, 0
    while (steps is None or taken < steps) and (episodes is None or len(found.scores) < episodes):
        if not found.scores and length in remember:
            found.remembered[length] = np.array(history.observation())
        action = _act(agent, parameters, history, rng, epsilon, environment.num_actions)
        after = environment.step(action)
        score, length, taken = score + after.score, length + 1, taken + 1
        if after.ended:
            found.scores.append(score)
            found.lengths.append(length)
            score, length = 0.0, 0
            history.begin(environment.reset())
        else:
            history.append(after.frame)
    if not found.scores:
        found.scores.append(score)
        found.lengths.append(length)
    return found


def _act(agent: Agent, parameters: Parameters, history: History, rng: Any, epsilon: float, num_actions: int) -> int:
    if rng.random() < epsilon:
        return int(rng.integers(num_actions))
    return int(np.asarray(agent.greedy(parameters, history.observation()[None]))[0])
