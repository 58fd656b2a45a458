"""Which CDF levels? Every rule of exact expectile imputation, on many MDPs, against the true returns."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from edrl import Expectiles, Mean, Particles, midpoints
from edrl.core.imputation.exact_expectiles import ExactExpectiles, Levels
from edrl.experiments.experiment import Advance, Claim, Drawing, Experiment, Table, Tables, joined, select, table
from edrl.report import style
from edrl.tabular import MDP, control, evaluate, return_distributions
from edrl.tabular.constructors import Reward
from edrl.tabular.laws import Normal, Uniform
from edrl.tabular.problems import garnet, n_chain

RULES: tuple[str, ...] = get_args(Levels)
BASE = "midpoint"
GROUPS = ("Garnet", "N-chain", "FrozenLake", "CliffWalking", "Taxi")
EVERY = "all groups"
POLICIES = ("uniform", "greedy")
EPSILON = 0.2
_COLOURS = dict(zip(RULES, ("#000000", "#E69F00", "#CC79A7", "#56B4E9", "#009E73"), strict=True))
_MARKERS = dict(zip(RULES, "osD^v", strict=True))
_TOLERANCE, _SWEEPS = 1e-6, 800  # of dynamic programming; rewards are at most 1
_RESAMPLES = 2000

Levelled = Callable[[str], Expectiles]
"""From a rule to the expectiles that are imputed by it."""


@dataclass(frozen=True)
class Problem:
    """An MDP whose rewards are at most 1, which changes no relative error."""

    group: str
    name: str
    mdp: MDP


@dataclass(frozen=True)
class Batch:
    """Problems with one discount factor and policy, solved at once as one MDP: their direct sum."""

    problems: Sequence[Problem]
    gamma: float
    policy: str
    ks: Sequence[str]

    def rows(self) -> Iterator[Table]:
        """One row for each problem, number of expectiles, and rule."""
        whole = direct_sum([problem.mdp for problem in self.problems])
        greedy = self.policy == "greedy"
        policy = control(whole, Mean(), epsilon=EPSILON).policy if greedy else self.policy
        truth = return_distributions(whole, policy, atoms=256)
        spread = np.asarray(truth.particles.std())
        for k in self.ks:
            true_values = np.asarray(truth.values(FAMILIES[k](BASE)))
            low, high = truth.bracket(FAMILIES[k](BASE))
            for rule in RULES:
                family = FAMILIES[k](rule)
                options: dict[str, Any] = {"tolerance": _TOLERANCE, "max_iterations": _SWEEPS, "initial": true_values}
                solution = evaluate(whole, policy, family, **options)
                error = np.abs(solution.values - true_values).mean(axis=-1)
                yield table(
                    group=[problem.group for problem in self.problems],
                    problem=[problem.name for problem in self.problems],
                    gamma=self.gamma,
                    policy=self.policy,
                    k=k,
                    rule=rule,
                    error=self._relative(error, spread),
                    uncertainty=self._relative((high - low).mean(axis=-1) / 2, spread),
                    settled=bool(solution.converged),
                )

    def _relative(self, errors: np.ndarray, spread: np.ndarray) -> list[float]:
        """Errors over standard deviations, each averaged over the pairs of a problem."""
        ends = np.cumsum([problem.mdp.num_states for problem in self.problems])
        parts = (np.split(part, ends[:-1]) for part in (errors, spread))
        actions = [problem.mdp.num_actions for problem in self.problems]
        return [float(e[:, :a].mean() / s[:, :a].mean()) for e, s, a in zip(*parts, actions, strict=True)]


def direct_sum(mdps: Sequence[MDP]) -> MDP:
    """The MDP that consists of all `mdps` side by side; where it has too many actions, they are repeated."""
    actions = max(mdp.num_actions for mdp in mdps)
    branches = max(mdp.probs.shape[-1] for mdp in mdps)
    atoms = max(mdp.rewards.size for mdp in mdps)
    successors, probs, places, weights, terminal = [], [], [], [], []
    states = 0
    for mdp in mdps:
        again = np.arange(actions) % mdp.num_actions
        more = [(0, 0), (0, 0), (0, branches - mdp.probs.shape[-1])]
        reward_size = [*more, (0, atoms - mdp.rewards.size)]
        weight = np.pad(mdp.rewards.probs[:, again], reward_size)
        weight[..., 0] += weight.sum(axis=-1) == 0  # of branches that are never taken
        successors.append(states + np.pad(mdp.successors[:, again], more))
        probs.append(np.pad(mdp.probs[:, again], more))
        places.append(np.pad(mdp.rewards.atoms[:, again], reward_size))
        weights.append(weight)
        terminal.append(mdp.terminal)
        states += mdp.num_states
    rewards = Particles(np.concatenate(places), np.concatenate(weights))
    arrays = np.concatenate(successors), np.concatenate(probs), rewards
    return MDP.from_arrays(*arrays, mdps[0].gamma, terminal=np.concatenate(terminal))


def _problem(group: str, name: str, mdp: MDP) -> Problem:
    scale = np.abs(mdp.rewards.atoms).max()
    rewards = Particles(mdp.rewards.atoms / scale, mdp.rewards.probs)
    return Problem(group, name, MDP.from_arrays(mdp.successors, mdp.probs, rewards, mdp.gamma, terminal=mdp.terminal))


def _garnets(seeds: range, gamma: float) -> list[Problem]:
    return [_problem("Garnet", f"seed {seed}", garnet(seed, 10, 2, 3, gamma)) for seed in seeds]


def _chains(gamma: float, *lengths: int, goal: str = "1") -> list[Problem]:
    laws: dict[str, Reward] = {"1": 1.0, "uniform": Uniform(-1.0, 1.0), "Gaussian": Normal(0.0, 1.0)}
    chains = {length: n_chain(length, laws[goal], gamma, reward_atoms=8) for length in lengths}
    return [_problem("N-chain", f"{length}-chain, goal {goal}", mdp) for length, mdp in chains.items()]


def _worlds(gamma: float, *names: str) -> list[Problem]:
    """Gymnasium's, of the given names."""
    import gymnasium

    makers: dict[str, Callable[[], Any]] = {
        "FrozenLake 4x4": lambda: gymnasium.make("FrozenLake-v1"),
        "FrozenLake 8x8": lambda: gymnasium.make("FrozenLake8x8-v1"),
        "CliffWalking": lambda: gymnasium.make("CliffWalking-v1"),
        "CliffWalking slippery": lambda: gymnasium.make("CliffWalking-v1", is_slippery=True),
        "Taxi": lambda: gymnasium.make("Taxi-v4"),
    }
    return [_problem(name.split()[0], name, MDP.from_gymnasium(makers[name](), gamma)) for name in names]


def _exact(taus: Any) -> Levelled:
    return lambda rule: Expectiles(taus, impute=ExactExpectiles(rule))  # type: ignore[arg-type]


FAMILIES: dict[str, Levelled] = {
    "3": _exact(3),
    "5": _exact(5),
    "11": _exact(11),
    "9 midpoints": _exact(midpoints(9)),
}


def _batches(full: bool) -> Iterator[Batch]:
    """What is measured. No Garnet comes twice."""
    few, every = ("5", "11"), tuple(FAMILIES)
    small, large = ("FrozenLake 4x4", "CliffWalking"), ("FrozenLake 8x8", "CliffWalking slippery")
    if not full:
        for g, policy, seeds in ((0.9, "uniform", range(8)), (0.9, "greedy", range(8, 16))):
            yield Batch([*_garnets(seeds, g), *_chains(g, 15), *_worlds(g, *small)], g, policy, ("11",))
        return
    for number, (g, policy) in enumerate(itertools.product((0.9, 0.7, 0.97), POLICIES)):
        seeds, ks = range(40 * number, 40 * (number + 1)), every if g == 0.9 else few
        yield Batch([*_garnets(seeds, g), *_chains(g, 5, 8, 11, 15, 20)], g, policy, ks)
        yield Batch(_worlds(g, *small, *large), g, policy, ks)
        if g == 0.9:
            yield Batch(_worlds(g, "Taxi"), g, policy, few)
        if g == 0.97:
            continuous = [chain for goal in ("uniform", "Gaussian") for chain in _chains(g, 8, 15, goal=goal)]
            yield Batch(continuous, g, policy, few)


def measure(full: bool, advance: Advance) -> Tables:
    batches = list(_batches(full))
    rows = []
    for number, batch in enumerate(batches):
        advance(number / len(batches), f"γ = {batch.gamma}, {batch.policy} policy")
        steps = len(batch.ks) * len(RULES)
        for step, found in enumerate(batch.rows(), 1):
            rows.append(found)
            advance((number + step / steps) / len(batches), f"γ = {batch.gamma}, {batch.policy} policy")
    errors = joined(*rows)
    return {"errors": errors, "ratios": ratios(errors)}


def ratios(errors: Table) -> Table:
    """Each rule's error over the base rule's: geometric means over settings, with bootstrapped 95 % intervals.

    A setting is a problem with a discount factor and a policy. Ratios are paired by setting and number of
    expectiles; those of one setting count as one. Groups count the same in the mean over all of them.
    Ratios that the truth's own uncertainty could change by a tenth are left out.
    """
    cells: dict[tuple[str, str], dict[Any, list[float]]] = {}
    found: dict[Any, dict[str, tuple[float, float]]] = {}
    for group, problem, gamma, policy, k, rule, error, unsure in zip(
        *(errors[c] for c in ("group", "problem", "gamma", "policy", "k", "rule", "error", "uncertainty")), strict=True
    ):
        found.setdefault((group, (problem, gamma, policy), k), {})[rule] = error, unsure
    for (group, setting, _), by_rule in found.items():
        for rule, (error, unsure) in by_rule.items():
            if 10 * unsure < min(error, by_rule[BASE][0]):
                log = float(np.log(error / by_rule[BASE][0]))
                cells.setdefault((rule, group), {}).setdefault(setting, []).append(log)
    rng = np.random.default_rng(0)
    rows = []
    for rule in RULES:
        by_group = {group: np.array([np.mean(many) for many in cells[rule, group].values()])
                    for group in GROUPS if (rule, group) in cells}  # fmt: skip
        resampled = {
            group: logs[rng.integers(0, len(logs), (_RESAMPLES, len(logs)))].mean(axis=-1)
            for group, logs in by_group.items()
        }
        rows += [_ratio(rule, group, logs.mean(), resampled[group], logs) for group, logs in by_group.items()]
        mean, means = np.mean([logs.mean() for logs in by_group.values()]), np.mean(list(resampled.values()), axis=0)
        rows.append(_ratio(rule, EVERY, mean, means, np.concatenate(list(by_group.values()))))
    return joined(*rows)


def _ratio(rule: str, group: str, mean: Any, resampled: np.ndarray, logs: np.ndarray) -> Table:
    low, high = np.exp(np.quantile(resampled, [0.025, 0.975]))
    return table(
        rule=rule, group=group, ratio=float(np.exp(mean)), low=low, high=high, settings=len(logs),
        won=float((logs < 0).mean()),
    )  # fmt: skip


def draw(tables: Tables) -> list[Drawing]:
    return [_draw_ratios(tables["ratios"]), _draw_errors(tables["errors"])]


def _draw_ratios(rows: Table) -> Drawing:
    groups = [group for group in (*GROUPS, EVERY) if group in rows["group"]]
    figure, axes = style.axes(width=8, height=1.2 + 0.62 * len(groups))
    rules = [rule for rule in RULES if rule != BASE]
    for i, rule in enumerate(rules):
        mine = [select(rows, rule=rule, group=group) for group in groups]
        ratio, low, high = (np.array([row[name][0] for row in mine]) for name in ("ratio", "low", "high"))
        places = np.arange(len(groups)) + 0.16 * (i - (len(rules) - 1) / 2)
        axes.errorbar(ratio, places, xerr=[ratio - low, high - ratio], fmt=_MARKERS[rule], color=_COLOURS[rule],
                      label=rule, capsize=2, linewidth=1.2)  # fmt: skip
    axes.axvline(1, color=_COLOURS[BASE], linewidth=1, label=BASE)
    counts = [select(rows, rule=BASE, group=group)["settings"][0] for group in groups]
    axes.set_yticks(range(len(groups)), [f"{group} ({count})" for group, count in zip(groups, counts, strict=True)])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(f"error / error of {BASE} (geometric mean, 95 % interval over settings); left is better")
    figure.legend(loc="outside upper center", ncols=len(RULES))
    caption = (
        "Error of the learnt expectiles under each rule, relative to the midpoint rule; in brackets the number of"
        " settings, each a problem with a discount factor and a policy. Where the mark of a rule lies left of the"
        " line, the rule is better than the midpoint."
    )
    return Drawing("levels-ratios", figure, caption)


def _draw_errors(rows: Table) -> Drawing:
    groups = [group for group in GROUPS if group in rows["group"]]
    figure, grid = style.axes(1, len(groups), width=1.2 + 1.9 * len(groups), height=3.2, sharey=True)
    for axes, group in zip(grid, groups, strict=True):
        ks = [k for k in FAMILIES if k in map(str, select(rows, group=group)["k"])]
        for rule in RULES:
            mine = select(rows, group=group, rule=rule)
            names = mine["k"].astype(str)
            means = [np.exp(np.log(np.maximum(mine["error"][names == k], 1e-12)).mean()) for k in ks]
            even = sum(" " not in k for k in ks)
            axes.plot(ks, means, _MARKERS[rule], color=_COLOURS[rule], label=rule)
            axes.plot(ks[:even], means[:even], color=_COLOURS[rule])
        axes.set_title(group)
        axes.set_yscale("log")
        axes.set_xticks(range(len(ks)), [k.replace(" ", "\n") for k in ks])
        axes.margins(x=0.15)
    grid[len(groups) // 2].set_xlabel("number of expectiles K")
    grid[0].set_ylabel("error / standard deviation\n(geometric mean)")
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(RULES))
    caption = (
        "Mean absolute error of the learnt expectiles in units of the return's standard deviation. Levels tau are"
        " evenly spaced from 0.01 to 0.99, or the midpoints (2k - 1)/2K."
    )
    return Drawing("levels-errors", figure, caption)


def judge(tables: Tables) -> list[Claim]:
    rows = tables["ratios"]
    default = ExactExpectiles().levels
    overall = {rule: select(rows, rule=rule, group=EVERY) for rule in RULES}
    groups = [group for group in GROUPS if group in rows["group"]]
    mine = [select(rows, rule=default, group=group)["ratio"][0] for group in groups]
    rivals = {rule: row for rule, row in overall.items() if rule != default}
    ahead = [rule for rule, row in rivals.items() if row["high"][0] < overall[default]["low"][0]]
    best = min(rivals, key=lambda rule: float(rivals[rule]["ratio"][0]))
    errors = tables["errors"]
    unsettled = {rule: 1 - select(errors, rule=rule)["settled"].mean() for rule in RULES}
    return [
        Claim(
            "beyond-levels-default", "edrl", f"No rule is better than the default, {default}, beyond its uncertainty",
            f"{_interval(overall[default])} of {BASE}'s error; next {best}: {_interval(rivals[best])}",
            "no interval below the default's", not ahead,
        ),
        Claim(
            "beyond-levels-groups", "edrl", f"The default, {default}, is no worse than {BASE} in any group of problems",
            ", ".join(f"{group} {ratio:.2f}×" for group, ratio in zip(groups, mine, strict=True)),
            "each at most 1×", bool(max(mine) <= 1),
        ),
        Claim(
            "beyond-levels-settles", "edrl", f"Dynamic programming settles under the default, {default}",
            f"all but {unsettled[default]:.1%}; worst rule all but {max(unsettled.values()):.1%}",
            "always", bool(unsettled[default] == 0),
        ),
    ]  # fmt: skip


def _interval(row: dict[str, np.ndarray]) -> str:
    return f"{row['ratio'][0]:.2f}× [{row['low'][0]:.2f}, {row['high'][0]:.2f}]"


EXPERIMENT = Experiment(
    "levels",
    "Which CDF levels?",
    "Section 3.3",
    "beyond",
    "Exact imputation is free to choose the CDF level at every knot between two chord slopes, and whether the"
    " mass in a gap is one atom or two. Expectiles are learnt by dynamic programming under every rule, with K = 11"
    " levels evenly spaced from 0.01 to 0.99, for γ = 0.9 with the uniform policy and with the"
    f" {EPSILON}-greedy policy. Problems: 16 Garnet MDPs of 10 states, 2 actions and 3 successors, the 15-chain,"
    " FrozenLake 4x4 and CliffWalking. Full size: 240 Garnets, chains of 5 to 20 states and with uniform and"
    " Gaussian goals, also FrozenLake 8x8, slippery CliffWalking and Taxi; γ = 0.7, 0.9 and 0.97 with both"
    " policies; also K = 5, and for γ = 0.9 K = 3 and the 9 midpoints. The error is that of Definition 4.5,"
    " averaged over the pairs of a problem and divided by the average standard deviation of their returns. The"
    " truth is computed between rigorous bounds; errors less than ten times its uncertainty are left out.",
    measure,
    draw,
    judge,
    (47.0, 800.0),
)
