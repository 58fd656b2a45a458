"""Ctrl-C, and a system's wish to end a process: noticed between two steps, answered at once."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

from edrl.deep import last_resort

_SHOW_CURSOR = "\x1b[?25h"  # which a progress bar has hidden


class _Work(NamedTuple):
    """What is interrupted."""

    signals: tuple[signal.Signals, ...]
    stopping: str  # is said at the first one
    ended: str  # and at the second


TRAINING = _Work(
    (signal.SIGINT, signal.SIGTERM),
    "Stopping: the run saves after this step. Ctrl-C again ends it at once, without saving.",
    "Ended at once. What came after the last checkpoint is lost; the checkpoint is safe.",
)
PLAYING = _Work(  # SIGTERM ends it: there is nothing to save
    (signal.SIGINT,),
    "Stopping after this step. Ctrl-C again ends it at once.",
    "Ended at once.",
)


@contextlib.contextmanager
def stopped_by_ctrl_c() -> Iterator[Callable[[], None]]:
    """Play until Ctrl-C; yields what is called between two steps and raises KeyboardInterrupt.

    A second Ctrl-C ends the process at once, even if the environment hangs.
    """
    with until_interrupted(PLAYING) as interrupted:

        def check() -> None:
            if interrupted():
                raise KeyboardInterrupt

        yield check


@contextlib.contextmanager
def until_interrupted(work: _Work = TRAINING) -> Iterator[Callable[[], int]]:
    """Notice signals between two steps; yields what tells the first one that came, or 0.

    A second one ends the process at once, even if the environment hangs.
    """
    noticed: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: 0  # signals are not this thread's: whoever runs it decides when it stops
        return

    def notice(number: int, _: object) -> None:
        noticed.append(number)

    before = {number: signal.signal(number, notice) for number in work.signals}
    try:
        with _answered_at_once(work):
            yield lambda: noticed[0] if noticed else 0
    finally:
        for number, handler in before.items():
            # None: it was not set by Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextlib.contextmanager
def _answered_at_once(work: _Work) -> Iterator[None]:
    """Let a thread answer signals: Python's handlers wait while an environment computes in C."""
    reading, writing = os.pipe()
    if sys.platform != "win32":  # where signals come from a thread, which may wait
        os.set_blocking(writing, False)
    watcher = _watcher(reading, work)
    with watcher or contextlib.nullcontext():
        passed = [watcher.stdout.fileno()] if watcher and watcher.stdout else []
        # Straight, too: somebody may end the watcher.
        thread = threading.Thread(target=_answer, args=([*passed, reading], work), daemon=True)
        thread.start()
        before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            os.write(writing, last_resort.END)  # closing is not enough: a fork may have it open
            thread.join()
    os.close(writing)
    os.close(reading)


def _watcher(signals: int, work: _Work) -> "subprocess.Popen[bytes] | None":
    """A process through which signals pass, for environments that let no thread answer them."""
    if sys.platform == "win32" or not sys.executable or hasattr(sys, "frozen"):
        return None  # there is no such thing, or there is no Python to run it
    numbers = [str(int(number)) for number in work.signals]
    script = [sys.executable, "-I", "-S", last_resort.__file__]
    with contextlib.suppress(OSError):  # one more process may be one too many
        return subprocess.Popen(
            [*script, str(os.getpid()), _last_words(work), *numbers],
            stdin=signals,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a terminal's Ctrl-C is not its own
        )
    return None


def _answer(pipes: list[int], work: _Work) -> None:
    """Say what happens at the first signal, and end the process at the second."""
    last_resort.answer(
        (number for number in _received(pipes) if number in work.signals),
        first=lambda: print(work.stopping, file=sys.stderr, flush=True),
        second=lambda number: _end(number, _last_words(work)),
    )


def _received(pipes: list[int]) -> Iterator[int]:
    """What comes through the first pipe, and if that breaks, through the next."""
    for pipe in pipes:
        while received := os.read(pipe, 1):
            if received == last_resort.END:
                return
            yield received[0]


def _last_words(work: _Work) -> str:
    cursor = _SHOW_CURSOR if os.isatty(2) else ""
    return f"{cursor}\n{work.ended}\n"


def _end(number: int, text: str) -> None:
    """End the process whatever its other threads do, and whatever locks they hold."""
    with contextlib.suppress(OSError):
        os.write(2, text.encode())
    os._exit(128 + number)
