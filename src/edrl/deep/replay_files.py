"""Replay memory on disk: what is new since the last checkpoint goes into new files."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Int

from edrl.deep.checkpoint import (
    CheckpointError,
    checksum,
    read_arrays,
    sync_directory,
    write_arrays,
)
from edrl.deep.replay import Replay

_ROWS = 10_000  # transitions of a file at most: it is copied when it is written or read
_FIELDS = ("frames", "actions", "rewards", "terminals", "starts")


@dataclass
class ReplayFiles:
    """The files of a replay memory, oldest first: name, times after its last entries, checksum."""

    directory: Path
    files: list[tuple[str, Int[np.ndarray, " lane"], str]] = field(default_factory=list)

    def write(self, replay: Replay) -> dict[str, str]:
        """Bring the disk up to date; returns the files that hold the memory, with checksums."""
        self.directory.mkdir(parents=True, exist_ok=True)
        first = np.maximum(replay.oldest, self.files[-1][1]) if self.files else replay.oldest
        files = -(-int((replay.added - first).sum()) // _ROWS)
        for number in range(files):
            start = first + (replay.added - first) * number // files
            end = first + (replay.added - first) * (number + 1) // files
            self._write_file(replay, start, end)
        sync_directory(self.directory)
        # Files whose entries have all been overwritten are no longer needed: `save` deletes them.
        self.files = [entry for entry in self.files if np.any(entry[1] > replay.oldest)]
        return {name: total for name, _, total in self.files}

    def _write_file(
        self, replay: Replay, start: Int[np.ndarray, " lane"], end: Int[np.ndarray, " lane"]
    ) -> None:
        """The entries of each lane from one time to another."""
        lanes = np.repeat(np.arange(replay.lanes), end - start)
        times = np.concatenate([np.arange(*span) for span in zip(start, end, strict=True)])
        arrays = {name: getattr(replay, name)[replay.place(times, lanes)] for name in _FIELDS}
        name = f"{end.sum():015d}.npz"
        write_arrays(self.directory / name, {"lanes": lanes, "times": times, **arrays})
        self.files.append((name, end, checksum(self.directory / name)))

    def read(self, replay: Replay, files: dict[str, str]) -> None:
        """Fill a memory from the files of a checkpoint."""
        self.files = []
        replay.added[:] = 0
        for name, total in sorted(files.items()):
            arrays = read_arrays(self.directory / name)
            _check(name, arrays, replay)
            lanes, times = arrays["lanes"], arrays["times"]
            for column in _FIELDS:
                getattr(replay, column)[replay.place(times, lanes)] = arrays[column]
            np.maximum.at(replay.added, lanes, times + 1)
            self.files.append((name, replay.added.copy(), total))


def _check(name: str, arrays: dict[str, np.ndarray], replay: Replay) -> None:
    """Whether a file holds entries that fit a memory."""
    absent = np.zeros((), object)
    rows = arrays.get("times", absent).shape
    for column, (shape, dtype) in _entries(replay).items():
        found = arrays.get(column, absent)
        if len(rows) != 1 or found.shape != (*rows, *shape) or found.dtype != dtype:
            raise CheckpointError(f"replay/{name} is damaged: its {column} do not fit the memory")
    lanes, times = arrays["lanes"], arrays["times"]
    if ((lanes < 0) | (lanes >= replay.lanes) | (times < 0)).any():
        raise CheckpointError(f"replay/{name} is damaged: it has lanes or times that are not there")


def _entries(replay: Replay) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """The shape and the dtype of one entry in each column of a file."""
    like = {column: getattr(replay, column) for column in _FIELDS}
    entries = {column: (one.shape[1:], one.dtype) for column, one in like.items()}
    number = ((), np.dtype(np.int64))
    return {**entries, "lanes": number, "times": number}
