"""Weights on a grid: the solver against SciPy's, its conditions of optimality, and expectiles."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from edrl.core.families import Expectiles
from edrl.core.imputation.grid_weights import (
    expectile_levels,
    expectile_rows,
    expectiles_on_grid,
    fit_weights,
    ridge_weights,
)
from edrl.core.particles import Particles

GRID = np.linspace(0, 1, 41)


def rows_for(seed: int, cells: int = 20, noise: float = 0.05) -> np.ndarray:
    """Rows of noisy expectiles of a random distribution."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(len(GRID), 0.1))
    taus = rng.uniform(0.05, 0.95, cells)
    values = expectiles_on_grid(weights, GRID, taus) + noise * rng.normal(size=cells)
    return expectile_rows(np.clip(values, 0, 1), taus, GRID)


def by_nnls(rows: np.ndarray, ridge: float) -> np.ndarray:
    """The same weights by SciPy, with the sum as one heavy equation."""
    n, heavy = rows.shape[-1], 1e5
    parts = [rows, np.sqrt(ridge) * np.eye(n), np.full((1, n), heavy)]
    found, _ = nnls(np.concatenate(parts), np.append(np.zeros(len(rows) + n), heavy), maxiter=10**5)
    return found / found.sum()


@pytest.mark.parametrize("ridge", [1e-5, 1e-3, 1e-1, 10.0])
@pytest.mark.parametrize("cells", [2, 20, 100])
def test_weights_are_those_of_scipy(cells: int, ridge: float) -> None:
    """Also where there are more rows than weights, which are then summed up."""
    rows = rows_for(cells, cells)
    assert np.allclose(ridge_weights(rows, ridge), by_nnls(rows, ridge), atol=1e-8)


@given(st.integers(0, 10**6), st.integers(2, 60), st.floats(1e-6, 1e2))
@settings(max_examples=60)
def test_no_other_weights_are_better(seed: int, cells: int, ridge: float) -> None:
    """The conditions of optimality on the simplex: the slope is least exactly where weights are."""
    rows = rows_for(seed, cells, 0.2)
    weights = ridge_weights(rows, ridge)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    slope = rows.T @ (rows @ weights) + ridge * weights
    assert np.all(slope >= weights @ slope - 1e-9)


def test_a_batch_is_solved_as_its_parts_are() -> None:
    rows = np.stack([rows_for(seed) for seed in range(6)]).reshape(2, 3, 20, -1)
    found = ridge_weights(rows, 1e-3)
    assert found.shape == (2, 3, len(GRID))
    for place in np.ndindex(2, 3):
        assert np.allclose(found[place], ridge_weights(rows[place], 1e-3), atol=1e-9)


def test_a_large_ridge_gives_equal_weights() -> None:
    assert np.allclose(ridge_weights(rows_for(0), 1e9), 1 / len(GRID), atol=1e-8)


def test_the_noise_is_estimated() -> None:
    """The variance of A p at the truth, within a third, in the mean over data sets."""
    rng, estimated, true = np.random.default_rng(0), [], []
    weights = np.exp(-(((GRID - 0.4) / 0.2) ** 2))
    weights /= weights.sum()
    for _ in range(12):
        taus = rng.uniform(0.05, 0.95, 40)
        values = expectiles_on_grid(weights, GRID, taus) + 0.03 * rng.normal(size=40)
        rows = expectile_rows(values, taus, GRID)
        estimated.append(fit_weights(rows).variance)
        true.append(np.mean((rows @ weights) ** 2))
    assert np.mean(estimated) == pytest.approx(np.mean(true), rel=1 / 3)


def test_known_noise_is_the_least_that_is_assumed() -> None:
    assert fit_weights(rows_for(0, noise=0), least_variance=0.5).variance == 0.5


@given(st.integers(0, 10**6), st.integers(1, 12))
@settings(max_examples=30)
def test_expectiles_are_those_of_the_family(seed: int, atoms: int) -> None:
    rng = np.random.default_rng(seed)
    weights = np.zeros(len(GRID))
    weights[rng.choice(len(GRID), atoms, replace=False)] = rng.dirichlet(np.ones(atoms))
    family = Expectiles(9)
    taus = np.asarray(family.taus)
    expected = np.asarray(family.evaluate(Particles(GRID, weights)))
    found = expectiles_on_grid(weights, GRID, taus)
    assert np.allclose(found, expected, atol=1e-9)
    rows = expectile_rows(found, taus, GRID)
    assert np.allclose(rows @ weights, 0, atol=1e-9)


def test_levels_are_the_inverse_of_expectiles() -> None:
    weights = np.random.default_rng(1).dirichlet(np.ones(len(GRID)))
    levels = expectile_levels(weights, GRID)
    assert levels[0] == 0
    assert levels[-1] == 1
    assert np.allclose(expectiles_on_grid(weights, GRID, levels[1:-1]), GRID[1:-1], atol=1e-9)
    assert expectile_levels(np.array([0.0, 1.0, 0.0]), np.arange(3.0)).tolist() == [0.0, 0.5, 1.0]
