"""Acting: one loop for training, evaluation, calibration and films."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from edrl.deep.environments import Environment, Step, Steps
from edrl.deep.frames import RecentFrames, together

Policy = Callable[[Shaped[np.ndarray, "lane ..."]], Int[np.ndarray, " lane"]]
"""From observations to greedy actions."""
_ENDLESS = sys.maxsize  # more steps or episodes than anyone plays
_ALL = slice(None)


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


class Turn(NamedTuple):
    """One step of each lane that is played."""

    lanes: Int[np.ndarray, " lane"]
    before: Int[np.ndarray, " lane"]  # steps of the episodes before it
    observations: Shaped[np.ndarray, "lane ..."]
    frames: Shaped[np.ndarray, "lane ..."]  # the newest of the observations
    starts: Bool[np.ndarray, " lane"]  # whether they are the first of an episode
    actions: Int[np.ndarray, " lane"]
    after: Steps
    scores: Float[np.ndarray, " lane"]  # of the episodes, this step included

    def moments(self) -> Iterator[Moment]:
        """Lane by lane."""
        after = self.after
        for row, lane in enumerate(self.lanes.tolist()):
            step = Step(
                after.frame[row],
                float(after.reward[row]),
                float(after.score[row]),
                bool(after.terminal[row]),
                bool(after.ended[row]),
            )
            yield Moment(
                lane,
                int(self.before[row]),
                self.observations[row],
                self.frames[row],
                bool(self.starts[row]),
                int(self.actions[row]),
                step,
                float(self.scores[row]),
            )


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
        self.recent.append(slice(lane, lane + 1), together([frame], self.recent), starts=True)

    def act(
        self,
        policy: Policy,
        epsilon: float,
        rng: np.random.Generator,
        lanes: Int[np.ndarray, " lane"] | slice = _ALL,
    ) -> Turn:
        """One step of every environment, or of some, with a share `epsilon` of random actions.

        Nothing here has changed if an environment fails.
        """
        seen = self.recent.observations()
        actions = self._epsilon_greedy(policy, seen, epsilon, rng)
        numbers = np.arange(len(self.environments))[lanes]
        played = [self.environments[lane] for lane in numbers]
        pairs = zip(played, actions[lanes].tolist(), strict=True)
        after = _joined([environment.step(action) for environment, action in pairs], self.recent)
        turn = Turn(
            numbers,
            self.lengths[lanes].copy(),
            seen[lanes],
            self.recent.newest(seen)[lanes],
            self.recent.starts[lanes, -1].copy(),
            actions[lanes],
            after,
            self.scores[lanes] + after.score,
        )
        firsts = [played[row].reset() for row in np.flatnonzero(after.ended)]
        self._go_on(lanes, turn, firsts)
        return turn

    def _go_on(
        self,
        lanes: Int[np.ndarray, " lane"] | slice,
        turn: Turn,
        firsts: list[Shaped[np.ndarray, "..."]],
    ) -> None:
        """To the frames that the steps led to, or to the first ones of new episodes."""
        ended, frames = turn.after.ended, turn.after.frame
        if firsts:
            frames = frames.copy()
            frames[ended] = together(firsts, self.recent)
        self.scores[lanes] = np.where(ended, 0.0, turn.scores)
        self.lengths[lanes] = np.where(ended, 0, turn.before + 1)
        self.recent.append(lanes, frames, ended)

    def _epsilon_greedy(
        self,
        policy: Policy,
        seen: Shaped[np.ndarray, "lane ..."],
        epsilon: float,
        rng: np.random.Generator,
    ) -> Int[np.ndarray, " lane"]:
        lanes = len(self.environments)
        exploring = rng.random(lanes) < epsilon
        explored = rng.integers(self.environments[0].num_actions, size=lanes)
        greedy = explored if exploring.all() else policy(seen)
        return np.where(exploring, explored, greedy)


def _joined(steps: list[Step], recent: RecentFrames) -> Steps:
    """Steps of several environments as columns."""
    frames, *numbers = zip(*steps, strict=True)
    rewards, scores, terminals, ended = map(np.array, numbers)
    return Steps(
        together(frames, recent), rewards, scores, terminals.astype(bool), ended.astype(bool)
    )


@dataclass
class Played:
    """Scores and lengths of episodes."""

    scores: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)

    def add(self, turn: Turn, chosen: Bool[np.ndarray, " lane"]) -> None:
        """Note the episodes of the chosen lanes, which end with a turn."""
        self.scores += turn.scores[chosen].tolist()
        self.lengths += (turn.before[chosen] + 1).tolist()

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
    taken, turn = 0, None
    while taken < steps and len(played.scores) < episodes:
        turn = actors.act(policy, epsilon, rng)
        taken += 1
        for moment in turn.moments():
            watch(moment)
        played.add(turn, turn.after.ended)
    if turn is not None and not played.scores:
        played.add(turn, ~turn.after.ended)
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
    lanes = np.arange(len(environments))
    for step in range(most_steps):
        turn = actors.act(policy, epsilon, rng, lanes)
        for moment in turn.moments():
            watch(moment)
        over = turn.after.ended | (step == most_steps - 1)
        played.add(turn, over)
        lanes = lanes[~over]
        if not len(lanes):
            break
    return played
