"""`edrl evaluate`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from edrl.core.check import check_count
from edrl.core.words import count
from edrl.deep import checkpoint
from edrl.deep.calibration import Returns
from edrl.deep.interruption import stopped_by_ctrl_c
from edrl.deep.play import Moment, Played, play
from edrl.deep.trained import Trained, check_expected, load


@dataclass(frozen=True)
class Evaluate:
    """Play episodes with a trained agent.

    Shows its mean score with a 95 % interval, and the returns that it got beside the return
    distributions that it has learnt. Ctrl-C ends it early, with what has been played until then.
    """

    run: tyro.conf.Positional[Path]
    """The directory of the run whose agent plays, as `edrl train --out` named it, or a
    directory that `edrl export` wrote."""
    episodes: int = 30
    """How many episodes are played. More of them make the interval of the mean narrower."""
    seed: int = 1_000_000
    """The seed of the environment and of random actions. The same seed plays the same episodes."""
    older: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Take the checkpoint before the last one if the last one is damaged."""
    best: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Take the network of the run's best evaluation instead of the last one."""
    trust: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Import the modules that the run names as MODULE:NAME. That runs their code: only for a run
    that you know."""

    def __call__(self) -> int:
        """Play, and return the exit status."""
        console = Console()
        try:
            check_count("episodes", self.episodes, 1)
            loaded = load(self.run, older=self.older, trust=self.trust, best=self.best)
            played, returns = Played(), Returns(loaded.config.gamma)
            stopped = self._play(loaded, played, returns)
            calibration = returns.against(loaded.agent, loaded.parameters)
            check_expected(self.run, calibration)
        except (ValueError, ImportError, checkpoint.CheckpointError) as error:
            console.print(Text(str(error), style="red"), soft_wrap=True)
            return 2
        self._tell(console, loaded, played, stopped)
        if calibration is not None:
            console.print(str(calibration), soft_wrap=True, highlight=False)
            if calibration.warning:
                console.print(Text(calibration.warning, style="yellow"), soft_wrap=True)
        return 130 if stopped else 0

    def _tell(self, console: Console, loaded: Trained, played: Played, stopped: bool) -> None:
        config, scores = loaded.config, np.asarray(played.scores)
        text = f"{config.variant} on {config.env} after {count(loaded.step, 'step')}:"
        text += f" mean score {scores.mean():.2f}"
        interval = played.interval()
        if interval is not None:
            text += f", 95 % interval {interval[0]:.2f} to {interval[1]:.2f}"
        episodes = count(self.episodes if stopped else len(scores), "episode")
        played_of = f"{len(scores)} of {episodes}" if stopped else episodes
        # Plain text: rich reads the brackets of a variant as markup.
        console.print(Text(f"{text}, {played_of}"), soft_wrap=True)

    def _play(self, loaded: Trained, played: Played, returns: Returns) -> bool:
        """Play under a bar; returns whether it was stopped."""
        environment = loaded.source.with_seed(self.seed)
        policy, epsilon = loaded.policy(self.seed), loaded.config.evaluate_epsilon
        with stopped_by_ctrl_c() as check, episodes_bar(self.episodes) as show:

            def watch(moment: Moment) -> None:
                check()
                returns.watch(moment)
                show(moment)

            try:
                play(
                    environment, policy, epsilon, self.seed, episodes=self.episodes, watch=watch,
                    played=played,
                )  # fmt: skip
            except KeyboardInterrupt:
                if not played.scores:
                    raise
                return True
            finally:
                environment.close()
        return False


@contextmanager
def episodes_bar(episodes: int) -> Iterator[Callable[[Moment], None]]:
    """A bar that shows how many episodes have been played, told of every step."""
    columns = (
        TextColumn("play"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        TextColumn("{task.fields[steps]:,} steps"),
    )  # fmt: skip
    console, steps = Console(stderr=True), 0
    with Progress(*columns, console=console, transient=True, speed_estimate_period=3600) as bar:
        task = bar.add_task("play", total=episodes, steps=0)

        def show(moment: Moment) -> None:
            nonlocal steps
            steps += 1
            if steps % 100 == 0 or moment.after.ended:
                bar.update(task, advance=int(moment.after.ended), steps=steps)

        yield show
