"""`edrl decode`: what it writes and says, and what it says of files that are no cells."""

import sys
from pathlib import Path

import numpy as np
import pytest

from edrl import cli, decode
from edrl.study.tables import read_csv, select

CELLS = """value,tau
2.0,0.1
3.5,0.3
4.5,0.5
6.5,0.7
9.0,0.9
"""


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["edrl", "decode", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def written(place: Path, text: str) -> Path:
    path = place / "cells.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tables hold what `edrl.decode` gives, and a second call writes the same bytes."""
    path, out = written(tmp_path, CELLS), tmp_path / "new" / "out"
    flags = ("--support", 0, 20, "--resamples", 20, "--out", out)
    assert run(monkeypatch, path, *flags) == 0
    printed = capsys.readouterr().out
    assert "residuals" in printed
    assert "contradict" not in printed
    found = decode(
        [2.0, 3.5, 4.5, 6.5, 9.0], [0.1, 0.3, 0.5, 0.7, 0.9], None, (0, 20), resamples=20
    )
    distribution = read_csv(out / "distribution.csv")
    assert distribution["atom"] == np.asarray(found.distribution.atoms).tolist()
    assert distribution["prob"] == np.asarray(found.distribution.probs).tolist()
    assert found.band is not None
    assert np.allclose(distribution["cdf_low"], found.band[0])
    cells = read_csv(out / "cells.csv")
    assert cells["line"] == [2, 3, 4, 5, 6]
    assert cells["residual"] == found.residuals.tolist()
    assert (out / "decoded.png").read_bytes().startswith(b"\x89PNG")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert run(monkeypatch, path, *flags) == 0
    assert before == {path.name: path.read_bytes() for path in out.iterdir()}


def test_groups_noise_and_other_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns come in any order, groups in the file's order; empty lines and a BOM do not matter."""
    text = "\ufeffcell,group,tau, value,noise\na,late,0.2,5,0.5\nb,late,0.8,3,0.5\n\n"
    text += "c,early,0.3,1,0.1\nd,early,0.6,2,0.1\ne,early,0.7,2.5,0.1\n"
    out = tmp_path / "out"
    flags = ("--resamples", 0, "--atoms", 11, "--out", out)
    assert run(monkeypatch, written(tmp_path, text), *flags) == 0
    printed = capsys.readouterr().out
    assert printed.index("late") < printed.index("early")
    assert "The cells of group late contradict each other: values fall with tau" in printed
    distribution = read_csv(out / "distribution.csv")
    assert list(distribution) == ["group", "atom", "prob", "cdf"]
    for group in ("late", "early"):
        assert select(distribution, group=group)["prob"].sum() == pytest.approx(1)
    cells = read_csv(out / "cells.csv")
    assert cells["line"] == [2, 3, 5, 6, 7]
    assert cells["noise"] == [0.5, 0.5, 0.1, 0.1, 0.1]


def test_a_cell_that_contradicts_the_others_is_named_by_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taus = np.linspace(0.1, 0.9, 33)
    values = 10 * taus
    values[4] = 9.5
    lines = "".join(f"{v:.3f},{t:.3f}\n" for v, t in zip(values, taus, strict=True))
    path = written(tmp_path, "value,tau\n" + lines)
    assert run(monkeypatch, path, "--support", 0, 10, "--out", tmp_path / "out") == 0
    assert "line 6 has value 9.5 at tau 0.2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cells.csv is empty: its first line must name columns"),
        ("\n\n", "cells.csv is empty"),
        ("value,tau\n", "cells.csv has no cells"),
        ("value,level\n1,0.5\n", "line 1: no column tau among 'value, level'"),
        ("1,0.5\n2,0.7\n", "line 1: no column value and no column tau among '1, 0.5'"),
        ("value,tau,tau\n1,0.5,0.5\n", "line 1: column tau is there 2 times"),
        ("value,tau\n1,0.5\n", "line 2: there is only one cell, at least two are needed"),
        ("value,tau,group\n1,0.5,a\n2,0.6,b\n3,0.7,b\n", "line 2: group 'a' has only one cell"),
        ("value,tau\n1,0.5\n2,1.5\n", "line 3: tau must lie strictly between 0 and 1, got 1.5"),
        ("value,tau\n1,0\n2,0.5\n", "line 2: tau must lie strictly between 0 and 1, got 0.0"),
        ("value,tau\n1,0.5\nnan,0.6\n", "line 3: value must be a finite number, got 'nan'"),
        ("value,tau\n1,0.5\n\n2,\n", "line 4: tau must be a finite number, got ''"),
        ("value,tau\n1,0.5\nlow,0.6\n", "line 3: value must be a finite number, got 'low'"),
        ("value,tau\n1,0.5\n2,0.6,7\n", "line 3: 3 entries, while the header has 2"),
        ("value,tau,noise\n1,0.5,0.1\n2,0.6,0\n", "line 3: noise must be greater than 0, got 0.0"),
        ("value,tau\n1,0.5\n21,0.6\n", "line 3: value must lie in the support, 0 to 20, got 21.0"),
        ('value,tau\n"1,0.5\n', "cells.csv is no CSV file"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    message: str,
) -> None:
    out = tmp_path / "out"
    assert run(monkeypatch, written(tmp_path, text), "--support", 0, 20, "--out", out) == 2
    assert message in capsys.readouterr().out
    assert not out.exists()


def test_what_is_no_text_or_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cells.csv"
    path.write_bytes(b"\x89PNG\xff\xfe\x00")
    assert run(monkeypatch, path) == 2
    assert "is no CSV file" in capsys.readouterr().out
    assert run(monkeypatch, tmp_path / "none.csv") == 2
    assert "none.csv': there is no such file" in capsys.readouterr().out
    assert run(monkeypatch, tmp_path) == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--support", 20, 0), "support must be two numbers, the lesser first"),
        (("--support", 0, "inf"), "support must be two numbers"),
        (("--atoms", 1), "atoms must be a whole number of at least 3, got 1"),
        (("--smoothness", -1), "smoothness must be a finite number in [0, inf]"),
        (("--resamples", -1), "resamples must be a whole number of at least 0, got -1"),
    ],
)
def test_bad_flags_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: tuple[object, ...],
    message: str,
) -> None:
    path = written(tmp_path, CELLS)
    assert run(monkeypatch, path, *flags, "--out", tmp_path / "out") == 2
    assert message in capsys.readouterr().out


def test_a_file_is_no_directory_to_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, CELLS)
    assert run(monkeypatch, path, "--out", path) == 2
    assert "name a directory" in capsys.readouterr().out


def test_the_cells_that_are_read_are_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, CELLS)
    assert run(monkeypatch, path, "--support", 0, 20, "--out", tmp_path) == 2
    assert "would overwrite the cells that are read: name another" in capsys.readouterr().out
    assert [file.name for file in tmp_path.iterdir()] == ["cells.csv"]
    assert path.read_text(encoding="utf-8") == CELLS


@pytest.mark.parametrize("name", ["distribution.csv", "cells.csv", "decoded.png"])
def test_files_of_others_are_not_overwritten(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = written(tmp_path, CELLS), tmp_path / "out"
    out.mkdir()
    (out / name).write_text(CELLS)
    assert run(monkeypatch, path, "--support", 0, 20, "--out", out) == 2
    assert f"there is a {name} in it that is not one of ours" in capsys.readouterr().out
    assert [(file.name, file.read_text()) for file in out.iterdir()] == [(name, CELLS)]
