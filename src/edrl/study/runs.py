"""The results of a run, read from its directory or from the file in which a report keeps its runs.

Nothing is assumed to be complete: a run may be unfinished, or an older version may have written
fewer files.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from edrl.core.check import fail
from edrl.deep.calibration import BOUNDS, CALIBRATION, Calibration
from edrl.deep.checkpoint import replace_text
from edrl.deep.config import Config, read_config
from edrl.deep.provenance import read_provenance
from edrl.deep.settings import Value
from edrl.study.entry_checks import check_plan_entry, check_planned_row, check_run_entry
from edrl.study.identity import Record
from edrl.study.progress import (
    check_increasing,
    finished,
    numbers,
    steps_done,
    tables_finished,
)
from edrl.study.tables import Json, Table, from_rows, read_object
from edrl.study.timing import Timing, timing_of
from edrl.study.training_scores import TRAINING, final_training_score, read_training_scores

LAST = 3  # evaluations that make a run's final score
RUNS = "runs.json"
VERSION = 2

Key = tuple[str, str, int]
"""What tells runs apart: the agent's label, game, seed."""


class PlannedRun(NamedTuple):
    """A run that was planned, whether or not it is there."""

    record: Record
    names: tuple[str, ...]  # the settings that its agent is named by
    env: str
    seed: int
    steps: int

    @property
    def key(self) -> tuple[Record, str, int]:
        """What tells planned runs apart."""
        return self.record, self.env, self.seed


Goals = Mapping[tuple[Record, str, int], int]
"""The steps that plans ask for, by agent, game and seed."""


@dataclass(frozen=True)
class RunResult:
    """One run, as far as it has come."""

    path: Path  # its directory, or the file that holds it with others
    config: Config
    planned: int  # steps: the config's, or those of a plan that has grown since
    reached: int  # steps
    finished: bool
    steps: np.ndarray  # of its evaluations
    scores: np.ndarray  # their means
    training: Table  # the scores of training episodes; empty if they were not kept
    timing: Timing | None  # if it was written
    calibration: Table  # its columns; empty if it was not written
    made: tuple[Json, ...]  # what made it; one more entry each time it was resumed
    label: str = ""  # what a report calls its agent, which depends on the others in it

    @cached_property
    def record(self) -> Record:
        """The agent that was trained."""
        return Record.of(self.config, self._passed.get("family"))

    @property
    def names(self) -> tuple[str, ...]:
        """The settings that its agent is named by."""
        return self.config.changed

    @property
    def agent(self) -> str:
        return self.label or self.record.variant(self.names).label

    @property
    def env(self) -> str:
        return str(self._passed.get("env") or self.config.env)

    @property
    def _passed(self) -> Json:
        """What made it, with `family` and `env` if they were passed to `train`."""
        return self.made[-1] if self.made else {}

    @property
    def key(self) -> Key:
        return (self.agent, self.env, self.config.seed)

    @property
    def final(self) -> float:
        """The mean of its last evaluations; nan if it has none."""
        return float(self.scores[-LAST:].mean()) if len(self.scores) else np.nan

    @property
    def final_training(self) -> float:
        """The mean score of the training episodes in its last tenth; nan if it is not known."""
        return final_training_score(self.training, self.reached)

    @property
    def calibrated(self) -> Calibration | None:
        """Learnt distributions beside the returns, averaged over its last evaluations."""
        if not self.calibration["step"]:
            return None
        last = {name: float(np.mean(rows[-LAST:])) for name, rows in self.calibration.items()}
        returns = round(last.pop("returns"))
        last.pop("step")
        return Calibration(returns, **last)

    @property
    def maximum(self) -> float:
        """The highest evaluation of its training, as in the paper's table."""
        return float(self.scores.max()) if len(self.scores) else np.nan


def read_run(path: Path, goals: Goals) -> RunResult:
    """The run in a directory; plans may have grown since it was begun."""
    config = read_config(path)
    evaluations = numbers(path / "evaluations.csv", ("step", "mean"))
    check_increasing(path / "evaluations.csv", "steps", evaluations["step"])
    goal = max(config.steps, goals.get((Record.of(config), config.env, config.seed), 0))
    return RunResult(
        path=path,
        config=config,
        planned=goal,
        reached=max([steps_done(path), *map(int, evaluations["step"])]),
        finished=finished(path, dataclasses.replace(config, steps=goal)),
        steps=np.array(evaluations["step"], np.int64),
        scores=np.array(evaluations["mean"], np.float64),
        training=read_training_scores(path, goal),
        timing=timing_of(path),
        # A network that diverges expects nan.
        calibration=numbers(
            path / "calibration.csv", CALIBRATION[:-2], rough=CALIBRATION[2:], optional=BOUNDS
        ),
        made=tuple(read_provenance(path)),
    )


def write_runs(path: Path, runs: Iterable[RunResult], plans: Iterable[PlannedRun]) -> None:
    """Write all that a report needs of its runs to one file, from which it can be made again.

    The names of directories and hosts stay behind.
    """
    lines = ",\n".join(json.dumps(_entry(run), ensure_ascii=False) for run in runs)
    planned = json.dumps(_plan_entries(plans), ensure_ascii=False)
    text = f'{{"version": {VERSION}, "planned": {planned}, "runs": [\n{lines}\n]}}\n'
    replace_text(path, text)  # it may be the only copy


def _entry(run: RunResult) -> Json:
    return {
        "config": json.loads(run.config.to_json()),
        "planned": run.planned,
        "reached": run.reached,
        "finished": run.finished,
        "steps": run.steps.tolist(),
        "scores": run.scores.tolist(),
        "training": run.training,
        "timing": None if run.timing is None else dataclasses.asdict(run.timing),
        "calibration": run.calibration,
        "made": [_without_host(maker) for maker in run.made],
    }


def _without_host(maker: Json) -> Json:
    machine = maker.get("machine")
    if not isinstance(machine, dict):
        return maker
    kept = {name: value for name, value in machine.items() if name != "host"}
    return {**maker, "machine": kept}


def _plan_entries(plans: Iterable[PlannedRun]) -> list[Json]:
    """The planned runs of each agent, whose settings are written once."""
    entries: dict[tuple[Record, tuple[str, ...]], list[tuple[str, int, int]]] = {}
    for plan in plans:
        rows = entries.setdefault((plan.record, plan.names), [])
        rows.append((plan.env, plan.seed, plan.steps))
    return [
        {"agent": record.base, "names": names, "settings": record.values, "runs": sorted(rows)}
        for (record, names), rows in entries.items()
    ]


def read_runs(path: Path) -> tuple[list[RunResult], list[PlannedRun]]:
    """The runs in a file that `write_runs` wrote, and the plan."""
    content = read_object(path)
    try:
        if content["version"] not in (1, VERSION):
            right = f"it must be 1 or {VERSION} for this version of edrl"
            raise fail("version", content["version"], right)
        runs = [_from_entry(path, entry) for entry in content["runs"]]
        if content["version"] == 1:
            return runs, _plan_of_labels(content["planned"], runs)
        return runs, _plan_of_entries(content["planned"])
    except KeyError as error:
        raise ValueError(f"{path} cannot be read: it has no {error}") from error
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def _from_entry(path: Path, entry: Json) -> RunResult:
    check_run_entry(entry)
    config = Config.from_entries(entry["config"])
    goal = dataclasses.replace(config, steps=entry["planned"])
    if "finished" not in entry:  # format 1: `ended` says whether there was a last checkpoint
        written = tables_finished(goal, entry["reached"], max(entry["steps"], default=0))
        entry["finished"] = entry["ended"] or written
    return RunResult(
        path=path,
        config=config,
        planned=entry["planned"],
        reached=entry["reached"],
        finished=entry["finished"],
        steps=np.array(entry["steps"], np.int64),
        scores=np.array(entry["scores"], np.float64),
        training=entry.get("training", from_rows(TRAINING, ())),  # older files lack it
        timing=None if entry["timing"] is None else Timing(**entry["timing"]),
        calibration=entry["calibration"],
        made=tuple(entry["made"]),
    )


def _plan_of_entries(entries: Iterable[Json]) -> list[PlannedRun]:
    plans = []
    for entry in entries:
        check_plan_entry(entry)
        settings = {name: _plain(value) for name, value in entry["settings"].items()}
        record = Record.kept(entry["agent"], settings)
        rows = entry["runs"]
        plans += [PlannedRun(record, tuple(entry["names"]), *row) for row in rows]
    return plans


def _plain(value: Value | list[float]) -> Value:
    return tuple(value) if isinstance(value, list) else value


def _plan_of_labels(
    rows: Iterable[tuple[str, str, int, int]], runs: Iterable[RunResult]
) -> list[PlannedRun]:
    """Format 1 names planned agents by their labels; the runs in the same file know the rest."""
    known: dict[str, RunResult] = {}
    for run in runs:
        known.setdefault(_label_before(run), run)
    plans = []
    for row in rows:
        check_planned_row(row, 2)
        label, env, seed, steps = row
        like = known.get(label)
        record, names = (Record(label), ()) if like is None else (like.record, like.names)
        plans.append(PlannedRun(record, names, env, seed, steps))
    return plans


def _label_before(run: RunResult) -> str:
    """What format 1 called an agent: by its imputation alone."""
    names = [name for name in ("imputation",) if name in run.names]
    return run.record.variant(names).label
