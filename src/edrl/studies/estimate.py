"""What a study will take: hours from a measured speed, disk and memory from the sizes of things."""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from edrl.deep.checkpoint import KEPT
from edrl.deep.config import Config
from edrl.deep.environments import make
from edrl.deep.train import Run, build_agent
from edrl.studies.plan import Planned
from edrl.studies.work import THREADS, seconds_spent, steps_done

_SECONDS = 3.0  # of measuring a speed, after compilation
_PROCESS = 0.8e9  # bytes of a process without its replay memory: Python, JAX, compiled programs
_OTHER_FIELDS = 10  # bytes of a transition in replay memory besides its frame


@dataclass(frozen=True)
class Sizes:
    """Bytes that a run needs."""

    memory: float
    disk: float


@dataclass(frozen=True)
class Estimate:
    """What is left to do, and what it takes."""

    runs: int
    steps: int
    hours: float
    disk: float
    memory: float  # of the largest run
    speeds: dict[str, float]  # agent -> steps a second


def estimate(study: Path, runs: Sequence[Planned], jobs: int, threads: int) -> Estimate:
    """For the runs that are given, `jobs` at a time. Steps of evaluations are counted like those of training."""
    speeds = _speeds(study, runs, threads)
    steps = {run.name: max(0, run.config.steps - steps_done(study / run.name)) for run in runs}
    seconds = 0.0
    for run in runs:
        config = run.config
        played = config.evaluate_steps / config.evaluate_every if config.evaluate_every else 0.0
        seconds += steps[run.name] * (1 + played) / speeds[config.agent]
    sizes = [sizes_of(run.config) for run in runs]
    return Estimate(
        len(runs), sum(steps.values()), seconds / min(jobs, max(1, len(runs))) / 3600,
        sum(size.disk for size in sizes), max((size.memory for size in sizes), default=0.0), speeds,
    )  # fmt: skip


def sizes_of(config: Config) -> Sizes:
    """Of one run: replay memory in main memory and on disk, and the checkpoints that are kept."""
    environment = make(config.env, seed=0)
    frame = int(np.prod(environment.frame_shape)) * np.dtype(environment.frame_dtype).itemsize + _OTHER_FIELDS
    agent = build_agent(config, environment)
    environment.close()
    learner = jax.eval_shape(agent.init, jax.random.key(0))
    parameters = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(learner))
    # On disk there is up to one checkpoint's worth of transitions that have left the memory.
    stored = min(config.steps, config.replay + config.checkpoint_every)
    return Sizes(_PROCESS + config.replay * frame, stored * frame + KEPT * parameters)


def fitting_jobs(runs: Sequence[Planned], threads: int) -> int:
    """How many runs at once this machine has the cores and the memory for."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    largest = max(sizes_of(config).memory for config in {_kind(run.config) for run in runs})
    return max(1, min(cores // threads, int(0.9 * _free_memory() / largest)))


def _kind(config: Config) -> Config:
    return dataclasses.replace(config, seed=0)


def _free_memory() -> float:
    try:
        lines = Path("/proc/meminfo").read_text().split("\n")
        return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return float("inf")


def _speeds(study: Path, runs: Sequence[Planned], threads: int) -> dict[str, float]:
    """Steps a second of each agent: of the runs that have come somewhere, or else measured now."""
    known: dict[str, tuple[float, float]] = {}
    for run in runs:
        steps, seconds = steps_done(study / run.name), seconds_spent(study / run.name)
        before = known.get(run.config.agent, (0.0, 0.0))
        known[run.config.agent] = (before[0] + steps, before[1] + seconds)
    first = {run.config.agent: run.config for run in reversed(runs)}
    return {
        agent: steps / seconds if seconds else measured_speed(first[agent], threads)
        for agent, (steps, seconds) in known.items()
    }


def measured_speed(config: Config, threads: int) -> float:
    """Steps a second after learning has started, in a process with so many threads."""
    found = subprocess.run(
        [sys.executable, "-m", "edrl.studies.estimate"],
        input=config.to_json(),
        env={**os.environ, THREADS: str(threads)},
        capture_output=True,
        text=True,
    )
    if found.returncode:
        raise RuntimeError(f"{config.agent} on {config.env} does not run:\n{found.stderr}")
    return float(json.loads(found.stdout)["steps_per_second"])


def _measure(config: Config) -> float:
    unit = max(config.envs, config.update_every)  # of steps, after which the same programs run again
    start = -(-max(2 * config.batch, config.envs * (config.n_step + 2)) // unit) * unit
    config = dataclasses.replace(config, learn_after=start, replay=max(1000, 2 * start), epsilon=(0.1, 0.1))
    with tempfile.TemporaryDirectory() as directory:
        run = Run(config, Path(directory))
        run.begin()
        while run.step < start + 3 * unit:
            run.advance()  # compiles
        begin, began = time.perf_counter(), run.step
        while time.perf_counter() < begin + _SECONDS or (run.step - began) % unit:
            run.advance()
        jax.block_until_ready(run.learner)
        return (run.step - began) / (time.perf_counter() - begin)


if __name__ == "__main__":
    print(json.dumps({"steps_per_second": _measure(Config.from_json(sys.stdin.read()))}))
