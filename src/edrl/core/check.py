"""Checks of what users hand in: every message names the argument, the value and what would be
right.
"""

import math
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TypeGuard, cast

import numpy as np


def fail(argument: str, value: object, right: str) -> ValueError:
    """The error for a bad `argument`, ready to be raised.

    `right` says what would be right ("it must be at least 1"), or what is wrong ("there is no such
    directory").
    """
    if right.startswith("it must "):
        return ValueError(f"{argument} {right.removeprefix('it ')}, got {value!r}")
    return ValueError(f"{argument} is {value!r}: {right}")


def nearest(word: object, known: Iterable[str], most: int = 2) -> list[str]:
    """The names that a misspelt word is nearest to, whatever its capitals."""
    spelt = {name.lower(): name for name in known}
    return [spelt[match] for match in get_close_matches(str(word).lower(), spelt, n=most)]


def one_of(word: object, known: Iterable[str], other: str = "") -> str:
    """What would be right instead of a word that is not known, and what was probably meant."""
    names = tuple(known)
    near = nearest(word, names)
    meant = f" (did you mean {' or '.join(near)}?)" if near else ""
    return f"it must be one of {', '.join(names)}{f', or {other}' if other else ''}{meant}"


def check_count(argument: str, value: object, least: int, most: int | None = None) -> int:
    """A whole number of at least `least`, and at most `most` if there is one."""
    if not _is_whole(value) or value < least:
        raise fail(argument, value, f"it must be a whole number of at least {least}")
    if most is not None and value > most:
        raise fail(argument, value, f"it must be at most {most}")
    return int(value)


def _is_whole(value: object) -> TypeGuard[int | float | np.integer | np.floating]:
    """Whether a value is a whole number, as 3, 3.0 and NumPy's are; True is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return isinstance(value, int) or (math.isfinite(value) and int(value) == value)


def check_seed(argument: str, value: object) -> int:
    """A seed of 32 bits: more than that, not all generators of random numbers take."""
    return check_count(argument, value, 0, 2**32 - 1)


def check_index(argument: str, value: int, count: int) -> int:
    """A whole number from 0 up to before `count`."""
    index = check_count(argument, value, 0)
    if index >= count:
        raise fail(argument, value, f"it must be a number from 0 to {count - 1}")
    return index


def check_number(
    argument: str,
    value: object,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    open_low: bool = False,
) -> float:
    """A finite number in [low, high], or in (low, high] with `open_low`."""
    number = cast("float", value)
    try:
        inside = math.isfinite(number) and low <= number <= high
        inside = inside and not (open_low and number == low)
    except (TypeError, OverflowError):  # no number at all, or a whole one beyond all floats
        inside = False
    if not inside:
        bracket = "(" if open_low else "["
        raise fail(argument, value, f"it must be a finite number in {bracket}{low:g}, {high:g}]")
    return float(number)


def check_directory(argument: str, path: Path) -> None:
    """A directory to write to, which need not be there yet."""
    for place in (path, *path.parents):
        if place.exists():
            if not place.is_dir():
                raise fail(argument, str(path), f"{place} is a file: name a directory")
            return


def check_increasing(
    argument: str, values: Sequence[float], low: float, high: float
) -> tuple[float, ...]:
    """A non-empty, strictly increasing sequence of finite numbers strictly between `low` and
    `high`.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise fail(argument, values, "it must be a non-empty one-dimensional sequence of numbers")
    outside = ~(np.isfinite(array) & (array > low) & (array < high))
    if outside.any():
        at = int(np.argmax(outside))
        raise fail(
            f"{argument}[{at}]",
            float(array[at]),
            f"it must lie strictly between {low:g} and {high:g}",
        )
    steps = np.diff(array)
    if (steps <= 0).any():
        at = int(np.argmax(steps <= 0))
        raise fail(
            f"{argument}[{at}:{at + 2}]",
            array[at : at + 2].tolist(),
            f"{argument} must increase strictly: sort it and remove repeated entries",
        )
    return tuple(array.tolist())
