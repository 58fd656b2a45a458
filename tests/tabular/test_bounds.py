"""Approximation errors: the paper's bounds, the steps of our own ones, and measurements against the truth."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import linregress

from edrl.core.families import Categorical, Expectiles, Mean, Moments, Quantiles, midpoints
from edrl.core.metrics import integrated_cdf, integrated_cdf_distance
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics
from edrl.tabular.bounds import (
    approximation_error,
    cdrl_bound,
    edrl_bound,
    measure_decay,
    qdrl_bound,
    sharper_qdrl_bound,
)
from edrl.tabular.problems import garnet, qdrl_not_uniform
from edrl.tabular.truth import Truth, return_distributions

EPS = np.finfo(np.float64).eps
POOR, FINE = 12, 10_000  # iterations
FAMILIES: list[Statistics] = [
    Categorical(np.linspace(-1, 1, 5)),
    Quantiles(9),
    Expectiles(midpoints(9), impute="exact-knots"),
]


def test_the_bounds_are_those_of_the_paper() -> None:
    """Theorems 4.6 and 4.7, computed by hand."""
    assert cdrl_bound(51, 0.9) == pytest.approx(0.9 / (2 * 0.1 * 50), rel=1e-15)
    assert cdrl_bound(2, 0.0) == 0
    assert qdrl_bound(200, 0.9, 2.0) == pytest.approx(2 * 2 * 3.2 / (0.01 * 200), rel=1e-12)
    assert qdrl_bound(1, 0.0, 1.0) == 10
    for gamma in (0.0, 0.5, 0.99):
        assert 5 <= qdrl_bound(7, gamma, 3.0) / sharper_qdrl_bound(7, gamma, 3.0) < 6
    # Taus 1/4, 1/2, 3/4 and I = 4: steps of 1/4, and weights |1 - 2 tau|/min(tau, 1 - tau) of 2, 0 and 2.
    by_hand = (2 + 0 + 2) / 3 * (0.5 * 4 * 0.25 / 0.5)
    assert edrl_bound((0.25, 0.5, 0.75), 0.5, 1.0) == pytest.approx(by_hand, rel=1e-12)
    # Where that is useless, the width of the range takes its place; with more statistics it goes to zero.
    assert edrl_bound((0.01, 0.5, 0.99), 0.9, 1.0) == pytest.approx(2 * 20 / 3, rel=1e-12)
    bounds = [edrl_bound(midpoints(k), 0.5, 1.0) for k in (101, 1001, 10001)]
    for k, bound in zip((101, 1001, 10001), bounds, strict=True):
        assert bound <= 4 * 2 * math.log(k) / k


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cdrl_bound(1, 0.9), "k = 1 .* at least 2"),
        (lambda: cdrl_bound(5, 1.0), r"gamma = 1.0 .* \[0, 1\)"),
        (lambda: qdrl_bound(0, 0.9, 1.0), "k = 0"),
        (lambda: qdrl_bound(5, 0.9, -1.0), "max_reward = -1.0"),
        (lambda: sharper_qdrl_bound(5, -0.1, 1.0), "gamma = -0.1"),
        (lambda: edrl_bound((0.2, 0.4, 0.9), 0.9, 1.0), "taus = .* 1/2 among them"),
        (lambda: edrl_bound((0.5, 0.2), 0.9, 1.0), "taus"),
    ],
)
def test_bounds_refuse_what_they_do_not_cover(call: Callable[[], float], message: str) -> None:
    """Each message names the argument and its value."""
    with pytest.raises(ValueError, match=message):
        call()


def unit_laws(seed: int) -> Particles:
    """Distributions with extremes 0 and 1: coin tosses, skewed ones and others."""
    rng = np.random.default_rng(seed)
    inner = rng.uniform(0, 1, (600, 6)) ** rng.choice([0.1, 1.0, 10.0], (600, 1))
    probs = rng.dirichlet(np.full(8, 0.3), 600)
    probs[:200, 2:] = 0  # only the two ends
    probs += np.where(np.arange(8) < 2, 1e-6, 0)
    atoms = np.concatenate([np.zeros((600, 1)), np.ones((600, 1)), inner], axis=-1)
    return Particles(atoms, probs / probs.sum(axis=-1, keepdims=True))


def test_exact_imputation_moves_the_integrated_cdf_by_a_step_of_the_levels() -> None:
    """Steps of `edrl_bound` for I = 1 and e the tau-expectile: P(e) = tau E|Z - e|, and E|Z - e| is at most
    1/(1 + 2 sqrt(tau (1 - tau))); imputation moves P by at most the widest step, and stays in the range."""
    family = FAMILIES[2]
    laws = unit_laws(0)
    values, taus = np.asarray(family.evaluate(laws)), np.array(midpoints(9))
    distance = np.sum(laws.probs[:, None] * np.abs(laws.atoms[:, None] - values[..., None]), axis=-1)
    np.testing.assert_allclose(integrated_cdf(laws, values), taus * distance, atol=1e-14)
    ratio = distance * (1 + 2 * np.sqrt(taus * (1 - taus)))
    assert 0.98 < ratio.max() <= 1 + 1e-13  # nearly attained by a coin toss
    imputed = family.impute(values)
    assert 0.01 < np.max(integrated_cdf_distance(imputed, laws)) <= 1 / 9
    # A tail's mass is a chord slope of P, which is as uncertain as P over the distance of the knots.
    beyond = np.maximum(imputed.atoms - 1, 0) + np.maximum(-imputed.atoms, 0)
    assert (np.sum(imputed.probs * beyond, axis=-1) <= 20 * EPS / np.diff(values).min(axis=-1)).all()


def test_expectiles_are_lipschitz_in_the_integrated_cdf() -> None:
    """The last step of `edrl_bound`, for laws of one mean: |e - e'| <= d |1 - 2 tau|/min(tau, 1 - tau)."""
    family, taus = FAMILIES[2], np.array(midpoints(9))
    one, two = unit_laws(1), unit_laws(2)
    two = Particles(two.atoms + (one.mean() - two.mean())[:, None], two.probs)
    d = np.asarray(integrated_cdf_distance(one, two))[:, None]
    apart = np.abs(family.evaluate(one) - family.evaluate(two))
    allowed = d * np.abs(1 - 2 * taus) / np.minimum(taus, 1 - taus)
    assert (apart <= allowed + 1e-13).all()
    assert (apart / np.where(allowed > 0, allowed, 1)).max() > 0.5


@pytest.fixture(scope="module")
def truths() -> dict[int, Truth]:
    """The truth about one random MDP, after few iterations and after all that it takes."""
    mdp = garnet(0, 4, 2, 2, 0.8, max_reward=0.2)
    return {most: return_distributions(mdp, "uniform", max_iterations=most) for most in (POOR, FINE)}


@pytest.mark.parametrize("family", FAMILIES, ids=["categorical", "quantiles", "expectiles"])
def test_the_uncertainty_covers_a_poor_truth(family: Statistics, truths: dict[int, Truth]) -> None:
    """A poor and a fine truth differ by no more than their uncertainties."""
    mdp = garnet(0, 4, 2, 2, 0.8, max_reward=0.2)
    poor, fine = (approximation_error(mdp, "uniform", family, truth=truths[n]) for n in (POOR, FINE))
    assert poor.uncertainty is not None
    assert fine.uncertainty is not None
    off = np.abs(poor.true_values - fine.true_values).mean(axis=-1).max()
    assert 0 < off <= poor.uncertainty + fine.uncertainty
    assert 10 * fine.uncertainty < poor.uncertainty
    assert fine.uncertainty < fine.error  # the measurement means something
    by_hand = np.abs(fine.learnt.values - fine.true_values).mean(axis=-1)
    np.testing.assert_allclose(fine.pairs, by_hand, rtol=1e-13)
    assert fine.error == fine.pairs.max()


def test_returns_known_exactly() -> None:
    """Appendix C's example, with its true quantiles -gamma, 0, gamma at x0 and the learnt median -gamma."""
    mdp, family = qdrl_not_uniform(3, gamma=0.8), Quantiles(3)
    rare, split = mdp.rewards.probs[1, 0, 0].min(), mdp.probs[0, 0]  # x1 and x2 pay 0 rarely, else 1 and -1
    atoms = np.array([[-0.8, 0.0, 0.8], [0, 1, 1], [-1, -1, 0], [0, 0, 0]])[:, None]
    often = 1 - rare
    probs = np.array([[split[1] * often, rare, split[0] * often], [rare, often, 0], [0, often, rare], [1, 0, 0]])
    eta = Particles(atoms, probs[:, None])
    truth = Truth(eta, np.zeros((4, 1)), eta, eta, means=np.sum(eta.atoms * eta.probs, axis=-1), iterations=0)
    found = approximation_error(mdp, 0, family, truth=truth)
    assert found.uncertainty is not None
    assert found.uncertainty <= 1e-11
    np.testing.assert_allclose(found.true_values[0, 0], [-0.8, 0, 0.8], atol=1e-14)
    np.testing.assert_allclose(found.learnt.values[0, 0], [-0.8, -0.8, 0.8], atol=1e-14)
    assert found.error == pytest.approx(0.8 / 3, abs=1e-14)
    known = approximation_error(mdp, 0, family, truth=found.true_values)
    assert (known.error, known.uncertainty) == (found.error, 0.0)
    with pytest.raises(ValueError, match=r"truth.shape = \(4, 1, 2\)"):
        approximation_error(mdp, 0, family, truth=found.true_values[..., :2])


def test_the_mean_is_learnt_exactly_and_has_no_rate(truths: dict[int, Truth]) -> None:
    """Equation (1): the error is where iteration stops; without a known bracket there is no uncertainty."""
    mdp = garnet(0, 4, 2, 2, 0.8, max_reward=0.2)
    found = approximation_error(mdp, "uniform", Mean(), truth=truths[FINE])
    assert found.error <= 1e-9 / (1 - 0.8)
    assert found.uncertainty is not None
    assert found.uncertainty <= 1e-12
    variance_lost = Moments(2, impute="dirac")
    assert approximation_error(mdp, "uniform", variance_lost, truth=truths[FINE]).uncertainty is None


@pytest.fixture(scope="module")
def decay() -> Any:
    return measure_decay(
        lambda k: Categorical(np.linspace(-1, 1, k)),
        (3, 9, 33),
        lambda seed: garnet(seed, 4, 2, 2, 0.8, max_reward=0.2),
        count=3,
    )


def test_decay_of_the_categorical_error(decay: Any) -> None:
    """Theorem 4.6 promises 1/K at least; each error is within its bound."""
    assert decay.errors.shape == decay.uncertainties.shape == decay.converged.shape == (3, 3)
    assert (decay.uncertainties < decay.errors / 10).all()
    assert decay.converged.all()
    assert np.array_equal(decay.worst, decay.errors.max(axis=0))
    assert np.array_equal(decay.mean, decay.errors.mean(axis=0))
    assert (decay.worst <= [cdrl_bound(k, 0.8) for k in decay.ks]).all()
    assert decay.exponent - 3 * decay.standard_error > 1


def test_the_exponent_is_a_least_squares_slope(decay: Any) -> None:
    """With one MDP it is that of SciPy's regression; with several, the slope of the mean logarithms."""
    pooled = linregress(np.log(decay.ks), np.log(decay.errors).mean(axis=0))
    assert decay.exponent == pytest.approx(-pooled.slope, rel=1e-12)
    mdp = garnet(0, 4, 2, 2, 0.8, max_reward=0.2)
    one = measure_decay(lambda k: Categorical(np.linspace(-1, 1, k)), (3, 9, 33), [mdp])
    assert np.array_equal(one.errors, decay.errors[:1])
    alone = linregress(np.log(one.ks), np.log(one.errors[0]))
    assert one.exponent == pytest.approx(-alone.slope, rel=1e-12)
    assert one.standard_error == pytest.approx(alone.stderr, rel=1e-9)


def test_decay_needs_points_and_errors() -> None:
    """A slope through two points has no error, and vanishing errors have no slope."""
    mdp = garnet(0, 4, 2, 2, 0.8, max_reward=0.2)
    with pytest.raises(ValueError, match=r"\(number of mdps, ks\) = \(1, \(3, 5\)\)"):
        measure_decay(Quantiles, (3, 5), [mdp])
    zero = garnet(0, 4, 2, 2, 0.8, max_reward=0.0)
    with pytest.raises(ValueError, match=r"least error = 0.0"):
        measure_decay(lambda k: Mean(), (3, 5, 9), [zero])
