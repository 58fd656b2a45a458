"""The distributional Bellman operator, exact and imputed (Equation (3), Algorithm 1), and that of moments.

The way of one transition: `successors -> impute(values there) -> r + gamma z -> mixture -> evaluate`.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import spsolve

from edrl.core.check import check_count, fail
from edrl.core.particles import Particles
from edrl.core.precision import in_float64, is_concrete
from edrl.core.statistics import Statistics
from edrl.tabular.mdp import MDP
from edrl.tabular.policy import Policy, as_policy
from edrl.tabular.rewards import EXPONENTIAL, KINDS, NORMAL, PARTICLES, UNIFORM

_ATOMS_AT_ONCE = (
    2**20
)  # how many atoms of backed-up distributions are held at a time: the memory of a sweep


def at_actions(policy: Policy, table: Any) -> Any:
    """What `table [S, A, ...]` holds for the actions that the policy may take, [S, W, ...]."""
    return jnp.asarray(table)[jnp.arange(len(policy.actions))[:, None], policy.actions]


def state_returns(mdp: MDP, policy: Policy, taken: Particles) -> Particles:
    """From the returns of the policy's actions [S, W, n] to those of states, [S, W * n]; 0 where terminal."""
    mixed = taken.mixture(policy.probs)
    return Particles(jnp.where(jnp.asarray(mdp.terminal)[:, None], 0, mixed.atoms), mixed.probs)


def backup_pair(mdp: MDP, returns: Particles, state: Any, action: Any) -> Particles:
    """(T eta)(x, a) of Equation (3) for one pair: the mixture of r + gamma z over successors and rewards."""

    def here(table: Any) -> Any:
        return jnp.asarray(table)[state, action]

    successors = here(mdp.successors)  # [B]
    reward = Particles(here(mdp.rewards.atoms), here(mdp.rewards.probs))  # [B, R]
    following = Particles(returns.atoms[successors], returns.probs[successors])  # [B, W * n]
    return following.push(jnp.zeros(()), mdp.gamma).add(reward).mixture(here(mdp.probs))


@in_float64
def exact_backup(mdp: MDP, policy: Any, eta: Particles) -> Particles:
    """T^pi eta, with all its atoms: from eta [S, A, n] to [S, A, B * W * n * R] (Equation (3))."""
    if eta.shape != (mdp.num_states, mdp.num_actions):
        right = (
            f"one distribution a state and action is needed: {(mdp.num_states, mdp.num_actions)}"
        )
        raise fail("eta.shape", eta.shape, right)
    return _exact_backup(mdp, as_policy(mdp, policy), eta)


@jax.jit
def _exact_backup(mdp: MDP, policy: Policy, eta: Particles) -> Particles:
    taken = Particles(at_actions(policy, eta.atoms), at_actions(policy, eta.probs))
    pair = functools.partial(backup_pair, mdp, state_returns(mdp, policy, taken))
    states, actions = jnp.arange(mdp.num_states), jnp.arange(mdp.num_actions)
    return jax.vmap(jax.vmap(pair, (None, 0)), (0, None))(states, actions)


@in_float64
def imputed_backup(mdp: MDP, policy: Any, family: Statistics, values: Any) -> Any:
    """One pass of Algorithm 1 over all pairs: values <- evaluate(T^pi eta) with eta = impute(values)."""
    return _sweep(mdp, as_policy(mdp, policy), family, check_values("values", mdp, family, values))


def sweep(mdp: MDP, policy: Policy, family: Statistics, values: Any) -> Any:
    """The pass of `imputed_backup`, to be compiled by its caller.

    Only what the policy can reach is imputed. Pairs are backed up in groups, of which only the statistics are
    kept: memory does not grow with the number of pairs.
    """
    returns = state_returns(mdp, policy, family.impute(at_actions(policy, values)))
    atoms_a_pair = mdp.probs.shape[-1] * mdp.rewards.size * returns.size

    def updated(pair: Any) -> Any:
        return family.evaluate(
            backup_pair(mdp, returns, pair // mdp.num_actions, pair % mdp.num_actions)
        )

    pairs = jnp.arange(mdp.num_states * mdp.num_actions)
    at_once = max(1, _ATOMS_AT_ONCE // atoms_a_pair)
    if at_once >= pairs.size:
        return jax.vmap(updated)(pairs).reshape(values.shape)
    return jax.lax.map(updated, pairs, batch_size=at_once).reshape(values.shape)


_sweep = jax.jit(sweep)


def check_values(argument: str, mdp: MDP, family: Statistics, values: Any) -> Any:
    """Statistics of all pairs, [S, A, K], finite."""
    values = jnp.asarray(values, float)
    shape = (mdp.num_states, mdp.num_actions, family.size)
    if values.shape != shape:
        right = f"the values of all states and actions have the shape {shape}"
        raise fail(f"{argument}.shape", values.shape, right)
    if is_concrete(values) and not np.isfinite(values).all():
        at = tuple(map(int, np.argwhere(~np.isfinite(values))[0]))
        raise fail(f"{argument}{list(at)}", float(values[at]), "values must be finite")
    return values


@in_float64
def solve_moments(mdp: MDP, policy: Any, k: int) -> np.ndarray:
    """The first k moments of the return at every pair, [S, A, k], exactly: a linear system each (Lemma 4.2).

    M_j(x, a) = E[sum_m C(j, m) gamma^(j-m) R^m M_{j-m}(X', A')] couples order j to itself only through
    gamma^j P, and to lower orders that are known by then.
    """
    policy = as_policy(mdp, policy)
    k = check_count("k", k, 1)
    rewards = reward_moments(mdp, k)
    at_states = [np.ones(mdp.num_states)]  # the moment of order 0
    at_pairs = []
    for j in range(1, k + 1):
        known = sum(
            math.comb(j, m)
            * mdp.gamma ** (j - m)
            * rewards[..., m]
            * at_states[j - m][mdp.successors]
            for m in range(1, j + 1)
        )
        at_pairs.append(solve_linear(mdp, policy, np.sum(mdp.probs * known, axis=-1), mdp.gamma**j))
        at_states.append(average(policy, at_pairs[-1]))
    return np.stack(at_pairs, axis=-1)


def solve_linear(mdp: MDP, policy: Policy, source: np.ndarray, discount: float) -> np.ndarray:
    """The solution v [S, A] of v(x, a) = source(x, a) + discount E[v(X', A')], 0 where terminal."""
    weights = policy.probs[..., None] * np.take_along_axis(
        mdp.probs, policy.actions[..., None], axis=1
    )
    weights = np.where(mdp.terminal[:, None, None], 0, weights)
    successors = np.take_along_axis(mdp.successors, policy.actions[..., None], axis=1)
    rows = np.broadcast_to(np.arange(mdp.num_states)[:, None, None], successors.shape)
    chain = csr_array(
        (weights.ravel(), (rows.ravel(), successors.ravel())), shape=(mdp.num_states,) * 2
    )
    at_states = spsolve(
        (eye_array(mdp.num_states) - discount * chain).tocsc(), average(policy, source)
    )
    return np.asarray(source + discount * np.sum(mdp.probs * at_states[mdp.successors], axis=-1))


def average(policy: Policy, table: np.ndarray) -> np.ndarray:
    """The policy's average [S] of a table [S, A]."""
    return np.asarray(
        np.sum(policy.probs * np.take_along_axis(table, policy.actions, axis=1), axis=-1)
    )


def reward_moments(mdp: MDP, k: int) -> np.ndarray:
    """E[R^m | x, a, x'] for m = 0..k: [S, A, B, k + 1], exact for continuous rewards as well."""
    atoms, probs = mdp.rewards.atoms, mdp.rewards.probs
    moments = np.stack([np.sum(probs * atoms**m, axis=-1) for m in range(k + 1)], axis=-1)
    if mdp.continuous is None:
        return moments
    kind, loc, scale = mdp.continuous.kind, mdp.continuous.loc, mdp.continuous.scale
    for m in range(k + 1):
        # E[(loc + scale U)^m] by the binomial theorem, from the moments of the standard continuous.
        terms = (
            math.comb(m, j) * loc ** (m - j) * scale**j * _standard(j)[kind] for j in range(m + 1)
        )
        moments[..., m] = np.where(kind == PARTICLES, moments[..., m], sum(terms))
    return moments


def _standard(j: int) -> np.ndarray:
    """E[U^j] of the standard distribution of each kind."""
    moments = np.zeros(len(KINDS))
    moments[NORMAL] = 0 if j % 2 else math.prod(range(1, j, 2))
    moments[UNIFORM] = 1 / (j + 1)
    moments[EXPONENTIAL] = math.factorial(j)
    return moments
