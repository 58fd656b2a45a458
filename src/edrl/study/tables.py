"""Tables of what was measured: columns by name, which go through CSV files unchanged."""

import csv
import json
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from edrl.core.check import fail

Table: TypeAlias = dict[str, list[Any]]
"""Columns of equal length, of numbers or of strings."""
Tables: TypeAlias = dict[str, Table]
Columns: TypeAlias = dict[str, np.ndarray]
"""A table whose columns are arrays."""
Json: TypeAlias = dict[str, Any]
"""An object in a JSON file: whoever reads it knows what is in it."""


def table(**columns: object) -> Table:
    """A table of columns: lists or arrays of one length; a single number or string is repeated."""
    lists = {
        name: column if np.isscalar(column) else np.asarray(column).tolist()
        for name, column in columns.items()
    }
    lengths = {len(column) for column in lists.values() if isinstance(column, list)} or {1}
    if len(lengths) > 1:
        raise fail(
            "columns", {n: np.shape(c) for n, c in lists.items()}, "they must have one length"
        )
    (length,) = lengths
    return {
        name: column if isinstance(column, list) else [column] * length
        for name, column in lists.items()
    }


def joined(*tables: Table) -> Table:
    """The rows of several tables with the same columns."""
    return {name: [entry for one in tables for entry in one[name]] for name in tables[0]}


def select(rows: Table, **where: object) -> Columns:
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


def _parsed(column: list[str]) -> list[bool] | list[int] | list[float] | list[str]:
    if set(column) <= {"True", "False"}:
        return [entry == "True" for entry in column]
    try:
        return [int(entry) for entry in column]
    except ValueError:
        pass
    try:
        return [float(entry) for entry in column]
    except ValueError:
        return list(column)


def read_json(path: Path) -> Any:
    """What a file holds; if it is damaged, the error names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
