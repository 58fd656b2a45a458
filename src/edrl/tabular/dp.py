"""Dynamic programming with imputed backups (Algorithm 1, Appendix A): evaluation and control."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from edrl.core.check import check_count, check_number
from edrl.core.particles import Particles
from edrl.core.plot import COLOURS
from edrl.core.precision import in_float64, is_concrete
from edrl.core.risk import RiskMeasure, action_values, check_risk
from edrl.core.statistics import Statistics, check_family
from edrl.core.types import Array, Bool, Float, Int, ValuesLike
from edrl.core.words import count, form
from edrl.tabular.bellman import DistinctPairs, check_values, sweep
from edrl.tabular.episodes import check_episodes_end
from edrl.tabular.ground_truth import Truth
from edrl.tabular.mdp import MDP, sizes_of
from edrl.tabular.plot import Layer, State, name_of, plot_returns, truth_layers
from edrl.tabular.policy import Policy, PolicyLike, as_policy
from edrl.tabular.progress import track

if TYPE_CHECKING:
    import matplotlib.figure

_SWEEPS_AT_ONCE = 64  # between two steps of the progress bar
_MOST_SWEEPS = 10_000  # unless others are asked for
_ROUNDING = 16  # units in the last place by which a backup may be off
_STALL_SWEEPS, _STALL_HORIZONS = 500, 20  # the least length of a window without progress


@dataclass(frozen=True)
class Solution:
    """Where dynamic programming ended: the statistics of every pair, and how it got there."""

    mdp: MDP
    family: Statistics
    values: Float[np.ndarray, "S A K"]
    policy: Policy  # the one evaluated, or the one found
    converged: bool
    iterations: int
    residuals: Float[np.ndarray, " iterations"]  # the largest change of any statistic in a sweep

    @in_float64
    def distributions(self) -> Particles:
        """The imputed return distributions of all pairs, [S, A, n]."""
        imputed: Particles = self.family.impute(self.values)
        return imputed

    @in_float64
    def means(self) -> Float[np.ndarray, "S A"]:
        """The expected returns that the statistics encode."""
        return np.asarray(self.family.mean(self.values))

    def plot(
        self,
        states: State | Sequence[State] | None = None,
        truth: Truth | Particles | None = None,
    ) -> "matplotlib.figure.Figure":
        """Draw the return distributions of some states, their actions side by side.

        Args:
            states: Numbers or names of states, by default the likeliest start.
            truth: True return distributions to draw under the learnt ones.

        Returns:
            A figure of Matplotlib's pyplot: `.savefig("returns.png")` saves it.
        """
        learnt = Layer("learnt", self.distributions(), COLOURS[0])
        layers = [*truth_layers(truth), learnt]
        title = f"Return distributions by {name_of(self.family)}"
        return plot_returns(self.mdp, layers, states, title, self._note)

    def _note(self, state: int, action: int) -> str:
        """How often the policy takes the action."""
        actions, probs = self.policy.on_host()
        share = float(probs[state][actions[state] == action].sum())
        if share == 1:
            return " (chosen)"
        return f" (taken with probability {share:.2g})" if share > 0 else ""

    def __repr__(self) -> str:
        sizes = sizes_of(self.mdp)
        last = f", the last change {self.residuals[-1]:.2g}" if self.iterations else ""
        ended = "converged in" if self.converged else "not converged after"
        sweeps = count(self.iterations, "sweep")
        return (
            f"Solution({name_of(self.family)}, {sizes}: {ended} {sweeps}{last}; "
            f"expected return from the start {self._from_start():.4g})"
        )

    @in_float64
    def _from_start(self) -> float:
        """The expected return of an episode under the policy."""
        first = np.flatnonzero(self.mdp.start)
        if not np.isfinite(self.values[first]).all():
            return math.nan
        means = np.asarray(self.family.mean(self.values[first]))  # [starts, A]
        actions, probs = self.policy.on_host()
        taken = np.sum(probs[first] * np.take_along_axis(means, actions[first], axis=1), axis=-1)
        return float(self.mdp.start[first] @ taken)


@in_float64
def greedy_policy(
    family: Statistics,
    values: ValuesLike,
    risk: RiskMeasure | None = None,
    epsilon: float | jax.Array = 0.0,
) -> Policy:
    """Take the action of highest expected return (or `risk`).

    With probability `epsilon` the action is random. Actions are compared by one number each, and
    all statistics of the best one are followed: a maximum over actions statistic by statistic would
    be the distribution of no action.
    """
    ranked = action_values(family, values, risk)
    best = jnp.argmax(ranked, axis=-1, keepdims=True).astype(jnp.int32)
    if is_concrete(epsilon) and epsilon == 0:
        return Policy(best, jnp.ones(best.shape))
    actions = jnp.broadcast_to(jnp.arange(ranked.shape[-1], dtype=jnp.int32), ranked.shape)
    return Policy(actions, (1 - epsilon) * (actions == best) + epsilon / ranked.shape[-1])


@in_float64
def evaluate(
    mdp: MDP,
    policy: PolicyLike,
    family: Statistics,
    *,
    tolerance: float = 1e-9,
    max_iterations: int | None = None,
    initial: npt.ArrayLike | None = None,
    progress: bool | None = None,
) -> Solution:
    """Iterate imputed backups (Algorithm 1) until no statistic changes by more than `tolerance`.

    Not every family and imputation has a fixed point. `converged` tells whether one was found. If
    not, there is a warning after 10,000 sweeps, or as soon as the changes no longer shrink.

    Args:
        mdp: The MDP. Without discounting, the policy must reach a terminal state from everywhere.
        policy: Whatever `as_policy` takes.
        family: The statistics, with their imputation.
        tolerance: Where all statistics are below 1, this is relative to the largest. What changes
            by rounding alone has settled in any case.
        max_iterations: So many sweeps at most, whether or not the changes shrink, and no warning.
        initial: Values [S, A, K] to start from, by default those of a zero return.
        progress: Whether to show a progress bar; by default in a terminal, after two seconds.
    """
    check_family(family)
    chosen = as_policy(mdp, policy)
    check_episodes_end(mdp, chosen)
    return _iterate(mdp, family, chosen, None, 0.0, tolerance, max_iterations, initial, progress)


@in_float64
def control(
    mdp: MDP,
    family: Statistics,
    *,
    risk: RiskMeasure | None = None,
    epsilon: float = 0.0,
    tolerance: float = 1e-9,
    max_iterations: int | None = None,
    initial: npt.ArrayLike | None = None,
    progress: bool | None = None,
) -> Solution:
    """Iterate imputed backups for the policy that is greedy on the current means.

    With `epsilon` the policy is SARSA's: epsilon-greedy, evaluated as such. `risk` maps `Particles`
    to numbers that take the place of the means: see `edrl.core.risk`. Greedy policies can alternate
    for ever. Without discounting, one that was found but never ends is refused. The other
    arguments, and `converged`, are explained at `evaluate`.
    """
    check_number("epsilon", epsilon, 0.0, 1.0)
    check_family(family)
    check_risk(risk)
    found = _iterate(mdp, family, None, risk, epsilon, tolerance, max_iterations, initial, progress)
    if found.converged:
        check_episodes_end(mdp, found.policy, whose="the greedy policy that was found")
    return found


def _iterate(
    mdp: MDP,
    family: Statistics,
    policy: Policy | None,
    risk: RiskMeasure | None,
    epsilon: float,
    tolerance: float,
    max_iterations: int | None,
    initial: npt.ArrayLike | None,
    progress: bool | None,
) -> Solution:
    check_number("tolerance", tolerance, 0.0)
    most = _most_sweeps(max_iterations)
    block = _Sweeps.start(initial_values(mdp, family, initial))
    pairs = DistinctPairs.of(mdp)
    residuals = np.zeros(0)
    stalled = False
    with track("dynamic programming", most, progress) as advance:
        while len(residuals) < most and not (block.is_over() or stalled):
            at_most = min(_SWEEPS_AT_ONCE, most - len(residuals))
            # None and not 0 for a greedy policy: it has one action a state, an epsilon-greedy one
            # has all.
            block = _sweeps(
                mdp, family, policy, risk, epsilon or None, block, pairs, tolerance, at_most
            )
            done = int(block.done)
            residuals = np.concatenate([residuals, np.asarray(block.changes)[:done]])
            stalled = max_iterations is None and has_stalled(residuals, mdp.gamma)
            advance(done, f"change {residuals[-1]:.1e}")
    settled = bool(block.settled)
    if not settled and max_iterations is None:
        _warn(residuals, stalled)
    found = policy or greedy_policy(family, jnp.asarray(block.values), risk, epsilon)
    values = np.asarray(block.values)
    chosen = Policy(*found.on_host())
    return Solution(mdp, family, values, chosen, settled, len(residuals), residuals)


def _most_sweeps(asked_for: int | None) -> int:
    return _MOST_SWEEPS if asked_for is None else check_count("max_iterations", asked_for, 1)


def _warn(residuals: Float[np.ndarray, " iterations"], stalled: bool) -> None:
    """Say that the statistics have not settled."""
    text = f"{count(len(residuals), 'sweep')} {form(len(residuals), 'has', 'have')} not settled the statistics"
    last = f"the last one changed them by {residuals[-1]:.2g}"
    hope = ", and the changes no longer shrink" if stalled else ""
    warnings.warn(f"{text}: {last}{hope} (`converged` is false)", stacklevel=5)


def has_stalled(residuals: Float[np.ndarray, " iterations"], gamma: float) -> bool:
    """Whether the changes of the sweeps no longer shrink.

    Two windows of sweeps are compared, the last one and the one before it. The iteration has
    stalled if the last one has halved neither the largest nor the smallest change. The rule spares
    whatever would still settle:

    - A window is at least 500 sweeps long. An iteration that halves its changes less often needs
      more than 10,000 sweeps for six digits, and would not settle in time.
    - A window is at least 20 horizons 1 / (1 - gamma) long. Within one of them a contraction by
      gamma shrinks changes by e, and what moments or a range of states delay comes to its end.
    - A change of the greedy policy brings large changes back, but not the smallest one; it takes a
      cycle to keep both.

    Without discounting (gamma = 1) there is no horizon to compare with, and no iteration counts as
    stalled.
    """
    if gamma >= 1:
        return False
    window = max(_STALL_SWEEPS, math.ceil(_STALL_HORIZONS / (1 - gamma)))
    if len(residuals) < 2 * window:
        return False
    before, after = residuals[-2 * window : -window], residuals[-window:]
    shrinks = after.max() <= before.max() / 2 or after.min() <= before.min() / 2
    return not shrinks


class _Sweeps(NamedTuple):
    """Where some sweeps have led."""

    values: Float[Array, "S A K"]
    largest: Float[Array, " K"]  # that each statistic has been
    settled: Bool[Array, ""]
    changes: Float[Array, " sweeps"]  # the largest of each sweep
    done: Int[Array, ""]  # how many sweeps

    @classmethod
    def start(cls, values: Float[jax.Array, "S A K"]) -> "_Sweeps":
        """Before the first sweep."""
        largest = jnp.max(jnp.abs(values), axis=(0, 1))
        no_changes = jnp.zeros(_SWEEPS_AT_ONCE)
        return cls(values, largest, jnp.asarray(False), no_changes, jnp.asarray(0))

    def is_over(self) -> Bool[Array, ""]:
        """Whether nothing changes any more, or everything is lost: nothing comes after NaN."""
        return self.settled | ((self.done > 0) & jnp.isnan(self.changes[self.done - 1]))


@jax.jit(static_argnames="risk")
def _sweeps(
    mdp: MDP,
    family: Statistics,
    policy: Policy | None,
    risk: RiskMeasure | None,
    epsilon: Float[jax.Array, ""] | None,
    before: _Sweeps,
    pairs: DistinctPairs,
    tolerance: Float[jax.Array, ""],
    at_most: Int[jax.Array, ""],
) -> _Sweeps:
    """Up to `at_most` sweeps, fewer once nothing changes."""

    def body(state: _Sweeps) -> _Sweeps:
        values = jnp.asarray(state.values)
        current = policy
        if current is None:
            current = greedy_policy(family, values, risk, 0.0 if epsilon is None else epsilon)
        updated = sweep(mdp, current, family, values, pairs)
        change = jnp.max(jnp.abs(updated - values), axis=(0, 1))
        largest = jnp.maximum(state.largest, jnp.max(jnp.abs(updated), axis=(0, 1)))
        # Statistics may have other units (moments), and one may be 0 but for the rounding of others
        # (a mean).
        rounding = _ROUNDING * jnp.finfo(values.dtype).eps * largest
        enough = jnp.maximum(tolerance * jnp.minimum(1.0, jnp.max(largest)), rounding)
        changes = jnp.asarray(state.changes).at[state.done].set(jnp.max(change))
        return _Sweeps(updated, largest, jnp.all(change <= enough), changes, state.done + 1)

    start = before._replace(done=jnp.asarray(0))
    return jax.lax.while_loop(lambda at: (at.done < at_most) & ~at.is_over(), body, start)


def initial_values(
    mdp: MDP, family: Statistics, initial: npt.ArrayLike | None
) -> Float[jax.Array, "S A K"]:
    """Values to start from: the given ones, or those of a return that is always zero."""
    shape = (mdp.num_states, mdp.num_actions, family.size)
    if initial is None:
        nothing = family.evaluate(Particles(jnp.zeros((1,)), jnp.ones((1,))))
        return jnp.broadcast_to(nothing, shape)
    return check_values("initial", mdp, family, initial)
