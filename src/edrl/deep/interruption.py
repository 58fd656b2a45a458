"""Ctrl-C, and a system's wish to end a process: noticed between two steps, answered at once."""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

_TOGETHER = 0.2  # seconds: a launcher may pass a Ctrl-C on that the terminal has sent already
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

    A second one ends the process at once, even if the environment hangs. The second of two SIGTERM
    does not: systems repeat them, and send SIGKILL to what does not end.
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
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    thread = threading.Thread(target=_answer, args=(reading, work), daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)  # which ends the thread
        thread.join()
        os.close(reading)


def _answer(signals: int, work: _Work) -> None:
    """Say what happens at the first signal, and end the process at the second."""
    first, since = 0, 0.0
    while received := os.read(signals, 1):
        number = received[0]
        if number not in work.signals:
            continue
        if not first:
            first, since = number, time.monotonic()
            print(work.stopping, file=sys.stderr, flush=True)
        elif signal.SIGINT in (first, number) and time.monotonic() > since + _TOGETHER:
            _end(number, work.ended)


def _end(number: int, text: str) -> None:
    """End the process whatever its other threads do, and whatever locks they hold."""
    cursor = _SHOW_CURSOR if os.isatty(2) else ""
    with contextlib.suppress(OSError):
        os.write(2, f"{cursor}\n{text}\n".encode())
    os._exit(128 + number)
