"""The runs of a study, compared: from their files to the numbers that a report shows.

A directory is a run if it holds a config.json and an evaluations.csv; runs may be missing.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from edrl.core.check import fail
from edrl.deep import environments
from edrl.deep.config import Config
from edrl.deep.environments import scores_of
from edrl.deep.variant import Variant
from edrl.study.identity import Record, labels_of, told_apart
from edrl.study.plan import PLAN, read_plan
from edrl.study.runs import RUNS, Key, PlannedRun, RunResult, read_run, read_runs

Score = TypeVar("Score", float, np.ndarray)


@dataclass(frozen=True)
class Scale:
    """What is 0 and what is 1 on a game's normalised scale."""

    zero: float
    one: float
    zero_is: str
    one_is: str

    @property
    def usable(self) -> bool:
        return self.one > self.zero

    def __call__(self, score: Score) -> Score:
        return (score - self.zero) / (self.one - self.zero)


RAW = Scale(0.0, 1.0, "a score of 0", "a score of 1")
"""The scale on which scores are as the game gives them."""


@dataclass(frozen=True)
class Study:
    """All runs of a report, and those that were planned."""

    runs: tuple[RunResult, ...]
    plans: tuple[PlannedRun, ...]
    variants: Mapping[Record, Variant]  # of all agents, in the order of tables

    @cached_property
    def labels(self) -> dict[Record, str]:
        """What each agent is called."""
        return labels_of(self.variants)

    @cached_property
    def planned(self) -> dict[Key, int]:
        """The runs that were planned, with their steps."""
        labels = self.labels
        return {(labels[plan.record], plan.env, plan.seed): plan.steps for plan in self.plans}

    @cached_property
    def agents(self) -> list[str]:
        """The labels of all agents, in the order of tables."""
        return list(dict.fromkeys(self.labels.values()))

    @cached_property
    def bases(self) -> dict[str, str]:
        """The base of each agent, by its label."""
        return {label: self.variants[record].base for record, label in self.labels.items()}

    @cached_property
    def played(self) -> list[str]:
        """The agents that have an evaluation."""
        evaluated = {run.agent for run in self.evaluated}
        return [agent for agent in self.agents if agent in evaluated]

    @cached_property
    def games(self) -> list[str]:
        return sorted({run.env for run in self.runs} | {env for _, env, _ in self.planned})

    @cached_property
    def seeds(self) -> list[int]:
        planned = {seed for _, _, seed in self.planned}
        return sorted({run.config.seed for run in self.runs} | planned)

    @cached_property
    def missing(self) -> list[Key]:
        """The runs that are planned and not there.

        Agents without a plan should have all games and seeds that any agent has.
        """
        unplanned = set(self.agents) - {agent for agent, _, _ in self.planned}
        grid = product(unplanned, self.games, self.seeds)
        absent = {*self.planned, *grid} - {run.key for run in self.runs}
        return sorted(absent, key=itemgetter(1, 0, 2))

    @cached_property
    def expected_seeds(self) -> dict[tuple[str, str], int]:
        """How many seeds (game, agent) should have: the planned ones, or as many as any has."""
        planned = Counter((env, agent) for agent, env, _ in self.planned)
        pairs = product(self.games, self.agents)
        return {pair: planned[pair] or len(self.seeds) for pair in pairs}

    @cached_property
    def unfinished(self) -> list[RunResult]:
        return [run for run in self.runs if not run.finished]

    @cached_property
    def evaluated(self) -> list[RunResult]:
        """The runs that have been evaluated at least once."""
        return [run for run in self.runs if len(run.scores)]

    @cached_property
    def counted(self) -> list[RunResult]:
        """The runs whose scores are compared: those that are finished, or all while no game has
        one of every agent."""
        finished = [run for run in self.evaluated if run.finished]
        return finished if _in_common(finished, self.played) else self.evaluated

    @cached_property
    def scales(self) -> dict[str, Scale]:
        """The scale of each game that has been evaluated."""
        return {env: _scale(env, self) for env in sorted({run.env for run in self.counted})}

    @cached_property
    def shared(self) -> list[str]:
        """The games that every agent has a run of that counts."""
        return _in_common(self.counted, self.played)

    @cached_property
    def common(self) -> list[str]:
        """The games that aggregates are over: all agents share them, and their scale has a
        length."""
        return [env for env in self.shared if self.scales[env].usable]

    @cached_property
    def warned(self) -> dict[Key, str]:
        """The runs that expect returns which are impossible or far from those they got, and what
        is wrong with them."""
        found = {}
        for run in self.counted:
            if run.calibrated is not None and run.calibrated.warning is not None:
                found[run.key] = run.calibrated.warning
        return found

    @property
    def kind(self) -> str:
        """What the scores in aggregates are."""
        return "raw" if self.raw else "normalised"

    @property
    def raw(self) -> bool:
        """Whether aggregates are of raw scores: those of one game need no scale."""
        return [self.scales[env] for env in self.common] == [RAW]

    def normalised(self, agent: str) -> list[np.ndarray]:
        """The normalised final scores of an agent, one array a game in common."""
        return [self.scales[env](self.finals[agent, env]) for env in self.common]

    @cached_property
    def finals(self) -> dict[tuple[str, str], np.ndarray]:
        """The final scores of the runs that count, by agent and game."""
        found: dict[tuple[str, str], list[float]] = {}
        for run in self.counted:
            found.setdefault((run.agent, run.env), []).append(run.final)
        return {pair: np.array(scores) for pair, scores in found.items()}


class _Found(NamedTuple):
    """What lies in a directory."""

    places: list[Path]  # of runs
    kept: list[RunResult]  # by a report
    plans: list[PlannedRun]


def read_study(directories: Sequence[Path]) -> Study:
    """All runs in some directories, at any depth, and the plans beside them; or a report's runs."""
    found = _look_into_all(directories)
    goals = {plan.key: plan.steps for plan in found.plans}
    runs = [*found.kept, *(read_run(place, goals) for place in found.places)]
    if not any(len(run.scores) for run in runs):
        counts = f"{len(runs)} begun, {len(found.plans)} planned"
        right = f"no run in it has been evaluated yet ({counts})"
        raise fail("DIR", ", ".join(map(str, directories)), right)
    return _named(runs, tuple(found.plans))


def _look_into_all(directories: Sequence[Path]) -> _Found:
    """What lies in some directories; a run or a plan that lies in two of them is there once."""
    places: dict[Path, None] = {}
    kept: list[RunResult] = []
    plans: dict[tuple[Record, str, int], PlannedRun] = {}
    for directory in directories:
        found = _look_into(directory)
        places |= dict.fromkeys(found.places)
        kept += found.kept
        plans |= {plan.key: plan for plan in found.plans}
    return _Found(list(places), kept, list(plans.values()))


def _look_into(directory: Path) -> _Found:
    if not directory.is_dir():
        raise fail("DIR", str(directory), "there is no such directory")
    places, plans = list(_run_directories(directory)), _planned(directory)
    if places or plans:  # a report that lies with its runs may be older than they are
        return _Found(places, [], plans)
    return _Found([], *_read_report(directory))


def _read_report(directory: Path) -> tuple[list[RunResult], list[PlannedRun]]:
    if (directory / RUNS).exists():
        return read_runs(directory / RUNS)
    right = "there is no run in it (config.json and evaluations.csv), and no report (runs.json)"
    raise fail("DIR", str(directory), right)


def _named(runs: Sequence[RunResult], plans: tuple[PlannedRun, ...]) -> Study:
    """The study of some runs, in which every agent has a label of its own."""
    named = [(run.record, run.names) for run in runs]
    variants = told_apart([*named, *((plan.record, plan.names) for plan in plans)])
    variants = dict(sorted(variants.items(), key=lambda item: item[1].place))
    label, order = labels_of(variants), list(variants)
    distinct: dict[Key, RunResult] = {}
    for run in runs:
        called = replace(run, label=label[run.record])
        other = distinct.get(called.key)
        distinct[called.key] = called if other is None else _further(other, called)
    ordered = sorted(
        distinct.values(), key=lambda run: (run.env, order.index(run.record), run.config.seed)
    )
    return Study(tuple(ordered), plans, variants)


def _further(one: RunResult, other: RunResult) -> RunResult:
    """Of two records of one run, the later one: the run went on after a report kept the other."""
    kept = [run for run in (one, other) if run.path.name == RUNS and not run.finished]
    if not kept or one.reached == other.reached:
        same = ", ".join(map(str, one.key))
        right = f"it must not be the same agent, game and seed ({same}) as {one.path}"
        raise fail("DIR", str(other.path), right)
    return max(one, other, key=lambda run: run.reached)


def _run_directories(directory: Path) -> Iterable[Path]:
    for place, inside, names in os.walk(directory):
        if {"config.json", "evaluations.csv"} <= set(names):
            inside.clear()  # a run's checkpoints and replay memory are large, and no runs
            yield Path(place).resolve()
        inside.sort()


def _planned(directory: Path) -> list[PlannedRun]:
    """The runs of every plan in a directory."""
    found: list[PlannedRun] = []
    for place, inside, names in os.walk(directory):
        if PLAN in names:
            found += [_as_planned(run.config) for run in read_plan(Path(place))]
        if "config.json" in names:
            inside.clear()
    return found


def _as_planned(config: Config) -> PlannedRun:
    record = Record.of(config)
    return PlannedRun(record, config.changed, config.env, config.seed, config.steps)


def _in_common(runs: Sequence[RunResult], agents: Sequence[str]) -> list[str]:
    """The games that each of the agents has a run of."""
    by_agent = [{run.env for run in runs if run.agent == agent} for agent in agents]
    return sorted(set.intersection(*by_agent)) if by_agent else []


def random_scores() -> dict[str, float]:
    """The scores of an agent that plays at random.

    Those of Atari are the paper's. Those of MinAtar are means of 1,000 episodes, by
    benchmarks/random_scores.py.
    """
    known = {name: scores_of(name).random for name in environments.names()}
    return {name: score for name, score in known.items() if score is not None}


def _scale(env: str, study: Study) -> Scale:
    known = scores_of(env)
    if known.random is not None and known.human is not None:
        return Scale(known.random, known.human, "random agent", "human")
    if study.shared == [env]:  # on a scale of its own the best agent would always have 1
        return RAW
    best, one = _best_agent(env, study)
    one_is = f"best agent here ({best})"
    if known.random is not None:
        return Scale(known.random, one, "random agent (measured)", one_is)
    zero = min(float(run.scores.min()) for run in study.counted if run.env == env)
    return Scale(zero, one, "lowest evaluation in this report", one_is)


def _best_agent(env: str, study: Study) -> tuple[str, float]:
    """The agent of the highest mean final score in a game, and that score."""
    means = {
        agent: float(scores.mean()) for (agent, game), scores in study.finals.items() if game == env
    }
    return max(means.items(), key=itemgetter(1))


def mean_and_error(numbers: Sequence[float]) -> tuple[float, float]:
    """The mean of the numbers that are not nan and its standard error, nan for one number."""
    known = [number for number in numbers if not np.isnan(number)]
    mean = float(np.mean(known)) if known else np.nan
    if len(known) < 2:
        return mean, np.nan
    return mean, float(np.std(known, ddof=1) / np.sqrt(len(known)))
