"""Trained agents, as checkpoints hold them."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Int

from edrl.core.check import fail
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics
from edrl.deep import checkpoint
from edrl.deep.agents import Agent, build_agent
from edrl.deep.config import Config, read_config
from edrl.deep.environments import EnvironmentSource
from edrl.deep.learner import GreedyPolicy, learnt_returns, new_learner, optimiser_for, seed_of
from edrl.deep.provenance import check_identity, identity_of, passed_beside
from edrl.deep.replay import Replay
from edrl.deep.state import from_arrays
from edrl.deep.types import Observations, Parameters

if TYPE_CHECKING:
    from edrl.deep.environments.source import EnvironmentLike


@dataclass(frozen=True)
class Trained:
    """What a run has learnt, without what it needs to learn more."""

    config: Config
    agent: Agent
    parameters: Parameters
    step: int

    def returns(self, observations: Observations, seed: int = 0) -> Particles:
        """The learnt return distributions [batch, action, n]."""
        found: Particles = learnt_returns(
            self.agent, self.parameters, observations, seed_of(seed, 0)
        )
        return found

    def greedy(self, observations: Observations, seed: int = 0) -> Int[np.ndarray, " batch"]:
        """The actions that the agent would choose."""
        return self.policy(seed)(observations)

    def policy(self, seed: int) -> GreedyPolicy:
        """How the agent plays; `seed` is that of random numbers that it may draw."""
        return GreedyPolicy(self.agent, self.parameters, seed)


def load(
    out: Path | str,
    *,
    agent: type[Agent] | Agent | None = None,
    family: Statistics | None = None,
    env: "EnvironmentLike | None" = None,
    replay: type[Replay] = Replay,
    older: bool = False,
) -> Trained:
    """The agent of a run's last checkpoint, ready to play; nothing in the run is changed.

    What was passed to `train` beside the config is passed again.

    Args:
        older: if the last checkpoint is damaged, take the one before.
    """
    out = Path(out)
    if not checkpoint.found(out):
        raise fail("run", str(out), "there is no run with a checkpoint in it")
    config = read_config(out)
    _, kept = checkpoint.first_usable(out, partial(checkpoint.load, replay=False), older)
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
    learner = new_learner(
        built, optimiser_for(config, built), jax.random.key(0), target_network=not config.rollout
    )
    learner = from_arrays({"learner": learner}, kept.arrays)["learner"]
    _check_finite(out, learner.acting)
    return Trained(config, built, learner.acting, kept.step)


def _check_finite(out: Path, parameters: Parameters) -> None:
    """A network of NaNs would play its first action, and expect nan."""
    for leaf in jax.tree.leaves(parameters):
        if not np.isfinite(leaf).all():
            right = "its network holds numbers that are not finite: learning has diverged"
            raise fail("run", str(out), f"{right}, and there is nothing to play with")
