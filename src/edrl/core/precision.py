"""Float64 is entered at the doors of the tabular wing and of theory; everywhere else JAX's own
rules hold.

JAX computes in float32 unless `jax_enable_x64` is set. The core is plain JAX: the same call gives
the same dtype with and without `jit`. Functions decorated with `in_float64` switch to float64 for
as long as they run.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from numpy.typing import ArrayLike

from edrl.core.check import fail
from edrl.core.types import Array

P = ParamSpec("P")
R = TypeVar("R")

LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
"""Beyond it float32 has infinities alone."""


def is_concrete(*arrays: object) -> bool:
    """Whether the numbers can be looked at, that is, none of them is being traced."""
    return not any(isinstance(array, Tracer) for array in arrays)


def check_finite(argument: str, array: jax.Array) -> jax.Array:
    """The array, if all its numbers are finite, or if they cannot be looked at."""
    if is_concrete(array):
        finite = np.isfinite(np.asarray(array))
        if not finite.all():
            at = tuple(map(int, np.argwhere(~finite)[0]))
            raise fail(f"{argument}{list(at)}", float(array[at]), "it must be finite")
    return array


def overflows(numbers: object) -> bool:
    """Whether JAX would make infinities of finite numbers on the host, as it does in float32."""
    if isinstance(numbers, np.ndarray):
        suspect = numbers.dtype == np.float64 and np.abs(numbers).max(initial=0) > LARGEST_FLOAT32
    else:
        suspect = isinstance(numbers, float) and abs(numbers) > LARGEST_FLOAT32
    if not suspect or jax.enable_x64.value:
        return False
    return bool(_too_large(np.asarray(numbers, np.float64)).any())


def check_fits(argument: str, numbers: object) -> None:
    """Refuse finite numbers on the host that JAX would make infinities of."""
    if not overflows(numbers):
        return
    array = np.asarray(numbers, np.float64)
    at = tuple(map(int, np.argwhere(_too_large(array))[0]))
    right = (
        "float32 holds numbers up to 3.4e38: use smaller ones, or float64 with jax.enable_x64(True)"
    )
    raise fail(f"{argument}{list(at) or ''}", float(array[at]), right)


def _too_large(array: np.ndarray) -> np.ndarray:
    """Which numbers are finite, and would not be in float32."""
    return np.asarray(np.isfinite(array) & (np.abs(array) > LARGEST_FLOAT32))


def as_float(x: ArrayLike) -> Array:
    """`x` as an array of floats. NumPy arrays and lists stay on the host, with all their digits."""
    if isinstance(x, jax.Array):
        return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(float)
    if not is_concrete(*jax.tree.leaves(x)):  # a list that holds traced numbers
        return jnp.asarray(x, float)
    array = np.asarray(x)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def in_float64(function: Callable[P, R]) -> Callable[P, R]:
    """A door: run `function` in float64 whatever its arguments are, and return NumPy arrays.

    Inside a trace nothing is touched, since the precision of a trace is settled where it begins.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves = jax.tree.leaves((args, kwargs))
        if not is_concrete(*leaves) or isinstance(jnp.zeros(()), Tracer):
            return function(*args, **kwargs)
        args, kwargs = jax.tree.map(_to_double, (args, kwargs))
        with jax.enable_x64(True):
            result: R = jax.tree.map(_to_numpy, function(*args, **kwargs))
        return result

    return call


def _to_double(leaf: object) -> object:
    is_float = isinstance(leaf, Array) and jnp.issubdtype(leaf.dtype, jnp.floating)
    return np.asarray(leaf, np.float64) if is_float else leaf


def _to_numpy(leaf: object) -> object:
    if not isinstance(leaf, jax.Array) or jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf
    return np.asarray(leaf)
