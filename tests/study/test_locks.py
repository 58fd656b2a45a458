"""Locks on files where the system's own are others: Windows has no `fcntl`."""

import fcntl
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from edrl.study import locks


class _Msvcrt(ModuleType):
    """Windows' locks in terms of POSIX's: a byte that somebody holds is refused with EACCES."""

    LK_NBLCK = 2

    def __init__(self) -> None:
        super().__init__("msvcrt")

    def locking(self, handle: int, mode: int, count: int) -> None:
        assert (mode, count) == (self.LK_NBLCK, 1)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PermissionError(13, "Permission denied") from error


@pytest.fixture
def on_windows(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as Windows would import it."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "msvcrt", _Msvcrt())
    monkeypatch.setitem(sys.modules, "fcntl", None)  # an import of it fails
    assert locks.__file__ is not None
    spec = importlib.util.spec_from_file_location("locks_on_windows", locks.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_lock_has_one_holder_on_windows(on_windows: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "driver.lock"
    assert not on_windows.is_locked(path)
    with on_windows.locked(path):
        assert on_windows.is_locked(path)
        with (
            pytest.raises(on_windows.Taken, match=r"driver\.lock is locked"),
            on_windows.locked(path),
        ):
            pass
    assert not on_windows.is_locked(path)
