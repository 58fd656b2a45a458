"""Processes that work for this one and end with it."""

import contextlib
import functools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from edrl.core.check import check_count

T = TypeVar("T")

_SAFE_PATH = "PYTHONSAFEPATH"  # the environment variable that does what Python's flag -P does
_OURS = "edrl"  # its value, which may be any
_GRACE = 30.0  # seconds that a worker stays after it has been told to end


@dataclass(frozen=True)
class OverProcesses:
    """Deals the rows of an array out to processes: `OverProcesses(4)(function, rows)`.

    The answer is the same as that of one process. The first call starts the processes, which takes
    seconds, and they stay for later ones.
    """

    processes: int

    def __post_init__(self) -> None:
        check_count("processes", self.processes, 1)

    def __call__(self, function: Callable[[np.ndarray], T], rows: np.ndarray) -> list[T]:
        """What the function returns for each part of the rows."""
        try:
            with starting_processes():
                found = _pool(self.processes).map(function, np.array_split(rows, self.processes))
            return list(found)
        except BrokenProcessPool as error:
            _pool.cache_clear()
            advice = "they import the script that starts them: is its work under `if __name__ == '__main__':`?"
            raise RuntimeError(f"the processes have ended; {advice}") from error


@contextlib.contextmanager
def starting_processes() -> Iterator[None]:
    """Processes of multiprocessing that start here import nothing from the current directory first.

    Python would look there until it is told this process's own path: a file called pickle.py that
    lies beside somebody's run would be run.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = before or _OURS
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


def processes_start_as_ever() -> None:
    """In a process that was started so: what it starts itself is not."""
    if os.environ.get(_SAFE_PATH) == _OURS:
        del os.environ[_SAFE_PATH]


def end_with_parent() -> None:
    """In a process of a pool: should the one that started it be killed, it must not stay."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@functools.cache
def _pool(processes: int) -> ProcessPoolExecutor:
    """Processes that are spawned: a fork of one that has used JAX may hang."""
    return ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _begin_worker)


def _begin_worker() -> None:
    """Ctrl-C is the parent's to handle; should it be killed, the worker must not stay."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: _end_later())
    processes_start_as_ever()
    end_with_parent()


def _end_later() -> None:
    """A system that ends all processes of a job leaves them some time.

    The parent needs this worker to reach a point at which it can save. When the parent ends, so
    does this one.
    """
    later = threading.Timer(_GRACE, os._exit, (1,))
    later.daemon = True
    later.start()
