"""The paper's literal procedure: one call of a SciPy optimiser per state, on the host (Sections 3.3
and 4, Appendix).

These are references to compare with, not tools to work with: `EqualWeights` solves the same problem
in one compiled batch, and imputations with unequal weights have exact answers where this problem
has none.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.check import check_count, fail
from edrl.core.particles import Particles
from edrl.core.precision import is_concrete
from edrl.core.statistics import Statistics
from edrl.core.types import Array, Bool, Float, ValuesLike

Method: TypeAlias = Literal["root", "minimize"]
Leaf: TypeAlias = Array | float  # of a family, such as its levels and the width of a Huber loss
Solved: TypeAlias = tuple[Float[np.ndarray, "rows N"], Bool[np.ndarray, " rows"]]
Spread: TypeAlias = Callable[[Callable[[np.ndarray], Solved], np.ndarray], list[Solved]]
"""Calls a function on parts of the rows [rows, K], in several processes say, and lists what it
returns.
"""


@dataclass(frozen=True)
class _Scipy:
    """What both solvers share."""

    samples: int | None = None
    """N, the number of atoms; None for as many as there are statistics."""
    spread: Spread | None = None
    """How the rows of a batch are spread over processes; None solves them one after the other."""

    def __post_init__(self) -> None:
        if self.samples is not None:
            object.__setattr__(self, "samples", check_count("samples", self.samples, 1))

    def _impute(self, family: Statistics, values: ValuesLike, method: Method) -> Particles:
        """`solve_rows` where the numbers are at hand, and a callback to the host inside a trace."""
        values = jnp.asarray(values)
        count = _count(values.shape[-1], method, self.samples)
        leaves, structure = jax.tree.flatten(family)

        def solve(values: np.ndarray, *leaves: Leaf) -> np.ndarray:
            host = jax.tree.unflatten(structure, leaves)
            found, _ = solve_rows(host, values, method, self.samples, self.spread)
            return found.astype(values.dtype)

        if is_concrete(values, *leaves):
            return Particles(jnp.asarray(solve(np.asarray(values), *leaves), values.dtype))
        atoms = _on_host(solve, (*values.shape[:-1], count), values, leaves)
        return Particles(atoms, jnp.full(count, 1 / count, values.dtype))


@dataclass(frozen=True)
class ScipyRoot(_Scipy):
    """`scipy.optimize.root` with default parameters on the first-order conditions, Equation (7),
    started at the values.

    This is what the paper's experiments and ER-DQN use. The last iterate is taken whether or not
    the solver reports success; `solve_rows` tells how often it does. N must be K: a root finder
    needs as many unknowns as equations.
    """

    def __call__(self, family: Statistics, values: ValuesLike) -> Particles:
        """Impute `Particles [..., K]` from values [..., K]."""
        return self._impute(family, values, "root")


@dataclass(frozen=True)
class ScipyMinimize(_Scipy):
    """`scipy.optimize.minimize` with default parameters on the sum of squares, Equation (8),
    started at the values.
    """

    def __call__(self, family: Statistics, values: ValuesLike) -> Particles:
        """Impute `Particles [..., N]` from values [..., K]."""
        return self._impute(family, values, "minimize")


def solve_rows(
    family: Statistics,
    values: Float[np.ndarray, "*batch K"],
    method: Method = "root",
    samples: int | None = None,
    spread: Spread | None = None,
) -> tuple[Float[np.ndarray, "*batch N"], Bool[np.ndarray, "*batch"]]:
    """The atoms [..., N] for values [..., K], row by row in float64, and whether SciPy reported
    success [...].

    A family may offer `numpy_score`, the scores as a user of plain NumPy and SciPy would write
    them. Otherwise its JAX score is called, which is far slower for such small arrays, and which
    JAX advises against where this runs as a callback of a compiled function.
    """
    values = np.asarray(values, np.float64)
    size = values.shape[-1]
    count = _count(size, method, samples)
    solve = functools.partial(_solve_part, family, method, count)
    rows = values.reshape(-1, size)
    parts = [solve(rows)] if spread is None else spread(solve, rows)
    atoms, success = (np.concatenate(column) for column in zip(*parts, strict=True))
    return atoms.reshape(*values.shape[:-1], count), success.reshape(values.shape[:-1])


def _solve_part(family: Statistics, method: Method, count: int, rows: np.ndarray) -> Solved:
    import scipy.optimize  # slow to import, and only this procedure needs it

    atoms, success = np.empty((len(rows), count)), np.empty(len(rows), bool)
    # Overflow is part of the game for absurd values: what is not finite is replaced below.
    with np.errstate(all="ignore"):
        for row, values in enumerate(rows):
            start, score = _start(values, count), family.numpy_score(values)
            if method == "root":
                result = scipy.optimize.root(functools.partial(_mean_scores, score), start)
            else:
                result = scipy.optimize.minimize(functools.partial(_sum_of_squares, score), start)
            atoms[row] = np.where(np.isfinite(result.x), result.x, start)
            success[row] = result.success
    return atoms, success


def _mean_scores(score: Callable[[np.ndarray], np.ndarray], atoms: np.ndarray) -> np.ndarray:
    """The left-hand sides of Equation (7)."""
    return np.asarray(np.add.reduce(score(atoms), axis=1) / len(atoms))


def _sum_of_squares(score: Callable[[np.ndarray], np.ndarray], atoms: np.ndarray) -> float:
    """Equation (8)."""
    found = _mean_scores(score, atoms)
    return float(found @ found)


def _start(values: np.ndarray, count: int) -> np.ndarray:
    if count == len(values):
        return values
    places = np.linspace(0, len(values) - 1, count)
    return np.asarray(np.interp(places, np.arange(len(values)), np.sort(values)))


def _count(size: int, method: Method, samples: int | None) -> int:
    if method not in ("root", "minimize"):
        raise fail("method", method, "it must be 'root' or 'minimize'")
    if method == "root" and samples not in (None, size):
        right = f"root finding needs as many samples as statistics, here {size}"
        raise fail("samples", samples, right)
    return samples or size


def _on_host(
    solve: Callable[..., np.ndarray],
    shape: tuple[int, ...],
    values: jax.Array,
    leaves: list[Leaf],
) -> jax.Array:
    """A callback from a trace.

    JAX runs callbacks in threads of its own, in which float64 is not switched on and would be cut
    to float32. So numbers travel as their bits.
    """
    dtypes = [jnp.asarray(x).dtype for x in (values, *leaves)]

    def call(*bits: jax.Array) -> np.ndarray:
        arrays = [_from_bits(x, dtype) for x, dtype in zip(bits, dtypes, strict=True)]
        return solve(*arrays)[..., None].view(np.uint32)

    bits = [_to_bits(jnp.asarray(x)) for x in (values, *leaves)]
    width = values.dtype.itemsize // 4
    result = jax.ShapeDtypeStruct((*shape, width), jnp.uint32)
    found = jax.pure_callback(call, result, *bits, vmap_method="sequential")
    return jax.lax.bitcast_convert_type(found if width == 2 else found[..., 0], values.dtype)


def _to_bits(x: jax.Array) -> jax.Array:
    """[..., words] of 32 bits."""
    return jax.lax.bitcast_convert_type(x, jnp.uint32).reshape(*x.shape, -1)


def _from_bits(bits: jax.Array, dtype: np.dtype) -> np.ndarray:
    return np.ascontiguousarray(bits).view(dtype)[..., 0]
