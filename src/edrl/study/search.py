"""Choosing a setting for every agent by the same small search: a study of variants."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from edrl.core.check import fail
from edrl.deep.settings import Value, check_name, read_value, spell, split_entries
from edrl.deep.variant import Variant
from edrl.study.plan import Planned
from edrl.study.results import mean_and_error, random_scores
from edrl.study.runs import read_run
from edrl.study.tables import Table, from_rows, grouped

_COLUMNS = ("value", "agent", "env", "seeds", "final", "error")


@dataclass(frozen=True)
class Variation:
    """Which values of which setting are tried."""

    setting: str
    values: tuple[Value, ...]

    @classmethod
    def parse(cls, text: str) -> "Variation":
        """Read a text such as `learning_rate=1e-4,3e-4,1e-3`."""
        setting, _, listed = (part.strip() for part in text.partition("="))
        check_name("vary", setting)
        entries = filter(None, split_entries(listed))
        values = tuple(read_value(setting, entry.strip()) for entry in entries)
        if len(values) < 2 or len(set(values)) < len(values):  # 1e-3 is 0.001
            raise fail("vary", text, "it must be NAME=VALUE,VALUE[,...], at least two that differ")
        return cls(setting, values)

    @property
    def spelt(self) -> tuple[str, ...]:
        """The values as the command line spells them."""
        return tuple(map(spell, self.values))

    def applied(self, agents: Sequence[str]) -> list[str]:
        """Every agent with each value: `er-dqn[learning_rate=1e-4]`."""
        pairs = product(map(Variant.parse, agents), self.values)
        return [str(variant.changed(self.setting, value)) for variant, value in pairs]

    def undone(self, run: Planned) -> tuple[str, str]:
        """The agent of a run without the setting, and the setting's value."""
        own = run.config.variant
        changes = [change for change in own.changes if change[0] != self.setting]
        value = getattr(run.config, self.setting)
        return str(Variant(own.base, tuple(changes))), spell(value)

    def chosen(self, agent: str, value: str) -> str:
        """The spelling of an agent with a value, for a study."""
        return str(Variant.parse(agent).changed(self.setting, read_value(self.setting, value)))

    def at_the_end(self, chosen: dict[str, str]) -> list[str]:
        """The agents whose best value is the least or the largest; none if values are no numbers."""
        ends = self._ends()
        return [agent for agent, value in chosen.items() if value in ends]

    def _ends(self) -> tuple[str, ...]:
        numbers = [value for value in self.values if isinstance(value, int | float)]
        if len(numbers) < len(self.values):
            return ()
        return spell(min(numbers)), spell(max(numbers))


def scores(out: Path, runs: Sequence[Planned], variation: Variation) -> Table:
    """Final scores of every value, agent and game: the mean over seeds and its standard error.

    `normalised` is 1 for the best mean of the search on a game, so that all games have the same weight. It is 0
    for a random agent, or for the lowest mean if that is lower or no random one is known.
    """
    finals: dict[tuple[str, str, str], list[float]] = {}
    for run in runs:
        agent, value = variation.undone(run)
        final = read_run(out / run.name, {}).final
        finals.setdefault((value, agent, run.config.env), []).append(final)
    rows = [(*key, len(listed), *mean_and_error(listed)) for key, listed in finals.items()]
    found = from_rows(_COLUMNS, rows)
    return {**found, "normalised": _normalised(found)}


def _normalised(found: Table) -> list[float]:
    """The final scores, scaled in each game as `scores` says."""
    zero = random_scores()
    final, envs = np.array(found["final"], float), np.array(found["env"])
    shares = np.zeros_like(final)
    for env in np.unique(envs):
        here = envs == env
        low = min(zero.get(env, np.inf), final[here].min())
        length = final[here].max() - low
        if length > 0:
            shares[here] = (final[here] - low) / length
    return list(map(float, shares))


def best(found: Table) -> dict[str, str]:
    """Each agent's value of highest normalised score, averaged over the games."""
    chosen: dict[str, str] = {}
    averaged = means(found)
    for agent, value in averaged:
        rival = chosen.setdefault(agent, value)
        if averaged[agent, value] > averaged[agent, rival]:
            chosen[agent] = value
    return chosen


def means(found: Table) -> dict[tuple[str, str], float]:
    """(agent, value) -> its normalised score, averaged over the games."""
    by_pair = grouped(found, "agent", "value")
    return {pair: float(rows["normalised"].mean()) for pair, rows in by_pair.items()}
