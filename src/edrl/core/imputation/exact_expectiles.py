"""Exact expectile imputation in closed form: expectiles are points of the integrated CDF, imputing is interpolating.

Let P(x) = E[(x - Z)+], the integrated CDF: convex, with slope F in [0, 1], asymptotic to 0 on the left and to
x - m on the right, m = E[Z]. The first-order condition of the tau-expectile e (Equation (7)) reads

    P(e) = tau (e - m) / (2 tau - 1)    for tau != 1/2,    and    m = e_{1/2}.

So K expectiles are the mean and K-1 points ("knots") on the graph of P, and any convex function through the knots
with the right asymptotes is the integrated CDF of a distribution with exactly those expectiles. Its slope jumps
are the masses: a jump d at a knot may stay there or be shared between the two neighbouring gaps; the shares that
meet in a gap may move towards each other, or meet at their barycentre, which leaves P at the knots as it was. K
atoms, or a pair for each; no iteration.

Values that are the expectiles of no distribution, such as a network's, are repaired first; the mean is always kept. Two
convex functions lie near their knots: the greatest convex minorant, and one that moves each knot, from the outermost
inward, no further than those outside it ask for. Of all mixtures of the two, that of least squares is taken. (Near the
mean a small error of an expectile is a large one of P. Of values of which a few are in disorder there, the minorant
alone would make a point mass.)
"""

import functools
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import jax.numpy as jnp
import numpy as np
from jax import lax

from edrl.core.check import fail
from edrl.core.particles import Particles
from edrl.core.precision import compiled
from edrl.core.statistics import Statistics

Levels = Literal["midpoint", "knots", "gaps", "spline", "pairs"]

_APART = 3**-0.5  # two atoms at this share of the way to the ends of an interval have its even density's variance


@dataclass(frozen=True)
class ExactExpectiles:
    """Exact expectile imputation; `levels` is the rule for F at a knot, free between its two chord slopes.

    midpoint: halfway, each jump is split evenly between its two gaps. Between the outermost knots this P is the
    middle between the greatest and the least one possible. knots: on a chord, so that atoms sit on the knots. gaps:
    the derivative of the parabola through three knots, which is what spreading each jump with the largest entropy
    between the middles of its gaps gives. spline: the slopes of a monotone C1 spline (Fritsch and Butland, 1984) of
    E[(x - Z)+] below the mean and of E[(Z - x)+] above it. pairs: halfway, and in the tails as the outermost parabola
    but no further; the two shares that meet in a gap stay apart, so that they vary as an even density: 2K atoms. This
    is the best by far, a quarter to a half of the midpoint's error in dynamic programming (`experiments/levels.py`),
    except where there are only two knots or one: there it is the midpoint.
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
    slopes = _chord_slopes(x, p_ratio * x, q_ratio * x, reach)
    in_order = jnp.all(jnp.diff(x, axis=-1) > 0, axis=-1) & jnp.all(side * x >= 0, axis=-1)
    consistent = in_order & jnp.all(jnp.diff(slopes, axis=-1) >= 0, axis=-1)
    as_it_is = (x, p_ratio[:1] * x[..., :1], q_ratio[-1:] * x[..., -1:], slopes)

    def mended() -> tuple[Any, ...]:
        """Row by row: what is consistent stays as it is, whatever else is in the batch."""
        knots = side * jnp.maximum(side * jnp.sort(x, axis=-1), 0)
        repaired = (knots, *_repaired(knots, p_ratio * knots, q_ratio * knots, taus, reach))
        return tuple(jnp.where(consistent[..., None], *pair) for pair in zip(as_it_is, repaired, strict=True))

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


def _chord_slopes(x: Any, p: Any, q: Any, reach: float) -> Any:
    """The slopes [..., n+1] of the chords between knots, and before and after them the least and greatest of F
    that `reach` allows in the tails; 0 where two knots coincide."""
    run, rise = jnp.diff(x, axis=-1), jnp.diff(p, axis=-1)
    chords = jnp.where(run > 0, rise / jnp.where(run > 0, run, 1), 0)
    return jnp.concatenate([p[..., :1] / reach, chords, 1 - q[..., -1:] / reach], axis=-1)


def _repaired(x: Any, p: Any, q: Any, taus: np.ndarray, reach: float) -> tuple[Any, Any, Any]:
    """P at the first knot, P - x at the last, and the slopes [..., n+1] of a convex function near the knots."""
    low, near = _minorant(x, p, q, taus, reach), _outside_in(x, p, q, taus, reach)
    # What an error of the expectile makes of P, if F is tau there: it is expectiles whose squares are to be least.
    weight = np.square((1 - 2 * taus) / (2 * taus * (1 - taus))).astype(x.dtype)
    across = near - low
    length = jnp.sum(weight * across * across, axis=-1, keepdims=True)
    apart = length > float(jnp.finfo(x.dtype).tiny)
    along = jnp.sum(weight * (_by_side(p, q, taus) - low) * across, axis=-1, keepdims=True)
    heights = low + jnp.where(apart, jnp.clip(along / jnp.where(apart, length, 1), 0, 1), 0) * across
    p, q = _by_side(heights, x + heights, taus), _by_side(heights - x, heights, taus)
    slopes = _chord_slopes(x, p, q, reach)
    # Rounding, and knots that coincide, must not cost a negative mass.
    slopes = lax.cummax(jnp.clip(slopes, slopes[..., :1], slopes[..., -1:]), axis=slopes.ndim - 1)
    return p[..., :1], q[..., -1:], slopes


def _by_side(left: Any, right: Any, taus: np.ndarray) -> Any:
    """Entries of one array left of the mean, of another right of it: P and P - x are small there, with all digits."""
    return jnp.where(taus < 0.5, left, right)


def _minorant(x: Any, p: Any, q: Any, taus: np.ndarray, reach: float) -> Any:
    """The greatest convex minorant with the lines that reach the asymptotes: P left of the mean, P - x right of it."""
    n = x.shape[-1]
    vertex = _lower_hull(lax.stop_gradient(x), lax.stop_gradient(p), lax.stop_gradient(q), reach)
    before, after = _neighbours(vertex)

    def at(values: Any, index: Any) -> Any:
        return jnp.take_along_axis(values, jnp.clip(index, 0, n - 1), axis=-1)

    run = at(x, after) - at(x, before)
    way = jnp.where(run > 0, (x - at(x, before)) / jnp.where(run > 0, run, 1), 0)
    p_inside, q_inside = (at(h, before) + way * (at(h, after) - at(h, before)) for h in (p, q))
    before_all = at(p, after) * (1 - (at(x, after) - x) / reach)
    after_all = at(q, before) * (1 - (x - at(x, before)) / reach)
    p_outside, q_outside = (jnp.where(before < 0, before_all - x * of_q, after_all + x * (1 - of_q)) for of_q in (0, 1))
    inside = (before >= 0) & (after < n)
    return _by_side(jnp.where(inside, p_inside, p_outside), jnp.where(inside, q_inside, q_outside), taus)


def _outside_in(x: Any, p: Any, q: Any, taus: np.ndarray, reach: float) -> Any:
    """Each knot moved, from the outermost inward, to where those outside it leave room for a convex function.

    The left side is told by P, the right side by P - x, both against the distance from the mean: so they are one case.
    """
    n, n_left = len(taus), int((taus < 0.5).sum())
    depths = jnp.moveaxis(jnp.abs(x), -1, 0)
    heights = jnp.moveaxis(_by_side(p, q, taus), -1, 0)
    largest = jnp.maximum(jnp.max(depths, axis=0), jnp.max(heights, axis=0))

    def asymptote(outer: int, inner: int) -> _Outer:
        """Where the tail ends at the latest: as far out as the two outermost knots ask for, if they do, or a few times
        the size of them all."""
        run, rise = depths[outer] - depths[inner], heights[inner] - heights[outer]
        asked = rise * reach > heights[outer] * run
        tail = jnp.where(asked, heights[outer] * run / jnp.where(asked, rise, 1), 0)
        zero = jnp.zeros_like(largest)
        return _Outer(depths[outer] + jnp.maximum(tail, 4 * largest), zero, zero)

    def inward(sides: tuple[_Outer, _Outer], knots: Any) -> tuple[tuple[_Outer, _Outer], Any]:
        """The next knot of each side that has any; after its last one, that again, which changes nothing."""
        left, right = sides
        left = left.next(right, *knots[0]) if n_left else left
        right = right.next(left, *knots[1]) if n_left < n else right
        return (left, right), (left.height, right.height)

    rounds = np.arange(max(n_left, n - n_left))
    places = np.minimum(rounds, max(n_left - 1, 0)), np.maximum(n - 1 - rounds, min(n_left, n - 1))
    knots = tuple((depths[place], heights[place]) for place in places)
    sides = asymptote(0, min(1, n - 1)), asymptote(n - 1, max(n - 2, 0))
    _, (lefts, rights) = lax.scan(inward, sides, knots, unroll=len(rounds) <= 8)
    return jnp.moveaxis(jnp.concatenate([lefts[:n_left], rights[: n - n_left][::-1]]), 0, -1)


class _Outer(NamedTuple):
    """A side's innermost point so far: its distance from the mean, the height there, and the slope that led to it."""

    depth: Any
    height: Any
    slope: Any

    def next(self, other: "_Outer", depth: Any, height: Any) -> "_Outer":
        """The next knot inward, at a height that leaves the function convex: not below the lines that led to both
        sides' points, nor above the chord between these."""
        run, width = self.depth - depth, self.depth + other.depth
        least = jnp.maximum(self.height + self.slope * run, other.height + other.slope * (other.depth + depth) - depth)
        most = self.height + run * (other.height + other.depth - self.height) / jnp.where(width > 0, width, 1)
        # Where rounding leaves no room between the two, the chord decides: lines would carry the error outward.
        height = jnp.minimum(jnp.maximum(height, least), most)
        slope = jnp.where(run > 0, (height - self.height) / jnp.where(run > 0, run, 1), self.slope)
        return _Outer(depth, height, slope)


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


def _neighbours(keep: Any) -> tuple[Any, Any]:
    """For each knot the index of the last kept one at or before it (-1: none) and of the first at or after (n)."""
    n = keep.shape[-1]
    index = jnp.arange(n)
    before = lax.cummax(jnp.where(keep, index, -1), axis=keep.ndim - 1)
    after = lax.cummin(jnp.where(keep, index, n), axis=keep.ndim - 1, reverse=True)
    return before, after


def _lower_hull(x: Any, p: Any, q: Any, reach: float) -> Any:
    """Which knots are vertices of the greatest convex minorant with the two asymptotes: a mask [..., n].

    A knot above the chord of its neighbours is no vertex, whatever else is; so all such knots go at once, and
    again until none is left. Consistent values need no pass, others about log n.
    """
    n = x.shape[-1]

    def above_chord(keep: Any) -> Any:
        before, after = _neighbours(keep)
        pad = [(0, 0)] * (x.ndim - 1)
        before = jnp.pad(before[..., :-1], [*pad, (1, 0)], constant_values=-1)
        after = jnp.pad(after[..., 1:], [*pad, (0, 1)], constant_values=n)
        a, b = jnp.clip(before, 0, n - 1), jnp.clip(after, 0, n - 1)

        def slope(i: Any, j: Any) -> Any:
            take = jnp.take_along_axis
            return (take(p, j, -1) - take(p, i, -1)) / (take(x, j, -1) - take(x, i, -1))

        here = jnp.broadcast_to(jnp.arange(n), x.shape)
        # 0/0 for repeated knots is NaN, which compares as false: equal knots are both kept.
        arriving = jnp.where(before < 0, p / reach, slope(a, here))
        leaving = jnp.where(after >= n, 1 - q / reach, slope(here, b))
        return keep & (arriving > leaving)

    def drop(state: tuple[Any, Any]) -> tuple[Any, Any]:
        keep, above = state
        keep = keep & ~above
        return keep, above_chord(keep)

    everything = x == x  # all true, but not a constant: XLA would spend seconds on folding those
    state = (everything, above_chord(everything))
    return lax.while_loop(lambda state: jnp.any(state[1]), drop, state)[0]


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
