"""Parts of the page by name: those of the package, and those in files of users' own."""

import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType

from edrl.core.check import fail
from edrl.named_modules import find_named_modules_in, open_named_modules
from edrl.paper import EXPERIMENTS
from edrl.paper.experiment import Experiment


def find_part(name: str) -> Experiment:
    """A part of the package by its name, or the EXPERIMENT that a Python file defines."""
    if name.endswith(".py"):
        return _load(Path(name).resolve())
    if name not in EXPERIMENTS:
        raise fail("part", name, f"it must be a Python file or one of {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


def find_parts(names: Iterable[str]) -> dict[str, Experiment]:
    """Parts by the names that they give themselves. No two may have the same name."""
    found: dict[str, Experiment] = {}
    for name in names:
        experiment = find_part(name)
        other = found.setdefault(experiment.name, experiment)
        if other.where != experiment.where:
            right = f"it has the name {experiment.name}, as {other.where} has: give it another"
            raise fail("part", name, right)
    return found


@cache
def _load(file: Path) -> Experiment:
    """Run a user's file, and return what it defines."""
    if not file.is_file():
        raise fail("part", str(file), "there is no such file")
    find_named_modules_in(file.parent)  # what lies beside it can be imported
    open_named_modules()
    try:
        module = _imported(file)
    except Exception as error:
        right = f"it cannot be imported: {type(error).__name__}: {error}"
        raise fail("part", str(file), right) from error
    experiment = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, Experiment):
        raise fail("part", str(file), "it must be a file that defines EXPERIMENT = Experiment(...)")
    if experiment.name in EXPERIMENTS:
        right = f"it has the name {experiment.name}, as a part of edrl has: give it another"
        raise fail("part", str(file), right)
    return replace(experiment, own_file=file)


def _imported(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(str(file), file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[str(file)] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
