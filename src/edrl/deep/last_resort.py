"""Two signals: the first asks a process to end, and the second ends it.

As a script, this watches over the process that started it, and kills it at the second signal if it
does not end itself. It cannot where an environment holds Python's lock (the GIL) and never lets it
go: then none of its threads answers. Signals pass through here on their way to the thread that
answers them otherwise.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

TOGETHER = 0.2  # seconds: a launcher may pass a Ctrl-C on that the terminal has sent already
END = b"\0"  # no signal: there is nothing to watch over any more
_GRACE = 1.0  # seconds that the process has to end itself
_LOOK = 5.0  # seconds between two looks whether it is still there


def answer(
    numbers: Iterable[int], first: Callable[[], None], second: Callable[[int], None]
) -> None:
    """Call what answers the first of some signals and the second, which comes with its number.

    The second of two SIGTERM is none: systems repeat them, and send SIGKILL to what does not end.
    """
    before, since = 0, 0.0
    for number in numbers:
        if not before:
            before, since = number, time.monotonic()
            first()
        elif signal.SIGINT in (before, number) and time.monotonic() > since + TOGETHER:
            second(number)


def _watch_over(process: int, signals: set[int], text: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # those are for the process
        signal.signal(number, signal.SIG_IGN)
    passed = (number for number in _passed_on(process) if number in signals)
    answer(passed, first=lambda: None, second=lambda _: _kill(process, text))


def _passed_on(process: int) -> Iterator[int]:
    """Signals, as bytes of standard input, which are written to standard output."""
    while os.getppid() == process:
        if select.select([0], [], [], _LOOK)[0]:
            received = os.read(0, 1)
            os.write(1, received)
            if received in (b"", END):
                return
            yield received[0]


def _kill(process: int, text: str) -> NoReturn:
    """Kill the process, unless it ends itself, or what it does."""
    ready, _, _ = select.select([0], [], [], _GRACE)
    received = os.read(0, 1) if ready else b"?"
    if received == END:
        os.write(1, END)
    elif received and os.getppid() == process:  # nobody else may have its number by now
        with contextlib.suppress(OSError):
            os.write(2, text.encode())
        os.kill(process, signal.SIGKILL)
    sys.exit()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # the process is gone
        _watch_over(int(sys.argv[1]), set(map(int, sys.argv[3:])), sys.argv[2])
