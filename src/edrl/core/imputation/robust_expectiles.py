"""Robust expectile imputation: smooth the expectiles, also between their levels, and impute from
the smooth curve.

Exact imputation believes every value. Here each is taken with its noise, whose level is known or
estimated (`smoothing`). Where the smooth curve is still not one of expectiles, its knots are
lowered onto chords (`_lowered`).
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from edrl.core.imputation.exact_expectiles import (
    NEAR_HALF,
    Curve,
    are_expectiles,
    height_ratios,
    impute_expectiles,
    place_atoms,
    power_of_two,
)
from edrl.core.imputation.expectile_repair import chord_slopes
from edrl.core.imputation.smoothing import (
    Smoother,
    expectile_curves,
    noise_shapes,
    smoothed,
    smoother,
)
from edrl.core.jit import jit
from edrl.core.particles import Particles
from edrl.core.types import Array, Bool, Float, Int, ValuesLike

_GAPS = 20
"""So many gaps between levels are aimed at. With fewer the result depends more on the rule."""
_REACH = 128.0
"""How far from the mean a tail may end, in units of the values' size."""
_ROUNDS = 1
"""How often knots are lowered onto chords, from long chords to short ones. More change little."""


class Plan(NamedTuple):
    """What depends on the levels alone."""

    smoother: Smoother
    """Its targets are the knots and the mean."""
    taus: Float[Array, " n"]
    """The knots' levels: increasing, without 1/2."""
    own: Int[np.ndarray, " m"]
    """Which values are knots, in the order of their levels."""
    own_taus: Float[Array, " m"]

    def cast(self, dtype: np.dtype) -> "Plan":
        """With numbers of this kind. Compiled functions must not meet float64 in float32's world."""
        plan: Plan = jax.tree.map(lambda part: part.astype(dtype), self)
        return plan._replace(own=self.own.astype(np.int32))


class Belief(NamedTuple):
    """How far values are to be believed, and what else is known of the distribution."""

    noise: float | None
    """The largest standard deviation of a value; None if it is to be estimated."""
    shape: tuple[float, ...] | None
    """How the values' standard deviations compare, 1 for the largest; None if that is not known."""
    keep_mean: bool
    support: tuple[float, float] | None

    @classmethod
    def of(
        cls,
        noise: float | Sequence[float] | Float[np.ndarray, " K"] | None,
        size: int,
        mean_at: int | None,
        keep_mean: bool,
        support: tuple[float, float] | None,
    ) -> "Belief":
        """As `robust_expectiles` is told; a value with a noise of its own is not kept."""
        keep_mean = keep_mean and mean_at is not None
        if noise is None:
            return cls(None, None, keep_mean, support)
        each = np.broadcast_to(np.asarray(noise, np.float64), size)
        most = float(each.max())
        own = np.ndim(noise) > 0 and keep_mean and each[mean_at] > 0
        shape = tuple((each / (most or 1)).tolist())
        return cls(most, shape, keep_mean and not own, support)

    def within(self, mu: Particles) -> Particles:
        """The distribution on the support: atoms outside are put on its ends, and all are drawn to
        one end as far as the mean asks for.
        """
        if self.support is None:
            return mu
        low, high = self.support
        mean = jnp.clip(jnp.sum(mu.atoms * mu.probs, axis=-1, keepdims=True), low, high)
        atoms = jnp.clip(mu.atoms, low, high)
        now = jnp.sum(atoms * mu.probs, axis=-1, keepdims=True)
        end = jnp.where(now < mean, high, low)
        way = jnp.where(end != now, (mean - now) / jnp.where(end != now, end - now, 1), 0)
        return Particles(atoms + jnp.clip(way, 0, 1) * (end - atoms), mu.probs)


@functools.lru_cache(maxsize=64)
def plan_for(levels: tuple[float, ...], noise: tuple[float, ...] | None = None) -> Plan:
    """A plan for levels that are known, in any order and as often as one likes.

    Few levels get others between them, evenly in log(tau / (1 - tau)). `noise` tells how the
    values' standard deviations compare, 1 for the largest; None if that is not known.
    """
    taus = np.asarray(levels, np.float64)
    is_half = np.abs(2 * taus - 1) <= NEAR_HALF
    own_taus, first = np.unique(np.where(is_half, 0.5, taus), return_index=True)
    knots = own_taus != 0.5
    more = _between(own_taus)
    own = first[knots]
    mean = len(taus) + len(more) if not is_half.any() else int(np.argmax(is_half))
    found = smoother(
        expectile_curves(taus),
        expectile_curves(np.append(more, 0.5)),
        noise_shapes(taus) if noise is None else np.asarray([noise], np.float64),
    )
    all_taus = np.concatenate([own_taus[knots], more])
    places = np.concatenate([own, len(taus) + np.arange(len(more))]).astype(int)
    order = np.argsort(all_taus)
    rows = np.append(places[order], mean)
    return Plan(found.at(rows), all_taus[order], own, own_taus[knots])


def _between(taus: Float[np.ndarray, " n"]) -> Float[np.ndarray, " m"]:
    """Levels between increasing ones, but none next to 1/2: heights of knots are all noise there."""
    parts = max(1, round(_GAPS / max(1, len(taus) - 1)))
    logits = np.log(taus / (1 - taus))
    ways = np.arange(1, parts) / parts
    inner = (logits[:-1, None] + ways * np.diff(logits)[:, None]).ravel()
    found = 1 / (1 + np.exp(-inner))
    return np.asarray(found[np.abs(found - 0.5) > 0.01])


def _plan_for_traced(
    taus: jax.Array, mean_at: int | None, noise: tuple[float, ...] | None = None
) -> Plan:
    """A plan for increasing levels that are not known before they are traced."""
    size = taus.shape[-1]
    own = np.array([place for place in range(size) if place != mean_at])
    half = jnp.full(1, 0.5, taus.dtype)
    curves = expectile_curves(taus, jnp), expectile_curves(half, jnp)
    shapes = noise_shapes(taus, jnp) if noise is None else jnp.asarray([noise], taus.dtype)
    found = smoother(*curves, shapes, jnp)
    rows = np.append(own, size if mean_at is None else mean_at)
    knots = taus[own]
    return Plan(found.at(rows), knots, own, knots)


def robust_expectiles(
    values: ValuesLike,
    taus: Sequence[float] | Float[np.ndarray, " K"],
    *,
    noise: float | Sequence[float] | Float[np.ndarray, " K"] | None = None,
    keep_mean: bool = True,
    support: tuple[float, float] | None = None,
) -> Particles:
    """A distribution whose expectiles are near `values [..., K]`, as far as these can be believed.

    Args:
        values: Noisy expectiles.
        taus: Their levels, in any order. A level may occur several times, and 1/2 may be missing.
        noise: The values' standard deviation, one for all or one for each, or None to estimate it
            for each row. Without noise the values are imputed exactly.
        keep_mean: Whether the mean is the value at 1/2, if there is one without a noise of its own.
        support: The least and the greatest possible return.
    """
    values, levels = jnp.asarray(values), tuple(float(tau) for tau in taus)
    halves = [place for place, tau in enumerate(levels) if abs(2 * tau - 1) <= NEAR_HALF]
    if len(levels) in (1, len(halves)):
        return Particles(jnp.mean(values, axis=-1, keepdims=True))
    mean_at = halves[0] if len(halves) == 1 else None
    believed = Belief.of(noise, len(levels), mean_at, keep_mean, support)
    if believed.noise == 0:
        return believed.within(_impute_exactly(values, levels, has_mean=mean_at is not None))
    plan = plan_for(levels, believed.shape).cast(values.dtype)
    return believed.within(_impute(values, plan, mean_at, believed.noise, believed.keep_mean))


def _impute_exactly(values: jax.Array, levels: tuple[float, ...], *, has_mean: bool) -> Particles:
    """Of values with the same level, the first is taken."""
    taus, first = np.unique(levels, return_index=True)
    mean_at = int(np.argmin(np.abs(taus - 0.5))) if has_mean else None
    return _exact_program(values[..., first], jnp.asarray(taus, values.dtype), mean_at)


_exact_program = jit(static="mean_at")(impute_expectiles)
"""One program for all levels: without it the loops of the repair were compiled for each call."""


def robust_at_traced_levels(
    values: jax.Array, taus: jax.Array, mean_at: int | None, believed: Belief
) -> Particles:
    """The same at increasing levels, K >= 2, that are not known before they are traced."""
    if believed.noise == 0:
        return believed.within(impute_expectiles(values, taus, mean_at))
    plan = _plan_for_traced(taus, mean_at, believed.shape).cast(values.dtype)
    return believed.within(_impute(values, plan, mean_at, believed.noise, believed.keep_mean))


@jit(static=("mean_at", "keep_mean"))
def _impute(
    values: jax.Array,
    plan: Plan,
    mean_at: int | None,
    noise: float | jax.Array | None,
    keep_mean: bool,
) -> Particles:
    """From values in the order of the plan's levels, with the mean at a place or at none."""
    # As in exact imputation: nothing overflows, and powers of two scale without rounding.
    centre = values[..., 0 if mean_at is None else mean_at][..., None] / 4
    x = values / 4 - centre
    scale = power_of_two(jnp.max(jnp.abs(x), axis=-1, keepdims=True))
    x = x / scale
    level = None if noise is None else noise / 4 / scale[..., 0]
    consistent = None if mean_at is None else _consistent(x, plan)
    curve = smoothed(x, plan.smoother, level, consistent)
    knots, mean = curve[..., :-1], curve[..., -1:]
    atoms, probs = atoms_through(knots - mean, jnp.asarray(plan.taus, x.dtype))
    if not keep_mean:
        atoms = atoms + mean
    limit = float(jnp.finfo(values.dtype).max) / 4
    return Particles(4 * jnp.clip(centre + scale * atoms, -limit, limit), probs)


def _consistent(x: jax.Array, plan: Plan) -> Bool[jax.Array, "*batch"]:
    """Whether values, centred at the mean among them, are expectiles up to rounding."""
    knots, taus = x[..., plan.own], jnp.asarray(plan.own_taus, x.dtype)
    p_ratio, q_ratio = height_ratios(taus)
    slopes = chord_slopes(knots, p_ratio * knots, q_ratio * knots, _REACH)
    rounding = float(jnp.finfo(x.dtype).eps) ** 0.5
    return are_expectiles(knots, slopes, jnp.sign(taus - 0.5), slack=rounding)


def atoms_through(knots: jax.Array, taus: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Atoms and probs of mean 0 from centred knots: exact where they are expectiles."""
    side = jnp.sign(taus - 0.5)
    x = _unless_in_order(knots, lambda: _sorted(knots))
    x = side * jnp.maximum(side * x, 0)
    p_ratio, q_ratio = height_ratios(taus)
    # A level that turns out to be 1/2 has no height: it is lowered onto its neighbours' chord.
    heights = jnp.where(side == 0, _REACH, jnp.where(side < 0, p_ratio, q_ratio) * x)
    heights = _lowered(x, heights)
    p, q = heights + jnp.maximum(x, 0), heights + jnp.maximum(-x, 0)
    slopes = chord_slopes(x, p, q, _REACH)
    slopes = jnp.clip(slopes, slopes[..., :1], slopes[..., -1:])
    # What is left of disorder must not cost a negative mass.
    slopes = _unless_in_order(slopes, lambda: lax.cummax(slopes, axis=slopes.ndim - 1))
    return place_atoms(Curve(x, p[..., :1], q[..., -1:], slopes), side, "pairs")


def _unless_in_order(x: jax.Array, ordered: Callable[[], jax.Array]) -> jax.Array:
    """What puts rows in order, which only takes its time if some row is not, as with much noise."""
    in_order = jnp.all(jnp.diff(x, axis=-1) >= 0)
    found: jax.Array = lax.cond(in_order, lambda: x, ordered)
    return found


def _sorted(x: jax.Array) -> jax.Array:
    """Sorted along the last axis, by counting: for so few numbers in half the time of `jnp.sort`."""
    index = np.arange(x.shape[-1])
    one, other = x[..., :, None], x[..., None, :]
    before = (other < one) | ((other == one) & (index < index[:, None]))
    rank = jnp.sum(before, axis=-1)
    return jnp.sum(jnp.where(rank[..., None, :] == index[:, None], other, 0), axis=-1)


def _lowered(x: jax.Array, heights: jax.Array) -> jax.Array:
    """Heights of P left of the mean and of P - x right of it, lowered where P is not convex.

    A knot above the chord of two others, one on each side, is moved onto it: first by long chords,
    then by ever shorter ones. This comes near the greatest convex minorant. Convex knots stay.
    """
    n = x.shape[-1]
    strides = [2**power for power in reversed(range(n.bit_length()))]
    most = strides[0]
    places = _padded(x, most, -_REACH, _REACH)
    for stride in strides * _ROUNDS:
        from_left, from_right = (
            slice(most - stride, most - stride + n),
            slice(most + stride, most + stride + n),
        )
        left, right = places[..., from_left], places[..., from_right]
        run = right - left
        weight = jnp.where(run > 0, (right - x) / jnp.where(run > 0, run, 1), 0.5)
        # Across the mean the two heights are measured from different lines.
        bend = jnp.where(
            x < 0, (1 - weight) * jnp.maximum(right, 0), weight * jnp.maximum(-left, 0)
        )
        around = _padded(heights, most, 0, 0)
        chord = weight * around[..., from_left] + (1 - weight) * around[..., from_right] + bend
        heights = jnp.minimum(heights, chord)
    return heights


def _padded(x: jax.Array, count: int, before: float, after: float) -> jax.Array:
    """`x` with so many numbers before and after it along its last axis."""
    ends = [(0, 0)] * (x.ndim - 1)
    return jnp.pad(x, [*ends, (count, count)], constant_values=[*ends, (before, after)])
