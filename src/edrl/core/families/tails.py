"""Expectiles of weighted atoms without sorting: Newton's method, which ends after a few steps.

Let y be an atom's distance from the mean, on the side of the level that is asked for, and t the
level as seen from there: max(tau, 1 - tau). The expectile's own distance e from the mean solves

    t E[(y - e)+] = (1 - t) E[(e - y)+],    so that    e = (2t - 1) S / (t F + (1 - t) (1 - F))

with the mass F = P(y > e) and the moment S = E[y; y > e] of the tail beyond it. The right side is
Newton's step from e, on a function that is convex and piecewise linear. From e = 0 steps only go
outward; where no atom is between two of them, the second is the solution. All sums are of numbers
of one sign, so no digits are lost.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from edrl.core.particles import Particles
from edrl.core.types import Array, Float, Values

_ATOMS_AT_ONCE = 5  # in a step of the loop over atoms, so that sums need not go through memory


def expectiles_of(mu: Particles, taus: Float[Array, "*rows K"]) -> Values:
    """The expectiles [..., K] of `mu [..., n]` at levels `taus`."""
    batch = jnp.broadcast_shapes(mu.shape, taus.shape[:-1])
    atoms, probs = (jnp.broadcast_to(x, (*batch, mu.size)) for x in (mu.atoms, mu.probs))
    total = jnp.sum(probs, axis=-1, keepdims=True)
    rough = jnp.sum(probs * atoms, axis=-1, keepdims=True) / total
    # Padding may lie so far away that the distance is infinite.
    mean = rough + _sum(probs, jnp.where(probs > 0, atoms - rough, 0)) / total
    distances = jnp.where(probs > 0, atoms - mean, 0)

    # The batch comes last: so all operations are on long rows.
    y, p = (jnp.moveaxis(x.reshape(-1, mu.size), -1, 0) for x in (distances, probs / total))
    levels = jnp.broadcast_to(taus, (*batch, taus.shape[-1])).reshape(-1, taus.shape[-1]).T
    found = jnp.where(levels < 0.5, -1, 1) * _tail_expectiles(y, p, levels)
    return mean + jnp.moveaxis(found, 0, -1).reshape(*batch, -1)


def _sum(probs: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.sum(probs * x, axis=-1, keepdims=True)


@jax.custom_jvp
def _tail_expectiles(
    y: Float[jax.Array, "n B"], p: Float[jax.Array, "n B"], taus: Float[jax.Array, "K B"]
) -> Float[jax.Array, "K B"]:
    """The expectiles of distributions of mean 0, as distances from the mean, [K, B]."""
    step = functools.partial(_step, y, p, taus)
    # A guess that is right for normal distributions, about. From beyond the solution a step leads
    # back to before it.
    rare = 4 * taus * (1 - taus)
    guess = step(jnp.zeros_like(taus)) * rare**-0.25

    def outward(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return state[1], jnp.maximum(state[1], step(state[1]))

    first = step(guess)
    start = (first, jnp.maximum(first, step(first)))
    found: jax.Array = lax.while_loop(lambda at: jnp.any(at[1] > at[0]), outward, start)[1]
    return found


@_tail_expectiles.defjvp
def _derivative(
    at: tuple[jax.Array, jax.Array, jax.Array], along: tuple[jax.Array, jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """That of the last step, in which the tail stays the same."""
    found = _tail_expectiles(*at)
    return found, jax.jvp(lambda y, p, taus: _step(y, p, taus, found), at, along)[1]


def _step(y: jax.Array, p: jax.Array, taus: jax.Array, e: jax.Array) -> jax.Array:
    """Newton's step from e, [K, B]."""
    side, t = jnp.where(taus < 0.5, -1, 1).astype(y.dtype), jnp.maximum(taus, 1 - taus)

    def add(j: jax.Array, sums: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        distance = side * y[j]
        beyond = jnp.where(distance > e, p[j], 0)
        return sums[0] + beyond * distance, sums[1] + beyond

    nothing = (jnp.zeros_like(e), jnp.zeros_like(e))
    at_once = min(_ATOMS_AT_ONCE, y.shape[0])
    sums: tuple[jax.Array, jax.Array]
    sums = lax.fori_loop(0, y.shape[0], add, nothing, unroll=at_once)
    moment, mass = sums
    return (2 * t - 1) * moment / (t * mass + (1 - t) * (1 - mass))
