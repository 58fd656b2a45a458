"""Runs on this machine: a process for each, as many at once as fit."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from edrl.deep.named_statistics import THREADS
from edrl.study.machine import cores
from edrl.study.plan import Planned
from edrl.study.work import note_failure

_PAUSE = 0.2  # seconds, until it is seen that a run has ended


class _Worker(NamedTuple):
    """A process that works on a run, and the cores that are its own."""

    name: str
    process: "subprocess.Popen[bytes]"
    cores: set[int] | None


def run_here(
    study: Path,
    runs: Sequence[Planned],
    jobs: int,
    threads: int,
    look: Callable[[], None] = lambda: None,
    callbacks: Sequence[str] = (),
) -> list[str]:
    """Work on the runs, `jobs` at a time. Ctrl-C ends them after they have saved.

    Args:
        study: the study's directory.
        runs: the runs to work on.
        jobs: how many processes work at once.
        threads: how many threads each of them may use.
        look: a function that is called a few times a second.
        callbacks: classes of callbacks for each run, by their names, MODULE:NAME.

    Returns:
        The names of the runs that failed.
    """
    jobs = min(jobs, max(1, len(runs)))  # who share the machine
    waiting, working, failed = list(runs), list[_Worker](), list[str]()
    free = _shares_of_cores(jobs, threads)
    try:
        while waiting or working:
            while waiting and free:
                name, own = waiting.pop(0).name, free.pop(0)
                process = _start(study, name, jobs, threads, own, callbacks)
                working.append(_Worker(name, process, own))
            time.sleep(_PAUSE)
            for worker in list(filter(_has_ended, working)):
                working.remove(worker)
                free.append(worker.cores)
                _let_go(worker.process)
                if worker.process.returncode:
                    failed.append(worker.name)
                    note_failure(study / worker.name, _cause(worker.process.returncode))
            look()
    finally:
        _end([worker.process for worker in working])
    return failed


def _has_ended(worker: _Worker) -> bool:
    return worker.process.poll() is not None


def _end(working: "Sequence[subprocess.Popen[bytes]]") -> None:
    """Ask runs to save and end, and wait; another Ctrl-C does not wait for one that hangs."""
    if working:
        text = "Stopping: every run saves. Ctrl-C again ends them at once, without saving."
        print(text, file=sys.stderr, flush=True)
    for process in working:
        process.send_signal(signal.SIGTERM)  # SIGINT may be ignored: see worker.py
    try:
        for process in working:
            process.wait()
    except KeyboardInterrupt:
        for process in working:
            process.kill()
        raise
    finally:
        for process in working:
            _let_go(process)


def _shares_of_cores(jobs: int, threads: int) -> list[set[int] | None]:
    """Cores for each of the runs that are worked on at once; none where there are too few.

    A run's work alternates between Python's thread and XLA's. On cores of its own it loses nothing
    by that. Among cores that other runs use, it waits for a free one each time.
    """
    there = cores()
    share = len(there) // jobs
    if share < threads:
        return [None] * jobs
    return [set(there[job * share : (job + 1) * share]) for job in range(jobs)]


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
            # -P: from where it is started it imports only modules that are named.
            [sys.executable, "-P", "-m", "edrl.study.worker", str(study), name, *callbacks],
            env={**shared, **os.environ, THREADS: str(threads)},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is the driver's, which passes it on
        )
    if own is not None:
        with contextlib.suppress(OSError):  # it may have ended already, and cores are no condition
            # Before it has threads, which then have the same cores.
            os.sched_setaffinity(process.pid, own)
    return process


def _let_go(process: "subprocess.Popen[bytes]") -> None:
    with process:  # waits for its end
        if process.stdin is not None:
            process.stdin.close()


def _cause(code: int) -> str:
    cause = signal.Signals(-code).name if code < 0 else f"exit status {code}"
    return f"the process ended with {cause}; see log.txt"
