"""The paper's lemmas and theorems, one by one, with its own constructions and constants.

Where the paper has a slip, the test says so and checks the right statement.
"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edrl.core.families import Categorical, Expectiles, Moments, Quantiles, midpoints
from edrl.core.metrics import cramer, supremum, wasserstein
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics
from edrl.tabular import dp
from edrl.tabular.bellman import exact_backup, solve_moments
from edrl.tabular.ground_truth import return_distributions
from edrl.tabular.mdp import MDP
from edrl.tabular.problems import (
    cdrl_not_uniform,
    garnet,
    qdrl_not_uniform,
    quantile_mean_inconsistent,
    quantile_not_closed,
)
from edrl.theory.bounds import (
    approximation_error,
    cdrl_bound,
    edrl_bound,
    qdrl_bound,
    sharper_qdrl_bound,
)
from edrl.theory.closedness import bellman_closed

pytestmark = pytest.mark.xdist_group("lemmas")  # one process makes what its tests share

EPS = np.finfo(np.float64).eps
SUPPORT = (-1.0, -0.25, 0.0, 0.5, 0.75)
EVEN = tuple(np.linspace(-1.0, 1.0, 6).tolist())


def random_distributions(
    seed: int, batch: tuple[int, ...], atoms: int, low: float = -1.0, high: float = 1.0
) -> Particles:
    """Random distributions on [low, high], some with most of their mass on few atoms."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(atoms, rng.choice([0.1, 1.0])), batch)
    return Particles(rng.uniform(low, high, (*batch, atoms)), probs)


def exact_returns(mdp: MDP, steps: int) -> Particles:
    """The return distributions of an MDP that ends within `steps` steps, with all their atoms."""
    eta = Particles(np.zeros((mdp.num_states, mdp.num_actions, 1)))
    for _ in range(steps):
        eta = exact_backup(mdp, 0, eta)
    return eta


def projected(support: tuple[float, ...], mu: Particles) -> np.ndarray:
    """Equation (12) atom by atom. The paper's "delta_{k+1}" there means delta_{z_{k+1}}."""
    probs = np.zeros(len(support))
    for w, p in zip(np.asarray(mu.atoms), np.asarray(mu.probs), strict=True):
        if w <= support[0]:
            probs[0] += p
        elif w >= support[-1]:
            probs[-1] += p
        else:
            k = next(k for k in range(len(support) - 1) if support[k] <= w <= support[k + 1])
            probs[k] += p * (w - support[k + 1]) / (support[k] - support[k + 1])
            probs[k + 1] += p * (support[k] - w) / (support[k] - support[k + 1])
    return probs


@pytest.mark.parametrize("support", [SUPPORT, EVEN])
def test_lemma_3_2_cdrl_learns_statistics(support: tuple[float, ...]) -> None:
    """Pi_C preserves s_{z_k, z_{k+1}} for k = 1, ..., K - 1 (the proof says K), and they are
    injective on the grid: imputing from the statistics is the projection of Equation (12)."""
    family = Categorical(support)
    distributions = random_distributions(
        0, (40,), 12, low=-1.5, high=1.2
    )  # also beyond the support
    distributions.atoms[:, :5] = support[:5]  # and on its points
    statistics = family.evaluate(distributions)
    imputed = family.impute(statistics)
    assert statistics.shape == (40, len(support) - 1)
    expected = np.stack([projected(support, mu) for mu in distributions])
    np.testing.assert_allclose(imputed.probs, expected, atol=50 * EPS)
    np.testing.assert_allclose(family.evaluate(imputed), statistics, atol=50 * EPS)
    on_grid = Particles(np.broadcast_to(support, expected.shape), expected)
    np.testing.assert_allclose(
        family.impute(family.evaluate(on_grid)).probs, expected, atol=50 * EPS
    )


def test_lemma_4_2_moments_are_closed() -> None:
    """The moments of T eta are binomial sums over those of eta, whatever else eta is."""
    mdp, k = garnet(1, 4, 2, 2, 0.8, reward_atoms=2), 4
    eta = random_distributions(1, (4, 2), 5)
    policy = np.full((4, 2), 0.5)
    below = np.concatenate([np.ones((4, 2, 1)), Moments(k).evaluate(eta)], axis=-1).mean(
        axis=1
    )  # [S, k + 1]
    rewards, successors = mdp.rewards, mdp.successors
    reward_moments = np.sum(
        rewards.probs[..., None] * rewards.atoms[..., None] ** np.arange(k + 1), axis=-2
    )
    expected = np.zeros((4, 2, k))
    for j in range(1, k + 1):
        for m in range(j + 1):
            terms = (
                math.comb(j, m) * 0.8 ** (j - m) * reward_moments[..., m] * below[successors, j - m]
            )
            expected[..., j - 1] += np.sum(mdp.probs * terms, axis=-1)
    np.testing.assert_allclose(
        Moments(k).evaluate(exact_backup(mdp, policy, eta)), expected, atol=1e-14
    )


def test_theorem_4_3_only_moments_are_closed() -> None:
    """Closed: the first L moments in any basis. Not closed: anything else, also some of the moments
    alone.
    """
    for closed in (
        [lambda x: x],
        [lambda x: x, lambda x: x + x**2],
        [lambda x: 3 * x**2 - 1, lambda x: 2 - x],
    ):
        assert bellman_closed(closed).closed
    for other in (
        [np.square],
        [np.exp],
        [np.sin],
        [np.cos],
        [lambda x: 1.0 * (np.asarray(x) < 0.1)],
    ):
        found = bellman_closed(other)
        assert found.witness is not None
        assert found.witness.check(other) > 0.01
    found = bellman_closed(Categorical(SUPPORT))
    assert found.witness is not None
    assert found.witness.check(Categorical(SUPPORT)) > 0.01


def test_lemma_4_4_i_cdrl_is_not_closed() -> None:
    """In two MDPs x1 -> x2, those of Appendix C, the statistics at x2 are equal and those at x1 are
    not.
    """
    family = Categorical(np.arange(9) / 8)
    values = [
        np.asarray(family.evaluate(exact_returns(cdrl_not_uniform(1, 3, v), 2))) for v in ("A", "B")
    ]
    np.testing.assert_allclose(values[0][1], values[1][1], atol=1e-14)
    assert np.abs(values[0][0] - values[1][0]).max() == pytest.approx(1 / 6, abs=1e-14)


@pytest.mark.parametrize("k", [4])
def test_lemma_4_4_ii_qdrl_is_not_closed(k: int) -> None:
    """Equal mid-quantiles at x1 and x2, different 1/(2K)-quantiles at x0: gamma/K and, in the
    second case, not 3 gamma/(2K) as printed. There F(gamma/(2K)) is 1/(2K) already, so F^-1(1/(2K))
    = gamma/(2K); the printed value is the other end of the interval of minimisers of the quantile
    loss."""
    gamma, per_level, family, values = 0.8, 9, Quantiles(k), {}
    for variant in ("uniform", "atoms"):
        eta = exact_returns(quantile_not_closed(k, variant, gamma, per_level), 2)  # type: ignore[arg-type]
        values[variant] = np.asarray(family.evaluate(eta))[:, 0]
        for state, shift in ((1, 0.0), (2, 1 / k)):
            np.testing.assert_allclose(
                values[variant][state], np.array(midpoints(k)) + shift, atol=1e-14
            )
    bin_width = 1 / (k * per_level)  # of the discretised uniform distribution
    assert abs(values["uniform"][0, 0] - gamma / k) <= gamma * bin_width / 2 + 1e-14
    assert values["atoms"][0, 0] == pytest.approx(gamma / (2 * k), abs=1e-14)

    def loss(q: float) -> float:  # Equation (4) at tau = 1/(2K), for the last eta
        z, p, tau = np.asarray(eta.atoms[0, 0]), np.asarray(eta.probs[0, 0]), 1 / (2 * k)
        return float(np.sum(p * np.where(z > q, tau, 1 - tau) * np.abs(z - q)))

    assert loss(gamma / (2 * k)) == pytest.approx(loss(3 * gamma / (2 * k)), abs=1e-14)
    assert loss(3 * gamma / (2 * k) + 0.01) > loss(gamma / (2 * k)) + 1e-3


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_lemma_b_1_the_cramer_projection_in_w1(seed: int) -> None:
    """(i) Pi_C does not expand W1. (ii) It moves a distribution on [z_1, z_K] by at most (z_K -
    z_1)/(2 (K - 1)).

    (The proof of (i) prints F_{mu_1} - F_{mu_1} for F_{mu_1} - F_{mu_2} and a sum up to K for K -
    1.)
    """
    family = Categorical(EVEN)
    mu, nu = (
        random_distributions(seed, (16,), 6, -1.3, 1.3),
        random_distributions(seed + 1, (16,), 6, -1.3, 1.3),
    )
    pi_mu, pi_nu = family.impute(family.evaluate(mu)), family.impute(family.evaluate(nu))
    assert (wasserstein(pi_mu, pi_nu) <= wasserstein(mu, nu) + 1e-14).all()
    inside = random_distributions(seed, (16,), 6)
    moved = wasserstein(family.impute(family.evaluate(inside)), inside)
    assert moved.max() <= (EVEN[-1] - EVEN[0]) / (2 * (len(EVEN) - 1)) + 1e-14


def test_lemma_b_1_is_sharp_and_its_coupling() -> None:
    """(ii) is attained in the middle of a bin. The proof's coupling must send Y to l(Y) with
    probability (u - Y)/(u - l): the printed Z = p l + (1 - p) u needs p ~ Bernoulli((u - Y)/(u -
    l))."""
    family = Categorical(EVEN)
    middle = Particles([(EVEN[2] + EVEN[3]) / 2])
    width = EVEN[1] - EVEN[0]
    assert wasserstein(family.impute(family.evaluate(middle)), middle) == pytest.approx(
        width / 2, abs=1e-15
    )
    quarter = family.impute(family.evaluate(Particles([EVEN[2] + width / 4])))
    np.testing.assert_allclose(quarter.probs[2:4], [0.75, 0.25], atol=1e-14)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_lemma_b_2_the_quantile_projection_in_w1(seed: int) -> None:
    """(i) Pi_W1 moves a distribution of width I by at most I/K; in fact by at most I/(2K), as
    mid-quantiles halve their cells. (ii) W1(Pi mu, Pi nu) <= W1(mu, nu) + 2 I/K; in fact + I/K."""
    family, k, width = Quantiles(5), 5, 2.0
    mu, nu = random_distributions(seed, (16,), 6), random_distributions(seed + 1, (16,), 6)
    pi_mu, pi_nu = family.impute(family.evaluate(mu)), family.impute(family.evaluate(nu))
    moved = wasserstein(pi_mu, mu)
    assert moved.max() <= width / k
    assert moved.max() <= width / (2 * k) + 1e-14
    assert (wasserstein(pi_mu, pi_nu) <= wasserstein(mu, nu) + width / k + 1e-14).all()


def test_lemma_b_2_needs_its_second_term() -> None:
    """Pi_W1 is no non-expansion in W1, and moves a coin toss by I/(2K) exactly."""
    family = Quantiles(1)
    mu, nu = Particles([0.0, 1.0], [0.51, 0.49]), Particles([0.0, 1.0], [0.49, 0.51])
    assert wasserstein(mu, nu) == pytest.approx(0.02)
    apart = wasserstein(family.impute(family.evaluate(mu)), family.impute(family.evaluate(nu)))
    assert apart == 1.0
    coin = Particles([0.0, 1.0])
    assert wasserstein(family.impute(family.evaluate(coin)), coin) == 0.5


@pytest.mark.parametrize(("seed", "gamma"), [(0, 0.5), (1, 0.95)])
def test_bellman_operators_contract(seed: int, gamma: float) -> None:
    """Appendix A: T contracts sup-W1 by gamma, Pi_C T the sup-Cramér distance by sqrt(gamma), and
    Pi_W1 T sup-W_inf by gamma (Dabney et al., 2018), which is why CDRL and QDRL have fixed
    points."""
    mdp = garnet(seed, 5, 2, 3, gamma)
    one, two = random_distributions(seed, (5, 2), 4), random_distributions(seed + 9, (5, 2), 4)
    backed_up = [exact_backup(mdp, "uniform", eta) for eta in (one, two)]
    assert supremum(wasserstein, *backed_up) <= gamma * supremum(wasserstein, one, two) + 1e-14
    categorical, quantiles = Categorical(EVEN), Quantiles(4)
    projections = [categorical.impute(categorical.evaluate(eta)) for eta in backed_up]
    assert supremum(cramer, *projections) <= math.sqrt(gamma) * supremum(cramer, one, two) + 1e-14
    projections = [quantiles.impute(quantiles.evaluate(eta)) for eta in backed_up]
    assert (
        supremum(wasserstein, *projections, p=np.inf)
        <= gamma * supremum(wasserstein, one, two, p=np.inf) + 1e-14
    )


CLASS = [(seed, gamma) for gamma in (0.5, 0.8, 0.95) for seed in (0, 1)]


@pytest.fixture(scope="module")
def measured() -> list[tuple[MDP, Any, float, float]]:
    """Random MDPs and their true return distributions.

    Rmax = 1 - gamma puts all returns into [-1, 1].
    """
    found = []
    for seed, gamma in CLASS:
        mdp = garnet(seed, 4, 2, 2, gamma, max_reward=1 - gamma)
        found.append((mdp, return_distributions(mdp, "uniform", atoms=512), gamma, 1 - gamma))
    return found


def largest_ratio(measured: list[Any], family: Statistics, bound: Any) -> float:
    """The largest of error/bound over the MDPs, the truth's uncertainty counted against the bound."""
    ratios = []
    for mdp, truth, gamma, max_reward in measured:
        found = approximation_error(mdp, "uniform", family, truth=truth)
        assert found.learnt.converged
        assert found.uncertainty is not None
        ratios.append((found.error + found.uncertainty) / bound(gamma, max_reward))
    return max(ratios)


@pytest.mark.parametrize("k", [2, 5, 33])
def test_theorem_4_6_cdrl_is_approximately_closed(k: int, measured: list[Any]) -> None:
    """The error never exceeds gamma / (2 (1 - gamma) (K - 1)).

    (F^-1 in the proof should read F.)
    """
    ratio = largest_ratio(
        measured, Categorical(np.linspace(-1, 1, k)), lambda gamma, _: cdrl_bound(k, gamma)
    )
    # Two support points on all returns learn the mean, exactly.
    assert ratio <= (1e-4 if k == 2 else 1.0)


@pytest.mark.parametrize("k", [1, 9])
def test_theorem_4_7_qdrl_is_approximately_closed(k: int, measured: list[Any]) -> None:
    """The error never exceeds 2 Rmax (5 - 2 gamma) / ((1 - gamma)^2 K), nor our sharper bound."""
    for bound in (qdrl_bound, sharper_qdrl_bound):
        assert (
            largest_ratio(measured, Quantiles(k), lambda gamma, r, bound=bound: bound(k, gamma, r))
            <= 1
        )


@pytest.mark.parametrize("k", [9])
def test_edrl_is_approximately_closed(k: int, measured: list[Any]) -> None:
    """Our bound for exact imputation within the range of returns, of which the paper has no
    counterpart.
    """
    family = Expectiles(midpoints(k), imputation="exact-knots")
    assert largest_ratio(measured, family, lambda gamma, r: edrl_bound(midpoints(k), gamma, r)) <= 1


def test_lemma_4_8_i_cdrl_learns_means(measured: list[Any]) -> None:
    """If the support covers the returns, CDRL's means are exact: x = z_K - (z_K - z_1)/(K - 1)
    sum_k h_k(x). The proof prints K for K - 1, which fails by up to (z_K - z_1)/K."""
    support = np.linspace(-1, 1, 5)
    family = Categorical(support)
    x = np.linspace(-1, 1, 41)
    total = family.features(x).sum(axis=0)
    np.testing.assert_allclose(support[-1] - 2 / 4 * total, x, atol=1e-14)
    assert np.abs(support[-1] - 2 / 5 * total - x).max() == pytest.approx(2 / 5)
    for mdp, truth, gamma, _ in measured:
        learnt = dp.evaluate(mdp, "uniform", family, tolerance=1e-13)
        np.testing.assert_allclose(learnt.means(), truth.means, atol=1e-12 / (1 - gamma))
    # A support that does not cover the returns loses what lies beyond it.
    mdp, truth, _, _ = measured[0]
    narrow = dp.evaluate(mdp, "uniform", Categorical(np.linspace(-0.1, 0.1, 5)))
    assert np.abs(narrow.means() - truth.means).max() > 0.01


@pytest.mark.parametrize("k", [8])
def test_lemma_4_8_ii_qdrl_does_not_learn_means(k: int) -> None:
    """Greedy control on the mean of K quantiles takes the second action, with half of the first's
    mean.
    """
    mdp = quantile_mean_inconsistent(k)
    np.testing.assert_allclose(
        solve_moments(mdp, 0, 1)[0, :, 0], [1 / (4 * k), 1 / (8 * k)], rtol=1e-13
    )
    learnt = dp.control(mdp, Quantiles(k))
    np.testing.assert_allclose(learnt.means()[0], [0, 1 / (8 * k)], atol=1e-14)
    assert learnt.policy.actions[0, 0] == 1


def test_section_4_3_edrl_learns_means() -> None:
    """The 1/2-expectile is learnt exactly, whatever the other statistics and the imputation are, if
    only the imputed distribution has that mean: even a point mass there will do. Samples in the
    place of expectiles will not: their average is not the 1/2-expectile unless the other expectiles
    lie evenly around it."""
    mdp = garnet(3, 4, 2, 2, 0.9)
    exact = solve_moments(mdp, "uniform", 1)[..., 0]

    def off(impute: str) -> float:
        learnt = dp.evaluate(mdp, "uniform", Expectiles(midpoints(9), impute), tolerance=1e-12)
        return float(np.abs(learnt.values[..., 4] - exact).max())

    assert off("exact-knots") <= 1e-10
    assert off("dirac") <= 1e-10
    assert off("as_samples") > 0.05


@pytest.mark.parametrize(("m", "depth"), [(1, 3), (1, 8), (2, 8)])
def test_appendix_c_cdrl_statistics_do_not_converge_uniformly(m: int, depth: int) -> None:
    """One statistic at x1 is learnt as 1 / (2 (2^m + 1)) for rho_A and rho_B alike, at every depth
    L > m + 1. That is right for rho_B; for rho_A it is 0, so the largest error does not vanish, but
    the mean error does. The printed values hold for m >= 1 ("for some k" there means m); for m = 0
    both statistics are 1/4."""
    family = Categorical(np.arange(2**depth + 1) / 2**depth)
    index, wrong = 2 ** (depth - 1), 1 / (2 * (2**m + 1))
    rounding = 8 * EPS * 2**depth  # gamma z is rounded, and the slope of h is 2^depth
    for variant, true in (("A", 0.0), ("B", wrong)):
        mdp = cdrl_not_uniform(m, depth, variant)  # type: ignore[arg-type]
        learnt = dp.evaluate(mdp, 0, family).values[0, 0]
        exact = family.evaluate(exact_returns(mdp, 2))[0, 0]
        assert learnt[index] == pytest.approx(wrong, abs=rounding)
        assert exact[index] == pytest.approx(true, abs=rounding)
        assert np.abs(learnt - exact).mean() <= cdrl_bound(2**depth + 1, mdp.gamma)


@pytest.mark.parametrize("k", [3, 41])
def test_appendix_c_quantiles_do_not_converge_uniformly(k: int) -> None:
    """For every odd K, QDRL learns the median -gamma at x0 where it is 0. ("epsilon << 1" must be
    below about 1/(6K).)"""
    mdp, gamma = qdrl_not_uniform(k, gamma=0.8), 0.8
    learnt, exact = (
        dp.evaluate(mdp, 0, Quantiles(k)).values,
        Quantiles(k).evaluate(exact_returns(mdp, 2)),
    )
    assert np.array_equal(learnt[1:3, 0], exact[1:3, 0])  # 1 at x1 and -1 at x2
    middle = (k - 1) // 2
    assert exact[0, 0, middle] == 0
    assert learnt[0, 0, middle] == pytest.approx(-gamma)
