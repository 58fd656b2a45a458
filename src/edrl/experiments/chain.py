"""Statistics of the N-chain's returns, learnt and compared with the truth: what Figures 4 to 6 and Appendix E share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.stats import wasserstein_distance

from edrl.core.particles import Particles
from edrl.core.statistics import Statistics
from edrl.experiments.experiment import Advance, Table, joined, select, table
from edrl.report import style
from edrl.tabular import MDP, evaluate, learn, return_distributions, rollouts
from edrl.tabular.truth import Truth

FORWARD = 0
ALPHA = 0.05
STEPS = 30_000
KS = (1, 3, 5, 7, 9)


@dataclass(frozen=True)
class Method:
    """An algorithm, and how it is run: for which K, and with how many seeds of temporal differences (0: none)."""

    name: str
    family: Callable[[int], Statistics]
    ks: Sequence[int] = KS
    seeds: int = 10
    td_ks: Sequence[int] | None = None  # None: as `ks`
    dp_sweeps: int = 10_000


class Chain:
    """An N-chain under the policy that goes forward, and its true returns."""

    def __init__(self, mdp: MDP):
        self.mdp = mdp
        self.truth: Truth = return_distributions(mdp, FORWARD, atoms=512)
        self.states = np.flatnonzero(~mdp.terminal)
        self.distance = len(self.states) - self.states  # steps to the goal
        self._true_values: dict[Any, np.ndarray] = {}

    def true_values(self, family: Statistics) -> np.ndarray:
        """The statistics [S, K] of the true returns; an algorithm's imputation does not matter to them."""
        key = (type(family), family.taus)  # type: ignore[attr-defined]
        if key not in self._true_values:
            self._true_values[key] = np.asarray(self.truth.values(family))[self.states, FORWARD]
        return self._true_values[key]

    def errors(self, family: Statistics, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Errors of values [..., S, K] as in Definition 4.5, and W1 of the imputed distributions, both [..., S]."""
        imputed = family.impute(np.ascontiguousarray(values))
        returns = self.truth.particles[self.states, FORWARD]
        # SciPy's distance: a few thousand cheap calls, instead of compiling ours for every shape.
        apart = np.empty(values.shape[:-1])
        for index in np.ndindex(apart.shape):
            one, true = imputed[index], returns[index[-1]]
            apart[index] = wasserstein_distance(one.atoms, true.atoms, one.probs, true.probs)
        return np.abs(values - self.true_values(family)).mean(-1), apart

    def rows(self, method: Method, k: int) -> Table:
        """All runs of a method with k statistics: one row for each way of learning, seed and state."""
        family = method.family(k)
        solution = evaluate(self.mdp, FORWARD, family, max_iterations=method.dp_sweeps)
        runs = [("DP", 0, solution.values[self.states, FORWARD])]
        if method.seeds and k in (method.ks if method.td_ks is None else method.td_ks):
            learnt = learn(self.mdp, family, FORWARD, steps=STEPS, step_size=ALPHA, seeds=method.seeds).final()[0]
            runs += [("TD", seed, values) for seed, values in enumerate(learnt[:, self.states, FORWARD])]
        errors, apart = self.errors(family, np.stack([values for *_, values in runs]))
        found = [
            table(mode=mode, algorithm=method.name, k=k, seed=seed, distance=self.distance, error=error, w1=w1)
            for (mode, seed, _), error, w1 in zip(runs, errors, apart, strict=True)
        ]
        return joined(*found)

    def monte_carlo(self, family: Statistics, episodes: int = 1000, repeats: int = 10) -> Table:
        """What 1,000 rollouts from each state, the paper's ground truth, know of the statistics, on average."""
        samples = [
            [rollouts(self.mdp, FORWARD, episodes, seed=repeat, state=int(x)).atoms for x in self.states]
            for repeat in range(repeats)
        ]
        values = np.asarray(family.evaluate(Particles(np.stack(samples))))
        error = np.abs(values - self.true_values(family)).mean(axis=(0, -1))
        return table(k=family.size, distance=self.distance, error=error)


def measure_methods(chain: Chain, methods: Sequence[Method], advance: Advance) -> Table:
    """The rows of all methods."""
    jobs = [(method, k) for method in methods for k in method.ks]
    rows = []
    for number, (method, k) in enumerate(jobs):
        advance(number / len(jobs), f"{method.name}, K = {k}")
        rows.append(chain.rows(method, k))
    return joined(*rows)


def interval(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over seeds (the first axis) and the half width of its 95 % interval by Student's t; NaN for one seed."""
    mean, count = samples.mean(axis=0), len(samples)
    if count == 1:
        return mean, np.full_like(mean, np.nan)
    return mean, stats.t.ppf(0.975, count - 1) * samples.std(axis=0, ddof=1) / np.sqrt(count)


def by_seed(rows: Table, column: str, **where: Any) -> tuple[np.ndarray, np.ndarray]:
    """A column as [seeds, distances], with the distances."""
    found = select(rows, **where)
    distance = np.unique(found["distance"])
    order = np.lexsort((found["distance"], found["seed"]))
    return found[column][order].reshape(-1, len(distance)), distance


def plot_errors(axes: Any, rows: Table, column: str, mode: str, algorithm: str) -> None:
    """Lines over the distance to the goal, darker for larger K, with intervals over seeds."""
    ks = np.unique(select(rows, mode=mode, algorithm=algorithm)["k"])
    axes.set_xticks([1, 4, 7, 10, 14])
    everything = np.unique(np.asarray(rows["k"]))
    colours = dict(zip(everything.tolist(), style.shades(style.COLOURS[algorithm], len(everything)), strict=True))
    for k in ks.tolist():
        samples, distance = by_seed(rows, column, mode=mode, algorithm=algorithm, k=k)
        mean, half = interval(samples)
        axes.plot(distance, mean, marker=style.MARKERS[algorithm], color=colours[k], label=f"K = {k}")
        axes.fill_between(distance, mean - half, mean + half, color=colours[k], alpha=0.25, linewidth=0)


def at_start(rows: Table, column: str, **where: Any) -> float:
    """The mean over seeds at the state farthest from the goal."""
    samples, _ = by_seed(rows, column, **where)
    return float(samples.mean(axis=0)[-1])


def listed(numbers: Sequence[float], ks: Sequence[int], unit: str = "") -> str:
    """Numbers for a claim, with the K that each is for."""
    values = ", ".join(f"{number:.3g}{unit}" for number in numbers)
    return f"{values} for K = {', '.join(str(k) for k in ks)}"
