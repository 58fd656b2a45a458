"""Continuous rewards against SciPy: exact means, exact integrated CDFs at bin edges, and the error
formula.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from scipy import integrate, stats

from edrl.tabular.rewards import ContinuousReward, ContinuousRewards, Exponential, Normal, Uniform

EPS = np.finfo(np.float64).eps

REWARDS: list[tuple[Any, Any]] = [
    (Normal(0.0, 1.0), stats.norm()),
    (Normal(-3.0, 0.25), stats.norm(-3.0, 0.25)),
    (Uniform(-1.0, 1.0), stats.uniform(-1.0, 2.0)),
    (Uniform(2.0, 2.5), stats.uniform(2.0, 0.5)),
    (Exponential(), stats.expon()),
    (Exponential(2.0, shift=-1.0), stats.expon(-1.0, 2.0)),
]
REFLECTED = Exponential(
    0.5, shift=1.85, reflected=True
)  # SciPy has none: 1.85 - E with E ~ expon(scale=0.5)
SIZES = (1, 2, 3, 64, 501)


def rounding(reward: Any, n: int) -> float:
    """Standard atoms are n times a difference of rounded numbers below 1, within 8 of 0 for n <=
    501; sums of n of them round n times. Each of these is a few roundings."""
    loc, scale = reward.affine
    return 8 * n * EPS * (abs(loc) + 8 * abs(scale))


def discretised_cdf_integral(reward: Any, n: int, x: np.ndarray) -> np.ndarray:
    """P_n(x) = E[(x - R_n)+] by its definition."""
    mu = reward.discretise(n)
    return np.sum(mu.probs * np.maximum(x[:, None] - mu.atoms, 0), axis=-1)


@pytest.mark.parametrize(("reward", "oracle"), REWARDS)
@pytest.mark.parametrize("n", SIZES)
def test_atoms_are_conditional_means_of_equally_likely_bins(
    reward: ContinuousReward, oracle: Any, n: int
) -> None:
    """Atom i is E[R | bin i] = n * integral of the quantile function over (i/n, (i+1)/n)."""
    mu = reward.discretise(n)
    assert mu.atoms.dtype == np.float64
    np.testing.assert_allclose(mu.probs, 1 / n, rtol=4 * EPS)
    for i in sorted({0, n // 2, n - 1}):
        expected, error = integrate.quad(oracle.ppf, i / n, (i + 1) / n, epsabs=1e-13, epsrel=1e-12)
        assert abs(mu.atoms[i] - n * expected) <= n * max(error, 1e-12) + rounding(reward, n)


@pytest.mark.parametrize("reward", [*(reward for reward, _ in REWARDS), REFLECTED])
@pytest.mark.parametrize("n", SIZES)
def test_the_discretised_mean_is_exact(reward: Any, n: int) -> None:
    """Gathering bins at their conditional means keeps the mean."""
    mu = reward.discretise(n)
    assert abs(np.sum(mu.probs * mu.atoms) - reward.mean) <= rounding(reward, n)


@pytest.mark.parametrize(("reward", "oracle"), REWARDS)
def test_means_and_integrated_cdfs_agree_with_scipy(reward: Any, oracle: Any) -> None:
    """P(x) = E[(x - R)+] is the integral of the CDF up to x."""
    assert reward.mean == pytest.approx(oracle.mean(), rel=4 * EPS, abs=4 * EPS)
    for x in (*oracle.ppf([1e-3, 0.2, 0.5, 0.9, 0.999]), oracle.mean() - 9.0, oracle.mean() + 9.0):
        low = min(x, oracle.ppf(1e-300))
        points = [
            p for p in (oracle.ppf(0), *oracle.ppf([0.01, 0.5, 0.99]), oracle.ppf(1)) if low < p < x
        ]
        expected, error = integrate.quad(
            oracle.cdf, low, x, points=points or None, epsabs=1e-12, limit=200
        )
        assert abs(reward.integrated_cdf(x) - expected) <= error + 1e-10
    assert reward.integrated_cdf(np.zeros((2, 3))).shape == (2, 3)


def test_the_reflected_law_is_the_mirror_image() -> None:
    """E[(x - shift + E)+] = integral over u > shift - x of (u + x - shift) exp(-u/scale)/scale du."""
    density = stats.expon(scale=0.5).pdf
    for x in (-3.0, 0.0, 1.0, 1.85, 2.5):
        below = 1.85 - x
        expected, error = integrate.quad(
            lambda u, b=below: (u - b) * density(u), max(below, 0), np.inf
        )
        assert abs(REFLECTED.integrated_cdf(x) - expected) <= error + 1e-12
    assert REFLECTED.mean == 1.35
    np.testing.assert_allclose(
        REFLECTED.discretise(8).atoms, 1.85 - Exponential(0.5).discretise(8).atoms[::-1]
    )


@pytest.mark.parametrize(("reward", "oracle"), REWARDS)
@pytest.mark.parametrize("n", SIZES)
def test_integrated_cdf_is_exact_at_the_bin_edges(reward: Any, oracle: Any, n: int) -> None:
    """P_n(x) = P(x) at the quantiles of levels i/n: both integrate the same bins below."""
    edges = oracle.ppf(np.arange(1, n) / n)
    difference = reward.integrated_cdf(edges) - discretised_cdf_integral(reward, n, edges)
    assert np.abs(difference).max(initial=0) <= rounding(reward, n)


@pytest.mark.parametrize("reward", [*(reward for reward, _ in REWARDS), REFLECTED])
@pytest.mark.parametrize("n", SIZES)
def test_the_error_is_an_upper_bound_and_attained_at_an_atom(reward: Any, n: int) -> None:
    """sup |P - P_n| is attained at an atom, and no other point of a fine grid exceeds it."""
    error = reward.integrated_cdf_error(n)
    atoms = reward.discretise(n).atoms
    grid = np.linspace(
        atoms[0] - 3 * abs(reward.affine[1]), atoms[-1] + 3 * abs(reward.affine[1]), 4001
    )
    difference = reward.integrated_cdf(grid) - discretised_cdf_integral(reward, n, grid)
    assert difference.min() >= -rounding(
        reward, n
    )  # conditional means are smaller in the convex order
    assert difference.max() <= error + rounding(reward, n)
    at_atoms = reward.integrated_cdf(atoms) - discretised_cdf_integral(reward, n, atoms)
    assert abs(at_atoms.max() - error) <= rounding(reward, n)


def test_known_errors() -> None:
    """Uniform: (width / n)^2 / 8 / width by hand; one atom: P(mean), which is E|R - mean| / 2."""
    assert Uniform(0.0, 3.0).integrated_cdf_error(10) == pytest.approx(3 / 800, rel=1e-12)
    assert Normal(5.0, 2.0).integrated_cdf_error(1) == pytest.approx(
        2 / np.sqrt(2 * np.pi), rel=1e-14
    )
    assert Exponential(3.0).integrated_cdf_error(1) == pytest.approx(3 / np.e, rel=1e-14)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Normal(0.0, 0.0), r"std( is |.* got )0.0"),
        (lambda: Normal(float("nan"), 1.0), r"mean( is |.* got )nan"),
        (lambda: Uniform(1.0, 1.0), r"high( is |.* got )1.0"),
        (lambda: Uniform(-1e308, 1e308), r"high - low( is |.* got )inf"),
        (lambda: Exponential(-1.0), r"scale( is |.* got )-1.0"),
        (lambda: Exponential(shift=float("inf")), r"shift( is |.* got )inf"),
        (lambda: Normal(0.0, 1.0).discretise(0), r"n( is |.* got )0"),
    ],
)
def test_errors_name_the_argument(make: Callable[[], Any], message: str) -> None:
    """Every bad parameter is refused by name."""
    with pytest.raises(ValueError, match=message):
        make()


def test_samples_have_the_law() -> None:
    """Dvoretzky-Kiefer-Wolfowitz: sup |F_N - F| > sqrt(log(2/p) / 2N) with probability at most p =
    1e-9.
    """
    rewards = [reward for reward, _ in REWARDS]
    count = 20_000
    shape = (count, len(rewards))
    affine = np.array([reward.affine for reward in rewards], np.float32)
    kind = np.broadcast_to(np.array([reward.kind for reward in rewards], np.int8), shape)
    batch = ContinuousRewards(kind, *(np.broadcast_to(column, shape) for column in affine.T))
    draws = np.asarray(
        jax.jit(lambda continuous, key: continuous.sample(key))(batch, jax.random.key(0)),
        np.float64,
    )
    bound = np.sqrt(np.log(2 / 1e-9) / (2 * count))
    for column, (_, oracle) in enumerate(REWARDS):
        assert stats.kstest(draws[:, column], oracle.cdf).statistic <= bound
    reflected = ContinuousRewards(
        np.full(count, 3, np.int8), np.full(count, 1.85), np.full(count, -0.5)
    )
    mirrored = 1.85 - np.asarray(reflected.sample(jax.random.key(1)), np.float64)
    assert stats.kstest(mirrored, stats.expon(scale=0.5).cdf).statistic <= bound
