"""`edrl suite`: many runs, on this machine or on a Ray cluster."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from edrl.core.check import check_count, check_directory, check_number, fail
from edrl.deep.config import PresetName
from edrl.studies.estimate import Estimate, estimate, fitting_jobs, kind_of, sizes_of
from edrl.studies.local import run_here
from edrl.studies.plan import Planned, added_to_plan, parse_settings, plan, read_plan, write_plan
from edrl.studies.ray_backend import run_on_ray
from edrl.studies.status import RunStatus, count_states, look_at
from edrl.studies.work import Taken, is_done, locked

_SECONDS = 2.0  # between two looks at the runs
_COLOURS = {"done": "green", "running": "cyan", "failed": "red", "waiting": "dim"}


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Run a study: every game with every agent and every seed.

    The same command again goes on with what is missing; a larger one (more games, agents, seeds or steps) adds to the
    study. Ctrl-C saves every run. `edrl suite --status DIR` shows how far it is, `edrl report DIR` what came out.

    Examples: `edrl suite --games minatar5 --agents er-dqn qr-dqn --seeds 5 --preset minatar --out studies/minatar`,
    `edrl suite --games atari57 --agents er-dqn qr-dqn --preset paper --ray auto --gpus 0.25 --out DIR`,
    `edrl suite --games pong --agents er-dqn --set steps=1000000 er-dqn.learning_rate=1e-4 --out DIR`.
    """

    games: tuple[str, ...] = ()
    """atari57, minatar5, or games by their names."""
    agents: tuple[str, ...] = ("er-dqn", "qr-dqn", "er-dqn-naive", "dqn", "c51")
    """Agents by their names; with another imputation as AGENT:IMPUTATION, e.g. er-dqn:scipy-root."""
    seeds: int = 3
    """How many seeds: 0, 1, 2, ..."""
    first_seed: int = 0
    """The first of them; others than the study's own are for choosing settings."""
    preset: PresetName = "paper"
    """Where the settings come from: paper (Atari), minatar, classic or quick."""
    set: tuple[str, ...] = ()
    """Other settings: NAME=VALUE for all agents, AGENT.NAME=VALUE for one (names as in `edrl train --help`, with _)."""
    out: Path | None = None
    """The study's directory; with Ray, one that all nodes share."""
    jobs: int | None = None
    """How many runs at once on this machine; by default as many as it has cores and memory for."""
    cpus: int = 1
    """CPUs, and so threads, of a run."""
    gpus: float = 0.0
    """With --ray: GPUs of a run; several runs can share one."""
    ray: str | None = None
    """Run on Ray: the address of a cluster, `auto` on one of its nodes, or `local` for one on this machine."""
    dry_run: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Plan and estimate only."""
    status: Path | None = None
    """Show how far the study in this directory is, and do nothing."""

    def __call__(self) -> int:
        """Run the study, and return the exit status."""
        console = Console()
        try:
            if self.status is not None:
                return _show_status(console, self.status)
            return self._run(console)
        except KeyboardInterrupt:
            console.print("Stopped; every run is saved. The same command goes on.")
            return 130
        except (ValueError, ImportError, RuntimeError, OSError, Taken) as error:
            console.print(Text(str(error), style="red"), soft_wrap=True)
            return 2

    def _run(self, console: Console) -> int:
        if self.out is None:
            raise fail("out", None, "say where the study goes with --out, or which to look at with --status")
        check_directory("out", self.out)
        check_count("cpus", self.cpus, 1)
        check_number("gpus", self.gpus, 0.0)
        if self.jobs is not None:
            check_count("jobs", self.jobs, 1)
        planned = plan(self.games, self.agents, self.seeds, self.preset, parse_settings(self.set), self.first_seed)
        for run in planned:
            sizes_of(kind_of(run.config))  # builds the agent: one that cannot be is not to be planned
        if self.dry_run:
            self._estimate(console, added_to_plan(self.out, planned))
            return 0
        with locked(self.out / "driver.lock"):
            runs = write_plan(self.out, planned)
            jobs = self._estimate(console, runs)
            left = [run for run in runs if not is_done(self.out, run.name, run.config)]
            failed = self._work(console, left, runs, jobs) if left else []
        return _conclude(console, self.out, runs, failed)

    def _estimate(self, console: Console, runs: Sequence[Planned]) -> int:
        """Show what is left; returns how many runs there will be at once."""
        assert self.out is not None
        jobs = self.jobs or (fitting_jobs(runs, self.cpus) if self.ray is None else len(runs))
        found = estimate(self.out, runs, jobs, self.cpus)
        if found.runs:
            _show_estimate(console, found, len(runs), jobs, self.ray)
        else:
            console.print(f"All {len(runs)} runs are done.", highlight=False)
        return jobs

    def _work(self, console: Console, left: Sequence[Planned], runs: Sequence[Planned], jobs: int) -> list[str]:
        assert self.out is not None
        study = self.out
        with Live(console=console, refresh_per_second=1, transient=True) as live:
            done: dict[str, RunStatus] = {}
            looked = [0.0]

            def look() -> None:
                if time.monotonic() < looked[0] + _SECONDS:
                    return
                statuses = [done.get(run.name) or look_at(study, run) for run in runs]
                done.update({status.name: status for status in statuses if status.state == "done"})
                live.update(_progress(statuses))
                looked[0] = time.monotonic()

            if self.ray is None:
                return run_here(study, left, jobs, self.cpus, look)
            return run_on_ray(study, left, self.ray, self.cpus, self.gpus, look)


def _show_estimate(console: Console, found: Estimate, runs: int, jobs: int, ray: str | None) -> None:
    speeds = ", ".join(f"{agent} {speed:,.0f}" for agent, speed in found.speeds.items())
    where = f"on this machine, {jobs} at once" if ray is None else f"on Ray ({ray}), all at once if it has the room"
    console.print(
        f"{found.runs} of {runs} runs are left: {found.steps:,} agent steps, about {_duration(found.hours)} {where};"
        f" {found.disk / 1e9:,.1f} GB of disk, {found.memory / 1e9:,.1f} GB of memory for each run at most.\n"
        f"Agent steps a second on this machine: {speeds}.",
        soft_wrap=True,
        highlight=False,
    )


def _duration(hours: float) -> str:
    return f"{hours:,.1f} hours" if hours >= 1 else f"{max(1, round(60 * hours))} min"


def _progress(statuses: Sequence[RunStatus]) -> Table:
    """What is running, and counts of the rest."""
    shown = _status_table([status for status in statuses if status.state in ("running", "failed")])
    shown.caption = _counts(statuses)
    return shown


def _counts(statuses: Sequence[RunStatus]) -> str:
    counts = count_states(statuses)
    steps, planned = sum(status.step for status in statuses), sum(status.steps for status in statuses)
    listed = ", ".join(f"{counts[state]} {state}" for state in ("done", "running", "failed", "waiting"))
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


def _show_status(console: Console, study: Path) -> int:
    statuses = [look_at(study, run) for run in read_plan(study)]
    console.print(_status_table(statuses))
    console.print(_counts(statuses), highlight=False)
    return 0


def _conclude(console: Console, study: Path, runs: Sequence[Planned], failed: Sequence[str]) -> int:
    statuses = [look_at(study, run) for run in runs]
    if failed:
        console.print(_status_table([status for status in statuses if status.name in failed]))
    console.print(f"{_counts(statuses)}. See what came out: edrl report {study}", soft_wrap=True, highlight=False)
    return 1 if failed else 0
