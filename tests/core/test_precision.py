"""Precision: plain JAX inside, float64 at the doors."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from contracts import FAMILIES, ON_THE_HOST, Case, every, random_particles
from edrl import Particles, risk
from edrl.core.precision import as_float, in_float64, is_concrete

THIRD = 1 / 3  # not a float32, so that computing in float32 shows


@pytest.mark.parametrize(
    ("given", "kind", "dtype"),
    [
        (np.float32([1]), np.ndarray, np.float32),
        (np.float64([1]), np.ndarray, np.float64),
        (np.float16([1]), np.ndarray, np.float64),
        (np.arange(2), np.ndarray, np.float64),
        ([1, 2], np.ndarray, np.float64),
        (jnp.float32([1]), jax.Array, np.float32),
        (jnp.bfloat16([1]), jax.Array, jnp.bfloat16),
    ],
)
def test_as_float_keeps_kind_and_precision(given, kind: type, dtype: type) -> None:
    array = as_float(given)
    assert isinstance(array, kind)
    assert array.dtype == dtype
    assert as_float(array) is array


def test_lists_of_traced_numbers_are_arrays() -> None:
    assert jax.grad(lambda x: as_float([x, 2.0]).sum())(1.0) == 1.0


def test_is_concrete() -> None:
    seen = []

    def look(x: jax.Array) -> jax.Array:
        seen.append(is_concrete(x, 1.0))
        return x

    for transform in (jax.jit, jax.vmap):
        transform(look)(jnp.ones(2))
    jax.grad(lambda x: look(x).sum())(jnp.ones(2))
    assert seen == [False, False, False]
    assert is_concrete(jnp.ones(2), np.ones(2), 1.0, "text", None)


def _dtypes(tree: object) -> list[np.dtype]:
    return [leaf.dtype for leaf in jax.tree.leaves(tree)]


CALLS = {
    "evaluate": lambda family, mu, values: family.evaluate(mu),
    "loss": lambda family, mu, values: family.loss(values, mu),
    "mean": lambda family, mu, values: family.mean(values),
    "impute": lambda family, mu, values: family.impute(values),
}
QUICK = ("mean", "moments-2", "categorical-2", "quantiles-11", "expectiles-11", "huber-naive")


@every([case for case in FAMILIES if case.name in QUICK])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize(("x64", "dtype"), [(False, np.float64), (True, np.float64)])
def test_the_same_call_has_the_same_dtype_with_and_without_jit(
    case: Case, call: Callable[..., object], x64: bool, dtype: type
) -> None:
    """For NumPy and for JAX arrays, whatever the user has switched on."""
    mu = random_particles(0, batch=2, atoms=3)
    values = np.zeros((2, case.family.size), dtype)
    with jax.enable_x64(x64):
        for given in ((mu, values), jax.tree.map(jnp.asarray, (mu, values))):
            eager = _dtypes(call(case.family, *given))
            jitted = _dtypes(jax.jit(call)(case.family, *given))
            wanted = np.dtype(np.float64 if x64 else np.float32)
            assert {*eager} == {*jitted} == {wanted}


@every([case for case in FAMILIES if case.name not in ON_THE_HOST])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_float32_stays_float32_where_float64_is_on(case: Case, call: Callable[..., object]) -> None:
    wide = random_particles(0, batch=2, atoms=3)
    mu = Particles(np.asarray(wide.atoms, np.float32), np.asarray(wide.probs, np.float32))
    values = np.zeros((2, case.family.size), np.float32)
    assert {*_dtypes(jax.eval_shape(call, case.family, mu, values))} == {np.dtype(np.float32)}


@pytest.mark.parametrize("x64", [False, True])
def test_distributions_follow_jax(x64: bool) -> None:
    mu = Particles(np.array([THIRD, 1.0]))
    wanted = np.float64 if x64 else np.float32
    with jax.enable_x64(x64):
        for call in (Particles.mean, Particles.std, lambda mu: mu.quantile([0.5]), risk.CVaR(0.5)):
            assert call(mu).dtype == jax.jit(call)(mu).dtype == wanted


def test_doors_compute_in_float64_whatever_comes_in() -> None:
    @in_float64
    def third(x, scale=1.0):
        return jnp.asarray(x) / 3 * scale

    with jax.enable_x64(False):
        for x in (jnp.float32([1]), np.float32([1]), np.array([1]), [1.0]):
            result = third(x, scale=jnp.float32(1))
            assert isinstance(result, np.ndarray)
            np.testing.assert_array_equal(result, np.array([1.0]) / 3)
        assert jax.jit(third)(jnp.float32([1])).dtype == np.float32  # a trace is left alone
        assert jnp.asarray(1.0).dtype == np.float32


def test_doors_return_numpy_but_for_random_keys() -> None:
    """A 64-bit JAX array must not survive where x64 is off."""

    @in_float64
    def several(x, key):
        x = jnp.asarray(x)
        return {
            "sum": x.sum(),
            "best": jnp.argmax(x),
            "positive": x > 0,
            "key": key,
            "name": "text",
        }

    key = jax.random.key(0)
    with jax.enable_x64(False):
        result = several(np.array([1.0, 2.0]), key)
    assert result["name"] == "text"
    assert result["key"] is key
    assert all(isinstance(result[name], np.ndarray) for name in ("sum", "best", "positive"))


def test_an_error_leaves_the_switch_off() -> None:
    @in_float64
    def fails(x):
        raise RuntimeError(str(jnp.asarray(x).dtype))

    with jax.enable_x64(False):
        with pytest.raises(RuntimeError, match="float64"):
            fails(np.ones(1))
        assert jnp.asarray(1.0).dtype == np.float32


def test_doors_keep_names_and_words() -> None:
    assert in_float64(as_float).__name__ == "as_float"
    assert in_float64(as_float).__doc__ == as_float.__doc__
