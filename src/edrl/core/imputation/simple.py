"""The imputations that need no solving: those of Section 3.2 (naive, Dirac, quantile, categorical),
and naive samples with the right mean.
"""

import jax
import jax.numpy as jnp

from edrl.core.check import fail
from edrl.core.order import sorted_rows
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics
from edrl.core.types import Array, Atoms, Float, Taus, ValuesLike


def as_samples(family: Statistics, values: ValuesLike) -> Particles:
    """Take the statistics for equally weighted samples: the naive "type error" of Section 3.1, on
    purpose.
    """
    return Particles(values)


def shifted_samples(family: Statistics, values: ValuesLike) -> Particles:
    """The naive samples, moved to the mean that the values encode.

    Their mean is right and their spread too small: a control that tells what a wrong mean does from
    what a missing imputation does.
    """
    _check_encodes_mean(family, "shifted-samples")
    quarters = values / 4  # these cannot overflow when subtracted
    shift = family.mean(values) / 4 - jnp.sum(quarters / family.size, axis=-1)
    limit = float(jnp.finfo(values.dtype).max) / 4
    return Particles(4 * jnp.clip(quarters + shift[..., None], -limit, limit))


def dirac(family: Statistics, values: ValuesLike) -> Particles:
    """A point mass at the mean that the values encode: consistent for the mean alone."""
    _check_encodes_mean(family, "dirac")
    return Particles(family.mean(values)[..., None])


def _check_encodes_mean(family: Statistics, imputation: str) -> None:
    if not family.encodes_mean:
        raise fail("imputation", imputation, f"the mean is not among the statistics of {family}")


def quantile_cells(values: ValuesLike, taus: Taus) -> Particles:
    """Quantile tau_k weighs the levels nearer to tau_k than to its neighbours (Example 3.5).

    For the midpoints tau_k = (2k-1)/2K each weight is 1/K, as in QDRL. Values in the wrong order
    are sorted, which leaves the distribution of a network's crossing quantiles what QR-DQN takes it
    for.
    """
    levels = jnp.asarray(taus, values.dtype)
    inner = (levels[..., 1:] + levels[..., :-1]) / 2
    first, last = jnp.zeros_like(levels[..., :1]), jnp.ones_like(levels[..., :1])
    edges = jnp.concatenate([first, inner, last], axis=-1)
    return Particles(sorted_rows(values), jnp.diff(edges, axis=-1))


def on_support(values: ValuesLike, support: Float[Array, " m"]) -> Particles:
    """The distribution on the support whose cumulative probabilities are the values (Example 3.5).

    Values that are not increasing in [0, 1] are those of no distribution: they are raised to their
    running maximum within [0, 1].
    """
    levels = jax.lax.cummax(jnp.clip(jnp.asarray(values), 0, 1), axis=values.ndim - 1)
    probs = jnp.diff(_between_0_and_1(levels), axis=-1)
    return Particles(jnp.broadcast_to(jnp.asarray(support, probs.dtype), probs.shape), probs)


def _between_0_and_1(levels: Atoms) -> Array:
    """The levels with 0 before them and 1 behind."""
    ends = [(0, 0)] * (levels.ndim - 1)
    return jnp.pad(jnp.pad(levels, [*ends, (1, 0)]), [*ends, (0, 1)], constant_values=1)
