"""What a person sees of results: pictures with the right curves in them, and short texts."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot

from edrl.core.families import Expectiles, Mean
from edrl.core.particles import Particles
from edrl.tabular.dp import Solution, evaluate
from edrl.tabular.ground_truth import Truth, return_distributions
from edrl.tabular.learnt import Learnt
from edrl.tabular.mdp import MDP
from edrl.tabular.problems import n_chain
from edrl.tabular.td import learn

CHAIN = n_chain(4)


@pytest.fixture(scope="module")
def truth() -> Truth:
    return return_distributions(CHAIN, 0, atoms=64)


@pytest.fixture(scope="module")
def solution() -> Solution:
    return evaluate(CHAIN, 0, Expectiles(5))


@pytest.fixture(scope="module")
def learnt() -> Learnt:
    return learn(CHAIN, Expectiles(5), 0, steps=2_000, step_size=[0.02, 0.05], seeds=2)


@pytest.fixture(autouse=True)
def _headless() -> Iterator[None]:
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def curves(panel: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """The distribution functions of a panel; the markers of means are no lines."""
    return [line.get_data() for line in panel.lines if len(line.get_xdata()) > 1]


def assert_is_cdf(curve: tuple[np.ndarray, np.ndarray], mu: Particles) -> None:
    """What is drawn at each atom is P(Z <= x)."""
    places, heights = curve
    last = np.append(np.diff(places[1:-1]) > 0, True)  # of atoms that coincide, all count
    np.testing.assert_allclose(heights[1:-1][last], mu.cdf(places[1:-1][last]), atol=1e-12)
    assert heights[0] == 0
    assert heights[-1] == pytest.approx(1)


def test_a_solution_is_drawn_over_the_truth(solution: Solution, truth: Truth) -> None:
    """A panel for each action of the start, named, with the truth first and then what was learnt."""
    figure = solution.plot(truth=truth)
    assert [panel.get_title() for panel in figure.axes] == ["x0, forward (chosen)", "x0, backward"]
    for action, panel in enumerate(figure.axes):
        true, found = curves(panel)
        assert_is_cdf(true, truth.particles[0, action])
        assert_is_cdf(found, solution.distributions()[0, action])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["truth", "learnt"]


def test_states_may_be_named_or_numbered(solution: Solution, truth: Truth) -> None:
    titles = ["x1, forward", "x1, backward", "x2, forward", "x2, backward"]
    assert [panel.get_title() for panel in truth.plot(["x1", 2]).axes] == titles
    for wrong in ("x9", 4, -1):
        with pytest.raises(ValueError, match="state "):
            solution.plot(wrong)
    with pytest.raises(ValueError, match=r"shape of truth is \(2,\)"):
        solution.plot(truth=Particles([[0.0], [1.0]]))


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize("wrong", [3, "truth", np.zeros(3)])
def test_what_is_no_truth_is_refused(wrong: Any, solution: Solution, learnt: Learnt) -> None:
    for result in (solution, learnt):
        with pytest.raises(ValueError, match=r"truth must be what .*return_distributions.* got"):
            result.plot(truth=wrong)


def test_each_seed_is_drawn_and_diverged_runs_are_left_out(learnt: Learnt) -> None:
    figure = learnt.plot()
    assert len(curves(figure.axes[0])) == 4
    assert figure.axes[1].get_title() == "x0, backward (never tried)"
    values = learnt.values.copy()
    values[-1, 1, 0] = np.inf
    lost = replace(learnt, values=values)
    assert len(curves(lost.plot().axes[0])) == 3
    assert "1 of 4 runs has diverged" in repr(lost)
    means = [learnt.final()[a, s, 0, 0, 2] for a, s in ((0, 0), (0, 1), (1, 1))]
    told = f"expected returns at the start {min(means):.4g} to {max(means):.4g}; 1 of 4"
    assert told in repr(lost)
    assert "expected" not in repr(replace(learnt, values=np.full_like(values, np.nan)))
    with pytest.raises(ValueError, match="all runs have diverged"):
        replace(learnt, values=np.full_like(values, np.nan)).plot()


def test_more_actions_than_fit_go_on_in_the_next_row() -> None:
    row = [[(1.0, 1, float(a))] for a in range(6)]
    figure = evaluate(MDP.from_lists([row, []], 0.9), 0, Mean()).plot()
    shown = [panel for panel in figure.axes if panel.get_visible()]
    assert [panel.get_title() for panel in shown][1:] == [
        f"state 0, action {a}" for a in range(1, 6)
    ]


def test_particles_are_drawn_with_their_means() -> None:
    mu = Particles([-1.0, 0.0, 2.0], [0.2, 0.5, 0.3])
    (panel,) = mu.plot(truth=Particles([0.4])).axes
    assert_is_cdf(curves(panel)[1], mu)
    markers = [line.get_xdata()[0] for line in panel.lines if len(line.get_xdata()) == 1]
    np.testing.assert_allclose(markers, [0.4, 0.4])
    (panel,) = Particles([[0.0, 1.0], [2.0, 3.0]]).plot(labels=["low", "high"]).axes
    legend = [text.get_text() for text in panel.get_legend().get_texts()]
    assert legend == ["low: mean 0.5, std 0.5", "high: mean 2.5, std 0.5"]
    with pytest.raises(ValueError, match=r"mu\.shape is \(9,\): at most 8"):
        Particles(np.zeros((9, 1))).plot()
    with pytest.raises(ValueError, match="2 labels are needed"):
        Particles(np.zeros((2, 1))).plot(labels=["one"])


def test_texts_are_short_and_have_numbers(solution: Solution, truth: Truth, learnt: Learnt) -> None:
    assert repr(Particles([-1.0, 2.0], [0.25, 0.75])) == (
        "Particles(-1 (0.25), 2 (0.75): mean 1.25, std 1.299)"
    )
    assert repr(Particles(np.arange(20.0))) == (
        "Particles(20 atoms from 0 to 19: mean 9.5, std 5.766)"
    )
    assert repr(Particles(np.eye(3))) == (
        "Particles(batch (3,) of 3 atoms: means from 0.3333 to 0.3333)"
    )
    assert repr(CHAIN) == (
        "MDP(4 states (1 terminal), 2 actions, 14 transitions, rewards from -1 to 1, gamma=0.99)"
    )
    start = f"expected return from the start {solution.means()[0, 0]:.4g})"
    assert repr(solution).startswith("Solution(5 Expectiles, 4 states, 2 actions: converged in")
    assert repr(solution).endswith(start)
    assert "error at most" in repr(truth)
    assert "2,000 steps for step sizes 0.02, 0.05 with 2 seeds" in repr(learnt)
    assert all(len(repr(x)) < 200 for x in (solution, truth, learnt))


def test_matplotlib_is_imported_only_to_draw() -> None:
    code = "import sys, edrl.tabular, edrl; edrl.learn; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_notebook_shows_every_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its backend turns interactive mode on at the first figure, and that must last."""
    figure = pyplot.figure

    def first_figure(*args: Any, **kwargs: Any) -> Any:
        pyplot.ion()
        return figure(*args, **kwargs)

    monkeypatch.setattr(pyplot, "figure", first_figure)
    try:
        Particles([0.0, 1.0]).plot()
        assert pyplot.isinteractive()
    finally:
        pyplot.ioff()
