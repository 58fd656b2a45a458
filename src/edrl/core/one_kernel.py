"""Loops of many small steps, compiled for CPUs as one piece of machine code.

XLA runs a loop on a CPU operation by operation. Each costs a tenth of a microsecond to start, which
is more than most operations on a dozen numbers take. A function that is marked here is compiled
into a single kernel, its loops and conditions included. The marks are hints: a compiler that does
not know them compiles the function as usual, and the results are the same.
"""

import math
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Var, jaxpr_as_fun, jaxprs_in_params

P = ParamSpec("P")
R = TypeVar("R")

_MARKS = {"xla_cpu_small_call": "true", "inlineable": "false"}
_NO_MARKS = dict.fromkeys(_MARKS)  # on what is inside

# XLA has no code for these within a kernel, and would refuse the whole program.
_CALLS = ("callback", "custom_call", "ffi", "fft", "sort", "scatter", "top_k", "conv_", "dot_")
_LINEAR_ALGEBRA = (
    "cholesky",
    "eig",
    "lu",
    "geqrf",
    "svd",
    "schur",
    "solve",
    "householder",
    "tridiag",
)
_COLLECTIVES = ("all_", "ppermute", "psum", "pmin", "pmax", "axis_index", "feed", "shard_map")
_RUNTIME = (*_CALLS, *_LINEAR_ALGEBRA, *_COLLECTIVES, "rng_", "pallas")
_LARGEST_SUM = 2048  # terms: sums of more are given to a library


def in_one_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, to be called in a trace; on a CPU it becomes one kernel if it can.

    A kernel has one thread, and arrays pass through it as through a loop in C: it is for loops over
    small arrays. It must not be mapped by `jax.vmap`, which turns slices into scatters.
    """

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, structure = jax.tree.flatten((args, kwargs))

        def flat(*leaves: jax.Array) -> R:
            args, kwargs = jax.tree.unflatten(structure, leaves)
            return function(*args, **kwargs)

        program, shapes = jax.make_jaxpr(flat, return_shape=True)(*leaves)
        run = _marked(program) if _fits(program.jaxpr) else jaxpr_as_fun(program)
        found: R = jax.tree.unflatten(jax.tree.structure(shapes), run(*leaves))
        return found

    return call


def fits_in_kernel(function: Callable[..., object], *args: object) -> bool:
    """Whether this is compiled for a CPU, and XLA has code for all of it within a kernel."""
    return _fits(jax.make_jaxpr(function)(*args).jaxpr)


def _fits(program: Jaxpr) -> bool:
    if jax.default_backend() != "cpu" or any(_is_empty(given) for given in program.invars):
        return False
    return not any(_needs_runtime(equation) for equation in _equations(program))


def _is_empty(given: Var) -> bool:
    """A kernel has nothing to read there, and XLA aborts where an argument is not read."""
    return math.prod(getattr(given.aval, "shape", ())) == 0


def _equations(program: Jaxpr) -> Iterator[JaxprEqn]:
    """All of them, those of loops and conditions included."""
    for equation in program.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from _equations(inner)


def _needs_runtime(equation: JaxprEqn) -> bool:
    name = equation.primitive.name
    terms = math.prod(getattr(equation.invars[0].aval, "shape", ())) if equation.invars else 0
    is_large = name.startswith("reduce") and terms > _LARGEST_SUM
    return is_large or any(part in name for part in _RUNTIME)


def _marked(program: ClosedJaxpr) -> Callable[..., list[jax.Array]]:
    """The program as a call with marks."""

    def inside(consts: list[jax.Array], *leaves: jax.Array) -> tuple[list[jax.Array], object]:
        with set_xla_metadata(**_NO_MARKS):
            found = jaxpr_as_fun(ClosedJaxpr(program.jaxpr, consts))(*leaves)
            # XLA takes it that a kernel uses all of its arguments. An entry of each is a result.
            return list(found), [jnp.ravel(x)[:1] for x in (*consts, *leaves)]

    def call(*leaves: jax.Array) -> list[jax.Array]:
        with set_xla_metadata(**_MARKS):
            found: list[jax.Array] = jax.jit(inside)(program.consts, *leaves)[0]
        return found

    return call
