"""What a study will take: hours from a measured speed, disk and memory from the sizes of things."""

import dataclasses
import functools
import heapq
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

from edrl.deep.agents import Agent, build_agent
from edrl.deep.checkpoint import KEPT
from edrl.deep.config import Config
from edrl.deep.environments import Environment, make
from edrl.deep.learner import new_learner, optimiser_for
from edrl.deep.named_statistics import THREADS
from edrl.deep.run import Run
from edrl.deep.variant import Variant
from edrl.named_modules import find_named_modules_in
from edrl.study.machine import core_count, free_memory
from edrl.study.plan import Planned
from edrl.study.progress import finished, steps_done
from edrl.study.timing import timing_of

_SECONDS = 0.5  # of measuring a speed, after compilation
_SPEED = "steps a second: "  # begins the line on which the speed of an agent is printed
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
    speeds: dict[Variant, float]  # steps of training a second, evaluations included


def estimate(study: Path, runs: Sequence[Planned], jobs: int, threads: int) -> Estimate:
    """Estimate what the unfinished runs of a study take, if `jobs` of them run at a time."""
    left = unfinished(study, runs)
    speeds = _speeds(study, runs, left, threads)
    steps = [_steps_left(study, run) for run in left]
    seconds = [count / speeds[run.config.variant] for run, count in zip(left, steps, strict=True)]
    sizes = [sizes_of(kind_of(run.config)) for run in left]
    return Estimate(
        runs=len(left),
        steps=sum(steps),
        hours=_until_all_are_done(seconds, jobs) / 3600,
        disk=sum(size.disk for size in sizes),
        memory=max((size.memory for size in sizes), default=0.0),
        speeds=speeds,
    )


def unfinished(study: Path, runs: Sequence[Planned]) -> list[Planned]:
    """The runs that are not finished."""
    return [run for run in runs if not finished(study / run.name, run.config)]


def _steps_left(study: Path, run: Planned) -> int:
    return max(0, run.config.steps - steps_done(study / run.name))


def _until_all_are_done(durations: Sequence[float], jobs: int) -> float:
    """The time that all take if each begins as soon as one of `jobs` places is free."""
    ends = [0.0] * jobs
    for duration in durations:
        heapq.heappush(ends, heapq.heappop(ends) + duration)
    return max(ends)


@functools.cache
def sizes_of(config: Config) -> Sizes:
    """The bytes that one run needs: for its replay memory and for the checkpoints that are kept."""
    environment = make(config.env, seed=0)
    sizes = sizes_with(config, environment, build_agent(config, environment))
    environment.close()
    return sizes


def sizes_with(config: Config, environment: Environment, agent: Agent) -> Sizes:
    """The bytes that one run needs, if its environment and agent have been built already."""
    pixels = int(np.prod(environment.frame_shape))
    frame = pixels * np.dtype(environment.frame_dtype).itemsize + _OTHER_FIELDS
    optimiser = optimiser_for(config, agent)
    # Shapes alone: a GPU is for the runs.
    learner = jax.eval_shape(lambda: new_learner(agent, optimiser, jax.random.key(0)))
    parameters = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(learner))
    if config.rollout:
        held = 2 * config.envs * config.rollout * frame * environment.stack
        return Sizes(_PROCESS + held, (KEPT + 1) * (parameters + held))
    # On disk the older checkpoint needs what has left the memory since, while the next one is being
    # written.
    stored = min(config.steps, config.replay + KEPT * config.checkpoint_every)
    # The last frame of an episode is an entry, too.
    remembered = min(config.replay, 2 * config.steps)
    return Sizes(_PROCESS + remembered * frame, stored * frame + (KEPT + 1) * parameters)


def fitting_jobs(runs: Sequence[Planned], threads: int) -> int:
    """How many runs can work at once with the cores and the memory of this machine."""
    largest = max(sizes_of(kind_of(run.config)).memory for run in runs)
    return max(1, int(min(core_count() // threads, 0.9 * free_memory() / largest)))


def kind_of(config: Config) -> Config:
    """The config with one seed for all: runs that differ in their seeds alone are of one kind."""
    return dataclasses.replace(config, seed=0)


def _speeds(
    study: Path, runs: Sequence[Planned], left: Sequence[Planned], threads: int
) -> dict[Variant, float]:
    """Steps of training a second, evaluations included, for each agent that has runs left.

    Runs that have begun to learn tell the speed. Where there is none, it is measured now.
    """
    first: dict[Variant, Config] = {}
    for run in left:
        first.setdefault(run.config.variant, run.config)
    so_far = {agent: _speed_so_far(study, runs, agent) for agent in first}
    unknown = [config for agent, config in first.items() if not so_far[agent]]
    measured = _speeds_with_evaluations(unknown, threads)
    return {agent: so_far[agent] or measured[agent] for agent in first}


def _speeds_with_evaluations(configs: Sequence[Config], threads: int) -> dict[Variant, float]:
    """Measured steps of training a second, less what evaluations will take."""
    speeds = {}
    for config, speed in zip(configs, measured_speeds(configs, threads), strict=True):
        speeds[config.variant] = speed / _played(config)
    return speeds


def _speed_so_far(study: Path, runs: Sequence[Planned], agent: Variant) -> float:
    """Steps a second since learning began; 0 if no run has begun to learn.

    Before that a run is far faster.
    """
    steps, seconds = 0, 0.0
    for run in filter(lambda run: run.config.variant == agent, runs):
        timing = timing_of(study / run.name, run.config.learn_after)
        if timing is not None:
            steps, seconds = steps + timing.steps, seconds + timing.seconds
    return steps / seconds if seconds else 0.0


def _played(config: Config) -> float:
    """How many steps are played for each step of training, evaluations included.

    A step of an evaluation is taken to last as long as one of training.
    """
    if not config.evaluate_every:
        return 1.0
    return 1 + config.evaluate_steps / config.evaluate_every


def measured_speeds(configs: Sequence[Config], threads: int) -> list[float]:
    """Measure the steps a second after learning has started, with `threads` threads.

    All are measured in one process: what it imports and compiles for one agent serves the next.
    """
    if not configs:
        return []
    found = subprocess.run(
        # -P: from where it is started it imports only modules that are named.
        [sys.executable, "-P", "-m", "edrl.study.estimate"],
        input=json.dumps([config.to_json() for config in configs]),
        env={**os.environ, THREADS: str(threads)},
        capture_output=True,
        text=True,
    )
    # Modules that it imports may print, too.
    lines = [line for line in found.stdout.split("\n") if line.startswith(_SPEED)]
    if len(lines) < len(configs):
        config = configs[len(lines)]
        raise RuntimeError(f"{config.variant} on {config.env} does not run:\n{found.stderr}")
    return [float(line.removeprefix(_SPEED)) for line in lines]


def _measure(config: Config) -> float:
    unit = _steps_until_all_is_repeated(config)
    start = -(-max(2 * config.batch, config.envs * (config.n_step + 2)) // unit) * unit
    config = dataclasses.replace(
        config, learn_after=start, replay=max(1000, 2 * start), epsilon=(0.1, 0.1)
    )
    with tempfile.TemporaryDirectory() as directory:
        run = Run(config, Path(directory))
        run.begin()
        # Compiles. A whole rollout takes long, and all is compiled once the first is learnt from.
        while run.step < start + (0 if config.rollout else 3) * unit:
            run.advance()
        begin, began = time.perf_counter(), run.step
        while time.perf_counter() < begin + _SECONDS or (run.step - began) % unit:
            run.advance()
        jax.block_until_ready(run.state.learner)
        return (run.step - began) / (time.perf_counter() - begin)


def _steps_until_all_is_repeated(config: Config) -> int:
    """After so many steps the same programs run again."""
    if config.rollout:
        return config.envs * config.rollout
    return max(config.envs, config.update_every)


if __name__ == "__main__":
    find_named_modules_in(Path.cwd())
    for text in json.loads(sys.stdin.read()):
        print(f"\n{_SPEED}{_measure(Config.from_json(text))}", flush=True)
