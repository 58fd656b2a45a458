"""Claims are decided by numbers and limits, and say how near they were."""

import math

import pytest

from edrl.paper.thresholds import thresholds
from edrl.report.claims import Limit, Threshold, count_verdicts, judge_claim

SET = ("2026-11-18", "unseen", "a test")


def judged(limits, numbers, **options):
    return judge_claim(
        Threshold(limits, *SET), "id", "edrl", "claim", "measured", numbers, **options
    )


@pytest.mark.parametrize(
    ("limit", "value", "holds", "margin"),
    [
        (Limit(above=2), 3.0, True, 1.5),
        (Limit(above=2), 2.0, False, 1.0),  # strictly above: what stays level has not grown
        (Limit(at_most=0.5), 0.5, True, 1.0),
        (Limit(at_most=0.5), 1.0, False, 0.5),
        (Limit(at_most=1e-12), 0.0, True, math.inf),
        (Limit(above=1), math.nan, False, math.nan),
        (Limit(at_most=1), math.nan, False, math.nan),
        (Limit(above=1, at_most=4), 2.0, True, 2.0),
        (Limit(at_most=0), 0.0, True, math.nan),
        (Limit(at_most=0), 1.0, False, math.nan),
    ],
)
def test_limits(limit: Limit, value: float, holds: bool, margin: float) -> None:
    assert limit.allows(value) == holds
    assert limit.margin(value) == pytest.approx(margin, nan_ok=True)


def test_every_number_counts_and_the_tightest_is_told() -> None:
    limits = {"by DP": Limit(above=2, unit="×"), "by TD": Limit(at_most=1)}
    good = judged(limits, {"by DP": 6.0, "by TD": 0.8})
    assert good.holds
    assert good.margin == "1.25×"
    assert good.expected == "by DP: > 2×; by TD: at most 1"
    assert not judged(limits, {"by DP": 1.0, "by TD": 0.8}).holds
    assert not judged(limits, {"by DP": 6.0, "by TD": 1.1}).holds
    with pytest.raises(ValueError, match="by TD"):
        judged(limits, {"by DP": 6.0})


def test_margins_never_flatter() -> None:
    """They are rounded down: 0.998 of a limit is not the limit."""
    assert judged({"": Limit(above=1)}, 0.998).margin == "0.99×"
    assert judged({"": Limit(at_most=1e-12)}, 1e-16).margin == "more than 1,000×"


def test_identities_are_not_counted_as_evidence() -> None:
    claims = [
        judged({"": Limit(above=1)}, number, kind=kind)
        for number, kind in ((2, "evidence"), (2, "identity"))
    ]
    assert count_verdicts(claims).startswith(
        "1 of 1 claims hold; 1 of 1 definitions and identities"
    )
    assert count_verdicts(claims[1:]).startswith("1 of 1 definitions and identities")
    assert claims[1].verdict == "checks"


def test_the_file_of_thresholds_is_complete() -> None:
    """Every limit has a number, a day and a reason."""
    assert len(thresholds()) > 90
    for name, threshold in thresholds().items():
        assert threshold.limits, name
        for limit in threshold.limits.values():
            assert limit.above is not None or limit.at_most is not None, name
        assert threshold.reason, name
        assert threshold.numbers in ("seen", "unseen", "unrecorded"), name
        assert threshold.set_on >= "2026-11-15", name
