"""Pictures of return distributions."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edrl.core.particles import Particles
from edrl.report import style

ACTION_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#000000", "#7f7f7f")


def draw_returns(path: Path, returns: Particles, steps: Sequence[int], action_names: Sequence[str], title: str) -> None:
    """Distribution functions of the returns [state, action, n] of every action, a panel for each state."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ordered = Particles(np.asarray(returns.atoms), np.asarray(returns.probs)).sorted()
    atoms, probs = np.asarray(ordered.atoms), np.asarray(ordered.probs)
    low, high = float(atoms.min()), float(atoms.max())
    margin = 0.05 * (high - low) or 1.0
    with style.applied():
        figure, panels = style.axes(1, len(steps), width=3.2 * len(steps), height=3.2, sharey=True, squeeze=False)
        for axes, step, state_atoms, state_probs in zip(panels[0], steps, atoms, probs, strict=True):
            for action, name in enumerate(action_names):
                colour = ACTION_COLOURS[action % len(ACTION_COLOURS)]
                ends = (low - margin, high + margin)
                style.step_cdf(axes, state_atoms[action], state_probs[action], colour, name, ends)
            axes.set(title=f"after {step} steps", xlabel="return")
        panels[0, 0].set_ylabel("probability of at most that")
        panels[0, 0].legend(fontsize=7)
        figure.suptitle(title, fontsize=10)
        figure.savefig(path, dpi=110, facecolor="white")
