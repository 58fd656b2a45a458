"""Draws the figures of docs/exact-imputation.md beside itself: `python docs/figures/imputation.py`.

Nothing is random in them, and every distribution is imputed by the library.
"""

from pathlib import Path
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np

from edrl import Expectiles, Particles
from edrl.core.families import ExactExpectiles
from edrl.core.imputation import expectile_repair
from edrl.core.imputation.exact_expectiles import Rule
from edrl.core.metrics import integrated_cdf
from edrl.report import style

HERE = Path(__file__).parent
TAUS = (0.1, 0.3, 0.5, 0.7, 0.9)
KNOT, LINE, CHORD, GREY = "#000000", "#009E73", "#D55E00", "#7f7f7f"
SKEWED = Particles(
    np.array([-1.7, -0.9, -0.35, 0.0, 0.5, 1.6]), np.array([0.1, 0.15, 0.2, 0.25, 0.15, 0.15])
)


def knots(values: np.ndarray, taus: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The expectiles other than the mean, from the mean, and P there."""
    level = np.asarray(taus)
    outer = level != 0.5
    x = values[outer] - values[~outer]
    return x, level[outer] / (2 * level[outer] - 1) * x


def draw_theorem() -> Any:
    """Values that are expectiles, and values that are not."""
    figure, grid = style.axes(1, 2, width=9, height=3.4, sharey=True)
    values = np.asarray(Expectiles(TAUS).evaluate(SKEWED))
    wrong = values + np.array([0, -0.3, 0, 0, 0])
    for axes, row, title in zip(
        grid, (values, wrong), ("expectiles", "expectiles of nothing"), strict=True
    ):
        x, p = knots(row, TAUS)
        t = np.array([-2.6, 0, 2.2])
        axes.plot(t, np.maximum(t, 0), "--", color=GREY, label="asymptotes: 0 and x - m")
        slopes = np.diff(p) / np.diff(x)
        axes.plot(x, p, color=CHORD, label="chords")
        for i, slope in enumerate(slopes):
            middle = (x[i] + x[i + 1]) / 2, (p[i] + p[i + 1]) / 2
            axes.annotate(
                f"$s_{i + 1}$ = {slope:.2f}",
                middle,
                (-10, 8),
                textcoords="offset points",
                ha="right",
            )
        axes.plot(x, p, "o", color=KNOT, label="knots $(x_i, P_i)$", zorder=3)
        axes.set(title=title, xlabel="x - m", xlim=(-2.6, 2.2), ylim=(-0.05, 2.2))
    t = np.linspace(-2.6, 2.2, 481)
    centred = SKEWED.push(-float(values[2]), 1.0)
    grid[0].plot(
        t, integrated_cdf(centred, t), color=LINE, linewidth=1, label="P of a distribution"
    )
    grid[0].set_ylabel("P")
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def possible(t: np.ndarray, x: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest P at points t: between the chord of a gap and those beside it,
    prolonged.
    """
    slopes = np.concatenate([[0], np.diff(p) / np.diff(x), [1]])
    lines = p[:, None] + slopes[[range(len(x)), range(1, len(x) + 1)]][:, :, None] * (
        t - x[:, None]
    )
    gap = np.searchsorted(x, t)  # 0 and n: the tails
    low, high = np.maximum(t, 0), np.where(t < x[0], p[0], p[-1] + t - x[-1])
    for i in range(len(x) - 1):
        beside = np.maximum(lines[0, i], lines[1, i + 1])
        low, high = np.where(gap == i + 1, beside, low), np.where(gap == i + 1, lines[1, i], high)
    low = np.where(gap == 0, np.maximum(0, lines[1, 0]), low)
    return np.where(gap == len(x), np.maximum(t, lines[0, -1]), low), high


def draw_rules() -> Any:
    """P and the CDF under every rule, for the same knots."""
    values = np.asarray(Expectiles(TAUS).evaluate(SKEWED))
    mean = float(values[2])
    x, p = knots(values, TAUS)
    rules = get_args(Rule)
    figure, grid = style.axes(2, len(rules), width=12.5, height=5.2, sharex=True, sharey="row")
    for number, (above, below, rule) in enumerate(zip(*grid, rules, strict=True)):
        imputed = Expectiles(TAUS, imputation=ExactExpectiles(rule)).impute(values)
        atoms, probs = (np.asarray(part) for part in (imputed.atoms - mean, imputed.probs))
        t = np.linspace(-3, 3, 1201)
        above.plot([-3, 0, 3], [0, 0, 3], "--", color=GREY, linewidth=0.8)
        above.fill_between(t, *possible(t, x, p), color=CHORD, alpha=0.3, linewidth=0)
        above.plot(t, integrated_cdf(Particles(atoms, probs), t), color=LINE)
        heavy = atoms[probs > 1e-6]
        above.plot(
            heavy, integrated_cdf(Particles(atoms, probs), heavy), "d", color=LINE, markersize=5
        )
        above.plot(x, p, "o", color=KNOT, markersize=4, zorder=3)
        above.set(
            title=rule + (", the default" if rule == ExactExpectiles().rule else ""),
            ylim=(-0.04, 1.25),
        )
        order = np.argsort(atoms)
        steps = np.concatenate([[0], np.cumsum(probs[order])])
        below.stairs(steps, [-3, *atoms[order], 3], baseline=None, color=LINE, linewidth=1.6)
        chords = np.concatenate([[0], np.diff(p) / np.diff(x), [1]])
        for i, at in enumerate(x):
            below.plot(
                [at, at],
                chords[i : i + 2],
                color=CHORD,
                linewidth=4,
                alpha=0.5,
                solid_capstyle="butt",
            )
        levels = [np.sum(probs[atoms <= at + 1e-9]) for at in x]
        if rule == "knots":  # where an atom sits on a knot: F on the chord that the rule says
            levels = [*chords[1:3], *chords[2:4]]
        below.plot(x, levels, "o", color=KNOT, markersize=4, zorder=3)
        below.set(xlabel="x - m", xlim=(-2.3, 2.8))
        if number == 0:
            above.set_ylabel("P(x), atoms as diamonds")
            below.set_ylabel("F(x)")
    return figure


def draw_repair() -> Any:
    """The two convex functions near points that are not convex, and the mixture."""
    taus = np.delete(Expectiles(9).taus, 4)
    x = np.array([-1.9, -1.15, -0.62, -0.05, 0.2, 0.55, 0.7, 2.1])
    p, q = taus / (2 * taus - 1) * x, (1 - taus) / (2 * taus - 1) * x
    reach = 1e7
    with jax.enable_x64(True):
        at, above, below, levels = (jnp.asarray(array) for array in (x, p, q, taus))
        halves = [
            np.asarray(expectile_repair._minorant(at, above, below, levels, reach)),
            np.asarray(expectile_repair._outside_in(at, above, below, levels, None, reach)),
        ]
        found = expectile_repair.repaired(at, above, below, levels, None, reach)
        first, _, slopes = (np.asarray(part) for part in found)
    low, near = (half + np.maximum(x, 0) for half in halves)
    mixed = first[0] + np.concatenate([[0], np.cumsum(slopes[1:-1] * np.diff(x))])
    figure, (left, right) = style.axes(1, 2, width=10, height=3.6)
    for axes in (left, right):
        axes.plot(x, low, "v-", color="#0072B2", linewidth=1, label="greatest convex minorant")
        axes.plot(x, near, "^-", color="#E69F00", linewidth=1, label="from the outermost inward")
        axes.plot(x, mixed, "s-", color=LINE, linewidth=2, label="their mixture, the repair")
        axes.plot(x, p, "o", color=KNOT, label="as given", zorder=3)
        axes.set_xlabel("x - m")
    left.plot([-2.2, 0, 2.4], [0, 0, 2.4], "--", color=GREY, linewidth=0.8)
    left.set(ylabel="P", title="all knots", xlim=(-2.2, 2.4), ylim=(-0.05, 2.3))
    right.set(title="near the mean", xlim=(-1.3, 0.8), ylim=(-0.02, 1.05))
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


if __name__ == "__main__":
    with style.applied():
        for name, draw in (
            ("theorem", draw_theorem),
            ("rules", draw_rules),
            ("repair", draw_repair),
        ):
            draw().savefig(HERE / f"imputation-{name}.png", dpi=110, metadata={"Software": None})
