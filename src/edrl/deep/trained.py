"""Agents as configs describe them, and as checkpoints hold them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from edrl.core.check import fail
from edrl.core.particles import Particles
from edrl.core.risk import CVaR
from edrl.core.statistics import Statistics
from edrl.deep import checkpoint
from edrl.deep.agent import Agent, Learner
from edrl.deep.config import Config, read_config
from edrl.deep.environments import Environment, make
from edrl.deep.networks import Parameters, network_for
from edrl.deep.provenance import check_made_with, made_with


@dataclass(frozen=True)
class Trained:
    """What a run has learnt, without what it needs to learn more."""

    config: Config
    agent: Agent
    parameters: Parameters
    step: int

    def returns(self, observations: Any) -> Particles:
        """The learnt return distributions [batch, action] of observations [batch, ...]."""
        return self.agent.returns(self.parameters, observations)

    def greedy(self, observations: Any) -> Any:
        """The actions [batch] that the agent would choose."""
        return self.agent.greedy(self.parameters, observations)


def build_agent(config: Config, environment: Environment, family: Statistics | None = None) -> Agent:
    """The agent of a config for an environment; `family` replaces the config's statistics."""
    family = config.family() if family is None else family
    stack = (environment.stack,) if environment.stack > 1 else ()
    shape = (*environment.frame_shape, *stack)
    network = network_for(config.network, shape, environment.num_actions, family.num_outputs, environment.scale)
    risk = None if config.cvar == 1 else CVaR(config.cvar)
    return Agent(family, network, config.learning_rate, config.adam_epsilon, config.double, risk)


def restored(learner: Learner, kept: checkpoint.Checkpoint, now: dict[str, Any]) -> Learner:
    """The networks and the optimiser of a checkpoint, for a learner like that one; `now` is what it is made with."""
    check_made_with(kept.state.get("made_with", {}), now)
    leaves, tree = jax.tree.flatten(learner)
    loaded = [kept.arrays.get(f"learner/{n}") for n in range(len(leaves))]
    if any(new is None or new.shape != old.shape for new, old in zip(loaded, leaves, strict=True)):
        raise checkpoint.CheckpointError("the checkpoint is of another agent: its parameters have other shapes")
    return jax.tree.unflatten(tree, [jnp.asarray(leaf) for leaf in loaded])


def load_trained(out: Path | str, *, env: Any = None, family: Statistics | None = None) -> Trained:
    """The agent of a run, as its last checkpoint has it, ready to play; nothing in the run is changed.

    `env` and `family` as they were passed to `train`, if they were.
    """
    out = Path(out)
    found = checkpoint.found(out)
    if not found:
        raise fail("run", str(out), "there is no run with a checkpoint in it")
    config = read_config(out)
    kept = checkpoint.load(found[0], replay=False)
    given = make(env() if callable(env) else config.env if env is None else env, seed=0, sticky=config.sticky)
    now = made_with(config, family, None if env is None else given.name)
    agent = build_agent(config, given, family)
    if env is None or callable(env):
        given.close()
    learner = restored(agent.init(jax.random.key(0)), kept, now)
    return Trained(config, agent, learner.online, kept.step)
