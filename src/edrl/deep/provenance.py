"""Where a run comes from: versions, commit, machine; settings, and what was passed beside them."""

import hashlib
import json
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from edrl.core.check import fail
from edrl.core.json_text import parse_json
from edrl.deep.config import Config
from edrl.deep.named_statistics import THREADS

FILE = "provenance.json"
_PASSED = ("agent", "env", "family", "replay")
_PACKAGES = (
    "edrl", "jax", "jaxlib", "numpy", "scipy", "gymnasium", "ale-py", "MinAtar", "pgx",
    "gymnax",
)  # fmt: skip


def provenance() -> dict[str, Any]:
    """The versions, the commit and the machine of this process, and the time."""
    devices = sorted({device.device_kind for device in jax.devices()})
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version()} | {p: _version(p) for p in _PACKAGES},
        "commit": _commit(),
        "machine": {
            "host": platform.node(),
            "system": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "devices": ", ".join(devices),  # that JAX computes on
            "threads": os.environ.get(THREADS),  # if they are limited
        },
    }


def read_provenance(run: Path) -> list[dict[str, Any]]:
    """What has worked on the run in a directory, in this order; nothing if that was not written."""
    path = run / FILE
    if not path.exists():
        return []
    try:
        found = parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    entries: list[dict[str, Any]] = found if isinstance(found, list) else [found]
    check_provenance(str(path), entries)
    return entries


def check_provenance(where: str, entries: Sequence[object]) -> None:
    """Whether these are what `provenance` writes, as far as anybody relies on it."""
    for entry in entries:
        texts = [entry.get(name, "") for name in _PASSED] if isinstance(entry, dict) else [None]
        if not all(isinstance(text, str) for text in texts):
            right = f"it must hold objects, in which {', '.join(_PASSED)} are texts"
            raise ValueError(f"{where} cannot be read: {right}")


def passed_beside(**given: object | None) -> dict[str, str]:
    """What was passed to `train` beside a config, by its name there, as text."""
    # Where in memory a function lies says nothing.
    texts = {name: re.sub(r" at 0x[0-9a-f]+", "", _text(one)) for name, one in given.items()}
    return {name: text for name, text in texts.items() if given[name] is not None}


def _text(given: object) -> str:
    if isinstance(given, str):
        return given
    if isinstance(given, type):
        return f"{given.__module__}.{given.__qualname__}"
    return f"{given!r}{_digest(given)}"


def _digest(given: object) -> str:
    """A checksum of the numbers in it: a repr shows a few digits of a few of them."""
    arrays = [leaf for leaf in jax.tree.leaves(given) if isinstance(leaf, jax.Array | np.ndarray)]
    if not arrays:
        return ""
    found = hashlib.blake2b(digest_size=4)
    for array in arrays:
        found.update(np.asarray(array).tobytes())
    return f" #{found.hexdigest()}"


def identity_of(config: Config, passed: dict[str, str]) -> dict[str, Any]:
    """What a run must have in common with its checkpoints."""
    settings = json.loads(config.to_json())
    del settings["steps"]  # which may grow
    return {"settings": settings, "passed": passed}


def check_identity(before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to take one run for another."""
    for name in sorted(before["passed"].keys() | now["passed"].keys()):
        was, given = before["passed"].get(name), now["passed"].get(name)
        if was != given:
            right = f"the run was trained with {name}={was}: pass the same to resume or load"
            raise fail(name, given, right if was else "the run was trained without: leave it out")
    for name, setting in now["settings"].items():
        was = before["settings"].get(name)
        if was != setting:
            raise fail(name, setting, f"the run was trained with {was}: config.json must say so")


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the checkout that holds the package, marked if files differ from it.

    None if the package was installed otherwise.
    """
    try:
        if _git("ls-files", "--error-unmatch", __file__).returncode:
            return None  # some other project's repository, in which a virtual environment lies
        commit = _git("rev-parse", "HEAD")
        commit.check_returncode()
        changed = _git("status", "--porcelain", "-uno").stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit.stdout.strip() + ("+changes" if changed else "")


def _git(*command: str) -> "subprocess.CompletedProcess[str]":
    place = ["git", "-C", str(Path(__file__).parent)]
    return subprocess.run([*place, *command], capture_output=True, text=True)
