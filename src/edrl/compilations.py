"""Compiled programs that are kept on disk, so that the next process need not compile them again.

The `edrl` command keeps them by default; in Python, `edrl.cache_compilations()` asks for it.
"""

import contextlib
import os
import sys
from pathlib import Path

_MOST_BYTES = 2**30
_LEAST_SECONDS = "0.1"  # of compiling: what is quicker is not worth a file


def cache_compilations(directory: Path | str | None = None) -> Path:
    """Keep what JAX compiles from now on, and take what was kept: a second start is quicker.

    Args:
        directory: where programs are kept. By default it is the user's cache directory, or what the
            environment variable EDRL_CACHE names.

    Returns:
        The directory.
    """
    import jax

    kept = _prepared(cache_directory() if directory is None else Path(directory))
    jax.config.update("jax_compilation_cache_dir", str(kept))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", float(_LEAST_SECONDS))
    return kept


def cache_compilations_of_command() -> None:
    """The same before JAX is imported. What the user has set for JAX holds; a cache that cannot be
    written is done without.
    """
    with contextlib.suppress(OSError):
        kept = _prepared(cache_directory())
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(kept))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", _LEAST_SECONDS)


def cache_directory() -> Path:
    """Where the user's programs keep what can be made again."""
    if given := os.environ.get("EDRL_CACHE"):
        return Path(given)
    return _cache_of_user() / "edrl"


def _cache_of_user() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _prepared(directory: Path) -> Path:
    """The directory, made if need be, without the programs that were not used for longest if all
    together are too large.
    """
    directory.mkdir(parents=True, exist_ok=True)
    files = [file for file in directory.iterdir() if file.is_file()]
    files.sort(key=_last_used, reverse=True)
    size = 0
    for file in files:
        size += file.stat().st_size
        if size > _MOST_BYTES:
            file.unlink(missing_ok=True)
    return directory


def _last_used(file: Path) -> float:
    return max(file.stat().st_mtime, file.stat().st_atime)
