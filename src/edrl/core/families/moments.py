"""The mean and the first K moments: up to linear maps, the only Bellman closed expectations
(Theorem 4.3).
"""

from collections.abc import Mapping
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from edrl.core.check import check_count, fail
from edrl.core.imputation import find_imputation
from edrl.core.imputation.gauss import gauss_quadrature
from edrl.core.jit import jit
from edrl.core.particles import Particles, check_samples
from edrl.core.statistics import Imputation, Statistics, expect
from edrl.core.types import (
    AtomsLike,
    BroadcastValues,
    Float,
    Numbers,
    NumbersLike,
    Scores,
    Values,
    ValuesLike,
)


def gauss(family: Statistics, values: ValuesLike) -> Particles:
    """Impute moments by Gauss quadrature: the fewest atoms that have them."""
    if not isinstance(family, Mean | Moments):
        right = f"it is made for Mean and Moments, not for {type(family).__name__}"
        raise fail("imputation", "gauss", right)
    return gauss_quadrature(values)


class Moments(Statistics):
    """E[Z], E[Z^2], ..., E[Z^k] (Lemma 4.2), imputed by Gauss quadrature."""

    k: int = eqx.field(static=True)
    imputation: Imputation = eqx.field(static=True)

    own_imputations: ClassVar[Mapping[str, Imputation]] = {"gauss": gauss}

    def __init__(self, k: int = 2, imputation: str | Imputation = "gauss"):
        self.k = check_count("k", k, 1)
        self.imputation = find_imputation(imputation, self.own_imputations)

    @property
    def encodes_mean(self) -> bool:
        return True

    @property
    def size(self) -> int:
        return self.k

    def features(self, x: AtomsLike) -> Scores:
        """h_k(x) = x^k."""
        return jnp.asarray(x)[..., None, :] ** jnp.arange(1, self.k + 1)[:, None]

    @jit
    def evaluate(self, mu: Particles) -> Values:
        mu = check_samples(mu).settled()
        return jnp.sum(self.features(mu.atoms) * mu.probs[..., None, :], axis=-1)

    @jit
    def loss(self, values: BroadcastValues, target: Particles) -> Numbers:
        """The expected squared distance of each value to Z^k."""
        values, target = self.check_values(values), check_samples(target).settled()
        return expect(target, (self.features(target.atoms) - values[..., :, None]) ** 2)

    def mean(self, values: ValuesLike) -> Numbers:
        return self.check_values(values)[..., 0]

    def places(self, values: ValuesLike) -> Float[jax.Array, "*batch m"]:
        """The mean, and two standard deviations to either side."""
        values = jnp.asarray(values)
        mean = values[..., :1]
        if self.k == 1:
            return jnp.repeat(mean, 3, axis=-1)
        deviation = jnp.sqrt(jnp.maximum(values[..., 1:2] - mean**2, 0))
        return mean + deviation * jnp.array([-2.0, 0.0, 2.0], values.dtype)


class Mean(Statistics):
    """The expected return alone: classical reinforcement learning (Equation (1)), imputed by a
    point mass.
    """

    imputation: Imputation = eqx.field(static=True)

    own_imputations: ClassVar[Mapping[str, Imputation]] = {"gauss": gauss}

    def __init__(self, imputation: str | Imputation = "dirac"):
        self.imputation = find_imputation(imputation, self.own_imputations)

    @property
    def encodes_mean(self) -> bool:
        return True

    @property
    def size(self) -> int:
        return 1

    def features(self, x: AtomsLike) -> Scores:
        """h(x) = x."""
        return jnp.asarray(x)[..., None, :]

    def evaluate(self, mu: Particles) -> Values:
        return check_samples(mu).mean()[..., None]

    @jit
    def loss(self, values: BroadcastValues, target: Particles) -> Numbers:
        """Half the expected squared distance of the value to Z: ER of Definition 3.3 at 1/2."""
        values, target = self.check_values(values), check_samples(target)
        return expect(target, (self.features(target.atoms) - values[..., :, None]) ** 2 / 2)

    def mean(self, values: ValuesLike) -> Numbers:
        return self.check_values(values)[..., 0]

    def places(self, values: ValuesLike) -> Values:
        return jnp.asarray(values)

    def bracket(
        self, lower: Particles, upper: Particles, mean: NumbersLike
    ) -> tuple[ValuesLike, ValuesLike]:
        """The mean is known."""
        return mean[..., None], mean[..., None]
