"""Whether learnt return distributions are those of the returns that the agent gets."""

import dataclasses
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped

from edrl.deep.agents import Agent
from edrl.deep.learner import returns_of_actions, seed_of
from edrl.deep.play import Moment
from edrl.deep.types import Parameters

UNKNOWN = 0.01  # a return counts if what came after the last reward seen would weigh no more
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

    def __str__(self) -> str:
        return (
            f"Discounted returns at {self.returns} moments: {self.expected:.3g} expected,"
            f" {self.got:.3g} got on average; standard deviation {self.spread:.3g} learnt,"
            f" {self.scatter:.3g} got around what was expected; {self.within:.0%} within the learnt"
            " 90 % intervals."
        )


CALIBRATION = ("step", *(field.name for field in dataclasses.fields(Calibration)))
"""The columns of calibration.csv."""


class Returns:
    """Watches an agent play; keeps moments and the discounted returns that followed."""

    def __init__(self, gamma: float, every: int = 10):
        self._gamma, self._every = gamma, every
        self._steps = 0
        self._rewards: list[float] = []  # since the last terminal
        # The place in the rewards, observation and action of moments whose return is unknown.
        self._open: list[tuple[int, Shaped[np.ndarray, ...], int]] = []
        self.kept: list[tuple[Shaped[np.ndarray, ...], int, float]] = []

    def watch(self, moment: Moment) -> None:
        """Take note of a step."""
        if self._steps % self._every == 0:
            self._open.append((len(self._rewards), moment.observation, moment.action))
        self._steps += 1
        self._rewards.append(moment.after.reward)
        if moment.after.terminal or moment.after.ended:
            self.settle(moment.after.terminal)

    def settle(self, terminal: bool = False) -> None:
        """Work out returns: all if a terminal was reached, else those that hardly change later."""
        total = self._discounted_sums()
        for place, observation, action in self._open:
            if terminal or self._gamma ** (len(total) - place) <= UNKNOWN:
                self.kept.append((observation, action, float(total[place])))
        self._rewards, self._open = [], []
        while len(self.kept) > 2 * MOST:  # what an agent sees may be large
            self.kept, self._every = self.kept[::2], 2 * self._every

    def _discounted_sums(self) -> Float[np.ndarray, " step"]:
        from scipy.signal import lfilter  # slow to import, and a command's --help does without

        if not self._rewards:
            return np.zeros(0)
        return np.asarray(lfilter([1.0], [1.0, -self._gamma], self._rewards[::-1]))[::-1]

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
        )
