"""Values that are the expectiles of no distribution, such as a network's, and a convex function
near their knots.

Two are at hand: the greatest convex minorant, which one low knot pulls down everywhere, and one
that moves each knot, from the outermost inward, no further than those outside it ask for. Of all
mixtures of the two, that of least squares is taken. (Near the mean a small error of an expectile is
a large one of P. Of values of which a few are in disorder there, the minorant alone would make a
point mass.)

Here x are the knots, centred at the mean, p = P(x) and q = P(x) - x: see `exact_expectiles`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


def chord_slopes(x: jax.Array, p: jax.Array, q: jax.Array, reach: float) -> jax.Array:
    """The slopes [..., n+1] of the chords between knots, 0 where two knots coincide.

    Before and after the knots they are the least and greatest F that `reach` allows in the tails.
    """
    run, rise = jnp.diff(x, axis=-1), jnp.diff(p, axis=-1)
    chords = jnp.where(run > 0, rise / jnp.where(run > 0, run, 1), 0)
    return jnp.concatenate([p[..., :1] / reach, chords, 1 - q[..., -1:] / reach], axis=-1)


def repaired(
    x: jax.Array, p: jax.Array, q: jax.Array, taus: jax.Array, num_below: int | None, reach: float
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """P at the first knot, P - x at the last, and the slopes [..., n+1] of a convex function near
    the knots.

    `num_below` is how many of the taus are below 1/2, if that is known before the numbers are.
    """
    low, near = _minorant(x, p, q, taus, reach), _outside_in(x, p, q, taus, num_below, reach)
    # What an error of the expectile makes of P, if F is tau there: it is expectiles whose squares
    # are to be least.
    weight = jnp.square((1 - 2 * taus) / (2 * taus * (1 - taus)))
    across = near - low
    length = jnp.sum(weight * across * across, axis=-1, keepdims=True)
    apart = length > float(jnp.finfo(x.dtype).tiny)
    along = jnp.sum(weight * (_by_side(p, q, taus) - low) * across, axis=-1, keepdims=True)
    heights = (
        low + jnp.where(apart, jnp.clip(along / jnp.where(apart, length, 1), 0, 1), 0) * across
    )
    p, q = _by_side(heights, x + heights, taus), _by_side(heights - x, heights, taus)
    slopes = chord_slopes(x, p, q, reach)
    # Rounding, and knots that coincide, must not cost a negative mass.
    slopes = lax.cummax(jnp.clip(slopes, slopes[..., :1], slopes[..., -1:]), axis=slopes.ndim - 1)
    return p[..., :1], q[..., -1:], slopes


def _by_side(left: jax.Array, right: jax.Array, taus: jax.Array) -> jax.Array:
    """Entries of one array left of the mean, of another right of it: P and P - x are small there,
    with all digits.
    """
    return jnp.where(taus < 0.5, left, right)


def _minorant(x: jax.Array, p: jax.Array, q: jax.Array, taus: jax.Array, reach: float) -> jax.Array:
    """The greatest convex minorant with the lines that reach the asymptotes: P left of the mean, P
    - x right of it.
    """
    n = x.shape[-1]
    vertex = _lower_hull(lax.stop_gradient(x), lax.stop_gradient(p), lax.stop_gradient(q), reach)
    before, after = _neighbours(vertex)

    def at(values: jax.Array, index: jax.Array) -> jax.Array:
        return jnp.take_along_axis(values, jnp.clip(index, 0, n - 1), axis=-1)

    run = at(x, after) - at(x, before)
    way = jnp.where(run > 0, (x - at(x, before)) / jnp.where(run > 0, run, 1), 0)
    p_inside, q_inside = (at(h, before) + way * (at(h, after) - at(h, before)) for h in (p, q))
    before_all = at(p, after) * (1 - (at(x, after) - x) / reach)
    after_all = at(q, before) * (1 - (x - at(x, before)) / reach)
    p_outside = jnp.where(before < 0, before_all, after_all + x)
    q_outside = jnp.where(before < 0, before_all - x, after_all)
    inside = (before >= 0) & (after < n)
    return _by_side(
        jnp.where(inside, p_inside, p_outside), jnp.where(inside, q_inside, q_outside), taus
    )


def _outside_in(
    x: jax.Array, p: jax.Array, q: jax.Array, taus: jax.Array, num_below: int | None, reach: float
) -> jax.Array:
    """Each knot moved, from the outermost inward, to where those outside it leave room for a convex
    function.

    The left side is told by P, the right side by P - x, both against the distance from the mean: so
    they are one case.
    """
    n = x.shape[-1]
    rounds = n if num_below is None else max(num_below, n - num_below)
    depths = jnp.moveaxis(jnp.abs(x), -1, 0)
    heights = jnp.moveaxis(_by_side(p, q, taus), -1, 0)
    largest = jnp.maximum(jnp.max(depths, axis=0), jnp.max(heights, axis=0))

    def asymptote(outer: int, inner: int) -> _Outer:
        """Where the tail ends at the latest: as far out as the two outermost knots ask for, if they
        do, or a few times the size of them all."""
        run, rise = depths[outer] - depths[inner], heights[inner] - heights[outer]
        asked = rise * reach > heights[outer] * run
        tail = jnp.where(asked, heights[outer] * run / jnp.where(asked, rise, 1), 0)
        zero = jnp.zeros_like(largest)
        return _Outer(depths[outer] + jnp.maximum(tail, 4 * largest), zero, zero)

    def inward(
        sides: tuple[_Outer, _Outer], knots: tuple[_Knot, _Knot]
    ) -> tuple[tuple[_Outer, _Outer], tuple[_Outer, _Outer]]:
        """The next knot of each side that has any left."""
        left, right = sides
        left = left.next(right, knots[0])
        right = right.next(left, knots[1])
        return (left, right), (left, right)

    def first(rows: jax.Array) -> jax.Array:
        return rows[:rounds]

    below = taus < 0.5
    from_left = _Knot(*map(first, (depths, heights, below)))
    from_right = _Knot(*map(first, (depths[::-1], heights[::-1], ~below[::-1])))
    ends = asymptote(0, min(1, n - 1)), asymptote(n - 1, max(n - 2, 0))
    _, (lefts, rights) = lax.scan(inward, ends, (from_left, from_right), unroll=rounds <= 8)
    rest = jnp.zeros_like(heights[rounds:])
    left_heights = jnp.concatenate([lefts.height, rest])
    right_heights = jnp.concatenate([rights.height, rest])[::-1]
    return _by_side(jnp.moveaxis(left_heights, 0, -1), jnp.moveaxis(right_heights, 0, -1), taus)


class _Knot(NamedTuple):
    """A knot as its side sees it; where `is_here` is false it belongs to the other side."""

    depth: jax.Array
    height: jax.Array
    is_here: jax.Array


class _Outer(NamedTuple):
    """A side's innermost point so far: its distance from the mean, the height there, and the slope
    that led to it.
    """

    depth: jax.Array
    height: jax.Array
    slope: jax.Array

    def next(self, other: "_Outer", knot: _Knot) -> "_Outer":
        """The next knot inward, at a height that leaves the function convex.

        It is not below the lines that led to both sides' points, nor above the chord between these.
        """
        depth, height = knot.depth, knot.height
        run, width = self.depth - depth, self.depth + other.depth
        least = jnp.maximum(
            self.height + self.slope * run,
            other.height + other.slope * (other.depth + depth) - depth,
        )
        most = self.height + run * (other.height + other.depth - self.height) / jnp.where(
            width > 0, width, 1
        )
        # Where rounding leaves no room between the two, the chord decides: lines would carry the
        # error outward.
        height = jnp.minimum(jnp.maximum(height, least), most)
        slope = jnp.where(run > 0, (height - self.height) / jnp.where(run > 0, run, 1), self.slope)
        return _Outer(
            jnp.where(knot.is_here, depth, self.depth),
            jnp.where(knot.is_here, height, self.height),
            jnp.where(knot.is_here, slope, self.slope),
        )


def _neighbours(keep: jax.Array) -> tuple[jax.Array, jax.Array]:
    """For each knot the index of the last kept one at or before it (-1: none) and of the first at
    or after (n).
    """
    n = keep.shape[-1]
    index = jnp.arange(n)
    before = lax.cummax(jnp.where(keep, index, -1), axis=keep.ndim - 1)
    after = lax.cummin(jnp.where(keep, index, n), axis=keep.ndim - 1, reverse=True)
    return before, after


def _lower_hull(x: jax.Array, p: jax.Array, q: jax.Array, reach: float) -> jax.Array:
    """Which knots are vertices of the greatest convex minorant with the two asymptotes: a mask
    [..., n].

    A knot above the chord of its neighbours is no vertex, whatever else is; so all such knots go at
    once, and again until none is left. Consistent values need no pass, others about log n.
    """
    n = x.shape[-1]

    def above_chord(keep: jax.Array) -> jax.Array:
        before, after = _neighbours(keep)
        pad = [(0, 0)] * (x.ndim - 1)
        before = jnp.pad(before[..., :-1], [*pad, (1, 0)], constant_values=-1)
        after = jnp.pad(after[..., 1:], [*pad, (0, 1)], constant_values=n)
        a, b = jnp.clip(before, 0, n - 1), jnp.clip(after, 0, n - 1)

        def slope(i: jax.Array, j: jax.Array) -> jax.Array:
            take = jnp.take_along_axis
            return (take(p, j, -1) - take(p, i, -1)) / (take(x, j, -1) - take(x, i, -1))

        here = jnp.broadcast_to(jnp.arange(n), x.shape)
        # 0/0 for repeated knots is NaN, which compares as false: equal knots are both kept.
        arriving = jnp.where(before < 0, p / reach, slope(a, here))
        leaving = jnp.where(after >= n, 1 - q / reach, slope(here, b))
        return keep & (arriving > leaving)

    def drop(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        keep, above = state
        keep = keep & ~above
        return keep, above_chord(keep)

    everything = x == x  # all true, but not a constant: XLA would spend seconds on folding those
    state = (everything, above_chord(everything))
    return lax.while_loop(lambda state: jnp.any(state[1]), drop, state)[0]
