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

_WHEN: dict[Numbers, str] = {
    "unseen": "before the numbers were seen",
    "seen": "after the numbers were seen",
    "unrecorded": "with the first version of this part",
}


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
        """The factor by which the number clears the limit, which is above 1 if the claim holds.

        It is NaN where a factor means nothing.
        """
        if math.isnan(value):
            return math.nan
        factors = []
        if self.above is not None:
            factors.append(value / self.above if self.above > 0 else math.nan)
        if self.at_most is not None:
            factors.append(_times_below(value, self.at_most))
        return min(factors, default=math.nan)

    def __str__(self) -> str:
        parts = []
        if self.above is not None:
            parts.append(f"> {self.above:g}{self.unit}")
        if self.at_most is not None:
            parts.append(f"at most {self.at_most:g}{self.unit}")
        return " and ".join(parts)


def _times_below(value: float, limit: float) -> float:
    if limit <= 0:
        return math.nan
    return limit / value if value > 0 else math.inf


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
        # Comparisons of NumPy's give a bool of NumPy's own.
        object.__setattr__(self, "holds", bool(self.holds))

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if self.holds:
            return "holds" if self.kind == "evidence" else "checks"
        return "does not hold" if self.note else "FAILS"

    @property
    def mark(self) -> str:
        """The verdict as one sign."""
        if not self.holds:
            return "✗"
        return "✓" if self.kind == "evidence" else "="

    @property
    def why_not(self) -> str:
        """The reason for a claim that does not hold, if it is known."""
        return "" if self.holds else self.note

    @property
    def failed(self) -> bool:
        """Whether the claim should hold and does not."""
        return not self.holds and not self.note

    @property
    def limit_history(self) -> str:
        """When and why the limit was set, and whether the numbers had been seen."""
        if not self.set_on:
            return ""
        seen = _WHEN[self.numbers]
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
    limits = threshold.limits
    values = dict(numbers) if isinstance(numbers, Mapping) else {"": numbers}
    if set(values) != set(limits):
        text = f"the numbers are {sorted(values)}, but the limits are for {sorted(limits)}"
        raise ValueError(f"{id}: {text}")
    return Claim(
        id=id,
        source=source,
        claim=claim,
        measured=measured,
        expected="; ".join(f"{name}: {limit}".removeprefix(": ") for name, limit in limits.items()),
        holds=all(limits[name].allows(float(value)) for name, value in values.items()),
        note=note,
        kind=kind,
        margin=_margin([limits[name].margin(float(value)) for name, value in values.items()]),
        set_on=threshold.set_on,
        numbers=threshold.numbers,
        reason=threshold.reason,
        earlier=threshold.earlier,
    )


def _margin(factors: Sequence[float]) -> str:
    """The least factor in words, rounded down."""
    least = min((factor for factor in factors if not math.isnan(factor)), default=math.nan)
    if math.isnan(least):
        return ""
    if least >= 1000:
        return "more than 1,000×"
    digits = 100 if least < 10 else 1
    return f"{math.floor(digits * least) / digits:g}×"


def as_json(claims: Sequence[Claim]) -> list[dict[str, object]]:
    """What `claims.json` holds."""
    return [asdict(claim) for claim in claims]


def as_markdown(claims: Sequence[Claim]) -> str:
    """A table for a page of the documentation. A dagger marks limits that were set after the
    numbers were seen."""
    lines = ["| | claim | measured | expected | margin | source |", "|---|---|---|---|---|---|"]
    return "\n".join([*lines, *map(_markdown_row, claims)]) + "\n"


def _markdown_row(claim: Claim) -> str:
    note = f" *{claim.why_not}*" if claim.why_not else ""
    dagger = " †" if claim.numbers == "seen" else ""
    expected = claim.expected + dagger
    cells = (claim.mark, claim.claim + note, claim.measured, expected, claim.margin, claim.source)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def count_verdicts(claims: Sequence[Claim]) -> str:
    """A sentence: how many hold, how many do not, and how many identities are not counted."""
    evidence, identities = _of_kind(claims, "evidence"), _of_kind(claims, "identity")
    known = sum(bool(claim.why_not) for claim in evidence)
    failed = sum(claim.failed for claim in claims)
    check = "definitions and identities check, which are not counted as evidence"
    parts = {
        f"{_held(evidence)} claims hold": bool(evidence) or not identities,
        f"{known} {_do(known)} not, for reasons given": known > 0,
        f"{_held(identities)} {check}": bool(identities),
        f"{failed} should hold and {_do(failed)} not": failed > 0,
    }
    return "; ".join(part for part, said in parts.items() if said)


def _of_kind(claims: Sequence[Claim], kind: Kind) -> list[Claim]:
    return [claim for claim in claims if claim.kind == kind]


def _held(claims: Sequence[Claim]) -> str:
    return f"{sum(claim.holds for claim in claims)} of {len(claims)}"


def _do(count: int) -> str:
    return "does" if count == 1 else "do"
