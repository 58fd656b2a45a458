"""Whether the return distributions that an agent has learnt are those of the returns that it gets."""

from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from edrl.deep.agent import Agent
from edrl.deep.networks import Parameters
from edrl.deep.play import Moment

UNKNOWN = 0.01  # a return counts if what came after the last reward seen would weigh no more than this
MOST = 1000  # laws that are looked at
BATCH = 125  # at once


@dataclass(frozen=True)
class Calibration:
    """Learnt laws Z beside the returns G that followed, averaged over moments of play.

    If every law were right, `got` would equal `expected`, `scatter` would equal `spread` and `within` 0.9 (more where
    laws have atoms), up to chance; moments of one episode are not independent of each other. Expectations that are off
    by as much everywhere leave the scatter as it is.
    """

    returns: int  # how many
    expected: float  # the mean of E[Z]
    got: float  # the mean of G
    spread: float  # the root of the mean of Var[Z]
    scatter: float  # the standard deviation of G - E[Z]
    within: float  # the share of G between the quantiles of Z at 0.05 and 0.95

    def __str__(self) -> str:
        return (
            f"Discounted returns at {self.returns} moments: {self.expected:.3g} expected, {self.got:.3g} got on"
            f" average; standard deviation {self.spread:.3g} learnt, {self.scatter:.3g} got around what was expected;"
            f" {self.within:.0%} within the learnt 90 % intervals."
        )


class Returns:
    """Watches an agent play, and keeps what it saw and did at some steps, with the discounted return that followed."""

    def __init__(self, gamma: float, every: int = 10):
        self._gamma, self._every = gamma, every
        self._steps = 0
        self._rewards: list[float] = []  # since the last terminal
        self._open: list[tuple[int, np.ndarray, int]] = []  # place in the rewards, observation, action: return unknown
        self.kept: list[tuple[np.ndarray, int, float]] = []  # observation, action, return

    def watch(self, moment: Moment) -> None:
        if self._steps % self._every == 0:
            self._open.append((len(self._rewards), moment.observation, moment.action))
        self._steps += 1
        self._rewards.append(moment.after.reward)
        if moment.after.terminal or moment.after.ended:
            self.settle(moment.after.terminal)

    def settle(self, terminal: bool = False) -> None:
        """Work out returns: all if a terminal was reached, else those to which what would come hardly matters."""
        total = lfilter([1.0], [1.0, -self._gamma], self._rewards[::-1])[::-1] if self._rewards else np.zeros(0)
        for place, observation, action in self._open:
            if terminal or self._gamma ** (len(total) - place) <= UNKNOWN:
                self.kept.append((observation, action, float(total[place])))
        self._rewards, self._open = [], []
        while len(self.kept) > 2 * MOST:  # what an agent sees may be large
            self.kept, self._every = self.kept[::2], 2 * self._every

    def against(self, agent: Agent, parameters: Parameters) -> Calibration | None:
        """The learnt laws beside these returns; nothing if there are no returns."""
        self.settle()
        if not self.kept:
            return None
        chosen = np.unique(np.linspace(0, len(self.kept) - 1, MOST).round().astype(int))
        columns = zip(*(self.kept[place] for place in chosen), strict=True)
        observations, actions, returns = (np.array(column) for column in columns)
        laws = []
        for first in range(0, len(chosen), BATCH):
            batch = np.arange(first, first + BATCH) % len(chosen)  # of one length, so that one program is compiled
            some = agent.returns_of(parameters, observations[batch], actions[batch])
            laws.append(np.column_stack([some.mean(), some.variance(), some.quantile([0.05, 0.95])]))
        mean, variance, low, high = np.concatenate(laws)[: len(chosen)].astype(np.float64).T
        return Calibration(
            returns=len(chosen),
            expected=float(mean.mean()),
            got=float(returns.mean()),
            spread=float(np.sqrt(variance.mean())),
            scatter=float(np.std(returns - mean)),
            within=float(np.mean((low <= returns) & (returns <= high))),
        )
