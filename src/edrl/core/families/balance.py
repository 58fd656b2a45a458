"""Where two piecewise linear functions balance: the closed form behind expectiles and Huber quantiles."""

from typing import Any

import jax.numpy as jnp


def balance_point(knots: Any, below: Any, above: Any, taus: Any, rounding: float = 0.0) -> Any:
    """The smallest q [..., K] with (1 - tau) below(q) >= tau above(q), for each tau in `taus [K]`.

    `below` grows from 0 and `above` falls to 0 along the sorted `knots [..., n]`, both linearly in between: the
    expected (possibly capped) distances to the atoms below and above q. Their share below/(below + above) grows
    with q whatever tau is, so one binary search in it finds the gap, and in the gap the equation is linear. Where the
    share may be level, `rounding` is how far it may be from where it belongs: what is tau but for that is tau.
    """
    n = knots.shape[-1]
    if n == 1:
        return jnp.broadcast_to(knots, (*knots.shape[:-1], taus.shape[-1]))
    total = below + above
    share = jnp.where(total > 0, below / jnp.where(total > 0, total, 1), 0)
    search = jnp.vectorize(lambda share, taus: jnp.searchsorted(share, taus), signature="(n),(k)->(k)")
    left = jnp.clip(search(share, taus - jnp.minimum(rounding, taus / 2)) - 1, 0, n - 2)

    def at(function: Any, index: Any) -> Any:
        return jnp.take_along_axis(function, index, axis=-1)

    def excess(index: Any) -> Any:
        return taus * at(above, index) - (1 - taus) * at(below, index)

    before, after = excess(left), excess(left + 1)  # before >= 0 >= after, up to rounding
    drop = before - after
    step = jnp.where(drop > 0, jnp.clip(before / jnp.where(drop > 0, drop, 1), 0, 1), 0)
    return at(knots, left) + step * (at(knots, left + 1) - at(knots, left))
