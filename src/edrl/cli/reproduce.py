"""`edrl reproduce`."""

import os
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

from edrl.paper import EXPERIMENTS
from edrl.paper.run import Part, cost, is_finished, reproduce
from edrl.report.claims import Claim, count_verdicts


@dataclass(frozen=True)
class Reproduce:
    """Run the paper's experiments, judge every claim, and write a page to read.

    Writes OUT/index.html (self-contained), OUT/figures/*.png and *.svg, OUT/data/*/*.csv and OUT/claims.json, and
    ends with a table of the claims. The exit status is 1 if a claim that should hold does not. Stop it whenever you
    like: finished parts are kept, and the same command goes on from there.

    Examples: `edrl reproduce`, `edrl reproduce figure-5 figure-7`, `edrl reproduce --full`.
    """

    names: Annotated[
        tyro.conf.Positional[tuple[str, ...]],
        tyro.conf.arg(metavar="[NAME ...]", help_behavior_hint=""),
    ] = ()
    """Which parts to run (see --list); all if none is named."""
    list_parts: Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(name="list")] = False
    """List the parts and whether they are finished, and run nothing."""
    full: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """The paper's sizes and many seeds, instead of what takes minutes."""
    out: Path | None = None
    """Where to write; by default to report, with --full to report-full."""
    again: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Run the named parts again even if they are finished."""
    workers: int = field(default_factory=lambda: min(os.cpu_count() or 1, 8))
    """How many parts to run at once, each in a process of its own."""

    def __call__(self) -> int:
        """Run, and return the exit status."""
        console = Console()
        out = self.out or Path("report-full" if self.full else "report")
        names = self.names or tuple(EXPERIMENTS)
        for name in names:
            if name not in EXPERIMENTS:
                console.print(
                    f"[red]There is no part called {name!r}.[/red] The parts are: {', '.join(EXPERIMENTS)}"
                )
                return 2
        if self.workers < 1:
            console.print(
                f"[red]--workers is {self.workers}, but it takes at least one to run anything.[/red]"
            )
            return 2
        if out.exists() and not out.is_dir():
            console.print(
                f"[red]--out is {out}, which is a file: name a directory.[/red]", soft_wrap=True
            )
            return 2
        if self.list_parts:
            console.print(_parts_table(out, self.full))
            return 0
        try:
            parts = self._run(names, out)
        except KeyboardInterrupt:
            console.print("Stopped. Finished parts are kept; the same command goes on from there.")
            return 130
        return _conclude(console, parts, out)

    def _run(self, names: tuple[str, ...], out: Path) -> list[Part]:
        columns = (
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
            TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[note]}"),
        )  # fmt: skip
        anew = {name: self.again or not is_finished(name, out, self.full) for name in names}
        costs = {name: cost(name, self.full, anew[name]) for name in names}
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

            return reproduce(names, out, self.full, self.again, self.workers, listen)


def _parts_table(out: Path, full: bool) -> Table:
    name_column = Column("NAME", no_wrap=True)
    table = Table(
        name_column,
        "of the paper",
        "what it shows",
        "finished",
        "cost",
        title="edrl reproduce NAME ...",
    )
    for name, experiment in EXPERIMENTS.items():
        finished = "yes" if is_finished(name, out, full) else "no"
        table.add_row(
            name, experiment.source, experiment.title, finished, f"{experiment.cost[full]:.0f} s"
        )
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
