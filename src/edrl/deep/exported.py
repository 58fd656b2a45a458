"""The network of an agent in a folder for others: `model.safetensors`, which `load` reads.

A safetensors file is a JSON header and plain arrays: reading one runs no code. The header also says
which settings the network belongs to, so that another config.json beside it is noticed.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from edrl.core.json_text import parse_json
from edrl.deep.config import Config
from edrl.deep.manifest import CheckpointError, is_identity
from edrl.deep.provenance import identity_of
from edrl.deep.state import Arrays, from_arrays, to_arrays
from edrl.deep.types import Parameters

FILE = "model.safetensors"
VERSION = 1
_HEADER = "edrl"  # the name of our entry in the file's metadata


@dataclass(frozen=True)
class Exported:
    """A network, and what it belongs to."""

    step: int
    best: bool  # whether it is that of the best evaluation
    identity: dict[str, Any]  # the settings it was trained with, and what was passed beside them
    version: int = VERSION
    arrays: Arrays = field(default_factory=dict)  # by paths

    def network(self, directory: Path, like: Parameters) -> Parameters:
        """The network as parameters of an agent; `directory` is where it was read."""
        where, expected = str(directory / FILE), to_arrays({"network": like})
        for name in sorted(self.arrays.keys() - expected.keys()):
            raise CheckpointError(f"{where} is of another agent: it has {name}, which is not its")
        return from_arrays({"network": like}, self.arrays, where)["network"]


def is_exported(directory: Path) -> bool:
    """Whether a directory holds an exported agent."""
    return (directory / FILE).is_file()


def is_ours(directory: Path) -> bool:
    """Whether a directory holds a model that edrl wrote."""
    try:
        return _read(directory / FILE, with_arrays=False)[0] is not None
    except CheckpointError:
        return False


def model_bytes(parameters: Parameters, exported: Exported) -> bytes:
    """What `model.safetensors` holds: the arrays of a network, and in its header all the rest."""
    header = asdict(exported)
    del header["arrays"]
    # The format knows no strides.
    arrays = {
        name: np.asarray(array, order="C")
        for name, array in to_arrays({"network": parameters}).items()
    }
    return safetensors.numpy.save(arrays, {_HEADER: json.dumps(header, sort_keys=True)})


def read_exported(directory: Path, config: Config) -> Exported:
    """The network in a directory beside its config, or what is wrong with it."""
    path = directory / FILE
    header, arrays = _read(path)
    if header is None:
        raise CheckpointError(f"{path} is not of an agent that `edrl export` wrote")
    found = _checked(path, header)
    # Settings that a later version has added are at their defaults on both sides.
    settings = identity_of(config, {})["settings"] | found["identity"]["settings"]
    identity = {"settings": settings, "passed": found["identity"]["passed"]}
    return Exported(found["step"], found["best"], identity, arrays=arrays)


def _read(path: Path, with_arrays: bool = True) -> tuple[str | None, Arrays]:
    """What a file's header says of an agent, and its arrays."""
    arrays: Arrays = {}
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            for name in file.keys() if with_arrays else ():
                arrays[name] = file.get_tensor(name)
            return (file.metadata() or {}).get(_HEADER), arrays
    except Exception as error:  # of whatever kind: no such file, not this format, no memory
        why = f"it holds no arrays that can be read ({type(error).__name__}: {error})"
        raise _damaged(path, why) from error


def _checked(path: Path, text: str) -> dict[str, Any]:
    """The header, if it says what it must."""
    try:
        header = parse_json(text)
    except ValueError as error:
        raise _damaged(path, f"its header cannot be read: {error}") from error
    if not isinstance(header, dict) or "version" not in header:
        raise _damaged(path, "its header does not say its version")
    if header["version"] != VERSION:
        version = f"has format {header['version']!r}, but this version of edrl reads {VERSION}"
        raise CheckpointError(f"{path} {version}")
    right = {
        "step": type(header.get("step")) is int and header["step"] >= 0,
        "best": isinstance(header.get("best"), bool),
        "identity": is_identity(header.get("identity")),
    }
    for name, is_right in right.items():
        if not is_right:
            raise _damaged(path, f"{name!r} is missing from its header, or is not what it must be")
    return header


def _damaged(path: Path, why: str) -> CheckpointError:
    return CheckpointError(f"{path} is damaged: {why}")
