"""Figure 8 and Table 1: the paper's agents on 57 Atari games, from its own table."""

import numpy as np

from edrl.paper.experiment import Advance, Claim, Drawing, Experiment, Tables, select
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
    normalised, summary = tables["human_normalised"], tables["summary"]
    agents = [name for name in normalised if name != "game"]
    colours = [style.COLOURS[agent] for agent in agents]
    figure, panels = style.axes(1, len(_MEASURES), width=10, height=3.2)
    for axes, name in zip(panels, _MEASURES, strict=True):
        rows = select(summary, measure=name)
        order = [rows["agent"].tolist().index(agent) for agent in agents]
        value, low, high = (rows[column][order] for column in ("value", "low", "high"))
        axes.bar(agents, value, color=colours)
        if name != "games won":
            axes.errorbar(
                agents,
                value,
                [value - low, high - value],
                fmt="none",
                ecolor="black",
                capsize=4,
                linewidth=1,
            )
        axes.set_title("games won (of 57)" if name == "games won" else f"{name}, human-normalised")
        numbers = [
            f"{number:.1f}" if name == "games won" else f"{number:.0f} %" for number in value
        ]
        labels = [
            f"{agent.replace('-naive', '*')}\n{number}"
            for agent, number in zip(agents, numbers, strict=True)
        ]
        axes.set_xticks(range(len(agents)), labels, fontsize=8)
        axes.grid(visible=False, axis="x")
    panels[0].set_ylabel("human-normalised score, %")

    table1, axes = style.axes(1, 1, width=8, height=10.5)
    ratio = np.array(normalised["ER-DQN"]) - np.array(normalised["QR-DQN"])
    by_ratio = np.argsort(ratio)
    won = ratio[by_ratio] > 0
    axes.barh(
        np.arange(len(by_ratio)),
        ratio[by_ratio],
        color=np.where(won, style.COLOURS["ER-DQN"], style.COLOURS["QR-DQN"]),
    )
    axes.set_xscale("symlog", linthresh=10)
    axes.set_yticks(
        np.arange(len(by_ratio)),
        [normalised["game"][i].replace("_", " ") for i in by_ratio],
        fontsize=7,
    )
    axes.set(
        ylim=(-0.7, len(by_ratio) - 0.3),
        xlabel="human-normalised score of ER-DQN minus that of QR-DQN, percentage points",
    )
    axes.grid(visible=False, axis="y")
    return [Drawing("figure-8", figure, _CAPTION), Drawing("table-1", table1, _CAPTION_TABLE)]


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
