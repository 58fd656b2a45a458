"""How everything here is timed: rounds that alternate between the rivals, and the median of their
ratios.
"""

import os
import platform
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def seconds(function: Callable[[], Any], repeat: int = 1) -> float:
    """The time of one call, over `repeat` calls in a row; what JAX still computes is waited for."""
    start = time.perf_counter()
    for _ in range(repeat):
        jax.block_until_ready(function())
    return (time.perf_counter() - start) / repeat


def side_by_side(
    ours: Callable[[], Any], theirs: Callable[[], Any], *, rounds: int = 5, repeat: int = 1
) -> dict[str, float]:
    """Alternate both `rounds` times after one untimed call each (ours `repeat` times a round, it is
    the short one).
    """
    ours(), theirs()
    pairs = [(seconds(ours, repeat), seconds(theirs)) for _ in range(rounds)]
    ratios = [slow / fast for fast, slow in pairs]
    return {
        "ours_seconds": float(np.median([fast for fast, _ in pairs])),
        "theirs_seconds": float(np.median([slow for _, slow in pairs])),
        "times_faster": float(np.median(ratios)),
        "times_faster_least": float(np.min(ratios)),
        "times_faster_most": float(np.max(ratios)),
        "rounds": rounds,
    }


def exponent(sizes: list[int], times: list[float]) -> float:
    """The slope a of time ~ size^a in the log-log plane."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    return {
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
    }
