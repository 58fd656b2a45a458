"""Risk measures: what one may prefer to the mean when actions are compared (higher is better).

A risk measure is a record that maps `Particles [..., n]` to numbers [...], so that
`jnp.argmax(risk(mu), axis=-1)` is a rule for choosing actions. Any function of this kind may be
used in its place.
"""

import abc
from collections.abc import Callable
from typing import TypeAlias

import equinox as eqx
import jax.numpy as jnp

from edrl.core.check import check_number, fail
from edrl.core.families.expectiles import Expectiles
from edrl.core.jit import jit
from edrl.core.particles import Particles, check_samples
from edrl.core.statistics import Statistics
from edrl.core.types import Numbers, ValuesLike

RiskMeasure: TypeAlias = Callable[[Particles], Numbers]


class Risk(eqx.Module):
    """A map from distributions to numbers, of which more is better."""

    @abc.abstractmethod
    def __call__(self, mu: Particles) -> Numbers:
        """The value [...] of the distributions `mu [..., n]`."""


def check_risk(risk: object) -> None:
    """Refuse what is no risk measure: a name, say."""
    if risk is not None and not callable(risk):
        raise fail("risk", risk, "it must map Particles to numbers, as edrl.risk.CVaR(0.1) does")


def action_values(
    family: Statistics, values: ValuesLike, risk: RiskMeasure | None = None
) -> Numbers:
    """What actions with the statistics `values [..., K]` are chosen by, [...].

    That is the expected return that they encode, or a risk measure of what they are imputed to.
    """
    return family.mean(values) if risk is None else risk(family.impute(values))


class ExpectedReturn(Risk):
    """E[Z], the risk-neutral measure of Section 4.3."""

    @jit
    def __call__(self, mu: Particles) -> Numbers:
        return check_samples(mu).mean()


class CVaR(Risk):
    """The mean of the worst share `alpha` of outcomes, (1 / alpha) * integral of F^{-1} over (0,
    alpha].

    Coherent; alpha = 1 is the mean, and alpha -> 0 the worst outcome.
    """

    alpha: float

    def __init__(self, alpha: float):
        self.alpha = _share(alpha)

    @jit
    def __call__(self, mu: Particles) -> Numbers:
        mu = check_samples(mu).sorted()
        worst = jnp.asarray(mu.atoms)[..., :1]
        levels = jnp.cumsum(mu.probs, axis=-1)
        before = jnp.concatenate([jnp.zeros_like(worst), levels[..., :-1]], axis=-1)
        alpha = jnp.maximum(self.alpha, jnp.finfo(worst.dtype).tiny)  # the least that is not 0 here
        share = jnp.clip(alpha - before, 0, mu.probs)
        excess = jnp.sum(share * (mu.atoms - worst), axis=-1) / jnp.sum(share, axis=-1)
        return worst[..., 0] + excess


class ValueAtRisk(Risk):
    """The lower alpha-quantile F^{-1}(alpha): what is exceeded with probability about 1 - alpha."""

    alpha: float

    def __init__(self, alpha: float):
        self.alpha = _share(alpha)

    @jit
    def __call__(self, mu: Particles) -> Numbers:
        return check_samples(mu).quantile(jnp.reshape(jnp.asarray(self.alpha), (1,)))[..., 0]


class Entropic(Risk):
    """-(1 / beta) * log E[exp(-beta Z)]: averse to risk for beta > 0, seeking it for beta < 0.

    For beta -> 0 it tends to the mean, and it stays accurate on the way there.
    """

    beta: float

    def __init__(self, beta: float):
        if beta == 0:
            raise fail("beta", beta, "it must not be 0; the limit beta -> 0 is ExpectedReturn()")
        self.beta = check_number("beta", beta)

    @jit
    def __call__(self, mu: Particles) -> Numbers:
        atoms = check_samples(mu).settled().atoms
        info = jnp.finfo(atoms.dtype)
        size = jnp.clip(jnp.abs(self.beta), info.tiny, info.max).astype(atoms.dtype)
        beta = jnp.copysign(size, self.beta)
        lowest, highest = (end(atoms, axis=-1, keepdims=True) for end in (jnp.min, jnp.max))
        origin = jnp.where(
            beta > 0, lowest, highest
        )  # where exp(-beta Z) is largest: nothing overflows
        exponent = -beta * (atoms - origin)
        total = jnp.sum(mu.probs * jnp.exp(exponent), axis=-1)
        # The same less 1, with all its digits near 0: this is what keeps small beta accurate.
        excess = jnp.sum(mu.probs * jnp.expm1(exponent), axis=-1)
        is_small = excess > -0.5
        log = jnp.where(is_small, jnp.log1p(jnp.where(is_small, excess, 0)), jnp.log(total))
        is_mean = (
            jnp.max(jnp.abs(exponent), axis=-1) < info.eps
        )  # to the last digit; exponents may be too small for it
        return jnp.where(is_mean, mu.mean(), origin[..., 0] - log / beta)


class ExpectileRisk(Risk):
    """The tau-expectile: coherent for tau <= 1/2, and the mean at tau = 1/2."""

    tau: float

    def __init__(self, tau: float):
        if not 0 < tau < 1:
            raise fail("tau", tau, "it must lie strictly between 0 and 1")
        self.tau = float(tau)

    @jit
    def __call__(self, mu: Particles) -> Numbers:
        return Expectiles(jnp.reshape(jnp.asarray(self.tau), (1,))).evaluate(mu)[..., 0]


class MeanVariance(Risk):
    """E[Z] - weight * Var[Z]."""

    weight: float

    def __init__(self, weight: float):
        self.weight = check_number("weight", weight)

    @jit
    def __call__(self, mu: Particles) -> Numbers:
        mu = check_samples(mu)
        return mu.mean() - self.weight * mu.variance()


class MeanDeviation(Risk):
    """E[Z] - weight * the standard deviation of Z, in the units of returns."""

    weight: float

    def __init__(self, weight: float):
        self.weight = check_number("weight", weight)

    @jit
    def __call__(self, mu: Particles) -> Numbers:
        mu = check_samples(mu)
        return mu.mean() - self.weight * mu.std()


_NAMED: dict[str, Callable[[float], Risk]] = {
    "cvar": CVaR,
    "expectile": ExpectileRisk,
    "deviation": MeanDeviation,
    "variance": MeanVariance,
    "entropic": Entropic,
}


def risk_named(name: str) -> Risk:
    """A risk measure by its name and number: `cvar-0.1`, `expectile-0.3`, `deviation-0.5`."""
    kind, _, number = name.partition("-")
    if kind not in _NAMED or not number:
        right = f"it must be NAME-NUMBER, such as cvar-0.1, with one of {', '.join(_NAMED)}"
        raise fail("risk", name, right)
    try:
        return _NAMED[kind](float(number))
    except ValueError as error:
        raise fail("risk", name, f"the number does not fit: {error}") from error


def _share(alpha: float) -> float:
    return check_number("alpha", alpha, low=0.0, high=1.0, open_low=True)
