"""A distribution beside any agent: statistics of the returns of whatever agent acts."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from edrl.core.algorithms import algorithm
from edrl.core.lambda_returns import lambda_returns
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics
from edrl.deep.agents.agent import Agent, of_actions
from edrl.deep.config import Config
from edrl.deep.environments import Environment
from edrl.deep.networks import Network, hidden_units
from edrl.deep.rollout import Batch, Rollout
from edrl.deep.types import (
    ActionValues,
    AnyArray,
    Key,
    Losses,
    Observations,
    Parameters,
    Targets,
)
from edrl.deep.variant import AGENTS


class Parts(NamedTuple):
    """What belongs to the agent that acts, and to the statistics beside it.

    Gradients of the one do not depend on the other, and are cut to their norms apart.
    """

    actor: Parameters
    beside: Parameters


class Beside(Agent):
    """An agent that acts, and statistics of its returns that are learnt on its features.

    The statistics do not change the features, so the agent plays as it does without them.
    """

    actor: Agent
    family: Statistics
    head: Network  # from the actor's features to the statistics

    @classmethod
    def of(cls, actor: Agent, config: Config, environment: Environment) -> "Beside":
        """The statistics that a config asks for beside an agent."""
        family = algorithm(AGENTS[str(config.beside)], None, config.support)
        head = Network(
            (actor.num_features,),
            environment.num_actions,
            family.num_outputs,
            hidden=hidden_units(config.network)[-1:],
            layer_norm=config.layer_norm,
        )
        return cls(actor, family, head, trace=config.trace, cut_traces=config.cut_traces)

    @classmethod
    def build(cls, config: Config, environment: Environment) -> "Beside":
        raise TypeError("Beside is built around another agent: Beside.of(actor, ...)")

    @property
    def num_statistics(self) -> int:
        return self.actor.num_statistics

    def init(self, key: Key) -> Parts:
        return Parts(self.actor.init(key), self.head.init(jax.random.fold_in(key, 1)))

    def values(
        self, parameters: Parts, observations: Observations
    ) -> Float[Array, "batch action K"]:
        """The statistics of the returns."""
        features = self.actor.features(parameters.actor, observations)
        return self.family.link(self.head(parameters.beside, jax.lax.stop_gradient(features)))

    def returns(self, parameters: Parts, observations: Observations, key: Key) -> Particles:
        return self.family.impute(self.values(parameters, observations))

    def action_values(
        self, parameters: Parts, observations: Observations, key: Key
    ) -> ActionValues:
        return self.actor.action_values(parameters.actor, observations, key)

    def loss(self, parameters: Parts, target: Parts, batch: Batch, key: Key) -> Losses:
        best = self._best(target, batch.next_observations, key)
        values = of_actions(self.values(target, batch.next_observations), best)
        goal = self.family.impute(values).push(batch.returns, batch.discounts)
        own = self._fit(parameters, batch.observations, batch.actions, jax.lax.stop_gradient(goal))
        return self.actor.loss(parameters.actor, target.actor, batch, key) + own

    def targets(self, parameters: Parts, rollout: Rollout, key: Key) -> Parts:
        bootstraps, best = self._bootstraps(parameters, rollout.next_observations, key)
        traces = self.traces(rollout, best)
        own = lambda_returns(self.family, bootstraps, rollout.rewards, rollout.discounts, traces)
        return Parts(self.actor.targets(parameters.actor, rollout, key), own)

    def fit(
        self,
        parameters: Parts,
        observations: Observations,
        actions: Int[AnyArray, " batch"],
        targets: Targets,
        key: Key,
    ) -> Losses:
        own = self._fit(parameters, observations, actions, targets.beside)
        return self.actor.fit(parameters.actor, observations, actions, targets.actor, key) + own

    def _fit(
        self,
        parameters: Parts,
        observations: Observations,
        actions: Int[AnyArray, " batch"],
        goal: Particles,
    ) -> Losses:
        features = self.actor.features(parameters.actor, observations)
        outputs = self.head(parameters.beside, jax.lax.stop_gradient(features))
        return self.family.loss_on_outputs(of_actions(outputs, actions), goal) / self.family.size

    def _best(
        self, parameters: Parts, observations: Observations, key: Key
    ) -> Int[Array, " batch"]:
        return jnp.argmax(self.action_values(parameters, observations, key), axis=-1)

    def _bootstraps(
        self, parameters: Parts, observations: Shaped[AnyArray, "T lane ..."], key: Key
    ) -> tuple[Float[Array, "T lane K"], Int[Array, "T lane"]]:
        def row(seen: Observations) -> tuple[Float[Array, "lane K"], Int[Array, " lane"]]:
            best = self._best(parameters, seen, key)
            return of_actions(self.values(parameters, seen), best), best

        values, best = jax.lax.map(row, jnp.asarray(observations))
        return values, best
