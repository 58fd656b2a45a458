"""IQN (Dabney et al., 2018) as a user would write it: one file, with its network."""

import equinox as eqx
import jax
import jax.numpy as jnp

from edrl import HuberQuantiles, Particles
from edrl.deep import Agent, Batch, Config, Environment


class Network(eqx.Module):
    """Features of an observation times features of a level, then two layers."""

    body: eqx.nn.Linear
    levels: eqx.nn.Linear
    hidden: eqx.nn.Linear
    last: eqx.nn.Linear

    def __init__(self, inputs: int, actions: int, key: jax.Array) -> None:
        body, levels, hidden, last = jax.random.split(key, 4)
        self.body = eqx.nn.Linear(inputs, 64, key=body)
        self.levels = eqx.nn.Linear(32, 64, key=levels)
        self.hidden = eqx.nn.Linear(64, 64, key=hidden)
        self.last = eqx.nn.Linear(64, actions, key=last)

    def __call__(self, observation: jax.Array, tau: jax.Array) -> jax.Array:
        cosines = jnp.cos(jnp.pi * jnp.arange(1, 33) * tau)
        features = jax.nn.relu(self.body(observation)) * jax.nn.relu(self.levels(cosines))
        return self.last(jax.nn.relu(self.hidden(features)))


class OwnIQN(Agent):
    """Its parameters are the network itself."""

    inputs: int = eqx.field(static=True)
    actions: int = eqx.field(static=True)

    @classmethod
    def build(cls, config: Config, environment: Environment) -> "OwnIQN":
        return cls(environment.frame_shape[0], environment.num_actions)

    def init(self, key: jax.Array) -> Network:
        return Network(self.inputs, self.actions, key)

    def quantiles(self, network: Network, seen: jax.Array, taus: jax.Array) -> jax.Array:
        """[batch, action, n] at levels [batch, n]."""
        return jax.vmap(jax.vmap(network, (None, 0), 1))(seen, taus)

    def returns(self, network: Network, seen: jax.Array, key: jax.Array) -> Particles:
        return Particles(self.quantiles(network, seen, jax.random.uniform(key, (len(seen), 8))))

    def loss(self, network: Network, target: Network, batch: Batch, key: jax.Array) -> jax.Array:
        key_next, key_now = jax.random.split(key)
        rows = jnp.arange(len(batch.actions))
        after = self.returns(target, batch.next_observations, key_next)
        goal = after[rows, jnp.argmax(after.mean(), axis=-1)].push(batch.returns, batch.discounts)
        taus = jax.random.uniform(key_now, (len(rows), 8))
        values = self.quantiles(network, batch.observations, taus)[rows, batch.actions]
        return HuberQuantiles(taus).loss(values, jax.lax.stop_gradient(goal))
