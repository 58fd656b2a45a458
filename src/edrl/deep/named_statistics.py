"""Statistics and imputations that a config names, users' own among them."""

import dataclasses
import os
from typing import Any

from edrl.core.check import fail
from edrl.core.families import LevelStatistics
from edrl.core.families.heads import find_head
from edrl.core.imputation import ScipyMinimize, ScipyRoot, find_imputation
from edrl.core.statistics import Imputation, Statistics
from edrl.deep.objects import load_object
from edrl.deep.processes import OverProcesses

THREADS = "PJRT_NPROC"
"""The environment variable that limits XLA's threads, on whose number sums depend."""


def named_imputation(name: str, family: Statistics) -> Imputation:
    """An imputation by its name, or a user's own."""
    if ":" in name:
        return find_imputation(load_object("imputation", name), {})
    imputation = find_imputation(name, family.own_imputations)
    if isinstance(imputation, ScipyRoot | ScipyMinimize):  # solved row by row
        processes = int(os.environ.get(THREADS) or os.cpu_count() or 1)
        return dataclasses.replace(imputation, spread=OverProcesses(processes))
    return imputation


def with_head(name: str, family: Statistics) -> Statistics:
    """A family whose values a network puts out by the head of this name."""
    if not isinstance(family, LevelStatistics) or not family.own_heads:
        right = f"it must be left out: {type(family).__name__} has no heads to choose from"
        raise fail("head", name, right)
    head = find_head(name, family.own_heads, family.size)
    return dataclasses.replace(family, head=head)


def own_statistics(name: str, size: int | None) -> Statistics:
    """Statistics of a user's own, MODULE:NAME: an object, or what makes one of a size."""
    found = load_object("agent", name)
    if callable(found) and not isinstance(found, Statistics):
        found = _made(name, found, size)
    elif size is not None:
        raise fail("size", size, f"{name} is an object whose size is settled")
    if not isinstance(found, Statistics):
        right = "it must be an object of edrl.Statistics, or a class or function that makes one"
        raise fail("agent", name, right)
    return found


def _made(name: str, make: Any, size: int | None) -> Any:
    try:
        found = make() if size is None else make(size)
        found.size  # noqa: B018 - a size that it cannot have shows only when it is asked for
    except (TypeError, AttributeError) as error:
        given = "" if size is None else f" with size {size}"
        right = f"it cannot be made{given}: {type(error).__name__}: {error}"
        raise fail("agent", name, right) from error
    return found
