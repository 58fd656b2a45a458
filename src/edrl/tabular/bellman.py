"""The distributional Bellman operator, exact and imputed, and that of moments.

Equation (3) defines it, and Algorithm 1 imputes. The way of one transition is
`successors -> impute(values there) -> r + gamma z -> mixture -> evaluate`.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import spsolve

from edrl.core.check import check_count, fail
from edrl.core.particles import Particles, check_samples
from edrl.core.precision import check_finite, in_float64, is_concrete
from edrl.core.statistics import Statistics
from edrl.core.types import Array, Bool, Float, Int
from edrl.tabular.episodes import check_episodes_end
from edrl.tabular.mdp import MDP
from edrl.tabular.policy import Policy, PolicyLike, as_policy
from edrl.tabular.rewards import EXPONENTIAL, KINDS, NORMAL, PARTICLES, UNIFORM

Rows = TypeVar("Rows", jax.Array, Particles)
"""Numbers, or distributions, along a first axis."""
_ATOMS_AT_ONCE = 2**14  # of backed-up distributions: this bounds the memory of a sweep
_ROWS_AT_ONCE = 2**16  # of imputed distributions, and of pairs that are compared


def at_actions(policy: Policy, table: Float[Array, "S A *rest"]) -> Float[jax.Array, "S W *rest"]:
    """What the table holds for the actions that the policy may take."""
    return jnp.asarray(table)[jnp.arange(len(policy.actions))[:, None], policy.actions]


def state_returns(mdp: MDP, policy: Policy, taken: Particles) -> Particles:
    """From the returns of the policy's actions [S, W, n] to those of states, [S, W * n].

    Terminal states have the return 0.
    """
    return _of_states(jnp.asarray(mdp.terminal), policy.probs, taken)


def _of_states(
    terminal: Bool[Array, " S"], shares: Float[Array, "S W"], taken: Particles
) -> Particles:
    mixed = taken.mixture(shares)
    return Particles(jnp.where(terminal[:, None], 0, mixed.atoms), mixed.probs)


def backup_pair(
    mdp: MDP, returns: Particles, state: Int[jax.Array, ""], action: Int[jax.Array, ""]
) -> Particles:
    """(T eta)(x, a) of Equation (3) for one pair.

    It is the mixture of r + gamma z over successors and rewards. `returns` are those of states.
    """

    def here(table: Array) -> jax.Array:
        return jnp.asarray(table)[state, action]

    successors = here(mdp.successors)  # [B]
    reward = Particles(here(mdp.rewards.atoms), here(mdp.rewards.probs))  # [B, R]
    following = Particles(returns.atoms[successors], returns.probs[successors])  # [B, W * n]
    return following.push(jnp.zeros(()), mdp.gamma).add(reward).mixture(here(mdp.probs))


@in_float64
def exact_backup(mdp: MDP, policy: PolicyLike, eta: Particles) -> Particles:
    """T^pi eta, with all its atoms: from eta [S, A, n] to [S, A, B * W * n * R] (Equation (3))."""
    pairs = (mdp.num_states, mdp.num_actions)
    eta = check_samples(eta)
    if eta.shape != pairs:
        right = f"one distribution a state and action is needed: {pairs}"
        raise fail("eta.shape", eta.shape, right)
    backed_up: Particles = _exact_backup(mdp, as_policy(mdp, policy), eta)
    return backed_up


@jax.jit
def _exact_backup(mdp: MDP, policy: Policy, eta: Particles) -> Particles:
    taken = Particles(at_actions(policy, eta.atoms), at_actions(policy, eta.probs))
    pair = functools.partial(backup_pair, mdp, state_returns(mdp, policy, taken))
    states, actions = jnp.arange(mdp.num_states), jnp.arange(mdp.num_actions)
    over_actions = jax.vmap(pair, (None, 0))
    return jax.vmap(over_actions, (0, None))(states, actions)


@in_float64
def imputed_backup(
    mdp: MDP, policy: PolicyLike, family: Statistics, values: npt.ArrayLike
) -> Float[Array, "S A K"]:
    """One pass of Algorithm 1 over all pairs.

    Values become evaluate(T^pi eta) with eta = impute(values).
    """
    before = check_values("values", mdp, family, values)
    pairs = DistinctPairs.of(mdp)
    after: jax.Array = _sweep(mdp, as_policy(mdp, policy), family, before, pairs)
    return after


class DistinctPairs(NamedTuple):
    """Pairs whose transitions differ; in a gridworld many states lead to one in the same way."""

    first: Int[np.ndarray, " U"]  # the first pair x * A + a of each kind
    kind: Int[np.ndarray, " pairs"]  # which kind each pair is of

    @classmethod
    def of(cls, mdp: MDP) -> "DistinctPairs":
        """Found by hashing, as sorting whole rows takes long."""
        count = mdp.num_states * mdp.num_actions
        everyone = np.arange(count, dtype=np.int32)
        fields = (mdp.successors, mdp.probs, mdp.rewards.atoms, mdp.rewards.probs)
        if not is_concrete(*fields):
            return cls(everyone, everyone)
        columns = [np.asarray(field).reshape(count, -1) for field in fields]
        parts = np.array_split(everyone, -(-count // _ROWS_AT_ONCE))
        hashes = np.concatenate([_hashes(_rows(columns, some)) for some in parts])
        _, first, kind = np.unique(hashes, return_index=True, return_inverse=True)
        # All are distinct if they are, or if two of them have a hash in common.
        if len(first) == count or not all(
            np.array_equal(_rows(columns, some), _rows(columns, first[kind[some]]))
            for some in parts
        ):
            return cls(everyone, everyone)
        return cls(first.astype(np.int32), kind.astype(np.int32))


def _rows(columns: list[np.ndarray], some: Int[np.ndarray, " some"]) -> Float[np.ndarray, "some n"]:
    """All numbers about some pairs, one row each."""
    return np.concatenate([column[some].astype(float) for column in columns], axis=1)


def _hashes(rows: Float[np.ndarray, "some n"]) -> np.ndarray:
    random = np.random.default_rng(0).integers(1, 2**63, rows.shape[1], np.uint64)
    digits = rows.view(np.uint64) >> np.uint64(12)
    return np.asarray(np.sum(digits * (random | np.uint64(1)), axis=1))


def sweep(
    mdp: MDP,
    policy: Policy,
    family: Statistics,
    values: Float[jax.Array, "S A K"],
    pairs: DistinctPairs,
) -> Float[jax.Array, "S A K"]:
    """The pass of `imputed_backup`, to be compiled by its caller.

    Only what the policy can reach is imputed, and pairs with the same transitions are backed up
    once. They are in groups, of which only the statistics are kept: what is beside the values and
    the distributions of the states does not grow with the number of pairs.
    """
    returns = _returns_of_states(mdp, policy, family, values)
    atoms_a_pair = mdp.probs.shape[-1] * mdp.rewards.size * returns.size

    def updated(some: Int[jax.Array, " some"]) -> Float[jax.Array, "some K"]:
        states, actions = some // mdp.num_actions, some % mdp.num_actions
        backed_up = jax.vmap(functools.partial(backup_pair, mdp, returns))(states, actions)
        return jnp.asarray(family.evaluate(backed_up))

    found = in_groups(updated, jnp.asarray(pairs.first), _ATOMS_AT_ONCE // atoms_a_pair)
    all_distinct = len(pairs.first) == len(pairs.kind)
    return jnp.reshape(found if all_distinct else found[pairs.kind], values.shape)


def _returns_of_states(
    mdp: MDP, policy: Policy, family: Statistics, values: Float[jax.Array, "S A K"]
) -> Particles:
    """The imputed returns of all states, [S, W * n]."""

    taken = at_actions(policy, values)

    def some(states: Int[jax.Array, " some"]) -> Particles:
        shares = jnp.asarray(policy.probs)[states]
        return _of_states(jnp.asarray(mdp.terminal)[states], shares, family.impute(taken[states]))

    return in_groups(some, jnp.arange(mdp.num_states), _ROWS_AT_ONCE)


def in_groups(
    function: Callable[[Int[jax.Array, " some"]], Rows], numbers: Int[jax.Array, " all"], size: int
) -> Rows:
    """The rows that `function` finds for all numbers, worked out for `size` of them at a time."""
    if numbers.size <= size:
        return function(numbers)
    groups = -(-numbers.size // max(1, size))
    filled = jnp.pad(numbers, (0, -numbers.size % groups), mode="edge").reshape(groups, -1)
    found: Rows = jax.lax.map(function, filled)
    rows: Rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[: numbers.size], found)
    return rows


_sweep = jax.jit(sweep)


def check_values(
    argument: str, mdp: MDP, family: Statistics, given: npt.ArrayLike
) -> Float[jax.Array, "S A K"]:
    """The statistics of all pairs, if they have the right shape and are finite."""
    values = jnp.asarray(given, float)
    shape = (mdp.num_states, mdp.num_actions, family.size)
    if values.shape != shape:
        right = f"the values of all states and actions have the shape {shape}"
        raise fail(f"{argument}.shape", values.shape, right)
    return check_finite(argument, values)


@in_float64
def solve_moments(mdp: MDP, policy: PolicyLike, k: int) -> Float[np.ndarray, "S A k"]:
    """The first k moments of the return at every pair, exactly (Lemma 4.2).

    Each is the solution of a linear system. M_j(x, a) = E[sum_m C(j, m) gamma^(j-m) R^m
    M_{j-m}(X', A')] couples order j to itself only through gamma^j P, and to lower orders that are
    known by then.
    """
    chosen = as_policy(mdp, policy)
    check_episodes_end(mdp, chosen)
    k = check_count("k", k, 1)
    rewards = reward_moments(mdp, k)
    at_states = [np.ones(mdp.num_states)]  # the moment of order 0
    at_pairs: list[np.ndarray] = []
    for j in range(1, k + 1):
        known = np.zeros(mdp.probs.shape)
        for m in range(1, j + 1):
            factor = math.comb(j, m) * mdp.gamma ** (j - m)
            known = known + factor * rewards[..., m] * at_states[j - m][mdp.successors]
        source = np.sum(mdp.probs * known, axis=-1)
        at_pairs.append(solve_linear(mdp, chosen, source, mdp.gamma**j))
        at_states.append(average(chosen, at_pairs[-1]))
    return np.stack(at_pairs, axis=-1)


def solve_linear(
    mdp: MDP, policy: Policy, source: Float[np.ndarray, "S A"], discount: float
) -> Float[np.ndarray, "S A"]:
    """The solution v of v(x, a) = source(x, a) + discount E[v(X', A')], 0 where terminal."""
    actions, probs = policy.on_host()
    weights = probs[..., None] * np.take_along_axis(mdp.probs, actions[..., None], axis=1)
    weights = np.where(mdp.terminal[:, None, None], 0, weights)
    successors = np.take_along_axis(mdp.successors, actions[..., None], axis=1)
    rows = np.broadcast_to(np.arange(mdp.num_states)[:, None, None], successors.shape)
    chain = csr_array(
        (weights.ravel(), (rows.ravel(), successors.ravel())), shape=(mdp.num_states,) * 2
    )
    system = (eye_array(mdp.num_states) - discount * chain).tocsc()
    at_states = np.asarray(spsolve(system, average(policy, source)))
    return np.asarray(source + discount * np.sum(mdp.probs * at_states[mdp.successors], axis=-1))


def average(policy: Policy, table: Float[np.ndarray, "S A"]) -> Float[np.ndarray, " S"]:
    """The policy's average of the table in each state."""
    actions, probs = policy.on_host()
    return np.asarray(np.sum(probs * np.take_along_axis(table, actions, axis=1), axis=-1))


def reward_moments(mdp: MDP, k: int) -> Float[np.ndarray, "S A B orders"]:
    """E[R^m | x, a, x'] for the orders m = 0..k, exact for continuous rewards as well."""
    atoms, probs = np.asarray(mdp.rewards.atoms), np.asarray(mdp.rewards.probs)
    moments = np.stack([np.sum(probs * atoms**m, axis=-1) for m in range(k + 1)], axis=-1)
    if mdp.continuous is None:
        return moments
    kind = np.asarray(mdp.continuous.kind)
    loc, scale = np.asarray(mdp.continuous.loc), np.asarray(mdp.continuous.scale)
    for m in range(k + 1):
        # E[(loc + scale U)^m] by the binomial theorem, from the moments of the standard ones.
        total = np.zeros(kind.shape)
        for j in range(m + 1):
            total = total + math.comb(m, j) * loc ** (m - j) * scale**j * _standard(j)[kind]
        moments[..., m] = np.where(kind == PARTICLES, moments[..., m], total)
    return moments


def _standard(j: int) -> Float[np.ndarray, " kinds"]:
    """E[U^j] of the standard distribution of each kind."""
    moments = np.zeros(len(KINDS))
    moments[NORMAL] = 0 if j % 2 else math.prod(range(1, j, 2))
    moments[UNIFORM] = 1 / (j + 1)
    moments[EXPONENTIAL] = math.factorial(j)
    return moments
