"""`edrl report` on directories of runs that were never played: what it says, and what it must
not hide."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.test_page import Collector

from edrl import cli
from edrl.cli.report import Report
from edrl.deep.calibration import CALIBRATION
from edrl.deep.config import Config, preset
from edrl.deep.manifest import VERSION, Manifest
from edrl.report import game_figures, study_figures, style
from edrl.report.result_tables import measure
from edrl.report.study_report import write_report
from edrl.study.plan import Planned, write_plan
from edrl.study.results import random_scores, read_study
from edrl.study.runs import write_runs
from edrl.study.tables import read_csv, select, write_csv

STEPS = 1000
METRICS = ("step", "episodes", "score", "loss")
CALIBRATIONS = {  # expected, got, spread, scatter, within
    "er-dqn": (1.5, 1.25, 0.5, 0.4, 0.92), "er-dqn-naive": (1.0, 1.0, 0.02, 0.4, 0.1),
    "qr-dqn": (1.0, 2.0, 0.0, 0.4, 0.0),
}  # fmt: skip


def config_of(agent: str, env: str, seed: int, **settings: Any) -> Config:
    own = {
        "agent": agent,
        "env": env,
        "seed": seed,
        "steps": STEPS,
        "evaluate_every": 100,
        "log_every": 100,
        "rollout": 0,
    }
    return preset("quick", **{**own, **settings})


def write_run(
    place: Path, agent: str, env: str, seed: int, scores: list[float], timed: bool = True,
    calibration: tuple[float, ...] | None = None, **settings: Any,
) -> Path:  # fmt: skip
    """A run with an evaluation every 100 steps; unfinished if there are fewer than ten."""
    config = config_of(agent, env, seed, **settings)
    out = place / env.replace("/", "-") / agent / f"seed-{seed}"
    out.mkdir(parents=True)
    (out / "config.json").write_text(config.to_json())
    steps = 100 * np.arange(1, len(scores) + 1)
    write(out / "evaluations.csv", [("step", "mean"), *zip(steps, scores, strict=True)])
    if calibration is not None:
        head = CALIBRATION[: 2 + len(calibration)]  # earlier versions wrote no bounds
        write(out / "calibration.csv", [head, *((step, 500, *calibration) for step in steps)])
    write(out / "metrics.csv", [METRICS, *training_rows(scores)])
    if timed:
        twice = [(step, 50.0) for step in steps[:1]]  # killed and done again, in 2 s
        again = (*twice, (0, 0.0), *((step, 2.0) for step in steps))
        write(out / "timing.csv", [("step", "seconds"), (0, 0.0), *again])
        maker = {
            "commit": "abc123",
            "versions": {"jax": "0.10"},
            "machine": {"host": "secret-host", "cores": 2},
        }
        (out / "provenance.json").write_text(json.dumps([maker]))
    return out


def training_rows(scores: list[float]) -> list[tuple[object, ...]]:
    """Rows of metrics: ten more episodes each, with half the score of the evaluation.

    No episode ends in the second, and nothing is learnt in the first.
    """
    rows: list[tuple[object, ...]] = []
    for number, score in enumerate(scores):
        training = "" if number == 1 else score / 2
        loss = "" if number == 0 else 0.1
        rows.append((100 * (number + 1), 10 * (number + (number != 1)), training, loss))
    return rows


def write(path: Path, rows: list[Any]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def ramp(top: float, count: int = 10) -> list[float]:
    """Scores that rise to `top` at the eighth evaluation and stay, so that it is final and
    maximum."""
    return [top * min(1.0, number / 8) for number in range(1, count + 1)]


def text_of(page: Path) -> str:
    found = Collector()
    found.feed(page.read_text(encoding="utf-8"))
    return found.text


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two MinAtar games and an Atari game, three agents, three seeds.

    One is missing and one unfinished.
    """
    place = tmp_path_factory.mktemp("study")
    planned: list[Planned] = []
    tops = {"er-dqn": 1.0, "er-dqn-naive": 0.5, "qr-dqn": 0.8}
    for env, top in (("minatar/breakout", 10.0), ("minatar/freeway", 50.0), ("pong", 20.0)):
        for agent, share in tops.items():
            for seed in range(3):
                rate = 1e-4 if agent == "er-dqn" else 5e-5
                planned.append(
                    Planned(
                        f"{env}/{agent}/{seed}", config_of(agent, env, seed, learning_rate=rate)
                    )
                )
                if (env, agent, seed) == ("minatar/breakout", "qr-dqn", 1):
                    continue
                count = 4 if (env, agent, seed) == ("minatar/freeway", "er-dqn", 2) else 10
                write_run(
                    place, agent, env, seed, ramp(top * share + seed, count),
                    learning_rate=rate,
                    calibration=CALIBRATIONS[agent] if env == "pong" else None,
                )  # fmt: skip
    write_plan(place, planned)
    return place


@pytest.fixture(scope="module")
def out(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    (out / "notes.txt").write_text("mine")
    write_report([study], out)
    assert (out / "notes.txt").read_text() == "mine"
    return out


def test_what_is_missing_is_said(out: Path) -> None:
    text = text_of(out / "index.html")
    assert "1 run missing; 1 run unfinished" in text
    assert (
        "breakout (MinAtar)QR-DQN1–" in text
    )  # a row of the table: seed 1 is missing, none is unfinished
    assert "freeway (MinAtar)ER-DQN–seed 2 at 400 of 1,000 steps" in text
    assert "2 from step 500 on (of 3)" in text  # on the curves
    summary = json.loads((out / "summary.json").read_text())
    assert summary["missing"] == [{"agent": "QR-DQN", "env": "minatar/breakout", "seed": 1}]
    assert [(run["agent"], run["reached"]) for run in summary["unfinished"]] == [("ER-DQN", 400)]
    assert summary["runs"] == {"found": 26, "planned": 27, "counted": 25}


def test_what_made_the_runs_and_how_they_differ_is_said(out: Path) -> None:
    text = text_of(out / "index.html")
    assert "abc123jax 0.10host secret-host, cores 226" in text
    assert "learning rate5e-51e-45e-5" in text  # QR-DQN, ER-DQN, ER-DQN-naive
    assert "size20011201" in text
    assert "gamma0.99" in text


def test_the_page_is_whole(out: Path) -> None:
    found = Collector()
    found.feed((out / "index.html").read_text(encoding="utf-8"))
    names = [
        "aggregates",
        "profiles",
        "improvement",
        "improvement-pairs",
        "curves",
        "training",
        "sample-efficiency",
        "calibration",
    ]
    assert [a["id"] for tag, a in found.tags if tag == "figure"] == [
        f"fig-{name}" for name in names
    ]
    for name in names:
        for kind in ("png", "svg"):
            assert (out / "figures" / f"{name}.{kind}").stat().st_size > 1000
    assert not [tag for tag, _ in found.tags if tag == "script"]
    for _, attributes in found.tags:
        address = attributes.get("href") or "#"
        assert address.startswith(("#", "data:")) or (out / address).exists()


def test_scores_and_their_scales(out: Path) -> None:
    scores = read_csv(out / "data" / "scores.csv")
    assert len(scores["agent"]) == 26
    run = select(scores, agent="ER-DQN", env="minatar/breakout", seed=2)
    assert run["final"][0] == pytest.approx(12)
    assert run["maximum"][0] == pytest.approx(12)
    zero, one = random_scores()["minatar/breakout"], 11.0  # the mean of ER-DQN's 10, 11, 12
    assert run["final_normalised"][0] == pytest.approx((12 - zero) / (one - zero))
    pong = select(scores, agent="QR-DQN", env="pong", seed=0)
    assert pong["final_normalised"][0] == pytest.approx(
        (16 + 20.7) / (14.6 + 20.7)
    )  # random -20.7, human 14.6
    unfinished = select(scores, agent="ER-DQN", env="minatar/freeway", seed=2)
    assert not unfinished["counted"][0]
    assert unfinished["final"][0] == pytest.approx(
        52 * np.mean([2, 3, 4]) / 8
    )  # the last three of its four


def test_aggregates_are_of_the_scores_in_the_file(out: Path) -> None:
    scores, found = read_csv(out / "data" / "scores.csv"), read_csv(out / "data" / "aggregates.csv")
    for agent in ("QR-DQN", "ER-DQN", "ER-DQN-naive"):
        own = select(scores, agent=agent, counted=True)
        means = [own["final_normalised"][own["env"] == env].mean() for env in np.unique(own["env"])]
        assert select(found, agent=agent, measure="mean")["value"][0] == pytest.approx(
            np.mean(means)
        )
        iqm = select(found, agent=agent, measure="IQM")
        assert iqm["low"][0] <= iqm["value"][0] <= iqm["high"][0]
    chances = read_csv(out / "data" / "improvement.csv")
    assert select(chances, agent="ER-DQN", other="ER-DQN-naive")["probability"][0] == 1
    assert select(chances, agent="ER-DQN-naive", other="ER-DQN")["probability"][0] == 0
    assert len(chances["agent"]) == 6


def test_the_papers_numbers_stand_beside_for_atari(out: Path) -> None:
    text = text_of(out / "index.html").replace("\u00a0", " ")
    for head in ("QR-DQN (paper)", "ER-DQN-naive (paper)", "ER-DQN (paper)", "random", "human"):
        assert head in text
    # QR-DQN, ER-DQN, ER-DQN-naive here; QR-DQN, ER-DQN-naive, ER-DQN in the paper; random, human.
    assert "pong17.00 ± 0.5821.00 ± 0.5811.00 ± 0.5821.0021.0021.00-20.7014.60" in text
    assert "breakout (MinAtar)9.00 ± 1.00 (2 of 3)11.00 ± 0.586.00 ± 0.58–––0.42–" in text
    assert "<b>21.00 ±\u00a00.58</b>" in (out / "index.html").read_text()


def test_learnt_distributions_stand_beside_the_returns(out: Path) -> None:
    rows = read_csv(out / "data" / "calibration.csv")
    assert len(rows["agent"]) == 9  # the runs that have compared them
    run = select(rows, agent="ER-DQN-naive", seed=1)
    assert [run[name][0] for name in ("returns", "spread", "scatter")] == pytest.approx(
        [500, 0.02, 0.4]
    )
    assert "pongER-DQN1.51.250.50.492%0 of 3" in text_of(out / "index.html")


def test_runs_that_expect_what_they_do_not_get_are_named(out: Path, tmp_path: Path) -> None:
    """By the warning that training and `edrl evaluate` give: QR-DQN expects half of what it got."""
    warning = "The agent expects a return of 1 on average and got 2: do not trust"
    page = text_of(out / "index.html")
    assert "3 of 25 runs expect returns that are impossible or far from those they got" in page
    assert page.count(warning) == 3
    assert f"pongQR-DQN2{warning}" in page
    assert "pongQR-DQN1200.40%3 of 3" in page

    near = (100.0, 90.0, 1.0, 20.0, 0.9)  # within what returns scatter, but not within the bounds
    for place, bounds in (("impossible", (99.0, 0.0)), ("possible", (101.0, 0.0)), ("old", ())):
        run = write_run(tmp_path / place, "dqn", "pong", 0, ramp(1.0), calibration=near + bounds)
        study = read_study([run])
        assert list(study.warned) == ([("DQN", "pong", 0)] if place == "impossible" else [])
        (tmp_path / place / "kept").mkdir()
        write_runs(tmp_path / place / "kept" / "runs.json", study.runs, ())
        assert read_study([tmp_path / place / "kept"]).warned == study.warned


def test_training_scores_stand_beside_evaluations(out: Path) -> None:
    """They are half of the evaluations' in these runs; the last of ten rows is the last tenth."""
    scores = read_csv(out / "data" / "scores.csv")
    run = select(scores, agent="ER-DQN", env="minatar/breakout", seed=2)
    assert (run["training"][0], run["final"][0]) == (6.0, 12.0)
    curve = select(read_csv(out / "data" / "training.csv"), agent="ER-DQN", env="minatar/breakout")
    evaluations = select(
        read_csv(out / "data" / "curves.csv"), agent="ER-DQN", env="minatar/breakout"
    )
    ended = evaluations["step"] != 200  # no episode ended
    assert curve["step"].tolist() == evaluations["step"][ended].tolist()
    np.testing.assert_allclose(curve["mean"], evaluations["mean"][ended] / 2, rtol=1e-5)
    page = text_of(out / "index.html").replace("\u00a0", " ")
    assert "breakout (MinAtar)ER-DQN5.50 ± 0.2911.00 ± 0.583" in page


def test_training_scores_are_means_of_episodes_not_of_rows(tmp_path: Path) -> None:
    """1,000 rows become the means of fiftieths; what was logged before learning counts as well."""
    run = write_run(tmp_path, "dqn", "pong", 0, ramp(1.0))
    rng = np.random.default_rng(0)
    ended, scores = rng.integers(0, 4, size=STEPS), rng.normal(size=STEPS)
    texts = ["" if count == 0 else score for count, score in zip(ended, scores, strict=True)]
    rows = zip(range(1, STEPS + 1), np.cumsum(ended), texts, [""] * STEPS, strict=True)
    write(run / "metrics.csv", [METRICS, *rows])
    (found,) = read_study([run]).runs
    assert found.training["step"] == list(range(20, STEPS + 1, 20))
    assert found.training["episodes"] == ended.reshape(50, 20).sum(axis=1).tolist()
    each = np.repeat(scores, ended)  # the score of each episode
    first = ended[:20].sum()
    assert found.training["score"][0] == pytest.approx(each[:first].mean(), rel=1e-5)
    last = ended[-STEPS // 10 :].sum()
    assert found.final_training == pytest.approx(each[-last:].mean(), rel=1e-4)


def test_reports_of_earlier_versions_have_no_training_scores(out: Path, tmp_path: Path) -> None:
    content = json.loads((out / "runs.json").read_text())
    for run in content["runs"]:
        del run["training"]
    (tmp_path / "runs.json").write_text(json.dumps(content))
    report = write_report([tmp_path], tmp_path / "out")
    assert "no scores of training episodes are kept" in text_of(report.page)
    assert not (tmp_path / "out" / "figures" / "training.png").exists()
    assert np.isnan(read_csv(tmp_path / "out" / "data" / "scores.csv")["training"]).all()


@pytest.mark.parametrize(
    "training",
    [
        None,
        {"step": [1], "episodes": [1]},
        {"step": [1], "episodes": [0], "score": [1.0]},
        {"step": [2, 1], "episodes": [1, 1], "score": [1.0, 1.0]},
        {"step": [1], "episodes": [1], "score": ["1"]},
        {"step": [1], "episodes": [1], "score": []},
    ],
)
def test_training_scores_that_cannot_be_are_refused(
    out: Path, tmp_path: Path, training: object
) -> None:
    content = json.loads((out / "runs.json").read_text())
    content["runs"][0]["training"] = training
    (tmp_path / "runs.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"runs\.json cannot be read: training"):
        write_report([tmp_path], tmp_path / "out")


def test_agents_come_in_one_order_and_what_differs_is_named(study: Path, out: Path) -> None:
    """Whatever the order of directories, in every table."""
    places = [study / "pong" / agent for agent in ("er-dqn-naive", "qr-dqn", "er-dqn")]
    for order in (places, places[::-1]):
        agents = read_study(order).agents
        assert agents == ["QR-DQN", "ER-DQN", "ER-DQN-naive"]
        for name, rows in measure(read_study(order)).items():
            known = list(dict.fromkeys(rows.get("agent", agents)))
            assert known == agents, name
    assert "agents differ inlearning rate, size (see Settings)" in text_of(out / "index.html")


def test_one_game_shows_raw_scores(tmp_path: Path) -> None:
    """The best agent has its score, not 1, in tables, figures and on the console."""
    for agent, top in (("dqn", 200.0), ("er-dqn", 480.0)):
        for seed in range(2):
            write_run(tmp_path, agent, "CartPole-v1", seed, ramp(top + seed))
    report = write_report([tmp_path], tmp_path / "out")
    best = select(report.aggregates, agent="ER-DQN", measure="mean")
    assert best["value"][0] == pytest.approx(480.5)
    assert "480.5 [480.0,\u00a0481.0]" in text_of(report.page)
    assert "normalised final score" not in text_of(report.page)
    profiles = read_csv(tmp_path / "out" / "data" / "profiles.csv")
    assert min(profiles["tau"]) < 200.0
    assert max(profiles["tau"]) > 481.0


@pytest.mark.parametrize(
    ("spreads", "labels"),
    [
        ((0.15, 1.4), {"0.2", "0.5", "1"}),
        ((0.05, 30.0), {"0.1", "1", "10"}),
    ],
)
def test_a_ratio_of_widths_can_be_read_off(spreads: tuple[float, float], labels: set[str]) -> None:
    """Between powers of ten, too, where there is but one of them."""
    rows = {
        "agent": ["QR-DQN", "ER-DQN"],
        "env": ["pong"] * 2,
        "spread": list(spreads),
        "scatter": [1.0, 1.0],
    }
    looks = style.looks({"QR-DQN": "qr-dqn", "ER-DQN": "er-dqn"})
    with style.applied():
        figure = game_figures.calibration(rows, looks).figure
        figure.canvas.draw()
        axis = figure.axes[0].xaxis
        low, high = figure.axes[0].get_xlim()
        ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        shown = {tick.label1.get_text() for tick in ticks if low <= tick.get_loc() <= high}
    assert shown - {""} == labels


def test_speed_counts_steps_once(out: Path) -> None:
    speed = read_csv(out / "data" / "speed.csv")
    run = select(speed, agent="QR-DQN", env="pong", seed=0)
    assert (run["seconds"][0], run["seconds_done_twice"][0], run["steps_per_second"][0]) == (
        20,
        50,
        50,
    )
    assert "8 of 820 (20 to 20)50 (50 to 50)400" in text_of(out / "index.html")
    assert set(select(speed, agent="ER-DQN")["seconds"]) == {
        20
    }  # the unfinished run counts nowhere


def test_seeds_are_missing_without_a_plan_too(out: Path, tmp_path: Path) -> None:
    """Beside a study that has one: each agent is expected to have every game and seed, or what
    was planned for it."""
    for seed in range(2):
        write_run(tmp_path / "mine", "dqn", "pong", seed, ramp(30.0))
    found = read_study([out, tmp_path / "mine"])
    assert ("DQN", "pong", 2) in found.missing
    assert ("QR-DQN", "minatar/breakout", 1) in found.missing
    assert len(found.missing) == 1 + 7


def test_a_curve_of_fewer_runs_is_dashed_and_says_so(
    study: Path, out: Path, tmp_path: Path
) -> None:
    text = "Dashed where fewer runs than there should be stand behind it"
    assert text_of(out / "index.html").count(text) == 3  # evaluations, training, efficiency
    whole = write_report([study / "pong"], tmp_path)  # which lacks nothing
    assert text not in text_of(whole.page)


def test_an_agent_of_ones_own_is_compared_with_every_other(out: Path, tmp_path: Path) -> None:
    for env in ("minatar/breakout", "minatar/freeway", "pong"):
        write_run(tmp_path / "mine", "mine:Mine", env, 0, ramp(30.0))
    study = read_study([out, tmp_path / "mine"])
    rows = measure(study)["improvement"]
    with style.applied():
        (axes,) = study_figures.improvement_pairs(rows, style.looks(study.bases)).figure.axes
    pairs = [tick.get_text() for tick in axes.get_yticklabels()]
    assert pairs[-3:] == ["Mine over QR-DQN", "Mine over ER-DQN", "Mine over ER-DQN-naive"]
    assert "ER-DQN over QR-DQN" in pairs


def test_the_same_runs_give_the_same_numbers(study: Path, out: Path, tmp_path: Path) -> None:
    for name, rows in measure(
        read_study([study / "pong", study])
    ).items():  # directories that overlap, too
        write_csv(tmp_path / name, rows)
        assert (tmp_path / name).read_text() == (out / "data" / f"{name}.csv").read_text()


def test_a_report_stands_for_its_runs(study: Path, out: Path, tmp_path: Path) -> None:
    """To the last digit, with what is missing and unfinished, and beside runs of others.

    But not beside its own.
    """
    again = write_report([out], tmp_path / "again")
    for table in (out / "data").iterdir():
        ours, theirs = (
            read_csv(place / "data" / table.name) for place in (tmp_path / "again", out)
        )
        for rows in (ours, theirs):
            rows.pop("directory", None)
        assert str(ours) == str(theirs)
    assert (tmp_path / "again" / "runs.json").read_text() == (out / "runs.json").read_text()
    assert json.loads((tmp_path / "again" / "summary.json").read_text()) == json.loads(
        (out / "summary.json").read_text()
    )
    assert str(study) not in (out / "runs.json").read_text()
    assert "secret-host" not in (out / "runs.json").read_text()
    assert again.warnings

    write_run(tmp_path / "mine", "dqn", "pong", 0, ramp(30.0))
    both = write_report([out, tmp_path / "mine"], tmp_path / "both")
    assert len(both.study.runs) == 27
    with pytest.raises(ValueError, match="same agent, game and seed"):
        write_report([out, study], tmp_path / "out")

    write_report([tmp_path / "mine"], tmp_path / "mine")  # beside the runs, which go on
    write_run(tmp_path / "mine", "dqn", "pong", 1, ramp(30.0))
    assert len(read_study([tmp_path / "mine"]).runs) == 2


def test_runs_that_have_gone_on_since_a_report_take_the_place_of_those_it_kept(
    tmp_path: Path,
) -> None:
    """Of the same settings, and only where the report had caught them on their way."""
    for place, count, rate in (("then", 4, 1e-3), ("now", 10, 1e-3), ("other", 10, 3e-4)):
        write_run(tmp_path / place, "dqn", "pong", 0, ramp(20.0, count), learning_rate=rate)
        write_run(
            tmp_path / place, "dqn", "pong", {"then": 1, "now": 2, "other": 3}[place], ramp(10.0)
        )
    write_report([tmp_path / "then"], tmp_path / "kept")
    for order in (("kept", "now"), ("now", "kept")):
        runs = read_study([tmp_path / place for place in order]).runs
        assert [(run.key[2], run.finished) for run in runs] == [(0, True), (1, True), (2, True)]
    with pytest.raises(ValueError, match="same agent, game and seed"):
        read_study([tmp_path / "then", tmp_path / "now"])
    other = [
        run for run in read_study([tmp_path / "kept", tmp_path / "other"]).runs if run.key[2] == 0
    ]
    assert [(run.agent, run.finished) for run in other] == [
        ("DQN (learning rate 3e-4)", True),
        ("DQN (learning rate 1e-3)", False),
    ]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 3}', '{"version": 1, "planned": [], "runs": [{}]}']
)
def test_runs_that_cannot_be_read_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "runs.json").write_text(text)
    with pytest.raises(ValueError, match=r"runs\.json cannot be read"):
        write_report([tmp_path], tmp_path / "out")


def test_one_run_is_enough(tmp_path: Path) -> None:
    run = write_run(tmp_path, "dqn", "CartPole-v1", 0, ramp(100.0), timed=False)
    report = write_report([run], tmp_path / "out")
    text = text_of(report.page)
    for words in (
        "One seed a game: there are no intervals", "It takes two agents", "No run has compared its distributions",
        "No run has a timing.csv",
        "1 run without a provenance.json", "Scores are raw: only CartPole-v1", "no plan (suite.json)",
    ):  # fmt: skip
        assert words in text
    assert select(report.aggregates, measure="IQM")["value"][0] == 100
    assert report.aggregates["measure"] == ["mean", "IQM"]  # nothing is optimal
    assert (
        json.loads((tmp_path / "out" / "summary.json").read_text())["aggregates"][0]["low"] is None
    )


def test_an_agent_with_another_imputation_is_one_of_its_own(tmp_path: Path) -> None:
    for imputation, place in ((None, "own"), ("scipy-root", "scipy")):
        write_run(
            tmp_path / place, "er-dqn", "minatar/breakout", 0, ramp(10.0), imputation=imputation
        )
    text = text_of(write_report([tmp_path], tmp_path / "out").page)
    assert "imputationthe agent's ownscipy-root" in text  # ER-DQN, ER-DQN (scipy-root)


def passed(run: Path, **given: str) -> None:
    """As if statistics or an environment had been passed to `train`."""
    (run / "provenance.json").write_text(json.dumps([{"commit": None, **given}]))


def test_what_was_passed_beside_a_config_is_what_was_run(tmp_path: Path) -> None:
    """A run of one's own statistics in one's own environment is no seed of the config's agent in
    the config's game."""
    write_run(tmp_path, "er-dqn", "breakout", 0, ramp(10.0))
    mine = write_run(tmp_path, "er-dqn", "breakout", 1, ramp(20.0))
    passed(mine, family="Mine(taus=(0.1, 0.5))", env="Cart-v0")
    study = read_study([tmp_path])
    assert [run.key for run in study.runs] == [("Mine", "Cart-v0", 1), ("ER-DQN", "breakout", 0)]
    assert [study.scales[env].one_is for env in ("breakout", "Cart-v0")] == [
        "human",
        "best agent here (Mine)",
    ]
    report = write_report([tmp_path], tmp_path / "out")
    assert "size11the agent's own" in text_of(report.page)  # ER-DQN's, and not
    assert [run.key for run in read_study([tmp_path / "out"]).runs] == [
        run.key for run in study.runs
    ]


def test_statistics_of_one_name_are_not_taken_for_one_agent(tmp_path: Path) -> None:
    for seed, (agent, env) in enumerate(
        (("a:Mine", "minatar/breakout"), ("b:Mine", "minatar/asterix"))
    ):
        write_run(tmp_path / "modules", agent, env, seed, ramp(10.0))
    assert read_study([tmp_path / "modules"]).agents == ["a:Mine", "b:Mine"]
    for seed in range(2):
        passed(
            write_run(tmp_path / "passed", "dqn", "pong", seed, ramp(10.0)),
            family=f"Mine(size={seed})",
        )
    assert read_study([tmp_path / "passed"]).agents == ["Mine(size=0)", "Mine(size=1)"]


def test_a_run_that_is_shorter_than_what_it_logs_can_be_finished(tmp_path: Path) -> None:
    run = write_run(
        tmp_path, "dqn", "minatar/breakout", 0, ramp(10.0, 4), log_every=10_000, evaluate_every=300
    )
    assert read_study([run]).unfinished
    (run / f"checkpoint-{STEPS:012d}").mkdir()
    identity = {"settings": {}, "passed": {}}
    manifest = Manifest(VERSION, STEPS, True, identity, {"arrays.npz": ""}, {})
    (run / f"checkpoint-{STEPS:012d}" / "manifest.json").write_text(manifest.to_json())
    assert not read_study([run]).unfinished


def test_a_study_that_has_only_begun(tmp_path: Path) -> None:
    """No run is finished, one has no evaluation: all count as they are, and the page says so."""
    for seed, count in ((0, 3), (1, 0)):
        write_run(tmp_path, "er-dqn", "minatar/asterix", seed, ramp(10.0, count))
    write_run(tmp_path, "dqn", "minatar/asterix", 0, ramp(8.0, 1))
    report = write_report([tmp_path], tmp_path / "out")
    text = text_of(report.page)
    assert "scores are preliminary" in text
    assert "1 run missing; 3 runs unfinished" in text  # DQN's second seed: ER-DQN has it
    assert "seed 1 at 0 of 1,000 steps" in text


def test_games_that_cannot_be_compared_are_left_out_and_named(tmp_path: Path) -> None:
    write_run(tmp_path, "er-dqn", "minatar/asterix", 0, ramp(10.0))
    write_run(tmp_path, "dqn", "minatar/breakout", 0, ramp(10.0))
    for agent in ("er-dqn", "dqn"):
        for game in ("freeway", "seaquest"):
            write_run(tmp_path, agent, f"minatar/{game}", 0, [0.0] * 10)
    report = write_report([tmp_path], tmp_path / "out")
    assert report.aggregates["agent"] == []
    text = text_of(report.page)
    assert "no agent is better than the scale's zero: freeway (MinAtar), seaquest (MinAtar)" in text
    assert "not every agent has a run that counts: asterix (MinAtar), breakout (MinAtar)" in text
    assert "No game can be aggregated" in text


def test_a_plan_that_has_grown_makes_its_runs_unfinished(tmp_path: Path) -> None:
    write_run(tmp_path, "dqn", "pong", 0, ramp(10.0))
    write_plan(tmp_path, [Planned("any", config_of("dqn", "pong", 0, steps=2 * STEPS))])
    (found,) = read_study([tmp_path]).unfinished
    assert (found.reached, found.planned) == (STEPS, 2 * STEPS)


def test_a_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    run = write_run(tmp_path, "dqn", "pong", 0, ramp(10.0, 5))
    for cut in ("600", "600,3,9"):  # in the middle of a column, too
        with (run / "evaluations.csv").open("a") as file:
            file.write(cut)
        assert read_study([run]).runs[0].steps.tolist() == [100, 200, 300, 400, 500]
        with (run / "evaluations.csv").open("a") as file:
            file.write("\n")  # as written by a run that went on


def test_what_cannot_be_reported_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ValueError, match="there is no run in it"):
        write_report([empty], tmp_path / "out")
    with pytest.raises(ValueError, match="no such directory"):
        write_report([tmp_path / "nowhere"], tmp_path / "out")
    write_run(tmp_path / "a", "dqn", "pong", 0, [])
    with pytest.raises(ValueError, match=r"evaluated yet \(1 begun, 0 planned\)"):
        write_report([tmp_path / "a"], tmp_path / "out")
    for name in ("b", "c"):
        write_run(tmp_path / name, "dqn", "pong", 0, [1.0])
    with pytest.raises(ValueError, match="same agent, game and seed"):
        write_report([tmp_path / "b", tmp_path / "c"], tmp_path / "out")
    for name in ("claims.json", "index.html"):
        (empty / name).write_text("")
    with pytest.raises(ValueError, match="edrl reproduce"):
        write_report([tmp_path / "b"], empty)
    (tmp_path / "b" / "pong" / "dqn" / "seed-0" / "config.json").write_text('{"new": 1}')
    with pytest.raises(ValueError, match=r"config\.json cannot be read"):
        write_report([tmp_path / "b"], tmp_path / "out")
    for damaged in (
        tmp_path / "c" / "pong" / "dqn" / "seed-0" / "provenance.json",
        tmp_path / "c" / "suite.json",
    ):
        damaged.write_text("{")
        with pytest.raises(ValueError, match=rf"{damaged.name} cannot be read"):
            write_report([tmp_path / "c"], tmp_path / "out")


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for agent in ("er-dqn", "dqn"):
        for seed in range(2):
            write_run(tmp_path / "runs", agent, "pong", seed, ramp(10.0 + seed))
    monkeypatch.setattr(
        "sys.argv", ["edrl", "report", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    )
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert "ER-DQN" in printed
    assert str(tmp_path / "out" / "index.html") in printed
    assert Report((tmp_path / "nowhere",), tmp_path / "out")() == 2
    assert "no such directory" in capsys.readouterr().out
    assert Report((), tmp_path / "out")() == 2
