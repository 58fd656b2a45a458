"""Every family and imputation, once: a contract test runs over these lists. A new one is one line
here.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import edrl
from edrl import (
    Categorical,
    Expectiles,
    HuberQuantiles,
    Mean,
    Moments,
    Particles,
    Quantiles,
    midpoints,
)


@dataclass(frozen=True)
class Case:
    """A family with what it promises."""

    name: str
    family: edrl.Statistics
    exact: bool = True  # impute is exact on consistent values
    consistency: float = 1e-9  # relative to the values' scale, in float64
    slow: bool = False  # a variant of others here that takes long to compile: `make test-slow`


class SmoothQuantiles(edrl.MEstimator):
    """From a score alone, as users write one."""

    taus: tuple[float, ...] = midpoints(5)

    @property
    def size(self) -> int:
        return len(self.taus)

    def score(self, values: Any, atoms: Any) -> Any:
        error = jnp.asarray(values)[..., :, None] - jnp.asarray(atoms)[..., None, :]
        taus = jnp.asarray(self.taus, error.dtype)[:, None]
        return jnp.where(error > 0, 1 - taus, taus) * jnp.tanh(error)


class StopLoss(edrl.Statistics):
    """Expectations that are no places on the axis of returns, imputed by maximum entropy around
    those they speak of.
    """

    thresholds: tuple[float, ...] = (-2.0, -1.0, 0.0, 1.0)
    imputation: edrl.Imputation = eqx.field(static=True, default=edrl.MaximumEntropy())

    @property
    def size(self) -> int:
        return len(self.thresholds)

    def places(self, values: Any) -> Any:
        return jnp.asarray(self.thresholds, values.dtype)

    def features(self, x: Any) -> Any:
        return jnp.maximum(jnp.asarray(self.thresholds, x.dtype)[:, None] - x[..., None, :], 0)

    def evaluate(self, mu: Particles) -> Any:
        return jnp.sum(self.features(mu.atoms) * mu.probs[..., None, :], axis=-1)

    def loss(self, values: Any, target: Particles) -> Any:
        errors = (self.features(target.atoms) - values[..., :, None]) ** 2
        return jnp.sum(errors * target.probs[..., None, :], axis=(-2, -1))


FAMILIES = [
    Case("mean", Mean()),
    Case("moments-2", Moments(2)),
    Case("moments-5", Moments(5), consistency=1e-7),
    Case("categorical-2", Categorical((-4.0, 4.0))),
    Case("categorical-21", Categorical(np.linspace(-4, 4, 21))),
    Case("categorical-uneven", Categorical((-5.0, -1.0, 0.0, 0.25, 3.0, 6.0))),
    Case("quantiles-11", Quantiles(11)),
    Case("quantiles-uneven", Quantiles((0.01, 0.2, 0.25, 0.9))),
    Case("huber-9", HuberQuantiles(9, kappa=1.0), consistency=1e-6),
    Case("expectiles-1", Expectiles(1)),
    Case("expectiles-2", Expectiles(2)),
    Case("expectiles-11", Expectiles(11)),
    Case("expectiles-midpoints-10", Expectiles(midpoints(10)), slow=True),
    Case("expectiles-low-side", Expectiles((0.05, 0.2, 0.4))),
    Case("expectiles-51", Expectiles(51)),
    Case("expectiles-knots", Expectiles(11, imputation="exact-knots"), slow=True),
    Case("expectiles-spline", Expectiles(11, imputation="exact-spline")),
    Case("expectiles-midpoint", Expectiles(11, imputation="exact-midpoint"), slow=True),
    Case("expectiles-robust", Expectiles(11, imputation="robust"), exact=False),
    Case("expectiles-robust-5", Expectiles(5, imputation="robust"), exact=False, slow=True),
    Case(
        "expectiles-robust-without-noise",
        Expectiles(11, imputation=edrl.RobustExpectiles(noise=0.0)),
    ),
    Case(
        "expectiles-robust-midpoints-10",
        Expectiles(midpoints(10), imputation="robust"),
        exact=False,
    ),
    Case("expectiles-maximum-entropy", Expectiles(5, imputation="maximum-entropy"), exact=False),
    Case("expectiles-equal-weights", Expectiles(5, imputation="equal-weights"), exact=False),
    Case("expectiles-scipy-root", Expectiles(5, imputation="scipy-root"), exact=False),
    Case("expectiles-scipy-minimize", Expectiles(5, imputation="scipy-minimize"), exact=False),
    Case("expectiles-naive", Expectiles(11, imputation="as_samples"), exact=False),
    Case("expectiles-shifted", Expectiles(11, imputation="shifted-samples"), exact=False),
    Case("score-alone", SmoothQuantiles(), exact=False),
    Case("stop-loss", StopLoss(), consistency=1e-6),
    Case("huber-robust", HuberQuantiles(9, imputation="robust"), exact=False),
    Case("huber-naive", HuberQuantiles(9, imputation="as_samples"), exact=False),
]

EXACT = [case for case in FAMILIES if case.exact]
ON_THE_HOST = ("expectiles-scipy-root", "expectiles-scipy-minimize")  # slow: one solver call a row


def every(cases: list[Case]) -> Any:
    """Parametrise a test by `case`; all tests of one family run in one process, which compiles it
    once.
    """
    slow = pytest.mark.slow
    params = [
        pytest.param(
            case,
            id=case.name,
            marks=[pytest.mark.xdist_group(case.name), *([slow] if case.slow else [])],
        )
        for case in cases
    ]
    return pytest.mark.parametrize("case", params)


def random_particles(seed: int, batch: int = 16, atoms: int = 12) -> Particles:
    """A batch of varied distributions: dense, sparse, with repeated atoms, with weightless atoms,
    and Diracs.
    """
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(batch, atoms)) * rng.uniform(0.1, 2, size=(batch, 1))
    z[batch // 4 : batch // 2] = np.round(z[batch // 4 : batch // 2])
    p = rng.dirichlet(np.full(atoms, 0.7), size=batch)
    p[:, -2:] = 0
    p[-1] = 0
    p[-1, 0] = 1
    return Particles(z, p / p.sum(-1, keepdims=True))
