"""Draws the README's picture: `python docs/figures.py` writes docs/figures/chain.png."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from edrl import Expectiles
from edrl.core.metrics import integrated_cdf
from edrl.tabular import evaluate, problems, return_distributions

# Okabe and Ito's colours, distinct for the colour-blind.
TRUTH, EDRL, NAIVE = "#000000", "#009E73", "#D55E00"


def draw(path: Path) -> None:
    chain, k = problems.n_chain(15), 9
    truth = return_distributions(chain, 0, atoms=1024)
    exact, naive = Expectiles(k), Expectiles(k, impute="as_samples")
    learnt = {"EDRL": evaluate(chain, 0, exact), "EDRL-naive": evaluate(chain, 0, naive)}
    true_values = np.asarray(truth.values(exact))

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")

    left.plot(exact.taus, true_values[0, 0], "o-", color=TRUTH, label="truth")
    left.plot(exact.taus, learnt["EDRL"].values[0, 0], "s--", color=EDRL, label="EDRL, exact imputation")
    left.plot(exact.taus, learnt["EDRL-naive"].values[0, 0], "^:", color=NAIVE, label="EDRL-naive: the collapse")
    left.set(xlabel="level τ", ylabel="expectile of the return from $x_0$", title="Nine expectiles of the 15-chain")
    left.legend(frameon=False)

    distance = np.arange(14, 0, -1)
    for (name, solution), colour, marker in zip(learnt.items(), (EDRL, NAIVE), "s^", strict=True):
        error = np.abs(solution.values - true_values).mean(-1)[:14, 0]
        middle.semilogy(distance, np.maximum(error, 1e-6), marker + "-", color=colour, label=name)
    middle.set(
        xlabel="steps to the goal",
        ylabel="mean absolute expectile error",
        title="Error of dynamic programming",
    )
    middle.legend(frameon=False)

    imputed, x = exact.impute(true_values[0, 0]), np.linspace(-5.5, 1.5, 400)
    right.plot(
        x,
        integrated_cdf(truth.particles[0, 0], x),
        color=TRUTH,
        lw=3,
        alpha=0.3,
        label="P(x) = E[(x - Z)+], true",
    )
    right.plot(x, integrated_cdf(imputed, x), color=EDRL, label="imputed: convex, through the knots")
    knots = np.delete(true_values[0, 0], k // 2)
    right.plot(knots, integrated_cdf(truth.particles[0, 0], knots), "o", color=EDRL, label="knots: the expectiles")
    right.set(xlabel="return x", title="Imputing is interpolating", ylim=(-0.05, 1.7), xlim=(-5.5, 1.5))
    right.legend(frameon=False, loc="upper left")

    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    draw(Path(__file__).parent / "figures" / "chain.png")
