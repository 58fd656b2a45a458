"""Agent steps in a second of CPU time on one core: compiled training against training on the host.

MinAtar's Breakout: compiled in pgx's version of it, on the host in MinAtar's own. rejax's DQN and
IQN, which are compiled as well, play gymnax's version in a process of their own. All take turns, and
ratios are taken within a round. `make benchmark-compiled` installs what is needed.
"""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.training import ROOT, Contestant, Stopped
from edrl.deep.config import Config, preset
from edrl.deep.run import Run

REJAX = ROOT / ".venv-rejax" / "bin" / "python"
_ROUNDS = 9
_PLAIN: dict[str, Any] = {
    "steps": 10**8, "evaluate_every": 0, "log_every": 10**6, "checkpoint_every": 10**6,
    "epsilon": (0.1, 0.1),
}  # fmt: skip
_REPLAY: dict[str, Any] = {"preset": "minatar", "replay": 20_000, "learn_after": 800, **_PLAIN}
MODES: dict[str, dict[str, Any]] = {
    "1 env, an update every step": {"update_every": 1, "target_every": 400, **_REPLAY},
    "16 envs, an update every 8 steps": {
        "envs": 16, "update_every": 8, "target_every": 1_600, **_REPLAY,
    },
    "32 envs, 64 updates from a rollout of 32": {"preset": "parallel", **_PLAIN},
}  # fmt: skip
"""Settings by their names. An update from replay memory learns from 32 transitions."""
STEPS = {1: 400, 16: 1_600, 32: 2_048}  # of a measurement, by the number of environments
_COMPARED = (
    ("er-dqn", "1 env, an update every step"),
    ("dqn", "1 env, an update every step"),
    ("er-dqn", "16 envs, an update every 8 steps"),
    ("dqn", "16 envs, an update every 8 steps"),
    ("iqn", "16 envs, an update every 8 steps"),
    ("er-dqn", "32 envs, 64 updates from a rollout of 32"),
    ("dqn", "32 envs, 64 updates from a rollout of 32"),
)
_RIVALS = ("dqn", "iqn")  # of rejax, with replay memory


def run() -> dict[str, Any]:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before JAX counts the cores
    return {f"{agent}, {mode}": compare(agent, mode) for agent, mode in _COMPARED}


def compare(agent: str, mode: str) -> dict[str, Any]:
    """All in alternating rounds."""
    settings = dict(MODES[mode])
    name, envs = settings.pop("preset"), settings.get("envs", 32 if "rollout" in mode else 1)
    with tempfile.TemporaryDirectory() as directory:
        times: dict[str, Callable[[], float]] = {}
        for who, env in (("compiled", "pgx/minatar-breakout"), ("host", "minatar/breakout")):
            config = preset(name, agent=agent, env=env, **settings)
            times[who] = measured(learning(config, Path(directory) / who), STEPS[envs])
        rival, versions = _rival(agent, mode, settings)
        if rival is not None:
            times["rejax"] = lambda: rival.seconds() / STEPS[16]
        rounds = [{who: measure() for who, measure in times.items()} for _ in range(_ROUNDS)]
        if rival is not None:
            rival.close()
    return {**_summary(rounds), "rounds": _ROUNDS, **versions}


def learning(config: Config, out: Path) -> Run:
    """A run that has begun to learn, with everything compiled."""
    training = Run(config, out)
    training.begin()
    until = 2 * config.envs * config.rollout or config.learn_after + 400
    while training.step < until:
        training.advance()
    return training


def measured(training: Run, steps: int) -> Callable[[], float]:
    """A function that goes on for some steps, and returns the seconds of CPU time for each."""

    def measure() -> float:
        began, first = time.process_time(), training.step
        while training.step < first + steps:
            training.advance()
        jax.block_until_ready(training.state.learner)
        return (time.process_time() - began) / (training.step - first)

    return measure


def _rival(
    agent: str, mode: str, settings: dict[str, Any]
) -> tuple[Contestant | None, dict[str, str]]:
    """rejax's agent of the same name, if there is one here."""
    if agent not in _RIVALS or not mode.startswith("16"):
        return None, {}
    updates = settings["envs"] // settings["update_every"]
    command = (REJAX, "rejax_agents", agent)
    try:
        rival = Contestant(os.sched_getaffinity(0), {}, f"{settings['envs']},{updates}", command)
    except Stopped as error:
        return None, {"rejax": f"not measured: {error}"}
    return rival, {"rejax": rival.versions}


def _summary(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Speeds, and how many times as fast compiled training is as the others."""
    found = {}
    for who in rounds[0]:
        times = np.array([one[who] for one in rounds])
        found[f"{who}_steps_per_cpu_second"] = float(1 / np.median(times))
        if who != "compiled":
            ratios = times / np.array([one["compiled"] for one in rounds])
            found[f"times_faster_than_{who}"] = float(np.median(ratios))
            found[f"times_faster_than_{who}_least"] = float(np.min(ratios))
            found[f"times_faster_than_{who}_most"] = float(np.max(ratios))
    return found
