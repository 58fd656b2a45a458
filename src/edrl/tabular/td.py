"""Temporal-difference learning of statistics from samples: Algorithm 2 for every family.

One transition takes one straight way: `sample (x, a, r, x', a') -> impute(values at x', a') ->
r + gamma z -> gradient of the loss at (x, a) -> parameters(x, a)`. The parameters are the values
themselves, or the raw outputs that a network would have for them. All steps are one compiled loop,
mapped over step sizes and seeds.
"""

import functools
import itertools
import warnings
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Shaped

from edrl.core.check import check_count, check_number, fail
from edrl.core.particles import Particles
from edrl.core.precision import in_float64
from edrl.core.risk import RiskMeasure, action_values, check_risk
from edrl.core.statistics import Statistics, check_family
from edrl.core.types import Array, Bool, Float, Int, Key
from edrl.tabular.dp import initial_values
from edrl.tabular.episodes import check_episodes_end
from edrl.tabular.learnt import Learnt
from edrl.tabular.mdp import MDP
from edrl.tabular.policy import Policy, PolicyLike, as_policy
from edrl.tabular.progress import track
from edrl.tabular.rewards import PARTICLES, standard_draws

_STEPS_AT_ONCE = 10_000  # between two steps of the progress bar
_DRAWS_AT_ONCE = 2**14  # random numbers: one by one they would cost more than the updates

Sampling = Literal["trajectory", "uniform", "all"]
Control = Literal["q-learning", "sarsa"]
Parameters = Literal["values", "outputs"]

Number: TypeAlias = Float[Array, ""]
Index: TypeAlias = Int[Array, ""]
"""A state, an action or a branch."""
Table: TypeAlias = Float[Array, "S A P"]
"""The parameters of all pairs: P is K, or the number of outputs."""


class _State(NamedTuple):
    """Where a run is; outside of the compiled loop, for each step size and seed."""

    parameters: Table
    visits: Int[Array, "S A"]
    state: Index  # of the trajectory
    action: Index  # what it does there
    ended: Bool[Array, ""]  # whether it starts again instead


class _Chances(NamedTuple):
    """The random numbers of one step, for one pair or [S * A] of them."""

    uniform: Float[jax.Array, "*pairs m"]  # m is 4, or 7 where the pair itself is random
    standard: Float[jax.Array, "*pairs 3"]  # one draw of each standard distribution of rewards


@in_float64
def learn(
    mdp: MDP,
    family: Statistics,
    policy: PolicyLike | None = None,
    *,
    steps: int,
    step_size: float | Sequence[float] = 0.05,
    decay: float = 0.0,
    seeds: int | Sequence[int] = 1,
    sampling: Sampling = "trajectory",
    control: Control | None = None,
    epsilon: float | None = None,
    risk: RiskMeasure | None = None,
    parameters: Parameters = "values",
    initial: npt.ArrayLike | None = None,
    record_every: int | None = None,
    progress: bool | None = None,
) -> Learnt:
    """Learn the statistics of returns from samples (Algorithm 2), for evaluation or control.

    With a `policy` it is evaluated. Control has none: "q-learning" bootstraps from the greedy
    action, "sarsa" from the epsilon-greedy one that is then taken. Several step sizes and seeds run
    at once.

    Args:
        mdp: The MDP to sample from.
        family: The statistics, with their imputation.
        policy: Whatever `as_policy` takes.
        steps: The number of steps, of one sample each (or one a pair, for "all").
        step_size: The n-th update of a pair moves its values by `step_size * n**-decay` times the
            loss's gradient. That is 2 (v - z) where the loss is a square: there step_size = 1/2 and
            decay = 1 take the average.
        decay: See `step_size`.
        seeds: A number of seeds, or a list of them.
        sampling: Samples come from a "trajectory" (from the start distribution, and again after
            each end), from "uniform" random pairs, or for "all" pairs at every step.
        control: See above.
        epsilon: The probability of a random action in control, by default 0.1.
        risk: Maps `Particles` to numbers, which take the place of expected returns in greedy
            actions.
        parameters: What moves are the "values", or the raw "outputs" that a network would have in
            their place. Then values are `family.link` of them, and the loss is
            `family.loss_on_outputs`. For `Categorical` these are logits and the cross-entropy: this
            is CDRL by the gradient of the KL loss (Appendix A.2).
        initial: Values [S, A, K], by default those of a zero return, or outputs
            [S, A, num_outputs], by default zero.
        record_every: After how many steps values are recorded, by default only at the end.
        progress: Whether to show a progress bar; by default in a terminal, after two seconds.
    """
    check_family(family)
    _check_task(policy, control, risk, epsilon)
    _check_one_of("sampling", sampling, get_args(Sampling))
    _check_one_of("parameters", parameters, get_args(Parameters))
    steps = check_count("steps", steps, 1)
    check_number("decay", decay, 0.0, 1.0)
    epsilon = check_number("epsilon", 0.1 if epsilon is None else epsilon, 0.0, 1.0)
    alphas, keys = _step_sizes(step_size), _keys(seeds)
    marks = _marks(steps, record_every)

    chosen = None if policy is None else _policy_that_ends(mdp, policy, sampling)
    learner = _Learner(mdp, family, chosen, epsilon, decay, sampling, control, risk, parameters)
    state = _begin(_initial(mdp, family, parameters, initial), (len(alphas), len(keys)))
    stops = sorted({*marks, *range(_STEPS_AT_ONCE, steps, _STEPS_AT_ONCE)})
    history = []
    with track("temporal differences", steps, progress) as advance:
        for first, last in itertools.pairwise([0, *stops]):
            state = _run(learner, alphas, keys, state, first, last)
            if last in marks:
                history.append(np.asarray(learner.values(state.parameters)))
            advance(last - first, "")
    _warn_of_divergence(history[-1])
    visits, values = np.asarray(state.visits), np.stack(history)
    return Learnt(mdp, family, alphas, values, visits, np.asarray(marks))


def _check_task(
    policy: PolicyLike | None,
    control: Control | None,
    risk: RiskMeasure | None,
    epsilon: float | None,
) -> None:
    """Either evaluation of a policy, or control."""
    _check_one_of("control", control, (*get_args(Control), None))
    if (policy is None) == (control is None):
        right = "give either a policy to evaluate, or control='q-learning' or 'sarsa'"
        raise fail("policy", policy, right)
    for name, value in (("risk", risk), ("epsilon", epsilon)):
        if value is not None and policy is not None:
            raise fail(name, value, "it is for control: a policy is evaluated as it is")
    check_risk(risk)


def _check_one_of(argument: str, value: object, known: tuple[object, ...]) -> None:
    if value not in known:
        *others, last = map(repr, known)
        raise fail(argument, value, f"it must be {', '.join(others)} or {last}")


def _step_sizes(given: float | Sequence[float]) -> Float[np.ndarray, " alphas"]:
    alphas = np.ravel(given).astype(np.float64)
    for alpha in alphas.tolist():
        check_number("step_size", alpha, 0.0, open_low=True)
    if not alphas.size:
        raise fail("step_size", given, "at least one is needed")
    return alphas


def _keys(seeds: int | Sequence[int]) -> Shaped[jax.Array, " seeds"]:
    """A random key for each seed, from their number or from a list of them."""
    if isinstance(seeds, int | np.integer):
        seeds = range(check_count("seeds", seeds, 1))
    if not len(seeds):
        raise fail("seeds", seeds, "at least one is needed")
    return jnp.stack([jax.random.key(check_count("seeds", seed, 0)) for seed in seeds])


def _marks(steps: int, record_every: int | None) -> range:
    """After which steps values are recorded."""
    block = steps if record_every is None else check_count("record_every", record_every, 1)
    if steps % block:
        raise fail("record_every", block, f"it must divide the number of steps, {steps}")
    return range(block, steps + 1, block)


def _policy_that_ends(mdp: MDP, policy: PolicyLike, sampling: Sampling) -> Policy:
    """The policy; without discounting its episodes must end, from wherever samples begin."""
    chosen = as_policy(mdp, policy)
    check_episodes_end(mdp, chosen, mdp.start > 0 if sampling == "trajectory" else None)
    return chosen


def _warn_of_divergence(values: Float[np.ndarray, "alphas seeds S A K"]) -> None:
    lost = ~np.isfinite(values).all(axis=(2, 3, 4))
    if lost.any():
        text = f"{lost.sum()} of {lost.size} runs have diverged, to values that are not finite"
        warnings.warn(f"{text}: a smaller step_size may help", stacklevel=4)


class _Learner(eqx.Module):
    """What is the same for all steps, step sizes and seeds."""

    mdp: MDP
    family: Statistics
    policy: Policy | None
    epsilon: float
    decay: float
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

    def draw(self, key: Key) -> _Chances:
        """All random numbers of a step."""
        key_uniform, key_reward = jax.random.split(key)
        if self.sampling != "all":
            return _Chances(jax.random.uniform(key_uniform, (7,)), standard_draws(key_reward))
        pairs = self.mdp.num_states * self.mdp.num_actions
        keys = jax.random.split(key_reward, pairs)
        return _Chances(jax.random.uniform(key_uniform, (pairs, 4)), jax.vmap(standard_draws)(keys))

    def step(self, alpha: Number, chances: _Chances, state: _State) -> _State:
        """Choose a pair, or all of them, and learn from a transition."""
        parameters, visits = jnp.asarray(state.parameters), jnp.asarray(state.visits)
        if self.sampling == "all":
            pairs = jnp.arange(visits.size)
            update = jax.vmap(functools.partial(self.update, alpha, parameters, visits))
            learnt, _, _ = update(pairs // visits.shape[1], pairs % visits.shape[1], chances)
            alive = ~jnp.asarray(self.mdp.terminal)[:, None]
            parameters = jnp.where(alive[..., None], learnt.reshape(parameters.shape), parameters)
            return state._replace(parameters=parameters, visits=visits + alive)

        uniform = chances.uniform
        if self.sampling == "uniform":
            x = _pick(uniform[0], ~jnp.asarray(self.mdp.terminal))
            a = _pick(uniform[1], jnp.ones(self.mdp.num_actions))
        else:
            x = jnp.where(state.ended, _pick(uniform[0], self.mdp.start), state.state)
            # Off-policy, or at a start, the action is chosen now; else it is the one bootstrapped
            # from.
            a = self.behave(parameters, x, uniform[1:3])
            a = a if self.control == "q-learning" else jnp.where(state.ended, a, state.action)
        rest = _Chances(uniform[3:], chances.standard)
        learnt, after, bootstrap = self.update(alpha, parameters, visits, x, a, rest)
        ended = jnp.asarray(self.mdp.terminal)[after]
        return _State(
            parameters.at[x, a].set(learnt), visits.at[x, a].add(1), after, bootstrap, ended
        )

    def update(
        self,
        alpha: Number,
        parameters: Float[jax.Array, "S A P"],
        visits: Int[jax.Array, "S A"],
        x: Index,
        a: Index,
        chances: _Chances,
    ) -> tuple[Float[jax.Array, " P"], Index, Index]:
        """Algorithm 2 on a sample (x, a, r, x', a'): new parameters of (x, a), with x' and a'."""
        uniform = chances.uniform
        branch = _pick(uniform[0], jnp.asarray(self.mdp.probs)[x, a])
        reward = self.reward(x, a, branch, uniform[1], chances.standard)
        after = jnp.asarray(self.mdp.successors)[x, a, branch]
        if self.control == "q-learning":
            bootstrap = self.greedy(parameters, after)
        else:
            bootstrap = self.behave(parameters, after, uniform[2:])
        imputed = self.family.impute(self.values(parameters[after, bootstrap]))
        ended = jnp.asarray(self.mdp.terminal)[after]
        following = Particles(jnp.where(ended, 0, imputed.atoms), imputed.probs)
        target = following.push(reward, self.mdp.gamma)
        # Equation (9): the target is held fixed.
        gradient = jax.grad(self.loss)(parameters[x, a], target)
        rate = alpha * (visits[x, a] + 1.0) ** -self.decay
        return parameters[x, a] - rate * gradient, after, bootstrap

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


def _pick(chance: Number, weights: Shaped[Array, " n"]) -> Int[jax.Array, ""]:
    """An index with probabilities proportional to the weights; the chance is uniform on [0, 1)."""
    levels = jnp.cumsum(jnp.asarray(weights, float))
    return jnp.sum(levels <= chance * levels[-1], dtype=jnp.int32)


def _initial(
    mdp: MDP, family: Statistics, parameters: Parameters, initial: npt.ArrayLike | None
) -> Table:
    """What the first step starts from: values or outputs."""
    if parameters == "values":
        return initial_values(mdp, family, initial)
    shape = (mdp.num_states, mdp.num_actions, family.num_outputs)
    outputs = np.zeros(shape) if initial is None else np.asarray(initial, np.float64)
    if outputs.shape != shape:
        right = f"the outputs of all states and actions have the shape {shape}"
        raise fail("initial.shape", outputs.shape, right)
    if not np.isfinite(outputs).all():
        raise fail("initial", initial, "outputs must be finite")
    return outputs


def _begin(parameters: Table, runs: tuple[int, int]) -> _State:
    """Before the first step, for each step size and seed."""
    visits = np.zeros((*runs, *parameters.shape[:2]), np.int32)
    nowhere = np.zeros(runs, np.int32)
    everywhere = np.broadcast_to(parameters, (*runs, *parameters.shape))
    return _State(everywhere, visits, nowhere, nowhere, np.ones(runs, bool))


@jax.jit
def _run(
    learner: _Learner,
    alphas: Float[jax.Array, " alphas"],
    keys: Shaped[jax.Array, " seeds"],
    state: _State,
    first: Int[jax.Array, ""],
    last: Int[jax.Array, ""],
) -> _State:
    """The steps from `first` up to before `last`.

    These are no constants, so that another number recompiles nothing.
    """
    draws = jax.eval_shape(learner.draw, jax.random.key(0))
    size = max(1, _DRAWS_AT_ONCE // (draws.uniform.size + draws.standard.size))

    def one(alpha: Number, key: Key, state: _State) -> _State:
        def draw(time: Index) -> _Chances:
            return learner.draw(jax.random.fold_in(key, time))

        def block(number: Index, state: _State) -> _State:
            times = first + number * size + jnp.arange(size)
            chances = jax.vmap(draw)(times)

            def step(i: Index, state: _State) -> _State:
                here = _Chances(chances.uniform[i], chances.standard[i])
                return learner.step(alpha, here, state)

            count = jnp.minimum(size, last - times[0])
            after: _State = jax.lax.fori_loop(0, count, step, state)
            return after

        blocks = (last - first + size - 1) // size
        after: _State = jax.lax.fori_loop(0, blocks, block, state)
        return after

    if keys.shape[0] == alphas.shape[0] == 1:
        # Unmapped, since a mapped `cond` computes both of its branches.
        alone = one(alphas[0], keys[0], _State(*(field[0, 0] for field in state)))
        return _State(*(field[None, None] for field in alone))
    over_seeds = jax.vmap(one, (None, 0, 0))
    return jax.vmap(over_seeds, (0, None, 0))(alphas, keys, state)
