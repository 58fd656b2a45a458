"""What an experiment is: it measures, draws what it measured, and judges what is claimed of it.

`draw` and `judge` see nothing but the tables that `measure` returned, and those go through CSV files: every mark
on the page and every verdict can be traced to a number in a file beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from edrl.report.claims import Claim
from edrl.report.style import Drawing
from edrl.study.tables import Table, Tables, joined, select, table

# With what an experiment is written in: one import is enough for it.
__all__ = [
    "SECTIONS",
    "Advance",
    "Claim",
    "Drawing",
    "Experiment",
    "Table",
    "Tables",
    "joined",
    "select",
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

    name: str  # also on the command line
    title: str
    source: str  # in the paper
    section: Section
    about: str  # what is run, with its parameters
    measure: Callable[[bool, Advance], Tables]  # (full size?, advance)
    draw: Callable[[Tables], list[Drawing]]
    judge: Callable[[Tables], list[Claim]]
    cost: tuple[
        float, float
    ]  # rough seconds of the default and the full size, for the progress bar

    @property
    def module(self) -> str:
        """The module that defines it."""
        return self.measure.__module__
