"""Exact expectile imputation in closed form: expectiles are points of the integrated CDF, imputing is interpolating.

Let P(x) = E[(x - Z)+], the integrated CDF: convex, with slope F in [0, 1], asymptotic to 0 on the left and to
x - m on the right, m = E[Z]. The first-order condition of the tau-expectile e (Equation (7)) reads

    P(e) = tau (e - m) / (2 tau - 1)    for tau != 1/2,    and    m = e_{1/2}.

So K expectiles are the mean and K-1 points ("knots") on the graph of P, and any convex function through the knots
with the right asymptotes is the integrated CDF of a distribution with exactly those expectiles. Its slope jumps
are the masses: a jump d at a knot may stay there or be shared between the two neighbouring gaps; the shares that
meet in a gap may move towards each other, or meet at their barycentre, which leaves P at the knots as it was. K
atoms, or a pair for each; no iteration.

Values that are the expectiles of no distribution are repaired first; the mean is always kept.
"""

import functools
from dataclasses import dataclass
from typing import Any, Literal, get_args

import jax.numpy as jnp
import numpy as np
from jax import lax

from edrl.core.check import fail
from edrl.core.imputation.expectile_repair import chord_slopes, repaired
from edrl.core.particles import Particles
from edrl.core.precision import compiled
from edrl.core.statistics import Statistics

Levels = Literal["midpoint", "knots", "gaps", "spline", "pairs"]

_APART = 3**-0.5  # a share so far from where two meet varies as if it were spread evenly from its knot to there


@dataclass(frozen=True)
class ExactExpectiles:
    """Exact expectile imputation; `levels` is the rule for F at a knot, free between its two chord slopes.

    midpoint: halfway, each jump is split evenly between its two gaps. Between the outermost knots this P is the
    middle between the greatest and the least one possible. knots: on a chord, so that atoms sit on the knots. gaps:
    the derivative of the parabola through three knots, which is what spreading each jump with the largest entropy
    between the middles of its gaps gives. spline: the slopes of a monotone C1 spline (Fritsch and Butland, 1984) of
    E[(x - Z)+] below the mean and of E[(Z - x)+] above it. pairs: halfway, and in the tails as the outermost parabola
    but no further; the two shares that meet in a gap stay apart, each as if spread evenly from its own knot to where
    they meet: 2K atoms. This is the best by far, less than half of the next rule's error in dynamic programming on MDPs
    that it was not chosen on (`paper/levels.py`), except where there are only two knots or one: there it is the
    midpoint.
    """

    levels: Levels = "pairs"

    def __post_init__(self) -> None:
        if self.levels not in get_args(Levels):
            raise fail("levels", self.levels, f"it must be one of {get_args(Levels)}")

    @functools.partial(compiled, static=("self",))
    def __call__(self, family: Statistics, values: Any) -> Particles:
        return impute_expectiles(jnp.asarray(values), np.asarray(family.taus), self.levels)  # type: ignore[attr-defined]


def impute_expectiles(values: Any, taus: np.ndarray, levels: Levels = "pairs") -> Particles:
    """A distribution with the expectiles `values [..., K]` at `taus [K]`: K atoms (K+1 if no tau is 1/2) or pairs."""
    eps = float(jnp.finfo(values.dtype).eps)
    # This close to 1/2 a tau says nothing but the mean: P = x / (2 - 1/tau) would be all rounding error.
    central = np.abs(2 * taus - 1) <= np.sqrt(eps) / 4
    if central.any() or len(taus) == 1:
        mean = values[..., int(np.argmin(np.abs(taus - 0.5)))]
    else:
        mean = feasible_mean(values, taus)
    if central.all() or len(taus) == 1:
        return Particles(mean[..., None], jnp.ones_like(mean)[..., None])

    # A quarter of the values cannot overflow when subtracted; powers of two scale without rounding, so nothing below
    # depends on the units of the return.
    centre = mean[..., None] / 4
    x = values[..., ~central] / 4 - centre
    scale = _power_of_two(jnp.max(jnp.abs(x), axis=-1, keepdims=True))
    atoms, probs = _interpolate(x / scale, taus[~central], levels, reach=1 / np.sqrt(eps))
    limit = float(jnp.finfo(values.dtype).max) / 4
    return Particles(4 * jnp.clip(centre + scale * atoms, -limit, limit), probs)


def _interpolate(x: Any, taus: np.ndarray, levels: Levels, reach: float) -> tuple[Any, Any]:
    """Atoms and probs of mean 0 from centred knots x, at most 1 in size.

    `reach` bounds how far beyond the outermost knot an atom may lie. Consistent values ask for more only if they
    carry no digits about the tail; inconsistent ones would otherwise send an atom to infinity.
    """
    side = np.sign(taus - 0.5).astype(x.dtype)
    p_ratio = (taus / (2 * taus - 1)).astype(x.dtype)  # P / x at the knots, P(x) = E[(x - Z)+]
    q_ratio = ((1 - taus) / (2 * taus - 1)).astype(x.dtype)  # (P - x) / x, P(x) - x = E[(Z - x)+]
    slopes = chord_slopes(x, p_ratio * x, q_ratio * x, reach)
    in_order = jnp.all(jnp.diff(x, axis=-1) > 0, axis=-1) & jnp.all(side * x >= 0, axis=-1)
    consistent = in_order & jnp.all(jnp.diff(slopes, axis=-1) >= 0, axis=-1)
    as_it_is = (x, p_ratio[:1] * x[..., :1], q_ratio[-1:] * x[..., -1:], slopes)

    def mended() -> tuple[Any, ...]:
        """Row by row: what is consistent stays as it is, whatever else is in the batch."""
        knots = side * jnp.maximum(side * jnp.sort(x, axis=-1), 0)
        moved = (knots, *repaired(knots, p_ratio * knots, q_ratio * knots, taus, reach))
        return tuple(jnp.where(consistent[..., None], *pair) for pair in zip(as_it_is, moved, strict=True))

    x, p_first, q_last, slopes = lax.cond(jnp.all(consistent), lambda: as_it_is, mended)

    jumps = jnp.diff(slopes, axis=-1)
    leftward = _share_to_the_left(x, slopes, side, levels)
    to_left, to_right = leftward * jumps, (1 - leftward) * jumps

    # Tails: the tangents at the outermost knots meet the asymptotes at x - P/F and x + (P-x)/(1-F).
    mass_left = slopes[..., :1] + to_left[..., :1]
    mass_right = (1 - slopes[..., -1:]) + to_right[..., -1:]
    tail_left = x[..., :1] - p_first / jnp.where(mass_left > 0, mass_left, 1)
    tail_right = x[..., -1:] + q_last / jnp.where(mass_right > 0, mass_right, 1)

    from_left, from_right = to_right[..., :-1], to_left[..., 1:]
    mass = from_left + from_right
    inner = x[..., :-1] + _share(from_right, from_left) * jnp.diff(x, axis=-1)

    atoms = jnp.concatenate([tail_left, inner, tail_right], axis=-1)
    probs = jnp.concatenate([mass_left, mass, mass_right], axis=-1)
    if levels == "pairs" and x.shape[-1] > 2:  # of two knots, nearly all mass is in the tails: measured worse there
        # Each share turns back towards where it came from. A tail is as long beyond its atom as before it.
        first = jnp.concatenate([2 * tail_left - x[..., :1], x], axis=-1)
        last = jnp.concatenate([x, 2 * tail_right - x[..., -1:]], axis=-1)
        atoms = jnp.stack([atoms - _APART * (atoms - first), atoms + _APART * (last - atoms)], axis=-1)
        halves = [jnp.concatenate([mass_left / 2, part, mass_right / 2], axis=-1) for part in (from_left, from_right)]
        probs = jnp.stack(halves, axis=-1)
        atoms, probs = (field.reshape(*x.shape[:-1], -1) for field in (atoms, probs))
    probs = probs / jnp.sum(probs, axis=-1, keepdims=True)
    return atoms - jnp.sum(probs * atoms, axis=-1, keepdims=True), probs


def _share_to_the_left(x: Any, slopes: Any, side: np.ndarray, levels: Levels) -> Any:
    """The share of each knot's jump that goes to the gap on its left: where F lies between the two chords."""
    n = x.shape[-1]
    if levels == "knots" and n > 1:
        # Outer jumps go outward, where the tails need mass; all others then fall on knots by themselves.
        return jnp.where(jnp.arange(n) < n // 2, 1.0, 0.0).astype(x.dtype)
    half = jnp.full_like(x, 0.5)
    if levels == "midpoint" or n <= 2:
        return half
    before, after = jnp.diff(x, axis=-1)[..., :-1], jnp.diff(x, axis=-1)[..., 1:]
    inner = _share(before, after)
    if levels == "pairs":
        # The parabola's slope at its outer ends, but at least half of the outer chord's mass goes to the tail.
        jumps = jnp.diff(slopes, axis=-1)
        left = 1 - _at_most_half(inner[..., 0] * jumps[..., 1], jumps[..., 0])
        right = _at_most_half((1 - inner[..., -1]) * jumps[..., -2], jumps[..., -1])
        return half.at[..., 0].set(left).at[..., -1].set(right)
    if levels == "spline":
        # A weighted harmonic mean of the two chords' masses below (beyond the mean: above) is nearer to the smaller.
        one, other = slopes[..., 1:-2], slopes[..., 2:-1]
        one, other = jnp.where(side[1:-1] < 0, one, 1 - one), jnp.where(side[1:-1] < 0, other, 1 - other)
        inner = _share((1 + inner) * one, (2 - inner) * other)
    return half.at[..., 1:-1].set(inner)


def _at_most_half(part: Any, whole: Any) -> Any:
    """part / whole, but at most 1/2."""
    return jnp.where(2 * part < whole, part / jnp.where(whole > 0, whole, 1), 0.5)


def _share(one: Any, other: Any) -> Any:
    """one / (one + other), and 1/2 where both are 0."""
    both = one + other
    return jnp.where(both > 0, one / jnp.where(both > 0, both, 1), 0.5)


def feasible_mean(values: Any, taus: np.ndarray) -> Any:
    """The mean [...] when no tau is 1/2 (K >= 2): the middle of the interval that convexity leaves for it.

    The knots' heights P_i(m) are affine in m, so every condition on the chord slopes, 0 <= s_1 <= ... <= 1, is one
    linear inequality in m. Bounds are loosened by their own rounding error, so that a well-determined one decides.
    """
    values = jnp.sort(values, axis=-1)
    low = taus < 0.5
    ratio = taus / (2 * taus - 1)
    # Work around the values next to the mean: small numbers, no digits lost to an offset.
    nearest = values[..., int(np.argmin(np.abs(taus - 0.5)))][..., None]
    x = values - nearest
    spread = _power_of_two(x[..., -1:] - x[..., :1])
    x = x / spread
    gap = jnp.diff(x, axis=-1)
    safe = jnp.where(gap > 0, gap, 1)
    # s_i(m) = constant_i - slope_i * m for the chords, between the asymptotes' 0 and 1.
    ratio_j = jnp.asarray(ratio, x.dtype)
    constant = jnp.diff(ratio_j * x, axis=-1) / safe
    slope = jnp.diff(ratio_j) / safe
    ends = [(0, 0)] * (x.ndim - 1)
    # What one rounding of the values does to a chord: through its rise, and through its run.
    place = jnp.maximum(jnp.abs(x), jnp.abs(values) / spread)
    moves = (jnp.abs(ratio_j) + 1) * place
    size = jnp.pad((moves[..., 1:] + moves[..., :-1]) / safe, [*ends, (1, 1)], constant_values=1)
    constant = jnp.pad(jnp.pad(constant, [*ends, (1, 0)]), [*ends, (0, 1)], constant_values=1)
    slope = jnp.pad(slope, [*ends, (1, 1)])
    flat = jnp.pad(gap <= 0, [*ends, (1, 1)])
    usable = ~(flat[..., 1:] | flat[..., :-1])
    # Each condition: alpha - beta * m >= 0.
    alpha, beta = jnp.diff(constant, axis=-1), jnp.diff(slope, axis=-1)
    noise = 2 * float(jnp.finfo(x.dtype).eps) * (size[..., 1:] + size[..., :-1])
    tiny = float(jnp.finfo(x.dtype).tiny)
    bound = alpha / jnp.where(jnp.abs(beta) > tiny, beta, 1)
    slack = noise / jnp.where(jnp.abs(beta) > tiny, jnp.abs(beta), 1)
    upper = jnp.where(usable & (beta > tiny), bound + slack, jnp.inf)
    lower = jnp.where(usable & (beta < -tiny), bound - slack, -jnp.inf)
    # The mean lies between the expectiles below and above 1/2, where those exist.
    box_low = x[..., int(low.sum()) - 1] if low.any() else -jnp.inf
    box_high = x[..., int(low.sum())] if not low.all() else jnp.inf
    lowest = jnp.maximum(jnp.max(lower, axis=-1), box_low)
    highest = jnp.minimum(jnp.min(upper, axis=-1), box_high)
    # With all taus on one side and all values equal, only the box's own edge is left: a Dirac.
    lowest = jnp.where(jnp.isfinite(lowest), lowest, highest)
    highest = jnp.where(jnp.isfinite(highest), highest, lowest)
    middle = jnp.clip((lowest + highest) / 2, box_low, box_high)
    return nearest[..., 0] + spread[..., 0] * middle


def _power_of_two(x: Any) -> Any:
    """The power of two next above x > 0, and 1 for x = 0 (or where x is not finite)."""
    x = lax.stop_gradient(x)
    exponent = jnp.frexp(jnp.where(jnp.isfinite(x) & (x > 0), x, 0.5))[1]
    info = jnp.finfo(x.dtype)
    return jnp.ldexp(jnp.ones_like(x), jnp.clip(exponent, info.minexp + 2, info.maxexp - 1))
