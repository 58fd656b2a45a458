"""Drawing what was decoded. Matplotlib is imported when something is drawn, and not before."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from edrl.core.check import fail
from edrl.core.decoding import BAND, Decoded
from edrl.core.imputation.grid_weights import expectile_levels
from edrl.core.particles import Particles
from edrl.core.plot import COLOURS, TRUTH, Curve, draw, new_figure

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

_ESTIMATE, _CELLS = COLOURS[:2]


def plot_decoded(
    decoded: Mapping[str, Decoded], truth: Particles | None = None
) -> "matplotlib.figure.Figure":
    """A row for each group: the distribution function on the left, the cells on the right."""
    if truth is not None and truth.shape:
        raise fail("truth.shape", truth.shape, "it must be one distribution: index it, mu[0]")
    figure, panels = new_figure(len(decoded), 2, 9.0, 0.6 + 2.8 * len(decoded))
    view = _view(decoded)
    for (left, right), (group, found) in zip(panels, decoded.items(), strict=True):
        name = f"{group}: " if group else ""
        left.set_title(f"{name}the decoded distribution")
        _draw_distribution(left, found, truth, view)
        right.set_title(f"{name}the {len(found.values)} cells that it must explain")
        _draw_cells(right, found)
    for panel in panels[-1]:
        panel.set_xlabel("value x")
    figure.align_ylabels()
    return figure


def _view(decoded: Mapping[str, Decoded]) -> tuple[float, float]:
    """All supports, with a small margin."""
    low = min(found.support[0] for found in decoded.values())
    high = max(found.support[1] for found in decoded.values())
    margin = 0.03 * (high - low)
    return low - margin, high + margin


def _draw_distribution(
    panel: "matplotlib.axes.Axes",
    found: Decoded,
    truth: Particles | None,
    view: tuple[float, float],
) -> None:
    atoms, mu = np.asarray(found.distribution.atoms), found.distribution
    curves = [] if truth is None else [Curve("truth", truth, TRUTH, 4.0)]
    draw(panel, [*curves, Curve("decoded (▲ mean)", mu, _ESTIMATE, 2.0)], view)
    if found.band is not None:
        share = f"{100 * (BAND[1] - BAND[0]):.0f} % band, cells resampled"
        low, high = found.band
        filled = panel.fill_between(atoms, low, high, step="post", label=share)
        filled.set(color=_ESTIMATE, alpha=0.2, linewidth=0)
    (ticks,) = panel.plot(found.values, np.zeros_like(found.values), "|", label="cells")
    ticks.set(color=_CELLS, markersize=9)
    panel.set_ylabel("P(Z ≤ x)")
    panel.legend(loc="lower right", bbox_to_anchor=(1, 0.1))  # above the ticks


def _draw_cells(panel: "matplotlib.axes.Axes", found: Decoded) -> None:
    """Each cell at its value and tau, and the tau of which each x is the expectile."""
    atoms = np.asarray(found.distribution.atoms)
    if len(found.resampled):
        levels = expectile_levels(found.resampled, atoms)
        low, high = np.quantile(levels, BAND, axis=0)
        panel.fill_between(atoms, low, high, color=_ESTIMATE, alpha=0.2, linewidth=0)
    levels = expectile_levels(np.asarray(found.distribution.probs), atoms)
    panel.plot(atoms, levels, color=_ESTIMATE, label="expectiles of the decoded")
    for value, fitted, tau in zip(found.values, found.fitted, found.taus, strict=True):
        panel.plot([fitted, value], [tau, tau], color=_CELLS, linewidth=0.7, alpha=0.6)
    (dots,) = panel.plot(found.values, found.taus, "o", label="cells, with their residuals")
    dots.set(color=_CELLS, markersize=4)
    if found.noise is not None:
        ends = found.values - found.noise, found.values + found.noise
        panel.hlines(
            found.taus, *ends, color=_CELLS, linewidth=3.0, alpha=0.3, label="noise of their values"
        )
    panel.set_ylabel("tau")
    panel.tick_params(labelleft=True)
    panel.legend(loc="lower right")
