"""Temporal-difference learning of statistics from sampled transitions: Algorithm 2 for every family.

One transition takes one straight way: `sample (x, a, r, x', a') -> impute(values at x', a') -> r + gamma z ->
gradient of the loss at (x, a) -> values(x, a)`. All steps are one compiled loop, mapped over step sizes and seeds.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.check import check_count, check_number, fail
from edrl.core.particles import Particles
from edrl.core.precision import in_float64
from edrl.core.statistics import Statistics
from edrl.tabular.dp import initial_values
from edrl.tabular.mdp import MDP
from edrl.tabular.policy import Policy, as_policy
from edrl.tabular.progress import track

_STEPS_AT_ONCE = 10_000  # between two steps of the progress bar

Sampling = Literal["trajectory", "uniform", "all"]
Control = Literal["q-learning", "sarsa"]


@dataclass(frozen=True)
class Learnt:
    """What temporal differences have learnt, for each step size and seed."""

    family: Statistics
    values: np.ndarray  # [steps/record_every, step sizes, seeds, S, A, K]; the last entry is the final one
    visits: np.ndarray  # [step sizes, seeds, S, A]
    steps: np.ndarray  # [steps/record_every]: how many steps had been made

    def final(self) -> np.ndarray:
        """The values at the end, [step sizes, seeds, S, A, K]."""
        return self.values[-1]


class _Rule(NamedTuple):
    """What is the same for all steps; static for the compiler."""

    sampling: Sampling
    control: Control | None
    risk: Callable[[Particles], Any] | None


class _State(NamedTuple):
    values: Any  # [S, A, K]
    visits: Any  # [S, A]
    state: Any  # where the trajectory is
    action: Any  # what it will do there


@in_float64
def learn(
    mdp: MDP,
    family: Statistics,
    policy: Any = None,
    *,
    steps: int,
    step_size: float | Sequence[float] = 0.05,
    decay: float = 0.0,
    seeds: int | Sequence[int] = 1,
    sampling: Sampling = "trajectory",
    control: Control | None = None,
    epsilon: float = 0.1,
    risk: Callable[[Particles], Any] | None = None,
    initial: Any = None,
    record_every: int | None = None,
    progress: bool = False,
) -> Learnt:
    """Learn the statistics of returns from `steps` samples (Algorithm 2), for evaluation or control.

    Evaluation of a `policy` (whatever `as_policy` takes), or control without one: "q-learning" bootstraps from the
    greedy action, "sarsa" from the epsilon-greedy one that is then taken; greedy is by expected return, or by `risk`.

    The n-th update of a pair moves its values by `step_size * n**-decay` times the loss's gradient, which is
    2 (v - z) where the loss is a square: step_size = 1/2 and decay = 1 take the average. Samples come from a
    "trajectory" (from the start distribution, anew after each end), from "uniform" random pairs, or for "all" pairs at
    every step. Several step sizes, and seeds (a number of them, or a list), run at once.
    """
    if (policy is None) == (control is None):
        raise fail("policy", policy, "give either a policy to evaluate, or control='q-learning' or 'sarsa'")
    if control not in (None, "q-learning", "sarsa"):
        raise fail("control", control, "it must be 'q-learning', 'sarsa' or None")
    if sampling not in ("trajectory", "uniform", "all"):
        raise fail("sampling", sampling, "it must be 'trajectory', 'uniform' or 'all'")
    check_count("steps", steps, 1)
    check_number("decay", decay, 0.0, 1.0)
    check_number("epsilon", epsilon, 0.0, 1.0)
    alphas = np.array([check_number("step_size", a, 0.0, open_low=True) for a in np.ravel(step_size).tolist()])
    seed_list = range(check_count("seeds", seeds, 1)) if isinstance(seeds, int | np.integer) else seeds
    if not (len(alphas) and len(seed_list)):
        raise fail("(step_size, seeds)", (step_size, seeds), "at least one of each is needed")
    keys = jnp.stack([jax.random.key(check_count("seeds", seed, 0)) for seed in seed_list])
    block = steps if record_every is None else check_count("record_every", record_every, 1)
    if steps % block:
        raise fail("record_every", block, f"it must divide the number of steps, {steps}")

    rule = _Rule(sampling, control, risk)
    chosen = None if policy is None else as_policy(mdp, policy)
    state = _start(mdp, family, chosen, rule, epsilon, initial_values(mdp, family, initial), keys, len(alphas))
    marks = range(block, steps + 1, block)
    stops = sorted({*marks, *range(_STEPS_AT_ONCE, steps, _STEPS_AT_ONCE)})
    history = []
    with track("temporal differences", steps, progress) as advance:
        for first, last in itertools.pairwise([0, *stops]):
            state = _run(mdp, family, chosen, rule, epsilon, alphas, decay, keys, state, first, last)
            if last in marks:
                history.append(np.asarray(state.values))
            advance(last - first, "")
    return Learnt(family, np.stack(history), np.asarray(state.visits), np.asarray(marks))


def _key(key: jax.Array, name: int, time: Any) -> jax.Array:
    """The stream called `name` of a run's key, at one step: no key is ever used twice or rebound."""
    return jax.random.fold_in(jax.random.fold_in(key, name), time)


_START, _FIRST_ACTION, _PAIR, _TRANSITION, _NEXT_ACTION, _BEHAVIOUR = range(6)


@jax.jit(static_argnames=("rule", "settings"))
def _start(
    mdp: MDP,
    family: Statistics,
    policy: Policy | None,
    rule: _Rule,
    epsilon: Any,
    values: Any,
    keys: Any,
    settings: int,
) -> _State:
    """The state before the first step, [settings, seeds]."""

    def one(key: jax.Array) -> _State:
        state = _draw_start(mdp, _key(key, _START, 0))
        action = _behave(mdp, family, policy, rule, epsilon, values, state, _key(key, _FIRST_ACTION, 0))
        return _State(values, jnp.zeros(values.shape[:2], jnp.int32), state, action)

    states = jax.vmap(one)(keys)
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (settings, *x.shape)), states)


@jax.jit(static_argnames="rule")
def _run(
    mdp: MDP,
    family: Statistics,
    policy: Policy | None,
    rule: _Rule,
    epsilon: Any,
    alphas: Any,
    decay: Any,
    keys: Any,
    state: _State,
    first: Any,
    last: Any,
) -> _State:
    """The steps from `first` up to before `last`; their numbers are no constants, so that nothing is recompiled."""

    def one(alpha: Any, key: jax.Array, state: _State) -> _State:
        def step(time: Any, state: _State) -> _State:
            return _step(mdp, family, policy, rule, epsilon, alpha, decay, key, state, time)

        return jax.lax.fori_loop(first, last, step, state)

    over_seeds = jax.vmap(one, (None, 0, 0))
    return jax.vmap(over_seeds, (0, None, 0))(jnp.asarray(alphas), keys, state)


def _step(
    mdp: MDP,
    family: Statistics,
    policy: Policy | None,
    rule: _Rule,
    epsilon: Any,
    alpha: Any,
    decay: Any,
    key: jax.Array,
    state: _State,
    time: Any,
) -> _State:
    values, visits = state.values, state.visits

    def sample_and_learn(x: Any, a: Any, key_transition: jax.Array, key_next: jax.Array) -> tuple[Any, Any, Any]:
        """One transition from (x, a): the new values there, and where it led."""
        key_branch, key_reward = jax.random.split(key_transition)
        branch = mdp.sample_branch(key_branch, x, a)
        reward = mdp.sample_reward(key_reward, x, a, branch)
        after = jnp.asarray(mdp.successors)[x, a, branch]
        bootstrap = _next_action(mdp, family, policy, rule, epsilon, values, after, key_next)
        ended = jnp.asarray(mdp.terminal)[after]
        imputed = family.impute(values[after, bootstrap])
        following = Particles(jnp.where(ended, 0, imputed.atoms), imputed.probs)
        target = following.push(reward, mdp.gamma)
        gradient = jax.grad(family.loss)(values[x, a], target)
        rate = alpha * (visits[x, a] + 1.0) ** -decay
        return values[x, a] - rate * gradient, after, bootstrap

    key_transition, key_next = _key(key, _TRANSITION, time), _key(key, _NEXT_ACTION, time)
    if rule.sampling == "all":
        shape = visits.shape
        pairs = jnp.arange(visits.size)
        keys = jax.random.split(key_transition, visits.size), jax.random.split(key_next, visits.size)
        learnt, _, _ = jax.vmap(sample_and_learn)(pairs // shape[1], pairs % shape[1], *keys)
        alive = ~jnp.asarray(mdp.terminal)[:, None]
        values = jnp.where(alive[..., None], learnt.reshape(values.shape), values)
        return _State(values, visits + alive, state.state, state.action)

    if rule.sampling == "uniform":
        key_state, key_action = jax.random.split(_key(key, _PAIR, time))
        x = _draw(key_state, 1.0 - jnp.asarray(mdp.terminal)).astype(jnp.int32)
        a = jax.random.randint(key_action, (), 0, mdp.num_actions, jnp.int32)
    else:
        x, a = state.state, state.action
    row, after, bootstrap = sample_and_learn(x, a, key_transition, key_next)
    values, visits = values.at[x, a].set(row), visits.at[x, a].add(1)
    if rule.sampling == "uniform":
        return _State(values, visits, x, a)

    ended = jnp.asarray(mdp.terminal)[after]
    start = _draw_start(mdp, _key(key, _START, time + 1))
    here = jnp.where(ended, start, after)
    # Off-policy, or at a new start, the behaviour chooses afresh; otherwise the action bootstrapped from is taken.
    fresh = _behave(mdp, family, policy, rule, epsilon, values, here, _key(key, _BEHAVIOUR, time))
    action = jnp.where(ended | (rule.control == "q-learning"), fresh, bootstrap)
    return _State(values, visits, here, action)


def _draw_start(mdp: MDP, key: jax.Array) -> Any:
    return _draw(key, jnp.asarray(mdp.start)).astype(jnp.int32)


def _draw(key: jax.Array, weights: Any) -> Any:
    """An index with probabilities proportional to these weights."""
    levels = jnp.cumsum(weights)
    return jnp.sum(levels <= jax.random.uniform(key, (), levels.dtype) * levels[-1])


def _greedy(family: Statistics, rule: _Rule, values: Any, x: Any) -> Any:
    worth = family.mean(values[x]) if rule.risk is None else rule.risk(family.impute(values[x]))
    return jnp.argmax(worth).astype(jnp.int32)


def _next_action(
    mdp: MDP, family: Statistics, policy: Policy | None, rule: _Rule, epsilon: Any, values: Any, x: Any, key: Any
) -> Any:
    """The action a' at which the next state's distribution is imputed."""
    if rule.control == "q-learning":
        return _greedy(family, rule, values, x)
    return _behave(mdp, family, policy, rule, epsilon, values, x, key)


def _behave(
    mdp: MDP, family: Statistics, policy: Policy | None, rule: _Rule, epsilon: Any, values: Any, x: Any, key: Any
) -> Any:
    """The action taken in x: the policy's, or the epsilon-greedy one."""
    if policy is not None:
        return jnp.asarray(policy.actions)[x, _draw(key, jnp.asarray(policy.probs)[x])]
    key_explore, key_action = jax.random.split(key)
    random = jax.random.randint(key_action, (), 0, mdp.num_actions, jnp.int32)
    exploring = jax.random.uniform(key_explore) < epsilon
    return jnp.where(exploring, random, _greedy(family, rule, values, x))
