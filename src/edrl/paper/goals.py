"""Figures 13 and 14: N-chains with uniform and Gaussian goal rewards."""

import itertools
from collections.abc import Sequence

import numpy as np

from edrl.paper.chains import (
    AT,
    AXES,
    EVEN,
    GOALS,
    KS,
    LENGTHS,
    LEVELS,
    LONGEST,
    MIDPOINTS,
    REWARD_ATOMS,
    SPARSE,
    STEPS,
    SUFFIX,
    TITLES,
    Chains,
    Method,
    Options,
    at_start,
    cells,
    least_growth,
    listed,
    measure_methods,
    plot_errors,
    significant_falls,
)
from edrl.paper.experiment import Advance, Claim, Drawing, Experiment, Table, Tables, joined
from edrl.paper.thresholds import judged
from edrl.report import style

_LABELS = {"error": "mean absolute expectile error", "w1": "Wasserstein-1 distance"}
_ALGORITHMS = ("EDRL-naive", "EDRL")


def measure(full: bool, advance: Advance) -> Tables:
    few: Options = {"ks": (1, 3, 9), "seeds": 4, "td_lengths": SPARSE, "td_ks": (3, 9)}
    many: Options = {"ks": KS, "seeds": 6, "td_lengths": LENGTHS, "td_ks": KS}
    options = many if full else few
    methods = [
        Method.of_expectiles("EDRL", **options),
        Method.of_expectiles("EDRL-naive", "as_samples", **options),
    ]
    # At the other levels, dynamic programming alone: temporal differences differ there as in Figure
    # 5.
    others = [Method(one.name, one.family, one.ks, seeds=0) for one in methods]
    tables: dict[str, Table] = {}
    for number, (name, goal) in enumerate(GOALS.items()):
        chains = Chains(goal=goal, reward_atoms=REWARD_ATOMS)
        advance(number / 2, f"{TITLES[name]}, levels {MIDPOINTS}")
        midpoints = measure_methods(chains, methods, [MIDPOINTS], lambda *_: None)
        advance(number / 2 + 1 / 4, f"{TITLES[name]}, levels {EVEN}")
        even = measure_methods(chains, others, [EVEN], lambda *_: None)
        tables[name] = joined(midpoints, even)
    return tables


def draw(tables: Tables) -> list[Drawing]:
    return [_draw(tables, column, axis) for column in _LABELS for axis in AXES]


def _draw(tables: Tables, column: str, axis: str) -> Drawing:
    figure, grid = style.axes(2, 4, width=11, height=5.2, sharex=True, sharey=True)
    modes = (("TD", "temporal differences"), ("DP", "dynamic programming"))
    for line, (mode, how) in zip(grid, modes, strict=True):
        columns = itertools.product(GOALS, _ALGORITHMS)
        for axes, (goal, algorithm) in zip(line, columns, strict=True):
            plot_errors(axes, tables[goal], column, axis, mode, algorithm, levels=MIDPOINTS)
            axes.legend(fontsize=7)
            if mode == "TD":
                axes.set_title(f"{algorithm},\n{TITLES[goal]}", fontsize=8.5)
        line[0].set_ylabel(f"{_LABELS[column]}\n({how})", fontsize=9)
    for axes in grid[-1]:
        axes.set_xlabel(AXES[axis], fontsize=8.5)
    grid[0, 0].set_ylim(bottom=0)
    number = 13 if column == "error" else 14
    return Drawing(
        f"figure-{number}-{axis}", figure, f"{_CAPTIONS[column]} Over the {_OVER[axis]}."
    )


_OVER = {
    "length": "lengths of chains, at their start",
    "distance": f"states of the {LONGEST}-chain",
}
_CAPTIONS = {
    "error": "Expectile errors with random rewards at the goal: as with the fixed reward of Figure 5, the error without"
    " imputation grows with the length and the distance, and imputation keeps it low.",
    "w1": "Wasserstein-1 distance between imputed and true return distributions for the same runs: more expectiles help"
    " with imputation, and hardly without.",
}


def judge(tables: Tables) -> list[Claim]:
    claims = []
    for goal, levels in itertools.product(GOALS, LEVELS):
        claims += _judge(tables[goal], goal, levels)
    return claims


def _judge(rows: Table, goal: str, levels: str) -> list[Claim]:
    """Appendix E: "qualitatively similar phenomena as those noted for" the fixed reward."""
    ks = [k for k in sorted(set(rows["k"])) if k > 1]
    name, where = f"goals-{goal}", f"{TITLES[goal]}, {AT[levels]}"
    chosen = {"levels": levels, "mode": "DP"}
    naive = cells(rows, "error", ks, algorithm="EDRL-naive", **chosen)[:, 0]
    exact = cells(rows, "error", ks, algorithm="EDRL", **chosen)[:, 0]
    at_x0 = (naive / exact)[:, len(LENGTHS) - 1]
    growth = {
        "length": least_growth(naive[:, None, : len(LENGTHS)], 2),
        "distance": least_growth(naive[:, None, len(LENGTHS) :], 2),
    }
    with_k = naive[1:] / naive[:-1]
    numbers = {"least ratio at x0": float(at_x0.min()), "ratio for K = 9 at x0": float(at_x0[-1])}
    measured = f"at x0 naive's is {listed(at_x0, ks, '×')} as large (DP)"
    if levels == MIDPOINTS:
        learnt, falls, steps = _learnt(rows, max(ks))
        numbers |= {"ratio for K = 9 at x0 by TD": learnt, "cells where EDRL is worse by TD": falls}
        measured += f", {learnt:.3g}× for K = 9 by TD; EDRL's is above it beyond its 95 % interval in {falls} of"
        measured += f" {steps} cells"
    return [
        judged(
            f"{name}-error{SUFFIX[levels]}", "Appendix E",
            f"EDRL's expectile error, with exact imputation, is below naive's, {where}", measured, numbers,
        ),
        judged(
            f"{name}-growth{SUFFIX[levels]}", "Appendix E",
            f"EDRL-naive's error grows with the length and with the distance for every K > 1 (DP), {where}",
            "least growth in one step " + ", ".join(f"{ratio:.3f}× with the {what}" for what, ratio in growth.items()),
            {f"with {what}": ratio for what, ratio in growth.items()},
            note=_GROWTH_NOTES[levels],
        ),
        judged(
            f"{name}-growth-k{SUFFIX[levels]}", "Appendix E",
            f"EDRL-naive's error grows with K at every length and distance (DP), {where}",
            f"least growth in one step {with_k.min():.3f}×; it falls in {(with_k < 1).sum()} of {with_k.size} steps",
            float(with_k.min()),
            note=_GROWTH_WITH_K_NOTES[levels],
        ),
        _judge_w1(rows, goal, levels, (1, *ks)),
    ]  # fmt: skip


def _judge_w1(rows: Table, goal: str, levels: str, ks: Sequence[int]) -> Claim:
    chosen = {"levels": levels, "mode": "DP"}
    w1 = [at_start(rows, "w1", algorithm="EDRL", k=k, **chosen) for k in ks]
    naive_w1 = at_start(rows, "w1", algorithm="EDRL-naive", k=9, **chosen)
    return judged(
        f"goals-{goal}-w1{SUFFIX[levels]}", "Appendix E",
        f"More expectiles lower EDRL's W1 at x0, naive's stays poor (DP), {TITLES[goal]}, {AT[levels]}",
        f"{listed(w1, ks)}; naive {naive_w1:.3g} for K = 9",
        {
            "least improvement": min(a / b for a, b in itertools.pairwise(w1)),
            "naive's over EDRL's for K = 9": naive_w1 / w1[-1],
        },
        note=_W1_NOTES[levels],
    )  # fmt: skip


_SHORT_CHAINS = (
    "At these levels three expectiles are the mean and the two ends, which naive's backups shift most in short chains."
    " The paper names no levels."
)
_BACKUPS = (
    "From five to seven expectiles the distance rises a little, as with the fixed reward: an effect of"
    " repeated backups at these levels. At the midpoints it falls with every K."
)
_NEAR_GOAL = (
    "Two or three steps from the goal, three and nine expectiles have nearly the same"
    " error. Everywhere else it grows."
)
_GROWTH_NOTES = {MIDPOINTS: "", EVEN: _SHORT_CHAINS}
_GROWTH_WITH_K_NOTES = {MIDPOINTS: _NEAR_GOAL, EVEN: _SHORT_CHAINS}
_W1_NOTES = {MIDPOINTS: "", EVEN: _BACKUPS}


def _learnt(rows: Table, k: int) -> tuple[float, int, int]:
    """By TD: naive's error over EDRL's at x0, and in how many of how many cells EDRL is
    significantly worse.
    """
    chosen = {"levels": MIDPOINTS, "mode": "TD"}
    naive, exact = (
        at_start(rows, "error", algorithm=algorithm, k=k, **chosen) for algorithm in _ALGORITHMS
    )
    pair = [
        cells(rows, "error", [k], algorithm=algorithm, **chosen)[0]
        for algorithm in ("EDRL", "EDRL-naive")
    ]
    return naive / exact, *significant_falls(np.stack(pair), 0)


EXPERIMENT = Experiment(
    "goals",
    "Uniform and Gaussian goal rewards",
    "Figures 13 and 14, Appendix E",
    "appendix",
    "As Figure 5 with exact imputation, and rewards at the goal drawn from the uniform distribution on (-1, 1)"
    " and from the standard Gaussian (in"
    f" dynamic programming discretised into {REWARD_ATOMS} atoms, in temporal differences drawn as they are); K ∈"
    f" {{1, 3, 9}}; four seeds of {STEPS:,} steps at the midpoint levels for N = 2, 5, 8, 11 and 15 (full size: K ∈"
    " {1, 3, 5, 7, 9}, 6 seeds, every length).",
    measure,
    draw,
    judge,
    (80.0, 400.0),
)
