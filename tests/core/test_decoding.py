"""`decode`: the truth where cells tell it, the same answer in any units, and clear errors."""

from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from scipy.optimize import nnls

from edrl.core.decoding import Decoded, decode
from edrl.core.imputation.grid_weights import expectile_rows, expectiles_on_grid
from edrl.core.metrics import wasserstein
from edrl.core.particles import Particles

mpl.use("agg")

TRUTH = Particles([0.0, 4.0, 10.0, 20.0], [0.2, 0.4, 0.3, 0.1])


def cells(noise: float = 0.0, count: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Values and taus, in no order, without a tau of 1/2."""
    rng = np.random.default_rng(seed)
    taus = rng.uniform(0.05, 0.95, count)
    clean = expectiles_on_grid(np.asarray(TRUTH.probs), np.asarray(TRUTH.atoms), taus)
    return np.clip(clean + noise * rng.normal(size=count), 0, 20), taus


def distance(found: Decoded) -> float:
    return float(wasserstein(found.distribution, TRUTH))


def test_many_exact_cells_give_the_truth() -> None:
    found = decode(*cells(count=80), support=(0, 20))
    assert distance(found) < 0.1
    assert np.abs(found.residuals).max() < 0.01
    assert found.warnings == ()


def test_more_noise_costs_more_but_not_everything() -> None:
    """Mean distances over data sets; the spread of the truth is 5.8."""
    means = []
    for noise in (0.0, 0.1, 0.5):
        found = [decode(*cells(noise, seed=s), None, (0, 20), resamples=0) for s in range(6)]
        means.append(np.mean([distance(one) for one in found]))
    assert means[0] < means[1] < means[2] < 2


def test_residuals_loss_and_band_are_what_they_say() -> None:
    values, taus = cells(0.5)
    found = decode(values, taus, support=(0, 20), atoms=51, resamples=40)
    atoms, probs = np.asarray(found.distribution.atoms), np.asarray(found.distribution.probs)
    assert (atoms[0], atoms[-1], len(atoms)) == (0, 20, 51)
    for value, tau, fitted in zip(values, taus, values - found.residuals, strict=True):
        lacking = tau * (probs @ np.maximum(atoms - fitted, 0))
        assert (1 - tau) * (probs @ np.maximum(fitted - atoms, 0)) == pytest.approx(lacking)
        assert 0 <= value <= 20
    updates = [
        probs @ (np.where(atoms > value, tau, 1 - tau) * (value - atoms))
        for value, tau in zip(values, taus, strict=True)
    ]
    assert found.loss == pytest.approx(np.mean(np.square(updates)))
    assert found.band is not None
    low, high = found.band
    inside = (low <= np.cumsum(probs) + 1e-9) & (np.cumsum(probs) <= high + 1e-9)
    assert inside.mean() > 0.8
    assert decode(values, taus, resamples=0).band is None


@pytest.mark.parametrize("noise", [0.0, 0.1, 1.0])
def test_without_smoothness_no_other_weights_have_less_loss(noise: float) -> None:
    """By SciPy's `nnls`, to within the ridge that values without noise get."""
    values, taus = cells(noise)
    found = decode(values, taus, support=(0, 20), smoothness=0, resamples=0)
    rows = expectile_rows(values, taus, np.asarray(found.distribution.atoms))
    system = np.concatenate([rows, np.full((1, rows.shape[1]), 1e4)])
    weights, _ = nnls(system, np.append(np.zeros(len(rows)), 1e4), maxiter=20_000)
    least = np.mean((rows @ (weights / weights.sum())) ** 2)
    assert least - 1e-9 <= found.loss <= 1.001 * least + 1e-4
    smooth = decode(values, taus, support=(0, 20), resamples=0)
    assert found.loss <= smooth.loss
    again = decode(values, taus, support=(0, 20), smoothness=0, resamples=0)
    assert np.array_equal(again.distribution.probs, found.distribution.probs)


def test_smoothness_leads_from_the_least_loss_to_the_smooth_estimate() -> None:
    values, taus = cells(1.0)
    found = [decode(values, taus, 1.0, (0, 20), smoothness=s, resamples=9) for s in (0, 0.1, 1, 10)]
    assert np.all(np.diff([np.sum(one.distribution.probs**2) for one in found]) < 0)
    assert all(one.band is not None for one in found)


def test_it_is_deterministic_and_the_order_of_cells_does_not_matter() -> None:
    values, taus = cells(0.5)
    one, other = (decode(values, taus, support=(0, 20)) for _ in range(2))
    assert np.array_equal(one.distribution.probs, other.distribution.probs)
    assert np.array_equal(one.resampled, other.resampled)
    turned = decode(values[::-1], taus[::-1], support=(0, 20), resamples=0)
    assert np.allclose(turned.distribution.probs, one.distribution.probs, atol=1e-8)


def test_it_does_not_depend_on_units() -> None:
    values, taus = cells(0.5)
    one = decode(values, taus, 0.5, (0, 20), resamples=10)
    other = decode(1e3 * values - 7, taus, 500.0, (-7, 2e4 - 7), resamples=10)
    assert np.allclose(one.distribution.probs, other.distribution.probs, atol=1e-7)
    assert one.noise_scale == pytest.approx(other.noise_scale)


def test_upside_down_is_upside_down() -> None:
    """The expectiles of -Z at 1 - tau are those of Z with the other sign."""
    values, taus = cells(0.5)
    one = decode(values, taus, support=(0, 20), resamples=0)
    other = decode(-values, 1 - taus, support=(-20, 0), resamples=0)
    assert np.allclose(one.distribution.probs, other.distribution.probs[::-1], atol=1e-7)


def test_cells_with_less_noise_count_more() -> None:
    values, taus = cells(0.0)
    wrong = values.copy()
    wrong[::4] = np.clip(wrong[::4] + 3 * (-1.0) ** np.arange(10), 0, 20)
    noise = np.where(np.arange(40) % 4 == 0, 3.0, 0.05)
    blind = decode(wrong, taus, support=(0, 20), resamples=0)
    told = decode(wrong, taus, noise, (0, 20), resamples=0)
    assert distance(told) < 0.5 * distance(blind)
    assert told.noise_scale == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize(
    ("values", "taus"),
    [
        ([1.0, 2.0], [0.2, 0.8]),
        ([3.0, 3.0, 3.0], [0.2, 0.5, 0.8]),
        ([0.0, 0.0], [0.5, 0.5]),
        (list(range(300)), np.linspace(0.01, 0.99, 300).tolist()),
    ],
)
def test_odd_cells_are_decoded_without_a_word(values: list[float], taus: list[float]) -> None:
    """Two cells, equal values, one tau, more cells than atoms."""
    found = decode(values, taus, resamples=5)
    assert np.isfinite(found.residuals).all()
    assert found.warnings == ()


def test_contradictions_are_told() -> None:
    values, taus = cells(0.2)
    assert decode(values, taus, resamples=0).warnings == ()
    (fall,) = decode([5.0, 4.0, 3.0, 2.0], [0.1, 0.3, 0.6, 0.9], resamples=0).warnings
    assert "values fall with tau" in fall
    (noise,) = decode(*cells(2.0), noise=0.5, resamples=0).warnings
    assert "times as large as the noise that was given" in noise
    scattered = np.random.default_rng(3).uniform(0, 10, 30) + 0.1 * np.arange(30)
    (wide,) = decode(scattered, np.linspace(0.3, 0.7, 30), resamples=0).warnings
    assert "more than half as large" in wide
    values[7] = 19.0 if taus[7] < 0.5 else 1.0
    (single,) = decode(values, taus, support=(0, 20), resamples=0).warnings
    assert f"values[7] has value {values[7]:.4g} at tau {taus[7]:.3g}" in single


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": [1.0]}, "len(taus) must be that of values, 1, got 3"),
        ({"values": [1.0], "taus": [0.5]}, "at least two cells"),
        ({"values": []}, "that of values, 0"),
        ({"values": [[1.0, 2.0, 3.0]]}, "values.shape must have one axis"),
        ({"values": ["a", "b", "c"]}, "values must be a sequence of numbers"),
        ({"values": [1.0, np.nan, 2.0]}, "values[1] must be finite"),
        ({"taus": [0.2, 0.5, 1.0]}, "taus[2] must lie strictly between 0 and 1, got 1.0"),
        ({"taus": [0.0, 0.5, 0.9]}, "taus[0] must lie strictly between 0 and 1, got 0.0"),
        ({"noise": [0.1, 0.0, 0.1]}, "noise[1] must be greater than 0, got 0.0"),
        ({"noise": [0.1, 0.1]}, "len(noise) must be 1 or that of values, 3"),
        ({"support": (2.0, 1.0)}, "support must be two numbers, the lesser first"),
        ({"support": (0.0, 2.5)}, "values[2] must lie in the support [0, 2.5], got 3.0"),
        ({"smoothness": -1.0}, "smoothness must be a finite number in [0, inf]"),
        ({"atoms": 2}, "atoms must be a whole number of at least 3"),
        ({"resamples": -1}, "resamples must be a whole number of at least 0"),
    ],
)
@pytest.mark.usefixtures("without_shape_checks")
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"values": [1.0, 2.0, 3.0], "taus": [0.2, 0.5, 0.8], **change}
    with pytest.raises(ValueError, match=r"must|needed") as raised:
        decode(**given)
    assert message in str(raised.value)


def test_the_record_is_short_and_draws_itself() -> None:
    found = decode(*cells(0.5), 0.5, (0, 20), resamples=20)
    assert repr(found).startswith("Decoded(40 cells on [0, 20]: mean ")
    assert len(repr(found)) < 120
    figure = found.plot(TRUTH)
    left, right = figure.axes
    shown = [text.get_text() for text in left.get_legend().get_texts()]
    assert shown == ["truth", "decoded (▲ mean)", "90 % band, cells resampled", "cells"]
    dots = [line for line in right.lines if line.get_marker() == "o"]
    assert np.allclose(dots[0].get_xdata(), found.values)
    assert np.allclose(dots[0].get_ydata(), found.taus)
    with pytest.raises(ValueError, match="one distribution"):
        found.plot(Particles(np.zeros((2, 3))))
    mpl.pyplot.close("all")
