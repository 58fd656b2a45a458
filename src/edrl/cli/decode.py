"""`edrl decode`: from measured expectiles to distributions."""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from edrl.core.check import check_count, check_directory, check_number, fail
from edrl.core.decoding import Decoded, decode
from edrl.core.words import count
from edrl.study.tables import Table as Columns
from edrl.study.tables import joined, table, write_csv

_NEEDED = ("value", "tau")
_OPTIONAL = ("noise", "group")
_MOST_DRAWN = 20  # groups in the picture
_WRITTEN = {
    "distribution.csv": ("group", "atom", "prob", "cdf"),
    "cells.csv": ("group", "line", "value", "tau", "fitted", "residual"),
    "decoded.png": (),
}
"""The files that are written, and the first columns by which they are known for ours."""


class Cell(NamedTuple):
    """One line of the file."""

    line: int
    group: str
    value: float
    tau: float
    noise: float | None


@dataclass(frozen=True)
class Decode:
    """Decode the distribution behind measured expectiles, such as cells' reversal points.

    The file is a CSV with a header. Each line is a cell: its `value` (the outcome at which its
    response turns from negative to positive), its `tau` (slope for positive errors over the sum of
    both slopes), and if known the `noise` of the value (its standard deviation). Cells of one
    `group`, such as an animal or a cue, are decoded together. Other columns are ignored.

    Writes OUT/distribution.csv (atoms, probabilities, the distribution function and its band),
    OUT/cells.csv (the fitted expectile and the residual of each cell) and OUT/decoded.png. The same
    file always gives the same result.

    Example: `edrl decode cells.csv --support 0 20 --out decoded`.
    """

    cells: tyro.conf.Positional[Path]
    """The CSV file with a line for each cell."""
    support: tuple[float, float] | None = None
    """The least and the greatest possible outcome, such as the sizes of rewards. If it is left out,
    half of the values' range is added on either side. Give it if you know it: nothing else tells
    where the tails end."""
    out: Path = Path("decoded")
    """The directory that the tables and the picture are written to. Those of an earlier call are
    replaced; files that edrl has not made are not."""
    smoothness: float = 1.0
    """1 is the ridge that the noise asks for. 0 gives the distribution with the least loss, which
    follows the noise."""
    atoms: int = 101
    """The number of points of the even grid over the support that carry the distribution."""
    resamples: int = 200
    """How often cells are drawn with replacement for the band around the distribution. 0 leaves it
    out."""

    def __call__(self) -> int:
        """Read, decode, write, and return the exit status."""
        console = Console()
        try:
            check_directory("out", self.out)
            self._check_nothing_is_lost()
            groups = read_cells(self.cells)
            decoded = {name: self._decoded(cells) for name, cells in groups.items()}
            self._write(groups, decoded)
        except (ValueError, OSError) as error:
            console.print(Text(str(error), style="red"), soft_wrap=True)
            return 2
        _show(console, groups, decoded)
        written = f"The distribution, the cells and a picture: {self.out.resolve()}"
        console.print(written, soft_wrap=True, highlight=False)
        return 0

    def _check_nothing_is_lost(self) -> None:
        """The measured cells and what somebody else has written are not overwritten."""
        for name in _WRITTEN:
            path = self.out / name
            if path.exists() and self.cells.exists() and path.samefile(self.cells):
                right = (
                    f"its {name} would overwrite the cells that are read: name another directory"
                )
                raise fail("out", str(self.out), right)
        for name in _WRITTEN:
            if (self.out / name).exists() and not self._is_ours(name):
                right = f"there is a {name} in it that is not one of ours: name another directory"
                raise fail("out", str(self.out), right)

    def _is_ours(self, name: str) -> bool:
        """Whether a file in `out` is of an earlier call; a picture is if the tables are there."""
        if not _WRITTEN[name]:
            return (self.out / "distribution.csv").exists()
        with (self.out / name).open(encoding="utf-8", errors="replace") as file:
            return file.readline(1000).startswith(",".join(_WRITTEN[name]))

    def _decoded(self, cells: Sequence[Cell]) -> Decoded:
        check_number("smoothness", self.smoothness, 0.0)
        check_count("atoms", self.atoms, 3)
        check_count("resamples", self.resamples, 0)
        self._check_support(cells)
        known = [cell.noise for cell in cells if cell.noise is not None]
        return decode(
            [cell.value for cell in cells],
            [cell.tau for cell in cells],
            known or None,
            self.support,
            smoothness=self.smoothness,
            atoms=self.atoms,
            resamples=self.resamples,
        )

    def _check_support(self, cells: Sequence[Cell]) -> None:
        """As `decode` does it, but with lines instead of places."""
        if self.support is None:
            return
        low, high = self.support
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise fail("support", self.support, "it must be two numbers, the lesser first")
        for cell in cells:
            if not low <= cell.value <= high:
                right = f"it must lie in the support, {low:g} to {high:g}"
                raise fail(f"{self.cells}, line {cell.line}: value", cell.value, right)

    def _write(self, groups: Mapping[str, Sequence[Cell]], decoded: Mapping[str, Decoded]) -> None:
        import matplotlib

        matplotlib.use("agg")
        from matplotlib import pyplot

        from edrl.core.decoding_plot import plot_decoded

        self.out.mkdir(parents=True, exist_ok=True)
        distributions = [_distribution(name, found) for name, found in decoded.items()]
        write_csv(self.out / "distribution.csv", joined(*distributions))
        cells = [_cells(groups[name], found) for name, found in decoded.items()]
        write_csv(self.out / "cells.csv", joined(*cells))
        figure = plot_decoded(dict(list(decoded.items())[:_MOST_DRAWN]))
        figure.savefig(self.out / "decoded.png", dpi=120)
        pyplot.close(figure)


def read_cells(path: Path) -> dict[str, list[Cell]]:
    """The cells of a file by their groups, in the file's order; without groups, of the group ''."""
    if not path.exists():
        raise fail("cells", str(path), "there is no such file")
    groups: dict[str, list[Cell]] = {}
    for cell in _read(path):
        groups.setdefault(cell.group, []).append(cell)
    for name, members in groups.items():
        if len(members) < 2:
            of = f"group {name!r} has" if name else "there is"
            line = members[0].line
            raise ValueError(f"{path}, line {line}: {of} only one cell, at least two are needed")
    return groups


def _read(path: Path) -> list[Cell]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            cells = list(_parsed(path, file))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is no CSV file: {error}") from error
    if not cells:
        raise ValueError(f"{path} has no cells: below the header, each line is one")
    return cells


def _parsed(path: Path, file: Iterator[str]) -> Iterator[Cell]:
    reader = csv.reader(file, strict=True)
    header = [name.strip() for name in next(reader, [])]
    _check_header(path, header)
    for entries in reader:
        if not any(entry.strip() for entry in entries):
            continue  # an empty line
        where = f"{path}, line {reader.line_num}"
        if len(entries) != len(header):
            found = count(len(entries), "entry", "entries")
            raise ValueError(f"{where}: {found}, while the header has {len(header)}")
        row = {name: entry.strip() for name, entry in zip(header, entries, strict=True)}
        yield Cell(reader.line_num, row.get("group", ""), *_numbers(where, row))


def _check_header(path: Path, header: Sequence[str]) -> None:
    if not any(header):
        raise ValueError(f"{path} is empty: its first line must name columns, value and tau")
    missing = [name for name in _NEEDED if name not in header]
    if missing:
        shown = ", ".join(header)[:80]
        raise ValueError(
            f"{path}, line 1: no column {' and no column '.join(missing)} among {shown!r}. The first"
            f" line must name columns: value, tau, and if known noise and group"
        )
    for name in (*_NEEDED, *_OPTIONAL):
        if header.count(name) > 1:
            raise ValueError(f"{path}, line 1: column {name} is there {header.count(name)} times")


def _numbers(where: str, row: Mapping[str, str]) -> tuple[float, float, float | None]:
    value, tau = _number(where, row, "value"), _number(where, row, "tau")
    if not 0 < tau < 1:
        raise fail(f"{where}: tau", tau, "it must lie strictly between 0 and 1")
    if "noise" not in row:
        return value, tau, None
    noise = _number(where, row, "noise")
    if noise <= 0:
        raise fail(f"{where}: noise", noise, "it must be greater than 0")
    return value, tau, noise


def _number(where: str, row: Mapping[str, str], name: str) -> float:
    try:
        number = float(row[name])
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise fail(f"{where}: {name}", row[name], "it must be a finite number")
    return number


def _distribution(name: str, found: Decoded) -> Columns:
    probs = np.asarray(found.distribution.probs)
    columns = table(
        group=name,
        atom=np.asarray(found.distribution.atoms),
        prob=probs,
        cdf=np.minimum(np.cumsum(probs), 1.0),
    )
    if found.band is None:
        return columns
    return {**columns, **table(cdf_low=found.band[0], cdf_high=np.minimum(found.band[1], 1.0))}


def _cells(cells: Sequence[Cell], found: Decoded) -> Columns:
    columns = table(
        group=cells[0].group,
        line=[cell.line for cell in cells],
        value=found.values,
        tau=found.taus,
        fitted=found.fitted,
        residual=found.residuals,
    )
    return columns if found.noise is None else {**columns, **table(noise=found.noise)}


def _show(
    console: Console, groups: Mapping[str, Sequence[Cell]], decoded: Mapping[str, Decoded]
) -> None:
    shown = Table("group", "cells", "mean", "std", "5 %", "median", "95 %", "residuals (rms)")
    for name, found in decoded.items():
        shown.add_row(Text(name or "all"), *_summary(found))
    console.print(shown)
    for name, found in decoded.items():
        _show_contradictions(console, groups[name], found)
    if len(decoded) > _MOST_DRAWN:
        text = f"The picture has the first {_MOST_DRAWN} of {len(decoded)} groups."
        console.print(text, highlight=False)


def _show_contradictions(console: Console, cells: Sequence[Cell], found: Decoded) -> None:
    of = f" of group {cells[0].group}" if cells[0].group else ""
    for warning in found.contradictions([f"line {cell.line}" for cell in cells]):
        text = f"The cells{of} contradict each other: {warning}."
        console.print(Text(text, style="yellow"), soft_wrap=True)


def _summary(found: Decoded) -> list[str]:
    mu = found.distribution
    atoms, probs = np.asarray(mu.atoms), np.asarray(mu.probs)
    mean = float(probs @ atoms)
    std = float(np.sqrt(probs @ (atoms - mean) ** 2))
    places = np.searchsorted(np.cumsum(probs), [0.05, 0.5, 0.95])
    numbers = [mean, std, *atoms[np.minimum(places, len(atoms) - 1)].tolist()]
    rms = float(np.sqrt(np.mean(found.residuals**2)))
    return [str(len(found.values)), *(f"{number:.4g}" for number in numbers), f"{rms:.3g}"]
