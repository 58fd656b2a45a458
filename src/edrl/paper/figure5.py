"""Figures 5 and 12: errors of expectiles on N-chains, and the Wasserstein distances of the same
runs.
"""

from itertools import product

import numpy as np

from edrl.paper.chains import (
    ALPHA,
    AT,
    AXES,
    EVEN,
    KS,
    LEVELS,
    LONGEST,
    MIDPOINTS,
    SPARSE,
    STEPS,
    SUFFIX,
    Chains,
    Method,
    Options,
    at_start,
    cells,
    expectiles,
    learnt_ks,
    least_growth,
    listed,
    measure_methods,
    plot_errors,
    plot_rollouts,
    significant_falls,
)
from edrl.paper.experiment import Advance, Claim, Drawing, Experiment, Table, Tables, joined
from edrl.paper.thresholds import judged
from edrl.report import style

_MANY = KS[1:]  # without K = 1, where there is nothing to impute
_MODES = {"TD": "temporal differences", "DP": "dynamic programming"}
_TITLES = {"EDRL-naive": "EDRL-naive", "EDRL": "EDRL, exact imputation"}
_LABELS = {"error": "mean absolute expectile error", "w1": "Wasserstein-1 distance"}


def measure(full: bool, advance: Advance) -> Tables:
    chains = Chains()
    rows = []
    for number, levels in enumerate(LEVELS):
        # At the other levels, some of the temporal differences will do.
        every = full or levels == MIDPOINTS
        options: Options = {"seeds": 12 if full else 4}
        options |= {"td_lengths": SPARSE, "td_ks": (3, 9)} if not every else {"td_ks": KS}
        naive: Options = {"ks": _MANY, **options}  # K = 1 is EDRL's
        methods = [
            Method.of_expectiles("EDRL", **options),
            Method.of_expectiles("EDRL-naive", "as_samples", **naive),
        ]

        def part(fraction: float, note: str, number: int = number) -> None:
            advance(0.95 * (number + fraction) / len(LEVELS), note)

        rows.append(measure_methods(chains, methods, [levels], part))
    advance(0.95, "rollouts")
    return {
        "errors": joined(*rows),
        "imputed_truth": joined(*(chains.imputed_truth(levels) for levels in LEVELS)),
        "monte_carlo": chains.monte_carlo(expectiles(MIDPOINTS, max(KS))),
    }


def draw(tables: Tables) -> list[Drawing]:
    return [_draw(tables, column, levels) for levels, column in product(LEVELS, _LABELS)]


def _draw(tables: Tables, column: str, levels: str) -> Drawing:
    """Above temporal differences, below dynamic programming; on the left over lengths, on the right
    over distances.
    """
    figure, grid = style.axes(2, 4, width=11, height=5.4, sharey=True)
    columns = list(product(AXES, _TITLES))
    for line, (mode, how) in zip(grid, _MODES.items(), strict=True):
        for axes, (axis, algorithm) in zip(line, columns, strict=True):
            plot_errors(axes, tables["errors"], column, axis, mode, algorithm, levels=levels)
            if column == "error" and axis == "distance":
                plot_rollouts(axes, tables["monte_carlo"])
            axes.set_yscale("symlog", linthresh=0.01)
            axes.set_ylim(bottom=0)
        line[0].set_ylabel(f"{_LABELS[column]}\n({how})")
    for top, bottom, (axis, algorithm) in zip(*grid, columns, strict=True):
        top.set_title(_TITLES[algorithm])
        bottom.set_xlabel(AXES[axis], fontsize=9)
    for axes in (grid[0, 2], grid[0, 3]):
        axes.legend(fontsize=7, ncols=2)
    caption = _CAPTIONS[column] + f" {AT[levels].capitalize()}."
    number = {"error": 5, "w1": 12}[column]
    return Drawing(f"figure-{number}{SUFFIX[levels]}", figure, caption)


_CAPTIONS = {
    "error": "Error of the learnt expectiles over the lengths of chains, at their start (left), and over the distance"
    f" to the goal in the {LONGEST}-chain (right); the axis is linear below 0.01 and logarithmic above. Above:"
    f" {STEPS:,} temporal-difference steps, mean and 95 % interval over seeds. Below: dynamic programming, where only"
    " the imputation's own error is left. Without imputation the error grows with the length, with the distance and"
    " with K; with exact imputation it stays low. The dotted line is how far 1,000 rollouts, the paper's ground truth,"
    " are from the truth themselves.",
    "w1": "Appendix E: Wasserstein-1 distance between the imputed and the true return distribution for the same runs."
    " With imputation more expectiles describe the distribution better; without, they do not.",
}


def judge(tables: Tables) -> list[Claim]:
    return [claim for levels in (MIDPOINTS, EVEN) for claim in _judge_levels(tables, levels)]


def _judge_levels(tables: Tables, levels: str) -> list[Claim]:
    rows = tables["errors"]
    return [
        *_judge_growth(rows, levels),
        *_judge_imputation(rows, levels),
        *_judge_w1(tables, levels),
    ]


def _judge_growth(rows: Table, levels: str) -> list[Claim]:
    """Section 5.1: naive's error "grows as both the distance to the goal state and number of
    expectiles increase".
    """
    by = {mode: _cells(rows, "error", levels, mode, "EDRL-naive") for mode in ("DP", "TD")}
    ways = {
        "k": ("the number of expectiles, at every length and distance", 0),
        "length": ("the length of the chain, for every K > 1", 2),
        "distance": (f"the distance to the goal in the {LONGEST}-chain, for every K > 1", 2),
    }
    claims = []
    for name, (text, axis) in ways.items():
        growth = least_growth(_part(by["DP"], name), axis)
        falls, steps = significant_falls(_part(by["TD"], name), axis)
        claims.append(
            judged(
                f"figure-5-naive-{name}{SUFFIX[levels]}", "Section 5.1",
                f"EDRL-naive's error grows with {text}, {AT[levels]}",
                f"least growth in one step {growth:.3f}× by DP; by TD it falls beyond its 95 % interval in {falls} of"
                f" {steps} steps",
                {"least growth by DP": growth, "falls by TD": falls},
                note=_NOTES.get((name, levels), ""),
            )
        )  # fmt: skip
    return claims


def _cells(rows: Table, column: str, levels: str, mode: str, algorithm: str) -> np.ndarray:
    """All cells [K, seeds, cells] for the K > 1 that were learnt in this way."""
    where = {"levels": levels, "mode": mode, "algorithm": algorithm}
    return cells(rows, column, learnt_ks(rows, **where), **where)


def _part(values: np.ndarray, way: str) -> np.ndarray:
    """Of cells [..., starts of chains and states of the longest one]: one of the two, or both for
    K.
    """
    starts = values.shape[-1] - (LONGEST - 1)
    return {"k": values, "length": values[..., :starts], "distance": values[..., starts:]}[way]


_SHORT = (
    "At these levels three expectiles are the mean and the two ends, which naive's backups shift most in short chains:"
    " with K = 3 the error first rises and then falls. The paper names no levels; at the midpoints its sentence holds."
)
_NOTES = {("k", EVEN): _SHORT, ("length", EVEN): _SHORT, ("distance", EVEN): _SHORT}


def _judge_imputation(rows: Table, levels: str) -> list[Claim]:
    """Section 5.1: under EDRL errors are "much lower", and remain "relatively low"."""
    suffix, where = SUFFIX[levels], AT[levels]
    both, mean = {}, {}
    for name, mode in product(("EDRL", "EDRL-naive"), ("DP", "TD")):
        both[name, mode] = _cells(rows, "error", levels, mode, name)
        mean[name, mode] = both[name, mode].mean(axis=1)
    with np.errstate(divide="ignore"):  # next to the goal EDRL's error may be exactly 0
        ratios = {mode: mean["EDRL-naive", mode] / mean["EDRL", mode] for mode in ("DP", "TD")}
    # The last cell is the farthest from the goal.
    at_x0 = {mode: ratio[:, -1] for mode, ratio in ratios.items()}
    # A fall from the one to the other is a defeat.
    pairs = np.stack([both["EDRL", "TD"], both["EDRL-naive", "TD"]], axis=1)
    worse = sum(significant_falls(pair, 0)[0] for pair in pairs)
    td_ks = learnt_ks(rows, levels=levels, mode="TD", algorithm="EDRL")
    low = mean["EDRL", "TD"]
    return [
        judged(
            f"figure-5-edrl-td{suffix}", "Section 5.1",
            f"EDRL's error, with exact imputation, is much lower than EDRL-naive's after {STEPS:,} TD steps, {where}",
            f"at x0 naive's is {listed(at_x0['TD'], td_ks, '×')} as large; EDRL's is above it beyond their 95 %"
            f" interval in {worse} of {ratios['TD'].size} cells",
            {"least ratio at x0": float(at_x0["TD"].min()), "cells where EDRL is worse": worse},
        ),
        judged(
            f"figure-5-edrl-dp{suffix}", "Section 5.1",
            f"EDRL's error, with exact imputation, is much lower by dynamic programming, too, {where}",
            f"at x0 naive's is {listed(at_x0['DP'], _MANY, '×')} as large; in any cell at least"
            f" {ratios['DP'].min():.3g}×",
            {"least ratio at x0": float(at_x0["DP"].min()), "least ratio in any cell": float(ratios["DP"].min())},
        ),
        judged(
            f"figure-5-edrl-low{suffix}", "Section 5.1",
            f"EDRL's error (TD, exact imputation) stays relatively low whatever K, length and distance are, {where}",
            f"at x0 {listed(low[:, -1].tolist(), td_ks)}; at most {low.max():.3f} anywhere, naive's up to"
            f" {mean['EDRL-naive', 'TD'].max():.3f}",
            {
                "largest over smallest at x0": float(low[:, -1].max() / low[:, -1].min()),
                "largest anywhere over naive's largest": float(low.max() / mean["EDRL-naive", "TD"].max()),
            },
            note=_LOW_NOTES[levels],
        ),
    ]  # fmt: skip


_LOW_NOTES = {
    MIDPOINTS: "",
    EVEN: "Three levels of which two are 0.01 and 0.99 have not settled after 30,000 steps, because"
    " their gradients are weighted by 0.01. At the midpoints the errors are alike for every K.",
}


def _judge_w1(tables: Tables, levels: str) -> list[Claim]:
    """Appendix E: "increasing the number of expectiles always leads to improved performance under
    EDRL".
    """
    rows, suffix, where = tables["errors"], SUFFIX[levels], AT[levels]
    by = {"DP": cells(rows, "w1", KS, levels=levels, mode="DP", algorithm="EDRL")}
    by["TD"] = _cells(rows, "w1", levels, "TD", "EDRL")
    at_x0 = by["DP"][:, 0, -1].tolist()
    places = {
        "length": "at the start of every chain",
        "distance": f"at every state of the {LONGEST}-chain",
    }
    claims = []
    for name, text in places.items():
        # Falls of the distance are growths of its inverse.
        ratio = least_growth(1 / _part(by["DP"], name), 0)
        rises, steps = significant_falls(-_part(by["TD"], name), 0)
        claims.append(
            judged(
                f"figure-12-{name}{suffix}", "Appendix E",
                f"More expectiles always lower EDRL's Wasserstein-1 distance, {text}, {where} (exact imputation)",
                f"at x0 by DP {listed(at_x0, KS)}; least improvement in one step {ratio:.3f}× by DP; by TD it rises"
                f" beyond its 95 % interval in {rises} of {steps} steps",
                {"least improvement by DP": ratio, "rises by TD": rises},
                note=_W1_NOTES.get((name, levels), ""),
            )
        )  # fmt: skip
    true = [at_start(tables["imputed_truth"], "w1", levels=levels, k=k) for k in KS]
    worse = {mode: _poor(rows, levels, mode) for mode in ("DP", "TD")}
    return [
        *claims,
        judged(
            f"figure-12-true{suffix}", "edrl",
            "More expectiles lower the Wasserstein-1 distance at x0 of what is imputed from the true expectiles,"
            f" without any backup, {where}",
            listed(true, KS), float(np.min(np.divide(true[:-1], true[1:]))),
        ),
        judged(
            f"figure-12-naive{suffix}", "Appendix E",
            f"EDRL-naive's Wasserstein-1 distance is poor for many expectiles far from the goal, {where}",
            f"K = 9 at x0: {worse['DP']:.3g}× EDRL's by DP, {worse['TD']:.3g}× by TD",
            {f"by {mode}": ratio for mode, ratio in worse.items()},
        ),
    ]  # fmt: skip


_BACKUPS = (
    "What is imputed from the true expectiles improves with every K, so the levels themselves describe the distribution"
    " better. The exceptions come with repeated backups at these levels: at the midpoints there is none at any start."
)
_NEAR_GOAL = (
    "One and two steps from the goal, five, seven and nine expectiles describe the distribution"
    " equally well, to 3 %. In all other states more are better."
)
_W1_NOTES = {
    ("length", EVEN): _BACKUPS,
    ("distance", EVEN): _BACKUPS,
    ("distance", MIDPOINTS): _NEAR_GOAL,
}


def _poor(rows: Table, levels: str, mode: str) -> float:
    naive, exact = (
        at_start(rows, "w1", levels=levels, mode=mode, algorithm=name, k=max(KS))
        for name in ("EDRL-naive", "EDRL")
    )
    return naive / exact


EXPERIMENT = Experiment(
    "figure-5",
    "Expectile errors on N-chains",
    "Figures 5 and 12, Section 5.1, Appendix E",
    "paper",
    f"N-chains (γ = 0.99) of N = 2 to {LONGEST} states under the policy that goes forward; K ∈ {{1, 3, 5, 7, 9}}"
    f" expectiles; {STEPS:,} temporal-difference steps of size α = {ALPHA} along trajectories of each chain, 4 seeds"
    " (full size: 12; at default size only N = 2, 5, 8, 11 and 15 and K = 3 and 9 at the levels from 0.01 to 0.99);"
    " and dynamic programming to a change of 1e-9. The paper's captions say \"different N-Chain"
    f' lengths", its text "distance to the goal": we show the start of every chain, and every state of the {LONGEST}-'
    "chain. The paper names no levels: we infer the midpoints (2k - 1)/2K, and show ER-DQN's levels from 0.01 to 0.99"
    " beside them. The error is the mean absolute error over the K expectiles (Definition 4.5). The truth is computed"
    " between rigorous bounds. EDRL imputes exactly here; the paper's own imputation has a part of its own.",
    measure,
    draw,
    judge,
    (120.0, 400.0),
)
