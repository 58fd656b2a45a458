"""Where two piecewise linear functions balance: the closed form behind expectiles and Huber
quantiles.
"""

import jax
import jax.numpy as jnp

from edrl.core.order import search
from edrl.core.types import Array, Atoms, Float, Values


def balance_point(
    knots: Atoms, below: Atoms, above: Atoms, taus: Float[Array, "*rows K"], rounding: float = 0.0
) -> Values:
    """The smallest q [..., K] with (1 - tau) below(q) >= tau above(q), for each tau in `taus [...,
    K]`.

    `below` grows from 0 and `above` falls to 0 along the sorted `knots [..., n]`, both linearly in
    between: the expected (possibly capped) distances to the atoms below and above q. Their share
    below/(below + above) grows with q whatever tau is. So one binary search in it finds the gap,
    and in the gap the equation is linear. `rounding` is how far the share may be from its true
    value: a share that close to tau counts as tau.
    """
    n = knots.shape[-1]
    batch = jnp.broadcast_shapes(knots.shape[:-1], taus.shape[:-1])
    knots, below, above = (jnp.broadcast_to(x, (*batch, n)) for x in (knots, below, above))
    taus = jnp.asarray(taus)
    if n == 1:
        return jnp.broadcast_to(knots, (*batch, taus.shape[-1]))
    total = below + above
    share = jnp.where(total > 0, below / jnp.where(total > 0, total, 1), 0)
    left = jnp.clip(search(share, taus - jnp.minimum(rounding, taus / 2)) - 1, 0, n - 2)

    def at(function: jax.Array, index: jax.Array) -> jax.Array:
        return jnp.take_along_axis(function, index, axis=-1)

    def excess(index: jax.Array) -> jax.Array:
        return taus * at(above, index) - (1 - taus) * at(below, index)

    before, after = excess(left), excess(left + 1)  # before >= 0 >= after, up to rounding
    drop = before - after
    step = jnp.where(drop > 0, jnp.clip(before / jnp.where(drop > 0, drop, 1), 0, 1), 0)
    return at(knots, left) + step * (at(knots, left + 1) - at(knots, left))
