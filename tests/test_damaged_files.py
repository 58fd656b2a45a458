"""Runs, studies and reports with damaged files: every command says in words what is wrong."""

import io
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import damage
from tests.damage import command

from edrl.cli.report import Report
from edrl.cli.train import Train
from edrl.deep import checkpoint
from edrl.deep.trained import load
from edrl.deep.training import resume
from edrl.study.plan import plan, write_plan

pytestmark = pytest.mark.xdist_group("damaged files")  # one process makes what its tests share

SETTINGS: dict[str, Any] = {
    "steps": 150, "replay": 200, "learn_after": 50, "log_every": 50, "evaluate_every": 50,
    "evaluate_steps": 30, "checkpoint_every": 100, "size": 3, "batch": 8,
}  # fmt: skip
RUN = "study/minatar-breakout/er-dqn+size=3/seed-0"
KINDS: dict[str, Callable[[bytes], Iterator[damage.Damage]]] = {
    ".json": damage.damages_of_json,
    ".csv": damage.damages_of_csv,
    ".npz": damage.damages_of_arrays,
}
READERS = {
    f"{RUN}/config.json": ("evaluate", "resume", "status", "report"),
    f"{RUN}/provenance.json": ("resume", "status", "report"),
    f"{RUN}/evaluations.csv": ("status", "report"),
    f"{RUN}/metrics.csv": ("resume", "status", "report"),
    f"{RUN}/calibration.csv": ("report",),
    f"{RUN}/timing.csv": ("resume", "status", "report"),
    f"{RUN}/checkpoint-000000000150/manifest.json": ("evaluate", "resume", "status"),
    f"{RUN}/checkpoint-000000000150/arrays.npz": ("evaluate", "resume"),
    f"{RUN}/best.npz": ("evaluate best",),
    f"{RUN}/replay/000000000000166.npz": ("resume",),
    "study/suite.json": ("status", "report", "dry-run"),
    "report/runs.json": ("report again",),
}
"""Every file that is read again, and the commands that read it."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of one run that has ended, and its report."""
    root = tmp_path_factory.mktemp("sound")
    runs = plan(["minatar/breakout"], ["er-dqn"], 1, "minatar", SETTINGS)
    write_plan(root / "study", runs)
    assert Train(config=runs[0].config, out=root / "study" / runs[0].name)() == 0
    assert Report((root / "study",), out=root / "report")() == 0
    return root


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    shutil.copytree(sound, tmp_path / "copy")
    return tmp_path / "copy"


def read(root: Path, reader: str) -> tuple[object, str]:
    """Let a command read what lies in a directory."""
    run, study = str(root / RUN), str(root / "study")
    out = ("--out", str(root / "out"))
    again = ("--games", "minatar/breakout", "--agents", "er-dqn", "--seeds", "1", "--dry-run")
    chosen = [f"{name}={value}" for name, value in SETTINGS.items()]
    arguments = {
        "evaluate": ("evaluate", run, "--episodes", "1"),
        "evaluate best": ("evaluate", run, "--best", "--episodes", "1"),
        "resume": ("train", "--resume", run, "--steps", "152"),
        "status": ("suite", "--status", study),
        "report": ("report", study, *out),
        "report again": ("report", str(root / "report"), *out),
        "dry-run": ("suite", *again, "--preset", "minatar", "--set", *chosen, "--out", study),
    }
    return command(*arguments[reader])


@settings(
    max_examples=12 if settings().derandomize else 400,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_no_damage_gives_a_traceback(
    data: st.DataObject, sound: Path, tmp_path: Path, tried: Counter[str]
) -> None:
    """Whatever a file holds, a command ends with a status and words."""
    file = data.draw(st.sampled_from(sorted(READERS)))
    damages = list(KINDS[Path(file).suffix]((sound / file).read_bytes()))
    name, do = data.draw(st.sampled_from(damages), label="damage")
    reader = data.draw(st.sampled_from(READERS[file]))
    root = tmp_path / "copy"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(sound, root)
    do(root / file)
    status, printed = read(root, reader)
    tried[f"{reader}: status {status}"] += 1
    assert status in (0, 2), (file, name, printed)
    assert printed, (file, name)
    if name != "not a number":  # which words may then repeat
        assert "nan" not in printed.split(), (file, name, printed)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "it is empty"),
        ("null", "it must hold entries with names, as edrl writes them, got null"),
        ("[]", "it must hold entries with names, as edrl writes them, got []"),
        ("{}", "it has no 'version'"),
        ('{"version": 1}', "it has no 'runs'"),
    ],
)
def test_a_plan_without_content_is_named(content: str, why: str, copy: Path) -> None:
    (copy / "study" / "suite.json").write_text(content)
    for reader in ("status", "report", "dry-run"):
        status, printed = read(copy, reader)
        assert status == 2
        assert f"{copy / 'study' / 'suite.json'} cannot be read: {why}" in printed


def test_a_plan_names_no_directory_outside_its_own(copy: Path) -> None:
    file = copy / "study" / "suite.json"
    for name in ("../elsewhere", "/elsewhere", ""):
        content = json.loads(file.read_text())
        content["runs"][0]["name"] = name
        file.write_text(json.dumps(content))
        status, printed = read(copy, "status")
        assert status == 2
        assert "a directory in the study's" in printed


@pytest.mark.parametrize("cell", ["nan", "inf", "abc"])
def test_an_evaluation_that_is_no_number_is_named(cell: str, copy: Path) -> None:
    file = copy / RUN / "evaluations.csv"
    lines = file.read_text().splitlines()
    cells = lines[-1].split(",")
    file.write_text("\n".join([*lines[:-1], ",".join([*cells[:2], cell, *cells[3:]]), ""]))
    status, printed = read(copy, "report")
    assert status == 2
    assert f"{file} cannot be read" in printed
    assert cell in printed


def test_rows_that_are_there_twice_do_not_count_twice(copy: Path) -> None:
    file = copy / RUN / "evaluations.csv"
    head, *rows = file.read_text().splitlines()
    file.write_text("\n".join([head, *rows, *rows, ""]))
    status, printed = read(copy, "report")
    assert status == 2
    assert f"{file} cannot be read: its steps must increase" in printed


def test_a_network_of_nans_is_not_evaluated(copy: Path) -> None:
    run = copy / RUN
    newest = checkpoint.found(run)[0]
    kept = checkpoint.load(newest)
    nans = {n: np.full_like(a, np.nan) for n, a in kept.arrays.items() if "learner/online" in n}
    damage._save(newest / "arrays.npz", {**kept.arrays, **nans})
    for arguments in (["evaluate"], ["play", "--video", str(copy / "film.gif")]):
        status, printed = command(*arguments, str(run))
        assert status == 2
        assert "learning has diverged" in printed


@pytest.mark.parametrize("file", ["config.json", "provenance.json"])
def test_an_empty_file_of_a_run_is_called_empty(file: str, copy: Path) -> None:
    (copy / RUN / file).write_text("")
    status, printed = read(copy, "resume")
    assert status == 2
    assert f"{copy / RUN / file} cannot be read: it is empty" in printed


def _plain_array() -> bytes:
    plain = io.BytesIO()
    np.save(plain, np.zeros(3))
    return plain.getvalue()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"text", "it is no npz file, a zip archive of arrays"),
        (_plain_array(), "it is no npz file, a zip archive of arrays"),
        ({"step": np.array({})}, "it holds objects, which are not read"),
        ({"step": np.array(-5)}, "step in best.npz must be at least 0, got -5"),
        ({"step": np.array(1.5)}, "step in best.npz is no whole number"),
        ({"score": np.array(np.nan)}, "score in best.npz is no finite number"),
        ({"step": None}, "best.npz has no step"),
        (
            {"network/0/bias": np.full(16, np.nan, np.float32)},
            "best.npz': its network holds numbers",
        ),
        ({"network/0/bias": None}, "best.npz is of another agent: it has no network/0/bias"),
    ],
)
def test_damage_of_the_best_network_is_named(
    content: bytes | dict[str, np.ndarray | None], why: str, copy: Path
) -> None:
    file = copy / RUN / "best.npz"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        arrays = {**checkpoint.read_arrays(file), **content}
        damage._save(file, {name: one for name, one in arrays.items() if one is not None})
    status, printed = read(copy, "evaluate best")
    assert status == 2
    assert "best.npz" in printed
    assert why in printed
    assert "allow_pickle" not in printed


@pytest.mark.parametrize("best", [True, False])
def test_a_network_of_huge_numbers_is_not_evaluated(best: bool, copy: Path) -> None:
    """Its weights are finite, but the returns that it expects are not."""
    run, flags = copy / RUN, ["--best"] if best else []
    file = run / "best.npz" if best else checkpoint.found(run)[0] / "arrays.npz"
    arrays = checkpoint.read_arrays(file)
    huge = {n: np.full_like(a, 3e38) for n, a in arrays.items() if a.dtype == np.float32}
    damage._save(file, {**arrays, **huge})
    film, folder = str(copy / "film.gif"), str(copy / "folder")
    for arguments in (["evaluate", "--episodes", "1"], ["play", "--video", film], ["export"]):
        places = [str(run), folder] if arguments == ["export"] else [str(run)]
        status, printed = command(*arguments, *flags, *places)
        assert status == 2, printed
        assert "returns that are not finite: learning has diverged" in printed
        assert "nan" not in printed.split()
        assert "--no-film" not in printed


def test_swapped_checkpoints_are_refused(copy: Path) -> None:
    newest, before = checkpoint.found(copy / RUN)
    newest.rename(copy / "other")
    before.rename(newest)
    (copy / "other").rename(before)
    for reader in ("evaluate", "resume"):
        status, printed = read(copy, reader)
        assert status == 2
        assert f"{newest.name} is damaged: it holds step 100" in printed


def test_other_directories_than_checkpoints_are_left_alone(copy: Path) -> None:
    """A backup beside a checkpoint is kept, and an empty directory does not stand in the way."""
    run = copy / RUN
    names = (
        "checkpoint-000000000100-backup", "checkpoint-000000000999.old", "checkpoint-zzz",
        "checkpoint-7", "checkpoint-0000000000007", "checkpoint-",
    )  # fmt: skip
    for name in names:
        (run / name).mkdir()
    (run / "checkpoint-000000009999").write_text("a file")
    (run / "replay" / "mine.npz").write_text("mine")
    assert [path.name[-3:] for path in checkpoint.found(run)] == ["150", "100"]
    assert resume(run, steps=300).step == 300
    assert all((run / name).is_dir() for name in names)
    assert (run / "replay" / "mine.npz").exists()
    assert [path.name[-3:] for path in checkpoint.found(run)] == ["300", "200"]


def test_older_is_the_same_word_everywhere(copy: Path) -> None:
    """The error names the flag, and every command that reads a checkpoint has it."""
    run = copy / RUN
    (checkpoint.found(run)[0] / "arrays.npz").write_bytes(b"")
    commands = (
        ["evaluate", str(run), "--episodes", "1"],
        ["play", str(run), "--steps", "2", "--video", str(copy / "film.gif")],
        ["train", "--resume", str(run)],
    )
    for arguments in commands:
        status, printed = command(*arguments)
        assert status == 2
        assert "is used with --older (older=True in Python)" in printed
    assert load(run, older=True).step == 100
    for arguments in commands:
        assert command(*arguments, "--older")[0] == 0
    assert load(run).step == 150  # the run has gone on from the one before


def test_an_older_checkpoint_that_is_damaged_does_not_keep_a_run_from_saving(copy: Path) -> None:
    run = copy / RUN
    (checkpoint.found(run)[1] / "manifest.json").write_text("{")
    before = set((run / "replay").iterdir())
    checkpoint.save(run, checkpoint.load(checkpoint.found(run)[0]))
    assert set((run / "replay").iterdir()) == before


def test_state_of_another_type_is_not_believed(copy: Path) -> None:
    """Whether an episode is running is a flag: zeros of another type are no flag that is false."""
    newest = checkpoint.found(copy / RUN)[0]
    arrays = checkpoint.load(newest).arrays
    name = "actors/environments/0/running"
    changed = {**arrays, name: np.zeros(arrays[name].shape, np.float16)}
    damage._save(newest / "arrays.npz", changed)
    status, printed = read(copy, "resume")
    assert status == 2
    assert f"{name} is float16, not bool" in printed


@pytest.mark.parametrize("place", ["calibration", "settings"])
def test_a_number_that_no_float_holds_is_named(place: str, copy: Path) -> None:
    file = copy / "report" / "runs.json"
    content = json.loads(file.read_text())
    if place == "calibration":
        content["runs"][0]["calibration"]["within"][0] = 10**400
    else:
        content["planned"][0]["settings"]["gamma"] = 10**400
    file.write_text(json.dumps(content))
    status, printed = read(copy, "report again")
    assert status == 2
    assert f"{file} cannot be read: {place} is " in printed
