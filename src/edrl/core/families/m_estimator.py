"""`MEstimator`: a family of statistics from nothing but its score function (Section 3.4)."""

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.imputation import STRATEGIES
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics, Strategy, expect

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)


class MEstimator(Statistics):
    """Statistics q_k that solve E[psi_k(q_k; Z)] = 0 for a score psi that increases in q and has its zero at q = z.

    A subclass gives `size` and `score`; evaluation, loss, mean and a maximum-entropy imputation come for free.
    """

    strategy: Strategy = STRATEGIES["maximum-entropy"]

    @abc.abstractmethod
    def score(self, values: Any, atoms: Any) -> Any:
        """psi_k(values_k; z), [..., K, n]."""

    def evaluate(self, mu: Particles) -> Any:
        """By bisection between the extreme atoms, to the last bit: a general score has no closed form."""
        real = mu.probs > 0
        low = jnp.min(jnp.where(real, mu.atoms, jnp.inf), axis=-1, keepdims=True)
        high = jnp.max(jnp.where(real, mu.atoms, -jnp.inf), axis=-1, keepdims=True)
        shape = (*mu.shape, self.size)

        def halve(_: int, bracket: tuple[Any, Any]) -> tuple[Any, Any]:
            low, high = bracket
            middle = low + (high - low) / 2
            # A score may overflow far away, where an atom without weight must not count.
            scores = jnp.where(real[..., None, :], self.score(middle, mu.atoms), 0)
            too_high = jnp.sum(scores * mu.probs[..., None, :], axis=-1) > 0
            return jnp.where(too_high, low, middle), jnp.where(too_high, middle, high)

        steps = int(jnp.finfo(mu.atoms.dtype).nmant) + 8
        bracket = (jnp.broadcast_to(low, shape), jnp.broadcast_to(high, shape))
        low, high = jax.lax.fori_loop(0, steps, halve, bracket)
        return low + (high - low) / 2

    def places(self, values: Any) -> Any:
        return jnp.asarray(values)

    def loss(self, values: Any, target: Particles) -> Any:
        """The score's integral from z to the value (32-point Gauss), with the score itself as its gradient."""
        values = jnp.asarray(values)
        q, z = jax.lax.stop_gradient(values)[..., None, :], target.atoms[..., :, None]  # [..., n, K]
        nodes = jnp.asarray((_NODES + 1) / 2, values.dtype)[:, None, None]
        path = (
            z[..., None, :, :] + nodes * (q - z)[..., None, :, :],
            jnp.broadcast_to(z, (*z.shape[:-1], 1))[..., None, :, :],
        )
        along = self.score(*path)[..., 0]  # [..., node, n, K]
        weights = jnp.asarray(_WEIGHTS / 2, values.dtype)[:, None, None]
        area = jnp.swapaxes((q - z) * jnp.sum(weights * along, axis=-3), -1, -2)  # [..., K, n]
        slope = jax.lax.stop_gradient(self.score(values, target.atoms))
        return expect(target, area + slope * (values - jax.lax.stop_gradient(values))[..., :, None])
