"""Maximum-entropy imputation: exact for consistent values, optimal, least bad for the others,
always valid.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from contracts import SmoothQuantiles, StopLoss
from edrl.core.families import Categorical, Expectiles, HuberQuantiles, MEstimator, Moments
from edrl.core.imputation.maximum_entropy import MaximumEntropy, _reference
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics

BATCH, K = 40, 7  # the same everywhere: each shape is compiled once
IMPUTE = MaximumEntropy()

FAMILIES = {
    "expectiles": Expectiles(K),
    "huber": HuberQuantiles(K),
    "smooth": SmoothQuantiles(
        tuple(np.linspace(0.1, 0.9, K))
    ),  # no knots, and scores that bend everywhere
}


def random_particles(seed: int, n: int = 60) -> Particles:
    """Distributions of n atoms, padded to 60."""
    rng = np.random.default_rng(seed)
    probs = np.pad(rng.dirichlet(np.ones(n), BATCH), ((0, 0), (0, 60 - n)))
    return Particles(rng.normal(size=(BATCH, 60)), probs)


def scores(family: Statistics, values: np.ndarray, mu: Particles) -> np.ndarray:
    """psi [..., K, n], each k in units of its size within one range of the values around them."""
    psi, spread = family.score(values, mu.atoms), np.ptp(values, axis=-1, keepdims=True)
    low, high = values.min(-1, keepdims=True) - spread, values.max(-1, keepdims=True) + spread
    near = ((mu.atoms >= low) & (mu.atoms <= high))[..., None, :]
    return psi / np.max(np.abs(psi) * near, axis=-1, keepdims=True)


def expected_scores(family: Statistics, values: np.ndarray, mu: Particles) -> np.ndarray:
    return np.einsum(
        "...kn,...n->...k", scores(family, values, mu), np.asarray(mu.probs, np.float64)
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_consistent_values_come_back(name):
    """Values of a distribution with mass in every gap are met: E[psi] = 0 to 1e-10 of the scores'
    size.
    """
    family = FAMILIES[name]
    values = family.evaluate(random_particles(0))
    mu = IMPUTE(family, values)
    assert np.max(np.abs(expected_scores(family, values, mu))) < 1e-10


def test_float32():
    """Single precision stays single, and meets E[psi] = 0 to 1e-5 in the median."""
    family = FAMILIES["huber"]
    values = family.evaluate(random_particles(0))
    mu = IMPUTE(family, jnp.asarray(values, jnp.float32))
    assert mu.atoms.dtype == mu.probs.dtype == np.float32
    psi = expected_scores(family, values, Particles(np.asarray(mu.atoms), np.asarray(mu.probs)))
    assert np.median(np.abs(psi)) < 1e-5
    assert np.max(np.abs(psi)) < 1e-3


@pytest.mark.parametrize("name", ["expectiles", "huber"])
def test_values_of_few_atoms_come_back_nearly(name):
    """Three atoms leave gaps between the values empty: the solution is on the boundary, and met to
    1e-7.
    """
    family = FAMILIES[name]
    values = family.evaluate(random_particles(1, n=3))
    assert np.max(np.abs(expected_scores(family, values, IMPUTE(family, values)))) < 1e-7


@pytest.mark.parametrize("name", FAMILIES)
def test_weights_have_the_largest_entropy(name):
    """The problem is convex, so log(w / q) affine in the scores (the KKT conditions) proves that w
    maximises.
    """
    family = FAMILIES[name]
    values = family.evaluate(random_particles(2))
    mu = IMPUTE(family, values)
    with jax.enable_x64(True):
        references = jax.vmap(_reference)(jnp.asarray(values), jnp.asarray(mu.atoms))
    for psi, probs, reference in zip(
        scores(family, values, mu), mu.probs, np.asarray(references), strict=True
    ):
        seen = probs > 1e-12
        columns = np.vstack([psi, np.ones(psi.shape[-1])])[:, seen].T
        exponent = np.log(probs[seen]) - reference[seen]
        fit = np.linalg.lstsq(columns, exponent)[0]
        # Rounding of scores (1e-15) times multipliers and logits of at most 1e4.
        np.testing.assert_allclose(columns @ fit, exponent, atol=1e-9)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_reference_measure_is_positive_and_thins_out(seed):
    """log q >= 0, which the certificate of infeasibility needs, and equally spaced atoms weigh less
    farther out.
    """
    values = np.random.default_rng(seed).normal(size=K)
    low, spread = values.min(), np.ptp(values)
    with jax.enable_x64(True):
        log_mass = np.asarray(
            _reference(jnp.asarray(values), jnp.asarray(np.linspace(low - 5 * spread, low, 51)))
        )
    assert np.all(log_mass >= 0)
    assert np.all(np.diff(log_mass[1:-1]) > 0)


@pytest.mark.parametrize("name", ["expectiles", "huber"])
def test_inconsistent_values_get_the_least_residual(name):
    """Noise has no distribution: |E psi| is within 1 % of the least on the grid, which SciPy's NNLS
    finds.
    """
    family = FAMILIES[name]
    values = np.random.default_rng(3).normal(size=(BATCH, K))
    mu = IMPUTE(family, values)
    reached = np.linalg.norm(expected_scores(family, values, mu), axis=-1)
    for psi, norm in zip(scores(family, values, mu)[:15], reached, strict=False):
        heavy = 1e4  # the weight of the equation sum w = 1
        weights, _ = scipy.optimize.nnls(
            np.vstack([psi, np.full(psi.shape[1], heavy)]), [0.0] * K + [heavy]
        )
        assert norm <= 1.01 * np.linalg.norm(psi @ weights) / weights.sum()


@pytest.mark.parametrize("name", FAMILIES)
def test_equal_values_are_a_point_mass(name):
    """Statistics of location are all equal for a point mass only."""
    np.testing.assert_array_equal(IMPUTE(FAMILIES[name], np.full((BATCH, K), 2.5)).atoms, 2.5)


def test_knots_hold_all_the_mass():
    """Huber scores are constant beyond value -+ kappa, so no atom lies farther out, and every knot
    is an atom.
    """
    family = FAMILIES["huber"]
    values = family.evaluate(random_particles(4))
    atoms = IMPUTE(family, values).atoms
    knots = family.knots(values)
    np.testing.assert_allclose(atoms.min(-1), knots.min(-1), rtol=1e-12)
    np.testing.assert_allclose(atoms.max(-1), knots.max(-1), rtol=1e-12)
    assert np.all(np.abs(atoms[:, None, :] - knots[:, :, None]).min(-1) == 0)


@pytest.mark.parametrize("exponent", [-900, -30, 30, 900])
def test_expectiles_scale_exactly(exponent):
    """Powers of two scale values, grid and scores without rounding: the atoms scale, the weights
    stay, bit for bit.
    """
    family, scale = FAMILIES["expectiles"], 2.0**exponent
    values = family.evaluate(random_particles(5))
    base, scaled = IMPUTE(family, values), IMPUTE(family, scale * values)
    np.testing.assert_array_equal(scaled.atoms, scale * base.atoms)
    np.testing.assert_array_equal(scaled.probs, base.probs)


def test_expectiles_shift():
    """A shift moves the atoms and leaves the weights, up to the rounding that it causes in values
    and scores.
    """
    family = FAMILIES["expectiles"]
    values = family.evaluate(random_particles(6))
    base, shifted = IMPUTE(family, values), IMPUTE(family, values + 8.0)
    np.testing.assert_allclose(shifted.atoms, base.atoms + 8.0, rtol=1e-13)
    # lambda is of order 100 here, so scores that are off by 1e-14 move the weights by far less than
    # 1e-8.
    np.testing.assert_allclose(shifted.probs, base.probs, atol=1e-8)


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1e-3, 1e3, 1e9, 1e300])
def test_huber_quantiles_of_any_spread(scale):
    """The width kappa = 1 stays: from spreads far below it (expectiles, in effect) to far above
    (quantiles).
    """
    family = FAMILIES["huber"]
    mu = random_particles(7)
    values = family.evaluate(Particles(scale * mu.atoms, mu.probs))
    off = np.max(np.abs(family.evaluate(IMPUTE(family, values)) - values), axis=-1)
    assert np.all(off <= 1e-6 * np.ptp(values, axis=-1))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param("expectiles", np.float64, marks=pytest.mark.slow),
        pytest.param("huber", np.float64, marks=pytest.mark.slow),
        pytest.param("huber", np.float32, marks=pytest.mark.slow),
        ("smooth", np.float64),
    ],
)
@given(
    values=hnp.arrays(
        np.float64,
        (4, K),
        elements=st.one_of(
            st.floats(-1e308, 1e308),
            st.floats(-10, 10),
            st.sampled_from([0.0, 1.0, -1.0, 1e-300, 1e300]),
        ),
    )
)
@example(values=np.array([[3.40282336e38] + 6 * [-1.01412045e31], *3 * [7 * [-1.01412045e31]]]))
@settings(max_examples=60, deadline=None)
def test_total(name, dtype, values):
    """Any finite input, unsorted, tied, huge or tiny, gives finite atoms and probabilities that sum
    to one.
    """
    values = np.clip(values, np.finfo(dtype).min, np.finfo(dtype).max).astype(dtype)
    mu = IMPUTE(FAMILIES[name], np.resize(values, (BATCH, K)))
    assert np.isfinite(mu.atoms).all()
    assert np.all(np.asarray(mu.probs) >= 0)
    np.testing.assert_allclose(
        np.sum(np.asarray(mu.probs, np.float64), axis=-1), 1, atol=100 * np.finfo(dtype).eps
    )


@pytest.mark.parametrize("size", [1e18, 1e30])
def test_total_where_every_score_overflows(size: float) -> None:
    """Cubes of float32 do, from 1e13 on."""
    mu = Moments(3, imputation="maximum-entropy").impute(jnp.full((1, 3), size, jnp.float32))
    Particles(np.asarray(mu.atoms), np.asarray(mu.probs))  # which looks at the numbers


def test_jit_and_vmap_agree_with_batches():
    """One computation, whether a batch is handed over or mapped over in a compiled function."""
    family = FAMILIES["huber"]
    values = family.evaluate(random_particles(8))
    batch = IMPUTE(family, values)
    with jax.enable_x64(True):
        mapped = jax.jit(jax.vmap(lambda v: IMPUTE(family, v)))(jnp.asarray(values))
    np.testing.assert_allclose(mapped.atoms, batch.atoms, rtol=1e-12)
    np.testing.assert_allclose(mapped.probs, batch.probs, atol=1e-9)


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match=r"grid must be .* got 3"):
        MaximumEntropy(grid=3)
    with pytest.raises(ValueError, match=r"margin must be .* got 0"):
        MaximumEntropy(margin=0.0)
    with pytest.raises(ValueError, match=r"iterations must be .* got 0"):
        MaximumEntropy(iterations=0)


class EntropicRisks(MEstimator):
    """log(E exp(b Z)) / b: scores that grow exponentially, and overflow on the far ends of the
    grid.
    """

    betas: tuple[float, ...] = (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0)

    @property
    def size(self) -> int:
        return len(self.betas)

    def score(self, values: Any, atoms: Any) -> Any:
        betas = jnp.asarray(self.betas, atoms.dtype)[:, None]
        return -jnp.expm1(betas * (atoms[..., None, :] - values[..., :, None])) / betas


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 1e-3)])
def test_scores_may_grow_exponentially(dtype: Any, tolerance: float) -> None:
    """Atoms so far away that their scores drown all others have no weight, and no place of their
    own.
    """
    family, atoms = EntropicRisks(), np.random.default_rng(0).normal(size=200)
    risks = np.asarray(family.evaluate(Particles(atoms)))
    betas = np.asarray(family.betas)
    np.testing.assert_allclose(
        risks, np.log(np.mean(np.exp(betas[:, None] * atoms), axis=-1)) / betas, rtol=1e-12
    )
    assert np.abs(family.residual(risks.astype(dtype))).max() <= tolerance
    assert np.isfinite(np.asarray(family.loss(risks, family.impute(risks.astype(dtype)))))


def test_statistics_that_are_no_places_are_met_around_those_they_speak_of() -> None:
    """Expected shortfalls of distributions above all thresholds are all zero, and not those of a
    point mass at zero.
    """
    family = StopLoss()
    for distribution in ([5.0], [1.0], [2.0, 3.0], [-10.0, 0.3]):
        assert family.residual(family.evaluate(Particles(np.array(distribution)))) == pytest.approx(
            0.0, abs=1e-9
        )
    mu = Particles(np.array([-300.0, 200.0, 700.0]))
    wide = Categorical(np.linspace(-1000, 1000, 5), imputation="maximum-entropy")
    assert wide.residual(wide.evaluate(mu)) == pytest.approx(0.0, abs=1e-9)
    cubes = Moments(3, imputation="maximum-entropy")
    np.testing.assert_allclose(
        cubes.evaluate(cubes.impute(cubes.evaluate(mu))), cubes.evaluate(mu), rtol=1e-9
    )


def test_without_places_there_is_no_maximum_entropy() -> None:
    class Nowhere(StopLoss):
        places = Statistics.places

    with pytest.raises(TypeError, match=r"Nowhere.*write the method `places`"):
        Nowhere().impute(np.zeros(4))
