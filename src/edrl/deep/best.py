"""The network of the best evaluation, which is kept beside the last one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from edrl.core.check import fail
from edrl.deep.callbacks import Callback, Evaluation
from edrl.deep.checkpoint import read_arrays, write_arrays
from edrl.deep.manifest import damaged
from edrl.deep.state import Arrays, from_arrays, to_arrays
from edrl.deep.types import Parameters

if TYPE_CHECKING:
    from edrl.deep.run import Run

FILE = "best.npz"


class KeepBest(Callback):
    """Writes the network whenever an evaluation's mean score is the highest so far."""

    def __init__(self) -> None:
        self._score = -np.inf

    def on_evaluation(self, run: Run, evaluation: Evaluation) -> None:
        score = float(np.mean(evaluation.played.scores))
        if score <= self._score:
            return
        self._score = score
        network = to_arrays({"network": run.state.learner.acting})
        beside = run.out / f"{FILE}.new"
        write_arrays(beside, {"step": np.array(run.step), "score": np.array(score), **network})
        os.replace(beside, run.out / FILE)

    def save(self) -> dict[str, np.ndarray]:
        return {"score": np.array(self._score)}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        self._score = float(arrays.get("score", -np.inf))


def best_network(out: Path, like: Parameters) -> tuple[Parameters, int]:
    """The network of a run's best evaluation, and the step at which it was made.

    Args:
        out: the run's directory.
        like: parameters of the same agent.
    """
    path = out / FILE
    if not path.exists():
        right = "no evaluation of it was kept: leave `best` out, or train it with evaluations"
        raise fail("run", str(out), right)
    arrays = read_arrays(path)
    step = int(_number(path, arrays, "step", "i"))
    if step < 0:
        raise damaged(out, f"step in {FILE} must be at least 0, got {step}")
    _number(path, arrays, "score", "f")
    return from_arrays({"network": like}, arrays, str(path))["network"], step


def _number(path: Path, arrays: Arrays, name: str, kind: str) -> float:
    """A single number of a file, a whole one (i) or any finite one (f)."""
    if name not in arrays:
        raise damaged(path.parent, f"{FILE} has no {name}")
    array, number = arrays[name], "whole number" if kind == "i" else "finite number"
    if array.shape != () or array.dtype.kind != kind or not np.isfinite(array):
        raise damaged(path.parent, f"{name} in {FILE} is no {number}")
    return cast("float", array.item())
