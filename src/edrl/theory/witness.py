"""A witness: two distributions that show that statistics are not Bellman closed.

They agree in all of the statistics, but no longer do after a backup. Checking that takes no theory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import jax
import numpy as np
import numpy.typing as npt

from edrl.core.check import fail
from edrl.core.particles import Particles
from edrl.core.precision import in_float64
from edrl.core.statistics import Statistics
from edrl.core.types import Array, Float, Values

Functions: TypeAlias = Sequence[Callable[[Float[np.ndarray, " n"]], npt.ArrayLike]]
"""Functions h_1, ..., h_K, each from points [n] to values [n].

They stand for the statistics E[h_k(Z)].
"""

_SHARED = 0.01  # of the gap: so much a witness's statistics may differ before the backup


@dataclass(frozen=True)
class Witness:
    """Two distributions that share their statistics until they are backed up through r + gamma z.

    The backup is the distribution of r + gamma Z for Z from mu, or from the mixture of mu and `rho`
    that gives mu the share `weight`. The same is done with nu in the place of mu.
    """

    mu: Particles  # [n]
    nu: Particles  # [n']
    reward: float
    gamma: float
    statistics_before: Float[np.ndarray, " K"]  # of mu and of nu
    backed_up_mu: Float[np.ndarray, " K"]
    backed_up_nu: Float[np.ndarray, " K"]
    statistic: int  # which of the K gives it away, from 0
    gap: float  # |backed_up_mu - backed_up_nu| there
    rho: Particles | None = None
    weight: float = 1.0

    @in_float64
    def check(self, statistics: Statistics | Functions) -> float:
        """The gap, computed again; an error unless mu and nu share the statistics."""
        mu, nu, after_mu, after_nu = values(statistics, self.mu, self.nu, *self.backups())
        shared = float(np.abs(mu - nu).max())
        gap = float(np.abs(after_mu - after_nu)[self.statistic])
        if not shared <= _SHARED * gap:
            right = f"mu and nu must share them to witness a gap of {gap:g}"
            raise fail("difference of statistics", shared, right)
        return gap

    @in_float64
    def backups(self) -> tuple[Particles, Particles]:
        """The backed-up distributions, with mu and with nu."""
        return self._backed_up(self.mu), self._backed_up(self.nu)

    def _backed_up(self, mu: Particles) -> Particles:
        if self.rho is not None:
            mu = together(mu, self.rho).mixture(np.array([self.weight, 1 - self.weight]))
        return mu.push(self.reward, self.gamma)

    def __str__(self) -> str:
        mixed = ""
        if self.rho is not None:
            mixed = f", in a mixture with 1 - {self.weight:.3g} of rho = {_written(self.rho)}"
        return (
            f"mu = {_written(self.mu)} and nu = {_written(self.nu)} share the statistics "
            f"{_rounded(self.statistics_before)}; backed up through {self.reward:.3g} + "
            f"{self.gamma:.3g} z{mixed}, "
            f"they have {_rounded(self.backed_up_mu)} and {_rounded(self.backed_up_nu)}: "
            f"a gap of {self.gap:.3g} in statistic {self.statistic + 1}"
        )


def values(statistics: Statistics | Functions, *mus: Particles) -> Float[np.ndarray, "m K"]:
    """The statistics of m distributions."""
    mu = together(*mus)
    if isinstance(statistics, Statistics):
        return np.asarray(evaluate(statistics, mu))
    expectands = np.stack([features(statistics, atoms) for atoms in np.asarray(mu.atoms)])
    return np.asarray(np.einsum("mkn,mn->mk", expectands, np.asarray(mu.probs)))


def together(*mus: Particles, axis: int = 0) -> Particles:
    """Distributions of one batch shape stacked along a new axis, those with fewer atoms padded."""
    most = max(mu.size for mu in mus)

    def padded(array: Array, mode: Literal["edge", "constant"]) -> Float[np.ndarray, "..."]:
        pad = [(0, 0)] * (array.ndim - 1) + [(0, most - array.shape[-1])]
        return np.pad(array, pad, mode=mode)

    atoms = np.stack([padded(mu.atoms, "edge") for mu in mus], axis=axis)
    return Particles(atoms, np.stack([padded(mu.probs, "constant") for mu in mus], axis=axis))


@jax.jit
def evaluate(family: Statistics, mu: Particles) -> Values:
    """The statistics of a family, compiled once for a shape."""
    return family.evaluate(mu)


def features(
    statistics: Statistics | Functions, x: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "K n"]:
    """h_k(x) for every k."""
    if isinstance(statistics, Statistics):
        return np.asarray(statistics.features(x))
    if callable(statistics) or not statistics:
        right = "it must be a family or a sequence of functions, e.g. [np.square]"
        raise fail("statistics", statistics, right)
    rows = [np.asarray(h(x), np.float64) for h in statistics]
    for k, row in enumerate(rows):
        _check_row(k, row, x)
    return np.stack(rows)


def _check_row(k: int, row: Float[np.ndarray, "..."], x: Float[np.ndarray, " n"]) -> None:
    if row.shape != x.shape or not np.isfinite(row).all():
        right = f"each function must take points {x.shape} to finite numbers of the same shape"
        raise fail(f"statistics[{k}](x).shape", row.shape, right)


def _rounded(values: Float[np.ndarray, " K"]) -> str:
    return np.array2string(values, 10_000, 4, True, ", ", threshold=12, edgeitems=3)


def _written(mu: Particles) -> str:
    """A distribution on one line: its atoms and probabilities, or the first few of them."""
    mu = mu.sorted()
    terms = [f"{p:.3g} at {z:.4g}" for z, p in zip(mu.atoms, mu.probs, strict=True) if p > 0]
    shown = terms if len(terms) <= 8 else [*terms[:6], f"... ({len(terms)} atoms)"]
    return "{" + ", ".join(shown) + "}"
