"""Equation (8): K equally weighted samples that have, or nearly have, K given expectiles.

Here are the objective, in floating point and in rational arithmetic, certificates that it is not
convex, descents, and an exact answer to whether such samples exist. `equation8` measures them.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
from scipy.optimize import minimize

from edrl.paper.experiment import Columns

GRID = 16  # certificates are made of multiples of 1/16
SEARCHES, CLIMBS = 10, 100  # for certificates: from how many starts, and with how many steps
EXACT = 1e-9  # what is at most this is zero but for rounding; expectiles are scaled to a range of 1

Fractions = Sequence[Fraction]


def levels_of(k: int, levels: str) -> list[Fraction]:
    """The levels as fractions: (2i - 1)/2K, or from 1/100 to 99/100."""
    if levels == "midpoints":
        return [Fraction(2 * i + 1, 2 * k) for i in range(k)]
    return [Fraction(1, 100) + Fraction(98, 100) * i / (k - 1) for i in range(k)]


def ordered_samples(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Ordered Gaussian samples around expectiles that run from 0 to 1."""
    return np.sort(rng.normal(0.5, 0.75, shape), axis=-1)


def conditions(taus: np.ndarray, values: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """r_k [..., K] for samples [..., N]: the left-hand sides of Equation (7)."""
    error = samples[..., None, :] - values[..., :, None]
    weight = np.where(error > 0, taus[:, None], 1 - taus[:, None])
    return np.asarray(np.mean(-2 * weight * error, axis=-1))


def objective(taus: np.ndarray, values: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Equation (8)."""
    return np.asarray(np.sum(conditions(taus, values, samples) ** 2, axis=-1))


def _slopes(taus: np.ndarray, values: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """The derivative [K, N] of the conditions between two kinks."""
    above = samples[None, :] > values[:, None]
    return -2 * np.where(above, taus[:, None], 1 - taus[:, None]) / len(samples)


def exact_objective(taus: Fractions, values: Fractions, samples: Fractions) -> Fraction:
    """Equation (8) in rational arithmetic."""
    total = Fraction(0)
    for tau, value in zip(taus, values, strict=True):
        scores = (-2 * (tau if z > value else 1 - tau) * (z - value) for z in samples)
        total += (sum(scores, Fraction(0)) / len(samples)) ** 2
    return total


def exact_expectile(tau: Fraction, samples: Fractions) -> Fraction:
    """The expectile of equally weighted samples: their mean, with the weights of its own place."""
    ordered = sorted(samples)
    for below in range(1, len(ordered) + 1):
        lower, upper = sum(ordered[:below], Fraction(0)), sum(ordered[below:], Fraction(0))
        weight = (1 - tau) * below + tau * (len(ordered) - below)
        value = ((1 - tau) * lower + tau * upper) / weight
        following = ordered[below:] or [value]
        if ordered[below - 1] <= value <= following[0]:
            return value
    raise AssertionError("samples have an expectile at every level")


def certificate(taus: list[Fraction], rng: np.random.Generator) -> dict[str, list[str]]:
    """Two ordered sets of samples and expectiles, as fractions, with a high midpoint.

    It is the highest over the mean of the ends that a random search finds. The expectiles are those
    of K equally weighted samples, so the least objective is zero.
    """
    k = len(taus)
    found = []
    for _ in range(SEARCHES):
        known = np.sort(rng.choice(4 * GRID, k, replace=False))
        samples = _sixteenths(known)
        values = [exact_expectile(tau, samples) for tau in taus]
        pair, height = _climb(np.array(taus, float), np.array(values, float), known, rng)
        found.append((height, values, pair))
    _, values, (left, right) = max(found, key=lambda one: one[0])
    ends = {"left": _sixteenths(left), "right": _sixteenths(right)}
    columns = {"tau": taus, "expectile": values, **ends}
    return {name: list(map(str, column)) for name, column in columns.items()}


def _sixteenths(numbers: np.ndarray) -> list[Fraction]:
    return [Fraction(int(number), GRID) for number in numbers]


def _climb(
    taus: np.ndarray, values: np.ndarray, known: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Ends [2, K] of a segment, in sixteenths, and the objective at its midpoint over theirs."""

    def best(ends: np.ndarray) -> tuple[np.ndarray, float]:
        at_ends = objective(taus, values, ends / GRID).mean(axis=-1)
        middle = objective(taus, values, ends.mean(axis=1) / GRID)
        ratio = np.where(at_ends > 0, middle / np.maximum(at_ends, 1e-300), 0)
        return ends[ratio.argmax()], float(ratio.max())

    shape = (2, len(taus))
    pool = np.sort(rng.integers(-4 * GRID, 8 * GRID, (2_000, *shape)), axis=-1)
    pool[::2, 1] = known  # segments that lead to a solution
    pair, height = best(pool)
    for _ in range(CLIMBS):
        steps = rng.integers(-GRID, GRID + 1, (128, *shape)) * (rng.random((128, *shape)) < 0.3)
        pair, height = best(np.concatenate([pair[None], np.sort(pair + steps, axis=-1)]))
    return pair, height


def as_fractions(rows: Columns) -> list[list[Fraction]]:
    """The levels, the expectiles and the two ends of a certificate."""
    names = ("tau", "expectile", "left", "right")
    return [[Fraction(str(entry)) for entry in rows[name]] for name in names]


def ratio(rows: Columns) -> Fraction:
    """The objective at the midpoint over the mean of both ends, exactly."""
    taus, values, left, right = as_fractions(rows)
    middle = [(one + other) / 2 for one, other in zip(left, right, strict=True)]
    ends = exact_objective(taus, values, left) + exact_objective(taus, values, right)
    return 2 * exact_objective(taus, values, middle) / ends


def descend(taus: np.ndarray, values: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Where BFGS ends, moved to the minimum of the quadratic that the objective is there.

    That is a local minimum of the objective if no sample passes an expectile on the way; else
    nothing is moved.
    """
    end = minimize(with_gradient, start, (taus, values), jac=True, method="BFGS").x
    slopes = _slopes(taus, values, end)
    settled = end - np.linalg.pinv(slopes) @ conditions(taus, values, end)
    stays = np.array_equal(_slopes(taus, values, settled), slopes)
    return settled if stays else np.asarray(end)


def with_gradient(
    samples: np.ndarray, taus: np.ndarray, values: np.ndarray
) -> tuple[float, np.ndarray]:
    """The objective and its gradient."""
    residual = conditions(taus, values, samples)
    return float(np.sum(residual**2)), 2 * residual @ _slopes(taus, values, samples)


def exist(taus: np.ndarray, values: np.ndarray) -> np.ndarray:
    """For which rows there are equally weighted samples, which must fulfil the conditions."""
    left = conditions(taus, values, equal_samples(taus, values))
    return np.asarray(np.abs(left).max(axis=-1) < 1e-7)


def equal_samples(taus: np.ndarray, values: np.ndarray) -> np.ndarray:
    """K equally weighted samples [rows, K] with the expectiles [rows, K], or NaN where there are
    none.

    All places are tried that they may have. With c_j samples in the j-th interval between the
    expectiles, of sum S_j, the conditions are linear: sum_j w_kj (S_j - c_j e_k) = 0. Their
    solutions are a line, and S_j must lie between c_j times the ends of its interval.
    """
    k = len(taus)
    below = np.arange(k + 1) <= np.arange(k)[:, None]  # whether the j-th interval lies below e_k
    weights = np.where(below, 1 - taus[:, None], taus[:, None])  # [K, K + 1]
    line, inverse = np.linalg.svd(weights)[2][-1], np.linalg.pinv(weights)
    cells = _cells(k)
    per_expectile = cells @ weights.T
    return np.stack([_in_any_cell(row, cells, per_expectile, line, inverse) for row in values])


def _cells(k: int) -> np.ndarray:
    """All ways to put k samples into k + 1 intervals, [C(2k, k), k + 1]."""
    bars = np.array(list(combinations(range(2 * k), k)))
    ends = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), 2 * k)])
    return (np.diff(ends, axis=-1) - 1).astype(float)


def _in_any_cell(
    values: np.ndarray,
    cells: np.ndarray,
    per_expectile: np.ndarray,
    line: np.ndarray,
    inverse: np.ndarray,
) -> np.ndarray:
    """Samples in the first cell in which a part of the line is left, or NaN."""
    ends = np.concatenate([[-1e6], values, [1e6]])  # as good as infinite
    first, last = np.full(len(cells), -np.inf), np.full(len(cells), np.inf)
    for j in range(len(ends) - 1):
        middle = per_expectile @ (values * inverse[j])
        low = (cells[:, j] * ends[j] - EXACT - middle) / line[j]
        high = (cells[:, j] * ends[j + 1] + EXACT - middle) / line[j]
        first = np.maximum(first, np.minimum(low, high))
        last = np.minimum(last, np.maximum(low, high))
        kept = first <= last
        cells, per_expectile = cells[kept], per_expectile[kept]
        first, last = first[kept], last[kept]
    if len(cells) == 0:
        return np.full(len(values), np.nan)
    sums = inverse @ (values * per_expectile[0]) + (first[0] + last[0]) / 2 * line
    counts = cells[0].astype(int)
    return np.repeat(sums / np.maximum(counts, 1), counts)
