"""Agent steps in a second of CPU time on one core: compiled training against training on the host.

MinAtar's Breakout, compiled in pgx's version of it, on the host in MinAtar's own. All take turns in
one process, and ratios are taken within a round. `python -m benchmarks compiled` needs
`pip install -e '.[minatar,pgx]'`. The compiled rival, rejax, is a process of its own if
`make benchmark-rejax` has installed it.
"""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from edrl.deep.config import Config, preset
from edrl.deep.run import Run

ROOT = Path(__file__).parents[1]
REJAX = ROOT / ".venv-rejax" / "bin" / "python"
AGENTS = ("er-dqn", "dqn")
_ROUNDS = 5
_PLAIN: dict[str, Any] = {
    "steps": 10**8, "evaluate_every": 0, "log_every": 10**6, "checkpoint_every": 10**6,
    "epsilon": (0.1, 0.1),
}  # fmt: skip
_REPLAY: dict[str, Any] = {"replay": 20_000, "learn_after": 1_600, "target_every": 1_600, **_PLAIN}
MODES: dict[str, dict[str, Any]] = {
    "replay, 1 env, an update every step": {"preset": "minatar", "update_every": 1, **_REPLAY},
    "replay, 16 envs, an update every 8 steps": {
        "preset": "minatar", "envs": 16, "update_every": 8, **_REPLAY,
    },
    "rollouts, 32 envs": {"preset": "parallel", **_PLAIN},
}  # fmt: skip
"""Settings by their names; an update learns from 32 transitions, or is one of a rollout's 64."""
_STEPS = {"minatar": 1_600, "parallel": 2 * 1_024}  # of a measurement


def run() -> dict[str, Any]:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before JAX counts the cores
    found: dict[str, Any] = {}
    for mode in MODES:
        for agent in AGENTS:
            found[f"{agent}, {mode}"] = compare(mode, agent)
    return {**found, **_rejax()}


def compare(mode: str, agent: str) -> dict[str, Any]:
    """Both in alternating rounds."""
    settings = dict(MODES[mode])
    name = settings.pop("preset")
    steps = _STEPS[name]
    with tempfile.TemporaryDirectory() as directory:
        runs = {}
        for env in ("pgx/minatar-breakout", "minatar/breakout"):
            config = preset(name, agent=agent, env=env, **settings)
            runs[env] = _learning(config, Path(directory) / env, steps)
        rounds = [[_seconds(one, steps) for one in runs.values()] for _ in range(_ROUNDS)]
    compiled, host = np.array(rounds).T
    return {
        "compiled_steps_per_cpu_second": steps / float(np.median(compiled)),
        "host_steps_per_cpu_second": steps / float(np.median(host)),
        "times_faster": float(np.median(host / compiled)),
        "times_faster_least": float(np.min(host / compiled)),
        "times_faster_most": float(np.max(host / compiled)),
        "rounds": _ROUNDS,
    }


def _learning(config: Config, out: Path, steps: int) -> Run:
    """A run that has begun to learn, with everything compiled."""
    training = Run(config, out)
    training.begin()
    while training.step < (0 if config.rollout else config.learn_after) + steps:
        training.advance()
    return training


def _seconds(training: Run, steps: int) -> float:
    """Seconds of CPU time for so many steps."""
    began, until = time.process_time(), training.step + steps
    while training.step < until:
        training.advance()
    jax.block_until_ready(training.state.learner)
    return time.process_time() - began


def _rejax() -> dict[str, Any]:
    """The speed of rejax's DQN and IQN in gymnax's Breakout, with the settings of 16 envs."""
    if not REJAX.exists():
        return {"rejax": f"not measured: there is no {REJAX.relative_to(ROOT)}"}
    found = {}
    for agent in ("dqn", "iqn"):
        command = [str(REJAX), "-m", "benchmarks.peers.rejax_agents", agent]
        answer = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        if answer.returncode:
            found[f"rejax, {agent}"] = {"failed": answer.stderr.splitlines()[-8:]}
        else:
            found[f"rejax, {agent}"] = json.loads(answer.stdout.splitlines()[-1])
    return found
