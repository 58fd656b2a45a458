"""Gauss quadrature of moments: the classical rules, exact recovery, and a valid answer to any
input.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edrl.core.families import Moments
from edrl.core.imputation.gauss import gauss_quadrature
from edrl.core.particles import Particles

EPS = np.finfo(np.float64).eps
BATCH = 50  # the same everywhere, and few K: each shape is compiled once


def raw_moments(mu: Particles, k: int) -> np.ndarray:
    """E[Z^j] for j = 1..k, in plain NumPy."""
    powers = np.asarray(mu.atoms)[..., None, :] ** np.arange(1, k + 1)[:, None]
    return (powers * np.asarray(mu.probs)[..., None, :]).sum(-1)


def absolute_moments(mu: Particles, k: int) -> np.ndarray:
    """E|Z|^j, the scale on which rounding errors of E[Z^j] are to be measured."""
    return raw_moments(Particles(np.abs(mu.atoms), mu.probs), k)


def random_particles(seed: int, n: int) -> Particles:
    rng = np.random.default_rng(seed)
    return Particles(rng.uniform(-1, 1, (BATCH, n)), rng.dirichlet(np.ones(n), BATCH))


def impute(values: np.ndarray) -> Particles:
    return gauss_quadrature(values)


def impute_one(values: list[float] | np.ndarray) -> Particles:
    return impute(np.tile(values, (BATCH, 1)))[0]


@pytest.mark.parametrize("n", [1, 3, 11])
def test_uniform_moments_give_the_gauss_legendre_rule(n):
    """The n-point Gauss rule of E[Z^j] = 1/(j+1) (j even) is NumPy's leggauss, found there by
    another method.
    """
    j = np.arange(1, 2 * n)
    values = np.where(j % 2, 0.0, 1 / (j + 1))
    nodes, weights = np.polynomial.legendre.leggauss(n)
    mu = impute_one(values).sorted()
    # The map from moments to nodes has a condition number of about (1 + sqrt 2)^(2n) on [-1, 1]
    # (Gautschi).
    tolerance = 10 * EPS * (1 + np.sqrt(2)) ** (2 * n)
    np.testing.assert_allclose(mu.atoms, nodes, atol=tolerance)
    np.testing.assert_allclose(mu.probs, weights / 2, atol=tolerance)


def test_normal_moments_give_the_gauss_hermite_rule():
    """E[Z^j] = (j-1)!! of N(0, 1) gives the roots of the probabilists' Hermite polynomial."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    mu = impute_one([0.0, 1.0, 0.0, 3.0, 0.0]).sorted()
    np.testing.assert_allclose(mu.atoms, nodes, atol=1e-12)
    np.testing.assert_allclose(mu.probs, weights / weights.sum(), atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 5, 8, 21])
@pytest.mark.parametrize("n", [2, 20])
def test_moments_come_back(k, n):
    """E[Z^j] of the imputed atoms is what was asked, to the documented 1e-8 of E|Z|^j up to K = 21."""
    mu = random_particles(k, n)
    values = raw_moments(mu, k)
    imputed = impute(values)
    assert imputed.size == -(-(k + 1) // 2)
    assert np.all(np.abs(raw_moments(imputed, k) - values) <= 1e-8 * absolute_moments(mu, k))


def test_moments_come_back_in_float32():
    """As above, to the documented 1e-4."""
    mu = random_particles(0, 20)
    imputed = gauss_quadrature(jnp.asarray(raw_moments(mu, 5), jnp.float32))
    assert imputed.atoms.dtype == np.float32
    off = np.abs(raw_moments(imputed, 5) - raw_moments(mu, 5))
    assert np.all(off <= 1e-4 * absolute_moments(mu, 5))


@pytest.mark.parametrize(("atoms", "k"), [(1, 5), (2, 5), (3, 5), (2, 8), (3, 8)])
def test_few_atoms_are_recovered(atoms, k):
    """m atoms are the only m atoms with their first 2m - 1 moments: they come back, the rest weigh
    nothing.
    """
    rng = np.random.default_rng(k)
    places = np.cumsum(rng.uniform(0.3, 0.6, (BATCH, atoms)), axis=-1) - 0.5 * atoms
    mu = Particles(places, rng.dirichlet(np.full(atoms, 5.0), BATCH))
    imputed = impute(raw_moments(mu, k))
    distance = np.abs(imputed.atoms[..., :, None] - mu.atoms[..., None, :])
    recovered = (np.where(distance < 1e-5, imputed.probs[..., :, None], 0)).sum(-2)
    np.testing.assert_allclose(recovered, mu.probs, atol=1e-5)


def test_two_moments_give_mean_plus_minus_std():
    """For K = 2 the free coefficient is zero, so the two atoms are mean -+ std with weight 1/2."""
    mu = impute_one([3.0, 3.0**2 + 0.5**2]).sorted()
    np.testing.assert_allclose(mu.atoms, [2.5, 3.5], rtol=1e-13)
    np.testing.assert_allclose(mu.probs, [0.5, 0.5], rtol=1e-13)


@pytest.mark.parametrize(
    "values", [[2.0], [2.0, 4.0], [2.0, 3.0], [2.0, -1.0], [2.0, 3.9, 1e9, -5.0, 0.0]]
)
def test_no_variance_gives_a_point_mass(values):
    """K = 1, a zero variance and an impossible one: the mean alone is left to be met."""
    np.testing.assert_array_equal(impute_one(values).atoms, 2.0)


def test_impossible_fourth_moment_keeps_the_first_three():
    """E[Z^4] < E[Z^2]^2 belongs to no distribution: the recurrence stops there, with two atoms for
    three moments.
    """
    values = np.array([0.1, 1.0, 0.3, 0.5, 2.0])
    mu = impute_one(values)
    np.testing.assert_allclose(raw_moments(mu, 3), values[:3], atol=1e-14)
    assert int(np.sum(np.asarray(mu.probs) > 1e-12)) == 2


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1e-9), (0.0, 1e9), (0.5, 1.0), (3.0, -0.5)])
def test_follows_affine_maps(shift, scale):
    """Imputing the moments of shift + scale * Z gives shift + scale * (the atoms imputed from those
    of Z).
    """
    k = 5
    mu = random_particles(0, 20)
    mapped = Particles(shift + scale * mu.atoms, mu.probs)
    base, moved = impute(raw_moments(mu, k)), impute(raw_moments(mapped, k))
    expected = Particles(shift + scale * base.atoms, base.probs).sorted()
    # Raw moments of the mapped variable hold its central ones to eps (1 + |mean| / std)^k; 1e4
    # covers the nodes.
    ratio = np.max(1 + np.abs(mapped.mean()) / mapped.std())
    tolerance = 1e4 * EPS * ratio**k
    np.testing.assert_allclose(moved.sorted().atoms, expected.atoms, atol=tolerance * abs(scale))
    np.testing.assert_allclose(moved.sorted().probs, expected.probs, atol=tolerance)


moments_of_anything = hnp.arrays(
    np.float64,
    (4, 5),
    elements=st.one_of(
        st.floats(-1e308, 1e308),
        st.floats(-10, 10),
        st.sampled_from([0.0, 1.0, -1.0, 1e-300, 1e300]),
    ),
)


@given(values=moments_of_anything, single=st.booleans())
@settings(max_examples=150, deadline=None)
def test_total(values, single):
    """Any finite input gives a valid distribution, and its mean is met up to the rounding of a sum
    of its atoms.
    """
    if single:
        values = np.clip(values, -3e38, 3e38).astype(np.float32)
    values = np.resize(values, (BATCH, 5))
    mu = impute(values)
    atoms, probs = np.asarray(mu.atoms, np.float64), np.asarray(mu.probs, np.float64)
    assert np.isfinite(atoms).all()
    assert (probs >= 0).all()
    eps = np.finfo(values.dtype).eps
    np.testing.assert_allclose(probs.sum(-1), 1, atol=10 * eps)
    size = np.abs(atoms).max(-1)
    mean = (probs * (atoms / np.where(size > 0, size, 1)[:, None])).sum(-1)
    assert np.all(np.abs(mean - values[:, 0] / np.where(size > 0, size, 1)) <= 20 * eps)


def test_jit_and_vmap_agree_with_batches():
    """One computation, whether a batch is handed over or mapped over in a compiled function."""
    values = raw_moments(random_particles(1, 30), 5)
    batch = impute(values)
    with jax.enable_x64(True):
        mapped = jax.jit(jax.vmap(lambda v: gauss_quadrature(v)))(jnp.asarray(values))
    np.testing.assert_allclose(mapped.atoms, batch.atoms, atol=1e-10)
    np.testing.assert_allclose(mapped.probs, batch.probs, atol=1e-10)


def test_is_the_strategy_of_moments():
    """Through the family: the residual of consistent moments is rounding."""
    family = Moments(5)
    assert np.all(np.abs(family.residual(family.evaluate(random_particles(5, 30)))) <= 1e-12)
