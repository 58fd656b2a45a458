"""One EDRL sweep over Garnet MDPs of growing size: time and memory a transition."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SIZES = [1_000, 10_000, 100_000, 1_000_000]


def measure(states: int) -> dict[str, float]:
    """In a process of its own, so that the peak of memory is that of this size."""
    code = f"from benchmarks.sweep import one; one({states})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def one(states: int) -> None:
    import numpy as np

    from benchmarks.timing import seconds
    from edrl import Expectiles
    from edrl.tabular import imputed_backup, problems

    mdp = problems.garnet(0, states=states, actions=4, branching=5, gamma=0.95)
    family = Expectiles(11)
    values = np.zeros((states, 4, 11))
    # A small sweep first: what the libraries themselves hold is no cost of the problem.
    small = problems.garnet(0, states=100, actions=4, branching=5, gamma=0.95)
    imputed_backup(small, 0, family, values[:100])
    before = _kilobytes("VmRSS")
    # The peak is counted from here: building the MDP had one, too.
    Path("/proc/self/clear_refs").write_text("5")
    values = np.asarray(imputed_backup(mdp, 0, family, values))
    times = [seconds(lambda: imputed_backup(mdp, 0, family, values)) for _ in range(3)]
    after = _kilobytes("VmHWM")
    print(json.dumps({"states": states, "transitions": mdp.num_transitions, "seconds": float(np.median(times)),
                      "peak_megabytes": (after - before) / 1024}))  # fmt: skip


def _kilobytes(field: str) -> int:
    """Of this process, as Linux tells."""
    lines = Path("/proc/self/status").read_text().split("\n")
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def run() -> dict[str, Any]:
    from benchmarks.timing import exponent

    rows = [measure(states) for states in SIZES]
    transitions = [int(row["transitions"]) for row in rows]
    return {
        "rows": rows,
        "microseconds_a_transition": [1e6 * row["seconds"] / row["transitions"] for row in rows],
        "kilobytes_a_transition": [
            1024 * row["peak_megabytes"] / row["transitions"] for row in rows
        ],
        "exponent_of_time": exponent(transitions, [row["seconds"] for row in rows]),
    }
