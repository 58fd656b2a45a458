"""The cores and the memory of this machine, or of the part of it that a container may use."""

import os
from pathlib import Path

_LIMITS = Path("/sys/fs/cgroup")  # of the container, where there is one


def cores() -> list[int]:
    """The numbers of the cores that this process may use; empty if the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def core_count() -> int:
    """How many cores there are to use: fewer than `cores` where a container's time on them is
    limited."""
    there = len(cores()) or os.cpu_count() or 1
    quota, _, period = _read(_LIMITS / "cpu.max").partition(" ")
    if not quota.isdigit():
        return there
    return max(1, min(there, int(quota) // int(period)))


def free_memory() -> float:
    """Bytes of memory that are free; infinite if the system does not tell."""
    free = [1024.0 * kilobytes for kilobytes in _fields("/proc/meminfo", "MemAvailable:")]
    limit, used = _read(_LIMITS / "memory.max").strip(), _read(_LIMITS / "memory.current").strip()
    if limit.isdigit() and used.isdigit():
        cached = sum(_fields(_LIMITS / "memory.stat", "inactive_file"))  # given back when needed
        free.append(max(0.0, int(limit) - int(used) + cached))
    return min(free, default=float("inf"))


def _fields(path: Path | str, name: str) -> list[int]:
    """The numbers in lines that begin with a name."""
    lines = _read(Path(path)).split("\n")
    return [int(line.split()[1]) for line in lines if line.split()[:1] == [name]]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
