"""Precision follows the input: what is computed in which dtype, and that nothing global changes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edrl.core.precision import as_float, as_floats, compiled, in_float64, is_concrete, keep_precision

THIRD = 1 / 3  # not a float32, so that computing in float32 shows


@keep_precision
def triple(x, factor=3.0):
    return jnp.asarray(x) * factor


@pytest.mark.parametrize(
    ("given", "kind", "dtype"),
    [
        (np.float32([1]), np.ndarray, np.float32),
        (np.float64([1]), np.ndarray, np.float64),
        (np.float16([1]), np.ndarray, np.float64),
        (np.arange(2), np.ndarray, np.float64),
        (np.array([True]), np.ndarray, np.float64),
        ([1, 2], np.ndarray, np.float64),
        (1.0, np.ndarray, np.float64),
        (jnp.float32([1]), jax.Array, np.float32),
        (jnp.bfloat16([1]), jax.Array, jnp.bfloat16),
        (jnp.arange(2), jax.Array, np.float32),
    ],
)
def test_as_float_keeps_kind_and_precision(given, kind: type, dtype: type) -> None:
    array = as_float(given)
    assert isinstance(array, kind)
    assert array.dtype == dtype
    assert as_float(array) is array


@pytest.mark.parametrize(
    ("first", "second", "kind", "dtype"),
    [
        (np.float64([1]), jnp.float32([1]), np.ndarray, np.float64),  # double wins
        (np.float32([1]), np.float64([1]), np.ndarray, np.float64),
        (jnp.float32([1]), [THIRD], jax.Array | np.ndarray, np.float32),  # lists follow
        ([THIRD], [THIRD], np.ndarray, np.float64),
        (jnp.bfloat16([1]), jnp.float32([1]), jax.Array, np.float32),
    ],
)
def test_as_floats_agree_on_one_precision(first, second, kind: type, dtype: type) -> None:
    for pair in ((first, second), (second, first)):
        for array in as_floats(*pair):
            assert isinstance(array, kind)
            assert array.dtype == dtype


def test_as_floats_in_a_trace_and_under_x64_follow_jax() -> None:
    """A float64 constant meets a traced float32: float32; under x64 the two promote to float64."""

    def widest(x: jax.Array) -> jax.Array:
        a, b = as_floats(np.array([THIRD]), x)
        assert a.dtype == b.dtype
        return a + b

    assert jax.jit(widest)(jnp.float32([1])).dtype == np.float32
    with jax.enable_x64(True):
        assert jax.jit(widest)(jnp.float32([1])).dtype == np.float64
        assert as_floats(jnp.float32([1]), [THIRD])[1].dtype == np.float32


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


def test_double_stays_double_in_numpy_and_the_switch_stays_off() -> None:
    for x in (np.array([THIRD]), [THIRD], THIRD):
        result = triple(x)
        assert isinstance(result, np.ndarray)
        assert result.dtype == np.float64
        np.testing.assert_array_equal(result, np.multiply(x, 3.0))
    assert jnp.asarray(THIRD).dtype == np.float32


def test_single_stays_single_in_jax() -> None:
    """Also when x64 is on: plain numbers are weak."""
    x = jnp.float32([THIRD])
    assert isinstance(triple(x), jax.Array)
    assert triple(x).dtype == np.float32
    assert triple(x, factor=0.1).dtype == np.float32
    with jax.enable_x64(True):
        assert triple(x, factor=0.1).dtype == np.float32


def test_double_wins_where_arrays_mix() -> None:
    for result in (
        triple(jnp.float32([1]), factor=np.array([THIRD])),
        triple(np.array([THIRD]), jnp.float32(1)),
    ):
        assert isinstance(result, np.ndarray)
        np.testing.assert_array_equal(result, [THIRD])


def test_a_trace_is_left_alone() -> None:
    """In a trace, doubles among constants neither switch x64 on nor turn results into NumPy arrays."""
    constant = np.array([THIRD])
    assert jax.jit(lambda x: x + triple(constant))(jnp.float32([0])).dtype == np.float32
    assert jax.jit(lambda: triple(constant))().dtype == np.float32
    assert jax.vmap(triple)(jnp.float32([1, 2])).dtype == np.float32
    assert jax.grad(lambda x: triple(x).sum())(jnp.float32([1])).dtype == np.float32


def test_under_x64_results_are_jax_arrays() -> None:
    with jax.enable_x64(True):
        result = triple(np.array([THIRD]))
    assert isinstance(result, jax.Array)
    assert result.dtype == np.float64


@pytest.mark.parametrize("decorate", [keep_precision, in_float64])
def test_all_results_are_numpy_but_random_keys(decorate) -> None:
    """Whole numbers and truth values too: a 64-bit JAX array must not survive where x64 is off."""

    @decorate
    def several(x, key):
        x = jnp.asarray(x)
        return {"sum": x.sum(), "best": jnp.argmax(x), "positive": x > 0, "key": key, "name": "text"}

    key = jax.random.key(0)
    result = several(np.array([1.0, 2.0]), key)
    assert result["name"] == "text"
    assert result["key"] is key
    assert all(isinstance(result[name], np.ndarray) for name in ("sum", "best", "positive"))


@pytest.mark.parametrize("decorate", [keep_precision, in_float64])
def test_an_error_leaves_the_switch_off(decorate) -> None:
    @decorate
    def fails(x):
        raise RuntimeError(str(jnp.asarray(x).dtype))

    with pytest.raises(RuntimeError, match="float64"):
        fails(np.ones(1))
    assert jnp.asarray(1.0).dtype == np.float32


def test_compiled_functions_are_traced_once_per_dtype_and_static_value() -> None:
    traces = []

    @functools.partial(compiled, static=("power",))
    def raised(x, power=1):
        traces.append((x.dtype, power))
        return x**power

    for _ in range(3):
        assert isinstance(raised(np.full(2, THIRD), power=2), np.ndarray)
        assert isinstance(raised(jnp.ones(2)), jax.Array)
    assert traces == [(np.float64, 2), (np.float32, 1)]


def test_in_float64_computes_in_float64_whatever_comes_in() -> None:
    @in_float64
    def third(x, scale=1.0):
        return jnp.asarray(x) / 3 * scale

    for x in (jnp.float32([1]), np.float32([1]), np.array([1]), [1.0]):
        result = third(x, scale=jnp.float32(1))
        assert isinstance(result, np.ndarray)
        np.testing.assert_array_equal(result, np.array([1.0]) / 3)
    assert jax.jit(third)(jnp.float32([1])).dtype == np.float32  # a trace is left alone here too


def test_decorated_functions_keep_their_name_and_words() -> None:
    assert keep_precision(test_is_concrete).__name__ == "test_is_concrete"
    assert in_float64(as_float).__doc__ == as_float.__doc__
