"""The figures of a report that show each game, or scores against steps.

Each is drawn from one table and nothing else.
"""

import itertools

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, NullFormatter

from edrl.report import style
from edrl.report.study_figures import agents_in, label
from edrl.report.style import Drawing, Looks
from edrl.study.tables import Columns, Table, grouped, select


def _game_panels(
    games: list[str],
    columns: int,
    width: float,
    beside: float,
    margin: float,
    line: float,
    **options: bool,
) -> tuple[Figure, np.ndarray]:
    """A panel with a title for each game; those that are left over stay empty.

    Args:
        games: the games, in the order of panels.
        columns: how many panels stand side by side.
        width: the width of the figure.
        beside: the width of the figure without its panels.
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
            style.set_title(axes, label(env), (width - beside) / columns)
    return figure, panels


def curves(rows: Table, looks: Looks, expected: dict[tuple[str, str], int]) -> Drawing:
    """Evaluations, one panel a game; `expected` are the seeds that (game, agent) should have."""
    figure, fewer = _curves_of_games(rows, looks, expected, "score of evaluations")
    caption = (
        "Evaluations: the mean over seeds of their scores, with 95 % bootstrap bands over seeds."
    )
    return Drawing("curves", figure, caption + (f"{_DASHES} (numbers below)." if fewer else ""))


def training(rows: Table, looks: Looks, expected: dict[tuple[str, str], int]) -> Drawing:
    """Scores of training episodes, as `curves` draws those of evaluations."""
    figure, fewer = _curves_of_games(rows, looks, expected, "score in training")
    caption = (
        "Training: the mean over seeds of the scores of the episodes that an agent learns from,"
        " with 95 % bootstrap bands over seeds. A point is the mean of all episodes that ended in a"
        " fiftieth of a run. They are many, so there is little noise in it; the agent explores in"
        " them, and evaluations may be higher."
    )
    return Drawing("training", figure, caption + (f"{_DASHES}." if fewer else ""))


def _curves_of_games(
    rows: Table, looks: Looks, expected: dict[tuple[str, str], int], what: str
) -> tuple[Figure, bool]:
    """A panel for each game, and whether fewer runs than expected stand behind some curve."""
    agents, games = agents_in(rows, looks), list(dict.fromkeys(rows["env"]))
    columns = min(len(games), 3 if len(games) <= 12 else 4)
    width = 11 if columns > 1 else 8
    figure, panels = _game_panels(games, columns, width, 0.6 * columns, 0.6, 2.4)
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
        axes.set_ylabel(what)
    figure.supxlabel("agent steps", fontsize=10)
    style.legend_above(figure, looks, agents)
    return figure, fewer


def _shorten_numbers(axes: Axes) -> None:
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda score, _: style.short_number(score)))


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


def sample_efficiency(rows: Table, looks: Looks, expected: dict[str, int], kind: str) -> Drawing:
    """The interquartile mean of scores, which are `kind`, against steps.

    `expected` are the runs that an agent should have.
    """
    figure, axes = style.axes(width=8, height=3.9)
    fewer = False
    for agent in agents_in(rows, looks):
        found = select(rows, agent=agent)
        complete = found["runs"] >= expected[agent]
        _curve(axes, found, "IQM", complete, looks[agent].colour)
        fewer |= not complete.all()
    axes.set(xlabel="agent steps", ylabel=f"interquartile mean\nof {kind} scores")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.margins(x=0.01)
    style.legend_above(figure, looks, agents_in(rows, looks))
    return Drawing(
        "sample-efficiency",
        figure,
        f"Sample efficiency: the interquartile mean of the {kind} scores of single evaluations"
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
    names, width = style.Names(shown), 11 if columns > 2 else 8
    line = 0.8 + names.height
    figure, panels = _game_panels(
        games, columns, width, names.width, 0.7, line, sharex=True, sharey=True
    )
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
    names.write(first)
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
