"""Whether learnt return distributions are those of the returns that the agent gets."""

import dataclasses
import math
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Shaped

from edrl.core.words import count
from edrl.deep.agents import Agent
from edrl.deep.learner import returns_of_actions, seed_of
from edrl.deep.play import Moment
from edrl.deep.types import Parameters

UNKNOWN = 0.01  # a return counts if what came after the last reward seen would weigh no more
FAR_APART = 0.25  # of what was got, or of its scatter: what is expected must not be farther off
MOST = 1000  # distributions that are looked at
BATCH = 125  # at once


@dataclass(frozen=True)
class Calibration:
    """Learnt distributions Z beside the returns G that followed, averaged over moments of play.

    If every distribution were right, `got` would equal `expected`, `scatter` would equal `spread`
    and `within` 0.9 (more where distributions have atoms), up to chance. Moments of one episode are
    not independent of each other.
    """

    returns: int  # how many
    expected: float  # the mean of E[Z]
    got: float  # the mean of G
    spread: float  # the root of the mean of Var[Z]
    scatter: float  # the standard deviation of G - E[Z]
    within: float  # the share of G between the quantiles of Z at 0.05 and 0.95
    highest: float = math.inf  # return that rewards like those seen allow
    lowest: float = -math.inf

    def row(self, step: int) -> dict[str, float]:
        """What calibration.csv tells of it."""
        row: dict[str, float] = {"step": step}
        for name in CALIBRATION[1:]:
            row[name] = getattr(self, name)
        return row

    @property
    def warning(self) -> str | None:
        """What is wrong if expected returns are impossible or far from those got."""
        if not self.lowest <= self.expected <= self.highest:
            return (
                f"The agent expects a return of {self.expected:.3g} on average, which is impossible:"
                f" with the rewards it got, returns lie between {self.lowest:.3g} and"
                f" {self.highest:.3g}."
            )
        if abs(self.expected - self.got) > FAR_APART * max(abs(self.got), self.scatter):
            return (
                f"The agent expects a return of {self.expected:.3g} on average and got"
                f" {self.got:.3g}: do not trust its return distributions yet."
            )
        return None

    def __str__(self) -> str:
        return (
            f"Discounted returns at {count(self.returns, 'moment')}: {self.expected:.3g} expected,"
            f" {self.got:.3g} got on average; standard deviation {self.spread:.3g} learnt,"
            f" {self.scatter:.3g} got around what was expected; {self.within:.0%} within the learnt"
            " 90 % intervals."
        )


CALIBRATION = ("step", *(field.name for field in dataclasses.fields(Calibration)))
"""The columns of calibration.csv."""
BOUNDS = ("highest", "lowest")
"""Those of its columns that files of earlier versions lack."""


@dataclass
class _Unsettled:
    """What was seen of a lane since its last terminal."""

    rewards: list[float] = field(default_factory=list)
    # The place in the rewards, observation and action of moments whose return is unknown.
    moments: list[tuple[int, Shaped[np.ndarray, "..."], int]] = field(default_factory=list)


class Returns:
    """Watches an agent play; keeps moments and the discounted returns that followed."""

    def __init__(self, gamma: float, every: int = 10):
        self._gamma, self._every = gamma, every
        self._steps = 0
        self._lanes: dict[int, _Unsettled] = {}
        self._rewards_seen = (0.0, 0.0)  # the least and the greatest; 0 comes after an end
        self.kept: list[tuple[Shaped[np.ndarray, ...], int, float]] = []

    def watch(self, moment: Moment) -> None:
        """Take note of a step."""
        lane = self._lanes.setdefault(moment.lane, _Unsettled())
        if (self._steps + moment.lane) % self._every == 0:
            lane.moments.append((len(lane.rewards), moment.observation, moment.action))
        self._steps += 1
        reward = moment.after.reward
        lane.rewards.append(reward)
        least, greatest = self._rewards_seen
        self._rewards_seen = min(least, reward), max(greatest, reward)
        if moment.after.terminal or moment.after.ended:
            self._settle_lane(moment.lane, moment.after.terminal)

    def settle(self) -> None:
        """Work out the returns of episodes that have not ended, where they would hardly change."""
        for number in list(self._lanes):
            self._settle_lane(number, terminal=False)

    def _settle_lane(self, number: int, terminal: bool) -> None:
        """Work out a lane's returns: all after a terminal, else those that hardly change later."""
        lane = self._lanes.pop(number)
        total = self._discounted_sums(lane.rewards)
        for place, observation, action in lane.moments:
            if terminal or self._gamma ** (len(total) - place) <= UNKNOWN:
                self.kept.append((observation, action, float(total[place])))
        while len(self.kept) > 2 * MOST:  # what an agent sees may be large
            self.kept, self._every = self.kept[::2], 2 * self._every

    def _discounted_sums(self, rewards: list[float]) -> Float[np.ndarray, " step"]:
        from scipy.signal import lfilter  # slow to import, and a command's --help does without

        return np.asarray(lfilter([1.0], [1.0, -self._gamma], rewards[::-1]))[::-1]

    def _forever(self, reward: float) -> float:
        """The return if a reward came with every step from now on."""
        if self._gamma == 1:
            return math.copysign(math.inf, reward) if reward else 0.0
        return reward / (1 - self._gamma)

    def against(self, agent: Agent, parameters: Parameters) -> Calibration | None:
        """The learnt distributions beside these returns; nothing if there are no returns."""
        self.settle()
        if not self.kept:
            return None
        chosen = np.unique(np.linspace(0, len(self.kept) - 1, MOST).round().astype(int))
        columns = zip(*(self.kept[place] for place in chosen), strict=True)
        observations, actions, returns = (np.array(column) for column in columns)
        learnt = []
        for first in range(0, len(chosen), BATCH):
            # All of one length, so that one program is compiled.
            batch = np.arange(first, first + BATCH) % len(chosen)
            some = returns_of_actions(
                agent, parameters, observations[batch], actions[batch], seed_of(0, first)
            )
            quantiles = some.quantile(np.array([0.05, 0.95], np.float32))
            learnt.append(np.column_stack([some.mean(), some.variance(), quantiles]))
        mean, variance, low, high = np.concatenate(learnt)[: len(chosen)].astype(np.float64).T
        return Calibration(
            returns=len(chosen),
            expected=float(mean.mean()),
            got=float(returns.mean()),
            spread=float(np.sqrt(variance.mean())),
            scatter=float(np.std(returns - mean)),
            within=float(np.mean((low <= returns) & (returns <= high))),
            lowest=self._forever(self._rewards_seen[0]),
            highest=self._forever(self._rewards_seen[1]),
        )
