"""Robust expectile imputation: exact without noise, total, equivariant, and nearer with noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edrl.core.families import Expectiles, RobustExpectiles, midpoints
from edrl.core.imputation.robust_expectiles import robust_expectiles
from edrl.core.imputation.smoothing import expectile_curves, library
from edrl.core.metrics import wasserstein
from edrl.core.particles import Particles

ROBUST = Expectiles(11, imputation="robust")
FREE = Expectiles(11, imputation="robust-free-mean")


def distributions(seed: int, batch: int = 48, atoms: int = 20) -> Particles:
    rng = np.random.default_rng(seed)
    kinds = (rng.normal, rng.exponential, rng.gumbel)
    return Particles(np.concatenate([kind(size=(batch // 3, atoms)) for kind in kinds]))


def noisy(family: Expectiles, truth: Particles, noise: float, seed: int = 0) -> np.ndarray:
    """Expectiles with normal noise, in units of their range."""
    clean = np.asarray(family.evaluate(truth))
    rng = np.random.default_rng(seed)
    return clean + noise * np.ptp(clean, axis=-1, keepdims=True) * rng.normal(size=clean.shape)


def distance(imputed: Particles, truth: Particles) -> float:
    """Mean Wasserstein-1 distance, in standard deviations."""
    return float(np.mean(np.asarray(wasserstein(imputed, truth, 1)) / np.asarray(truth.std())))


@pytest.mark.parametrize("k", [2, 3, 11, 51])
def test_a_known_noise_of_zero_is_exact_imputation(k: int) -> None:
    family = Expectiles(k, imputation=RobustExpectiles(noise=0.0))
    values = np.asarray(family.evaluate(distributions(k)))
    error = np.abs(np.asarray(family.evaluate(family.impute(values))) - values)
    assert error.max() <= 1e-9 * np.ptp(values, axis=-1).min()


def test_many_values_that_agree_are_believed_without_being_told() -> None:
    """51 expectiles cannot be consistent by chance: the estimated noise is 0, and all are exact."""
    family = Expectiles(51, imputation="robust")
    values = np.asarray(family.evaluate(distributions(0)))
    error = np.abs(np.asarray(family.evaluate(family.impute(values))) - values)
    assert error.max() <= 1e-9 * np.ptp(values, axis=-1).min()


@pytest.mark.parametrize("name", ["exact", "robust-free-mean"])
def test_rows_do_not_depend_on_their_batch(name: str) -> None:
    """Knots of three-valued distributions lie in line: rounding errors, which depend on the size of
    the batch, must not place the atoms of gaps without mass.
    """
    rng, family = np.random.default_rng(0), Expectiles(11, imputation=name)
    kinds = [rng.normal(size=(8, 30)), rng.choice([-1.0, 0.0, 2.0], size=(24, 30))]
    values = np.asarray(family.evaluate(Particles(np.concatenate(kinds))))
    batch = family.impute(values)
    for row in range(0, 32, 4):
        alone = family.impute(values[row])
        np.testing.assert_allclose(alone.atoms, np.asarray(batch.atoms)[row], rtol=0, atol=1e-9)
        np.testing.assert_allclose(alone.probs, np.asarray(batch.probs)[row], rtol=0, atol=1e-9)


@settings(max_examples=200)
@given(values=st.lists(st.floats(-1e300, 1e300), min_size=11, max_size=11))
def test_any_finite_input_gives_a_valid_distribution_of_its_mean(values: list[float]) -> None:
    imputed = ROBUST.impute(np.asarray(values))
    Particles(np.asarray(imputed.atoms), np.asarray(imputed.probs))  # refuses NaN and bad weights
    assert imputed.mean() == pytest.approx(values[5], abs=1e-12 * max(map(abs, values)) + 1e-300)


@settings(max_examples=100)
@given(values=st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=10, max_size=10))
def test_any_finite_input_is_accepted_in_float32_and_without_a_mean(values: list[float]) -> None:
    family = Expectiles(midpoints(10), imputation="robust")
    imputed = family.impute(jnp.asarray(values, jnp.float32))
    assert np.isfinite(np.asarray(imputed.atoms)).all()
    assert np.asarray(imputed.probs).sum() == pytest.approx(1, abs=1e-5)


@settings(max_examples=30)
@given(
    values=st.lists(st.floats(-10, 10), min_size=5, max_size=5),
    noise=st.lists(st.floats(0, 10), min_size=5, max_size=5),
)
def test_any_noise_is_accepted(values: list[float], noise: list[float]) -> None:
    """The noise may be zero for some values, and anything for the others."""
    imputed = robust_expectiles(np.asarray(values), (0.1, 0.3, 0.5, 0.7, 0.9), noise=noise)
    Particles(np.asarray(imputed.atoms), np.asarray(imputed.probs))


@pytest.mark.parametrize("log_scale", [-40, 3, 40])
def test_scale_equivariance(log_scale: int) -> None:
    """Psi(c v) = c Psi(v) for powers of two c, to the last bit; known noise scales along."""
    values = noisy(ROBUST, distributions(1), 0.05)
    scale = 2.0**log_scale
    plain, scaled = ROBUST.impute(values), ROBUST.impute(scale * values)
    np.testing.assert_array_equal(scaled.atoms, scale * np.asarray(plain.atoms))
    np.testing.assert_array_equal(scaled.probs, plain.probs)
    one, other = (
        robust_expectiles(c * values, tuple(ROBUST.taus), noise=c * 0.1) for c in (1.0, scale)
    )
    np.testing.assert_allclose(other.atoms, scale * np.asarray(one.atoms), rtol=1e-12)


def test_shift_equivariance() -> None:
    values = noisy(FREE, distributions(2), 0.05)
    plain, shifted = FREE.impute(values), FREE.impute(values + 100)
    moved = Particles(np.asarray(plain.atoms) + 100, plain.probs)
    assert np.asarray(wasserstein(shifted, moved, 1)).max() <= 1e-9


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.1])
def test_it_is_nearer_to_the_truth_than_exact_imputation(noise: float) -> None:
    """With the noise estimated; freeing the mean brings it nearer still."""
    truth, exact = distributions(3), Expectiles(11)
    values = noisy(exact, truth, noise)
    kept, free = distance(ROBUST.impute(values), truth), distance(FREE.impute(values), truth)
    assert free < kept < 0.95 * distance(exact.impute(values), truth)


def test_a_known_noise_for_each_value_is_heeded() -> None:
    """A value with much noise moves the result less than one with little."""
    values = np.asarray(Expectiles(5).evaluate(distributions(4)))
    taus = tuple(Expectiles(5).taus)
    moved = values + np.array([0, 0, 0, 0.5, 0])

    def shift(noise: tuple[float, ...]) -> float:
        one, other = (robust_expectiles(v, taus, noise=noise) for v in (values, moved))
        return float(np.mean(np.asarray(wasserstein(one, other, 1))))

    assert shift((0.05, 0.05, 0.05, 2.0, 0.05)) < 0.3 * shift((0.05, 0.05, 0.05, 0.05, 0.05))


def test_a_mean_with_a_noise_of_its_own_is_not_kept() -> None:
    taus = tuple(Expectiles(5).taus)
    values = noisy(Expectiles(5), distributions(5), 0.1)
    for noise, kept in ((0.3, True), ((0.3, 0.3, 0.0, 0.3, 0.3), True), ((0.3,) * 5, False)):
        imputed = robust_expectiles(values, taus, noise=noise)
        error = np.abs(np.asarray(imputed.mean()) - values[:, 2])
        assert (error.max() <= 1e-12) == kept


def test_levels_may_be_unordered_repeated_and_without_a_half() -> None:
    """Order does not matter, and two values at one level count as their average would."""
    truth = distributions(6)
    family = Expectiles((0.1, 0.3, 0.7, 0.9))
    values = noisy(family, truth, 0.02)
    taus = np.asarray(family.taus)
    order = np.array([2, 0, 3, 1])
    plain = robust_expectiles(values, taus, noise=0.1)
    mixed = robust_expectiles(values[:, order], taus[order], noise=0.1)
    np.testing.assert_allclose(mixed.atoms, plain.atoms, atol=1e-9)

    twice = np.concatenate([values + 0.05, values - 0.05], axis=-1)
    pooled = robust_expectiles(twice, (*taus, *taus), noise=0.1)
    halved = robust_expectiles(values, taus, noise=0.1 / np.sqrt(2))
    assert np.asarray(wasserstein(pooled, halved, 1)).max() <= 1e-3 * np.ptp(values)
    everywhere = robust_expectiles(values, (0.3,) * 4, noise=0.1)
    assert np.isfinite(np.asarray(everywhere.atoms)).all()


def test_the_support_bounds_the_atoms_and_the_mean_stays() -> None:
    truth = Particles(np.random.default_rng(7).exponential(size=(32, 20)))
    values = noisy(ROBUST, truth, 0.03)
    values = values[values[:, 5] > 0]
    imputed = robust_expectiles(values, tuple(ROBUST.taus), support=(0.0, 8.0))
    assert np.asarray(imputed.atoms).min() >= 0
    assert np.asarray(imputed.atoms).max() <= 8
    np.testing.assert_allclose(imputed.mean(), values[:, 5], atol=1e-12)


@pytest.mark.parametrize("mean_at", [None, 2])
def test_traced_levels(mean_at: int | None) -> None:
    """Levels inside a trace, one row for each example, are smoothed at these levels alone."""
    taus = np.array([[0.1, 0.3, 0.5, 0.7, 0.9], [0.05, 0.2, 0.5, 0.8, 0.95]])
    truth = distributions(8, batch=6)

    @jax.jit
    def impute(taus: jax.Array, values: jax.Array) -> Particles:
        return Expectiles(taus, imputation="robust", mean_at=mean_at).impute(values)

    for row in taus:
        values = np.asarray(Expectiles(tuple(row)).evaluate(truth))
        imputed = impute(jnp.asarray(np.tile(row, (len(values), 1))), jnp.asarray(values))
        assert distance(imputed, truth) < 0.3


@pytest.mark.slow  # it takes long to compile
def test_gradients_are_finite_and_those_of_the_mean() -> None:
    """Also where all values are equal."""
    values = np.concatenate([noisy(ROBUST, distributions(9), 0.05), np.ones((1, 11))])

    @jax.jit
    def gradients(values: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Of the atoms' squares and of the means."""
        atoms, pull = jax.vjp(lambda v: (ROBUST.impute(v).atoms, ROBUST.impute(v).mean()), values)
        zeros, ones = jax.tree.map(jnp.zeros_like, atoms), jax.tree.map(jnp.ones_like, atoms)
        return pull((2 * atoms[0], zeros[1]))[0], pull((zeros[0], ones[1]))[0]

    spread, mean = gradients(jnp.asarray(values))
    assert np.isfinite(np.asarray(spread)).all()
    np.testing.assert_allclose(mean, np.tile(np.eye(11)[5], (len(values), 1)), atol=1e-6)


def test_the_librarys_expectiles_are_the_familys() -> None:
    taus = (0.01, 0.2, 0.5, 0.9)
    expected = Expectiles(taus).evaluate(Particles(*library()))
    np.testing.assert_allclose(expectile_curves(np.array(taus)), expected, atol=1e-10)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise": -1.0}, "noise"),
        ({"noise": (0.1, 0.2)}, "11 levels"),
        ({"support": (1.0, 1.0)}, "support"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Expectiles(11, imputation=RobustExpectiles(**settings))
