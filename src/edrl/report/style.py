"""One look for all plots: the same colour and marker for the same algorithm everywhere."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib
import matplotlib.colors
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from edrl.core.plot import STYLE
from edrl.deep.variant import AGENTS

# Okabe and Ito's colours, which the colour-blind can tell apart, and one of Tol's. Deep agents
# share the colour of their tabular counterpart.
COLOURS: dict[str, str] = {
    "truth": "#000000",
    "Monte Carlo": "#7f7f7f",
    "CDRL": "#0072B2",
    "QDRL": "#CC79A7",
    "EDRL": "#009E73",
    "EDRL-naive": "#D55E00",
    "EDRL-scipy": "#56B4E9",
    "EDRL-minimise": "#999933",
    "EDRL-samples": "#332288",
    "Huber-QDRL-naive": "#E69F00",
    "Huber-QDRL-samples": "#56B4E9",
    "Huber-QDRL-imputation": "#882255",
    "DQN": "#4d4d4d",  # learns a mean alone, which no tabular algorithm here does
    "C51": "#0072B2",
    "QR-DQN": "#E69F00",
    "QR-DQN-imputation": "#882255",
    "ER-DQN": "#009E73",
    "ER-DQN (scipy-root)": "#56B4E9",
    "ER-DQN-naive": "#D55E00",
    "IQN": "#CC79A7",
    "bound": "#000000",
}
MARKERS: dict[str, str] = {
    "truth": "o",
    "Monte Carlo": "x",
    "CDRL": "D",
    "QDRL": "P",
    "EDRL": "s",
    "EDRL-naive": "^",
    "EDRL-scipy": "v",
    "EDRL-minimise": "*",
    "EDRL-samples": "d",
    "Huber-QDRL-naive": "^",
    "Huber-QDRL-samples": "v",
    "Huber-QDRL-imputation": "s",
    "DQN": "o",
    "C51": "D",
    "QR-DQN": "^",
    "QR-DQN-imputation": "s",
    "ER-DQN": "s",
    "ER-DQN-naive": "^",
    "IQN": "P",
}


@dataclass(frozen=True)
class Drawing:
    """A figure, and a caption that says what to see in it."""

    name: str
    figure: Figure
    caption: str


@dataclass(frozen=True)
class Look:
    """How an agent is drawn wherever a report shows it, and which agent it is a variant of."""

    base: str
    colour: str
    marker: str


Looks = Mapping[str, Look]
"""The looks of a report's agents by their labels, in the order of tables."""


def looks(bases: Mapping[str, str]) -> dict[str, Look]:
    """A look for each agent, in the given order; no two are alike while there are colours.

    The first variant of an agent has the agent's own colour, and the others have the next spares.

    Args:
        bases: labels of agents, with the agents of which they are variants.
    """
    own = _own_names(bases)
    colours, markers = _spare_colours(own.values()), itertools.cycle(_SPARE_MARKERS)
    found = {}
    for label, base in bases.items():
        name = own.get(label, "")
        colour = COLOURS.get(name) or next(colours)
        found[label] = Look(base, colour, MARKERS.get(name) or next(markers))
    return found


def _spare_colours(own: Iterable[str]) -> Iterator[str]:
    """Colours that no entry of `COLOURS` in `own` has."""
    taken = {COLOURS[name] for name in own}
    spare = [colour for colour in (*_SPARE, *COLOURS.values()) if colour not in taken]
    return itertools.cycle(dict.fromkeys(spare))


def _own_names(bases: Mapping[str, str]) -> dict[str, str]:
    """The entry of `COLOURS` that belongs to a label: its own, or that of its base."""
    own = {label: label for label in bases if label in COLOURS}
    for label, base in bases.items():
        name = AGENTS.get(base, "")
        if name in COLOURS and name not in own.values():
            own.setdefault(label, name)
    return own


_SPARE = ("#332288", "#999933", "#AA4499", "#661100", "#44AA99", "#888888")
_SPARE_MARKERS = ("d", "*", "X", "h", "<", ">", "p")

Options: TypeAlias = dict[str, Any]
"""Keyword arguments of Matplotlib's methods, which have types of their own."""


def applied() -> AbstractContextManager[None]:
    """A context in which figures are drawn and saved in the style."""
    return matplotlib.rc_context(STYLE)


def axes(
    rows: int = 1, columns: int = 1, width: float = 8.0, height: float = 3.4, **options: Any
) -> tuple[Figure, Any]:
    """A figure of `width` x `height` inches and its axes: one, or an array of them."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, **options)


def save(figure: Figure, stem: Path) -> None:
    """Write `stem.png` and `stem.svg`."""
    figure.savefig(stem.with_name(stem.name + ".png"), dpi=150, facecolor="white")
    figure.savefig(stem.with_name(stem.name + ".svg"), metadata={"Date": None}, facecolor="white")


def shades(colour: str, count: int) -> list[tuple[float, float, float]]:
    """`count` shades of a colour, from light to full: for a quantity that grows."""
    full = np.array(matplotlib.colors.to_rgb(colour))
    return [tuple(1 - (1 - full) * weight) for weight in np.linspace(0.35, 1.0, count)]


def look_of(name: str) -> Options:
    """The colour and the marker of an algorithm, for `plot`."""
    return {"color": COLOURS[name], "marker": MARKERS[name]}


def stems(axes: Axes, atoms: np.ndarray, probs: np.ndarray, colour: str, label: str) -> None:
    """Atoms as vertical lines, as high as their probabilities."""
    axes.vlines(atoms, 0, probs, color=colour, linewidth=1.8, label=label)
    axes.plot(atoms, probs, "o", color=colour, markersize=3.5)
    axes.set_ylim(bottom=0)


def band(
    axes: Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray, colour: Any, alpha: float = 0.25
) -> None:
    """The area between two curves."""
    axes.fill_between(x, low, high, color=colour, alpha=alpha, linewidth=0)


def step_cdf(
    axes: Axes,
    atoms: np.ndarray,
    probs: np.ndarray,
    colour: str,
    label: str,
    ends: tuple[float, float],
    **options: Any,
) -> None:
    """The distribution function of sorted atoms between two ends."""
    levels = np.concatenate([[0.0], np.cumsum(probs)])
    places = np.concatenate([[ends[0]], atoms, [ends[1]]])
    axes.step(places, [*levels, levels[-1]], where="post", color=colour, label=label, **options)
