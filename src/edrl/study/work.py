"""Work on one run of a study: begin or continue it, while no other process does."""

import dataclasses
import traceback
from collections.abc import Sequence
from pathlib import Path

from edrl.core.check import fail
from edrl.deep.callbacks import Callback
from edrl.deep.checkpoint import found, write_text
from edrl.deep.config import Config, read_config
from edrl.deep.objects import load_object
from edrl.deep.training import resume, train
from edrl.study.locks import Taken, locked
from edrl.study.plan import read_plan

_FAILURE = "failed.txt"


def work(study: Path, name: str, patience: float = 180.0, callbacks: Sequence[str] = ()) -> None:
    """Bring a run of a study to its end, from its last checkpoint if there is one.

    What goes wrong is written to the run's `failed.txt` and raised.

    Args:
        study: the study's directory.
        name: the run's name in the plan.
        patience: how many seconds to wait for a worker that has just died elsewhere to let go of
            the run; on NFS that takes a lease's 90 seconds.
        callbacks: classes of callbacks by their names, MODULE:NAME.
    """
    config = next(run.config for run in read_plan(study) if run.name == name)
    out = study / name
    try:
        with locked(out / "lock", patience):
            _train(config, out, [load_object("callbacks", one)() for one in callbacks])
    except Taken as error:
        note_failure(out, str(error))
        raise
    except Exception:
        write_text(out / _FAILURE, traceback.format_exc())
        raise


def why_failed(out: Path) -> str:
    """The last line of the reason why a run failed; empty if it did not."""
    try:
        return (out / _FAILURE).read_text().strip().split("\n")[-1]
    except FileNotFoundError:
        return ""


def note_failure(out: Path, reason: str) -> None:
    """Note why a run failed, unless it has said so itself: one that was killed could not."""
    if not why_failed(out):
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / _FAILURE, f"{reason}\n")


def forget_failure(out: Path) -> None:
    """Forget why a run failed, before it is tried again."""
    (out / _FAILURE).unlink(missing_ok=True)


def _train(config: Config, out: Path, callbacks: Sequence[Callback]) -> None:
    if not found(out):
        train(config, out, callbacks=callbacks)
        return
    begun = read_config(out)
    if dataclasses.replace(begun, steps=config.steps) != config:
        right = "it was begun with other settings than those of the study"
        raise fail("run", str(out), right)
    longer = max(begun.steps, config.steps)  # somebody may have made it longer
    resume(out, steps=longer, older=True, trust=True, callbacks=callbacks)
