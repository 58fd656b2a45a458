"""The mean and the first K moments: up to linear maps, the only Bellman closed expectations (Theorem 4.3)."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from edrl.core.check import check_count
from edrl.core.imputation import ImputeLike, strategy_for
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics, Strategy, expect


@dataclass(frozen=True, init=False)
class Moments(Statistics):
    """E[Z], E[Z^2], ..., E[Z^k] (Lemma 4.2), imputed by Gauss quadrature."""

    k: int
    strategy: Strategy

    def __init__(self, k: int = 2, impute: ImputeLike = "gauss"):
        object.__setattr__(self, "k", check_count("k", k, 1))
        object.__setattr__(self, "strategy", strategy_for(impute, self))

    @property
    def encodes_mean(self) -> bool:
        return True

    @property
    def size(self) -> int:
        return self.k

    def features(self, x: Any) -> Any:
        """h_k(x) = x^k, [..., K, n]: the functions whose expectations these statistics are."""
        return jnp.asarray(x)[..., None, :] ** jnp.arange(1, self.k + 1)[:, None]

    def evaluate(self, mu: Particles) -> Any:
        return jnp.sum(self.features(mu.settled().atoms) * mu.probs[..., None, :], axis=-1)

    def loss(self, values: Any, target: Particles) -> Any:
        """The expected squared distance of each value to Z^k."""
        values = jnp.asarray(values)
        return expect(target, (self.features(target.settled().atoms) - values[..., :, None]) ** 2)

    def mean(self, values: Any) -> Any:
        return jnp.asarray(values)[..., 0]

    def places(self, values: Any) -> Any:
        """The mean, and two standard deviations to either side."""
        values = jnp.asarray(values)
        mean = values[..., :1]
        deviation = jnp.sqrt(jnp.maximum(values[..., 1:2] - mean**2, 0)) if self.k > 1 else jnp.zeros_like(mean)
        return mean + deviation * jnp.array([-2.0, 0.0, 2.0], values.dtype)


@dataclass(frozen=True, init=False)
class Mean(Statistics):
    """The expected return alone: classical reinforcement learning (Equation (1)), imputed by a point mass."""

    strategy: Strategy

    def __init__(self, impute: ImputeLike = "dirac"):
        object.__setattr__(self, "strategy", strategy_for(impute, self))

    @property
    def encodes_mean(self) -> bool:
        return True

    @property
    def size(self) -> int:
        return 1

    def features(self, x: Any) -> Any:
        """h(x) = x, [..., 1, n]."""
        return jnp.asarray(x)[..., None, :]

    def evaluate(self, mu: Particles) -> Any:
        return mu.mean()[..., None]

    def loss(self, values: Any, target: Particles) -> Any:
        """The expected squared distance of the value to Z."""
        values = jnp.asarray(values)
        return expect(target, (target.atoms[..., None, :] - values[..., :, None]) ** 2)

    def mean(self, values: Any) -> Any:
        return jnp.asarray(values)[..., 0]

    def places(self, values: Any) -> Any:
        return jnp.asarray(values)
