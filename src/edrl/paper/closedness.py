"""Which statistics are Bellman closed: Lemma 3.2, Lemma 4.2, Theorem 4.3, and verdicts on all
families.
"""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from edrl.core.families import Categorical, Expectiles, HuberQuantiles, Moments, Quantiles
from edrl.core.particles import Particles
from edrl.core.statistics import Imputation, Statistics
from edrl.core.types import Numbers, Values, ValuesLike
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
    table,
)
from edrl.paper.thresholds import judged
from edrl.report import style
from edrl.tabular.bellman import exact_backup, reward_moments, solve_moments
from edrl.tabular.ground_truth import return_distributions
from edrl.tabular.mdp import MDP
from edrl.tabular.problems import garnet
from edrl.theory.closedness import bellman_closed
from edrl.theory.witness import Functions

GAMMA, ORDERS = 0.9, 6
SUPPORTS = {
    "even": np.linspace(-1, 1, 9),
    "uneven": np.array([-1.0, -0.9, -0.4, 0.0, 0.05, 0.3, 0.5, 0.8, 1.0]),
}

# Sets of expectations E[h(Z)]: by Theorem 4.3 the first are closed and the others are not.
MOMENT_SPANS: dict[str, Functions] = {
    "E[Z]": [lambda x: x],
    "E[Z], E[Z + Z²]": [lambda x: x, lambda x: x + x**2],
    "E[Z - 2], E[Z² + Z], E[Z³ - Z]": [lambda x: x - 2, lambda x: x**2 + x, lambda x: x**3 - x],
    "Legendre polynomials to degree 6": [np.polynomial.Legendre.basis(j) for j in range(1, 7)],
}
OTHER_SETS: dict[str, Functions] = {
    "E[Z²] (no mean)": [np.square],
    "E[Z], E[Z³]": [lambda x: x, lambda x: x**3],
    "E[exp Z]": [np.exp],
    "E[sin Z], E[cos Z]": [np.sin, np.cos],
    "P(Z ≤ 0)": [lambda x: (np.asarray(x) <= 0) * 1.0],
    "E[Z], E|Z|": [lambda x: x, np.abs],
    "E[Z], E[Z²], E[exp Z]": [lambda x: x, np.square, np.exp],
}


def _coin_toss(family: Statistics, values: Values) -> Particles:
    """Two equally likely atoms with this mean and variance."""
    deviation = jnp.sqrt(jnp.maximum(values[..., 1:], 0))
    return Particles(values[..., :1] + deviation * jnp.array([-1.0, 1.0], values.dtype))


class MeanAndVariance(Statistics):
    """Sobel's (1982) statistics: the variance is no expectation E[h(Z)], so Theorem 4.3 is silent
    about them.
    """

    imputation: Imputation = eqx.field(static=True, default=_coin_toss)

    @property
    def size(self) -> int:
        return 2

    def evaluate(self, mu: Particles) -> Values:
        return jnp.stack([mu.mean(), mu.variance()], axis=-1)

    def loss(self, values: ValuesLike, target: Particles) -> Numbers:
        """The squared distance to both; it is not affine in the target, as Section 3.4 would ask
        for learning.
        """
        return jnp.sum((values - self.evaluate(target)) ** 2, axis=-1)


FAMILIES: dict[str, tuple[Statistics, str]] = {  # with the source of the verdict
    "mean and variance": (MeanAndVariance(), "Section 4.1"),
    "CDRL, 9 points": (Categorical(SUPPORTS["even"]), "Lemma 4.4 (i)"),
    "QDRL, 4 quantiles": (Quantiles(4), "Lemma 4.4 (ii)"),
    "EDRL, 3 expectiles": (Expectiles((0.1, 0.5, 0.9)), "edrl"),
    "2 Huber quantiles": (HuberQuantiles(2, kappa=0.5), "edrl"),
}
CLOSED = {*MOMENT_SPANS, "mean and variance"}


def measure(full: bool, advance: Advance) -> Tables:
    """Projections, moments, and verdicts."""
    count, seeds = (4096, 10) if full else (512, 3)
    projection = joined(*(_projection(name, count) for name in SUPPORTS))
    advance(0.1, "moments")
    moments = joined(*(_moments(seed, count) for seed in range(seeds)))
    verdicts = _verdicts(count, advance)
    return {"projection": projection, "moments": moments, "verdicts": verdicts}


def _verdicts(draws: int, advance: Advance) -> Table:
    """Whether each set of statistics is closed, and the gap of a witness if it is not."""
    sets = {name: (h, "Theorem 4.3") for name, h in (MOMENT_SPANS | OTHER_SETS).items()}
    candidates: dict[str, tuple[Statistics | Functions, str]] = {**sets, **FAMILIES}
    rows = []
    for i, (name, (statistics, source)) in enumerate(candidates.items()):
        advance(0.3 + 0.7 * i / len(candidates), name)
        found = bellman_closed(statistics, draws=draws)
        gap = 0.0 if found.witness is None else found.witness.check(statistics)
        rows.append((name, source, name in CLOSED, found.closed, found.route, found.deviation, gap))
    names = ("statistics", "source", "should_be_closed", "closed", "route", "deviation", "gap")
    return from_rows(names, rows)


def _projection(name: str, count: int) -> Table:
    """Lemma 3.2 on random distributions: the statistics of Pi_C mu, and the distribution imputed
    from those of mu.
    """
    rng = np.random.default_rng(0)
    family, support = Categorical(SUPPORTS[name]), SUPPORTS[name]
    mu = Particles(rng.uniform(-1.3, 1.3, (count, 12)), rng.dirichlet(np.full(12, 0.5), count))
    # Equation (12), which splits every atom between its neighbours on the support.
    w = np.clip(mu.atoms, support[0], support[-1])
    left = np.clip(np.searchsorted(support, w, side="right") - 1, 0, len(support) - 2)
    up = (w - support[left]) / (support[left + 1] - support[left])
    probs = np.zeros((count, len(support)))
    row = np.arange(count)[:, None]
    np.add.at(probs, (row, left), mu.probs * (1 - up))
    np.add.at(probs, (row, left + 1), mu.probs * up)
    values, imputed = family.evaluate(mu), family.impute(family.evaluate(mu))
    kept = family.evaluate(Particles(np.broadcast_to(support, probs.shape), probs))
    off = {
        "statistics": np.abs(kept - values).max(),
        "imputed": np.abs(imputed.probs - probs).max(),
    }
    return table(support=name, what=list(off), difference=list(off.values()))


def _moments(seed: int, atoms: int) -> Table:
    """Lemma 4.2: the binomial Bellman equation against an exact backup, and its solution against
    the truth.
    """
    mdp, policy = garnet(seed, 4, 2, 2, GAMMA, max_reward=1 - GAMMA), np.full((4, 2), 0.5)
    rng = np.random.default_rng(seed)
    eta = Particles(rng.uniform(-1, 1, (4, 2, 5)), rng.dirichlet(np.ones(5), (4, 2)))
    family = Moments(ORDERS)
    one_step = np.abs(
        family.evaluate(exact_backup(mdp, policy, eta))
        - _binomial(mdp, np.asarray(family.evaluate(eta)))
    )
    truth = return_distributions(mdp, policy, atoms=atoms)
    solved = np.abs(solve_moments(mdp, policy, ORDERS) - truth.values(family))
    # E[Z^j] moves by at most sup |P - P'| times the integral of |h''| over [-1, 1], which is 2 j.
    orders = np.arange(1, ORDERS + 1)
    allowed = 2 * orders * truth.error.max()
    worst = {"one_step": one_step.max(axis=(0, 1)), "solved": solved.max(axis=(0, 1))}
    return table(seed=seed, order=orders, **worst, allowed=allowed)


def _binomial(mdp: MDP, moments: np.ndarray) -> np.ndarray:
    """E[(R + gamma Z)^j] for j = 1..k by the binomial theorem, under the uniform policy."""
    k = moments.shape[-1]
    ones = np.ones((mdp.num_states, 1))
    states = np.concatenate([ones, moments.mean(axis=1)], axis=-1)  # [S, k + 1]
    rewards = reward_moments(mdp, k)
    backed_up = np.zeros((*mdp.probs.shape[:2], k))
    for j in range(1, k + 1):
        for m in range(j + 1):
            term = mdp.gamma ** (j - m) * rewards[..., m] * states[mdp.successors, j - m]
            backed_up[..., j - 1] += math.comb(j, m) * np.sum(mdp.probs * term, axis=-1)
    return backed_up


def draw(tables: Tables) -> list[Drawing]:
    """The verdicts as bars."""
    rows = {name: np.asarray(column) for name, column in tables["verdicts"].items()}
    order = np.lexsort((rows["gap"], ~rows["closed"]))[::-1]
    found = np.where(rows["closed"], rows["deviation"], rows["gap"])[order]
    colours = np.where(rows["closed"][order], "#009E73", "#D55E00")
    figure, axis = style.axes(width=8.0, height=5.0)
    axis.barh(
        np.arange(len(order)), np.maximum(found, 1e-17), left=1e-18, color=colours, height=0.7
    )
    for y, value in enumerate(found):
        axis.text(1.5 * max(value, 1e-17), y, f"{value:.2g}", va="center", size=9)
    axis.set_yticks(np.arange(len(order)), rows["statistics"][order])
    axis.set(xscale="log", xlim=(1e-18, 1e3), xlabel="largest difference found after a backup")
    axis.grid(axis="y", visible=False)
    legend = {"closed: rounding errors": "#009E73", "not closed: the witness's gap": "#D55E00"}
    for name, colour in legend.items():
        axis.barh(np.nan, np.nan, color=colour, label=name)
    axis.legend(loc="upper center", bbox_to_anchor=(0.4, 1.1), ncols=2)
    caption = (
        "Verdicts for sets of statistics, for returns in [-1, 1]. Green: whatever can be expressed by the first L"
        " moments is closed, up to rounding, as are mean and variance. Orange: every other set has a witness; the bar"
        " is the gap between the backed-up statistics of two distributions that shared them (E[Z²] alone is not"
        " closed, nor are expectiles, quantiles or CDRL's, of which the next part has more)."
    )
    return [Drawing("closedness-verdicts", figure, caption)]


def judge(tables: Tables) -> list[Claim]:
    """One claim for each lemma and each part of a theorem."""
    verdicts, moments = tables["verdicts"], tables["moments"]
    kept, imputed = (
        max(select(tables["projection"], what=w)["difference"]) for w in ("statistics", "imputed")
    )
    theorem = select(verdicts, source="Theorem 4.3")
    spans = theorem["should_be_closed"]
    solved = np.array(moments["solved"]) / np.array(moments["allowed"])
    closed, gap = theorem["closed"], theorem["gap"]
    variance = float(select(verdicts, statistics="mean and variance")["deviation"][0])
    huber = float(select(verdicts, statistics="2 Huber quantiles")["gap"][0])
    return [
        judged(
            "lemma-3.2", "Lemma 3.2", "The Cramér projection keeps the statistics s_{z_k, z_k+1}.",
            f"off by {kept:.1e}", kept, kind="identity",
        ),
        judged(
            "lemma-3.2-injective", "Lemma 3.2",
            "The statistics determine CDRL's distribution: imputing from them is the projection of Equation (12).",
            f"off by {imputed:.1e}", imputed, kind="identity",
        ),
        judged(
            "lemma-4.2", "Lemma 4.2",
            f"The first {ORDERS} moments of a backed-up distribution follow from its successors' by the binomial"
            " theorem.",
            f"off by {max(moments['one_step']):.1e}", max(moments["one_step"]), kind="identity",
        ),
        judged(
            "lemma-4.2-solution", "Lemma 4.2", "The solution of the moments' Bellman equation is the true moments.",
            f"off by {solved.max():.2g} of what the truth's error allows",
            {"of what the truth's error allows": solved.max()},
        ),
        judged(
            "theorem-4.3-closed", "Theorem 4.3", "Sets that span the first L moments are Bellman closed.",
            f"{sum(closed[spans])} of {sum(spans)} sets, to {theorem['deviation'][spans].max():.1e}",
            {"sets not closed": sum(~closed[spans])},
        ),
        judged(
            "theorem-4.3-only", "Theorem 4.3", "No other finite set of expectations is: each has a witness.",
            f"{sum(~closed[~spans])} of {sum(~spans)} sets not closed, least gap {gap[~spans].min():.2g}",
            {"least gap of a witness": gap[~spans].min()},
        ),
        judged(
            "closed-mean-and-variance", "Section 4.1",
            "Mean and variance are Bellman closed (Sobel, 1982), although the variance is no expectation.",
            f"no witness among random backups: they deviate by {variance:.1e}", {"largest deviation": variance},
        ),
        judged(
            "closed-2-huber-quantiles", "edrl", "2 Huber quantiles are not Bellman closed.",
            f"witness with a gap of {huber:.2g}", {"gap of the witness": huber},
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    name="closedness",
    title="Bellman closedness",
    source="Section 4.1, Lemmas 3.2 and 4.2, Theorem 4.3",
    section="theory",
    about="Lemma 3.2 on 512 (full: 4096) random distributions of 12 atoms on [-1.3, 1.3] and two supports of 9 points"
    " on [-1, 1], against Equation (12). Lemma 4.2: the first 6 moments on 3 (full: 10) random MDPs with 4 states, 2"
    " actions, 2 successors each and γ = 0.9, against exact backups and against true return distributions. Theorem"
    " 4.3: functions h are regressed, after r + γz with γ in {0.5, 0.9} and r in {-0.7, 0, 0.4, 1}, on 1 and"
    " themselves over [-1, 1], and a linear programme finds the witness with the largest gap. Statistics that are no"
    " expectations are tried on 512 (full: 4096) random backups, in which the distribution of a successor is replaced"
    " by the one imputed from its statistics; mean and variance are imputed as a coin toss.",
    measure=measure,
    draw=draw,
    judge=judge,
    cost=(15.0, 40.0),
)
