"""Precision follows the input: double stays double, single stays single, and no global switch is flipped.

JAX computes in float32 unless it is told otherwise. Outside a trace, NumPy arrays (and plain Python
numbers) are float64, so the functions here compute them in float64 and hand NumPy arrays back; JAX arrays
keep their own dtype. Where arrays mix, double wins; where plain numbers or lists meet arrays, the arrays
decide. Inside a trace, and when the user has enabled x64, nothing is touched: JAX's own rules hold.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

Function = TypeVar("Function", bound=Callable[..., Any])


def as_float(x: ArrayLike) -> Any:
    """`x` as an array of floats of its own precision: NumPy stays NumPy, JAX stays JAX, lists are float64."""
    x = x if is_concrete(*jax.tree.leaves(x)) else jnp.asarray(x)  # a list may hold traced numbers
    if isinstance(x, jax.Array):
        return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(float)
    array = np.asarray(x)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def as_floats(*xs: ArrayLike) -> tuple[Any, ...]:
    """`xs` as arrays of floats of one precision: the widest among the arrays, which lists then follow."""
    arrays = [as_float(x) for x in xs]
    typed = [array for x, array in zip(xs, arrays, strict=True) if hasattr(x, "dtype")] or arrays
    double = any(array.dtype == np.float64 for array in typed)
    if double and is_concrete(*arrays) and not jax.config.read("jax_enable_x64"):
        return tuple(np.asarray(array, np.float64) for array in arrays)
    dtype = jnp.result_type(*typed)
    return tuple(array if array.dtype == dtype else array.astype(dtype) for array in arrays)


def as_float_beside(x: ArrayLike, others: Any) -> Any:
    """`x` as an array of floats; if it is a list it has the precision of the arrays that come with it."""
    array = as_float(x)
    if hasattr(x, "dtype"):
        return array
    floats = _float_dtypes(jax.tree.leaves(others))
    return array if not floats or np.dtype(np.float64) in floats else array.astype(floats[0])


def is_concrete(*arrays: Any) -> bool:
    """Whether the numbers are there to be looked at, that is, none of them is being traced."""
    return not any(isinstance(array, jax.core.Tracer) for array in arrays)


def _is_traced(leaves: list[Any]) -> bool:
    return not is_concrete(*leaves) or isinstance(jnp.zeros(()), jax.core.Tracer)


def _float_dtypes(leaves: list[Any]) -> list[Any]:
    """Those of the arrays of floats among them."""
    dtypes = [leaf.dtype for leaf in leaves if hasattr(leaf, "dtype")]
    return [dtype for dtype in dtypes if jnp.issubdtype(dtype, jnp.floating)]


def _needs_double(arguments: Any) -> bool:
    leaves = jax.tree.leaves(arguments)
    floats = _float_dtypes(leaves)
    return (np.dtype(np.float64) in floats or not floats) and not _is_traced(leaves)


def _to_double(leaf: Any) -> Any:
    is_float = isinstance(leaf, (jax.Array, np.ndarray)) and jnp.issubdtype(leaf.dtype, jnp.floating)
    return np.asarray(leaf, np.float64) if is_float else leaf


def _to_numpy(leaf: Any) -> Any:
    is_key = hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(leaf) if isinstance(leaf, jax.Array) and not is_key else leaf


def keep_precision(function: Function) -> Function:
    """Run `function` in float64 when its arguments are, and return NumPy arrays in that case."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if jax.config.read("jax_enable_x64") or not _needs_double((args, kwargs)):
            return function(*args, **kwargs)
        with jax.enable_x64(True):
            result = function(*args, **kwargs)
        return jax.tree.map(_to_numpy, result)

    return cast(Function, call)


def compiled(function: Function, static: tuple[str, ...] = ()) -> Function:
    """`keep_precision`, with `function` compiled as a whole: once for each shape and each `static` value."""
    return keep_precision(cast(Function, jax.jit(function, static_argnames=static)))


def in_float64(function: Function) -> Function:
    """Run `function` in float64 whatever its arguments are, and return NumPy arrays (all tabular work)."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _is_traced(jax.tree.leaves((args, kwargs))):
            return function(*args, **kwargs)
        args, kwargs = jax.tree.map(_to_double, (args, kwargs))
        with jax.enable_x64(True):
            result = function(*args, **kwargs)
        return jax.tree.map(_to_numpy, result)

    return cast(Function, call)
