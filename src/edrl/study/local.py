"""Runs on this machine: a process for each, as many at once as fit."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from edrl.deep.config import THREADS
from edrl.study.machine import cores
from edrl.study.plan import Planned
from edrl.study.work import note_failure

_PAUSE = 0.2  # seconds, until it is seen that a run has ended


def run_here(
    study: Path,
    runs: Sequence[Planned],
    jobs: int,
    threads: int,
    look: Callable[[], None] = lambda: None,
    callbacks: Sequence[str] = (),
) -> list[str]:
    """Work on the runs, `jobs` at a time; returns the names of those that failed. `look` is
    called now and then.

    `callbacks` watch each run: classes by their names, MODULE:NAME.

    Ctrl-C ends all of them after they have saved.
    """
    jobs = min(jobs, max(1, len(runs)))  # who share the machine
    waiting, working, failed = list(runs), dict[str, "subprocess.Popen[bytes]"](), list[str]()
    free, taken = _shares_of_cores(jobs, threads), dict[str, set[int] | None]()
    try:
        while waiting or working:
            while waiting and free:
                run = waiting.pop(0)
                taken[run.name] = free.pop(0)
                working[run.name] = _start(
                    study, run.name, jobs, threads, taken[run.name], callbacks
                )
            time.sleep(_PAUSE)
            for name, process in list(working.items()):
                if process.poll() is not None:
                    _let_go(working.pop(name))
                    free.append(taken.pop(name))
                    if process.returncode:
                        failed.append(name)
                        note_failure(study / name, _cause(process.returncode))
            look()
    finally:
        for process in working.values():
            process.send_signal(signal.SIGTERM)  # SIGINT may be ignored: see worker.py
        for process in working.values():
            _let_go(process)
    return failed


def _shares_of_cores(jobs: int, threads: int) -> list[set[int] | None]:
    """Cores for each of the runs that are worked on at once; none where there are too few.

    A run's work goes to and fro between Python's thread and XLA's. On a core of its own it loses
    nothing by that, but among cores that other runs use it waits for one of them each time.
    """
    there = cores()
    share = len(there) // jobs
    return [
        set(there[job * share : (job + 1) * share]) if share >= threads else None
        for job in range(jobs)
    ]


def _start(
    study: Path,
    name: str,
    jobs: int,
    threads: int,
    own: set[int] | None,
    callbacks: Sequence[str] = (),
) -> "subprocess.Popen[bytes]":
    out = study / name
    # What one run has compiled, the others need not. Alone, a run would take three quarters of a
    # GPU's memory.
    shared = {"JAX_COMPILATION_CACHE_DIR": str(study.absolute() / "compiled")}
    if jobs > 1:
        shared["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{0.9 / jobs:.3f}"
    out.mkdir(parents=True, exist_ok=True)
    with (out / "log.txt").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "edrl.study.worker", str(study), name, *callbacks],
            env={**shared, **os.environ, THREADS: str(threads)},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is the driver's, which passes it on
        )
    if own is not None:
        with contextlib.suppress(OSError):  # it may have ended already, and cores are no condition
            os.sched_setaffinity(
                process.pid, own
            )  # before it has threads, which then have the same
    return process


def _let_go(process: "subprocess.Popen[bytes]") -> None:
    with process:  # waits for its end
        if process.stdin is not None:
            process.stdin.close()


def _cause(code: int) -> str:
    cause = signal.Signals(-code).name if code < 0 else f"exit status {code}"
    return f"the process ended with {cause}; see log.txt"
