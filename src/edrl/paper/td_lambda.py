"""TD(lambda) of distributions: where expected updates by imputed lambda-returns lead.

The fixed points are found by dynamic programming over every path of a short chain. The learner of
`edrl.tabular.learn` uses the same recursion on sampled paths.
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes

from edrl.core.families import Categorical, Expectiles, Mean, Moments, Quantiles
from edrl.core.lambda_returns import lambda_returns
from edrl.core.particles import Particles
from edrl.core.precision import in_float64
from edrl.core.statistics import Statistics
from edrl.core.types import Float
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

STEPS, GAMMA = 5, 0.9
REWARDS, PROBS = np.array([0.0, 1.3, 5.1]), np.array([0.6, 0.3, 0.1])
TRACES = (0.0, 0.2, 0.4, 0.65, 0.8, 0.9, 1.0)
DEEP_TRACE = 0.65  # of the deep agents' preset
FAMILIES: dict[str, Statistics] = {
    "mean": Mean(),
    "two moments": Moments(2),
    "CDRL": Categorical(np.linspace(-10, 30, 9)),
    "QDRL": Quantiles(5),
    "EDRL": Expectiles(5),
    "EDRL-naive": Expectiles(5, "as_samples"),
}
MONTE_CARLO = ("QDRL", "EDRL", "EDRL-naive")  # these impute a certain return as what it is
COLOURS = style.COLOURS | {"mean": "#555555", "two moments": "#AA4499"}
MARKERS = style.MARKERS | {"mean": "o", "two moments": "X"}


class Paths(NamedTuple):
    """Every way through a chain that ends, and how probable it is."""

    probs: Float[np.ndarray, " paths"]
    rewards: Float[np.ndarray, "steps paths"]
    discounts: Float[np.ndarray, "steps paths"]  # 0 at the last step

    @classmethod
    def of(
        cls,
        rewards: Float[np.ndarray, " R"],
        probs: Float[np.ndarray, " R"],
        steps: int,
        gamma: float,
    ) -> "Paths":
        """Of a chain with the same random reward at each of its steps."""
        drawn = np.array(list(itertools.product(range(len(rewards)), repeat=steps))).T
        discounts = np.full(drawn.shape, gamma)
        discounts[-1] = 0
        return cls(np.prod(probs[drawn], axis=0), rewards[drawn], discounts)

    def truth(self) -> Particles:
        """The distribution of the return from the first state."""
        returns = np.zeros(len(self.probs))
        for reward, discount in zip(self.rewards[::-1], self.discounts[::-1], strict=True):
            returns = reward + discount * returns
        return Particles(returns, self.probs)


@in_float64
def fixed_point(family: Statistics, paths: Paths, trace: float) -> Float[np.ndarray, "steps K"]:
    """The statistics of each state that expected updates by lambda-returns leave as they are.

    A loss is affine in its target, so the expected update leads to the statistics of the mixture of
    the targets of all paths. What comes later does not depend on what was before: after as many
    sweeps as there are steps, nothing changes any more.
    """
    return np.asarray(_fixed_point(family, paths, trace))


@jax.jit
def _fixed_point(
    family: Statistics, paths: Paths, trace: Float[jax.Array, ""]
) -> Float[jax.Array, "steps K"]:
    shape = paths.rewards.shape
    nothing = family.evaluate(Particles(jnp.zeros(1), jnp.ones(1)))
    traces = jnp.full(shape, trace)
    weights = jnp.broadcast_to(jnp.asarray(paths.probs), shape)

    def sweep(_: int, values: Float[jax.Array, "steps K"]) -> Float[jax.Array, "steps K"]:
        following = jnp.append(values[1:], nothing[None], axis=0)
        bootstraps = jnp.broadcast_to(following[:, None], (*shape, family.size))
        targets = lambda_returns(family, bootstraps, paths.rewards, paths.discounts, traces)
        return family.evaluate(targets.mixture(weights))

    start = jnp.broadcast_to(nothing, (shape[0], family.size))
    found: jax.Array = jax.lax.fori_loop(0, shape[0], sweep, start)
    return found


def measure(full: bool, advance: Advance) -> Tables:
    """The fixed points at the first state of every family, for every lambda."""
    paths = Paths.of(REWARDS, PROBS, STEPS, GAMMA)
    rows = []
    for number, (name, family) in enumerate(FAMILIES.items()):
        advance(number / len(FAMILIES), name)
        rows.append(_errors(name, family, paths))
    return {"fixed_points": joined(*rows)}


@in_float64
def _errors(name: str, family: Statistics, paths: Paths) -> Table:
    """How far each fixed point is from the truth and from that of lambda = 0, where the
    statistics of a zero return are 1 away from the truth; and its mean over the true one.
    """
    truth = paths.truth()
    right = np.asarray(family.evaluate(truth))
    zero = np.asarray(family.evaluate(Particles(np.zeros(1))))
    unit = _distance(right, zero)
    found = [fixed_point(family, paths, trace)[0] for trace in TRACES]
    return table(
        algorithm=name,
        trace=TRACES,
        error=[_distance(values, right) / unit for values in found],
        moved=[_distance(values, found[0]) / unit for values in found],
        mean=[float(family.mean(values) / truth.mean()) for values in found],
    )


def _distance(one: Float[np.ndarray, " K"], other: Float[np.ndarray, " K"]) -> float:
    """The root mean square over statistics."""
    return float(np.sqrt(np.mean((one - other) ** 2)))


def draw(tables: Tables) -> list[Drawing]:
    """Errors of statistics and of means over lambda."""
    figure, (left, right) = style.axes(1, 2, width=9.5, height=3.7)
    shown = ("CDRL", "QDRL", "EDRL", "EDRL-naive", "two moments", "mean")
    _draw_lines(left, tables, shown, "error")
    left.set(title="error of the statistics (zero return: 1)", ylim=(-0.02, None))
    _draw_lines(right, tables, ("QDRL", "EDRL-naive", "EDRL"), "mean")
    right.set(title="mean, as a multiple of the true one")
    for axes in (left, right):
        axes.set(xlabel="λ")
        axes.legend(fontsize=8)
    caption = (
        "Where TD(λ) with imputed λ-returns leads, at the first state of a chain of five steps. Left: moments are"
        " right for every λ. CDRL's fixed point is not right, and does not move. The others become right at λ = 1,"
        " where nothing is bootstrapped. Right: EDRL's mean is exact for every λ; the bias of expectiles"
        " taken for samples (EDRL-naive) is gone only at λ = 1."
    )
    return [Drawing("td-lambda", figure, caption)]


def _draw_lines(axes: Axes, tables: Tables, names: tuple[str, ...], column: str) -> None:
    for name in names:
        rows = select(tables["fixed_points"], algorithm=name)
        look: style.Options = {"color": COLOURS[name], "marker": MARKERS[name], "label": name}
        axes.plot(rows["trace"], rows[column], **look)


def judge(tables: Tables) -> list[Claim]:
    """Whose fixed point moves with lambda, and where to."""

    def column(name: str, of: str, names: tuple[str, ...]) -> np.ndarray:
        """[algorithms, traces]."""
        return np.array([select(tables[name], algorithm=one)[of] for one in names])

    def errors(*names: str) -> np.ndarray:
        return column("fixed_points", "error", names)

    moments = errors("mean", "two moments").max()
    cdrl, moved = errors("CDRL")[0], column("fixed_points", "moved", ("CDRL",)).max()
    end = errors(*MONTE_CARLO)[:, -1].max()
    falling = errors("EDRL", "EDRL-naive")[:, :-1]
    growth = (falling[:, 1:] / falling[:, :-1]).max()
    qdrl = errors("QDRL")[0]
    means = {
        name: np.abs(column("fixed_points", "mean", (name,))[0] - 1)
        for name in ("EDRL", "EDRL-naive")
    }
    deep = TRACES.index(DEEP_TRACE)
    left = means["EDRL-naive"][deep] / means["EDRL-naive"][0]
    return [
        judged(
            "td-lambda-closed", "edrl",
            "TD(λ) has the same fixed point for every λ, the truth, if the statistics are moments (the mean alone, or"
            " two).",
            f"off by at most {moments:.1e}", moments,
        ),
        judged(
            "td-lambda-cdrl", "edrl",
            "CDRL's fixed point does not depend on λ either: it is that of dynamic programming, and not the truth.",
            f"it moves by {moved:.1e}, and its error is {cdrl.min():.2g} for every λ",
            {"largest move": moved, "least error": cdrl.min()},
        ),
        judged(
            "td-lambda-monte-carlo", "edrl",
            "With λ = 1 and episodes that end, TD(λ) learns the true statistics, with any imputation that takes equal"
            " statistics for a certain return (EDRL, QDRL, and EDRL-naive).",
            f"off by at most {end:.1e}", end,
        ),
        judged(
            "td-lambda-falls", "edrl",
            "In between, the errors of EDRL and EDRL-naive fall with λ.",
            f"at most {growth:.2f} times that of the next smaller λ; EDRL {falling[0, 0]:.3f} at λ = 0,"
            f" {falling[0, deep]:.3f} at {DEEP_TRACE}; EDRL-naive {falling[1, 0]:.2f} and {falling[1, deep]:.2f}."
            f" QDRL's falls on the whole, not at every step: {', '.join(f'{error:.2g}' for error in qdrl[:-1])} at λ ="
            f" {', '.join(f'{trace:g}' for trace in TRACES[:-1])}",
            growth,
        ),
        judged(
            "td-lambda-mean", "edrl", "EDRL's mean is exact for every λ.",
            f"off by at most {means['EDRL'].max():.1e}", means["EDRL"].max(),
        ),
        judged(
            "td-lambda-naive", "edrl",
            f"Expectiles taken for samples keep most of their bias of the mean at the λ of deep agents, {DEEP_TRACE}.",
            f"{left:.0%} of it: {means['EDRL-naive'][0]:.0%} of the mean at λ = 0, {means['EDRL-naive'][deep]:.0%}"
            f" at {DEEP_TRACE}", left,
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    name="td-lambda",
    title="TD(λ) of distributions",
    source="edrl",
    section="beyond",
    about=f"A chain of {STEPS} steps with γ = {GAMMA}, whose rewards are 0, 1.3 or 5.1 with probabilities 0.6, 0.3 and"
    " 0.1. Targets are λ-returns of distributions, imputed from their statistics at every step, as deep agents without"
    " replay memory use them. Fixed points of expected updates come from all 243 paths. Five quantiles, five"
    " expectiles from 0.01 to 0.99, CDRL on nine points in [-10, 30].",
    measure=measure,
    draw=draw,
    judge=judge,
    cost=(15.0, 15.0),
)
