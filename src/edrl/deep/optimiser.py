"""Adam and RAdam, in as few passes over the parameters as they can be written.

Parameters and both moments do not fit into a core's cache: what an update costs beside its matrix
products is mostly reading and writing them. All that does not differ from element to element is one
number, so that an element needs one square root and one division.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from edrl.deep.agents.beside import Parts
from edrl.deep.types import Parameters

_DECAYS = 0.9, 0.999  # of the two moments, with every update
_LEAST_LENGTH = 5.0  # of the average of squared gradients, before RAdam divides by its root


class Moments(NamedTuple):
    """Averages of the gradients so far, and of their squares."""

    updates: Int[Array, ""]  # how many there were
    mu: Parameters
    nu: Parameters


@partial(
    jax.tree_util.register_dataclass,
    data_fields=("learning_rate",),
    meta_fields=("epsilon", "rectified", "max_gradient", "average"),
)
@dataclass(frozen=True)  # to make an Equinox module for every update would take longer
class Optimiser:
    """How parameters follow gradients: Adam, or RAdam, which begins with smaller steps.

    The learning rate is data: it may change from update to update, and nothing is compiled again.
    """

    learning_rate: ArrayLike
    epsilon: float = 1e-8
    rectified: bool = False
    """Whether it is RAdam (Liu et al., 2020)."""
    max_gradient: float | None = None
    """The norm to which longer gradients are cut."""
    average: float = 0.0
    """The share that an average of the online parameters keeps with every update; 0 for none."""

    def init(self, parameters: Parameters) -> Moments:
        """The state before the first update."""
        mu, nu = (jax.tree.map(jnp.zeros_like, parameters) for _ in range(2))
        return Moments(jnp.zeros((), jnp.int32), mu, nu)

    def step(
        self, parameters: Parameters, gradient: Parameters, moments: Moments
    ) -> tuple[Parameters, Moments]:
        """The parameters and the state after an update."""
        if self.max_gradient is not None:
            gradient = _cut_parts(gradient, self.max_gradient)
        mu = running_average(_DECAYS[0], moments.mu, gradient)
        nu = running_average(_DECAYS[1], moments.nu, jax.tree.map(jnp.square, gradient))
        moments = Moments(moments.updates + 1, mu, nu)
        size, scale, epsilon = self._factors(moments.updates)

        def moved(
            old: Float[Array, "..."], mu: Float[Array, "..."], nu: Float[Array, "..."]
        ) -> Float[Array, "..."]:
            return old - size * mu / (scale * jnp.sqrt(nu) + epsilon)

        return jax.tree.map(moved, parameters, mu, nu), moments

    def _factors(
        self, count: Int[Array, ""]
    ) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""] | float]:
        """The factor of the step, that of the root, and what is added to it, at an update.

        The averages began at 0: they are divided by the weight that gradients have in them.
        """
        weight, squared_weight = (1 - jnp.power(decay, count) for decay in _DECAYS)
        size, scale = jnp.divide(self.learning_rate, weight), jax.lax.rsqrt(squared_weight)
        if not self.rectified:
            return size, scale, self.epsilon
        longest = 2 / (1 - _DECAYS[1]) - 1
        length = longest - 2 * count * (1 - squared_weight) / squared_weight
        shares = (length - 4) * (length - 2) / length, (longest - 4) * (longest - 2) / longest
        # As long as the average of squares is too short, the step does not depend on it.
        sure = length >= _LEAST_LENGTH
        size = size * jnp.where(sure, jnp.sqrt(shares[0] / shares[1]), 1.0)
        return size, jnp.where(sure, scale, 0.0), jnp.where(sure, self.epsilon, 1.0)


def _cut_parts(gradient: Parameters, norm: float) -> Parameters:
    """The gradient cut to a norm; those of an agent and of statistics beside it apart."""
    if isinstance(gradient, Parts):
        return Parts(*(_cut_parts(part, norm) for part in gradient))
    length = jnp.sqrt(sum(jnp.sum(column**2) for column in jax.tree.leaves(gradient)))
    share = 1 / jnp.maximum(1.0, length / norm)
    return jax.tree.map(lambda column: column * share, gradient)


def running_average(share: float, average: Parameters, new: Parameters) -> Parameters:
    """An average that keeps a share of what it was."""
    return jax.tree.map(lambda a, n: share * a + (1 - share) * n, average, new)
