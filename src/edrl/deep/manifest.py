"""The manifest of a checkpoint: what lies in it, with a checksum of every file.

Whatever a manifest.json may hold, it becomes a record with the right types or an error in words.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edrl.core.json_text import parse_json

VERSION = 3
ARRAYS = "arrays.npz"
FILE = "manifest.json"
REPLAY_FILE = re.compile(r"\d{15,}\.npz")  # what replay memory's files are called

_DIRECTORY = re.compile(r"checkpoint-(\d{12,})")


class CheckpointError(Exception):
    """A checkpoint that cannot be used, and why."""


@dataclass(frozen=True)
class Manifest:
    """What a checkpoint says of itself."""

    version: int
    step: int
    finished: bool  # whether nothing was left to do
    identity: dict[str, Any]  # what the run must have in common with its checkpoints
    files: dict[str, str]  # their checksums
    replay: dict[str, str]  # the files that hold its replay memory, with checksums

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)


def directory_of(run: Path, step: int) -> Path:
    """Where the checkpoint of a step lies."""
    return run / f"checkpoint-{step:012d}"


def step_of(path: Path) -> int | None:
    """The step in the name of a checkpoint's directory; None if it is no checkpoint's."""
    named = _DIRECTORY.fullmatch(path.name)
    # A name that we would not give is somebody else's: checkpoint-0000000000000 has a digit more.
    if named is None or directory_of(path.parent, int(named[1])) != path or not path.is_dir():
        return None
    return int(named[1])


def read_manifest(path: Path) -> Manifest:
    """The manifest of the checkpoint in a directory."""
    file = path / FILE
    if not file.exists():
        raise CheckpointError(f"{path} is not a checkpoint: it has no {FILE}")
    try:
        content = parse_json(file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise damaged(path, f"{FILE} cannot be read: {error}") from error
    if not isinstance(content, dict) or "version" not in content:
        raise damaged(path, "its manifest does not say its version")
    if content["version"] != VERSION:
        version = content["version"]
        raise CheckpointError(
            f"{path.name} has format {version!r}, but this version of edrl reads format {VERSION}"
        )
    manifest = _checked(path, content)
    if step_of(path) not in (None, manifest.step):
        raise damaged(path, f"it holds step {manifest.step}, so it has been renamed or swapped")
    return manifest


def damaged(path: Path, why: str) -> CheckpointError:
    """The error for a damaged checkpoint, ready to be raised."""
    return CheckpointError(f"{path.name} is damaged: {why}")


def _checked(path: Path, content: dict[str, Any]) -> Manifest:
    right = {
        "version": True,
        "step": _is_step(content.get("step")),
        "finished": isinstance(content.get("finished"), bool),
        "identity": is_identity(content.get("identity")),
        "files": _are_sums(content.get("files")) and set(content["files"]) == {ARRAYS},
        "replay": _are_sums(content.get("replay")) and _are_replay_files(content["replay"]),
    }
    for name, is_right in right.items():
        if not is_right:
            raise damaged(path, f"{name!r} is missing from its manifest, or is not what it must be")
    return Manifest(**{name: content[name] for name in right})


def _is_step(entry: Any) -> bool:
    return type(entry) is int and entry >= 0


def is_identity(entry: object) -> bool:
    """Whether it has the form of `provenance.identity_of`."""
    if not isinstance(entry, dict) or entry.keys() != {"settings", "passed"}:
        return False
    return isinstance(entry["settings"], dict) and isinstance(entry["passed"], dict)


def _are_sums(entry: object) -> bool:
    return isinstance(entry, dict) and all(isinstance(total, str) for total in entry.values())


def _are_replay_files(names: Iterable[str]) -> bool:
    return all(REPLAY_FILE.fullmatch(name) for name in names)
