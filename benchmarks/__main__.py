"""`python -m benchmarks [NAME ...]`: measure, print, and write results/*.json.

The names are imputation, noise, robust, repair, decode, chain, loops, sweep, update, quantiles,
heads, envs, host_training and start; without any, all of them run.

Five run only when they are named: `training` and `nature`, as `make benchmark-peers` installs what they
compare ours with, `full_study`, which works out costs from what `training` found, `compiled`,
which `make benchmark-compiled` installs a rival for, and `frames`, which needs Chromium.
"""

import importlib
import json
import sys
from pathlib import Path

from benchmarks.timing import machine

NAMES = (
    "imputation", "noise", "robust", "repair", "decode", "chain", "loops", "sweep", "update",
    "quantiles", "heads", "envs", "host_training", "start",
)  # fmt: skip
ONLY_BY_NAME = ("training", "nature", "full_study", "compiled", "frames")


def main(names: list[str]) -> None:
    known = NAMES + ONLY_BY_NAME
    unknown = set(names) - set(known)
    if unknown:
        sys.exit(f"unknown benchmark {sorted(unknown)}: choose from {list(known)}")
    for name in names or NAMES:
        result = {
            "machine": machine(),
            "results": importlib.import_module(f"benchmarks.{name}").run(),
        }
        path = Path(__file__).parent / "results" / f"{name}.json"
        path.write_text(json.dumps(result, indent=2) + "\n")
        print(json.dumps(result["results"], indent=2))
        print(f"written to {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
