"""A gate in an agent's loop: it opens for some steps when told to on stdin, and tells on stdout how
long they took.

It imports nothing of edrl, so that the peers can use it in their own environments.
"""

import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version

from benchmarks.peers.tasks import Task


class Gate:
    """Says "ready" after the warm-up, then answers each line "go" by "seconds ..."; the end of
    stdin ends the process.

    Its answers have the process's stdout for themselves: whatever else is printed from here on goes
    to stderr. `settle` waits for what is still being computed, so that work begun in a measurement
    is paid for in it.
    """

    def __init__(
        self, task: Task, packages: tuple[str, ...], settle: Callable[[], object] = lambda: None
    ) -> None:
        self._answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        self._packages, self._settle = packages, settle
        self._steps, self._left = task.steps, task.warm_up
        self._began: float | None = None

    def step(self) -> None:
        """To be called once in every step of the agent."""
        self._left -= 1
        if self._left > 0:
            return
        self._settle()
        if self._began is None:
            self._answer("ready " + ", ".join(f"{name} {version(name)}" for name in self._packages))
        else:
            self._answer(f"seconds {time.perf_counter() - self._began}")
        if sys.stdin.readline() != "go\n":
            raise SystemExit
        self._left = self._steps
        self._began = time.perf_counter()

    def _answer(self, line: str) -> None:
        self._answers.write(line + "\n")
        self._answers.flush()
