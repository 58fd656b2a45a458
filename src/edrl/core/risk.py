"""Risk measures: what one may prefer to the mean when actions are compared (higher is better).

A risk measure is a frozen, hashable record that maps `Particles [..., n]` to numbers [...], so that
`jnp.argmax(risk(mu), axis=-1)` is an action-selection rule. As a static pytree it passes through `jax.jit`.
"""

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from edrl.core.check import check_number, fail
from edrl.core.families.expectiles import Expectiles
from edrl.core.particles import Particles
from edrl.core.precision import compiled
from edrl.core.statistics import Statistics


class Risk(abc.ABC):
    """A map from distributions to numbers, of which more is better. To add one, write a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        """Make a static pytree of the measure and compile it: equal ones share one compilation."""
        jax.tree_util.register_static(cls)
        if "__call__" in cls.__dict__:
            cls.__call__ = compiled(cls.__call__)  # type: ignore[method-assign]

    @abc.abstractmethod
    def __call__(self, mu: Particles) -> Any:
        """The worth [...] of the distributions `mu [..., n]`."""


def check_risk(risk: Any) -> None:
    """Refuse what is no risk measure: a name, say."""
    if risk is not None and not callable(risk):
        raise fail("risk", risk, "it must map Particles to numbers, as edrl.risk.CVaR(0.1) does")


def worth(family: Statistics, values: Any, risk: Callable[[Particles], Any] | None = None) -> Any:
    """What actions with the statistics `values [..., K]` are chosen by, [...]: the expected return that they encode, or
    a risk measure of what they are imputed to. All statistics count through one number."""
    return family.mean(values) if risk is None else risk(family.impute(values))


@dataclass(frozen=True)
class ExpectedReturn(Risk):
    """E[Z], the risk-neutral measure of Section 4.3."""

    def __call__(self, mu: Particles) -> Any:
        return mu.mean()


@dataclass(frozen=True)
class CVaR(Risk):
    """The mean of the worst share `alpha` of outcomes, (1 / alpha) * integral of F^{-1} over (0, alpha].

    Coherent; alpha = 1 is the mean, and alpha -> 0 the worst outcome.
    """

    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", _share(self.alpha))

    def __call__(self, mu: Particles) -> Any:
        mu = mu.sorted()
        worst = mu.atoms[..., :1]
        levels = jnp.cumsum(mu.probs, axis=-1)
        before = jnp.concatenate([jnp.zeros_like(worst), levels[..., :-1]], axis=-1)
        alpha = max(self.alpha, float(jnp.finfo(worst.dtype).tiny))  # the least that is not 0 here
        share = jnp.clip(alpha - before, 0, mu.probs)
        excess = jnp.sum(share * (mu.atoms - worst), axis=-1) / jnp.sum(share, axis=-1)
        return worst[..., 0] + excess


@dataclass(frozen=True)
class ValueAtRisk(Risk):
    """The lower alpha-quantile F^{-1}(alpha): what is exceeded with probability about 1 - alpha."""

    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", _share(self.alpha))

    def __call__(self, mu: Particles) -> Any:
        return mu.quantile(jnp.asarray([self.alpha]))[..., 0]


@dataclass(frozen=True)
class Entropic(Risk):
    """-(1 / beta) * log E[exp(-beta Z)]: averse to risk for beta > 0, seeking it for beta < 0.

    For beta -> 0 it tends to the mean, and it stays accurate on the way there.
    """

    beta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", check_number("beta", self.beta))
        if self.beta == 0:
            raise fail("beta", self.beta, "it must not be 0; the limit beta -> 0 is ExpectedReturn()")

    def __call__(self, mu: Particles) -> Any:
        atoms = mu.settled().atoms
        extreme = jnp.min if self.beta > 0 else jnp.max
        origin = extreme(atoms, axis=-1, keepdims=True)  # where exp(-beta Z) is largest: nothing overflows
        info = jnp.finfo(atoms.dtype)
        beta = math.copysign(min(max(abs(self.beta), float(info.tiny)), float(info.max)), self.beta)
        exponent = -beta * (atoms - origin)
        total = jnp.sum(mu.probs * jnp.exp(exponent), axis=-1)
        # The same less 1, with all its digits near 0: this is what keeps small beta accurate.
        excess = jnp.sum(mu.probs * jnp.expm1(exponent), axis=-1)
        is_small = excess > -0.5
        log = jnp.where(is_small, jnp.log1p(jnp.where(is_small, excess, 0)), jnp.log(total))
        is_mean = jnp.max(jnp.abs(exponent), axis=-1) < info.eps  # to the last digit; exponents may be too small for it
        return jnp.where(is_mean, mu.mean(), origin[..., 0] - log / beta)


@dataclass(frozen=True)
class ExpectileRisk(Risk):
    """The tau-expectile: coherent for tau <= 1/2, and the mean at tau = 1/2."""

    tau: float

    def __post_init__(self) -> None:
        if not 0 < self.tau < 1:
            raise fail("tau", self.tau, "it must lie strictly between 0 and 1")
        object.__setattr__(self, "tau", float(self.tau))

    def __call__(self, mu: Particles) -> Any:
        return Expectiles((self.tau,)).evaluate(mu)[..., 0]


@dataclass(frozen=True)
class MeanVariance(Risk):
    """E[Z] - weight * Var[Z]."""

    weight: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", check_number("weight", self.weight))

    def __call__(self, mu: Particles) -> Any:
        return mu.mean() - self.weight * mu.variance()


def _share(alpha: float) -> float:
    return check_number("alpha", alpha, low=0.0, high=1.0, open_low=True)
