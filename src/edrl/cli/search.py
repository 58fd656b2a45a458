"""`edrl search`: a setting, chosen for every agent in the same way."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from edrl.cli.driver import Driver, attempt, is_evaluated
from edrl.core.check import fail
from edrl.deep.config import PresetName
from edrl.study.plan import Planned, parse_settings, plan
from edrl.study.search import Variation, best, means, scores
from edrl.study.tables import Table as Rows
from edrl.study.tables import write_csv


@dataclass(frozen=True, kw_only=True)
class Search:
    """Choose a setting for every agent by the same small search, before a study is run with it.

    It is a study of variants: every agent with each value, er-dqn[learning_rate=1e-4] and so on.
    The same command again goes on with what is missing. It ends with each agent's scores, the
    --agents for `edrl suite`, and OUT/search.csv.

    Example: `edrl search --vary learning_rate=1e-4,3e-4,1e-3 --games minatar/breakout
    minatar/asterix --agents er-dqn qr-dqn --seeds 2 --preset minatar --set steps=200000 --out
    studies/search`.
    """

    vary: str
    """The setting and its values: NAME=VALUE,VALUE[,...]."""
    out: Path
    """The directory of the study; with Ray, one that all nodes share."""
    games: tuple[str, ...]
    """The games that decide, by their names: a few, which need not be all of the study's."""
    agents: tuple[str, ...] = ("er-dqn", "qr-dqn", "er-dqn-naive", "dqn", "c51")
    """The agents that the setting is chosen for, by their names as in `edrl suite`."""
    seeds: int = 2
    """How many seeds each value is tried with."""
    first_seed: int = 100
    """The first seed. Use other seeds than the study's own: a setting that was chosen for high
    scores with some seeds looks too good with them."""
    preset: PresetName = "paper"
    """Where the settings come from: paper (Atari), minatar, parallel (MinAtar without
    replay memory), classic or quick."""
    set: tuple[str, ...] = ()
    """Settings that replace the preset's for all agents: NAME=VALUE."""
    jobs: int | None = None
    """How many runs this machine works on at once. By default its cores and memory decide."""
    cpus: int = 1
    """How many CPUs, and so threads, a run uses."""
    gpus: float = 0.0
    """How many GPUs a run uses, with --ray. Several runs can share one."""
    ray: str | None = None
    """Run on Ray: the address of a cluster, `auto` on one of its nodes, or `local`."""

    def __call__(self) -> int:
        """Run what is missing, choose, and return the exit status."""
        console = Console()
        return attempt(console, lambda: self._run(console))

    def _run(self, console: Console) -> int:
        variation = Variation.parse(self.vary)
        runs = self._plan(variation)
        status = Driver(console, self.out, self.jobs, self.cpus, self.gpus, self.ray).run(runs)
        if status:
            return status
        found = scores(self.out, runs, variation)
        write_csv(self.out / "search.csv", found)
        _conclude(console, found, variation)
        return 0

    def _plan(self, variation: Variation) -> list[Planned]:
        settings = parse_settings(self.set)
        if variation.setting in settings:
            raise fail("set", variation.setting, "it is what the search varies")
        agents = variation.applied(self.agents)
        runs = plan(self.games, agents, self.seeds, self.preset, settings, self.first_seed)
        for run in runs:
            if not is_evaluated(run.config):
                right = "a run that is never evaluated cannot be compared"
                raise fail("evaluate_every", run.config.evaluate_every, right)
        return runs


def _conclude(console: Console, found: Rows, variation: Variation) -> None:
    """Show the scores, and which agents to take for a study."""
    chosen = best(found)
    console.print(_table(found, variation))
    for agent in variation.at_the_end(chosen):
        text = f"{agent}: no value beyond {chosen[agent]} was tried, and it may be better."
        console.print(Text(text, style="yellow"))
    agents = [variation.chosen(agent, value) for agent, value in chosen.items()]
    text = f"For the study: --agents {shlex.join(agents)}"
    console.print(Text(text), soft_wrap=True)


def _table(found: Rows, variation: Variation) -> Table:
    title = f"Normalised final scores for each {variation.setting}"
    table = Table("agent", *variation.spelt, title=title)
    averaged, chosen = means(found), best(found)
    for agent, best_value in chosen.items():
        cells = [Text(agent)]
        for value in variation.spelt:
            style = "bold green" if value == best_value else ""
            cells.append(Text(f"{averaged[agent, value]:.2f}", style=style))
        table.add_row(*cells)
    return table
