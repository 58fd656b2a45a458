"""Acting: one loop for training, evaluation, calibration and films."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, Shaped

from edrl.deep.environments import Environment, Step
from edrl.deep.frames import RecentFrames

Policy = Callable[[Shaped[np.ndarray, "lane ..."]], Int[np.ndarray, " lane"]]
"""From observations to greedy actions."""
_ENDLESS = sys.maxsize  # more steps or episodes than anyone plays


class Moment(NamedTuple):
    """One step of one environment."""

    lane: int
    before: int  # steps of the episode before it
    observation: Shaped[np.ndarray, "..."]
    frame: Shaped[np.ndarray, "..."]  # the newest of the observation
    start: bool  # whether that is its episode's first
    action: int
    after: Step
    score: float  # of the episode, this step included


@jax.tree_util.register_dataclass
@dataclass
class Actors:
    """Environments that are played side by side, one lane each, and what is seen of them."""

    environments: list[Environment]
    recent: RecentFrames
    scores: Float[np.ndarray, " lane"]  # of the episodes that are played
    lengths: Int[np.ndarray, " lane"]

    @classmethod
    def of(cls, environments: list[Environment]) -> "Actors":
        """Environments that have not been begun."""
        lanes = len(environments)
        recent = RecentFrames.of(environments[0], lanes)
        return cls(environments, recent, np.zeros(lanes), np.zeros(lanes, np.int64))

    def begin(self) -> None:
        """The first episode of every environment."""
        for lane, environment in enumerate(self.environments):
            self.begin_episode(lane, environment.reset())

    def begin_episode(self, lane: int, frame: Shaped[np.ndarray, "..."]) -> None:
        """A new episode of a lane, from its first frame."""
        self.scores[lane], self.lengths[lane] = 0.0, 0
        self.recent.append(lane, frame, start=True)

    def act(
        self,
        policy: Policy,
        epsilon: float,
        rng: np.random.Generator,
        lanes: Sequence[int] | None = None,
    ) -> list[Moment]:
        """One step of every environment, or of some, with a share `epsilon` of random actions.

        Nothing here has changed if an environment fails.
        """
        lanes = range(len(self.environments)) if lanes is None else lanes
        seen = self.recent.observations()
        actions = self._epsilon_greedy(policy, seen, epsilon, rng)
        steps = [self.environments[lane].step(actions[lane]) for lane in lanes]
        firsts = []
        for lane, after in zip(lanes, steps, strict=True):
            firsts.append(self.environments[lane].reset() if after.ended else None)
        moments = []
        for lane, after, first in zip(lanes, steps, firsts, strict=True):
            moments.append(self._moment(lane, seen[lane], actions[lane], after))
            self._go_on(lane, after, first)
        return moments

    def _epsilon_greedy(
        self,
        policy: Policy,
        seen: Shaped[np.ndarray, "lane ..."],
        epsilon: float,
        rng: np.random.Generator,
    ) -> list[int]:
        lanes = len(self.environments)
        exploring = rng.random(lanes) < epsilon
        explored = rng.integers(self.environments[0].num_actions, size=lanes)
        greedy = explored if exploring.all() else policy(seen)
        chosen: list[int] = np.where(exploring, explored, greedy).tolist()
        return chosen

    def _moment(
        self, lane: int, observation: Shaped[np.ndarray, "..."], action: int, after: Step
    ) -> Moment:
        frame, start = self.recent.frames[lane, -1].copy(), bool(self.recent.starts[lane, -1])
        before, score = int(self.lengths[lane]), float(self.scores[lane]) + after.score
        return Moment(lane, before, observation, frame, start, action, after, score)

    def _go_on(self, lane: int, after: Step, first: Shaped[np.ndarray, "..."] | None) -> None:
        if first is not None:
            return self.begin_episode(lane, first)
        self.scores[lane] += after.score
        self.lengths[lane] += 1
        self.recent.append(lane, after.frame, start=False)


@dataclass
class Played:
    """Scores and lengths of episodes."""

    scores: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)

    def add(self, moment: Moment) -> None:
        """Note the episode that ended with a moment."""
        self.scores.append(moment.score)
        self.lengths.append(moment.before + 1)

    def interval(self) -> tuple[float, float] | None:
        """The 95 % bootstrap interval of the mean score; None if the scores do not differ."""
        from scipy.stats import bootstrap  # slow to import, and a command's --help does without

        if len(set(self.scores)) < 2:
            return None
        scores, rng = np.asarray(self.scores), np.random.default_rng(0)
        found = bootstrap((scores,), np.mean, rng=rng).confidence_interval
        return float(found.low), float(found.high)


def play(
    environment: Environment,
    policy: Policy,
    epsilon: float,
    seed: int,
    *,
    steps: int = _ENDLESS,
    episodes: int = _ENDLESS,
    watch: Callable[[Moment], None] = lambda moment: None,
    played: Played | None = None,
) -> Played:
    """Play epsilon-greedily for a number of steps, or of episodes.

    An episode that the steps cut short counts only if there is no other. `watch` sees every step
    and may raise, to break it off. Episodes are added to `played`, which outlives that.
    """
    rng = np.random.default_rng(seed)
    played = Played() if played is None else played
    actors = Actors.of([environment])
    actors.begin()
    taken, moment = 0, None
    while taken < steps and len(played.scores) < episodes:
        (moment,) = actors.act(policy, epsilon, rng)
        taken += 1
        watch(moment)
        if moment.after.ended:
            played.add(moment)
    if moment is not None and not played.scores:
        played.add(moment)
    return played


def play_side_by_side(
    environments: list[Environment],
    policy: Policy,
    epsilon: float,
    seed: int,
    most_steps: int,
    *,
    watch: Callable[[Moment], None] = lambda moment: None,
) -> Played:
    """Play one episode in each environment, epsilon-greedily, for at most so many steps.

    Every episode counts: steps of all episodes together would favour the short ones.
    """
    rng = np.random.default_rng(seed)
    played, actors = Played(), Actors.of(environments)
    actors.begin()
    lanes: Sequence[int] = range(len(environments))
    for step in range(most_steps):
        going = []
        for moment in actors.act(policy, epsilon, rng, lanes):
            watch(moment)
            if moment.after.ended or step == most_steps - 1:
                played.add(moment)
            else:
                going.append(moment.lane)
        lanes = going
        if not lanes:
            break
    return played
