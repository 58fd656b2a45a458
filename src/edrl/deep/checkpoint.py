"""Checkpoints: written beside the old one and renamed, so that there is always a good one.

A checkpoint is a directory `checkpoint-<step>` with `arrays.npz`, plain arrays without pickle, and
a `manifest.json` with the format's version and a checksum of every file. What replay memory has
gained since the last checkpoint lies in files of its own in `replay/`, to which manifests refer.
"""

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edrl.core.check import fail

VERSION = 3
KEPT = 2  # how many checkpoints stay
_ARRAYS, _MANIFEST = "arrays.npz", "manifest.json"


class CheckpointError(Exception):
    """A checkpoint that cannot be used, and why."""


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
    write_arrays(directory / _ARRAYS, checkpoint.arrays)
    manifest = {
        "version": VERSION,
        "step": checkpoint.step,
        "finished": checkpoint.finished,
        "identity": checkpoint.identity,
        "files": {_ARRAYS: checksum(directory / _ARRAYS)},
        "replay": checkpoint.replay,
    }
    write_text(directory / _MANIFEST, json.dumps(manifest, indent=1))
    sync_directory(directory)


def directory_of(run: Path, step: int) -> Path:
    """Where the checkpoint of a step lies."""
    return run / f"checkpoint-{step:012d}"


def found(run: Path) -> list[Path]:
    """The checkpoints of a run, newest first."""
    return sorted(run.glob("checkpoint-*"), reverse=True)


def is_finished(run: Path, steps: int) -> bool | None:
    """Whether a run has nothing left to do on its way to so many steps.

    This is what its last checkpoint says; None if there are no checkpoints (any more).
    """
    checkpoints = found(run)
    if not checkpoints:
        return None
    try:
        manifest = _manifest(checkpoints[0])
    except CheckpointError:
        return False
    return bool(manifest["step"] > steps or (manifest["step"] == steps and manifest["finished"]))


def load(path: Path, replay: bool = True) -> Checkpoint:
    """Read a checkpoint, or say what is wrong with it.

    Without `replay`, nothing is asked of replay memory's files.
    """
    manifest = _manifest(path)
    files = {path / name: total for name, total in manifest["files"].items()}
    if replay:
        files |= _replay_files(path.parent, manifest["replay"])
    for file, total in files.items():
        if not file.exists():
            raise CheckpointError(f"{path.name} is damaged: {file.name} is missing")
        if checksum(file) != total:
            raise CheckpointError(f"{path.name} is damaged: {file.name} is not what was written")
    arrays = read_arrays(path / _ARRAYS)
    return Checkpoint(
        manifest["step"], manifest["finished"], manifest["identity"], arrays, manifest["replay"]
    )


def _replay_files(run: Path, sums: dict[str, str]) -> dict[Path, str]:
    files = {run / "replay" / name: total for name, total in sums.items()}
    if files and not any(file.exists() for file in files):
        # Somebody has made room. The checkpoint is sound: an older one is no way out.
        right = "its replay memory has been deleted: it can be evaluated and played"
        raise fail("run", str(run), f"{right}, but not trained further")
    return files


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays and wait until they are on the disk."""
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Arrays by name; objects, which would need pickle, are refused."""
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


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


def _manifest(path: Path) -> dict[str, Any]:
    file = path / _MANIFEST
    if not file.exists():
        raise CheckpointError(f"{path} is not a checkpoint: it has no manifest.json")
    try:
        manifest: dict[str, Any] = json.loads(file.read_text())
        version = manifest["version"]
    except (ValueError, KeyError) as error:
        raise CheckpointError(f"{path.name} is damaged: its manifest cannot be read") from error
    if version != VERSION:
        raise CheckpointError(
            f"{path.name} has format {version}, but this version of edrl reads format {VERSION}"
        )
    return manifest


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
        needed |= set(_manifest(path)["replay"])
    for file in (run / "replay").glob("*.npz"):
        if file.name not in needed:
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
    """Wait until the names of new files are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
