"""How long the steps of a run took, as its timing.csv says.

A row is a step, and the seconds since the row before. Where a run began, or went on after it had
been stopped, a row of 0 seconds says at which step. Rows stay when a run is killed: its steps since
the last checkpoint are then done twice.
"""

from dataclasses import dataclass
from pathlib import Path

from edrl.study.progress import numbers


@dataclass(frozen=True)
class Timing:
    """How long steps took.

    If a process ended between two checkpoints, steps were done twice. They count once.
    """

    steps: int
    seconds: float
    seconds_done_twice: float


@dataclass(frozen=True)
class _Stretch:
    """Steps that followed each other, and the time they took."""

    start: int
    end: int
    seconds: float

    def reaches_into(self, step: int) -> bool:
        """Whether some of it lies before a step."""
        return self.start < step or self.end <= step

    def until(self, step: int) -> "_Stretch":
        """The part of it before a step, the time shared evenly."""
        if self.end <= step:
            return self
        share = max(0, step - self.start) / (self.end - self.start)
        return _Stretch(self.start, max(self.start, step), share * self.seconds)


def timing_of(out: Path, after: int = 0) -> Timing | None:
    """The timing of what a run did from the step `after` on; None if nothing was timed."""
    stretches = _stretches(out)
    timed = [stretch for stretch in stretches if stretch.start >= after]
    seconds = _total_seconds(timed)
    steps = sum(stretch.end - stretch.start for stretch in timed)
    if not (steps > 0 and seconds > 0):
        return None
    return Timing(steps, seconds, seconds_spent(out) - _total_seconds(stretches))


def _total_seconds(stretches: list[_Stretch]) -> float:
    return sum(stretch.seconds for stretch in stretches)


def seconds_spent(out: Path) -> float:
    """The seconds that a run has taken so far, with those of steps that were done twice."""
    return sum(_rows(out)["seconds"])


def _stretches(out: Path) -> list[_Stretch]:
    """What a run did, from the first step to the last, without steps that were done again."""
    rows, kept, at = _rows(out), list[_Stretch](), 0
    for step, seconds in zip(map(int, rows["step"]), rows["seconds"], strict=True):
        if step < at:  # it was killed: what came after its checkpoint is to be done again
            kept = [stretch.until(step) for stretch in kept if stretch.reaches_into(step)]
        kept.append(_Stretch(min(at, step), step, seconds))
        at = step
    return kept


def _rows(out: Path) -> dict[str, list[float]]:
    return numbers(out / "timing.csv", ("step", "seconds"))
