"""A distribution on a grid from noisy expectiles: least squares over its weights, with a ridge.

A value v is the tau-expectile of Z if (1 - tau) E[(v - Z)+] - tau E[(Z - v)+] = 0. On a grid this is
linear in the weights p, one row of a matrix A for each value. So the weights that fit best solve a
convex problem without local minima,

    minimise |A p|^2 + ridge * |p|^2   over   p >= 0, sum(p) = 1.

It is solved through its dual, which has one variable for each value and one for the sum. The dual
is smooth and piecewise quadratic, so Newton's method ends after a few steps. Everything here is
float64 on the host: problems are small, and nothing has to be compiled for their sizes.
"""

from typing import NamedTuple

import numpy as np

from edrl.core.types import Bool, Float

_STEPS = 100
"""Newton steps at most; 5 to 20 are usual."""
_HALVINGS = 30
_DECREASE = 1e-4  # of what the slope promises, which a step must bring (Armijo)
_TOLERANCE = 1e-11
_ROUNDS = 30
"""How often noise level and weights are found in turn; 3 to 5 are usual."""
_SETTLED = 1e-3  # the relative change of the noise level that ends the rounds
_LEAST_VARIANCE = 1e-7
"""Of the noise beside the mean square of A: values without noise need a little ridge as well."""

_PRIOR_ATOMS = 2
"""The prior is as broad as that of so many random atoms of equal weight."""

Rows = Float[np.ndarray, "*batch K n"]
Weights = Float[np.ndarray, "*batch n"]


class Fit(NamedTuple):
    """Weights, and the noise level that they were found with."""

    weights: Float[np.ndarray, " n"]
    variance: float
    """Of the noise in A p."""
    ridge: float
    """The ridge that belongs to this noise, or as much of it as was asked for."""


class _Point(NamedTuple):
    """A point of the dual: a multiplier for each row and one for the sum of the weights."""

    rows: Float[np.ndarray, "*batch K"]
    total: Float[np.ndarray, "*batch"]

    def moved(self, step: "_Point", size: Float[np.ndarray, "*batch"]) -> "_Point":
        return _Point(self.rows + size[..., None] * step.rows, self.total + size * step.total)


def expectile_rows(
    values: Float[np.ndarray, " K"], taus: Float[np.ndarray, " K"], grid: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "K n"]:
    """The matrix A: A p = 0 if the weights p on the grid have these expectiles."""
    above = values[:, None] - grid
    return np.asarray(np.where(above > 0, (1 - taus)[:, None], taus[:, None]) * above)


def expectiles_on_grid(
    weights: Weights, grid: Float[np.ndarray, " n"], taus: Float[np.ndarray, " m"]
) -> Float[np.ndarray, "*batch m"]:
    """The expectiles of weights on a grid: where (1 - tau) E[(e - Z)+] - tau E[(Z - e)+] crosses 0."""
    below, above = _partial_moments(weights, grid)
    excess = (1 - taus)[:, None] * below[..., None, :] - taus[:, None] * above[..., None, :]
    place = np.clip(np.sum(excess <= 0, axis=-1, keepdims=True) - 1, 0, len(grid) - 2)
    before = np.take_along_axis(excess, place, axis=-1)[..., 0]
    after = np.take_along_axis(excess, place + 1, axis=-1)[..., 0]
    rise = np.where(after > before, after - before, 1)
    left, right = grid[place[..., 0]], grid[place[..., 0] + 1]
    return np.asarray(left - before / rise * (right - left))


def expectile_levels(weights: Weights, grid: Float[np.ndarray, " n"]) -> Weights:
    """The tau of which each point of the grid is the expectile, from 0 to 1."""
    below, above = _partial_moments(weights, grid)
    total = below + above
    # All the mass in one point: it is the expectile of every level.
    return np.where(total > 0, below / np.where(total > 0, total, 1), 0.5)


def _partial_moments(weights: Weights, grid: Float[np.ndarray, " n"]) -> tuple[Weights, Weights]:
    """E[(x - Z)+] and E[(Z - x)+] at each point x of the grid."""
    gaps, mass = np.diff(grid), np.cumsum(weights, axis=-1)[..., :-1]
    start = np.zeros_like(weights[..., :1])
    below = np.concatenate([start, np.cumsum(mass * gaps, axis=-1)], axis=-1)
    parts = np.maximum(1 - mass, 0) * gaps
    above = np.cumsum(parts[..., ::-1], axis=-1)[..., ::-1]
    return below, np.concatenate([above, start], axis=-1)


def ridge_weights(rows: Rows, ridge: float) -> Weights:
    """The weights that minimise |rows @ p|^2 + ridge * |p|^2 on the simplex; `ridge` exceeds 0."""
    rows = _compressed(rows)
    batch, n = rows.shape[:-2], rows.shape[-1]
    point = _Point(np.zeros(rows.shape[:-1]), np.full(batch, ridge / n))  # of equal weights
    for _ in range(_STEPS):
        weights = _weights(point, rows, ridge)
        slope = _slope(point, weights, rows)
        if _size(slope) <= _TOLERANCE:
            break
        step = _newton_step(slope, weights > 0, rows, ridge)
        point = _searched(point, step, slope, rows, ridge)
    weights = _weights(point, rows, ridge)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def fit_weights(
    rows: Float[np.ndarray, "K n"], least_variance: float = 0.0, smoothness: float = 1.0
) -> Fit:
    """Weights whose ridge follows the noise: its variance is estimated from what they leave over.

    The ridge is that of a Gaussian prior under which the mass of an interval has the variance that
    two random atoms of equal weight would give it. Weights and variance are found in turn.

    Args:
        rows: As `expectile_rows` gives them, perhaps divided by their standard deviations.
        least_variance: What is known of the variance of the noise in `rows @ p`.
        smoothness: How much of this ridge is taken in the end. 0 takes that of values without
            noise: then |rows @ p| is as small as it can be, to within that little ridge.
    """
    count, n = rows.shape
    without_noise = _LEAST_VARIANCE * float(np.mean(rows**2))
    least = max(least_variance, without_noise)
    variance = max(least, float(np.mean(rows.mean(axis=-1) ** 2)))
    for _ in range(_ROUNDS):
        ridge = _ridge(n, variance)
        weights = ridge_weights(rows, ridge)
        free = max(count - _degrees_of_freedom(rows, weights, ridge), 1.0)
        before, variance = variance, max(least, float(np.sum((rows @ weights) ** 2)) / free)
        if abs(variance - before) <= _SETTLED * before:
            break
    ridge = _ridge(n, max(smoothness * variance, without_noise))
    return Fit(ridge_weights(rows, ridge), variance, ridge)


def _ridge(n: int, variance: float) -> float:
    """In |A p|^2 / variance + n * atoms * |p|^2, the part that the prior has."""
    return _PRIOR_ATOMS * n * variance


def _degrees_of_freedom(
    rows: Float[np.ndarray, "K n"], weights: Float[np.ndarray, " n"], ridge: float
) -> float:
    """By how much the weights can follow the noise: the trace of the smoother on those above 0."""
    free = rows[:, weights > 0]
    free = free - free.mean(axis=-1, keepdims=True)  # the sum of the weights is fixed
    strengths = np.linalg.svd(free, compute_uv=False) ** 2
    return float(np.sum(strengths / (strengths + ridge)))


def _compressed(rows: Rows) -> Float[np.ndarray, "*batch m n"]:
    """At most n rows with the same |rows @ p|: what more of them say can be summed up."""
    count, n = rows.shape[-2:]
    return rows if count <= n else np.asarray(np.linalg.qr(rows, mode="r"))


def _weights(point: _Point, rows: Rows, ridge: float) -> Weights:
    """The weights that a point of the dual stands for, which need not sum to 1 yet."""
    excess = point.total[..., None] - (point.rows[..., None, :] @ rows)[..., 0, :]
    return np.asarray(np.maximum(excess, 0) / ridge)


def _height(point: _Point, weights: Weights, ridge: float) -> Float[np.ndarray, "*batch"]:
    """The function that the dual minimises."""
    squares = np.sum(point.rows**2, axis=-1) + ridge * np.sum(weights**2, axis=-1)
    return np.asarray(squares / 2 - point.total)


def _slope(point: _Point, weights: Weights, rows: Rows) -> _Point:
    """Its gradient: 0 where multipliers are residuals and the weights sum to 1."""
    fitted = (rows @ weights[..., None])[..., 0]
    return _Point(point.rows - fitted, weights.sum(axis=-1) - 1)


def _size(slope: _Point) -> float:
    return float(max(np.abs(slope.rows).max(), np.abs(slope.total).max()))


def _newton_step(
    slope: _Point, free: Bool[np.ndarray, "*batch n"], rows: Rows, ridge: float
) -> _Point:
    """The step to the minimum of the quadratic function that holds while the same weights are free."""
    kept = rows * free[..., None, :]
    count = rows.shape[-2]
    shares = np.maximum(free.sum(axis=-1), 1)[..., None]
    sums = kept.sum(axis=-1)
    # The multiplier of the sum is eliminated: what is left is a matrix of centred rows.
    centred = kept @ np.swapaxes(kept, -1, -2) - sums[..., :, None] * (sums / shares)[..., None, :]
    hessian = np.eye(count) + centred / ridge
    shift = slope.total[..., None] / shares
    right = -slope.rows - sums * shift
    of_rows = np.linalg.solve(hessian, right[..., None])[..., 0]
    moved = np.sum(sums * of_rows, axis=-1) / shares[..., 0]
    return _Point(of_rows, moved - ridge * shift[..., 0])


def _searched(point: _Point, step: _Point, slope: _Point, rows: Rows, ridge: float) -> _Point:
    """The point after the longest of the steps 1, 1/2, 1/4, ... that brings what it promises."""
    start = _height(point, _weights(point, rows, ridge), ridge)
    promised = np.sum(slope.rows * step.rows, axis=-1) + slope.total * step.total
    rounding = 1e-14 * np.abs(start)
    size = np.ones(start.shape)
    for _ in range(_HALVINGS):
        to = point.moved(step, size)
        height = _height(to, _weights(to, rows, ridge), ridge)
        short = height > start + _DECREASE * size * promised + rounding
        if not short.any():
            break
        size = np.where(short, size / 2, size)
    return point.moved(step, size)
