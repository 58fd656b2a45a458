"""Tables go to CSV and back unchanged, and can be asked for rows."""

import math
from pathlib import Path

import numpy as np
import pytest

from edrl.study.tables import joined, read_csv, select, table, write_csv


def test_a_table_survives_its_file(tmp_path: Path) -> None:
    """Numbers come back bit for bit, with their kinds."""
    rng = np.random.default_rng(0)
    rows = table(
        x=np.append(rng.normal(size=5) * 10.0 ** rng.integers(-300, 300, 5), [np.inf, 0.1]),
        n=np.arange(7),
        yes=np.arange(7) > 3,
        name=[f'a,b\n"{i}"' for i in range(7)],
        same="CDRL",
    )
    write_csv(tmp_path / "t.csv", rows)
    back = read_csv(tmp_path / "t.csv")
    assert back == rows
    assert [type(column[0]) for column in back.values()] == [float, int, bool, str, str]


def test_missing_numbers_survive(tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", table(x=[1.5, math.nan]))
    assert math.isnan(read_csv(tmp_path / "t.csv")["x"][1])


def test_rows_are_joined_and_selected() -> None:
    rows = joined(table(name="a", x=[1, 2]), table(name="b", x=[3, 4]))
    assert select(rows, name="b")["x"].tolist() == [3, 4]
    assert select(rows, name="a", x=2)["x"].tolist() == [2]


def test_columns_must_have_one_length() -> None:
    with pytest.raises(ValueError, match="one length"):
        table(x=[1, 2], y=[1, 2, 3])
