"""Checkpoints: written beside the old one and renamed, so that there is always a good one.

A checkpoint is a directory `checkpoint-<step>` with `arrays.npz`, plain arrays without pickle, and
a `manifest.json` with the format's version and a checksum of every file. What replay memory has
gained since the last checkpoint lies in files of its own in `replay/`, to which manifests refer.
"""

import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from edrl.core.check import fail
from edrl.deep.manifest import (
    ARRAYS,
    FILE,
    REPLAY_FILE,
    VERSION,
    CheckpointError,
    Manifest,
    damaged,
    directory_of,
    read_manifest,
    step_of,
)

__all__ = [
    "KEPT",
    "Checkpoint",
    "CheckpointError",
    "checksum",
    "discard",
    "first_usable",
    "found",
    "is_finished",
    "load",
    "read_arrays",
    "replace_text",
    "save",
    "sync_directory",
    "write_arrays",
    "write_text",
]

KEPT = 2  # how many checkpoints stay

Read = TypeVar("Read")


@dataclass(frozen=True)
class Checkpoint:
    """What a run needs to go on."""

    step: int
    finished: bool  # whether nothing was left to do
    identity: dict[str, Any]  # what the run must have in common with its checkpoints
    arrays: dict[str, np.ndarray]  # its state, by paths
    replay: dict[str, str]  # the files that hold its replay memory, with checksums


def save(run: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint; the last good one stays until this one is complete."""
    partial = run / "checkpoint.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        _write(partial, checkpoint)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)  # a full disk must not keep what filled it
        raise
    final = directory_of(run, checkpoint.step)
    before = _set_aside(final)  # of the same step, if it was saved during an evaluation
    partial.rename(final)
    sync_directory(run)
    shutil.rmtree(before, ignore_errors=True)
    _forget(run)
    return final


def _write(directory: Path, checkpoint: Checkpoint) -> None:
    write_arrays(directory / ARRAYS, checkpoint.arrays)
    manifest = Manifest(
        version=VERSION,
        step=checkpoint.step,
        finished=checkpoint.finished,
        identity=checkpoint.identity,
        files={ARRAYS: checksum(directory / ARRAYS)},
        replay=checkpoint.replay,
    )
    write_text(directory / FILE, manifest.to_json())
    sync_directory(directory)


def found(run: Path) -> list[Path]:
    """The checkpoints of a run, newest first; other directories are nobody's business here."""
    steps = {path: step_of(path) for path in run.glob("checkpoint-*")}
    known = {path: step for path, step in steps.items() if step is not None}
    return sorted(known, key=lambda path: known[path], reverse=True)


def first_usable(run: Path, read: Callable[[Path], Read], older: bool) -> tuple[Path, Read]:
    """The last checkpoint of a run as `read` reads it, or with `older` the first that it can."""
    checkpoints = found(run)
    for path in checkpoints:
        try:
            return path, read(path)
        except CheckpointError as error:
            if path == checkpoints[-1]:
                raise
            if not older:
                advice = "The one before is used with --older (older=True in Python)"
                raise CheckpointError(f"{error}. {advice}") from error
    raise fail("run", str(run), "there is no run with a checkpoint in it")


def is_finished(run: Path, steps: int) -> bool | None:
    """Whether a run has nothing left to do on its way to so many steps.

    This is what its last checkpoint says; None if there are no checkpoints (any more).
    """
    checkpoints = found(run)
    if not checkpoints:
        return None
    try:
        manifest = read_manifest(checkpoints[0])
    except CheckpointError:
        return False
    return manifest.step > steps or (manifest.step == steps and manifest.finished)


def load(path: Path, replay: bool = True) -> Checkpoint:
    """Read a checkpoint, or say what is wrong with it.

    Without `replay`, nothing is asked of replay memory's files.
    """
    manifest = read_manifest(path)
    files = {path / name: total for name, total in manifest.files.items()}
    if replay:
        files |= _replay_files(path.parent, manifest.replay)
    for file, total in files.items():
        if not file.is_file():
            raise damaged(path, f"{file.name} is missing")
        if checksum(file) != total:
            raise damaged(path, f"{file.name} is not what was written")
    arrays = read_arrays(path / ARRAYS)
    return Checkpoint(manifest.step, manifest.finished, manifest.identity, arrays, manifest.replay)


def _replay_files(run: Path, sums: dict[str, str]) -> dict[Path, str]:
    files = {run / "replay" / name: total for name, total in sums.items()}
    if files and not any(file.exists() for file in files):
        # Somebody has made room. The checkpoint is sound: an older one is no way out.
        right = "its replay memory has been deleted: it can be evaluated and played"
        raise fail("run", str(run), f"{right}, but not trained further")
    return files


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays and wait until they are on the disk."""
    try:
        with path.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)  # a full disk must not keep what filled it
        raise


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Arrays by name; objects, which would need pickle, are refused."""
    try:
        # NumPy would leave a file open that it opened itself, where its content is damaged.
        with path.open("rb") as opened:
            _check_archive(opened)
            with np.load(opened, allow_pickle=False) as file:
                found = dict(file)
    except Exception as error:  # of whatever kind: zipfile's, zlib's, NumPy's, no memory
        why = f"{path.name} holds no arrays that can be read ({_reason(error)})"
        raise damaged(path.parent, why) from error
    for name, array in found.items():
        if not isinstance(array, np.ndarray):  # NumPy hands out what is no array as bytes
            raise damaged(path.parent, f"{name} in {path.name} is no array")
    return found


def _check_archive(file: BinaryIO) -> None:
    """Whether a file begins as an npz does; what NumPy says of others is no help."""
    start = file.read(2)
    file.seek(0)
    if start != b"PK":
        raise ValueError("it is no npz file, a zip archive of arrays" if start else "it is empty")


def _reason(error: Exception) -> str:
    """What is wrong, without advice to load pickles, which could run any code."""
    if "pickle" in str(error):
        return "it holds objects, which are not read"
    return str(error) or type(error).__name__


def write_text(path: Path, text: str) -> None:
    """Write text and wait until it is on the disk."""
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def replace_text(path: Path, text: str) -> None:
    """Write text in the place of an older file, which stays until then."""
    new = path.with_name(path.name + ".new")
    write_text(new, text)
    new.replace(path)
    sync_directory(path.parent)


def checksum(path: Path) -> str:
    """The checksum of a file's contents."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _forget(run: Path) -> None:
    """Delete all but the newest checkpoints, and the replay files that none of those needs."""
    keep, old = found(run)[:KEPT], found(run)[KEPT:]
    for path in old:
        discard(path)
    needed: set[str] = set()
    for path in keep:
        try:
            needed |= set(read_manifest(path).replay)
        except CheckpointError:
            return  # who knows what a damaged one needs
    for file in (run / "replay").glob("*.npz"):
        if file.name not in needed and REPLAY_FILE.fullmatch(file.name):
            file.unlink()


def discard(checkpoint: Path) -> None:
    """Delete a checkpoint, if it is there."""
    shutil.rmtree(_set_aside(checkpoint), ignore_errors=True)


def _set_aside(checkpoint: Path) -> Path:
    """Move a checkpoint away, if it is there: one half deleted must not pass for a damaged one."""
    doomed = checkpoint.with_name("checkpoint.old")
    shutil.rmtree(doomed, ignore_errors=True)
    if checkpoint.exists():
        checkpoint.rename(doomed)
    return doomed


def sync_directory(path: Path) -> None:
    """Wait until the names of new files are on the disk. Windows cannot, and needs no such wait."""
    if sys.platform == "win32":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
