"""A progress bar for long work."""

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Advance = Callable[[int, str], None]

_PATIENCE = 2.0  # seconds without a word
_shown: list[Progress] = []  # a task within another one has no bar of its own


@contextlib.contextmanager
def track(title: str, total: int, shown: bool | None) -> Iterator[Advance]:
    """Yield `advance(steps, note)`, which a bar on standard error follows.

    The bar is shown, or not, or for None: once work has taken two seconds, in a terminal.
    """
    console = Console(stderr=True)
    if not (_is_watched(console) if shown is None else shown):
        yield lambda steps, note: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    bar = Progress(*columns, console=console)
    task = bar.add_task(title, total=total, note="")
    begin = time.monotonic() + (_PATIENCE if shown is None else 0.0)

    def advance(steps: int, note: str) -> None:
        if time.monotonic() >= begin:
            bar.start()  # which does nothing the second time
        bar.update(task, advance=steps, note=note)

    _shown.append(bar)
    try:
        advance(0, "")
        yield advance
    finally:
        bar.stop()
        _shown.remove(bar)


def _is_watched(console: Console) -> bool:
    """Whether a person may see the bar, and this is no part of a larger task.

    In a notebook it would need widgets, and without them stay in the cell as empty output.
    """
    if _shown or multiprocessing.parent_process() is not None or console.is_jupyter:
        return False
    return console.is_terminal
