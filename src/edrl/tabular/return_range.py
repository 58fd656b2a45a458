"""The least and the greatest return that a policy can get."""

from typing import NamedTuple, TypeAlias

import numpy as np

from edrl.core.check import fail
from edrl.core.precision import in_float64
from edrl.core.types import Float
from edrl.tabular.episodes import check_episodes_end
from edrl.tabular.mdp import MDP
from edrl.tabular.policy import Policy, PolicyLike, as_policy

_SWEEPS = 2_000  # after which ranges are widened by what is left

StateRange: TypeAlias = tuple[Float[np.ndarray, " S"], Float[np.ndarray, " S"]]
PairRange: TypeAlias = tuple[Float[np.ndarray, "S A"], Float[np.ndarray, "S A"]]


@in_float64
def return_range(mdp: MDP, policy: PolicyLike) -> PairRange:
    """The least and the greatest return possible at every pair, a little wider if gamma < 1."""
    chosen = as_policy(mdp, policy)
    check_episodes_end(mdp, chosen)
    backup = _Backup.of(mdp, chosen)
    return _undiscounted(backup) if mdp.gamma == 1 else _discounted(backup)


class _Backup(NamedTuple):
    """The Bellman operator on ranges: the extremes of rewards, and what follows them."""

    mdp: MDP
    policy: Policy
    worst: Float[np.ndarray, "S A B"]
    best: Float[np.ndarray, "S A B"]

    @classmethod
    def of(cls, mdp: MDP, policy: Policy) -> "_Backup":
        possible, rewards = np.asarray(mdp.rewards.probs) > 0, np.asarray(mdp.rewards.atoms)
        worst = np.where(possible, rewards, np.inf).min(axis=-1)
        return cls(mdp, policy, worst, np.where(possible, rewards, -np.inf).max(axis=-1))

    def of_pairs(self, states: StateRange) -> PairRange:
        """From the ranges of states to those of pairs."""
        (low, high), mdp = states, self.mdp
        real = mdp.probs > 0
        lowest = np.where(real, self.worst + mdp.gamma * low[mdp.successors], np.inf)
        highest = np.where(real, self.best + mdp.gamma * high[mdp.successors], -np.inf)
        return lowest.min(axis=-1), highest.max(axis=-1)

    def of_states(self, states: StateRange) -> StateRange:
        """One sweep over the ranges of states."""
        return state_range(self.policy, self.of_pairs(states))

    def change(self, before: StateRange, after: StateRange) -> tuple[float, bool]:
        """How much a sweep has changed, and whether that is only rounding."""
        change = max(_largest(after[0] - before[0]), _largest(after[1] - before[1]))
        largest = max(map(_largest, (self.worst, self.best, *after)))
        return change, change <= 1e-12 * largest


def _undiscounted(backup: _Backup) -> PairRange:
    """Longest and shortest paths to the end pass no state twice, unless that pays again."""
    nowhere = np.where(backup.mdp.terminal, 0.0, np.inf)
    states = nowhere, -nowhere
    for _ in range(backup.mdp.num_states):
        before, states = states, backup.of_states(states)
        if np.array_equal(before, states):
            break
    if not backup.change(states, backup.of_states(states))[1]:
        right = (
            "returns are unbounded, as an episode can pass a state again and be paid for it: use"
            " gamma < 1, or sample returns with edrl.tabular.rollouts"
        )
        raise fail("gamma", backup.mdp.gamma, right)
    return backup.of_pairs(states)


def _discounted(backup: _Backup) -> PairRange:
    mdp = backup.mdp
    states = np.zeros(mdp.num_states), np.zeros(mdp.num_states)
    change, settled, sweeps = np.inf, False, 0
    while not settled and sweeps < _SWEEPS:
        before, states = states, backup.of_states(states)
        change, settled = backup.change(before, states)
        sweeps += 1
    rest = change * mdp.gamma / (1 - mdp.gamma)  # all that later rewards can still add
    low, high = backup.of_pairs(states)
    alive = ~mdp.terminal[:, None]
    return low - rest * alive, high + rest * alive


def _largest(numbers: Float[np.ndarray, "..."]) -> float:
    return float(np.abs(numbers).max())


def state_range(policy: Policy, ends: PairRange) -> StateRange:
    """From the ranges of pairs to those of states under the policy."""
    actions, probs = policy.on_host()
    taken = probs > 0
    low, high = (np.take_along_axis(end, actions, axis=1) for end in ends)
    return np.where(taken, low, np.inf).min(axis=-1), np.where(taken, high, -np.inf).max(axis=-1)
