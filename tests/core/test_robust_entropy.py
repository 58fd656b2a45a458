"""Robust imputation of M-estimators: the penalised estimate it says it is, total, equivariant, and
nearer to the truth than maximum entropy where values are noisy.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

import edrl
from edrl import HuberQuantiles, MaximumEntropy, Particles, Quantiles, RobustEntropy
from edrl.core.imputation.robust_entropy import _weights
from edrl.core.metrics import wasserstein

K = 5
ROBUST = HuberQuantiles(K, imputation="robust")


class Cells(edrl.MEstimator):
    """Huber quantiles (kappa = 1) at levels in any order, some of them several times."""

    taus: tuple[float, ...] = (0.9, 0.1, 0.5, 0.5, 0.1)

    @property
    def size(self) -> int:
        return len(self.taus)

    def score(self, values: Any, atoms: Any) -> Any:
        error = jnp.asarray(values)[..., :, None] - jnp.asarray(atoms)[..., None, :]
        taus = jnp.asarray(self.taus, error.dtype)[:, None]
        return jnp.where(error > 0, 1 - taus, taus) * jnp.clip(error, -1, 1)


def distributions(seed: int, batch: int = 24) -> Particles:
    rng = np.random.default_rng(seed)
    kinds = (rng.normal, rng.exponential, rng.gumbel)
    return Particles(np.concatenate([kind(size=(batch // 3, 20)) for kind in kinds]))


def noisy(values: Any, noise: float, seed: int = 0) -> np.ndarray:
    """With normal noise, in units of the values' range."""
    clean = np.asarray(values)
    errors = np.random.default_rng(seed).normal(size=clean.shape)
    return clean + noise * np.ptp(clean, axis=-1, keepdims=True) * errors


def distance(imputed: Particles, truth: Particles) -> float:
    """Mean Wasserstein-1 distance, in standard deviations."""
    return float(np.mean(np.asarray(wasserstein(imputed, truth, 1)) / np.asarray(truth.std())))


@pytest.mark.parametrize("ridge", [1.0, 1e-2])
def test_with_one_ridge_the_weights_minimise_the_penalised_objective(ridge: float) -> None:
    """Against SciPy on the weights' own logits, not on the dual."""
    rng = np.random.default_rng(1)
    scores, reference = rng.normal(size=(3, 12)), rng.normal(size=12)
    log_q = reference - np.log(np.exp(reference).sum())

    def objective(logits: np.ndarray) -> float:
        log_w = logits - np.log(np.exp(logits).sum())
        weights = np.exp(log_w)
        return float(weights @ (log_w - log_q) + np.sum((scores @ weights) ** 2) / (2 * ridge))

    found = scipy.optimize.minimize(objective, log_q, tol=1e-12)
    expected = np.exp(found.x) / np.exp(found.x).sum()
    with jax.enable_x64(True):
        weights = _weights(
            jnp.asarray(scores), jnp.asarray(reference), jnp.asarray([ridge]), None, steps=12
        )
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    assert objective(np.log(np.asarray(weights))) <= found.fun + 1e-12


def test_a_known_noise_of_zero_is_maximum_entropy() -> None:
    values = np.asarray(ROBUST.evaluate(distributions(0)))
    told = HuberQuantiles(K, imputation=RobustEntropy(noise=0.0)).impute(values)
    plain = HuberQuantiles(K, imputation=MaximumEntropy()).impute(values)
    np.testing.assert_array_equal(told.probs, plain.probs)


@pytest.mark.slow
def test_less_noise_means_nearer_values() -> None:
    """The residual falls with the noise that is told, to nearly nothing."""
    values = np.asarray(ROBUST.evaluate(distributions(1)))

    def residual(noise: float) -> float:
        family = HuberQuantiles(K, imputation=RobustEntropy(noise=noise))
        return float(np.abs(np.asarray(family.residual(values))).mean())

    residuals = [residual(noise) for noise in (1.0, 0.1, 1e-5)]
    assert residuals[0] > residuals[1] > residuals[2]
    assert residuals[2] < 1e-4


@pytest.mark.parametrize(
    "noise", [0.03, *(pytest.param(noise, marks=pytest.mark.slow) for noise in (0.01, 0.1))]
)
def test_it_is_nearer_to_the_truth_than_its_rivals(noise: float) -> None:
    """With the noise estimated."""
    truth, names = distributions(2), ("robust", "maximum-entropy", "as_samples")
    families = [HuberQuantiles(11, imputation=name) for name in names]
    values = noisy(families[0].evaluate(truth), noise)
    robust, *rivals = (distance(family.impute(values), truth) for family in families)
    assert robust < 0.97 * min(rivals)


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.floats(-1e300, 1e300), min_size=K, max_size=K))
def test_any_finite_input_gives_a_valid_distribution(values: list[float]) -> None:
    imputed = ROBUST.impute(np.asarray(values))
    Particles(np.asarray(imputed.atoms), np.asarray(imputed.probs))  # refuses NaN and bad weights


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=K, max_size=K))
def test_any_finite_input_is_accepted_in_float32(values: list[float]) -> None:
    imputed = ROBUST.impute(jnp.asarray(values, jnp.float32))
    assert np.isfinite(np.asarray(imputed.atoms)).all()
    assert np.asarray(imputed.probs).sum() == pytest.approx(1, abs=1e-5)


def test_quantiles_whose_score_has_no_slope_are_accepted() -> None:
    family = Quantiles(K, imputation="robust")
    truth = distributions(3)
    assert distance(family.impute(noisy(family.evaluate(truth), 0.1)), truth) < 0.5


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
def test_scale_and_shift_equivariance(scale: float) -> None:
    """Psi(c v + b) = c Psi(v) + b, if kappa is scaled along."""
    values = noisy(ROBUST.evaluate(distributions(4)), 0.05)
    plain = ROBUST.impute(values)
    scaled = HuberQuantiles(K, kappa=scale, imputation="robust").impute(scale * (values + 8))
    moved = Particles(scale * (np.asarray(plain.atoms) + 8), plain.probs)
    assert np.asarray(wasserstein(scaled, moved, 1)).max() <= 1e-7 * scale


def test_rows_do_not_depend_on_their_batch() -> None:
    values = np.asarray(ROBUST.evaluate(distributions(5)))
    batch = ROBUST.impute(values)
    alone = ROBUST.impute(values[3])
    np.testing.assert_allclose(alone.atoms, np.asarray(batch.atoms)[3], atol=1e-12)
    np.testing.assert_allclose(alone.probs, np.asarray(batch.probs)[3], atol=1e-9)


def test_a_known_noise_for_each_value_is_heeded() -> None:
    """A value with much noise moves the result less than one with little."""
    values = np.asarray(ROBUST.evaluate(distributions(6)))
    moved = values + np.array([0, 0, 0, 0.3, 0])

    def shift(noise: tuple[float, ...]) -> float:
        family = HuberQuantiles(K, imputation=RobustEntropy(noise=noise))
        one, other = (family.impute(v) for v in (values, moved))
        return float(np.mean(np.asarray(wasserstein(one, other, 1))))

    assert shift((0.05, 0.05, 0.05, 2.0, 0.05)) < 0.5 * shift((0.05,) * 5)


def test_levels_may_be_unordered_and_repeated() -> None:
    """Two values at one level that disagree are averaged, and their order does not matter."""
    truth = distributions(7, batch=6)
    family = Cells(imputation=RobustEntropy(noise=0.03))
    clean = np.asarray(family.evaluate(truth))
    apart = clean + np.array([0, 0.1, 0.1, -0.1, -0.1])
    swapped = apart[:, [0, 4, 3, 2, 1]]
    one, other = family.impute(apart), family.impute(swapped)
    assert np.asarray(wasserstein(one, other, 1)).max() <= 1e-6
    found = np.asarray(family.evaluate(one))
    assert np.abs(found - clean).mean() < 0.75 * np.abs(apart - clean).mean()


def test_the_support_bounds_the_atoms() -> None:
    truth = Particles(np.random.default_rng(8).exponential(size=(12, 20)))
    values = noisy(ROBUST.evaluate(truth), 0.05)
    for noise in (None, 0.0):
        told = RobustEntropy(noise=noise, support=(0.0, 3.0))
        imputed = HuberQuantiles(K, imputation=told).impute(values)
        assert np.asarray(imputed.atoms).min() >= 0
        assert np.asarray(imputed.atoms).max() <= 3
        np.testing.assert_allclose(np.asarray(imputed.probs).sum(-1), 1, atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise": -1.0}, "noise"),
        ({"support": (1.0, 1.0)}, "support"),
        ({"grid": 1}, "grid"),
        ({"steps": 0}, "steps"),
        ({"per_decade": 0}, "per_decade"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RobustEntropy(**settings)


def test_a_wrong_number_of_noises_is_refused() -> None:
    with pytest.raises(ValueError, match="5 statistics"):
        HuberQuantiles(K, imputation=RobustEntropy(noise=(0.1, 0.2))).impute(np.zeros(K))
