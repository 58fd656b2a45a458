"""`edrl reproduce`: the paper's experiments, run again."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
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
from edrl.report.page import check_no_foreign_page


@dataclass(frozen=True)
class Reproduce:
    """Run the paper's experiments, judge every claim, and write a page to read.

    Writes OUT/index.html (self-contained), OUT/playground.html, OUT/figures/*.png and *.svg,
    OUT/data/*/*.csv and OUT/claims.json, and ends with a table of the claims. The exit status is 1
    if a claim that should hold does not. Stop it whenever you like: finished parts are kept, and
    the same command goes on from there. A part of your own is a Python file that defines
    EXPERIMENT: see docs/reproduce.md.

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
            named = self._checked(out)
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

    def _checked(self, out: Path) -> dict[str, Experiment]:
        """The parts that are named, if all flags are right."""
        check_count("workers", self.workers, 1)
        check_directory("out", out)
        check_no_foreign_page(out)
        return find_parts(self.names)

    def _run(self, experiments: Mapping[str, Experiment], out: Path) -> list[Part]:
        costs = {name: self._cost(part, out) for name, part in experiments.items()}
        done = dict.fromkeys(costs, 0.0)
        with Progress(*_BAR, console=Console(stderr=True), speed_estimate_period=120) as bar:
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

    def _cost(self, experiment: Experiment, out: Path) -> float:
        measured = self.again or not is_finished(experiment.where, out, self.full)
        return cost(experiment.where, self.full, measured)


_BAR = (
    TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
    TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
    TextColumn("{task.fields[note]}"),
)  # fmt: skip


def _parts_table(experiments: Mapping[str, Experiment], out: Path, full: bool) -> Table:
    columns = ("of the paper", "what it shows", "finished", "cost")
    table = Table(Column("PART", no_wrap=True), *columns, title="edrl reproduce PART ...")
    for name, experiment in experiments.items():
        finished = "yes" if is_finished(experiment.where, out, full) else "no"
        seconds = f"{experiment.cost[full]:.0f} s"
        table.add_row(name, experiment.source, experiment.title, finished, seconds)
    return table


def _conclude(console: Console, parts: list[Part], out: Path) -> int:
    claims = list(chain.from_iterable(part.claims for part in parts))
    broken = [part for part in parts if part.error]
    console.print(_claims_table(claims))
    console.print(count_verdicts(claims) + ".")
    for part in broken:
        text = f"{part.name} failed: {part.error.strip().splitlines()[-1]}"
        console.print(Text(text, style="red"))
    console.print(f"The page: {(out / 'index.html').resolve()}", soft_wrap=True, highlight=False)
    return int(bool(broken) or any(claim.failed for claim in claims))


def _claims_table(claims: list[Claim]) -> Table:
    columns = ("verdict", "claim", "measured", "expected", "margin")
    table = Table(*columns, title="Claims", show_lines=True)
    for claim in claims:
        what = Text(f"{claim.claim}\n").append(f"{claim.id}, {claim.source}", style="dim")
        verdict = Text(claim.verdict, style=_colour(claim))
        table.add_row(verdict, what, Text(claim.measured), Text(claim.expected), claim.margin)
    return table


def _colour(claim: Claim) -> str:
    if claim.holds:
        return "green"
    return "yellow" if claim.note else "bold red"
