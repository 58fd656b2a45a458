"""Continuous rewards, and how they become particles without losing their mean.

Every distribution is `loc + scale * U` with U standard of its kind: N(0, 1), uniform on [0, 1], or
exponential of mean 1. A distribution is discretised into n bins of equal probability, each gathered
at its conditional mean. The mean is then exact, and so is the integrated CDF P(x) = E[(x - R)+] at
every edge of a bin. Between the edges P is convex. Its discretisation P_n follows the tangents at
both edges, which meet at the atom: P - P_n is largest there.
"""

import abc
import functools
import math
from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from scipy import special

from edrl.core.check import check_count, check_number, fail
from edrl.core.particles import Particles
from edrl.core.types import Array, Float, Int, Key

PARTICLES, NORMAL, UNIFORM, EXPONENTIAL = KINDS = range(4)
"""The kinds of distributions in `ContinuousRewards.kind`.

`PARTICLES` says that the distribution is discrete, and held elsewhere.
"""

_STANDARD_MEAN = {NORMAL: 0.0, UNIFORM: 0.5, EXPONENTIAL: 1.0}


class ContinuousReward(abc.ABC):
    """A continuous distribution of a reward: an affine image of the standard one of its `kind`."""

    kind: ClassVar[int]

    @property
    @abc.abstractmethod
    def affine(self) -> tuple[float, float]:
        """`(loc, scale)` such that the reward is `loc + scale * U`; a negative scale reflects."""

    def discretise(self, n: int) -> Particles:
        """`n` atoms of probability 1/n, at the conditional means of `n` equally likely bins."""
        loc, scale = self.affine
        return Particles(np.sort(loc + scale * standard_atoms(self.kind, check_count("n", n, 1))))

    def integrated_cdf(self, x: ArrayLike) -> Float[np.ndarray, "..."]:
        """P(x) = E[(x - R)+], the integral of the CDF up to `x`."""
        loc, scale = self.affine
        u = np.asarray((np.asarray(x, np.float64) - loc) / scale)
        below = _standard_integrated_cdf(self.kind, u)  # E[(u - U)+]
        # Reflected, x - R = |scale| (U - u), and (U - u)+ = (U - u) + (u - U)+.
        if scale > 0:
            return np.asarray(scale * below)
        return np.asarray(-scale * (_STANDARD_MEAN[self.kind] - u + below))

    def integrated_cdf_error(self, n: int) -> float:
        """The largest |P(x) - P_n(x)| over all x of the discretisation into `n` atoms."""
        return abs(self.affine[1]) * standard_error(self.kind, check_count("n", n, 1))


@dataclass(frozen=True)
class Normal(ContinuousReward):
    """The normal distribution."""

    mean: float
    std: float
    kind: ClassVar[int] = NORMAL

    def __post_init__(self) -> None:
        check_number("mean", self.mean)
        check_number("std", self.std, 0.0, open_low=True)

    @property
    def affine(self) -> tuple[float, float]:
        """The mean and the standard deviation."""
        return float(self.mean), float(self.std)


@dataclass(frozen=True)
class Uniform(ContinuousReward):
    """The uniform distribution on [low, high]."""

    low: float
    high: float
    kind: ClassVar[int] = UNIFORM

    def __post_init__(self) -> None:
        check_number("low", self.low)
        check_number("high", self.high, self.low, open_low=True)
        check_number("high - low", self.high - self.low)

    @property
    def affine(self) -> tuple[float, float]:
        """The left end and the width."""
        return float(self.low), float(self.high - self.low)

    @property
    def mean(self) -> float:
        """The middle of the interval."""
        return self.low + (self.high - self.low) / 2


@dataclass(frozen=True)
class Exponential(ContinuousReward):
    """The distribution of `shift + E`, or of `shift - E` if reflected.

    E is exponential of mean `scale`.
    """

    scale: float = 1.0
    shift: float = 0.0
    reflected: bool = False
    kind: ClassVar[int] = EXPONENTIAL

    def __post_init__(self) -> None:
        check_number("scale", self.scale, 0.0, open_low=True)
        check_number("shift", self.shift)

    @property
    def affine(self) -> tuple[float, float]:
        """The shift, and the scale with its sign."""
        return float(self.shift), float(-self.scale if self.reflected else self.scale)

    @property
    def mean(self) -> float:
        """The shift plus or minus the scale."""
        return sum(self.affine)


class ContinuousRewards(eqx.Module):
    """A batch of rewards `loc + scale * U`, each with U standard of its `kind`; see `KINDS`."""

    kind: Int[Array, "..."]  # int8, 0 where the distribution is not continuous
    loc: Float[Array, "..."]
    scale: Float[Array, "..."]  # negative to reflect

    def sample(self, key: Key) -> Float[jax.Array, "..."]:
        """One exact draw from every distribution; where the kind is `PARTICLES`, `loc`."""
        loc = jnp.asarray(self.loc)
        return self.from_standard(standard_draws(key, loc.shape, loc.dtype))

    def from_standard(self, draws: Float[Array, " 3 *batch"]) -> Float[jax.Array, "*batch"]:
        """The rewards that belong to draws of the three standard distributions."""
        kinds = [self.kind == NORMAL, self.kind == UNIFORM, self.kind == EXPONENTIAL]
        chosen = jnp.select(kinds, list(draws), 0.0)
        return jnp.asarray(self.loc) + jnp.asarray(self.scale) * chosen

    def atoms(self, n: int) -> Float[np.ndarray, "*batch n"]:
        """The atoms of all discretised rewards, in increasing order for a positive scale."""
        standard = np.stack([np.zeros(n), *(standard_atoms(kind, n) for kind in KINDS[1:])])
        chosen = standard[np.asarray(self.kind)]
        return np.asarray(self.loc[..., None] + self.scale[..., None] * chosen)

    def integrated_cdf_error(self, n: int) -> Float[np.ndarray, "..."]:
        """`ContinuousReward.integrated_cdf_error` of the batch, 0 where it is not continuous."""
        standard = np.array([0.0, *(standard_error(kind, n) for kind in KINDS[1:])])
        return np.asarray(np.abs(self.scale) * standard[np.asarray(self.kind)])


def standard_draws(
    key: Key, shape: tuple[int, ...] = (), dtype: DTypeLike = float
) -> Float[jax.Array, "3 ..."]:
    """A draw [3, *shape] of each standard distribution.

    One key serves all of them, since a reward uses one of the three.
    """
    kinds = (jax.random.normal, jax.random.uniform, jax.random.exponential)
    return jnp.stack([draw(key, shape, dtype) for draw in kinds])


@functools.lru_cache(maxsize=128)
def standard_atoms(kind: int, n: int) -> Float[np.ndarray, " n"]:
    """The conditional means of the standard distribution of `kind` in `n` equally likely bins."""
    if kind == UNIFORM:
        atoms = (np.arange(n) + 0.5) / n
    elif kind == NORMAL:  # the integral of u phi(u) is -phi(u)
        edges = special.ndtri(np.arange(n + 1) / n)
        edges = (edges - edges[::-1]) / 2  # i/n and 1 - i/n are rounded differently
        atoms = -n * np.diff(_normal_density(edges))
    elif kind == EXPONENTIAL:  # the integral of -log(s) over s is s + entr(s), with s = 1 - F
        survival = np.arange(n, -1, -1) / n
        atoms = 1 - n * np.diff(special.entr(survival))
    else:
        raise fail("kind", kind, f"it must be one of {list(KINDS[1:])}")
    atoms.flags.writeable = False  # it is shared
    return atoms


@functools.lru_cache(maxsize=128)
def standard_error(kind: int, n: int) -> float:
    """The largest |P - P_n| of the standard distribution of `kind`, found at the atoms."""
    atoms = standard_atoms(kind, n)
    discretised = (np.arange(n) * atoms - (np.cumsum(atoms) - atoms)) / n
    return float(np.max(_standard_integrated_cdf(kind, atoms) - discretised))


def _standard_integrated_cdf(
    kind: int, u: Float[np.ndarray, "*batch"]
) -> Float[np.ndarray, "*batch"]:
    """P(u) = E[(u - U)+] of the standard distribution of `kind`."""
    if kind == NORMAL:
        return np.asarray(u * special.ndtr(u) + _normal_density(u))
    if kind == UNIFORM:
        return np.asarray(np.clip(u, 0, 1) ** 2 / 2 + np.maximum(u - 1, 0))
    positive = np.maximum(u, 0)
    return np.asarray(positive + np.expm1(-positive))


def _normal_density(u: Float[np.ndarray, "*batch"]) -> Float[np.ndarray, "*batch"]:
    return np.asarray(np.exp(-np.square(u) / 2) / math.sqrt(2 * math.pi))
