"""Whether the entries of a runs.json are what a report writes: it may have come from anywhere."""

import math
from itertools import chain, pairwise
from typing import Any

from edrl.core.check import fail
from edrl.deep.calibration import BOUNDS, CALIBRATION
from edrl.deep.provenance import check_provenance
from edrl.study.training_scores import TRAINING

_MOST_STEPS = 10**15
_LARGE = 1e300  # JSON has whole numbers of any length, and a float none so large


def check_run_entry(entry: Any) -> None:
    """The entry of a run, but for its config, which checks itself."""
    if not isinstance(entry, dict):
        raise fail("run", entry, "it must be an object")
    _check_evaluations(entry)
    if not isinstance(entry.get("finished", entry.get("ended")), bool):
        raise fail("finished", entry.get("finished"), "it must be true or false")
    if "training" in entry:
        _check_training(entry["training"])
    _check_timing(entry["timing"])
    _check_calibration(entry["calibration"])
    check_provenance("made", _list("made", entry["made"]))


def _check_evaluations(entry: dict[str, Any]) -> None:
    counts = [entry["planned"], entry["reached"], *_list("steps", entry["steps"])]
    if not all(map(_is_count, counts)):
        raise fail("planned, reached or steps", counts, "they must be whole numbers")
    if not _increase(entry["steps"]):
        raise fail("steps", entry["steps"], "they must increase")
    scores = _list("scores", entry["scores"])
    if len(scores) != len(entry["steps"]) or not all(map(_is_finite, scores)):
        raise fail("scores", scores, "they must be finite numbers, one for each of the steps")


def check_plan_entry(entry: Any) -> None:
    """The planned runs of one agent."""
    if not isinstance(entry, dict) or not isinstance(entry["agent"], str):
        raise fail("planned", entry, "it must be an object with the name of an agent")
    if not _are_texts(_list("names", entry["names"])):
        raise fail("names", entry["names"], "they must be texts")
    settings = entry["settings"]
    if not isinstance(settings, dict) or not all(map(_is_plain, settings.values())):
        raise fail("settings", settings, "they must be plain values by their names")
    for row in _list("runs", entry["runs"]):
        check_planned_row(row, 1)


def check_planned_row(row: Any, texts: int) -> None:
    """A planned run: some texts, the last of which is its game, its seed and its steps."""
    if not isinstance(row, list) or len(row) != texts + 2:
        raise fail("planned run", row, f"it must be a list of {texts + 2}")
    if not _are_texts(row[:texts]) or not all(map(_is_count, row[texts:])):
        raise fail("planned run", row, "it must have a game, a seed and a number of steps")


def _check_training(training: Any) -> None:
    if not isinstance(training, dict) or tuple(training) != TRAINING:
        raise fail("training", training, f"it must have the columns {', '.join(TRAINING)}")
    columns = _columns("training", training)
    steps, episodes, scores = columns
    if not _equally_long(columns) or not all(map(_is_finite, scores)):
        raise fail("training", training, "its columns must be finite numbers, and equally many")
    if not all(map(_is_count, steps + episodes)) or 0 in episodes:
        raise fail("training", training, "its steps and episodes must be whole numbers")
    if not _increase(steps):
        raise fail("training", training, "its steps must increase")


def _check_timing(timing: Any) -> None:
    if timing is None:
        return
    if not isinstance(timing, dict) or not all(map(_is_finite, timing.values())):
        raise fail("timing", timing, "it must be null or an object of numbers")


def _check_calibration(calibration: Any) -> None:
    needed = set(CALIBRATION) - set(BOUNDS)
    if not isinstance(calibration, dict) or not needed <= calibration.keys() <= set(CALIBRATION):
        raise fail("calibration", calibration, f"it must have the columns {', '.join(CALIBRATION)}")
    columns = _columns("calibration", calibration)
    if not _equally_long(columns) or not all(map(_is_number, chain.from_iterable(columns))):
        raise fail("calibration", calibration, "its columns must be numbers, and equally many")
    if not all(map(_is_finite, [*calibration["step"], *calibration["returns"]])):
        raise fail("calibration", calibration, "its steps and counts must be finite")


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise fail(name, value, "it must be a list")
    return value


def _columns(name: str, table: dict[str, Any]) -> list[list[Any]]:
    return [_list(name, column) for column in table.values()]


def _equally_long(columns: list[list[Any]]) -> bool:
    return len(set(map(len, columns))) == 1


def _increase(numbers: list[int]) -> bool:
    return all(earlier < later for earlier, later in pairwise(numbers))


def _are_texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _is_number(value: object) -> bool:
    return isinstance(value, float) or (type(value) is int and abs(value) < _LARGE)


def _is_finite(value: Any) -> bool:
    return _is_number(value) and abs(value) < _LARGE and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST_STEPS


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_is_number, value))
    return value is None or isinstance(value, str | bool) or _is_number(value)
