"""Our dynamic programming and temporal differences against plain loops in Numba."""

import pytest


@pytest.mark.slow
def test_numbers_equal_those_of_plain_loops() -> None:
    """The same updates and backups, written as scalar loops, find the same numbers."""
    pytest.importorskip("numba", reason="Numba comes later than each new Python")
    from benchmarks.loops import differences

    assert max(differences(500).values()) < 1e-12
