"""Runs on this machine: a process for each, as many at once as fit."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from edrl.deep.config import THREADS
from edrl.studies.plan import Planned
from edrl.studies.work import note_failure

_PAUSE = 0.2  # seconds, until it is seen that a run has ended


def run_here(
    study: Path, runs: Sequence[Planned], jobs: int, threads: int, look: Callable[[], None] = lambda: None
) -> list[str]:
    """Work on the runs, `jobs` at a time; returns the names of those that failed. `look` is called now and then.

    Ctrl-C ends all of them after they have saved.
    """
    waiting, working, failed = list(runs), dict[str, "subprocess.Popen[bytes]"](), list[str]()
    try:
        while waiting or working:
            while waiting and len(working) < jobs:
                run = waiting.pop(0)
                working[run.name] = _start(study, run.name, threads)
            time.sleep(_PAUSE)
            for name, process in list(working.items()):
                if process.poll() is not None:
                    _let_go(working.pop(name))
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


def _start(study: Path, name: str, threads: int) -> "subprocess.Popen[bytes]":
    out = study / name
    out.mkdir(parents=True, exist_ok=True)
    with (out / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "edrl.studies.worker", str(study), name],
            # What one run has compiled, the others need not.
            env={"JAX_COMPILATION_CACHE_DIR": str(study.absolute() / "compiled"), **os.environ, THREADS: str(threads)},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is the driver's, which passes it on
        )


def _let_go(process: "subprocess.Popen[bytes]") -> None:
    with process:  # waits for its end
        if process.stdin is not None:
            process.stdin.close()


def _cause(code: int) -> str:
    cause = signal.Signals(-code).name if code < 0 else f"exit status {code}"
    return f"the process ended with {cause}; see log.txt"
