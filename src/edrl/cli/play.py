"""`edrl play`: the game, and beside it the live return distribution of each action."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import tyro
from matplotlib.figure import Figure
from PIL import Image
from rich.console import Console
from rich.progress import track
from rich.text import Text

from edrl.cli.film import check_film, write_film
from edrl.core.check import check_count
from edrl.core.particles import Particles
from edrl.deep import checkpoint
from edrl.deep.environments import Environment, make
from edrl.deep.play import Actors
from edrl.deep.trained import Trained, load
from edrl.report import style
from edrl.report.return_pictures import ACTION_COLOURS

_SILENT = {
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",
    "SDL_VIDEODRIVER": "dummy",
    "SDL_AUDIODRIVER": "dummy",
}
_HEIGHT = 320  # pixels of a picture


@dataclass(frozen=True)
class Play:
    """Play an episode with a trained agent and film it.

    The film shows the game, and beside it the return distribution of each action.

    Example: `edrl play runs/breakout --video breakout.mp4`.
    """

    run: tyro.conf.Positional[Path]
    """The directory of the run whose agent plays, as `edrl train --out` named it."""
    video: Path = Path("play.gif")
    """The file that the film is written to: an animated .gif, or an .mp4, which needs ffmpeg (pip
    install 'edrl[video]')."""
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
            steps, score = self._film(
                load(self.run, older=self.older, trust=self.trust, best=self.best)
            )
        except (ValueError, ImportError, checkpoint.CheckpointError) as error:
            console.print(Text(str(error), style="red"), soft_wrap=True)
            return 2
        console.print(
            f"{steps} steps, score {score:g}: {self.video}", soft_wrap=True, highlight=False
        )
        return 0

    def _film(self, loaded: Trained) -> tuple[int, float]:
        """Play and write the film; returns the number of steps, and the score."""
        # No window is opened, no sound is played, and pygame does not greet anybody.
        for name, value in _SILENT.items():
            os.environ.setdefault(name, value)
        environment = make(loaded.config.env, seed=self.seed, sticky=loaded.config.sticky)
        shots, step, score = self._play(loaded, environment)
        names, ends = environment.action_names, return_axis([shot.returns for shot in shots])
        drawn = track(
            shots, "draw", console=Console(stderr=True), transient=True, update_period=0.5
        )
        pictures = [picture(*shot, names=names, ends=ends) for shot in drawn]
        write_film(self.video, pictures, self.every / steps_per_second(environment))
        return step, score

    def _play(self, loaded: Trained, environment: Environment) -> "tuple[list[Shot], int, float]":
        """Play; returns what the film shows, the number of steps, and the score."""
        actors = Actors.of([environment])
        actors.begin()
        policy, rng = loaded.policy(self.seed), np.random.default_rng(self.seed)
        shots, score, ended, step = list[Shot](), 0.0, False, 0
        while step < self.steps and not ended:
            game = environment.render() if step % self.every == 0 else None
            (moment,) = actors.act(policy, loaded.config.evaluate_epsilon, rng)
            if game is not None:
                returns = loaded.returns(moment.observation)
                shots.append(Shot(game, returns, moment.action, score))
            score, step, ended = moment.score, step + 1, moment.after.ended
        return shots, step, score


class Shot(NamedTuple):
    """What a picture of a film shows."""

    game: np.ndarray
    returns: Particles  # [action, n]
    action: int  # that is chosen
    score: float  # before it


def steps_per_second(environment: Environment) -> float:
    """The environment's own pace, or Atari's 60 frames a second, of which a step is four."""
    return float(getattr(environment, "steps_per_second", 15.0))


def return_axis(returns: Sequence[Particles]) -> tuple[float, float]:
    """The ends of one axis for all pictures: what moves must be the returns, not the axis."""
    kept = []
    for one in returns:
        atoms, probs = np.asarray(one.atoms), np.asarray(one.probs)
        # The atoms that carry next to nothing may lie far out.
        kept.append(atoms[probs > 1e-3 * probs.max()])
    low, high = (float(q) for q in np.quantile(np.concatenate(kept), [0.01, 0.99]))
    margin = 0.1 * (high - low) or 1.0
    return low - margin, high + margin


def picture(
    game: np.ndarray,
    returns: Particles,
    action: int,
    score: float,
    names: tuple[str, ...],
    ends: tuple[float, float],
) -> np.ndarray:
    """The game on the left, the distribution functions of returns [action, n] on the right."""
    ordered = Particles(np.asarray(returns.atoms), np.asarray(returns.probs)).sorted()
    atoms, probs = np.asarray(ordered.atoms), np.asarray(ordered.probs)
    means = (atoms * probs).sum(-1)
    with style.applied():
        figure, axes = style.axes(1, 1, width=4.2, height=3.2)
        for number, name in enumerate(names):
            colour, chosen = ACTION_COLOURS[number % len(ACTION_COLOURS)], number == action
            width = 2.6 if chosen else 1.0
            style.step_cdf(axes, atoms[number], probs[number], colour, name, ends, linewidth=width)
        axes.set(
            xlim=ends,
            ylim=(0, 1.02),
            xlabel="return",
            ylabel="probability of at most that",
            title=f"score {score:g}\nthick: {names[action]} is chosen, expects {means[action]:.3g}",
        )
        axes.title.set_fontsize(9)
        axes.legend(fontsize=7, loc="upper left")
        plot = _pixels(figure)
    scale = max(1, _HEIGHT // game.shape[0])
    shown = np.kron(game, np.ones((scale, scale, 1), np.uint8)) if scale > 1 else game
    shown = np.asarray(
        Image.fromarray(shown).resize((round(shown.shape[1] * _HEIGHT / shown.shape[0]), _HEIGHT))
    )
    return np.concatenate([shown, plot], axis=1)


def _pixels(figure: Figure) -> np.ndarray:
    figure.set_dpi(100)
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[..., :3]  # type: ignore[attr-defined]
