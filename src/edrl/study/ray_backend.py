"""Runs on a Ray cluster: a task for each, which Ray starts again elsewhere if its worker or node
dies."""

import os
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edrl.deep.named_statistics import THREADS
from edrl.study.estimate import kind_of, sizes_of
from edrl.study.locks import is_locked
from edrl.study.plan import Planned
from edrl.study.tables import Json
from edrl.study.work import note_failure, work

RETRIES = 100  # of a task whose worker or node died; it goes on from its checkpoint


def run_on_ray(
    study: Path,
    runs: Sequence[Planned],
    address: str,
    cpus: int,
    gpus: float = 0.0,
    look: Callable[[], None] = lambda: None,
    callbacks: Sequence[str] = (),
) -> list[str]:
    """Work on the runs as tasks with the CPUs, GPUs and memory that they need.

    On Ctrl-C, SIGTERM or an error, all runs save before this function ends.

    Args:
        study: the study's directory, the same on all nodes.
        runs: the runs to work on.
        address: the address of the cluster, or "local" for one on this machine.
        cpus: how many CPUs a run uses.
        gpus: how many GPUs a run uses.
        look: a function that is called about once a second.
        callbacks: classes of callbacks for each run, by their names, MODULE:NAME.

    Returns:
        The names of the runs that failed.
    """
    ray = _ray()
    began = not ray.is_initialized()
    if began:
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    tasks: dict[object, str] = {}
    try:
        # max_calls: a process for each run, as without Ray.
        task = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=RETRIES, max_calls=1)(_work)
        memory = {run.name: int(sizes_of(kind_of(run.config)).memory) for run in runs}
        most = max(memory.values(), default=0)
        _warn_of_waiting(ray.nodes(), {"CPU": cpus, "GPU": gpus, "memory": most})
        for run in runs:
            given = study.absolute(), run.name, cpus, gpus, tuple(callbacks)
            tasks[task.options(memory=memory[run.name]).remote(*given)] = run.name
        return _wait_for(ray, tasks, study, look)
    except BaseException:  # SIGTERM is Ray's SystemExit
        signal.alarm(0)  # by which Ray would abort this process three seconds after a SIGTERM
        _cancel(ray, tasks, study)
        raise
    finally:
        if began:
            ray.shutdown()


def _wait_for(
    ray: Any, tasks: dict[object, str], study: Path, look: Callable[[], None]
) -> list[str]:
    """Wait until all tasks have ended; returns the names of the runs that failed."""
    waiting, failed = list(tasks), list[str]()
    while waiting:
        done, waiting = ray.wait(waiting, timeout=1.0)
        for result in done:
            try:
                ray.get(result)
            except ray.exceptions.RayError as error:
                failed.append(tasks[result])
                note_failure(study / tasks[result], str(error))
        look()
    return failed


def _cancel(ray: Any, tasks: dict[object, str], study: Path) -> None:
    """Ask all tasks to save and end, and wait until they have ended."""
    for result in tasks:
        ray.cancel(result)  # as Ctrl-C is to a process; what has ended is not touched
    while any(is_locked(study / name / "lock") for name in tasks.values()):
        time.sleep(1.0)


def _warn_of_waiting(nodes: Sequence[Json], needed: dict[str, float]) -> None:
    """Warn if no node has room for a run: Ray would wait for one without a word.

    It is no error, since a cluster may grow.
    """
    there = [node["Resources"] for node in nodes if node["Alive"]]
    if any(_has_room(resources, needed) for resources in there):
        return
    memory = f"{needed['memory'] / 1e9:.1f} GB of memory"
    wanted = f"{needed['CPU']} CPUs, {needed['GPU']:g} GPUs and {memory}"
    text = f"no node of the cluster has {wanted} for a run: it waits until there is one"
    warnings.warn(text, stacklevel=3)


def _has_room(resources: Json, needed: dict[str, float]) -> bool:
    return all(resources.get(name, 0) >= amount for name, amount in needed.items())


def _work(study: Path, name: str, threads: int, gpus: float, callbacks: Sequence[str]) -> None:
    # XLA reads both at the first computation, which is still to come.
    os.environ[THREADS] = str(threads)
    if 0 < gpus < 1:  # alone, a run would take three quarters of a GPU's memory
        os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 * gpus:.3f}")
    try:
        work(study, name, callbacks=callbacks)
    except KeyboardInterrupt as stop:
        if stop.args != (signal.SIGTERM,):
            raise  # Ray's own way to cancel a task
        # This worker's end was wished for, not the task's: what is saved goes on elsewhere, as
        # after any death.
        os._exit(1)


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError("ray is not installed: pip install 'edrl[ray]'") from error
    return ray
