"""How far a run has come, read from the files in its directory, while it may be running."""

import csv
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from edrl.core.check import fail
from edrl.deep.checkpoint import is_finished
from edrl.deep.config import Config, read_config
from edrl.deep.provenance import read_provenance
from edrl.study.tables import Table

_MOST_STEPS = 10**15
_LARGEST = sys.float_info.max
_TAIL = 4096  # bytes, in which there is a whole row


def finished(out: Path, config: Config) -> bool:
    """Whether a run has done all that a config asks for. This is the only definition of it.

    The last checkpoint decides. If no checkpoint is kept, the tables of the run do.
    """
    saved = is_finished(out, config.steps)
    if saved is not None:
        return saved
    written = tables_finished(config, steps_done(out), _evaluated(out))
    return written and read_config(out).steps == config.steps


def tables_finished(config: Config, logged: int, evaluated: int) -> bool:
    """Whether the last row of metrics and the last evaluation of a config are written."""
    last_row = config.steps - config.steps % config.log_every
    every = config.evaluate_every or config.steps + 1
    last_evaluation = config.steps // every * every
    rows = logged >= last_row > 0 and evaluated >= last_evaluation
    return rows or evaluated >= config.steps


def steps_done(out: Path) -> int:
    """How far a run has come, as its metrics say."""
    return _last_step(out / "metrics.csv")


def _evaluated(out: Path) -> int:
    return _last_step(out / "evaluations.csv")


def _last_step(path: Path) -> int:
    step = last_row(path).get("step", "") or "0"
    if not step.isdecimal() or int(step) > _MOST_STEPS:
        raise ValueError(f"{path} cannot be read: {step!r} in its last row is no step")
    return int(step)


def last_row(path: Path) -> dict[str, str]:
    """The last whole row of a CSV file, which may be long and growing; empty if there is none."""
    try:
        with path.open("rb") as file:
            header = file.readline().decode(errors="replace").strip().split(",")
            file.seek(max(file.tell(), file.seek(0, os.SEEK_END) - _TAIL))
            rows = file.read().decode(errors="replace").split("\n")[:-1]
    except FileNotFoundError:
        return {}
    cells = rows[-1].split(",") if rows else []
    return dict(zip(header, cells, strict=True)) if len(cells) == len(header) else {}


def numbers(
    path: Path,
    names: tuple[str, ...],
    rough: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
    needed: str | None = None,
) -> Table:
    """Columns of numbers. A line that was cut short, by a kill or a full disk, is left out.

    What is no number is an error that names the file.

    Args:
        path: the CSV file, which need not exist.
        names: the columns that are read.
        rough: columns in which nan and inf are numbers.
        optional: further columns, which are read if the file has them.
        needed: rows in which this column is empty are left out; by default it is the last.
    """
    try:
        head, rows = _whole_rows(path)
        there = (*names, *(name for name in optional if name in head))
        filled = [cells for cells in rows if cells.get(needed or head[-1])]
        return _columns(there, filled, rough)
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    except KeyError as error:
        raise ValueError(f"{path} cannot be read: it has no column {error}") from error


def check_increasing(path: Path, name: str, column: Sequence[float]) -> None:
    """Rows that are there twice would count twice."""
    if any(later <= earlier for earlier, later in pairwise(column)):
        raise ValueError(f"{path} cannot be read: its {name} must increase from row to row")


def _whole_rows(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """The names of columns and the rows that have all their cells, which may be empty."""
    if not path.exists():
        return [], []
    with path.open(newline="", encoding="utf-8") as file:
        whole = [line for line in file if line.endswith("\n")]
    head, *rows = csv.reader(whole) if whole else [[]]
    return head, [dict(zip(head, row, strict=True)) for row in rows if len(row) == len(head)]


def _columns(names: Sequence[str], rows: Sequence[dict[str, str]], rough: tuple[str, ...]) -> Table:
    columns: Table = {name: [] for name in names}
    for cells in rows:
        for name, column in columns.items():
            column.append(_number(name, cells[name], rough))
    return columns


def _number(name: str, cell: str, rough: tuple[str, ...]) -> float:
    number = float(cell)
    limit = _MOST_STEPS if name == "step" else _LARGEST
    if name not in rough and not abs(number) <= limit:  # nor nan
        raise fail(name, cell, "it must be a finite number")
    return number


def machine_of(out: Path) -> str:
    """The machine that a run was worked on last."""
    *_, last = [{}, *read_provenance(out)]
    machine = last.get("machine", {})
    return str(machine.get("host", "")) if isinstance(machine, dict) else ""
