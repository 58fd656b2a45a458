"""The runs of a study, compared: from what they have left behind to the numbers that a report shows.

A directory is a run if it holds a config.json and an evaluations.csv; runs may be missing.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from edrl.core.check import fail
from edrl.deep import environments
from edrl.deep.config import AGENTS, in_order
from edrl.deep.environments import scores_of
from edrl.study.runs import RUNS, Key, RunResult, read_json, read_run, read_runs


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

    def __call__(self, score: Any) -> Any:
        return (score - self.zero) / (self.one - self.zero)


@dataclass(frozen=True)
class Study:
    """All runs of a report, and those that were planned."""

    runs: tuple[RunResult, ...]
    planned: Mapping[Key, int]  # with their steps

    @cached_property
    def agents(self) -> list[str]:
        """In the order in which the config lists them."""
        found = {run.agent for run in self.runs} | {agent for agent, _, _ in self.planned}
        return in_order(found)

    @cached_property
    def played(self) -> list[str]:
        """The agents that have an evaluation."""
        return [agent for agent in self.agents if any(run.agent == agent and len(run.scores) for run in self.runs)]

    @cached_property
    def games(self) -> list[str]:
        return sorted({run.env for run in self.runs} | {env for _, env, _ in self.planned})

    @cached_property
    def seeds(self) -> list[int]:
        return sorted({run.config.seed for run in self.runs} | {seed for _, _, seed in self.planned})

    @cached_property
    def missing(self) -> list[Key]:
        """Runs that are not there: planned, or, for agents without a plan, done for another agent or game."""
        unplanned = set(self.agents) - {agent for agent, _, _ in self.planned}
        grid = {(agent, env, seed) for agent in unplanned for env in self.games for seed in self.seeds}
        absent = (set(self.planned) | grid) - {run.key for run in self.runs}
        return sorted(absent, key=lambda key: (key[1], key[0], key[2]))

    @cached_property
    def expected_seeds(self) -> dict[tuple[str, str], int]:
        """How many seeds (game, agent) should have: the planned ones, or as many as any has."""
        planned = {(env, agent): 0 for env in self.games for agent in self.agents}
        for agent, env, _ in self.planned:
            planned[env, agent] += 1
        return {pair: count or len(self.seeds) for pair, count in planned.items()}

    @cached_property
    def unfinished(self) -> list[RunResult]:
        return [run for run in self.runs if not run.finished]

    @cached_property
    def counted(self) -> list[RunResult]:
        """The runs whose scores are compared: those that are finished, or all while no game has one of every agent."""
        with_scores = [run for run in self.runs if len(run.scores)]
        finished = [run for run in with_scores if run.finished]
        return finished if _in_common(finished, self.played) else with_scores

    @cached_property
    def scales(self) -> dict[str, Scale]:
        """Of the games that have been evaluated."""
        return {env: _scale(env, self) for env in self.games if any(run.env == env for run in self.counted)}

    @cached_property
    def common(self) -> list[str]:
        """The games that aggregates are over: every agent has played them, and their scale has a length."""
        return [env for env in _in_common(self.counted, self.played) if self.scales[env].usable]

    def normalised(self, agent: str) -> list[np.ndarray]:
        """The normalised final scores of an agent, one array a game in common."""
        return [self.scales[env](self._finals[agent, env]) for env in self.common]

    @cached_property
    def _finals(self) -> dict[tuple[str, str], np.ndarray]:
        found: dict[tuple[str, str], list[float]] = {}
        for run in self.counted:
            found.setdefault((run.agent, run.env), []).append(run.final)
        return {pair: np.array(scores) for pair, scores in found.items()}


def read_study(directories: Sequence[Path]) -> Study:
    """All runs in some directories, at any depth, and the plans that lie with them; or the runs of a report."""
    kept: list[RunResult] = []
    places: dict[Path, None] = {}  # in order, and none twice
    planned: dict[Key, int] = {}
    for directory in directories:
        if not directory.is_dir():
            raise fail("DIR", str(directory), "there is no such directory")
        found, plan = list(_run_directories(directory)), _planned(directory)
        if not found and not plan:  # a report that lies with its runs may be older than they are
            if not (directory / RUNS).exists():
                right = "no run lies in it: a run has a config.json and an evaluations.csv, a report a runs.json"
                raise fail("DIR", str(directory), right)
            runs_of_report, plan = read_runs(directory / RUNS)
            kept += runs_of_report
        places |= dict.fromkeys(found)
        planned |= plan
    runs: dict[Key, RunResult] = {}
    for run in (*kept, *(read_run(place, planned) for place in places)):
        other = runs.setdefault(run.key, run)
        if other is not run:
            runs[run.key] = _further(other, run)
    _check_labels(runs.values())
    if not any(len(run.scores) for run in runs.values()):
        named = ", ".join(map(str, directories))
        raise fail("DIR", named, f"no run in it has been evaluated yet ({len(runs)} begun, {len(planned)} planned)")
    places_of = {agent: place for place, agent in enumerate(in_order({run.agent for run in runs.values()}))}
    order = sorted(runs.values(), key=lambda run: (run.env, places_of[run.agent], run.config.seed))
    return Study(tuple(order), planned)


def _further(one: RunResult, other: RunResult) -> RunResult:
    """Of two runs of the same agent, game and seed, the one that has gone on since a report kept the other."""
    kept = [run for run in (one, other) if run.path.name == RUNS and not run.finished]
    same = replace(one.config, steps=other.config.steps) == other.config
    if not kept or not same or one.reached == other.reached:
        right = f"it must not be the same agent, game and seed ({', '.join(map(str, one.key))}) as {one.path}"
        raise fail("DIR", str(other.path), right)
    return max(one, other, key=lambda run: run.reached)


def _check_labels(runs: Iterable[RunResult]) -> None:
    """Runs of one label are one agent's seeds: they must be of the same statistics."""
    first: dict[str, RunResult] = {}
    for run in runs:
        other = first.setdefault(run.agent, run)
        if other.statistics != run.statistics:
            right = f"it would be called {run.agent}, as would {other.statistics} in {other.path}: rename one"
            raise fail("DIR", str(run.path), f"{run.statistics} was trained in it; {right}")


def _run_directories(directory: Path) -> Iterable[Path]:
    for place, inside, names in os.walk(directory):
        if {"config.json", "evaluations.csv"} <= set(names):
            inside.clear()  # a run's checkpoints and replay memory are large, and no runs
            yield Path(place).resolve()
        inside.sort()


def _planned(directory: Path) -> dict[Key, int]:
    """The runs of every plan in a directory, with their steps (0 if the plan does not say)."""
    found: dict[Key, int] = {}
    for place, inside, names in os.walk(directory):
        if "suite.json" in names:
            for run in read_json(Path(place) / "suite.json").get("runs", []):
                agent = AGENTS.get(str(run["agent"]).lower(), str(run["agent"]))
                found[agent, run["env"], int(run["seed"])] = int(run.get("config", {}).get("steps", 0))
        if "config.json" in names:
            inside.clear()
    return found


def _in_common(runs: Sequence[RunResult], agents: Sequence[str]) -> list[str]:
    """The games that each of the agents has a run of."""
    by_agent = [{run.env for run in runs if run.agent == agent} for agent in agents]
    return sorted(set.intersection(*by_agent)) if by_agent else []


def random_scores() -> dict[str, float]:
    """Of an agent that plays at random: the paper's for Atari; the means of 1,000 episodes, by
    benchmarks/random_scores.py, for MinAtar."""
    known = {name: scores_of(name).random for name in environments.names()}
    return {name: score for name, score in known.items() if score is not None}


def _scale(env: str, study: Study) -> Scale:
    known = scores_of(env)
    if known.random is not None and known.human is not None:
        return Scale(known.random, known.human, "random agent", "human")
    finals = {agent: [run.final for run in study.counted if run.key[:2] == (agent, env)] for agent in study.agents}
    means = {agent: float(np.mean(scores)) for agent, scores in finals.items() if scores}
    best = max(means, key=lambda agent: means[agent])
    if known.random is not None:
        zero, zero_is = known.random, "random agent (measured)"
    else:
        zero = min(float(run.scores.min()) for run in study.counted if run.env == env)
        zero_is = "lowest evaluation in this report"
    return Scale(zero, means[best], zero_is, f"best agent here ({best})")


def mean_and_error(numbers: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error, nan for one number."""
    error = np.std(numbers, ddof=1) / np.sqrt(len(numbers)) if len(numbers) > 1 else np.nan
    return float(np.mean(numbers)), float(error)
