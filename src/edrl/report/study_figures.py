"""The figures of a report that compare agents over all games.

Each is drawn from one table and nothing else.
"""

import itertools

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from edrl.report import style
from edrl.report.style import Drawing, Look, Looks
from edrl.study.tables import Columns, Table, select

_MEASURES = {
    "IQM": "interquartile mean",
    "median": "median over games",
    "mean": "mean over games",
    "optimality gap": "optimality gap (less is better)",
}
QUESTIONS = (
    ("er-dqn", "er-dqn-naive"),  # does imputation help expectiles
    ("qr-dqn-imputation", "qr-dqn"),  # and Huber quantiles
    ("er-dqn", "qr-dqn"),
    ("er-dqn", "qr-dqn-imputation"),
    ("er-dqn", "c51"),
    ("er-dqn", "dqn"),
    ("qr-dqn", "c51"),
    ("qr-dqn", "dqn"),
    ("c51", "dqn"),
)
"""Pairs of agents that the paper, or its reader, would ask about."""


def label(env: str) -> str:
    """A game's name for people."""
    suite, _, game = env.rpartition("/")
    return f"{game.replace('_', ' ')} (MinAtar)" if suite == "minatar" else env.replace("_", " ")


def agents_in(rows: Table, looks: Looks) -> list[str]:
    """The agents of a table, in the order of the report."""
    there = set(rows["agent"])
    return [agent for agent in looks if agent in there]


def aggregates(rows: Table, looks: Looks, kind: str) -> Drawing:
    """One panel a measure, one row an agent; the scores are `kind`: normalised or raw."""
    agents, shown = agents_in(rows, looks), [name for name in _MEASURES if name in rows["measure"]]
    names, width = style.Names(agents), max(8.0, 2.75 * len(shown))
    figure, panels = style.axes(1, len(shown), width=width, height=1.2 + names.height, sharey=True)
    for axes, name in zip(panels, shown, strict=True):
        for place, agent in enumerate(agents):
            found = select(rows, agent=agent, measure=name)
            _interval(axes, place, found, "value", looks[agent])
        title = "mean" if (kind, name) == ("raw", "mean") else _MEASURES[name]
        style.set_title(axes, title, (width - names.width) / len(shown))
        axes.grid(visible=False, axis="y")
        axes.margins(x=0.12)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda score, _: style.short_number(score)))
    names.write(panels[0])
    figure.supxlabel(f"{kind} final score", fontsize=10)
    return Drawing(
        "aggregates",
        figure,
        f"{kind.capitalize()} final scores of each agent over all games and seeds, with 95 %"
        " stratified bootstrap intervals.",
    )


def _interval(axes: Axes, place: float, row: Columns, name: str, look: Look) -> None:
    """The number and the interval of one row, side by side with others."""
    colour = look.colour
    low, high = float(row["low"][0]), float(row["high"][0])
    if not np.isnan(low):
        bar: style.Options = {"linewidth": 6, "alpha": 0.35, "solid_capstyle": "butt"}
        axes.plot([low, high], [place, place], color=colour, **bar)
    axes.plot(row[name], [place], look.marker, color=colour, markersize=6)


def profiles(rows: Table, looks: Looks, kind: str) -> Drawing:
    """The share of runs above each score, which is `kind`: normalised or raw."""
    figure, axes = style.axes(width=8, height=3.9)
    for agent in agents_in(rows, looks):
        found = select(rows, agent=agent)
        colour = looks[agent].colour
        axes.plot(found["tau"], found["share"], color=colour, label=agent)
        style.band(axes, found["tau"], found["low"], found["high"], colour, alpha=0.15)
    axes.set(
        xlabel=f"{kind} final score τ",
        ylabel="share of runs with a score > τ",
        ylim=(-0.02, 1.02),
    )
    axes.margins(x=0)
    style.legend_above(figure, looks, agents_in(rows, looks))
    return Drawing(
        "profiles",
        figure,
        f"Performance profiles: the share of runs whose {kind} final score is above τ, with"
        " pointwise 95 % stratified bootstrap bands. A curve above another everywhere is better at"
        " every level.",
    )


_CELL = 0.95  # inches: the width of a cell of the heat map


def improvement_matrix(rows: Table, looks: Looks) -> Drawing:
    """The probability that the row's agent beats the column's, as a heat map."""
    agents = agents_in(rows, looks)
    size, names = len(agents), style.Names(agents)
    figure, axes = style.axes(
        width=1.8 + names.width + _CELL * size, height=1.5 + max(0.55 * size, names.height)
    )
    chances = np.full((size, size), np.nan)
    for agent, other, probability, *_ in zip(*rows.values(), strict=True):
        chances[agents.index(agent), agents.index(other)] = probability
    image = axes.imshow(chances, cmap="PuOr", vmin=0, vmax=1, aspect="auto")
    for row, column in zip(*np.nonzero(~np.isnan(chances)), strict=True):
        chance = chances[row, column]
        colour = "white" if abs(chance - 0.5) > 0.3 else "black"  # against its background
        axes.text(column, row, f"{chance:.2f}", ha="center", va="center", color=colour)
    columns = [style.wrapped(agent, _CELL - 0.1, size=8) for agent in agents]
    axes.set_xticks(range(size), columns, fontsize=8)
    names.write(axes)
    axes.set(xlabel="theirs: Y", ylabel="ours: X", ylim=(size - 0.5, -0.5))
    axes.grid(visible=False)
    figure.colorbar(image, ax=axes, label="P(X > Y)")
    return Drawing(
        "improvement",
        figure,
        "Probability of improvement: how often a run of the row's agent X has a higher final score"
        " than one of the column's agent Y on the same game, ties as half, the mean over games.",
    )


def improvement_pairs(rows: Table, looks: Looks) -> Drawing:
    """The pairs one would ask about, with their intervals."""
    pairs = _pairs(agents_in(rows, looks), looks)
    names = style.Names([f"{agent} over {other}" for agent, other in pairs], width=3.6)
    figure, axes = style.axes(width=8, height=1.1 + names.height)
    for place, (agent, other) in enumerate(pairs):
        found = select(rows, agent=agent, other=other)
        _interval(axes, place, found, "probability", looks[agent])
    axes.axvline(0.5, color="black", linewidth=1, linestyle=":")
    names.write(axes)
    axes.set(xlim=(-0.02, 1.02), xlabel="probability of improvement P(X > Y)")
    axes.grid(visible=False, axis="y")
    return Drawing(
        "improvement-pairs",
        figure,
        "Pairs of agents with 95 % stratified bootstrap intervals; an interval that leaves out 1/2"
        " (dotted) tells the two agents apart on these games.",
    )


def _pairs(agents: list[str], looks: Looks) -> list[tuple[str, str]]:
    """The pairs to compare: those of `QUESTIONS`, variants of one agent, and all other agents.

    The first variant of an agent stands for it in questions.
    """
    first = _first_variants(agents, looks)
    asked = [(first[one], first[two]) for one, two in QUESTIONS if {one, two} <= first.keys()]
    named = set(itertools.chain.from_iterable(asked))
    others = [agent for agent in first.values() if agent in named]
    own = [agent for agent in first.values() if agent not in named]
    within = _variants_of_one(agents, looks)
    return [*asked, *within, *itertools.product(own, others), *itertools.combinations(own, 2)]


def _first_variants(agents: list[str], looks: Looks) -> dict[str, str]:
    """The first agent of each base, by the base's name."""
    first: dict[str, str] = {}
    for agent in agents:
        first.setdefault(looks[agent].base, agent)
    return first


def _variants_of_one(agents: list[str], looks: Looks) -> list[tuple[str, str]]:
    pairs = itertools.combinations(agents, 2)
    return [(one, two) for one, two in pairs if looks[one].base == looks[two].base]
