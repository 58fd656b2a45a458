"""`Policy`: what to do in every state, and the forms in which users may say it."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from edrl.core.check import fail
from edrl.core.precision import is_concrete
from edrl.core.statistics import Statistics
from edrl.tabular.constructors import SUM_TOLERANCE, as_probabilities, nonzero_first
from edrl.tabular.mdp import MDP


class Policy(eqx.Module):
    """In state x, take `actions[x, w]` with probability `probs[x, w]`; a deterministic policy has W = 1."""

    actions: Any  # int32 [S, W]
    probs: Any  # [S, W]

    def dense(self, num_actions: int) -> Any:
        """The probabilities [S, A] of all actions."""
        probs = jnp.asarray(self.probs)
        states = jnp.arange(probs.shape[0])[:, None]
        return (
            jnp.zeros((probs.shape[0], num_actions), probs.dtype)
            .at[states, self.actions]
            .add(probs)
        )


def as_policy(mdp: MDP, policy: Any) -> Policy:
    """The `Policy` for `mdp` that is meant by `policy`, checked unless it is being traced.

    It may be a `Policy`, one action for every state (whole numbers [S]), probabilities [S, A], one action (a
    whole number), or "uniform".
    """
    shape = (mdp.num_states, mdp.num_actions)
    if isinstance(policy, Policy):
        chosen = policy
        if is_concrete(policy.probs) and not np.array_equal(
            probs := as_probabilities(policy.probs), policy.probs
        ):
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


def _from_array(policy: Any, shape: tuple[int, int]) -> Policy:
    xp: Any = np if is_concrete(policy) else jnp
    array = xp.asarray(policy)
    if array.ndim == 2 and array.shape == shape and array.dtype != bool:
        return _from_probabilities(
            as_probabilities(array) if is_concrete(array) else array.astype(float)
        )
    if array.ndim < 2 and np.issubdtype(array.dtype, np.integer) and array.shape in ((), shape[:1]):
        actions = xp.broadcast_to(array, shape[:1])[:, None].astype(np.int32)
        return Policy(actions, np.ones((shape[0], 1)))
    got = (array.dtype.name, array.shape)
    raise fail(
        "policy",
        got,
        f"it must be whole numbers of shape {shape[:1]}, probabilities of shape {shape}, or one action",
    )


def _from_probabilities(probs: Any) -> Policy:
    if not is_concrete(probs):  # which of them are zero cannot be seen
        return Policy(
            jnp.broadcast_to(jnp.arange(probs.shape[1], dtype=np.int32), probs.shape), probs
        )
    actions = nonzero_first(probs)
    return Policy(actions.astype(np.int32), np.take_along_axis(probs, actions, -1))


def _check(actions: np.ndarray, probs: np.ndarray, num_states: int, num_actions: int) -> None:
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
        right = f"the probabilities of state {x} must be at least 0 and sum to 1, not to {probs[x].sum():.9g}"
        raise fail(f"policy.probs[{x}]", probs[x].tolist(), right)
