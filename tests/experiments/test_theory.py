"""The page's theory: measured tables support every claim, and spoiled tables do not."""

import copy
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from edrl.experiments import bounds, closedness, gradients, mean_consistency, non_uniform, projections, witnesses
from edrl.experiments.experiment import Claim
from edrl.report import style
from edrl.report.tables import Tables, read_csv, table, write_csv

MODULES = (closedness, witnesses, projections, bounds, mean_consistency, non_uniform, gradients)


def silent(fraction: float, note: str) -> None:
    assert 0 <= fraction <= 1


@pytest.fixture(scope="module")
def measured() -> dict[ModuleType, Tables]:
    """The cheapest parts, in their default size."""
    return {module: module.measure(False, silent) for module in (projections, witnesses)}


def verdicts(claims: list[Claim]) -> dict[str, bool]:
    found = {claim.id: claim.holds for claim in claims}
    assert len(found) == len(claims)  # ids are unique
    return found


def lost(module: Any, tables: Tables) -> set[str]:
    """The claims that do not hold on these tables."""
    return {name for name, holds in verdicts(module.judge(tables)).items() if not holds}


def test_lemmas_b_1_and_b_2_hold(measured: dict[ModuleType, Tables]) -> None:
    """Every claim about one projection holds on the measured tables."""
    assert lost(projections, measured[projections]) == set()


def test_lemma_4_4_holds_but_for_the_printed_quantile(measured: dict[ModuleType, Tables]) -> None:
    """The proof's 3 gamma/2K does not reproduce, and the claim gives the reason."""
    claims = witnesses.judge(measured[witnesses])
    assert [claim.id for claim in claims if not claim.holds] == ["lemma-4.4-ii-printed"]
    assert not any(claim.failed for claim in claims)


@pytest.mark.parametrize("module", [projections, witnesses])
def test_tables_survive_their_files_and_can_be_drawn(
    module: ModuleType, measured: dict[ModuleType, Tables], tmp_path: Path
) -> None:
    """From the CSV files come the same numbers, hence the same verdicts and figures."""
    tables = measured[module]
    for name, rows in tables.items():
        write_csv(tmp_path / f"{name}.csv", rows)
    back = {name: read_csv(tmp_path / f"{name}.csv") for name in tables}
    assert back == tables
    assert module.judge(back) == module.judge(tables)
    with style.applied():
        drawings = module.draw(back)
    assert drawings
    assert all(drawing.figure.axes and drawing.caption for drawing in drawings)


def spoiled(tables: Tables, name: str, column: str, change: Callable[[Any], Any], **where: Any) -> Tables:
    """The tables with the entries of one column changed in the rows that fit."""
    tables = copy.deepcopy(tables)
    rows = tables[name]
    fits = [all(rows[key][i] == entry for key, entry in where.items()) for i in range(len(rows[column]))]
    assert any(fits)
    rows[column] = [change(entry) if fit else entry for entry, fit in zip(rows[column], fits, strict=True)]
    return tables


@pytest.mark.parametrize(
    ("lemma", "laws", "factor", "failing"),
    [
        ("Lemma B.1 (i)", "random", 1.01, {"lemma-b.1-i"}),
        ("Lemma B.1 (ii)", "worst case", 1.01, {"lemma-b.1-ii", "lemma-b.1-ii-sharp"}),
        ("Lemma B.1 (ii)", "worst case", 0.99, {"lemma-b.1-ii-sharp"}),
        ("Lemma B.2 (i)", "worst case", 1.01, {"lemma-b.2-halved"}),
        ("Lemma B.2 (ii)", "worst case", 2.01, {"lemma-b.2-ii", "lemma-b.2-halved"}),
    ],
)
def test_a_spoiled_projection_is_noticed(
    lemma: str, laws: str, factor: float, failing: set[str], measured: dict[ModuleType, Tables]
) -> None:
    """Exactly the claims that rest on the spoiled number fail."""
    tables = spoiled(measured[projections], "one_step", "share", lambda x: x * factor, lemma=lemma, laws=laws)
    assert lost(projections, tables) == failing


@pytest.mark.parametrize(
    ("where", "failing"),
    [
        ({"family": "CDRL", "stage": "before", "law": "reward ρA"}, "lemma-4.4-i"),
        ({"family": "CDRL", "stage": "after", "law": "reward ρB"}, "lemma-4.4-i"),
        ({"family": "QDRL", "stage": "before", "law": "atoms at x2"}, "lemma-4.4-ii"),
        ({"family": "QDRL", "stage": "after", "law": "uniform"}, "lemma-4.4-ii"),
        ({"family": "EDRL", "stage": "before", "law": "μ"}, "edrl-not-closed"),
    ],
)
def test_a_spoiled_witness_is_noticed(where: dict[str, Any], failing: str, measured: dict[ModuleType, Tables]) -> None:
    """A statistic that is off by five per cent is no longer shared, or no longer the lemma's number."""
    tables = spoiled(measured[witnesses], "statistics", "value", lambda x: 1.05 * x + 1e-3, **where)
    assert lost(witnesses, tables) == {failing, "lemma-4.4-ii-printed"}


def decaying(error: float) -> Tables:
    """Tables as `bounds` makes them, with errors of `error` times the bound."""
    ks = (3, 9, 33)
    rows = [
        (name, algorithm, gamma, k, bound(k, gamma))
        for name, (algorithm, bound) in bounds.BOUNDS.items()
        for gamma in bounds.GAMMAS
        for k in ks
    ]
    limits = dict(zip(("bound", "algorithm", "gamma", "k", "value"), zip(*rows, strict=True), strict=True))
    names, gammas, sizes = zip(*((a, g, k) for a in bounds.MAKE for g in bounds.GAMMAS for k in ks), strict=True)
    least = [
        min(value for _, a, g, k, value in rows if (a, g, k) == case) for case in zip(names, gammas, sizes, strict=True)
    ]
    found = {"error": [error * limit for limit in least], "uncertainty": 0.0, "converged": True}
    errors = table(algorithm=names, gamma=gammas, k=sizes, seed=0, **found)
    rates = [(a, g) for a in bounds.MAKE for g in bounds.GAMMAS]
    decay = table(algorithm=[a for a, _ in rates], gamma=[g for _, g in rates], exponent=1.0, standard_error=0.05)
    return {"errors": errors, "bounds": table(**limits), "decay": decay}


def test_bounds_are_judged() -> None:
    """Errors within the bounds pass. Errors above them, dynamic programming that has not settled, an uncertain truth
    and a slow decay do not."""
    good = decaying(0.99)
    assert lost(bounds, good) == set()
    # Theorem 4.7 is five times as generous as our bound.
    assert lost(bounds, decaying(1.01)) == {"theorem-4.6", "qdrl-sharper-bound", "edrl-bound"}
    unsure = spoiled(good, "errors", "uncertainty", lambda _: 1.0, algorithm="CDRL", k=33)
    assert lost(bounds, unsure) == {"theorem-4.6"}
    unsettled = spoiled(good, "errors", "converged", lambda _: False, algorithm="QDRL", k=9)
    assert "theorem-4.7" in lost(bounds, unsettled)
    slow = spoiled(good, "decay", "exponent", lambda _: 0.8, algorithm="QDRL", gamma=0.9)
    assert lost(bounds, slow) == {"decay-qdrl"}


def test_closedness_is_judged() -> None:
    """A moment span found open, another set or family found closed, and a rounding error too large are noticed."""
    names = [*closedness.MOMENT_SPANS, *closedness.OTHER_SETS, *closedness.FAMILIES]
    closed = [name in closedness.CLOSED for name in names]
    good: Tables = {
        "projection": table(what=["statistics", "imputed"], difference=1e-16),
        "moments": table(one_step=[1e-16], solved=1e-8, allowed=1e-7),
        "verdicts": table(
            statistics=names,
            source=["Theorem 4.3"] * (len(names) - len(closedness.FAMILIES))
            + [source for _, source in closedness.FAMILIES.values()],
            should_be_closed=closed,
            closed=closed,
            deviation=1e-15,
            gap=[0.0 if one else 0.1 for one in closed],
        ),
    }
    assert lost(closedness, good) == set()
    for name, claim in (("E[Z]", "theorem-4.3-closed"), ("mean", "closed-mean")):
        assert lost(closedness, spoiled(good, "verdicts", "closed", lambda _: False, statistics=name)) == {claim}
    for name, claim in (("E[exp Z]", "theorem-4.3-only"), ("QDRL, 4 quantiles", "closed-qdrl-4-quantiles")):
        assert lost(closedness, spoiled(good, "verdicts", "gap", lambda _: 0.0, statistics=name)) == {claim}
    assert lost(closedness, spoiled(good, "projection", "difference", lambda _: 1e-9, what="imputed")) == {
        "lemma-3.2-injective"
    }
    assert lost(closedness, spoiled(good, "moments", "one_step", lambda _: 1e-9)) == {"lemma-4.2"}
    assert lost(closedness, spoiled(good, "moments", "solved", lambda _: 1e-6)) == {"lemma-4.2-solution"}


def test_mean_consistency_is_judged() -> None:
    """Algorithms that should learn the mean and do not, or the reverse, are noticed."""
    errors = {"CDRL": 1e-12, "QDRL": 0.01, "EDRL": 1e-12, "EDRL-naive": 0.01, "CDRL, narrow": 0.1}
    means = {"CDRL": (2 / 72, 1 / 72), "QDRL": (0, 1 / 72), "EDRL": (2 / 72, 1 / 72), "EDRL-naive": (2 / 72, 1 / 72)}
    pairs = [(name, 2 / 72 if i == 0 else 1 / 72, mean) for name, both in means.items() for i, mean in enumerate(both)]
    good: Tables = {
        "means": table(algorithm=list(errors), k=9, error=list(errors.values()), converged=True),
        "identity": table(divisor=["K - 1", "K"], off=[1e-16, 0.4]),
        "two_actions": table(algorithm=[p[0] for p in pairs], true=[p[1] for p in pairs], mean=[p[2] for p in pairs]),
    }
    printed = {"lemma-4.8-i-printed"}
    assert lost(mean_consistency, good) == printed
    for algorithm, claim in (("CDRL", "lemma-4.8-i"), ("EDRL", "section-4.3-edrl")):
        wrong = spoiled(good, "means", "error", lambda _: 1e-6, algorithm=algorithm)
        assert lost(mean_consistency, wrong) == {claim, *printed}
    for algorithm, claim in (("QDRL", "lemma-4.8-ii"), ("EDRL-naive", "section-4.3-naive")):
        wrong = spoiled(good, "means", "error", lambda _: 1e-12, algorithm=algorithm)
        assert lost(mean_consistency, wrong) == {claim, *printed}
    unsettled = spoiled(good, "means", "converged", lambda _: False, algorithm="QDRL")
    assert lost(mean_consistency, unsettled) == {"lemma-4.8-ii", "section-4.3-naive", *printed}
    wise = spoiled(good, "two_actions", "mean", lambda _: 2 / 72, algorithm="QDRL", true=2 / 72)
    assert lost(mean_consistency, wise) == {"lemma-4.8-ii-example", *printed}


def test_non_uniformity_is_judged() -> None:
    """A largest error that falls with K, or a mean error that does not, is noticed."""
    ks = [9, 33, 129]
    wrong = {"CDRL": (1 / 6, 1 / 6), "QDRL": (-0.9, 0.9)}  # the learnt statistic, the largest error
    good: Tables = {
        "errors": table(
            algorithm=[name for name in wrong for _ in ks],
            k=ks * 2,
            learnt=[learnt for learnt, _ in wrong.values() for _ in ks],
            true=0.0,
            largest=[largest for _, largest in wrong.values() for _ in ks],
            mean=[1 / k for k in ks] * 2,
            bound=[2 / k for k in ks] * 2,
        )
    }
    assert lost(non_uniform, good) == set()
    for name in wrong:
        falling = spoiled(good, "errors", "largest", lambda x: x / 2, algorithm=name, k=129)
        assert lost(non_uniform, falling) == {f"appendix-c-{name.lower()}"}
        staying = spoiled(good, "errors", "mean", lambda _: 0.1, algorithm=name, k=129)
        assert lost(non_uniform, staying) == {f"appendix-c-{name.lower()}-mean"}


def test_gradients_are_judged() -> None:
    """A biased gradient, a loss that is not affine, and a type error without consequences are noticed."""
    names = [*gradients.LOSSES, "EDRL-naive"]
    good: Tables = {
        "gradients": table(loss=names, gradient="expected", size=[1e-16] * len(gradients.LOSSES) + [0.01]),
        "affine": table(loss=list(gradients.LOSSES), off=1e-16),
    }
    assert lost(gradients, good) == set()
    assert lost(gradients, spoiled(good, "gradients", "size", lambda _: 1e-6, loss="QDRL")) == {"section-3.4-gradient"}
    assert lost(gradients, spoiled(good, "gradients", "size", lambda _: 0.0, loss="EDRL-naive")) == {
        "section-3.4-naive"
    }
    assert lost(gradients, spoiled(good, "affine", "off", lambda _: 1e-6, loss="EDRL")) == {"section-3.4-affine"}


def test_the_modules_are_parts_of_the_theory() -> None:
    """Names and sections, as the page and the command line show them."""
    experiments = [module.EXPERIMENT for module in MODULES]
    assert {experiment.section for experiment in experiments} == {"theory"}
    assert len({experiment.name for experiment in experiments}) == len(MODULES)
