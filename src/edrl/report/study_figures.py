"""The figures of a report on runs: each is drawn from one table and nothing else."""

import itertools

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator, NullFormatter

from edrl.report import style
from edrl.report.style import Drawing, Look, Looks
from edrl.study.tables import Columns, Table, grouped, select

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


def aggregates(rows: Table, looks: Looks) -> Drawing:
    """One panel a measure, one row an agent."""
    agents = agents_in(rows, looks)
    figure, panels = style.axes(1, 4, width=11, height=1.1 + 0.34 * len(agents), sharey=True)
    for axes, (name, title) in zip(panels, _MEASURES.items(), strict=True):
        for place, agent in enumerate(agents):
            found = select(rows, agent=agent, measure=name)
            _interval(axes, place, found, "value", looks[agent])
        axes.set_title(title)
        axes.grid(visible=False, axis="y")
        axes.margins(x=0.12)
        axes.xaxis.set_major_locator(MaxNLocator(4))
    panels[0].set_yticks(range(len(agents)), agents)
    panels[0].set_ylim(len(agents) - 0.4, -0.6)
    figure.supxlabel("normalised final score", fontsize=10)
    return Drawing(
        "aggregates",
        figure,
        "Normalised final scores of each agent over all games and seeds, with 95 % stratified"
        " bootstrap intervals.",
    )


def _interval(axes: Axes, place: float, row: Columns, name: str, look: Look) -> None:
    """The number and the interval of one row, side by side with others."""
    colour = look.colour
    low, high = float(row["low"][0]), float(row["high"][0])
    if not np.isnan(low):
        bar: style.Options = {"linewidth": 6, "alpha": 0.35, "solid_capstyle": "butt"}
        axes.plot([low, high], [place, place], color=colour, **bar)
    axes.plot(row[name], [place], look.marker, color=colour, markersize=6)


def profiles(rows: Table, looks: Looks) -> Drawing:
    """The share of runs above each score."""
    figure, axes = style.axes(width=8, height=3.9)
    for agent in agents_in(rows, looks):
        found = select(rows, agent=agent)
        colour = looks[agent].colour
        axes.plot(found["tau"], found["share"], color=colour, label=agent)
        style.band(axes, found["tau"], found["low"], found["high"], colour, alpha=0.15)
    axes.set(
        xlabel="normalised final score τ",
        ylabel="share of runs with a score > τ",
        ylim=(-0.02, 1.02),
    )
    axes.margins(x=0)
    _legend_outside(figure, agents_in(rows, looks), looks)
    return Drawing(
        "profiles",
        figure,
        "Performance profiles: the share of runs whose normalised final score is above τ, with"
        " pointwise 95 % stratified bootstrap bands. A curve above another everywhere is better at"
        " every level.",
    )


def improvement_matrix(rows: Table, looks: Looks) -> Drawing:
    """The probability that the row's agent beats the column's, as a heat map."""
    agents = agents_in(rows, looks)
    size = len(agents)
    figure, axes = style.axes(width=2.6 + 0.95 * size, height=1.5 + 0.55 * size)
    chances = np.full((size, size), np.nan)
    for agent, other, probability, *_ in zip(*rows.values(), strict=True):
        chances[agents.index(agent), agents.index(other)] = probability
    image = axes.imshow(chances, cmap="PuOr", vmin=0, vmax=1, aspect="auto")
    for row, column in zip(*np.nonzero(~np.isnan(chances)), strict=True):
        chance = chances[row, column]
        colour = "white" if abs(chance - 0.5) > 0.3 else "black"  # against its background
        axes.text(column, row, f"{chance:.2f}", ha="center", va="center", color=colour)
    broken = [agent.replace("-imputation", "-\nimputation") for agent in agents]
    axes.set_xticks(range(size), broken, fontsize=8)
    axes.set_yticks(range(size), agents)
    axes.set(xlabel="theirs: Y", ylabel="ours: X")
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
    figure, axes = style.axes(width=8, height=1.1 + 0.34 * len(pairs))
    for place, (agent, other) in enumerate(pairs):
        found = select(rows, agent=agent, other=other)
        _interval(axes, place, found, "probability", looks[agent])
    axes.axvline(0.5, color="black", linewidth=1, linestyle=":")
    axes.set_yticks(range(len(pairs)), [f"{agent} over {other}" for agent, other in pairs])
    axes.set(
        xlim=(-0.02, 1.02),
        ylim=(len(pairs) - 0.4, -0.6),
        xlabel="probability of improvement P(X > Y)",
    )
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
    first: dict[str, str] = {}
    for agent in agents:
        first.setdefault(looks[agent].base, agent)
    asked = [(first[one], first[two]) for one, two in QUESTIONS if one in first and two in first]
    named = set(itertools.chain.from_iterable(asked))
    others = [agent for agent in first.values() if agent in named]
    own = [agent for agent in first.values() if agent not in named]
    within = _variants_of_one(agents, looks)
    return [*asked, *within, *itertools.product(own, others), *itertools.combinations(own, 2)]


def _variants_of_one(agents: list[str], looks: Looks) -> list[tuple[str, str]]:
    pairs = itertools.combinations(agents, 2)
    return [(one, two) for one, two in pairs if looks[one].base == looks[two].base]


def _game_panels(
    games: list[str], columns: int, width: float, margin: float, line: float, **options: bool
) -> tuple[Figure, np.ndarray]:
    """A panel with a title for each game; those that are left over stay empty.

    Args:
        games: the games, in the order of panels.
        columns: how many panels stand side by side.
        width: the width of the figure.
        margin: the height of the figure without its panels.
        line: the height of a line of panels.
        options: whether panels share their axes.
    """
    lines = -(-len(games) // columns)
    height = margin + line * lines
    figure, panels = style.axes(
        lines, columns, width=width, height=height, squeeze=False, **options
    )
    for axes, env in itertools.zip_longest(panels.flat, games):
        if env is None:
            axes.axis("off")
        else:
            axes.set_title(label(env))
    return figure, panels


def curves(rows: Table, looks: Looks, expected: dict[tuple[str, str], int]) -> Drawing:
    """One panel a game; `expected` are the seeds that (game, agent) should have."""
    agents, games = agents_in(rows, looks), list(dict.fromkeys(rows["env"]))
    columns = min(len(games), 3 if len(games) <= 12 else 4)
    figure, panels = _game_panels(games, columns, 11 if columns > 1 else 8, 0.6, 2.4)
    by_game = dict(zip(games, panels.flat, strict=False))
    found, fewer = grouped(rows, "env", "agent"), False
    for env, agent in itertools.product(games, agents):
        if (env, agent) in found:
            complete = found[env, agent]["seeds"] >= expected[env, agent]
            _curve(by_game[env], found[env, agent], "mean", complete, looks[agent].colour)
            fewer |= not complete.all()
    for axes in by_game.values():
        _shorten_numbers(axes)
        axes.margins(x=0.02)
    for axes in panels[:, 0]:
        axes.set_ylabel("score")
    figure.supxlabel("agent steps", fontsize=10)
    _legend_outside(figure, agents, looks, columns)
    caption = (
        "Training curves: the mean over seeds of evaluation scores, with 95 % bootstrap bands over"
        " seeds."
    )
    return Drawing("curves", figure, caption + (f"{_DASHES} (numbers below)." if fewer else ""))


def _shorten_numbers(axes: Axes) -> None:
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda score, _: _short(score)))


def _short(score: float) -> str:
    """A score in few letters: 20k, 1.2M or 0.05."""
    return EngFormatter(sep="")(score) if abs(score) >= 1000 else f"{score:g}"


_DASHES = " Dashed where fewer runs than there should be stand behind it"


def _curve(axes: Axes, found: Columns, name: str, complete: np.ndarray, colour: str) -> None:
    """A column against steps with its band: full where all runs are there, dashed where fewer."""
    step, value = found["step"], found[name]
    style.band(axes, step, found["low"], found["high"], colour, alpha=0.15)
    # The dashed line begins where the full one ends.
    partial = ~complete | np.append(~complete[1:], False)
    marker = "." if len(step) == 1 else ""
    axes.plot(step, np.where(complete, value, np.nan), color=colour, marker=marker)
    axes.plot(step, np.where(partial, value, np.nan), color=colour, linestyle=(0, (2.5, 1.2)))


def sample_efficiency(rows: Table, looks: Looks, expected: dict[str, int]) -> Drawing:
    """The interquartile mean against steps; `expected` are the runs that an agent should have."""
    figure, axes = style.axes(width=8, height=3.9)
    fewer = False
    for agent in agents_in(rows, looks):
        found = select(rows, agent=agent)
        complete = found["runs"] >= expected[agent]
        _curve(axes, found, "IQM", complete, looks[agent].colour)
        fewer |= not complete.all()
    axes.set(xlabel="agent steps", ylabel="interquartile mean\nof normalised scores")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.margins(x=0.01)
    _legend_outside(figure, agents_in(rows, looks), looks)
    return Drawing(
        "sample-efficiency",
        figure,
        "Sample efficiency: the interquartile mean of the normalised scores of single evaluations"
        " against steps, with pointwise 95 % stratified bootstrap bands, where every game has been"
        " evaluated." + (f"{_DASHES}." if fewer else ""),
    )


def calibration(rows: Table, looks: Looks) -> Drawing:
    """One panel a game, one row an agent, one mark a run.

    An agent that learns the mean alone has no spread and is left out.
    """
    shown = [agent for agent in agents_in(rows, looks) if select(rows, agent=agent)["spread"].any()]
    games = list(dict.fromkeys(rows["env"]))
    columns = min(len(games), 5)
    width, line = (11 if columns > 2 else 8), 0.6 + 0.3 * len(shown)
    figure, panels = _game_panels(games, columns, width, 0.7, line, sharex=True, sharey=True)
    for axes, env in zip(panels.flat, games, strict=False):
        for place, agent in enumerate(shown):
            ratio = _spread_over_scatter(select(rows, env=env, agent=agent))
            places, colour = np.full(len(ratio), place), looks[agent].colour
            axes.plot(ratio, places, looks[agent].marker, color=colour, markersize=5, alpha=0.6)
        axes.axvline(1.0, color="black", linewidth=1, linestyle=":")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:g}"))
        axes.grid(visible=False, axis="y")
    first = panels[0, 0]  # of panels that share their axes
    low, high = first.get_xlim()
    # Numbers stand between powers of ten where these are too few to read a number by.
    few = high < 100 * low
    first.xaxis.set_minor_formatter(FuncFormatter(_two_and_five) if few else NullFormatter())
    first.set_yticks(range(len(shown)), shown)
    first.set_ylim(len(shown) - 0.4, -0.6)
    text = "learnt standard deviation of the return / that of the returns got"
    figure.supxlabel(text, fontsize=10)
    return Drawing(
        "calibration",
        figure,
        "The learnt standard deviation of the discounted return, as a multiple of how far the"
        " returns that the agent then got scatter around what it expected: one mark a run. Left of"
        " 1 (dotted) learnt distributions are too narrow, right of it too wide.",
    )


def _spread_over_scatter(rows: Columns) -> np.ndarray:
    """The ratio in each run that has both."""
    known = (rows["spread"] > 0) & (rows["scatter"] > 0)
    return np.asarray(rows["spread"][known] / rows["scatter"][known])


def _two_and_five(number: float, _: int) -> str:
    """The label of a tick: 2, 5, 20, 0.5 and so on; the numbers between them have none."""
    return f"{number:g}" if f"{number:e}"[0] in "25" else ""


def _legend_outside(figure: Figure, agents: list[str], looks: Looks, columns: int = 3) -> None:
    """Put a legend above the panels, where it covers no curve."""
    handles = []
    for agent in agents:
        handles.append(Line2D([], [], color=looks[agent].colour, linewidth=3, label=agent))
    most = 6 if columns > 1 else 3
    figure.legend(handles=handles, loc="outside upper center", ncols=min(len(agents), most))
