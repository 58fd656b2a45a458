"""`jax.jit` as a decorator that keeps the types of what it decorates."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, overload

import jax

P = ParamSpec("P")
R = TypeVar("R")


@overload
def jit(function: Callable[P, R]) -> Callable[P, R]: ...


@overload
def jit(*, static: str | tuple[str, ...]) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def jit(
    function: Callable[P, R] | None = None, *, static: str | tuple[str, ...] = ()
) -> Callable[P, R] | Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a function or a method; `static` names the arguments that are no data."""
    if function is None:
        return lambda function: jax.jit(function, static_argnames=static)
    return jax.jit(function, static_argnames=static)
