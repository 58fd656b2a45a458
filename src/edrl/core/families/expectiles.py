"""Expectiles (Definition 3.3): quantiles' siblings whose middle one is the mean."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.check import fail
from edrl.core.families.heads import Chords, WeightedAtoms, find_head
from edrl.core.families.levels import (
    Head,
    LevelStatistics,
    TausLike,
    column,
    evenly_spaced,
    levels_for,
)
from edrl.core.families.tails import expectiles_of
from edrl.core.imputation import find_imputation
from edrl.core.imputation.exact_expectiles import NEAR_HALF, Rule, impute_expectiles
from edrl.core.imputation.robust_entropy import check_noise, check_support
from edrl.core.imputation.robust_expectiles import (
    Belief,
    robust_at_traced_levels,
    robust_expectiles,
)
from edrl.core.jit import jit
from edrl.core.particles import Particles, check_samples
from edrl.core.statistics import Imputation, Statistics, expect_with_score
from edrl.core.types import (
    Array,
    BroadcastAtoms,
    BroadcastValues,
    Float,
    Numbers,
    NumbersLike,
    Scores,
    Taus,
    Values,
    ValuesLike,
)


@dataclass(frozen=True)
class ExactExpectiles:
    """Exact expectile imputation; `rule` chooses F at a knot, which is free between its two chord
    slopes.

    midpoint: halfway, each jump is split evenly between its two gaps. Between the outermost knots
    this P is the middle between the greatest and the least one possible. knots: on a chord, so that
    atoms sit on the knots. spline: the slopes of a monotone C1 spline (Fritsch and Butland, 1984)
    of E[(x - Z)+] below the mean and of E[(Z - x)+] above it. pairs: halfway, and in the tails as
    the outermost parabola but no further; the two shares that meet in a gap stay apart, each as if
    spread evenly from its own knot to where they meet: 2K atoms. This is the best by far, less than
    half of the next rule's error in dynamic programming on MDPs that it was not chosen on
    (`paper/levels.py`), except where there are only two knots or one: there it is the midpoint.
    """

    rule: Rule = "pairs"

    def __post_init__(self) -> None:
        if self.rule not in get_args(Rule):
            raise fail("rule", self.rule, f"it must be one of {get_args(Rule)}")

    def __call__(self, family: Statistics, values: ValuesLike) -> Particles:
        """Impute `Particles` from expectiles [..., K]."""
        if not isinstance(family, Expectiles):
            raise fail(
                "imputation", self, f"it is made for Expectiles, not for {type(family).__name__}"
            )
        return impute_expectiles(jnp.asarray(values), family.taus, family.mean_at, self.rule)


@dataclass(frozen=True)
class RobustExpectiles:
    """Imputation from noisy expectiles: those of the smoothed curve, which is the posterior mean
    under a broad prior over distributions.

    The result explains the values within their noise, and follows the prior where they say nothing
    (docs/robust-imputation.md). Values without noise are imputed exactly.
    """

    noise: float | tuple[float, ...] | None = None
    """The values' standard deviation, in their own units, or one for each; None to estimate it for
    each row, by how well the values fit the prior and each other.
    """
    keep_mean: bool = True
    """Whether the mean stays the value at the level 1/2, as in exact imputation. A value that has a
    noise of its own is not kept.
    """
    support: tuple[float, float] | None = None
    """The least and the greatest possible return, if they are known."""
    levels: tuple[float, ...] | None = None
    """The family's levels, if they are known before tracing: the family says so itself."""

    def __post_init__(self) -> None:
        check_noise(self.noise)
        check_support(self.support)

    def at(self, taus: Taus) -> "RobustExpectiles":
        """The same for these levels."""
        known = isinstance(taus, np.ndarray) and taus.ndim == 1
        levels = tuple(taus.tolist()) if known else None
        if isinstance(self.noise, tuple) and len(self.noise) != taus.shape[-1]:
            right = f"it must be one number, or one for each of the {taus.shape[-1]} levels"
            raise fail("noise", self.noise, right)
        return dataclasses.replace(self, levels=levels)

    def __call__(self, family: Statistics, values: ValuesLike) -> Particles:
        """Impute `Particles` from expectiles [..., K]."""
        if not isinstance(family, Expectiles):
            raise fail(
                "imputation", self, f"it is made for Expectiles, not for {type(family).__name__}"
            )
        values = jnp.asarray(values)
        if self.levels is not None or values.shape[-1] == 1:
            return robust_expectiles(
                values,
                self.levels or (0.5,),
                noise=self.noise,
                keep_mean=self.keep_mean,
                support=self.support,
            )
        size, mean_at = values.shape[-1], family.mean_at
        believed = Belief.of(self.noise, size, mean_at, self.keep_mean, self.support)
        return robust_at_traced_levels(values, jnp.asarray(family.taus), mean_at, believed)


class Expectiles(LevelStatistics):
    """The tau-expectiles of a distribution, imputed exactly and in closed form unless told
    otherwise.

    `taus` are the levels, or their number: then they run from 0.01 to 0.99 as in ER-DQN. Levels may
    be traced, or a row for each example. `mean_at` is the place of the level 1/2, whose expectile
    is the mean. It is found where the levels are known; of traced ones it must be said, or they
    count as levels without 1/2. `head` is how a network's raw outputs become expectiles.
    """

    taus: Taus
    imputation: Imputation = eqx.field(static=True)
    mean_at: int | None = eqx.field(static=True)
    head: Head | None = eqx.field(static=True)

    own_imputations: ClassVar[Mapping[str, Imputation]] = {
        "exact": ExactExpectiles(),
        **{f"exact-{rule}": ExactExpectiles(rule) for rule in get_args(Rule)},
        "robust": RobustExpectiles(),
        "robust-free-mean": RobustExpectiles(keep_mean=False),
    }
    own_heads: ClassVar[Mapping[str, Head]] = {"chords": Chords(), "atoms": WeightedAtoms()}

    def __init__(
        self,
        taus: TausLike = 11,
        imputation: str | Imputation = "exact",
        mean_at: int | None = None,
        head: str | Head | None = None,
    ):
        self.taus = levels_for(taus, evenly_spaced)
        found = find_imputation(imputation, self.own_imputations)
        self.imputation = found.at(self.taus) if isinstance(found, RobustExpectiles) else found
        self.mean_at = _place_of_half(self.taus, mean_at)
        shape = find_head(head, self.own_heads, self.size)
        self.head = shape.at(self.taus, self.mean_at) if isinstance(shape, Chords) else shape

    @property
    def encodes_mean(self) -> bool:
        return self.mean_at is not None

    @jit
    def evaluate(self, mu: Particles) -> Values:
        """Exact, by Newton's method: tau E[(Z-e)+] = (1-tau) E[(e-Z)+] is linear between two
        atoms.
        """
        mu = check_samples(mu)
        return expectiles_of(mu, jnp.asarray(self.taus, mu.atoms.dtype))

    @jit
    def loss(self, values: BroadcastValues, target: Particles) -> Numbers:
        """ER of Definition 3.3, summed over the taus; its gradient is the one of Algorithm 2."""
        values, target = self.check_values(values), check_samples(target)
        return expect_with_score(values, target, self._loss_and_score)

    def _loss_and_score(
        self, values: BroadcastValues, atoms: BroadcastAtoms
    ) -> tuple[Scores, Scores]:
        error, score = atoms[..., None, :] - values[..., :, None], self.score(values, atoms)
        return -score * error / 2, score

    def loss_on_outputs(
        self, outputs: Float[Array, "*#batch outputs"], target: Particles
    ) -> Numbers:
        """The loss, of which a head's mean learns from its own part alone.

        Such a mean moves all values. If it followed all their losses, an error of the shape would
        become one of the mean. So the others see it fixed, and its own counts K times instead: it
        learns as DQN's does.
        """
        values = self.link(outputs)
        if self.head is None or self.mean_at is None:
            return self.loss(values, target)
        mean = values[..., self.mean_at, None]
        moved = mean - jax.lax.stop_gradient(mean)  # 0, with a gradient
        alone = self.size * (jnp.arange(self.size) == self.mean_at)
        return self.loss(values - moved + alone * moved, target)

    @jit
    def mean(self, values: ValuesLike) -> Numbers:
        """The 1/2-expectile where there is one (Section 4.3), otherwise the imputed distribution's
        mean.
        """
        if self.mean_at is None:
            return self.impute(values).mean()
        return self.check_values(values)[..., self.mean_at]

    def score(self, values: BroadcastValues, atoms: BroadcastAtoms) -> Scores:
        """The derivative of ER in the value: Equation (7)."""
        error = jnp.asarray(atoms)[..., None, :] - jnp.asarray(values)[..., :, None]
        taus = column(self.taus, error.dtype)
        return -2 * jnp.where(error > 0, taus, 1 - taus) * error

    def bracket(
        self, lower: Particles, upper: Particles, mean: NumbersLike
    ) -> tuple[ValuesLike, ValuesLike]:
        """Expectiles are monotone in the convex order: up above 1/2, down below."""
        one, other = self.evaluate(lower), self.evaluate(upper)
        return jnp.minimum(one, other), jnp.maximum(one, other)

    def numpy_score(self, values: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Equation (7) for one row on the host.

        SciPy's solvers call it hundreds of times a row, so all that does not depend on the atoms is
        done once.
        """
        taus, places = np.asarray(self.taus)[:, None], np.asarray(values)[:, None]
        above, below = -2 * taus, -2 * (1 - taus)

        def score(atoms: np.ndarray) -> np.ndarray:
            error = atoms - places
            return np.asarray(np.where(error > 0, above, below) * error)

        return score


def _place_of_half(taus: Taus, said: int | None) -> int | None:
    """Where the level 1/2 is: looked up where the levels are known and shared by all rows, else as
    it was said.
    """
    if not isinstance(taus, np.ndarray) or taus.ndim > 1:
        return said
    nearest = int(np.argmin(np.abs(taus - 0.5)))
    return nearest if abs(2 * taus[nearest] - 1) <= NEAR_HALF else None
