"""How far a run has come, read from the files in its directory, while it may be running."""

import csv
import json
import os
from pathlib import Path

from edrl.deep.checkpoint import is_finished
from edrl.deep.config import Config, read_config
from edrl.study.tables import Table, from_rows

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
    """The last step in the metrics of a run."""
    return int(last_row(out / "metrics.csv").get("step", 0) or 0)


def _evaluated(out: Path) -> int:
    return int(last_row(out / "evaluations.csv").get("step", 0))


def last_row(path: Path) -> dict[str, str]:
    """The last whole row of a CSV file, which may be long and growing; empty if there is none."""
    try:
        with path.open("rb") as file:
            header = file.readline().decode().strip().split(",")
            file.seek(max(file.tell(), file.seek(0, os.SEEK_END) - _TAIL))
            rows = file.read().decode(errors="replace").split("\n")[:-1]
    except FileNotFoundError:
        return {}
    cells = rows[-1].split(",") if rows else []
    return dict(zip(header, cells, strict=True)) if len(cells) == len(header) else {}


def numbers(path: Path, names: tuple[str, ...]) -> Table:
    """Columns of numbers. A line that was cut short, by a kill or a full disk, is left out."""
    rows = [_entries(row, names) for row in _whole_lines(path)]
    return from_rows(names, filter(None, rows))


def _whole_lines(path: Path) -> list[dict[str | None, str | None]]:
    """The rows of a CSV file up to its last line break; none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if line.endswith("\n")))


def _entries(row: dict[str | None, str | None], names: tuple[str, ...]) -> list[float]:
    """The numbers of a row; none if it has more or fewer cells than the header."""
    if None in row or None in row.values():
        return []
    try:
        return [float(row[name] or "") for name in names]
    except (KeyError, ValueError):
        return []


def machine_of(out: Path) -> str:
    """The machine that last worked on a run."""
    try:
        return str(json.loads((out / "provenance.json").read_text())[-1]["machine"]["host"])
    except FileNotFoundError:
        return ""
