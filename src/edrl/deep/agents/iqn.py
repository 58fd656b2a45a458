"""IQN, the implicit quantile network (Dabney et al., 2018): quantiles at levels that are drawn."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from edrl.core.families import HuberQuantiles, Quantiles
from edrl.core.lambda_returns import lambda_returns
from edrl.core.particles import Particles
from edrl.deep.agents.agent import Agent, of_actions, shared_settings
from edrl.deep.config import Config
from edrl.deep.environments import Environment, observation_shape
from edrl.deep.networks import Network, dense_layer, network_for
from edrl.deep.rollout import Batch, Rollout
from edrl.deep.types import AnyArray, Key, Losses, Observations, Parameters


class IQN(Agent):
    """N quantiles are fitted to N' of the target network; K choose actions."""

    network: Network  # one output for each action
    samples: int = eqx.field(static=True, default=8)  # N and N'
    acting_samples: int = eqx.field(static=True, default=32)  # K

    @classmethod
    def build(cls, config: Config, environment: Environment) -> "IQN":
        shape, actions = observation_shape(environment), environment.num_actions
        network = network_for(
            config.network, shape, actions, 1, environment.scale, config.layer_norm
        )
        return cls(network, config.size or 8, **shared_settings(config))

    @property
    def num_statistics(self) -> int:
        return self.samples

    def features(
        self, parameters: Parameters, observations: Observations
    ) -> Float[Array, "batch feature"]:
        return self.network.features(parameters["network"], observations)

    @property
    def num_features(self) -> int:
        return self.network.num_features

    def init(self, key: Key) -> Parameters:
        network, levels = jax.random.split(key)
        embedding = dense_layer(levels, 64, self.network.num_features)
        return {"network": self.network.init(network), "embedding": embedding}

    def quantiles(
        self, parameters: Parameters, observations: Observations, taus: Float[AnyArray, "batch n"]
    ) -> Float[Array, "batch action n"]:
        """Features of the observation times features of the levels, through the network's head."""
        cosines = jnp.cos(jnp.pi * jnp.arange(1, 65) * taus[..., None])
        embedding, network = parameters["embedding"], parameters["network"]
        levels = jax.nn.relu(cosines @ embedding["weight"] + embedding["bias"])
        features = self.network.features(network, observations)[:, None] * levels
        return jnp.moveaxis(self.network.head(network, features)[..., 0], -1, 1)

    def returns(self, parameters: Parameters, observations: Observations, key: Key) -> Particles:
        taus = jax.random.uniform(key, (len(observations), self.acting_samples))
        return Particles(self.quantiles(parameters, observations, taus))

    def loss(self, parameters: Parameters, target: Parameters, batch: Batch, key: Key) -> Losses:
        choice, levels = jax.random.split(key)
        taus, next_taus = jax.random.uniform(levels, (2, len(batch.actions), self.samples))
        judge = self.judge(parameters, target)
        best = jnp.argmax(self.action_values(judge, batch.next_observations, choice), axis=-1)
        after = of_actions(self.quantiles(target, batch.next_observations, next_taus), best)
        returns = Particles(after).push(batch.returns, batch.discounts)
        values = of_actions(self.quantiles(parameters, batch.observations, taus), batch.actions)
        return HuberQuantiles(taus).loss(values, jax.lax.stop_gradient(returns)) / self.samples

    def targets(self, parameters: Parameters, rollout: Rollout, key: Key) -> Particles:
        """Lambda-returns of samples: those of a mixture are kept as its quantiles."""

        def row(
            given: tuple[Observations, Key],
        ) -> tuple[Float[Array, "lane n"], Int[Array, " lane"]]:
            observations, key = given
            choice, levels = jax.random.split(key)
            best = jnp.argmax(self.action_values(parameters, observations, choice), axis=-1)
            taus = jax.random.uniform(levels, (len(observations), self.samples))
            values = of_actions(self.quantiles(parameters, observations, taus), best)
            return jnp.sort(values, axis=-1), best

        keys = jax.random.split(key, len(rollout.actions))
        bootstraps, best = jax.lax.map(row, (jnp.asarray(rollout.next_observations), keys))
        family, traces = Quantiles(self.samples), self.traces(rollout, best)
        return lambda_returns(family, bootstraps, rollout.rewards, rollout.discounts, traces)

    def fit(
        self,
        parameters: Parameters,
        observations: Observations,
        actions: Int[AnyArray, " batch"],
        targets: Particles,
        key: Key,
    ) -> Losses:
        taus = jax.random.uniform(key, (len(actions), self.samples))
        values = of_actions(self.quantiles(parameters, observations, taus), actions)
        return HuberQuantiles(taus).loss(values, targets) / self.samples
