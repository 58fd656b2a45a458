"""How the tables of the chains' parts are spoiled, and which claims must then fail; and how they
are mended.
"""

from collections.abc import Callable, Iterator
from typing import Any

Change = Callable[[dict[str, Any]], Any]
"""From a row to the new entry of the column."""
Case = tuple[str, str, str, Change, dict[str, Any], set[str]]
"""(part, table, column, change, rows where ..., ids of the claims that fail, or that begin to
hold).
"""

_EVEN = ("root-dp", "root-td", "minimise-dp", "samples-dp")
NOT_HOLDING = {"paper-root-dp", *(f"paper-{name}-even" for name in _EVEN)}
"""Claims on the paper's own imputation that are mended instead."""
LEVELS = {"midpoints": "", "0.01 to 0.99": "-even"}
AT_X0 = {"length": 15, "distance": 14}


def to(number: float) -> Change:
    return lambda _: number


def figure_4() -> Iterator[Case]:
    for levels, end in LEVELS.items():
        fails = {f"figure-4-edrl{end}", f"figure-4-accuracy{end}"}
        yield (
            "figure-4",
            "expectiles",
            "value",
            to(0.0),
            {"algorithm": "EDRL", "levels": levels},
            fails,
        )
        naive = {"algorithm": "EDRL-naive", "levels": levels}
        yield (
            "figure-4",
            "expectiles",
            "value",
            lambda row: 2 * row["value"],
            naive,
            {f"figure-4-naive{end}"},
        )
    yield "figure-4", "truth_bounds", "high", lambda row: row["high"] + 1, {}, {"figure-4-truth"}


def figure_5() -> Iterator[Case]:
    for levels, end in LEVELS.items():
        for mode in ("DP", "TD"):
            exact = {"levels": levels, "algorithm": "EDRL", "mode": mode}
            naive = {**exact, "algorithm": "EDRL-naive"}
            k = 9 if end and mode == "TD" else 5  # of those that were learnt
            much_lower, low = f"figure-5-edrl-{mode.lower()}{end}", "figure-5-edrl-low"
            fails = {much_lower, *([low] if mode == "TD" and not end else [])}
            yield "figure-5", "errors", "error", to(2.0), {**exact, "k": k, **AT_X0}, fails
            # In one cell of many: at the other levels these do not hold in the first place.
            grows = [] if end else ["figure-5-naive-k", "figure-5-naive-length"]
            yield (
                "figure-5",
                "errors",
                "error",
                to(1e-3),
                {**naive, "k": k, "length": 8},
                {much_lower, *grows},
            )
            grows = [] if end else ["figure-5-naive-k", "figure-5-naive-distance"]
            cell = {**naive, "k": k, "length": 15, "distance": 7}
            yield "figure-5", "errors", "error", to(1e-3), cell, {much_lower, *grows}
            fails = {f"figure-12-naive{end}", *([] if end else ["figure-12-length"])}
            yield "figure-5", "errors", "w1", to(2.0), {**exact, "k": 9, **AT_X0}, fails
            yield "figure-5", "errors", "w1", to(0.0), {**naive, "k": 9}, {f"figure-12-naive{end}"}
        truth = {"levels": levels, "k": 7, **AT_X0}
        yield "figure-5", "imputed_truth", "w1", to(0.5), truth, {f"figure-12-true{end}"}


def figure_6() -> Iterator[Case]:
    for mode in ("DP", "TD"):
        cell = {"algorithm": "Huber-QDRL-naive", "mode": mode, "k": 9, "distance": 7}
        yield "figure-6", "errors", "error", to(1e-3), cell, {"figure-6-naive"}
    for name, mode, k, claim in (
        ("Huber-QDRL-samples", "DP", 9, "figure-6-samples-dp"), ("Huber-QDRL-samples", "TD", 3, "figure-6-samples-td"),
        ("Huber-QDRL-imputation", "DP", 9, "figure-6-dp"), ("Huber-QDRL-imputation", "TD", 3, "figure-6-td"),
    ):  # fmt: skip
        yield (
            "figure-6",
            "errors",
            "error",
            to(1.0),
            {"algorithm": name, "mode": mode, "k": k, **AT_X0},
            {claim},
        )


def goals() -> Iterator[Case]:
    for goal in ("uniform", "gaussian"):
        for levels, end in LEVELS.items():
            exact = {"levels": levels, "algorithm": "EDRL", "mode": "DP", "k": 9, **AT_X0}
            naive = {**exact, "algorithm": "EDRL-naive"}
            yield "goals", goal, "error", to(2.0), exact, {f"goals-{goal}-error{end}"}
            yield "goals", goal, "w1", to(2.0), exact, {f"goals-{goal}-w1{end}"}
            yield "goals", goal, "w1", to(0.0), naive, {f"goals-{goal}-w1{end}"}
        learnt = {"levels": "midpoints", "algorithm": "EDRL", "mode": "TD", "k": 9, **AT_X0}
        yield "goals", goal, "error", to(2.0), learnt, {f"goals-{goal}-error"}
        short = {
            "levels": "midpoints",
            "algorithm": "EDRL-naive",
            "mode": "DP",
            "k": 9,
            "length": 8,
        }
        yield "goals", goal, "error", to(1e-3), short, {f"goals-{goal}-growth"}


def paper_imputation() -> Iterator[Case]:
    solvers = {"root": "EDRL-scipy", "minimise": "EDRL-minimise", "samples": "EDRL-samples"}
    for levels, end in LEVELS.items():
        for name, algorithm in solvers.items():
            for mode in ("DP", "TD"):
                claim = f"paper-{name}-{mode.lower()}{end}"
                if claim not in {
                    *NOT_HOLDING,
                    "paper-minimise-td",
                    "paper-minimise-td-even",
                    "paper-samples-td-even",
                }:
                    where = {
                        "levels": levels,
                        "algorithm": algorithm,
                        "mode": mode,
                        "k": 3,
                        **AT_X0,
                    }
                    yield "paper-imputation", "errors", "error", to(2.0), where, {claim}
        exact = {"levels": levels, "algorithm": "EDRL", "mode": "DP", "k": 9, **AT_X0}
        yield "paper-imputation", "errors", "error", to(2.0), exact, {f"paper-exact{end}"}
        root = {"levels": levels, "algorithm": "EDRL-scipy", "mode": "DP", "k": 9, **AT_X0}
        yield "paper-imputation", "errors", "w1", to(2.0), root, {f"paper-w1{end}"}
    mean = {"algorithm": "EDRL", "mode": "DP", "k": 9, **AT_X0}
    yield "paper-imputation", "errors", "mean_error", to(1e-3), mean, {"paper-mean-exact"}
    for goal in ("uniform", "gaussian"):
        where = {"goal": goal, "algorithm": "EDRL-scipy", "mode": "DP", "k": 3, **AT_X0}
        yield "paper-imputation", "goals", "error", to(2.0), where, {f"paper-goals-{goal}"}


def growing(row: dict[str, Any]) -> float:
    """An error that grows with K, with the length and with the distance."""
    return float(row["k"] * (row["length"] + row["distance"]))


def falling(row: dict[str, Any]) -> float:
    """A distance that falls with K."""
    return 1.0 / row["k"]


def mended() -> Iterator[Case]:
    even = {"levels": "0.01 to 0.99"}
    grows = {f"figure-5-naive-{what}-even" for what in ("k", "length", "distance")}
    # Errors of naive are then so much larger that EDRL's are relatively low, too, but not alike for
    # every K.
    yield "figure-5", "errors", "error", growing, {**even, "algorithm": "EDRL-naive"}, grows
    yield (
        "figure-5",
        "errors",
        "error",
        to(0.1),
        {**even, "algorithm": "EDRL", "mode": "TD"},
        {"figure-5-edrl-low-even"},
    )
    falls = {"figure-12-length-even", "figure-12-distance-even"}
    yield "figure-5", "errors", "w1", falling, {**even, "algorithm": "EDRL"}, falls
    yield (
        "figure-5",
        "errors",
        "w1",
        falling,
        {"levels": "midpoints", "algorithm": "EDRL"},
        {"figure-12-distance"},
    )
    for goal in ("uniform", "gaussian"):
        for levels, end in LEVELS.items():
            gains = {f"goals-{goal}-growth-k{end}", *([f"goals-{goal}-growth{end}"] if end else [])}
            yield (
                "goals",
                goal,
                "error",
                growing,
                {"levels": levels, "algorithm": "EDRL-naive"},
                gains,
            )
    naive = {"algorithm": "EDRL-naive", "state": 6}
    yield "figure-2", "summary", "std", lambda row: row["true_std"], naive, {"figure-2-reward"}
    yield (
        "paper-imputation",
        "errors",
        "mean_error",
        to(0.0),
        {"algorithm": "EDRL-scipy"},
        {"paper-mean"},
    )
    for claim, algorithm, mode, end in (
        ("paper-root-dp", "EDRL-scipy", "DP", ""),
        ("paper-root-dp-even", "EDRL-scipy", "DP", "-even"),
        ("paper-root-td-even", "EDRL-scipy", "TD", "-even"),
        ("paper-minimise-dp-even", "EDRL-minimise", "DP", "-even"),
        ("paper-samples-dp-even", "EDRL-samples", "DP", "-even"),
    ):
        levels = next(levels for levels, suffix in LEVELS.items() if suffix == end)
        where = {"levels": levels, "algorithm": algorithm, "mode": mode, "k": 3, **AT_X0}
        yield "paper-imputation", "errors", "error", to(0.25), where, {claim}


SPOILED = [*figure_4(), *figure_5(), *figure_6(), *goals(), *paper_imputation()]
MENDED = [*mended()]
