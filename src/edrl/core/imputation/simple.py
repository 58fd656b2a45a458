"""The imputation strategies of Section 3.2 that need no solving: naive, Dirac, quantile and categorical."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.check import fail
from edrl.core.particles import Particles
from edrl.core.precision import compiled
from edrl.core.statistics import Statistics


@compiled
def as_samples(family: Statistics, values: Any) -> Particles:
    """Take the statistics for equally weighted samples: the naive "type error" of Section 3.1, on purpose."""
    return Particles(values)


@compiled
def dirac(family: Statistics, values: Any) -> Particles:
    """A point mass at the mean that the values encode: consistent for the mean alone."""
    if not family.encodes_mean:
        raise fail("impute", "dirac", f"the mean is not among the statistics of {family}")
    return Particles(family.mean(values)[..., None])


@compiled
def quantile_cells(family: Statistics, values: Any) -> Particles:
    """Quantile tau_k weighs the levels nearer to tau_k than to its neighbours (Example 3.5).

    For the midpoints tau_k = (2k-1)/2K each weight is 1/K, as in QDRL. Values in the wrong order are sorted,
    which leaves the distribution of a network's crossing quantiles what QR-DQN takes it for.
    """
    values, taus = jnp.asarray(values), np.asarray(family.taus)  # type: ignore[attr-defined]
    edges = np.concatenate([[0.0], (taus[1:] + taus[:-1]) / 2, [1.0]])
    return Particles(jnp.sort(values, axis=-1), np.diff(edges).astype(values.dtype))


@compiled
def on_support(family: Statistics, values: Any) -> Particles:
    """The distribution on the support whose cumulative probabilities are the values (Example 3.5).

    Values that are not increasing in [0, 1] are those of no distribution: they are raised to their running
    maximum within [0, 1].
    """
    values = jnp.asarray(values)
    levels = jax.lax.cummax(jnp.clip(values, 0, 1), axis=values.ndim - 1)
    ends = [(0, 0)] * (values.ndim - 1)
    probs = jnp.diff(jnp.pad(jnp.pad(levels, [*ends, (1, 0)]), [*ends, (0, 1)], constant_values=1), axis=-1)
    support = jnp.asarray(family.support, values.dtype)  # type: ignore[attr-defined]
    return Particles(jnp.broadcast_to(support, probs.shape), probs)
