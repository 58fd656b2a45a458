"""Training on the host, in CPU time of one core: what drawing a batch costs, and how many steps are
made in a second.

Drawing 32 transitions from replay memory is compared with NumPy's bare `take` of the same numbers
of frames, actions, rewards and ends: it draws places alike, and knows nothing of episodes. Training
on MinAtar's Breakout is compared between modes, each with ER-DQN and DQN.
"""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compiled import MODES, STEPS, learning, measured
from edrl.deep.config import preset
from edrl.deep.replay import Replay

_ROUNDS, _DRAWS, _BATCH, _EPISODE = 9, 300, 32, 200
_MEMORIES: dict[str, tuple[int, tuple[int, ...], int]] = {
    "Atari, 84 x 84 x 4": (20_000, (84, 84), 4),
    "MinAtar, 10 x 10 x 4": (100_000, (10, 10, 4), 1),
}
"""Capacity, shape of a frame, and stack."""


def run() -> dict[str, Any]:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before JAX counts the cores
    drawing = {name: _drawing(*memory) for name, memory in _MEMORIES.items()}
    return {"32 transitions": drawing, "training": _training()}


def _drawing(capacity: int, frame_shape: tuple[int, ...], stack: int) -> dict[str, float]:
    """Our memory and the bare one, in alternating rounds."""
    replay, rng = _filled(capacity, frame_shape, stack), np.random.default_rng(0)
    back = np.arange(stack)

    def bare() -> tuple[np.ndarray, ...]:
        places = rng.integers(0, capacity - stack - 1, _BATCH)
        seen = places[:, None] + back
        columns = replay.actions, replay.rewards, replay.terminals
        frames = replay.frames.take(seen, axis=0), replay.frames.take(seen + 1, axis=0)
        return (*frames, *(column.take(places) for column in columns))

    def ours() -> object:
        return replay.sample(rng, _BATCH)

    pairs = [(_seconds(ours), _seconds(bare)) for _ in range(_ROUNDS)]
    ratios = [one / other for one, other in pairs]
    return {
        "microseconds": 1e6 * float(np.median([one for one, _ in pairs])),
        "times_takes": float(np.median(ratios)),
        "times_takes_least": float(np.min(ratios)),
        "times_takes_most": float(np.max(ratios)),
        "rounds": _ROUNDS,
    }


def _filled(capacity: int, frame_shape: tuple[int, ...], stack: int) -> Replay:
    """A memory whose oldest entries have been overwritten."""
    replay, rng = Replay(capacity, frame_shape, np.uint8, stack), np.random.default_rng(0)
    for step in range(capacity + _EPISODE):
        frame = rng.integers(0, 256, frame_shape, np.uint8)
        last = step % _EPISODE == _EPISODE - 1
        replay.add(frame, step % 3, 0.0, terminal=last, start=step % _EPISODE == 0)
        if last:
            replay.add_last(frame)
    return replay


def _seconds(draw: Callable[[], object]) -> float:
    """CPU time of one call."""
    began = time.process_time()
    for _ in range(_DRAWS):
        draw()
    return (time.process_time() - began) / _DRAWS


def _training() -> dict[str, dict[str, float]]:
    """All modes in alternating rounds; speeds are compared with the first one's."""
    with tempfile.TemporaryDirectory() as directory:
        times: dict[str, Callable[[], float]] = {}
        for agent in ("er-dqn", "dqn"):
            for number, (mode, given) in enumerate(MODES.items()):
                settings = {**given, "agent": agent, "env": "minatar/breakout"}
                config = preset(settings.pop("preset"), **settings)
                training = learning(config, Path(directory) / f"{agent}-{number}")
                times[f"{agent}, {mode}"] = measured(training, STEPS[config.envs])
        rounds = [{name: measure() for name, measure in times.items()} for _ in range(_ROUNDS)]
    first, found = next(iter(times)), {}
    for name in times:
        spent = np.array([one[name] for one in rounds])
        ratios = np.array([one[first] for one in rounds]) / spent
        found[name] = {
            "steps_per_cpu_second": float(1 / np.median(spent)),
            "times_faster_than_the_first": float(np.median(ratios)),
            "times_faster_than_the_first_least": float(np.min(ratios)),
            "times_faster_than_the_first_most": float(np.max(ratios)),
            "rounds": _ROUNDS,
        }
    return found
