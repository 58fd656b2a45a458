"""Playing without learning: scores, and the observations that an agent looks at."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from edrl.deep.agent import Agent
from edrl.deep.environments import Environment, Step
from edrl.deep.networks import Parameters


@dataclass
class History:
    """The last frames of episodes that are played side by side, from which observations are made."""

    frames: np.ndarray  # [lane, stack, ...], oldest first
    fresh: np.ndarray  # [lane]: whether the newest frame is its episode's first

    def newest(self, lane: int = 0) -> np.ndarray:
        return self.frames[lane, -1]

    def begin(self, frame: np.ndarray, lane: int = 0) -> None:
        """A new episode: frames before its first are zero."""
        self.frames[lane] = 0
        self.frames[lane, -1] = frame
        self.fresh[lane] = True

    def append(self, frame: np.ndarray, lane: int = 0) -> None:
        """The next frame of the same episode."""
        self.frames[lane, :-1] = self.frames[lane, 1:]
        self.frames[lane, -1] = frame
        self.fresh[lane] = False

    def observations(self) -> np.ndarray:
        """As replay memory gives them: [lane, ..., stack], or plain frames if the stack is 1."""
        # A copy: what JAX computes from it later must not see frames that come later.
        return np.array(self.frames[:, 0] if self.frames.shape[1] == 1 else np.moveaxis(self.frames, 1, -1))


def history_for(environment: Environment, lanes: int = 1) -> History:
    """An empty history for an environment's frames."""
    shape = (lanes, environment.stack, *environment.frame_shape)
    return History(np.zeros(shape, environment.frame_dtype), np.ones(lanes, bool))


class Moment(NamedTuple):
    """One step that was played."""

    before: int  # steps of the episode before it
    observation: np.ndarray
    action: int
    after: Step


@dataclass
class Evaluation:
    """Scores and lengths of episodes."""

    scores: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)


def evaluate(
    agent: Agent,
    parameters: Parameters,
    environment: Environment,
    seed: int,
    epsilon: float,
    *,
    steps: int | None = None,
    episodes: int | None = None,
    watch: Callable[[Moment], None] = lambda moment: None,
    found: Evaluation | None = None,
) -> Evaluation:
    """Play epsilon-greedily for a number of steps, or of episodes.

    An episode that the steps cut short counts only if there is no other. `watch` sees every step; it may raise, to
    break it off. What is played is added to `found`, which outlives that.
    """
    rng = np.random.default_rng(seed)
    found = Evaluation() if found is None else found
    history = history_for(environment)
    history.begin(environment.reset())
    score, length, taken = 0.0, 0, 0
    while (steps is None or taken < steps) and (episodes is None or len(found.scores) < episodes):
        seen = history.observations()
        if rng.random() < epsilon:
            action = int(rng.integers(environment.num_actions))
        else:
            action = int(np.asarray(agent.greedy(parameters, seen))[0])
        after = environment.step(action)
        watch(Moment(length, seen[0], action, after))
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
