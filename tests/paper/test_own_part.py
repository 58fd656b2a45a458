"""A part of a user's own: measured, drawn, judged, on the page and resumed like those of edrl."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edrl.cli.reproduce import Reproduce
from edrl.paper import run
from edrl.paper.experiment import Limit, Threshold, judged
from edrl.paper.parts import find_part, find_parts

PART = Path(__file__).with_name("own_part.py")


def reproduce(part: Path, out: Path) -> subprocess.CompletedProcess[str]:
    code = "from edrl.cli import main; main()"
    command = [sys.executable, "-c", code, "reproduce", part.name, "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True, cwd=part.parent, timeout=300)


def test_a_part_of_ones_own_runs_and_is_resumed(tmp_path: Path) -> None:
    part = Path(shutil.copy(PART, tmp_path / "own_part.py"))
    out = tmp_path / "report"
    ended = reproduce(part, out)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "2 of 2 claims hold" in ended.stdout
    assert (out / "data" / "own-means" / "errors.csv").exists()
    assert (out / "figures" / "own-means" / "figure-8.png").exists()
    text = (out / "index.html").read_text(encoding="utf-8")
    assert 'id="own-means"' in text
    assert 'id="fig-own-means/figure-8"' in text
    claims = json.loads((out / "claims.json").read_text(encoding="utf-8"))
    assert [claim["id"] for claim in claims] == ["own-means", "own-finite"]
    assert claims[0]["expected"] == "first state: at most 1e-08; all states: at most 1e-07"
    assert claims[0]["set_on"] == "2026-11-18"

    stamp = out / "data" / "own-means" / "part.json"
    before = stamp.stat().st_mtime_ns
    assert run.is_finished(str(part), out, full=False)
    assert reproduce(part, out).returncode == 0
    assert stamp.stat().st_mtime_ns == before  # drawn and judged again, but not measured
    part.write_text(part.read_text().replace("n_chain(3)", "n_chain(4)"))
    assert not run.is_finished(str(part), out, full=False)
    part.write_text(part.read_text().replace("Limit(at_most=1)", "Limit(above=1)"))
    assert reproduce(part, out).returncode == 1  # a claim fails
    assert stamp.stat().st_mtime_ns > before


def test_a_part_of_ones_own_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Reproduce(names=(str(PART),), list_parts=True, out=tmp_path)() == 0
    printed = capsys.readouterr().out
    assert "own-means" in printed
    assert "figure-8" in printed


OWN = PART.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "must be a file that defines EXPERIMENT = Experiment(...)"),
        ("import nowhere", "cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("def f(:", "cannot be imported: SyntaxError"),
        ("from edrl.paper.figure8 import EXPERIMENT", "as a part of edrl has: give it another"),
        (
            OWN.replace('"own-means", "Who', '"a/b", "Who'),
            "name must consist of letters, digits and -, got 'a/b'",
        ),
        (
            OWN.replace('"theory"', '"mine"'),
            "section must be one of paper, appendix, theory, beyond, got 'mine'",
        ),
    ],
)
def test_what_is_no_part_is_refused(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = tmp_path / "part.py"
    part.write_text(text, encoding="utf-8")
    assert Reproduce(names=(str(part),), out=tmp_path / "report")() == 2
    assert words in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "report").exists()


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert Reproduce(names=("nowhere/part.py",))() == 2
    assert "nowhere/part.py': there is no such file" in capsys.readouterr().out


def test_no_two_parts_have_one_name(tmp_path: Path) -> None:
    other = shutil.copy(PART, tmp_path / "other.py")
    assert list(find_parts([str(PART), "figure-8", str(PART)])) == ["own-means", "figure-8"]
    with pytest.raises(ValueError, match=r"it has the name own-means, as .*own_part.py has"):
        find_parts([str(PART), str(other)])


def test_a_part_of_ones_own_comes_last_in_its_section(tmp_path: Path) -> None:
    named = find_parts([str(PART), "figure-8", "imputation"])
    assert list(run._shown(named, tmp_path, full=False)) == ["figure-8", "own-means", "imputation"]
    assert find_part(str(PART)).file == PART


def test_limits_are_in_the_file_or_given() -> None:
    with pytest.raises(ValueError, match=r"id must be in thresholds.toml, or limits must be given"):
        judged("no-such", "mine", "c", "m", 1.0)
    with pytest.raises(ValueError, match="id must be another: it is a claim of edrl's"):
        judged("equation-6", "mine", "c", "m", 1.0, limits=Limit(at_most=2))
    assert judged("mine", "mine", "c", "m", 1.0, limits=Limit(at_most=2)).holds
    both = Threshold({"a": Limit(above=2), "b": Limit(above=0)})
    assert not judged("mine", "mine", "c", "m", {"a": 1.0, "b": 1.0}, limits=both).holds
