"""One run of a study, wherever it is worked on: begun or gone on with, never by two at once."""

import csv
import dataclasses
import json
import os
import traceback
from collections.abc import Sequence
from pathlib import Path

from edrl.core.check import fail
from edrl.deep.callbacks import Callback
from edrl.deep.checkpoint import found, is_finished, write_text
from edrl.deep.config import Config, read_config
from edrl.deep.objects import load_object
from edrl.deep.training import resume, train
from edrl.study.locks import Taken, locked
from edrl.study.plan import read_plan
from edrl.study.tables import Table

_FAILURE = "failed.txt"
_TAIL = 4096  # bytes, in which there is a whole row


def work(study: Path, name: str, patience: float = 180.0, callbacks: Sequence[str] = ()) -> None:
    """Bring a run of a study to its end, from its last checkpoint if there is one.

    `callbacks` are classes of callbacks by their names, MODULE:NAME, which other processes can be told.
    What goes wrong is written to the run's `failed.txt` and raised. `patience`: one who has just died elsewhere may not
    have let go of the run yet; on NFS that takes a lease's 90 seconds.
    """
    config = next(run.config for run in read_plan(study) if run.name == name)
    out = study / name
    try:
        with locked(out / "lock", patience):
            _train(config, out, [load_object("callbacks", one)() for one in callbacks])
    except Taken as error:
        note_failure(out, str(error))
        raise
    except Exception:
        write_text(out / _FAILURE, traceback.format_exc())
        raise


def why_failed(out: Path) -> str:
    """The last line of what befell a run; empty if nothing did."""
    try:
        return (out / _FAILURE).read_text().strip().split("\n")[-1]
    except FileNotFoundError:
        return ""


def note_failure(out: Path, reason: str) -> None:
    """What befell a run, unless it has said so itself: one that was killed could not."""
    if not why_failed(out):
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / _FAILURE, f"{reason}\n")


def forget_failure(out: Path) -> None:
    """Before a run is tried again: what it then says is of this time."""
    (out / _FAILURE).unlink(missing_ok=True)


def _train(config: Config, out: Path, callbacks: Sequence[Callback]) -> None:
    if found(out):
        begun = read_config(out)
        if dataclasses.replace(begun, steps=config.steps) != config:
            raise fail("run", str(out), "it was begun with other settings than those of the study")
        longer = max(begun.steps, config.steps)  # somebody may have made it longer
        resume(out, steps=longer, older=True, callbacks=callbacks)
    else:
        train(config, out, callbacks=callbacks)


def is_done(study: Path, name: str, config: Config) -> bool:
    """Whether a run has reached its last step; if its checkpoints have been deleted, its metrics say so."""
    out = study / name
    finished = is_finished(out, config.steps)
    if finished is not None:
        return finished
    last = config.steps // config.log_every * config.log_every
    return steps_done(out) >= last > 0 and read_config(out).steps == config.steps


def steps_done(out: Path) -> int:
    """How far a run has come, as its metrics say."""
    return int(last_row(out / "metrics.csv").get("step", 0) or 0)


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
    """Columns of numbers; a line that was cut short, by the end of a process or a full disk, is left out."""
    columns: Table = {name: [] for name in names}
    if not path.exists():
        return columns
    with path.open(newline="", encoding="utf-8") as file:
        whole = [line for line in file if line.endswith("\n")]
    head, *rows = csv.reader(whole) if whole else [[]]
    for row in rows:
        cells = dict(zip(head, row, strict=False))
        try:
            entries = [float(cells[name]) for name in names]
        except (KeyError, ValueError):
            continue
        if len(row) == len(head):
            for name, entry in zip(names, entries, strict=True):
                columns[name].append(entry)
    return columns


def machine_of(out: Path) -> str:
    """Where a run was worked on last."""
    try:
        return str(json.loads((out / "provenance.json").read_text())[-1]["machine"]["host"])
    except FileNotFoundError:
        return ""
