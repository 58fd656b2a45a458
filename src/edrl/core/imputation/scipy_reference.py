"""The paper's literal procedure: one call of a SciPy optimiser per state, on the host (Sections 3.3 and 4, Appendix).

These are references to compare with, not tools to work with: `EqualWeights` solves the same problem in one
compiled batch, and imputations with unequal weights have exact answers where this problem has none.
"""

import dataclasses
import functools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

from edrl.core.check import check_count, fail
from edrl.core.particles import Particles
from edrl.core.precision import as_float, is_concrete, keep_precision
from edrl.core.statistics import Statistics
from edrl.deep.processes import end_with_parent

_GRACE = 30.0  # seconds that a worker stays after it has been told to end


@dataclasses.dataclass(frozen=True)
class ScipyRoot:
    """`scipy.optimize.root` with default parameters on the first-order conditions, Equation (7), started at the values.

    This is what the paper's experiments and ER-DQN use. The last iterate is taken whether or not the solver
    reports success; `solve_rows` tells how often it does.
    """

    samples: int | None = None
    """N, which must be K: a root finder needs as many unknowns as equations."""
    processes: int = 1
    """Over how many processes the rows of a batch are spread, as in the paper's deep experiments."""

    def __post_init__(self) -> None:
        _check(self)

    @keep_precision
    def __call__(self, family: Statistics, values: Any) -> Particles:
        """Impute `Particles [..., K]` from values [..., K]."""
        return _impute(family, values, "root", self.samples, self.processes)


@dataclasses.dataclass(frozen=True)
class ScipyMinimize:
    """`scipy.optimize.minimize` with default parameters on the sum of squares, Equation (8), started at the values."""

    samples: int | None = None
    """N, the number of atoms; None for as many as there are statistics."""
    processes: int = 1
    """Over how many processes the rows of a batch are spread."""

    def __post_init__(self) -> None:
        _check(self)

    @keep_precision
    def __call__(self, family: Statistics, values: Any) -> Particles:
        """Impute `Particles [..., N]` from values [..., K]."""
        return _impute(family, values, "minimize", self.samples, self.processes)


def _check(strategy: ScipyRoot | ScipyMinimize) -> None:
    if strategy.samples is not None:
        object.__setattr__(strategy, "samples", check_count("samples", strategy.samples, 1))
    object.__setattr__(strategy, "processes", check_count("processes", strategy.processes, 1))


def solve_rows(
    family: Statistics, values: Any, method: str = "root", samples: int | None = None, processes: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """The atoms [..., N] for values [..., K], row by row in float64, and whether SciPy reported success [...].

    A family may offer `numpy_conditions(values [K], N)`, which gives the left-hand sides of Equation (7) as a function
    of the atoms [N], as a user of plain NumPy and SciPy would write it. Otherwise its JAX score is called, which is far
    slower for such small arrays, and which JAX advises against where this runs as a callback of a compiled function.

    With several processes the rows are dealt out to them, and the answer is the same; the first call starts them,
    which takes seconds, and they stay for later ones.
    """
    values = np.asarray(values, np.float64)
    size = values.shape[-1]
    count = _count(size, method, samples)
    if processes > 1:
        parts = np.array_split(values.reshape(-1, size), processes)
        solve = functools.partial(solve_rows, family, method=method, samples=samples)
        try:
            solved, succeeded = zip(*_pool(processes).map(solve, parts), strict=True)
        except BrokenProcessPool as error:
            _pool.cache_clear()
            right = "they import the script that they are started from: is its work under `if __name__ == '__main__':`?"
            raise RuntimeError(f"SciPy's processes have ended; {right}") from error
        return (
            np.concatenate(solved).reshape(*values.shape[:-1], count),
            np.concatenate(succeeded).reshape(values.shape[:-1]),
        )
    make_conditions = getattr(family, "numpy_conditions", functools.partial(_jax_conditions, family))
    rows = values.reshape(-1, size)
    atoms, success = np.empty((len(rows), count)), np.empty(len(rows), bool)
    # Overflow is part of the game for absurd values: what is not finite is replaced below.
    with np.errstate(all="ignore"):
        for row, row_values in enumerate(rows):
            start = _start(row_values, count)
            conditions = make_conditions(row_values, count)
            if method == "root":
                result = scipy.optimize.root(conditions, start)
            else:
                result = scipy.optimize.minimize(functools.partial(_sum_of_squares, conditions), start)
            atoms[row] = np.where(np.isfinite(result.x), result.x, start)
            success[row] = result.success
    return atoms.reshape(*values.shape[:-1], count), success.reshape(values.shape[:-1])


@functools.cache
def _pool(processes: int) -> ProcessPoolExecutor:
    """Processes that are started afresh: a fork of one that has used JAX may hang."""
    return ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _begin_worker)


def _begin_worker() -> None:
    """Ctrl-C is the parent's to handle; should it be killed, the worker must not stay."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: _end_later())
    end_with_parent()


def _end_later() -> None:
    """A system that wants all processes of a job to end leaves them some time: the parent needs us to come to a point
    at which it can save, and when it ends, so do we."""
    later = threading.Timer(_GRACE, os._exit, (1,))
    later.daemon = True
    later.start()


def _jax_conditions(family: Statistics, values: np.ndarray, samples: int) -> Callable[[np.ndarray], np.ndarray]:
    """The left-hand sides of Equation (7): the mean score of each statistic."""
    return lambda atoms: np.asarray(family.score(values, atoms)).mean(axis=-1)


def _sum_of_squares(conditions: Callable[..., np.ndarray], atoms: np.ndarray) -> float:
    """Equation (8)."""
    found = conditions(atoms)
    return float(found @ found)


def _start(values: np.ndarray, count: int) -> np.ndarray:
    if count == len(values):
        return values
    places = np.linspace(0, len(values) - 1, count)
    return np.interp(places, np.arange(len(values)), np.sort(values))


def _count(size: int, method: str, samples: int | None) -> int:
    if method not in ("root", "minimize"):
        raise fail("method", method, "it must be 'root' or 'minimize'")
    if method == "root" and samples not in (None, size):
        raise fail("samples", samples, f"root finding needs as many samples as statistics, here {size}")
    return samples or size


def _impute(family: Statistics, values: Any, method: str, samples: int | None, processes: int) -> Particles:
    """`solve_rows` where the numbers are at hand, and a callback to the host inside a trace."""
    values = as_float(values)
    count = _count(values.shape[-1], method, samples)

    if is_concrete(values):
        return Particles(jnp.asarray(solve_rows(family, values, method, samples, processes)[0], values.dtype))

    # JAX runs callbacks in threads of its own, in which float64 is not switched on and would be cut to float32. So
    # numbers travel as their bits.
    def on_host(bits: Any) -> np.ndarray:
        rows = np.ascontiguousarray(bits).view(values.dtype)[..., 0]
        atoms = solve_rows(family, rows, method, samples, processes)[0].astype(values.dtype)
        return atoms[..., None].view(np.uint32)

    bits = jax.lax.bitcast_convert_type(values, jnp.uint32).reshape(*values.shape, -1)
    shape = jax.ShapeDtypeStruct((*values.shape[:-1], count, bits.shape[-1]), jnp.uint32)
    found = jax.pure_callback(on_host, shape, bits, vmap_method="expand_dims")
    atoms = jax.lax.bitcast_convert_type(found if bits.shape[-1] == 2 else found[..., 0], values.dtype)
    return Particles(atoms, jnp.full(count, 1 / count, values.dtype))
