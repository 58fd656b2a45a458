"""Appendix C: no number of statistics makes the largest error small, though the mean error vanishes."""

from typing import Any

import numpy as np

from edrl.core.families import Categorical, Quantiles
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics
from edrl.experiments.experiment import Advance, Claim, Drawing, Experiment, Table, Tables, joined, select, table
from edrl.report import style
from edrl.tabular import dp
from edrl.tabular.bellman import exact_backup
from edrl.tabular.bounds import cdrl_bound, qdrl_bound
from edrl.tabular.mdp import MDP
from edrl.tabular.problems import cdrl_not_uniform, qdrl_not_uniform

M = 1  # of the first lemma: gamma = 2^m / (2^m + 1)
CDRL_GAMMA, QDRL_GAMMA = 2**M / (2**M + 1), 0.9
CDRL_ERROR = 1 / (2 * (2**M + 1))
SHOWN = {"CDRL": 33, "QDRL": 21}  # the K of the drawing of statistics


def measure(full: bool, advance: Advance) -> Tables:
    """Largest and mean errors over K, and the statistics themselves for one K."""
    depths = range(3, 11) if full else (3, 5, 7, 9)
    ks = (3, 5, 11, 21, 41, 81, 161, 321, 641) if full else (5, 21, 81, 321)
    cases: list[tuple[str, int, MDP, Statistics, float]] = []
    for depth in depths:
        k = 2**depth + 1
        categorical = Categorical(np.arange(k) / 2**depth)
        cases.append(("CDRL", k, cdrl_not_uniform(M, depth, "A"), categorical, cdrl_bound(k, CDRL_GAMMA)))
    for k in ks:
        mdp = qdrl_not_uniform(k, gamma=QDRL_GAMMA)
        cases.append(("QDRL", k, mdp, Quantiles(k), qdrl_bound(k, QDRL_GAMMA, 1.0)))
    errors, statistics = [], []
    for i, (algorithm, k, mdp, family, bound) in enumerate(cases):
        advance(i / len(cases), f"{algorithm}, K = {k}")
        learnt, true = dp.evaluate(mdp, 0, family).values[:, 0], np.asarray(family.evaluate(_returns(mdp)))
        off = np.abs(learnt - true)
        row: dict[str, Any] = {"largest": [off.max()], "mean": off.mean(axis=-1).max(), "bound": bound}
        errors.append(table(algorithm=algorithm, k=k, **row, learnt=_key(learnt, family), true=_key(true, family)))
        if k == SHOWN[algorithm]:
            places = family.support[:-1] if isinstance(family, Categorical) else Quantiles(k).taus
            statistics.append(table(algorithm=algorithm, k=k, place=places, learnt=learnt[0], true=true[0]))
    return {"errors": joined(*errors), "statistics": joined(*statistics)}


def _returns(mdp: MDP) -> Particles:
    """The return distributions of an MDP of two steps and one action, with all their atoms: [S, n]."""
    eta = Particles(np.zeros((mdp.num_states, 1, 1)))
    return exact_backup(mdp, 0, exact_backup(mdp, 0, eta))[:, 0]


def _key(values: np.ndarray, family: Statistics) -> float:
    """The statistic of the first state that the lemma is about: h at 1/2, or the median."""
    index = family.size // 2 if isinstance(family, Categorical) else (family.size - 1) // 2
    return float(values[0, index])


def draw(tables: Tables) -> list[Drawing]:
    """Errors over K, and one set of statistics."""
    figure, grid = style.axes(2, 2, width=9.0, height=6.6)
    titles = {"CDRL": "CDRL, first lemma", "QDRL": "QDRL, second lemma"}
    for axes, algorithm in zip(grid[0], titles, strict=True):
        rows = select(tables["errors"], algorithm=algorithm)
        colour, marker = style.COLOURS[algorithm], style.MARKERS[algorithm]
        axes.plot(rows["k"], rows["largest"], color=colour, marker=marker, label="largest error")
        axes.plot(rows["k"], rows["mean"], color=colour, marker=marker, ls="--", mfc="white", label="mean error")
        name = "Theorem 4.6" if algorithm == "CDRL" else "Theorem 4.7"
        axes.plot(rows["k"], rows["bound"], color=style.COLOURS["bound"], lw=1, label=f"{name}, for the mean error")
        axes.set(xscale="log", yscale="log", title=titles[algorithm], xlabel="number K", ylabel="error of statistics")
        axes.set_xticks(rows["k"], [str(k) for k in rows["k"]])
        axes.minorticks_off()
        axes.legend(loc="lower left")
    _draw_statistics(grid[1], tables["statistics"])
    caption = (
        "Above: error over K in the MDPs of Appendix C, which depend on K. The largest error over the statistics"
        " stays where it is (solid), while their mean error, the one of Definition 4.5, vanishes as 1/K (dashed),"
        " below its bound. Below: the statistics at the first state for one K. With CDRL the cells on both sides of"
        " the true return are wrong; with QDRL it is the median, which should be 0 and is -γ."
    )
    return [Drawing("non-uniform", figure, caption)]


def _draw_statistics(pair: Any, statistics: Table) -> None:
    cdrl, qdrl = (select(statistics, algorithm=name) for name in SHOWN)
    near = (cdrl["place"] > 0.35) & (cdrl["place"] < 0.65)
    for axes, rows, chosen, name in ((pair[0], cdrl, near, "CDRL"), (pair[1], qdrl, qdrl["place"] > 0, "QDRL")):
        x, true, learnt = (rows[column][chosen] for column in ("place", "true", "learnt"))
        axes.plot(x, true, "o", color=style.COLOURS["truth"], mfc="none", ms=8, label="true")
        axes.plot(x, learnt, ls="none", marker=style.MARKERS[name], color=style.COLOURS[name], label="learnt")
        axes.legend(loc="upper left")
        axes.set_title(f"{name}, K = {SHOWN[name]}: statistics at {'x1' if name == 'CDRL' else 'x0'}")
    pair[0].set(xlabel="left end of the cell", ylabel="statistic")
    pair[1].set(xlabel="level τ", ylabel="quantile of the return")


def judge(tables: Tables) -> list[Claim]:
    """Both lemmas, and what does hold: the mean error vanishes, within the theorems' bounds."""
    cdrl, qdrl = (select(tables["errors"], algorithm=name) for name in SHOWN)
    rounding = 8 * np.finfo(np.float64).eps * cdrl["k"].max()  # gamma z is rounded, and the slope of h is K
    wrong = np.abs(cdrl["learnt"] - CDRL_ERROR).max() <= rounding and np.abs(cdrl["true"]).max() <= rounding
    median = np.abs(qdrl["learnt"] + QDRL_GAMMA).max() <= 1e-12 and np.abs(qdrl["true"]).max() <= 1e-12
    claims = [
        Claim(
            "appendix-c-cdrl", "Appendix C, first lemma",
            "CDRL's largest error does not vanish: one statistic is learnt as 1/6 instead of 0 at every K.",
            f"learnt {_range(cdrl['learnt'])}, true {_range(cdrl['true'])}; largest error {_range(cdrl['largest'])}",
            "1/6 = 0.1667, 0; at least 1/6", bool(wrong and cdrl["largest"].min() >= CDRL_ERROR - rounding),
        ),
        Claim(
            "appendix-c-qdrl", "Appendix C, second lemma",
            "QDRL's largest error does not vanish: the median is learnt as -γ instead of 0 at every K"
            " (for ε below about 1/6K; the proof asks for ε ≪ 1).",
            f"learnt {_range(qdrl['learnt'])}, true {_range(qdrl['true'])}; largest error {_range(qdrl['largest'])}",
            f"-γ = {-QDRL_GAMMA}, 0; at least γ", bool(median and qdrl["largest"].min() >= QDRL_GAMMA - 1e-12),
        ),
    ]  # fmt: skip
    for name, rows in (("CDRL", cdrl), ("QDRL", qdrl)):
        exponent = -np.polyfit(np.log(rows["k"]), np.log(rows["mean"]), 1)[0]
        share = (rows["mean"] / rows["bound"]).max()
        claims.append(
            Claim(
                f"appendix-c-{name.lower()}-mean", "Section 4.2",
                f"In the same MDPs {name}'s mean error does vanish, within the theorem's bound.",
                f"{rows['mean'][0]:.2g} at K = {rows['k'][0]} to {rows['mean'][-1]:.2g} at K = {rows['k'][-1]}, as"
                f" K^-{exponent:.2f}; at most {share:.2g} of the bound", "exponent > 0.9, at most 1",
                bool(exponent > 0.9 and share <= 1),
            )
        )  # fmt: skip
    return claims


def _range(values: np.ndarray) -> str:
    low, high = (f"{abs(value) if abs(value) < 1e-9 else value:.4f}" for value in (values.min(), values.max()))
    return low if low == high else f"{low} to {high}"


EXPERIMENT = Experiment(
    name="non-uniform",
    title="Statistics are not learnt uniformly well",
    source="Appendix C",
    section="theory",
    about="The MDPs of the two proofs, one for each K, solved by dynamic programming against exact return"
    " distributions. CDRL: x1 leads to x2 with γ = 2^m/(2^m + 1), m = 1, support points j/2^L on [0, 1] with L = 3,"
    " 5, 7, 9 (full: 3 to 10), so K = 2^L + 1, and the reward ρA at x2 in the middle between two of them. QDRL: γ ="
    " 0.9, K = 5, 21, 81, 321 (full: 3 to 641), ε = 1/8K; x0 leads to x1 with probability 1/2 - ε and else to x2,"
    " where rewards are 0 with probability 1/2K - ε and else 1 and -1. The paper asks for ε ≪ 1; the proof needs ε"
    " below about 1/6K.",
    measure=measure,
    draw=draw,
    judge=judge,
    cost=(10.0, 25.0),
)
