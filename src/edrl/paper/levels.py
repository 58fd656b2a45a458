"""Which CDF levels? Every rule of exact expectile imputation, on many MDPs, against the true
returns.

The default was chosen on other problems: Garnets of 10 states, 2 actions and 3 successors (seeds 0
to 239), chains of 5, 8, 11, 15 and 20 states, Gymnasium's own FrozenLake, CliffWalking and Taxi.
None of those is here.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from edrl import Expectiles, Mean, midpoints
from edrl.core.families import ExactExpectiles
from edrl.core.imputation.exact_expectiles import Rule
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
from edrl.paper.level_problems import (
    Problem,
    chains,
    direct_sum,
    garnets,
    lakes,
    rivers,
    taxi,
)
from edrl.paper.thresholds import judged
from edrl.report import style
from edrl.study.tables import rows_of
from edrl.tabular import control, evaluate, return_distributions
from edrl.tabular.mdp import MDP
from edrl.tabular.policy import PolicyLike

RULES: tuple[Rule, ...] = get_args(Rule)
DEFAULT: Rule = ExactExpectiles().rule
RIVALS = tuple(rule for rule in RULES if rule != DEFAULT)
GROUPS = ("Garnet", "N-chain", "FrozenLake", "RiverSwim", "Taxi")
EVERY = "all groups"
POLICIES = ("uniform", "greedy")
EPSILON = 0.2
_COLOURS: dict[str, str] = dict(
    zip(RULES, ("#000000", "#E69F00", "#56B4E9", "#009E73"), strict=True)
)
_MARKERS: dict[str, str] = dict(zip(RULES, "os^v", strict=True))
_TOLERANCE, _SWEEPS = 1e-7, 1000  # of dynamic programming; rewards are at most 1
_SETTLED = 1e-6  # the change in one more sweep up to which a problem counts as settled
_KNOWN = 10  # an error counts as at least so many times the uncertainty of the truth
_RESAMPLES = 2000

Levelled = Callable[[Rule], Expectiles]
"""From a rule to the expectiles that are imputed by it."""


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
        policy = self._policy(whole)
        truth = return_distributions(whole, policy, atoms=192)
        spread = np.asarray(truth.particles.std())
        for k in self.ks:
            plain = FAMILIES[k](DEFAULT)  # true statistics are the same under every rule
            true_values = np.asarray(truth.values(plain))
            low, high = truth.bracket(plain)
            for rule in RULES:
                values, change = _learnt(whole, policy, FAMILIES[k](rule))
                error = np.abs(values - true_values).mean(axis=-1)
                yield table(
                    group=[problem.group for problem in self.problems],
                    problem=[problem.name for problem in self.problems],
                    gamma=self.gamma,
                    policy=self.policy,
                    k=k,
                    rule=rule,
                    error=self._relative(error, spread),
                    uncertainty=self._relative((high - low).mean(axis=-1) / 2, spread),
                    change=[float(one.max()) for one in self._split(change)],
                )

    def _policy(self, mdp: MDP) -> PolicyLike:
        if self.policy == "greedy":
            return control(mdp, Mean(), epsilon=EPSILON).policy
        return self.policy

    def _split(self, entries: np.ndarray) -> list[np.ndarray]:
        """Entries [S, A, ...] of the whole, problem by problem, without the actions that are
        repeated.
        """
        ends = np.cumsum([problem.mdp.num_states for problem in self.problems])
        parts = zip(np.split(entries, ends[:-1]), self.problems, strict=True)
        return [part[:, : problem.mdp.num_actions] for part, problem in parts]

    def _relative(self, errors: np.ndarray, spread: np.ndarray) -> list[float]:
        """Errors over standard deviations, each averaged over the pairs of a problem."""
        pairs = zip(self._split(errors), self._split(spread), strict=True)
        return [float(error.mean() / deviation.mean()) for error, deviation in pairs]


def _learnt(mdp: MDP, policy: PolicyLike, family: Expectiles) -> tuple[np.ndarray, np.ndarray]:
    """What dynamic programming ends with, and how much one more sweep changes."""
    values = evaluate(mdp, policy, family, tolerance=_TOLERANCE, max_iterations=_SWEEPS).values
    again = evaluate(mdp, policy, family, max_iterations=1, initial=values).values
    return values, np.abs(again - values)


_Setting = tuple[str, float, str]  # a problem, a discount factor and a policy


def _exact(taus: int | Sequence[float] | np.ndarray) -> Levelled:
    return lambda rule: Expectiles(taus, imputation=ExactExpectiles(rule))


FAMILIES: dict[str, Levelled] = {
    "3": _exact(3),
    "5": _exact(5),
    "11": _exact(11),
    "9 midpoints": _exact(midpoints(9)),
}


def _batches(full: bool) -> Iterator[Batch]:
    """What is measured. No Garnet and no map comes twice."""
    return _many_batches() if full else _few_batches()


def _few_batches() -> Iterator[Batch]:
    for number, (g, policy, maps) in enumerate(((0.8, "uniform", (0, 1)), (0.9, "greedy", (4, 5)))):
        seeds = range(1000 + 3 * number, 1003 + 3 * number)
        problems = [*garnets("small", seeds, g), *garnets("sparse", seeds, g)]
        problems += [*chains(g, 6, 13), *rivers(g, 6, 9), *lakes(g, 4, maps)]
        yield Batch(problems, g, policy, ("11",))


def _many_batches() -> Iterator[Batch]:
    few, every = ("5", "11"), tuple(FAMILIES)
    for number, (g, policy) in enumerate(itertools.product((0.9, 0.8, 0.95), POLICIES)):
        seeds, maps = range(1000 + 8 * number, 1008 + 8 * number), range(4 * number, 4 * number + 4)
        ks = every if g == 0.9 else few
        problems = [*garnets("small", seeds, g), *garnets("sparse", seeds, g)]
        problems += [*garnets("large", seeds, g), *chains(g, 4, 6, 9, 13, 25), *rivers(g, 6, 9, 12)]
        yield Batch(problems, g, policy, ks)
        yield Batch([*lakes(g, 5, maps), *lakes(g, 6, maps)], g, policy, ks)
        goals = [*chains(g, 6, 13, goal="uniform"), *chains(g, 6, 13, goal="exponential")]
        yield Batch([*garnets("random rewards", seeds, g), *goals], g, policy, few)
        if g == 0.9:
            yield Batch([taxi(g)], g, policy, ("11",))


def measure(full: bool, advance: Advance) -> Tables:
    batches = list(_batches(full))
    rows = []
    for number, batch in enumerate(batches):
        note = f"γ = {batch.gamma}, {batch.policy} policy"
        advance(number / len(batches), note)
        steps = len(batch.ks) * len(RULES)
        for step, found in enumerate(batch.rows(), 1):
            rows.append(found)
            advance((number + step / steps) / len(batches), note)
    errors = joined(*rows)
    return {"errors": errors, "ratios": ratios(errors)}


def ratios(errors: Table) -> Table:
    """Each rule's error over the default's: geometric means over settings, with bootstrapped 95 %
    intervals.

    A setting is a problem with a discount factor and a policy. Ratios are paired by setting and
    number of expectiles; those of one setting count as one. Groups count the same in the mean over
    all of them. Errors that the truth's own uncertainty could change by more than a tenth count as
    ten times that, which brings ratios nearer to 1.
    """
    logs = _log_ratios(errors)
    rng = np.random.default_rng(0)
    rows = []
    for rule in RULES:
        by_group = {group: logs[rule, group] for group in GROUPS if (rule, group) in logs}
        resampled = {group: _resampled_means(rng, own) for group, own in by_group.items()}
        for group, own in by_group.items():
            rows.append(_ratio(rule, group, own.mean(), resampled[group], len(own)))
        mean = np.mean([own.mean() for own in by_group.values()])
        means = np.mean(list(resampled.values()), axis=0)
        settings = sum(map(len, by_group.values()))
        rows.append(_ratio(rule, EVERY, mean, means, settings))
    return joined(*rows)


def _log_ratios(errors: Table) -> dict[tuple[str, str], np.ndarray]:
    """For each rule and group: the logarithms of its ratios, one for each setting."""
    paired: dict[tuple[str, _Setting, int], dict[str, float]] = defaultdict(dict)
    for row in rows_of(errors):
        setting = (row["problem"], row["gamma"], row["policy"])
        known = max(row["error"], _KNOWN * row["uncertainty"])
        paired[row["group"], setting, row["k"]][row["rule"]] = known
    logs: dict[tuple[str, str], dict[_Setting, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for (group, setting, _), by_rule in paired.items():
        for rule, error in by_rule.items():
            logs[rule, group][setting].append(float(np.log(error / by_rule[DEFAULT])))
    return {key: np.array([np.mean(one) for one in own.values()]) for key, own in logs.items()}


def _resampled_means(rng: np.random.Generator, logs: np.ndarray) -> np.ndarray:
    return np.asarray(logs[rng.integers(0, len(logs), (_RESAMPLES, len(logs)))].mean(axis=-1))


def _ratio(
    rule: str, group: str, mean: float | np.floating, resampled: np.ndarray, settings: int
) -> Table:
    low, high = np.exp(np.quantile(resampled, [0.025, 0.975]))
    ratio = float(np.exp(mean))
    return table(rule=rule, group=group, ratio=ratio, low=low, high=high, settings=settings)


def draw(tables: Tables) -> list[Drawing]:
    return [_draw_ratios(tables["ratios"]), _draw_errors(tables["errors"])]


def _draw_ratios(rows: Table) -> Drawing:
    default = select(rows, rule=DEFAULT)  # every rule has the same groups, in the same order
    groups, counts = default["group"], default["settings"]
    figure, axes = style.axes(width=8, height=1.2 + 0.62 * len(groups))
    for i, rule in enumerate(RIVALS):
        mine = select(rows, rule=rule)
        spread = [mine["ratio"] - mine["low"], mine["high"] - mine["ratio"]]
        places = np.arange(len(groups)) + 0.16 * (i - (len(RIVALS) - 1) / 2)
        axes.errorbar(mine["ratio"], places, xerr=spread, fmt=_MARKERS[rule], color=_COLOURS[rule],
                      label=rule, capsize=2, linewidth=1.2)  # fmt: skip
    axes.axvline(1, color=_COLOURS[DEFAULT], linewidth=1.6, label=f"{DEFAULT}, the default")
    names = [f"{group} ({count})" for group, count in zip(groups, counts, strict=True)]
    axes.set_yticks(range(len(groups)), names)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(
        f"error / error of {DEFAULT} (geometric mean, 95 % interval over settings); left is better"
    )
    figure.legend(loc="outside upper center", ncols=len(RULES))
    caption = (
        "Error of the learnt expectiles under each rule, relative to the default's; in brackets the number of"
        " settings, each a problem with a discount factor and a policy. Where the mark of a rule lies right of the"
        " line, the default is better. The default was not chosen on these problems."
    )
    return Drawing("levels-ratios", figure, caption)


def _groups(rows: Table) -> list[str]:
    """The groups that there are problems of."""
    return [group for group in GROUPS if group in rows["group"]]


def _draw_errors(rows: Table) -> Drawing:
    groups = _groups(rows)
    figure, grid = style.axes(
        1, len(groups), width=1.2 + 1.9 * len(groups), height=3.2, sharey=True
    )
    for axes, group in zip(grid, groups, strict=True):
        _draw_group(axes, select(rows, group=group))
        axes.set_title(group)
        axes.margins(x=0.15)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    figure.supxlabel("number of expectiles K", fontsize=10)
    grid[0].set_ylabel("error / standard deviation\n(geometric mean)")
    figure.legend(
        *grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(RULES)
    )
    caption = (
        "Mean absolute error of the learnt expectiles in units of the return's standard deviation. Levels tau are"
        " evenly spaced from 0.01 to 0.99, or the midpoints (2k - 1)/2K."
    )
    return Drawing("levels-errors", figure, caption)


def _draw_group(axes: Axes, rows: Columns) -> None:
    """The errors of each rule over K; levels that are evenly spaced are joined by lines."""
    names = rows["k"].astype(str)
    ks = [k for k in FAMILIES if k in names]
    even = sum(" " not in k for k in ks)
    for rule in RULES:
        means = [_geometric_mean(rows["error"][(names == k) & (rows["rule"] == rule)]) for k in ks]
        axes.plot(ks, means, _MARKERS[rule], color=_COLOURS[rule], label=rule)
        axes.plot(ks[:even], means[:even], color=_COLOURS[rule])
    axes.set_yscale("log")
    axes.set_xticks(range(len(ks)), [k.replace(" ", "\n") for k in ks])


def _geometric_mean(errors: np.ndarray) -> float:
    return float(np.exp(np.log(np.maximum(errors, 1e-12)).mean()))


def judge(tables: Tables) -> list[Claim]:
    rows = tables["ratios"]
    return [_judge_default(rows), _judge_groups(rows), _judge_settling(tables["errors"])]


def _judge_default(rows: Table) -> Claim:
    rivals = {rule: select(rows, rule=rule, group=EVERY) for rule in RIVALS}
    listed = [f"{rule} {_interval(row)}" for rule, row in rivals.items()]
    return judged(
        "beyond-levels-default", "edrl",
        f"On MDPs that it was not chosen on, the default rule, {DEFAULT}, has the least error",
        "times the default's error: " + ", ".join(listed),
        {
            "the next best rule's error, times the default's": min(row["ratio"][0] for row in rivals.values()),
            "lower end of its 95 % interval": min(row["low"][0] for row in rivals.values()),
        },
    )  # fmt: skip


def _judge_groups(rows: Table) -> Claim:
    middle = {}
    for group in _groups(rows):
        middle[group] = 1 / float(select(rows, rule="midpoint", group=group)["ratio"][0])
    listed = [f"{group} {ratio:.2f}×" for group, ratio in middle.items()]
    return judged(
        "beyond-levels-groups", "edrl",
        f"The default, {DEFAULT}, is no worse than the midpoint rule in any group of these problems",
        "times midpoint's error: " + ", ".join(listed),
        {"worst group": max(middle.values())},
    )  # fmt: skip


def _judge_settling(errors: Table) -> Claim:
    change = {rule: select(errors, rule=rule)["change"] for rule in RULES}
    settled = {rule: int((found <= _SETTLED).sum()) for rule, found in change.items()}
    return judged(
        "beyond-levels-settles", "edrl", f"From zero, dynamic programming settles under the default, {DEFAULT}",
        f"{settled[DEFAULT]} of {len(change[DEFAULT])} problems settle, largest change"
        f" {change[DEFAULT].max():.1e}; under the worst rule {min(settled.values())}",
        {"largest change of an expectile in one more sweep": change[DEFAULT].max()},
    )  # fmt: skip


def _interval(row: Columns) -> str:
    return f"{row['ratio'][0]:.2f}× [{row['low'][0]:.2f}, {row['high'][0]:.2f}]"


EXPERIMENT = Experiment(
    "levels",
    "Which CDF levels?",
    "Section 3.3",
    "beyond",
    "Exact imputation is free to choose the CDF level at every knot between two chord slopes, and whether the"
    " mass in a gap is one atom or two. Expectiles are learnt by dynamic programming from zero under every rule,"
    " with K = 11 levels evenly spaced from 0.01 to 0.99, for γ = 0.8 with the uniform policy and for γ = 0.9 with"
    f" the {EPSILON}-greedy policy. The default was chosen on Garnet MDPs of 10 states, 2 actions and 3 successors"
    " (seeds 0 to 239), chains of 5, 8, 11, 15 and 20 states, and Gymnasium's own FrozenLake, CliffWalking and"
    " Taxi. The problems here are others: 12 Garnets of two other shapes, chains of 6 and 13 states, RiverSwim of"
    " 6 and 9 states, and FrozenLake on 4 random maps. Full size: 192 Garnets of four other shapes, chains of 4 to 25"
    " states, also with uniform and exponential goals, RiverSwim of up to 12 states, 48 maps of FrozenLake, and Taxi"
    " in the rain; γ = 0.8, 0.9 and 0.95 with both policies; also K = 5, and for γ = 0.9 K = 3 and the 9 midpoints."
    " The error is that of Definition 4.5, averaged over the pairs of a problem and divided by the average standard"
    " deviation of their returns. The truth is computed between rigorous bounds; an error below ten times its"
    " uncertainty counts as that.",
    measure,
    draw,
    judge,
    (38.0, 1500.0),
)
