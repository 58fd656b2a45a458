"""`edrl export`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.text import Text

from edrl.cli.evaluate import episodes_bar
from edrl.deep import checkpoint
from edrl.deep.trained import load


@dataclass(frozen=True)
class Export:
    """Write a trained agent to a folder that others can load without running code.

    The folder has model.safetensors (the weights), config.json, provenance.json, results.json (the
    score of new episodes with a 95 % interval, and calibration), a film and README.md, a model card
    as Hugging Face's hub shows it. `edrl.load`, `edrl evaluate` and `edrl play` read the folder.
    Ctrl-C leaves nothing behind.

    Example: `edrl export runs/breakout shared/breakout --best`.
    """

    run: tyro.conf.Positional[Path]
    """The directory of the run whose agent is shared, as `edrl train --out` named it."""
    directory: tyro.conf.Positional[Path]
    """The folder that is written. An earlier export in it is replaced, and other files stay."""
    episodes: int = 30
    """How many episodes are played for the score. More of them make its interval narrower."""
    seed: int = 1_000_000
    """The seed of the environment and of random actions. The same seed plays the same episodes."""
    film: bool = True
    """Film an episode: replay.mp4, which the hub shows, or replay.gif if there is no ffmpeg (pip
    install 'edrl[video]')."""
    onnx: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Write network.onnx, too, which plays without Python or JAX (pip install 'edrl[onnx]'). It maps
    a batch of observations to the statistics of returns and to action values."""
    older: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Take the checkpoint before the last one if the last one is damaged."""
    best: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Take the network of the run's best evaluation instead of the last one. It plays new episodes
    for its score, so that the score is not the one that it was chosen for."""
    trust: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Import the modules that the run names as MODULE:NAME. That runs their code: only for a run
    that you know."""

    def __call__(self) -> int:
        """Play, write, and return the exit status."""
        from edrl.report.export import export  # slow to import, and --help does without

        console = Console()
        try:
            loaded = load(self.run, older=self.older, trust=self.trust, best=self.best)
            with episodes_bar(self.episodes) as watch:
                written = export(
                    loaded, self.directory, episodes=self.episodes, seed=self.seed, film=self.film,
                    onnx=self.onnx, watch=watch,
                )  # fmt: skip
        except (ValueError, ImportError, OSError, checkpoint.CheckpointError) as error:
            console.print(Text(str(error), style="red"), soft_wrap=True)
            return 2
        console.print(f"The agent: {written.resolve()}", soft_wrap=True, highlight=False)
        return 0
