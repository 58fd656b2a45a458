"""What a run has left behind: read from its directory, or from the file in which a report keeps all of its runs.

Nothing is assumed to be complete: runs may be unfinished, or made by versions that did not write every file.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edrl.core.check import fail
from edrl.deep.calibration import CALIBRATION, Calibration
from edrl.deep.checkpoint import replace_text
from edrl.deep.config import Config, read_config
from edrl.study.tables import Table
from edrl.study.timing import Timing, timing_of
from edrl.study.work import is_done, numbers, steps_done

LAST = 3  # evaluations that make a run's final score
RUNS = "runs.json"
VERSION = 1

Key = tuple[str, str, int]
"""What tells runs apart: agent, game, seed."""


@dataclass(frozen=True)
class RunResult:
    """One run, as far as it has come."""

    path: Path  # its directory, or the file that holds it with others
    config: Config
    planned: int  # steps: the config's, or those of a plan that has grown since
    reached: int  # steps
    steps: np.ndarray  # of its evaluations
    scores: np.ndarray  # their means
    ended: bool  # whether there is a checkpoint of its last step
    timing: Timing | None  # if it was written
    calibration: Table  # its columns; empty if it was not written
    made: tuple[dict[str, Any], ...]  # by what; one more each time it was resumed

    @property
    def statistics(self) -> str:
        """What its label stands for: the config's agent, or statistics that were passed beside it."""
        return str(self._passed.get("family", self.config.agent))

    @property
    def agent(self) -> str:
        return self.statistics.partition("(")[0] if "family" in self._passed else self.config.label

    @property
    def env(self) -> str:
        return str(self._passed.get("env", self.config.env))

    @property
    def _passed(self) -> dict[str, Any]:
        """What made it, with `family` and `env` if they were passed to `train`: then always the same ones."""
        return self.made[-1] if self.made else {}

    @property
    def key(self) -> Key:
        return (self.agent, self.env, self.config.seed)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do, or at least to log and to evaluate: the checkpoints may not have been kept."""
        every = self.config.evaluate_every or self.planned + 1
        evaluated = int(self.steps[-1]) if len(self.steps) else 0
        logged = self.reached >= self.planned - self.planned % self.config.log_every > 0
        return self.ended or evaluated >= self.planned or (logged and evaluated >= self.planned - self.planned % every)

    @property
    def final(self) -> float:
        """The mean of its last evaluations; nan if it has none."""
        return float(self.scores[-LAST:].mean()) if len(self.scores) else np.nan

    @property
    def calibrated(self) -> Calibration | None:
        """The learnt laws beside the returns, averaged over its last evaluations."""
        if not self.calibration["step"]:
            return None
        _, returns, *averages = (float(np.mean(self.calibration[name][-LAST:])) for name in CALIBRATION)
        return Calibration(round(returns), *averages)

    @property
    def maximum(self) -> float:
        """The highest evaluation of its training, as in the paper's table."""
        return float(self.scores.max()) if len(self.scores) else np.nan


def read_run(path: Path, planned: Mapping[Key, int]) -> RunResult:
    """The run in a directory; `planned` are the steps of plans, which may have grown since it was begun."""
    config = read_config(path)
    evaluations = numbers(path / "evaluations.csv", ("step", "mean"))
    steps, scores = np.array(evaluations["step"], np.int64), np.array(evaluations["mean"], np.float64)
    calibration = numbers(path / "calibration.csv", CALIBRATION)
    made = read_json(path / "provenance.json") if (path / "provenance.json").exists() else []
    goal = max(config.steps, planned.get((config.label, config.env, config.seed), 0))
    reached = max([steps_done(path), *steps.tolist()])
    ended = is_done(path, ".", dataclasses.replace(config, steps=goal))
    makers = tuple(made) if isinstance(made, list) else (made,)
    return RunResult(path, config, goal, reached, steps, scores, ended, timing_of(path), calibration, makers)


def read_json(path: Path) -> Any:
    """What a file holds; if it is damaged, the error names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def write_runs(path: Path, runs: Iterable[RunResult], planned: Mapping[Key, int]) -> None:
    """Write all that a report needs of its runs to one file: they need not be there to be compared with others.

    The names of directories and hosts stay behind.
    """
    lines = ",\n".join(json.dumps(_entry(run), ensure_ascii=False) for run in runs)
    plan = json.dumps([[*key, steps] for key, steps in sorted(planned.items())], ensure_ascii=False)
    replace_text(path, f'{{"version": {VERSION}, "planned": {plan}, "runs": [\n{lines}\n]}}\n')  # the only copy, maybe


def _entry(run: RunResult) -> dict[str, Any]:
    made = [
        {**maker, "machine": {name: value for name, value in maker["machine"].items() if name != "host"}}
        if isinstance(maker.get("machine"), dict)
        else maker
        for maker in run.made
    ]
    return {
        "config": json.loads(run.config.to_json()),
        "planned": run.planned,
        "reached": run.reached,
        "ended": run.ended,
        "steps": run.steps.tolist(),
        "scores": run.scores.tolist(),
        "timing": None if run.timing is None else dataclasses.asdict(run.timing),
        "calibration": run.calibration,
        "made": made,
    }


def read_runs(path: Path) -> tuple[list[RunResult], dict[Key, int]]:
    """The runs in a file that `write_runs` wrote, and the plan."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["version"] != VERSION:
            raise fail("version", content["version"], f"this version of edrl reads {VERSION}")
        planned = {(agent, env, seed): steps for agent, env, seed, steps in content["planned"]}
        return [_from_entry(path, entry) for entry in content["runs"]], planned
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def _from_entry(path: Path, entry: dict[str, Any]) -> RunResult:
    timing = None if entry["timing"] is None else Timing(**entry["timing"])
    return RunResult(
        path, Config.from_json(json.dumps(entry["config"])), entry["planned"], entry["reached"],
        np.array(entry["steps"], np.int64), np.array(entry["scores"], np.float64), entry["ended"], timing,
        entry["calibration"], tuple(entry["made"]),
    )  # fmt: skip
