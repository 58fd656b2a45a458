"""The tables of a run: metrics.csv, evaluations.csv and calibration.csv, and timing.csv."""

from __future__ import annotations

import contextlib
import csv
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edrl.deep.calibration import CALIBRATION
from edrl.deep.callbacks import Callback, Evaluation, Row
from edrl.deep.checkpoint import CheckpointError

if TYPE_CHECKING:
    from edrl.deep.run import Run

METRICS = ("step", "episodes", "score", "length", "epsilon", "learning_rate", "loss")
"""The columns of metrics.csv that do not depend on the agent; its diagnostics follow."""
EVALUATIONS = ("step", "episodes", "mean", "least", "most", "length")
TABLES = ("metrics.csv", "evaluations.csv", "calibration.csv")
"""What is the same for two equal runs."""
TIMING = ("step", "seconds")


class Tables(Callback):
    """Writes rows of metrics and evaluations; an evaluation counts once its row is written."""

    def __init__(self, out: Path, diagnostics: tuple[str, ...]) -> None:
        self._out = out
        self._columns: Mapping[str, tuple[str, ...]] = {
            "metrics.csv": METRICS + diagnostics,
            "evaluations.csv": EVALUATIONS,
            "calibration.csv": CALIBRATION,
        }

    def heads(self) -> dict[str, str]:
        """What the tables of a new run hold."""
        return {name: ",".join(columns) + "\n" for name, columns in self._columns.items()}

    def on_log(self, run: Run, row: Row) -> None:
        self.write_row("metrics.csv", row)

    def on_evaluation(self, run: Run, evaluation: Evaluation) -> None:
        with _all_or_none(self._out / "evaluations.csv", self._out / "calibration.csv"):
            self.write_row("evaluations.csv", evaluation.row(run.step))
            if evaluation.calibration is not None:
                self.write_row("calibration.csv", evaluation.calibration.row(run.step))
        run.state.counters.evaluated = run.step

    def write_row(self, name: str, row: Row) -> None:
        """Append a row to a table, whose columns may be those of an earlier version."""
        path = self._out / name
        with path.open(newline="") as file:
            columns = tuple(next(csv.reader(file), self._columns[name]))
        _append(path, columns, row)

    def save(self) -> dict[str, np.ndarray]:
        """How long the tables are, once what was written to them is on the disk."""
        return {name: np.array(_size_on_disk(self._out / name)) for name in TABLES}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Cut the tables: what was logged after the checkpoint will be logged again."""
        for name, size in arrays.items():
            path = self._out / name
            if not path.exists() or path.stat().st_size < size:
                raise CheckpointError(f"{name} is damaged: it is shorter than at the checkpoint")
        for name, size in arrays.items():
            os.truncate(self._out / name, int(size))


class Timing(Callback):
    """Writes how long the steps took, evaluations and all.

    A row of 0 seconds says where a run began or went on. Two equal runs differ in this file, and
    its rows are never cut: time is spent, whatever was lost.
    """

    def __init__(self, out: Path) -> None:
        self._path = out / "timing.csv"
        self._clock = 0.0  # when time was told last
        self._told: int | None = None  # the step of that

    def heads(self) -> dict[str, str]:
        """What the table of a new run holds."""
        return {self._path.name: ",".join(TIMING) + "\n"}

    def on_begin(self, run: Run) -> None:
        if run.finished:
            return
        _end_last_line(self._path)
        self._clock = time.perf_counter()
        self._tell(run)
        self._told = None  # an evaluation may follow without a step

    def on_step(self, run: Run) -> None:
        if run.config.due(run.step, run.config.log_every) and self._told != run.step:
            self._tell(run)

    def on_checkpoint(self, run: Run) -> None:
        if self._told != run.step and self._clock:
            self._tell(run)

    def _tell(self, run: Run) -> None:
        now = time.perf_counter()
        _append(self._path, TIMING, {"step": run.step, "seconds": f"{now - self._clock:.3f}"})
        self._clock, self._told = now, run.step


def _append(path: Path, columns: tuple[str, ...], row: Row) -> None:
    with path.open("a", newline="") as file:
        cells = [row.get(column, "") for column in columns]
        csv.writer(file, lineterminator="\n").writerow(cells)


@contextlib.contextmanager
def _all_or_none(*tables: Path) -> Iterator[None]:
    """If one row of an evaluation cannot be written, the others go: it will be made again."""
    sizes = {table: table.stat().st_size for table in tables}
    try:
        yield
    except OSError:
        for table, size in sizes.items():
            os.truncate(table, size)
        raise


def _end_last_line(path: Path) -> None:
    """A line that was cut short, by a full disk or a kill, must not run into the next."""
    text = path.read_bytes() if path.exists() else b""
    if text and not text.endswith(b"\n"):
        with path.open("ab") as file:
            file.write(b"\n")


def _size_on_disk(path: Path) -> int:
    """The size of a file that a checkpoint counts on: it must not be lost with the power."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return path.stat().st_size
