"""Processes that experiments run in, and the news of their progress."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from edrl.deep.processes import (
    end_with_parent,
    processes_start_as_ever,
    starting_processes,
)

Listener = Callable[[str, float, str], None]
"""listener(name, fraction done, note)."""

_messages: Any = None  # in a worker: where progress goes


@contextmanager
def worker_pool(
    workers: int, listen: Listener, cache: Path
) -> Iterator[Callable[..., "Future[Any]"]]:
    """Yield `submit(function, *arguments)`; the functions may call `report_progress`.

    Submit no more than `workers` at a time: what waits in the pool's own queue is begun even after
    Ctrl-C. Processes are spawned, since a fork of one that has used JAX may hang. They share what
    they compile through `cache`, with later runs too.
    """
    context = multiprocessing.get_context("spawn")
    with starting_processes():
        messages = context.Queue()
    news = threading.Thread(target=_pass_on, args=(messages, listen), daemon=True)
    news.start()
    threads = max(1, (os.cpu_count() or 1) // max(1, workers))
    pool = ProcessPoolExecutor(max(1, workers), context, _begin, (messages, cache, threads))

    def submit(function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        with starting_processes():  # there may be too few yet
            return pool.submit(function, *arguments)

    try:
        yield submit
    finally:
        # After an exception, Ctrl-C above all, nothing that waits is begun any more.
        pool.shutdown(cancel_futures=True)
        messages.put(None)
        news.join()


def report_progress(name: str, fraction: float, note: str) -> None:
    """Tell the parent's listener where a measurement is."""
    if _messages is not None:
        _messages.put((name, fraction, note))


@contextmanager
def interruptible() -> Iterator[None]:
    """Within it, Ctrl-C ends what a worker does; outside it finishes, as the writing of files must."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _begin(messages: Any, cache: Path, threads: int) -> None:
    global _messages
    _messages = messages
    # Before XLA starts: workers share the cores, and compiling in parallel costs more than it
    # brings.
    os.environ.setdefault("PJRT_NPROC", str(threads))
    if threads == 1:
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_parallel_codegen_split_count=1".strip()
    jax.config.update("jax_enable_x64", True)  # experiments compare numbers to all their digits
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends an idle worker
    end_with_parent()
    processes_start_as_ever()


def _pass_on(messages: Any, listen: Listener) -> None:
    for name, fraction, note in iter(messages.get, None):
        listen(name, fraction, note)
