"""The programs of compiled training: acting, stepping, remembering and learning in one.

What is learnt, remembered and played goes through a program, which may use its memory again.
"""

from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt32

from edrl.deep.agents.agent import Agent
from edrl.deep.device_memory import Columns, Layout
from edrl.deep.environments.in_jax import JaxEnvironment, Whole
from edrl.deep.lanes import Happened, Lanes, turn
from edrl.deep.learner import (
    IN_ORDER,
    Learner,
    Passes,
    Seed,
    key_of,
    pass_over,
    update_in_turn,
    update_once,
)
from edrl.deep.optimiser import Optimiser
from edrl.deep.rollout import Rollout
from edrl.deep.types import AnyArray, Key


class Turns(NamedTuple):
    """What the host decides for the turns of a block: in a turn every environment makes a step."""

    acting: UInt32[AnyArray, "turn 2"]  # seeds
    learning: UInt32[AnyArray, "turn 2"]  # seeds
    epsilons: Float[AnyArray, " turn"]
    learning_rates: Float[AnyArray, " turn"]
    learns: Bool[AnyArray, " turn"]  # whether updates follow it


class Told(NamedTuple):
    """What the host is told of the turns of a block."""

    ended: Bool[Array, "turn lane"]
    scores: Float[Array, "turn lane"]
    lengths: Int[Array, "turn lane"]
    losses: Float[Array, "turn update"]  # before each update

    @classmethod
    def nothing(cls, turns: int, lanes: int, updates: int) -> "Told":
        """Of turns that have not been made."""
        shape = (turns, lanes)
        losses = jnp.zeros((turns, updates))
        return cls(jnp.zeros(shape, bool), jnp.zeros(shape), jnp.zeros(shape, jnp.int32), losses)

    def noting(
        self, at: Int[Array, ""], happened: Happened, losses: Float[Array, " update"]
    ) -> "Told":
        """With what came of a turn."""
        news = happened.after.ended, happened.scores, happened.lengths, losses
        return Told(*(old.at[at].set(new) for old, new in zip(self, news, strict=True)))


class RolloutRules(NamedTuple):
    """What is compiled into a program that learns from rollouts."""

    environment: JaxEnvironment
    gamma: float
    passes: Passes


RolloutCarry: TypeAlias = tuple[Learner, Rollout, Lanes]


@partial(
    jax.jit, static_argnames="rules", donate_argnames="carry", compiler_options=IN_ORDER
)  # fmt: skip
def rollout_block(
    rules: RolloutRules,
    agent: Agent,
    optimiser: Optimiser,
    carry: RolloutCarry,
    turns: Turns,
    count: Whole,
    place: Whole,
    learning: Seed,
) -> tuple[RolloutCarry, Told, Float[Array, " update"]]:
    """Some turns, and all updates if they complete the rollout.

    Args:
        count: how many turns are made.
        place: where in the rollout the first of them goes.
        learning: the seed of the updates.
    """
    learner, rollout, lanes = carry
    length, envs = rollout.actions.shape

    def one(
        at: Int[Array, ""], carried: tuple[Rollout, Lanes, Told]
    ) -> tuple[Rollout, Lanes, Told]:
        rollout, lanes, told = carried
        key = key_of(turns.acting[at])
        given = rules.environment, agent, learner.acting
        lanes, happened = turn(*given, lanes, turns.epsilons[at], key)
        rollout = _with_row(rollout, place + at, happened, rules.gamma)
        return rollout, lanes, told.noting(at, happened, jnp.zeros(0))

    begin = rollout, lanes, Told.nothing(length, envs, 0)
    rollout, lanes, told = jax.lax.fori_loop(0, count, one, begin)
    updates = rules.passes.epochs * rules.passes.minibatches

    def learn() -> tuple[Learner, Float[Array, " update"]]:
        key = key_of(learning)
        after, losses = pass_over(agent, optimiser, learner, rollout, rules.passes, key)
        return after, losses.mean

    complete = place + count == length
    learner, losses = jax.lax.cond(complete, learn, lambda: (learner, jnp.zeros(updates)))
    return (learner, rollout, lanes), told, losses


def _with_row(rollout: Rollout, place: Int[Array, ""], happened: Happened, gamma: float) -> Rollout:
    """A rollout with one step of every lane."""
    after = happened.after
    row = Rollout(
        observations=happened.frames,
        actions=happened.actions,
        rewards=after.reward,
        discounts=jnp.where(after.terminal, 0, jnp.float32(gamma)),
        next_observations=after.frame,
        goes_on=~after.ended,
    )
    columns = zip(rollout, row, strict=True)
    return Rollout(*(jnp.asarray(old).at[place].set(new) for old, new in columns))


class ReplayRules(NamedTuple):
    """What is compiled into a program that learns from a replay memory."""

    environment: JaxEnvironment
    layout: Layout
    updates: int  # after a turn
    batch: int
    mixes_returns: bool


ReplayCarry: TypeAlias = tuple[Learner, Columns, Lanes]


@partial(
    jax.jit, static_argnames="rules", donate_argnames="carry", compiler_options=IN_ORDER
)  # fmt: skip
def replay_block(
    rules: ReplayRules,
    agent: Agent,
    optimiser: Optimiser,
    carry: ReplayCarry,
    turns: Turns,
    count: Whole,
) -> tuple[ReplayCarry, Told]:
    """Some turns, each with the updates that are due after it.

    Args:
        count: how many turns are made.
    """

    def learn(
        learner: Learner, columns: Columns, at: Int[Array, ""], key: Key
    ) -> tuple[Learner, Float[Array, " update"]]:
        batch = rules.layout.sample(columns, key, rules.updates * rules.batch)
        following = (
            rules.layout.following(columns, jnp.asarray(batch.indices))
            if rules.mixes_returns
            else None
        )
        now = jax.tree.map(lambda _: turns.learning_rates[at], optimiser)
        given = agent, now, learner, batch, following, key_of(turns.learning[at])
        learner, losses = (
            update_once(*given) if rules.updates == 1 else update_in_turn(*given, rules.updates)
        )
        return learner, losses.mean.reshape(-1)

    def one(
        at: Int[Array, ""], carried: tuple[Learner, Columns, Lanes, Told]
    ) -> tuple[Learner, Columns, Lanes, Told]:
        learner, columns, lanes, told = carried
        key, sample_key = jax.random.split(key_of(turns.acting[at]))
        given = rules.environment, agent, learner.acting
        lanes, happened = turn(*given, lanes, turns.epsilons[at], key)
        columns = rules.layout.remember(columns, happened)
        learner, losses = jax.lax.cond(
            turns.learns[at],
            lambda: learn(learner, columns, at, sample_key),
            lambda: (learner, jnp.zeros(rules.updates)),
        )
        return learner, columns, lanes, told.noting(at, happened, losses)

    told = Told.nothing(len(turns.learns), rules.layout.lanes, rules.updates)
    learner, columns, lanes, told = jax.lax.fori_loop(0, count, one, (*carry, told))
    return (learner, columns, lanes), told
