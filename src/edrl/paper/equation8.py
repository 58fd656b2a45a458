"""Section 3.3: the paper calls the minimisation of Equation (8) convex in equal samples. It is not.

Each condition of Equation (7), r_k(z) = mean_n -2 |tau_k - 1{z_n <= e_k}| (z_n - e_k), is piecewise
linear in the samples: its slope changes where a sample passes the expectile e_k. Between these
kinks the objective, the sum of the r_k squared, is a convex quadratic. At a kink r_k bends upwards
for tau_k < 1/2 and downwards for tau_k > 1/2, so its square bends downwards where r_k is negative
or positive, respectively. That is seen on ordered samples. Without an order it is plain: swapping
two samples changes nothing, so a convex objective would be least where all samples are equal, and
they would have one expectile only.
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from edrl.core.families import Expectiles, evenly_spaced, midpoints
from edrl.core.particles import Particles
from edrl.paper.equal_samples import (
    EXACT,
    as_fractions,
    certificate,
    descend,
    exist,
    levels_of,
    objective,
    ordered_samples,
    ratio,
    with_gradient,
)
from edrl.paper.experiment import (
    Advance,
    Claim,
    Columns,
    Drawing,
    Experiment,
    Table,
    Tables,
    from_rows,
    joined,
    select,
    table,
)
from edrl.paper.thresholds import judged
from edrl.report import style

KS = (3, 5, 9)  # of expectiles and of samples
LEVELS = ("midpoints", "0.01 to 0.99")
ATOMS = 32  # of the random distributions
CHORD = np.linspace(0, 1, 33)[1:-1]  # where on a segment the objective is compared with the chord
APART = 1e-3  # a local minimum is certified if no sample is nearer to an expectile

Counts = dict[str, list[int]]
Shares = dict[tuple[int, str], float]


def measure(full: bool, advance: Advance) -> Tables:
    """Certificates, random segments, local minima, existence, and what the figure shows."""
    sizes = Sizes(5_000, 60, 32, 500) if full else Sizes(2_000, 16, 12, 100)
    settings = list(product(KS, LEVELS))
    found = []
    for number, (k, levels) in enumerate(settings):
        advance(number / len(settings), f"K = {k}, {levels}")
        found.append(_measure_setting(k, levels, sizes, number))
    tables = {name: joined(*(one[name] for one in found)) for name in found[0]}
    tables["along"] = joined(*(_along(tables["certificates"], *one) for one in settings))
    return tables | _landscape()


class Sizes(NamedTuple):
    """How much is measured for each K and set of levels."""

    segments: int
    inputs: int  # to descents
    starts: int  # of descents, for each input
    asked: int  # whether samples exist


def _measure_setting(k: int, levels: str, sizes: Sizes, seed: int) -> Tables:
    rng = np.random.default_rng(seed)
    taus, where = _taus(k, levels), {"k": k, "levels": levels}
    total = sizes.segments + sizes.inputs + sizes.asked
    values, known = _random_expectiles(taus, rng, total, sizes.asked // 4)
    along, descents, asked = np.split(values, [sizes.segments, sizes.segments + sizes.inputs])
    certified = certificate(levels_of(k, levels), np.random.default_rng(seed))
    segments = _segments(taus, along, rng)
    minima = _minima(taus, descents, rng, sizes.starts)
    found = {"random": exist(taus, asked), "samples": exist(taus, known)}
    rows = [(name, len(one), int(one.sum())) for name, one in found.items()]
    existence = from_rows(("expectiles_of", "asked", "exist"), rows)
    return {
        "certificates": table(**where, **certified),
        "segments": table(**where, **segments),
        "minima": table(**where, **minima),
        "existence": table(**where, **existence),
    }


def _taus(k: int, levels: str) -> np.ndarray:
    return np.array(midpoints(k) if levels == "midpoints" else evenly_spaced(k))


def _random_expectiles(
    taus: np.ndarray, rng: np.random.Generator, rows: int, known: int
) -> tuple[np.ndarray, np.ndarray]:
    """Expectiles [rows, K] of random distributions, and [known, K] of K equal samples."""
    probs = rng.dirichlet(np.ones(ATOMS), rows + known)
    probs[rows:] = np.where(np.arange(ATOMS) < len(taus), 1 / len(taus), 0)
    mu = Particles(rng.normal(size=probs.shape), probs)
    values = _scaled(np.asarray(Expectiles(tuple(taus)).evaluate(mu)))
    return values[:rows], values[rows:]


def _scaled(values: np.ndarray) -> np.ndarray:
    """Shifted and scaled to the range from 0 to 1."""
    return np.asarray((values - values[..., :1]) / (values[..., -1:] - values[..., :1]))


def _segments(taus: np.ndarray, values: np.ndarray, rng: np.random.Generator) -> Counts:
    """Random segments between ordered samples: is the objective convex, or above the chord?

    Along a segment it is piecewise quadratic. It is not convex if it bends downwards at one of the
    kinks, where a sample passes an expectile: where r_k and the change of its slope, which has the
    sign of 1 - 2 tau_k, differ in sign.
    """
    left, right = ordered_samples(rng, 2, *values.shape)
    way = right - left
    at = (values[:, None] - left[..., None]) / way[..., None]  # when sample n passes e_k, [., N, K]
    points = left[:, None, None] + at[..., None] * way[:, None, None]  # [., N, K, N]
    error = points - values[:, None, :, None]
    there = np.mean(-2 * np.where(error > 0, taus[:, None], 1 - taus[:, None]) * error, axis=-1)
    down = (at > 0) & (at < 1) & (there * (1 - 2 * taus) < -EXACT)
    ends = [objective(taus, values, one)[:, None] for one in (left, right)]
    chord = (1 - CHORD) * ends[0] + CHORD * ends[1]
    inside = objective(taus, values[:, None], left[:, None] + CHORD[:, None] * way[:, None])
    above = (inside > (1 + EXACT) * chord).any(axis=-1)
    not_convex = down.any(axis=(1, 2))
    return {
        "segments": [len(values)],
        "not_convex": [int(not_convex.sum())],
        "above": [int(above.sum())],
    }


def _minima(taus: np.ndarray, values: np.ndarray, rng: np.random.Generator, starts: int) -> Table:
    """Where descents from several starts end; the first start is the paper's, the expectiles."""
    rows = []
    for number, (row, exists) in enumerate(zip(values, exist(taus, values), strict=True)):
        for start, samples in enumerate((row, *ordered_samples(rng, starts - 1, len(row)))):
            end = descend(taus, row, samples)
            reached, gradient = with_gradient(end, taus, row)
            kink = np.abs(end[:, None] - row).min()
            steepest = np.abs(gradient).max()
            rows.append((number, bool(exists), start, reached, float(steepest), float(kink)))
    return from_rows(("input", "exist", "start", "objective", "gradient", "kink"), rows)


def _along(certificates: Table, k: int, levels: str) -> Table:
    """The objective along the certificate's segment, over the mean of its ends."""
    rows = select(certificates, k=k, levels=levels)
    taus, values, left, right = np.array(as_fractions(rows), float)
    t = np.linspace(0, 1, 101)
    along = objective(taus, values, left + t[:, None] * (right - left))
    return table(k=k, levels=levels, t=t, objective=along / along[[0, -1]].mean())


def _landscape() -> Tables:
    """The objective for three expectiles over two samples, the third at its place in a solution."""
    taus, known = _taus(3, "midpoints"), np.array([0.0, 0.3, 1.0])
    values = np.asarray(Expectiles(tuple(taus)).evaluate(Particles(known)))
    axis = np.round(np.linspace(-0.5, 1.5, 61), 6)
    first, second = (one.ravel() for one in np.meshgrid(axis, axis, indexing="ij"))
    samples = np.stack([first, second, np.full_like(first, known[1])], axis=-1)
    height = np.round(objective(taus, values, samples), 8)
    surface = table(first=first, second=second, objective=height)
    return {"landscape": surface, "kinks": table(place=values)}


def draw(tables: Tables) -> list[Drawing]:
    """Segments above their chords, the landscape of two samples, and how often what happens."""
    figure, (left, middle, right) = style.axes(1, 3, width=11.5, height=3.9)
    colours = dict(zip(KS, style.shades(style.COLOURS["EDRL"], len(KS)), strict=True))
    for k in KS:
        rows = select(tables["along"], k=k, levels="midpoints")
        left.plot(rows["t"], rows["objective"], color=colours[k], label=f"K = {k}")
        left.plot([0, 1], rows["objective"][[0, -1]], color=colours[k], linestyle=":", linewidth=1)
    left.set(xlabel="place on the segment", ylabel="objective (mean of the ends: 1)")
    left.set(ylim=(0, None), title="Above the chord (dotted)")
    left.legend()
    _draw_landscape(middle, tables["landscape"], tables["kinks"]["place"])
    _draw_shares(right, tables)
    caption = (
        "Equation (8) as a function of equally weighted samples. Left: along segments between two"
        " ordered sets of samples the objective lies above its chord (the certificates, at the"
        " midpoints). Middle: for three expectiles (dashed: where conditions bend) and two free"
        " samples; two solutions, which differ by a swap, with a ridge between them. Right: how"
        " often the objective is not convex along a random segment, how often equally weighted"
        " samples with the given expectiles exist, and how often a descent from the expectiles,"
        " the paper's start, ends above the best found by all starts."
    )
    return [Drawing("equation-8", figure, caption)]


def _draw_landscape(axes: Axes, rows: Table, kinks: Sequence[float]) -> None:
    axis = np.unique(rows["first"])
    height = np.log10(np.maximum(np.array(rows["objective"]).reshape(len(axis), -1), 1e-5))
    levels = np.arange(-4.5, 1.01, 0.5)
    filled = axes.contourf(axis, axis, height.T, levels=levels, cmap="viridis", extend="min")
    axes.figure.colorbar(filled, ax=axes, label="log₁₀ of the objective")
    for place in kinks:
        axes.axvline(place, color="white", linestyle="--", linewidth=0.8)
        axes.axhline(place, color="white", linestyle="--", linewidth=0.8)
    least = np.argsort(rows["objective"], kind="stable")[:2]
    axes.plot(np.array(rows["first"])[least], np.array(rows["second"])[least], "o", color="#D55E00")
    axes.set(xlabel="first sample", ylabel="second sample", title="Two free samples")
    axes.set_aspect("equal")
    axes.grid(visible=False)


def _draw_shares(axes: Axes, tables: Tables) -> None:
    kinds = {
        "not convex on a segment": (_violations(tables), "#D55E00", "o"),
        "samples exist": (_existing(tables), style.COLOURS["EDRL"], "s"),
        "paper's start not best": (_misled(tables), style.COLOURS["EDRL-scipy"], "v"),
    }
    for label, (shares, colour, marker) in kinds.items():
        for levels, line in zip(LEVELS, ("-", "--"), strict=True):
            heights = [100 * shares[k, levels] for k in KS]
            name = label if levels == "midpoints" else None
            axes.plot(KS, heights, line, color=colour, marker=marker, label=name)
    axes.plot([], [], "--", color="#555555", label="dashed: levels 0.01 to 0.99")
    axes.set_xticks(KS)
    axes.set(xlabel="number K of expectiles and samples", ylabel="%", title="How often")
    axes.set(ylim=(-4, 140), yticks=np.arange(0, 101, 20))
    axes.legend(loc="upper left", fontsize=8)


def _settings(rows: Table) -> list[tuple[int, str]]:
    return list(dict.fromkeys(zip(rows["k"], rows["levels"], strict=True)))


def _violations(tables: Tables, what: str = "not_convex") -> Shares:
    rows = tables["segments"]
    counts = zip(rows["k"], rows["levels"], rows[what], rows["segments"], strict=True)
    return {(k, levels): found / count for k, levels, found, count in counts}


def _existing(tables: Tables, of: str = "random") -> Shares:
    rows = select(tables["existence"], expectiles_of=of)
    settings = zip(rows["k"].tolist(), rows["levels"].tolist(), strict=True)
    return dict(zip(settings, (rows["exist"] / rows["asked"]).tolist(), strict=True))


def _misled(tables: Tables) -> Shares:
    """How often the paper's start ends above the best of all starts."""
    shares = {}
    for k, levels in _settings(tables["minima"]):
        reached = _reached(tables, k, levels)["objective"]
        shares[k, levels] = float(np.mean(reached[:, 0] > reached.min(axis=1) + EXACT))
    return shares


def _reached(tables: Tables, k: int, levels: str) -> Columns:
    """What the descents ended with, [inputs, starts]."""
    rows = select(tables["minima"], k=k, levels=levels)
    inputs = len(set(rows["input"]))
    return {name: rows[name].reshape(inputs, -1) for name in ("objective", "gradient", "kink")}


def _trapped(tables: Tables, k: int, levels: str) -> float:
    """How often a descent ends in a certified local minimum that is not the best of its input."""
    found = _reached(tables, k, levels)
    certified = (found["gradient"] <= EXACT) & (found["kink"] >= APART)
    worse = found["objective"] > found["objective"].min(axis=1, keepdims=True) + EXACT
    return float(np.mean(certified & worse))


def judge(tables: Tables) -> list[Claim]:
    """The paper's sentence as it stands, and what is the case instead."""
    settings = _settings(tables["certificates"])
    ratios = {}
    for k, levels in settings:
        ratios[k, levels] = float(ratio(select(tables["certificates"], k=k, levels=levels)))
    violated, existing, misled = _violations(tables), _existing(tables), _misled(tables)
    trapped = {one: _trapped(tables, *one) for one in settings}
    missed = 1 - min(_existing(tables, "samples").values())
    hopeless = select(tables["minima"], exist=False)["objective"]
    last = {levels: existing[KS[-1], levels] for levels in LEVELS}
    return [
        judged(
            "section-3.3-convex", "Section 3.3",
            "Minimising Equation (8) over the locations of equally weighted samples is a convex"
            " problem.",
            f"in exact arithmetic, {min(ratios.values()):.2f}× to {max(ratios.values()):.2f}× the"
            f" mean of the ends at the midpoint of a segment, for K = {_joined(KS)} at the"
            " midpoints and at 0.01 to 0.99",
            {"objective at a midpoint over the mean of the ends, largest": max(ratios.values())},
            note="A slip in the paper. A condition of Equation (7) bends where a sample passes"
            " its expectile, and its square bends downwards there if it has the other sign. Nor"
            " could it be convex without an order of the samples: a convex function that does not"
            " change if two of them are swapped is least where all are equal.",
        ),
        judged(
            "section-3.3-segments", "edrl",
            "That is no rare exception: along most random segments between ordered samples it is"
            " not convex.",
            f"K = {_joined(KS)}: not convex on {_percentages(violated)}; above the chord of the"
            f" whole segment on {_percentages(_violations(tables, 'above'))}",
            {"least share over K and levels": min(violated.values())},
        ),
        judged(
            "section-3.3-minima", "edrl",
            "There are local minima that are not the best: some descents end in them.",
            f"K = {_joined(KS)}: of all descents {_percentages(trapped)} end in one; from the"
            f" paper's start, the expectiles, {_percentages(misled)} end above the best",
            {"settings without such a minimum": sum(share == 0 for share in trapped.values())},
        ),
        judged(
            "section-3.3-existence", "edrl",
            "Equally weighted samples with given expectiles rarely exist for K = 9: the least"
            " objective is not zero.",
            f"K = {_joined(KS)}: they exist for {_percentages(existing)} of random distributions;"
            f" where they do not, all descents end at {hopeless.min():.1e} or above",
            {
                "largest share for K = 9": max(last.values()),
                "share of known samples not found": missed,
                "least objective where none exist": hopeless.min(),
            },
        ),
    ]  # fmt: skip


def _percentages(shares: Shares) -> str:
    """For each K, at the one set of levels and at the other."""
    of_k = {levels: _joined([f"{100 * shares[k, levels]:.3g} %" for k in KS]) for levels in LEVELS}
    return f"{of_k[LEVELS[0]]} at the midpoints and {of_k[LEVELS[1]]} at 0.01 to 0.99"


def _joined(entries: Sequence[object]) -> str:
    return ", ".join(str(entry) for entry in entries)


EXPERIMENT = Experiment(
    name="equation-8",
    title="Is Equation (8) convex?",
    source="Section 3.3",
    section="theory",
    about=f"As many equally weighted samples as expectiles, K = {_joined(KS)}, at the levels (2k -"
    " 1)/2K and from 0.01 to 0.99. Certificates: two ordered sets of samples, multiples of 1/16,"
    " whose midpoint is as high above the mean of the ends as a random search finds, for"
    " expectiles of K such samples; all in rational arithmetic. Otherwise the expectiles are"
    " those of random distributions (32 Gaussian atoms with random weights), scaled to a range of"
    " 1, and samples to start from or to end segments with are Gaussian and ordered. 2,000 (full:"
    " 5,000) segments. Local minima: BFGS from 12 (full: 32) starts on 16 (full: 60) inputs; one"
    " is certified if the gradient vanishes and no sample is nearer than 0.001 to an expectile,"
    " since the objective is a convex quadratic around it. Existence is decided for 100 (full:"
    " 500) inputs by trying all places between the expectiles that the samples may have.",
    measure=measure,
    draw=draw,
    judge=judge,
    cost=(10.0, 60.0),
)
