"""Pictures of return distributions, drawn at each evaluation of a run."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edrl.core.particles import Particles
from edrl.deep.callbacks import Callback, Evaluation
from edrl.deep.learner import learnt_returns, seed_of
from edrl.deep.play import Moment
from edrl.deep.run import Run
from edrl.report import style

ACTION_COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#000000",
    "#7f7f7f",
)  # fmt: skip
_SHOWN = (0, 25, 50, 100)  # steps of an episode before the observations whose returns are drawn


class ReturnPictures(Callback):
    """Draws the return distributions of every action in a few states of an evaluation."""

    def __init__(self) -> None:
        self._seen: dict[int, np.ndarray] = {}  # observations, by the steps before them

    def on_step(self, run: Run) -> None:
        self._seen = {}

    def on_play(self, run: Run, moment: Moment) -> None:
        if moment.before in _SHOWN:
            self._seen.setdefault(moment.before, moment.observation)

    def on_evaluation(self, run: Run, evaluation: Evaluation) -> None:
        observations = np.stack(list(self._seen.values()))
        learner, seed = run.state.learner, seed_of(0, run.step)
        returns = learnt_returns(run.agent, learner.acting, observations, seed)
        path = run.out / "pictures" / f"returns-{run.step:012d}.png"
        title = f"{run.config.variant} on {run.environment.name}, step {run.step:,}"
        draw_returns(path, returns, tuple(self._seen), evaluation.action_names, title)


def draw_returns(
    path: Path,
    returns: Particles,
    steps: Sequence[int],
    action_names: Sequence[str],
    title: str,
) -> None:
    """Distribution functions of the returns [state, action, n], a panel for each state."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ordered = Particles(np.asarray(returns.atoms), np.asarray(returns.probs)).sorted()
    atoms, probs = np.asarray(ordered.atoms), np.asarray(ordered.probs)
    low, high = float(atoms.min()), float(atoms.max())
    margin = 0.05 * (high - low) or 1.0
    ends = (low - margin, high + margin)
    with style.applied():
        width = 3.2 * len(steps)
        figure, panels = style.axes(
            1, len(steps), width=width, height=3.2, sharey=True, squeeze=False
        )
        for axes, step, state_atoms, state_probs in zip(
            panels[0], steps, atoms, probs, strict=True
        ):
            for action, name in enumerate(action_names):
                colour = ACTION_COLOURS[action % len(ACTION_COLOURS)]
                cdf = state_atoms[action], state_probs[action]
                style.step_cdf(axes, *cdf, colour, name, ends)
            axes.set(title=f"after {step} steps", xlabel="return")
        panels[0, 0].set_ylabel("probability of at most that")
        panels[0, 0].legend(fontsize=7)
        figure.suptitle(title, fontsize=10)
        figure.savefig(path, dpi=110, facecolor="white")
