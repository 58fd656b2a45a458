"""Figure 4: nine expectiles of the return from the 15-chain's first state: the collapse."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from edrl.core.families import Expectiles
from edrl.core.types import Array
from edrl.paper.chains import (
    ALPHA,
    AT,
    EVEN,
    FORWARD,
    LEVELS,
    LONGEST,
    MIDPOINTS,
    STEPS,
    SUFFIX,
    expectiles,
    interval,
    padded_chain,
)
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
from edrl.tabular import MDP, evaluate, learn, return_distributions, rollouts
from edrl.tabular.ground_truth import Truth

_K = 9
_HOW = {"DP": "dynamic programming", "TD": f"{STEPS:,} temporal-difference steps"}


def measure(full: bool, advance: Advance) -> Tables:
    chain = padded_chain(LONGEST)
    truth = return_distributions(chain, FORWARD, atoms=1024)
    # How far the paper's ground truth is off is told by repeating it.
    repeats = range(100 if full else 30)
    sampled = [rollouts(chain, FORWARD, 1000, seed=seed, state=0) for seed in repeats]
    seeds = 30 if full else 6
    rows, bounds = [], []
    for number, levels in enumerate(LEVELS):
        exact, naive = expectiles(levels, _K), expectiles(levels, _K, "as_samples")
        bounds.append(_true_bounds(truth, levels, exact))
        runs: dict[tuple[str, str], Sequence[Array]] = {
            ("truth", "exact"): [truth.values(exact)[0, FORWARD]],
            ("Monte Carlo", "MC"): [exact.evaluate(returns) for returns in sampled],
        }
        for place, (name, family) in enumerate({"EDRL": exact, "EDRL-naive": naive}.items()):
            advance((number + 0.2 + 0.4 * place) / 2, f"{name}, levels {levels}")
            runs[name, "DP"] = [evaluate(chain, FORWARD, family).values[0, FORWARD]]
            runs[name, "TD"] = list(_learn(chain, family, seeds)[:, 0, FORWARD])
        rows += [_rows(*key, levels, exact.taus, values) for key, values in runs.items()]
    return {"expectiles": joined(*rows), "truth_bounds": joined(*bounds)}


def _true_bounds(truth: Truth, levels: str, family: Expectiles) -> Table:
    low, high = truth.bracket(family)
    at = (0, FORWARD)
    return table(levels=levels, tau=family.taus, low=low[at], high=high[at])


def _learn(chain: MDP, family: Expectiles, seeds: int) -> np.ndarray:
    """What temporal differences have learnt, [seeds, S, A, K]."""
    learnt = learn(chain, family, FORWARD, steps=STEPS, step_size=ALPHA, seeds=seeds)
    return np.asarray(learnt.final()[0])


def _rows(algorithm: str, mode: str, levels: str, taus: Array, runs: Sequence[Array]) -> Table:
    found = []
    for seed, values in enumerate(runs):
        where = {"algorithm": algorithm, "mode": mode, "seed": seed, "levels": levels}
        found.append(table(**where, tau=taus, value=values))
    return joined(*found)


def _by_seed(tables: Tables, levels: str, algorithm: str, mode: str) -> np.ndarray:
    found = select(tables["expectiles"], levels=levels, algorithm=algorithm, mode=mode)
    return np.asarray(found["value"].reshape(-1, _K))


def draw(tables: Tables) -> list[Drawing]:
    figure, grid = style.axes(2, 2, width=9.5, height=7, sharey=True)
    for panels, levels in zip(grid, LEVELS, strict=True):
        for axes, mode in zip(panels, _HOW, strict=True):
            _draw_panel(axes, tables, levels, mode)
            axes.set_title(f"{_HOW[mode]}, {AT[levels].removeprefix('at ')}", fontsize=9.5)
        panels[0].set_ylabel("expectile of the return from $x_0$")
    for axes in grid[-1]:
        axes.set_xlabel("level τ")
    grid[0, 0].legend(loc="lower right")
    return [Drawing("figure-4", figure, _CAPTION)]


def _draw_panel(axes: Axes, tables: Tables, levels: str, mode: str) -> None:
    taus = np.asarray(select(tables["truth_bounds"], levels=levels)["tau"])
    samples = _by_seed(tables, levels, "Monte Carlo", "MC")
    grey, black = style.COLOURS["Monte Carlo"], style.COLOURS["truth"]
    spread = 1.96 * samples.std(axis=0, ddof=1)
    label = "1,000 rollouts: 95 % of repetitions"
    axes.errorbar(
        taus, samples.mean(axis=0), spread, fmt="none", ecolor=grey, capsize=5, label=label
    )
    true_values = _by_seed(tables, levels, "truth", "exact")[0]
    axes.plot(
        taus, true_values, "o-", color=black, label="truth", markersize=7, markerfacecolor="none"
    )
    for name in ("EDRL", "EDRL-naive"):
        mean, half = interval(_by_seed(tables, levels, name, mode))
        axes.plot(taus, mean, style.MARKERS[name] + "-", color=style.COLOURS[name], label=name)
        style.band(axes, taus, mean - half, mean + half, style.COLOURS[name])
    axes.set_xticks(taus, [f"{tau:.2f}" for tau in taus])


_CAPTION = (
    "Nine expectiles of the return from x0. EDRL (green) lies on the truth (black circles). EDRL-naive's (orange)"
    " have moved towards each other, and away from the mean. Above: the levels (2k - 1)/2K. Below: levels from 0.01 to"
    " 0.99; there the outermost ones are still on their way after 30,000 temporal-difference steps, because their"
    " gradients are weighted by 0.01."
)


def judge(tables: Tables) -> list[Claim]:
    claims = [claim for levels in (MIDPOINTS, EVEN) for claim in _judge_levels(tables, levels)]
    known = np.asarray(tables["truth_bounds"]["high"]) - np.asarray(tables["truth_bounds"]["low"])
    truth = judged(
        "figure-4-truth", "edrl", "The ground truth is known to a stated accuracy",
        f"expectiles between bounds {known.max():.1e} apart", float(known.max()),
    )  # fmt: skip
    return [*claims, truth]


def _judge_levels(tables: Tables, levels: str) -> list[Claim]:
    truth = _by_seed(tables, levels, "truth", "exact")[0]
    suffix, where = SUFFIX[levels], AT[levels]

    def spread(algorithm: str, mode: str) -> float:
        mean = _by_seed(tables, levels, algorithm, mode).mean(axis=0)
        return float((mean[-1] - mean[0]) / (truth[-1] - truth[0]))

    error = np.abs(_by_seed(tables, levels, "EDRL", "DP")[0] - truth).mean()
    monte_carlo = np.abs(_by_seed(tables, levels, "Monte Carlo", "MC") - truth).mean()
    collapse = {f"by {mode}": spread("EDRL-naive", mode) for mode in _HOW}
    kept = {mode: spread("EDRL", mode) for mode in _HOW}
    return [
        judged(
            f"figure-4-naive{suffix}", "Section 5.1", f"EDRL-naive's nine start-state expectiles collapse, {where}",
            f"e9 - e1 is {collapse['by DP']:.2f}× the true one by DP, {collapse['by TD']:.2f}× by TD", collapse,
        ),
        judged(
            f"figure-4-edrl{suffix}", "Section 5.1",
            f"EDRL's nine start-state expectiles, with exact imputation, do not collapse, {where}",
            f"e9 - e1 is {kept['DP']:.2f}× the true one by DP, {kept['TD']:.2f}× by TD",
            {"off the true one by DP": abs(kept["DP"] - 1), "by TD": kept["TD"]},
        ),
        judged(
            f"figure-4-accuracy{suffix}", "edrl",
            f"The nine expectiles of EDRL (DP) are nearer to the truth than those of 1,000 rollouts, {where}",
            f"mean error {error:.3f}; rollouts {monte_carlo:.3f}", float(monte_carlo / error),
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "figure-4",
    "The collapse",
    "Figure 4, Section 5.1",
    "paper",
    f"The 15-chain under the policy that goes forward, K = {_K} expectiles, imputed exactly, learnt by dynamic"
    f" programming to a change of 1e-9, and by {STEPS:,} temporal-difference steps of size {ALPHA} with 6 seeds (full"
    " size: 30). The paper names no levels for its tabular experiments. We infer the midpoints (2k - 1)/2K, QDRL's,"
    " and show the deep agent's levels from 0.01 to 0.99 as well. Beside the truth stands what the paper took for it,"
    " 1,000 Monte Carlo rollouts, repeated 30 times (full size: 100) to show how far they scatter.",
    measure,
    draw,
    judge,
    (20.0, 50.0),
)
