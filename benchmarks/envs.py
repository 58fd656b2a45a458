"""Agent steps a second on MinAtar with environments side by side (`--envs`), against one: an update
every 4 steps.
"""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.timing import seconds
from edrl.deep.config import preset
from edrl.deep.run import Run

ENVS = (1, 4, 16)
_LEARN_AFTER, _STEPS, _ROUNDS = 1_600, 1_600, 7


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        runs = {envs: _learning(envs, Path(directory) / str(envs)) for envs in ENVS}
        times: dict[int, list[float]] = {envs: [] for envs in ENVS}
        for _ in range(_ROUNDS):
            for envs, training in runs.items():
                times[envs].append(seconds(partial(_go_on, training)))
    return {
        f"er-dqn, {envs} envs": {
            "steps_per_second": _STEPS / float(np.median(times[envs])),
            "times_faster_than_one": float(np.median(np.array(times[1]) / times[envs])),
            "rounds": _ROUNDS,
        }
        for envs in ENVS
    }


def _learning(envs: int, out: Path) -> Run:
    """A run that has begun to learn, with everything compiled."""
    config = preset(
        "minatar", envs=envs, update_every=4, learn_after=_LEARN_AFTER, replay=20_000, epsilon=(0.1, 0.1),
        steps=10**8, target_every=1_600, log_every=1_600, evaluate_every=0, checkpoint_every=1_600,
    )  # fmt: skip
    training = Run(config, out)
    training.begin()
    while training.step < _LEARN_AFTER + 160:
        training.advance()
    return training


def _go_on(training: Run) -> Any:
    until = training.step + _STEPS
    while training.step < until:
        training.advance()
    return jax.block_until_ready(training.state.learner)
