"""The bias of expectiles taken for samples: its formula, its chains, and the packaged runs."""

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad

from edrl.core.families import Expectiles, midpoints
from edrl.core.particles import Particles
from edrl.paper.naive_mean import TASKS, Case, counted_by_few, counted_in_the_limit
from edrl.study.tables import read_csv, select
from edrl.tabular.bellman import solve_moments

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("p", [1e-4, 0.002, 0.1, 0.4, 0.7])
def test_the_formula_is_the_integral_of_expectiles(p: float) -> None:
    """Against numerical integration of the family's own expectiles, whose levels are then free."""

    def expectile(tau: float) -> float:
        event = Particles(np.array([0.0, 1.0]), np.array([1 - p, p]))
        return float(Expectiles((tau,)).evaluate(event)[0])

    rough = np.mean([expectile(tau) for tau in midpoints(41)])
    exact, _ = quad(lambda tau: tau * p / (tau * p + (1 - tau) * (1 - p)), 0, 1, epsrel=1e-10)
    assert counted_in_the_limit(p) == pytest.approx(exact, rel=1e-6)
    if p * 41 > 1:  # else the highest level hides the event
        assert rough == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("k", [11, 201])
def test_few_expectiles_count_an_event_by_their_number(k: int) -> None:
    """As p goes to 0, the average over p is the mean of tau / (1 - tau) over midpoints."""
    taus = np.array(midpoints(k))
    assert counted_by_few(1e-9, k) / 1e-9 == pytest.approx(np.mean(taus / (1 - taus)), rel=1e-3)


@pytest.mark.parametrize("task", TASKS)
def test_the_true_means_of_the_chains_are_those_of_the_bellman_equation(task: str) -> None:
    """An event that counts as what it is has the true mean."""
    case = Case(task, 0.01, 0.9, "midpoints", 51, "exact")
    solved = solve_moments(case.mdp(), 0, 1)[0, 0, 0]
    assert case.mean(case.p) == pytest.approx(solved, rel=1e-12)


def test_the_packaged_runs_are_those_of_the_documentation() -> None:
    packaged = read_csv(ROOT / "src/edrl/study/data/minatar5-calibration.csv")
    shown = read_csv(ROOT / "docs/results/minatar5/calibration.csv")
    for agent in dict.fromkeys(packaged["agent"]):
        ours, theirs = select(packaged, agent=agent), select(shown, agent=agent)
        for column in packaged:
            np.testing.assert_array_equal(ours[column], theirs[column])


def test_the_pages_numbers_are_those_that_were_measured() -> None:
    page = (ROOT / "docs/naive-mean.md").read_text(encoding="utf-8")
    rows = read_csv(ROOT / "docs/tables/naive-mean/chains.csv")
    naive = select(rows, imputation="as_samples", gamma=0.99)
    share = (naive["mean"] / naive["true"])[np.isin(naive["p"], (0.002, 0.01))]
    low, high = share[share < 1], share[share > 1]
    assert f"{low.min():.2f} to {low.max():.2f} of the true mean" in page
    assert f"{high.min():.1f} to {high.max():.1f} times the true mean" in page
    every = select(rows, imputation="as_samples")
    factor = np.exp(np.abs(np.log(every["mean"] / every["predicted"])))
    assert f"{np.median(factor):.2f} in the median and {factor.max():.2f} at worst" in page
    assert f"counts as {counted_in_the_limit(0.002):.2%}".replace("%", " %") in page
    fixed = read_csv(ROOT / "docs/tables/td-lambda/fixed_points.csv")
    bias = {
        trace: select(fixed, algorithm="EDRL-naive", trace=trace)["mean"][0] - 1
        for trace in (0.0, 0.65)
    }
    other = (ROOT / "docs/td-lambda.md").read_text(encoding="utf-8")
    assert f"keep {bias[0.65] / bias[0.0]:.0%}".replace("%", " %") in other
