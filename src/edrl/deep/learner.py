"""Learning: from a batch to new parameters, the same for every agent."""

from functools import partial
from typing import NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, UInt32

from edrl.core.particles import Particles
from edrl.deep.agents.agent import Agent, of_actions
from edrl.deep.replay import Batch
from edrl.deep.types import AnyArray, Key, Observations, Parameters

# On two CPU cores an update takes half as long if XLA orders it for memory, not for what could run
# at once: its matrix products use every core by themselves.
_IN_ORDER = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}

Seed: TypeAlias = UInt32[AnyArray, "2"]
"""What a compiled function makes its random key of."""


def seed_of(stream: int, number: int) -> Seed:
    """The seed with a number in a stream of random numbers."""
    return np.array([stream % 2**32, number % 2**32], np.uint32)


def _key(seed: Seed) -> Key:
    key: Key = jax.random.wrap_key_data(jnp.asarray(seed))
    return key


class Adam(eqx.Module):
    """The optimiser's settings."""

    learning_rate: float = eqx.field(static=True)
    epsilon: float = eqx.field(static=True)

    def transformation(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate, eps=self.epsilon)


class Learner(NamedTuple):
    """All that learning changes."""

    online: Parameters
    target: Parameters
    optimiser: optax.OptState


class Losses(NamedTuple):
    """The losses before an update."""

    mean: Float[Array, "*update"]  # weighted by the replay memory: what is minimised
    each: Float[Array, "*update batch"]


def new_learner(agent: Agent, adam: Adam, key: Key) -> Learner:
    """Random parameters, the same for both networks."""
    online = agent.init(key)
    return Learner(online, _copy(online), adam.transformation().init(online))


def with_new_target(learner: Learner) -> Learner:
    """The online network is copied to the target network."""
    return learner._replace(target=_copy(learner.online))


def _copy(parameters: Parameters) -> Parameters:
    """In memory of its own: an update gives the memory of its arguments back."""
    return jax.tree.map(jnp.copy, parameters)


@partial(jax.jit, donate_argnames="learner", compiler_options=_IN_ORDER)
def update(
    agent: Agent, adam: Adam, learner: Learner, batch: Batch, seed: Seed
) -> tuple[Learner, Losses]:
    """One step of Adam on the loss, at the weights of the batch."""
    return _step(agent, adam, learner, batch, _key(seed))


@partial(jax.jit, donate_argnames="learner", compiler_options=_IN_ORDER)
def updates(
    agent: Agent, adam: Adam, learner: Learner, batches: Batch, seed: Seed
) -> tuple[Learner, Losses]:
    """Steps of Adam, one after the other, for batches [update, batch, ...]."""
    keys = jax.random.split(_key(seed), len(batches.actions))
    return jax.lax.scan(
        lambda learner, given: _step(agent, adam, learner, *given), learner, (batches, keys)
    )


def _step(
    agent: Agent, adam: Adam, learner: Learner, batch: Batch, key: Key
) -> tuple[Learner, Losses]:
    def loss(online: Parameters) -> tuple[Float[Array, ""], Float[Array, " batch"]]:
        each = agent.loss(online, learner.target, batch, key)
        return jnp.mean(batch.weights * each), each

    (mean, each), gradient = jax.value_and_grad(loss, has_aux=True)(learner.online)
    changes, optimiser = adam.transformation().update(gradient, learner.optimiser)
    online = optax.apply_updates(learner.online, changes)
    return learner._replace(online=online, optimiser=optimiser), Losses(mean, each)


@jax.jit
def greedy_actions(
    agent: Agent, parameters: Parameters, observations: Observations, seed: Seed
) -> Int[Array, " batch"]:
    """The actions of highest value."""
    return jnp.argmax(agent.action_values(parameters, observations, _key(seed)), axis=-1)


class GreedyPolicy:
    """Chooses the actions of highest value; an agent's random numbers differ from call to call."""

    def __init__(self, agent: Agent, parameters: Parameters, stream: int, number: int = 0) -> None:
        self._agent, self._parameters = agent, parameters
        self._stream, self._number = stream, number

    def __call__(self, observations: Observations) -> Int[np.ndarray, " batch"]:
        seed = seed_of(self._stream, self._number)
        self._number += 1
        return np.asarray(greedy_actions(self._agent, self._parameters, observations, seed))


@jax.jit
def learnt_returns(
    agent: Agent, parameters: Parameters, observations: Observations, seed: Seed
) -> Particles:
    """The return distributions [batch, action, n]."""
    return agent.returns(parameters, observations, _key(seed))


@jax.jit
def returns_of_actions(
    agent: Agent,
    parameters: Parameters,
    observations: Observations,
    actions: Int[AnyArray, " batch"],
    seed: Seed,
) -> Particles:
    """The return distributions [batch, n] of one action each."""
    returns = agent.returns(parameters, observations, _key(seed))
    fields = (of_actions(jnp.asarray(table), actions) for table in (returns.atoms, returns.probs))
    return Particles(*fields)


@jax.jit
def diagnose(
    agent: Agent, learner: Learner, batch: Batch, seed: Seed
) -> dict[str, Float[Array, ""]]:
    """What the agent has to say about a batch."""
    return agent.diagnose(learner.online, learner.target, batch, _key(seed))
