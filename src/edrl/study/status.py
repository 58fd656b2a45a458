"""How far a study has come, as its directory says: whoever works on it, from wherever one looks."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edrl.study.locks import is_locked
from edrl.study.plan import Planned
from edrl.study.timing import seconds_spent
from edrl.study.work import is_done, last_row, machine_of, steps_done, why_failed

State = Literal["done", "running", "failed", "waiting"]


@dataclass(frozen=True)
class RunStatus:
    """Where a run is."""

    name: str
    agent: str  # as reports call it
    env: str
    state: State
    step: int
    steps: int
    seconds: float  # spent so far
    score: str  # of the last evaluation
    machine: str
    reason: str  # why it failed


def look_at(study: Path, run: Planned) -> RunStatus:
    """Look at one run."""
    out = study / run.name
    done = is_done(study, run.name, run.config)
    reason = why_failed(out)
    state: State = "done" if done else "running" if is_locked(out / "lock") else "failed" if reason else "waiting"
    return RunStatus(
        run.name, run.config.label, run.config.env, state, run.config.steps if done else steps_done(out),
        run.config.steps, seconds_spent(out), last_row(out / "evaluations.csv").get("mean", ""), machine_of(out),
        reason if state == "failed" else "",
    )  # fmt: skip


def count_states(statuses: Sequence[RunStatus]) -> Counter[State]:
    """How many runs are in each state."""
    return Counter(status.state for status in statuses)
