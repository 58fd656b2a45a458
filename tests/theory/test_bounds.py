"""Approximation errors: the paper's bounds, the steps of our own ones, and measurements against the
truth.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import linregress

from edrl.core.families import Categorical, Expectiles, Mean, Moments, Quantiles, midpoints
from edrl.core.families.levels import evenly_spaced
from edrl.core.metrics import cramer, integrated_cdf, integrated_cdf_distance
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics
from edrl.tabular import dp
from edrl.tabular.bellman import exact_backup
from edrl.tabular.ground_truth import Truth, return_distributions
from edrl.tabular.mdp import MDP
from edrl.tabular.problems import garnet, qdrl_not_uniform
from edrl.theory.bounds import (
    approximation_error,
    cdrl_bound,
    cdrl_cramer_bound,
    edrl_bound,
    edrl_level_bounds,
    measure_decay,
    qdrl_bound,
    sharper_cdrl_bound,
    sharper_qdrl_bound,
)

EPS = np.finfo(np.float64).eps
POOR, FINE = 12, 10_000  # iterations
FAMILIES: list[Statistics] = [
    Categorical(np.linspace(-1, 1, 5)),
    Quantiles(9),
    Expectiles(midpoints(9), imputation="exact-knots"),
]


def test_the_bounds_are_those_of_the_paper() -> None:
    """Theorems 4.6 and 4.7, computed by hand."""
    assert cdrl_bound(51, 0.9) == pytest.approx(0.9 / (2 * 0.1 * 50), rel=1e-15)
    assert cdrl_bound(2, 0.0) == 0
    assert qdrl_bound(200, 0.9, 2.0) == pytest.approx(2 * 2 * 3.2 / (0.01 * 200), rel=1e-12)
    assert qdrl_bound(1, 0.0, 1.0) == 10
    for gamma in (0.0, 0.5, 0.99):
        assert 5 <= qdrl_bound(7, gamma, 3.0) / sharper_qdrl_bound(7, gamma, 3.0) < 6
    for gamma in (0.1, 0.5, 0.99):
        ratio = sharper_cdrl_bound(9, gamma) / cdrl_bound(9, gamma)
        assert ratio == pytest.approx(math.sqrt((1 - gamma) / (1 + gamma)), rel=1e-12)


def test_the_bound_for_edrl_by_hand() -> None:
    """Taus 1/4, 1/2, 3/4 and I = 4: steps of 1/4, weights |1 - 2 tau|/min(tau, 1 - tau) of 2, 0 and
    2.
    """
    by_hand = np.array([2, 0, 2]) * (0.5 * 4 * 0.25 / 0.5)
    within = edrl_level_bounds((0.25, 0.5, 0.75), 0.5, 1.0, within_range=True)
    np.testing.assert_allclose(within, by_hand, rtol=1e-12)
    np.testing.assert_allclose(
        edrl_level_bounds((0.25, 0.5, 0.75), 0.5, 1.0), 2 * by_hand, rtol=1e-12
    )
    assert edrl_bound((0.25, 0.5, 0.75), 0.5, 1.0, within_range=True) == pytest.approx(
        4 / 3, rel=1e-12
    )
    # Of levels that are not symmetric the outermost on the side with the wider step decides.
    uneven = edrl_level_bounds((0.1, 0.5, 0.7), 0.5, 1.0)
    kappa, step = 1 / (1 - 2 * 0.3), 0.4
    np.testing.assert_allclose(
        uneven, np.minimum(4 * kappa * step * np.array([8, 0, 4 / 3]), 4), rtol=1e-12
    )
    # Where the bound is useless, the width of the range takes its place.
    assert edrl_bound((0.01, 0.5, 0.99), 0.9, 1.0) == pytest.approx(2 * 20 / 3, rel=1e-12)


@pytest.mark.parametrize("k", [101, 1001, 10001])
def test_the_bound_for_edrl_is_uniform_away_from_the_ends(k: int) -> None:
    """The k-th level from an end has at most 2 gamma I / ((1 - gamma) (2k - 1)), whatever K is; so
    the mean is O(log K / K), and the largest over levels in [0.1, 0.9] is O(1/K)."""
    gamma, width, taus = 0.5, 4.0, np.array(midpoints(k))
    bounds = edrl_level_bounds(taus, gamma, 1.0)
    place = np.minimum(np.arange(1, k + 1), np.arange(k, 0, -1))
    assert (bounds <= 2 * gamma * width / ((1 - gamma) * (2 * place - 1)) + 1e-12).all()
    assert bounds.mean() <= 4 * 2 * math.log(k) / k
    inner = bounds[(taus >= 0.1) & (taus <= 0.9)].max()
    assert inner <= gamma * width / ((1 - gamma) * (k - 1)) * 8 + 1e-12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cdrl_bound(1, 0.9), r"k must be .* at least 2, got 1"),
        (lambda: cdrl_bound(5, 1.0), r"gamma is 1.0: .* \[0, 1\)"),
        (lambda: qdrl_bound(0, 0.9, 1.0), r"k( is |.* got )0"),
        (lambda: qdrl_bound(5, 0.9, -1.0), r"max_reward( is |.* got )-1.0"),
        (lambda: sharper_qdrl_bound(5, -0.1, 1.0), r"gamma( is |.* got )-0.1"),
        (lambda: cdrl_cramer_bound(1, 0.9), r"k must be .* at least 2, got 1"),
        (lambda: sharper_cdrl_bound(5, 1.0), r"gamma( is |.* got )1.0"),
        (
            lambda: edrl_bound((0.2, 0.4, 0.9), 0.9, 1.0),
            r"taus( is |.* got ).* 1/2 must be among them",
        ),
        (lambda: edrl_bound((0.2, 0.4, 0.5), 0.9, 1.0), r"taus( is |.* got ).* on either side"),
        (lambda: edrl_bound((0.5, 0.2), 0.9, 1.0), "taus"),
    ],
)
def test_bounds_refuse_what_they_do_not_cover(call: Callable[[], float], message: str) -> None:
    """Each message names the argument and its value."""
    with pytest.raises(ValueError, match=message):
        call()


def unit_distributions(seed: int) -> Particles:
    """Distributions with extremes 0 and 1: coin tosses, skewed ones and others."""
    rng = np.random.default_rng(seed)
    inner = rng.uniform(0, 1, (600, 6)) ** rng.choice([0.1, 1.0, 10.0], (600, 1))
    probs = rng.dirichlet(np.full(8, 0.3), 600)
    probs[:200, 2:] = 0  # only the two ends
    probs += np.where(
        np.arange(8) < 2, 10 ** rng.uniform(-6, 0, (600, 2))[:, [0, 1, 0, 0, 0, 0, 0, 0]], 0
    )
    atoms = np.concatenate([np.zeros((600, 1)), np.ones((600, 1)), inner], axis=-1)
    return Particles(atoms, probs / probs.sum(axis=-1, keepdims=True))


def test_within_the_range_imputation_moves_the_integrated_cdf_by_a_step_of_the_levels() -> None:
    """Step 2 of docs/edrl-theorem.md for I = 1: P(e) = tau E|Z - e|, and E|Z - e| is at most 1/(1 +
    2 sqrt(tau (1 - tau))); imputation moves P by at most the widest step, and stays in the
    range."""
    family = FAMILIES[2]
    mu = unit_distributions(0)
    values, taus = np.asarray(family.evaluate(mu)), np.array(midpoints(9))
    distance = np.sum(mu.probs[:, None] * np.abs(mu.atoms[:, None] - values[..., None]), axis=-1)
    np.testing.assert_allclose(integrated_cdf(mu, values), taus * distance, atol=1e-14)
    ratio = distance * (1 + 2 * np.sqrt(taus * (1 - taus)))
    assert 0.98 < ratio.max() <= 1 + 1e-13  # nearly attained by a coin toss
    imputed = family.impute(values)
    assert 0.01 < np.max(integrated_cdf_distance(imputed, mu)) <= 1 / 9
    # A tail's mass is a chord slope of P, which is as uncertain as P over the distance of the
    # knots.
    beyond = np.maximum(imputed.atoms - 1, 0) + np.maximum(-imputed.atoms, 0)
    assert (
        np.sum(imputed.probs * beyond, axis=-1) <= 100 * EPS / np.diff(values).min(axis=-1)
    ).all()


LEVELS = [
    midpoints(3),
    midpoints(9),
    midpoints(33),
    evenly_spaced(11),
    (0.25, 0.5, 0.75),
    (0.05, 0.3, 0.5, 0.9),  # not symmetric
    (0.4, 0.5, 0.6, 0.95),
    (0.02, 0.5, 0.98),
]


def kappa_step(taus: Any) -> float:
    """kappa Delta of docs/edrl-theorem.md."""
    return float(np.diff(taus, prepend=0, append=1).max() / (1 - 2 * max(taus[0], 1 - taus[-1])))


def farthest_pair(mu: Particles, family: Expectiles) -> np.ndarray:
    """The supremum of d(nu, nu') over all distributions with the expectiles of each mu, from P at
    the knots.

    Between knots P is below the chord, and above the lines that prolong the neighbouring chords.
    Below the first knot it can be nearly as large as there, and nearly 0.
    """
    taus = np.array(family.taus)
    x = np.asarray(family.evaluate(mu))[:, taus != 0.5] - np.asarray(mu.mean())[:, None]
    taus = taus[taus != 0.5]
    p = taus * x / (2 * taus - 1)
    chords = np.diff(p) / np.diff(x)
    zero, one = np.zeros((len(x), 1)), np.ones((len(x), 1))
    before, after = np.hstack([zero, chords[:, :-1]]), np.hstack([chords[:, 1:], one])
    gaps = np.diff(x) * np.maximum(chords - before, 0) * np.maximum(after - chords, 0)
    inside = (gaps / np.maximum(after - before, 1e-12)).max(axis=-1)
    return np.asarray(np.maximum(inside, np.maximum(p[:, 0], (p - x)[:, -1])))


@pytest.mark.parametrize("taus", LEVELS)
def test_distributions_with_the_same_expectiles_are_near_each_other(
    taus: tuple[float, ...],
) -> None:
    """Step 2: d(mu, nu) <= kappa Delta (e_K - e_1) for *all* pairs, the farthest included, also if
    levels are not symmetric. For midpoints it is sharp but for a factor of two: the step beyond the
    last knot is half."""
    family = Expectiles(taus)
    mu = unit_distributions(3)
    values = np.asarray(family.evaluate(mu))
    share = farthest_pair(mu, family) / (
        kappa_step(np.array(taus)) * (values[:, -1] - values[:, 0])
    )
    assert share.max() <= 1 + 1e-9
    if taus == midpoints(len(taus)):
        assert share.max() > 0.44


@pytest.mark.parametrize("rule", ["exact", "exact-midpoint", "exact-knots", "exact-spline"])
@pytest.mark.parametrize("taus", [LEVELS[1], LEVELS[5]])
def test_every_exact_imputation_is_one_of_them(rule: str, taus: tuple[float, ...]) -> None:
    """Step 2 for our own rules, of which all but exact-knots put atoms beyond the range of the
    distribution.
    """
    family = Expectiles(taus, imputation=rule)
    mu = unit_distributions(4)
    values = np.asarray(family.evaluate(mu))
    imputed = family.impute(values)
    allowed = kappa_step(np.array(taus)) * (values[:, -1] - values[:, 0])
    assert (np.asarray(integrated_cdf_distance(imputed, mu)) <= allowed + 1e-12).all()
    beyond = (imputed.atoms < -1e-3) & (imputed.probs > 1e-9)
    assert beyond.any() == (rule != "exact-knots")


def test_expectiles_of_mixtures_lie_between_those_of_their_parts() -> None:
    """Step 1, which keeps learnt expectiles in the range of returns wherever the imputed atoms are."""
    family = Expectiles(midpoints(9))
    one, two = unit_distributions(5), unit_distributions(6)
    two = Particles(3 * two.atoms - 1, two.probs)
    share = np.random.default_rng(0).uniform(size=(600, 1))
    mixed = Particles(
        np.concatenate([one.atoms, two.atoms], axis=-1),
        np.concatenate([share * one.probs, (1 - share) * two.probs], axis=-1),
    )
    parts = np.stack([family.evaluate(one), family.evaluate(two)])
    values = np.asarray(family.evaluate(mixed))
    assert (values >= parts.min(axis=0) - 1e-13).all()
    assert (values <= parts.max(axis=0) + 1e-13).all()


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_expectiles_are_lipschitz_in_the_integrated_cdf(shift: float) -> None:
    """Step 4: |e - e'| <= (|1 - 2 tau| d + tau |m - m'|)/min(tau, 1 - tau)."""
    family, taus = FAMILIES[2], np.array(midpoints(9))
    one, two = unit_distributions(1), unit_distributions(2)
    two = Particles(two.atoms + (one.mean() - two.mean())[:, None] + shift, two.probs)
    d = np.asarray(integrated_cdf_distance(one, two))[:, None]
    apart = np.abs(family.evaluate(one) - family.evaluate(two))
    allowed = (d * np.abs(1 - 2 * taus) + taus * shift) / np.minimum(taus, 1 - taus)
    assert (apart <= allowed + 1e-13).all()
    assert (apart / np.where(allowed > 0, allowed, 1)).max() > 0.5


def rare_extremes(gamma: float) -> MDP:
    """A state that pays -Rmax until it is left, seldom, for endless Rmax or -Rmax: returns in [-1,
    1].
    """
    ways = [(0.98, 0, gamma - 1), (0.015, 1, 0.0), (0.005, 2, 0.0)]
    return MDP.from_lists([[ways], [[(1.0, 1, 1 - gamma)]], [[(1.0, 2, gamma - 1)]]], gamma)


@pytest.mark.parametrize("rule", ["exact", "exact-midpoint"])
def test_the_bound_for_edrl_holds_after_every_sweep(rule: str) -> None:
    """Equation (2) of docs/edrl-theorem.md, where the default rule never settles and imputes atoms
    beyond the returns, but learns expectiles within them."""
    gamma, family = 0.9, Expectiles(midpoints(9), imputation=rule)
    taus, mdp = np.array(family.taus), rare_extremes(0.9)
    steps = np.arange(400)
    paid, reach = gamma**steps - 1, 0.98**steps  # in t steps 1 - gamma^t is lost
    atoms = np.concatenate([paid + gamma ** (steps + 1), paid - gamma ** (steps + 1), [-1.0]])
    true = Particles(atoms, np.concatenate([0.015 * reach, 0.005 * reach, [0.98**400]]))
    values = np.asarray(family.evaluate(true))
    farthest = 0.0
    for sweeps in (1, 2, 5, 20, 100, 300, 1500):
        solved = dp.evaluate(mdp, 0, family, max_iterations=sweeps)
        assert np.abs(solved.values).max() <= 1 + 1e-12
        allowed = edrl_level_bounds(taus, gamma, 1 - gamma)
        allowed += 2 * gamma**solved.iterations / np.minimum(taus, 1 - taus)
        assert (np.abs(solved.values[0, 0] - values) <= allowed + 1e-9).all()
        farthest = max(farthest, float(np.abs(solved.distributions().atoms).max()))
    assert farthest > 1.005
    assert solved.converged == (rule == "exact-midpoint")


@pytest.mark.parametrize("taus", [midpoints(41), evenly_spaced(11)])
@pytest.mark.parametrize("rule", ["exact", "as_samples"])
def test_no_imputation_learns_the_outermost_level(taus: tuple[float, ...], rule: str) -> None:
    """The proposition of docs/edrl-theorem.md: two MDPs with the same expectiles at x1 and
    different ones at x0.
    """
    gamma, family, odds = 0.6, Expectiles(taus, imputation=rule), taus[0] / (1 - taus[0])
    continuous = (
        Particles(np.array([-1.0, 0.0, 1.0]), np.array([odds / 2, 0.5 - odds / 2, 0.5])),
        Particles(np.array([-odds, 1.0])),
    )
    learnt, true = [], []
    for reward in continuous:
        fork = [(2 / (2 + odds), 1, 0.0), (odds / (2 + odds), 2, 0.0)]
        mdp = MDP.from_lists([[fork], [[(1.0, 3, reward)]], [[(1.0, 3, -1.0)]], []], gamma)
        learnt.append(dp.evaluate(mdp, 0, family).values[:, 0])
        eta = exact_backup(mdp, 0, exact_backup(mdp, 0, Particles(np.zeros((4, 1, 1)))))
        true.append(np.asarray(family.evaluate(eta))[0, 0, 0])
    np.testing.assert_allclose(learnt[0], learnt[1], atol=1e-12)
    np.testing.assert_allclose(
        true, [-gamma / (4 - odds), -gamma * odds / (1 + 2 * odds)], atol=1e-12
    )
    error = max(abs(learnt[0][0, 0] - one) for one in true)
    proved = gamma / 2 * (1 / (4 - odds) - odds / (1 + 2 * odds))
    assert error >= proved - 1e-12
    assert proved >= gamma * (1 / 8 - odds / 2)


@pytest.mark.parametrize("k", [3, 9])
@pytest.mark.parametrize("gamma", [0.5, 0.9])
def test_the_older_bound_for_cdrl(k: int, gamma: float) -> None:
    """Rowland et al. (2018), Proposition 3: the squared supremum-Cramér distance is at most h/(1 -
    gamma). By Jensen's inequality it bounds the mean error, and Theorem 4.6 is less than half of
    that where it says anything."""
    family = Categorical(np.linspace(-1, 1, k))
    for seed in range(3):
        mdp = garnet(seed, 4, 2, 2, gamma, max_reward=1 - gamma)
        truth = return_distributions(mdp, "uniform")
        learnt = dp.evaluate(mdp, "uniform", family)
        eta, projected = learnt.distributions(), family.impute(truth.values(family))
        spacing, width = 2 / (k - 1), 2.0
        distance = np.asarray(cramer(eta, truth.particles)).max()
        assert distance**2 <= spacing / (1 - gamma)
        mean_errors = np.abs(learnt.values - truth.values(family)).mean(axis=-1)
        assert (mean_errors <= np.asarray(cramer(eta, projected)) / math.sqrt(width) + 1e-12).all()
        assert np.asarray(cramer(eta, projected)).max() <= math.sqrt(gamma) * distance + 1e-4
        assert mean_errors.max() <= cdrl_cramer_bound(k, gamma)
    if cdrl_cramer_bound(k, gamma) < 1:
        assert cdrl_bound(k, gamma) < cdrl_cramer_bound(k, gamma) / 2


@pytest.mark.parametrize("k", [3, 9, 33])
def test_our_bound_for_cdrl_is_nearly_attained(k: int) -> None:
    """The return at x2 lies in the middle of a cell and is learnt as its two ends, h/2 away. That
    at x1 is a support point and is learnt as gamma h/2 away: an error of gamma h/2 in W1, and
    sqrt(1 - gamma^2) of the bound."""
    gamma, spacing = 0.5, 2 / (k - 1)
    family = Categorical(np.linspace(-1, 1, k))
    there = spacing / 2
    mdp = MDP.from_lists([[[(1.0, 1, -gamma * there)]], [[(1.0, 2, there)]], []], gamma)
    learnt = dp.evaluate(mdp, 0, family).values[0, 0]
    error = np.abs(learnt - np.asarray(family.evaluate(Particles(np.zeros(1))))).mean()
    assert error == pytest.approx(
        gamma * spacing / 2 / 2, rel=1e-9
    )  # W1 over the width of the support
    assert error / sharper_cdrl_bound(k, gamma) == pytest.approx(math.sqrt(1 - gamma**2), rel=1e-9)


@pytest.fixture(scope="module")
def truths() -> dict[int, Truth]:
    """The truth about one random MDP, after few iterations and after all that it takes."""
    mdp = garnet(0, 4, 2, 2, 0.8, max_reward=0.2)
    return {
        most: return_distributions(mdp, "uniform", max_iterations=most) for most in (POOR, FINE)
    }


@pytest.mark.parametrize("family", FAMILIES, ids=["categorical", "quantiles", "expectiles"])
def test_the_uncertainty_covers_a_poor_truth(family: Statistics, truths: dict[int, Truth]) -> None:
    """A poor and a fine truth differ by no more than their uncertainties."""
    mdp = garnet(0, 4, 2, 2, 0.8, max_reward=0.2)
    poor, fine = (
        approximation_error(mdp, "uniform", family, truth=truths[n]) for n in (POOR, FINE)
    )
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
    """Appendix C's example, with its true quantiles -gamma, 0, gamma at x0 and the learnt median
    -gamma.
    """
    mdp, family = qdrl_not_uniform(3, gamma=0.8), Quantiles(3)
    rare, split = (
        mdp.rewards.probs[1, 0, 0].min(),
        mdp.probs[0, 0],
    )  # x1 and x2 pay 0 rarely, else 1 and -1
    atoms = np.array([[-0.8, 0.0, 0.8], [0, 1, 1], [-1, -1, 0], [0, 0, 0]])[:, None]
    often = 1 - rare
    probs = np.array(
        [[split[1] * often, rare, split[0] * often], [rare, often, 0], [0, often, rare], [1, 0, 0]]
    )
    eta = Particles(atoms, probs[:, None])
    truth = Truth(
        mdp,
        eta,
        np.zeros((4, 1)),
        eta,
        eta,
        means=np.sum(eta.atoms * eta.probs, axis=-1),
        iterations=0,
    )
    found = approximation_error(mdp, 0, family, truth=truth)
    assert found.uncertainty is not None
    assert found.uncertainty <= 1e-11
    np.testing.assert_allclose(found.true_values[0, 0], [-0.8, 0, 0.8], atol=1e-14)
    np.testing.assert_allclose(found.learnt.values[0, 0], [-0.8, -0.8, 0.8], atol=1e-14)
    assert found.error == pytest.approx(0.8 / 3, abs=1e-14)
    known = approximation_error(mdp, 0, family, truth=found.true_values)
    assert (known.error, known.uncertainty) == (found.error, 0.0)
    with pytest.raises(ValueError, match=r"truth.shape( is |.* got )\(4, 1, 2\)"):
        approximation_error(mdp, 0, family, truth=found.true_values[..., :2])


def test_the_mean_is_learnt_exactly_and_has_no_rate(truths: dict[int, Truth]) -> None:
    """Equation (1): the error is where iteration stops; without a known bracket there is no
    uncertainty.
    """
    mdp = garnet(0, 4, 2, 2, 0.8, max_reward=0.2)
    found = approximation_error(mdp, "uniform", Mean(), truth=truths[FINE])
    assert found.error <= 1e-9 / (1 - 0.8)
    assert found.uncertainty is not None
    assert found.uncertainty <= 1e-12
    variance_lost = Moments(2, imputation="dirac")
    assert (
        approximation_error(mdp, "uniform", variance_lost, truth=truths[FINE]).uncertainty is None
    )


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
    assert (decay.worst <= [cdrl_bound(k, 0.8) for k in decay.ks.tolist()]).all()
    assert decay.exponent - 3 * decay.standard_error > 1


def test_the_exponent_is_a_least_squares_slope(decay: Any) -> None:
    """With one MDP it is that of SciPy's regression; with several, the slope of the mean
    logarithms.
    """
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
    with pytest.raises(ValueError, match=r"\(number of mdps, ks\) is \(1, \(3, 5\)\)"):
        measure_decay(Quantiles, (3, 5), [mdp])
    zero = garnet(0, 4, 2, 2, 0.8, max_reward=0.0)
    with pytest.raises(ValueError, match=r"least error( is |.* got )0.0"):
        measure_decay(lambda k: Mean(), (3, 5, 9), [zero])
