"""Statistics of the N-chain's returns, learnt and compared with the truth: what Figures 4 to 6 and
Appendix E share.

Figures 5, 12, 13 and 14 are captioned "different N-Chain lengths", Figure 6 "distances to the goal
state". Both are measured: the start state of every chain, and every state of the longest one. A
place is a pair of length and distance.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TypedDict, Unpack

import jax
import numpy as np
from matplotlib.axes import Axes
from scipy import stats
from scipy.stats import wasserstein_distance

from edrl import Expectiles, evenly_spaced, midpoints
from edrl.core.families import LevelStatistics
from edrl.core.particles import Particles
from edrl.core.statistics import Imputation, Statistics
from edrl.paper.experiment import Advance, Table, joined, select, table
from edrl.report import style
from edrl.tabular import MDP, Normal, Uniform, evaluate, learn, return_distributions, rollouts
from edrl.tabular.ground_truth import Truth
from edrl.tabular.lists import Reward

ALPHA = 0.05
STEPS = 30_000
KS = (1, 3, 5, 7, 9)
LONGEST = 15
LENGTHS = tuple(range(2, LONGEST + 1))
RESTLESS_SWEEPS = 50  # of dynamic programming that never settles: far more than a chain is long
RESTLESS_LAST = 10  # over so many of them, the last ones, its errors are averaged
SPARSE = (2, 5, 8, 11, 15)  # where temporal differences are cut short
FORWARD = 0

MIDPOINTS, EVEN = "midpoints", "0.01 to 0.99"
LEVELS: dict[str, Callable[[int], tuple[float, ...]]] = {MIDPOINTS: midpoints, EVEN: evenly_spaced}
"""The paper names no levels for its tabular expectiles.

The midpoints (2k - 1)/2K are QDRL's, the others ER-DQN's.
"""
GOALS: dict[str, Reward] = {"uniform": Uniform(-1.0, 1.0), "gaussian": Normal(0.0, 1.0)}
"""Rewards at the goal in Appendix E; elsewhere it is 1."""
TITLES = {"uniform": "goal reward uniform on (-1, 1)", "gaussian": "goal reward standard Gaussian"}
REWARD_ATOMS = 32

SUFFIX = {MIDPOINTS: "", EVEN: "-even"}  # of the ids of claims
AT = {MIDPOINTS: "at the midpoint levels", EVEN: "at levels from 0.01 to 0.99"}


def expectiles(levels: str, k: int, imputation: str | Imputation = "exact") -> Expectiles:
    """K expectiles at one of the two sets of levels."""
    return Expectiles(LEVELS[levels](k), imputation=imputation)


class Options(TypedDict, total=False):
    """How a method is run; `Method` says what each is."""

    ks: Sequence[int]
    lengths: Sequence[int]
    seeds: int
    td_ks: Sequence[int] | None
    td_lengths: Sequence[int] | None
    restless: bool


@dataclass(frozen=True)
class Method:
    """An algorithm, and how it is run: for which K, chains, and with how many seeds of temporal
    differences.
    """

    name: str
    family: Callable[[str, int], Statistics]  # from a set of levels and K
    ks: Sequence[int] = KS
    lengths: Sequence[int] = LENGTHS
    seeds: int = 6
    td_ks: Sequence[int] | None = None  # None: as `ks`
    td_lengths: Sequence[int] | None = None  # None: as `lengths`
    restless: bool = False  # whether its dynamic programming never settles

    def lengths_by_td(self, k: int) -> Sequence[int]:
        """The chains on which temporal differences are run with k statistics."""
        td_ks = self.ks if self.td_ks is None else self.td_ks
        if not self.seeds or k not in td_ks:
            return ()
        return self.lengths if self.td_lengths is None else self.td_lengths

    @classmethod
    def of_expectiles(
        cls, name: str, imputation: str | Imputation = "exact", **options: Unpack[Options]
    ) -> "Method":
        """Expectiles with an imputation."""
        return cls(name, partial(expectiles, imputation=imputation), **options)


class Chains:
    """N-chains of several lengths under the policy that goes forward, as one MDP, and their true
    returns.
    """

    def __init__(
        self, lengths: Sequence[int] = LENGTHS, goal: Reward = 1.0, reward_atoms: int = 64
    ):
        self.goal, self.reward_atoms = goal, reward_atoms
        self.mdp, self.start = side_by_side(lengths, goal, reward_atoms)
        self.truth: Truth = return_distributions(self.mdp, FORWARD, atoms=512)
        self._true_values: dict[object, np.ndarray] = {}

    def places(self, lengths: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """(length, distance, state): the start of each chain, and all states of the longest one."""
        for length in lengths:
            distances = range(1, length) if length == LONGEST else (length - 1,)
            for distance in distances:
                yield length, distance, self.start[length] + length - 1 - distance

    def true_values(self, family: Statistics) -> np.ndarray:
        """The statistics [S, K] of the true returns; an algorithm's imputation does not matter to
        them.
        """
        assert isinstance(family, LevelStatistics)  # all methods here learn quantiles or expectiles
        key = (type(family), tuple(family.taus.tolist()))
        if key not in self._true_values:
            self._true_values[key] = np.asarray(self.truth.values(family))[:, FORWARD]
        return self._true_values[key]

    def rows(self, method: Method, levels: str, k: int) -> Table:
        """All runs of a method with k statistics: one row for each way of learning, seed and place."""
        family = method.family(levels, k)
        found = [self._by_dynamic_programming(method, family)]
        for length in method.lengths_by_td(k):
            found.append(self._by_temporal_differences(method, family, length))
        return table(levels=levels, algorithm=method.name, k=k, **joined(*found))

    def _by_dynamic_programming(self, method: Method, family: Statistics) -> Table:
        if method.restless:
            return self._by_restless_sweeps(method, family)
        solution = evaluate(self.mdp, FORWARD, family)
        return self._errors("DP", 0, family, solution.values[:, FORWARD], method.lengths)

    def _by_restless_sweeps(self, method: Method, family: Statistics) -> Table:
        """Errors averaged over the last sweeps: those of a single one depend on its last digit."""
        values = evaluate(
            self.mdp, FORWARD, family, max_iterations=RESTLESS_SWEEPS - RESTLESS_LAST
        ).values
        found = []
        for _ in range(RESTLESS_LAST):
            values = evaluate(self.mdp, FORWARD, family, max_iterations=1, initial=values).values
            found.append(self._errors("DP", 0, family, values[:, FORWARD], method.lengths))
        averages = {
            column: _rounded(np.mean([rows[column] for rows in found], axis=0))
            for column in ("error", "w1", "mean_error")
        }
        return {**found[-1], **averages}

    def _by_temporal_differences(self, method: Method, family: Statistics, length: int) -> Table:
        """Algorithm 2 in one chain."""
        chain = padded_chain(length, self.goal, self.reward_atoms)
        seeds = method.seeds
        learnt = learn(chain, family, FORWARD, steps=STEPS, step_size=ALPHA, seeds=seeds).final()[0]
        found = []
        for seed, values in enumerate(learnt[:, :length, FORWARD]):
            everywhere = np.zeros((self.mdp.num_states, family.size))
            everywhere[self.start[length] : self.start[length] + length] = values
            found.append(self._errors("TD", seed, family, everywhere, (length,)))
        return joined(*found)

    def _errors(
        self, mode: str, seed: int, family: Statistics, values: np.ndarray, lengths: Sequence[int]
    ) -> Table:
        """Errors as in Definition 4.5, W1 of the imputed distributions, and errors of the mean, at
        all places.
        """
        length, distance, state = map(list, zip(*self.places(lengths), strict=True))
        # All states at once, needed or not: one shape, so that nothing is compiled twice.
        imputed = jax.tree.map(np.asarray, family.impute(values))
        means = np.asarray(family.mean(values))[state]
        off = np.abs(values[state] - self.true_values(family)[state]).mean(-1)
        # SciPy's distance: a few thousand cheap calls, instead of compiling ours for every shape.
        w1 = []
        for x in state:
            one, true = imputed[x], self.truth.particles[x, FORWARD]
            w1.append(wasserstein_distance(one.atoms, true.atoms, one.probs, true.probs))
        return table(
            mode=mode,
            seed=seed,
            length=length,
            distance=distance,
            error=_rounded(off),
            w1=_rounded(w1),
            mean_error=_rounded(np.abs(means - self.truth.means[state, FORWARD])),
        )

    def imputed_truth(self, levels: str, ks: Sequence[int] = KS) -> Table:
        """W1 between the true returns and what is imputed from their own expectiles: no learning at
        all.
        """
        found: list[Table] = []
        for k in ks:
            family = expectiles(levels, k)
            rows = self._errors("truth", 0, family, self.true_values(family), LENGTHS)
            found.append(table(levels=levels, k=k, **rows))
        return joined(*found)

    def monte_carlo(self, family: Statistics, episodes: int = 1000, repeats: int = 10) -> Table:
        """What 1,000 rollouts from each state, the paper's ground truth, know of the statistics, on
        average.
        """
        length, distance, state = map(list, zip(*self.places((LONGEST,)), strict=True))
        samples = []
        for repeat, x in product(range(repeats), state):
            samples.append(rollouts(self.mdp, FORWARD, episodes, seed=repeat, state=x).atoms)
        atoms = np.stack(samples).reshape(repeats, len(state), -1)
        values = np.asarray(family.evaluate(Particles(atoms)))
        error = np.abs(values - self.true_values(family)[state]).mean(axis=(0, -1))
        return table(k=family.size, length=length, distance=distance, error=_rounded(error))


def side_by_side(
    lengths: Sequence[int], goal: Reward = 1.0, reward_atoms: int = 64
) -> tuple[MDP, dict[int, int]]:
    """The chains of `problems.n_chain` under the action forward, as one MDP; and the first state of
    each.
    """
    ends = np.cumsum(lengths)
    start = dict(zip(lengths, (ends - np.asarray(lengths)).tolist(), strict=True))
    first = np.repeat(list(start.values()), lengths)
    last = np.repeat(ends - 1, lengths)

    def step(x: int, _: int) -> list[tuple[float, int, Reward]]:
        if x == last[x]:
            return []
        return [(0.95, x + 1, goal if x + 1 == last[x] else 0.0), (0.05, int(first[x]), -1.0)]

    mdp = MDP.from_function(step, int(ends[-1]), 1, 0.99, start=0, reward_atoms=reward_atoms)
    return mdp, start


def padded_chain(length: int, goal: Reward = 1.0, reward_atoms: int = 64) -> MDP:
    """One chain under the action forward, with states that are never reached: as large as the
    longest one, so that nothing is compiled twice, and small, because temporal differences copy the
    values of all states at every step."""

    def step(x: int, _: int) -> list[tuple[float, int, Reward]]:
        if x >= length - 1:
            return []
        return [(0.95, x + 1, goal if x + 1 == length - 1 else 0.0), (0.05, 0, -1.0)]

    return MDP.from_function(step, LONGEST, 1, 0.99, start=0, reward_atoms=reward_atoms)


def _rounded(numbers: Sequence[float] | np.ndarray) -> list[float]:
    """Six digits, which keeps the tables small."""
    return [float(f"{number:.6g}") for number in np.asarray(numbers).tolist()]


def measure_methods(
    chains: Chains, methods: Sequence[Method], levels: Sequence[str], advance: Advance
) -> Table:
    """The rows of all methods at all levels."""
    jobs = [(method, one, k) for one in levels for method in methods for k in method.ks]
    rows = []
    for number, (method, one, k) in enumerate(jobs):
        advance(number / len(jobs), f"{method.name}, K = {k}, levels {one}")
        rows.append(chains.rows(method, one, k))
    return joined(*rows)


def interval(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over seeds (the first axis) and the half width of its 95 % interval by Student's t; NaN
    for one seed.
    """
    mean, count = samples.mean(axis=0), len(samples)
    if count == 1:
        return mean, np.full_like(mean, np.nan)
    return mean, stats.t.ppf(0.975, count - 1) * samples.std(axis=0, ddof=1) / np.sqrt(count)


AXES = {
    "length": "chain length N, at its start",
    "distance": f"steps to the goal in the {LONGEST}-chain",
}


def along(rows: Table, column: str, axis: str, **where: object) -> tuple[np.ndarray, np.ndarray]:
    """A column as [seeds, places] and the lengths or distances: over the starts of all chains, or
    over one chain.
    """
    found = select(rows, **where)
    fits = found["length"] == LONGEST
    if axis == "length":
        fits = found["distance"] == found["length"] - 1
    found = {name: entries[fits] for name, entries in found.items()}
    places = np.unique(found[axis])
    order = np.lexsort((found[axis], found["seed"]))
    return found[column][order].reshape(-1, len(places)), places


def at_start(rows: Table, column: str, **where: object) -> float:
    """The mean over seeds at the start of the longest chain."""
    return float(select(rows, length=LONGEST, distance=LONGEST - 1, **where)[column].mean())


def plot_errors(
    axes: Axes, rows: Table, column: str, axis: str, mode: str, algorithm: str, **where: object
) -> None:
    """Lines over lengths or distances, darker for larger K, with intervals over seeds."""
    chosen = {"mode": mode, "algorithm": algorithm, **where}
    everything = np.unique(np.asarray(rows["k"])).tolist()
    shades = style.shades(style.COLOURS[algorithm], len(everything))
    colours = dict(zip(everything, shades, strict=True))
    for k in np.unique(select(rows, **chosen)["k"]).tolist():
        samples, places = along(rows, column, axis, k=k, **chosen)
        mean, half = interval(samples)
        axes.plot(places, mean, marker=style.MARKERS[algorithm], color=colours[k], label=f"K = {k}")
        style.band(axes, places, mean - half, mean + half, colours[k])
    axes.set_xticks([1, 4, 7, 10, 14] if axis == "distance" else [2, 5, 8, 11, 15])


def plot_rollouts(axes: Axes, known: Table) -> None:
    """How far 1,000 rollouts are off the truth, over distances."""
    grey = style.COLOURS["Monte Carlo"]
    axes.plot(known["distance"], known["error"], ":", color=grey, label="1,000 rollouts")


def learnt_ks(rows: Table, **where: object) -> list[int]:
    """For which K > 1 there are such rows."""
    return [k for k in np.unique(select(rows, **where)["k"]).tolist() if k > 1]


def cells(rows: Table, column: str, ks: Sequence[int], **where: object) -> np.ndarray:
    """A column as [K, seeds, cells]: all starts of chains, then all states of the longest one."""
    found = []
    for k in ks:
        parts = [along(rows, column, axis, k=k, **where)[0] for axis in AXES]
        found.append(np.concatenate(parts, axis=-1))
    return np.stack(found)


def least_growth(values: np.ndarray, axis: int) -> float:
    """The least ratio of a mean over seeds to the one before it, along an axis of [K, seeds,
    cells].
    """
    mean = values.mean(axis=1, keepdims=True)
    before, after = np.delete(mean, -1, axis), np.delete(mean, 0, axis)
    return float((after / before).min())


def significant_falls(values: np.ndarray, axis: int) -> tuple[int, int]:
    """In how many steps along an axis of [K, seeds, cells] the mean falls by more than the step's
    95 % interval, and how many steps there are. Seeds are independent runs, so their spreads add
    up."""
    before, after = np.delete(values, -1, axis), np.delete(values, 0, axis)
    count = values.shape[1]
    variance = (before.var(axis=1, ddof=1) + after.var(axis=1, ddof=1)) / count
    half = stats.t.ppf(0.975, 2 * count - 2) * np.sqrt(variance)
    falls = before.mean(axis=1) - after.mean(axis=1) > half
    return int(falls.sum()), int(falls.size)


def listed(numbers: Sequence[float] | np.ndarray, ks: Sequence[int], unit: str = "") -> str:
    """Numbers for a claim, with the K that each is for."""
    values = ", ".join(f"{number:.3g}{unit}" for number in numbers)
    return f"{values} for K = {', '.join(str(k) for k in ks)}"
