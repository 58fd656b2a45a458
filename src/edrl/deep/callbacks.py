"""What watches a run: metrics, evaluations, checkpoints, and what users add."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from edrl.core.check import fail
from edrl.deep.calibration import Calibration, Returns
from edrl.deep.environments.source import mixed_seed
from edrl.deep.learner import GreedyPolicy, diagnose, seed_of
from edrl.deep.play import Moment, Played, play, play_side_by_side

if TYPE_CHECKING:
    from edrl.deep.run import Run

Row = Mapping[str, int | float | str]
"""Numbers by their columns; an empty text where there is none."""

Event = Literal[
    "on_begin", "on_step", "on_log", "on_play", "on_evaluation", "on_checkpoint", "on_end"
]
"""What callbacks are told."""

_MOST_BEYOND = 0.5
_BEYOND = "most returns to learn from lie beyond the support of {}, and count as its ends"


@dataclass
class Evaluation:
    """How an agent played apart from training."""

    played: Played
    action_names: tuple[str, ...]
    calibration: Calibration | None = None

    def row(self, step: int) -> Row:
        """What evaluations.csv tells of it."""
        scores = self.played.scores
        return {
            "step": step,
            "episodes": len(scores),
            "mean": float(np.mean(scores)),
            "least": min(scores),
            "most": max(scores),
            "length": float(np.mean(self.played.lengths)),
        }


class Callback:
    """Watches a run; every method does nothing unless it is overridden.

    Pass callbacks as `train(..., callbacks=[Mine()])`. Arrays that `save` returns are part of the
    run's checkpoints, under the callback's `name`, and `load` gets them back when a run goes on.
    """

    @property
    def name(self) -> str:
        """What tells it from the other callbacks of a run."""
        return type(self).__name__

    def on_begin(self, run: Run) -> None:
        """Before the first step, also of a run that goes on."""

    def on_step(self, run: Run) -> None:
        """After a step; again for a step whose evaluation was broken off when a run goes on."""

    def on_log(self, run: Run, row: Row) -> None:
        """When there is a row of metrics."""

    def on_play(self, run: Run, moment: Moment) -> None:
        """After each step of an evaluation."""

    def on_evaluation(self, run: Run, evaluation: Evaluation) -> None:
        """After an evaluation."""

    def on_checkpoint(self, run: Run) -> None:
        """After a checkpoint has been written."""

    def on_end(self, run: Run) -> None:
        """When the run has ended, been stopped or failed."""

    def save(self) -> dict[str, np.ndarray]:
        """What a checkpoint must hold."""
        return {}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Go back to what `save` gave; `arrays` is empty if there was no such callback."""


class Log(Callback):
    """Makes a row of metrics every `log_every` steps: means since the last one."""

    def on_step(self, run: Run) -> None:
        counters = run.state.counters
        if not run.config.due(run.step, run.config.log_every) or counters.logged == run.step:
            return
        row = self._row(run)
        run.state.since_log.clear()
        counters.logged = run.step
        run.tell("on_log", row)
        _check(run, row)

    def _row(self, run: Run) -> Row:
        since, losses = run.state.since_log, run.state.since_log.mean_losses()
        row: dict[str, int | float | str] = {
            "step": run.step,
            "episodes": run.state.counters.episodes,
            "score": _mean(since.played.scores),
            "length": _mean(since.played.lengths),
            "epsilon": run.config.epsilon_at(run.step),
            "learning_rate": run.config.learning_rate_at(run.step),
            "loss": _mean(losses),
        }
        if len(losses):
            row.update(self._diagnoses(run))
        return row

    def _diagnoses(self, run: Run) -> dict[str, float]:
        # On transitions of its own: the run's random numbers are the same if it is not logged.
        rng = np.random.default_rng((run.config.seed, run.step))
        batch = run.state.memory.sample(rng, run.config.batch)
        seed = seed_of(run.streams.logging, run.step)
        found = diagnose(run.agent, run.state.learner, batch, seed)
        return {name: float(found[name]) for name in run.agent.diagnostics}


def _check(run: Run, row: Row) -> None:
    """Whether learning goes as it should."""
    if float(row.get("beyond_support", 0.0)) > _MOST_BEYOND:
        beyond = _BEYOND.format(run.config.variant)
        warnings.warn(f"{beyond}: choose another support", stacklevel=2)
    if row["loss"] != "" and not np.isfinite(float(row["loss"])):
        right = f"learning has diverged by step {run.step:,}; a smaller learning_rate may help"
        raise fail("loss", row["loss"], right)


class Evaluate(Callback):
    """Plays apart from training, in an environment that depends on the seed and the step alone."""

    def on_step(self, run: Run) -> None:
        if run.evaluation_due:
            # A long one must not keep a run from saving in the seconds that clusters leave it.
            with contextlib.suppress(_BrokenOff), run.saved_if_it_fails():
                run.tell("on_evaluation", self._evaluate(run))

    def _evaluate(self, run: Run) -> Evaluation:
        def watch(moment: Moment) -> None:
            if run.interrupted():
                raise _BrokenOff
            run.tell("on_play", moment)

        config, seed = run.config, mixed_seed(run.config.seed, run.step)
        environment = run.source.with_seed(seed)
        policy = GreedyPolicy(run.agent, run.state.learner.acting, seed)
        epsilon, steps = config.evaluate_epsilon, config.evaluate_steps
        if config.evaluate_episodes:
            others = [run.source.another(seed, n) for n in range(1, config.evaluate_episodes)]
            lanes = [environment, *others]
            played = play_side_by_side(lanes, policy, epsilon, seed, steps, watch=watch)
        else:
            lanes = [environment]
            played = play(environment, policy, epsilon, seed, steps=steps, watch=watch)
        for lane in lanes:
            lane.close()
        return Evaluation(played, environment.action_names)


class _BrokenOff(BaseException):
    """The run was asked to end during an evaluation, which is made when it goes on."""


class Calibrate(Callback):
    """Compares learnt return distributions with the returns of evaluations."""

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._returns = Returns(gamma)

    def on_step(self, run: Run) -> None:
        self._returns = Returns(self._gamma)  # also after an evaluation that was broken off

    def on_play(self, run: Run, moment: Moment) -> None:
        self._returns.watch(moment)

    def on_evaluation(self, run: Run, evaluation: Evaluation) -> None:
        evaluation.calibration = self._returns.against(run.agent, run.state.learner.acting)


class Checkpoints(Callback):
    """Saves the run every `checkpoint_every` steps, at its end, and when it is asked to end."""

    def on_step(self, run: Run) -> None:
        due = run.config.due(run.step, run.config.checkpoint_every)
        if due or run.step >= run.config.steps or run.interrupted():
            run.save()


def _mean(numbers: Sequence[int | float] | np.ndarray) -> float | str:
    return float(np.mean(numbers)) if len(numbers) else ""
