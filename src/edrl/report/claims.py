"""Claims and their verdicts."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "holds", bool(self.holds))  # comparisons of NumPy's give a bool of NumPy's own

    @property
    def verdict(self) -> str:
        """What a reader is told."""
        if self.holds:
            return "holds"
        return "does not hold" if self.note else "FAILS"

    @property
    def failed(self) -> bool:
        """Whether the claim should hold and does not."""
        return not self.holds and not self.note


def as_json(claims: Sequence[Claim]) -> list[dict[str, Any]]:
    """What `claims.json` holds."""
    return [asdict(claim) for claim in claims]


def as_markdown(claims: Sequence[Claim]) -> str:
    """A table for a README."""
    lines = ["| | claim | measured | expected | source |", "|---|---|---|---|---|"]
    for claim in claims:
        note = f" *{claim.note}*" if claim.note and not claim.holds else ""
        mark = "✓" if claim.holds else "✗"
        cells = (mark, claim.claim + note, claim.measured, claim.expected, claim.source)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def count_verdicts(claims: Sequence[Claim]) -> str:
    """A sentence: how many hold, how many do not."""
    holding = sum(claim.holds for claim in claims)
    known = sum(not claim.holds and not claim.failed for claim in claims)
    failed = sum(claim.failed for claim in claims)
    parts = [f"{holding} of {len(claims)} claims hold"]
    if known:
        parts.append(f"{known} {'does' if known == 1 else 'do'} not, for reasons given")
    if failed:
        parts.append(f"{failed} should hold and {'does' if failed == 1 else 'do'} not")
    return "; ".join(parts)
