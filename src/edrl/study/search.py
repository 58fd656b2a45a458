"""Choosing a setting for every agent by the same small search: the values that are tried, and what they came to."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edrl.core.check import fail
from edrl.study.plan import Planned, parse_settings
from edrl.study.results import mean_and_error, random_scores, read_study
from edrl.study.runs import Key
from edrl.study.tables import Table


@dataclass(frozen=True)
class Variation:
    """Which values of which setting are tried; the runs of a value lie in the directory of its name."""

    setting: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "Variation":
        """From `learning_rate=1e-4,3e-4,1e-3`."""
        setting, _, listed = text.partition("=")
        values = tuple(value.strip() for value in listed.split(","))
        numbers = {json.dumps(parse_settings([f"{setting}={value}"])) for value in values}  # 1e-3 is 0.001
        if not setting or len(values) < 2 or len(numbers) < len(values) or "" in values:
            raise fail("vary", text, "it must be NAME=VALUE,VALUE[,...], at least two that differ")
        if "." in setting:
            raise fail("vary", text, "every agent is searched for alike: name the setting without an agent")
        if any("/" in value for value in values):
            raise fail("vary", text, "a value names a directory, and must have no / in it")
        return cls(setting, values)


def scores(out: Path, runs: Mapping[str, Sequence[Planned]]) -> Table:
    """Final scores of every value, agent and game, the mean over seeds and its standard error; `runs` are each value's.

    `normalised` is 0 for a random agent (for the lowest mean here, where that is lower or no random one is known) and 1
    for the best mean of the search on that game, so that games count alike.
    """
    found: Table = {name: [] for name in ("value", "agent", "env", "seeds", "final", "error", "normalised")}
    for value, planned in runs.items():
        results = {run.key: run for run in read_study([out / value]).runs}
        for agent, env in dict.fromkeys((_agent(run), run.config.env) for run in planned):
            keys = [_key(run) for run in planned if (_agent(run), run.config.env) == (agent, env)]
            finals = [results[key].final for key in keys]
            entries = (value, agent, env, len(finals), *mean_and_error(finals), np.nan)
            for column, entry in zip(found.values(), entries, strict=True):
                column.append(entry)
    zero = random_scores()
    final, envs = np.array(found["final"], float), np.array(found["env"])
    for env in dict.fromkeys(found["env"]):
        here = np.flatnonzero(envs == env)
        low, high = min(zero.get(env, np.inf), np.min(final[here])), np.max(final[here])
        for place in here:
            found["normalised"][place] = float((final[place] - low) / (high - low)) if high > low else 0.0
    return found


def best(found: Table) -> dict[str, str]:
    """Each agent's value of highest normalised score, averaged over the games."""
    chosen: dict[str, tuple[float, str]] = {}
    for (agent, value), score in means(found).items():
        if agent not in chosen or score > chosen[agent][0]:
            chosen[agent] = (score, value)
    return {agent: value for agent, (_, value) in chosen.items()}


def at_the_end(chosen: dict[str, str], variation: Variation) -> list[str]:
    """The agents whose best value has no other beyond it; none if the values are not numbers."""
    try:
        ordered = sorted(variation.values, key=float)
    except ValueError:
        return []
    return [agent for agent, value in chosen.items() if value in (ordered[0], ordered[-1])]


def means(found: Table) -> dict[tuple[str, str], float]:
    """(agent, value) -> its normalised score, averaged over the games."""
    gathered: dict[tuple[str, str], list[float]] = {}
    for agent, value, score in zip(found["agent"], found["value"], found["normalised"], strict=True):
        gathered.setdefault((agent, value), []).append(score)
    return {pair: float(np.mean(listed)) for pair, listed in gathered.items()}


def _agent(run: Planned) -> str:
    """As on the command line."""
    config = run.config
    return config.agent if config.imputation is None else f"{config.agent}:{config.imputation}"


def _key(run: Planned) -> Key:
    return run.config.label, run.config.env, run.config.seed
