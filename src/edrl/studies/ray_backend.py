"""Runs on a Ray cluster: a task for each, which Ray starts again elsewhere if its worker or node dies."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edrl.deep.config import THREADS
from edrl.studies.locks import is_locked
from edrl.studies.plan import Planned
from edrl.studies.work import note_failure, work

RETRIES = 100  # of a task whose worker or node died; it goes on from its checkpoint


def run_on_ray(
    study: Path,
    runs: Sequence[Planned],
    address: str,
    cpus: int,
    gpus: float = 0.0,
    look: Callable[[], None] = lambda: None,
) -> list[str]:
    """Work on the runs as tasks with so many CPUs and GPUs each; returns the names of those that failed.

    `study` must be the same directory on all nodes. `address` is Ray's, or "local" for a cluster on this machine.
    Ctrl-C ends all of them after they have saved.
    """
    ray = _ray()
    began = not ray.is_initialized()
    if began:
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    waiting: list[Any] = []
    try:
        # max_calls: a process for each run, as without Ray.
        task = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=RETRIES, max_calls=1)(_work)
        names = {task.remote(study.absolute(), run.name, cpus, gpus): run.name for run in runs}
        waiting, failed = list(names), list[str]()
        while waiting:
            done, waiting = ray.wait(waiting, timeout=1.0)
            for result in done:
                try:
                    ray.get(result)
                except ray.exceptions.RayError as error:
                    failed.append(names[result])
                    note_failure(study / names[result], str(error))
            look()
        return failed
    except KeyboardInterrupt:
        for result in waiting:
            ray.cancel(result)  # as Ctrl-C is to a process
        while any(is_locked(study / run.name / "lock") for run in runs):
            time.sleep(1.0)
        raise
    finally:
        if began:
            ray.shutdown()


def _work(study: Path, name: str, threads: int, gpus: float) -> None:
    # XLA reads both at the first computation, which is still to come.
    os.environ[THREADS] = str(threads)
    if 0 < gpus < 1:
        os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 * gpus:.3f}")  # alone, a run would take 0.75
    try:
        work(study, name)
    except KeyboardInterrupt as stop:
        if stop.args != (signal.SIGTERM,):
            raise  # Ray's own way to cancel a task
        # This worker's end was wished for, not the task's: what is saved goes on elsewhere, as after any death.
        os._exit(1)


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError("ray is not installed: pip install 'edrl[ray]'") from error
    return ray
