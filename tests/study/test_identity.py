"""Whose runs are one agent's: two records are never pooled, whatever they were called."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.study.test_report import config_of, ramp, text_of, write_run

from edrl.deep.config import preset
from edrl.report import style
from edrl.report.result_tables import measure
from edrl.report.study_report import write_report
from edrl.study.identity import Record, labels_of, told_apart
from edrl.study.plan import Planned, plan, write_plan
from edrl.study.results import read_study
from edrl.study.runs import read_runs
from edrl.study.tables import read_csv, select

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def write_pair(place: Path, *settings: dict[str, Any]) -> None:
    """Three seeds each of agents that differ in some settings."""
    for number, own in enumerate(settings):
        for seed in range(3):
            agent = {"agent": "er-dqn", **own}["agent"]
            rest = {name: value for name, value in own.items() if name != "agent"}
            write_run(
                place / str(number), agent, "minatar/breakout", seed, ramp(10.0 + number), **rest
            )


@pytest.mark.parametrize(
    ("settings", "agents"),
    [
        (({}, {"size": 51}), ["ER-DQN", "ER-DQN (size 51)"]),
        (({"size": 5}, {"size": 51}), ["ER-DQN (size 5)", "ER-DQN (size 51)"]),
        (({}, {"double": True}), ["ER-DQN", "ER-DQN (double)"]),
        (({}, {"agent": "er-dqn[double]"}), ["ER-DQN", "ER-DQN (double)"]),
        (
            ({"learning_rate": 1e-4}, {"learning_rate": 3e-4}),
            ["ER-DQN (learning rate 1e-4)", "ER-DQN (learning rate 3e-4)"],
        ),
        (({}, {"agent": "er-dqn[learning_rate=1e-4]"}), ["ER-DQN", "ER-DQN (learning rate 1e-4)"]),
        (({"gamma": 0.9}, {"n_step": 3}), ["ER-DQN (gamma 0.9)", "ER-DQN (n-step 3)"]),
        (({"agent": "mine:Stat"}, {"agent": "mine:Stat[size=7]"}), ["Stat", "Stat (size 7)"]),
    ],
)
def test_agents_that_differ_in_any_setting_are_two(
    tmp_path: Path, settings: tuple[dict[str, Any], ...], agents: list[str]
) -> None:
    """Whether their names say so, or flags have made the difference."""
    write_pair(tmp_path, *settings)
    report = write_report([tmp_path], tmp_path / "out")
    assert report.study.agents == agents
    assert not report.study.missing
    scores = read_csv(tmp_path / "out" / "data" / "scores.csv")
    finals = [set(select(scores, agent=agent)["final"]) for agent in agents]
    assert finals == [{10.0}, {11.0}]
    text = text_of(report.page)
    assert "These differ between agents:" in text
    again = write_report([tmp_path / "out"], tmp_path / "again")
    assert again.study.agents == agents


def test_what_differs_is_named_beside_the_agents(tmp_path: Path) -> None:
    write_pair(tmp_path, {}, {"size": 51, "learning_rate": 3e-4})
    text = text_of(write_report([tmp_path], tmp_path / "out").page)
    differing = text.partition("These differ between agents:")[2].partition("Shared by all")[0]
    rows = "settingER-DQNER-DQN (size 51)learning rate1e-33e-4size1151"
    assert differing.strip() == rows


def test_settings_that_differ_from_game_to_game_make_two_agents(tmp_path: Path) -> None:
    """Though each has one game, and so no game in common with the other."""
    for env, rate in (("minatar/breakout", 1e-4), ("minatar/asterix", 3e-4)):
        write_run(tmp_path, "er-dqn", env, 0, ramp(10.0), learning_rate=rate)
    agents = ["ER-DQN (learning rate 1e-4)", "ER-DQN (learning rate 3e-4)"]
    assert read_study([tmp_path]).agents == agents


def test_a_size_that_an_agent_has_anyway_is_no_difference(tmp_path: Path) -> None:
    write_run(tmp_path, "er-dqn", "pong", 0, ramp(10.0))
    write_run(tmp_path, "er-dqn", "pong", 1, ramp(10.0), size=11, steps=2000)
    assert read_study([tmp_path]).agents == ["ER-DQN"]


def test_runs_by_hand_stand_for_planned_ones_of_the_same_settings(tmp_path: Path) -> None:
    """`er-dqn[learning_rate=1e-4]` in a plan, `--agent er-dqn --learning-rate 1e-4` by hand."""
    planned = config_of("er-dqn[learning_rate=1e-4]", "pong", 0)
    write_plan(
        tmp_path, [Planned("a", planned), Planned("b", dataclasses.replace(planned, seed=1))]
    )
    write_run(tmp_path, "er-dqn", "pong", 0, ramp(10.0), learning_rate=1e-4)
    study = read_study([tmp_path])
    assert study.agents == ["ER-DQN (learning rate 1e-4)"]
    assert study.missing == [("ER-DQN (learning rate 1e-4)", "pong", 1)]


def test_two_sizes_are_planned_run_and_reported_apart(tmp_path: Path) -> None:
    runs = plan(["minatar/breakout"], ["er-dqn", "er-dqn[size=5]", "er-dqn[size=51]"], 2, "minatar")
    write_plan(tmp_path, runs)
    write_run(tmp_path, "dqn", "minatar/breakout", 0, ramp(10.0))
    study = read_study([tmp_path])
    assert study.agents == ["DQN", "ER-DQN", "ER-DQN (size 5)", "ER-DQN (size 51)"]
    assert len(study.planned) == len(runs) == 6


SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "size": st.sampled_from([None, 5, 11, 51]),
        "double": st.booleans(),
        "learning_rate": st.sampled_from([5e-5, 1e-4, 3e-4]),
        "gamma": st.sampled_from([0.9, 0.99]),
        "agent": st.sampled_from(["er-dqn", "qr-dqn", "er-dqn[batch=16]", "er-dqn[gamma=0.5]"]),
    },
).filter(lambda own: "gamma" not in own or "gamma" not in own.get("agent", ""))


@given(st.lists(SETTINGS, min_size=1, max_size=6))
def test_no_two_records_have_one_name(found: list[dict[str, Any]]) -> None:
    configs = [preset("paper", **own) for own in found]
    variants = told_apart((Record.of(config), config.changed) for config in configs)
    assert set(variants) == {Record.of(config) for config in configs}
    assert len(set(variants.values())) == len(variants)
    assert len(set(labels_of(variants).values())) == len(variants)
    for record, variant in variants.items():  # and each is called by what it is
        assert variant.base == record.base
        assert dict(variant.changes).items() <= record.values.items()


def test_a_setting_that_is_switched_off_tells_agents_apart() -> None:
    """Its default is named then, since nothing else is left to tell."""
    off, default = (Record("er-dqn", (("gamma", gamma),)) for gamma in (None, 0.99))
    variants = told_apart([(off, ()), (default, ())])
    assert [str(variants[record]) for record in (off, default)] == ["er-dqn", "er-dqn[gamma=0.99]"]


def test_plans_from_before_a_setting_came_up_are_of_the_same_agent() -> None:
    """A report's plan has all settings of its day, those of today have one more."""
    today = Record.of(preset("minatar", agent="er-dqn", env="minatar/breakout"))
    before = {name: value for name, value in today.settings if name != "head"}
    assert Record.kept("er-dqn", before) == today
    assert Record.kept("er-dqn", {}) == Record("er-dqn")
    replaced = {name: today.values[name] for name in before if name not in ("size", "imputation")}
    assert "head" not in Record.kept("Expectiles(3)", replaced).values


def test_an_agent_has_one_colour_and_no_other_has_it() -> None:
    bases = {"DQN": "dqn", "QR-DQN (size 51)": "qr-dqn", "ER-DQN": "er-dqn", "Mine": "mine:Mine"}
    bases |= {f"ER-DQN (size {size})": "er-dqn" for size in range(8)}
    looks = style.looks(bases)
    assert list(looks) == list(bases)
    assert len({look.colour for look in looks.values()}) == len(looks)
    assert looks["ER-DQN"].colour == style.COLOURS["ER-DQN"]
    assert looks["QR-DQN (size 51)"].colour == style.COLOURS["QR-DQN"]  # there is no other
    assert looks == style.looks(bases)


def test_runs_that_earlier_versions_kept_are_read(tmp_path: Path) -> None:
    """With their plan, which knew agents by labels, and as the pages that show them tell it."""
    runs, plans = read_runs(RESULTS / "minatar5" / "runs.json")
    assert (len(runs), len(plans)) == (165, 165)
    study = read_study([RESULTS / "minatar5"])
    assert study.agents == [
        "DQN", "C51", "QR-DQN (size 51)", "QR-DQN-imputation", "ER-DQN", "ER-DQN (as_samples)",
        "ER-DQN-naive (size 51)",
    ]  # fmt: skip
    assert not study.missing
    assert not study.unfinished
    again = read_study([RESULTS / "scipy" / "again"])
    assert again.agents == ["ER-DQN", "ER-DQN (scipy-root)"]


def test_the_tables_of_earlier_runs_stay_the_same_but_for_labels(tmp_path: Path) -> None:
    write_report([RESULTS / "scipy" / "again"], tmp_path / "one")
    content = json.loads((tmp_path / "one" / "runs.json").read_text())
    assert content["version"] == 2
    write_report([tmp_path / "one"], tmp_path / "two")
    for name in ("games", "aggregates", "curves"):
        files = [tmp_path / place / "data" / f"{name}.csv" for place in ("one", "two")]
        assert files[0].read_text() == files[1].read_text()


def test_pages_of_results_would_show_the_same_tables_today() -> None:
    tables = measure(read_study([RESULTS / "minatar5"]))
    for name in ("games", "aggregates", "calibration"):
        before, now = read_csv(RESULTS / "minatar5" / f"{name}.csv"), tables[name]
        agents = [agent.removesuffix(" (size 51)") for agent in now["agent"]]
        kept = {column: now[column] for column in before}  # what was added since is not in them
        assert str({**kept, "agent": agents}) == str(before)
