"""The statistics that CDRL learns (Lemma 3.2): cumulative probabilities, softened between support
points.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.check import check_increasing, fail
from edrl.core.imputation import find_imputation
from edrl.core.imputation.simple import on_support
from edrl.core.jit import jit
from edrl.core.metrics import integrated_cdf
from edrl.core.particles import Particles, check_samples
from edrl.core.precision import is_concrete
from edrl.core.statistics import Imputation, Statistics, expect
from edrl.core.types import (
    Array,
    AtomsLike,
    BroadcastValues,
    Float,
    Numbers,
    NumbersLike,
    Scores,
    Values,
    ValuesLike,
)


def projected(family: Statistics, values: ValuesLike) -> Particles:
    """Impute the distribution on the support whose cumulative probabilities are the values (Example
    3.5).
    """
    if not isinstance(family, Categorical):
        right = f"it is made for Categorical, not for {type(family).__name__}"
        raise fail("imputation", "categorical", right)
    return on_support(values, family.support)


class Categorical(Statistics):
    """E[h_{z_k, z_{k+1}}(Z)] for consecutive points of `support` (z_1 < ... < z_m): K = m - 1
    values.

    They are the cumulative probabilities of the Cramér projection of the distribution onto the
    support (Equation (12)), so they and the m probabilities determine each other.
    """

    support: Float[Array, " m"]
    imputation: Imputation = eqx.field(static=True)

    own_imputations: ClassVar[Mapping[str, Imputation]] = {"categorical": projected}

    def __init__(
        self,
        support: Sequence[float] | Float[Array, " m"],
        imputation: str | Imputation = "categorical",
    ):
        self.support = _check_support(support)
        self.imputation = find_imputation(imputation, self.own_imputations)

    @property
    def encodes_mean(self) -> bool:
        return True  # of what lies on the support

    @property
    def size(self) -> int:
        return self.support.shape[-1] - 1

    def features(self, x: AtomsLike) -> Scores:
        """h_{z_k, z_{k+1}}(x): 1 up to z_k, 0 from z_{k+1} on, linear in between."""
        points = jnp.asarray(x)
        upper = jnp.asarray(self.support[1:], points.dtype)[:, None]
        return jnp.clip((upper - points[..., None, :]) / self._widths(points.dtype)[:, None], 0, 1)

    @jit
    def evaluate(self, mu: Particles) -> Values:
        mu = check_samples(mu)
        return jnp.sum(self.features(mu.atoms) * mu.probs[..., None, :], axis=-1)

    @jit
    def loss(self, values: BroadcastValues, target: Particles) -> Numbers:
        """The expected squared distance of each value to h(Z): up to a constant, the squared Cramér
        distance.
        """
        values, target = self.check_values(values), check_samples(target)
        # Apart from the values' distance there is a variance, for which their gradient pays nothing.
        means = self.evaluate(target)
        variances = expect(target, (self.features(target.atoms) - means[..., :, None]) ** 2)
        return jnp.sum((values - means) ** 2, axis=-1) + variances

    def places(self, values: ValuesLike) -> Float[jax.Array, " m"]:
        return jnp.asarray(self.support, values.dtype)

    @jit
    def mean(self, values: ValuesLike) -> Numbers:
        """z_m - sum_k (z_{k+1} - z_k) s_k (Lemma 4.8 (i); the paper's K should read K - 1)."""
        values = self.check_values(values)
        highest = jnp.asarray(self.support[-1], values.dtype)
        return highest - jnp.sum(self._widths(values.dtype) * values, axis=-1)

    def bracket(
        self, lower: Particles, upper: Particles, mean: NumbersLike
    ) -> tuple[ValuesLike, ValuesLike]:
        """E[h] is the slope of P's chord between two support points."""
        low, high = integrated_cdf(lower, self.support), integrated_cdf(upper, self.support)
        widths = self._widths(low.dtype)
        return (low[..., 1:] - high[..., :-1]) / widths, (high[..., 1:] - low[..., :-1]) / widths

    def bounds(self) -> tuple[float, float]:
        return float(self.support[0]), float(self.support[-1])

    def probabilities(self, values: ValuesLike) -> Float[jax.Array, "*batch m"]:
        """The m probabilities on the support that the values stand for."""
        return jnp.asarray(self.impute(values).probs)

    def from_probabilities(self, probs: Float[Array, "*batch m"]) -> Values:
        """The values of the distribution with these m probabilities on the support."""
        return jnp.cumsum(jnp.asarray(probs), axis=-1)[..., :-1]

    @property
    def num_outputs(self) -> int:
        return self.support.shape[-1]

    def link(self, outputs: Float[Array, "*batch outputs"]) -> Values:
        """A softmax over the support, then its cumulative sums."""
        return self.from_probabilities(jax.nn.softmax(jnp.asarray(outputs), axis=-1))

    def loss_on_outputs(
        self, outputs: Float[Array, "*#batch outputs"], target: Particles
    ) -> Numbers:
        """C51's cross-entropy to the projected target: affine in it, and minimised where `loss` is."""
        wanted = self.probabilities(self.evaluate(target))
        return -jnp.sum(wanted * jax.nn.log_softmax(jnp.asarray(outputs), axis=-1), axis=-1)

    def _widths(self, dtype: np.dtype) -> jax.Array:
        """The distances [K] between support points, rounded once: in float32 two large points may
        be one.
        """
        widths = (
            np.diff(self.support)
            if isinstance(self.support, np.ndarray)
            else jnp.diff(self.support)
        )
        return jnp.asarray(widths, dtype)


def _check_support(support: Sequence[float] | Array) -> Array:
    if isinstance(support, jax.Array) and not is_concrete(support):
        return support
    if np.ndim(support) != 1 or np.size(support) < 2:
        right = "it must be a sequence of at least two points, e.g. (-1.0, 0.0, 1.0)"
        raise fail("support", support, right)
    points = np.asarray(support, np.float64).tolist()
    return np.array(check_increasing("support", points, -np.inf, np.inf))
