"""`edrl play`: the game, and beside it the live return distribution of each action."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.text import Text

from edrl.core.check import check_count
from edrl.core.words import count
from edrl.deep import checkpoint
from edrl.deep.interruption import stopped_by_ctrl_c
from edrl.deep.trained import load
from edrl.report.agent_film import film_episode
from edrl.report.film import check_film


@dataclass(frozen=True)
class Play:
    """Play an episode with a trained agent and film it.

    The film shows the game, and beside it the return distribution of each action.

    Example: `edrl play runs/breakout --video breakout.mp4`.
    """

    run: tyro.conf.Positional[Path]
    """The directory of the run whose agent plays, as `edrl train --out` named it, or a
    directory that `edrl export` wrote."""
    video: Path = Path("play.gif")
    """The file that the film is written to: an animated .gif, or an .mp4, which needs ffmpeg (pip
    install 'edrl[video]'). An earlier film is replaced; a file that edrl has not made is not."""
    steps: int = 300
    """How many steps of the episode are played at most."""
    every: int = 2
    """How many steps lie between two pictures of the film. 1 shows every step; more make the file
    smaller."""
    seed: int = 1_000_000
    """The seed of the environment and of random actions. The same seed plays the same episode."""
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
            check_film(self.video)
            check_count("steps", self.steps, 1)
            check_count("every", self.every, 1)
            loaded = load(self.run, older=self.older, trust=self.trust, best=self.best)
            with stopped_by_ctrl_c() as check:
                steps, score = film_episode(
                    loaded, self.video, steps=self.steps, every=self.every, seed=self.seed,
                    bar=True, check=check,
                )  # fmt: skip
        except (ValueError, ImportError, OSError, checkpoint.CheckpointError) as error:
            console.print(Text(str(error), style="red"), soft_wrap=True)
            return 2
        console.print(
            f"{count(steps, 'step')}, score {score:g}: {self.video}",
            soft_wrap=True,
            highlight=False,
        )
        return 0
