"""What made a run: versions, the commit of a checkout, the machine; settings, and what was passed beside them."""

import json
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax

from edrl.core.check import fail
from edrl.core.statistics import Statistics
from edrl.deep.config import THREADS, Config

_PACKAGES = ("edrl", "jax", "jaxlib", "numpy", "scipy", "optax", "gymnasium", "ale-py", "MinAtar")


def made_by() -> dict[str, Any]:
    """Of the process that asks, now."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in _PACKAGES},
        "commit": _commit(),
        "machine": {
            "host": platform.node(),
            "system": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "devices": ", ".join(sorted({device.device_kind for device in jax.devices()})),  # that JAX computes on
            "threads": os.environ.get(THREADS),  # if they are limited
        },
    }


def made_with(config: Config, family: Statistics | None, env: str | None) -> dict[str, Any]:
    """What a run must have in common with its checkpoints: settings, and what was passed instead of them, if it was."""
    settings = json.loads(config.to_json())
    del settings["steps"]  # which may grow
    # Where in memory a function lies says nothing.
    own_family = None if family is None else re.sub(r" at 0x[0-9a-f]+", "", repr(family))
    return {"settings": settings, "family": own_family, "env": env}


def check_made_with(before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to take a run for another; what a version before this one did not know is not held against it."""
    for name in ("family", "env"):
        if (was := before.get(name, now[name])) != now[name]:
            right = f"the run was trained with {name}={was}: pass the same to resume or load_trained"
            raise fail(name, now[name], right if was else "the run was trained without: leave it out")
    for name, setting in now["settings"].items():
        if (was := before.get("settings", {}).get(name, setting)) != setting:
            raise fail(name, setting, f"the run was trained with {was}: config.json must say so")


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """Of the checkout that the package lies in, marked if files differ from it; None if it was installed otherwise."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        tracked = subprocess.run([*git, "ls-files", "--error-unmatch", __file__], capture_output=True)
        if tracked.returncode:
            return None  # some other project's repository, in which a virtual environment lies
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+changes" if changed.strip() else "")
