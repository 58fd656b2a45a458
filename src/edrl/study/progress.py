"""How far a run has come, read from the files in its directory, while it may be running."""

import csv
import os
from math import inf, isfinite
from pathlib import Path

from edrl.core.check import fail
from edrl.deep.checkpoint import is_finished
from edrl.deep.config import Config, read_config
from edrl.deep.provenance import read_provenance
from edrl.study.tables import Table

_MOST_STEPS = 10**15
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


def numbers(path: Path, names: tuple[str, ...], rough: tuple[str, ...] = ()) -> Table:
    """Columns of numbers. A line that was cut short, by a kill or a full disk, is left out.

    What is no number is an error that names the file; in `rough` columns nan and inf are numbers.
    """
    columns: Table = {name: [] for name in names}
    if not path.exists():
        return columns
    try:
        with path.open(newline="", encoding="utf-8") as file:
            whole = [line for line in file if line.endswith("\n")]
        head, *rows = csv.reader(whole) if whole else [list(names)]
        for row in rows:
            if len(row) == len(head) and row[-1]:
                _append(columns, dict(zip(head, row, strict=True)), rough)
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    except KeyError as error:
        raise ValueError(f"{path} cannot be read: it has no column {error}") from error
    return columns


def _append(columns: Table, cells: dict[str, str], rough: tuple[str, ...]) -> None:
    for name, column in columns.items():
        number = float(cells[name])
        limit = _MOST_STEPS if name == "step" else inf
        if name not in rough and not (isfinite(number) and abs(number) <= limit):
            raise fail(name, cells[name], "it must be a finite number")
        column.append(number)


def machine_of(out: Path) -> str:
    """The machine that a run was worked on last."""
    *_, last = [{}, *read_provenance(out)]
    machine = last.get("machine", {})
    return str(machine.get("host", "")) if isinstance(machine, dict) else ""
