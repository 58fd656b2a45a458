"""Locks on files: a study has one driver and a run one worker, even on several machines."""

import errno
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class Taken(Exception):
    """Somebody else holds the lock."""


@contextmanager
def locked(path: Path, patience: float = 0.0) -> Iterator[None]:
    """Hold a lock on a file.

    The system releases it if this process dies. If somebody else holds it, wait for at most
    `patience` seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        _lock(file, path, patience)
        yield


def is_locked(path: Path) -> bool:
    """Whether somebody holds the lock."""
    try:
        with path.open() as file:  # NFS grants a shared lock only to those who may read
            # Shared: two that look at once do not take each other for a worker.
            _lock_at_once(file, shared=True)
    except FileNotFoundError:
        return False
    except _HELD:
        return True
    return False


_HELD = PermissionError if sys.platform == "win32" else BlockingIOError  # somebody has the lock


def _lock_at_once(file: IO[str], shared: bool) -> None:
    """Lock a file until it is closed, or raise `_HELD`. Windows has no shared locks."""
    if sys.platform == "win32":
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(file, kind | fcntl.LOCK_NB)


def _lock(file: IO[str], path: Path, patience: float) -> None:
    until = time.monotonic() + patience
    while not _got(file, path):
        if time.monotonic() >= until:
            raise Taken(f"{path} is locked: somebody else is at work there")
        time.sleep(0.2)


def _got(file: IO[str], path: Path) -> bool:
    """Lock the file, unless somebody else has."""
    try:
        _lock_at_once(file, shared=False)
    except _HELD:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
            raise
        right = (
            "mount it with locks (Lustre: -o flock; NFS: with its lock service), or choose"
            " another directory"
        )
        text = f"the file system of {path} does not lock files: {right}"
        raise OSError(error.errno, text) from error
    return True
