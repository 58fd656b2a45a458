"""Approximate closedness: bounds against errors on random MDPs and on the worst that a search
finds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from edrl.core.families import Categorical, Expectiles, Quantiles, midpoints
from edrl.core.statistics import Statistics
from edrl.paper import worst_mdps
from edrl.paper.experiment import (
    Advance,
    Claim,
    Drawing,
    Experiment,
    Table,
    Tables,
    joined,
    select,
    summarised,
    table,
)
from edrl.paper.thresholds import judged
from edrl.paper.worst_mdps import RESTLESS_K
from edrl.report import style
from edrl.tabular.ground_truth import return_distributions
from edrl.tabular.problems import garnet
from edrl.theory.bounds import (
    Decay,
    cdrl_bound,
    cdrl_cramer_bound,
    edrl_bound,
    measure_decay,
    qdrl_bound,
    sharper_cdrl_bound,
    sharper_qdrl_bound,
)

GAMMAS = (0.5, 0.9)
MAKE: dict[str, Callable[[int], Statistics]] = {
    "CDRL": lambda k: Categorical(np.linspace(-1, 1, k)),
    "QDRL": Quantiles,
    "EDRL": lambda k: Expectiles(midpoints(k)),
}


@dataclass(frozen=True)
class Bound:
    """A bound on the mean error, for returns in [-1, 1]: Rmax is 1 - gamma."""

    id: str  # of its claim
    algorithm: str
    source: str
    formula: str
    value: Callable[[int, float], float]  # of K and gamma
    line: str  # its style in the figures


BOUNDS: dict[str, Bound] = {
    "Theorem 4.6": Bound(
        "theorem-4.6", "CDRL", "Theorem 4.6", "γ / (2 (1 - γ)(K - 1))", cdrl_bound, "-"
    ),
    "Rowland et al. (2018)": Bound(
        "rowland-2018", "CDRL", "Rowland et al. (2018), Proposition 3", "√(γ / ((1 - γ)(K - 1)))",
        cdrl_cramer_bound, ":",
    ),
    "our bound for CDRL": Bound(
        "cdrl-sharper-bound", "CDRL", "edrl", "γ / (2 √(1 - γ²) (K - 1))", sharper_cdrl_bound, "--"
    ),
    "Theorem 4.7": Bound(
        "theorem-4.7", "QDRL", "Theorem 4.7", "2 Rmax (5 - 2γ) / ((1 - γ)² K)",
        lambda k, gamma: qdrl_bound(k, gamma, 1 - gamma), "-",
    ),
    "our bound for QDRL": Bound(
        "qdrl-sharper-bound", "QDRL", "edrl", "Rmax (2 - γ) / ((1 - γ)² K)",
        lambda k, gamma: sharper_qdrl_bound(k, gamma, 1 - gamma), "--",
    ),
    "our bound for EDRL": Bound(
        "edrl-bound", "EDRL", "edrl", "of docs/edrl-theorem.md, O(log K / K) for any exact imputation",
        lambda k, gamma: edrl_bound(midpoints(k), gamma, 1 - gamma), "--",
    ),
}  # fmt: skip


def measure(full: bool, advance: Advance) -> Tables:
    """Errors of Definition 4.5 on random MDPs and on the worst ones found, over K, and the bounds."""
    ks = (3, 5, 9, 17, 33, 65, 129) if full else (3, 9, 33)
    tables = _random(ks, 12 if full else 4, 2048 if full else 512, advance)
    tables |= worst_mdps.measure(MAKE, GAMMAS, 8 if full else 1, advance)
    tables["bounds"] = _bounds(ks)
    advance(0.98, "dynamic programming that does not settle")
    tables["restless"] = worst_mdps.measure_restless(MAKE["EDRL"](RESTLESS_K))
    return tables


def _bounds(ks: Sequence[int]) -> Table:
    """The value of every bound."""
    found = []
    for (name, bound), gamma in product(BOUNDS.items(), GAMMAS):
        values = [bound.value(k, gamma) for k in ks]
        found.append(table(bound=name, gamma=gamma, k=ks, value=values))
    return joined(*found)


def _random(ks: Sequence[int], count: int, atoms: int, advance: Advance) -> Tables:
    """Errors on random MDPs, and the rates at which they fall."""
    errors, decays = [], []
    for number, gamma in enumerate(GAMMAS):
        mdps = [garnet(seed, 6, 2, 3, gamma, max_reward=1 - gamma) for seed in range(count)]
        advance(number / 4, f"true return distributions, γ = {gamma}")
        truths = [return_distributions(mdp, "uniform", atoms=atoms) for mdp in mdps]
        for place, (algorithm, make) in enumerate(MAKE.items()):
            advance((number + place / len(MAKE)) / 4, f"{algorithm}, γ = {gamma}")
            decay = measure_decay(make, ks, mdps, truths=truths)
            where: dict[str, object] = {"algorithm": algorithm, "gamma": gamma}
            errors.append(table(**where, **_flat(decay)))
            rate = {"exponent": decay.exponent, "standard_error": decay.standard_error}
            decays.append(table(**where, **rate))
    return {"errors": joined(*errors), "decay": joined(*decays)}


def _flat(decay: Decay) -> dict[str, np.ndarray]:
    """The errors of a decay as columns, with a row for each MDP and K."""
    count, sizes = decay.errors.shape
    return {
        "seed": np.repeat(np.arange(count), sizes),
        "k": np.tile(decay.ks, count),
        "error": decay.errors.ravel(),
        "uncertainty": decay.uncertainties.ravel(),
        "converged": decay.converged.ravel(),
    }


def draw(tables: Tables) -> list[Drawing]:
    """Bounds and errors over K, and the shares of the bounds that errors reach."""
    return [_draw_errors(tables), _draw_shares(tables), _draw_restless(tables["restless"])]


def _draw_errors(tables: Tables) -> Drawing:
    figure, grid = style.axes(2, 3, width=9.0, height=6.0, sharex=True, sharey="row")
    for axes, (gamma, algorithm) in zip(grid.flat, product(GAMMAS, MAKE), strict=True):
        _draw_panel(axes, tables, algorithm, gamma)
    for axes in grid[:, 0]:
        axes.set_ylabel("mean error of the statistics")
    for axes in grid[-1]:
        axes.set_xlabel("number K")
    grey: style.Options = {"color": "#7f7f7f"}
    lines = {
        "the paper's bound": Line2D([], [], color="#000000"),
        "Rowland et al. (2018)": Line2D([], [], color="#000000", ls=":"),
        "our bound": Line2D([], [], color="#000000", ls="--"),
        "worst MDP found": Line2D([], [], ls="none", marker="*", ms=10, **grey),
        "largest error on random MDPs": Line2D([], [], marker="o", **grey),
        "error on each random MDP": Line2D([], [], alpha=0.5, lw=1, **grey),
    }
    figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=3)
    caption = (
        "Bounds (black) and errors of Definition 4.5 (colour) against K, the number of support"
        " points, quantiles or expectiles. No error exceeds its bound. Random MDPs (lines) are kind;"
        " stars are the worst MDPs that a search over small ones finds. They come close to our bounds"
        " for CDRL and QDRL, which are below the paper's. CDRL's statistics are probabilities; the"
        " others are returns, in [-1, 1]."
    )
    return Drawing("bounds", figure, caption)


def _draw_panel(axes: Axes, tables: Tables, algorithm: str, gamma: float) -> None:
    """Errors and bounds of one algorithm at one discount factor."""
    where = {"algorithm": algorithm, "gamma": gamma}
    colour, marker = style.COLOURS[algorithm], style.MARKERS[algorithm]
    errors = select(tables["errors"], **where)
    for seed in np.unique(errors["seed"]):
        own = errors["seed"] == seed
        axes.plot(errors["k"][own], errors["error"][own], color=colour, alpha=0.35, lw=1)
    largest = summarised(errors, "k", "error", np.max)
    axes.plot(largest["k"], largest["error"], color=colour, marker=marker)
    worst = select(tables["worst"], **where)
    axes.plot(worst["k"], worst["error"], color=colour, ls="none", marker="*", ms=10)
    for name, bound in _bounds_of(algorithm).items():
        values = select(tables["bounds"], bound=name, gamma=gamma)
        axes.plot(values["k"], values["value"], color="#000000", ls=bound.line)
    exponent = select(tables["decay"], **where)["exponent"][0]
    axes.set(xscale="log", yscale="log")
    axes.set_title(f"{algorithm}, γ = {gamma}: error ~ $K^{{-{exponent:.2f}}}$")
    _mark_ks(axes, largest["k"])


def _mark_ks(axes: Axes, ks: np.ndarray) -> None:
    axes.set_xticks(ks, [str(k) for k in ks])
    axes.minorticks_off()


def _draw_shares(tables: Tables) -> Drawing:
    figure, grid = style.axes(1, 3, width=9.0, height=4.2, sharey=True)
    ticks = np.unique(tables["errors"]["k"])
    for axes, algorithm in zip(grid, MAKE, strict=True):
        _draw_shares_of(axes, tables, algorithm)
        axes.axhline(1, color="#000000", lw=1)
        axes.set(xscale="log", yscale="log", xlabel="number K", title=algorithm, ylim=(1e-4, 2))
        _mark_ks(axes, ticks)
    grid[0].set_ylabel("largest error / bound")
    grey: style.Options = {"color": "#7f7f7f"}
    lines = {
        "the paper's bound": Line2D([], [], **grey),
        "our bound": Line2D([], [], ls="--", **grey),
        "random MDPs": Line2D([], [], ls="none", marker="o", mfc="white", **grey),
        "worst MDPs found": Line2D([], [], ls="none", marker="o", **grey),
        "γ = 0.5": Line2D([], [], ls="none", marker="o", **grey),
        "γ = 0.9": Line2D([], [], ls="none", marker="s", **grey),
    }
    figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=3)
    caption = (
        "The share of each bound that the largest error uses up, on random MDPs (hollow) and on the"
        " worst found (filled). The rate of Theorem 4.7 is right and its constant generous; Theorem"
        " 4.6 loses a factor that grows as γ nears 1. Our bounds for CDRL and QDRL cannot be lowered"
        " by much. Our bound for EDRL is safe but loose."
    )
    return Drawing("bounds-share", figure, caption)


def _draw_shares_of(axes: Axes, tables: Tables, algorithm: str) -> None:
    colour = style.COLOURS[algorithm]
    for name, bound in _bounds_of(algorithm).items():
        if bound.id == "rowland-2018":
            continue  # far from all errors
        kinds = product(zip(GAMMAS, "os", strict=True), (("errors", "white"), ("worst", colour)))
        for (gamma, marker), (rows, face) in kinds:
            ks, shares = _shares(tables, name, gamma, rows)
            look: style.Options = {"marker": marker, "mfc": face, "ls": bound.line}
            axes.plot(ks, shares, color=colour, lw=1.2, **look)


def _draw_restless(rows: Table) -> Drawing:
    figure, axes = style.axes(width=7.0, height=2.6)
    axes.plot(rows["sweep"], rows["change"], color=style.COLOURS["EDRL"], lw=0.8)
    axes.set(yscale="log", xlabel="sweep of dynamic programming", ylabel="largest change")
    caption = (
        f"EDRL with K = {RESTLESS_K} and the default imputation on one state that pays -Rmax, is left"
        " with probability 0.015 for endless Rmax and with 0.005 for endless -Rmax (γ = 0.9). The"
        " learnt expectiles never settle. Our bound holds for them all the same: it is about every"
        " sweep, not only about fixed points."
    )
    return Drawing("bounds-restless", figure, caption)


def _bounds_of(algorithm: str) -> dict[str, Bound]:
    return {name: bound for name, bound in BOUNDS.items() if bound.algorithm == algorithm}


def _shares(tables: Tables, name: str, gamma: float, rows: str) -> tuple[np.ndarray, np.ndarray]:
    """For each K, the largest (error + uncertainty) / bound over the MDPs of a table."""
    bounds = select(tables["bounds"], bound=name, gamma=gamma)
    errors = select(tables[rows], algorithm=BOUNDS[name].algorithm, gamma=gamma)
    errors["error"] = errors["error"] + errors["uncertainty"]
    largest = summarised(errors, "k", "error", np.max)
    values = bounds["value"][np.isin(bounds["k"], largest["k"])]
    return largest["k"], largest["error"] / values


def _largest_share(tables: Tables, name: str, rows: str) -> float:
    return max(float(_shares(tables, name, gamma, rows)[1].max()) for gamma in GAMMAS)


def judge(tables: Tables) -> list[Claim]:
    """Each bound, how they compare, how sharp they are, and the rates."""
    return [
        *(_judge_bound(tables, name) for name in BOUNDS),
        _judge_improvement(tables["bounds"]),
        *_judge_search(tables),
        *_judge_decay(tables["decay"]),
        _judge_restless(tables["restless"]),
    ]


def _judge_bound(tables: Tables, name: str) -> Claim:
    bound = BOUNDS[name]
    random, worst = (_largest_share(tables, name, rows) for rows in ("errors", "worst"))
    values = select(tables["bounds"], bound=name)["value"]
    telling = int(np.sum(values < (0.5 if bound.algorithm == "CDRL" else 1.0)))
    unsettled = int(np.sum(~select(tables["errors"], algorithm=bound.algorithm)["converged"]))
    return judged(
        bound.id, bound.source,
        f"{bound.algorithm}'s mean error is never above the bound {bound.formula}.",
        f"at most {random:.2g} of it on random MDPs, {worst:.2g} on the worst found; it says something"
        f" for {telling} of {len(values)} pairs of γ and K",
        {
            "largest share of the bound": max(random, worst),
            "runs that have not settled": unsettled,
            "pairs of γ and K for which it says something": telling,
        },
    )  # fmt: skip


def _judge_improvement(bounds: Table) -> Claim:
    new, old = (select(bounds, bound=name) for name in ("Theorem 4.6", "Rowland et al. (2018)"))
    says = old["value"] < 1
    ratio = new["value"][says] / old["value"][says]
    return judged(
        "theorem-4.6-improves", "Section 4.2",
        "Theorem 4.6 improves on the bound of Rowland et al. (2018), wherever the latter is below 1.",
        f"{ratio.min():.2g} to {ratio.max():.2g} of it for {says.sum()} pairs of γ and K",
        {"largest ratio": ratio.max(), "pairs compared": int(says.sum())}, kind="identity",
    )  # fmt: skip


def _judge_search(tables: Tables) -> list[Claim]:
    more = {}
    for algorithm in MAKE:
        name = list(_bounds_of(algorithm))[-1]
        random, worst = (_largest_share(tables, name, rows) for rows in ("errors", "worst"))
        more[algorithm] = worst / random
    reached = {algorithm: _shares_reached(tables, algorithm) for algorithm in ("CDRL", "QDRL")}
    said = " and ".join(f"{s.min():.2g} to {s.max():.2g} of {a}'s" for a, s in reached.items())
    return [
        judged(
            "worst-mdps", "edrl",
            "A search over small MDPs finds larger shares of the bounds than random MDPs have.",
            ", ".join(f"{ratio:.2g}× for {algorithm}" for algorithm, ratio in more.items()), more,
        ),
        judged(
            "sharper-bounds-sharp", "edrl",
            "Our bounds for CDRL and QDRL are right up to a constant, for every γ and K searched.",
            f"the worst MDPs found reach {said}",
            {f"least share reached, {a}": shares.min() for a, shares in reached.items()},
        ),
    ]  # fmt: skip


def _shares_reached(tables: Tables, algorithm: str) -> np.ndarray:
    """The shares of our bound for an algorithm that the worst MDPs found reach."""
    name = f"our bound for {algorithm}"
    return np.concatenate([_shares(tables, name, gamma, "worst")[1] for gamma in GAMMAS])


def _judge_decay(decay: Table) -> list[Claim]:
    claims = []
    sources = {"CDRL": "Section 4.2", "QDRL": "Section 4.2", "EDRL": "edrl"}
    for algorithm, source in sources.items():
        rates = select(decay, algorithm=algorithm)
        exponent, error = rates["exponent"], rates["standard_error"]
        number = {"least exponent": exponent.min()}
        rate = ", at least as fast as 1/K"
        if algorithm == "EDRL":
            number = {"least exponent less two standard errors": (exponent - 2 * error).min()}
            rate = ""
        text = f"More statistics make {algorithm}'s error small (γ = 0.5 and 0.9){rate}."
        said = [f"K^-{e:.2f} (±{s:.2f})" for e, s in zip(exponent, error, strict=True)]
        claims.append(
            judged(f"decay-{algorithm.lower()}", source, text, " and ".join(said), number)
        )
    return claims


def _judge_restless(rows: Table) -> Claim:
    late = np.asarray(rows["change"])[-100:].min()
    return judged(
        "edrl-restless", "edrl",
        "EDRL's dynamic programming need not settle, under the default imputation.",
        f"the last 100 of {len(rows['change'])} sweeps each change an expectile by {late:.1g} or more,"
        " for returns in [-1, 1]",
        {"least change in a late sweep": late},
    )  # fmt: skip


EXPERIMENT = Experiment(
    name="bounds",
    title="Approximate Bellman closedness: bounds and errors",
    source="Theorems 4.6 and 4.7",
    section="theory",
    about="The error of Definition 4.5 (the largest over states and actions of the mean over the"
    " statistics) after dynamic programming, for γ in {0.5, 0.9} and rewards in ±(1 - γ), so that"
    " returns lie in [-1, 1]. Random MDPs: 4 (full: 12) for each γ, with 6 states, 2 actions, 3"
    " successors each and the uniform policy, K = 3, 9, 33 (full: 3 to 129 in seven steps). True return"
    " distributions are known between rigorous bounds (512 atoms each, full: 2048), and their"
    " uncertainty is added to the error. Worst MDPs: for each K a differential evolution (64 MDPs, 150"
    " generations for CDRL, 80 for QDRL, 40 for EDRL; full: eight times as many) over cycles of two"
    " states (CDRL) or one (QDRL, EDRL), which lead on, to endless Rmax or -Rmax, or to the end, each with"
    " its own probability and reward. Their returns are known exactly; the tables list the MDPs. A bound"
    " says something where it is less than half of what statistics in their range can differ by at all:"
    " by 1 for CDRL, whose are probabilities, by 2 for the others. EDRL has the levels (2k - 1)/2K and"
    " the default exact imputation. Exponents are fitted by least squares with one constant for each MDP.",
    measure=measure,
    draw=draw,
    judge=judge,
    cost=(50.0, 400.0),
)
