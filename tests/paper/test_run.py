"""`edrl reproduce`: writes what it promises, keeps what is finished, and exits as the claims
deserve.
"""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from edrl.cli import reproduce as command
from edrl.paper import EXPERIMENTS, run
from edrl.paper.experiment import SECTIONS
from edrl.report.claims import Claim

pytestmark = pytest.mark.xdist_group("reproduce")  # one process makes what its tests share

QUICK = ("figure-8", "quantiles-expectiles")


def edrl(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from edrl.cli import main; main()", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def report(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    where = tmp_path_factory.mktemp("run")
    return where / "report", edrl("reproduce", *QUICK, cwd=where)


def test_reproduce_writes_page_figures_data_and_claims(report) -> None:
    out, result = report
    assert result.returncode == 0, result.stderr
    assert str(out / "index.html") in result.stdout.replace("\n", "")
    claims = json.loads((out / "claims.json").read_text(encoding="utf-8"))
    assert {claim["id"] for claim in claims} >= {"figure-8-mean", "appendix-a-expectile"}
    assert all(
        set(claim) >= {"id", "source", "claim", "measured", "expected", "holds"} for claim in claims
    )
    text = (out / "index.html").read_text(encoding="utf-8")
    assert 'href="playground.html"' in text
    assert (out / "playground.html").exists()
    for name in ("figure-8", "table-1", "quantiles-expectiles"):
        assert (out / "figures" / f"{name}.png").exists()
        assert (out / "figures" / f"{name}.svg").exists()
        assert f'id="fig-{name}"' in text
    with (out / "data" / "figure-8" / "human_normalised.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 57


def test_finished_parts_are_not_run_again_unless_asked(report) -> None:
    """A second run draws from the kept files; --again measures anew, and other code or another size
    would, too.
    """
    out, _ = report
    stamps = {name: out / "data" / name / "part.json" for name in QUICK}
    before = {name: stamp.stat().st_mtime_ns for name, stamp in stamps.items()}
    result = edrl("reproduce", "figure-8", "--again", cwd=out.parent)
    assert result.returncode == 0
    assert stamps["figure-8"].stat().st_mtime_ns > before["figure-8"]
    assert stamps["quantiles-expectiles"].stat().st_mtime_ns == before["quantiles-expectiles"]
    assert 'id="quantiles-expectiles"' in (out / "index.html").read_text(
        encoding="utf-8"
    )  # still on the page
    assert run.is_finished("figure-8", out, full=False)
    assert not run.is_finished("figure-8", out, full=True)
    kept = json.loads(stamps["figure-8"].read_text())
    stamps["figure-8"].write_text(json.dumps({**kept, "fingerprint": "of other code"}))
    assert not run.is_finished("figure-8", out, full=False)


def test_no_more_parts_are_begun_than_there_are_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is handed to a pool is begun even after Ctrl-C."""
    at_once, most = [0], [0]

    @contextmanager
    def pool(workers: int, *_: object) -> Iterator[object]:
        with ThreadPoolExecutor(2 * workers) as threads:

            def submit(function: object, name: str, *_: object) -> Future:
                at_once[0] += 1
                most[0] = max(most[0], at_once[0])

                def work() -> run.Part:
                    time.sleep(0.01)
                    at_once[0] -= 1
                    return run.Part(name, {}, [], [], 0.0)

                return threads.submit(work)

            yield submit

    monkeypatch.setattr(run, "worker_pool", pool)
    parts = run.reproduce(tuple(EXPERIMENTS), tmp_path, False, False, 3, lambda *_: None)
    assert [part.name for part in parts] == list(EXPERIMENTS)
    assert most[0] == 3


def test_full_size_has_a_directory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours of it must not be lost to a run of five minutes."""
    seen: list[Path] = []
    monkeypatch.setattr(command, "reproduce", lambda names, out, *_: seen.append(out) or [])
    for full in (False, True):
        command.Reproduce(names=("figure-8",), full=full)()
    assert seen == [Path("report"), Path("report-full")]


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from edrl.cli import main; main()",
        "reproduce",
        "figure-8",
        "figure-5",
    ]
    command += ["--workers", "2"]  # or figure-5 comes first, alone
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    stamp = tmp_path / "report" / "data" / "figure-8" / "part.json"
    until = time.monotonic() + 120
    while not stamp.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    assert stamp.exists()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "goes on from there" in output
    assert run.is_finished("figure-8", tmp_path / "report", full=False)
    assert not run.is_finished("figure-5", tmp_path / "report", full=False)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"full": false}'])
def test_a_part_whose_stamp_is_damaged_is_measured_again(text: str, tmp_path: Path) -> None:
    stamp = tmp_path / "data" / "figure-8" / "part.json"
    stamp.parent.mkdir(parents=True)
    stamp.write_text(text)
    assert not run.is_finished("figure-8", tmp_path, full=False)


def test_bad_arguments_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report"
    assert command.Reproduce(names=("figure-99",), out=out)() == 2
    assert command.Reproduce(workers=0, out=out)() == 2
    printed = capsys.readouterr().out
    assert "figure-99" in printed
    assert "figure-5" in printed  # what would be right
    assert "workers must be a whole number of at least 1, got 0" in printed
    assert not out.exists()
    out.write_text("a file")
    assert command.Reproduce(out=out)() == 2
    assert "name a directory" in capsys.readouterr().out


def test_the_list_of_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.Reproduce(list_parts=True, out=tmp_path)() == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in EXPERIMENTS)


@pytest.mark.parametrize(
    ("holds", "note", "status"), [(True, "", 0), (False, "why", 0), (False, "", 1)]
)
def test_the_exit_status_is_the_claims_verdict(
    tmp_path: Path, holds: bool, note: str, status: int
) -> None:
    part = run.Part("figure-8", {}, [Claim("x", "y", "z", "1", "2", holds, note)], [], 1.0)
    console = Console(file=(tmp_path / "log").open("w"))
    assert command._conclude(console, [part], tmp_path) == status
    assert (
        command._conclude(
            console, [run.Part("figure-8", {}, [], [], 1.0, error="ValueError: no")], tmp_path
        )
        == 1
    )
    console.file.close()


def test_every_experiment_is_complete() -> None:
    """Names are unique and fit for a file and an anchor, sections come in order, and every text is
    there.
    """
    sections = list(SECTIONS)
    order = [sections.index(experiment.section) for experiment in EXPERIMENTS.values()]
    assert order == sorted(order)
    for name, experiment in EXPERIMENTS.items():
        assert name == experiment.name
        assert name.replace("-", "").isalnum()
        assert experiment.title
        assert len(experiment.about) > 50
        assert experiment.source
        assert min(experiment.cost) > 0
