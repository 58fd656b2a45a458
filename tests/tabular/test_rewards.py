"""Continuous laws against SciPy: exact means, exact integrated CDFs at bin edges, and the error formula."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from scipy import integrate, stats

from edrl.tabular.rewards import ContinuousLaws, Exponential, Law, Normal, Uniform

EPS = np.finfo(np.float64).eps

LAWS: list[tuple[Any, Any]] = [
    (Normal(0.0, 1.0), stats.norm()),
    (Normal(-3.0, 0.25), stats.norm(-3.0, 0.25)),
    (Uniform(-1.0, 1.0), stats.uniform(-1.0, 2.0)),
    (Uniform(2.0, 2.5), stats.uniform(2.0, 0.5)),
    (Exponential(), stats.expon()),
    (Exponential(2.0, shift=-1.0), stats.expon(-1.0, 2.0)),
]
REFLECTED = Exponential(0.5, shift=1.85, reflected=True)  # SciPy has none: 1.85 - E with E ~ expon(scale=0.5)
SIZES = (1, 2, 3, 64, 501)


def rounding(law: Any, n: int) -> float:
    """Standard atoms are n times a difference of rounded numbers below 1, within 8 of 0 for n <= 501; sums
    of n of them round n times. Each of these is a few roundings."""
    loc, scale = law.affine
    return 8 * n * EPS * (abs(loc) + 8 * abs(scale))


def discretised_cdf_integral(law: Any, n: int, x: np.ndarray) -> np.ndarray:
    """P_n(x) = E[(x - R_n)+] by its definition."""
    mu = law.discretise(n)
    return np.sum(mu.probs * np.maximum(x[:, None] - mu.atoms, 0), axis=-1)


@pytest.mark.parametrize(("law", "oracle"), LAWS)
@pytest.mark.parametrize("n", SIZES)
def test_atoms_are_conditional_means_of_equally_likely_bins(law: Law, oracle: Any, n: int) -> None:
    """Atom i is E[R | bin i] = n * integral of the quantile function over (i/n, (i+1)/n)."""
    mu = law.discretise(n)
    assert mu.atoms.dtype == np.float64
    np.testing.assert_allclose(mu.probs, 1 / n, rtol=4 * EPS)
    for i in sorted({0, n // 2, n - 1}):
        expected, error = integrate.quad(oracle.ppf, i / n, (i + 1) / n, epsabs=1e-13, epsrel=1e-12)
        assert abs(mu.atoms[i] - n * expected) <= n * max(error, 1e-12) + rounding(law, n)


@pytest.mark.parametrize("law", [*(law for law, _ in LAWS), REFLECTED])
@pytest.mark.parametrize("n", SIZES)
def test_the_discretised_mean_is_exact(law: Any, n: int) -> None:
    """Gathering bins at their conditional means keeps the mean."""
    mu = law.discretise(n)
    assert abs(np.sum(mu.probs * mu.atoms) - law.mean) <= rounding(law, n)


@pytest.mark.parametrize(("law", "oracle"), LAWS)
def test_means_and_integrated_cdfs_agree_with_scipy(law: Any, oracle: Any) -> None:
    """P(x) = E[(x - R)+] is the integral of the CDF up to x."""
    assert law.mean == pytest.approx(oracle.mean(), rel=4 * EPS, abs=4 * EPS)
    for x in (*oracle.ppf([1e-3, 0.2, 0.5, 0.9, 0.999]), oracle.mean() - 9.0, oracle.mean() + 9.0):
        low = min(x, oracle.ppf(1e-300))
        points = [p for p in (oracle.ppf(0), *oracle.ppf([0.01, 0.5, 0.99]), oracle.ppf(1)) if low < p < x]
        expected, error = integrate.quad(oracle.cdf, low, x, points=points or None, epsabs=1e-12, limit=200)
        assert abs(law.integrated_cdf(x) - expected) <= error + 1e-10
    assert law.integrated_cdf(np.zeros((2, 3))).shape == (2, 3)


def test_the_reflected_law_is_the_mirror_image() -> None:
    """E[(x - shift + E)+] = integral over u > shift - x of (u + x - shift) exp(-u/scale)/scale du."""
    density = stats.expon(scale=0.5).pdf
    for x in (-3.0, 0.0, 1.0, 1.85, 2.5):
        below = 1.85 - x
        expected, error = integrate.quad(lambda u, b=below: (u - b) * density(u), max(below, 0), np.inf)
        assert abs(REFLECTED.integrated_cdf(x) - expected) <= error + 1e-12
    assert REFLECTED.mean == 1.35
    np.testing.assert_allclose(REFLECTED.discretise(8).atoms, 1.85 - Exponential(0.5).discretise(8).atoms[::-1])


@pytest.mark.parametrize(("law", "oracle"), LAWS)
@pytest.mark.parametrize("n", SIZES)
def test_integrated_cdf_is_exact_at_the_bin_edges(law: Any, oracle: Any, n: int) -> None:
    """P_n(x) = P(x) at the quantiles of levels i/n: both integrate the same bins below."""
    edges = oracle.ppf(np.arange(1, n) / n)
    difference = law.integrated_cdf(edges) - discretised_cdf_integral(law, n, edges)
    assert np.abs(difference).max(initial=0) <= rounding(law, n)


@pytest.mark.parametrize("law", [*(law for law, _ in LAWS), REFLECTED])
@pytest.mark.parametrize("n", SIZES)
def test_the_error_is_an_upper_bound_and_attained_at_an_atom(law: Any, n: int) -> None:
    """sup |P - P_n| is attained at an atom, and no other point of a fine grid exceeds it."""
    error = law.integrated_cdf_error(n)
    atoms = law.discretise(n).atoms
    grid = np.linspace(atoms[0] - 3 * abs(law.affine[1]), atoms[-1] + 3 * abs(law.affine[1]), 4001)
    difference = law.integrated_cdf(grid) - discretised_cdf_integral(law, n, grid)
    assert difference.min() >= -rounding(law, n)  # conditional means are smaller in the convex order
    assert difference.max() <= error + rounding(law, n)
    at_atoms = law.integrated_cdf(atoms) - discretised_cdf_integral(law, n, atoms)
    assert abs(at_atoms.max() - error) <= rounding(law, n)


def test_known_errors() -> None:
    """Uniform: (width / n)^2 / 8 / width by hand; one atom: P(mean), which is E|R - mean| / 2."""
    assert Uniform(0.0, 3.0).integrated_cdf_error(10) == pytest.approx(3 / 800, rel=1e-12)
    assert Normal(5.0, 2.0).integrated_cdf_error(1) == pytest.approx(2 / np.sqrt(2 * np.pi), rel=1e-14)
    assert Exponential(3.0).integrated_cdf_error(1) == pytest.approx(3 / np.e, rel=1e-14)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Normal(0.0, 0.0), "std = 0.0"),
        (lambda: Normal(float("nan"), 1.0), "mean = nan"),
        (lambda: Uniform(1.0, 1.0), "high = 1.0"),
        (lambda: Uniform(-1e308, 1e308), "high - low = inf"),
        (lambda: Exponential(-1.0), "scale = -1.0"),
        (lambda: Exponential(shift=float("inf")), "shift = inf"),
        (lambda: Normal(0.0, 1.0).discretise(0), "n = 0"),
    ],
)
def test_errors_name_the_argument(make: Callable[[], Any], message: str) -> None:
    """Every bad parameter is refused by name."""
    with pytest.raises(ValueError, match=message):
        make()


def test_samples_have_the_law() -> None:
    """Dvoretzky-Kiefer-Wolfowitz: sup |F_N - F| > sqrt(log(2/p) / 2N) with probability at most p = 1e-9."""
    laws = [law for law, _ in LAWS]
    count = 20_000
    shape = (count, len(laws))
    affine = np.array([law.affine for law in laws], np.float32)
    kind = np.broadcast_to(np.array([law.kind for law in laws], np.int8), shape)
    batch = ContinuousLaws(kind, *(np.broadcast_to(column, shape) for column in affine.T))
    draws = np.asarray(jax.jit(lambda laws, key: laws.sample(key))(batch, jax.random.key(0)), np.float64)
    bound = np.sqrt(np.log(2 / 1e-9) / (2 * count))
    for column, (_, oracle) in enumerate(LAWS):
        assert stats.kstest(draws[:, column], oracle.cdf).statistic <= bound
    reflected = ContinuousLaws(np.full(count, 3, np.int8), np.full(count, 1.85), np.full(count, -0.5))
    mirrored = 1.85 - np.asarray(reflected.sample(jax.random.key(1)), np.float64)
    assert stats.kstest(mirrored, stats.expon(scale=0.5).cdf).statistic <= bound
