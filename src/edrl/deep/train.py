"""Training: a run from its beginning, or from a checkpoint, to its end; it can be stopped at any time."""

import contextlib
import dataclasses
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from edrl.core.check import fail
from edrl.core.statistics import Statistics
from edrl.deep import checkpoint
from edrl.deep.config import Config, read_config
from edrl.deep.run import Run

Listener = Callable[[int, dict[str, Any]], None]
"""listener(step, the last row of metrics)."""


def train(
    config: Config,
    out: Path | str,
    *,
    family: Statistics | None = None,
    env: Any = None,
    listen: Listener = lambda step, row: None,
) -> Run:
    """Train an agent from the beginning: `train(preset("classic", agent="er-dqn"), "runs/cartpole")`.

    `family` trains statistics of your own, `env` a Gymnasium environment of your own: an object, which is copied for
    evaluations, or a function that makes one.
    """
    run = Run(config, Path(out), family, env)
    run.begin()
    run.start_clock()
    return _go_on(run, listen)


def resume(
    out: Path | str,
    *,
    family: Statistics | None = None,
    env: Any = None,
    older: bool = False,
    steps: int | None = None,
    listen: Listener = lambda step, row: None,
) -> Run:
    """Go on with a run from its last checkpoint, or with `older` from the one before if the last is damaged.

    With `steps`, train it for longer than was planned.
    """
    out = Path(out)
    found = checkpoint.found(out)
    if not found:
        raise fail("out", str(out), "there is no run with a checkpoint in it")
    config = read_config(out)
    if steps is not None and steps != config.steps:
        if steps < config.steps:
            raise fail("steps", steps, f"the run has been planned for {config.steps} steps and can only become longer")
        config = dataclasses.replace(config, steps=steps)
    for number, path in enumerate(found):
        run = Run(config, out, family, env)
        try:
            run.load(path)
        except checkpoint.CheckpointError as error:
            if number + 1 == len(found):
                raise
            if not older:
                advice = "Resume with `older` to go on from the one before"
                raise checkpoint.CheckpointError(f"{error}. {advice}") from error
            continue
        for damaged in found[:number]:
            checkpoint.discard(damaged)
        if run.unfinished:
            checkpoint.replace_text(out / "config.json", config.to_json())
            _add_maker(out / "made.json", run)
            run.start_clock()
        return _go_on(run, listen)
    raise AssertionError("the loop returns or raises")


def _add_maker(path: Path, run: Run) -> None:
    before = json.loads(path.read_text()) if path.exists() else []
    checkpoint.replace_text(path, json.dumps([*before, {"step": run.step, **run.maker()}], indent=1) + "\n")


def _go_on(run: Run, listen: Listener) -> Run:
    config = run.config
    with _until_interrupted() as interrupted:

        def stop_if_interrupted() -> None:
            if interrupted():
                raise KeyboardInterrupt

        since = run.step, time.perf_counter()  # of the speed that is told
        while run.unfinished:
            if not run.evaluation_due:
                with _saved_if_it_fails(run):
                    run.advance()
                if run.step % config.log_every == 0:
                    row = run.log()
                    now = time.perf_counter()
                    row["steps_per_second"] = (run.step - since[0]) / (now - since[1])
                    since = run.step, now
                    listen(run.step, row)
            if run.evaluation_due:
                # A long one must not keep a run from saving in the seconds that clusters and containers leave it.
                with contextlib.suppress(KeyboardInterrupt), _saved_if_it_fails(run):
                    found = run.evaluate(stop_if_interrupted)
                    listen(run.step, {"evaluation": float(np.mean(found.scores))})
                since = run.step, time.perf_counter()
            stop = interrupted()
            if run.step % config.checkpoint_every == 0 or run.step == config.steps or stop:
                run.save()
            if run.step % config.log_every == 0 or run.step == config.steps or stop:
                run.log_time()
            if stop and run.unfinished:
                raise KeyboardInterrupt(stop)
    return run


@contextlib.contextmanager
def _saved_if_it_fails(run: Run) -> Iterator[None]:
    """An environment that fails must not cost what was learnt."""
    try:
        yield
    except Exception:
        if run.whole:
            run.save()
            run.log_time()
        raise


@contextlib.contextmanager
def _until_interrupted() -> Iterator[Callable[[], int]]:
    """Ctrl-C, and the wish of a system that a process end, are noticed between two steps: what is saved is whole.

    Yields what tells the signal that came, or 0.
    """
    noticed: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: 0  # signals are not this thread's: whoever runs it decides when it stops
        return
    before = {
        number: signal.signal(number, lambda number, _: noticed.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield lambda: noticed[0] if noticed else 0
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not set by Python
