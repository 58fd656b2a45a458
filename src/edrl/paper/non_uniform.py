"""Appendix C: no number of statistics makes the largest error small, though the mean error
vanishes.

For EDRL the largest error over all levels does not vanish either, but that over levels away from 0
and 1 does: docs/edrl-theorem.md proves both.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from edrl.core.families import Categorical, Expectiles, Quantiles, midpoints
from edrl.core.statistics import Statistics
from edrl.core.types import Array
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
    summarised,
    table,
)
from edrl.paper.forks import (
    CDRL_GAMMA,
    INNER,
    QDRL_GAMMA,
    M,
    measure_uniform,
    solve_lemmas,
    two_step_returns,
)
from edrl.paper.thresholds import judged
from edrl.report import style
from edrl.tabular import dp
from edrl.tabular.mdp import MDP
from edrl.tabular.problems import cdrl_not_uniform, qdrl_not_uniform
from edrl.theory.bounds import cdrl_bound, qdrl_bound

CDRL_ERROR = 1 / (2 * (2**M + 1))
SHOWN = {"CDRL": 33, "QDRL": 21, "EDRL": 21}  # the K of the drawing of statistics


def measure(full: bool, advance: Advance) -> Tables:
    """Largest and mean errors over K, the statistics themselves for one K, and EDRL's errors."""
    depths = range(3, 11) if full else (3, 5, 7, 9)
    ks = (3, 5, 11, 21, 41, 81, 161, 321, 641) if full else (5, 21, 81, 321)
    edrl_ks = ks if full else ks[:3]  # compilations make it the slowest
    generations = 600 if full else 100
    errors, statistics = _lemmas(depths, ks, advance)
    edrl, uniform = [], []
    for i, k in enumerate(edrl_ks):
        advance(0.4 + 0.6 * i / len(edrl_ks), f"EDRL, K = {k}")
        family = Expectiles(midpoints(k))
        learnt, true = solve_lemmas(family, depths)
        names = ["first lemma"] * len(depths) + ["second lemma"]
        edrl.append(table(mdp=names, k=k, largest=np.abs(learnt - true).max(axis=-1)))
        uniform.append(measure_uniform(family, generations))
        if k == SHOWN["EDRL"]:
            shown = {"place": family.taus, "learnt": learnt[-1], "true": true[-1]}
            statistics.append(table(algorithm="EDRL", k=k, **shown))
    tables = {"errors": errors, "statistics": joined(*statistics)}
    return tables | {"edrl": joined(*edrl), "uniform": joined(*uniform)}


class Case(NamedTuple):
    """An MDP of a lemma, the statistics learnt on it, and the bound on their mean error."""

    algorithm: str
    k: int
    mdp: MDP
    family: Categorical | Quantiles
    bound: float


def _cases(depths: Sequence[int], ks: Sequence[int]) -> list[Case]:
    cases = []
    for depth in depths:
        k = 2**depth + 1
        mdp, family = cdrl_not_uniform(M, depth, "A"), Categorical(np.arange(k) / 2**depth)
        cases.append(Case("CDRL", k, mdp, family, cdrl_bound(k, CDRL_GAMMA)))
    for k in ks:
        mdp, bound = qdrl_not_uniform(k, gamma=QDRL_GAMMA), qdrl_bound(k, QDRL_GAMMA, 1.0)
        cases.append(Case("QDRL", k, mdp, Quantiles(k), bound))
    return cases


def _lemmas(
    depths: Sequence[int], ks: Sequence[int], advance: Advance
) -> tuple[Table, list[Table]]:
    """CDRL and QDRL on the MDPs of their lemmas: errors, and the statistics for one K."""
    cases = _cases(depths, ks)
    errors, statistics = [], []
    for i, (algorithm, k, mdp, family, bound) in enumerate(cases):
        advance(0.4 * i / len(cases), f"{algorithm}, K = {k}")
        learnt = dp.evaluate(mdp, 0, family).values[:, 0]
        true = np.asarray(family.evaluate(two_step_returns(mdp)))
        off = np.abs(learnt - true)
        where: dict[str, object] = {"algorithm": algorithm, "k": k}
        sizes = {"largest": [off.max()], "mean": off.mean(axis=-1).max(), "bound": bound}
        key = {"learnt": _key(learnt, family), "true": _key(true, family)}
        errors.append(table(**where, **sizes, **key))
        if k == SHOWN[algorithm]:
            shown = {"place": _places(family), "learnt": learnt[0], "true": true[0]}
            statistics.append(table(**where, **shown))
    return joined(*errors), statistics


def _places(family: Categorical | Quantiles) -> Array:
    """Where statistics are drawn: the left ends of cells, or levels."""
    return family.support[:-1] if isinstance(family, Categorical) else family.taus


def _key(values: np.ndarray, family: Statistics) -> float:
    """The statistic of the first state that the lemma is about: h at 1/2, or the median."""
    index = family.size // 2 if isinstance(family, Categorical) else (family.size - 1) // 2
    return float(values[0, index])


def draw(tables: Tables) -> list[Drawing]:
    """Errors over K, and one set of statistics."""
    figure, grid = style.axes(2, 3, width=11.5, height=6.8)
    titles = {"CDRL": "CDRL, first lemma", "QDRL": "QDRL, second lemma"}
    for axes, algorithm in zip(grid[0], titles, strict=False):
        rows = select(tables["errors"], algorithm=algorithm)
        look = style.look_of(algorithm)
        axes.plot(rows["k"], rows["largest"], label="largest error", **look)
        dashed: style.Options = {**look, "ls": "--", "mfc": "white"}
        axes.plot(rows["k"], rows["mean"], label="mean error", **dashed)
        name = "Theorem 4.6" if algorithm == "CDRL" else "Theorem 4.7"
        axes.plot(rows["k"], rows["bound"], color="#000000", lw=1, label=f"{name}, mean error")
        axes.set_title(titles[algorithm])
        axes.set_ylabel("error of statistics")
        _over_k(axes, rows["k"])
    _draw_edrl(grid[0, 2], tables)
    _draw_statistics(grid[1], tables["statistics"])
    caption = (
        "Above: error over K in the MDPs of Appendix C, which depend on K. The largest error over CDRL's and"
        " QDRL's statistics stays where it is (solid), while their mean error, the one of Definition 4.5,"
        " vanishes as 1/K (dashed), below its bound. EDRL's largest error there vanishes as 1/K (small"
        " squares; none shown where it is rounding). Over inner levels, those in [0.1, 0.9], its largest"
        " error on the worst MDPs that a search finds falls with K, as our bound says; at the outermost"
        " level it does not vanish in our example. Below: the statistics at the first state for one K, of"
        " EDRL in the second lemma's MDP. With CDRL the cells on both sides of the true return are wrong;"
        " with QDRL it is the median, which should be 0 and is -γ."
    )
    return [Drawing("non-uniform", figure, caption)]


def _over_k(axes: Axes, ks: np.ndarray) -> None:
    axes.set(xscale="log", yscale="log", xlabel="number K")
    axes.set_xticks(ks, [str(k) for k in ks])
    axes.minorticks_off()
    axes.legend(loc="lower left", fontsize=8)


def _draw_edrl(axes: Axes, tables: Tables) -> None:
    colour, rows = style.COLOURS["EDRL"], select(tables["uniform"])
    solid: style.Options = {"color": colour, "marker": "s"}
    axes.plot(rows["k"], rows["outermost"], label="outermost level, our example", **solid)
    black: style.Options = {"color": "#000000", "ls": "--", "lw": 1}
    axes.plot(rows["k"], rows["inner_bound"], label="our bound, inner levels", **black)
    hollow: style.Options = {"ls": "--", "mfc": "white", **solid}
    axes.plot(rows["k"], rows["inner"], label="inner levels, worst found", **hollow)
    largest = summarised(tables["edrl"], "k", "largest", np.max)["largest"]
    small: style.Options = {"color": colour, "marker": "s", "ms": 4, "ls": ":"}
    beyond_rounding = np.where(largest > 1e-12, largest, np.nan)
    axes.plot(rows["k"], beyond_rounding, label="all levels, both lemmas", **small)
    axes.set(title="EDRL", ylim=(1e-7, 20))
    _over_k(axes, rows["k"])


def _draw_statistics(row: Sequence[Axes], statistics: Table) -> None:
    for axes, name in zip(row, SHOWN, strict=True):
        rows = select(statistics, algorithm=name)
        low, high = (0.35, 0.65) if name == "CDRL" else (0.0, np.inf)
        near = (rows["place"] > low) & (rows["place"] < high)
        x, true, learnt = (rows[column][near] for column in ("place", "true", "learnt"))
        axes.plot(x, true, "o", color=style.COLOURS["truth"], mfc="none", ms=8, label="true")
        size = 4 if name == "EDRL" else None
        axes.plot(x, learnt, ls="none", ms=size, label="learnt", **style.look_of(name))
        axes.legend(loc="upper left")
        state = "x1" if name == "CDRL" else "x0"
        axes.set_title(f"{name}, K = {SHOWN[name]}: statistics at {state}")
    row[0].set(xlabel="left end of the cell", ylabel="statistic")
    row[1].set(xlabel="level τ", ylabel="quantile of the return")
    row[2].set(xlabel="level τ", ylabel="expectile of the return")


def judge(tables: Tables) -> list[Claim]:
    """Both lemmas, what does hold (the mean error vanishes), and EDRL beside them."""
    cdrl, qdrl = (select(tables["errors"], algorithm=name) for name in ("CDRL", "QDRL"))
    return [
        *_judge_lemmas(cdrl, qdrl),
        *(_judge_mean(name, rows) for name, rows in (("CDRL", cdrl), ("QDRL", qdrl))),
        *_judge_edrl(tables),
    ]


def _judge_lemmas(cdrl: Columns, qdrl: Columns) -> list[Claim]:
    # gamma z is rounded, and the slope of h is K.
    rounding = 8 * np.finfo(np.float64).eps * cdrl["k"].max()
    return [
        judged(
            "appendix-c-cdrl", "Appendix C, first lemma",
            "CDRL's largest error does not vanish: one statistic is learnt as 1/6 instead of 0 at every K.",
            f"learnt {_range(cdrl['learnt'])}, true {_range(cdrl['true'])};"
            f" largest error {_range(cdrl['largest'])}",
            {
                "learnt, off 1/6": np.abs(cdrl["learnt"] - CDRL_ERROR).max() / rounding,
                "true, off 0": np.abs(cdrl["true"]).max() / rounding,
                "largest error, below 1/6": np.max(CDRL_ERROR - cdrl["largest"]) / rounding,
            },
        ),
        judged(
            "appendix-c-qdrl", "Appendix C, second lemma",
            "QDRL's largest error does not vanish: the median is learnt as -γ instead of 0 at every K"
            " (for ε below about 1/6K; the proof asks for ε ≪ 1).",
            f"learnt {_range(qdrl['learnt'])}, true {_range(qdrl['true'])};"
            f" largest error {_range(qdrl['largest'])}",
            {
                "learnt, off -γ": np.abs(qdrl["learnt"] + QDRL_GAMMA).max(),
                "true, off 0": np.abs(qdrl["true"]).max(),
                "largest error, below γ": np.max(QDRL_GAMMA - qdrl["largest"]),
            },
        ),
    ]  # fmt: skip


def _judge_mean(name: str, rows: Columns) -> Claim:
    exponent = -np.polyfit(np.log(rows["k"]), np.log(rows["mean"]), 1)[0]
    share = (rows["mean"] / rows["bound"]).max()
    return judged(
        f"appendix-c-{name.lower()}-mean", "Section 4.2",
        f"In the same MDPs {name}'s mean error does vanish, within the theorem's bound.",
        f"{rows['mean'][0]:.2g} at K = {rows['k'][0]} to {rows['mean'][-1]:.2g} at K = {rows['k'][-1]}, as"
        f" K^-{exponent:.2f}; at most {share:.2g} of the bound",
        {"exponent": exponent, "largest share of the bound": share},
    )  # fmt: skip


def _judge_edrl(tables: Tables) -> list[Claim]:
    lemmas, uniform = select(tables["edrl"]), select(tables["uniform"])
    ks, inner = uniform["k"], uniform["inner"]
    qdrl = select(tables["errors"], algorithm="QDRL")["largest"].min()
    share = (uniform["inner"] / uniform["inner_bound"]).max()
    example = max(uniform["inner_example"][ks * INNER[0] > 1])
    outermost = uniform["outermost"]
    return [
        judged(
            "appendix-c-edrl", "edrl",
            "On the MDPs of both lemmas EDRL's largest error, over all its levels, vanishes as 1/K.",
            f"at most {lemmas['largest'].max():.0e} for K = {ks.min()} to {ks.max()}, and"
            f" {(lemmas['largest'] * lemmas['k']).max():.2g}/K; QDRL's is {qdrl:.2g}",
            {
                "largest error times K": (lemmas["largest"] * lemmas["k"]).max(),
                "QDRL's largest error over EDRL's": qdrl / lemmas["largest"].max(),
            },
        ),
        judged(
            "edrl-uniform", "edrl",
            "EDRL's largest error over levels in [0.1, 0.9] falls with K, on the worst MDPs that a search"
            " finds, and is below our bound.",
            f"{inner[0]:.2g} at K = {ks[0]} to {inner[-1]:.2g} at K = {ks[-1]}; at most {share:.2g} of the bound",
            {
                "least fall from one K to the next": np.min(inner[:-1] / inner[1:]),
                "fall from the least K to the largest": inner[0] / inner[-1],
                "largest share of the bound": share,
            },
        ),
        judged(
            "edrl-outermost", "edrl",
            "At the outermost level it does not vanish: two MDPs with the same expectiles at x1 have"
            " different ones at x0, for every K and every imputation.",
            f"{_range(outermost)} at the outermost level of one of them, where any imputation is off by"
            f" {_range(uniform['outermost_bound'])}; {example:.0e} at levels in [0.1, 0.9] for K > 10",
            {
                "least error over what we prove": np.min(outermost / uniform["outermost_bound"]),
                "learnt statistics of the two, apart": uniform["apart"].max(),
            },
        ),
    ]  # fmt: skip


def _range(values: np.ndarray) -> str:
    ends = np.array([values.min(), values.max()])
    low, high = (f"{end:.4f}" for end in np.where(np.abs(ends) < 1e-9, np.abs(ends), ends))
    return low if low == high else f"{low} to {high}"


EXPERIMENT = Experiment(
    name="non-uniform",
    title="Statistics are not learnt uniformly well",
    source="Appendix C",
    section="theory",
    about="The MDPs of the two proofs, one for each K, solved by dynamic programming against exact return"
    " distributions. CDRL: x1 leads to x2 with γ = 2^m/(2^m + 1), m = 1, support points j/2^L on [0, 1] with"
    " L = 3, 5, 7, 9 (full: 3 to 10), so K = 2^L + 1, and the reward ρA at x2 in the middle between two of"
    " them. QDRL: γ = 0.9, K = 5, 21, 81, 321 (full: 3 to 641), ε = 1/8K; x0 leads to x1 with probability"
    " 1/2 - ε and else to x2, where rewards are 0 with probability 1/2K - ε and else 1 and -1. The paper asks"
    " for ε ≪ 1; the proof needs ε below about 1/6K. EDRL has K levels (2k - 1)/2K, K = 5, 21, 81 (full: as"
    " QDRL), and the default exact imputation. It is put on all these MDPs, and on two kinds of others with x0"
    " -> x1 or x2, returns in [-1, 1] and γ = 0.5. Searched for: differential evolution (64 MDPs, 100"
    " generations, full: 600) over the probability of x1 and three returns at x1 and x2 each; it maximises the"
    " largest error over levels in [0.1, 0.9]. Our example: with w = τ/(1 - τ) for the lowest level τ, returns"
    " at x1 are -1, 0, 1 with probabilities w/2, 1/2 - w/2, 1/2, or -w and 1 with equal ones, which have the"
    " same expectiles at all levels; x2, with probability w/(2 + w), has the return -1.",
    measure=measure,
    draw=draw,
    judge=judge,
    cost=(16.0, 90.0),
)
