"""Expectiles by Newton's method against their definition, and kernels against plain programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from edrl import Expectiles, Particles
from edrl.core.one_kernel import fits_in_kernel, in_one_kernel
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


def test_a_kernel_computes_what_a_program_does() -> None:
    def loop(count: jax.Array, x: jax.Array, unused: jax.Array) -> jax.Array:
        def body(i: jax.Array, x: jax.Array) -> jax.Array:
            return jax.lax.cond(x[0] > 0, lambda: jnp.cos(x) + x[i % 4], lambda: x + 0.3)

        return jax.lax.fori_loop(0, count, body, x)

    x = jnp.linspace(-1, 1, 8)
    args = (jnp.asarray(100), x, x)
    found = jax.jit(in_one_kernel(loop))(*args)
    np.testing.assert_allclose(found, jax.jit(loop)(*args), rtol=1e-12)
    lowered = jax.jit(in_one_kernel(loop)).lower(*args).compile().as_text()
    assert ("xla_cpu_small_call" in lowered) == (jax.default_backend() == "cpu")


def test_what_needs_the_runtime_is_no_kernel() -> None:
    x = jnp.linspace(0, 1, 8)
    assert not fits_in_kernel(jnp.sort, x)
    assert not fits_in_kernel(lambda x: x.at[jnp.asarray(3)].set(1.0), x)
    np.testing.assert_array_equal(jax.jit(in_one_kernel(jnp.sort))(x[::-1]), x)
