"""Trained agents, as checkpoints hold them."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from edrl.core.check import fail
from edrl.core.particles import Particles
from edrl.core.precision import LARGEST_FLOAT32
from edrl.core.statistics import Statistics
from edrl.core.words import Described, count
from edrl.deep import checkpoint
from edrl.deep.agents import Agent, build_agent
from edrl.deep.best import FILE as BEST
from edrl.deep.best import best_network
from edrl.deep.calibration import Calibration
from edrl.deep.config import Config, read_config
from edrl.deep.environments import EnvironmentSource, observation_shape
from edrl.deep.environments.spaces import told
from edrl.deep.exported import FILE, Exported, is_exported, read_exported
from edrl.deep.learner import (
    GreedyPolicy,
    greedy_values,
    learnt_returns,
    new_learner,
    optimiser_for,
    seed_of,
)
from edrl.deep.objects import check_trusted
from edrl.deep.provenance import check_identity, identity_of, passed_beside
from edrl.deep.replay import Replay
from edrl.deep.state import from_arrays
from edrl.deep.types import Observations, Parameters

if TYPE_CHECKING:
    from edrl.deep.environments.source import EnvironmentLike


class DivergedError(ValueError):
    """An agent that cannot play: `what` is not finite."""

    def __init__(self, out: Path, what: str) -> None:
        right = f"{what} that are not finite: learning has diverged"
        super().__init__(str(fail("run", str(out), f"{right}, and there is nothing to play with")))


class NoAnswerError(ValueError):
    """An observation for which a network has no finite answer."""


@dataclass(frozen=True, repr=False)
class Trained:
    """What a run has learnt, without what it needs to learn more.

    `act` and `returns` take one observation, as the environment gives it, or a batch of them. A
    stack of frames is the last axis, and a discrete observation is a one-hot vector.
    """

    config: Config
    agent: Agent
    parameters: Parameters
    step: int
    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype
    action_names: tuple[str, ...]
    source: EnvironmentSource  # of environments like those it was trained in
    passed: dict[str, str]  # what was passed to `train` beside the config, as text
    out: Path  # the directory that it was read from
    best: bool  # whether it is the network of the best evaluation

    def act(self, observation: ArrayLike, seed: int = 0) -> int | Int[np.ndarray, " batch"]:
        """The action of highest value: a number, or for a batch an array of them.

        Args:
            observation: one observation, or a batch.
            seed: of random numbers that the agent may draw, such as IQN's levels.
        """
        batch, single = self._batched(observation)
        found = greedy_values(self.agent, self.parameters, batch, seed_of(seed, 0))
        actions, values = map(np.asarray, found)
        check_answers(batch, values[:, None])
        return int(actions[0]) if single else actions

    def returns(self, observation: ArrayLike, seed: int = 0) -> Particles:
        """The learnt return distributions [action, n], or for a batch [batch, action, n]."""
        batch, single = self._batched(observation)
        found: Particles = learnt_returns(self.agent, self.parameters, batch, seed_of(seed, 0))
        check_answers(batch, np.asarray(found.atoms))
        return found[0] if single else found

    def policy(self, seed: int) -> GreedyPolicy:
        """How the agent plays; `seed` is that of random numbers that it may draw."""
        return GreedyPolicy(self.agent, self.parameters, seed)

    def _batched(self, observation: ArrayLike) -> tuple[Observations, bool]:
        """A batch of observations that the network can take, and whether there was only one."""
        array, shape = _as_array(observation), self.observation_shape
        single = array.shape == shape
        if not single and (array.shape[1:] != shape or array.ndim == 0 or len(array) == 0):
            right = f"it must have the shape {shape}, or (batch, {', '.join(map(str, shape))})"
            raise fail("observation", Described(f"an array of shape {array.shape}"), right)
        check_observations(array, self.observation_dtype)
        batch = np.ascontiguousarray(array, self.observation_dtype)
        return (batch[None] if single else batch), single

    @property
    def env_name(self) -> str:
        """What it was trained to play: the config's environment, or the one passed instead."""
        return self.passed.get("env", self.config.env)

    def __repr__(self) -> str:
        seen = f"observations {self.observation_dtype} {self.observation_shape}"
        played = f"{self.config.variant} on {self.env_name} after {count(self.step, 'step')}"
        return f"Trained({played}; {seen}; actions {', '.join(self.action_names)})"


def check_observations(array: np.ndarray, dtype: np.dtype) -> None:
    """Whether observations can become numbers of a type without being changed."""
    if array.dtype.kind not in "buif":
        raise fail("observation", Described(f"an array of {array.dtype}"), "it must be numbers")
    if not np.isfinite(array).all():
        raise fail("observation", array[~np.isfinite(array)][0].item(), "it must be finite")
    if dtype.kind not in "iu":
        _check_floats(array)
        return
    limits = np.iinfo(dtype)
    outside = (array != np.floor(array)) | (array < limits.min) | (array > limits.max)
    if outside.any():
        right = f"it must be whole numbers from {limits.min} to {limits.max}, as in training"
        raise fail("observation", array[outside][0].item(), right)


def _as_array(observation: ArrayLike) -> np.ndarray:
    try:
        return np.asarray(observation)
    except (ValueError, TypeError) as error:
        right = "it must be one array of numbers, and its rows must have the same length"
        raise fail("observation", told(observation), right) from error


def _check_floats(array: np.ndarray) -> None:
    """Whether float32 can hold the numbers: it would make infinities of larger ones."""
    worst = _largest(array)
    if abs(worst) > LARGEST_FLOAT32:
        raise fail("observation", worst, "it must be at most 3.4e38 in size, as float32 is")


def check_answers(batch: Observations, answers: Float[np.ndarray, "batch ..."]) -> None:
    """Whether a network's answers are numbers: of NaN the first action would be the best."""
    for row, answer in zip(batch, answers, strict=True):
        if not _are_bounded(answer):
            right = "the network's answer is not finite: it has learnt from smaller ones"
            told_shortly = float(f"{_largest(row):.6g}")
            raise NoAnswerError(str(fail("observation, its largest number", told_shortly, right)))


def _largest(array: np.ndarray) -> float:
    """The number of largest size."""
    numbers = array.astype(np.float64).ravel()
    return float(numbers[np.abs(numbers).argmax()])


def load(
    out: Path | str,
    *,
    agent: type[Agent] | Agent | None = None,
    family: Statistics | None = None,
    env: "EnvironmentLike | None" = None,
    replay: type[Replay] = Replay,
    older: bool = False,
    trust: bool = False,
    best: bool = False,
) -> Trained:
    """The agent of a run's last checkpoint, or one that `export` wrote, ready to play.

    Nothing in the directory is changed, and no code in it is run.

    What was passed to `train` beside the config is passed again.

    Args:
        older: if the last checkpoint is damaged, take the one before.
        trust: whether modules that the run's config names as MODULE:NAME may be imported. That
            runs their code, so it must be a run that you know.
        best: take the network of the run's best evaluation instead of the last one. Its score is
            too high an estimate: it was chosen for it.
    """
    out = Path(out)
    _check_there(out, older=older, best=best)
    config = read_config(out)
    check_trusted(str(out), config.names_of_code(env, agent), trust)
    kept = _read(out, config, older)
    source = EnvironmentSource(config.env if env is None else env, config.sticky)
    environment = source.with_seed(0)
    passed = passed_beside(
        agent=agent,
        env=None if env is None else environment.name,
        family=family,
        replay=None if replay is Replay else replay,
    )
    check_identity(kept.identity, identity_of(config, passed))
    built = build_agent(config, environment, family, agent)
    environment.close()
    if isinstance(kept, Exported):
        parameters, step = kept.network(out, built.init(jax.random.key(0))), kept.step
        best = kept.best
        _check_finite(out / FILE, parameters)
    else:
        parameters, step = _network_of_run(out, kept, config, built, best)
        _check_finite(out / BEST if best else out, parameters)
    return Trained(
        config=config,
        agent=built,
        parameters=parameters,
        step=step,
        observation_shape=observation_shape(environment),
        observation_dtype=np.dtype(environment.frame_dtype),
        action_names=environment.action_names,
        source=source,
        passed=passed,
        out=out,
        best=best,
    )


def _check_there(out: Path, **about_runs: bool) -> None:
    """Whether a directory has an agent in it; what is chosen in a run is settled in an export."""
    if not is_exported(out):
        if not checkpoint.found(out):
            raise fail("run", str(out), "there is no run with a checkpoint in it")
        return
    for name, given in about_runs.items():
        if given:
            right = f"it must be left out: {out} is no run, and the agent in it is the only one"
            raise fail(name, given, right)


def _read(out: Path, config: Config, older: bool) -> Exported | checkpoint.Checkpoint:
    """What a directory keeps of an agent."""
    if is_exported(out):
        return read_exported(out, config)
    return checkpoint.first_usable(out, partial(checkpoint.load, replay=False), older)[1]


def _network_of_run(
    out: Path, kept: checkpoint.Checkpoint, config: Config, built: Agent, best: bool
) -> tuple[Parameters, int]:
    """The network of a run's checkpoint or of its best evaluation, and its step."""
    learner = new_learner(
        built, optimiser_for(config, built), jax.random.key(0), target_network=not config.rollout
    )
    learner = from_arrays({"learner": learner}, kept.arrays)["learner"]
    return best_network(out, learner.acting) if best else (learner.acting, kept.step)


def _check_finite(out: Path, parameters: Parameters) -> None:
    """A network of NaNs would play its first action, and expect nan."""
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(parameters)):
        raise DivergedError(out, "its network holds numbers")


def check_expected(out: Path, calibration: Calibration | None) -> None:
    """So would a network of huge numbers, whose sums no float holds."""
    if calibration is None:
        return
    told = (calibration.expected, calibration.got, calibration.spread, calibration.scatter)
    if not _are_bounded(np.array(told)):
        raise DivergedError(out, "it expects or gets returns")


def _are_bounded(numbers: np.ndarray) -> bool:
    """Whether numbers are finite; imputation makes the greatest one of infinite statistics."""
    return bool((np.abs(numbers) < np.finfo(np.float32).max).all())
