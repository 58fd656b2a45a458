"""How far a study has come, read from its directory, whatever process works on it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edrl.deep.config import Config
from edrl.deep.variant import Variant
from edrl.study.locks import is_locked
from edrl.study.plan import Planned
from edrl.study.progress import finished, last_row, machine_of, steps_done
from edrl.study.timing import seconds_spent
from edrl.study.work import why_failed

State = Literal["done", "running", "failed", "waiting"]


@dataclass(frozen=True)
class RunStatus:
    """Where a run is."""

    name: str
    agent: Variant
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
    state = _state(out, run.config)
    return RunStatus(
        name=run.name,
        agent=run.config.variant,
        env=run.config.env,
        state=state,
        step=run.config.steps if state == "done" else steps_done(out),
        steps=run.config.steps,
        seconds=seconds_spent(out),
        score=last_row(out / "evaluations.csv").get("mean", ""),
        machine=machine_of(out),
        reason=why_failed(out) if state == "failed" else "",
    )


def _state(out: Path, config: Config) -> State:
    if finished(out, config):
        return "done"
    if is_locked(out / "lock"):
        return "running"
    return "failed" if why_failed(out) else "waiting"


def count_states(statuses: Sequence[RunStatus]) -> Counter[State]:
    """How many runs are in each state."""
    return Counter(status.state for status in statuses)
