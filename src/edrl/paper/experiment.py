"""What an experiment is: it measures, draws what it measured, and judges what is claimed of it.

`draw` and `judge` see nothing but the tables that `measure` returned, and those go through CSV
files: every mark on the page and every verdict can be traced to a number in a file beside it.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edrl.core.check import fail
from edrl.paper.thresholds import judged
from edrl.report.claims import Claim, Limit, Threshold
from edrl.report.style import Drawing
from edrl.study.tables import (
    Columns,
    Table,
    Tables,
    from_rows,
    joined,
    select,
    summarised,
    table,
)

# With what an experiment is written in: one import is enough for it.
__all__ = [
    "SECTIONS",
    "Advance",
    "Claim",
    "Columns",
    "Drawing",
    "Experiment",
    "Limit",
    "Table",
    "Tables",
    "Threshold",
    "from_rows",
    "joined",
    "judged",
    "select",
    "summarised",
    "table",
]

Advance = Callable[[float, str], None]
"""advance(fraction done, note): where a measurement is."""

Section = Literal["paper", "appendix", "theory", "beyond"]
SECTIONS: dict[Section, str] = {
    "paper": "The paper's figures",
    "appendix": "The paper's appendix",
    "theory": "The paper's theory",
    "beyond": "Beyond the paper",
}


@dataclass(frozen=True)
class Experiment:
    """One figure or table of the paper, or one of our own."""

    name: str  # on the command line, and of its directory: letters, digits and -
    title: str
    source: str  # in the paper, or whose it is
    section: Section
    about: str  # what is run, with its parameters
    measure: Callable[[bool, Advance], Tables]  # (full size?, advance)
    draw: Callable[[Tables], list[Drawing]]
    judge: Callable[[Tables], list[Claim]]
    cost: tuple[float, float]  # rough seconds of the default and the full size, for the bar
    own_file: Path | None = None  # where a user's part lies; `find_part` says it

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9-]+", self.name):
            raise fail("name", self.name, "it must consist of letters, digits and -")
        if self.section not in SECTIONS:
            raise fail("section", self.section, f"it must be one of {', '.join(SECTIONS)}")

    @property
    def file(self) -> Path:
        """The file that defines it."""
        return self.own_file or Path(inspect.getfile(self.measure))

    @property
    def where(self) -> str:
        """What `find_part` finds it by, in another process too."""
        return self.name if self.own_file is None else str(self.own_file)
