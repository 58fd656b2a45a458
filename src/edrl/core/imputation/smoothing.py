"""Smoothing of noisy statistics: the part of them that a broad prior over distributions can
explain.

The values of K statistics are taken for v = location + scale * (g + rho * noise). The curve g has
the second moments of a fixed library of distributions, and location and scale are free. Each ratio
rho of a grid has a marginal likelihood in closed form. The estimate is the posterior mean of the
curve, averaged over the grid with these likelihoods (ordinary kriging; ridge regression in the
eigenvectors of the library, with its penalty learnt from the values of the row alone).
"""

import functools
from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.types import Array, Float, Int

RATIOS = np.concatenate([[0.0, 1e-6, 1e-5], np.geomspace(1e-4, 1.0, 17)])
"""Standard deviations of the noise beside the values' spread, from none to as much as that."""


def noise_shapes(taus: Array, xp: ModuleType = np) -> Array:
    """The same noise at all levels, or more in the tails, as estimates from samples have it."""
    shapes: Array = xp.stack([xp.ones_like(taus), 0.5 / xp.sqrt(taus * (1 - taus))])
    return shapes


_LEAST_STRENGTH = 1e-9
_LEAST_NOISE = 1e-3  # of a value beside the others': values without any noise can be told so


class Smoother(NamedTuple):
    """What smoothing needs to know of the levels, the library and the S shapes that noise may have.

    Axes are directions of values, K of them for each shape: along the first K - 1 the library has
    certain variances and the noise has 1, the last is the location. All shapes stand side by side,
    and so do their R ratios, so that smoothing is four products of matrices.
    """

    into: Float[Array, "K SK"]
    """From values to the axes."""
    precisions: Float[Array, "SK SR"]
    """One over the variance of each axis with the noise of each ratio; 0 for locations."""
    volumes: Float[Array, " SR"]
    """The logarithm of the root of the variances' product."""
    kept: Float[Array, "SR SK"]
    """The share of each axis that is kept with each ratio; 1 for locations."""
    back: Float[Array, "SK n"]
    """From the axes to the curve at all targets; the first K of them are the statistics themselves.
    """

    def at(self, targets: Int[np.ndarray, " m"]) -> "Smoother":
        """With some of the targets only, in this order."""
        return self._replace(back=self.back[:, targets])


class Library(NamedTuple):
    """Distributions [L, n] of many shapes, sorted: what a distribution of returns may look like."""

    atoms: Float[np.ndarray, "L n"]
    probs: Float[np.ndarray, "L n"]


@functools.cache
def library(each: int = 128, size: int = 32) -> Library:
    """Two to eight atoms of any weights, and samples of normal, heavy-tailed and skewed densities."""
    rng = np.random.default_rng(7)

    def normal(*shape: int) -> np.ndarray:
        # Only uniform numbers are the same in every version of NumPy.
        radius = np.sqrt(-2 * np.log1p(-rng.random(shape)))
        return np.asarray(radius * np.cos(2 * np.pi * rng.random(shape)))

    few = [_few_atoms(rng, normal(each, size), counts) for counts in ((2, 3), (4, 6, 8))]
    samples = [normal(each, size) for _ in range(4)]
    shapes = [samples[0], np.sinh(samples[1]), np.exp(samples[2]), -np.exp(samples[3])]
    even = np.full((each, size), 1 / size)
    atoms = np.concatenate([*(atoms for atoms, _ in few), *shapes])
    probs = np.concatenate([*(probs for _, probs in few), *(even for _ in shapes)])
    order = np.argsort(atoms, axis=-1)
    return Library(np.take_along_axis(atoms, order, -1), np.take_along_axis(probs, order, -1))


def _few_atoms(
    rng: np.random.Generator, atoms: np.ndarray, counts: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Weights evenly distributed on the simplex of so many atoms, by turns; the rest weighs 0."""
    count = np.resize(counts, len(atoms))[:, None]
    weights = np.where(np.arange(atoms.shape[-1]) < count, -np.log1p(-rng.random(atoms.shape)), 0)
    return atoms, weights / weights.sum(axis=-1, keepdims=True)


def expectile_curves(taus: Float[Array, " n"], xp: ModuleType = np) -> Float[Array, "L n"]:
    """The library's expectiles: where (1 - tau) E[(e - Z)+] - tau E[(Z - e)+] crosses 0."""
    atoms, probs = library()
    gaps, mass = np.diff(atoms, axis=-1), np.cumsum(probs, axis=-1)[:, :-1]
    start = np.zeros_like(atoms[:, :1])
    below = np.concatenate([start, np.cumsum(mass * gaps, axis=-1)], axis=-1)
    above = np.cumsum(((1 - mass) * gaps)[:, ::-1], axis=-1)[:, ::-1]
    above = np.concatenate([above, start], axis=-1)
    levels = below / (below + above)
    place = xp.sum(levels[:, :, None] <= taus, axis=1) - 1
    place = xp.clip(place, 0, atoms.shape[-1] - 2)

    def at(numbers: np.ndarray, place: Array) -> Array:
        found: Array = xp.take_along_axis(xp.asarray(numbers), place, axis=-1)
        return found

    def excess(place: Array) -> Array:
        return (1 - taus) * at(below, place) - taus * at(above, place)

    before, after = excess(place), excess(place + 1)
    rise = xp.where(after > before, after - before, 1)
    left, right = at(atoms, place), at(atoms, place + 1)
    found: Array = left - before / rise * (right - left)
    return found


def smoother(own: Array, others: Array, shapes: Array, xp: ModuleType = np) -> Smoother:
    """From the library's statistics `own [L, K]` and its other targets [L, m], K >= 2.

    `shapes [S, K]` tell how the values' standard deviations may compare. With `xp=jax.numpy`
    everything may be traced.
    """
    into, precisions, volumes, kept, back = zip(
        *(_smoother(own, others, shape, xp) for shape in shapes), strict=True
    )
    return Smoother(
        xp.concatenate(into, axis=1),
        _block_diagonal(precisions, xp),
        xp.concatenate(volumes),
        _block_diagonal(kept, xp),
        xp.concatenate(back),
    )


def _block_diagonal(blocks: tuple[Array, ...], xp: ModuleType) -> Array:
    """Matrices of one shape as the blocks of one matrix."""
    count = len(blocks)
    shares = np.eye(count)
    rows = [
        xp.concatenate([shares[i, j] * blocks[i] for j in range(count)], 1) for i in range(count)
    ]
    whole: Array = xp.concatenate(rows)
    return whole


def _smoother(own: Array, others: Array, noise: Array, xp: ModuleType) -> Smoother:
    """For one shape of the noise."""
    size = own.shape[-1]
    noise = xp.maximum(noise, _LEAST_NOISE * xp.max(noise))
    average = noise**-2 / xp.sum(noise**-2)
    contrasts = np.linalg.qr(np.eye(size) - 1 / size)[0][:, : size - 1]
    factor = xp.linalg.cholesky((contrasts * (noise**2)[:, None]).T @ contrasts)
    whitened = contrasts @ xp.linalg.inv(factor).T

    location = xp.sum(average * own, axis=-1, keepdims=True)
    spread = xp.sqrt(xp.mean((own @ contrasts) ** 2, axis=-1, keepdims=True))
    spread = xp.where(spread > 0, spread, 1)
    seen = own @ whitened / spread
    strengths, axes = xp.linalg.eigh(seen.T @ seen / len(own))
    strengths = xp.maximum(strengths, _LEAST_STRENGTH * xp.maximum(xp.max(strengths), 1))

    # The same without rounding for the statistics themselves: what is not shrunk stays as it is.
    itself = (contrasts - average @ contrasts) @ factor @ axes
    predicted = ((others - location) / spread).T @ (seen @ axes) / len(own) / strengths
    variances = strengths[:, None] + RATIOS**2
    nothing, everything = xp.zeros((1, len(RATIOS))), xp.ones((len(RATIOS), 1))
    return Smoother(
        xp.concatenate([whitened @ axes, average[:, None]], axis=1),
        xp.concatenate([1 / variances, nothing]),
        xp.sum(xp.log(variances), axis=0) / 2 + xp.sum(xp.log(xp.diagonal(factor))),
        xp.concatenate([(strengths[:, None] / variances).T, everything], axis=1),
        _with_location(itself, predicted, xp),
    )


def _with_location(itself: Array, predicted: Array, xp: ModuleType) -> Array:
    """From the axes and the location, which every target has, to all targets."""
    curve = xp.concatenate([itself, predicted]).T
    back: Array = xp.concatenate([curve, xp.ones_like(curve[:1])])
    return back


def smoothed(
    values: jax.Array,
    by: Smoother,
    noise: jax.Array | None = None,
    consistent: jax.Array | None = None,
) -> jax.Array:
    """The posterior mean [..., n] of the curve at all targets.

    `noise [...]` is by how much the noise exceeds its shape, or None to estimate it. Values that
    are `consistent [...]` without smoothing speak against noise: with noise alone, each condition
    between neighbours holds about half of the time.
    """
    into, precisions, volumes, kept, back = (jnp.asarray(part, values.dtype) for part in by)
    free = values.shape[-1] - 1
    axes = values @ into
    tiny = float(jnp.finfo(values.dtype).tiny)
    squares = jnp.maximum(jnp.square(axes) @ precisions, tiny)
    ratios = np.tile(RATIOS, squares.shape[-1] // len(RATIOS))
    if noise is None:
        fit = -free / 2 * jnp.log(squares)
    else:
        # The scale is noise / ratio. Without any noise only the ratio 0 is left.
        told = jnp.asarray(ratios, values.dtype)
        scaled = squares * (told / jnp.maximum(noise, tiny)[..., None]) ** 2
        fit = free * jnp.log(jnp.maximum(told, tiny)) - scaled / 2
    likelihoods = fit - volumes
    if consistent is not None:
        odds = jnp.asarray((free - 1) * np.log(2.0) * (ratios == 0), values.dtype)
        likelihoods = likelihoods + jnp.where(consistent[..., None], odds, 0)
    return (axes * (jax.nn.softmax(likelihoods) @ kept)) @ back
