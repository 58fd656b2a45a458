"""`edrl reproduce`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table
from rich.text import Text

from edrl.core.check import check_count, check_directory
from edrl.paper import EXPERIMENTS
from edrl.paper.experiment import Experiment
from edrl.paper.parts import find_parts
from edrl.paper.run import Part, cost, is_finished, reproduce
from edrl.report.claims import Claim, count_verdicts


@dataclass(frozen=True)
class Reproduce:
    """Run the paper's experiments, judge every claim, and write a page to read.

    Writes OUT/index.html (self-contained), OUT/figures/*.png and *.svg, OUT/data/*/*.csv and
    OUT/claims.json, and ends with a table of the claims. The exit status is 1 if a claim that
    should hold does not. Stop it whenever you like: finished parts are kept, and the same command
    goes on from there. A part of your own is a Python file that defines EXPERIMENT: see
    docs/reproduce.md.

    Examples: `edrl reproduce`, `edrl reproduce figure-5 figure-7`, `edrl reproduce --full`,
    `edrl reproduce my_part.py`.
    """

    names: Annotated[
        tyro.conf.Positional[tuple[str, ...]],
        tyro.conf.arg(metavar="[PART ...]", help_behavior_hint=""),
    ] = ()
    """The parts to run: names that --list shows, or Python files with parts of your own. Without
    any, all parts that --list shows are run."""
    list_parts: Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(name="list")] = False
    """List the parts, whether each is finished and about how long it takes, and run nothing."""
    full: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Run at the paper's sizes and with many seeds, which takes hours; the default sizes take
    minutes."""
    out: Path | None = None
    """The directory that the page, its figures and its data are written to. By default it is
    report, or report-full with --full."""
    again: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Measure the named parts again, even those that are finished."""
    workers: int = field(default_factory=lambda: min(os.cpu_count() or 1, 8))
    """How many parts are run at once, each in a process of its own."""

    def __call__(self) -> int:
        """Run, and return the exit status."""
        console = Console()
        out = self.out or Path("report-full" if self.full else "report")
        try:
            named = find_parts(self.names)
            check_count("workers", self.workers, 1)
            check_directory("out", out)
        except ValueError as error:
            console.print(Text(str(error), style="red"), soft_wrap=True)
            return 2
        if self.list_parts:
            console.print(_parts_table(EXPERIMENTS | named, out, self.full))
            return 0
        try:
            parts = self._run(named or EXPERIMENTS, out)
        except KeyboardInterrupt:
            console.print("Stopped. Finished parts are kept; the same command goes on from there.")
            return 130
        return _conclude(console, parts, out)

    def _run(self, experiments: Mapping[str, Experiment], out: Path) -> list[Part]:
        columns = (
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
            TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )  # fmt: skip
        costs = {}
        for name, experiment in experiments.items():
            measured = self.again or not is_finished(experiment.where, out, self.full)
            costs[name] = cost(experiment.where, self.full, measured)
        done = dict.fromkeys(costs, 0.0)
        with Progress(*columns, console=Console(stderr=True), speed_estimate_period=120) as bar:
            task = bar.add_task("reproduce", total=sum(costs.values()), note="")

            def listen(name: str, fraction: float, note: str) -> None:
                if name in done:
                    done[name] = max(done[name], fraction)
                    completed = sum(costs[part] * done[part] for part in costs)
                    bar.update(task, completed=completed, note=f"{name}: {note}")
                if fraction >= 1:
                    bar.console.print(f"{name}: {note}")

            names = [experiment.where for experiment in experiments.values()]
            return reproduce(names, out, self.full, self.again, self.workers, listen)


def _parts_table(experiments: Mapping[str, Experiment], out: Path, full: bool) -> Table:
    columns = ("of the paper", "what it shows", "finished", "cost")
    table = Table(Column("PART", no_wrap=True), *columns, title="edrl reproduce PART ...")
    for name, experiment in experiments.items():
        finished = "yes" if is_finished(experiment.where, out, full) else "no"
        seconds = f"{experiment.cost[full]:.0f} s"
        table.add_row(name, experiment.source, experiment.title, finished, seconds)
    return table


def _conclude(console: Console, parts: list[Part], out: Path) -> int:
    claims = [claim for part in parts for claim in part.claims]
    console.print(_claims_table(claims))
    console.print(count_verdicts(claims) + ".")
    for part in parts:
        if part.error:
            console.print(
                Text(f"{part.name} failed: {part.error.strip().splitlines()[-1]}", style="red")
            )
    console.print(f"The page: {(out / 'index.html').resolve()}", soft_wrap=True, highlight=False)
    return int(any(claim.failed for claim in claims) or any(part.error for part in parts))


def _claims_table(claims: list[Claim]) -> Table:
    table = Table(
        "verdict", "claim", "measured", "expected", "margin", title="Claims", show_lines=True
    )
    for claim in claims:
        colour = "green" if claim.holds else "yellow" if claim.note else "bold red"
        what = Text(f"{claim.claim}\n").append(f"{claim.id}, {claim.source}", style="dim")
        verdict = Text(claim.verdict, style=colour)
        table.add_row(verdict, what, Text(claim.measured), Text(claim.expected), claim.margin)
    return table
