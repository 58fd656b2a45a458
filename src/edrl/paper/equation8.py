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
from fractions import Fraction
from itertools import combinations, product

import numpy as np
from matplotlib.axes import Axes
from scipy.optimize import minimize

from edrl.core.families import Expectiles, evenly_spaced, midpoints
from edrl.core.particles import Particles
from edrl.paper.experiment import (
    Advance,
    Claim,
    Drawing,
    Experiment,
    Table,
    Tables,
    joined,
    select,
    table,
)
from edrl.paper.thresholds import judged
from edrl.report import style

KS = (3, 5, 9)  # of expectiles and of samples
LEVELS = ("midpoints", "0.01 to 0.99")
GRID = 16  # certificates are made of multiples of 1/16
ATOMS = 32  # of the random distributions
CHORD = np.linspace(0, 1, 33)[1:-1]  # where on a segment the objective is compared with the chord
SEARCHES, CLIMBS = 10, 100  # for certificates: from how many starts, and with how many steps
EXACT = 1e-9  # what is at most this is zero but for rounding; expectiles are scaled to a range of 1
APART = 1e-3  # a local minimum is certified if no sample is nearer to an expectile


Fractions = Sequence[Fraction]
Counts = dict[str, list[int]]
Shares = dict[tuple[int, str], float]


def levels_of(k: int, levels: str) -> list[Fraction]:
    """The levels as fractions: (2i - 1)/2K, or from 1/100 to 99/100."""
    if levels == "midpoints":
        return [Fraction(2 * i + 1, 2 * k) for i in range(k)]
    return [Fraction(1, 100) + Fraction(98, 100) * i / (k - 1) for i in range(k)]


def measure(full: bool, advance: Advance) -> Tables:
    """Certificates, random segments, local minima, existence, and what the figure shows."""
    segments, inputs, starts, asked = (5_000, 60, 32, 500) if full else (2_000, 16, 12, 100)
    found: dict[str, list[Table]] = {
        "certificates": [],
        "segments": [],
        "minima": [],
        "existence": [],
    }
    for number, (k, levels) in enumerate((k, levels) for k in KS for levels in LEVELS):
        advance(number / 6, f"K = {k}, {levels}")
        rng = np.random.default_rng(number)
        taus, where = _taus(k, levels), {"k": k, "levels": levels}
        values, known = _random_expectiles(taus, rng, segments + inputs + asked, asked // 4)
        certificate = _certificate(levels_of(k, levels), np.random.default_rng(number))
        found["certificates"].append(table(**where, **certificate))
        found["segments"].append(table(**where, **_segments(taus, values[:segments], rng)))
        descents = _minima(taus, values[segments:-asked], rng, starts)
        found["minima"].append(table(**where, **descents))
        exist = {
            "random": _exist(taus, values[-asked:]),
            "samples": _exist(taus, known),
        }
        found["existence"].append(
            table(
                **where, expectiles_of=list(exist), asked=[len(one) for one in exist.values()],
                exist=[one.sum() for one in exist.values()],
            )
        )  # fmt: skip
    tables = {name: joined(*parts) for name, parts in found.items()}
    tables["along"] = joined(*(_along(tables["certificates"], *one) for one in product(KS, LEVELS)))
    return tables | _landscape()


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


def _ordered_samples(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Ordered Gaussian samples around expectiles that run from 0 to 1."""
    return np.sort(rng.normal(0.5, 0.75, shape), axis=-1)


def conditions(taus: np.ndarray, values: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """r_k [..., K] for samples [..., N]: the left-hand sides of Equation (7)."""
    error = samples[..., None, :] - values[..., :, None]
    weight = np.where(error > 0, taus[:, None], 1 - taus[:, None])
    return np.asarray(np.mean(-2 * weight * error, axis=-1))


def objective(taus: np.ndarray, values: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Equation (8)."""
    return np.asarray(np.sum(conditions(taus, values, samples) ** 2, axis=-1))


def _slopes(taus: np.ndarray, values: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """The derivative [K, N] of the conditions between two kinks."""
    above = samples[None, :] > values[:, None]
    return -2 * np.where(above, taus[:, None], 1 - taus[:, None]) / len(samples)


def exact_objective(taus: Fractions, values: Fractions, samples: Fractions) -> Fraction:
    """Equation (8) in rational arithmetic."""
    total = Fraction(0)
    for tau, value in zip(taus, values, strict=True):
        scores = (-2 * (tau if z > value else 1 - tau) * (z - value) for z in samples)
        total += (sum(scores, Fraction(0)) / len(samples)) ** 2
    return total


def exact_expectile(tau: Fraction, samples: Fractions) -> Fraction:
    """The expectile of equally weighted samples: their mean, with the weights of its own place."""
    ordered = sorted(samples)
    for below in range(1, len(ordered) + 1):
        weights = [1 - tau] * below + [tau] * (len(ordered) - below)
        weighted = (weight * z for weight, z in zip(weights, ordered, strict=True))
        value = sum(weighted, Fraction(0)) / sum(weights)
        if ordered[below - 1] <= value and (below == len(ordered) or value <= ordered[below]):
            return value
    raise AssertionError("samples have an expectile at every level")


def _certificate(taus: list[Fraction], rng: np.random.Generator) -> dict[str, list[str]]:
    """Two ordered sets of samples and expectiles, as fractions, with a high midpoint.

    It is the highest over the mean of the ends that a random search finds. The expectiles are those
    of K equally weighted samples, so the least objective is zero.
    """
    k = len(taus)
    found = []
    for _ in range(SEARCHES):
        known = np.sort(rng.choice(4 * GRID, k, replace=False))
        values = [exact_expectile(tau, [Fraction(int(n), GRID) for n in known]) for tau in taus]
        pair, height = _climb(np.array(taus, float), np.array(values, float), known, rng)
        found.append((height, values, [[Fraction(int(n), GRID) for n in end] for end in pair]))
    _, values, (left, right) = max(found, key=lambda one: one[0])
    columns = {"tau": taus, "expectile": values, "left": left, "right": right}
    return {name: [str(entry) for entry in one] for name, one in columns.items()}


def _climb(
    taus: np.ndarray, values: np.ndarray, known: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Ends [2, K] of a segment, in sixteenths, and the objective at its midpoint over theirs."""

    def best(ends: np.ndarray) -> tuple[np.ndarray, float]:
        at_ends = objective(taus, values, ends / GRID).mean(axis=-1)
        middle = objective(taus, values, ends.mean(axis=1) / GRID)
        ratio = np.where(at_ends > 0, middle / np.maximum(at_ends, 1e-300), 0)
        return ends[ratio.argmax()], float(ratio.max())

    shape = (2, len(taus))
    pool = np.sort(rng.integers(-4 * GRID, 8 * GRID, (2_000, *shape)), axis=-1)
    pool[::2, 1] = known  # segments that lead to a solution
    pair, height = best(pool)
    for _ in range(CLIMBS):
        steps = rng.integers(-GRID, GRID + 1, (128, *shape)) * (rng.random((128, *shape)) < 0.3)
        pair, height = best(np.concatenate([pair[None], np.sort(pair + steps, axis=-1)]))
    return pair, height


def _ratio(rows: dict[str, np.ndarray]) -> Fraction:
    """The objective at the midpoint over the mean of both ends, exactly."""
    names = ("tau", "expectile", "left", "right")
    taus, values, left, right = ([Fraction(str(entry)) for entry in rows[name]] for name in names)
    middle = [(one + other) / 2 for one, other in zip(left, right, strict=True)]
    ends = exact_objective(taus, values, left) + exact_objective(taus, values, right)
    return 2 * exact_objective(taus, values, middle) / ends


def _segments(taus: np.ndarray, values: np.ndarray, rng: np.random.Generator) -> Counts:
    """Random segments between ordered samples: is the objective convex, or above the chord?

    Along a segment it is piecewise quadratic. It is not convex if it bends downwards at one of the
    kinks, where a sample passes an expectile: where r_k and the change of its slope, which has the
    sign of 1 - 2 tau_k, differ in sign.
    """
    left, right = _ordered_samples(rng, 2, *values.shape)
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
    for number, (row, exist) in enumerate(zip(values, _exist(taus, values), strict=True)):
        for start, samples in enumerate((row, *_ordered_samples(rng, starts - 1, len(row)))):
            end = _descend(taus, row, samples)
            reached, gradient = _with_gradient(end, taus, row)
            kink = np.abs(end[:, None] - row).min()
            steepest = np.abs(gradient).max()
            rows.append((number, bool(exist), start, reached, float(steepest), float(kink)))
    names = ("input", "exist", "start", "objective", "gradient", "kink")
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def _descend(taus: np.ndarray, values: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Where BFGS ends, moved to the minimum of the quadratic that the objective is there.

    That is a local minimum of the objective if no sample passes an expectile on the way; else
    nothing is moved.
    """
    end = minimize(_with_gradient, start, (taus, values), jac=True, method="BFGS").x
    slopes = _slopes(taus, values, end)
    settled = end - np.linalg.pinv(slopes) @ conditions(taus, values, end)
    stays = np.array_equal(_slopes(taus, values, settled), slopes)
    return settled if stays else np.asarray(end)


def _with_gradient(
    samples: np.ndarray, taus: np.ndarray, values: np.ndarray
) -> tuple[float, np.ndarray]:
    residual = conditions(taus, values, samples)
    return float(np.sum(residual**2)), 2 * residual @ _slopes(taus, values, samples)


def _exist(taus: np.ndarray, values: np.ndarray) -> np.ndarray:
    """For which rows there are equally weighted samples, which must fulfil the conditions."""
    left = conditions(taus, values, equal_samples(taus, values))
    return np.asarray(np.abs(left).max(axis=-1) < 1e-7)


def equal_samples(taus: np.ndarray, values: np.ndarray) -> np.ndarray:
    """K equally weighted samples [rows, K] with the expectiles [rows, K], or NaN where there are
    none.

    All places are tried that they may have. With c_j samples in the j-th interval between the
    expectiles, of sum S_j, the conditions are linear: sum_j w_kj (S_j - c_j e_k) = 0. Their
    solutions are a line, and S_j must lie between c_j times the ends of its interval.
    """
    k = len(taus)
    below = np.arange(k + 1) <= np.arange(k)[:, None]  # whether the j-th interval lies below e_k
    weights = np.where(below, 1 - taus[:, None], taus[:, None])  # [K, K + 1]
    line, inverse = np.linalg.svd(weights)[2][-1], np.linalg.pinv(weights)
    cells = _cells(k)
    per_expectile = cells @ weights.T
    return np.stack([_in_any_cell(row, cells, per_expectile, line, inverse) for row in values])


def _cells(k: int) -> np.ndarray:
    """All ways to put k samples into k + 1 intervals, [C(2k, k), k + 1]."""
    bars = np.array(list(combinations(range(2 * k), k)))
    ends = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), 2 * k)])
    return (np.diff(ends, axis=-1) - 1).astype(float)


def _in_any_cell(
    values: np.ndarray,
    cells: np.ndarray,
    per_expectile: np.ndarray,
    line: np.ndarray,
    inverse: np.ndarray,
) -> np.ndarray:
    """Samples in the first cell in which a part of the line is left, or NaN."""
    ends = np.concatenate([[-1e6], values, [1e6]])  # as good as infinite
    first, last = np.full(len(cells), -np.inf), np.full(len(cells), np.inf)
    for j in range(len(ends) - 1):
        middle = per_expectile @ (values * inverse[j])
        low = (cells[:, j] * ends[j] - EXACT - middle) / line[j]
        high = (cells[:, j] * ends[j + 1] + EXACT - middle) / line[j]
        first = np.maximum(first, np.minimum(low, high))
        last = np.minimum(last, np.maximum(low, high))
        kept = first <= last
        cells, per_expectile = cells[kept], per_expectile[kept]
        first, last = first[kept], last[kept]
    if len(cells) == 0:
        return np.full(len(values), np.nan)
    sums = inverse @ (values * per_expectile[0]) + (first[0] + last[0]) / 2 * line
    counts = cells[0].astype(int)
    return np.repeat(sums / np.maximum(counts, 1), counts)


def _along(certificates: Table, k: int, levels: str) -> Table:
    """The objective along the certificate's segment, over the mean of its ends."""
    rows = select(certificates, k=k, levels=levels)
    taus, values, left, right = (
        np.array([float(Fraction(str(entry))) for entry in rows[name]])
        for name in ("tau", "expectile", "left", "right")
    )
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


def _reached(tables: Tables, k: int, levels: str) -> dict[str, np.ndarray]:
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
        ratios[k, levels] = float(_ratio(select(tables["certificates"], k=k, levels=levels)))
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
