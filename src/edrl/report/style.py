"""One look for all plots: the same colour and marker for the same algorithm everywhere."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib
import matplotlib.colors
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath
from matplotlib.ticker import EngFormatter

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


def text_width(text: str, size: float) -> float:
    """How wide a line of text is, in inches."""
    return float(TextPath((0, 0), text, size=size).get_extents().width) / 72 if text else 0.0


def wrapped(text: str, width: float, size: float) -> str:
    """A text in lines of at most `width` inches, where its words allow it.

    What stands in brackets begins a new line, so that it stays together if it can.
    """
    if text_width(text, size) <= width:
        return text
    lines = []
    for part in re.split(r" (?=\()", text):
        lines.append("")
        for word in _WORDS.split(part):
            if lines[-1] and text_width((lines[-1] + word).rstrip(), size) > width:
                lines.append("")
            lines[-1] += word
    return "\n".join(line.rstrip() for line in lines)


# Names of code, SmoothQuantiles or as_samples, have words as well; 1e-4 is one.
_WORDS = re.compile(r"(?<=[\s_:])|(?<=[A-Za-z]-)(?=[A-Za-z])|(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True)
class Names:
    """Names beside a vertical axis, one in a row, in lines of at most `width` inches."""

    names: Sequence[str]
    width: float = 2.2

    @cached_property
    def lines(self) -> list[str]:
        return [wrapped(name, self.width, STYLE["ytick.labelsize"]) for name in self.names]

    @property
    def height(self) -> float:
        """The height in inches of rows in which all names have room."""
        most = max(line.count("\n") for line in self.lines)
        return (0.34 + 0.17 * most) * len(self.names)

    def write(self, axes: Axes) -> None:
        axes.set_yticks(range(len(self.names)), self.lines)
        axes.set_ylim(len(self.names) - 0.4, -0.6)


def set_title(axes: Axes, title: str, room: float) -> None:
    """A title over a panel of `room` inches, in as many lines as it needs."""
    axes.set_title(wrapped(title, room - 0.25, STYLE["axes.titlesize"]))


def short_number(score: float) -> str:
    """A score in few letters: 20k, 1.2M or 0.05."""
    return EngFormatter(sep="")(score) if abs(score) >= 1000 else f"{score:g}"


def legend_above(figure: Figure, looks: Looks, agents: Sequence[str]) -> None:
    """Put a legend above the panels, where it covers no curve, in as many rows as it needs."""
    size, width = STYLE["legend.fontsize"], figure.get_figwidth()
    labels = [wrapped(agent, width - _HANDLE, size) for agent in agents]
    widest = max(text_width(line, size) for label in labels for line in label.split("\n"))
    most = max(1, int(width / (widest + _HANDLE)))
    rows = -(-len(agents) // most)
    columns = -(-len(agents) // rows)
    handles = []
    for agent, label in zip(agents, labels, strict=True):
        handles.append(Line2D([], [], color=looks[agent].colour, linewidth=3, label=label))
    # Matplotlib fills column after column, and people read row after row.
    ordered = [handles[column::columns] for column in range(columns)]
    figure.set_figheight(figure.get_figheight() + _LINE * (rows - 1))
    figure.legend(
        handles=list(itertools.chain.from_iterable(ordered)),
        loc="outside upper center",
        ncols=columns,
    )


_HANDLE = 0.65  # inches beside a label of a legend: its line and the space around it
_LINE = 0.2  # inches: the height of a row of a legend


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
