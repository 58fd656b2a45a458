"""The paper's imputation (Equations (7) and (8)): the batched solver and the SciPy procedure it is
compared with.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edrl.core.families import Expectiles, HuberQuantiles, Moments
from edrl.core.imputation.equal_weights import EqualWeights
from edrl.core.imputation.scipy_reference import ScipyMinimize, ScipyRoot, solve_rows
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics, expect

BATCH = 40  # the same everywhere: each shape is compiled once
FAMILIES = {"expectiles": Expectiles(7), "huber": HuberQuantiles(7)}


class LossOnly(Statistics):
    """Expectiles from their loss alone: the score comes by autodiff, and there is no `numpy_score`
    of its own.
    """

    taus: tuple[float, ...]
    imputation: Any = eqx.field(static=True, default=None)

    @property
    def size(self) -> int:
        return len(self.taus)

    def evaluate(self, mu: Particles) -> Any:
        return Expectiles(self.taus).evaluate(mu)

    def loss(self, values: Any, target: Particles) -> Any:
        error = target.atoms[..., None, :] - values[..., :, None]
        taus = jnp.asarray(self.taus, error.dtype)[:, None]
        return expect(target, jnp.where(error > 0, taus, 1 - taus) * error**2)


def random_values(family: Statistics, seed: int, batch: int = BATCH) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mu = Particles(rng.normal(size=(batch, 20)), rng.dirichlet(np.ones(20), batch))
    return np.asarray(family.evaluate(mu))


def objective(family: Any, values: np.ndarray, atoms: np.ndarray) -> np.ndarray:
    """Equation (8) row by row, in plain NumPy."""
    rows = [
        np.sum(family.numpy_score(v)(z).mean(axis=-1) ** 2)
        for v, z in zip(np.asarray(values), np.asarray(atoms), strict=True)
    ]
    return np.array(rows)


def test_equation_8_is_not_convex_in_the_atoms():
    """A midpoint above the chord: the paper's convexity claim fails for one expectile and two
    samples.
    """
    family, value = Expectiles((0.1,)), np.zeros((1, 1))
    left, middle, right = (
        objective(family, value, np.array([[9.0, z]]))[0] for z in (-1.0, 0.0, 1.0)
    )
    assert middle > 1.5 * (left + right) / 2


@pytest.mark.parametrize(
    ("name", "samples"), [("expectiles", None), ("huber", None), ("huber", 12)]
)
def test_always_better_than_its_start(name, samples):
    """Only descending steps are taken, and the values themselves never solve Equation (8)."""
    family = FAMILIES[name]
    for values in (random_values(family, 0), np.random.default_rng(1).normal(size=(BATCH, 7))):
        mu = EqualWeights(samples)(family, values)
        places = np.linspace(0, 6, samples or 7)
        start = np.stack([np.interp(places, np.arange(7), np.sort(row)) for row in values])
        assert np.all(objective(family, values, mu.atoms) < objective(family, values, start))
        np.testing.assert_allclose(mu.probs, 1 / (samples or 7))


@pytest.mark.parametrize("name", FAMILIES)
def test_no_atom_can_be_moved_alone_to_advantage(name):
    """A local minimiser: moving one atom by a hundredth of the range gains nothing worth having on
    nearly all rows.
    """
    family = FAMILIES[name]
    values = random_values(family, 2)
    atoms = np.asarray(EqualWeights()(family, values).atoms)
    reached = objective(family, values, atoms)
    step = 0.01 * np.ptp(values, axis=-1)
    best = np.full(BATCH, np.inf)
    for k in range(7):
        for sign in (-1, 1):
            moved = atoms.copy()
            moved[:, k] += sign * step
            best = np.minimum(best, objective(family, values, moved))
    scale = objective(family, values, np.sort(values))
    assert np.mean(best >= reached - 1e-3 * scale) >= 0.95


def test_at_least_as_good_as_scipy_minimize_on_most_rows():
    """On 85 % of random rows or more, the solver's Equation (8) is no larger than BFGS's (1 % and
    1e-12 allowed).
    """
    family = FAMILIES["expectiles"]
    values = random_values(family, 3)
    ours = objective(family, values, EqualWeights()(family, values).atoms)
    theirs = objective(family, values, solve_rows(family, values, "minimize")[0])
    assert np.mean(ours <= 1.01 * theirs + 1e-12) >= 0.85
    assert np.median(ours) <= np.median(theirs)


def test_two_moments_are_mean_plus_minus_std():
    """Equally weighted pairs with a given mean and variance are unique: an exact oracle for a
    smooth score.
    """
    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=20), rng.uniform(0.5, 2, 20)
    values = np.stack([mean, mean**2 + std**2], axis=-1)
    mu = EqualWeights()(Moments(2), values).sorted()
    np.testing.assert_allclose(mu.atoms, np.stack([mean - std, mean + std], axis=-1), atol=1e-6)


@pytest.mark.parametrize("imputation", [EqualWeights(), ScipyRoot(), ScipyMinimize()])
@pytest.mark.parametrize("name", FAMILIES)
def test_equal_values_are_a_point_mass(imputation, name):
    """Expectiles and Huber quantiles are all equal for a point mass only, which is its own
    imputation.
    """
    np.testing.assert_array_equal(imputation(FAMILIES[name], np.full((BATCH, 7), -3.0)).atoms, -3.0)


@pytest.mark.parametrize("exponent", [-100, -30, 3, 30, 100])
def test_scales_with_the_values(exponent):
    """Powers of two scale expectiles, scores and steps without rounding, so the atoms scale to the
    last bit.
    """
    family, scale = FAMILIES["expectiles"], 2.0**exponent
    values = random_values(family, 4)
    base, scaled = EqualWeights()(family, values), EqualWeights()(family, scale * values)
    np.testing.assert_array_equal(scaled.atoms, scale * base.atoms)


def test_shifts_with_the_values():
    """A shift changes rounding only: Equation (8) reaches the same value on nearly all rows (ties
    may part ways).
    """
    family = FAMILIES["expectiles"]
    values = random_values(family, 5)
    base = objective(family, values, EqualWeights()(family, values).atoms)
    shifted = objective(
        family, values, np.asarray(EqualWeights()(family, values + 64.0).atoms) - 64.0
    )
    assert np.mean(np.isclose(base, shifted, rtol=1e-2, atol=1e-10)) >= 0.9


anything = hnp.arrays(
    np.float64,
    (4, 7),
    elements=st.one_of(
        st.floats(-1e308, 1e308),
        st.floats(-10, 10),
        st.sampled_from([0.0, 1.0, -1.0, 1e-300, 1e300]),
    ),
)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("expectiles", np.float64),
        pytest.param("huber", np.float64, marks=pytest.mark.slow),
        pytest.param("huber", np.float32, marks=pytest.mark.slow),
    ],
)
@given(values=anything)
@settings(max_examples=60, deadline=None)
def test_total(name, dtype, values):
    """Any finite input, unsorted, tied, huge or tiny, gives finite atoms."""
    values = np.clip(values, np.finfo(dtype).min, np.finfo(dtype).max).astype(dtype)
    mu = EqualWeights()(FAMILIES[name], np.resize(values, (BATCH, 7)))
    assert mu.atoms.dtype == values.dtype
    assert np.isfinite(mu.atoms).all()


@pytest.mark.parametrize("method", ["root", "minimize"])
@given(values=hnp.arrays(np.float64, (1, 3), elements=st.floats(-1e308, 1e308)))
@settings(max_examples=25, deadline=None)
def test_scipy_is_total(method, values):
    """The last iterate is used whatever the solver reports, and what is not finite falls back to
    the values.
    """
    atoms, success = solve_rows(Expectiles(3), values, method)
    assert np.isfinite(atoms).all()
    assert success.shape == (1,)


def test_jit_and_vmap_agree_with_batches():
    """One computation, whether a batch is handed over or mapped over in a compiled function.

    The objective is not convex: a last bit may lead one row to another minimum nearby.
    """
    family, imputation = FAMILIES["expectiles"], EqualWeights()
    values = random_values(family, 6)
    with jax.enable_x64(True):
        mapped = jax.jit(jax.vmap(lambda v: imputation(family, v)))(jnp.asarray(values))
    reached = objective(family, values, mapped.atoms)
    expected = objective(family, values, imputation(family, values).atoms)
    assert np.isclose(reached, expected, rtol=1e-6, atol=1e-12).mean() >= 0.95
    np.testing.assert_allclose(reached, expected, rtol=0.05, atol=1e-12)


def test_scipy_root_is_the_papers_call():
    """`scipy.optimize.root` with default parameters, on Equation (7) written out here, started at
    the values.

    Where it finds no root, its last iterate depends on the last bit of Equation (7): both round it
    in the same way.
    """
    family = Expectiles(5)
    taus = np.array(family.taus)[:, None]
    values = random_values(family, 8, 6)
    atoms, success = solve_rows(family, values)
    for row, found, fine in zip(values, atoms, success, strict=True):

        def equation(z: np.ndarray, q: np.ndarray = row[:, None]) -> np.ndarray:
            return (2 * (taus * (z > q) + (1 - taus) * (z <= q)) * (q - z)).mean(-1)

        expected = scipy.optimize.root(equation, row)
        np.testing.assert_allclose(found, expected.x, rtol=1e-6, atol=1e-6)
        assert fine == expected.success


@pytest.mark.parametrize("imputation", [ScipyRoot(), ScipyMinimize(), ScipyMinimize(4)])
@pytest.mark.parametrize(
    "family",
    [Expectiles(3), pytest.param(LossOnly((0.1, 0.5, 0.9)), marks=pytest.mark.slow)],
)
def test_scipy_inside_compiled_and_mapped_functions(imputation, family):
    """The callback to the host hands over the same rows, so the same atoms come back bit for bit."""
    values = random_values(family, 9, 4)
    batch = imputation(family, values)
    with jax.enable_x64(True):
        compiled = jax.jit(lambda v: imputation(family, v))(jnp.asarray(values))
        mapped = jax.jit(jax.vmap(lambda v: imputation(family, v)))(jnp.asarray(values))
    for other in (compiled, mapped, imputation(family, values.reshape(2, 2, 3))):
        np.testing.assert_array_equal(np.reshape(other.atoms, batch.atoms.shape), batch.atoms)


@pytest.mark.usefixtures("without_shape_checks")
def test_errors_name_the_argument():
    with pytest.raises(ValueError, match=r"samples must be .* got 0"):
        EqualWeights(samples=0)
    with pytest.raises(ValueError, match=r"iterations must be .* got 0"):
        EqualWeights(iterations=0)
    with pytest.raises(ValueError, match=r"samples is 4: .* here 3"):
        ScipyRoot(4)(Expectiles(3), np.zeros(3))
    with pytest.raises(ValueError, match=r"method must be .* got 'newton'"):
        solve_rows(Expectiles(3), np.zeros(3), "newton")
