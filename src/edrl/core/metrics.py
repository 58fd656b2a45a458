"""Distances between distributions (Wasserstein, Cramér, Kolmogorov-Smirnov) and errors of
statistics.

All are exact, by sorting and prefix sums, on `Particles` whose batch axes broadcast and whose
numbers of atoms may differ. Only differences of atoms enter, so a large common offset costs no
digits.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from numpy.typing import ArrayLike

from edrl.core.check import fail
from edrl.core.jit import jit
from edrl.core.particles import Particles, check_samples, level_rounding
from edrl.core.types import Array, Atoms, Float, Int, Numbers


@jit(static="p")
def wasserstein(mu: Particles, nu: Particles, p: float = 1.0) -> Numbers:
    """W_p [...] for p in [1, inf]: the L^p norm of the difference of the two quantile functions.

    For p > 1 it is ill-conditioned in the probabilities: mass m moved by d costs m^(1/p) * d. So
    mass that the rounding of sums of probabilities alone could have moved is left out.
    """
    if not p >= 1:
        raise fail("p", p, "it must be a number of at least 1, or infinity")
    if p == 1:
        difference, gaps = _cdf_difference(mu, nu)
        return jnp.sum(jnp.abs(difference) * gaps, axis=-1)
    distance, mass = _monotone_coupling(mu, nu)
    longest = jnp.max(distance, axis=-1, keepdims=True)
    if math.isinf(p):
        return longest[..., 0]
    share = distance / jnp.where(longest > 0, longest, 1)  # in [0, 1]: no power of it overflows
    return longest[..., 0] * jnp.sum(mass * share ** float(p), axis=-1) ** (1 / float(p))


@jit
def cramer(mu: Particles, nu: Particles) -> Numbers:
    """The Cramér distance [...], ell_2 = (integral of |F - G|^2)^(1/2) (Appendix A.2)."""
    difference, gaps = _cdf_difference(mu, nu)
    return jnp.sqrt(jnp.sum(difference**2 * gaps, axis=-1))


@jit
def kolmogorov_smirnov(mu: Particles, nu: Particles) -> Numbers:
    """sup |F - G| [...]."""
    difference, gaps = _cdf_difference(mu, nu)
    return jnp.max(
        jnp.where(gaps > 0, jnp.abs(difference), 0), axis=-1
    )  # inside a tie F - G is incomplete


@jit
def integrated_cdf(mu: Particles, x: ArrayLike) -> Float[jax.Array, "*batch m"]:
    """P(x) = E[(x - Z)+], the integral of the CDF up to each of the points `x [..., m]`."""
    x = jnp.asarray(x)
    if x.ndim == 0:
        raise fail("x.shape", x.shape, "points come along a last axis, e.g. [0.5]")
    mu = check_samples(mu).settled()
    atoms, probs, x = _spread(_batch_shape("x", mu.shape, x.shape[:-1]), mu.atoms, mu.probs, x)
    points = jnp.concatenate([atoms, x], axis=-1)
    masses = jnp.concatenate([probs, jnp.zeros_like(x)], axis=-1)
    index = jnp.broadcast_to(jnp.arange(points.shape[-1]), points.shape)
    points, masses, index = jax.lax.sort((points, masses, index), num_keys=1)
    # Both sums are of terms of one sign: no digits are lost.
    levels = jnp.cumsum(masses, axis=-1)
    areas = jnp.diff(points, axis=-1, prepend=points[..., :1]) * jnp.roll(levels, 1, axis=-1)
    _, integral = jax.lax.sort((index, jnp.cumsum(areas, axis=-1)), num_keys=1)
    return integral[..., mu.size :]


@jit
def integrated_cdf_distance(mu: Particles, nu: Particles) -> Numbers:
    """sup_x |P_mu(x) - P_nu(x)| [...] of the integrated CDFs; it is attained at an atom."""
    difference, gaps = _cdf_difference(mu, nu)
    return jnp.max(jnp.abs(jnp.cumsum(difference * gaps, axis=-1)), axis=-1)


def supremum(
    metric: Callable[..., Numbers], mu: Particles, nu: Particles, **options: float
) -> Float[jax.Array, ""]:
    """The supremum of `metric(mu, nu, **options)` over the batch, as over state-actions in Appendix
    A.2.
    """
    return jnp.max(metric(mu, nu, **options))


@jit
def statistic_error(values: ArrayLike, true_values: ArrayLike) -> Numbers:
    """The mean over the K statistics of |values - true_values| [...], the error of Definition 4.5."""
    values, true_values = jnp.asarray(values), jnp.asarray(true_values)
    if values.ndim == 0 or values.shape[-1:] != true_values.shape[-1:]:
        raise fail(
            "values.shape",
            values.shape,
            f"its last axis must match true_values {true_values.shape}",
        )
    return jnp.mean(jnp.abs(values - true_values), axis=-1)


def _take(x: Array, index: Int[Array, "..."]) -> jax.Array:
    return jnp.take_along_axis(x, index, axis=-1)


def _batch_shape(argument: str, mu: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return jnp.broadcast_shapes(mu, other)
    except ValueError:
        right = f"its batch axes must broadcast with those of mu, {mu}"
        raise fail(f"batch shape of {argument}", other, right) from None


def _spread(shape: tuple[int, ...], *arrays: Array) -> list[jax.Array]:
    return [jnp.broadcast_to(array, (*shape, array.shape[-1])) for array in arrays]


def _cdf_difference(mu: Particles, nu: Particles) -> tuple[Atoms, Atoms]:
    """F - G to the right of all atoms of both but the last [..., n + m - 1], and the gaps to the
    next one.
    """
    mu, nu = check_samples(mu), check_samples(nu)
    shape = _batch_shape("nu", mu.shape, nu.shape)
    mu, nu = mu.settled(), nu.settled()
    atoms = jnp.concatenate(_spread(shape, mu.atoms, nu.atoms), axis=-1)
    masses = jnp.concatenate(_spread(shape, mu.probs, -nu.probs), axis=-1)
    atoms, masses = jax.lax.sort((atoms, masses), num_keys=1)
    return jnp.cumsum(masses, axis=-1)[..., :-1], jnp.diff(atoms, axis=-1)


def _monotone_coupling(mu: Particles, nu: Particles) -> tuple[Atoms, Atoms]:
    """|F^{-1} - G^{-1}| on each stretch of levels on which both are constant [..., n + m], and its
    length.
    """
    mu, nu = check_samples(mu), check_samples(nu)
    shape = _batch_shape("nu", mu.shape, nu.shape)
    mu, nu = mu.sorted(), nu.sorted()
    levels = [jnp.cumsum(probs, axis=-1) for probs in _spread(shape, mu.probs, nu.probs)]
    ends = jnp.concatenate([level / level[..., -1:] for level in levels], axis=-1)
    index = jnp.arange(ends.shape[-1])
    ends, index_at_end = jax.lax.sort((ends, jnp.broadcast_to(index, ends.shape)), num_keys=1)
    length = jnp.diff(ends, axis=-1, prepend=0)
    # On the stretch that ends here, mu is at its k-th atom if k of its levels lie before.
    is_mu = index_at_end < mu.size
    before = jnp.cumsum(is_mu, axis=-1) - is_mu
    of_mu = jnp.minimum(before, mu.size - 1)
    of_nu = jnp.minimum(index - before, nu.size - 1)
    atoms_mu, atoms_nu = _spread(shape, mu.atoms, nu.atoms)
    distance = jnp.abs(_take(atoms_mu, of_mu) - _take(atoms_nu, of_nu))
    return jnp.where(length > sum(map(level_rounding, levels)), distance, 0), length
