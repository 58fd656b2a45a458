"""Until `HuberQuantiles(taus).loss(values, target)` takes traced levels: then this file goes."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from edrl.core.particles import Particles


def huber_quantile_loss(
    values: Float[Array, "batch n"], taus: Float[Array, "batch n"], target: Particles
) -> Float[Array, " batch"]:
    """Equation (11) with kappa = 1 and levels of each row's own, summed over the levels."""
    error = target.atoms[:, None, :] - values[:, :, None]
    size = jnp.abs(error)
    capped = jnp.minimum(size, 1.0)
    sides = jnp.where(error > 0, taus[..., None], 1 - taus[..., None])
    losses = sides * capped * (size - capped / 2)
    return jnp.sum(losses * target.probs[:, None, :], axis=(1, 2))
