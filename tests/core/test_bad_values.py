"""Values that are not finite are refused in words, and break nothing under `jit`."""

from typing import Any

import jax
import numpy as np
import pytest

import edrl
from contracts import FAMILIES, Case, every
from edrl import Particles
from edrl.core.precision import in_float64


@in_float64
def imputed(family: Any, values: np.ndarray) -> Particles:
    """As inside a compiled function: the numbers cannot be looked at."""
    found: Particles = jax.jit(lambda family, values: family.impute(values))(family, values)
    return found


def spoiled(family: edrl.Statistics, bad: float) -> np.ndarray:
    """Statistics [2, K] of two distributions; the last value of the second one is spoiled."""
    mu = Particles([[-1.0, 0.0, 0.5, 2.0], [0.0, 1.0, 1.5, 2.5]])
    values = np.array(family.evaluate(mu), np.float64)
    values[1, -1] = bad
    return values


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@every(FAMILIES)
def test_values_that_are_not_finite_are_refused(case: Case, bad: float) -> None:
    place = rf"values\[1, {case.family.size - 1}\] must be finite, got {bad}"
    with pytest.raises(ValueError, match=place):
        case.family.impute(spoiled(case.family, bad))


@every(FAMILIES)
def test_infinities_are_imputed_as_the_largest_numbers_under_jit(case: Case) -> None:
    """A distribution comes out, and the row beside it is as it is beside finite values."""
    for bad in (np.inf, -np.inf):
        values = spoiled(case.family, bad)
        found = imputed(case.family, values)
        assert np.isfinite(found.atoms).all()
        assert (found.probs >= 0).all()
        np.testing.assert_allclose(found.probs.sum(-1), 1, atol=1e-9)
        beside = imputed(case.family, spoiled(case.family, 1.0))
        np.testing.assert_allclose(found.atoms[0], beside.atoms[0], atol=1e-9)


@every(FAMILIES)
def test_nan_is_not_hidden_under_jit(case: Case) -> None:
    """No distribution has NaN for a statistic: the row is NaN, and the one beside it is not."""
    found = imputed(case.family, spoiled(case.family, np.nan))
    assert np.isnan(found.atoms[1]).all()
    assert np.isfinite(found.atoms[0]).all()
    np.testing.assert_allclose(found.probs.sum(-1), 1, atol=1e-9)


BEYOND = Particles([1.0, -1e100])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: edrl.Expectiles(5).evaluate(BEYOND), r"mu.atoms\[1\] is -1e\+100"),
        (lambda: edrl.Quantiles(5).evaluate(BEYOND), r"mu.atoms\[1\] is -1e\+100"),
        (lambda: BEYOND.mean(), r"atoms\[1\] is -1e\+100"),
        (lambda: edrl.metrics.cramer(Particles([1.0]), BEYOND), r"nu.atoms\[1\] is -1e\+100"),
        (lambda: edrl.Expectiles(5).impute(np.full(5, 1e100)), r"values\[0\] is 1e\+100"),
        (lambda: edrl.Expectiles(5).mean(np.full(5, 1e100)), r"values\[0\] is 1e\+100"),
        (lambda: BEYOND.push(0.0, 1.0), r"atoms\[1\] is -1e\+100"),
        (lambda: Particles([1.0]).push(1e100, 1.0), r"reward is 1e\+100"),
        (lambda: BEYOND.add(Particles([1.0])), r"atoms\[1, 0\] is -1e\+100"),
        (lambda: Particles([[1e100]]).mixture([1.0]), r"atoms\[0, 0\] is 1e\+100"),
        (lambda: BEYOND.cdf(np.array([0.0])), r"atoms\[1\] is -1e\+100"),
    ],
)
def test_numbers_beyond_float32_are_refused_with_their_values(call: Any, words: str) -> None:
    """JAX would make infinities of them, and of these NaN."""
    with jax.enable_x64(False), pytest.raises(ValueError, match=f"{words}: float32 holds .*3.4e38"):
        call()


def test_float64_takes_what_float32_cannot_hold() -> None:
    with jax.enable_x64(True):
        values = edrl.Expectiles(5).evaluate(BEYOND)
        assert np.isfinite(edrl.Expectiles(5).impute(np.asarray(values)).atoms).all()
    with jax.enable_x64(False):  # an infinity is no number that was too large
        assert Particles([0.0, 1.0]).cdf(np.array([np.inf])) == 1
