"""What an experiment is: it measures, draws what it measured, and judges what is claimed of it.

`draw` and `judge` see nothing but the tables that `measure` returned, and those go through CSV files: every mark
on the page and every verdict can be traced to a number in a file beside it.
"""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from edrl.core.check import fail
from edrl.report.claims import Claim

__all__ = ["SECTIONS", "Advance", "Claim", "Drawing", "Experiment", "Table", "Tables", "select", "table"]

Table = dict[str, list[Any]]
"""Columns of equal length, of numbers or of strings."""
Tables = dict[str, Table]
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
class Drawing:
    """A figure, and a caption that says what to see in it."""

    name: str
    figure: Figure
    caption: str


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
    cost: tuple[float, float]  # rough seconds of the default and the full size, for the progress bar

    @property
    def module(self) -> str:
        """The module that defines it."""
        return self.measure.__module__


def table(**columns: Any) -> Table:
    """A table of columns: lists or arrays of one length; a single number or string is repeated."""
    lists = {name: column if np.isscalar(column) else np.asarray(column).tolist() for name, column in columns.items()}
    lengths = {len(column) for column in lists.values() if isinstance(column, list)} or {1}
    if len(lengths) > 1:
        raise fail("columns", {n: np.shape(c) for n, c in lists.items()}, "they must have one length")
    (length,) = lengths
    return {name: column if isinstance(column, list) else [column] * length for name, column in lists.items()}


def joined(*tables: Table) -> Table:
    """The rows of several tables with the same columns."""
    return {name: [entry for one in tables for entry in one[name]] for name in tables[0]}


def select(rows: Table, **where: Any) -> dict[str, np.ndarray]:
    """The rows in which each named column has the given entry, as arrays."""
    mask = np.ones(len(next(iter(rows.values()))), bool)
    for name, entry in where.items():
        mask &= np.asarray(rows[name]) == entry
    return {name: np.asarray(column)[mask] for name, column in rows.items()}


def write_csv(path: Path, rows: Table) -> None:
    """Write a table so that `read_csv` gives the same numbers back."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(rows)
        writer.writerows(zip(*rows.values(), strict=True))


def read_csv(path: Path) -> Table:
    """Read a table that `write_csv` wrote."""
    with path.open(newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    columns = zip(*lines, strict=True) if lines else [[]] * len(header)
    return {name: _parsed(list(column)) for name, column in zip(header, columns, strict=True)}


def _parsed(column: list[str]) -> list[Any]:
    if set(column) <= {"True", "False"}:
        return [entry == "True" for entry in column]
    for kind in (int, float):
        try:
            return [kind(entry) for entry in column]
        except ValueError:
            continue
    return list(column)
