"""Decoding: from measured expectiles to the distribution that they are expectiles of.

Cells that learn from rewards with different weights for good and bad news come to predict different
expectiles. Each measured cell gives a value and its tau. `decode` finds the distribution that
explains all cells best, by one convex problem (`imputation/grid_weights.py`, docs/decode.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from edrl.core.check import check_count, check_number, fail
from edrl.core.imputation.grid_weights import (
    Fit,
    expectile_rows,
    expectiles_on_grid,
    fit_weights,
    ridge_weights,
)
from edrl.core.particles import Particles
from edrl.core.types import Float, Int
from edrl.core.words import count

if TYPE_CHECKING:
    import matplotlib.figure

Cells = Float[np.ndarray, " K"]

BAND = (0.05, 0.95)
"""The quantiles over resampled cells between which the band lies."""
_MARGIN = 0.5  # of the values' range, on either side of it, if the support is not known
_REWEIGHTINGS = 2
_TOO_LARGE = 1.5  # times the given noise, from which on residuals contradict it
_OUTLYING = 4.5  # times the cells' robust standard deviation
_LEAST = 2e-3  # of the support: smaller residuals are those of the grid
_SCATTERED = (0.5, 0.05)  # of the values' standard deviation, and of the support


@dataclass(frozen=True)
class Decoded:
    """What `decode` found."""

    distribution: Particles
    """The estimate: weights on an even grid over the support."""
    values: Cells
    taus: Cells
    noise: Cells | None
    """The values' standard deviations, as they were given."""
    support: tuple[float, float]
    fitted: Cells
    """The expectiles of the distribution at the cells' taus."""
    noise_scale: float | None
    """How many times as large as the given noise the residuals are, but at least 1."""
    resampled: Float[np.ndarray, "resamples n"]
    """The estimate's weights from resampled cells, one row for each time."""

    @property
    def residuals(self) -> Cells:
        """By how much each value exceeds the expectile of the distribution at its tau."""
        return np.asarray(self.values - self.fitted)

    @property
    def warnings(self) -> tuple[str, ...]:
        """How the cells contradict each other; empty if they do not."""
        return self.contradictions([f"values[{cell}]" for cell in range(len(self.values))])

    def contradictions(self, names: Sequence[str]) -> tuple[str, ...]:
        """The same with other names for the cells, such as their lines in a file."""
        whole = _contradiction(self)
        single = [
            f"{names[cell]} has value {self.values[cell]:.4g} at tau {self.taus[cell]:.3g}, where"
            f" the others speak for {self.fitted[cell]:.4g}"
            for cell in _outlying(self).tolist()
        ]
        return tuple(single if whole is None else [whole, *single])

    @property
    def band(self) -> Float[np.ndarray, "2 n"] | None:
        """Where the distribution function lies at each atom in 90 % of resamples of the cells."""
        if not len(self.resampled):
            return None
        return np.asarray(np.quantile(np.cumsum(self.resampled, axis=-1), BAND, axis=0))

    @property
    def updates(self) -> Cells:
        """The expected update of each cell's value, (1 - tau) E[(v - Z)+] - tau E[(Z - v)+].

        It is 0 at the expectile. Without given noise these are believed to have equal noise.
        """
        rows = expectile_rows(self.values, self.taus, np.asarray(self.distribution.atoms))
        return np.asarray(rows @ np.asarray(self.distribution.probs))

    @property
    def loss(self) -> float:
        """The mean square of the updates, which the literature minimises."""
        return float(np.mean(self.updates**2))

    def plot(self, truth: Particles | None = None) -> "matplotlib.figure.Figure":
        """Draw the distribution function with its band, and the cells beside the fitted expectiles.

        Args:
            truth: One distribution to draw broad and grey under the estimate.

        Returns:
            A figure of Matplotlib's pyplot: `.savefig("decoded.png")` saves it.
        """
        from edrl.core.decoding_plot import plot_decoded

        return plot_decoded({"": self}, truth)

    def __repr__(self) -> str:
        """Short: the arrays can be asked for."""
        low, high = self.support
        probs, atoms = np.asarray(self.distribution.probs), np.asarray(self.distribution.atoms)
        mean = float(probs @ atoms)
        std = float(np.sqrt(probs @ (atoms - mean) ** 2))
        warned = f"; warnings: {len(self.warnings)}" if self.warnings else ""
        cells = count(len(self.values), "cell")
        return (
            f"Decoded({cells} on [{low:.4g}, {high:.4g}]: mean {mean:.4g},"
            f" std {std:.4g}, residuals {_rms(self.residuals):.3g}{warned})"
        )


def decode(
    values: ArrayLike,
    taus: ArrayLike,
    noise: ArrayLike | None = None,
    support: Sequence[float] | None = None,
    *,
    smoothness: float = 1.0,
    atoms: int = 101,
    resamples: int = 200,
) -> Decoded:
    """Decode the distribution whose expectiles were measured, the same for every call.

    Args:
        values: One value for each cell, at least two: a noisy expectile, such as a reversal point.
        taus: The cells' levels, strictly between 0 and 1. Order does not matter, a level may occur
            several times, and 1/2 may be missing. Both arrays have one axis.
        noise: The values' standard deviation, one for all or one for each cell. None: it is
            estimated, and all cells count the same. Where residuals turn out larger than the noise
            (taus have errors too), all of it is scaled up.
        support: The least and the greatest possible outcome. None: half of the values' range is
            added on either side. Give it if you know it.
        smoothness: 1 is the ridge that the noise asks for. 0 gives the distribution with the least
            loss, which follows the noise; among those with that loss it is the most even.
        atoms: The number of points of the even grid over the support.
        resamples: How often cells are drawn with replacement for the band; 0 for no band.
    """
    values, taus = _numbers("values", values), _numbers("taus", taus)
    _check_cells(values, taus)
    noise = None if noise is None else _noise_of(noise, len(values))
    low, high = _support_of(support, values)
    smoothness = check_number("smoothness", smoothness, 0.0)
    count = check_count("atoms", atoms, 3)
    check_count("resamples", resamples, 0)

    # On the support as [0, 1]: so nothing depends on units.
    width = high - low
    unit, grid = (values - low) / width, np.linspace(0, 1, count)
    rows = expectile_rows(unit, taus, grid)
    if noise is not None:
        rows = _in_units_of_noise(rows, unit, taus, noise / width)
    fit = fit_weights(rows, 0.0 if noise is None else 1.0, smoothness)
    fitted = low + width * expectiles_on_grid(fit.weights, grid, taus)
    scale = None if noise is None else float(np.sqrt(fit.variance))
    return Decoded(
        distribution=Particles(low + width * grid, fit.weights),
        values=values,
        taus=taus,
        noise=noise,
        support=(low, high),
        fitted=fitted,
        noise_scale=scale,
        resampled=_resampled(rows, fit, resamples),
    )


def _in_units_of_noise(
    rows: Float[np.ndarray, "K n"], values: Cells, taus: Cells, noise: Cells
) -> Float[np.ndarray, "K n"]:
    """Rows divided by the standard deviations of their noise.

    The slope of a row in its value, (1 - tau) F(v) + tau (1 - F(v)), turns noise of the value into
    noise of the row. F is that of the last weights.
    """
    grid = np.linspace(0, 1, rows.shape[-1])
    scaled, known = rows, 0.0
    for _ in range(_REWEIGHTINGS):
        fit = fit_weights(scaled, known)
        levels = np.interp(values, grid, np.cumsum(fit.weights))
        slopes = (1 - taus) * levels + taus * (1 - levels)
        scaled, known = rows / (slopes * noise)[:, None], 1.0
    return scaled


def _resampled(
    rows: Float[np.ndarray, "K n"], fit: Fit, resamples: int
) -> Float[np.ndarray, "resamples n"]:
    """Weights from cells that are drawn with replacement, with the same ridge."""
    count, n = rows.shape
    if resamples == 0:
        return np.zeros((0, n))
    # Only uniform numbers are the same in every version of NumPy.
    drawn = (count * np.random.default_rng(0).random((resamples, count))).astype(int)
    times = np.sum(drawn[:, :, None] == np.arange(count), axis=1)
    return ridge_weights(np.sqrt(times)[:, :, None] * rows, fit.ridge)


def _contradiction(found: Decoded) -> str | None:
    """What the cells as a whole say that no one distribution can, in words."""
    values, scatter, rms = found.values, float(found.values.std()), _rms(found.residuals)
    much = max(_SCATTERED[0] * scatter, _SCATTERED[1] * (found.support[1] - found.support[0]))
    if np.cov(_ranks(values), _ranks(found.taus))[0, 1] < 0:
        return "values fall with tau, while expectiles of one distribution rise"
    if found.noise_scale is not None and found.noise_scale > _TOO_LARGE:
        times = f"{found.noise_scale:.1f} times"
        return f"residuals are {times} as large as the noise that was given (taus may have errors)"
    if found.noise_scale is None and scatter > 0 and rms > much:  # equal values agree
        return (
            f"residuals ({rms:.3g}) are more than half as large as the differences between the"
            f" values ({scatter:.3g})"
        )
    return None


def _outlying(found: Decoded) -> Int[np.ndarray, " m"]:
    """Which cells are far from the distribution that the others speak for."""
    least = _LEAST * (found.support[1] - found.support[0])
    if found.noise is None or found.noise_scale is None:
        errors = found.updates
        usual = 1.4826 * np.median(np.abs(errors))  # the standard deviation of most
    else:
        errors, usual = found.residuals, found.noise_scale * found.noise
    return np.flatnonzero(np.abs(errors) > _OUTLYING * np.maximum(usual, least))


def _ranks(numbers: Cells) -> Cells:
    """Ranks, those of equal numbers averaged."""
    _, inverse, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - counts / 2)[inverse]


def _rms(numbers: Cells) -> float:
    return float(np.sqrt(np.mean(numbers**2)))


def _numbers(argument: str, given: ArrayLike) -> Cells:
    try:
        array = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise fail(argument, given, "it must be a sequence of numbers") from None
    if array.ndim != 1:
        raise fail(f"{argument}.shape", array.shape, "it must have one axis, the cells")
    if not np.isfinite(array).all():
        at = int(np.argmin(np.isfinite(array)))
        raise fail(f"{argument}[{at}]", float(array[at]), "it must be finite")
    return array


def _check_cells(values: Cells, taus: Cells) -> None:
    if len(values) != len(taus):
        raise fail("len(taus)", len(taus), f"it must be that of values, {len(values)}")
    if len(values) < 2:
        raise fail("len(values)", len(values), "at least two cells are needed")
    outside = ~((taus > 0) & (taus < 1))
    if outside.any():
        at = int(np.argmax(outside))
        raise fail(f"taus[{at}]", float(taus[at]), "it must lie strictly between 0 and 1")


def _noise_of(noise: ArrayLike, count: int) -> Cells:
    given = _numbers("noise", np.full(count, noise) if np.ndim(noise) == 0 else noise)
    if len(given) != count:
        raise fail("len(noise)", len(given), f"it must be 1 or that of values, {count}")
    if (given <= 0).any():
        at = int(np.argmax(given <= 0))
        raise fail(f"noise[{at}]", float(given[at]), "it must be greater than 0")
    return given


def _support_of(support: Sequence[float] | None, values: Cells) -> tuple[float, float]:
    least, greatest = float(values.min()), float(values.max())
    if support is None:
        margin = _MARGIN * (greatest - least) or max(abs(least), 1.0)
        return least - margin, greatest + margin
    ends = _numbers("support", list(support))
    if len(ends) != 2 or not ends[0] < ends[1]:
        raise fail("support", support, "it must be two numbers, the lesser first")
    low, high = map(float, ends)
    outside = (values < low) | (values > high)
    if outside.any():
        at = int(np.argmax(outside))
        right = f"it must lie in the support [{low:g}, {high:g}]"
        raise fail(f"values[{at}]", float(values[at]), right)
    return low, high
