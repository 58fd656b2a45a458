"""`edrl search`: a setting chosen for every agent in the same way."""

from pathlib import Path

import numpy as np
import pytest
from tests.study.test_report import write_run
from tests.study.test_suite import TINY

from edrl.cli.search import Search
from edrl.study.plan import Planned, plan, read_plan
from edrl.study.results import random_scores
from edrl.study.search import Variation, best, means, scores
from edrl.study.status import look_at
from edrl.study.tables import read_csv, select

BREAKOUT, FREEWAY = "minatar/breakout", "minatar/freeway"


def write_search(out: Path, runs: list[Planned], tops: dict[str, tuple[float, ...]]) -> None:
    """Runs of a search; `tops` are the final scores of each agent in the games, in their order."""
    games = list(dict.fromkeys(run.config.env for run in runs))
    for run in runs:
        config = run.config
        shift = (
            2 * (config.seed - 7.5) if len(games) > 1 else 0.0
        )  # over seeds 7 and 8 none is left
        top = tops[str(config.variant)][games.index(config.env)] + shift
        written = write_run(
            out / "written", config.agent, config.env, config.seed, [top] * 10, steps=1000
        )
        (out / run.name).parent.mkdir(parents=True, exist_ok=True)
        written.rename(out / run.name)


def test_the_best_value_is_that_of_the_highest_mean_over_games_that_count_alike(
    tmp_path: Path,
) -> None:
    """Final scores (breakout, freeway), as shares of the way from random to the best.

    Freeway's range is larger.
    """
    variation = Variation.parse("learning_rate=1e-3,1e-4")
    tops: dict[str, tuple[float, ...]] = {
        "dqn[learning_rate=1e-3]": (8.0, 20.0),
        "dqn[learning_rate=1e-4]": (4.0, 30.0),
        "er-dqn[imputation=scipy-root,learning_rate=1e-3]": (10.0, 10.0),
        "er-dqn[imputation=scipy-root,learning_rate=1e-4]": (4.0, 40.0),
    }
    scipy = "er-dqn[imputation=scipy-root]"
    assert variation.applied(["dqn", scipy]) == list(tops)
    runs = plan([BREAKOUT, FREEWAY], list(tops), 2, "minatar", first_seed=7)
    write_search(tmp_path, runs, tops)
    found = scores(tmp_path, runs, variation)
    one = select(found, value="1e-3", agent=scipy, env=BREAKOUT)
    assert (one["seeds"], one["final"], one["error"], one["normalised"]) == (
        [2],
        [10.0],
        [1.0],
        [1.0],
    )
    zero = random_scores()

    def share(env: str, score: float, top: float) -> float:
        return (score - zero[env]) / (top - zero[env])

    for variant, (breakout, freeway) in tops.items():
        right = (share(BREAKOUT, breakout, 10.0) + share(FREEWAY, freeway, 40.0)) / 2
        agent, value = ("dqn" if variant.startswith("dqn") else scipy), variant[-5:-1]
        assert means(found)[agent, value] == pytest.approx(right)
    # By plain means over games freeway alone would decide, and dqn would get 1e-4.
    assert best(found) == {"dqn": "1e-3", scipy: "1e-4"}
    assert [variation.chosen(*pair) for pair in best(found).items()] == [
        "dqn[learning_rate=1e-3]",
        "er-dqn[imputation=scipy-root,learning_rate=1e-4]",
    ]


def test_below_random_the_better_value_is_still_better(tmp_path: Path) -> None:
    """Early in Pong all are near random's -20.7."""
    variation = Variation.parse("learning_rate=3e-5,1e-4,3e-4")
    tops = zip(variation.applied(["dqn"]), (-21.0, -20.9, -20.8), strict=True)
    finals: dict[str, tuple[float, ...]] = {variant: (top,) for variant, top in tops}
    runs = plan(["pong"], list(finals), 1, "paper", first_seed=7)
    write_search(tmp_path, runs, finals)
    found = scores(tmp_path, runs, variation)
    assert found["normalised"] == pytest.approx([0.0, 0.5, 1.0])
    assert best(found) == {"dqn": "3e-4"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"vary": "learning_rate"}, "at least two"),
        ({"agents": ("dqn[learning_rate=1e-2]",)}, "changed to 0.01 already"),
        ({"vary": "learning_rate=1e-3"}, "at least two"),
        ({"vary": "learning_rate=1e-3,1e-3"}, "at least two"),
        ({"vary": "steps=100,200"}, "belongs to runs"),
        ({"vary": "learning_rat=1e-3,1e-4"}, "did you mean learning_rate"),
        ({"vary": "learning_rate=1e-3,fast"}, "learning_rate must be a finite number"),
        ({"vary": "network=minatar,/tmp"}, "network must be one of"),
        ({"set": ("learning_rate=1e-3",)}, "what the search varies"),
        ({"set": ("evaluate_every=0",)}, "cannot be compared"),
        ({"games": ()}, "at least one"),
    ],
)
@pytest.mark.usefixtures("without_shape_checks")
def test_mistakes_are_named_before_anything_runs(
    change: dict, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = {
        "vary": "learning_rate=1e-3,1e-4",
        "out": tmp_path / "s",
        "games": (BREAKOUT,),
        "agents": ("dqn",),
    }
    assert Search(**{**right, "preset": "minatar", **change})() == 2
    assert words in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "s").exists()


def test_values_are_those_of_the_setting() -> None:
    variation = Variation.parse("learning_rate=0.0001, 1e-3,3e-4")
    assert variation.spelt == ("1e-4", "1e-3", "3e-4")
    assert variation.at_the_end({"dqn": "1e-3", "c51": "3e-4", "er-dqn": "1e-4"}) == [
        "dqn",
        "er-dqn",
    ]
    with pytest.raises(ValueError, match="differ"):
        Variation.parse("learning_rate=1e-3,0.001")
    assert Variation.parse("network=mlp,minatar").at_the_end({"dqn": "mlp"}) == []
    assert Variation.parse("support=[-1,1],[-2,2]").values == ((-1.0, 1.0), (-2.0, 2.0))


@pytest.mark.slow
def test_a_search_runs_and_says_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "search"
    search = Search(
        vary="learning_rate=1e-3,1e-4",
        out=out,
        games=(BREAKOUT,),
        agents=("dqn",),
        seeds=1,
        preset="minatar",
        set=TINY,
    )
    assert search() == 0
    printed = " ".join(capsys.readouterr().out.split())
    runs = read_plan(out)
    assert [run.name for run in runs] == [
        f"minatar-breakout/dqn+learning_rate={value}/seed-100" for value in ("1e-3", "1e-4")
    ]
    for run, rate in zip(runs, (1e-3, 1e-4), strict=True):
        assert (run.config.learning_rate, run.config.seed) == (rate, 100)
        assert look_at(out, run).state == "done"
    found = read_csv(out / "search.csv")
    assert np.isfinite(found["final"]).all()
    said = float(
        printed.rpartition("For the study: --agents 'dqn[learning_rate=")[2].removesuffix("]'")
    )
    assert said == best(found)["dqn"]  # a number, once it has been through a file
    before = (out / "search.csv").read_text()
    assert search() == 0  # nothing is left to do
    assert (out / "search.csv").read_text() == before
