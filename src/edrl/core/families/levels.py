"""The levels tau_1 < ... < tau_K of quantiles and expectiles, and what their families share."""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.check import check_count, check_increasing, fail
from edrl.core.jit import jit
from edrl.core.particles import Particles
from edrl.core.precision import is_concrete
from edrl.core.statistics import Statistics
from edrl.core.types import Array, Float, Taus, Values, ValuesLike

TausLike: TypeAlias = int | np.integer | Sequence[float] | Array
"""Levels, or their number."""


def midpoints(k: int) -> tuple[float, ...]:
    """tau_k = (2k - 1) / 2K, the levels of QDRL, QR-DQN and ER-DQN-naive."""
    k = check_count("taus", k, 1)
    return tuple(((2 * np.arange(k) + 1) / (2 * k)).tolist())


def evenly_spaced(k: int) -> tuple[float, ...]:
    """K levels from 0.01 to 0.99, as ER-DQN's eleven; for K = 1 the mean's own level 1/2."""
    k = check_count("taus", k, 1)
    taus = np.linspace(0.01, 0.99, k)
    if k % 2:
        taus[k // 2] = 0.5  # exactly: the mean must be the mean
    return tuple(taus.tolist())


def levels_for(taus: TausLike, spread: Callable[[int], tuple[float, ...]]) -> Taus:
    """Levels given one by one, or their number, which `spread` turns into levels.

    Levels that are known are checked, and kept on the host in float64. Traced ones, and rows of
    levels [..., K] for each example, are taken as they are.
    """
    if isinstance(taus, int | float | np.number) and float(taus).is_integer():
        return np.array(spread(int(taus)))  # 11.0 is a number of levels, too
    if isinstance(taus, jax.Array) and (not is_concrete(taus) or taus.ndim > 1):
        return taus
    if not is_concrete(*jax.tree.leaves(taus)):
        return jnp.asarray(taus)
    levels = np.asarray(taus, np.float64)
    return levels if levels.ndim > 1 else check_taus(levels)


def check_taus(taus: Sequence[float] | Array) -> np.ndarray:
    """Levels given one by one: strictly increasing, strictly between 0 and 1."""
    if np.ndim(taus) != 1:
        raise fail("taus", taus, "it must be a sequence of levels, e.g. (0.1, 0.5, 0.9)")
    return np.array(check_increasing("taus", np.asarray(taus, np.float64).tolist(), 0.0, 1.0))


def column(taus: Taus, dtype: np.dtype) -> jax.Array:
    """Levels [..., K, 1], to be compared with atoms [..., 1, n]."""
    return jnp.asarray(taus, dtype)[..., :, None]


class LevelStatistics(Statistics):
    """Statistics that belong to levels `taus [K]`, or to a row of levels [..., K] for each example."""

    taus: eqx.AbstractVar[Taus]
    head: eqx.AbstractVar["Head | None"]
    """What makes values of a network's raw outputs; None if the outputs are the values."""

    own_heads: ClassVar[Mapping[str, "Head"]] = {}
    """The heads that are made for these statistics, by name."""

    @property
    def size(self) -> int:
        return self.taus.shape[-1]

    @property
    def num_outputs(self) -> int:
        return self.size if self.head is None else self.head.num_outputs(self)

    @jit
    def link(self, outputs: Float[Array, "*batch outputs"]) -> Values:
        if self.head is None:
            return jnp.asarray(outputs)
        return self.head.link(self, outputs)

    def places(self, values: ValuesLike) -> Values:
        return jnp.asarray(values)

    def _impute_finite(self, values: Values) -> Particles:
        """Where each row has levels of its own, row by row."""
        if self.taus.ndim == 1:
            return self.imputation(self, values)

        def one_row(taus: jax.Array, values: jax.Array) -> tuple[Array, Array]:
            imputed = self.imputation(dataclasses.replace(self, taus=taus), values)
            return imputed.atoms, imputed.probs

        return Particles(*jnp.vectorize(one_row, signature="(k),(k)->(n),(n)")(self.taus, values))


class Head(abc.ABC):
    """How a network's raw outputs become values that are statistics of some distribution."""

    @abc.abstractmethod
    def num_outputs(self, family: LevelStatistics) -> int:
        """How many raw outputs one vector of values needs."""

    @abc.abstractmethod
    def link(self, family: LevelStatistics, outputs: Float[Array, "*batch outputs"]) -> Values:
        """From raw outputs to values [..., K]."""
