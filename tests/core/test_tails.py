"""Expectiles by Newton's method against their definition, and sorting of few numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from edrl import Expectiles, Particles
from edrl.core.order import sorted_rows


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_expectiles_equal_scipys(offset: float) -> None:
    rng = np.random.default_rng(0)
    atoms, probs = rng.standard_cauchy((20, 30)), rng.dirichlet(np.full(30, 0.3), 20)
    atoms[:, 3], probs[:, 7] = atoms[:, 4], 0
    probs /= probs.sum(axis=-1, keepdims=True)
    family = Expectiles(9)
    found = np.asarray(family.evaluate(Particles(atoms + offset, probs))) - offset
    for row in range(20):
        wanted = [scipy.stats.expectile(atoms[row], tau, weights=probs[row]) for tau in family.taus]
        np.testing.assert_allclose(found[row], wanted, rtol=1e-7, atol=1e-9 + 1e-12 * offset)


def test_far_padding_and_point_masses_are_exact() -> None:
    mu = Particles([[0.3, 1e308], [0.1, 0.1]], [[1.0, 0.0], [0.3, 0.7]])
    np.testing.assert_array_equal(Expectiles(5).evaluate(mu), [[0.3] * 5, [0.1] * 5])


def test_derivatives_equal_differences() -> None:
    rng = np.random.default_rng(1)
    atoms, probs = jnp.asarray(rng.normal(size=12)), jnp.asarray(rng.dirichlet(np.ones(12)))

    def statistics(atoms: jax.Array) -> jax.Array:
        return Expectiles(5).evaluate(Particles(atoms, probs))

    along, small = jnp.asarray(rng.normal(size=12)), 1e-6
    wanted = (statistics(atoms + small * along) - statistics(atoms - small * along)) / (2 * small)
    np.testing.assert_allclose(jax.jacrev(statistics)(atoms) @ along, wanted, atol=1e-8)


def test_few_numbers_are_sorted_as_many() -> None:
    x = np.random.default_rng(0).integers(-3, 3, (50, 9)).astype(float)
    np.testing.assert_array_equal(sorted_rows(x), np.sort(x, axis=-1))
