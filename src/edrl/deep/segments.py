"""Replay memory on disk: what has come since the last checkpoint goes into a new file, so that saving stays cheap."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from edrl.deep.checkpoint import checksum, read_arrays, write_arrays
from edrl.deep.replay import Replay

_FIELDS = ("frames", "actions", "rewards", "terminals", "starts")


@dataclass
class Segments:
    """The files of a replay memory, oldest first: name, the time after the last entry in it, checksum."""

    directory: Path
    files: list[tuple[str, int, str]] = field(default_factory=list)

    def write(self, replay: Replay) -> dict[str, str]:
        """Bring the disk up to date; returns the files that hold the memory now, with checksums."""
        self.directory.mkdir(parents=True, exist_ok=True)
        oldest = replay.added - len(replay)
        first = max(oldest, self.files[-1][1] if self.files else 0)
        if first < replay.added:
            times = np.arange(first, replay.added)
            arrays = {name: getattr(replay, name)[times % replay.capacity] for name in _FIELDS}
            name = f"{replay.added:015d}.npz"
            write_arrays(self.directory / name, {"times": times, **arrays})
            self.files.append((name, replay.added, checksum(self.directory / name)))
        # Files whose entries have all been overwritten are no longer needed; `checkpoint.save` deletes them.
        self.files = [entry for entry in self.files if entry[1] > oldest]
        return {name: total for name, _, total in self.files}

    def read(self, replay: Replay, files: dict[str, str]) -> None:
        """Fill an empty memory from the files of a checkpoint."""
        self.files = []
        for name, total in sorted(files.items()):
            arrays = read_arrays(self.directory / name)
            times = arrays["times"]
            for column in _FIELDS:
                getattr(replay, column)[times % replay.capacity] = arrays[column]
            replay.added = int(times[-1]) + 1
            self.files.append((name, replay.added, total))
