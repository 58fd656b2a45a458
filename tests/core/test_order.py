"""Sorting and merging by networks, and Huber quantiles by them, against NumPy."""

import jax
import numpy as np
import pytest

from edrl import HuberQuantiles, Particles
from edrl.core.order import merged_rows, sorted_pairs, sorted_rows

SIZES = (1, 2, 3, 16, 17, 64, 102)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("batch", [(), (5,), (2, 3)])
def test_rows_are_sorted(n: int, batch: tuple[int, ...]) -> None:
    """Each with what belongs to it, also where keys are equal."""
    rng = np.random.default_rng(n)
    keys = np.round(rng.normal(size=(*batch, n)), 1)
    others = np.arange(keys.size, dtype=float).reshape(keys.shape)
    np.testing.assert_array_equal(sorted_rows(keys), np.sort(keys))
    first, second = map(np.asarray, sorted_pairs(keys, others))
    np.testing.assert_array_equal(first, np.sort(keys))
    np.testing.assert_array_equal(np.sort(second), np.sort(others))
    np.testing.assert_array_equal(keys.ravel()[second.astype(int)], first)


def test_nan_spreads_over_its_row_alone() -> None:
    keys = np.random.default_rng(0).normal(size=(3, 20))
    keys[1, 7] = np.nan
    found = np.asarray(sorted_pairs(keys, keys)[0])
    np.testing.assert_array_equal(np.isnan(found).all(axis=-1), [False, True, False])
    np.testing.assert_array_equal(found[[0, 2]], np.sort(keys[[0, 2]]))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("lists", [1, 2, 3, 5])
def test_sorted_rows_are_merged(n: int, lists: int) -> None:
    given = np.sort(np.round(np.random.default_rng(n).normal(size=(lists, 4, n)), 1))
    merged, source = map(np.asarray, merged_rows([jax.numpy.asarray(x) for x in given]))
    np.testing.assert_array_equal(merged, np.sort(np.concatenate(given, axis=-1)))
    for i, numbers in enumerate(given):
        for row in range(4):
            np.testing.assert_array_equal(merged[row][source[row] == i], numbers[row])


def huber_quantiles(
    atoms: np.ndarray, probs: np.ndarray, kappa: float, taus: np.ndarray
) -> np.ndarray:
    """Of one row, from all pairs of knots and atoms: the excess of tau is linear between knots."""
    atoms, probs = atoms[probs > 0], probs[probs > 0]
    knots = np.sort(np.concatenate([atoms - kappa, atoms, atoms + kappa]))
    error = atoms - knots[:, None]
    above = np.clip(error, 0, kappa) @ probs
    below = np.clip(-error, 0, kappa) @ probs
    excess = taus[:, None] * above - (1 - taus[:, None]) * below
    return np.array([np.interp(0, -row, knots) for row in excess])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("kappa", [1e-3, 0.1, 1.0, 30.0])
def test_huber_quantiles_are_those_of_all_pairs(kappa: float, offset: float, dtype: type) -> None:
    """Whatever the width beside the spread; with equal atoms, padding and an offset."""
    rng = np.random.default_rng(0)
    atoms = np.round(3 * rng.normal(size=(6, 40)) * 4) / 4  # exact, with the offset, in float32
    atoms[:3] = np.round(atoms[:3])
    probs = rng.dirichlet(np.ones(40), 6)
    probs[1::2, ::3] = 0
    probs /= probs.sum(axis=-1, keepdims=True)
    family = HuberQuantiles(25, kappa=kappa)
    expected = [huber_quantiles(*row, kappa, family.taus) for row in zip(atoms, probs, strict=True)]
    atoms = np.where(probs > 0, atoms + offset, -1e9)
    found = family.evaluate(Particles(atoms.astype(dtype), probs.astype(dtype)))
    single, digits = dtype is np.float32, np.finfo(dtype).eps
    assert found.dtype == dtype
    error = np.asarray(found, np.float64) - offset - np.array(expected)
    assert np.abs(error).max() < (2e-4 if single else 1e-9) + offset * digits
