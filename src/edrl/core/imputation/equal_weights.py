"""The paper's own imputation: equally weighted samples by nonlinear least squares (Equations (7)
and (8)).
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from edrl.core.check import check_count
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics
from edrl.core.types import ValuesLike

_PROBE = (
    0.1,
    1e-4,
)  # the widest and the narrowest step to either side, in units of half the range of the values


@dataclass(frozen=True)
class EqualWeights:
    """N equally weighted atoms z that minimise `sum_k (mean_n psi_k(values_k; z_n))^2`, Equation
    (8).

    The paper calls this problem convex in z. It is not in general: a score may bend either way, its
    square does, and the atoms may be permuted, so what comes back is a *local* minimiser, reached
    from the values. Nor need the minimum be zero: an atom weighs at least 1/N, so most expectiles
    of unequally weighted distributions are out of reach, which is what `residual` shows.

    The solver is a Levenberg-Marquardt iteration that minds kinks. Scores of expectiles and Huber
    quantiles are bent at the values themselves, and good solutions rest on these bends, where one
    derivative does not exist and plain Newton steps stall. So each atom is probed to its left and
    to its right: it moves along the side that descends, and rests if neither does. The probe
    narrows while no step succeeds; rounds are repeated from the widest probe as long as they gain
    one per cent. On random expectiles with K = 3 to 21 the objective is at most that of SciPy's
    BFGS on 84 to 100 % of the rows, at about a hundredth of the time.
    """

    samples: int | None = None
    """N, the number of atoms; None for as many as there are statistics, as in the paper."""
    iterations: int = 100
    """The most steps that are taken; all rows of a batch stop as soon as each of them has
    converged.
    """

    def __post_init__(self) -> None:
        if self.samples is not None:
            object.__setattr__(self, "samples", check_count("samples", self.samples, 1))
        object.__setattr__(self, "iterations", check_count("iterations", self.iterations, 1))

    def __call__(self, family: Statistics, values: ValuesLike) -> Particles:
        """Impute `Particles [..., N]` from values [..., K]."""
        values = jnp.asarray(values)
        n = self.samples or values.shape[-1]
        solve = functools.partial(_solve, family, n, self.iterations)
        atoms = jnp.vectorize(solve, signature="(k)->(n)")(values)
        return Particles(atoms, jnp.full(n, 1 / n, atoms.dtype))


class _Step(NamedTuple):
    """Where the solver is.

    Atoms are in units of half the range of the values, around its middle.
    """

    atoms: jax.Array  # [N]
    scores: jax.Array  # [K, N], in units of the largest at the start
    objective: jax.Array
    at_round: jax.Array  # the objective when the round of probes began
    probe: jax.Array
    damping: jax.Array
    growth: jax.Array
    steps: jax.Array
    done: jax.Array


def _solve(family: Statistics, n: int, iterations: int, values: jax.Array) -> jax.Array:
    """The atoms [N] for one vector of values [K]."""
    dtype = values.dtype
    low, high = jnp.min(values), jnp.max(values)
    # Halves are taken before sums and differences, so that nothing overflows.
    centre, half = low / 2 + high / 2, high / 2 - low / 2
    unit = jnp.where(half > 0, half, 1)
    places = jnp.linspace(0, len(values) - 1, n, dtype=dtype)
    sorted_values = (jnp.sort(values) - centre) / unit
    start = jnp.interp(places, jnp.arange(len(values), dtype=dtype), sorted_values)

    def score(u: jax.Array) -> jax.Array:
        return family.score(values, centre + unit * u) / n

    largest = jnp.max(jnp.abs(score(start)))
    largest = jnp.where(
        largest > 0, largest, 1
    )  # the objective is scale free and its square cannot overflow

    def scaled_score(u: jax.Array) -> jax.Array:
        return score(u) / largest

    scores = scaled_score(start)
    objective = _objective(scores)
    probe, damping, growth = (jnp.asarray(x, dtype) for x in (_PROBE[0], 1e-3, 2.0))
    state = _Step(
        start,
        scores,
        objective,
        objective,
        probe,
        damping,
        growth,
        jnp.zeros((), int),
        objective <= 0,
    )
    state = jax.lax.while_loop(
        lambda state: (state.steps < iterations) & ~state.done,
        functools.partial(_improve, scaled_score),
        state,
    )
    # Only infinities can occur, from values near the largest float.
    return jnp.nan_to_num(centre + unit * state.atoms)


def _objective(scores: jax.Array) -> jax.Array:
    """Equation (8)."""
    return jnp.sum(jnp.sum(scores, axis=-1) ** 2)


def _improve(score: Callable[[jax.Array], jax.Array], at: _Step) -> _Step:
    """One step of Levenberg and Marquardt."""
    dtype, eps = at.atoms.dtype, jnp.finfo(at.atoms.dtype).eps
    gradient, jacobian = _descending_side(score, at)
    normal = jacobian.T @ jacobian
    top = jnp.max(jnp.diagonal(normal))
    weight = at.damping * jnp.where(top > 0, top, 1)
    factor = jnp.linalg.cholesky(normal + weight * jnp.eye(len(at.atoms), dtype=dtype))
    move = -jax.scipy.linalg.cho_solve((factor, True), gradient)

    scores = score(at.atoms + move)
    objective = _objective(scores)
    better = objective < at.objective  # false for NaN, so a failed factorisation is a failed step
    promised = move @ (weight * move - gradient)
    gain = (at.objective - objective) / jnp.where(promised > 0, promised, 1)
    shrink = jnp.maximum(1 / 3, 1 - (2 * gain - 1) ** 3)
    damping = jnp.where(better, at.damping * shrink, at.damping * at.growth)
    growth = jnp.where(better, 2, 2 * at.growth)
    probe = jnp.where(better, at.probe, at.probe / 4)
    atoms, scores, objective = jax.tree.map(
        lambda new, old: jnp.where(better, new, old),
        (at.atoms + move, scores, objective),
        (at.atoms, at.scores, at.objective),
    )

    round_over = probe < _PROBE[1]
    done = (objective <= (4 * eps) ** 2) | (round_over & ~(objective < 0.99 * at.at_round))
    probe, damping, growth, at_round = jax.tree.map(
        lambda new, old: jnp.where(round_over, new, old).astype(dtype),
        (_PROBE[0], 1e-3, 2.0, objective),
        (probe, jnp.maximum(damping, eps), growth, at.at_round),
    )
    return _Step(atoms, scores, objective, at_round, probe, damping, growth, at.steps + 1, done)


def _descending_side(
    score: Callable[[jax.Array], jax.Array], at: _Step
) -> tuple[jax.Array, jax.Array]:
    """The gradient [N] and the Jacobian [K, N], each atom's on the side on which the objective
    descends.
    """
    residual = jnp.sum(at.scores, axis=-1)
    left = (at.scores - score(at.atoms - at.probe)) / at.probe
    right = (score(at.atoms + at.probe) - at.scores) / at.probe
    slope_left, slope_right = residual @ left, residual @ right
    go_left = (slope_left > 0) & (slope_left >= -slope_right)
    go_right = (slope_right < 0) & ~go_left
    jacobian = jnp.where(go_left, left, jnp.where(go_right, right, 0))
    return residual @ jacobian, jacobian
