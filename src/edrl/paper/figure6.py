"""Figure 6: Huber quantiles on the 15-chain, with and without imputation."""

from typing import Any

import numpy as np

from edrl import HuberQuantiles
from edrl.paper.chains import (
    ALPHA,
    KS,
    LONGEST,
    MIDPOINTS,
    RESTLESS_LAST,
    RESTLESS_SWEEPS,
    STEPS,
    Chains,
    Method,
    along,
    at_start,
    learnt_ks,
    least_growth,
    listed,
    measure_methods,
    plot_errors,
    plot_rollouts,
    significant_falls,
)
from edrl.paper.experiment import Advance, Claim, Drawing, Experiment, Table, Tables
from edrl.paper.thresholds import judged
from edrl.report import style

_TITLES = {
    "Huber-QDRL-naive": "naive: no imputation",
    "Huber-QDRL-samples": "the paper's: K equal samples",
    "Huber-QDRL-imputation": "maximum entropy",
}


def measure(full: bool, advance: Advance) -> Tables:
    ks = KS if full else (1, 3, 9)
    imputed: dict[str, Any] = {"seeds": 10 if full else 2, "td_ks": ks if full else (3,)}
    methods = [
        _method("Huber-QDRL-imputation", "maximum-entropy", ks=ks[1:], **imputed),
        _method("Huber-QDRL-naive", "as_samples", ks=ks, seeds=30 if full else 6),
        _method("Huber-QDRL-samples", "equal-weights", ks=ks[1:], restless=True, **imputed),
    ]
    chain = Chains((LONGEST,))
    return {
        "errors": measure_methods(chain, methods, [MIDPOINTS], advance),
        "monte_carlo": chain.monte_carlo(HuberQuantiles(max(KS))),
    }


def _method(name: str, impute: str, **options: Any) -> Method:
    return Method(
        name, lambda _, k: HuberQuantiles(k, imputation=impute), lengths=(LONGEST,), **options
    )


def draw(tables: Tables) -> list[Drawing]:
    figure, grid = style.axes(2, 3, width=10, height=5.6, sharex=True, sharey=True)
    modes = (("TD", "temporal differences"), ("DP", "dynamic programming"))
    for line, (mode, how) in zip(grid, modes, strict=True):
        for axes, (algorithm, title) in zip(line, _TITLES.items(), strict=True):
            plot_errors(axes, tables["errors"], "error", "distance", mode, algorithm)
            plot_rollouts(axes, tables["monte_carlo"])
            if mode == "TD":
                axes.set_title(title)
            axes.legend(fontsize=7, ncols=2, loc="upper left")
        line[0].set_ylabel(f"mean absolute Huber-quantile error\n({how})", fontsize=8.5)
    grid[0, 0].set_ylim(0, 1.3)
    for axes in grid[-1]:
        axes.set_xlabel("steps to the goal")
    return [Drawing("figure-6", figure, _CAPTION)]


_CAPTION = (
    "Error of the learnt Huber quantiles (κ = 1) against the distance to the goal. Taking them for samples, as"
    " QR-DQN does (left), the error grows with the distance and with K; imputing first keeps it lower: with K equally"
    " weighted samples, the paper's way (middle), and more so with a distribution of largest entropy (right). Shades:"
    " 95 % interval over seeds, by Student's t."
)


def judge(tables: Tables) -> list[Claim]:
    rows = tables["errors"]

    def start(algorithm: str, k: int, mode: str) -> float:
        return at_start(rows, "error", mode=mode, algorithm=algorithm, k=k)

    td_ks = learnt_ks(rows, mode="TD", algorithm="Huber-QDRL-imputation")
    ks = sorted(set(rows["k"]))[1:]

    def reduces(name: str, source: str, what: str, algorithm: str, mode: str) -> Claim:
        which, how = (ks, "(DP)") if mode == "DP" else (td_ks, f"after {STEPS:,} TD steps")
        ratios = [start("Huber-QDRL-naive", k, mode) / start(algorithm, k, mode) for k in which]
        measured = "naive's is " + listed(ratios, which, "×") + " as large"
        claim = f"{what} the Huber-quantile error at x0 {how}"
        return judged(f"figure-6-{name}", source, claim, measured, min(ratios))

    samples, entropy = "Huber-QDRL-samples", "Huber-QDRL-imputation"
    ours = "Imputation by maximum entropy vastly reduces"
    theirs = "The paper's imputation, K equally weighted samples by our solver, vastly reduces"
    return [
        reduces("samples-dp", "Section 5.1", theirs, samples, "DP"),
        reduces("samples-td", "Section 5.1", theirs, samples, "TD"),
        reduces("dp", "edrl", ours, entropy, "DP"),
        reduces("td", "edrl", ours, entropy, "TD"),
        _judge_growth(tables, ks),
    ]


def _naive_errors(rows: Table, mode: str, ks: list[int]) -> np.ndarray:
    """[K, seeds, distances]."""
    where = {"mode": mode, "algorithm": "Huber-QDRL-naive"}
    return np.stack([along(rows, "error", "distance", k=k, **where)[0] for k in ks])


def _judge_growth(tables: Tables, ks: list[int]) -> Claim:
    """With the distance for every K, and with K at every distance."""
    by = {mode: _naive_errors(tables["errors"], mode, ks) for mode in ("DP", "TD")}
    over_distance, over_k = (least_growth(by["DP"], axis) for axis in (2, 0))
    falls = [significant_falls(by["TD"], axis) for axis in (2, 0)]
    return judged(
        "figure-6-naive", "Section 5.1",
        "Huber-QDRL-naive's error grows with the distance for every K > 1, and with K at every distance",
        f"least growth in one step by DP {over_distance:.3f}× with the distance, {over_k:.3f}× with K; by TD it falls"
        f" beyond its 95 % interval in {falls[0][0]} of {falls[0][1]} and {falls[1][0]} of {falls[1][1]} steps",
        {
            "least growth with distance": over_distance, "least growth with K": over_k,
            "falls by TD": sum(fall for fall, _ in falls),
        },
    )  # fmt: skip


EXPERIMENT = Experiment(
    "figure-6",
    "Huber quantiles, naive and imputed",
    "Figure 6, Section 5.1",
    "paper",
    "The 15-chain as above; K ∈ {1, 3, 9} Huber quantiles (κ = 1; full size: K ∈ {1, 3, 5, 7, 9}) at the"
    " midpoint levels of QR-DQN. Imputation is by K equally weighted samples that minimise the sum of squares of"
    " Equation (8) for Huber quantiles (Huber-QDRL-samples: the paper's problem, by our solver in the place of"
    " SciPy's), and by the distribution of largest entropy on a grid (Huber-QDRL-imputation, ours). Dynamic"
    f" programming to a change of 1e-9, or {RESTLESS_SWEEPS} sweeps with equal samples, which never settle, with errors"
    f" that are averaged over the last {RESTLESS_LAST}, and {STEPS:,} temporal-difference steps of size {ALPHA} (naive:"
    " 6 seeds, imputation: two seeds and K = 3; full size: 30 and 10 seeds, every K).",
    measure,
    draw,
    judge,
    (60.0, 900.0),
)
