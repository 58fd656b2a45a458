"""Distances against independent oracles (SciPy, optimal matchings, direct sums) and their axioms."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse, stats
from scipy.sparse.csgraph import maximum_bipartite_matching

from edrl.core.metrics import (
    cramer,
    integrated_cdf,
    integrated_cdf_distance,
    kolmogorov_smirnov,
    statistic_error,
    supremum,
    wasserstein,
)
from edrl.core.particles import Particles

EPS = np.finfo(np.float64).eps
METRICS = {
    "W1": wasserstein,
    "W2": lambda mu, nu: wasserstein(mu, nu, p=2),
    "Winf": lambda mu, nu: wasserstein(mu, nu, p=math.inf),
    "cramer": cramer,
    "kolmogorov_smirnov": kolmogorov_smirnov,
    "integrated_cdf_distance": integrated_cdf_distance,
}
each_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())
seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=25, deadline=None)

BATCH, TWELFTHS, REACH = 16, 12, 8
# Sums of at most 14 terms of at most 2 * REACH, each the outcome of at most 16 roundings.
ATOL = 14 * 16 * 2 * REACH * EPS


def random_batch(rng: np.random.Generator, n: int) -> Particles:
    """Integer atoms in [-REACH, REACH] and probabilities in twelfths: ties, zeros and equal levels
    abound.
    """
    atoms = rng.integers(-REACH, REACH + 1, (BATCH, n))
    return Particles(atoms, rng.multinomial(TWELFTHS, np.full(n, 1 / n), BATCH) / TWELFTHS)


def twelve_samples(mu: Particles) -> np.ndarray:
    """The distributions as 12 equally likely samples [BATCH, 12]."""
    counts = np.rint(mu.probs * TWELFTHS).astype(int)
    return np.stack([np.repeat(a, c) for a, c in zip(mu.atoms, counts, strict=True)])


def pairs(seed: int, n: int = 7, m: int = 4) -> tuple[Particles, Particles]:
    rng = np.random.default_rng(seed)
    return random_batch(rng, n), random_batch(rng, m)


@given(seeds)
@few
def test_w1_and_cramer_are_scipys_wasserstein_and_energy_distances(seed: int) -> None:
    """Szekely and Rizzo: the energy distance is sqrt(2) times the Cramér distance."""
    mu, nu = pairs(seed)
    w1, ell2 = wasserstein(mu, nu), cramer(mu, nu)
    for i in range(BATCH):
        args = mu.atoms[i], nu.atoms[i], mu.probs[i], nu.probs[i]
        assert abs(w1[i] - stats.wasserstein_distance(*args)) <= ATOL
        assert abs(2 * ell2[i] ** 2 - stats.energy_distance(*args) ** 2) <= ATOL


@given(seeds, st.sampled_from([1.0, 1.5, 2.0]))
@few
def test_wp_is_the_cost_of_an_optimal_matching(seed: int, p: float) -> None:
    """Kantorovich for equally likely samples: an optimal transport is an optimal assignment
    (Birkhoff).
    """
    mu, nu = pairs(seed)
    cost = np.abs(twelve_samples(mu)[:, :, None] - twelve_samples(nu)[:, None, :]) ** p
    best = np.array([c[optimize.linear_sum_assignment(c)].mean() for c in cost])
    # W_p^p sums at most 11 stretches, whose lengths are off by at most 16 eps each.
    np.testing.assert_allclose(
        wasserstein(mu, nu, p) ** p, best, atol=11 * 16 * EPS * (2 * REACH) ** p
    )


@given(seeds)
@few
def test_winf_is_the_bottleneck_of_an_optimal_matching(seed: int) -> None:
    """W_inf is the least d for which all samples can be matched within d; exact, d being an
    integer.
    """
    mu, nu = pairs(seed)
    distances = np.abs(twelve_samples(mu)[:, :, None] - twelve_samples(nu)[:, None, :])

    def is_matched(distance: np.ndarray, reach: int) -> bool:
        return bool((maximum_bipartite_matching(sparse.csr_array(distance <= reach)) >= 0).all())

    bottleneck = [
        next(d for d in range(2 * REACH + 1) if is_matched(distance, d)) for distance in distances
    ]
    np.testing.assert_array_equal(wasserstein(mu, nu, p=math.inf), bottleneck)
    np.testing.assert_array_equal(wasserstein(mu, nu, p=jnp.inf), bottleneck)


@given(seeds)
@few
def test_kolmogorov_smirnov_is_scipys(seed: int) -> None:
    mu, nu = pairs(seed)
    expected = [
        stats.ks_2samp(x, y, method="asymp").statistic
        for x, y in zip(twelve_samples(mu), twelve_samples(nu), strict=True)
    ]
    np.testing.assert_allclose(kolmogorov_smirnov(mu, nu), expected, atol=16 * EPS)


@given(seeds)
@few
def test_integrated_cdf_is_the_expected_shortfall_below_x(seed: int) -> None:
    """P(x) = E[(x - Z)+]: all terms have one sign, so it is right to relative precision."""
    rng = np.random.default_rng(seed)
    mu = Particles(rng.normal(size=(BATCH, 6)), rng.dirichlet(np.ones(6), BATCH))
    x = np.concatenate([mu.atoms, rng.normal(scale=3, size=(BATCH, 5))], axis=-1)
    direct = (mu.probs[:, None] * np.maximum(x[:, :, None] - mu.atoms[:, None], 0)).sum(-1)
    # 17 points: two prefix sums of depth at most 2 * log2(17) < 10, one product, and gaps of up to
    # 5 in size.
    gap_rounding = 17 * 5 * EPS
    np.testing.assert_allclose(integrated_cdf(mu, x), direct, rtol=24 * EPS, atol=gap_rounding)
    assert (integrated_cdf(mu, mu.atoms.min(-1, keepdims=True)) == 0).all()
    right = mu.atoms.max(-1, keepdims=True) + 1
    np.testing.assert_allclose(
        integrated_cdf(mu, right)[:, 0], right[:, 0] - mu.mean(), atol=gap_rounding
    )


def test_integrated_cdf_broadcasts_points_and_distributions() -> None:
    mu = Particles(np.array([[0.0, 1.0], [1.0, 2.0]]))
    np.testing.assert_array_equal(integrated_cdf(mu, [0.5, 1.5]), [[0.25, 1.0], [0.0, 0.25]])
    np.testing.assert_array_equal(integrated_cdf(mu[0], [[0.5], [1.5]]), [[0.25], [1.0]])


@given(seeds)
@few
def test_integrated_cdf_distance_is_the_supremum_over_all_x(seed: int) -> None:
    """Attained at an atom: no other point gives more."""
    mu, nu = pairs(seed)
    atoms = np.concatenate([mu.atoms, nu.atoms], axis=-1)
    points = np.concatenate(
        [atoms, np.random.default_rng(seed).uniform(-10, 10, (BATCH, 50))], axis=-1
    )

    def direct(kappa: Particles, x: np.ndarray) -> np.ndarray:
        return (kappa.probs[:, None] * np.maximum(x[:, :, None] - kappa.atoms[:, None], 0)).sum(-1)

    distance = integrated_cdf_distance(mu, nu)
    np.testing.assert_allclose(
        distance, np.abs(direct(mu, atoms) - direct(nu, atoms)).max(-1), atol=ATOL
    )
    assert (np.abs(direct(mu, points) - direct(nu, points)).max(-1) <= distance + ATOL).all()


@each_metric
@given(seed=seeds)
@few
def test_metric_axioms(metric, seed: int) -> None:
    """d(mu, mu) = 0 however mu is written, d > 0 otherwise, symmetry, and the triangle inequality."""
    rng = np.random.default_rng(seed)
    mu, nu, kappa = (random_batch(rng, 7) for _ in range(3))
    four = random_batch(rng, 4)
    padded = Particles(np.pad(four.atoms, [(0, 0), (0, 3)]), np.pad(four.probs, [(0, 0), (0, 3)]))
    halved = np.where(np.arange(4) > 0, four.probs / 2, four.probs)
    split = Particles(
        np.hstack([four.atoms, four.atoms[:, 1:]]), np.hstack([halved, halved[:, 1:]])
    )
    assert (metric(padded, split) <= ATOL).all()
    differ = (np.sort(twelve_samples(mu)) != np.sort(twelve_samples(nu))).any(-1)
    # A twelfth of the mass is at least 1 away from where it should be: the least of the metrics
    # sees 1/12.
    assert (metric(mu, nu)[differ] >= 1 / TWELFTHS - ATOL).all()
    np.testing.assert_allclose(metric(mu, nu), metric(nu, mu), atol=ATOL)
    assert (metric(mu, kappa) <= metric(mu, nu) + metric(nu, kappa) + ATOL).all()


@given(seeds)
@few
def test_wp_grows_with_p_and_tends_to_winf(seed: int) -> None:
    """Jensen; and since a twelfth of the mass travels W_inf, W_p >= W_inf / 12^(1/p)."""
    mu, nu = pairs(seed)
    distances = [wasserstein(mu, nu, p) for p in (1, 1.5, 2, 300, math.inf)]
    for smaller, larger in itertools.pairwise(distances):
        assert (smaller <= larger + ATOL).all()
    assert (distances[-2] >= distances[-1] / TWELFTHS ** (1 / 300) * (1 - 300 * EPS)).all()


@given(seeds, st.floats(-3, 3).filter(lambda g: abs(g) > 0.01), st.floats(-5, 5))
@few
def test_scaling(seed: int, gamma: float, reward: float) -> None:
    """Under r + gamma Z the distances scale: |gamma| for W_p, its root for Cramér, not at all for
    KS.
    """
    mu, nu = pairs(seed)
    pushed = mu.push(reward, gamma), nu.push(reward, gamma)
    # Atoms up to 5 + 3 * 8 round by 29 eps / 2, which also parts ties: distances move by twice
    # that.
    moved = 29 * EPS
    for p in (1, 2, math.inf):
        slack = moved + 16 * 16 * 6 * REACH * EPS
        np.testing.assert_allclose(
            wasserstein(*pushed, p), abs(gamma) * wasserstein(mu, nu, p), atol=slack
        )
    np.testing.assert_allclose(
        cramer(*pushed) ** 2,
        abs(gamma) * cramer(mu, nu) ** 2,
        atol=16 * (moved + 16 * 6 * REACH * EPS),
    )
    mirrored = (
        gamma < 0
    )  # P_{-Z} differs from the mirror image of P_Z by a line: only gamma > 0 scales
    if not mirrored:
        slack = 16 * (moved + 16 * 6 * REACH * EPS)
        expected = gamma * integrated_cdf_distance(mu, nu)
        np.testing.assert_allclose(integrated_cdf_distance(*pushed), expected, atol=slack)
    exact = [Particles(4.0 * kappa.atoms + 3, kappa.probs) for kappa in (mu, nu)]
    np.testing.assert_array_equal(kolmogorov_smirnov(*exact), kolmogorov_smirnov(mu, nu))


@each_metric
def test_padding_has_no_influence(metric) -> None:
    """Atoms of probability zero, near or astronomically far, change nothing but the order of
    summation.
    """
    rng = np.random.default_rng(0)
    four, nu = random_batch(rng, 4), random_batch(rng, 4)
    probs = np.pad(four.probs, [(0, 0), (1, 2)])
    mode = np.take_along_axis(four.atoms, four.probs.argmax(-1, keepdims=True), -1)
    near = Particles(np.hstack([mode, four.atoms, mode, mode]), probs)
    junk = np.full((BATCH, 1), 1e30), rng.normal(size=(BATCH, 1)), np.full((BATCH, 1), -1e30)
    far = Particles(np.hstack([junk[0], four.atoms, *junk[1:]]), probs)
    np.testing.assert_allclose(metric(far, nu), metric(near, nu), atol=ATOL)
    x = np.array([-9.0, 0.0, 9.0])
    np.testing.assert_allclose(integrated_cdf(far, x), integrated_cdf(near, x), atol=ATOL)


@each_metric
def test_a_large_common_offset_costs_no_digits(metric) -> None:
    """Shifting dyadic atoms by 2^40 is exact, and so the distances agree to the bit."""
    rng = np.random.default_rng(1)
    mu, nu = (
        Particles(rng.integers(-4000, 4000, (BATCH, n)) / 1024, rng.dirichlet(np.ones(n), BATCH))
        for n in (7, 4)
    )
    far = [Particles(kappa.atoms + 2.0**40, kappa.probs) for kappa in (mu, nu)]
    np.testing.assert_array_equal(metric(*far), metric(mu, nu))
    x = mu.atoms + 0.5
    np.testing.assert_array_equal(integrated_cdf(far[0], x + 2.0**40), integrated_cdf(mu, x))


def test_levels_that_only_rounding_parts_are_one_level() -> None:
    """0.1 + 0.2 > 0.3 in floating point; the distributions are equal all the same, for every p."""
    mu, nu = Particles([0.0, 0.0, 10.0], [0.1, 0.2, 0.7]), Particles([0.0, 10.0], [0.3, 0.7])
    for p in (2.0, 10.0, math.inf):
        assert wasserstein(mu, nu, p) == 0
    single = Particles(jnp.array([0.0, 10.0]), jnp.array([0.3, 0.7]))
    assert wasserstein(mu, single, math.inf) == 0  # 0.3 in float32 is 0.3 too
    light = Particles(
        nu.atoms, nu.probs * (1 - 1e-9)
    )  # a total within the tolerance is taken for 1
    assert wasserstein(nu, light, math.inf) == 0


def test_high_powers_neither_overflow_nor_vanish() -> None:
    """W_p of two Diracs is their distance for every p; 1e200^400 is far beyond the largest double."""
    for distance in (1e200, 1e-200):
        got = wasserstein(Particles([0.0]), Particles([distance]), p=400.0)
        np.testing.assert_allclose(got, distance, rtol=4 * EPS)


@pytest.mark.parametrize("metric", [METRICS["W1"], METRICS["W2"]], ids=["by CDFs", "by quantiles"])
def test_batches_broadcast(metric) -> None:
    """[4, 1] against [4] gives [4, 4], entry by entry the distances of the pairs."""
    mu, nu = pairs(2)
    mu, nu = mu[:4], nu[:4]
    table = metric(mu[:, None], nu)
    np.testing.assert_array_equal(
        table, metric(mu[np.repeat(np.arange(4), 4)], nu[np.arange(16) % 4]).reshape(4, 4)
    )
    assert supremum(metric, mu[:, None], nu) == table.max()


def test_supremum_passes_options_on() -> None:
    mu, nu = pairs(3)
    single = supremum(
        wasserstein, Particles(jnp.float32([[0.0], [2.0]])), Particles(jnp.float32([1.0]))
    )
    assert isinstance(single, jax.Array)
    assert (single, single.dtype) == (1.0, jnp.float32)
    assert supremum(wasserstein, mu, nu, p=math.inf) == wasserstein(mu, nu, math.inf).max()
    # Appendix A.2: the backup contracts the supremum-Cramér distance by sqrt(gamma).
    contracted = supremum(cramer, mu.push(1.0, 0.25), nu.push(1.0, 0.25))
    np.testing.assert_allclose(contracted, supremum(cramer, mu, nu) / 2, rtol=4 * EPS)


@each_metric
def test_precision_jit_and_vmap(metric) -> None:
    """float64 NumPy in, float64 NumPy out; float32 JAX in, float32 out, also when vmapped and
    jitted.
    """
    mu, nu = pairs(4)
    exact = metric(mu, nu)
    assert exact.dtype == np.float64
    mu32, nu32 = (Particles(jnp.float32(k.atoms), jnp.float32(k.probs)) for k in (mu, nu))
    single = jax.jit(jax.vmap(metric))(mu32, nu32)
    assert single.dtype == jax.eval_shape(metric, mu32, nu32).dtype == jnp.float32
    # Different distributions are at least 1/12 apart, where roots amplify errors at most 12-fold.
    atol = 12 * ATOL / EPS * float(jnp.finfo(jnp.float32).eps)
    np.testing.assert_allclose(single, exact, atol=atol)
    with jax.enable_x64(True):
        assert jax.eval_shape(metric, mu32, nu32).dtype == jnp.float32
        assert jax.eval_shape(metric, mu, nu).dtype == jnp.float64


def test_statistic_error_is_the_mean_absolute_difference() -> None:
    """Definition 4.5, per state-action."""
    values, true_values = np.array([[1.0, 2.0], [0.0, 0.0]]), np.array([[0.0, 4.0], [0.0, -1.0]])
    np.testing.assert_array_equal(statistic_error(values, true_values), [1.5, 0.5])
    np.testing.assert_array_equal(statistic_error(values[:, None], true_values).shape, (2, 2))
    assert statistic_error(jnp.ones(3, jnp.float32), jnp.zeros(3, jnp.float32)).dtype == jnp.float32
    with pytest.raises(ValueError, match=r"values.shape( is |.* got )\(1,\)"):
        statistic_error([1.0], [1.0, 2.0])


@pytest.mark.parametrize("p", [0.5, 0.0, -1.0, -math.inf, math.nan])
def test_p_below_one_is_refused(p: float) -> None:
    with pytest.raises(ValueError, match="p must be a number of at least 1"):
        wasserstein(Particles([0.0]), Particles([1.0]), p)


def test_shapes_that_do_not_fit_are_refused() -> None:
    mu, nu = Particles(np.zeros((2, 3))), Particles(np.zeros((4, 3)))
    for metric in METRICS.values():
        with pytest.raises(ValueError, match=r"batch shape of nu( is |.* got )\(4,\)"):
            metric(mu, nu)
    with pytest.raises(ValueError, match=r"x.shape( is |.* got )\(\)"):
        integrated_cdf(mu, 0.5)
    with pytest.raises(ValueError, match=r"batch shape of x( is |.* got )\(4,\)"):
        integrated_cdf(mu, np.zeros((4, 1)))
