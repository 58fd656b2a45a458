"""`Policy`: what to do in every state, and the forms in which users may say it."""

from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from edrl.core.check import fail
from edrl.core.precision import is_concrete
from edrl.core.statistics import Statistics
from edrl.core.types import Array, Float, Int
from edrl.core.words import Described
from edrl.tabular.mdp import MDP
from edrl.tabular.table import SUM_TOLERANCE, as_probabilities, nonzero_first


class Policy(eqx.Module):
    """In state x, take `actions[x, w]` with probability `probs[x, w]`.

    A deterministic policy has W = 1.
    """

    actions: Int[Array, "S W"]
    probs: Float[Array, "S W"]

    def on_host(self) -> tuple[Int[np.ndarray, "S W"], Float[np.ndarray, "S W"]]:
        """The actions and their probabilities as NumPy arrays."""
        return np.asarray(self.actions), np.asarray(self.probs)

    def dense(self, num_actions: int) -> Float[jax.Array, "S A"]:
        """The probabilities of all actions."""
        probs = jnp.asarray(self.probs)
        states = jnp.arange(probs.shape[0])[:, None]
        return (
            jnp.zeros((probs.shape[0], num_actions), probs.dtype)
            .at[states, self.actions]
            .add(probs)
        )


PolicyLike: TypeAlias = Policy | str | int | npt.ArrayLike
"""What `as_policy` takes.

A `Policy`, one action for every state (whole numbers [S]), probabilities [S, A], one action (a
whole number), or "uniform". The last states may be left out if they are terminal, where no action
counts: so policies for the states of a Gymnasium environment fit the MDP made from it.
"""


def as_policy(mdp: MDP, policy: PolicyLike) -> Policy:
    """The `Policy` for `mdp` that is meant by `policy`, checked unless it is being traced."""
    if isinstance(policy, Policy):
        chosen = _in_full_precision(policy)
    elif isinstance(policy, str):
        chosen = _from_name(mdp, policy)
    elif isinstance(policy, Statistics):
        right = "these are statistics: have they changed places with the policy?"
        raise fail("policy", Described(type(policy).__name__), right)
    else:
        chosen = _from_array(mdp, policy)
    if not is_concrete(chosen.actions, chosen.probs):
        return chosen
    complete = _with_terminal_states(mdp, chosen)
    _check(*complete.on_host(), mdp.num_states, mdp.num_actions)
    return complete


def _from_name(mdp: MDP, name: str) -> Policy:
    if name != "uniform":
        raise fail("policy", name, 'the only policy known by name is "uniform"')
    return _from_probabilities(np.full((mdp.num_states, mdp.num_actions), 1 / mdp.num_actions))


def _in_full_precision(policy: Policy) -> Policy:
    """The policy with probabilities that sum to 1 in float64."""
    if not is_concrete(policy.probs):
        return policy
    probs = as_probabilities(policy.probs)
    return policy if np.array_equal(probs, policy.probs) else Policy(policy.actions, probs)


def _from_array(mdp: MDP, policy: int | npt.ArrayLike) -> Policy:
    array = _one_row_a_state(mdp, policy)
    if _has_right_rows(mdp, array):
        if array.ndim == 1 and np.issubdtype(array.dtype, np.integer):
            return Policy(array.astype(np.int32)[:, None], np.ones((len(array), 1)))
        if array.shape[1:] == (mdp.num_actions,) and array.dtype != bool:
            return _from_probabilities(array)
    got = (array.dtype.name, np.shape(array))
    raise fail("policy", got, f"it must be {_right_shapes(mdp)}")


def _one_row_a_state(mdp: MDP, policy: int | npt.ArrayLike) -> Array:
    """The policy as an array, in which a single action is repeated for all states."""
    array = policy if isinstance(policy, jax.Array) else np.asarray(policy)
    return array if array.ndim else array[None].repeat(mdp.num_states)


def _has_right_rows(mdp: MDP, array: Array) -> bool:
    """A row for each state, or, where rows can be added, for all but terminal ones at the end."""
    least = _first_optional_state(mdp) if is_concrete(array) else mdp.num_states
    return least <= len(array) <= mdp.num_states


def _right_shapes(mdp: MDP) -> str:
    """What policies may look like, in words."""
    shapes = (mdp.num_states,), (mdp.num_states, mdp.num_actions)
    words = f"whole numbers of shape {shapes[0]}, probabilities of shape {shapes[1]}, or one action"
    most = _first_optional_state(mdp)
    if most == mdp.num_states:
        return words
    return f"{words}; the states from {most} on are terminal and may be left out"


def _first_optional_state(mdp: MDP) -> int:
    """From this state on all are terminal."""
    if not is_concrete(mdp.terminal):
        return mdp.num_states
    alive = np.flatnonzero(~mdp.terminal)
    return int(alive[-1]) + 1 if alive.size else 0


def _with_terminal_states(mdp: MDP, policy: Policy) -> Policy:
    """The policy with rows for the terminal states at the end that it leaves out."""
    actions, probs = policy.on_host()
    missing = mdp.num_states - len(actions)
    if missing <= 0 or len(actions) < _first_optional_state(mdp):
        return policy
    first = np.arange(actions.shape[-1]) == 0
    return Policy(
        np.concatenate([actions, np.zeros((missing, len(first)), actions.dtype)]),
        np.concatenate([probs, np.broadcast_to(first, (missing, len(first)))]),
    )


def _from_probabilities(given: Array) -> Policy:
    if not is_concrete(given):  # which of them are zero cannot be seen
        actions = jnp.arange(given.shape[1], dtype=np.int32)
        return Policy(jnp.broadcast_to(actions, given.shape), jnp.asarray(given, float))
    probs = as_probabilities(given)
    chosen = nonzero_first(probs)
    return Policy(chosen.astype(np.int32), np.take_along_axis(probs, chosen, -1))


def _check(
    actions: Int[np.ndarray, "..."],
    probs: Float[np.ndarray, "..."],
    num_states: int,
    num_actions: int,
) -> None:
    if actions.ndim != 2 or len(actions) != num_states or probs.shape != actions.shape:
        got = (actions.shape, probs.shape)
        right = f"both must be [{num_states}, W]"
        raise fail("shapes of policy.actions and policy.probs", got, right)
    outside = ((actions < 0) | (actions >= num_actions)).any(-1)
    if outside.any():
        x = int(np.argmax(outside))
        raise fail(
            f"policy.actions[{x}]",
            actions[x].tolist(),
            f"actions are numbers from 0 to {num_actions - 1}",
        )
    wrong = ~(probs >= 0).all(-1) | ~(np.abs(probs.sum(-1) - 1) <= SUM_TOLERANCE)
    if wrong.any():
        x = int(np.argmax(wrong))
        total = f"{probs[x].sum():.9g}"
        right = f"the probabilities of state {x} must be at least 0 and sum to 1, not to {total}"
        raise fail(f"policy.probs[{x}]", probs[x].tolist(), right)
