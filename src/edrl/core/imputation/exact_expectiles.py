"""Exact expectile imputation in closed form: expectiles are points of the integrated CDF, imputing
is interpolating.

Let P(x) = E[(x - Z)+], the integrated CDF: convex, with slope F in [0, 1], asymptotic to 0 on the
left and to x - m on the right, m = E[Z]. The first-order condition of the tau-expectile e (Equation
(7)) reads

    P(e) = tau (e - m) / (2 tau - 1)    for tau != 1/2,    and    m = e_{1/2}.

So K expectiles are the mean and K-1 points ("knots") on the graph of P, and any convex function
through the knots with the right asymptotes is the integrated CDF of a distribution with exactly
those expectiles. Its slope jumps are the masses: a jump d at a knot may stay there or be shared
between the two neighbouring gaps; the shares that meet in a gap may move towards each other, or
meet at their barycentre, which leaves P at the knots as it was. K atoms, or a pair for each; no
iteration.

Values that are the expectiles of no distribution are repaired first; the mean is always kept.
"""

from typing import Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from edrl.core.imputation.expectile_repair import chord_slopes, repaired
from edrl.core.order import sorted_rows
from edrl.core.particles import Particles
from edrl.core.types import Array, Float, ValuesLike

Rule: TypeAlias = Literal["midpoint", "knots", "spline", "pairs"]

NEAR_HALF = 2.0**-28
"""A level this close to 1/2, |2 tau - 1|, says nothing but the mean: beyond it P would be all
rounding error.
"""

_APART = (
    3**-0.5
)  # a share so far from where two meet varies as if it were spread evenly from its knot to there


def impute_expectiles(
    values: jax.Array, taus: Float[Array, " K"], mean_at: int | None, rule: Rule = "pairs"
) -> Particles:
    """A distribution with the expectiles `values [..., K]` at `taus [K]`: K atoms (K+1 without a
    mean) or pairs.

    `mean_at` is the place of the level 1/2; without one, the mean is chosen among those that are
    possible.
    """
    taus = jnp.asarray(taus, values.dtype)
    if values.shape[-1] == 1:
        return Particles(values, jnp.ones_like(values))
    if mean_at is None:
        mean, knots = feasible_mean(values, taus), values
    else:
        mean, knots, taus = values[..., mean_at], _without(values, mean_at), _without(taus, mean_at)

    # A quarter of the values cannot overflow when subtracted; powers of two scale without rounding,
    # so nothing below depends on the units of the return.
    centre = mean[..., None] / 4
    x = knots / 4 - centre
    scale = power_of_two(jnp.max(jnp.abs(x), axis=-1, keepdims=True))
    reach = float(jnp.finfo(values.dtype).eps) ** -0.5
    atoms, probs = _interpolate(x / scale, taus, mean_at, rule, reach)
    limit = float(jnp.finfo(values.dtype).max) / 4
    return Particles(4 * jnp.clip(centre + scale * atoms, -limit, limit), probs)


class Curve(NamedTuple):
    """A convex function through knots: what is needed of P and P - x."""

    x: jax.Array  # [..., n], the knots
    p_first: jax.Array  # [..., 1], P at the first knot
    q_last: jax.Array  # [..., 1], P - x at the last
    slopes: jax.Array  # [..., n + 1], of the chords; before and after all knots, of F


def _interpolate(
    x: jax.Array, taus: jax.Array, num_below: int | None, rule: Rule, reach: float
) -> tuple[jax.Array, jax.Array]:
    """Atoms and probs of mean 0 from centred knots x, at most 1 in size."""
    return place_atoms(_convex_curve(x, taus, num_below, reach), jnp.sign(taus - 0.5), rule)


def place_atoms(curve: Curve, side: jax.Array, rule: Rule) -> tuple[jax.Array, jax.Array]:
    """Atoms and probs of mean 0 of a distribution whose integrated CDF goes through the knots.

    `side [n]` is -1 for knots below the mean and 1 for those above.
    """
    x, slopes = curve.x, curve.slopes
    jumps = jnp.diff(slopes, axis=-1)
    leftward = _share_to_the_left(x, slopes, side, rule)
    to_left, to_right = leftward * jumps, (1 - leftward) * jumps

    # Tails: the tangents at the outermost knots meet the asymptotes at x - P/F and x + (P-x)/(1-F).
    mass_left = slopes[..., :1] + to_left[..., :1]
    mass_right = (1 - slopes[..., -1:]) + to_right[..., -1:]
    tail_left = x[..., :1] - curve.p_first / jnp.where(mass_left > 0, mass_left, 1)
    tail_right = x[..., -1:] + curve.q_last / jnp.where(mass_right > 0, mass_right, 1)

    from_left, from_right = to_right[..., :-1], to_left[..., 1:]
    # Knots in line leave no mass in their gap but rounding errors, which must not place its atoms.
    nothing = float(jnp.finfo(x.dtype).eps) ** 0.75
    meeting = _share(from_right, from_left, nothing)
    inner = x[..., :-1] + meeting * jnp.diff(x, axis=-1)
    atoms = jnp.concatenate([tail_left, inner, tail_right], axis=-1)
    if (
        rule == "pairs" and x.shape[-1] > 2
    ):  # of two knots, nearly all mass is in the tails: measured worse there
        # Each share turns back towards where it came from. A tail is as long beyond its atom as
        # before it.
        first = jnp.concatenate([2 * tail_left - x[..., :1], x], axis=-1)
        last = jnp.concatenate([x, 2 * tail_right - x[..., -1:]], axis=-1)
        pairs = [atoms - _APART * (atoms - first), atoms + _APART * (last - atoms)]
        shares = [
            jnp.concatenate([mass_left / 2, part, mass_right / 2], axis=-1)
            for part in (from_left, from_right)
        ]
        atoms, probs = _interleaved(pairs), _interleaved(shares)
    else:
        probs = jnp.concatenate([mass_left, from_left + from_right, mass_right], axis=-1)
    # The shares add up to the jumps, and the jumps from 0 to 1: only rounding is left of the mean.
    return atoms - jnp.sum(probs * atoms, axis=-1, keepdims=True), probs


def _convex_curve(x: jax.Array, taus: jax.Array, num_below: int | None, reach: float) -> Curve:
    """The knots as they are where they lie on a convex function, and repaired where they do not.

    `reach` bounds how far beyond the outermost knot an atom may lie. Consistent values ask for more
    only if they carry no digits about the tail; inconsistent ones would otherwise send an atom to
    infinity.
    """
    side = jnp.sign(taus - 0.5)
    p_ratio, q_ratio = height_ratios(taus)
    slopes = chord_slopes(x, p_ratio * x, q_ratio * x, reach)
    consistent = are_expectiles(x, slopes, side)
    as_it_is = Curve(x, p_ratio[:1] * x[..., :1], q_ratio[-1:] * x[..., -1:], slopes)

    def mend(x: jax.Array) -> Curve:
        knots = side * jnp.maximum(side * sorted_rows(x), 0)
        return Curve(
            knots, *repaired(knots, p_ratio * knots, q_ratio * knots, taus, num_below, reach)
        )

    def mend_all() -> Curve:
        """Row by row: what is consistent stays as it is, whatever else is in the batch."""
        pairs = zip(as_it_is, mend(x), strict=True)
        return Curve(*(jnp.where(consistent[..., None], old, new) for old, new in pairs))

    def mend_few() -> Curve:
        """Only the rows that need it, so that the others do not pay for them."""
        (rows,) = jnp.nonzero(~consistent.ravel(), size=few, fill_value=consistent.size)
        moved = mend(x.reshape(-1, x.shape[-1]).at[rows].get(mode="fill", fill_value=0))
        return Curve(
            *(_with_rows(old, rows, new) for old, new in zip(as_it_is, moved, strict=True))
        )

    few = consistent.size // 8

    def mended() -> Curve:
        if few == 0:
            return mend_all()
        found: Curve = lax.cond(jnp.sum(~consistent) <= few, mend_few, mend_all)
        return found

    found: Curve = lax.cond(jnp.all(consistent), lambda: as_it_is, mended)
    return found


def _with_rows(whole: jax.Array, rows: jax.Array, new: jax.Array) -> jax.Array:
    """`whole [..., n]` with some of its rows replaced; a row beyond the last one is none."""
    flat = whole.reshape(-1, whole.shape[-1])
    return flat.at[rows].set(new, mode="drop").reshape(whole.shape)


def height_ratios(taus: jax.Array) -> tuple[jax.Array, jax.Array]:
    """P / x and (P - x) / x at the knots."""
    return taus / _twice_from_half(taus), (1 - taus) / _twice_from_half(taus)


def are_expectiles(
    x: jax.Array, slopes: jax.Array, side: jax.Array, slack: float = 0.0
) -> jax.Array:
    """Whether centred knots are expectiles, by the slopes of their chords (Theorem 1 of
    docs/exact-imputation.md). Slopes may fall by `slack`, for rounding.
    """
    in_order = jnp.all(jnp.diff(x, axis=-1) > 0, axis=-1) & jnp.all(side * x >= 0, axis=-1)
    return in_order & jnp.all(jnp.diff(slopes, axis=-1) >= -slack, axis=-1)


def _twice_from_half(taus: jax.Array) -> jax.Array:
    """2 tau - 1, kept away from 0: P / x at a knot is tau / (2 tau - 1), (P - x) / x is (1 - tau) /
    (2 tau - 1).
    """
    distance = 2 * taus - 1
    least = float(jnp.finfo(taus.dtype).eps) ** 0.5 / 4
    return jnp.where(distance < 0, jnp.minimum(distance, -least), jnp.maximum(distance, least))


def _share_to_the_left(x: jax.Array, slopes: jax.Array, side: jax.Array, rule: Rule) -> jax.Array:
    """The share of each knot's jump that goes to the gap on its left: where F lies between the two
    chords.
    """
    n = x.shape[-1]
    if rule == "knots" and n > 1:
        # Outer jumps go outward, where the tails need mass; all others then fall on knots by
        # themselves.
        return jnp.where(jnp.arange(n) < n // 2, 1.0, 0.0).astype(x.dtype)
    half = jnp.full_like(x, 0.5)
    if rule == "midpoint" or n <= 2:
        return half
    gaps = jnp.diff(x, axis=-1)
    inner = _share(gaps[..., :-1], gaps[..., 1:])
    if rule == "pairs":
        # The parabola's slope at its outer ends, but at least half of the outer chord's mass goes
        # to the tail.
        jumps = jnp.diff(slopes, axis=-1)
        left = 1 - _at_most_half(inner[..., 0] * jumps[..., 1], jumps[..., 0])
        right = _at_most_half((1 - inner[..., -1]) * jumps[..., -2], jumps[..., -1])
        return jnp.concatenate([left[..., None], half[..., 1:-1], right[..., None]], axis=-1)
    if rule == "spline":
        # A weighted harmonic mean of the two chords' masses below (beyond the mean: above) is
        # nearer to the smaller.
        below = side[1:-1] < 0
        one, other = slopes[..., 1:-2], slopes[..., 2:-1]
        one, other = jnp.where(below, one, 1 - one), jnp.where(below, other, 1 - other)
        inner = _share((1 + inner) * one, (2 - inner) * other)
    return jnp.concatenate([half[..., :1], inner, half[..., -1:]], axis=-1)


def _at_most_half(part: jax.Array, whole: jax.Array) -> jax.Array:
    """part / whole, but at most 1/2."""
    return jnp.where(2 * part < whole, part / jnp.where(whole > 0, whole, 1), 0.5)


def _share(one: jax.Array, other: jax.Array, nothing: float = 0.0) -> jax.Array:
    """one / (one + other), and 1/2 where both together are nothing."""
    both = one + other
    return jnp.where(both > nothing, one / jnp.where(both > nothing, both, 1), 0.5)


def _interleaved(parts: list[jax.Array]) -> jax.Array:
    """Entries of [..., n] arrays by turns, [..., len(parts) * n]."""
    stacked = jnp.stack(parts, axis=-1)
    return stacked.reshape(*stacked.shape[:-2], -1)


def _without(x: jax.Array, place: int) -> jax.Array:
    """All entries along the last axis but the one at `place`."""
    return jnp.concatenate([x[..., :place], x[..., place + 1 :]], axis=-1)


def feasible_mean(values: ValuesLike, taus: Float[Array, " K"]) -> jax.Array:
    """The mean [...] when no tau is 1/2 (K >= 2): the middle of the interval that convexity leaves
    for it.

    The knots' heights P_i(m) are affine in m, so every condition on the chord slopes, 0 <= s_1 <=
    ... <= 1, is one linear inequality in m. Bounds are loosened by their own rounding error, so
    that a well-determined one decides.
    """
    values, taus = jnp.sort(jnp.asarray(values), axis=-1), jnp.asarray(taus, values.dtype)
    # Work around the values next to the mean: small numbers, no digits lost to an offset.
    nearest = jnp.take(values, jnp.argmin(jnp.abs(taus - 0.5)), axis=-1)[..., None]
    x = values - nearest
    spread = power_of_two(x[..., -1:] - x[..., :1])
    x = x / spread
    lower, upper = _bounds_of_mean(x, taus, jnp.abs(values) / spread)
    # The mean lies between the expectiles below and above 1/2, where those exist.
    box_low = jnp.max(jnp.where(taus < 0.5, x, -jnp.inf), axis=-1)
    box_high = jnp.min(jnp.where(taus < 0.5, jnp.inf, x), axis=-1)
    lowest, highest = jnp.maximum(lower, box_low), jnp.minimum(upper, box_high)
    # With all taus on one side and all values equal, only the box's own edge is left: a Dirac.
    lowest = jnp.where(jnp.isfinite(lowest), lowest, highest)
    highest = jnp.where(jnp.isfinite(highest), highest, lowest)
    middle = jnp.clip((lowest + highest) / 2, box_low, box_high)
    return nearest[..., 0] + spread[..., 0] * middle


def _bounds_of_mean(
    x: jax.Array, taus: jax.Array, size_of_values: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The least and the greatest mean for which the chords' slopes increase from 0 to 1."""
    ratio = taus / _twice_from_half(taus)
    gap = jnp.diff(x, axis=-1)
    safe = jnp.where(gap > 0, gap, 1)
    # s_i(m) = constant_i - slope_i * m for the chords, between the asymptotes' 0 and 1.
    constant = _padded(jnp.diff(ratio * x, axis=-1) / safe, 0, 1)
    slope = _padded(jnp.diff(ratio) / safe, 0, 0)
    flat = _padded(gap <= 0, False, False)
    # What one rounding of the values does to a chord: through its rise, and through its run.
    moves = (jnp.abs(ratio) + 1) * jnp.maximum(jnp.abs(x), size_of_values)
    size = _padded((moves[..., 1:] + moves[..., :-1]) / safe, 1, 1)
    usable = ~(flat[..., 1:] | flat[..., :-1])
    # Each condition: alpha - beta * m >= 0.
    alpha, beta = jnp.diff(constant, axis=-1), jnp.diff(slope, axis=-1)
    noise = 2 * float(jnp.finfo(x.dtype).eps) * (size[..., 1:] + size[..., :-1])
    tiny = float(jnp.finfo(x.dtype).tiny)
    divisor = jnp.where(jnp.abs(beta) > tiny, beta, 1)
    bound, slack = alpha / divisor, noise / jnp.abs(divisor)
    upper = jnp.where(usable & (beta > tiny), bound + slack, jnp.inf)
    lower = jnp.where(usable & (beta < -tiny), bound - slack, -jnp.inf)
    return jnp.max(lower, axis=-1), jnp.min(upper, axis=-1)


def _padded(x: jax.Array, before: float, after: float) -> jax.Array:
    """`x` with a number before and after it along its last axis."""
    ends = [(0, 0)] * (x.ndim - 1)
    return jnp.pad(x, [*ends, (1, 1)], constant_values=[*ends, (before, after)])


def power_of_two(x: jax.Array) -> jax.Array:
    """The power of two next above x > 0, and 1 for x = 0 (or where x is not finite)."""
    x = lax.stop_gradient(x)
    exponent = jnp.frexp(jnp.where(jnp.isfinite(x) & (x > 0), x, 0.5))[1]
    info = jnp.finfo(x.dtype)
    return jnp.ldexp(jnp.ones_like(x), jnp.clip(exponent, info.minexp + 2, info.maxexp - 1))
