"""Agent steps a second while learning, acting and updating together: ours against agents of other
projects.

Every contestant is a process of its own (see peers/README.md). All of a game's are started and
brought to learning one after the other; then they take turns, so that only one of them is busy at
any time.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.tasks import TASKS, Task

ROOT = Path(__file__).parents[1]
OURS, PEERS, DOPAMINE = (
    Path(sys.executable),
    ROOT / ".venv-peers" / "bin" / "python",
    ROOT / ".venv-dopamine" / "bin" / "python",
)
Command = tuple[Path, str, *tuple[str, ...]]
"""Whose Python, which module of benchmarks.peers, and its arguments after the game."""
_OURS: dict[str, Command] = {
    "ours, er-dqn": (OURS, "ours", "er-dqn"),
    "ours, qr-dqn": (OURS, "ours", "qr-dqn"),
}
CONTESTANTS: dict[str, dict[str, Command]] = {
    "atari": {
        **_OURS,
        "sb3-contrib, QR-DQN": (PEERS, "sb3"),
        "Dopamine, QR-DQN": (DOPAMINE, "dopamine_quantile"),
        "CleanRL, C51": (PEERS, "cleanrl_c51"),
    },
    "minatar": {**_OURS, "sb3-contrib, QR-DQN": (PEERS, "sb3")},
}
_PATIENCE = (
    300.0  # seconds for any answer; the slowest on a busy machine needs a third of it to begin
)


class Stopped(Exception):
    """A contestant has ended, or was too slow to answer; with the end of what it said."""


class Contestant:
    """A process that trains an agent whenever it is told to."""

    def __init__(
        self, cores: set[int], settings: dict[str, str], game: str, command: Command
    ) -> None:
        python, module, *arguments = command
        if not python.exists():
            raise Stopped(f"there is no {python}: `make benchmark-peers` installs it")
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - open as long as the process
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores)  # what is started inherits it, before it counts the cores
        self._process = subprocess.Popen(
            [str(python), "-m", f"benchmarks.peers.{module}", game, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True, cwd=ROOT,
            env={**os.environ, **settings, "CUDA_VISIBLE_DEVICES": ""},  # ours would not use a GPU
        )  # fmt: skip
        os.sched_setaffinity(0, before)
        try:
            self.versions = self._answer("ready")
        except Stopped:
            self.close()
            raise

    def seconds(self) -> float:
        """The time of one measurement."""
        with contextlib.suppress(BrokenPipeError):  # if it has ended, the missing answer will tell
            print("go", file=self._process.stdin, flush=True)
        return float(self._answer("seconds"))

    def close(self) -> None:
        """The end of its input is the end of the process; one that does not notice is killed."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answer(self, word: str) -> str:
        """The rest of the next line that begins with a word."""
        limit = threading.Timer(_PATIENCE, self._process.kill)
        limit.start()
        try:
            for line in self._process.stdout or ():
                if line.startswith(word):
                    return line.removeprefix(word).strip()
        finally:
            limit.cancel()
        code = self._process.wait()
        self._said.seek(0)
        reason = (
            f"exit code {code}"
            if code >= 0
            else f"ended by signal {-code}; {_PATIENCE:.0f} seconds are its limit"
        )
        raise Stopped("\n".join([reason, *self._said.read().splitlines()[-8:]]))


def run() -> dict[str, Any]:
    cores = os.sched_getaffinity(0)
    places = {"one core": {max(cores)}, "all cores": cores}
    return {
        f"{game}, {place}": compare(game, places[place]) for game in CONTESTANTS for place in places
    }


def compare(game: str, cores: set[int]) -> dict[str, Any]:
    """All contestants of a game in alternating rounds, on some of the machine's cores."""
    task, field, failures = TASKS[game], _field(game, cores), {}
    contestants: dict[str, Contestant] = {}
    times: dict[str, list[float]] = {}
    try:
        for name, (settings, command) in field.items():
            try:
                contestants[name] = Contestant(cores, settings, game, command)
            except Stopped as error:
                failures[name] = str(error)
        for _ in range(task.rounds):
            for name in [name for name in contestants if name not in failures]:
                try:
                    times.setdefault(name, []).append(contestants[name].seconds())
                except Stopped as error:
                    failures[name] = str(error)
    finally:
        for contestant in contestants.values():
            contestant.close()
    return {
        name: {"failed": failures[name]}
        if name in failures
        else {"versions": contestants[name].versions, **_summary(name, times, task)}
        for name in field
    }


def _field(game: str, cores: set[int]) -> dict[str, tuple[dict[str, str], Command]]:
    """The contestants, those of PyTorch on many cores in two ways, of which the faster is the one
    to compare with.

    As it comes, its threads spin while they wait for one another: best on an idle machine, but
    where anything else is running it takes minutes for the work of seconds. Threads that sleep lose
    a quarter on an idle machine.
    """
    field: dict[str, tuple[dict[str, str], Command]] = {}
    for name, command in CONTESTANTS[game].items():
        field[name] = ({}, command)
        if command[0] == PEERS and len(cores) > 1:
            field[f"{name}, sleeping threads"] = ({"OMP_WAIT_POLICY": "passive"}, command)
    return field


def _summary(name: str, times: dict[str, list[float]], task: Task) -> dict[str, float]:
    """Its speed, and how many times faster ours are in the same rounds."""
    found = {"steps_per_second": task.steps / float(np.median(times[name])), "rounds": task.rounds}
    for rival in () if name in _OURS else _OURS:
        # A rival that stopped early has fewer rounds.
        ratios = [
            theirs / ours for theirs, ours in zip(times[name], times.get(rival, []), strict=False)
        ]
        if ratios:
            key = rival.replace(", ", "_").replace("-", "_") + "_times_faster"
            found |= {
                key: float(np.median(ratios)),
                f"{key}_least": min(ratios),
                f"{key}_most": max(ratios),
            }
    return found
