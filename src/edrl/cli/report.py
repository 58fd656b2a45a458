"""`edrl report`: the results of deep agents, compared on a page."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from edrl.report.study_report import Report as Written
from edrl.report.study_report import write_report
from edrl.report.study_sections import interval
from edrl.study.tables import select


@dataclass(frozen=True)
class Report:
    """Compare runs of agents, and say what is missing.

    Runs that differ only in game, seed and steps belong to one agent. Other differences become part
    of the agents' names. The page has aggregates with intervals, profiles, curves, the paper's
    table and speed. It is written to OUT/index.html (self-contained), with OUT/figures, OUT/data,
    OUT/summary.json and OUT/runs.json.

    Examples: `edrl report studies/minatar`, `edrl report runs/pong runs/breakout --out report-two`,
    `edrl report docs/results/minatar5 studies/mine`, which sets yours beside ours.
    """

    directories: Annotated[
        tyro.conf.Positional[tuple[Path, ...]],
        tyro.conf.arg(metavar="DIR [DIR ...]", help_behavior_hint=""),
    ]
    """The directories to read: runs, directories with runs in them at any depth, or earlier reports
    (their runs.json), which stand for the runs that they were made from."""
    out: Path = Path("report-runs")
    """The directory that the page, its figures and its data are written to."""
    trust: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Import the modules that runs name as MODULE:NAME, which may know scores of others in their
    games. That runs their code: only for runs that you know."""

    def __call__(self) -> int:
        """Read, write, and return the exit status."""
        console = Console()
        if not self.directories:
            console.print("[red]Name at least one directory with runs in it.[/red]")
            return 2
        try:
            report = write_report(self.directories, self.out, self.trust)
        except (ValueError, OSError) as error:
            console.print(Text(str(error), style="red"), soft_wrap=True)
            return 2
        if report.aggregates["agent"]:
            console.print(_table(report))
        for warning in report.warnings:
            text = Text(f"{warning[0].upper()}{warning[1:]}.", style="yellow")
            console.print(text, soft_wrap=True)
        console.print(f"The page: {report.page.resolve()}", soft_wrap=True, highlight=False)
        return 0


def _table(report: Written) -> Table:
    rows, head = report.aggregates, f"IQM of {report.study.kind} scores [95 % interval]"
    table = Table("agent", head, title="Final scores")
    for agent in dict.fromkeys(rows["agent"]):
        found = select(rows, agent=agent, measure="IQM")
        table.add_row(agent, Text(interval(found["value"][0], found["low"][0], found["high"][0])))
    return table
