"""Learning: from a batch to new parameters, the same for every agent."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped, UInt32

from edrl.core.particles import Particles
from edrl.deep.agents.agent import Agent, of_actions
from edrl.deep.config import Config
from edrl.deep.optimiser import Moments, Optimiser, running_average
from edrl.deep.rollout import Batch, Rollout
from edrl.deep.types import AnyArray, Key, Observations, Parameters, Targets

# On two CPU cores an update takes half as long if XLA orders it for memory, not for what could run
# at once: its matrix products use every core by themselves.
IN_ORDER = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}

Seed: TypeAlias = UInt32[AnyArray, "2"]
"""What a compiled function makes its random key of."""


def seed_of(stream: int, number: int) -> Seed:
    """The seed with a number in a stream of random numbers."""
    return np.array([stream % 2**32, number % 2**32], np.uint32)


def key_of(seed: Seed) -> Key:
    """The random key that a seed stands for."""
    key: Key = jax.random.wrap_key_data(jnp.asarray(seed))
    return key


def optimiser_for(config: Config, agent: Agent, step: int = 0) -> Optimiser:
    """The optimiser of a config at a step.

    Agents average their losses over K statistics. Adam's epsilon in a config is for their sum, as
    in the paper: dividing both by K changes no step.
    """
    return Optimiser(
        learning_rate=config.learning_rate_at(step),
        epsilon=config.adam_epsilon / agent.num_statistics,
        rectified=config.optimiser == "radam",
        max_gradient=config.max_gradient,
        average=config.average,
    )


class Learner(NamedTuple):
    """All that learning changes."""

    online: Parameters
    target: Parameters | None  # None where returns are bootstrapped from what acts
    average: Parameters | None  # of the online parameters over time, if there is one
    optimiser: Moments

    @property
    def acting(self) -> Parameters:
        """The parameters that choose actions and are evaluated."""
        return self.online if self.average is None else self.average

    @property
    def bootstrapping(self) -> Parameters:
        """The parameters that targets are made of."""
        return self.acting if self.target is None else self.target


class Losses(NamedTuple):
    """The losses before an update."""

    mean: Float[Array, "*update"]  # weighted by the replay memory: what is minimised
    each: Float[Array, "*update batch"]


def new_learner(
    agent: Agent, optimiser: Optimiser, key: Key, *, target_network: bool = True
) -> Learner:
    """Random parameters, the same for all networks."""
    online = agent.init(key)
    target = _copy(online) if target_network else None
    average = _copy(online) if optimiser.average else None
    return Learner(online, target, average, optimiser.init(online))


def with_new_target(learner: Learner) -> Learner:
    """The network that acts is copied to the target network."""
    return learner._replace(target=_copy(learner.acting))


def _copy(parameters: Parameters) -> Parameters:
    """In memory of its own: an update gives the memory of its arguments back."""
    return jax.tree.map(jnp.copy, parameters)


@partial(jax.jit, donate_argnames="learner", compiler_options=IN_ORDER)
def update(
    agent: Agent,
    optimiser: Optimiser,
    learner: Learner,
    batch: Batch,
    seed: Seed,
    following: Rollout | None = None,
) -> tuple[Learner, Losses]:
    """One step of the optimiser on the loss, at the weights of the batch.

    Args:
        following: the steps [T, batch] from each transition on, if returns of several lengths are
            mixed.
    """
    return update_once(agent, optimiser, learner, batch, following, key_of(seed))


@partial(jax.jit, static_argnames="count", donate_argnames="learner", compiler_options=IN_ORDER)
def updates(
    agent: Agent,
    optimiser: Optimiser,
    learner: Learner,
    batch: Batch,
    seed: Seed,
    count: int,
    following: Rollout | None = None,
) -> tuple[Learner, Losses]:
    """So many steps of the optimiser, one after the other, which share a batch out."""
    return update_in_turn(agent, optimiser, learner, batch, following, key_of(seed), count)


def update_in_turn(
    agent: Agent,
    optimiser: Optimiser,
    learner: Learner,
    batch: Batch,
    following: Rollout | None,
    key: Key,
    count: int,
) -> tuple[Learner, Losses]:
    """What `updates` compiles; for programs that do more than that."""
    # The target network is the same for all of them. To ask it once is faster.
    targets = _targets(agent, learner.bootstrapping, batch, following, key)
    shared = jax.tree.map(partial(_shared_out, count), (batch, targets))

    def one(
        learner: Learner, given: tuple[tuple[Batch, Targets | None], Key]
    ) -> tuple[Learner, Losses]:
        (batch, targets), key = given
        return _learn_targets(agent, optimiser, learner, batch, targets, key)

    return jax.lax.scan(one, learner, (shared, jax.random.split(key, count)))


def _shared_out(count: int, column: Shaped[AnyArray, "step ..."]) -> Shaped[Array, "update ..."]:
    """A column in so many parts."""
    return jnp.asarray(column).reshape(count, -1, *column.shape[1:])


def update_once(
    agent: Agent,
    optimiser: Optimiser,
    learner: Learner,
    batch: Batch,
    following: Rollout | None,
    key: Key,
) -> tuple[Learner, Losses]:
    """What `update` compiles; for programs that do more than that."""
    targets = _targets(agent, learner.bootstrapping, batch, following, key)
    return _learn_targets(agent, optimiser, learner, batch, targets, key)


def _targets(
    agent: Agent, parameters: Parameters, batch: Batch, following: Rollout | None, key: Key
) -> Targets | None:
    """What a batch teaches, if the parameters that bootstrap it tell; None if they alone do not."""
    if following is None:
        return agent.goals(parameters, batch, key)
    targets = agent.targets(parameters, following, key)
    return jax.tree.map(lambda column: column[0], targets)


def _learn_targets(
    agent: Agent,
    optimiser: Optimiser,
    learner: Learner,
    batch: Batch,
    targets: Targets | None,
    key: Key,
) -> tuple[Learner, Losses]:
    """One step, to targets that have been made or to the agent's own."""

    def loss(online: Parameters) -> Float[Array, " batch"]:
        if targets is None:
            return agent.loss(online, learner.bootstrapping, batch, key)
        return agent.fit(online, batch.observations, batch.actions, targets, key)

    return _descend(optimiser, learner, loss, batch.weights)


def _descend(
    optimiser: Optimiser,
    learner: Learner,
    loss: Callable[[Parameters], Float[Array, " batch"]],
    weights: Float[AnyArray, " *batch"] | float = 1.0,
) -> tuple[Learner, Losses]:
    """One step on the weighted mean of losses."""

    def weighted(online: Parameters) -> tuple[Float[Array, ""], Float[Array, " batch"]]:
        each = loss(online)
        return jnp.mean(weights * each), each

    (mean, each), gradient = jax.value_and_grad(weighted, has_aux=True)(learner.online)
    online, moments = optimiser.step(learner.online, gradient, learner.optimiser)
    average = learner.average
    if average is not None:
        average = running_average(optimiser.average, average, online)
    moved = learner._replace(online=online, average=average, optimiser=moments)
    return moved, Losses(mean, each)


class Passes(NamedTuple):
    """How often a rollout is learnt from."""

    epochs: int
    minibatches: int  # in each


@partial(jax.jit, static_argnames="passes", donate_argnames="learner", compiler_options=IN_ORDER)
def learn_from(
    agent: Agent,
    optimiser: Optimiser,
    learner: Learner,
    rollout: Rollout,
    passes: Passes,
    seed: Seed,
) -> tuple[Learner, Losses]:
    """Learn from a rollout, whose targets are made once, in minibatches of mixed steps."""
    return pass_over(agent, optimiser, learner, rollout, passes, key_of(seed))


def pass_over(
    agent: Agent,
    optimiser: Optimiser,
    learner: Learner,
    rollout: Rollout,
    passes: Passes,
    key: Key,
) -> tuple[Learner, Losses]:
    """What `learn_from` compiles; for programs that do more than that."""
    targets_key, order_key, loss_key = jax.random.split(key, 3)
    targets = agent.targets(learner.bootstrapping, rollout, targets_key)
    steps = jax.tree.map(_flat, (rollout.observations, rollout.actions, targets))
    order = _minibatches(order_key, rollout.actions.size, passes)
    keys = jax.random.split(loss_key, len(order))

    def one(learner: Learner, given: tuple[Int[Array, " batch"], Key]) -> tuple[Learner, Losses]:
        chosen, key = given
        observations, actions, targets = jax.tree.map(lambda column: column[chosen], steps)

        def loss(online: Parameters) -> Float[Array, " batch"]:
            return agent.fit(online, observations, actions, targets, key)

        return _descend(optimiser, learner, loss)

    return jax.lax.scan(one, learner, (order, keys))


def _flat(column: Shaped[AnyArray, "T lane ..."]) -> Shaped[Array, "step ..."]:
    return jnp.asarray(column).reshape(-1, *column.shape[2:])


def _minibatches(key: Key, steps: int, passes: Passes) -> Int[Array, "update batch"]:
    """The steps of each update: every epoch has every step once, in an order of its own."""
    keys = jax.random.split(key, passes.epochs)
    orders = jax.vmap(lambda key: jax.random.permutation(key, steps))(keys)
    return orders.reshape(passes.epochs * passes.minibatches, -1)


@jax.jit
def greedy_actions(
    agent: Agent, parameters: Parameters, observations: Observations, seed: Seed
) -> Int[Array, " batch"]:
    """The actions of highest value."""
    return jnp.argmax(agent.action_values(parameters, observations, key_of(seed)), axis=-1)


@jax.jit
def greedy_values(
    agent: Agent, parameters: Parameters, observations: Observations, seed: Seed
) -> tuple[Int[Array, " batch"], Float[Array, " batch"]]:
    """The actions of highest value, and their values."""
    values = agent.action_values(parameters, observations, key_of(seed))
    return jnp.argmax(values, axis=-1), jnp.max(values, axis=-1)


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
    return agent.returns(parameters, observations, key_of(seed))


@jax.jit
def returns_of_actions(
    agent: Agent,
    parameters: Parameters,
    observations: Observations,
    actions: Int[AnyArray, " batch"],
    seed: Seed,
) -> Particles:
    """The return distributions [batch, n] of one action each."""
    returns = agent.returns(parameters, observations, key_of(seed))
    fields = (of_actions(jnp.asarray(table), actions) for table in (returns.atoms, returns.probs))
    return Particles(*fields)


@jax.jit
def diagnose(
    agent: Agent, learner: Learner, batch: Batch, seed: Seed
) -> dict[str, Float[Array, ""]]:
    """What the agent has to say about a batch."""
    return agent.diagnose(learner.online, learner.bootstrapping, batch, key_of(seed))
