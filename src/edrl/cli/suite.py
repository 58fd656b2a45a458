"""`edrl suite`: many runs, on this machine or on a Ray cluster."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from edrl.cli.driver import Driver, attempt, show_status
from edrl.core.check import fail
from edrl.deep.config import PresetName
from edrl.study.plan import parse_settings, plan


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Run a study: every game with every agent and every seed.

    The same command again goes on with what is missing; a larger one (more games, agents, seeds or
    steps) adds to the study. Ctrl-C saves every run. `edrl suite --status DIR` shows how far it
    is, `edrl report DIR` what came out.

    Examples: `edrl suite --games minatar5 --agents er-dqn qr-dqn --seeds 5 --preset minatar --out
    studies/minatar`, `edrl suite --games pong --agents er-dqn 'er-dqn[size=51]' 'er-dqn[double]'
    --set steps=1000000 --out DIR`, `edrl suite --games atari57 --agents er-dqn qr-dqn --preset
    paper --ray auto --gpus 0.25 --out DIR`.
    """

    games: tuple[str, ...] = ()
    """The games that are played: atari57, minatar5, or games by their names."""
    agents: tuple[str, ...] = ("er-dqn", "qr-dqn", "er-dqn-naive", "dqn", "c51")
    """The agents that are compared, by their names. Settings of one agent are part of its name:
    er-dqn[size=51], er-dqn[learning_rate=1e-4,double]. Statistics of your own are MODULE:NAME."""
    seeds: int = 3
    """How many seeds every agent plays every game with: 0, 1, 2, ..."""
    first_seed: int = 0
    """The first seed. Use other seeds than those of the search that chose the settings."""
    preset: PresetName = "paper"
    """Where the settings come from: paper (Atari), minatar, parallel (MinAtar without
    replay memory), classic or quick."""
    set: tuple[str, ...] = ()
    """Settings that replace the preset's for all agents: NAME=VALUE. The names are the flags of
    `edrl train`, with _ for -."""
    out: Path | None = None
    """The study's directory; with Ray, one that all nodes share."""
    jobs: int | None = None
    """How many runs this machine works on at once. By default its cores and memory decide."""
    cpus: int = 1
    """How many CPUs, and so threads, a run uses."""
    gpus: float = 0.0
    """How many GPUs a run uses, with --ray. Several runs can share one."""
    ray: str | None = None
    """Run on Ray: the address of a cluster, `auto` on one of its nodes, or `local`."""
    dry_run: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Plan the runs and estimate what they take, but run nothing."""
    status: Path | None = None
    """Show how far the study in this directory is, and run nothing."""

    def __call__(self) -> int:
        """Run the study, and return the exit status."""
        console = Console()
        return attempt(console, lambda: self._run(console))

    def _run(self, console: Console) -> int:
        if self.status is not None:
            return show_status(console, self.status)
        if self.out is None:
            right = "say where the study goes with --out, or which to look at with --status"
            raise fail("out", None, right)
        driver = Driver(console, self.out, self.jobs, self.cpus, self.gpus, self.ray)
        settings = parse_settings(self.set)
        planned = plan(self.games, self.agents, self.seeds, self.preset, settings, self.first_seed)
        if self.dry_run:
            return driver.estimate(planned)
        status = driver.run(planned)
        console.print(f"See what came out: edrl report {self.out}", soft_wrap=True, highlight=False)
        return status
