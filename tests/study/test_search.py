"""`edrl search`: a setting chosen for every agent in the same way."""

from pathlib import Path

import numpy as np
import pytest
from tests.study.test_report import ramp, write_run
from tests.study.test_suite import TINY

from edrl.cli.search import Search
from edrl.study.plan import Planned, plan, read_plan
from edrl.study.results import random_scores
from edrl.study.search import Variation, at_the_end, best, means, scores
from edrl.study.status import look_at
from edrl.study.tables import read_csv, select

BREAKOUT, FREEWAY = "minatar/breakout", "minatar/freeway"


def test_the_best_value_is_that_of_the_highest_mean_over_games_that_count_alike(tmp_path: Path) -> None:
    """Final scores (breakout, freeway), as shares of the way from random to the best; freeway's range is larger."""
    tops = {
        "1e-3": {"dqn": (8.0, 20.0), "er-dqn:scipy-root": (10.0, 10.0)},
        "1e-4": {"dqn": (4.0, 30.0), "er-dqn:scipy-root": (4.0, 40.0)},
    }
    runs: dict[str, list[Planned]] = {}
    for value, agents in tops.items():
        runs[value] = plan([BREAKOUT, FREEWAY], list(agents), 2, "minatar", {"learning_rate": float(value)}, 7)
        for agent, pair in agents.items():
            name, _, imputation = agent.partition(":")
            for env, top in zip((BREAKOUT, FREEWAY), pair, strict=True):
                for seed in (7, 8):
                    shift = 2 * (seed - 7.5)  # the mean over seeds is `top`
                    write_run(tmp_path / value, name, env, seed, ramp(top + shift), imputation=imputation or None)
    found = scores(tmp_path, runs)
    one = select(found, value="1e-3", agent="er-dqn:scipy-root", env=BREAKOUT)
    assert (one["seeds"], one["final"], one["error"], one["normalised"]) == ([2], [10.0], [1.0], [1.0])
    zero = random_scores()

    def share(env: str, score: float, top: float) -> float:
        return (score - zero[env]) / (top - zero[env])

    for value, agents in tops.items():
        for agent, (breakout, freeway) in agents.items():
            right = (share(BREAKOUT, breakout, 10.0) + share(FREEWAY, freeway, 40.0)) / 2
            assert means(found)[agent, value] == pytest.approx(right)
    # By plain means over games freeway alone would decide, and dqn would get 1e-4.
    assert best(found) == {"dqn": "1e-3", "er-dqn:scipy-root": "1e-4"}


def test_below_random_the_better_value_is_still_better(tmp_path: Path) -> None:
    """Early in Pong all are near random's -20.7."""
    tops = {"3e-5": -21.0, "1e-4": -20.9, "3e-4": -20.8}
    runs = {value: plan(["pong"], ["dqn"], 1, "paper", {"learning_rate": float(value)}, 7) for value in tops}
    for value, top in tops.items():
        write_run(tmp_path / value, "dqn", "pong", 7, [top] * 10)
    found = scores(tmp_path, runs)
    assert found["normalised"] == pytest.approx([0.0, 0.5, 1.0])
    assert best(found) == {"dqn": "3e-4"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"vary": "learning_rate"}, "at least two"),
        ({"vary": "learning_rate=1e-3"}, "at least two"),
        ({"vary": "learning_rate=1e-3,1e-3"}, "at least two"),
        ({"vary": "dqn.learning_rate=1e-3,1e-4"}, "without an agent"),
        ({"vary": "learning_rat=1e-3,1e-4"}, "the settings are"),
        ({"vary": "learning_rate=1e-3,fast"}, "it must be a number"),
        ({"vary": "network=minatar,/tmp"}, "no / in it"),
        ({"set": ("dqn.learning_rate=1e-3",)}, "what the search varies"),
        ({"set": ("evaluate_every=0",)}, "cannot be compared"),
        ({"games": ()}, "at least one"),
    ],
)
def test_mistakes_are_named_before_anything_runs(
    change: dict, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = {"vary": "learning_rate=1e-3,1e-4", "out": tmp_path / "s", "games": (BREAKOUT,), "agents": ("dqn",)}
    assert Search(**{**right, "preset": "minatar", **change})() == 2
    assert words in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "s").exists()


def test_values_are_read_as_written() -> None:
    variation = Variation.parse("learning_rate=1e-4, 1e-3,3e-4")
    assert variation == Variation("learning_rate", ("1e-4", "1e-3", "3e-4"))
    assert at_the_end({"dqn": "1e-3", "c51": "3e-4", "er-dqn": "1e-4"}, variation) == ["dqn", "er-dqn"]
    with pytest.raises(ValueError, match="differ"):
        Variation.parse("learning_rate=1e-3,0.001")
    assert at_the_end({"dqn": "mlp"}, Variation("network", ("mlp", "minatar"))) == []


@pytest.mark.slow
def test_a_search_runs_and_says_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "search"
    search = Search(
        vary="learning_rate=1e-3,1e-4", out=out, games=(BREAKOUT,), agents=("dqn",), seeds=1, preset="minatar", set=TINY
    )
    assert search() == 0
    printed = " ".join(capsys.readouterr().out.split())
    runs = read_plan(out)
    assert [run.name for run in runs] == [f"{value}/minatar-breakout/dqn/seed-100" for value in ("1e-3", "1e-4")]
    for run, rate in zip(runs, (1e-3, 1e-4), strict=True):
        assert (run.config.learning_rate, run.config.seed) == (rate, 100)
        assert look_at(out, run).state == "done"
    found = read_csv(out / "search.csv")
    assert np.isfinite(found["final"]).all()
    said = float(printed.rpartition("For the study: --set dqn.learning_rate=")[2])
    assert said == best(found)["dqn"]  # a number, once it has been through a file
    before = (out / "search.csv").read_text()
    assert search() == 0  # nothing is left to do
    assert (out / "search.csv").read_text() == before
