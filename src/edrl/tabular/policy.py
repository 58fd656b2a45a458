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
from edrl.tabular.constructors import SUM_TOLERANCE, as_probabilities, nonzero_first
from edrl.tabular.mdp import MDP


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
whole number), or "uniform".
"""


def as_policy(mdp: MDP, policy: PolicyLike) -> Policy:
    """The `Policy` for `mdp` that is meant by `policy`, checked unless it is being traced."""
    shape = (mdp.num_states, mdp.num_actions)
    if isinstance(policy, Policy):
        chosen = policy
        if is_concrete(policy.probs):
            probs = as_probabilities(policy.probs)
            if not np.array_equal(probs, policy.probs):
                chosen = Policy(policy.actions, probs)
    elif isinstance(policy, str):
        if policy != "uniform":
            raise fail("policy", policy, 'the only policy known by name is "uniform"')
        chosen = _from_probabilities(np.full(shape, 1 / shape[1]))
    elif isinstance(policy, Statistics):
        raise fail(
            "policy",
            type(policy).__name__,
            "these are statistics: have they changed places with the policy?",
        )
    else:
        chosen = _from_array(policy, shape)
    if is_concrete(chosen.actions, chosen.probs):
        _check(np.asarray(chosen.actions), np.asarray(chosen.probs), *shape)
    return chosen


def _from_array(policy: int | npt.ArrayLike, shape: tuple[int, int]) -> Policy:
    traced = not is_concrete(policy)
    array: Array = policy if isinstance(policy, jax.Array) and traced else np.asarray(policy)
    if array.shape == shape and array.dtype != bool:
        return _from_probabilities(array.astype(float) if traced else as_probabilities(array))
    if np.issubdtype(array.dtype, np.integer) and array.shape in ((), shape[:1]):
        actions = array.astype(np.int32)
        if array.ndim == 0:
            actions = actions[None].repeat(shape[0])
        return Policy(actions[:, None], np.ones((shape[0], 1)))
    got = (array.dtype.name, array.shape)
    right = f"whole numbers of shape {shape[:1]}, probabilities of shape {shape}, or one action"
    raise fail("policy", got, f"it must be {right}")


def _from_probabilities(probs: Float[Array, "S A"]) -> Policy:
    if not isinstance(probs, np.ndarray):  # traced: which of them are zero cannot be seen
        actions = jnp.arange(probs.shape[1], dtype=np.int32)
        return Policy(jnp.broadcast_to(actions, probs.shape), probs)
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
        raise fail(
            "shapes of policy.actions and policy.probs", got, f"both must be [{num_states}, W]"
        )
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
