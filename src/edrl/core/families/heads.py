"""Heads: how a network's raw outputs become values that are statistics of some distribution.

Without a head the raw outputs are the values, and hardly ever statistics of any distribution. A head
reads them as a centre and a shape around it, in coordinates in which every choice is consistent
(docs/deep.md#heads).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.check import fail, one_of
from edrl.core.families.levels import Head, LevelStatistics
from edrl.core.particles import Particles
from edrl.core.types import Array, Float, Taus, Values

_START = -2.0
"""What is added to the raw scale: its softplus, 0.13, makes networks begin with narrow
distributions."""
_RANGE = 8.0
"""The range of a uniform distribution in units of a scale, which is half the mean absolute
deviation."""
_LEAST = 1e-3
"""The share of the first shape in every shape. Tails of next to no mass would have to be longer
than single precision can tell."""


@dataclass(frozen=True)
class Chords(Head):
    """Expectiles by their mean, a scale, and the slopes of the chords of the integrated CDF P.

    Any slopes that increase between 0 and 1, with any mean m and any height P(m), belong to one
    vector of expectiles, and every vector of expectiles has such slopes. They are the cumulative
    sums of a softmax. Outputs of zero give the expectiles of a uniform distribution.
    """

    below: int | None = None
    """How many levels are below 1/2: shapes depend on it, so it is known before levels are."""
    above: int | None = None
    """How many levels are above 1/2."""

    def at(self, taus: Taus, mean_at: int | None) -> "Chords":
        """The same for these levels, as far as they are known."""
        size = taus.shape[-1]
        if mean_at is not None:
            return replace(self, below=mean_at, above=size - 1 - mean_at)
        if not isinstance(taus, np.ndarray) or taus.ndim > 1:
            return self
        below = int(np.sum(taus < 0.5))
        return replace(self, below=below, above=size - below)

    def num_outputs(self, family: LevelStatistics) -> int:
        """The mean, the scale, and a share of the slope for each knot."""
        below, above = self._sides()
        return 2 + max(below, 1) + max(above, 1)

    def link(self, family: LevelStatistics, outputs: Float[Array, "*batch outputs"]) -> Values:
        """Expectiles [..., K]: outward from the mean, each chord leads from one knot to the next."""
        below, above = self._sides()
        mean, scale, raw = _split(outputs)
        taus = jnp.asarray(family.taus, raw.dtype)
        lower, upper = taus[..., :below], 1 - taus[..., taus.shape[-1] - above :][..., ::-1]
        shares = _shares(raw, _uniform_shares(lower, upper))
        left = scale * _depths(lower, jnp.cumsum(shares, axis=-1)[..., :below])
        right = scale * _depths(upper, jnp.cumsum(shares[..., ::-1], axis=-1)[..., :above])
        middle = [mean] if below + above < family.size else []
        return jnp.concatenate([mean - left, *middle, mean + right[..., ::-1]], axis=-1)

    def _sides(self) -> tuple[int, int]:
        if self.below is None or self.above is None:
            right = "it must be left out here: it is for Expectiles whose levels, or whose mean_at, are known"
            raise fail("head", "chords", right)
        return self.below, self.above


def _depths(
    taus: Float[jax.Array, "*rows k"], slopes: Float[jax.Array, "*batch k"]
) -> Float[jax.Array, "*batch k"]:
    """How far the knots of one side are from the mean m, the outermost first, where P(m) = 1.

    `slopes` are those of the chords that lead inward, the last one to the mean. A knot of depth D
    has the height P = c D with c = tau / (1 - 2 tau), and a chord of slope s leads from (D, c D) to
    the next knot's (D', c' D'): so D = D' (c' + s) / (c + s).
    """
    eps = float(jnp.finfo(slopes.dtype).eps)
    heights = taus / jnp.maximum(1 - 2 * taus, eps)
    last = jnp.ones_like(slopes[..., -1:])
    arriving = jnp.concatenate([heights[..., 1:] + slopes[..., :-1], last], axis=-1)
    return jnp.cumprod((arriving / (heights + slopes))[..., ::-1], axis=-1)[..., ::-1]


def _uniform_shares(
    lower: Float[jax.Array, "*rows below"], upper: Float[jax.Array, "*rows above"]
) -> Float[jax.Array, "*rows n"]:
    """By how much the slope of a uniform distribution's chords grows at each knot.

    P is a parabola, so a chord's slope is the average of F at its ends. `upper` are the levels above
    1/2 as `lower` are, mirrored. A side without knots ends at the mean.
    """
    left, right = (jnp.sqrt(t) / (jnp.sqrt(t) + jnp.sqrt(1 - t)) for t in (lower, upper))
    mean = jnp.full_like(jnp.concatenate([left, right], axis=-1)[..., :1], 0.5)
    left, right = (side if side.shape[-1] else mean for side in (left, right))
    cdf = jnp.concatenate([left, 1 - right[..., ::-1]], axis=-1)
    slopes = (cdf[..., 1:] + cdf[..., :-1]) / 2
    ends = jnp.zeros_like(mean), jnp.ones_like(mean)
    return jnp.diff(jnp.concatenate([ends[0], slopes, ends[1]], axis=-1), axis=-1)


@dataclass(frozen=True)
class Ordered(Head):
    """Quantiles that do not cross: their average, a range, and a softmax that shares it out.

    Every increasing vector has this form (Zhou et al., 2020, have it for QR-DQN). It says all there
    is to say of quantiles; Huber quantiles are in order, too, but must meet further conditions.
    """

    def num_outputs(self, family: LevelStatistics) -> int:
        """The average, the scale, and a share of the range for each gap."""
        return family.size + 1

    def link(self, family: LevelStatistics, outputs: Float[Array, "*batch outputs"]) -> Values:
        """Quantiles [..., K]."""
        average, scale, raw = _split(outputs)
        gaps = jnp.diff(jnp.asarray(family.taus, raw.dtype), axis=-1)
        total = jnp.sum(gaps, axis=-1, keepdims=True)
        steps = _RANGE * scale * total * _shares(raw, gaps / total)
        first = jnp.zeros_like(average)
        places = jnp.concatenate([first, jnp.cumsum(steps, axis=-1)], axis=-1)
        return average + (places - jnp.mean(places, axis=-1, keepdims=True))


@dataclass(frozen=True)
class WeightedAtoms(Head):
    """The statistics of K atoms with weights: any M-estimator whose score is continuous.

    K atoms are enough for any values that are statistics of a distribution. The K expected scores
    are a point in the convex hull of a connected curve, and K points of it are enough for that
    (Fenchel and Bunt).
    """

    def num_outputs(self, family: LevelStatistics) -> int:
        """The mean, the atoms and their weights."""
        return 1 + 2 * family.size

    def link(self, family: LevelStatistics, outputs: Float[Array, "*batch outputs"]) -> Values:
        """The statistics [..., K] of the atoms, which are moved so that their mean is the first
        output.
        """
        outputs = jnp.asarray(outputs)
        n, dtype = family.size, outputs.dtype
        reach = _RANGE / 2 * float(np.log1p(np.exp(_START)))
        atoms = outputs[..., 1 : n + 1] + jnp.linspace(-reach, reach, n, dtype=dtype)
        probs = _shares(outputs[..., n + 1 :], jnp.full(n, 1 / n, dtype))
        centred = atoms - jnp.sum(probs * atoms, axis=-1, keepdims=True)
        return outputs[..., :1] + family.evaluate(Particles(centred, probs))


def _split(
    outputs: Float[Array, "*batch outputs"],
) -> tuple[
    Float[jax.Array, "*batch 1"], Float[jax.Array, "*batch 1"], Float[jax.Array, "*batch n"]
]:
    """A centre, a scale, and what the shape is made of."""
    outputs = jnp.asarray(outputs)
    return outputs[..., :1], jax.nn.softplus(outputs[..., 1:2] + _START), outputs[..., 2:]


def _shares(
    raw: Float[jax.Array, "*batch n"], start: Float[jax.Array, "*rows n"]
) -> Float[jax.Array, "*batch n"]:
    """Positive numbers that sum to 1: `start` where the raw outputs are 0."""
    return _LEAST * start + (1 - _LEAST) * jax.nn.softmax(raw + jnp.log(start), axis=-1)


def find_head(given: str | Head | None, own: Mapping[str, Head], size: int) -> Head | None:
    """A head by its name, or the head itself; `own` are those that a family of `size` statistics
    has. A single value needs none: it is always that of a distribution.
    """
    if isinstance(given, str) and given not in own:
        raise fail("head", given, one_of(given, own))
    found = own[given] if isinstance(given, str) else given
    return None if size == 1 else found
