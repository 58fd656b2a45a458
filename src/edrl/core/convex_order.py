"""What quantiles can a distribution have that lies between two others in the convex order?"""

import numpy as np

from edrl.core.metrics import integrated_cdf
from edrl.core.particles import Particles


def quantile_bracket(
    taus: np.ndarray, lower: Particles, upper: Particles, means: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The least and greatest quantiles of distributions between `lower` and `upper`, which share
    the `means`.

    A quantile minimises P(x) - tau x, so it is not where the lower P exceeds the least upper one.
    """
    best = np.asarray(upper.quantile(taus))
    minima = np.asarray(integrated_cdf(upper, best)) - taus * best  # [S, A, K]
    knots = np.sort(np.asarray(lower.settled().atoms), axis=-1)  # [S, A, n]
    integrals = np.asarray(integrated_cdf(lower, knots))
    # Level by level: for all at once [S, A, K, n] would take a thousand times the memory of the
    # answer.
    before, after = -minima / taus, (minima + means[..., None]) / (1 - taus)
    ends = [
        _where_below(knots, integrals - tau * knots, minima[..., k], before[..., k], after[..., k])
        for k, tau in enumerate(taus)
    ]
    low, high = (np.stack(end, axis=-1) for end in zip(*ends, strict=True))
    return np.minimum(low, best), np.maximum(high, best)


def _where_below(
    knots: np.ndarray,
    function: np.ndarray,
    bound: np.ndarray,
    before: np.ndarray,
    after: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Between which places [S, A] a convex function, linear between knots [S, A, n], is not above a
    bound [S, A].

    `before` and `after` are those places if they lie to the left and to the right of all knots.
    """
    bound = bound + 1e-13 * np.abs(knots).max(axis=-1)  # rounding
    possible = function <= bound[..., None]
    end = knots.shape[-1] - 1
    first, last = possible.argmax(axis=-1), end - possible[..., ::-1].argmax(axis=-1)

    def at(table: np.ndarray, index: np.ndarray) -> np.ndarray:
        return np.take_along_axis(table, np.clip(index, 0, end)[..., None], axis=-1)[..., 0]

    def crossing(inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
        rise = at(function, outside) - at(function, inside)
        share = (bound - at(function, inside)) / np.where(rise > 0, rise, 1)
        step = np.clip(share, 0, 1) * (at(knots, outside) - at(knots, inside))
        return np.asarray(at(knots, inside) + step)

    # The lower P is 0 on the left of its knots, and x - E[Z] on their right.
    low = np.where(first > 0, crossing(first, first - 1), before)
    return low, np.where(last < end, crossing(last, last + 1), after)
