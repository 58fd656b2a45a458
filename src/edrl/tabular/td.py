"""Temporal-difference learning of statistics from samples: Algorithm 2 for every family.

One transition takes one straight way: `sample (x, a, r, x', a') -> impute(values at x', a') ->
r + gamma z -> gradient of the loss at (x, a) -> parameters(x, a)`. The parameters are the values
themselves, or the raw outputs that a network would have for them. With a trace, several transitions
are learnt from at once, by lambda-returns. All steps are one compiled loop, mapped over step sizes
and seeds.
"""

import itertools
import warnings
from collections.abc import Sequence
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Shaped

from edrl.core.check import check_count, check_number, fail
from edrl.core.precision import in_float64
from edrl.core.risk import RiskMeasure, check_risk
from edrl.core.statistics import Statistics, check_family
from edrl.core.types import Float, Int, Key
from edrl.core.words import count, form
from edrl.tabular.dp import initial_values
from edrl.tabular.episodes import check_episodes_end
from edrl.tabular.learnt import Learnt
from edrl.tabular.mdp import MDP
from edrl.tabular.policy import Policy, PolicyLike, as_policy
from edrl.tabular.progress import track
from edrl.tabular.td_steps import (
    Chances,
    Control,
    Index,
    Learner,
    Number,
    Parameters,
    Sampling,
    State,
    Table,
)

_STEPS_AT_ONCE = 10_000  # between two steps of the progress bar
_DRAWS_AT_ONCE = 2**14  # random numbers: one by one they would cost more than the updates
_ROLLOUT = 20  # steps, unless told otherwise


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
    trace: float = 0.0,
    rollout: int | None = None,
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
        trace: Lambda, the weight of longer returns: 0 bootstraps after one step, 1 where an episode
            or a rollout ends. Targets are `edrl.core.lambda_returns`, which imputes from statistics
            at every step. With "q-learning" they end before an action that is not greedy.
        rollout: With a trace, how many steps of the trajectory are made before all of them are
            learnt from, by default 20. The number of steps must be a multiple of it.
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
    length = _rollout_length(trace, rollout, sampling)
    marks = _marks(steps, record_every, length)

    chosen = None if policy is None else _policy_that_ends(mdp, policy, sampling)
    learner = Learner(
        mdp, family, chosen, epsilon, decay, trace, sampling, control, risk, parameters
    )
    state = _begin(_initial(mdp, family, parameters, initial), (len(alphas), len(keys)))
    at_once = max(1, _STEPS_AT_ONCE // length) * length
    stops = sorted({*marks, *range(at_once, steps, at_once)})
    history = []
    with track("temporal differences", steps, progress) as advance:
        for first, last in itertools.pairwise([0, *stops]):
            state = _run(
                learner, alphas, keys, state, first, last, rollout=length if trace else None
            )
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


def _rollout_length(trace: float, rollout: int | None, sampling: Sampling) -> int:
    """How many steps are made before they are learnt from."""
    if check_number("trace", trace, 0.0, 1.0) == 0:
        if rollout is not None:
            raise fail(
                "rollout", rollout, "it is for a trace: without one, every step is learnt from"
            )
        return 1
    if sampling != "trajectory":
        right = f"longer returns need sampling='trajectory', and not {sampling!r}"
        raise fail("trace", trace, right)
    return check_count("rollout", _ROLLOUT if rollout is None else rollout, 1)


def _marks(steps: int, record_every: int | None, rollout: int) -> range:
    """After which steps values are recorded."""
    block = steps if record_every is None else check_count("record_every", record_every, 1)
    if steps % block:
        raise fail("record_every", block, f"it must divide the number of steps, {steps}")
    if block % rollout:
        name = "steps" if record_every is None else "record_every"
        raise fail(name, block, f"with a trace it must be a multiple of rollout, {rollout}")
    return range(block, steps + 1, block)


def _policy_that_ends(mdp: MDP, policy: PolicyLike, sampling: Sampling) -> Policy:
    """The policy; without discounting its episodes must end, from wherever samples begin."""
    chosen = as_policy(mdp, policy)
    check_episodes_end(mdp, chosen, mdp.start > 0 if sampling == "trajectory" else None)
    return chosen


def _warn_of_divergence(values: Float[np.ndarray, "alphas seeds S A K"]) -> None:
    lost = ~np.isfinite(values).all(axis=(2, 3, 4))
    if lost.any():
        diverged = f"{form(int(lost.sum()), 'has', 'have')} diverged"
        text = (
            f"{lost.sum()} of {count(lost.size, 'run')} {diverged}, to values that are not finite"
        )
        warnings.warn(f"{text}: a smaller step_size may help", stacklevel=4)


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


def _begin(parameters: Table, runs: tuple[int, int]) -> State:
    """Before the first step, for each step size and seed."""
    visits = np.zeros((*runs, *parameters.shape[:2]), np.int32)
    nowhere = np.zeros(runs, np.int32)
    everywhere = np.broadcast_to(parameters, (*runs, *parameters.shape))
    return State(everywhere, visits, nowhere, nowhere, np.ones(runs, bool))


@jax.jit(static_argnames="rollout")
def _run(
    learner: Learner,
    alphas: Float[jax.Array, " alphas"],
    keys: Shaped[jax.Array, " seeds"],
    state: State,
    first: Int[jax.Array, ""],
    last: Int[jax.Array, ""],
    rollout: int | None,
) -> State:
    """The steps from `first` up to before `last`, learnt from one by one or in rollouts.

    These are no constants, so that another number recompiles nothing.
    """
    draws = jax.eval_shape(learner.draw, jax.random.key(0))
    size = rollout or max(1, _DRAWS_AT_ONCE // (draws.uniform.size + draws.standard.size))

    def one(alpha: Number, key: Key, state: State) -> State:
        def draw(time: Index) -> Chances:
            return learner.draw(jax.random.fold_in(key, time))

        def block(number: Index, state: State) -> State:
            times = first + number * size + jnp.arange(size)
            chances = jax.vmap(draw)(times)
            if rollout:
                return learner.rollout(alpha, chances, state)

            def step(i: Index, state: State) -> State:
                here = Chances(chances.uniform[i], chances.standard[i])
                return learner.step(alpha, here, state)

            count = jnp.minimum(size, last - times[0])
            after: State = jax.lax.fori_loop(0, count, step, state)
            return after

        blocks = (last - first + size - 1) // size
        after: State = jax.lax.fori_loop(0, blocks, block, state)
        return after

    if keys.shape[0] == alphas.shape[0] == 1:
        # Unmapped, since a mapped `cond` computes both of its branches.
        alone = one(alphas[0], keys[0], State(*(field[0, 0] for field in state)))
        return State(*(field[None, None] for field in alone))
    over_seeds = jax.vmap(one, (None, 0, 0))
    return jax.vmap(over_seeds, (0, None, 0))(alphas, keys, state)
