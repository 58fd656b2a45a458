"""Taking expectiles for samples biases the mean: an event of small probability counts as more.

The tau-expectile e of an event, which is 1 with probability p and else 0, solves
tau p (1 - e) = (1 - tau) (1 - p) e, so e = tau p / (tau p + (1 - tau) (1 - p)). For p < 1/2 it is
convex in tau. By Jensen's inequality its average over levels that lie evenly around 1/2 is above
its value at 1/2, which is p. `counted_in_the_limit` is the integral over all levels.
"""

import math
from collections.abc import Iterator
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from edrl.core.families import Expectiles, evenly_spaced, midpoints
from edrl.core.particles import Particles
from edrl.core.precision import in_float64
from edrl.paper.experiment import (
    Advance,
    Claim,
    Columns,
    Drawing,
    Experiment,
    Table,
    Tables,
    from_rows,
    joined,
    select,
    table,
)
from edrl.paper.thresholds import judged
from edrl.report import style
from edrl.study.tables import read_csv
from edrl.tabular import dp
from edrl.tabular.mdp import MDP

LEVELS = {"0.01 to 0.99": evenly_spaced, "midpoints": midpoints}
SETS = (("0.01 to 0.99", 11), ("midpoints", 51), ("midpoints", 201))  # of ER-DQN, and of naive
PROBS = (0.0005, 0.002, 0.01, 0.05)
MANY_PROBS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
GAMMAS = (0.9, 0.99)
TASKS = ("survival", "rare reward")
HORIZONS = 20  # after which exp(-20) of the start is left
RIGHT, WRONG = "ER-DQN", ("ER-DQN (as_samples)", "ER-DQN-naive")
COLOURS = dict(zip((11, 51, 201), ("#009E73", "#0072B2", "#D55E00"), strict=True))


def counted_in_the_limit(p: float) -> float:
    """What the average of all expectiles of an event of probability p is, for p other than 1/2.

    It is the integral of e over tau from 0 to 1, about p (ln(1/p) - 1) for small p.
    """
    tilt = 1 - 2 * p
    return p * ((1 - p) / tilt**2 * math.log((1 - p) / p) - 1 / tilt)


def counted_by_few(p: float, k: int) -> float:
    """What the average of K midpoint expectiles is about where K p is small.

    There e is p tau / (1 - tau), and the sum over midpoints is one of reciprocals of odd numbers.
    """
    return p * (math.log(4 * k) + np.euler_gamma - 1)


class Case(NamedTuple):
    """A chain of one state, and the statistics that learn it."""

    task: str
    p: float
    gamma: float
    levels: str
    k: int
    imputation: str

    def mdp(self) -> MDP:
        """Each step pays 1 and is the last with probability p; or it pays 1 with probability p."""
        rest = 1 - self.p
        if self.task == "survival":
            return MDP.from_lists({0: {0: [(rest, 0, 1.0), (self.p, 1, 1.0)]}}, gamma=self.gamma)
        return MDP.from_lists({0: {0: [(rest, 0, 0.0), (self.p, 0, 1.0)]}, 1: {}}, gamma=self.gamma)

    def mean(self, counted: float) -> float:
        """The expected return if the average of what is bootstrapped counts the event as `counted`.

        The first step of the mean itself, the 1/2-expectile, has the right probability.
        """
        if self.task == "survival":
            bootstrapped = 1 / (1 - self.gamma * (1 - counted))
            return 1 + self.gamma * (1 - self.p) * bootstrapped
        return self.p + self.gamma * counted / (1 - self.gamma)


def cases() -> Iterator[Case]:
    """Expectiles as samples of three sizes, and exact imputation of the smallest."""
    for (levels, k), task, gamma, p in product(SETS, TASKS, GAMMAS, PROBS):
        yield Case(task, p, gamma, levels, k, "as_samples")
        if k == SETS[0][1]:
            yield Case(task, p, gamma, levels, k, "exact")


def measure(full: bool, advance: Advance) -> Tables:
    """What an event counts as, fixed points of chains, and what trained networks expected."""
    todo = list(cases())
    rows = []
    for number, case in enumerate(todo):
        advance(number / len(todo), f"{case.task}, K = {case.k}")
        rows.append((*case, *_solved(case)))
    names = (*Case._fields, "mean", "true", "predicted")
    return {
        "counted": joined(*(_counted(p, k) for p in MANY_PROBS for k in COLOURS)),
        "chains": from_rows(names, rows),
        "networks": read_csv(Path(str(files("edrl.study") / "data" / "minatar5-calibration.csv"))),
    }


@in_float64
def _counted(p: float, k: int) -> Table:
    """What the average of K midpoint expectiles counts an event of probability p as."""
    average = _average(Expectiles(midpoints(k)), p)
    limits = {"limit": counted_in_the_limit(p), "few": counted_by_few(p, k)}
    return table(p=p, k=k, counted=average, **limits, small=p * (np.log(1 / p) - 1))


def _average(family: Expectiles, p: float) -> float:
    return float(np.mean(family.evaluate(Particles(np.array([0.0, 1.0]), np.array([1 - p, p])))))


@in_float64
def _solved(case: Case) -> tuple[float, float, float]:
    """The learnt, the true and the predicted expected return."""
    family = Expectiles(LEVELS[case.levels](case.k), case.imputation)
    sweeps = round(HORIZONS / (1 - case.gamma))
    learnt = dp.evaluate(case.mdp(), 0, family, max_iterations=sweeps).means()[0, 0]
    counted = case.p if case.imputation == "exact" else _average(family, case.p)
    return float(learnt), case.mean(case.p), case.mean(counted)


def draw(tables: Tables) -> list[Drawing]:
    """What an event counts as, the two kinds of chains, and the networks."""
    figure, axes = style.axes(2, 2, width=9.5, height=7.2)
    _draw_counted(axes[0, 0], tables["counted"])
    _draw_chains(axes[0, 1], tables["chains"], "survival")
    _draw_chains(axes[1, 0], tables["chains"], "rare reward")
    _draw_networks(axes[1, 1], tables["networks"])
    caption = (
        "Upper left: what the average of K expectiles (midpoint levels) counts an event of probability p as. For many"
        " expectiles it is about p (ln(1/p) - 1). Upper right, lower left: expected returns learnt by dynamic"
        " programming, γ = 0.99, when expectiles are taken for samples (marks; K = 11 has the levels of ER-DQN, others"
        " midpoints), and what the average of one step predicts (dashed). With exact imputation (grey) they are"
        " right. Lower right: what networks trained on MinAtar expect, as a multiple of what they get (medians of"
        " seeds). Those that take their expectiles for samples expect less than ER-DQN in every game."
    )
    return [Drawing("naive-mean", figure, caption)]


def _draw_counted(axes: Axes, rows: Table) -> None:
    for k, colour in COLOURS.items():
        mine = select(rows, k=k)
        axes.plot(
            mine["p"], mine["counted"] / mine["p"], "o-", ms=4, color=colour, label=f"K = {k}"
        )
    last = select(rows, k=max(COLOURS))  # the formulas are the same for all K
    axes.plot(last["p"], last["limit"] / last["p"], "k--", label="all levels: the formula")
    axes.plot(last["p"], last["small"] / last["p"], "k:", label="ln(1/p) - 1")
    axes.set(xscale="log", xlabel="probability p of the event", ylim=(0, None))
    axes.set(title="counted as, as a multiple of p")
    axes.legend(fontsize=8)


def _draw_chains(axes: Axes, rows: Table, task: str) -> None:
    exact = select(rows, task=task, gamma=GAMMAS[-1], imputation="exact")
    axes.plot(exact["p"], exact["mean"] / exact["true"], "s-", color="#888888", label="exact")
    for k, colour in COLOURS.items():
        mine = select(rows, task=task, gamma=GAMMAS[-1], k=k, imputation="as_samples")
        axes.plot(mine["p"], mine["mean"] / mine["true"], "^-", color=colour, label=f"K = {k}")
        axes.plot(mine["p"], mine["predicted"] / mine["true"], "--", lw=1, color=colour)
    names = {"survival": "of death", "rare reward": "of a reward"}
    axes.set(xscale="log", xlabel=f"probability p {names[task]} in a step", ylim=(0, None))
    axes.set(title=f"{task}: learnt over true mean")
    axes.legend(fontsize=8)


def _draw_networks(axes: Axes, rows: Table) -> None:
    games = sorted(set(rows["env"]))
    shown = {RIGHT: "#009E73", WRONG[0]: "#E69F00", WRONG[1]: "#D55E00"}
    for number, (agent, colour) in enumerate(shown.items()):
        places = np.arange(len(games)) + 0.27 * (number - 1)
        heights = [_expected_over_got(rows, agent, game) for game in games]
        axes.bar(places, heights, 0.25, color=colour, label=agent)
    axes.axhline(1, color="black", lw=0.8)
    names = [game.removeprefix("minatar/").replace("_", " ") for game in games]
    axes.set_xticks(np.arange(len(games)), names, rotation=20)
    axes.set(title="trained networks: expected over got")
    axes.legend(fontsize=8)


def _expected_over_got(rows: Table, agent: str, game: str) -> float:
    """The median over seeds."""
    mine = select(rows, agent=agent, env=game)
    return float(np.median(mine["expected"] / mine["got"]))


def judge(tables: Tables) -> list[Claim]:
    """The formula, what comes of it on chains, and what networks show of it."""
    return [
        *_judge_formula(select(tables["counted"])),
        *_judge_chains(tables["chains"]),
        _judge_networks(tables["networks"]),
    ]


def _judge_formula(rows: Columns) -> list[Claim]:
    p, counted, events = rows["p"], rows["counted"], rows["k"] * rows["p"]
    off = np.abs(counted / rows["limit"] - 1)[events >= 1].max()
    small = np.abs(rows["small"] / rows["limit"] - 1)[p <= 0.01].max()
    few = np.abs(counted / rows["few"] - 1)[events <= 0.03].max()
    death = counted_in_the_limit(0.002)
    return [
        judged(
            "naive-mean-event", "edrl",
            "The average of expectiles counts an event of probability p < 1/2 as more than p.",
            f"at least {(counted / p).min():.2f} p, for K = 11 to 201 and p = 0.0005 to 0.4", (counted / p).min(),
        ),
        judged(
            "naive-mean-formula", "edrl",
            "For K p ≥ 1 it counts as p ((1 - p) ln((1 - p)/p)/(1 - 2p)² - 1/(1 - 2p)), which is about p (ln(1/p) - 1)"
            " for p ≤ 0.01.",
            f"off by {off:.1%}, and by {small:.1%}; p = 0.2 % counts as {death:.2%}",
            {"formula": off, "for small p": small},
        ),
        judged(
            "naive-mean-few", "edrl",
            "With fewer expectiles, K p ≤ 0.03, it counts as p (ln(4K) + 0.577 - 1), however rare it is.",
            f"off by {few:.1%}", few,
        ),
    ]  # fmt: skip


def _judge_chains(rows: Table) -> list[Claim]:
    naive, exact = select(rows, imputation="as_samples"), select(rows, imputation="exact")
    share = naive["mean"] / naive["true"]
    survival, rare = naive["task"] == "survival", naive["task"] == "rare reward"
    deaths = (naive["gamma"] == 0.99) & np.isin(naive["p"], (0.002, 0.01))
    named, high = share[survival & deaths], share[rare & deaths]
    error = np.abs(exact["mean"] / exact["true"] - 1).max()
    factor = np.exp(np.abs(np.log(naive["mean"] / naive["predicted"])))
    return [
        judged(
            "naive-mean-survival", "edrl",
            "Taking expectiles for samples biases the mean: where each step pays 1 and is the last with probability p,"
            " the learnt mean is too low.",
            f"{named.min():.2f} to {named.max():.2f} of the true mean for p = 0.002 and 0.01, γ = 0.99; at most"
            f" {share[survival].max():.3f} of it everywhere",
            {"p = 0.002 and 0.01, γ = 0.99": named.max(), "everywhere": share[survival].max()},
        ),
        judged(
            "naive-mean-rare", "edrl",
            "Where rewards are rare the same bias is optimism.",
            f"{high.min():.1f} to {high.max():.1f} times the true mean for p = 0.002 and 0.01, γ = 0.99; at least"
            f" {share[rare].min():.2f} times everywhere",
            {"p = 0.002 and 0.01, γ = 0.99": high.min(), "everywhere": share[rare].min()},
        ),
        judged(
            "naive-mean-exact", "edrl", "With exact imputation the mean is right on both chains.",
            f"off by at most {error:.1e}", error,
        ),
        judged(
            "naive-mean-predicted", "edrl",
            "What one step counts the event as predicts the learnt mean to within a factor of two. (It leaves out that"
            " the samples themselves are spread.)",
            f"a factor of {np.median(factor):.2f} in the median, {factor.max():.2f} at most", factor.max(),
        ),
    ]  # fmt: skip


def _judge_networks(rows: Table) -> Claim:
    games = sorted(set(rows["env"]))
    found = {
        agent: np.array([_expected_over_got(rows, agent, game) for game in games])
        for agent in (RIGHT, *WRONG)
    }
    share = max((found[agent] / found[RIGHT]).max() for agent in WRONG)
    ranges = "; ".join(f"{name} {of.min():.2f} to {of.max():.2f}" for name, of in found.items())
    least = found[WRONG[0]]
    return judged(
        "naive-mean-networks", "edrl",
        "Networks trained on MinAtar that take their expectiles for samples expect less of what they get than ER-DQN"
        " does, in every game.",
        f"expected over got, medians over seeds in five games: {ranges}; at most {share:.2f} of ER-DQN's. Below 1 in"
        f" {np.sum(least < 1)} games for the eleven expectiles of ER-DQN, where a maximum over noisy means would be"
        " above", share,
    )  # fmt: skip


EXPERIMENT = Experiment(
    name="naive-mean",
    title="Expectiles as samples: the mean",
    source="edrl",
    section="beyond",
    about="An event of probability p, and the average of its expectiles at K midpoint levels. Chains of one state, by"
    " dynamic programming: each step pays 1 and is the last with probability p (survival), or pays 1 with probability p"
    " and else nothing (rare reward); γ is 0.9 and 0.99; the eleven levels of ER-DQN from 0.01 to 0.99, and 51 and 201"
    " midpoints. The mean is the 1/2-expectile, by which agents act. The networks are those of our runs on MinAtar (a"
    " million steps, 3 to 5 seeds, docs/results/minatar5): ER-DQN, the same with its expectiles as samples, and"
    " ER-DQN-naive. They also differ in how well they play, and all of them take a maximum over actions, so they do"
    " not measure the bias: they agree with it. No game shows the optimism of rare rewards.",
    measure=measure,
    draw=draw,
    judge=judge,
    cost=(8.0, 8.0),
)
