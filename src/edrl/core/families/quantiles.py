"""Quantiles and Huber quantiles (Equations (4) and (11))."""

from collections.abc import Callable, Mapping
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.check import check_number, fail
from edrl.core.convex_order import quantile_bracket
from edrl.core.families.balance import balance_point
from edrl.core.families.heads import Ordered, WeightedAtoms, find_head
from edrl.core.families.levels import (
    Head,
    LevelStatistics,
    TausLike,
    column,
    levels_for,
    midpoints,
)
from edrl.core.imputation import find_imputation
from edrl.core.imputation.simple import quantile_cells
from edrl.core.jit import jit
from edrl.core.order import merged_rows
from edrl.core.particles import Particles, check_samples, level_rounding, quantile_of_sorted
from edrl.core.statistics import Imputation, Statistics, expect_with_score
from edrl.core.types import (
    Array,
    BroadcastAtoms,
    BroadcastValues,
    Float,
    Numbers,
    NumbersLike,
    Scores,
    Taus,
    Values,
    ValuesLike,
)


def cells(family: Statistics, values: ValuesLike) -> Particles:
    """Impute quantiles: each weighs the levels nearer to its own than to its neighbours' (Example
    3.5).
    """
    if not isinstance(family, Quantiles | HuberQuantiles):
        right = f"it is made for Quantiles and HuberQuantiles, not for {type(family).__name__}"
        raise fail("imputation", "quantile", right)
    return quantile_cells(values, family.taus)


class Quantiles(LevelStatistics):
    """The tau-quantiles; `taus` are the levels, or their number: then the midpoints of QDRL.

    `head` is how a network's raw outputs become quantiles.
    """

    taus: Taus
    imputation: Imputation = eqx.field(static=True)
    head: Head | None = eqx.field(static=True)

    own_imputations: ClassVar[Mapping[str, Imputation]] = {"quantile": cells}
    own_heads: ClassVar[Mapping[str, Head]] = {"ordered": Ordered()}

    def __init__(
        self,
        taus: TausLike = 11,
        imputation: str | Imputation = "quantile",
        head: str | Head | None = None,
    ):
        self.taus = levels_for(taus, midpoints)
        self.imputation = find_imputation(imputation, self.own_imputations)
        self.head = find_head(head, self.own_heads, self.size)

    def evaluate(self, mu: Particles) -> Values:
        """F^{-1}(tau), the smallest minimiser of the quantile regression loss."""
        return check_samples(mu).quantile(self.taus)

    @jit
    def loss(self, values: BroadcastValues, target: Particles) -> Numbers:
        """QR of Equation (4), summed over the taus."""
        values, target = self.check_values(values), check_samples(target)
        return expect_with_score(values, target, self._loss_and_score)

    def _loss_and_score(
        self, values: BroadcastValues, atoms: BroadcastAtoms
    ) -> tuple[Scores, Scores]:
        error, score = atoms[..., None, :] - values[..., :, None], self.score(values, atoms)
        return -score * error, score

    def score(self, values: BroadcastValues, atoms: BroadcastAtoms) -> Scores:
        """The derivative of the loss in the value; at an atom that from the left: a subgradient,
        which that of |error| is not.
        """
        error = jnp.asarray(atoms)[..., None, :] - jnp.asarray(values)[..., :, None]
        taus = column(self.taus, error.dtype)
        return jnp.where(error >= 0, -taus, 1 - taus)

    def bracket(
        self, lower: Particles, upper: Particles, mean: NumbersLike
    ) -> tuple[ValuesLike, ValuesLike]:
        """From integrated CDFs: a quantile minimises P(x) - tau x."""
        return quantile_bracket(np.asarray(self.taus), lower, upper, np.asarray(mean))


class HuberQuantiles(LevelStatistics):
    """Minimisers of the Huber-quantile loss of width `kappa` (Equation (11)), which QR-DQN really
    learns.

    The loss is not divided by kappa: H_kappa(u) = u^2/2 up to kappa, kappa (|u| - kappa/2) beyond.
    With `acts_by_average` the average of the values stands for the expected return, as in QR-DQN.
    Huber quantiles do not determine the mean: that of the imputed distribution needs an imputation
    for every action, and is no nearer where values are as noisy as a network's. `head` is how a
    network's raw outputs become Huber quantiles.
    """

    taus: Taus
    kappa: Float[Array, ""] | float
    imputation: Imputation = eqx.field(static=True)
    acts_by_average: bool = eqx.field(static=True)
    head: Head | None = eqx.field(static=True)

    own_imputations: ClassVar[Mapping[str, Imputation]] = {"quantile": cells}
    own_heads: ClassVar[Mapping[str, Head]] = {"ordered": Ordered(), "atoms": WeightedAtoms()}

    def __init__(
        self,
        taus: TausLike = 11,
        kappa: float = 1.0,
        imputation: str | Imputation = "maximum-entropy",
        acts_by_average: bool = False,
        head: str | Head | None = None,
    ):
        self.taus = levels_for(taus, midpoints)
        self.kappa = _check_width(kappa)
        self.imputation = find_imputation(imputation, self.own_imputations)
        self.acts_by_average = acts_by_average
        self.head = find_head(head, self.own_heads, self.size)

    @jit
    def evaluate(self, mu: Particles) -> Values:
        """Exact: tau E[min((Z-q)+, kappa)] = (1-tau) E[min((q-Z)+, kappa)] is linear between z and
        z +- kappa.

        Where kappa is next to nothing beside the spread of the atoms, z +- kappa have few digits of
        it left: there, the quantile, which is within kappa.
        """
        mu = check_samples(mu).sorted()
        middle = mu.size // 2
        origin = mu.atoms[..., middle : middle + 1]  # digits of kappa must not be lost to an offset
        atoms, kappa = jnp.asarray(mu.atoms) - origin, self.kappa
        knots, source = merged_rows([atoms, atoms - kappa, atoms + kappa])
        gaps, start = jnp.diff(knots, axis=-1), jnp.zeros_like(atoms[..., :1])
        levels = jnp.concatenate([start, jnp.cumsum(mu.probs, axis=-1)], axis=-1)

        def level(shift: int) -> jax.Array:
            """The probability of the atoms that have been passed in each gap, so shifted."""
            count = jnp.cumsum(source[..., :-1] == shift, axis=-1, dtype=jnp.int32)
            return jnp.take_along_axis(levels, count, axis=-1)

        # The slopes of both sides on each gap are probabilities of windows, exactly 0 where no atom
        # is near.
        rising, falling = (level(0) - level(2)) * gaps, (level(1) - level(0)) * gaps
        below = jnp.concatenate([start, jnp.cumsum(rising, axis=-1)], axis=-1)
        above = jnp.cumsum(falling[..., ::-1], axis=-1)[..., ::-1]
        above = jnp.concatenate([above, start], axis=-1)
        taus = jnp.asarray(self.taus, atoms.dtype)
        balanced = balance_point(knots, below, above, taus, rounding=level_rounding(knots))
        largest = jnp.max(jnp.where(mu.probs > 0, jnp.abs(atoms), 0), axis=-1, keepdims=True)
        digits = kappa > 64 * jnp.finfo(atoms.dtype).eps * largest
        quantiles = quantile_of_sorted(mu.atoms, levels[..., 1:], taus)
        return jnp.where(digits, origin + balanced, quantiles)

    @jit
    def loss(self, values: BroadcastValues, target: Particles) -> Numbers:
        """The asymmetric Huber loss of Equation (11), summed over the taus."""
        values, target = self.check_values(values), check_samples(target)
        return expect_with_score(values, target, self._loss_and_score)

    def _loss_and_score(
        self, values: BroadcastValues, atoms: BroadcastAtoms
    ) -> tuple[Scores, Scores]:
        error = atoms[..., None, :] - values[..., :, None]
        taus, size = column(self.taus, error.dtype), jnp.abs(error)
        capped = jnp.minimum(size, self.kappa)
        losses = jnp.where(error > 0, taus, 1 - taus) * capped * (size - capped / 2)
        return losses, self.score(values, atoms)

    @jit
    def mean(self, values: ValuesLike) -> Numbers:
        """The average of the values if that is what is acted on, otherwise the imputed
        distribution's mean.
        """
        if self.acts_by_average:
            return jnp.mean(self.check_values(values), axis=-1)
        return self.impute(values).mean()

    def score(self, values: BroadcastValues, atoms: BroadcastAtoms) -> Scores:
        """The derivative of the loss in the value: the error capped at kappa, weighted by its side."""
        error = jnp.asarray(atoms)[..., None, :] - jnp.asarray(values)[..., :, None]
        taus = column(self.taus, error.dtype)
        return -jnp.where(error > 0, taus, 1 - taus) * jnp.clip(error, -self.kappa, self.kappa)

    def numpy_score(self, values: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """The scores of one row on the host: for SciPy's solvers."""
        taus, places = np.asarray(self.taus)[:, None], np.asarray(values)[:, None]
        above, below, kappa = -taus, -(1 - taus), float(self.kappa)

        def score(atoms: np.ndarray) -> np.ndarray:
            error = atoms - places
            capped = np.minimum(np.maximum(error, -kappa), kappa)
            return np.asarray(np.where(error > 0, above, below) * capped)

        return score

    def knots(self, values: ValuesLike) -> Float[jax.Array, "*batch m"]:
        """The values, and kappa to either side of them."""
        values = jnp.asarray(values)
        largest = jnp.max(jnp.abs(values), axis=-1, keepdims=True)
        # To be places of their own, beside values of any size.
        width = jnp.maximum(self.kappa, 4 * jnp.finfo(values.dtype).eps * largest)
        return jnp.concatenate([values - width, values, values + width], axis=-1)


def _check_width(kappa: float) -> float:
    if isinstance(kappa, jax.Array):
        return kappa
    if kappa == 0:
        raise fail("kappa", kappa, "without a quadratic part these are quantiles, use Quantiles")
    return check_number("kappa", kappa, 0.0, open_low=True)
