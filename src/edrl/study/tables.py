"""Tables of what was measured: columns by name, which go through CSV files unchanged."""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from edrl.core.check import fail
from edrl.core.json_text import parse_json

Table: TypeAlias = dict[str, list[Any]]
"""Columns of equal length, of numbers or of strings."""
Tables: TypeAlias = dict[str, Table]
Columns: TypeAlias = dict[str, np.ndarray]
"""A table whose columns are arrays."""
Json: TypeAlias = dict[str, Any]
"""An object in a JSON file: whoever reads it knows what is in it."""


def table(**columns: object) -> Table:
    """A table of columns: lists or arrays of one length; a single number or string is repeated."""
    plain = {name: _plain(column) for name, column in columns.items()}
    lengths = {len(column) for column in plain.values() if isinstance(column, list)}
    if len(lengths) > 1:
        shapes = {name: np.shape(column) for name, column in plain.items()}
        raise fail("columns", shapes, "they must have one length")
    length = max(lengths, default=1)
    return {name: _repeated(column, length) for name, column in plain.items()}


def _plain(column: object) -> Any:
    """A list of Python's own numbers and strings, or one of them."""
    return column if np.isscalar(column) else np.asarray(column).tolist()


def _repeated(column: object, length: int) -> list[Any]:
    return column if isinstance(column, list) else [column] * length


def from_rows(names: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table of rows, which may be none, with the entries in the order of the names."""
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return {name: list(column) for name, column in zip(names, columns, strict=True)}


def rows_of(columns: Table) -> list[Json]:
    """The rows of a table, each with its entries by the names of their columns."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def joined(*tables: Table) -> Table:
    """The rows of several tables with the same columns."""
    return {name: [entry for one in tables for entry in one[name]] for name in tables[0]}


def select(rows: Table, **where: object) -> Columns:
    """The rows in which each named column has the given entry, as arrays."""
    mask = np.ones(len(next(iter(rows.values()))), bool)
    for name, entry in where.items():
        mask &= np.asarray(rows[name]) == entry
    return {name: np.asarray(column)[mask] for name, column in rows.items()}


def grouped(rows: Table, *names: str) -> dict[tuple[Any, ...], Columns]:
    """The rows of a long table by their entries in some columns, in one pass."""
    places: dict[tuple[Any, ...], list[int]] = {}
    for place, key in enumerate(zip(*(rows[name] for name in names), strict=True)):
        places.setdefault(key, []).append(place)
    arrays = {name: np.asarray(column) for name, column in rows.items()}
    return {key: _taken(arrays, at) for key, at in places.items()}


def _taken(columns: Columns, places: list[int]) -> Columns:
    return {name: column[places] for name, column in columns.items()}


def summarised(
    rows: Mapping[str, Any], by: str, column: str, how: Callable[[np.ndarray], Any]
) -> Columns:
    """The distinct entries of one column, in order, and what `how` makes of another for each."""
    keys, entries = np.asarray(rows[by]), np.asarray(rows[column])
    distinct = np.unique(keys)
    return {by: distinct, column: np.array([how(entries[keys == key]) for key in distinct])}


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
    return {name: _parsed(column) for name, column in from_rows(header, lines).items()}


def _parsed(column: list[str]) -> list[bool] | list[int] | list[float] | list[str]:
    if set(column) <= {"True", "False"}:
        return [entry == "True" for entry in column]
    with suppress(ValueError):
        return list(map(int, column))
    with suppress(ValueError):
        return list(map(float, column))
    return column


def read_object(path: Path) -> dict[str, Any]:
    """The entries that a file holds; if it is damaged, the error names it and says how."""
    try:
        text = path.read_text(encoding="utf-8")
        content = parse_json(text)
        if not isinstance(content, dict):
            raise ValueError(
                f"it must hold entries with names, as edrl writes them, got {text:.20}"
            )
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    return content
