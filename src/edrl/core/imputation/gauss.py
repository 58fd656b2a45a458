"""Imputation of moments by Gauss quadrature: the fewest atoms that have them, in closed form."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.particles import Particles
from edrl.core.types import ValuesLike


def gauss_quadrature(values: ValuesLike) -> Particles:
    """n = ceil((K + 1) / 2) atoms with the raw moments E[Z], ..., E[Z^K] (values [..., K]), by
    Golub and Welsch.

    The n atoms have 2n - 1 moments. For even K there is one moment to spare: the last diagonal
    coefficient of the Jacobi matrix is then the mean of those before it, so that K = 2 gives mean -
    std and mean + std.

    Total: where moments stop being those of any distribution (or of any with more atoms), the
    quadrature stops too, with fewer atoms that have the moments before; the rest have probability
    zero. A variance that is not positive gives a point mass. The mean is always met.

    Conditioning: atoms and weights are an ill-conditioned function of raw moments, but their
    moments come back. Measured on random distributions on [-1, 1] with 2 to 200 atoms: in float64
    to 1e-8 of E|Z|^k for all up to K = 21 (for 98 % at K = 31), in float32 to 1e-4 up to K = 11.
    Shifted by 10, where all but the leading digits of a raw moment only repeat the mean, to 1e-9 up
    to K = 13; of a k-th *central* moment such input never held more than eps (|mean| / std)^k.
    """
    values = jnp.asarray(values)
    mean, std, moments, rounding = _standardise(values)
    diagonal, beside = _recurrence(moments, rounding)
    n = diagonal.shape[-1]
    index = jnp.arange(n - 1)
    jacobi = diagonal[..., None] * jnp.eye(n, dtype=values.dtype)
    jacobi = jacobi.at[..., index, index + 1].set(beside).at[..., index + 1, index].set(beside)
    nodes, vectors = jnp.linalg.eigh(jacobi)
    probs = vectors[..., 0, :] ** 2
    probs = probs / jnp.sum(probs, axis=-1, keepdims=True)
    nodes = nodes - jnp.sum(probs * nodes, axis=-1, keepdims=True)
    atoms = mean[..., None] + std[..., None] * nodes
    sound = jnp.all(jnp.isfinite(atoms) & jnp.isfinite(probs), axis=-1, keepdims=True)
    return Particles(jnp.where(sound, atoms, mean[..., None]), jnp.where(sound, probs, 1 / n))


def _powers(base: jax.Array, most: int) -> jax.Array:
    """base^0, ..., base^most along a new last axis."""
    repeated = jnp.repeat(base[..., None], most, axis=-1)
    return jnp.concatenate(
        [jnp.ones_like(base)[..., None], jnp.cumprod(repeated, axis=-1)], axis=-1
    )


def _standardise(values: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """The mean, the standard deviation, and moments 0..K of (Z - mean) / std with a bound of their
    rounding.
    """
    size, dtype = values.shape[-1], values.dtype
    mean = values[..., 0]
    if size == 1:
        return (
            mean,
            jnp.zeros_like(mean),
            _powers(jnp.zeros_like(mean), 1),
            jnp.zeros((*mean.shape, 2), dtype),
        )
    # In units of a power of two near sqrt(E[Z^2]): exact, and nothing that is sane overflows from
    # here on.
    square = values[..., 1]
    unit = jnp.exp2(jnp.round(jnp.log2(jnp.where(square > 0, square, 1)) / 2))
    scaled = values
    for power in range(size):
        scaled = scaled.at[..., power:].divide(unit[..., None])
    scaled = jnp.concatenate([jnp.ones_like(mean)[..., None], scaled], axis=-1)

    order = np.arange(size + 1)
    binomials = np.array([[math.comb(j, i) for i in order] for j in order], float)  # zero for i > j
    shifts = _powers(-scaled[..., 1], size)[..., np.maximum(order[:, None] - order, 0)]
    terms = jnp.asarray(binomials, dtype) * shifts * scaled[..., None, :]
    central = jnp.sum(terms, axis=-1)
    rounding = size * jnp.finfo(dtype).eps * jnp.sum(jnp.abs(terms), axis=-1)
    variance = jnp.where(central[..., 2] > rounding[..., 2], central[..., 2], 0)
    scale = _powers(jnp.where(variance > 0, jnp.sqrt(variance), 1), size)
    return mean, unit * jnp.sqrt(variance), central / scale, rounding / scale


def _recurrence(moments: jax.Array, rounding: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The Jacobi matrix of the polynomials orthogonal under moments 0..K: its diagonal [..., n] and
    the one beside.

    By elimination in the Hankel matrix of the moments, whose j-th pivot is the squared norm of the
    monic polynomial of degree j. A pivot that is not above rounding ends the recurrence.
    """
    size = moments.shape[-1] - 1
    n = size // 2 + 1
    places = np.arange(n)[:, None] + np.arange(n + 1)
    rows = moments[
        ..., np.minimum(places, size)
    ]  # [..., n, n + 1]; the entry beyond moment K is never used
    alive = jnp.ones(moments.shape[:-1], bool)
    ratio, norm = jnp.zeros_like(moments[..., 0]), jnp.ones_like(moments[..., 0])
    diagonal: list[jax.Array] = []
    beside: list[jax.Array] = []
    for j in range(n):
        pivot, right = rows[..., j, j], rows[..., j, j + 1]
        alive = alive & (pivot > rounding[..., 2 * j]) & jnp.isfinite(right)
        pivot = jnp.where(alive, pivot, 1)
        coefficient = (
            right / pivot - ratio if 2 * j < size else sum(diagonal, jnp.zeros_like(pivot)) / j
        )
        diagonal.append(jnp.where(alive, coefficient, 0))
        beside.append(jnp.where(alive, jnp.sqrt(pivot / norm), 0))
        rows = rows - rows[..., :, j, None] * (rows[..., j, None, :] / pivot[..., None, None])
        ratio, norm = right / pivot, pivot
    return jnp.stack(diagonal, axis=-1), jnp.stack(beside, axis=-1)[..., 1:]
