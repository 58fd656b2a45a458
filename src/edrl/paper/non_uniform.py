"""Appendix C: no number of statistics makes the largest error small, though the mean error
vanishes.

For EDRL the largest error over all levels does not vanish either, but that over levels away from 0
and 1 does: docs/edrl-theorem.md proves both.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from scipy.optimize import differential_evolution

from edrl.core.families import Categorical, Expectiles, Quantiles, midpoints
from edrl.core.particles import Particles
from edrl.core.precision import in_float64
from edrl.core.statistics import Statistics
from edrl.core.types import Array
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
from edrl.tabular.bellman import exact_backup
from edrl.tabular.mdp import MDP
from edrl.tabular.problems import cdrl_not_uniform, qdrl_not_uniform
from edrl.theory.bounds import cdrl_bound, edrl_level_bounds, qdrl_bound

M = 1  # of the first lemma: gamma = 2^m / (2^m + 1)
CDRL_GAMMA, QDRL_GAMMA = 2**M / (2**M + 1), 0.9
CDRL_ERROR = 1 / (2 * (2**M + 1))
SHOWN = {"CDRL": 33, "QDRL": 21, "EDRL": 21}  # the K of the drawing of statistics
GAMMA = 0.5  # of EDRL's own examples, with returns in [-1, 1]
INNER = (0.1, 0.9)  # the levels that are learnt uniformly well
BATCH, ATOMS = 64, 3  # MDPs that are solved at once, and the atoms of their returns at x1 and x2


def measure(full: bool, advance: Advance) -> Tables:
    """Largest and mean errors over K, the statistics themselves for one K, and EDRL's errors."""
    depths = range(3, 11) if full else (3, 5, 7, 9)
    ks = (3, 5, 11, 21, 41, 81, 161, 321, 641) if full else (5, 21, 81, 321)
    edrl_ks = ks if full else ks[:3]  # compilations make it the slowest
    errors, statistics = _lemmas(depths, ks, advance)
    edrl, uniform = [], []
    for i, k in enumerate(edrl_ks):
        advance(0.4 + 0.6 * i / len(edrl_ks), f"EDRL, K = {k}")
        family = Expectiles(midpoints(k))
        learnt, true = _solve_lemmas(family, depths)
        names = ["first lemma"] * len(depths) + ["second lemma"]
        edrl.append(table(mdp=names, k=k, largest=np.abs(learnt - true).max(axis=-1)))
        uniform.append(_uniform(family, 600 if full else 100))
        if k == SHOWN["EDRL"]:
            shown = {"place": family.taus, "learnt": learnt[-1], "true": true[-1]}
            statistics.append(table(algorithm="EDRL", k=k, **shown))
    tables = {"errors": errors, "statistics": joined(*statistics)}
    return tables | {"edrl": joined(*edrl), "uniform": joined(*uniform)}


def _lemmas(
    depths: Sequence[int], ks: Sequence[int], advance: Advance
) -> tuple[Table, list[Table]]:
    """CDRL and QDRL on the MDPs of their lemmas: errors, and the statistics for one K."""
    cases: list[tuple[str, int, MDP, Statistics, float]] = []
    for depth in depths:
        k = 2**depth + 1
        categorical = Categorical(np.arange(k) / 2**depth)
        bound = cdrl_bound(k, CDRL_GAMMA)
        cases.append(("CDRL", k, cdrl_not_uniform(M, depth, "A"), categorical, bound))
    for k in ks:
        mdp = qdrl_not_uniform(k, gamma=QDRL_GAMMA)
        cases.append(("QDRL", k, mdp, Quantiles(k), qdrl_bound(k, QDRL_GAMMA, 1.0)))
    errors, statistics = [], []
    for i, (algorithm, k, mdp, family, bound) in enumerate(cases):
        advance(0.4 * i / len(cases), f"{algorithm}, K = {k}")
        learnt = dp.evaluate(mdp, 0, family).values[:, 0]
        true = np.asarray(family.evaluate(_returns(mdp)))
        off = np.abs(learnt - true)
        row: dict[str, object] = {
            "largest": [off.max()],
            "mean": off.mean(axis=-1).max(),
            "bound": bound,
        }
        key = {"learnt": _key(learnt, family), "true": _key(true, family)}
        errors.append(table(algorithm=algorithm, k=k, **row, **key))
        if k == SHOWN[algorithm]:
            places = family.support[:-1] if isinstance(family, Categorical) else Quantiles(k).taus
            shown = {"place": places, "learnt": learnt[0], "true": true[0]}
            statistics.append(table(algorithm=algorithm, k=k, **shown))
    return joined(*errors), statistics


def _solve_lemmas(family: Expectiles, depths: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """EDRL's learnt and true statistics at the first state of the first lemma's MDPs and the
    second's.
    """
    chains = [cdrl_not_uniform(M, depth, "A") for depth in depths]
    rewards = np.array([mdp.rewards.atoms[1, 0, 0, 0] for mdp in chains])
    atoms = np.broadcast_to(rewards[:, None, None], (len(chains), 2, ATOMS))
    solved = [
        _fork(family, CDRL_GAMMA, np.ones(len(chains)), atoms, np.full_like(atoms, 1 / ATOMS))
    ]
    mdp = qdrl_not_uniform(family.size, gamma=QDRL_GAMMA)
    atoms, probs = np.zeros((1, 2, ATOMS)), np.zeros((1, 2, ATOMS))
    atoms[0, :, :2], probs[0, :, :2] = mdp.rewards.atoms[1:3, 0, 0], mdp.rewards.probs[1:3, 0, 0]
    solved.append(_fork(family, QDRL_GAMMA, mdp.probs[0, 0, :1], atoms, probs))
    learnt, true = zip(*solved, strict=True)
    return np.concatenate(learnt), np.concatenate(true)


def _uniform(family: Expectiles, generations: int) -> Table:
    """EDRL's largest error over inner levels that a search finds, and the outermost level's in our
    example.
    """
    taus = np.asarray(family.taus)
    inner = (taus >= INNER[0] - 1e-12) & (taus <= INNER[1] + 1e-12)
    start = np.random.default_rng(0).uniform(size=(BATCH, 1 + 2 * 2 * ATOMS))

    def largest(x: np.ndarray) -> np.ndarray:
        learnt, true = _fork(family, GAMMA, *_decoded(x))
        return np.asarray(-np.abs(learnt - true)[:, inner].max(axis=-1))

    found = differential_evolution(
        largest, [(0, 1)] * start.shape[1],
        init=start,  # pyright: ignore[reportArgumentType]
        maxiter=generations, vectorized=True,
        updating="deferred", polish=False, rng=0, tol=0, atol=0,
    )  # fmt: skip
    first, atoms, probs = _outermost(taus[0])
    learnt, true = _fork(family, GAMMA, first, atoms, probs)
    off = np.abs(learnt - true)
    odds = taus[0] / (1 - taus[0])
    return table(
        k=family.size,
        inner=[-found.fun],
        inner_bound=edrl_level_bounds(taus, GAMMA, 1 - GAMMA)[inner].max(),
        inner_example=off[:, inner].max(),
        outermost=off[:, 0].max(),
        outermost_bound=GAMMA / 2 * (1 / (4 - odds) - odds / (1 + 2 * odds)),
        apart=np.abs(learnt[0] - learnt[1]).max(),
    )


def _outermost(tau: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two MDPs with the same expectiles at x1, from the level tau on, but different ones at x0.

    With w = tau / (1 - tau) the returns at x1 are -1, 0 and 1 with probabilities w/2, 1/2 - w/2 and
    1/2, or -w and 1 with equal ones. The return at x2, where x0 leads with probability w/(2 + w),
    is -1.
    """
    odds = tau / (1 - tau)
    sure = [-1.0] * ATOMS
    atoms = np.array([[[-1.0, 0.0, 1.0], sure], [[-odds, 1.0, 1.0], sure]])
    even = [1 / ATOMS] * ATOMS
    probs = np.array([[[odds / 2, 0.5 - odds / 2, 0.5], even], [[0.5, 0.5, 0.0], even]])
    return np.full(2, 2 / (2 + odds)), atoms, probs


def _decoded(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """From genes [D, n]: the probability of x1 [n], and atoms and probs of the returns [n, 2,
    ATOMS].
    """
    fields = x[1:].T.reshape(-1, 2, 2, ATOMS)
    weights = fields[:, 0] ** 3 + 1e-12  # small probabilities matter
    return x[0], 2 * fields[:, 1] - 1, weights / weights.sum(axis=-1, keepdims=True)


def _fork(
    family: Statistics, gamma: float, first: np.ndarray, atoms: np.ndarray, probs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Learnt and true statistics [n, K] at x0, which leads to x1 with probability `first`, else to
    x2.

    `atoms` and `probs` [n, 2, ATOMS] are the returns at x1 and x2: rewards before the end, or
    constant rewards for ever. Their statistics are learnt exactly, so x0 is one imputed backup
    away.
    """
    count = len(first)
    missing = BATCH - count  # the same shape for all: they share a compilation
    first, atoms, probs = (
        np.concatenate([part, np.repeat(part[:1], missing, axis=0)])
        for part in (first, atoms, probs)
    )
    learnt, true = _solve_fork(family, gamma, first, atoms, probs)
    return learnt[:count], true[:count]


@in_float64
@jax.jit
def _solve_fork(
    family: Statistics,
    gamma: jax.Array,
    first: jax.Array,
    atoms: jax.Array,
    probs: jax.Array,
) -> tuple[Array, Array]:
    returns = Particles(atoms, probs)
    weights = jnp.stack([first, 1 - first], axis=-1)

    def backed_up(eta: Particles) -> Array:
        return family.evaluate(Particles(gamma * eta.atoms, eta.probs).mixture(weights))

    return backed_up(family.impute(family.evaluate(returns))), backed_up(returns)


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
    figure, grid = style.axes(2, 3, width=11.5, height=6.8)
    titles = {"CDRL": "CDRL, first lemma", "QDRL": "QDRL, second lemma"}
    for axes, algorithm in zip(grid[0], titles, strict=False):
        rows = select(tables["errors"], algorithm=algorithm)
        colour, marker = style.COLOURS[algorithm], style.MARKERS[algorithm]
        axes.plot(rows["k"], rows["largest"], color=colour, marker=marker, label="largest error")
        dashed: style.Options = {"color": colour, "marker": marker, "ls": "--", "mfc": "white"}
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
    axes.plot(
        rows["k"],
        rows["inner_bound"],
        color="#000000",
        ls="--",
        lw=1,
        label="our bound, inner levels",
    )
    axes.plot(
        rows["k"], rows["inner"], label="inner levels, worst found", ls="--", mfc="white", **solid
    )
    largest = np.array([select(tables["edrl"], k=k)["largest"].max() for k in rows["k"]])
    small: style.Options = {"color": colour, "marker": "s", "ms": 4, "ls": ":"}
    beyond_rounding = np.where(largest > 1e-12, largest, np.nan)
    axes.plot(rows["k"], beyond_rounding, label="all levels, both lemmas", **small)
    axes.set(title="EDRL", ylim=(1e-7, 20))
    _over_k(axes, rows["k"])


def _draw_statistics(row: Sequence[Axes], statistics: Table) -> None:
    for axes, name in zip(row, SHOWN, strict=True):
        rows = select(statistics, algorithm=name)
        near = (
            (rows["place"] > 0.35) & (rows["place"] < 0.65) if name == "CDRL" else rows["place"] > 0
        )
        x, true, learnt = (rows[column][near] for column in ("place", "true", "learnt"))
        axes.plot(x, true, "o", color=style.COLOURS["truth"], mfc="none", ms=8, label="true")
        look: style.Options = {"marker": style.MARKERS[name], "color": style.COLOURS[name]}
        axes.plot(x, learnt, ls="none", ms=4 if name == "EDRL" else None, label="learnt", **look)
        axes.legend(loc="upper left")
        axes.set_title(
            f"{name}, K = {SHOWN[name]}: statistics at {'x1' if name == 'CDRL' else 'x0'}"
        )
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


def _judge_lemmas(cdrl: dict[str, np.ndarray], qdrl: dict[str, np.ndarray]) -> list[Claim]:
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


def _judge_mean(name: str, rows: dict[str, np.ndarray]) -> Claim:
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
    low, high = (
        f"{abs(value) if abs(value) < 1e-9 else value:.4f}"
        for value in (values.min(), values.max())
    )
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
