"""What a step of temporal differences does: sample, impute, learn.

`step` learns from one transition (Algorithm 2), `rollout` from several that followed each other, by
lambda-returns.
"""

from typing import Literal, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Shaped

from edrl.core.lambda_returns import lambda_returns
from edrl.core.particles import Particles
from edrl.core.risk import RiskMeasure, action_values
from edrl.core.statistics import Statistics
from edrl.core.types import Array, Bool, Float, Int, Key
from edrl.tabular.mdp import MDP
from edrl.tabular.policy import Policy
from edrl.tabular.rewards import PARTICLES, standard_draws

Sampling = Literal["trajectory", "uniform", "all"]
Control = Literal["q-learning", "sarsa"]
Parameters = Literal["values", "outputs"]

Number: TypeAlias = Float[Array, ""]
Index: TypeAlias = Int[Array, ""]
"""A state, an action or a branch."""
Table: TypeAlias = Float[Array, "S A P"]
"""The parameters of all pairs: P is K, or the number of outputs."""


class State(NamedTuple):
    """Where a run is; outside of the compiled loop, for each step size and seed."""

    parameters: Table
    visits: Int[Array, "S A"]
    state: Index  # of the trajectory
    action: Index  # what it does there
    ended: Bool[Array, ""]  # whether it starts again instead


class Chances(NamedTuple):
    """The random numbers of one step, for one pair or [S * A] of them."""

    uniform: Float[jax.Array, "*pairs m"]  # m is 4, or 7 where the pair itself is random
    standard: Float[jax.Array, "*pairs 3"]  # one draw of each standard distribution of rewards


class Transition(NamedTuple):
    """A sample (x, a, r, x', a'), or several along a first axis."""

    state: Int[Array, "*steps"]
    action: Int[Array, "*steps"]
    reward: Float[Array, "*steps"]
    after: Int[Array, "*steps"]  # the next state
    following: Int[Array, "*steps"]  # the action there that is bootstrapped from
    ended: Bool[Array, "*steps"]  # whether the next state is terminal


class Learner(eqx.Module):
    """What is the same for all steps, step sizes and seeds."""

    mdp: MDP
    family: Statistics
    policy: Policy | None
    epsilon: float
    decay: float
    trace: float
    sampling: Sampling = eqx.field(static=True)
    control: Control | None = eqx.field(static=True)
    risk: RiskMeasure | None = eqx.field(static=True)
    parameters: Parameters = eqx.field(static=True)

    def values(self, parameters: Float[Array, "*batch P"]) -> Float[Array, "*batch K"]:
        """The values that the parameters stand for."""
        return parameters if self.parameters == "values" else self.family.link(parameters)

    def loss(self, parameters: Float[jax.Array, " P"], target: Particles) -> Number:
        """The loss of one pair's parameters."""
        loss = self.family.loss if self.parameters == "values" else self.family.loss_on_outputs
        return loss(parameters, target)

    def draw(self, key: Key) -> Chances:
        """All random numbers of a step."""
        key_uniform, key_reward = jax.random.split(key)
        if self.sampling != "all":
            return Chances(jax.random.uniform(key_uniform, (7,)), standard_draws(key_reward))
        pairs = self.mdp.num_states * self.mdp.num_actions
        keys = jax.random.split(key_reward, pairs)
        return Chances(jax.random.uniform(key_uniform, (pairs, 4)), jax.vmap(standard_draws)(keys))

    def step(self, alpha: Number, chances: Chances, state: State) -> State:
        """Choose a pair, or all of them, and learn from a transition."""
        if self.sampling == "all":
            return self.step_of_all(alpha, chances, state)
        seen = self.move(jnp.asarray(state.parameters), chances, state)
        return self.learnt(alpha, state, seen, self.target(state.parameters, seen))

    def step_of_all(self, alpha: Number, chances: Chances, state: State) -> State:
        """Learn from a transition of every pair, all of them from the same parameters."""
        parameters, visits = jnp.asarray(state.parameters), jnp.asarray(state.visits)

        def updated(pair: Index, chances: Chances) -> Float[jax.Array, " P"]:
            x, a = pair // visits.shape[1], pair % visits.shape[1]
            seen = self.sample(parameters, x, a, chances)
            return self.updated(alpha, state, seen, self.target(parameters, seen))

        learnt = jax.vmap(updated)(jnp.arange(visits.size), chances)
        alive = ~jnp.asarray(self.mdp.terminal)[:, None]
        parameters = jnp.where(alive[..., None], learnt.reshape(parameters.shape), parameters)
        return state._replace(parameters=parameters, visits=visits + alive)

    def rollout(self, alpha: Number, chances: Chances, state: State) -> State:
        """Move as often as there are chances [T], then learn from each step's lambda-return.

        All lambda-returns are computed from the parameters at the beginning. Each pair learns once
        for each of its visits, in their order. A lambda-return goes on only where the next action
        is the one bootstrapped from.
        """
        parameters = jnp.asarray(state.parameters)

        def move(at: State, chances: Chances) -> tuple[State, Transition]:
            seen = self.move(parameters, chances, at)
            return _after(at, seen), seen

        def learn(at: State, one: tuple[Transition, Particles]) -> tuple[State, None]:
            return self.learnt(alpha, at, *one), None

        _, seen = jax.lax.scan(move, state, chances)
        bootstraps = self.values(parameters[seen.after, seen.following])
        goes_on = jnp.append(seen.action[1:] == seen.following[:-1], False)
        discounts = jnp.where(seen.ended, 0, self.mdp.gamma)
        targets = lambda_returns(
            self.family, bootstraps, seen.reward, discounts, self.trace * goes_on
        )
        return jax.lax.scan(learn, state, (seen, targets))[0]

    def move(
        self, parameters: Float[jax.Array, "S A P"], chances: Chances, at: State
    ) -> Transition:
        """A transition of a random pair, or the next one of the trajectory."""
        uniform = chances.uniform
        if self.sampling == "uniform":
            x = _pick(uniform[0], ~jnp.asarray(self.mdp.terminal))
            a = _pick(uniform[1], jnp.ones(self.mdp.num_actions))
        else:
            x = jnp.where(at.ended, _pick(uniform[0], self.mdp.start), at.state)
            # Off-policy, or at a start, the action is chosen now; else it is the one bootstrapped
            # from.
            a = self.behave(parameters, x, uniform[1:3])
            a = a if self.control == "q-learning" else jnp.where(at.ended, a, at.action)
        return self.sample(parameters, x, a, Chances(uniform[3:], chances.standard))

    def sample(
        self, parameters: Float[jax.Array, "S A P"], x: Index, a: Index, chances: Chances
    ) -> Transition:
        """What follows the action a in the state x."""
        uniform = chances.uniform
        branch = _pick(uniform[0], jnp.asarray(self.mdp.probs)[x, a])
        reward = self.reward(x, a, branch, uniform[1], chances.standard)
        after = jnp.asarray(self.mdp.successors)[x, a, branch]
        if self.control == "q-learning":
            following = self.greedy(parameters, after)
        else:
            following = self.behave(parameters, after, uniform[2:])
        ended = jnp.asarray(self.mdp.terminal)[after]
        return Transition(x, a, reward, after, following, ended)

    def target(self, parameters: Table, seen: Transition) -> Particles:
        """The distribution of r + gamma z, with z imputed at (x', a') (Algorithm 2)."""
        values = self.values(jnp.asarray(parameters)[seen.after, seen.following])
        imputed = self.family.impute(values)
        following = Particles(jnp.where(seen.ended, 0, imputed.atoms), imputed.probs)
        return following.push(seen.reward, self.mdp.gamma)

    def learnt(self, alpha: Number, state: State, seen: Transition, target: Particles) -> State:
        """After the update of the pair that was seen, and where the trajectory is then."""
        x, a = seen.state, seen.action
        parameters = (
            jnp.asarray(state.parameters).at[x, a].set(self.updated(alpha, state, seen, target))
        )
        visits = jnp.asarray(state.visits).at[x, a].add(1)
        return _after(state._replace(parameters=parameters, visits=visits), seen)

    def updated(
        self, alpha: Number, state: State, seen: Transition, target: Particles
    ) -> Float[jax.Array, " P"]:
        """The parameters of the pair that was seen, moved towards the target, which is held fixed
        (Equation (9)).
        """
        x, a = seen.state, seen.action
        before = jnp.asarray(state.parameters)[x, a]
        rate = alpha * (jnp.asarray(state.visits)[x, a] + 1.0) ** -self.decay
        gradient: jax.Array = jax.grad(self.loss)(before, target)
        return before - rate * gradient

    def reward(
        self, x: Index, a: Index, branch: Index, chance: Number, standard: Float[Array, " 3"]
    ) -> Float[jax.Array, ""]:
        """A draw from the reward's distribution, as `MDP.sample_reward`."""

        def here(table: Array) -> jax.Array:
            return jnp.asarray(table)[x, a, branch]

        reward = here(self.mdp.rewards.atoms)[_pick(chance, here(self.mdp.rewards.probs))]
        if self.mdp.continuous is None:
            return reward
        continuous = jax.tree.map(here, self.mdp.continuous)
        return jnp.where(continuous.kind == PARTICLES, reward, continuous.from_standard(standard))

    def greedy(self, parameters: Float[jax.Array, "S A P"], x: Index) -> Int[jax.Array, ""]:
        """The action of highest expected return, or risk measure, in x."""
        ranked = action_values(self.family, self.values(parameters[x]), self.risk)
        return jnp.argmax(ranked).astype(jnp.int32)

    def behave(
        self, parameters: Float[jax.Array, "S A P"], x: Index, chances: Float[jax.Array, " 2"]
    ) -> Int[jax.Array, ""]:
        """The action taken in x: the policy's, or the epsilon-greedy one."""
        if self.policy is not None:
            choice = _pick(chances[0], jnp.asarray(self.policy.probs)[x])
            return jnp.asarray(self.policy.actions, jnp.int32)[x, choice]
        random = _pick(chances[0], jnp.ones(self.mdp.num_actions))
        return jnp.where(chances[1] < self.epsilon, random, self.greedy(parameters, x))


def _after(state: State, seen: Transition) -> State:
    """Where the trajectory is after a transition."""
    return state._replace(state=seen.after, action=seen.following, ended=seen.ended)


def _pick(chance: Number, weights: Shaped[Array, " n"]) -> Int[jax.Array, ""]:
    """An index with probabilities proportional to the weights; the chance is uniform on [0, 1)."""
    levels = jnp.cumsum(jnp.asarray(weights, float))
    return jnp.sum(levels <= chance * levels[-1], dtype=jnp.int32)
