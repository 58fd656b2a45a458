"""Approximate closedness: bounds against errors on random MDPs and on the worst that a search
finds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
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
    table,
)
from edrl.paper.thresholds import judged
from edrl.report import style
from edrl.tabular import dp
from edrl.tabular.ground_truth import return_distributions
from edrl.tabular.problems import garnet
from edrl.theory.bounds import (
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


@dataclass(frozen=True)
class Search:
    """Where and how long the worst MDPs of an algorithm are searched for."""

    states: int  # of the cycle
    generations: int
    ks: tuple[int, ...]


SEARCHES = {
    "CDRL": Search(states=2, generations=150, ks=(3, 9, 33)),
    "QDRL": Search(states=1, generations=80, ks=(3, 9, 33)),
    "EDRL": Search(states=1, generations=40, ks=(3, 9)),
}
# An MDP with rare large returns, on which EDRL's dynamic programming goes on changing for ever.
RESTLESS = np.array([[0.98, 0.015, 0.005, 0.0]]), np.array([[-0.1, 0.0, 0.0, 0.0]])
RESTLESS_K, RESTLESS_SWEEPS = 9, 1000


def measure(full: bool, advance: Advance) -> Tables:
    """Errors of Definition 4.5 on random MDPs and on the worst ones found, over K, and the bounds."""
    ks = (3, 5, 9, 17, 33, 65, 129) if full else (3, 9, 33)
    tables = _random(ks, 12 if full else 4, 2048 if full else 512, advance)
    tables |= _worst(8 if full else 1, advance)
    tables["bounds"] = joined(
        *(
            table(bound=name, gamma=gamma, k=ks, value=[bound.value(k, gamma) for k in ks])
            for name, bound in BOUNDS.items()
            for gamma in GAMMAS
        )
    )
    advance(0.98, "dynamic programming that does not settle")
    mdp = worst_mdps.cycle_mdp(*RESTLESS, gamma=0.9)
    solved = dp.evaluate(mdp, 0, MAKE["EDRL"](RESTLESS_K), max_iterations=RESTLESS_SWEEPS)
    tables["restless"] = table(sweep=np.arange(1, solved.iterations + 1), change=solved.residuals)
    return tables


def _random(ks: Sequence[int], count: int, atoms: int, advance: Advance) -> Tables:
    """Errors on random MDPs, and the rates at which they fall."""
    errors, decays, done = [], [], 0
    for gamma in GAMMAS:
        mdps = [garnet(seed, 6, 2, 3, gamma, max_reward=1 - gamma) for seed in range(count)]
        advance(done / 12, f"true return distributions, γ = {gamma}")
        truths = [return_distributions(mdp, "uniform", atoms=atoms) for mdp in mdps]
        for algorithm, make in MAKE.items():
            advance(done / 12, f"{algorithm}, γ = {gamma}")
            decay = measure_decay(make, ks, mdps, truths=truths)
            done += 1
            k, seed = np.meshgrid(ks, np.arange(count))
            columns = {
                "seed": seed, "k": k, "error": decay.errors,
                "uncertainty": decay.uncertainties, "converged": decay.converged,
            }  # fmt: skip
            flat = {name: column.ravel() for name, column in columns.items()}
            errors.append(table(algorithm=algorithm, gamma=gamma, **flat))
            rate = {"exponent": decay.exponent, "standard_error": decay.standard_error}
            decays.append(table(algorithm=algorithm, gamma=gamma, **rate))
    return {"errors": joined(*errors), "decay": joined(*decays)}


def _worst(effort: int, advance: Advance) -> Tables:
    """The largest errors that a search over small MDPs finds, and these MDPs."""
    cases = [(name, k, gamma) for name in SEARCHES for k in SEARCHES[name].ks for gamma in GAMMAS]
    errors, mdps = [], []
    for i, (algorithm, k, gamma) in enumerate(cases):
        note = f"the worst MDP for {algorithm}, K = {k}, γ = {gamma}"
        advance(0.5 + 0.45 * i / len(cases), note)
        plan = SEARCHES[algorithm]
        found = worst_mdps.search(MAKE[algorithm](k), gamma, plan.states, effort * plan.generations)
        where: dict[str, object] = {"algorithm": algorithm, "gamma": gamma, "k": k}
        slope = (k - 1) / 2 if algorithm == "CDRL" else 1.0  # by how much statistics follow returns
        how = {"uncertainty": slope * found.rest, "change": found.change}
        errors.append(table(**where, error=float(found.errors.mean(axis=-1).max()), **how))
        mdps.append(table(**where, state=np.arange(len(found.probs)), **_columns(found)))
    return {"worst": joined(*errors), "worst_mdps": joined(*mdps)}


def _columns(found: worst_mdps.Worst) -> dict[str, np.ndarray]:
    """Probability and reward of each way out of each state."""
    columns = {way: found.probs[:, i] for i, way in enumerate(worst_mdps.WAYS)}
    return columns | {f"reward_{way}": found.rewards[:, i] for i, way in enumerate(worst_mdps.WAYS)}


def draw(tables: Tables) -> list[Drawing]:
    """Bounds and errors over K, and the shares of the bounds that errors reach."""
    return [_draw_errors(tables), _draw_shares(tables), _draw_restless(tables["restless"])]


def _draw_errors(tables: Tables) -> Drawing:
    figure, grid = style.axes(2, 3, width=9.0, height=6.0, sharex=True, sharey="row")
    ks = np.unique(tables["errors"]["k"])
    for row, gamma in zip(grid, GAMMAS, strict=True):
        for axes, algorithm in zip(row, MAKE, strict=True):
            colour, marker = style.COLOURS[algorithm], style.MARKERS[algorithm]
            errors = select(tables["errors"], algorithm=algorithm, gamma=gamma)
            for seed in np.unique(errors["seed"]):
                mine = errors["seed"] == seed
                axes.plot(errors["k"][mine], errors["error"][mine], color=colour, alpha=0.35, lw=1)
            largest = [errors["error"][errors["k"] == k].max() for k in ks]
            axes.plot(ks, largest, color=colour, marker=marker)
            worst = select(tables["worst"], algorithm=algorithm, gamma=gamma)
            axes.plot(worst["k"], worst["error"], color=colour, ls="none", marker="*", ms=10)
            for name, bound in _bounds_of(algorithm).items():
                values = select(tables["bounds"], bound=name, gamma=gamma)
                axes.plot(values["k"], values["value"], color="#000000", ls=bound.line)
            exponent = select(tables["decay"], algorithm=algorithm, gamma=gamma)["exponent"][0]
            axes.set(xscale="log", yscale="log")
            axes.set_title(f"{algorithm}, γ = {gamma}: error ~ $K^{{-{exponent:.2f}}}$")
            axes.set_xticks(ks, [str(k) for k in ks])
            axes.minorticks_off()
        row[0].set_ylabel("mean error of the statistics")
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


def _draw_shares(tables: Tables) -> Drawing:
    figure, grid = style.axes(1, 3, width=9.0, height=4.2, sharey=True)
    ticks = np.unique(tables["errors"]["k"])
    for axes, algorithm in zip(grid, MAKE, strict=True):
        for name, bound in _bounds_of(algorithm).items():
            if bound.id == "rowland-2018":
                continue  # far from all errors
            for gamma, marker in zip(GAMMAS, "os", strict=True):
                for rows, face in (("errors", "white"), ("worst", style.COLOURS[algorithm])):
                    ks, shares = _shares(tables, name, gamma, rows)
                    look: style.Options = {"marker": marker, "mfc": face, "ls": bound.line}
                    axes.plot(ks, shares, color=style.COLOURS[algorithm], lw=1.2, **look)
        axes.axhline(1, color="#000000", lw=1)
        axes.set(xscale="log", yscale="log", xlabel="number K", title=algorithm, ylim=(1e-4, 2))
        axes.set_xticks(ticks, [str(k) for k in ticks])
        axes.minorticks_off()
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
    ks = np.unique(errors["k"])
    largest = [(errors["error"] + errors["uncertainty"])[errors["k"] == k].max() for k in ks]
    values = [bounds["value"][bounds["k"] == k][0] for k in ks]
    return ks, np.asarray(largest) / np.asarray(values)


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
        name = [*_bounds_of(algorithm)][-1]
        random, worst = (_largest_share(tables, name, rows) for rows in ("errors", "worst"))
        more[algorithm] = worst / random
    names = {algorithm: f"our bound for {algorithm}" for algorithm in ("CDRL", "QDRL")}
    reached = {
        algorithm: np.concatenate([_shares(tables, name, gamma, "worst")[1] for gamma in GAMMAS])
        for algorithm, name in names.items()
    }
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


def _judge_decay(decay: Table) -> list[Claim]:
    claims = []
    sources = {"CDRL": "Section 4.2", "QDRL": "Section 4.2", "EDRL": "edrl"}
    for algorithm, source in sources.items():
        rates = select(decay, algorithm=algorithm)
        exponent, error = rates["exponent"], rates["standard_error"]
        number = {"least exponent": exponent.min()}
        rate = ", at least as fast as 1/K"
        if algorithm == "EDRL":
            number, rate = (
                {"least exponent less two standard errors": (exponent - 2 * error).min()},
                "",
            )
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
