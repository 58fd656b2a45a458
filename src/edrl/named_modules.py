"""Modules that a user names, such as that of MODULE:NAME.

The `edrl` command finds them in the directory where it is given, too. Only once one is named: until
then a file that happens to lie there, maybe with a run of somebody else's, must not be imported in
the place of a package that is not installed.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType

_directories: list[str] = []  # beside those in sys.path


def find_named_modules_in(directory: Path) -> None:
    """Let modules be found in a directory as soon as one is named."""
    if str(directory) not in _directories:
        _directories.append(str(directory))


def import_named(module: str) -> ModuleType:
    """Import a module that the user has named himself, or trusts."""
    if module.partition(".")[0] != __package__:  # edrl names classes of its own this way, too
        open_named_modules()
    return importlib.import_module(module)


def open_named_modules() -> None:
    """From now on everything is found there: what is named imports others, maybe much later."""
    # Last: what is installed comes first.
    sys.path += [directory for directory in _directories if directory not in sys.path]
