"""The limits of all claims, from one file: `thresholds.toml` says what each is, since when, and why."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

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
) -> Claim:
    """A claim, decided by the limits that `thresholds.toml` has for its id.

    `numbers` is one number, or several by the names of their limits. `measured` says them in words.
    `note` is the reason for a claim that is known not to hold; `kind` is "identity" for what holds
    by definition.
    """
    return judge_claim(thresholds()[id], id, source, claim, measured, numbers, note, kind)
