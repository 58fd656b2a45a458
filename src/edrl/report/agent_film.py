"""A film of an agent at play: the game, and beside it the live return distribution of each action."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from rich.console import Console
from rich.progress import track

from edrl.core.particles import Particles
from edrl.deep.environments import Environment
from edrl.deep.play import Actors, Moment
from edrl.deep.trained import DivergedError, NoAnswerError, Trained
from edrl.report import style
from edrl.report.film import write_film
from edrl.report.return_pictures import ACTION_COLOURS

_SILENT = {
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",
    "SDL_VIDEODRIVER": "dummy",
    "SDL_AUDIODRIVER": "dummy",
}
_HEIGHT = 320  # pixels of a picture


def film_episode(
    trained: Trained,
    video: Path,
    *,
    seed: int,
    steps: int = 300,
    every: int = 2,
    bar: bool = False,
    check: Callable[[], None] = lambda: None,
) -> tuple[int, float]:
    """Play an episode and write the film; returns the number of steps, and the score.

    Args:
        video: the film's file, a .gif or an .mp4.
        seed: of the environment and of random actions.
        steps: how many steps are played at most.
        every: how many steps lie between two pictures.
        bar: whether a bar in the terminal shows how much is drawn.
        check: is called before each step and each picture, and may raise, to break it off.
    """
    # No window is opened, no sound is played, and pygame does not greet anybody.
    for name, value in _SILENT.items():
        os.environ.setdefault(name, value)
    environment = trained.source.with_seed(seed)
    shots, step, score = _played(trained, environment, seed, steps, every, check)
    names, ends = environment.action_names, return_axis([shot.returns for shot in shots])
    drawn = _under_a_bar(shots) if bar else shots
    pictures = []
    for shot in drawn:
        check()
        pictures.append(picture(*shot, names=names, ends=ends))
    write_film(video, pictures, every / steps_per_second(environment))
    return step, score


class Shot(NamedTuple):
    """What a picture of a film shows."""

    game: np.ndarray
    returns: Particles  # [action, n]
    action: int  # that is chosen
    score: float  # before it


def _played(
    trained: Trained,
    environment: Environment,
    seed: int,
    steps: int,
    every: int,
    check: Callable[[], None],
) -> tuple[list[Shot], int, float]:
    """Play an episode; returns what the film shows, the number of steps, and the score."""
    actors = Actors.of([environment])
    actors.begin()
    policy, rng = trained.policy(seed), np.random.default_rng(seed)
    shots, score, ended, step = list[Shot](), 0.0, False, 0
    while step < steps and not ended:
        check()
        game = environment.render() if step % every == 0 else None
        (moment,) = actors.act(policy, trained.config.evaluate_epsilon, rng).moments()
        if game is not None:
            shots.append(Shot(game, _returns(trained, moment), moment.action, score))
        score, step, ended = moment.score, step + 1, moment.after.ended
    return shots, step, score


def _returns(trained: Trained, moment: Moment) -> Particles:
    """What is expected; of an environment's own observation, that must be finite."""
    try:
        return trained.returns(moment.observation)
    except NoAnswerError as error:
        raise DivergedError(trained.out, "it expects returns") from error


def _under_a_bar(shots: Sequence[Shot]) -> Iterable[Shot]:
    console = Console(stderr=True)
    return track(shots, "draw", console=console, transient=True, update_period=0.5)


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
        figure, axes = style.axes(1, 1, width=4.9, height=3.2)
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
        # Beside the axes: within them, lines run through the names in one picture or another.
        axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
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
    # Agg's canvas, which matplotlib's types do not know of.
    return np.asarray(figure.canvas.buffer_rgba())[..., :3]  # type: ignore[attr-defined]
