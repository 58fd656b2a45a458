"""The statistics that CDRL learns (Lemma 3.2): cumulative probabilities, softened between support points."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.check import check_increasing, fail
from edrl.core.imputation import ImputeLike, strategy_for
from edrl.core.particles import Particles
from edrl.core.precision import as_float, compiled
from edrl.core.statistics import Statistics, Strategy, expect


@dataclass(frozen=True, init=False)
class Categorical(Statistics):
    """E[h_{z_k, z_{k+1}}(Z)] for consecutive points of `support` (z_1 < ... < z_m): K = m - 1 values.

    They are the cumulative probabilities of the Cramér projection of the distribution onto the support
    (Equation (12)), so they and the m probabilities determine each other.
    """

    support: tuple[float, ...]
    strategy: Strategy

    def __init__(self, support: Sequence[float] | np.ndarray, impute: ImputeLike = "categorical"):
        if np.ndim(support) != 1 or np.size(support) < 2:
            raise fail("support", support, "it must be a sequence of at least two points, e.g. (-1.0, 0.0, 1.0)")
        points = tuple(np.asarray(support, dtype=np.float64).tolist())
        object.__setattr__(self, "support", check_increasing("support", points, -np.inf, np.inf))
        object.__setattr__(self, "strategy", strategy_for(impute, self))

    @property
    def encodes_mean(self) -> bool:
        return True  # of what lies on the support

    @property
    def size(self) -> int:
        return len(self.support) - 1

    def features(self, x: Any) -> Any:
        """h_{z_k, z_{k+1}}(x), [..., K, n]: 1 up to z_k, 0 from z_{k+1} on, linear in between."""
        x = as_float(x)
        upper = jnp.asarray(self.support[1:], x.dtype)[:, None]
        widths = jnp.asarray(np.diff(self.support), x.dtype)[:, None]  # in float32 two large points may be one
        return jnp.clip((upper - x[..., None, :]) / widths, 0, 1)

    def evaluate(self, mu: Particles) -> Any:
        return jnp.sum(self.features(mu.atoms) * mu.probs[..., None, :], axis=-1)

    def loss(self, values: Any, target: Particles) -> Any:
        """The expected squared distance of each value to h(Z): up to a constant, the squared Cramér distance."""
        values = jnp.asarray(values)
        return expect(target, (self.features(target.atoms) - values[..., :, None]) ** 2)

    def places(self, values: Any) -> Any:
        return jnp.asarray(self.support, jnp.asarray(values).dtype)

    def mean(self, values: Any) -> Any:
        """z_m - sum_k (z_{k+1} - z_k) s_k (Lemma 4.8 (i); the paper's K should read K - 1)."""
        values = jnp.asarray(values)
        widths = jnp.asarray(np.diff(self.support), values.dtype)
        return self.support[-1] - jnp.sum(widths * values, axis=-1)

    @compiled
    def probabilities(self, values: Any) -> Any:
        """The m probabilities on the support that the values stand for."""
        return self.impute(values).probs

    @compiled
    def from_probabilities(self, probs: Any) -> Any:
        """The values of the distribution with these m probabilities on the support."""
        return jnp.cumsum(jnp.asarray(probs), axis=-1)[..., :-1]

    @property
    def num_outputs(self) -> int:
        return len(self.support)

    def link(self, outputs: Any) -> Any:
        """A softmax over the support, then its cumulative sums."""
        return self.from_probabilities(jax.nn.softmax(jnp.asarray(outputs), axis=-1))

    def loss_on_outputs(self, outputs: Any, target: Particles) -> Any:
        """C51's cross-entropy to the projected target: affine in it, and minimised where `loss` is."""
        projected = self.probabilities(self.evaluate(target))
        return -jnp.sum(projected * jax.nn.log_softmax(jnp.asarray(outputs), axis=-1), axis=-1)
