"""The paper's own imputation: K equally weighted samples by SciPy, on the chains of Figures 5, 13
and 14.
"""

import itertools

import numpy as np
from matplotlib.axes import Axes

from edrl.core.imputation.scipy_reference import solve_rows
from edrl.paper.chains import (
    ALPHA,
    AT,
    EVEN,
    GOALS,
    KS,
    LENGTHS,
    LEVELS,
    LONGEST,
    MIDPOINTS,
    RESTLESS_LAST,
    RESTLESS_SWEEPS,
    REWARD_ATOMS,
    SPARSE,
    STEPS,
    SUFFIX,
    TITLES,
    Chains,
    Method,
    Options,
    at_start,
    expectiles,
    interval,
    learnt_ks,
    listed,
    measure_methods,
    plot_errors,
)
from edrl.paper.experiment import (
    Advance,
    Claim,
    Drawing,
    Experiment,
    Table,
    Tables,
    from_rows,
    joined,
    select,
    summarised,
)
from edrl.paper.thresholds import judged
from edrl.report import style

_MANY = KS[1:]
_NAMES = {
    "EDRL-naive": "no imputation",
    "EDRL-scipy": "scipy.optimize.root, the paper's",
    "EDRL-minimise": "scipy.optimize.minimize on Equation (8)",
    "EDRL-samples": "Equation (8) by our solver",
    "EDRL": "exact imputation",
}


def _methods(full: bool, levels: str) -> list[Method]:
    """What is run at one set of levels: on the longest chain, root's dynamic programming on others
    as well.
    """
    if full:
        return _many_methods(levels)
    return _few_methods() if levels == MIDPOINTS else _fewest_methods()


_END: Options = {"lengths": (LONGEST,)}
_SOLVED: Options = {"restless": True, "td_lengths": (LONGEST,)}


def _many_methods(levels: str) -> list[Method]:
    """At full size."""
    middle = levels == MIDPOINTS
    lengths = LENGTHS if middle else (LONGEST,)
    run: Options = {"ks": _MANY, "td_ks": _MANY, "seeds": 10, **_END}
    samples: Options = {**run, "td_ks": _MANY if middle else (), "restless": True}
    root: Options = {"ks": _MANY, "td_ks": _MANY, "seeds": 5, "lengths": lengths, **_SOLVED}
    least: Options = {"ks": _MANY, "td_ks": (3,) if middle else (), "seeds": 3, **_END, **_SOLVED}
    return _with_options(run, run, samples, root, least)


def _few_methods() -> list[Method]:
    """At default size and the midpoint levels: as many comparisons as there are runs of root."""
    run: Options = {"ks": (3, 9), "td_ks": (3,), "seeds": 4, **_END}
    naive: Options = {**run, "ks": (3, 5, 9)}
    samples: Options = {**run, "restless": True}
    root: Options = {"ks": (3, 5, 9), "td_ks": (3,), "seeds": 3, "lengths": SPARSE, **_SOLVED}
    least: Options = {"ks": (3,), "td_ks": (), "seeds": 3, **_END, **_SOLVED}
    return _with_options(run, naive, samples, root, least)


def _fewest_methods() -> list[Method]:
    """At default size and the other levels."""
    run: Options = {"ks": (3, 9), "td_ks": (), "seeds": 4, **_END}
    naive: Options = {**run, "td_ks": (3,)}
    samples: Options = {**run, "restless": True}
    root: Options = {"ks": (3, 9), "td_ks": (3,), "seeds": 1, **_END, **_SOLVED}
    least: Options = {"ks": (3,), "td_ks": (), "seeds": 3, **_END, **_SOLVED}
    return _with_options(run, naive, samples, root, least)


def _with_options(
    exact: Options, naive: Options, samples: Options, root: Options, minimise: Options
) -> list[Method]:
    return [
        Method.of_expectiles("EDRL", **exact),
        Method.of_expectiles("EDRL-naive", "as_samples", **naive),
        Method.of_expectiles("EDRL-samples", "equal-weights", **samples),
        Method.of_expectiles("EDRL-scipy", "scipy-root", **root),
        Method.of_expectiles("EDRL-minimise", "scipy-minimize", **minimise),
    ]


def measure(full: bool, advance: Advance) -> Tables:
    chains, chain = Chains(), Chains((LONGEST,))
    rows: list[Table] = []
    for number, levels in enumerate(LEVELS):
        for method in _methods(full, levels):
            advance(0.4 * number + 0.05, f"{method.name}, levels {levels}")
            where = chain if tuple(method.lengths) == (LONGEST,) else chains
            rows.append(measure_methods(where, [method], [levels], lambda *_: None))
    advance(0.8, "other goals")
    return {"errors": joined(*rows), "solves": _solves(chain), "goals": _other_goals(full, advance)}


def _solves(chain: Chains) -> Table:
    """How often SciPy's root finder succeeds on the true expectiles of the 15-chain's returns."""
    rows = []
    for levels, k in itertools.product(LEVELS, _MANY):
        family = expectiles(levels, k, "scipy-root")
        _, success = solve_rows(family, chain.true_values(family)[: LONGEST - 1])
        rows.append((levels, k, len(success), int(success.sum())))
    return from_rows(("levels", "k", "solves", "succeeded"), rows)


def _other_goals(full: bool, advance: Advance) -> Table:
    """Figures 13 and 14 with SciPy's root, at the midpoint levels."""
    ks = _MANY if full else (3, 9)
    options: Options = {"ks": ks, "lengths": (LONGEST,)}
    options |= {"td_ks": ks, "seeds": 5} if full else {"td_ks": (3,), "seeds": 3}
    solved: Options = {**options, "restless": True}
    found = []
    for name, goal in GOALS.items():
        advance(0.9, TITLES[name])
        chain = Chains((LONGEST,), goal, REWARD_ATOMS)
        methods = [
            Method.of_expectiles("EDRL-naive", "as_samples", **options),
            Method.of_expectiles("EDRL-scipy", "scipy-root", **solved),
        ]
        rows = measure_methods(chain, methods, [MIDPOINTS], lambda *_: None)
        found.append({"goal": [name] * len(rows["k"]), **rows})
    return joined(*found)


def draw(tables: Tables) -> list[Drawing]:
    return [
        _draw_start(tables["errors"]),
        _draw_mean(tables["errors"]),
        _draw_lengths(tables["errors"]),
    ]


def _lines(axes: Axes, rows: Table, column: str, mode: str, levels: str) -> None:
    """One line for each imputation, over K, at the start of the longest chain."""
    start = {"levels": levels, "mode": mode, "length": LONGEST, "distance": LONGEST - 1}
    for name, label in _NAMES.items():
        found = select(rows, algorithm=name, **start)
        if not len(found["k"]):
            continue
        mean = summarised(found, "k", column, np.mean)
        half = summarised(found, "k", column, lambda seeds: interval(seeds[:, None])[1][0])
        numbers = mean["k"], mean[column], np.nan_to_num(half[column])
        axes.errorbar(*numbers, capsize=3, label=label, **style.look_of(name))
    axes.set_xticks(_MANY)
    axes.set_yscale("log")


def _draw_start(rows: Table) -> Drawing:
    figure, grid = style.axes(2, 2, width=9.5, height=6.4, sharex=True, sharey=True)
    for line, (mode, how) in zip(
        grid, (("TD", "temporal differences"), ("DP", "dynamic programming")), strict=True
    ):
        for axes, levels in zip(line, LEVELS, strict=True):
            _lines(axes, rows, "error", mode, levels)
            axes.set_title(f"{how}, {AT[levels].removeprefix('at ')}", fontsize=9.5)
        line[0].set_ylabel("mean absolute expectile error")
    for axes in grid[-1]:
        axes.set_xlabel("number K of expectiles")
    figure.legend(*grid[1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    caption = (
        f"Error at the start of the {LONGEST}-chain under each imputation. The paper's root finder returns its last"
        " iterate where it finds no root, which is nearly always. Bars: 95 % intervals over seeds, none for one seed."
    )
    return Drawing("paper-imputation", figure, caption)


def _draw_mean(rows: Table) -> Drawing:
    figure, panels = style.axes(1, 2, width=9.5, height=3.8, sharey=True)
    for axes, levels in zip(panels, LEVELS, strict=True):
        _lines(axes, rows, "mean_error", "DP", levels)
        axes.set_title(AT[levels].removeprefix("at "))
        axes.set_xlabel("number K of expectiles")
    panels[0].set_ylabel("error of the expected return\nfrom $x_0$ (DP)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    caption = (
        "Who learns expected returns? Samples that have not exactly the expectiles asked for have not their mean"
        " either, and the 1/2-expectile drifts away with every backup. Exact imputation keeps it to the accuracy at"
        " which dynamic programming stops."
    )
    return Drawing("paper-imputation-mean", figure, caption)


def _draw_lengths(rows: Table) -> Drawing:
    figure, panels = style.axes(1, 3, width=10.5, height=3.6, sharey=True)
    shown = (
        ("length", "DP", "by DP, over chain lengths"),
        ("distance", "DP", "by DP, over distances"),
        ("distance", "TD", "by TD, over distances"),
    )
    for axes, (axis, mode, title) in zip(panels, shown, strict=True):
        plot_errors(axes, rows, "error", axis, mode, "EDRL-scipy", levels=MIDPOINTS)
        axes.set_title(f"SciPy's root {title}", fontsize=9.5)
        axes.set_xlabel("chain length N" if axis == "length" else "steps to the goal")
        axes.legend(fontsize=7)
    panels[0].set_ylabel("mean absolute expectile error")
    panels[0].set_ylim(bottom=0)
    caption = "EDRL with the paper's imputation, scipy.optimize.root with default parameters, at the midpoint levels."
    return Drawing("paper-imputation-lengths", figure, caption)


def judge(tables: Tables) -> list[Claim]:
    rows = tables["errors"]
    claims = [claim for levels in (MIDPOINTS, EVEN) for claim in _judge_errors(rows, levels)]
    return [*claims, *_judge_means(tables), *(_judge_goal(tables["goals"], goal) for goal in GOALS)]


def _ratios(
    rows: Table, algorithm: str, mode: str, **where: object
) -> tuple[list[float], list[int]]:
    """Naive's error at x0 over the algorithm's for every K that was run, and those K."""
    chosen = {"mode": mode, **where}
    ks = np.unique(select(rows, algorithm=algorithm, **chosen)["k"]).tolist()
    naive, other = (
        [at_start(rows, "error", algorithm=name, k=k, **chosen) for k in ks]
        for name in ("EDRL-naive", algorithm)
    )
    return np.divide(naive, other).tolist(), ks


def _judge_errors(rows: Table, levels: str) -> list[Claim]:
    """Section 5.1 with the paper's own imputation: errors are "much lower" than naive's."""
    both = ("DP", "TD")
    tried = {
        "root": ("EDRL-scipy", "the paper's imputation (scipy.optimize.root)", both),
        "minimise": ("EDRL-minimise", "Equation (8) minimised by SciPy", ("DP",)),
        "samples": (
            "EDRL-samples",
            "Equation (8) minimised by our solver",
            both if levels == MIDPOINTS else ("DP",),
        ),
    }
    claims = []
    for name, (algorithm, text, modes) in tried.items():
        for mode in modes:
            ratios, ks = _ratios(rows, algorithm, mode, levels=levels)
            claims.append(
                judged(
                    f"paper-{name}-{mode.lower()}{SUFFIX[levels]}", "Section 5.1",
                    f"EDRL with {text} is far below EDRL-naive at x0 ({mode}), {AT[levels]}",
                    f"naive's error is {listed(ratios, ks, '×')} as large", min(ratios),
                    note=_NOTES.get((name, mode, levels), ""),
                )
            )  # fmt: skip
    return [*claims, _judge_exact(rows, levels), _judge_w1(rows, levels)]


def _judge_exact(rows: Table, levels: str) -> Claim:
    better = {}
    for algorithm in ("EDRL-scipy", "EDRL-minimise", "EDRL-samples"):
        theirs, ours = (_dp_errors(rows, levels, name) for name in (algorithm, "EDRL"))
        better[algorithm] = min(theirs[k] / ours[k] for k in theirs if k in ours)
    text = (
        "Exact imputation is more accurate at x0 than the paper's, for every K > 1 and solver (DP)"
    )
    said = ", ".join(f"{ratio:.3g}× ({name})" for name, ratio in better.items())
    return judged(
        f"paper-exact{SUFFIX[levels]}", "edrl", f"{text}, {AT[levels]}",
        f"their error is at least {said}", min(better.values()),
    )  # fmt: skip


def _dp_errors(rows: Table, levels: str, algorithm: str, column: str = "error") -> dict[int, float]:
    """At x0, for every K > 1 that dynamic programming was run with."""
    where = {"levels": levels, "mode": "DP", "algorithm": algorithm}
    return {k: at_start(rows, column, k=k, **where) for k in learnt_ks(rows, **where)}


def _judge_w1(rows: Table, levels: str) -> Claim:
    w1 = _dp_errors(rows, levels, "EDRL-scipy", "w1")
    return judged(
        f"paper-w1{SUFFIX[levels]}", "Appendix E",
        "More expectiles always lower EDRL's Wasserstein-1 distance at x0 (DP, scipy.optimize.root),"
        f" {AT[levels]}",
        listed([*w1.values()], [*w1]), min(a / b for a, b in itertools.pairwise(w1.values())),
        note=_NOTES.get(("w1", "DP", levels), ""),
    )  # fmt: skip


_THREE = (
    "For K = 3 alone: three equally weighted samples cannot have these expectiles at levels 0.01, 0.5 and 0.99,"
    " whatever the solver. The outer two expectiles fix the outer two samples, and the middle one would have to lie"
    " outside them to give the mean. The paper does not name its tabular levels."
)
_NO_ROOT = (
    "For K = 3 alone: where there is no root, the solver's last iterate is taken, and sweeps"
    " never settle. Minimising Equation (8) instead more than halves the error."
)
_NOTES = {
    ("root", "DP", MIDPOINTS): _NO_ROOT,
    ("root", "DP", EVEN): _THREE,
    ("root", "TD", EVEN): _THREE,
    ("minimise", "DP", EVEN): _THREE,
    ("samples", "DP", EVEN): _THREE,
}


def _judge_means(tables: Tables) -> list[Claim]:
    """Section 4.3: "as long as the 1/2-expectile is included in the set of statistics, expected
    returns are learnt exactly"."""
    rows, solves = tables["errors"], tables["solves"]

    def off(algorithm: str) -> list[float]:
        found = [_dp_errors(rows, levels, algorithm, "mean_error").values() for levels in LEVELS]
        return list(itertools.chain.from_iterable(found))

    exact, root = off("EDRL"), off("EDRL-scipy")
    share = 100 * np.divide(solves["succeeded"], solves["solves"])
    return [
        judged(
            "paper-mean", "Section 4.3",
            "EDRL learns expected returns exactly with the paper's imputation (scipy.optimize.root, DP)",
            f"the mean at x0 is off by {min(root):.3f} to {max(root):.3f}; given the true expectiles the solver"
            f" succeeds on {min(share):.0f} to {max(share):.0f} % of the chain's states, by K and levels",
            max(root),
            note="The argument needs samples that have the given expectiles. K equally weighted samples rarely do:"
            " where there is no root the solver returns its last iterate, whose mean is another one.",
        ),
        judged(
            "paper-mean-exact", "edrl", "EDRL learns expected returns exactly with exact imputation (DP)",
            f"the mean at x0 is off by at most {max(exact):.1e}", max(exact),
        ),
    ]  # fmt: skip


def _judge_goal(rows: Table, goal: str) -> Claim:
    ratios, ks = _ratios(rows, "EDRL-scipy", "DP", goal=goal)
    return judged(
        f"paper-goals-{goal}", "Appendix E",
        f"EDRL with the paper's imputation is below naive at x0 (DP), {TITLES[goal]}, {AT[MIDPOINTS]}",
        f"naive's error is {listed(ratios, ks, '×')} as large", min(ratios),
    )  # fmt: skip


EXPERIMENT = Experiment(
    "paper-imputation",
    "The paper's own imputation",
    "Figures 5, 12, 13 and 14, Sections 3.3 and 4.3",
    "paper",
    "EDRL as the paper has it: K equally weighted samples by scipy.optimize.root with default parameters on Equation"
    " (7), started at the values (EDRL-scipy); by scipy.optimize.minimize on Equation (8) (EDRL-minimise); and by our"
    " own, batched solver of Equation (8) (EDRL-samples), which stands in for SciPy's in temporal differences. Beside"
    f" them naive and exact EDRL. The {LONGEST}-chain and, for root, chains of 2, 5, 8 and 11 states (full size: every"
    f" length). Dynamic programming with {RESTLESS_SWEEPS} sweeps, as these imputations never settle, and errors"
    f" averaged over the last {RESTLESS_LAST}; {STEPS:,} temporal-difference steps of size {ALPHA} for K = 3: root with"
    " three seeds at the midpoint levels and one at the others, the rest with four (full size: root with five seeds and"
    " every K, minimize with three and K = 3, the rest with ten). Goals as in Figures 13 and 14 at the midpoint levels,"
    " by dynamic programming (full size: three seeds of temporal differences as well).",
    measure,
    draw,
    judge,
    (160.0, 1500.0),
)
