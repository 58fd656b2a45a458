"""Environments written in JAX that are played side by side on the device: one turn, one step each."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from edrl.deep.agents.agent import Agent
from edrl.deep.environments.in_jax import JaxEnvironment, JaxStep, State, Whole
from edrl.deep.types import Key, Parameters


class Lanes(NamedTuple):
    """Environments, and what is seen of them."""

    states: State  # [lane, ...]
    frames: Shaped[Array, "lane ..."]
    scores: Float[Array, " lane"]  # of the episodes that are played
    lengths: Int[Array, " lane"]


class Happened(NamedTuple):
    """One step of every lane."""

    frames: Shaped[Array, "lane ..."]  # that the actions were chosen by
    starts: Bool[Array, " lane"]  # whether they are the first of an episode
    actions: Int[Array, " lane"]
    after: JaxStep
    scores: Float[Array, " lane"]  # of the episodes, this step included
    lengths: Int[Array, " lane"]


@partial(jax.jit, static_argnames=("environment", "count"))
def first_lanes(environment: JaxEnvironment, count: int, seed: Whole) -> Lanes:
    """The first episodes of so many environments."""
    return _begun(environment, count, jax.random.key(seed))


def _begun(environment: JaxEnvironment, count: int, key: Key) -> Lanes:
    states, frames = jax.vmap(environment.reset)(jax.random.split(key, count))
    return Lanes(states, frames, jnp.zeros(count), jnp.zeros(count, jnp.int32))


def turn(
    environment: JaxEnvironment,
    agent: Agent,
    parameters: Parameters,
    lanes: Lanes,
    epsilon: Float[Array, ""],
    key: Key,
) -> tuple[Lanes, Happened]:
    """One step of every environment, and the first frames of episodes that begin after it."""
    act_key, step_key, reset_key = jax.random.split(key, 3)
    count = len(lanes.lengths)
    actions = _epsilon_greedy(environment, agent, parameters, lanes.frames, epsilon, act_key)
    keys = jax.random.split(step_key, count)
    states, after = jax.vmap(environment.step)(keys, lanes.states, actions)
    moved = Lanes(states, after.frame, lanes.scores + after.score, lanes.lengths + 1)
    # To begin episodes costs as much as a step, and mostly there are none to begin.
    begun = jax.lax.cond(
        jnp.any(after.ended), lambda: _begun(environment, count, reset_key), lambda: moved
    )
    happened = Happened(
        lanes.frames, lanes.lengths == 0, actions, after, moved.scores, moved.lengths
    )
    return jax.tree.map(partial(_where, after.ended), begun, moved), happened


def _where(
    chosen: Bool[Array, " lane"], one: Shaped[Array, "lane ..."], other: Shaped[Array, "lane ..."]
) -> Shaped[Array, "lane ..."]:
    """The rows of one array where they are chosen, and of the other elsewhere."""
    return jnp.where(chosen.reshape(-1, *[1] * (one.ndim - 1)), one, other)


def _epsilon_greedy(
    environment: JaxEnvironment,
    agent: Agent,
    parameters: Parameters,
    frames: Shaped[Array, "lane ..."],
    epsilon: Float[Array, ""],
    key: Key,
) -> Int[Array, " lane"]:
    agent_key, explore_key, action_key = jax.random.split(key, 3)
    greedy = jnp.argmax(agent.action_values(parameters, frames, agent_key), axis=-1)
    exploring = jax.random.uniform(explore_key, greedy.shape) < epsilon
    explored = jax.random.randint(action_key, greedy.shape, 0, environment.num_actions)
    return jnp.where(exploring, explored, greedy).astype(jnp.int32)
