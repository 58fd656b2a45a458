"""Figure 8 and Table 1: the paper's agents on 57 Atari games, from its own table."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from edrl.paper.experiment import (
    Advance,
    Claim,
    Columns,
    Drawing,
    Experiment,
    Table,
    Tables,
    select,
)
from edrl.paper.thresholds import judged
from edrl.report import style
from edrl.study import atari57

_MEASURES = ("mean", "median", "IQM", "games won")


def measure(full: bool, advance: Advance) -> Tables:
    normalised = atari57.normalised_table(atari57.paper_scores())
    return {
        "human_normalised": normalised,
        "summary": atari57.summary(normalised),
        "raw_scores": atari57.games(),
    }


def draw(tables: Tables) -> list[Drawing]:
    summary, by_game = _draw_summary(tables), _draw_games(tables["human_normalised"])
    return [
        Drawing("figure-8", summary, _CAPTION),
        Drawing("table-1", by_game, _CAPTION_TABLE),
    ]


def _draw_summary(tables: Tables) -> Figure:
    agents = [name for name in tables["human_normalised"] if name != "game"]
    figure, panels = style.axes(1, len(_MEASURES), width=10, height=3.2)
    for axes, name in zip(panels, _MEASURES, strict=True):
        rows = select(tables["summary"], measure=name)
        order = [rows["agent"].tolist().index(agent) for agent in agents]
        _draw_measure(axes, name, {column: entries[order] for column, entries in rows.items()})
    panels[0].set_ylabel("human-normalised score, %")
    return figure


def _draw_measure(axes: Axes, name: str, rows: Columns) -> None:
    agents, value = rows["agent"].tolist(), rows["value"]
    axes.bar(agents, value, color=[style.COLOURS[agent] for agent in agents])
    if name == "games won":
        numbers = [f"{number:.1f}" for number in value]
        axes.set_title("games won (of 57)")
    else:
        numbers = [f"{number:.0f} %" for number in value]
        axes.set_title(f"{name}, human-normalised")
        ends = [value - rows["low"], rows["high"] - value]
        look: style.Options = {"fmt": "none", "ecolor": "black", "capsize": 4, "linewidth": 1}
        axes.errorbar(agents, value, ends, **look)
    short = [agent.replace("-naive", "*") for agent in agents]
    labels = [f"{agent}\n{number}" for agent, number in zip(short, numbers, strict=True)]
    axes.set_xticks(range(len(agents)), labels, fontsize=8)
    axes.grid(visible=False, axis="x")


def _draw_games(normalised: Table) -> Figure:
    figure, axes = style.axes(1, 1, width=8, height=10.5)
    lead = np.array(normalised["ER-DQN"]) - np.array(normalised["QR-DQN"])
    order = np.argsort(lead)
    places = np.arange(len(order))
    colours = np.where(lead[order] > 0, style.COLOURS["ER-DQN"], style.COLOURS["QR-DQN"])
    axes.barh(places, lead[order], color=colours)
    axes.set_xscale("symlog", linthresh=10)
    names = [normalised["game"][place].replace("_", " ") for place in order]
    axes.set_yticks(places, names, fontsize=7)
    axes.set(
        ylim=(-0.7, len(order) - 0.3),
        xlabel="human-normalised score of ER-DQN minus that of QR-DQN, percentage points",
    )
    axes.grid(visible=False, axis="y")
    return figure


_CAPTION = (
    "* naive. Mean, median and interquartile mean (IQM) of human-normalised scores, with 95 % bootstrap intervals over"
    " the 57 games, and games won. ER-DQN leads in all four; a few games with huge scores dominate the"
    " mean, as its interval shows."
)
_CAPTION_TABLE = (
    "Game by game: where ER-DQN is ahead of QR-DQN (green) and where it is behind (orange); the axis is linear"
    " between -10 and 10 and logarithmic beyond."
)


def judge(tables: Tables) -> list[Claim]:
    def value(agent: str, name: str) -> float:
        return float(select(tables["summary"], agent=agent, measure=name)["value"][0])

    means = {agent: value(agent, "mean") for agent in atari57.PAPER_AGENTS}
    wins = {agent: value(agent, "games won") for agent in atari57.PAPER_AGENTS}
    gain = [means["ER-DQN"] / means[other] for other in ("QR-DQN", "ER-DQN-naive")]
    rest = tables["human_normalised"]
    game, top = max(zip(rest["game"], rest["ER-DQN"], strict=True), key=lambda pair: pair[1])
    share = top / (means["ER-DQN"] * len(rest["game"]))
    return [
        judged(
            "figure-8-mean",
            "Section 5.3",
            "ER-DQN's mean is a substantial improvement over QR-DQN and ER-DQN-naive",
            f"{100 * (gain[0] - 1):.0f} % and {100 * (gain[1] - 1):.0f} % higher"
            f" ({game.replace('_', ' ')} alone makes {100 * share:.0f} % of ER-DQN's mean)",
            {"least ratio of means": min(gain)},
            kind="identity",
        ),
        judged(
            "table-1-wins",
            "Appendix D.4",
            "ER-DQN has the best score on most games",
            ", ".join(f"{agent} {number:.1f}" for agent, number in wins.items()) + " (ties shared)",
            {"games of 57": wins["ER-DQN"]},
            kind="identity",
        ),
    ]


EXPERIMENT = Experiment(
    "figure-8",
    "57 Atari games, from the paper's table",
    "Figure 8, Section 5.3; Table 1, Appendix D.4",
    "paper",
    "The scores printed in the paper's appendix, normalised by those of a random agent and of a human: nothing is"
    " trained here. QR-DQN learns 200 Huber quantiles, ER-DQN-naive 201 expectiles, ER-DQN 11 expectiles with"
    " imputation. The paper's curves over training frames are not printed as numbers and are not shown.",
    measure,
    draw,
    judge,
    (1.0, 6.0),
)
