"""The claims in the README follow from the committed tables, and from spoiled ones they do not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from tests.experiments.test_theory import lost, spoiled

from edrl.experiments import EXPERIMENTS
from edrl.experiments.chain import at_start
from edrl.report import style
from edrl.report.claims import Claim
from edrl.report.tables import Tables, read_csv, table

DOCS = Path(__file__).parents[2] / "docs"


def committed(name: str) -> Tables:
    found = {path.stem: read_csv(path) for path in (DOCS / "tables" / name).glob("*.csv")}
    assert found
    return found


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_claims_are_those_of_the_tables(name: str) -> None:
    """Judged again, by the code as it is now: the same words, numbers and verdicts."""
    claims = [Claim(**entry) for entry in json.loads((DOCS / "claims.json").read_text(encoding="utf-8"))]
    judged = EXPERIMENTS[name].judge(committed(name))
    assert judged
    assert judged == [claim for claim in claims if claim.id in {one.id for one in judged}]


def test_every_claim_has_a_part() -> None:
    claims = json.loads((DOCS / "claims.json").read_text(encoding="utf-8"))
    judged = [claim.id for name in EXPERIMENTS for claim in EXPERIMENTS[name].judge(committed(name))]
    assert judged == [claim["id"] for claim in claims]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_figures_are_drawn_from_the_tables(name: str) -> None:
    with style.applied():
        drawings = EXPERIMENTS[name].draw(committed(name))
    assert drawings
    for drawing in drawings:
        assert drawing.figure.axes
        assert drawing.caption
    plt.close("all")


def test_the_start_is_the_state_farthest_from_the_goal() -> None:
    rows = table(mode="DP", seed=[0, 0, 1, 1], distance=[14, 1, 1, 14], error=[8.0, 1.0, 3.0, 10.0])
    assert at_start(rows, "error", mode="DP") == 9.0


AT_X0 = {"distance": 14}
SPOILED: list[tuple[str, str, str, Callable[[Any], Any], dict[str, Any], set[str]]] = [
    ("figure-1", "statistics", "residual", lambda _: 1e-6, {"role": "next"}, {"definition-3.4"}),
    ("figure-1", "statistics", "residual", lambda _: 1e-6, {"role": "here"}, {"equation-6"}),
    ("figure-2", "summary", "std", lambda x: 1.2 * x, {"algorithm": "EDRL"}, {"figure-2-edrl"}),
    ("figure-2", "summary", "w1", lambda _: 1.0, {"algorithm": "EDRL", "state": 0}, {"figure-2-edrl"}),
    ("figure-2", "summary", "std", lambda _: 0.5, {"algorithm": "EDRL-naive", "state": 0}, {"figure-2-naive"}),
    ("figure-2", "summary", "std", lambda x: x / 2, {"algorithm": "CDRL", "state": 3}, {"figure-2-cdrl"}),
    (
        "figure-2", "summary", "statistic_error", lambda _: 0.02, {"algorithm": "EDRL-naive", "state": 6},
        {"figure-2-naive-reward"},
    ),
    ("figure-3", "densities", "density", lambda _: 1.0, AT_X0, {"figure-3-modes"}),
    ("figure-3", "transitions", "prob", lambda _: 0.9, {"state": 3, "action": "forward"}, {"figure-3"}),
    (
        "figure-4", "expectiles", "value", lambda _: 0.0, {"algorithm": "EDRL"},
        {"figure-4-edrl", "figure-4-accuracy"},
    ),
    ("figure-4", "expectiles", "value", lambda x: 2 * x, {"algorithm": "EDRL-naive"}, {"figure-4-naive"}),
    ("figure-4", "truth_bounds", "high", lambda x: x + 1, {}, {"figure-4-truth"}),
    (
        "figure-5", "errors", "error", lambda _: 2.0, {"algorithm": "EDRL", "mode": "DP", "k": 5, **AT_X0},
        {"figure-5-edrl-dp", "figure-5-exact"},
    ),
    (
        "figure-5", "errors", "error", lambda _: 2.0, {"algorithm": "EDRL", "mode": "TD", "k": 5, **AT_X0},
        {"figure-5-edrl-td"},
    ),
    (
        "figure-5", "errors", "error", lambda _: 2.0, {"algorithm": "EDRL-scipy", "mode": "DP", "k": 9, **AT_X0},
        {"figure-5-edrl-scipy"},
    ),
    (
        "figure-5", "errors", "error", lambda _: 2.0, {"algorithm": "EDRL-scipy", "mode": "TD", "k": 9, **AT_X0},
        {"figure-5-edrl-scipy-td-9"},
    ),
    (
        "figure-5", "errors", "error", lambda _: 0.1, {"algorithm": "EDRL-naive", "mode": "TD", "k": 9, **AT_X0},
        {"figure-5-naive-k", "figure-5-naive-distance", "figure-5-edrl-td", "figure-5-edrl-scipy-td-9"},
    ),
    (
        "figure-5", "errors", "w1", lambda _: 2.0, {"algorithm": "EDRL-scipy", "mode": "DP", "k": 9, **AT_X0},
        {"figure-5-w1", "figure-5-w1-start-scipy"},
    ),
    (
        "figure-5", "errors", "w1", lambda _: 0.0, {"algorithm": "EDRL-naive", "mode": "DP", "k": 9},
        {"figure-5-w1-naive"},
    ),
    ("figure-5", "errors_midpoints", "error", lambda _: 1.0, {"algorithm": "EDRL", "k": 9}, {"figure-5-midpoints"}),
    (
        "figure-6", "errors", "error", lambda _: 0.0,
        {"algorithm": "Huber-QDRL-naive", "mode": "DP", "k": 9, "distance": 7}, {"figure-6-naive"},
    ),
    *(
        ("figure-6", "errors", "error", lambda _: 1.0, {"algorithm": name, "mode": mode, "k": k, **AT_X0}, {claim})
        for name, mode, k, claim in (
            ("Huber-QDRL-samples", "DP", 9, "figure-6-samples-dp"),
            ("Huber-QDRL-samples", "TD", 3, "figure-6-samples-td"),
            ("Huber-QDRL-imputation", "DP", 9, "figure-6-dp"), ("Huber-QDRL-imputation", "TD", 3, "figure-6-td"),
        )
    ),
    *(
        ("figure-7", "means", "mean", lambda _, to=to: to, {"algorithm": name, "k": k, "action": "a2"}, {claim})
        for name, k, to, claim in (
            ("EDRL", 3, 0.99, "figure-7-edrl"), ("CDRL", 3, 0.5, "figure-7-cdrl"),
            ("QDRL", 3, 0.5, "figure-7-qdrl"), ("QDRL", 11, 1.5, "figure-7-qdrl-many"),
        )
    ),
    *(
        (
            "goals", goal, column, lambda _, to=to: to, {"algorithm": name, "mode": "DP", "k": 9, **AT_X0},
            {f"goals-{goal}-{column}"},
        )
        for goal in ("uniform", "gaussian")
        for column, name, to in (("error", "EDRL", 2.0), ("w1", "EDRL", 2.0), ("w1", "EDRL-naive", 0.0))
    ),
    (
        "four-updates", "atoms", "atom", lambda x: x + 0.01, {"algorithm": "EDRL", "stage": "new"},
        {"appendix-a-projection"},
    ),
    ("four-updates", "summary", "std_ratio", lambda _: 0.9, {"algorithm": "CDRL"}, {"appendix-a-spread"}),
    ("four-updates", "summary", "mean_error", lambda _: 0.1, {"algorithm": "EDRL"}, {"appendix-a-mean"}),
    ("imputation", "solves", "error", lambda _: 1e-3, {"method": "exact"}, {"beyond-exact"}),
    ("imputation", "solves", "success", lambda _: True, {"method": "root"}, {"beyond-root"}),
    ("imputation", "solves", "seconds", lambda _: 10.0, {"method": "exact"}, {"beyond-cost"}),
    ("levels", "ratios", "ratio", lambda _: 2.0, {"rule": "pairs"}, {"beyond-levels-groups"}),
    ("levels", "ratios", "high", lambda _: 0.01, {"rule": "midpoint"}, {"beyond-levels-default"}),
    ("levels", "errors", "settled", lambda _: False, {"rule": "pairs"}, {"beyond-levels-settles"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "rows", "column", "change", "where", "failing"), SPOILED)
def test_spoiled_tables_are_noticed(
    name: str, rows: str, column: str, change: Callable[[Any], Any], where: dict[str, Any], failing: set[str]
) -> None:
    """Exactly the claims that rest on the spoiled numbers fail, besides those that fail anyhow."""
    good, part = committed(name), EXPERIMENTS[name]
    assert lost(part, spoiled(good, rows, column, change, **where)) - lost(part, good) == failing
