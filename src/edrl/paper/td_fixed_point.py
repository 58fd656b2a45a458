"""Section 3.4, Appendix A: temporal differences converge to dynamic programming's fixed point."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import norm

from edrl.core.families import Categorical, Expectiles, Mean, Quantiles, midpoints
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics
from edrl.paper.experiment import (
    Advance,
    Claim,
    Drawing,
    Experiment,
    Tables,
    joined,
    select,
    summarised,
    table,
)
from edrl.paper.thresholds import judged
from edrl.report import style
from edrl.tabular import dp, td
from edrl.tabular.mdp import MDP
from edrl.tabular.problems import garnet
from edrl.tabular.td_steps import Parameters

K, GAMMA, DECAY = 5, 0.8, 0.7
RATE = DECAY / 2  # of stochastic approximation, for DECAY between 1/2 and 1
REWARD_ATOMS = 65
SUPPORT = np.linspace(-2, 2, 5)


@dataclass(frozen=True)
class Learner:
    """Statistics, what of them is learnt, and the step size of the first update."""

    family: Statistics
    step_size: float  # with much less than the inverse curvature, the start is felt for long
    parameters: Parameters = "values"


LEARNERS = {
    "EDRL": Learner(Expectiles(midpoints(K)), 2.0),
    "QDRL": Learner(Quantiles(K), 6.0),
    "CDRL": Learner(Categorical(SUPPORT), 1.0),
    "mean": Learner(Mean(), 2.0),
    "CDRL, KL": Learner(Categorical(SUPPORT), 10.0, "outputs"),
    "EDRL-naive": Learner(Expectiles(midpoints(K), "as_samples"), 2.0),
}
ON_VALUES = ("EDRL", "QDRL", "CDRL", "mean")  # whose values are learnt, by their own loss
COLOURS = style.COLOURS | {"mean": "#555555", "CDRL, KL": style.COLOURS["EDRL-scipy"]}
MARKERS = style.MARKERS | {"mean": "o", "CDRL, KL": "v"}


def measure(full: bool, advance: Advance) -> Tables:
    """Distances to fixed points over the steps, of every run and of the runs' average."""
    steps, runs = (100_000, 32) if full else (10_000, 16)
    mdp = _mdp()
    solutions = {name: dp.evaluate(mdp, "uniform", one.family) for name, one in LEARNERS.items()}
    distances, averages = [], []
    for number, (name, learner) in enumerate(LEARNERS.items()):
        advance(number / len(LEARNERS), name)
        learnt = td.learn(
            mdp, learner.family, "uniform", steps=steps, step_size=learner.step_size, decay=DECAY,
            seeds=runs, sampling="all", parameters=learner.parameters, record_every=steps // 200,
        )  # fmt: skip
        shown = _log_spaced(len(learnt.steps))
        at, values = learnt.steps[shown], learnt.values[shown, 0]  # [marks], [marks, runs, S, A, K]
        for label, target in _fixed_points(name).items():
            distance = _distance(learner.family, solutions[target].values, values)
            average = _distance(learner.family, solutions[target].values, values.mean(axis=1))
            where = {"algorithm": name, "fixed_point": label}
            averages.append(table(**where, step=at, distance=average))
            run = {"step": np.repeat(at, runs), "run": np.tile(np.arange(runs), len(at))}
            distances.append(table(**where, **run, distance=distance.ravel()))
    return {"distances": joined(*distances), "averages": joined(*averages)}


def _fixed_points(name: str) -> dict[str, str]:
    """Whose fixed points an algorithm is compared with; the naive one with EDRL's as well."""
    if name == "EDRL-naive":
        return {"its own": name, "EDRL's": "EDRL"}
    return {"its own": name}


def _mdp() -> MDP:
    """A random MDP with Gaussian rewards, so that quantiles are nearly unique.

    They are atoms, so that both ways to learn see the same MDP.
    """
    skeleton = garnet(0, states=4, actions=2, branching=2, gamma=GAMMA)
    noise = norm.ppf((np.arange(REWARD_ATOMS) + 0.5) / REWARD_ATOMS) / 2
    rewards = Particles(np.asarray(skeleton.rewards.atoms) + noise)
    return MDP.from_arrays(skeleton.successors, skeleton.probs, rewards, GAMMA)


def _log_spaced(count: int) -> np.ndarray:
    """About twenty places among `count`, evenly spaced by their logarithm."""
    return np.unique(np.round(np.geomspace(1, count, 20)).astype(int)) - 1


def _distance(family: Statistics, target: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The root mean square over pairs and statistics [...], which is 1 for a zero return's."""
    zero = np.asarray(family.evaluate(Particles(np.zeros(1))))
    unit = np.sqrt(np.mean((zero - target) ** 2))
    return np.asarray(np.sqrt(np.mean((values - target) ** 2, axis=(-3, -2, -1))) / unit)


def _over_runs(rows: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The steps, and the root mean square distance of all runs after each."""
    found = summarised(rows, "step", "distance", lambda runs: np.sqrt(np.mean(runs**2)))
    return found["step"], found["distance"]


def _exponent(rows: dict[str, np.ndarray]) -> float:
    """-b of a fit by n^b over the last decade of steps."""
    steps, distance = _over_runs(rows)
    late = steps >= steps[-1] / 10
    return float(-np.polyfit(np.log(steps[late]), np.log(distance[late]), 1)[0])


def draw(tables: Tables) -> list[Drawing]:
    """Distance over steps: to the right fixed points, and the control."""
    figure, (left, right) = style.axes(1, 2, width=10.0, height=3.9, sharex=True, sharey=True)
    for name in (*ON_VALUES, "CDRL, KL"):
        _draw_runs(left, tables, name, "its own", label=name)
    for name, target, label in (
        ("EDRL", "its own", "EDRL to its fixed point"),
        ("EDRL-naive", "its own", "EDRL-naive to naive's"),
        ("EDRL-naive", "EDRL's", "EDRL-naive to EDRL's"),
    ):
        _draw_runs(right, tables, name, target, label)
    for axis, title in (
        (left, "every loss, to its own fixed point"),
        (right, "the control: expectiles as samples"),
    ):
        edrl = select(tables["distances"], algorithm="EDRL", fixed_point="its own")
        steps, distance = _over_runs(edrl)
        line = 1.6 * distance[-1] * (steps / steps[-1]) ** -RATE
        axis.plot(steps, line, color="#888888", linestyle=":", label=f"slope of n^-{RATE:g}")
        axis.set(xscale="log", yscale="log", xlabel="updates n of each pair", title=title)
        axis.legend(fontsize=8, ncols=2, loc="lower left")
    low = min(tables["distances"]["distance"])
    left.set(ylabel="distance (zero return: 1)", ylim=(low / 6, None))
    caption = (
        "Root mean square distance of the learnt statistics to the fixed point of dynamic"
        " programming, where the statistics of a zero return have distance 1 (lines: all runs,"
        " bands: from the nearest to the farthest run). Left: every loss leads to its fixed point,"
        " at the rate of stochastic approximation. Right: expectiles taken for samples"
        " (EDRL-naive) converge as well, but to another fixed point than EDRL's."
    )
    return [Drawing("td-fixed-point", figure, caption)]


def _draw_runs(axis: Axes, tables: Tables, name: str, target: str, label: str) -> None:
    rows = select(tables["distances"], algorithm=name, fixed_point=target)
    steps, distance = _over_runs(rows)
    by_run = rows["distance"].reshape(len(steps), -1)
    look: style.Options = {"color": COLOURS[name], "marker": MARKERS[name], "label": label}
    if target == "EDRL's":
        look |= {"linestyle": "--", "markerfacecolor": "white"}
    low, high = by_run.min(axis=1), by_run.max(axis=1)
    axis.fill_between(steps, low, high, color=COLOURS[name], alpha=0.12, lw=0)
    axis.plot(steps, distance, **look)


def judge(tables: Tables) -> list[Claim]:
    """Where temporal differences go, how fast, and what comes of the type error."""

    def rows(name: str, target: str = "its own") -> dict[str, np.ndarray]:
        return select(tables["distances"], algorithm=name, fixed_point=target)

    def end(name: str, target: str = "its own") -> float:
        return float(_over_runs(rows(name, target))[1][-1])

    def gain(name: str) -> float:
        """How much nearer the runs' average is than the runs."""
        average = select(tables["averages"], algorithm=name, fixed_point="its own")
        return end(name) / float(average["distance"][-1])

    ends = {name: end(name) for name in ON_VALUES}
    exponents = {name: _exponent(rows(name)) for name in ON_VALUES}
    gains = {name: gain(name) for name in ON_VALUES}
    kl, kl_exponent = end("CDRL, KL"), _exponent(rows("CDRL, KL"))
    naive, elsewhere = end("EDRL-naive"), end("EDRL-naive", "EDRL's")
    steps, runs = max(tables["distances"]["step"]), len(set(tables["distances"]["run"]))
    return [
        judged(
            "section-3.4-td", "Section 3.4",
            "Stochastic updates converge to the fixed point of dynamic programming, for"
            " expectiles with exact imputation, quantiles, CDRL's statistics and the mean.",
            _listed(ends, ".3f") + f" of a zero return's distance are left after {steps:,} steps",
            {"largest distance at the end": max(ends.values())},
        ),
        judged(
            "section-3.4-td-rate", "edrl",
            f"They converge as n^-{RATE:g}, the rate of unbiased gradients with step sizes of"
            f" n^-{DECAY:g}.",
            "exponents " + _listed(exponents, ".2f"),
            {"largest |exponent - 0.35|": max(abs(one - RATE) for one in exponents.values())},
        ),
        judged(
            "section-3.4-td-unbiased", "Section 3.4",
            f"The runs scatter around the fixed point: the average of {runs} is nearer to it than"
            " they are.",
            f"{_listed(gains, '.1f', '×')} nearer (√{runs} = {runs**0.5:.1f}× without any bias)",
            {"least ratio": min(gains.values())},
        ),
        judged(
            "appendix-a-kl", "Appendix A.2",
            "CDRL's updates by the gradient of the KL loss converge to the same fixed point as"
            " those by the Cramér distance.",
            f"{kl:.3f} of a zero return's distance is left, exponent {kl_exponent:.2f}",
            {"distance at the end": kl, "|exponent - 0.35|": abs(kl_exponent - RATE)},
        ),
        judged(
            "section-3.4-td-naive", "Section 3.1",
            "Expectiles taken for samples converge to a fixed point of their own, which is not"
            " EDRL's.",
            f"{naive:.3f} away from their own, {elsewhere:.3f} from EDRL's",
            {
                "distance to its own fixed point": naive,
                "distance to EDRL's over that": elsewhere / naive,
            },
        ),
    ]  # fmt: skip


def _listed(numbers: dict[str, float], form: str, unit: str = "") -> str:
    return ", ".join(f"{name} {number:{form}}{unit}" for name, number in numbers.items())


EXPERIMENT = Experiment(
    name="td-fixed-point",
    title="Temporal differences against dynamic programming",
    source="Section 3.4, Appendix A.2",
    section="theory",
    about="Algorithm 2 on a random MDP with 4 states, 2 actions, 2 successors each, γ ="
    f" {GAMMA:g}, Gaussian rewards ({REWARD_ATOMS} atoms of deviation 1/2 around a mean in ±1) and"
    " the uniform policy; 16 (full: 32) runs of 10,000 (full: 100,000) steps, in each of which"
    " every pair is updated once from a transition of its own. The n-th step size is α"
    f" n^-{DECAY:g}, with α = 2 for expectiles, 6 for quantiles, 1 for the mean and CDRL's"
    f" statistics, 10 for the logits of the KL loss. {K} expectiles and quantiles at the"
    " midpoints, CDRL on 5 points from -2 to 2. Exponents are fitted to the last decade of steps.",
    measure=measure,
    draw=draw,
    judge=judge,
    cost=(24.0, 140.0),
)
