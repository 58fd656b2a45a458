"""`edrl.verify`: families that keep the contract pass, each kind of breach is named."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import edrl
from contracts import FAMILIES, Case, SmoothQuantiles, every
from edrl import Particles

PLAIN = (
    "moments-2",
    "categorical-21",
    "quantiles-11",
    "expectiles-11",
    "expectiles-naive",
    "score-alone",
)


@every([case for case in FAMILIES if case.name in PLAIN])
def test_what_keeps_the_contract_passes(case: Case) -> None:
    """And exact imputations are found to be exact, where the support holds the distributions."""
    found = edrl.verify(case.family)
    assert found.residual <= (1e-6 if case.exact else 2.0)


@pytest.mark.parametrize("scale", [pytest.param(1.0, marks=pytest.mark.slow), 1e3])
def test_how_far_imputation_is_from_exact_is_told_in_units_of_the_values(scale: float) -> None:
    rough = edrl.Expectiles(11, imputation="as_samples")
    found = edrl.verify(rough, scale).residual
    assert found > 0.01
    assert found == pytest.approx(edrl.verify(rough).residual, rel=1e-6)
    assert edrl.verify(edrl.Expectiles(11), scale).residual < 1e-6
    assert edrl.verify(edrl.Moments(3), scale).residual < 1e-6
    rough = edrl.Moments(2, imputation="as_samples")
    assert edrl.verify(rough, scale).residual > 0.01


class OneForAll(edrl.Mean):
    """Its loss is averaged over the batch."""

    def loss(self, values: Any, target: Particles) -> Any:
        return jnp.mean(super().loss(values, target)) + jnp.zeros(jnp.shape(values)[:-1])


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_batches_that_are_mixed_up_are_found_at_any_scale(scale: float) -> None:
    with pytest.raises(ValueError, match="of a batch is not that of its rows"):
        edrl.verify(OneForAll(), scale)


class TurnedRound(SmoothQuantiles):
    def score(self, values: Any, atoms: Any) -> Any:
        return -super().score(values, atoms)


class Redescending(SmoothQuantiles):
    def score(self, values: Any, atoms: Any) -> Any:
        error = values[..., :, None] - atoms[..., None, :]
        return error * jnp.exp(-(error**2))


class OneRowOnly(SmoothQuantiles):
    taus: tuple[float, ...] = edrl.midpoints(
        6
    )  # as many as `verify` has rows: no shape gives it away

    def score(self, values: Any, atoms: Any) -> Any:
        return jnp.tanh(values[..., None] - atoms)


class Means(edrl.Statistics):
    """The mean, with a loss to spoil."""

    power: int = eqx.field(static=True, default=2)
    outside: bool = eqx.field(static=True, default=False)
    imputation: edrl.Imputation = eqx.field(static=True, default=edrl.as_samples)

    @property
    def size(self) -> int:
        return 1

    def evaluate(self, mu: Particles) -> Any:
        return mu.mean()[..., None]

    def loss(self, values: Any, target: Particles) -> Any:
        if self.outside:
            return jnp.sum((values - target.mean()[..., None]) ** 2, axis=-1)
        errors = jnp.abs(values[..., :, None] - target.atoms[..., None, :]) ** self.power
        return jnp.sum(errors * target.probs[..., None, :], axis=(-2, -1))


@pytest.mark.parametrize(
    ("family", "words"),
    [
        (TurnedRound(), "sign turned round"),
        (Redescending(), "must increase"),
        (OneRowOnly(edrl.midpoints(6)), "of a batch is not that of its rows"),
        (Means(power=4), "must be least"),
        (Means(outside=True), "must be affine"),
    ],
)
def test_breaches_are_named(family: edrl.Statistics, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        edrl.verify(family)


@pytest.mark.usefixtures("without_shape_checks")
def test_a_class_is_no_family() -> None:
    with pytest.raises(ValueError, match=r"family must be an object of edrl.Statistics"):
        edrl.verify(edrl.Expectiles)


def test_the_mean_passes() -> None:
    assert edrl.verify(Means()).residual == pytest.approx(0, abs=1e-6)
    assert np.isfinite(edrl.verify(Means(), scale=1e-3).residual)


def test_a_mean_that_is_none_is_named() -> None:
    class FirstForMean(edrl.Expectiles):
        def mean(self, values: Any) -> Any:
            return values[..., 0]

    with pytest.raises(ValueError, match="is not the mean"):
        edrl.verify(FirstForMean(5))


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_a_loss_is_judged_in_its_own_units(scale: float) -> None:
    class Negated(Means):
        def loss(self, values: Any, target: Particles) -> Any:
            return -super().loss(values, target)

    edrl.verify(Means(), scale=scale)
    with pytest.raises(ValueError, match="must be least"):
        edrl.verify(Negated(), scale=scale)


def test_weights_that_are_none_are_found() -> None:
    """`impute` is compiled, where `Particles` cannot look at numbers."""

    def negative(family: Any, values: Any) -> Particles:
        return Particles(values, jnp.array([-1.0, 1.5, 1.5], values.dtype))

    with pytest.raises(ValueError, match=r"impute\(values\) is no distribution"):
        edrl.verify(edrl.Expectiles((0.2, 0.4, 0.8), imputation=negative))
