"""One run of a study, wherever it is worked on: begun or gone on with, never by two at once."""

import dataclasses
import fcntl
import json
import os
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from edrl.core.check import fail
from edrl.deep.checkpoint import found, write_text
from edrl.deep.config import Config, read_config
from edrl.deep.train import resume, train
from edrl.studies.plan import read_plan

_TAIL = 4096  # bytes, in which there is a whole row


class Taken(Exception):
    """Somebody else holds the lock."""


@contextmanager
def locked(path: Path, patience: float = 0.0) -> Iterator[None]:
    """Hold a lock on a file; the system gives it back should this process die. Waits `patience` seconds for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        _lock(file, path, patience)
        yield


def is_locked(path: Path) -> bool:
    """Whether somebody holds the lock."""
    if not path.exists():
        return False
    with path.open("a") as file:
        try:
            # Shared: two that look at once do not take each other for a worker.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _lock(file: IO[str], path: Path, patience: float) -> None:
    until = time.monotonic() + patience
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if time.monotonic() >= until:
                raise Taken(f"{path} is locked: somebody else is at work there") from error
        time.sleep(0.2)


def work(study: Path, name: str, patience: float = 180.0) -> None:
    """Bring a run of a study to its end, from its last checkpoint if there is one.

    What goes wrong is written to the run's `failed.txt` and raised. `patience`: one who has just died elsewhere may not
    have let go of the run yet; on NFS that takes a lease's 90 seconds.
    """
    config = next(run.config for run in read_plan(study) if run.name == name)
    out = study / name
    with locked(out / "lock", patience):
        failure = out / "failed.txt"
        failure.unlink(missing_ok=True)
        try:
            _train(config, out)
        except KeyboardInterrupt:
            raise
        except Exception:
            write_text(failure, traceback.format_exc())
            raise


def note_failure(out: Path, reason: str) -> None:
    """What befell a run, unless it has said so itself: one that was killed could not."""
    if not (out / "failed.txt").exists():
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / "failed.txt", f"{reason}\n")


def _train(config: Config, out: Path) -> None:
    if found(out):
        begun = read_config(out)
        if dataclasses.replace(begun, steps=config.steps) != config:
            raise fail("run", str(out), "it was begun with other settings than those of the study")
        resume(out, steps=config.steps, older=True)
    else:
        train(config, out)


def is_done(study: Path, name: str, config: Config) -> bool:
    """Whether a run has reached its last step; if its checkpoints have been deleted, its metrics say so."""
    out = study / name
    if (out / f"checkpoint-{config.steps:012d}" / "manifest.json").exists():
        # One that was stopped during its last evaluation has still to make it.
        return not config.evaluation_at(config.steps) or _evaluated(out) >= config.steps
    last = config.steps // config.log_every * config.log_every
    return not found(out) and steps_done(out) >= last > 0 and read_config(out).steps == config.steps


def steps_done(out: Path) -> int:
    """How far a run has come, as its metrics say."""
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


def seconds_spent(out: Path) -> float:
    """The time that a run has taken so far."""
    path = out / "timing.csv"
    if not path.exists():
        return 0.0
    return sum(float(line.split(",")[1]) for line in path.read_text().split("\n")[1:-1])


def machine_of(out: Path) -> str:
    """Where a run was worked on last."""
    try:
        return str(json.loads((out / "made.json").read_text())[-1]["machine"]["host"])
    except FileNotFoundError:
        return ""
