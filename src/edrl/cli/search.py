"""`edrl search`: a setting, chosen for every agent in the same way."""

from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from edrl.cli.driver import Driver, attempt
from edrl.core.check import fail
from edrl.deep.config import PresetName
from edrl.study.plan import Planned, parse_settings, plan
from edrl.study.search import Variation, at_the_end, best, means, scores
from edrl.study.tables import Table as Rows
from edrl.study.tables import write_csv


@dataclass(frozen=True, kw_only=True)
class Search:
    """Choose a setting for every agent by the same small search, before a study is run with it.

    Runs every agent with each value, in OUT/VALUE, as `edrl suite` does, and so goes on with what is missing when it is
    run again. Ends with each agent's scores, the --set for `edrl suite`, and OUT/search.csv.

    Example: `edrl search --vary learning_rate=1e-4,3e-4,1e-3 --games minatar/breakout minatar/asterix --agents er-dqn
    qr-dqn --seeds 2 --preset minatar --set steps=200000 --out studies/search`.
    """

    vary: str
    """The setting and its values: NAME=VALUE,VALUE[,...]."""
    out: Path
    """Where the studies go; with Ray, a directory that all nodes share."""
    games: tuple[str, ...]
    """Games by their names: a few, which need not be all of the study's."""
    agents: tuple[str, ...] = ("er-dqn", "qr-dqn", "er-dqn-naive", "dqn", "c51")
    """Agents by their names, as in `edrl suite`."""
    seeds: int = 2
    """How many seeds."""
    first_seed: int = 100
    """The first of them: others than the study's own, or its scores would be those that were chosen for being high."""
    preset: PresetName = "paper"
    """Where the settings come from: paper (Atari), minatar, classic or quick."""
    set: tuple[str, ...] = ()
    """Other settings: NAME=VALUE for all agents, AGENT.NAME=VALUE for one."""
    jobs: int | None = None
    """How many runs at once on this machine; by default as many as it has cores and memory for."""
    cpus: int = 1
    """CPUs, and so threads, of a run."""
    gpus: float = 0.0
    """With --ray: GPUs of a run."""
    ray: str | None = None
    """Run on Ray: the address of a cluster, `auto`, or `local`."""

    def __call__(self) -> int:
        """Run what is missing, choose, and return the exit status."""
        console = Console()
        return attempt(console, lambda: self._run(console))

    def _run(self, console: Console) -> int:
        variation = Variation.parse(self.vary)
        runs = {value: self._plan(variation.setting, value) for value in variation.values}
        driver = Driver(console, self.out, self.jobs, self.cpus, self.gpus, self.ray)
        # One study: the runs of all values share the machine.
        status = driver.run([replace(run, name=f"{value}/{run.name}") for value in runs for run in runs[value]])
        if status:
            return status
        found = scores(self.out, runs)
        write_csv(self.out / "search.csv", found)
        console.print(_table(found, variation))
        chosen = best(found)
        for agent in at_the_end(chosen, variation):
            console.print(f"{agent}: no value beyond {chosen[agent]} was tried, and it may be better.", style="yellow")
        settings = " ".join(f"{agent}.{variation.setting}={value}" for agent, value in chosen.items())
        console.print(f"For the study: --set {settings}", soft_wrap=True, highlight=False)
        return 0

    def _plan(self, setting: str, value: str) -> list[Planned]:
        if any(name.split(".")[-1] == setting for name in parse_settings(self.set)):
            raise fail("set", setting, "it is what the search varies")
        settings = parse_settings((*self.set, f"{setting}={value}"))
        runs = plan(self.games, self.agents, self.seeds, self.preset, settings, self.first_seed)
        if not all(0 < run.config.evaluate_every <= run.config.steps for run in runs):
            raise fail("evaluate_every", runs[0].config.evaluate_every, "what has no evaluation cannot be compared")
        return runs


def _table(found: Rows, variation: Variation) -> Table:
    table = Table("agent", *variation.values, title=f"Normalised final scores for each {variation.setting}")
    averaged, chosen = means(found), best(found)
    for agent, value in chosen.items():
        cells = [Text(f"{averaged[agent, v]:.2f}", style="bold green" if v == value else "") for v in variation.values]
        table.add_row(agent, *cells)
    return table
