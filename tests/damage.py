"""Ways of damaging the files of a run, a study and a report, and commands that then read them."""

import contextlib
import io
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from edrl import cli
from edrl.deep.checkpoint import checksum

Damage = tuple[str, Callable[[Path], None]]
"""What is done to a file, in words, and what does it."""

ODD_VALUES: tuple[Any, ...] = (None, [], {}, "x", -1, 1.5, True, [None], {"a": 1}, 10**400)
_BYTES = {
    "empty": b"",
    "blank": b" \n",
    "bytes": bytes(range(256)),
    "null": b"null",
    "list": b"[]",
    "object": b"{}",
    "text": b'"x"',
    "number": b"7",
    "list of null": b"[null]",
    "nested": b"[" * 100_000,
    "not a number": b"NaN",
}


def command(*arguments: str) -> tuple[object, str]:
    """The exit status of `edrl ARGUMENTS`, and what it prints; other errors are raised."""
    printed, before = io.StringIO(), sys.argv
    sys.argv = ["edrl", *arguments]
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            cli.main()
    except SystemExit as end:
        return end.code or 0, " ".join(printed.getvalue().split())
    finally:
        sys.argv = before
    return 0, " ".join(printed.getvalue().split())


def damages_of_text(content: bytes) -> Iterator[Damage]:
    """The file replaced by something else, or cut."""
    for name, other in _BYTES.items():
        yield name, lambda path, other=other: _write(path, other)
    yield "cut", lambda path: _write(path, content[: len(content) // 2])


def damages_of_json(content: bytes) -> Iterator[Damage]:
    """Keys that are missing, and values of the wrong kind, down to the first entries of lists."""
    yield from damages_of_text(content)
    whole = json.loads(content)
    for place in _places(whole):
        yield f"without {place}", _edited(whole, place, None, remove=True)
        for value in ODD_VALUES:
            yield f"{str(value)[:9]} at {place}", _edited(whole, place, value)


def _places(entry: object, before: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if before:
        yield before
    if isinstance(entry, dict):
        for name, inner in list(entry.items())[:12]:
            yield from _places(inner, (*before, name))
    elif isinstance(entry, list) and entry:
        yield from _places(entry[0], (*before, 0))


def _edited(
    whole: Any, place: tuple[str | int, ...], value: object, *, remove: bool = False
) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        copy = json.loads(json.dumps(whole))
        inner = copy
        for part in place[:-1]:
            inner = inner[part]
        if remove:
            del inner[place[-1]]
        else:
            inner[place[-1]] = value
        _write(path, json.dumps(copy).encode())

    return edit


def damages_of_csv(content: bytes) -> Iterator[Damage]:
    """Cells, columns and rows that are not what they should be."""
    yield from damages_of_text(content)
    lines = content.decode().splitlines()
    columns = len(lines[0].split(","))
    for cell in ("nan", "inf", "-1", "abc", "", "1e400", "9" * 30, '"'):
        for column in range(columns):
            cells = lines[-1].split(",")
            cells[column] = cell
            changed = "\n".join([*lines[:-1], ",".join(cells), ""])
            name = f"{cell} in column {column} of the last row"
            yield name, lambda path, text=changed: _write(path, text.encode())
    no_header = "\n".join([*lines[1:], ""])
    yield "without its header", lambda path: _write(path, no_header.encode())
    yield "with another header", lambda path: _write(path, ("a,b\n" + no_header).encode())
    twice = "\n".join([lines[0], *lines[1:], *lines[1:], ""])
    yield "with its rows twice", lambda path: _write(path, twice.encode())


def damages_of_arrays(content: bytes) -> Iterator[Damage]:
    """Valid and invalid zip files with the wrong content; their checksums are those of it."""
    arrays = dict(np.load(io.BytesIO(content)))
    plain = io.BytesIO()
    np.save(plain, np.zeros(3))
    yield "npy for npz", lambda path: _write(path, plain.getvalue())
    for name, other in {**_BYTES, "cut": content[: len(content) // 2]}.items():
        yield name, lambda path, other=other: _write(path, other)
    yield "empty zip", lambda path: _zip(path, {})
    yield "zip of texts", lambda path: _zip(path, dict.fromkeys(map("{}.npy".format, arrays), b"x"))
    header = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': %s, }"
    for shape in (b"(99999999999999999999,)", b"(1000000000000,)", b"(-1,)", b"('a',)"):
        absurd = (header % shape).ljust(127) + b"\n"
        files = dict.fromkeys(map("{}.npy".format, arrays), absurd)
        yield f"header of {shape.decode()}", lambda path, files=files: _zip(path, files)
    yield "objects", lambda path: _save(path, {name: np.array([{}, None]) for name in arrays})
    for name, array in arrays.items():
        rest = {other: kept for other, kept in arrays.items() if other != name}
        for what, changed in _other_arrays(array).items():
            edited = {**rest, name: changed}
            yield f"{name} {what}", lambda path, edited=edited: _save(path, edited)
        yield f"without {name}", lambda path, rest=rest: _save(path, rest)


def _other_arrays(array: np.ndarray) -> dict[str, np.ndarray]:
    found = {
        "of another shape": np.zeros((2, *array.shape, 3), array.dtype),
        "of text": np.full(array.shape, "x"),
        "of another type": np.zeros(array.shape, np.float16),
    }
    if array.dtype.kind == "f":
        found["of another type"] = np.zeros(array.shape, np.int8)
        found["of NaN"] = np.full(array.shape, np.nan, array.dtype)
    return found


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    _renew_checksums(path)


def _zip(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in files.items():
            file.writestr(name, content)
    _renew_checksums(path)


def _save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with path.open("wb") as file:
        np.savez(file, allow_pickle=True, **arrays)  # type: ignore[arg-type]
    _renew_checksums(path)


def _renew_checksums(path: Path) -> None:
    """Without this, all damages of arrays would be found by the same check."""
    run = path.parent.parent
    for manifest in run.glob("checkpoint-*/manifest.json") if path.suffix == ".npz" else ():
        content = json.loads(manifest.read_bytes())
        sums = content["replay"] if path.parent.name == "replay" else content["files"]
        if path.name in sums and path.parent in (manifest.parent, run / "replay"):
            sums[path.name] = checksum(path)
            manifest.write_text(json.dumps(content))
