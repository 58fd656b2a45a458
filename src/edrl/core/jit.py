"""`jax.jit` as a decorator that keeps the types of what it decorates, and its words."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar, overload

import jax
import numpy as np

from edrl.core.precision import check_fits, overflows

P = ParamSpec("P")
R = TypeVar("R")


@overload
def jit(function: Callable[P, R]) -> Callable[P, R]: ...


@overload
def jit(*, static: str | tuple[str, ...]) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def jit(
    function: Callable[P, R] | None = None, *, static: str | tuple[str, ...] = ()
) -> Callable[P, R] | Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a function or a method; `static` names the arguments that are no data.

    Numbers that JAX would make infinite are refused. Of what it cannot trace, such as text, it
    speaks in words of its own: then the function is called as it is, and its checks say what is
    wrong.
    """
    if function is None:
        return lambda function: _compiled(function, static)
    return _compiled(function, static)


def _compiled(function: Callable[P, R], static: str | tuple[str, ...]) -> Callable[P, R]:
    compiled = jax.jit(function, static_argnames=static)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not jax.enable_x64.value and any(map(_overflows, (*args, *kwargs.values()))):
            _refuse(inspect.signature(function).bind(*args, **kwargs).arguments)
        try:
            result: R = compiled(*args, **kwargs)
        except TypeError:
            if all(map(_is_data, jax.tree.leaves((args, kwargs)))):
                raise
        else:
            return result
        return function(*args, **kwargs)

    return call


def _is_data(leaf: object) -> bool:
    """Whether JAX can trace it."""
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.dtype.kind in "biufc"
    return isinstance(leaf, jax.Array | bool | int | float | complex)


def _overflows(argument: object) -> bool:
    """Whether an argument, or its atoms, are numbers on the host that float32 cannot hold."""
    return overflows(getattr(argument, "atoms", argument))


def _refuse(arguments: Mapping[str, object]) -> None:
    """Name the numbers that float32 cannot hold."""
    for name, value in arguments.items():
        check_fits(name, value)
        check_fits("atoms" if name == "self" else f"{name}.atoms", getattr(value, "atoms", None))
