"""The limits of claims: `thresholds.toml` says what each is, since when, and why.

A part of a user's own gives its limits with its claims.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from edrl.core.check import fail
from edrl.report.claims import Claim, Kind, Limit, Threshold, judge_claim
from edrl.study.tables import Json

FILE = Path(__file__).with_name("thresholds.toml")


@cache
def thresholds() -> dict[str, Threshold]:
    """All thresholds by the ids of their claims."""
    entries = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {name: _threshold(entry) for name, entry in entries.items()}


def _threshold(entry: Json) -> Threshold:
    limits = entry["limits"]
    single = all(key in ("above", "at_most", "unit") for key in limits)
    named = (
        {"": Limit(**limits)}
        if single
        else {name: Limit(**limit) for name, limit in limits.items()}
    )
    return Threshold(
        named, str(entry["set_on"]), entry["numbers"], entry["reason"], entry.get("earlier", "")
    )


def judged(
    id: str,
    source: str,
    claim: str,
    measured: str,
    numbers: Mapping[str, float] | float,
    note: str = "",
    kind: Kind = "evidence",
    *,
    limits: Limit | Threshold | None = None,
) -> Claim:
    """A claim, decided by its limits: those that `thresholds.toml` has for its id, or those given.

    Args:
        id: The claim's name, which no other claim has.
        source: Where it is made: "Theorem 4.6", or whose it is.
        claim: What is claimed, in words.
        measured: What was measured, in words.
        numbers: What was measured: one number, or several by the names of their limits.
        note: The reason for a claim that is known not to hold.
        kind: "identity" for what holds by definition, and is no evidence.
        limits: The limits of a claim that `thresholds.toml` does not have: one limit, or a
            threshold, which names the limits of several numbers and says why they are as they are.
    """
    threshold = _own_threshold(id, limits) if limits is not None else thresholds().get(id)
    if threshold is None:
        raise fail("id", id, "it must be in thresholds.toml, or limits must be given")
    return judge_claim(threshold, id, source, claim, measured, numbers, note, kind)


def _own_threshold(id: str, limits: Limit | Threshold) -> Threshold:
    if id in thresholds():
        raise fail("id", id, "it must be another: it is a claim of edrl's, whose limits are set")
    return limits if isinstance(limits, Threshold) else Threshold({"": limits})
