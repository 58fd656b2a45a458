"""Expectiles (Definition 3.3): quantiles' siblings whose middle one is the mean."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from edrl.core.families.balance import balance_point
from edrl.core.families.levels import Taus, evenly_spaced, levels_for
from edrl.core.imputation import ImputeLike, strategy_for
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics, Strategy, expect_with_score


@dataclass(frozen=True, init=False)
class Expectiles(Statistics):
    """The tau-expectiles of a distribution, imputed exactly and in closed form unless told otherwise.

    `taus` are the levels, or their number: then they run from 0.01 to 0.99 as in ER-DQN.
    """

    taus: tuple[float, ...]
    strategy: Strategy

    def __init__(self, taus: Taus = 11, impute: ImputeLike = "exact"):
        object.__setattr__(self, "taus", levels_for(taus, evenly_spaced))
        object.__setattr__(self, "strategy", strategy_for(impute, self))

    @property
    def encodes_mean(self) -> bool:
        return 0.5 in self.taus

    @property
    def size(self) -> int:
        return len(self.taus)

    def evaluate(self, mu: Particles) -> Any:
        """Exact, by sorting and prefix sums: tau E[(Z-e)+] = (1-tau) E[(e-Z)+] is linear between two atoms."""
        mu = mu.sorted()
        gaps = jnp.diff(mu.atoms, axis=-1)
        start = jnp.zeros_like(mu.atoms[..., :1])
        mass_below = jnp.cumsum(mu.probs, axis=-1)[..., :-1]
        mass_above = jnp.cumsum(mu.probs[..., ::-1], axis=-1)[..., ::-1][..., 1:]
        # Sums of terms of one sign: no digits are lost.
        below = jnp.concatenate([start, jnp.cumsum(mass_below * gaps, axis=-1)], axis=-1)
        above = jnp.cumsum((mass_above * gaps)[..., ::-1], axis=-1)[..., ::-1]
        above = jnp.concatenate([above, start], axis=-1)
        return balance_point(mu.atoms, below, above, jnp.asarray(self.taus, mu.atoms.dtype))

    def loss(self, values: Any, target: Particles) -> Any:
        """ER of Definition 3.3, summed over the taus; its gradient is the one of Algorithm 2."""
        values = jnp.asarray(values)
        error = target.atoms[..., None, :] - values[..., :, None]
        taus = jnp.asarray(self.taus, error.dtype)[:, None]
        losses = jnp.where(error > 0, taus, 1 - taus) * error**2
        return expect_with_score(values, target, losses, self.score(values, target.atoms))

    def mean(self, values: Any) -> Any:
        """The 1/2-expectile where there is one (Section 4.3), otherwise the imputed distribution's mean."""
        if self.encodes_mean:
            return jnp.asarray(values)[..., self.taus.index(0.5)]
        return self.impute(values).mean()

    def score(self, values: Any, atoms: Any) -> Any:
        """The derivative of ER in the value: Equation (7)."""
        error = jnp.asarray(atoms)[..., None, :] - jnp.asarray(values)[..., :, None]
        taus = jnp.asarray(self.taus, error.dtype)[:, None]
        return -2 * jnp.where(error > 0, taus, 1 - taus) * error

    def places(self, values: Any) -> Any:
        return jnp.asarray(values)

    def numpy_conditions(self, values: np.ndarray, samples: int) -> Callable[[np.ndarray], np.ndarray]:
        """Equation (7) for one row on the host: from atoms [samples] to the mean scores [K].

        SciPy's solvers call it hundreds of times a row, so all that does not depend on the atoms is done once.
        """
        taus, places = np.asarray(self.taus)[:, None], np.asarray(values)[:, None]
        above, below = -2 * taus, -2 * (1 - taus)

        def conditions(atoms: np.ndarray) -> np.ndarray:
            error = atoms - places
            return np.asarray(np.add.reduce(np.where(error > 0, above, below) * error, axis=1) / samples)

        return conditions
