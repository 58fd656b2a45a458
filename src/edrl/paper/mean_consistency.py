"""Which algorithms learn expected returns (Lemma 4.8, Section 4.3)."""

from collections.abc import Callable
from itertools import product

import numpy as np
from matplotlib.axes import Axes

from edrl.core.families import Categorical, Expectiles, Quantiles
from edrl.core.statistics import Statistics
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
    table,
)
from edrl.paper.thresholds import judged
from edrl.report import style
from edrl.tabular import dp
from edrl.tabular.bellman import solve_moments
from edrl.tabular.mdp import MDP
from edrl.tabular.problems import garnet, quantile_mean_inconsistent

GAMMA = 0.9
TOLERANCE = 1e-12  # of dynamic programming: means are then within about 1e-11
EXAMPLE_K = 9
ALGORITHMS = ("CDRL", "QDRL", "EDRL", "EDRL-naive")


def measure(full: bool, advance: Advance) -> Tables:
    """Errors of expected returns over K, and the example of the proof."""
    ks, seeds = ((1, 3, 5, 9, 17, 33, 65), 20) if full else ((3, 9, 33), 4)
    mdps = [_mdp(seed) for seed in range(seeds)]
    exact = [solve_moments(mdp, "uniform", 1)[..., 0] for mdp in mdps]
    cases = list(product(ALGORITHMS, ks))
    means = []
    for number, (algorithm, k) in enumerate(cases):
        advance(number / len(cases), f"{algorithm}, K = {k}")
        errors = _errors(mdps, _family(algorithm, k), exact)
        means.append(table(algorithm=algorithm, k=k, **errors))
    narrow = Categorical(np.linspace(-0.1, 0.1, 9))
    means.append(table(algorithm="CDRL, narrow", k=narrow.size, **_errors(mdps, narrow, exact)))
    return {
        "means": joined(*means),
        "two_actions": joined(*map(_two_actions, ALGORITHMS)),
        "identity": joined(*(_identity(k) for k in ks if k > 1)),
    }


def _mdp(seed: int) -> MDP:
    """A random MDP whose returns lie in [-1, 1]."""
    return garnet(seed, 4, 2, 2, GAMMA, max_reward=1 - GAMMA)


def _family(algorithm: str, k: int, low: float = -1.0) -> Statistics:
    """K statistics: for CDRL, K + 1 support points from `low` to 1."""
    families: dict[str, Callable[[], Statistics]] = {
        "CDRL": lambda: Categorical(np.linspace(low, 1, k + 1)),
        "QDRL": lambda: Quantiles(k),
        "EDRL": lambda: Expectiles(k),
        "EDRL-naive": lambda: Expectiles(k, "as_samples"),
    }
    return families[algorithm]()


def _errors(mdps: list[MDP], family: Statistics, exact: list[np.ndarray]) -> Table:
    """For each MDP the largest error of an expected return, and whether dynamic programming
    settled.
    """
    rows = []
    for seed, (mdp, true) in enumerate(zip(mdps, exact, strict=True)):
        learnt = dp.evaluate(mdp, "uniform", family, tolerance=TOLERANCE)
        error = float(np.abs(learnt.means() - true).max())
        rows.append((seed, error, learnt.converged))
    return from_rows(("seed", "error", "converged"), rows)


def _two_actions(algorithm: str) -> Table:
    """Greedy dynamic programming in the MDP of Lemma 4.8 (ii), which ends after one step."""
    k = EXAMPLE_K
    mdp = quantile_mean_inconsistent(k)
    learnt = dp.control(mdp, _family(algorithm, k, low=0.0)).means()[0]
    true = solve_moments(mdp, "uniform", 1)[0, :, 0]
    return table(algorithm=algorithm, k=k, action=[1, 2], mean=learnt, true=true)


def _identity(k: int) -> Table:
    """How far x is from z_K - (z_K - z_1)/c times the sum of the h, for c = K - 1 and for the
    printed c = K.
    """
    x = np.linspace(-1, 1, 401)
    total = Categorical(np.linspace(-1, 1, k)).features(x).sum(axis=0)
    off = [np.abs(1 - 2 / c * total - x).max() for c in (k - 1, k)]
    return table(k=k, divisor=["K - 1", "K"], off=off)


def draw(tables: Tables) -> list[Drawing]:
    """Errors of means over K, and the example of two actions."""
    figure, (left, right) = style.axes(1, 2, width=9.0, height=3.7)
    _draw_errors(left, tables["means"])
    _draw_example(right, tables["two_actions"])
    caption = (
        "Left: error of the learnt expected returns against K (largest over states and actions; line: worst MDP,"
        " band: all of them). CDRL and EDRL, here with exact imputation, are exact up to where iteration stops, at"
        " any K; QDRL is not, nor are expectiles taken for samples (EDRL-naive). Right: the proof's example. Action a1"
        " has twice the mean of a2, but all of its quantiles are 0, so QDRL prefers a2. EDRL-naive is right there,"
        " since nothing is imputed in one step."
    )
    return [Drawing("mean-consistency", figure, caption)]


def _draw_errors(axes: Axes, means: Table) -> None:
    """The range of errors over the MDPs, for every K."""
    for algorithm in ALGORITHMS:
        rows = select(means, algorithm=algorithm)
        least, most = (summarised(rows, "k", "error", how) for how in (np.min, np.max))
        axes.plot(most["k"], most["error"], label=algorithm, **style.look_of(algorithm))
        ends = least["error"], most["error"]
        style.band(axes, most["k"], *ends, style.COLOURS[algorithm], alpha=0.2)
    axes.set(
        xscale="log",
        yscale="log",
        ylim=(1e-16, 10),
        xlabel="number K of statistics",
        ylabel="error of the mean",
    )
    ks = np.unique(select(means, algorithm="EDRL")["k"])
    axes.set_xticks(ks, [str(k) for k in ks])
    axes.minorticks_off()
    axes.set_title("expected returns of random MDPs")
    axes.legend(loc="center right")


def _draw_example(axes: Axes, two_actions: Table) -> None:
    """The means of both actions, true and learnt."""
    unit = 1 / (8 * EXAMPLE_K)
    shown = ["truth", *ALGORITHMS]
    colours = [style.COLOURS[name] for name in shown]
    for action, hatch in ((1, ""), (2, "//")):
        mine = select(two_actions, action=action)
        heights = np.array([mine["true"][0], *mine["mean"]]) / unit
        places = np.arange(len(shown)) + 0.4 * action - 0.6
        bars = axes.bar(places, heights, 0.36, color=colours, hatch=hatch, ec="white", lw=0)
        axes.bar_label(bars, [f"a{action}"] * len(shown), size=9)
    axes.set_xticks(np.arange(len(shown)), shown, rotation=20)
    title = f"Lemma 4.8 (ii): two actions, K = {EXAMPLE_K}"
    axes.set(ylabel="mean, in units of 1/8K", ylim=(0, None), title=title)
    axes.grid(axis="x", visible=False)


def judge(tables: Tables) -> list[Claim]:
    """Lemma 4.8, and Section 4.3 on EDRL."""
    worst, least = {}, {}
    for name in (*ALGORITHMS, "CDRL, narrow"):
        errors = select(tables["means"], algorithm=name)["error"]
        worst[name], least[name] = errors.max(), errors.min()
    rows = select(tables["means"], algorithm="EDRL-naive")
    naive = rows["error"][rows["k"] > 1].min()
    right, printed = (select(tables["identity"], divisor=c)["off"].max() for c in ("K - 1", "K"))
    example = select(tables["two_actions"], algorithm="QDRL")
    unit = 1 / (8 * EXAMPLE_K)
    # Of what has not settled, an error might go away with more iterations.
    unsettled = len(tables["means"]["converged"]) - sum(tables["means"]["converged"])
    return [
        judged(
            "lemma-4.8-i", "Lemma 4.8 (i)",
            "CDRL learns expected returns exactly if its support covers the returns.",
            f"error at most {worst['CDRL']:.1e}", worst["CDRL"],
        ),
        judged(
            "lemma-4.8-i-support", "Lemma 4.8 (i)",
            "If the support does not cover them, it does not.",
            f"error at least {least['CDRL, narrow']:.2g} on a support of ±0.1", least["CDRL, narrow"],
        ),
        judged(
            "lemma-4.8-i-identity", "Lemma 4.8 (i), proof",
            "CDRL's mean is z_K - (z_K - z_1)/(K - 1) times the sum of its statistics.",
            f"off by {right:.1e}", right, kind="identity",
        ),
        judged(
            "lemma-4.8-i-printed", "Lemma 4.8 (i), proof",
            "The mean is linear in CDRL's statistics with the factor (Rmax - Rmin)/K, as printed.",
            f"off by up to {printed:.2g} on [-1, 1]", printed,
            note="A slip in the proof: K points have K - 1 gaps. With K the identity fails by (z_K - z_1)/K at z_1.",
        ),
        judged(
            "lemma-4.8-ii", "Lemma 4.8 (ii)", "QDRL does not learn expected returns exactly.",
            f"error at least {least['QDRL']:.1e} on every MDP and K",
            {"least error": least["QDRL"], "runs that have not settled": unsettled},
        ),
        judged(
            "lemma-4.8-ii-example", "Lemma 4.8 (ii), proof",
            f"Of actions with means 1/4K and 1/8K, QDRL prefers the worse: it learns 0 and 1/8K (K = {EXAMPLE_K}).",
            f"{example['mean'][0]:.5f} and {example['mean'][1]:.5f};"
            f" true {example['true'][0]:.5f} and {example['true'][1]:.5f}",
            {
                "learnt means off 0 and 1/8K": np.abs(example["mean"] - [0, unit]).max(),
                "true means off 1/4K and 1/8K": np.abs(example["true"] - [2 * unit, unit]).max(),
            },
        ),
        judged(
            "section-4.3-edrl", "Section 4.3",
            "EDRL with exact imputation learns expected returns exactly if 1/2 is among its levels.",
            f"error at most {worst['EDRL']:.1e}", worst["EDRL"],
        ),
        judged(
            "section-4.3-naive", "edrl", "Without imputation it does not (K > 1).",
            f"error at least {naive:.1e} on every MDP",
            {"least error": naive, "runs that have not settled": unsettled},
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    name="mean-consistency",
    title="Mean consistency",
    source="Lemma 4.8, Section 4.3",
    section="theory",
    about="Expected returns after dynamic programming to a change of 1e-12, against the solution of the linear Bellman"
    " equation, on 4 (full: 20) random MDPs with 4 states, 2 actions, 2 successors each, γ = 0.9, rewards in ±0.1 (so"
    " returns in [-1, 1]) and the uniform policy. K is 3, 9 and 33 (full: 1 to 65) statistics; CDRL's support is"
    " [-1, 1], EDRL's levels are evenly spaced from 0.01 to 0.99, and it imputes exactly. The two-action MDP is that"
    " of the proof.",
    measure=measure,
    draw=draw,
    judge=judge,
    cost=(24.0, 65.0),
)
