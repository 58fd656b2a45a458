"""Quantiles and Huber quantiles (Equations (4) and (11))."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from edrl.core.check import check_number
from edrl.core.families.balance import balance_point
from edrl.core.families.levels import Taus, levels_for, midpoints
from edrl.core.imputation import ImputeLike, strategy_for
from edrl.core.particles import Particles, level_rounding
from edrl.core.statistics import Statistics, Strategy, expect, expect_with_score


@dataclass(frozen=True, init=False)
class Quantiles(Statistics):
    """The tau-quantiles of a distribution; `taus` are the levels, or their number: then the midpoints of QDRL."""

    taus: tuple[float, ...]
    strategy: Strategy

    def __init__(self, taus: Taus = 11, impute: ImputeLike = "quantile"):
        object.__setattr__(self, "taus", levels_for(taus, midpoints))
        object.__setattr__(self, "strategy", strategy_for(impute, self))

    @property
    def size(self) -> int:
        return len(self.taus)

    def evaluate(self, mu: Particles) -> Any:
        """F^{-1}(tau), the smallest minimiser of the quantile regression loss."""
        return mu.quantile(jnp.asarray(self.taus))

    def loss(self, values: Any, target: Particles) -> Any:
        """QR of Equation (4), summed over the taus."""
        values = jnp.asarray(values)
        error = target.atoms[..., None, :] - values[..., :, None]
        taus = jnp.asarray(self.taus, error.dtype)[:, None]
        return expect(target, jnp.where(error > 0, taus, 1 - taus) * jnp.abs(error))

    def places(self, values: Any) -> Any:
        return jnp.asarray(values)


@dataclass(frozen=True, init=False)
class HuberQuantiles(Statistics):
    """Minimisers of the Huber-quantile loss of width `kappa` (Equation (11)), which QR-DQN really learns.

    The loss is not divided by kappa: H_kappa(u) = u^2/2 up to kappa, kappa (|u| - kappa/2) beyond.
    """

    taus: tuple[float, ...]
    kappa: float
    strategy: Strategy

    def __init__(self, taus: Taus = 11, kappa: float = 1.0, impute: ImputeLike = "maximum-entropy"):
        object.__setattr__(self, "taus", levels_for(taus, midpoints))
        if kappa == 0:
            raise ValueError("kappa = 0 is not valid: without a quadratic part these are quantiles, use Quantiles")
        object.__setattr__(self, "kappa", check_number("kappa", kappa, 0.0, open_low=True))
        object.__setattr__(self, "strategy", strategy_for(impute, self))

    @property
    def size(self) -> int:
        return len(self.taus)

    def evaluate(self, mu: Particles) -> Any:
        """Exact: tau E[min((Z-q)+, kappa)] = (1-tau) E[min((q-Z)+, kappa)] is linear between z and z +- kappa.

        Where kappa is next to nothing beside the spread of the atoms, z +- kappa have few digits of it left: there, the
        quantile, which is within kappa.
        """
        mu = mu.sorted()
        origin = mu.atoms[..., mu.size // 2 : mu.size // 2 + 1]  # digits of kappa must not be lost to an offset
        atoms, kappa = mu.atoms - origin, self.kappa
        knots = jnp.sort(jnp.concatenate([atoms - kappa, atoms, atoms + kappa], axis=-1), axis=-1)
        gaps, centres = jnp.diff(knots, axis=-1), (knots[..., 1:] + knots[..., :-1]) / 2
        start = jnp.zeros_like(atoms[..., :1])
        levels = jnp.concatenate([start, jnp.cumsum(mu.probs, axis=-1)], axis=-1)
        count = jnp.vectorize(lambda atoms, x: jnp.searchsorted(atoms, x, side="right"), signature="(n),(k)->(k)")

        def cdf(x: Any) -> Any:
            return jnp.take_along_axis(levels, count(atoms, x), axis=-1)

        # The slopes of both sides on each gap are probabilities of windows, exactly 0 where no atom is near.
        rising = (cdf(centres) - cdf(centres - kappa)) * gaps
        falling = (cdf(centres + kappa) - cdf(centres)) * gaps
        below = jnp.concatenate([start, jnp.cumsum(rising, axis=-1)], axis=-1)
        above = jnp.concatenate([jnp.cumsum(falling[..., ::-1], axis=-1)[..., ::-1], start], axis=-1)
        taus = jnp.asarray(self.taus, atoms.dtype)
        largest = jnp.max(jnp.where(mu.probs > 0, jnp.abs(atoms), 0), axis=-1, keepdims=True)
        digits = kappa > 64 * jnp.finfo(atoms.dtype).eps * largest
        balanced = balance_point(knots, below, above, taus, rounding=level_rounding(knots))
        return jnp.where(digits, origin + balanced, mu.quantile(taus))

    def loss(self, values: Any, target: Particles) -> Any:
        """The asymmetric Huber loss of Equation (11), summed over the taus."""
        values = jnp.asarray(values)
        error = target.atoms[..., None, :] - values[..., :, None]
        taus = jnp.asarray(self.taus, error.dtype)[:, None]
        size = jnp.abs(error)
        capped = jnp.minimum(size, self.kappa)
        losses = jnp.where(error > 0, taus, 1 - taus) * capped * (size - capped / 2)
        return expect_with_score(values, target, losses, self.score(values, target.atoms))

    def score(self, values: Any, atoms: Any) -> Any:
        """The derivative of the loss in the value: the error capped at kappa, weighted by its side."""
        error = jnp.asarray(atoms)[..., None, :] - jnp.asarray(values)[..., :, None]
        taus = jnp.asarray(self.taus, error.dtype)[:, None]
        return -jnp.where(error > 0, taus, 1 - taus) * jnp.clip(error, -self.kappa, self.kappa)

    def numpy_conditions(self, values: np.ndarray, samples: int) -> Callable[[np.ndarray], np.ndarray]:
        """The mean scores [K] as a function of atoms [samples], for one row on the host: for SciPy's solvers."""
        taus, places = np.asarray(self.taus)[:, None], np.asarray(values)[:, None]
        above, below = -taus, -(1 - taus)

        def conditions(atoms: np.ndarray) -> np.ndarray:
            error = atoms - places
            capped = np.minimum(np.maximum(error, -self.kappa), self.kappa)
            return np.asarray(np.add.reduce(np.where(error > 0, above, below) * capped, axis=1) / samples)

        return conditions

    def places(self, values: Any) -> Any:
        return jnp.asarray(values)

    def knots(self, values: Any) -> Any:
        """Places [..., 3K] between which every score is linear, so that a grid through them can hold any solution."""
        values = jnp.asarray(values)
        rounding = 4 * jnp.finfo(values.dtype).eps * jnp.max(jnp.abs(values), axis=-1, keepdims=True)
        width = jnp.maximum(self.kappa, rounding)  # to be places of their own, beside values of any size
        return jnp.concatenate([values - width, values, values + width], axis=-1)
