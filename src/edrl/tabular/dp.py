"""Dynamic programming with imputed backups: policy evaluation and control (Algorithm 1, Appendix A)."""

import warnings
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.check import check_count, check_number
from edrl.core.particles import Particles
from edrl.core.precision import in_float64, is_concrete
from edrl.core.risk import RiskMeasure, action_values, check_risk
from edrl.core.statistics import Statistics, check_family
from edrl.tabular.bellman import check_values, sweep
from edrl.tabular.mdp import MDP
from edrl.tabular.policy import Policy, as_policy
from edrl.tabular.progress import track

_SWEEPS_AT_ONCE = 64  # between two steps of the progress bar
_MOST_SWEEPS = 10_000  # unless others are asked for
_ROUNDING = 16  # units in the last place by which a backup may be off


@dataclass(frozen=True)
class Solution:
    """Where dynamic programming ended: the statistics of every pair, and how it got there."""

    family: Statistics
    values: np.ndarray  # [S, A, K]
    policy: Policy  # the one evaluated, or the one found
    converged: bool
    iterations: int
    residuals: np.ndarray  # [iterations]: the largest change of any statistic in each sweep

    @in_float64
    def distributions(self) -> Particles:
        """The imputed return distributions of all pairs, [S, A, n]."""
        return self.family.impute(self.values)

    @in_float64
    def means(self) -> np.ndarray:
        """The expected returns [S, A] that the statistics encode."""
        return np.asarray(self.family.mean(self.values))


@in_float64
def greedy_policy(
    family: Statistics, values: Any, risk: RiskMeasure | None = None, epsilon: float = 0.0
) -> Policy:
    """Take the action of highest expected return (or `risk`), and with probability `epsilon` a random one.

    Actions are compared by one number each, and all statistics of the best one are followed: a maximum over
    actions statistic by statistic would be the distribution of no action.
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
    policy: Any,
    family: Statistics,
    *,
    tolerance: float = 1e-9,
    max_iterations: int | None = None,
    initial: Any = None,
    progress: bool = False,
) -> Solution:
    """Iterate imputed backups (Algorithm 1) for a policy until no statistic changes by more than `tolerance`.

    Where all statistics are below 1, that is `tolerance` times the largest; what changes by rounding alone has settled.
    `policy` is whatever `as_policy` takes; `initial` are values [S, A, K], by default those of a zero return.
    Not every statistics and imputation has a fixed point: `converged` tells, and a warning if nothing has settled
    after 10,000 sweeps. With `max_iterations` there are so many at most, and no warning.
    """
    check_family(family)
    policy = as_policy(mdp, policy)
    return _iterate(mdp, family, policy, None, 0.0, tolerance, max_iterations, initial, progress)


@in_float64
def control(
    mdp: MDP,
    family: Statistics,
    *,
    risk: RiskMeasure | None = None,
    epsilon: float = 0.0,
    tolerance: float = 1e-9,
    max_iterations: int | None = None,
    initial: Any = None,
    progress: bool = False,
) -> Solution:
    """Iterate imputed backups for the policy that is greedy on the current means, or on a `risk` measure.

    With `epsilon` the policy is SARSA's: epsilon-greedy, evaluated as such. `risk` maps `Particles` to
    ranked: see `edrl.core.risk`. Greedy policies can alternate for ever: see `evaluate` on `converged`.
    """
    check_number("epsilon", epsilon, 0.0, 1.0)
    check_family(family)
    check_risk(risk)
    return _iterate(mdp, family, None, risk, epsilon, tolerance, max_iterations, initial, progress)


def _iterate(
    mdp: MDP,
    family: Statistics,
    policy: Policy | None,
    risk: RiskMeasure | None,
    epsilon: float,
    tolerance: float,
    max_iterations: int | None,
    initial: Any,
    progress: bool,
) -> Solution:
    check_number("tolerance", tolerance, 0.0)
    asked_for = max_iterations is not None
    max_iterations = (
        _MOST_SWEEPS if max_iterations is None else check_count("max_iterations", max_iterations, 1)
    )
    values = initial_values(mdp, family, initial)
    residuals = np.zeros(0)
    largest = jnp.max(jnp.abs(values), axis=(0, 1))
    change, settled = np.inf, False
    with track("dynamic programming", max_iterations, progress) as advance:
        while (
            len(residuals) < max_iterations and not settled and not np.isnan(change)
        ):  # nothing comes after NaN
            at_most = min(_SWEEPS_AT_ONCE, max_iterations - len(residuals))
            # None and not 0 for a greedy policy: it has one action a state, an epsilon-greedy one has all.
            values, largest, settled, block, done = _sweeps(
                mdp, family, policy, risk, epsilon or None, values, largest, tolerance, at_most
            )
            residuals = np.concatenate([residuals, np.asarray(block)[: int(done)]])
            change = residuals[-1]
            advance(int(done), f"change {change:.1e}")
    if not settled and not asked_for:
        text = f"{len(residuals):,} sweeps have not settled the statistics: the last one changed them by {change:.2g}"
        warnings.warn(f"{text} (`converged` is false)", stacklevel=4)
    found = greedy_policy(family, values, risk, epsilon) if policy is None else policy
    found = jax.tree.map(np.asarray, found)
    return Solution(family, np.asarray(values), found, bool(settled), len(residuals), residuals)


@jax.jit(static_argnames="risk")
def _sweeps(
    mdp: MDP,
    family: Statistics,
    policy: Policy | None,
    risk: RiskMeasure | None,
    epsilon: Any | None,
    values: Any,
    largest: Any,
    tolerance: Any,
    at_most: Any,
) -> tuple[Any, Any, Any, Any, Any]:
    """Up to `at_most` sweeps, fewer once nothing changes: the values, the largest that each statistic has been, whether
    they have settled, the change in each sweep, and how many there were."""
    State = tuple[Any, Any, Any, Any, Any]

    def body(state: State) -> State:
        values, largest, _, changes, done = state
        current = policy
        if current is None:
            current = greedy_policy(family, values, risk, 0.0 if epsilon is None else epsilon)
        updated = sweep(mdp, current, family, values)
        change = jnp.max(jnp.abs(updated - values), axis=(0, 1))
        largest = jnp.maximum(largest, jnp.max(jnp.abs(updated), axis=(0, 1)))
        # Statistics may have other units (moments), and one may be 0 but for the rounding of others (a mean).
        rounding = _ROUNDING * jnp.finfo(values.dtype).eps * largest
        enough = jnp.maximum(tolerance * jnp.minimum(1.0, jnp.max(largest)), rounding)
        return (
            updated,
            largest,
            jnp.all(change <= enough),
            changes.at[done].set(jnp.max(change)),
            done + 1,
        )

    def unfinished(state: State) -> Any:
        _, _, settled, changes, done = state
        return (done < at_most) & ~settled & ((done == 0) | ~jnp.isnan(changes[done - 1]))

    return jax.lax.while_loop(
        unfinished, body, (values, largest, False, jnp.zeros(_SWEEPS_AT_ONCE), 0)
    )


def initial_values(mdp: MDP, family: Statistics, initial: Any) -> Any:
    """Values [S, A, K] to start from: the given ones, or those of a return that is always zero."""
    shape = (mdp.num_states, mdp.num_actions, family.size)
    if initial is None:
        nothing = family.evaluate(Particles(jnp.zeros((1,)), jnp.ones((1,))))
        return jnp.broadcast_to(nothing, shape)
    return check_values("initial", mdp, family, initial)
