"""A part of the reproduction that lies outside the package: one file, as a user writes it."""

import numpy as np

from edrl import Expectiles, evaluate_policy, return_distributions
from edrl.paper.experiment import (
    Advance,
    Claim,
    Drawing,
    Experiment,
    Limit,
    Tables,
    Threshold,
    judged,
    table,
)
from edrl.report import style
from edrl.tabular import problems

LIMITS = Threshold(
    {"first state": Limit(at_most=1e-8), "all states": Limit(at_most=1e-7)},
    set_on="2026-11-18",
    numbers="unseen",
    reason="ten times the change at which sweeps stop",
)


def measure(full: bool, advance: Advance) -> Tables:
    chain = problems.n_chain(3)
    truth = return_distributions(chain, 0, atoms=32)
    advance(0.5, "the truth is known")
    learnt = evaluate_policy(chain, 0, Expectiles(3)).means()
    return {"errors": table(state=np.arange(2), error=np.abs(learnt - truth.means)[:2, 0])}


def draw(tables: Tables) -> list[Drawing]:
    figure, axes = style.axes()
    axes.plot(tables["errors"]["state"], tables["errors"]["error"])
    return [Drawing("figure-8", figure, "What is left of the error of the mean.")]


def judge(tables: Tables) -> list[Claim]:
    errors = tables["errors"]["error"]
    worst = max(errors)
    numbers = {"first state": errors[0], "all states": worst}
    words = f"off by {worst:.1e}"
    return [
        judged("own-means", "mine", "EDRL learns means", words, numbers, limits=LIMITS),
        judged("own-finite", "mine", "errors are small", words, worst, limits=Limit(at_most=1)),
    ]


EXPERIMENT = Experiment(
    "own-means", "Who learns means?", "mine", "theory", "A chain of three states.",
    measure, draw, judge, cost=(2.0, 2.0),
)  # fmt: skip
