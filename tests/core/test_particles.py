"""`Particles`: operations against exact arithmetic or SciPy, and the promises about padding and
dtypes.
"""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from edrl.core.particles import Particles, level_rounding

EPS = np.finfo(np.float64).eps
BATCH, N, PARTS, REACH = 16, 7, 12, 8
ATOL = 4 * N * 2 * REACH * EPS  # sums of N terms of at most 2 * REACH, a few roundings each
seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=30, deadline=None)


def integer_batch(seed: int, n: int = N) -> tuple[Particles, np.ndarray, np.ndarray]:
    """Integer atoms (ties abound) and probabilities in twelfths (zeros do): particles, atoms and
    counts.
    """
    rng = np.random.default_rng(seed)
    atoms = rng.integers(-REACH, REACH + 1, (BATCH, n))
    counts = rng.multinomial(PARTS, np.full(n, 1 / n), BATCH)
    return Particles(atoms, counts / PARTS), atoms, counts


def distribution(mu: Particles) -> dict[float, float]:
    """The distribution of a single `mu` as a dictionary, atoms of probability zero left out."""
    masses: dict[float, float] = {}
    for atom, prob in zip(
        np.asarray(mu.atoms).tolist(), np.asarray(mu.probs).tolist(), strict=True
    ):
        if prob > 0:
            masses[atom] = masses.get(atom, 0.0) + prob
    return masses


def assert_same_law(got: dict[float, float], expected: dict[float, Fraction]) -> None:
    expected = {atom: prob for atom, prob in expected.items() if prob > 0}
    assert got.keys() == expected.keys()
    assert all(abs(got[atom] - float(expected[atom])) <= 2 * PARTS * EPS for atom in got)


# --- Operations on distributions ---


@given(seeds)
@few
def test_push_add_and_mixture_are_the_laws_they_claim_to_be(seed: int) -> None:
    """Against dictionaries of fractions: Equation (3), a convolution, a mixture; integer atoms stay
    exact.
    """
    mu, atoms, counts = integer_batch(seed)
    nu, other_atoms, other_counts = integer_batch(seed + 1, 3)
    weights = np.random.default_rng(seed).multinomial(PARTS, np.full(BATCH, 1 / BATCH))
    pushed, added, mixed = mu.push(3.0, 2.0), mu.add(nu), mu.mixture(weights / PARTS)
    mixture: dict[float, Fraction] = {}
    for i in range(BATCH):
        exact_push: dict[float, Fraction] = {}
        exact_sum: dict[float, Fraction] = {}
        for z, c in zip(atoms[i].tolist(), counts[i].tolist(), strict=True):
            exact_push[3 + 2 * z] = exact_push.get(3 + 2 * z, Fraction()) + Fraction(c, PARTS)
            mixture[z] = mixture.get(z, Fraction()) + Fraction(c * int(weights[i]), PARTS**2)
            for y, d in zip(other_atoms[i].tolist(), other_counts[i].tolist(), strict=True):
                exact_sum[z + y] = exact_sum.get(z + y, Fraction()) + Fraction(c * d, PARTS**2)
        assert_same_law(distribution(pushed[i]), exact_push)
        assert_same_law(distribution(added[i]), exact_sum)
    assert_same_law(distribution(mixed), mixture)
    assert pushed.size == N
    assert added.size == 3 * N
    assert mixed.atoms.shape == (BATCH * N,)


def test_operations_broadcast_their_batches() -> None:
    """[3] particles with rewards [5, 1] give [5, 3]; so do sums; weights may have more batch axes
    than mu.
    """
    mu = Particles(np.arange(6.0).reshape(3, 2))
    pushed = mu.push(np.arange(5.0)[:, None], 0.5)
    assert pushed.shape == (5, 3)
    np.testing.assert_array_equal(pushed.atoms[4, 1], 4 + 0.5 * mu.atoms[1])
    assert mu.push(1.0, np.ones((5, 1))).shape == (5, 3)
    assert Particles(np.zeros((5, 1, 4))).add(mu).atoms.shape == (5, 3, 8)
    assert mu.mixture(np.full((5, 3), 1 / 3)).atoms.shape == (5, 6)
    empty = Particles(np.zeros((0, 3, 2)))
    assert empty.add(empty).atoms.shape == (0, 3, 4)
    assert empty.mixture(np.zeros((0, 3))).atoms.shape == (0, 6)


@given(seeds)
@few
def test_mean_variance_and_cdf_are_exact(seed: int) -> None:
    mu, atoms, counts = integer_batch(seed)
    means = [Fraction(int((a * c).sum()), PARTS) for a, c in zip(atoms, counts, strict=True)]
    squares = [Fraction(int((a * a * c).sum()), PARTS) for a, c in zip(atoms, counts, strict=True)]
    variances = [float(square - mean**2) for square, mean in zip(squares, means, strict=True)]
    np.testing.assert_allclose(mu.mean(), [float(mean) for mean in means], atol=ATOL)
    np.testing.assert_allclose(mu.variance(), variances, atol=2 * REACH * ATOL)
    np.testing.assert_allclose(mu.std() ** 2, mu.variance(), rtol=4 * EPS)
    x = np.arange(-REACH - 1, REACH + 2) / 1.0
    exact = (counts[:, None] * (atoms[:, None] <= x[:, None])).sum(-1) / PARTS
    np.testing.assert_allclose(mu.cdf(x), exact, atol=N * EPS)
    np.testing.assert_allclose(
        mu.cdf(x - 0.5)[:, 1:], exact[:, :-1], atol=N * EPS
    )  # a step function


def test_moments_of_far_away_particles_keep_their_digits() -> None:
    """Dyadic atoms moved by 2^40: so does the mean, up to its own rounding, and the variance stays."""
    rng = np.random.default_rng(0)
    mu = Particles(rng.integers(-4096, 4096, (BATCH, N)) / 1024, rng.dirichlet(np.ones(N), BATCH))
    far = Particles(mu.atoms + 2.0**40, mu.probs)
    np.testing.assert_allclose(far.mean() - 2.0**40, mu.mean(), atol=2.0**40 * EPS)
    np.testing.assert_array_equal(far.variance(), mu.variance())


# --- Quantiles ---


@given(seeds)
@few
def test_quantile_is_the_galois_adjoint_of_the_cdf(seed: int) -> None:
    """F(q) >= tau and F(x) < tau for all x < q, at levels 0/24 ...

    24/24: every other one is hit.
    """
    mu, atoms, counts = integer_batch(seed)
    halves = np.arange(2 * PARTS + 1)
    quantiles = mu.quantile(halves / (2 * PARTS))
    reached = 2 * (counts[:, None] * (atoms[:, None] <= quantiles[..., None])).sum(-1)
    before = 2 * (counts[:, None] * (atoms[:, None] < quantiles[..., None])).sum(-1)
    assert (reached >= halves).all()
    assert (
        before < np.maximum(halves, 1)
    ).all()  # at tau = 0 the smallest atom that is not padding


@pytest.mark.parametrize(
    ("atoms", "probs", "expected"),
    [
        ([-9.0, 1.0, 2.0], [0.0, 0.5, 0.5], [1.0, 1.0, 2.0]),  # padding on the left
        ([9.0, 1.0, 2.0], [0.0, 0.5, 0.5], [1.0, 1.0, 2.0]),  # on the right
        ([1.5, 1.0, 2.0], [0.0, 0.5, 0.5], [1.0, 1.0, 2.0]),  # in between
        ([1.0, 1.0, 2.0], [0.0, 0.5, 0.5], [1.0, 1.0, 2.0]),  # on an atom
        ([-9.0, 9.0, 0.0], [1e-300, 1e-300, 1.0], [-9.0, 0.0, 0.0]),  # light, but not padding
    ],
)
def test_quantile_with_padding(
    atoms: list[float], probs: list[float], expected: list[float]
) -> None:
    np.testing.assert_array_equal(Particles(atoms, probs).quantile([0.0, 0.5, 1.0]), expected)


def test_levels_are_hit_exactly_among_many_atoms() -> None:
    """4096 equal weights in float32: level k / 4096 is the k-th atom's, rounding notwithstanding."""
    n = 4096
    mu = Particles(jnp.arange(n, dtype=jnp.float32))
    k = np.arange(1, n + 1, 5)
    np.testing.assert_array_equal(mu.quantile(k / n), k - 1)
    thirds = Particles(np.arange(3.0), [0.1, 0.2, 0.7])
    assert thirds.quantile([0.3]) == 1.0  # although 0.1 + 0.2 > 0.3 ...
    assert (
        Particles(np.arange(3.0), [0.7, 0.1, 0.2]).quantile([0.8]) == 1.0
    )  # ... and 0.7 + 0.1 < 0.8


def test_level_rounding_covers_prefix_sums() -> None:
    """The derived bound holds where it was measured, and it grows like log n, not like n."""
    for n in (3, 1000, 30_000):
        probs = np.random.default_rng(n).dirichlet(np.full(n, 0.1)).astype(np.float32)
        levels = jnp.cumsum(probs)
        assert np.abs(
            np.asarray(levels) - np.cumsum(probs.astype(np.float64))
        ).max() <= level_rounding(levels)
    assert level_rounding(jnp.zeros(1024, jnp.float32)) == 22 * float(jnp.finfo(jnp.float32).eps)


# --- Samples ---


def test_sample_frequencies() -> None:
    """Hoeffding: but for one key in 1e9, all 10 frequencies of 20,000 draws are within t of their
    limits.
    """
    draws = 20_000
    t = math.sqrt(math.log(2 * 10 / 1e-9) / (2 * draws))
    probs = np.array([[0.5, 0.0, 0.3, 0.2, 0.0], [0.0, 0.01, 0.0, 0.0, 0.99]])
    mu = Particles(np.arange(10.0).reshape(2, 5), probs)
    samples = mu.sample(jax.random.key(0), (100, draws // 100))
    assert samples.shape == (2, 100, draws // 100)
    assert samples.dtype == np.float64
    for i in range(2):
        frequencies = (samples[i].reshape(-1, 1) == mu.atoms[i]).mean(0)
        assert (np.abs(frequencies - probs[i]) <= t).all()
        assert (frequencies[probs[i] == 0] == 0).all()  # padding is never drawn
        assert np.isin(samples[i], mu.atoms[i]).all()
    correlation = np.corrcoef((samples[0] == 0).ravel(), (samples[1] == 9).ravel())[0, 1]
    assert abs(correlation) <= 6 / math.sqrt(draws)  # rows are independent: six standard deviations


def test_padding_is_not_drawn_where_prefix_sums_round() -> None:
    """In float32 a prefix sum can move on an added zero; what is drawn there must still be an atom."""
    probs = np.zeros(1000, np.float32)
    probs[::7] = np.random.default_rng(0).random(143)
    mu = Particles(
        jnp.where(probs > 0, 1.0, jnp.inf).clip(max=1e30), jnp.asarray(probs / probs.sum())
    )
    levels = np.asarray(jnp.cumsum(mu.probs))
    assert (np.diff(levels)[probs[1:] == 0] != 0).any()  # the trap is there
    np.testing.assert_array_equal(mu.settled().atoms, 1.0)


def test_two_keys_differ_and_one_key_repeats() -> None:
    mu = Particles(np.arange(100.0))
    first, second = jax.random.split(jax.random.key(1))
    np.testing.assert_array_equal(mu.sample(first, (50,)), mu.sample(first, (50,)))
    assert (mu.sample(first, (50,)) != mu.sample(second, (50,))).any()
    assert mu.sample(first).shape == ()
    assert mu.sample(first, (0,)).shape == (0,)


# --- Sorting, merging, compressing ---


@given(seeds)
@few
def test_sorted_and_settled_are_the_same_law(seed: int) -> None:
    mu, _, _ = integer_batch(seed)
    ordered, settled = mu.sorted(), mu.settled()
    assert (np.diff(ordered.atoms) >= 0).all()
    for i in range(BATCH):
        assert distribution(settled[i]) == distribution(mu[i])
        assert distribution(ordered[i]).keys() == distribution(mu[i]).keys()
        assert (
            set(settled.atoms[i].tolist()) == distribution(mu[i]).keys()
        )  # padding lies on real atoms
    np.testing.assert_array_equal(mu.settled().probs, mu.probs)


@given(seeds)
@few
def test_merged_gathers_ties_and_nothing_else(seed: int) -> None:
    """Each distinct atom once, to the bit, with all its mass; sorted; merging twice is merging
    once.
    """
    mu, atoms, counts = integer_batch(seed)
    merged = mu.merged()
    assert (np.diff(merged.atoms) >= 0).all()
    for i in range(BATCH):
        distinct = np.unique(atoms[i][counts[i] > 0])
        np.testing.assert_array_equal(merged.atoms[i, : len(distinct)], distinct)
        masses = [(counts[i] * (atoms[i] == z)).sum() / PARTS for z in distinct]
        np.testing.assert_allclose(merged.probs[i, : len(distinct)], masses, atol=N * EPS)
        assert (merged.probs[i, len(distinct) :] == 0).all()
    again = merged.merged()
    np.testing.assert_array_equal(again.atoms, merged.atoms)
    np.testing.assert_array_equal(again.probs, merged.probs)


def test_merged_within_a_tolerance() -> None:
    """Runs are chains: 0, 0.6, 1.2 hang together at tolerance 0.7; their barycentre keeps the mean."""
    mu = Particles([1.2, 0.0, 5.0, 0.6], [0.25, 0.25, 0.25, 0.25])
    merged = mu.merged(tolerance=0.7)
    np.testing.assert_allclose(merged.atoms, [0.6, 5.0, 5.0, 5.0], atol=4 * EPS)
    np.testing.assert_array_equal(merged.probs, [0.75, 0.25, 0.0, 0.0])
    np.testing.assert_allclose(merged.mean(), mu.mean(), atol=ATOL)
    np.testing.assert_array_equal(mu.merged(tolerance=0.5).atoms, mu.sorted().atoms)


def test_merged_far_away_in_float32() -> None:
    """Beyond 2^24, where x - 1 == x in float32, runs are told apart all the same."""
    merged = Particles(jnp.array([3e7, 2e7, 2e7, 4e7])).merged()
    np.testing.assert_array_equal(merged.atoms, np.float32([2e7, 3e7, 4e7, 4e7]))
    np.testing.assert_array_equal(merged.probs, [0.5, 0.25, 0.25, 0.0])


def adversarial_batch(seed: int, size: int) -> Particles:
    """Distributions of many kinds: normal, heavy-tailed, geometric in place and in mass, lumpy, far
    away.
    """
    rng = np.random.default_rng(seed)
    k = np.arange(size)
    atoms = np.stack([
        rng.normal(size=size), rng.standard_cauchy(size), 2.0**-k, 2.0**k, rng.integers(0, 3, size),
        rng.random(size), 1e6 + rng.random(size), np.where(k == 0, 1e3, rng.random(size)),
    ])  # fmt: skip
    probs = np.stack(
        [rng.dirichlet(np.full(size, a)) for a in (1, 0.05)] + [2.0**-k, np.ones(size)]
    )
    atoms, probs = np.repeat(atoms, 4, axis=0), np.tile(probs, (8, 1))
    return Particles(atoms, probs / probs.sum(-1, keepdims=True))


@pytest.mark.parametrize("n", [1, 3, 16])
@given(seed=seeds)
@settings(max_examples=10, deadline=None)
def test_compressed_keeps_mean_and_mass_and_costs_little(n: int, seed: int) -> None:
    """n atoms, sorted, the same mean, and W1 moves by at most (max - min) / n."""
    mu = adversarial_batch(seed, 40)
    small = mu.compressed(n)
    width = np.ptp(mu.atoms, axis=-1)
    rounding = 40 * 8 * EPS * np.abs(mu.atoms).max(-1)
    assert small.atoms.shape == (32, n)
    np.testing.assert_allclose(small.probs.sum(-1), 1, rtol=80 * EPS)
    assert (np.diff(small.atoms) >= -rounding[:, None]).all()
    assert (np.abs(small.mean() - mu.mean()) <= rounding).all()
    for i in range(32):
        cost = stats.wasserstein_distance(mu.atoms[i], small.atoms[i], mu.probs[i], small.probs[i])
        assert cost <= width[i] / n + rounding[i]


def test_compressed_sees_no_padding() -> None:
    """The extremes are those of the distribution: padding at 1e9 does not use up cells."""
    rng = np.random.default_rng(0)
    atoms = np.append(rng.random(40), [1e9, -1e9])
    mu = Particles(atoms, np.append(np.full(40, 1 / 40), [0.0, 0.0]))
    padded, plain = mu.compressed(8), Particles(atoms[:40]).compressed(8)
    np.testing.assert_allclose(padded.atoms, plain.atoms, atol=40 * EPS)
    np.testing.assert_allclose(padded.probs, plain.probs, atol=40 * EPS)


def test_compressed_to_no_fewer_is_sorted() -> None:
    mu = Particles([3.0, 1.0, 2.0], [0.5, 0.25, 0.25])
    for n in (3, 10):
        np.testing.assert_array_equal(mu.compressed(n).atoms, [1.0, 2.0, 3.0])
        np.testing.assert_array_equal(mu.compressed(n).probs, [0.25, 0.25, 0.5])
    np.testing.assert_array_equal(
        Particles([2.0, 2.0, 2.0]).compressed(2).atoms[-1:], [2.0]
    )  # no width at all


# --- Padding ---


@pytest.mark.parametrize("place", [0, 2, 4])
@pytest.mark.parametrize("junk", [-1e200, 0.3, 1e200])
def test_padding_has_no_influence(place: int, junk: float) -> None:
    """Wherever a weightless atom is put, first included, and however far away (its square
    overflows).
    """
    atoms, probs = np.array([0.0, 1.0, 3.0, 7.0]), np.array([0.1, 0.2, 0.3, 0.4])
    plain, padded = (
        Particles(atoms, probs),
        Particles(np.insert(atoms, place, junk), np.insert(probs, place, 0.0)),
    )
    taus, x = np.array([0.0, 0.1, 0.25, 0.6, 1.0]), np.array([-1.0, 0.0, 2.0, 8.0])
    np.testing.assert_allclose(padded.mean(), plain.mean(), rtol=8 * EPS)
    np.testing.assert_allclose(padded.variance(), plain.variance(), rtol=8 * EPS)
    np.testing.assert_array_equal(padded.quantile(taus), plain.quantile(taus))
    np.testing.assert_allclose(padded.cdf(x), plain.cdf(x), atol=8 * EPS)
    np.testing.assert_array_equal(padded.merged().atoms[:4], atoms)
    assert np.isin(padded.sample(jax.random.key(0), (100,)), atoms).all()


# --- Indexing ---


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray])
def test_indexing_is_that_of_the_batch_axes(kind) -> None:
    atoms = np.arange(24.0).reshape(2, 3, 4)
    mu = Particles(kind(atoms))
    mask, rows = atoms[..., 0] > 5, np.array([1, 0, 1])
    indices = [
        0,
        (1, 2),
        (slice(None), 1),
        (..., 2),
        (None, 0),
        [1, 0],
        rows,
        (rows, np.array([0, 2, 1])),
        mask,
        -1,
    ]
    for index in indices:
        expected = atoms[(*index, slice(None)) if isinstance(index, tuple) else index]
        np.testing.assert_array_equal(mu[index].atoms, expected)
        assert mu[index].probs.shape == expected.shape
    assert [row.shape for row in mu] == [(3,), (3,)]  # iteration ends
    with pytest.raises(IndexError):
        mu[0, 0, 0]
    with pytest.raises(IndexError, match="no batch axes"):
        mu[0, 0][0]
    with pytest.raises(TypeError, match="no batch axes"):
        iter(mu[0, 0])


# --- Transformations ---


def test_particles_pass_through_jit_and_vmap() -> None:
    """A pytree of two arrays: transformed methods give in float32 what they give eagerly in
    float64.
    """

    def everything(mu: Particles) -> dict[str, jax.Array]:
        backup = mu.push(1.0, 0.5).merged()
        return {
            "merged": backup.atoms,
            "compressed": backup.compressed(3).atoms,
            "sum": mu.add(mu).mean(),
            "variance": mu.variance(),
            "quantile": mu.quantile(np.array([0.26, 0.74])),
            "cdf": mu.cdf(np.zeros(1)),
        }

    mu, _, _ = integer_batch(0)
    single = Particles(jnp.float32(mu.atoms), jnp.float32(mu.probs))
    transformed = jax.jit(jax.vmap(everything))(single)
    for name, value in everything(mu).items():
        assert transformed[name].dtype == jnp.float32
        atol = 2 * REACH * ATOL / EPS * float(jnp.finfo(jnp.float32).eps)
        np.testing.assert_allclose(transformed[name], value, atol=atol)
    mixed = jax.jit(lambda mu, weights: mu.mixture(weights))(single, jnp.full(BATCH, 1 / BATCH))
    np.testing.assert_allclose(mixed.mean(), mu.mean().mean(), atol=atol)


def test_gradients() -> None:
    """Of the mean, even through a backup: gamma * probs; of the variance: 2 p (z - mean)."""
    atoms, probs = jnp.array([3.0, 0.0, 1.0]), jnp.array([0.5, 0.25, 0.25])
    tight = {"rtol": 0, "atol": 16 * float(jnp.finfo(jnp.float32).eps)}
    np.testing.assert_allclose(
        jax.grad(lambda a: Particles(a, probs).mean())(atoms), probs, **tight
    )
    variance_slope = jax.grad(lambda a: Particles(a, probs).variance())(atoms)
    np.testing.assert_allclose(variance_slope, 2 * probs * (atoms - 1.75), **tight)

    @jax.jit
    def backup(a: jax.Array, reward: jax.Array) -> jax.Array:
        return Particles(a, probs).push(reward, 0.5).sorted().merged().compressed(2).mean()

    to_atoms, to_reward = jax.grad(backup, argnums=(0, 1))(atoms, jnp.asarray(1.0))
    np.testing.assert_allclose(to_atoms, 0.5 * probs, **tight)
    np.testing.assert_allclose(to_reward, 1.0, **tight)
    median = jax.jit(lambda a: Particles(a, probs).quantile(jnp.array([0.5]))[0])
    np.testing.assert_array_equal(jax.grad(median)(atoms), [0.0, 0.0, 1.0])
    assert (
        jax.grad(lambda x: Particles([x, 0.0]).mean())(1.0) == 0.5
    )  # a list with a traced number in it


# --- Precision ---

OPERATIONS = {
    "push": lambda mu: mu.push(1.0, 0.99),
    "push with whole numbers": lambda mu: mu.push(1, 2),
    "add": lambda mu: mu.add(mu),
    "mixture": lambda mu: mu.mixture(np.float32([0.5, 0.5])),
    "sorted": lambda mu: mu.sorted(),
    "settled": lambda mu: mu.settled(),
    "merged": lambda mu: mu.merged(0.1),
    "compressed": lambda mu: mu.compressed(2),
    "index": lambda mu: mu[0],
    "mean": lambda mu: mu.mean(),
    "variance": lambda mu: mu.variance(),
    "std": lambda mu: mu.std(),
    "cdf": lambda mu: mu.cdf([0.5]),
    "quantile": lambda mu: mu.quantile([0.5]),
    "sample": lambda mu: mu.sample(jax.random.key(0), (2,)),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_precision_follows_the_particles(operation) -> None:
    """float32 stays float32, x64 off or on: plain numbers are weak. float64 needs x64."""
    atoms = np.array([[1 / 3, 2.0, 0.0], [1.0, 5.0, 2.0]])
    single = Particles(jnp.float32(atoms))
    for leaf in jax.tree.leaves(jax.eval_shape(operation, single)):
        assert leaf.dtype == np.float32
    for leaf in jax.tree.leaves(jax.eval_shape(operation, Particles(atoms))):
        assert leaf.dtype == np.float64
    with jax.enable_x64(False):
        for leaf in jax.tree.leaves(jax.eval_shape(operation, Particles(atoms))):
            assert leaf.dtype == np.float32


def test_double_wins_where_precisions_mix() -> None:
    """Both fields always share one dtype."""
    single, double = jnp.float32([0.0, 1.0]), np.array([1 / 3, 2 / 3])
    for mixed in (Particles(single, double), Particles(single).push(np.float64(1 / 3), 1.0)):
        assert mixed.atoms.dtype == mixed.probs.dtype == np.float64
        assert mixed.merged().atoms.dtype == np.float64
    assert Particles(jnp.bfloat16([0.0, 1.0])).mean().dtype == jnp.bfloat16


def test_what_sums_to_one_in_float32_does_so_beside_float64() -> None:
    """A distribution in float32, a network's say, meets numbers in float64: its rounding is no
    mistake, and is mended.
    """
    probs = jax.nn.softmax(jax.random.normal(jax.random.key(3), (64, 51), jnp.float32))
    assert np.abs(np.asarray(probs, np.float64).sum(-1) - 1).max() > 1.5e-8  # too much for float64
    atoms = jnp.broadcast_to(jnp.linspace(-10, 10, 51, dtype=jnp.float32), (64, 51))
    single, double = (
        Particles(atoms, probs),
        Particles(np.array([0.0, 1.0]), np.array([0.25, 0.75])),
    )
    for wide in (
        Particles(np.asarray(atoms, np.float64), probs),
        single.push(np.zeros(64), 0.9),
        single.push(0.0, np.float64(0.9)),
        single.add(double),
        double.add(single),
        Particles(np.zeros((64, 51, 3))).mixture(probs),
        Particles(atoms[:, None], probs[:, None]).mixture(np.ones((64, 1))),
    ):
        assert wide.probs.dtype == np.float64
        np.testing.assert_allclose(wide.probs.sum(-1), 1, rtol=1e-14)
    with pytest.raises(ValueError, match="sum of probs"):
        Particles(np.zeros(2), np.float32([0.5, 0.499]))


def test_equal_weights_and_shared_weights() -> None:
    """Left out, probabilities are equal; given once, they serve the whole batch."""
    np.testing.assert_array_equal(Particles(np.zeros((2, 4))).probs, np.full((2, 4), 0.25))
    np.testing.assert_array_equal(
        Particles(np.zeros((2, 2)), [0.25, 0.75]).probs, [[0.25, 0.75]] * 2
    )


# --- What is refused ---


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Particles(1.0), r"atoms.shape( is |.* got )\(\)"),
        (lambda: Particles(np.zeros((2, 0))), r"atoms.shape( is |.* got )\(2, 0\)"),
        (lambda: Particles([[0.0, 1.0], [2.0, math.nan]]), r"atoms\[1, 1\]( is |.* got )nan"),
        (lambda: Particles([0.0, math.inf]), r"atoms\[1\]( is |.* got )inf"),
        (lambda: Particles([0.0, 1.0], [1.0]), r"probs.shape( is |.* got )\(1,\)"),
        (lambda: Particles([0.0, 1.0], 0.5), r"probs.shape( is |.* got )\(\)"),
        (lambda: Particles([0.0, 1.0], [[0.5, 0.5]]), r"probs.shape( is |.* got )\(1, 2\)"),
        (
            lambda: Particles(np.zeros((3, 2)), np.full((2, 2), 0.5)),
            r"probs.shape( is |.* got )\(2, 2\)",
        ),
        (lambda: Particles([0.0, 1.0], [1.5, -0.5]), r"probs\[1\]( is |.* got )-0.5"),
        (lambda: Particles([0.0, 1.0], [math.nan, 1.0]), r"probs\[0\]( is |.* got )nan"),
        (lambda: Particles([0.0, 1.0], [0.5, 0.6]), r"sum of probs( is |.* got )1.1"),
        (
            lambda: Particles(np.zeros((2, 2)), [[0.5, 0.5], [0.5, 0.25]]),
            r"sum of probs\[1\]( is |.* got )0.75",
        ),
        (lambda: Particles(np.zeros((2, 1))).mixture([1.0]), r"weights.shape( is |.* got )\(1,\)"),
        (lambda: Particles(np.zeros((2, 1))).mixture(1.0), r"weights.shape( is |.* got )\(\)"),
        (lambda: Particles([0.0]).mixture([1.0]), r"weights.shape( is |.* got )\(1,\)"),
        (
            lambda: Particles(np.zeros((2, 1))).mixture([0.5, 0.75]),
            r"sum of weights( is |.* got )1.25",
        ),
        (
            lambda: Particles(np.zeros((2, 1))).mixture([1.5, -0.5]),
            r"weights\[1\]( is |.* got )-0.5",
        ),
        (lambda: Particles([0.0]).push(math.nan, 1.0), r"atoms\[0\]( is |.* got )nan"),
        (lambda: Particles([0.0]).cdf(0.5), r"x.shape( is |.* got )\(\)"),
        (lambda: Particles([0.0]).quantile(0.5), r"taus.shape( is |.* got )\(\)"),
        (lambda: Particles([0.0]).quantile([0.5, 1.5]), r"taus\[1\]( is |.* got )1.5"),
        (lambda: Particles([0.0]).quantile([math.nan]), r"taus\[0\]( is |.* got )nan"),
        (lambda: Particles([0.0]).merged(-1.0), r"tolerance( is |.* got )-1.0"),
        (lambda: Particles([0.0]).compressed(0), r"n( is |.* got )0"),
        (lambda: Particles([0.0]).compressed(1.5), r"n( is |.* got )1.5"),
        # In a trace too, where a probability per row would otherwise be spread over all its atoms.
        (
            lambda: jax.jit(lambda p: Particles(np.zeros(3), p).mean())(jnp.ones(1)),
            r"probs.shape( is |.* got )\(1,\)",
        ),
    ],
)
@pytest.mark.usefixtures("without_shape_checks")
def test_bad_input_is_refused_by_name_and_value(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
