"""Lemma 4.4 drawn: distributions that share their statistics until they are backed up."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from edrl.core.families import Categorical, Expectiles, Quantiles
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics
from edrl.core.types import Array
from edrl.paper.experiment import (
    Advance,
    Claim,
    Columns,
    Drawing,
    Experiment,
    Table,
    Tables,
    joined,
    select,
    table,
)
from edrl.paper.forks import two_step_returns
from edrl.paper.thresholds import judged
from edrl.report import style
from edrl.tabular.problems import cdrl_not_uniform, quantile_not_closed
from edrl.theory.closedness import bellman_closed

GAMMA, K = 0.9, 4  # of the quantiles
ATOMS_PER_LEVEL = 33  # of the uniform rewards, discretised
LEVELS = (0.1, 0.5, 0.9)  # of the expectiles
PRINTED = 3 * GAMMA / (2 * K)  # the quantile at x0 in the proof of Lemma 4.4 (ii)


def measure(full: bool, advance: Advance) -> Tables:
    """The distributions of three witnesses and their statistics, before and after the backup."""
    advance(0.2, "the MDPs of the proofs")
    found = [_of_cdrl(), _of_qdrl()]
    advance(0.5, "expectiles")
    found.append(_of_edrl(4096 if full else 512))
    distributions, statistics = zip(*found, strict=True)
    return {"distributions": joined(*distributions), "statistics": joined(*statistics)}


def _of_cdrl() -> tuple[Table, Table]:
    """The two MDPs x1 -> x2 of Appendix C, with gamma = 2/3 and 9 support points."""
    support = np.arange(9) / 8
    one, two = (
        two_step_returns(cdrl_not_uniform(1, 3, "A")),
        two_step_returns(cdrl_not_uniform(1, 3, "B")),
    )
    before, after = (
        {"reward ρA": one[1], "reward ρB": two[1]},
        {"reward ρA": one[0], "reward ρB": two[0]},
    )
    return _rows("CDRL", Categorical(support), support[:-1], before, after)


def _of_qdrl() -> tuple[Table, Table]:
    """The two MDPs of Lemma 4.4 (ii), in which x0 leads to x1 or x2."""
    one = two_step_returns(quantile_not_closed(K, "uniform", GAMMA, ATOMS_PER_LEVEL))
    two = two_step_returns(quantile_not_closed(K, "atoms", GAMMA, ATOMS_PER_LEVEL))
    before = {
        "uniform at x1": one[1],
        "atoms at x1": two[1],
        "uniform at x2": one[2],
        "atoms at x2": two[2],
    }
    return _rows(
        "QDRL", Quantiles(K), (np.arange(K) + 0.5) / K, before, {"uniform": one[0], "atoms": two[0]}
    )


def _of_edrl(draws: int) -> tuple[Table, Table]:
    """The best that `bellman_closed` finds among random backups."""
    family = Expectiles(LEVELS)
    witness = bellman_closed(family, draws=draws).witness
    if witness is None:
        raise RuntimeError("no witness was found: expectiles would be Bellman closed")
    after = dict(zip("μν", witness.backups(), strict=True))
    return _rows("EDRL", family, LEVELS, {"μ": witness.mu, "ν": witness.nu}, after)


def _rows(
    name: str,
    family: Statistics,
    places: Sequence[float] | Array,
    before: dict[str, Particles],
    after: dict[str, Particles],
) -> tuple[Table, Table]:
    """Tables of the distributions' atoms, and of their statistics; `places` are levels or support
    points.
    """
    atoms, values = [], []
    for stage, distributions in (("before", before), ("after", after)):
        for label, mu in distributions.items():
            mu = mu.sorted()
            real = np.asarray(mu.probs) > 0
            where = {"family": name, "stage": stage, "distribution": label}
            atoms.append(table(**where, atom=mu.atoms[real], prob=mu.probs[real]))
            values.append(table(**where, place=places, value=family.evaluate(mu)))
    return joined(*atoms), joined(*values)


def draw(tables: Tables) -> list[Drawing]:
    """CDFs before and after the backup, with the statistics as marks."""
    figure, axes = style.axes(3, 2, width=8.4, height=8.6)
    titles = {
        "CDRL": ("CDRL, at x2: equal statistics", "CDRL, at x1: different statistics"),
        "QDRL": ("QDRL, at x1 and x2: equal quantiles", "QDRL, at x0: different quantiles"),
        "EDRL": ("EDRL, at a successor: equal expectiles", "EDRL, backed up: different expectiles"),
    }
    for row, family in zip(axes, titles, strict=True):
        for axis, stage, title in zip(row, ("before", "after"), titles[family], strict=True):
            _draw_stage(axis, family, stage, tables)
            axis.set(title=title, xlabel="return", ylabel="CDF")
            if family != "CDRL":
                axis.xaxis.set_major_locator(MaxNLocator(6))
    caption = (
        "Witnesses: the distributions in black and in colour share all statistics (marks) at the successors, left,"
        " and no longer after a backup, right. CDRL: the MDPs of Appendix C; the mark in each cell of the support is"
        " its statistic, the CDF averaged over the cell. QDRL: the MDPs of Lemma 4.4 (ii), K = 4, γ = 0.9; the cross"
        " is where the proof puts the first quantile of the atoms. EDRL: the best of random backups;"
        " outer expectiles (diamonds) come apart, the means in the middle do not."
    )
    return [Drawing("witnesses", figure, caption)]


def _draw_stage(axis: Axes, family: str, stage: str, tables: Tables) -> None:
    where = {"family": family, "stage": stage}
    rows = select(tables["distributions"], **where)
    for i, name in enumerate(dict.fromkeys(rows["distribution"].tolist())):
        black = i % 2 == 0
        mu = select(tables["distributions"], **where, distribution=name)
        label = name.removesuffix(" at x1") if i < 2 else None
        _draw_cdf(axis, mu, family, black, label)
        values = select(tables["statistics"], **where, distribution=name)
        _draw_marks(axis, values, family, black)
    if (family, stage) == ("QDRL", "after"):
        axis.plot(PRINTED, 1 / (2 * K), "x", color="#D55E00", ms=8, mew=2, label="printed, 3γ/2K")
    loc: Any = "upper left"
    if family == "CDRL":
        axis.set(xlim=(0.46, 1.04), xticks=np.arange(4, 9) / 8)
        loc = {"before": "center left", "after": "center right"}[stage]
    axis.legend(loc=loc)


def _colour(family: str, black: bool) -> str:
    return "#000000" if black else style.COLOURS[family]


def _draw_cdf(axis: Axes, mu: Columns, family: str, black: bool, label: str | None) -> None:
    ends = 1.0 if family == "CDRL" else 0.06
    x = [mu["atom"][0] - ends, *mu["atom"], mu["atom"][-1] + ends]
    y = [0.0, *np.cumsum(mu["prob"]), 1.0]
    width = 2 if black else 1.4
    axis.step(x, y, where="post", color=_colour(family, black), lw=width, label=label)


def _draw_marks(axis: Axes, values: Columns, family: str, black: bool) -> None:
    """The statistics: in the middle of cells, on the CDF, or below it."""
    colour = _colour(family, black)
    mark: style.Options = {"color": colour, "ls": "none", "clip_on": False, "marker": "o"}
    mark |= {"mfc": "none", "ms": 9} if black else {"mfc": colour, "ms": 5}
    x, y = values["value"], values["place"]
    if family == "CDRL":
        cells = np.array([*values["place"], 1.0])
        seen = cells[1:] > 0.5
        x, y = ((cells[1:] + cells[:-1]) / 2)[seen], values["value"][seen]
    if family == "EDRL":
        y = np.full(len(LEVELS), -0.08 if black else -0.17)
        mark |= {"marker": "d", "ms": 7}
    axis.plot(x, y, **mark)


def judge(tables: Tables) -> list[Claim]:
    """The proofs' own MDPs with their own numbers, and expectiles."""

    def values(family: str, stage: str, name: str) -> np.ndarray:
        return select(tables["statistics"], family=family, stage=stage, distribution=name)["value"]

    def apart(family: str, stage: str, one: str, two: str) -> float:
        return float(np.abs(values(family, stage, one) - values(family, stage, two)).max())

    cdrl = [apart("CDRL", stage, "reward ρA", "reward ρB") for stage in ("before", "after")]
    edrl = [apart("EDRL", stage, "μ", "ν") for stage in ("before", "after")]
    shared = max(apart("QDRL", "before", f"uniform at x{x}", f"atoms at x{x}") for x in (1, 2))
    uniform, atoms = (float(values("QDRL", "after", name)[0]) for name in ("uniform", "atoms"))
    half_cell = GAMMA / (2 * K * ATOMS_PER_LEVEL)  # of the discretised uniform distribution
    return [
        judged(
            "lemma-4.4-i", "Lemma 4.4 (i)",
            "CDRL's statistics are not Bellman closed: two MDPs share them at x2, but at x1 they are 1/6 apart.",
            f"apart by {cdrl[0]:.1e} at x2 and {cdrl[1]:.4f} at x1",
            {"apart at x2": cdrl[0], "apart at x1, less 1/6": abs(cdrl[1] - 1 / 6)},
        ),
        judged(
            "lemma-4.4-ii", "Lemma 4.4 (ii)",
            "QDRL's statistics are not Bellman closed: two MDPs share their K = 4 quantiles at x1 and x2, but the first"
            " one at x0 is γ/K in one MDP and γ/2K in the other.",
            f"apart by {shared:.1e} before; at x0 {uniform:.4f} and {atoms:.4f}",
            {
                "apart at x1 and x2": shared,
                "uniform rewards: off γ/K, in half cells of their discretisation": abs(uniform - GAMMA / K) / half_cell,
                "atomic rewards: off γ/2K": abs(atoms - GAMMA / (2 * K)),
            },
        ),
        judged(
            "lemma-4.4-ii-printed", "Lemma 4.4 (ii), proof",
            "In the MDP with atomic rewards, QDRL's first quantile at x0 is 3γ/2K, as printed.",
            f"{atoms:.4f}, where 3γ/2K is {PRINTED:.4f}", {"off 3γ/2K": abs(atoms - PRINTED)},
            note="A slip in the proof: the CDF is 1/2K from γ/2K on, so F⁻¹(1/2K) = γ/2K. The printed value is the"
            " other end of the interval of minimisers of the quantile loss. The lemma holds all the same.",
        ),
        judged(
            "edrl-not-closed", "edrl", "Expectiles are not Bellman closed either.",
            f"apart by {edrl[0]:.1e} before and {edrl[1]:.3f} after",
            {"apart before": edrl[0], "apart after": edrl[1]},
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    name="witnesses",
    title="Witnesses of non-closedness",
    source="Lemma 4.4",
    section="theory",
    about="Lemma 4.4 on the MDPs of the proofs, whose return distributions are computed exactly. CDRL: x1 leads to x2"
    " with γ = 2/3 and 9 support points on [0, 1]; x2 pays 15/16 (ρA), or 7/8 or 1 with equal probability (ρB). QDRL:"
    " K = 4 quantiles and γ = 0.9; x0 leads to x1 or x2 with equal probability, and the rewards there are uniform on"
    " [0, 1] and [1/4, 5/4] (132 atoms each), or 4 atoms at their mid-quantiles. EDRL, of which the paper has no"
    " example: the 0.1-, 0.5- and 0.9-expectiles of a random distribution μ and of ν, imputed from them, in the backup"
    " with the largest gap of 512 (full: 4096) random ones with γ in {0.5, 0.9}.",
    measure=measure,
    draw=draw,
    judge=judge,
    cost=(8.0, 12.0),
)
