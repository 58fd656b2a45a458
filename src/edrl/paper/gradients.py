"""Section 3.4: expected gradients vanish at the true statistics, because losses are affine in the
target.
"""

import numpy as np

from edrl.core.families import Categorical, Expectiles, HuberQuantiles, Moments, Quantiles
from edrl.core.particles import Particles
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
    table,
)
from edrl.paper.thresholds import judged
from edrl.report import style
from edrl.study.tables import grouped
from edrl.tabular.bellman import exact_backup
from edrl.tabular.mdp import MDP
from edrl.tabular.problems import garnet

LOSSES: dict[str, Statistics] = {
    "CDRL": Categorical(np.linspace(-1, 1, 9)),
    "QDRL": Quantiles(9),
    "EDRL": Expectiles(9),
    "Huber quantiles": HuberQuantiles(9, kappa=0.1),
    "moments": Moments(3),
}


def measure(full: bool, advance: Advance) -> Tables:
    """Gradients of all losses for single transitions and in expectation, and deviations from
    affinity.
    """
    gradients = []
    seeds = 10 if full else 2
    for seed in range(seeds):
        advance(0.8 * seed / seeds, f"gradients, MDP {seed}")
        gradients.append(_gradients(seed))
    advance(0.8, "mixtures")
    return {"gradients": joined(*gradients), "affine": joined(*(_affine(name) for name in LOSSES))}


def _gradients(seed: int) -> Table:
    """Gradients of each loss at the true statistics of four-step returns, for targets from single
    transitions.

    Three-step returns are computed exactly. A transition's target is r + gamma Z with such a return
    Z.
    """
    mdp = garnet(seed, 4, 2, 2, 0.9, max_reward=0.1)
    eta = Particles(np.zeros((mdp.num_states, mdp.num_actions, 1)))
    for _ in range(3):
        eta = exact_backup(mdp, "uniform", eta)
    rows = []
    for name, family in LOSSES.items():
        atoms, probs, weights = _targets(mdp, eta)
        flat = (*weights.shape[:2], -1)
        masses = (weights[..., None] * probs).reshape(flat)
        true = np.asarray(family.evaluate(Particles(atoms.reshape(flat), masses)))
        rows += _rows(name, family, true, atoms, probs, weights)
        # The "type error" of Section 3.1: the successors' expectiles in the place of samples.
        if name == "EDRL":
            samples = Particles(family.evaluate(eta))
            rows += _rows("EDRL-naive", family, true, *_targets(mdp, samples))
    return table(seed=seed, **from_rows(("loss", "gradient", "size"), rows))


def _targets(mdp: MDP, eta: Particles) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Atoms and probabilities of all targets [S, A, B, A', n], and how likely each is, under the
    uniform policy.
    """
    rewards = np.asarray(mdp.rewards.atoms)
    atoms = rewards[..., None] + mdp.gamma * np.asarray(eta.atoms)[mdp.successors]
    weights = np.repeat(mdp.probs[..., None], mdp.num_actions, axis=-1) / mdp.num_actions
    return atoms, np.asarray(eta.probs)[mdp.successors], weights


def _rows(
    name: str,
    family: Statistics,
    true: np.ndarray,
    atoms: np.ndarray,
    probs: np.ndarray,
    weights: np.ndarray,
) -> list[tuple[str, str, float]]:
    """The mean size of a single transition's gradient, and the largest expected one."""

    def gradient(values: np.ndarray) -> np.ndarray:  # [S, A, B, A', K]
        everywhere = np.broadcast_to(values[:, :, None, None], (*weights.shape, family.size))
        scores = np.asarray(family.score(everywhere, atoms))
        return np.asarray(np.sum(scores * probs[..., None, :], axis=-1))

    def expected(single: np.ndarray) -> np.ndarray:
        return np.asarray(np.sum(single * weights[..., None], axis=(2, 3)))

    single = gradient(true)
    off = np.abs(expected(single))
    if isinstance(family, Quantiles):
        # There is a kink at the quantile: 0 must lie between the slopes on its two sides.
        left, right = expected(gradient(true - 1e-9)), expected(gradient(true + 1e-9))
        off = np.maximum(np.maximum(left, -right), 0)
    return [(name, "single", float(np.abs(single).mean())), (name, "expected", float(off.max()))]


def _affine(name: str) -> Table:
    """How far the loss of a mixture is from the mixture of losses, relative to it."""
    rng, family = np.random.default_rng(0), LOSSES[name]
    pair = Particles(rng.uniform(-1, 1, (64, 2, 6)), rng.dirichlet(np.ones(6), (64, 2)))
    weights = rng.dirichlet(np.ones(2), 64)
    values = np.asarray(family.evaluate(Particles(rng.uniform(-1, 1, (64, 6)))))
    mixed = np.asarray(family.loss(values, pair.mixture(weights)))
    parts = np.sum(weights * family.loss(values[:, None], pair), axis=-1)
    return table(loss=name, off=[np.abs(mixed / parts - 1).max()])


def _worst(gradients: Table, what: str) -> dict[str, float]:
    """The largest over the MDPs, for each loss."""
    rows = grouped(gradients, "loss", "gradient")
    return {loss: found["size"].max() for (loss, kind), found in rows.items() if kind == what}


def draw(tables: Tables) -> list[Drawing]:
    """Both kinds of gradients for every loss."""
    figure, axes = style.axes(width=8.0, height=3.2)
    losses = list(_worst(tables["gradients"], "single"))
    for i, (what, colour) in enumerate((("single", "#7f7f7f"), ("expected", "#000000"))):
        size = _worst(tables["gradients"], what).values()
        label = "one transition (mean size)" if what == "single" else "expected (largest)"
        places = np.arange(len(losses)) + 0.4 * i - 0.2
        bars = axes.bar(
            places, np.maximum(list(size), 1e-18), 0.38, bottom=1e-19, color=colour, label=label
        )
        axes.bar_label(bars, [f"{entry:.0e}" if entry else "0" for entry in size], size=9)
    axes.set_xticks(np.arange(len(losses)), losses)
    axes.set(yscale="log", ylim=(1e-19, 1e3), ylabel="gradient of the loss")
    axes.grid(axis="x", visible=False)
    axes.legend(loc="upper center", ncols=2)
    caption = (
        "Section 3.4: gradients at the true statistics, for targets from single transitions (grey) and in expectation"
        " (black; for quantiles the nearest subgradient to 0). In expectation they vanish for every loss, so stochastic"
        " updates stay at the truth. They do not for expectiles taken for samples (EDRL-naive)."
    )
    return [Drawing("gradients", figure, caption)]


def judge(tables: Tables) -> list[Claim]:
    """The two conditions of Section 3.4, and what comes of the type error."""
    size = _worst(tables["gradients"], "expected")
    naive, expected = size.pop("EDRL-naive"), max(size.values())
    off = max(tables["affine"]["off"])
    return [
        judged(
            "section-3.4-gradient", "Section 3.4",
            "Expected gradients of all losses vanish at the true statistics.",
            f"at most {expected:.1e}", expected,
        ),
        judged(
            "section-3.4-naive", "Section 3.1",
            "With expectiles in the place of samples they do not.", f"{naive:.2g}", naive,
        ),
        judged(
            "section-3.4-affine", "Section 3.4",
            "All these losses are affine in the target distribution.",
            f"off by {off:.1e}", off, kind="identity",
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    name="gradients",
    title="Unbiased stochastic updates",
    source="Section 3.4",
    section="theory",
    about="Gradients of the losses at the true statistics of four-step returns, on 2 (full: 10) random MDPs with 4"
    " states, 2 actions, 2 successors each, γ = 0.9, rewards in ±0.1 and the uniform policy, for every transition;"
    " its target is r + γZ with Z the exact three-step return from there. 8 statistics for CDRL (9 support points on"
    " [-1, 1]), 9 quantiles, expectiles and Huber quantiles (κ = 0.1), and 3 moments. Affine: 64 random mixtures of"
    " two distributions of 6 atoms on [-1, 1].",
    measure=measure,
    draw=draw,
    judge=judge,
    cost=(9.0, 12.0),
)
