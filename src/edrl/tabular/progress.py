"""A progress bar for long work, shown only when asked for."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Advance = Callable[[int, str], None]


@contextlib.contextmanager
def track(title: str, total: int, shown: bool) -> Iterator[Advance]:
    """Yield `advance(steps, note)`; with `shown`, a bar on standard error follows it."""
    if not shown:
        yield lambda steps, note: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total, note="")
        yield lambda steps, note: bar.update(task, advance=steps, note=note)
