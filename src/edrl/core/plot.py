"""Drawing distributions. Matplotlib is imported when something is drawn, and not before."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from edrl.core.check import fail
from edrl.core.particles import Particles, check_samples
from edrl.core.types import Float

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

STYLE: dict[Any, Any] = {  # as Matplotlib's rc_context takes them
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10,
    "legend.fontsize": 9,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "svg.hashsalt": "edrl",  # the same data gives the same file
}
"""The look of all plots."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#332288", "#999933")
"""Okabe and Ito's, which the colour-blind can tell apart, and two of Tol's."""
TRUTH = "#999999"

_TAIL = 1e-3  # of the probability on either side, which need not be seen


class Curve(NamedTuple):
    """One distribution, and how it is drawn."""

    label: str  # for the legend; empty for none
    mu: Particles  # a single one
    colour: str
    width: float = 1.6


def plot_distributions(
    mu: Particles, truth: Particles | None = None, labels: Sequence[str] | None = None
) -> "matplotlib.figure.Figure":
    """Distribution functions in one panel; see `Particles.plot`."""
    curves = _curves(mu, labels)
    if truth is not None:
        if check_samples(truth).shape:
            raise fail("truth.shape", truth.shape, "it must be one distribution: index it, mu[0]")
        curves.insert(0, Curve(f"truth: {_in_words(truth)}", truth, TRUTH, 4.0))
    figure, panels = new_figure(1, 1, 6.0, 3.6)
    draw(panels[0, 0], curves, view_of(curves))
    label_axes(panels)
    panels[0, 0].legend(loc="best")
    return figure


def _curves(mu: Particles, labels: Sequence[str] | None) -> list[Curve]:
    """A curve for each distribution of a small batch."""
    count = int(np.prod(mu.shape))
    if count > len(COLOURS):
        right = f"at most {len(COLOURS)} fit into a picture: index the batch first, e.g. mu[0]"
        raise fail("mu.shape", mu.shape, right)
    names = _names(mu) if labels is None else list(labels)
    if len(names) != count:
        raise fail("labels", labels, f"{count} labels are needed")
    curves = []
    for place, name, colour in zip(np.ndindex(mu.shape), names, COLOURS, strict=False):
        one = mu[place] if place else mu
        curves.append(Curve(f"{name}: {_in_words(one)}" if name else _in_words(one), one, colour))
    return curves


def _names(mu: Particles) -> list[str]:
    """The places of all distributions in their batch."""
    return [", ".join(map(str, place)) for place in np.ndindex(mu.shape)]


def _in_words(mu: Particles) -> str:
    mean = _mean(mu)
    std = np.sqrt(np.asarray(mu.probs) @ (np.asarray(mu.atoms) - mean) ** 2)
    return f"mean {mean:.3g}, std {std:.3g}"


def _mean(mu: Particles) -> float:
    return float(np.asarray(mu.probs) @ np.asarray(mu.atoms))


def new_figure(
    rows: int, columns: int, width: float, height: float
) -> "tuple[matplotlib.figure.Figure, np.ndarray]":
    """A figure of pyplot, so that notebooks and `plt.show()` know it, and its panels [rows, columns].

    All panels have the same axes.
    """
    import matplotlib
    from matplotlib import pyplot

    # Made outside the style: a notebook's backend turns interactive at the first figure, and the
    # style's end would turn that off, so that no later figure would be shown.
    figure = pyplot.figure(figsize=(width, height), layout="constrained")
    with matplotlib.rc_context(STYLE):
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    return figure, panels


def draw(panel: "matplotlib.axes.Axes", curves: Sequence[Curve], view: tuple[float, float]) -> None:
    """Distribution functions as steps, and a tick below the axis at each mean."""
    for curve in curves:
        atoms, levels = _steps(curve.mu)
        places = np.concatenate([[min(view[0], atoms[0])], atoms, [max(view[1], atoms[-1])]])
        heights = np.concatenate([[0.0], levels, [1.0]])
        (line,) = panel.step(places, heights, where="post", label=curve.label or None)
        line.set(color=curve.colour, linewidth=curve.width, solid_capstyle="butt")
        size = 4 + curve.width
        panel.plot([_mean(curve.mu)], [-0.035], marker="^", color=curve.colour, markersize=size)
    panel.set_xlim(*view)
    panel.set_ylim(-0.07, 1.03)


def write_means(panel: "matplotlib.axes.Axes", curves: Sequence[Curve]) -> None:
    """The means as numbers, where distribution functions leave room."""
    for line, curve in enumerate(curves):
        text = f"mean {_mean(curve.mu):.3g}"
        height = 0.95 - 0.11 * line
        panel.text(0.04, height, text, transform=panel.transAxes, va="top", color=_dark(curve))


def _dark(curve: Curve) -> str:
    return "#666666" if curve.colour == TRUTH else curve.colour


def label_axes(panels: np.ndarray) -> None:
    """Name the axes along the left and the lower edge."""
    for panel in panels[:, 0]:
        panel.set_ylabel("P(return ≤ x)")
    for panel in panels[-1]:
        panel.set_xlabel("return x  (▲ mean)")


def view_of(curves: Sequence[Curve]) -> tuple[float, float]:
    """The part of the axis that holds all but a thousandth of each distribution's tails."""
    ends = []
    for curve in curves:
        atoms, levels = _steps(curve.mu)
        inner = atoms[(levels >= _TAIL) & (np.append(0.0, levels[:-1]) <= 1 - _TAIL)]
        ends += [float(inner[0]), float(inner[-1])]
    low, high = min(ends), max(ends)
    margin = 0.05 * (high - low) or 0.5 * max(1.0, abs(high))
    return low - margin, high + margin


def _steps(mu: Particles) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Sorted atoms and the levels that the distribution function reaches there."""
    atoms, probs = np.asarray(mu.atoms), np.asarray(mu.probs)
    order = np.argsort(atoms)
    order = order[probs[order] > 0]
    return atoms[order], np.cumsum(probs[order])
