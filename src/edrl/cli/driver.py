"""Running what is planned, on this machine or on a Ray cluster, and showing how far it is."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from edrl.cli.status_tables import at_work, counts, overview, progress, status_table
from edrl.core.check import check_count, check_directory, check_number, fail
from edrl.core.words import count, form
from edrl.deep.config import Config
from edrl.deep.variant import labels
from edrl.study.estimate import (
    Estimate,
    estimate,
    fitting_jobs,
    kind_of,
    sizes_of,
    unfinished,
)
from edrl.study.local import run_here
from edrl.study.locks import Taken, locked
from edrl.study.plan import Planned, added_to_plan, read_plan, write_plan
from edrl.study.ray_backend import run_on_ray
from edrl.study.status import RunStatus, look_at
from edrl.study.work import forget_failure

_CALLBACKS = ("edrl.report.return_pictures:ReturnPictures",)  # that watch each run
_SECONDS = 2.0  # between two looks at the runs


def attempt(console: Console, command: Callable[[], int]) -> int:
    """Run a command, show the error that stops it, and return the exit status."""
    try:
        return command()
    except (KeyboardInterrupt, SystemExit) as stop:  # the latter is SIGTERM's, if Ray is there
        console.print("Stopped; what was begun is saved. The same command goes on.")
        return 130 if isinstance(stop, KeyboardInterrupt) else 143
    except (ValueError, ImportError, RuntimeError, OSError, Taken) as error:
        console.print(Text(str(error), style="red"), soft_wrap=True)
        return 2


@dataclass(frozen=True)
class Driver:
    """Works on the study in a directory: what is planned is added to it, and what is missing is
    run."""

    console: Console
    out: Path
    jobs: int | None
    cpus: int
    gpus: float
    ray: str | None

    def __post_init__(self) -> None:
        check_directory("out", self.out)
        check_count("cpus", self.cpus, 1)
        check_number("gpus", self.gpus, 0.0)
        if self.jobs is not None:
            check_count("jobs", self.jobs, 1)
        self._check_ray()

    def _check_ray(self) -> None:
        """Some flags are for Ray alone, and some for this machine alone."""
        if self.jobs is not None and self.ray is not None:
            right = "with --ray the cluster's room decides: say what a run needs with --cpus"
            raise fail("jobs", self.jobs, right)
        if self.gpus and self.ray is None:
            right = "it is for --ray: without it, every run sees all GPUs of this machine"
            raise fail("gpus", self.gpus, right)

    def estimate(self, planned: Sequence[Planned]) -> int:
        """Show what it would take, write nothing, and return the exit status."""
        self._check(planned)
        self._show_estimate(added_to_plan(self.out, planned))
        return 0

    def run(self, planned: Sequence[Planned]) -> int:
        """Run what is missing, and return the exit status."""
        self._check(planned)
        with locked(self.out / "driver.lock"):
            # First the estimate: what does not run is not to be planned.
            jobs = self._show_estimate(added_to_plan(self.out, planned))
            runs = write_plan(self.out, planned)
            left = unfinished(self.out, runs)
            failed = self._work(left, runs, jobs) if left else []
        return _conclude(self.console, self.out, runs, failed)

    def _check(self, planned: Sequence[Planned]) -> None:
        for run in planned:
            sizes_of(kind_of(run.config))  # builds the agent: one that cannot be is not planned
        if not all(is_evaluated(run.config) for run in planned):
            text = (
                "Some runs are never evaluated (evaluate_every), and a report is about evaluations."
            )
            self.console.print(Text(text, style="yellow"), soft_wrap=True)

    def _show_estimate(self, runs: Sequence[Planned]) -> int:
        """Show what is left; returns how many runs there will be at once."""
        jobs = self.jobs or self._jobs_that_fit(runs)
        found = estimate(self.out, runs, jobs, self.cpus)
        if found.runs:
            _show_estimate(self.console, found, len(runs), jobs, self.ray)
        else:
            self.console.print(_all_done(len(runs)), highlight=False)
        return jobs

    def _jobs_that_fit(self, runs: Sequence[Planned]) -> int:
        return fitting_jobs(runs, self.cpus) if self.ray is None else len(runs)

    def _work(self, left: Sequence[Planned], runs: Sequence[Planned], jobs: int) -> list[str]:
        for run in left:
            forget_failure(self.out / run.name)
        with Live(console=self.console, refresh_per_second=1, transient=True) as live:
            look = _Watch(live, self.out, runs)
            if self.ray is None:
                return run_here(self.out, left, jobs, self.cpus, look, _CALLBACKS)
            return run_on_ray(self.out, left, self.ray, self.cpus, self.gpus, look, _CALLBACKS)


class _Watch:
    """Shows how far the runs of a study are whenever it is called, but not too often."""

    def __init__(self, live: Live, study: Path, runs: Sequence[Planned]) -> None:
        self._live, self._study, self._runs = live, study, runs
        self._done: dict[str, RunStatus] = {}  # which need not be looked at again
        self._next_look = 0.0

    def __call__(self) -> None:
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _SECONDS
        # A file server that does not answer now is no reason to end the runs.
        with suppress(OSError):
            self._live.update(progress([self._status(run) for run in self._runs]))

    def _status(self, run: Planned) -> RunStatus:
        if run.name in self._done:
            return self._done[run.name]
        status = look_at(self._study, run)
        if status.state == "done":
            self._done[run.name] = status
        return status


def is_evaluated(config: Config) -> bool:
    """Whether a run is evaluated at least once."""
    return 0 < config.evaluate_every <= config.steps


def _show_estimate(
    console: Console, found: Estimate, runs: int, jobs: int, ray: str | None
) -> None:
    called = labels(found.speeds)
    speeds = ", ".join(f"{called[agent]} {speed:,.0f}" for agent, speed in found.speeds.items())
    where = f"on this machine, {jobs} at once"
    if ray is not None:
        where = f"on Ray ({ray}), all at once if it has the room"
    left = f"{count(runs, 'run')} {form(found.runs, 'is', 'are')} left"
    console.print(
        f"{found.runs} of {left}: {found.steps:,} agent steps, about"
        f" {_duration(found.hours)} {where}; {found.disk / 1e9:,.1f} GB of disk,"
        f" {found.memory / 1e9:,.1f} GB of memory for each run"
        " at most.\n"
        f"Agent steps a second on this machine: {speeds}.",
        soft_wrap=True,
        highlight=False,
    )


def _all_done(runs: int) -> str:
    return "The run is done." if runs == 1 else f"All {runs} runs are done."


def _duration(hours: float) -> str:
    return f"{hours:,.1f} hours" if hours >= 1 else f"{max(1, round(60 * hours))} min"


def show_status(console: Console, study: Path) -> int:
    """Show how far the study in a directory is, and return the exit status."""
    statuses = [look_at(study, run) for run in read_plan(study)]
    console.print(overview(statuses))
    if shown := at_work(statuses):
        console.print(status_table(shown))
    console.print(counts(statuses), highlight=False)
    return 0


def _conclude(console: Console, study: Path, runs: Sequence[Planned], failed: Sequence[str]) -> int:
    statuses = [look_at(study, run) for run in runs]
    if failed:
        console.print(status_table([status for status in statuses if status.name in failed]))
    console.print(f"{counts(statuses)}.", soft_wrap=True, highlight=False)
    return int(bool(failed))
