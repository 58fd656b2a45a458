"""Studies: planned, grown, run on this machine, looked at."""

import dataclasses
import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from edrl.cli.suite import Suite
from edrl.deep.checkpoint import found, write_text
from edrl.deep.config import Config, preset
from edrl.deep.training import resume
from edrl.study import estimate as estimates
from edrl.study import local, machine
from edrl.study.estimate import estimate, fitting_jobs, sizes_of
from edrl.study.locks import Taken, is_locked, locked
from edrl.study.plan import PLAN, SUITES, Planned, parse_settings, plan, read_plan, write_plan
from edrl.study.progress import finished, last_row, steps_done
from edrl.study.ray_backend import _warn_of_waiting
from edrl.study.status import look_at
from edrl.study.timing import Timing, seconds_spent, timing_of
from edrl.study.work import forget_failure, note_failure, why_failed, work

TINY = (
    "steps=300", "replay=300", "learn_after=100", "target_every=50", "log_every=50", "evaluate_every=100",
    "evaluate_steps=20", "checkpoint_every=50", "batch=8", "epsilon_steps=100",
)  # fmt: skip


def test_a_plan_has_every_run_once_seed_by_seed() -> None:
    settings = parse_settings(["steps=1000", "epsilon=[1, 0.2]", "network=minatar"])
    runs = plan(["minatar5"], ["ER-DQN[learning_rate=1e-4]", "dqn"], 2, "minatar", settings)
    assert len({run.name for run in runs}) == len(runs) == 5 * 2 * 2
    assert [run.config.seed for run in runs] == [0] * 10 + [1] * 10
    assert runs[0].name == "minatar-asterix/er-dqn+learning_rate=1e-4/seed-0"
    assert {run.config.learning_rate for run in runs if run.config.agent == "er-dqn"} == {1e-4}
    assert {run.config.learning_rate for run in runs if run.config.agent == "dqn"} == {2.5e-4}
    assert runs[0].config.epsilon == (1, 0.2)
    later = plan(["minatar/breakout"], ["dqn"], 2, "minatar", first_seed=100)
    assert [run.config.seed for run in later] == [100, 101]
    assert len(SUITES["atari57"]) == 57


def test_any_settings_can_be_compared_in_one_study(tmp_path: Path) -> None:
    agents = ["er-dqn", "er-dqn[size=5]", "er-dqn[size=51]", "er-dqn[double]", "mine:Stat[size=7]"]
    runs = write_plan(tmp_path, plan(["minatar/breakout"], agents, 1, "minatar", {"n_step": 3}))
    assert [str(run.config.variant) for run in read_plan(tmp_path)] == agents
    assert [run.config.size for run in runs] == [None, 5, 51, None, 7]
    assert [run.name.split("/")[1] for run in runs] == [
        "er-dqn", "er-dqn+size=5", "er-dqn+size=51", "er-dqn+double", "mine-Stat+size=7",
    ]  # fmt: skip
    assert {run.config.n_step for run in runs} == {3}


def test_what_an_agents_name_says_comes_before_what_is_set_for_all() -> None:
    agents = ["er-dqn", "er-dqn[learning_rate=1e-4]", "er-dqn[double=false]"]
    settings = {"learning_rate": 1e-3, "double": True}
    runs = plan(["minatar/breakout"], agents, 1, "minatar", settings)
    assert [run.config.learning_rate for run in runs] == [1e-3, 1e-4, 1e-3]
    assert [run.config.double for run in runs] == [True, True, False]


def test_a_study_that_an_earlier_version_planned_grows(tmp_path: Path) -> None:
    """Its agents' settings were not part of their names, nor of their directories'."""
    settings = {"learning_rate": 1e-4, "imputation": "scipy-root", "steps": 1000}
    config = preset("minatar", agent="er-dqn", env="minatar/breakout", **settings)
    before = dataclasses.asdict(config)
    del before["changed"]
    name = "minatar-breakout/er-dqn-scipy-root/seed-0"
    run = {
        "name": name,
        "agent": "ER-DQN (scipy-root)",
        "env": "minatar/breakout",
        "seed": 0,
        "config": before,
    }
    (tmp_path / "suite.json").write_text(json.dumps({"version": 1, "runs": [run]}))
    agents = ["er-dqn[imputation=scipy-root,learning_rate=1e-4]"]
    more = plan(["minatar/breakout"], agents, 2, "minatar", {"steps": 2000})
    old, new = write_plan(tmp_path, more)
    assert (old.name, old.config.steps) == (name, 2000)
    assert new.config.seed == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"games": ["minatar/brekout"]}, "minatar/breakout"),
        ({"games": ["atari58"]}, "many games at once are atari57 and minatar5"),
        ({"games": []}, "games"),
        ({"games": ["minatar5", "minatar/asterix"]}, "none twice"),
        ({"agents": ["er-dqm"]}, "did you mean er-dqn"),
        ({"agents": ["er-dqn", "ER-DQN[size=11]"]}, "none twice"),  # eleven is what it has
        ({"seeds": 0}, "seeds"),
        ({"settings": {"stepz": 3}}, "did you mean steps"),
        ({"settings": {"er-dqn.steps": 3}}, "er-dqn.steps"),
        ({"settings": {"seed": 3}}, "seed"),
        ({"settings": {"learning_rate": "abc"}}, "learning_rate must be a finite number"),
        ({"settings": {"double": "maybe"}}, "double must be true or false"),
        (
            {"agents": ["dqn", "er-dqn[double]"], "settings": {"rollout": 32, "minibatches": 1}},
            r"^er-dqn\[double\]: double must be false",
        ),
    ],
)
@pytest.mark.usefixtures("without_shape_checks")
def test_mistakes_in_a_plan_are_named(change: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {
        "games": ["minatar/breakout"], "agents": ["er-dqn"], "seeds": 1, "settings": {}
    }  # fmt: skip
    arguments |= change
    with pytest.raises(ValueError, match=words):
        plan(
            arguments["games"],
            arguments["agents"],
            arguments["seeds"],
            "minatar",
            arguments["settings"],
        )


@pytest.mark.parametrize("entry", ["steps", "er-dqn.learning_rate=1e-4"])
def test_settings_of_one_agent_belong_into_its_name(entry: str) -> None:
    with pytest.raises(ValueError, match=r"NAME=VALUE for all agents.*er-dqn\[NAME=VALUE\]"):
        parse_settings([entry])


def test_runs_at_once_share_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "sched_getaffinity"):
        assert local._shares_of_cores(2, 1) == [None, None]
        return
    core = max(os.sched_getaffinity(0))
    process = local._start(tmp_path, "run", 2, 1, {core})
    assert os.sched_getaffinity(process.pid) == {core}
    process.kill()
    local._let_go(process)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 5, 7, 8})
    assert local._shares_of_cores(2, 1) == [{0, 2}, {5, 7}]
    assert local._shares_of_cores(1, 1) == [{0, 2, 5, 7, 8}]
    assert local._shares_of_cores(3, 2) == [None] * 3


def test_what_fails_is_named_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two at a time: a run that ends makes room, however it ends."""
    code = {
        "a": "pass",
        "b": "raise SystemExit(3)",
        "c": "import os; os.kill(os.getpid(), 9)",
        "d": "pass",
    }

    def start(study: Path, name: str, *_: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", code[name]], stdin=subprocess.PIPE)

    monkeypatch.setattr(local, "_start", start)
    assert sorted(local.run_here(tmp_path, [Planned(name, Config()) for name in code], 2, 1)) == [
        "b",
        "c",
    ]
    assert "exit status 3" in why_failed(tmp_path / "b")
    assert "SIGKILL" in why_failed(tmp_path / "c")


def test_a_study_grows_but_does_not_change(tmp_path: Path) -> None:
    small = plan(["minatar/breakout"], ["dqn"], 1, "minatar", {"steps": 1000})
    assert write_plan(tmp_path, small) == small == read_plan(tmp_path)
    more = plan(["minatar/breakout", "minatar/asterix"], ["dqn"], 2, "minatar", {"steps": 2000})
    assert len(write_plan(tmp_path, more)) == 4
    assert {run.config.steps for run in read_plan(tmp_path)} == {2000}
    assert len(write_plan(tmp_path, more[:1])) == 4  # what was planned stays planned
    with pytest.raises(ValueError, match=r"steps.*only grow"):
        write_plan(tmp_path, small)
    with pytest.raises(ValueError, match=r"gamma.*another directory"):
        write_plan(
            tmp_path,
            plan(["minatar/breakout"], ["dqn"], 1, "minatar", {"steps": 2000, "gamma": 0.9}),
        )
    with pytest.raises(ValueError, match=r"no suite\.json"):
        read_plan(tmp_path / "nowhere")


def test_sizes_are_those_of_the_paper() -> None:
    """A million transitions of 84 x 84 bytes: about 7.1 kB each, under 8 GB."""
    sizes = sizes_of(preset("paper", env="pong"))
    assert 7.05e9 < sizes.memory < 8e9
    assert 10.6e9 < sizes.disk < 10.7e9  # half a million more, between two checkpoints


def test_what_cannot_be_built_is_not_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = Suite(
        games=("minatar/breakout",), agents=("dqn",), preset="paper", out=tmp_path / "study"
    )
    assert command() == 2
    assert "fits the environment" in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "study").exists()
    (tmp_path / "file").touch()
    assert dataclasses.replace(command, preset="minatar", out=tmp_path / "file")() == 2


def test_the_hours_left_are_those_of_the_steps_left_at_the_speed_so_far(tmp_path: Path) -> None:
    """Evaluations are in the times that runs have written.

    Variants of an agent have speeds of their own.
    """
    settings = {"steps": 1000, "evaluate_every": 100, "evaluate_steps": 100, "learn_after": 100}
    runs = write_plan(
        tmp_path,
        plan(
            ["minatar/breakout"],
            ["er-dqn", "er-dqn[imputation=scipy-root]"],
            2,
            "minatar",
            settings,
        ),
    )
    for run, seconds in zip(runs, (10.0, 100.0, 0.0, 0.0), strict=True):
        if seconds:  # the first seed's are half done
            (tmp_path / run.name).mkdir(parents=True)
            write_text(tmp_path / run.name / "metrics.csv", "step,score\n500,1\n")
            write_text(
                tmp_path / run.name / "timing.csv", f"step,seconds\n0,0\n100,0.01\n500,{seconds}\n"
            )
    found = estimate(tmp_path, runs, jobs=1, threads=1)
    speeds = {agent.label: speed for agent, speed in found.speeds.items()}
    assert speeds == {"ER-DQN": 40.0, "ER-DQN (scipy-root)": 4.0}  # since they have begun to learn
    assert found.steps == 3000
    assert found.hours * 3600 == pytest.approx(1500 / 40 + 1500 / 4)
    # Three at once: the second long one begins when the first short one is done.
    assert estimate(tmp_path, runs, jobs=3, threads=1).hours * 3600 == pytest.approx(
        500 / 40 + 1000 / 4
    )


@pytest.mark.parametrize(
    ("rows", "timing"),
    [
        ("0,0 100,1 200,2", Timing(200, 3.0, 0.0)),
        ("0,0 100,1 200,2 300,4 100,0 200,8", Timing(200, 9.0, 6.0)),  # killed; a checkpoint at 100
        ("0,0 100,1 200,2 150,0 200,8", Timing(200, 10.0, 1.0)),  # killed; a checkpoint at 150
        (
            "0,0 100,1 100,0 100,2 200,4",
            Timing(200, 7.0, 0.0),
        ),  # stopped in the evaluation at 100, which comes anew
        ("0,0 100,1 0,0 50,2", Timing(50, 2.0, 1.0)),  # killed before its first checkpoint
        ("0,0", None),
    ],
)
def test_time_is_told_once_for_every_step(rows: str, timing: Timing | None, tmp_path: Path) -> None:
    write_text(tmp_path / "timing.csv", "\n".join(("step,seconds", *rows.split(), "")))
    assert timing_of(tmp_path) == timing
    assert seconds_spent(tmp_path) == (
        0.0 if timing is None else timing.seconds + timing.seconds_done_twice
    )


@pytest.mark.slow
def test_a_module_that_prints_when_it_is_imported_can_be_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ("import edrl", "print('Hello')", "Mine, Broken = edrl.Expectiles(3), None", "")
    (tmp_path / "chatty.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(estimates, "_SECONDS", 0.1)
    mine, broken = (preset("quick", agent=f"chatty:{name}") for name in ("Mine", "Broken"))
    (speed,) = estimates.measured_speeds([mine], 1)
    assert speed > 0
    # One process measures all of them: the error names the one that failed.
    with pytest.raises(RuntimeError, match=f"^chatty:Broken on {broken.env} does not run"):
        estimates.measured_speeds([mine, broken], 1)


def test_a_run_that_was_stopped_before_its_first_row_has_no_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edrl.study.estimate.measured_speeds", lambda configs, threads: [20.0])
    runs = write_plan(
        tmp_path,
        plan(["minatar/breakout"], ["dqn"], 1, "minatar", {"steps": 1000, "evaluate_every": 0}),
    )
    (tmp_path / runs[0].name).mkdir(parents=True)
    write_text(tmp_path / runs[0].name / "metrics.csv", "step,score\n")
    write_text(tmp_path / runs[0].name / "timing.csv", "step,seconds\n0,0\n300,2.5\n")
    assert estimate(tmp_path, runs, jobs=1, threads=1).hours * 3600 == pytest.approx(50.0)


def test_what_does_not_run_is_not_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(configs: list[Config], threads: int) -> list[float]:
        raise RuntimeError("dqn does not run")

    monkeypatch.setattr("edrl.study.estimate.measured_speeds", fails)
    assert (
        Suite(games=("minatar/breakout",), agents=("dqn",), preset="minatar", out=tmp_path)() == 2
    )
    assert "does not run" in capsys.readouterr().out
    assert not (tmp_path / "suite.json").exists()


def test_what_a_cluster_has_no_room_for_is_said() -> None:
    def node(**resources: float) -> dict[str, Any]:
        return {"Alive": True, "Resources": resources}

    cluster = [
        node(CPU=8, memory=4e9),
        node(CPU=2, GPU=1, memory=64e9),
        {"Alive": False, "Resources": {"CPU": 64}},
    ]
    _warn_of_waiting(cluster, {"CPU": 8, "GPU": 0, "memory": 4e9})
    _warn_of_waiting(cluster, {"CPU": 2, "GPU": 0.5, "memory": 8e9})
    with pytest.warns(UserWarning, match=r"16 CPUs, 0 GPUs and 1\.0 GB of memory"):
        _warn_of_waiting(cluster, {"CPU": 16, "GPU": 0, "memory": 1e9})
    with pytest.warns(UserWarning, match="waits until there is one"):  # no node has both
        _warn_of_waiting(cluster, {"CPU": 8, "GPU": 1, "memory": 1e9})


@pytest.mark.parametrize(
    ("options", "words"),
    [({"jobs": 2, "ray": "local"}, "the cluster's room decides"), ({"gpus": 0.5}, "for --ray")],
)
def test_options_without_effect_are_refused(
    options: dict, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = Suite(
        games=("minatar/breakout",),
        agents=("dqn",),
        preset="minatar",
        out=tmp_path / "study",
        **options,
    )
    assert command() == 2
    assert words in " ".join(capsys.readouterr().out.split())


def test_two_agents_of_one_name_are_called_by_their_modules_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(tmp_path, plan(["minatar/breakout"], ["one:Stat", "other:Stat"], 1, "minatar"))
    assert Suite(status=tmp_path)() == 0
    assert "┃ runs done ┃ one:Stat ┃ other:Stat ┃" in " ".join(capsys.readouterr().out.split())
    ours, theirs = plan(["minatar/breakout"], ["dqn", "mine:DQN"], 1, "minatar")
    assert [run.config.variant.label for run in (ours, theirs)] == ["DQN", "mine:DQN"]


def test_the_last_row_is_read_from_the_end_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "metrics.csv"
    assert last_row(file) == {}
    file.write_text("step,score\n")
    assert last_row(file) == {}
    file.write_text(
        "step,score\n" + "".join(f"{step},{step}.5\n" for step in range(2000)) + "2000,3"
    )
    assert last_row(file) == {
        "step": "1999",
        "score": "1999.5",
    }  # the one that is being written does not count


def test_locks_keep_others_out(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "lock")
    with locked(tmp_path / "lock"):
        assert is_locked(tmp_path / "lock")
        with pytest.raises(Taken, match="somebody else"), locked(tmp_path / "lock"):
            pass
    assert not is_locked(tmp_path / "lock")


def test_locks_on_file_systems_of_other_kinds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS refuses a shared lock to who cannot read, and an exclusive one to who cannot write.

    Some have no locks.
    """

    def as_on_nfs(file: Any, kind: int) -> None:
        if not (file.readable() if kind & fcntl.LOCK_SH else file.writable()):
            raise OSError(errno.EBADF, "Bad file descriptor")

    def without(file: Any, kind: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", as_on_nfs)
    with locked(tmp_path / "lock"):
        assert not is_locked(tmp_path / "lock")
    monkeypatch.setattr(fcntl, "flock", without)
    with pytest.raises(OSError, match="does not lock files"), locked(tmp_path / "lock"):
        pass


def test_as_many_runs_at_once_as_a_container_has_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = plan(["minatar/breakout"], ["dqn"], 1, "minatar")
    largest = sizes_of(runs[0].config).memory
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr(machine, "_LIMITS", tmp_path)
    assert machine.core_count() == 64
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert machine.core_count() == 64
    (tmp_path / "cpu.max").write_text("650000 100000\n")
    assert machine.core_count() == 6
    (tmp_path / "memory.max").write_text(f"{int(3.5 * largest)}\n")
    (tmp_path / "memory.current").write_text(f"{int(2 * largest)}\n")
    (tmp_path / "memory.stat").write_text(f"anon 7\ninactive_file {int(largest)}\n")
    assert machine.free_memory() == pytest.approx(2.5 * largest)
    assert fitting_jobs(runs, 1) == 2
    monkeypatch.setattr(
        estimates, "free_memory", lambda: float("inf")
    )  # a system that does not say
    assert fitting_jobs(runs, 2) == 3


def test_time_is_counted_though_a_row_was_cut_short(tmp_path: Path) -> None:
    """By a full disk: the next row must not run into it, and what is not whole does not count."""
    settings = parse_settings((*TINY, "steps=100"))
    (run,) = write_plan(tmp_path, plan(["minatar/breakout"], ["dqn"], 1, "minatar", settings))
    work(tmp_path, run.name)
    timing = tmp_path / run.name / "timing.csv"
    for cut in ("1", "1\n", "100,1220000,33.1\n", "100,\n"):
        timing.write_text(f"step,seconds\n50,2.5\n{cut}")
        assert seconds_spent(tmp_path / run.name) == 2.5
    timing.write_text("step,seconds\n50,2.5\n1")
    (longer,) = write_plan(
        tmp_path, [dataclasses.replace(run, config=dataclasses.replace(run.config, steps=150))]
    )
    work(tmp_path, longer.name)
    assert timing.read_text().split("\n")[2:4][0] == "1"
    went_on, ended = timing.read_text().split("\n")[3:5]
    assert went_on.startswith("100,0.0")
    assert ended.startswith("150,")


def test_a_run_that_had_only_begun_when_its_study_grew_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before its first checkpoint: there is a config of other steps, and nothing to lose."""
    (run,) = write_plan(
        tmp_path, plan(["minatar/breakout"], ["dqn"], 1, "minatar", parse_settings(TINY))
    )

    def killed() -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr("edrl.deep.run.provenance", killed)
        with pytest.raises(SystemExit):
            work(tmp_path, run.name)
    assert (tmp_path / run.name / "config.json").exists()
    assert not found(tmp_path / run.name)
    (longer,) = write_plan(
        tmp_path, [dataclasses.replace(run, config=dataclasses.replace(run.config, steps=350))]
    )
    work(tmp_path, longer.name)
    assert finished(tmp_path / longer.name, longer.config)


def test_a_run_that_somebody_has_lengthened_is_done(tmp_path: Path) -> None:
    (run,) = write_plan(
        tmp_path,
        plan(["minatar/breakout"], ["dqn"], 1, "minatar", parse_settings((*TINY, "steps=100"))),
    )
    work(tmp_path, run.name)
    resume(tmp_path / run.name, steps=250)  # beyond the checkpoints that are kept
    assert finished(tmp_path / run.name, run.config)
    (longer,) = write_plan(
        tmp_path, [dataclasses.replace(run, config=dataclasses.replace(run.config, steps=300))]
    )
    assert not finished(tmp_path / run.name, longer.config)
    work(tmp_path, run.name)
    assert finished(tmp_path / run.name, longer.config)
    config = tmp_path / run.name / "config.json"
    write_text(
        config, dataclasses.replace(longer.config, steps=350).to_json()
    )  # and one stopped on its way
    (again,) = write_plan(
        tmp_path, [dataclasses.replace(run, config=dataclasses.replace(run.config, steps=340))]
    )
    work(tmp_path, run.name)
    assert finished(tmp_path / run.name, again.config)


def test_a_failure_is_told_once_and_of_the_last_time(tmp_path: Path) -> None:
    assert why_failed(tmp_path / "run") == ""
    note_failure(tmp_path / "run", "killed")
    note_failure(tmp_path / "run", "exit status 1")
    assert why_failed(tmp_path / "run") == "killed"
    forget_failure(tmp_path / "run")
    (tmp_path / "run" / "failed.txt").touch()  # by a full disk
    note_failure(tmp_path / "run", "exit status 1")
    assert why_failed(tmp_path / "run") == "exit status 1"


def test_work_begins_goes_on_and_says_what_went_wrong(tmp_path: Path) -> None:
    settings = parse_settings(TINY)
    first, second = write_plan(
        tmp_path, plan(["minatar/breakout"], ["dqn"], 2, "minatar", settings)
    )
    assert look_at(tmp_path, first).state == "waiting"
    work(tmp_path, first.name)
    assert look_at(tmp_path, first).state == "done"
    metrics = (tmp_path / first.name / "metrics.csv").read_text()
    write_plan(
        tmp_path, plan(["minatar/breakout"], ["dqn"], 1, "minatar", {**settings, "steps": 350})
    )
    assert look_at(tmp_path, read_plan(tmp_path)[0]).state == "waiting"
    work(tmp_path, first.name)  # longer than was planned: from where it was
    assert (tmp_path / first.name / "metrics.csv").read_text().startswith(metrics)
    first = read_plan(tmp_path)[0]
    assert look_at(tmp_path, first).step == 350
    for path in found(tmp_path / first.name):  # to make room on the disk
        shutil.rmtree(path)
    assert look_at(tmp_path, first).state == "done"
    metrics = (tmp_path / first.name / "metrics.csv").read_text()
    write_plan(
        tmp_path, plan(["minatar/breakout"], ["dqn"], 1, "minatar", {**settings, "steps": 400})
    )
    with pytest.raises(ValueError, match="would be lost"):
        work(tmp_path, first.name)
    assert (tmp_path / first.name / "metrics.csv").read_text() == metrics
    (tmp_path / second.name / "checkpoint-000000000100").mkdir(parents=True)
    write_text(tmp_path / second.name / "config.json", first.config.to_json())
    with pytest.raises(ValueError, match="other settings"):
        work(tmp_path, second.name)
    assert "other settings" in look_at(tmp_path, second).reason
    with locked(tmp_path / second.name / "lock"):
        assert look_at(tmp_path, second).state == "running"
        forget_failure(tmp_path / second.name)
        with pytest.raises(Taken):
            work(tmp_path, second.name, patience=0)
    assert "somebody else" in look_at(tmp_path, second).reason


@pytest.mark.slow
def test_a_study_runs_fails_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs, of which one is stopped by a damaged checkpoint.

    The other ends; mended, the same command goes on.
    """
    study = tmp_path / "study"
    command = Suite(
        games=("minatar/breakout",),
        agents=("dqn",),
        seeds=2,
        preset="minatar",
        set=TINY,
        out=study,
        jobs=1,
    )
    with locked(study / "driver.lock"):
        assert command() == 2
        assert "somebody else" in capsys.readouterr().out
    assert dataclasses.replace(command, dry_run=True)() == 0
    assert "2 of 2 runs are left: 600 agent steps" in " ".join(capsys.readouterr().out.split())
    assert not (study / "suite.json").exists()
    first, second = write_plan(
        study, plan(["minatar/breakout"], ["dqn"], 2, "minatar", parse_settings(TINY))
    )
    damaged = study / second.name / "checkpoint-000000000100"
    damaged.mkdir(parents=True)
    write_text(study / second.name / "config.json", second.config.to_json())
    assert command() == 1
    assert look_at(study, first).state == "done"
    assert look_at(study, second).state == "failed"
    assert "not a checkpoint" in look_at(study, second).reason
    shutil.rmtree(study / second.name)
    assert look_at(study, second).state == "waiting"
    assert command() == 0
    assert command() == 0  # nothing is left to do
    assert dataclasses.replace(command, dry_run=True)() == 0
    assert "All 2 runs are done." in capsys.readouterr().out
    assert Suite(status=study)() == 0
    assert "2 done, 0 running, 0 failed, 0 waiting; 600 of 600 steps" in capsys.readouterr().out
    metrics = [(study / run.name / "metrics.csv").read_text() for run in (first, second)]
    assert metrics[0] != metrics[1]


def test_status_is_a_table_of_games_and_agents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = plan(
        ["minatar/breakout", "minatar/asterix"],
        ["er-dqn", "dqn"],
        2,
        "minatar",
        parse_settings(TINY),
    )
    first, *_ = write_plan(tmp_path, runs)
    (tmp_path / first.name).mkdir(parents=True)
    write_text(tmp_path / first.name / "failed.txt", "ValueError: no luck\n")
    assert Suite(status=tmp_path)() == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "┃ runs done ┃ DQN ┃ ER-DQN ┃" in printed
    assert "│ minatar/asterix │ 0 of 2 │ 0 of 2 │" in printed
    assert "no luck" in printed
    assert "0 done, 0 running, 1 failed, 7 waiting; 0 of 2,400 steps" in printed


@pytest.mark.slow
def test_ctrl_c_saves_every_run(tmp_path: Path) -> None:
    """Nothing but the interruption makes a checkpoint after the first.

    A run that waits has none.
    """
    settings = {
        **parse_settings(TINY),
        "steps": 1_000_000,
        "checkpoint_every": 1_000_000,
        "evaluate_every": 0,
    }
    *begun, waits = write_plan(
        tmp_path, plan(["minatar/breakout"], ["dqn"], 3, "minatar", settings)
    )

    def interrupt_when_both_learn() -> None:
        if all(steps_done(tmp_path / run.name) >= 150 for run in begun):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        local.run_here(tmp_path, [*begun, waits], jobs=2, threads=1, look=interrupt_when_both_learn)
    for run in begun:
        assert int(found(tmp_path / run.name)[0].name.removeprefix("checkpoint-")) >= 150
        assert not is_locked(tmp_path / run.name / "lock")
    assert not found(tmp_path / waits.name)


@pytest.mark.slow
def test_a_worker_ends_with_its_driver_also_while_it_starts(tmp_path: Path) -> None:
    """And saves, even where SIGINT is ignored, as in what a shell starts in the background."""
    settings = {
        **parse_settings(TINY),
        "steps": 1_000_000,
        "checkpoint_every": 1_000_000,
        "evaluate_every": 0,
    }
    (run,) = write_plan(tmp_path, plan(["minatar/breakout"], ["dqn"], 1, "minatar", settings))
    for lines in (0, 2):  # of metrics, which are there when the driver goes
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        command = [sys.executable, "-m", "edrl.study.worker", str(tmp_path), run.name]
        worker = subprocess.Popen(command, stdin=subprocess.PIPE)
        signal.signal(signal.SIGINT, before)
        metrics = tmp_path / run.name / "metrics.csv"
        while lines and not (metrics.exists() and metrics.read_text().count("\n") > lines):
            time.sleep(0.1)
        assert worker.stdin is not None
        worker.stdin.close()
        worker.wait(timeout=60)
    assert (
        int(found(tmp_path / run.name)[0].name.removeprefix("checkpoint-")) >= 100
    )  # two rows of metrics
    assert not finished(tmp_path / run.name, run.config)


def test_a_plan_of_others_runs_no_code_that_is_not_named(tmp_path: Path) -> None:
    """Whoever goes on with a study names its code again, and so knows of it."""
    write_plan(tmp_path, plan(["minatar/breakout"], ["er-dqn"], 1, "minatar", {}))
    file = tmp_path / PLAN
    file.write_text(file.read_text().replace('"er-dqn"', '"others:Mine"'))
    with pytest.raises(ValueError, match=r"its plan names code of its own \(others:Mine\)"):
        write_plan(tmp_path, plan(["minatar/breakout"], ["dqn"], 1, "minatar", {}))
