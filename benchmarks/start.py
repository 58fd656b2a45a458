"""What it costs to start: CPU seconds of fresh interpreters, beside `import jax, scipy`."""

import os
import resource
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

_THEIRS = "import jax, scipy"
_CHAIN = (
    "import edrl; from edrl.tabular import evaluate, learn, problems; chain = problems.n_chain(15)"
)
_EVALUATE = f"{_CHAIN}; evaluate(chain, 0, edrl.Expectiles(9))"
_LEARN = f"{_CHAIN}; learn(chain, edrl.Expectiles(9), 0, steps=1000)"
_KEPT = "import edrl; edrl.cache_compilations(); "
_STARTS = {
    "nothing": "pass",
    "import jax, scipy": _THEIRS,
    "import edrl": "import edrl",
    "import edrl; edrl.Expectiles": "import edrl; edrl.Expectiles",
    "import equinox": "import equinox",  # of which edrl.Expectiles is made
    "import edrl; edrl.train": "import edrl; edrl.train",
    "edrl --version": "from edrl.cli import main; main()",
    "edrl --help": "from edrl.cli import main; main()",
    "edrl train --help": "from edrl.cli import main; main()",
    "first evaluate": _EVALUATE,
    "first evaluate, compiled before": _KEPT + _EVALUATE,
    "first learn": _LEARN,
    "first learn, compiled before": _KEPT + _LEARN,
}
_ROUNDS = 7


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:
        os.environ["EDRL_CACHE"] = cache  # which the first round fills, too
        return _starts()


def _starts() -> dict[str, Any]:
    times: dict[str, list[float]] = {name: [] for name in _STARTS}
    for number in range(_ROUNDS + 1):
        for name, code in _STARTS.items():
            taken = _cpu_seconds(code, _arguments(name))
            if number > 0:  # the first round fills caches of the disk, and compiles to bytecode
                times[name].append(taken)
    theirs = np.array(times[_THEIRS])
    return {
        name: {
            "cpu_seconds": float(np.median(times[name])),
            "times_import_jax_scipy": float(np.median(np.array(times[name]) / theirs)),
            "rounds": _ROUNDS,
        }
        for name in _STARTS
    }


def _arguments(name: str) -> list[str]:
    """What stands behind the command `edrl`; nothing for other starts."""
    return name.split()[1:] if name.startswith("edrl ") else []


def _cpu_seconds(code: str, arguments: list[str]) -> float:
    """The CPU time of a fresh interpreter that runs some code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", code, *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
