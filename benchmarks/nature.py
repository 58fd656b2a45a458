"""An update of 32 transitions with Nature's network: ours against PyTorch's, on one core.

PyTorch's is written for this and compiled (`benchmarks.peers.torch_nature`). Each is a process; they
take turns, and ratios are taken within a round. `make benchmark-peers` installs PyTorch.
"""

import os
from typing import Any

import numpy as np

from benchmarks.peers.tasks import UPDATE
from benchmarks.training import OURS, PEERS, Contestant

_AGENTS = ("dqn", "er-dqn", "qr-dqn")


def run() -> dict[str, Any]:
    core = {max(os.sched_getaffinity(0))}
    return {agent: compare(agent, core) for agent in _AGENTS}


def compare(agent: str, core: set[int]) -> dict[str, Any]:
    """Both by turns; a ratio above 1 says that ours is faster."""
    commands = {"ours": (OURS, "our_nature"), "theirs": (PEERS, "torch_nature")}
    both = {name: Contestant(core, {}, agent, command) for name, command in commands.items()}
    times = {name: np.zeros(UPDATE.rounds) for name in both}
    for number in range(UPDATE.rounds):
        for name, contestant in both.items():
            times[name][number] = contestant.seconds()
    for contestant in both.values():
        contestant.close()
    ratios = times["theirs"] / times["ours"]
    milliseconds = {
        name: 1e3 * float(np.median(all_)) / UPDATE.steps for name, all_ in times.items()
    }
    return {
        "our_milliseconds": milliseconds["ours"],
        "their_milliseconds": milliseconds["theirs"],
        "times_as_fast": float(np.median(ratios)),
        "times_as_fast_least": float(np.min(ratios)),
        "times_as_fast_most": float(np.max(ratios)),
        "rounds": UPDATE.rounds,
        "versions": both["theirs"].versions,
    }
