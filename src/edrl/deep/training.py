"""Training: a run from its beginning, or from a checkpoint, to its end."""

import contextlib
import dataclasses
import errno
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edrl.core.check import fail
from edrl.core.statistics import Statistics
from edrl.core.words import count
from edrl.deep import checkpoint
from edrl.deep.agents import Agent
from edrl.deep.callbacks import Callback
from edrl.deep.config import Config, read_config
from edrl.deep.interruption import until_interrupted
from edrl.deep.objects import check_trusted
from edrl.deep.replay import Replay
from edrl.deep.run import Run

if TYPE_CHECKING:
    from edrl.deep.environments.source import EnvironmentLike


def train(
    config: Config,
    out: Path | str,
    *,
    agent: type[Agent] | Agent | None = None,
    family: Statistics | None = None,
    env: "EnvironmentLike | None" = None,
    replay: type[Replay] = Replay,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Train an agent: `train(preset("classic", agent="er-dqn"), "runs/cartpole")`.

    Args:
        config: all settings.
        out: the run's directory.
        agent: an agent of your own, or its class, instead of the config's.
        family: statistics of your own instead of the config's.
        env: a Gymnasium environment of your own: an object, which is copied for evaluations, or a
            function that makes one.
        replay: the class of the replay memory.
        callbacks: what watches the run besides its tables and checkpoints.
    """
    run = Run(config, out, agent=agent, family=family, env=env, replay=replay, callbacks=callbacks)
    return begin(run)


def resume(
    out: Path | str,
    *,
    agent: type[Agent] | Agent | None = None,
    family: Statistics | None = None,
    env: "EnvironmentLike | None" = None,
    replay: type[Replay] = Replay,
    callbacks: Sequence[Callback] = (),
    older: bool = False,
    trust: bool = False,
    steps: int | None = None,
) -> Run:
    """Go on with a run from its last checkpoint; what was passed to `train` is passed again.

    Args:
        older: if the last checkpoint is damaged, go on from the one before.
        trust: whether modules that the run's config names as MODULE:NAME may be imported.
        steps: train for more steps than were planned.
    """
    out = Path(out)
    if not checkpoint.found(out):
        raise fail("out", str(out), "there is no run with a checkpoint in it")
    config = lengthened(read_config(out), steps)
    check_trusted(str(out), config.names_of_code(env, agent), trust)
    run = Run(config, out, agent=agent, family=family, env=env, replay=replay, callbacks=callbacks)
    return go_on(run, older=older)


def lengthened(config: Config, steps: int | None) -> Config:
    """The settings of a run that is trained for more steps than were planned."""
    if steps is None:
        return config
    if steps < config.steps:
        right = (
            f"the run has been planned for {count(config.steps, 'step')} and can only become longer"
        )
        raise fail("steps", steps, right)
    return dataclasses.replace(config, steps=steps)


def begin(run: Run) -> Run:
    """Train a run from its beginning."""
    with _full_disk_explained(run.out), until_interrupted() as run.interrupted:
        run.begin()
        return _to_the_end(run)


def go_on(run: Run, *, older: bool = False) -> Run:
    """Train a run from its last checkpoint, or if that is damaged and `older` from one before."""
    with _full_disk_explained(run.out), until_interrupted() as run.interrupted:
        _load(run, older)
        if not run.finished:
            run.note_resumption()
        return _to_the_end(run)


@contextlib.contextmanager
def _full_disk_explained(out: Path) -> Iterator[None]:
    """Say which run it was, what is safe and how to go on."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        found = checkpoint.found(out)
        safe = "nothing of it had been saved: begin it again"
        if found:
            step = int(found[0].name.rpartition("-")[2])
            safe = f"its last checkpoint, of step {step:,}, is safe: go on with edrl train --resume"
            safe = f"{safe} {out}"
        text = f"the disk is full ({error.strerror}) while the run {out} is written; {safe}"
        raise OSError(error.errno, f"{text}, once there is room") from error


def _load(run: Run, older: bool) -> None:
    found = checkpoint.found(run.out)
    used, _ = checkpoint.first_usable(run.out, run.load, older)
    for damaged in found[: found.index(used)]:
        checkpoint.discard(damaged)


def _to_the_end(run: Run) -> Run:
    run.tell("on_begin")
    try:
        while not run.finished:
            if run.interrupted():
                raise KeyboardInterrupt(run.interrupted())
            if not run.evaluation_due:
                with run.saved_if_it_fails():
                    run.advance()
            run.tell("on_step")
    finally:
        run.tell("on_end")
    return run
