"""Imputation for any M-estimator: the distribution of largest entropy on a grid that has the given
statistics.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.check import check_count, check_number
from edrl.core.order import sorted_rows
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics
from edrl.core.types import ValuesLike

_EFFORT = {"float64": (64, 100)}  # the default grid and number of Newton steps
_LITTLE_EFFORT = (32, 12)


@dataclass(frozen=True)
class MaximumEntropy:
    """Weights w of largest entropy on a grid z subject to `sum_j w_j psi_k(values_k; z_j) = 0` for
    all k.

    Atoms lie around the family's `places`: the values themselves for M-estimators, thresholds or
    the like for others. Entropy is relative to a reference measure q: even between the places,
    thinning out beyond them. Where the statistics say nothing, as bounded scores do not about
    tails, the answer is then what a plain density says.

    The conditions of Equation (7) are linear in the *measure*, so with fixed atoms and free weights
    imputation is a convex problem, whatever the statistic. Its dual is smooth and has K unknowns:

        minimise  log sum_j q_j exp(lambda . psi_j) + ridge/2 |lambda|^2,   w_j ~ q_j exp(lambda .
        psi_j),

    with the scores psi in units of their size near the places. It is solved by Newton steps with a
    line search while the ridge falls tenfold from 0.1 to the machine epsilon, one cut whenever
    Newton's decrement is below 1. The ridge makes the imputation total: the weights minimise `|E
    psi|^2 / (2 ridge)` minus their entropy, so if no weights meet the conditions, |E psi| tends to
    the least that the grid allows. Rows stop when they have converged, or when duality certifies
    that |E psi|^2 is within one per cent of that least value.

    Measured on expectiles and Huber quantiles of random distributions with K = 3, 11, 51: those of
    200 atoms take 16 to 30 steps to |E psi| < 2e-10 in float64. Those of 3 or 20 atoms leave gaps
    between the values empty, so that the solution lies on the boundary (lambda is infinite): 16 to
    100 steps, |E psi| about 1e-12 in the median, at most 2e-10 for 95 % and 4e-5 at worst. In
    float32 |E psi| is between 3e-7 and 2e-4.
    """

    grid: int | None = None
    """How many atoms are added to the family's knots: half inside the range of its places, half
    outside. By default 64 in float64 and 32 in float32.
    """
    margin: float = 100.0
    """How far beyond the places atoms are put, in units of the range of these (in geometric steps).
    """
    iterations: int | None = None
    """The most Newton steps that are taken: by default 100 in float64 and 12 in float32.

    There, rounding ends progress earlier, and a network puts out values that are inconsistent by
    more than the last steps gain. All rows of a batch wait for the slowest one.
    """

    def __post_init__(self) -> None:
        if self.grid is not None:
            object.__setattr__(self, "grid", check_count("grid", self.grid, 4))
        check_number("margin", self.margin, 0.0, open_low=True)
        if self.iterations is not None:
            object.__setattr__(self, "iterations", check_count("iterations", self.iterations, 1))

    def __call__(self, family: Statistics, values: ValuesLike) -> Particles:
        """Impute `Particles [..., n]` from values [..., K]."""
        grid, steps = _EFFORT.get(values.dtype.name, _LITTLE_EFFORT)
        grid, steps = self.grid or grid, self.iterations or steps

        def one_row(values: jax.Array) -> tuple[jax.Array, jax.Array]:
            problem = problem_for(family, values, grid, self.margin, _reference)
            return problem.atoms, _weights(problem.scores, problem.reference, steps)

        return Particles(*jnp.vectorize(one_row, signature="(k)->(n),(n)")(jnp.asarray(values)))


class Problem(NamedTuple):
    """Where mass may be, and what the statistics of one row ask of it."""

    atoms: jax.Array  # [n], sorted
    scores: jax.Array  # [K, n], in units of `sizes`
    sizes: jax.Array  # [K]
    reference: jax.Array  # [n], log q; an atom that may have no mass has -inf


def problem_for(
    family: Statistics,
    values: jax.Array,
    grid: int,
    margin: float,
    reference: Callable[[jax.Array, jax.Array], jax.Array],
    support: tuple[float, float] | None = None,
) -> Problem:
    """The problem of one row of values [K]; `reference` gives log q [n] from places and atoms.

    Atoms outside the support are put on its ends.
    """
    # The farthest atoms, and differences of any two, must still be numbers.
    limit = jnp.finfo(values.dtype).max / 16 / max(margin, _farthest(values.dtype))
    values = jnp.clip(values, -limit, limit)
    places = jnp.clip(family.places(values), -limit, limit)
    atoms = _grid(grid, margin, family, values, places)
    if support is not None:
        atoms = jnp.clip(atoms, *support)
    scores = family.score(values, atoms)
    sizes = _sizes(scores, places, atoms)
    scores = scores / sizes[:, None]
    # Where a score that grows fast, say an exponential, dwarfs those near the places, or
    # overflows, there is no weight. Linear scores never do, nor do those at knots.
    has_knots = family.knots(values) is not None
    most = _farthest(values.dtype) if has_knots else 4 * margin
    within = jnp.all(jnp.abs(scores) <= most, axis=0)
    # Where all overflow, nothing can be asked of the atoms.
    usable = within | ~jnp.any(within)
    lowest, highest = (jnp.where(usable, atoms, end) for end in (jnp.inf, -jnp.inf))
    return Problem(
        jnp.clip(atoms, jnp.min(lowest), jnp.max(highest)),
        jnp.where(within, scores, 0),
        sizes,
        jnp.where(usable, reference(places, atoms), -jnp.inf),
    )


def _grid(
    grid: int, margin: float, family: Statistics, values: jax.Array, places: jax.Array
) -> jax.Array:
    """Sorted atoms: the family's knots or else the places, an even grid between the places,
    geometric tails.

    `family.knots(values)`, if there are any, are places between which all scores are linear and
    beyond which they are constant. Moving mass to the neighbouring knots then changes no expected
    score, so any values that some distribution has are met on this grid too, and nothing needs to
    lie outside the knots.
    """
    low, high = jnp.min(places), jnp.max(places)
    spread = high - low
    points, below, above = places, margin * spread, margin * spread
    knots = family.knots(values)
    if knots is not None:
        # Scores at knots that are too many ranges away would drown those at the places in rounding.
        farthest = _farthest(values.dtype) * spread
        knots = points = jnp.clip(knots, low - farthest, high + farthest)
        below, above = (
            jnp.minimum(below, low - jnp.min(knots)),
            jnp.minimum(above, jnp.max(knots) - high),
        )
    inside = jnp.linspace(0, 1, grid // 2, dtype=values.dtype)
    outside = jnp.geomspace(1e-4, 1, grid // 4, dtype=values.dtype)
    atoms = jnp.concatenate(
        [points, low + spread * inside, low - below * outside, high + above * outside]
    )
    return jnp.where(spread > 0, sorted_rows(atoms), low)  # one place alone is that of a point mass


def _farthest(dtype: np.dtype) -> float:
    """How many ranges away from the places a knot may lie."""
    return math.pow(jnp.finfo(dtype).eps, -0.4)


def _sizes(scores: jax.Array, places: jax.Array, atoms: jax.Array) -> jax.Array:
    """The size [K] of psi [K, n] at atoms no farther from the places than these are spread."""
    low, high = jnp.min(places), jnp.max(places)
    near = (atoms >= low - (high - low)) & (atoms <= high + (high - low))
    size = jnp.max(jnp.where(near, jnp.abs(scores), 0), axis=-1)
    return jnp.where(size > 0, size, 1)


def _reference(places: jax.Array, atoms: jax.Array) -> jax.Array:
    """log q [n], at least 0: the room around each atom, times (1 + 4 d / spread)^-4 at a distance d
    from the places.
    """
    low, high = jnp.min(places), jnp.max(places)
    spread = jnp.where(high > low, high - low, 1)
    room = (jnp.append(atoms[1:], atoms[-1]) - jnp.append(atoms[0], atoms[:-1])) / 2
    outside = jnp.maximum(jnp.maximum(low - atoms, atoms - high), 0) / spread
    # Where atoms coincide there is no room; they must be reachable all the same.
    log_mass = jnp.log(room / spread + 1e-3 / len(atoms)) - 4 * jnp.log1p(4 * outside)
    return log_mass - jnp.min(log_mass)


class _Newton(NamedTuple):
    """Where the solver is."""

    multipliers: jax.Array  # [K]
    ridge: jax.Array
    least: jax.Array  # the smallest |E psi|^2 so far
    best: jax.Array  # [n], the weights that have it
    stale: jax.Array  # steps since it fell by a per cent
    steps: jax.Array
    done: jax.Array


def _weights(scores: jax.Array, reference: jax.Array, iterations: int) -> jax.Array:
    """The weights [n] for one matrix of scores [K, n]."""
    size, dtype, eps = len(scores), scores.dtype, jnp.finfo(scores.dtype).eps

    def distribution(multipliers: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        logits = reference + multipliers @ scores
        probs = jax.nn.softmax(logits)
        return logits, probs, scores @ probs

    def step(at: _Newton) -> _Newton:
        logits, probs, mean = distribution(at.multipliers)
        gradient = mean + at.ridge * at.multipliers
        centred = scores - mean[:, None]
        hessian = (centred * probs) @ centred.T
        # What its rounding needs to be positive.
        hessian += jnp.diag(at.ridge + size * eps * jnp.diagonal(hessian))
        move = -_solve(hessian, gradient)
        decrement = -gradient @ move
        rounding = decrement < jnp.sqrt(
            eps
        )  # then differences of objectives are little else: trust Newton
        best_length = line_search(logits, move @ scores, at.multipliers, move, at.ridge)
        length = jnp.where(rounding, 1, best_length)
        failed = ~jnp.all(jnp.isfinite(length * move))
        multipliers = jnp.where(failed, at.multipliers, at.multipliers + length * move)

        logits, probs, mean = distribution(multipliers)
        square = mean @ mean
        stale = jnp.where(square < 0.99 * at.least, 0, at.stale + 1)
        best = jnp.where(square < at.least, probs, at.best)
        least = jnp.minimum(square, at.least)
        # No weights have a smaller |E psi|^2 than this: weak duality, and sum_j w_j log(w_j / q_j)
        # <= 0 as q >= 1.
        penalty = at.ridge / 2 * multipliers @ multipliers
        bound = -2 * at.ridge * (jax.nn.logsumexp(logits) + penalty)
        infeasible = (bound > 0) & ((least <= 1.01 * bound) | (stale >= 10))
        resolved = (decrement < eps) | (rounding & (stale >= 10))
        done = failed | infeasible | (resolved & (at.ridge <= eps))
        ridge = jnp.where(decrement < 1, jnp.maximum(at.ridge / 10, eps), at.ridge)
        return _Newton(multipliers, ridge, least, best, stale, at.steps + 1, done)

    start = _Newton(
        jnp.zeros(size, dtype),
        jnp.asarray(0.1, dtype),
        jnp.asarray(jnp.inf, dtype),
        jax.nn.softmax(reference),
        *(jnp.zeros((), int), jnp.zeros((), int), jnp.zeros((), bool)),
    )
    return jax.lax.while_loop(lambda at: (at.steps < iterations) & ~at.done, step, start).best


_FEW = 8  # equations; from 11 on Cholesky's method is as quick


def _solve(matrix: jax.Array, right: jax.Array) -> jax.Array:
    """The solution [K] for a positive definite matrix [K, K]; NaN if it is none.

    LAPACK is called row by row, which for few equations costs twice what they do.
    """
    size = len(right)
    if size > _FEW:
        return jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(matrix), True), right)

    def eliminate(i: jax.Array, rows: jax.Array) -> jax.Array:
        pivot = rows[i, i]
        own = rows[i] / jnp.where(pivot > 0, pivot, jnp.nan)
        return jnp.where((jnp.arange(size) == i)[:, None], own, rows - rows[:, i][:, None] * own)

    rows = jnp.concatenate([matrix, right[:, None]], axis=-1)
    solved: jax.Array = jax.lax.fori_loop(0, size, eliminate, rows)
    return solved[:, -1]


def line_search(
    logits: jax.Array, slopes: jax.Array, multipliers: jax.Array, move: jax.Array, ridge: jax.Array
) -> jax.Array:
    """The length of the move that makes the objective least.

    Along the move the objective costs O(n), so many lengths are tried at once. One of them is short
    enough to descend always: log(1 + R) / R, where R is by how much the move drives two logits
    apart.
    """
    apart = jnp.max(slopes) - jnp.min(slopes)
    short = jnp.log1p(apart) / jnp.where(apart > 0, apart, 1)
    lengths = 2.0 ** jnp.arange(-8, 4, dtype=logits.dtype)
    tried = jnp.append(lengths, short)[:, None]
    objectives = jax.nn.logsumexp(logits + tried * slopes, axis=-1)
    objectives += ridge / 2 * jnp.sum((multipliers + tried * move) ** 2, axis=-1)
    return tried[jnp.nanargmin(objectives), 0]
