"""What temporal differences have learnt."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edrl.core.check import fail
from edrl.core.particles import Particles
from edrl.core.plot import COLOURS
from edrl.core.precision import in_float64
from edrl.core.statistics import Statistics
from edrl.core.types import Bool, Float, Int
from edrl.core.words import count, form
from edrl.tabular.ground_truth import Truth
from edrl.tabular.mdp import MDP, sizes_of
from edrl.tabular.plot import Layer, State, name_of, plot_returns, truth_layers

if TYPE_CHECKING:
    import matplotlib.figure


@dataclass(frozen=True)
class Learnt:
    """What temporal differences have learnt, for each step size and seed."""

    mdp: MDP
    family: Statistics
    step_sizes: Float[np.ndarray, " alphas"]
    values: Float[np.ndarray, "records alphas seeds S A K"]  # the last record is the final one
    visits: Int[np.ndarray, "alphas seeds S A"]
    steps: Int[np.ndarray, " records"]  # how many steps had been made

    def final(self) -> Float[np.ndarray, "alphas seeds S A K"]:
        """The values at the end, for each step size and seed."""
        final: np.ndarray = self.values[-1]
        return final

    @in_float64
    def distributions(self) -> Particles:
        """The imputed return distributions at the end, [alphas, seeds, S, A, n]."""
        imputed: Particles = self.family.impute(self.final())
        return imputed

    def plot(
        self,
        states: State | Sequence[State] | None = None,
        truth: Truth | Particles | None = None,
    ) -> "matplotlib.figure.Figure":
        """Draw the return distributions of some states, their actions side by side.

        Step sizes differ in colour, and each seed has a line. Runs that diverged are left out.

        Args:
            states: Numbers or names of states, by default the likeliest start.
            truth: True return distributions to draw under the learnt ones.

        Returns:
            A figure of Matplotlib's pyplot: `.savefig("returns.png")` saves it.
        """
        if self._diverged().all():
            raise fail("learnt", self, "all runs have diverged, and there is nothing to draw")
        layers = [*truth_layers(truth), *self._layers()]
        title = (
            f"Return distributions by {name_of(self.family)}, {count(int(self.steps[-1]), 'step')}"
        )
        return plot_returns(self.mdp, layers, states, title, self._note)

    def _note(self, state: int, action: int) -> str:
        return "" if self.visits[:, :, state, action].any() else " (never tried)"

    @in_float64
    def _layers(self) -> list[Layer]:
        """A layer for each run that has not diverged; the first of a step size has a label."""
        layers = []
        colours = itertools.cycle(COLOURS)
        final = self.final()
        for step_size, runs, colour in zip(self.step_sizes, final, colours, strict=False):
            label = f"step size {step_size:g}"
            for values in runs[np.isfinite(runs).all(axis=(1, 2, 3))]:
                layers.append(Layer(label, self.family.impute(values), colour, 1.1))
                label = ""
        return layers

    def _diverged(self) -> Bool[np.ndarray, "alphas seeds"]:
        return np.asarray(~np.isfinite(self.final()).all(axis=(2, 3, 4)))

    @in_float64
    def _means_at_start(self) -> Float[np.ndarray, " tried"]:
        """The expected returns that runs have learnt for what they tried in the first states.

        Those of all states may take long: they may have to be imputed.
        """
        first, usable = np.flatnonzero(self.mdp.start), ~self._diverged()
        tried = self.visits[usable][:, first] > 0  # [runs, starts, A]
        values = self.final()[usable][:, first][tried]
        return np.asarray(self.family.mean(values)) if len(values) else np.zeros(0)

    def __repr__(self) -> str:
        alphas, seeds = self.visits.shape[:2]
        sizes = sizes_of(self.mdp)
        lost = int(self._diverged().sum())
        of = f"{count(alphas * seeds, 'run')} {form(lost, 'has', 'have')}"
        note = f"; {lost} of {of} diverged" if lost else ""
        means = self._means_at_start()
        if means.size:
            note = f"; expected returns at the start {means.min():.4g} to {means.max():.4g}{note}"
        steps = f"{count(int(self.steps[-1]), 'step')} for step sizes "
        steps += ", ".join(f"{size:g}" for size in self.step_sizes)
        learnt = f"{steps} with {count(seeds, 'seed')}{note}"
        return f"Learnt({name_of(self.family)}, {sizes}: {learnt})"
