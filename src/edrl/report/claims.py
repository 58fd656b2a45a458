"""Claims, the limits that decide them, and their verdicts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

Kind = Literal["evidence", "identity"]
"""evidence: a measurement that could have come out otherwise. identity: a definition, an
identity, or a number worked
out from the paper's own table; it checks our code and is not counted as evidence."""

Numbers = Literal["unseen", "seen", "unrecorded"]
"""Whether the numbers were known when the limit was set; unrecorded: it came with the first
version of its part."""


@dataclass(frozen=True)
class Limit:
    """What one measured number must be: above a limit, or at most a limit."""

    above: float | None = None
    at_most: float | None = None
    unit: str = ""

    def allows(self, value: float) -> bool:
        """Whether the number is within the limit. NaN never is."""
        if self.above is not None and not value > self.above:
            return False
        return self.at_most is None or value <= self.at_most

    def margin(self, value: float) -> float:
        """By which factor the number clears the limit: above 1 if it holds, NaN where a factor
        means nothing."""
        if math.isnan(value):
            return math.nan
        factors = []
        if self.above is not None:
            factors.append(value / self.above if self.above > 0 else math.nan)
        if self.at_most is not None:
            factors.append(
                math.nan if self.at_most <= 0 else self.at_most / value if value > 0 else math.inf
            )
        return min(factors, default=math.nan)

    def __str__(self) -> str:
        parts = []
        if self.above is not None:
            parts.append(f"> {self.above:g}{self.unit}")
        if self.at_most is not None:
            parts.append(f"at most {self.at_most:g}{self.unit}")
        return " and ".join(parts)


@dataclass(frozen=True)
class Threshold:
    """The limits of one claim by the names of its numbers, and where they come from."""

    limits: Mapping[str, Limit]
    set_on: str = ""  # the day, as 2026-11-18
    numbers: Numbers = "unrecorded"
    reason: str = ""
    earlier: str = ""  # what it was before, if it was moved


@dataclass(frozen=True)
class Claim:
    """One statement, of the paper or our own, set against what was measured."""

    id: str
    source: str  # where it is made: "Theorem 4.6", "Section 5.1", "edrl"
    claim: str
    measured: str
    expected: str
    holds: bool
    note: str = ""  # for a claim that is known not to reproduce: the likely reason
    kind: Kind = "evidence"
    margin: str = ""  # by which factor the tightest of its numbers clears its limit
    set_on: str = ""
    numbers: Numbers = "unseen"
    reason: str = ""
    earlier: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "holds", bool(self.holds)
        )  # comparisons of NumPy's give a bool of NumPy's own

    @property
    def verdict(self) -> str:
        """What a reader is told."""
        if self.holds:
            return "holds" if self.kind == "evidence" else "checks"
        return "does not hold" if self.note else "FAILS"

    @property
    def failed(self) -> bool:
        """Whether the claim should hold and does not."""
        return not self.holds and not self.note

    @property
    def limit_history(self) -> str:
        """When and why the limit was set, and whether the numbers had been seen."""
        if not self.set_on:
            return ""
        seen = {"unseen": "before the numbers were seen", "seen": "after the numbers were seen",
                "unrecorded": "with the first version of this part"}[self.numbers]  # fmt: skip
        earlier = f" Earlier: {self.earlier}." if self.earlier else ""
        return f"Limit set on {self.set_on}, {seen}: {self.reason}.{earlier}"


def judge_claim(
    threshold: Threshold,
    id: str,
    source: str,
    claim: str,
    measured: str,
    numbers: Mapping[str, float] | float,
    note: str = "",
    kind: Kind = "evidence",
) -> Claim:
    """Set measured numbers against a threshold: one number, or several by the names of their
    limits."""
    values = dict(numbers) if isinstance(numbers, Mapping) else {"": numbers}
    if set(values) != set(threshold.limits):
        raise ValueError(
            f"{id}: the numbers are {sorted(values)}, but the limits are for"
            f" {sorted(threshold.limits)}"
        )
    holds = all(threshold.limits[name].allows(float(value)) for name, value in values.items())
    margins = [threshold.limits[name].margin(float(value)) for name, value in values.items()]
    expected = "; ".join(
        f"{name}: {limit}" if name else str(limit) for name, limit in threshold.limits.items()
    )
    return Claim(
        id, source, claim, measured, expected, holds, note, kind, _margin(margins),
        threshold.set_on,
        threshold.numbers, threshold.reason, threshold.earlier,
    )  # fmt: skip


def _margin(factors: Sequence[float]) -> str:
    """The least factor in words."""
    known = [factor for factor in factors if not math.isnan(factor)]
    if not known:
        return ""
    least = min(known)
    if least >= 1000:
        return "more than 1,000×"
    return f"{math.floor(100 * least) / 100:g}×" if least < 10 else f"{math.floor(least):g}×"


def as_json(claims: Sequence[Claim]) -> list[dict[str, object]]:
    """What `claims.json` holds."""
    return [asdict(claim) for claim in claims]


def as_markdown(claims: Sequence[Claim]) -> str:
    """A table for a page of the documentation. A dagger marks limits that were set after the
    numbers were seen."""
    lines = ["| | claim | measured | expected | margin | source |", "|---|---|---|---|---|---|"]
    for claim in claims:
        note = f" *{claim.note}*" if claim.note and not claim.holds else ""
        mark = "✗" if not claim.holds else "✓" if claim.kind == "evidence" else "="
        dagger = " †" if claim.numbers == "seen" else ""
        cells = (
            mark,
            claim.claim + note,
            claim.measured,
            claim.expected + dagger,
            claim.margin,
            claim.source,
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def count_verdicts(claims: Sequence[Claim]) -> str:
    """A sentence: how many hold, how many do not, and how many identities are not counted."""
    evidence = [claim for claim in claims if claim.kind == "evidence"]
    identities = [claim for claim in claims if claim.kind == "identity"]
    known = sum(not claim.holds and not claim.failed for claim in evidence)
    failed = sum(claim.failed for claim in claims)
    parts = []
    if evidence or not identities:
        parts.append(f"{sum(claim.holds for claim in evidence)} of {len(evidence)} claims hold")
    if known:
        parts.append(f"{known} {'does' if known == 1 else 'do'} not, for reasons given")
    if identities:
        held = sum(claim.holds for claim in identities)
        parts.append(
            f"{held} of {len(identities)} definitions and identities check, which are not counted"
            " as evidence"
        )
    if failed:
        parts.append(f"{failed} should hold and {'does' if failed == 1 else 'do'} not")
    return "; ".join(parts)
