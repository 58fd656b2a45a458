"""Simulated episodes: the ground truth of the paper's own experiments."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.check import check_count, check_index, check_number
from edrl.core.particles import Particles
from edrl.core.precision import in_float64
from edrl.core.types import Bool, Float, Int, Key
from edrl.tabular.episodes import check_episodes_end
from edrl.tabular.mdp import MDP
from edrl.tabular.policy import Policy, PolicyLike, as_policy


@in_float64
def rollouts(
    mdp: MDP,
    policy: PolicyLike,
    episodes: int,
    seed: int = 0,
    *,
    state: int | None = None,
    action: int | None = None,
    truncation: float = 1e-6,
) -> Particles:
    """The empirical distribution of `episodes` simulated returns.

    1,000 of them are the ground truth of Section 5.1. Episodes begin in `state` (by default, the
    start distribution draws it) with `action` (by default, the policy draws it). An episode ends in
    a terminal state, or when discounting leaves less than `truncation` times the largest reward.
    """
    num_states, num_actions = mdp.num_states, mdp.num_actions
    episodes = check_count("episodes", episodes, 1)
    check_number("truncation", truncation, 0.0, 1.0, open_low=True)
    for name, value, count in (("state", state, num_states), ("action", action, num_actions)):
        if value is not None:
            check_index(name, value, count)
    chosen = as_policy(mdp, policy)
    start = mdp.start if state is None else (np.arange(mdp.num_states) == state).astype(float)
    check_episodes_end(mdp, chosen, _after_the_first_step(mdp, start, action))
    first = -1 if action is None else action
    key = jax.random.key(seed)
    least_discount = truncation * (1 - mdp.gamma)
    return Particles(_rollouts(mdp, chosen, key, start, first, least_discount, episodes))


def _after_the_first_step(
    mdp: MDP, start: Float[np.ndarray, " S"], action: int | None
) -> Bool[np.ndarray, " S"]:
    """The states from which the policy acts, or those before it if the first action is its own."""
    if action is None:
        return start > 0
    possible = (start[:, None] > 0) & (mdp.probs[:, int(action)] > 0)
    return np.isin(np.arange(mdp.num_states), mdp.successors[:, int(action)][possible])


class _Rollout(NamedTuple):
    """Where the simulated episodes are."""

    time: Int[jax.Array, ""]
    discount: Float[jax.Array, ""]
    states: Int[jax.Array, " episodes"]
    returns: Float[jax.Array, " episodes"]  # so far


@jax.jit(static_argnames="episodes")
def _rollouts(
    mdp: MDP,
    policy: Policy,
    key: Key,
    start: Float[jax.Array, " S"],
    first: Int[jax.Array, ""],
    least_discount: Float[jax.Array, ""],
    episodes: int,
) -> Float[jax.Array, " episodes"]:
    key_start, key_steps = jax.random.split(key)
    states = jax.random.choice(key_start, mdp.num_states, (episodes,), p=jnp.asarray(start))
    states = states.astype(jnp.int32)
    terminal, successors = jnp.asarray(mdp.terminal), jnp.asarray(mdp.successors)
    actions, probs = jnp.asarray(policy.actions), jnp.asarray(policy.probs)

    def step(carry: _Rollout) -> _Rollout:
        time, discount, states, returns = carry
        keys = jax.random.split(jax.random.fold_in(key_steps, time), 3)
        key_action, key_branch, key_reward = keys
        behaviour = Particles(actions[states].astype(float), probs[states])
        choice = behaviour.sample(key_action).astype(int)
        choice = jnp.where((time == 0) & (first >= 0), first, choice)
        branch = mdp.sample_branch(key_branch, states, choice)
        reward = mdp.sample_reward(key_reward, states, choice, branch)
        returns = returns + jnp.where(terminal[states], 0, discount * reward)
        after = successors[states, choice, branch]
        return _Rollout(time + 1, discount * mdp.gamma, after, returns)

    def going_on(carry: _Rollout) -> Bool[jax.Array, ""]:
        alive = jnp.any(~terminal[carry.states])
        return alive & (carry.discount >= least_discount) & (carry.discount > 0)

    carry = _Rollout(jnp.asarray(0), jnp.ones(()), states, jnp.zeros(episodes))
    return jax.lax.while_loop(going_on, step, carry).returns
