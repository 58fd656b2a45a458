"""Figure 7: an MDP in which the means that an algorithm learns decide whether it acts well."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import expon

from edrl import Categorical, Expectiles, Quantiles, Statistics
from edrl.paper.experiment import (
    Advance,
    Claim,
    Columns,
    Drawing,
    Experiment,
    Table,
    Tables,
    joined,
    select,
    table,
)
from edrl.paper.thresholds import judged
from edrl.report import style
from edrl.tabular import control, problems

_K = 3
_REWARD_ATOMS = 2001
_ENOUGH = 5  # so many quantiles capture enough of the tails
_ALGORITHMS = ("CDRL", "QDRL", "EDRL")


def _family(name: str, k: int) -> Statistics:
    # The paper's CDRL has its support points at 0, 1 and 2.
    makers: dict[str, Callable[[], Statistics]] = {
        "CDRL": lambda: Categorical(np.linspace(0, 2, k)),
        "QDRL": lambda: Quantiles(k),
        "EDRL": lambda: Expectiles(k),
    }
    return makers[name]()


def _ks(name: str, full: bool) -> list[int]:
    """The numbers of statistics; for QDRL, every number up to where its choice turns."""
    if full:
        ks = {3, 5, 7, 9, 11, 15, 21, 31, 51}
    else:
        ks = {3, 5, 11, 31} if name == "QDRL" else {3, 11}
    return sorted(ks | {1, 2, 4}) if name == "QDRL" else sorted(ks)


def measure(full: bool, advance: Advance) -> Tables:
    mdp = problems.control_mdp(_REWARD_ATOMS)
    cases = [(name, k) for name in _ALGORITHMS for k in _ks(name, full)]
    rows = []
    for number, (name, k) in enumerate(cases):
        advance(number / len(cases), f"{name}, K = {k}")
        found = control(mdp, _family(name, k))
        chosen = [found.policy.actions[0, 0] == action for action in range(2)]
        means = found.means()[0]
        rows.append(table(algorithm=name, k=k, action=["a1", "a2"], mean=means, chosen=chosen))
    x = np.linspace(-3, 5, 401)
    transitions = table(
        state=np.repeat(np.arange(mdp.num_states), mdp.num_actions),
        action=np.tile(["a1", "a2"], mdp.num_states),
        successor=np.asarray(mdp.successors)[..., 0].ravel(),
        terminal=np.repeat(mdp.terminal, mdp.num_actions),
    )
    densities = joined(
        table(action="a1", x=x, density=expon.pdf(x), mean=1.0),
        table(action="a2", x=x, density=expon.pdf(1.85 - x), mean=0.85),
    )
    return {"means": joined(*rows), "densities": densities, "transitions": transitions}


def draw(tables: Tables) -> list[Drawing]:
    figure, (graph, left, right) = style.axes(
        1, 3, width=11, height=3.4, width_ratios=(0.8, 1, 1.2)
    )
    _draw_graph(graph, tables["transitions"])
    _draw_densities(left, tables["densities"])
    _draw_means(right, tables)
    over_k, axes = style.axes(1, 1, width=6.5, height=3.2)
    _draw_advantage(axes, tables["means"])
    return [Drawing("figure-7", figure, _CAPTION), Drawing("figure-7-k", over_k, _CAPTION_K)]


def _draw_densities(axes: Axes, densities: Table) -> None:
    for action, colour in (("a1", "#444444"), ("a2", "#999999")):
        rows = select(densities, action=action)
        look: style.Options = {"color": colour, "alpha": 0.45, "linewidth": 0}
        axes.fill_between(rows["x"], rows["density"], label=f"action {action}", **look)
        axes.axvline(rows["mean"][0], color=colour, linestyle="--")
    axes.set(title="True returns from $x_0$, and their means", xlabel="return", ylabel="density")
    axes.set_ylim(0, 1.05)
    axes.legend()


def _draw_means(axes: Axes, tables: Tables) -> None:
    places = np.arange(1 + len(_ALGORITHMS))
    colours = [style.COLOURS[name] for name in ("truth", *_ALGORITHMS)]
    for shift, alpha, action in ((-0.18, 1.0, "a1"), (0.18, 0.45, "a2")):
        true_mean = select(tables["densities"], action=action)["mean"][0]
        learnt = select(tables["means"], k=_K, action=action)
        assert tuple(learnt["algorithm"]) == _ALGORITHMS
        heights = [true_mean, *learnt["mean"]]
        bars = axes.bar(places + shift, heights, 0.34, color=colours, alpha=alpha)
        axes.bar_label(bars, fmt="%.3f", fontsize=8)
        axes.bar_label(bars, [action] * len(bars), label_type="center", fontsize=8, color="white")
    axes.set_xticks(places, ["truth", *(f"{name}\n(K = {_K})" for name in _ALGORITHMS)])
    axes.set(title="Expected returns of both actions", ylabel="expected return", ylim=(0, 1.2))
    axes.grid(visible=False, axis="x")


def _draw_advantage(axes: Axes, means: Table) -> None:
    for name in _ALGORITHMS:
        first, second = _of_both_actions(means, name)
        advantage = first["mean"] - second["mean"]
        axes.plot(first["k"], advantage, label=name, **style.look_of(name))
    axes.axhline(0.15, color=style.COLOURS["truth"], linestyle=":", label="truth")
    axes.axhline(0, color="#888888", linewidth=0.8)
    axes.set(
        xscale="log", xlabel="number of statistics K", ylabel="E[return of a1] - E[return of a2]"
    )
    ks = sorted(set(means["k"]))
    axes.set_xticks(ks, [str(k) for k in ks])
    axes.minorticks_off()
    axes.legend()


def _draw_graph(axes: Axes, transitions: Table) -> None:
    """States as circles, placed by the action that leads to them, and what is paid at the end of
    each path.
    """
    places = {0: (0.0, 0.0), 1: (1.0, 0.5), 2: (1.0, -0.5), 3: (2.0, 0.5), 4: (2.0, -0.5)}
    rewards = {3: "Exp(1)", 4: "1.85 - Exp(1)"}
    drawn = set()
    for state, action, successor, terminal in zip(*transitions.values(), strict=True):
        if terminal or (state, successor) in drawn:
            continue
        drawn.add((state, successor))
        x, y = places[state]
        there = places.get(successor, (x + 0.75, y))
        arrow = {"arrowstyle": "-|>", "shrinkA": 14, "shrinkB": 14}
        axes.annotate("", there, (x, y), arrowprops=arrow)
        if state == 0:
            height = 1.15 * there[1] / 2 + 0.12 * np.sign(there[1])
            axes.text(0.3, height, action, ha="center", va="center")
        if state in rewards:
            axes.text(x + 0.1, y - 0.3, rewards[state], ha="center", fontsize=8)
    for state, (x, y) in places.items():
        circle = {"boxstyle": "circle", "fc": "white"}
        axes.text(x, y, f"$x_{state}$", ha="center", va="center", bbox=circle)
    axes.set(xlim=(-0.35, 2.9), ylim=(-1.1, 0.95), title="Two paths")
    axes.axis("off")


_CAPTION = (
    "Left: the MDP. Middle: the first action has the higher mean (dashed), the second the higher median. Right: the"
    " means that each algorithm learns; the greedy policy takes the higher of each pair. CDRL loses what lies"
    " outside [0, 2] and QDRL the tails, so both choose a2; EDRL learns both means exactly and chooses a1."
)
_CAPTION_K = (
    "The learnt advantage of the right action against the number of statistics: below zero the greedy policy is"
    " wrong. QDRL chooses wrongly with up to four quantiles and rightly with more; CDRL on [0, 2] chooses"
    " wrongly with any number of support points."
)


def judge(tables: Tables) -> list[Claim]:
    cdrl, qdrl, edrl = (_means(tables["means"], name, _K) for name in _ALGORITHMS)
    return [
        judged(
            "figure-7-cdrl",
            "Section 5.2",
            "CDRL on (0, 1, 2) prefers the second action, of lower mean",
            f"{cdrl[0]:.3f} and {cdrl[1]:.3f}",
            {"second mean over first": cdrl[1] / cdrl[0]},
        ),
        judged(
            "figure-7-qdrl",
            "Section 5.2",
            "QDRL with three quantiles prefers the second action, of lower mean",
            f"{qdrl[0]:.3f} and {qdrl[1]:.3f}",
            {"second mean over first": qdrl[1] / qdrl[0]},
        ),
        judged(
            "figure-7-edrl",
            "Section 5.2",
            "EDRL learns both means, 1 and 0.85, and acts optimally",
            f"{edrl[0]:.3f} and {edrl[1]:.3f}",
            {
                "largest error of a mean": max(abs(edrl[0] - 1), abs(edrl[1] - 0.85)),
                "first mean over second": edrl[0] / edrl[1],
            },
        ),
        _judge_number_of_quantiles(tables["means"]),
    ]


def _judge_number_of_quantiles(means: Table) -> Claim:
    """How many quantiles QDRL needs for the right choice."""
    first, second = _of_both_actions(means, "QDRL")
    ratios = second["mean"] / first["mean"]
    few = first["k"] < _ENOUGH
    listed = [f"{ratio:.3f}× for K = {k}" for k, ratio in zip(first["k"], ratios, strict=True)]
    return judged(
        "figure-7-qdrl-many",
        "edrl",
        "QDRL chooses wrongly with up to 4 quantiles only, and rightly from 5 on (the paper names no number)",
        "second mean over first: " + ", ".join(listed),
        {
            "second mean over first, each K up to 4": ratios[few].min(),
            "first mean over second, each K from 5": (1 / ratios[~few]).min(),
        },
    )


def _of_both_actions(means: Table, name: str) -> tuple[Columns, Columns]:
    """The rows of an algorithm, one for each K, for the first action and for the second."""
    return select(means, algorithm=name, action="a1"), select(means, algorithm=name, action="a2")


def _means(rows: Table, name: str, k: int) -> tuple[float, float]:
    """The learnt means of both actions."""
    first, second = select(rows, algorithm=name, k=k)["mean"]
    return float(first), float(second)


EXPERIMENT = Experiment(
    "figure-7",
    "Control: who learns the means?",
    "Figure 7, Section 5.2",
    "paper",
    "Five states; the reward at the end is Exp(1) after the first action and 1.85 - Exp(1) after the second (the"
    f" density printed in the paper lacks a sign), γ = 1. Greedy dynamic programming with K = {_K} statistics each,"
    f" CDRL's at (0, 1, 2); and with other K. The rewards are discretised into {_REWARD_ATOMS:,} atoms.",
    measure,
    draw,
    judge,
    (18.0, 40.0),
)
