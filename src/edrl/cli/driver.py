"""Running what is planned, on this machine or on a Ray cluster, and showing how far it is."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from edrl.core.check import check_count, check_directory, check_number, fail
from edrl.deep.variant import labels
from edrl.study.estimate import Estimate, estimate, fitting_jobs, kind_of, sizes_of
from edrl.study.local import run_here
from edrl.study.locks import Taken, locked
from edrl.study.plan import Planned, added_to_plan, read_plan, write_plan
from edrl.study.progress import finished
from edrl.study.ray_backend import run_on_ray
from edrl.study.status import RunStatus, count_states, look_at
from edrl.study.work import forget_failure

_CALLBACKS = ("edrl.report.return_pictures:ReturnPictures",)  # that watch each run
_SECONDS = 2.0  # between two looks at the runs
_COLOURS = {"done": "green", "running": "cyan", "failed": "red", "waiting": "dim"}


def attempt(console: Console, command: Callable[[], int]) -> int:
    """The exit status of a command that runs a study; what keeps it from its end is said."""
    try:
        return command()
    except (
        KeyboardInterrupt,
        SystemExit,
    ) as stop:  # of which the latter is SIGTERM's, if Ray is there
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
            if self.ray is not None:
                raise fail(
                    "jobs",
                    self.jobs,
                    "with --ray the cluster's room decides: say what a run needs with --cpus",
                )
        if self.gpus and self.ray is None:
            raise fail(
                "gpus",
                self.gpus,
                "it is for --ray: without it, every run sees all GPUs of this machine",
            )

    def estimate(self, planned: Sequence[Planned]) -> int:
        """Show what it would take, write nothing, and return the exit status."""
        self._check(planned)
        self._show_estimate(added_to_plan(self.out, planned))
        return 0

    def run(self, planned: Sequence[Planned]) -> int:
        """Run what is missing, and return the exit status."""
        self._check(planned)
        with locked(self.out / "driver.lock"):
            jobs = self._show_estimate(
                added_to_plan(self.out, planned)
            )  # what does not run is not to be planned
            runs = write_plan(self.out, planned)
            left = [run for run in runs if not finished(self.out / run.name, run.config)]
            failed = self._work(left, runs, jobs) if left else []
        return _conclude(self.console, self.out, runs, failed)

    def _check(self, planned: Sequence[Planned]) -> None:
        for run in planned:
            sizes_of(
                kind_of(run.config)
            )  # builds the agent: one that cannot be is not to be planned
        if any(
            run.config.evaluate_every > run.config.steps or not run.config.evaluate_every
            for run in planned
        ):
            text = (
                "Some runs are never evaluated (evaluate_every), and a report is about evaluations."
            )
            self.console.print(Text(text, style="yellow"), soft_wrap=True)

    def _show_estimate(self, runs: Sequence[Planned]) -> int:
        """Show what is left; returns how many runs there will be at once."""
        jobs = self.jobs or (fitting_jobs(runs, self.cpus) if self.ray is None else len(runs))
        found = estimate(self.out, runs, jobs, self.cpus)
        if found.runs:
            _show_estimate(self.console, found, len(runs), jobs, self.ray)
        else:
            self.console.print(f"All {len(runs)} runs are done.", highlight=False)
        return jobs

    def _work(self, left: Sequence[Planned], runs: Sequence[Planned], jobs: int) -> list[str]:
        for run in left:
            forget_failure(self.out / run.name)
        with Live(console=self.console, refresh_per_second=1, transient=True) as live:
            done: dict[str, RunStatus] = {}
            looked = [0.0]

            def look() -> None:
                if time.monotonic() < looked[0] + _SECONDS:
                    return
                looked[0] = time.monotonic()
                try:
                    statuses = [done.get(run.name) or look_at(self.out, run) for run in runs]
                except (
                    OSError
                ):  # a file server that does not answer now is no reason to end the runs
                    return
                done.update({status.name: status for status in statuses if status.state == "done"})
                live.update(_progress(statuses))

            if self.ray is None:
                return run_here(self.out, left, jobs, self.cpus, look, _CALLBACKS)
            return run_on_ray(self.out, left, self.ray, self.cpus, self.gpus, look, _CALLBACKS)


def _show_estimate(
    console: Console, found: Estimate, runs: int, jobs: int, ray: str | None
) -> None:
    called = labels(found.speeds)
    speeds = ", ".join(f"{called[agent]} {speed:,.0f}" for agent, speed in found.speeds.items())
    where = (
        f"on this machine, {jobs} at once"
        if ray is None
        else f"on Ray ({ray}), all at once if it has the room"
    )
    console.print(
        f"{found.runs} of {runs} runs are left: {found.steps:,} agent steps, about"
        f" {_duration(found.hours)} {where}; {found.disk / 1e9:,.1f} GB of disk,"
        f" {found.memory / 1e9:,.1f} GB of memory for each run"
        " at most.\n"
        f"Agent steps a second on this machine: {speeds}.",
        soft_wrap=True,
        highlight=False,
    )


def _duration(hours: float) -> str:
    return f"{hours:,.1f} hours" if hours >= 1 else f"{max(1, round(60 * hours))} min"


def _progress(statuses: Sequence[RunStatus]) -> Table:
    """What is running, and counts of the rest."""
    shown = _status_table(_at_work(statuses))
    shown.caption = _counts(statuses)
    return shown


def _at_work(statuses: Sequence[RunStatus]) -> list[RunStatus]:
    return [status for status in statuses if status.state in ("running", "failed")]


def _counts(statuses: Sequence[RunStatus]) -> str:
    counts = count_states(statuses)
    steps, planned = (
        sum(status.step for status in statuses),
        sum(status.steps for status in statuses),
    )
    listed = ", ".join(
        f"{counts[state]} {state}" for state in ("done", "running", "failed", "waiting")
    )
    return f"{listed}; {steps:,} of {planned:,} steps ({steps / max(1, planned):.0%})"


def _status_table(statuses: Sequence[RunStatus]) -> Table:
    table = Table()
    table.add_column("run", overflow="fold")
    for name in ("state", "steps", "steps/s", "score"):
        table.add_column(name, no_wrap=True)
    table.add_column("where, or why not", overflow="fold")
    for status in statuses:
        table.add_row(
            status.name,
            Text(status.state, style=_COLOURS[status.state]),
            f"{status.step / status.steps:.0%}",
            f"{status.step / status.seconds:,.0f}" if status.seconds else "",
            f"{float(status.score):.2f}" if status.score else "",
            Text(status.reason or status.machine),
        )
    return table


def show_status(console: Console, study: Path) -> int:
    statuses = [look_at(study, run) for run in read_plan(study)]
    console.print(_overview(statuses))
    if at_work := _at_work(statuses):
        console.print(_status_table(at_work))
    console.print(_counts(statuses), highlight=False)
    return 0


def _overview(statuses: Sequence[RunStatus]) -> Table:
    """Games by agents: how many runs are done, of how many."""
    agents = labels(status.agent for status in statuses)
    table = Table()
    table.add_column("runs done", no_wrap=True)
    for label in agents.values():
        table.add_column(label, overflow="fold")  # whole in a narrow terminal, too
    for env in dict.fromkeys(status.env for status in statuses):
        here = [status for status in statuses if status.env == env]
        cells = [_cell([status for status in here if status.agent == agent]) for agent in agents]
        table.add_row(env, *cells)
    return table


def _cell(statuses: Sequence[RunStatus]) -> Text:
    """How many are done, in the colour of what is wrong, or else of what is going on."""
    counts = count_states(statuses)
    state = next((state for state in ("failed", "running", "waiting") if counts[state]), "done")
    text = f"{counts['done']} of {counts.total()}" if statuses else ""
    return Text(text, style=_COLOURS[state])


def _conclude(console: Console, study: Path, runs: Sequence[Planned], failed: Sequence[str]) -> int:
    statuses = [look_at(study, run) for run in runs]
    if failed:
        console.print(_status_table([status for status in statuses if status.name in failed]))
    console.print(f"{_counts(statuses)}.", soft_wrap=True, highlight=False)
    return 1 if failed else 0
