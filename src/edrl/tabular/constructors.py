"""From what users have (dense arrays, lists, Gymnasium's tables) to the checked sparse arrays of an `MDP`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from edrl.core.check import check_count, fail
from edrl.core.particles import Particles
from edrl.tabular.rewards import KINDS, PARTICLES, ContinuousReward, ContinuousRewards

Reward = float | Particles | ContinuousReward
"""The reward of one transition: a number, a discrete distribution, or a continuous one."""

Transitions = Iterable[tuple[float, int, Reward]]
"""What can follow a state and an action: (probability, next state, reward)."""

SUM_TOLERANCE = 1e-8


def as_probabilities(probs: Any) -> np.ndarray:
    """In float64; rows that sum to 1 as well as a lower precision can (a softmax in float32) then do so exactly."""
    given = np.asarray(probs)
    wide = given.astype(np.float64)
    if not jnp.issubdtype(given.dtype, jnp.floating):
        return wide
    # What float32 can hold may have been rounded to it, though it comes in float64: `in_float64` widens arguments.
    precision = np.float32 if given.dtype == np.float64 else given.dtype
    rounded = (wide.astype(precision) == wide).all(axis=-1, keepdims=True)
    total = wide.sum(axis=-1, keepdims=True)
    near = np.abs(total - 1) <= float(jnp.finfo(precision).eps) ** 0.5
    return np.where(rounded & near, wide / np.where(near, total, 1), wide)


class Table(NamedTuple):
    """The arrays of an MDP, checked and padded as `MDP` documents them."""

    successors: np.ndarray  # int32 [S, A, B]
    probs: np.ndarray  # [S, A, B]
    rewards: Particles  # [S, A, B, R]
    terminal: np.ndarray  # bool [S]
    continuous: ContinuousRewards | None  # [S, A, B]
    discretisation_error: np.ndarray  # [S, A]


def tabulate(
    successors: Any,
    probs: Any,
    rewards: Any,
    continuous: ContinuousRewards | None,
    terminal: Any,
    reward_atoms: int,
) -> Table:
    """Check sparse arrays, discretise continuous rewards, write the padding and the rows of terminal states."""
    successors, probs = np.asarray(successors), as_probabilities(probs)
    if (
        successors.ndim != 3
        or 0 in successors.shape
        or not np.issubdtype(successors.dtype, np.integer)
    ):
        got = (successors.dtype.name, successors.shape)
        raise fail(
            "successors", got, "it must be an array of integers [states, actions, successors]"
        )
    if probs.shape != successors.shape:
        raise fail("probs.shape", probs.shape, f"it must be that of successors, {successors.shape}")
    atoms, weights = _atoms_and_weights(rewards, successors.shape)
    _refuse(
        ~(np.isfinite(probs) & (probs >= 0)),
        "probs",
        probs,
        "a probability is a number of at least 0",
    )
    real = probs > 0
    states = np.arange(len(successors))
    outside = (successors < 0) | (successors >= len(states))
    _refuse(
        real & outside,
        "successors",
        successors,
        f"a next state is a number from 0 to {len(states) - 1}",
    )
    _refuse(real & ~np.isfinite(atoms).all(-1), "rewards", atoms, "a reward must be finite")
    continuous = None if continuous is None else _checked_continuous(continuous, real)

    pays = real & ((atoms != 0) & (weights > 0)).any(-1)
    if continuous is not None:
        pays |= continuous.kind != PARTICLES
    busy = pays | (real & (successors != states[:, None, None]))
    if terminal is None:  # absorbing states that pay nothing: their return is 0 in any case
        terminal = real.any(-1).all(-1) & ~busy.any((1, 2))
    terminal = _as_mask("terminal", terminal, len(states))
    wrong = terminal[:, None, None] & busy
    if wrong.any():
        x, a, _ = map(int, np.argwhere(wrong)[0])
        right = f"action {a} of state {x} pays or leads elsewhere, but the return from a terminal state is 0"
        raise fail(
            f"terminal[{x}]",
            True,
            right + ": pay on the way into it, or let it lead to an end state",
        )
    successors = np.where(real, successors, states[:, None, None]).astype(np.int32)
    probs = np.where(terminal[:, None, None], np.arange(probs.shape[-1]) == 0, probs)
    total = probs.sum(-1)
    wrong = np.abs(total - 1) > SUM_TOLERANCE
    if wrong.any():
        x, a = map(int, np.argwhere(wrong)[0])
        right = (
            f"the probabilities of state {x}, action {a} must sum to 1 to within {SUM_TOLERANCE:g}"
        )
        raise fail(f"sum of probs[{x}, {a}]", float(total[x, a]), right)

    discretisation_error = np.zeros(total.shape)
    if continuous is not None:
        n = check_count("reward_atoms", reward_atoms, 1)
        atoms, weights = _discretise(atoms, weights, continuous, n)
        discretisation_error = np.sum(probs * continuous.integrated_cdf_error(n), axis=-1)
    real = real[..., None] & ~terminal[:, None, None, None]
    atoms = np.where(real & (weights > 0), atoms, 0.0)
    weights = np.where(real, weights, np.arange(atoms.shape[-1]) == 0)
    return Table(
        successors, probs, Particles(atoms, weights), terminal, continuous, discretisation_error
    )


def _atoms_and_weights(rewards: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Rewards as atoms and their probabilities [S, A, B, R]; they may still hold NaN."""
    if isinstance(rewards, Particles):
        atoms, weights = np.asarray(rewards.atoms, np.float64), as_probabilities(rewards.probs)
    else:
        atoms = np.asarray(rewards, np.float64)[..., None]
        weights = np.ones_like(atoms)
    if atoms.shape[:-1] != shape:
        raise fail(
            "rewards.shape",
            atoms.shape[:-1],
            f"without atoms, it must be that of successors, {shape}",
        )
    return atoms, weights


def _discretise(
    atoms: np.ndarray, weights: np.ndarray, continuous: ContinuousRewards, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Write `n` equally likely atoms where a reward is continuous, with room for all atoms everywhere."""
    size = max(n, atoms.shape[-1])

    def padded(array: np.ndarray) -> np.ndarray:
        return np.pad(array, [(0, 0)] * 3 + [(0, size - array.shape[-1])])

    is_continuous = (continuous.kind != PARTICLES)[..., None]
    equal = np.where(np.arange(size) < n, 1 / n, 0.0)
    atoms = np.where(is_continuous, padded(continuous.atoms(n)), padded(atoms))
    return atoms, np.where(is_continuous, equal, padded(weights))


def _checked_continuous(
    continuous: ContinuousRewards, real: np.ndarray
) -> ContinuousRewards | None:
    """The distributions of real transitions as NumPy arrays, or None if none of them is continuous."""
    kind = np.asarray(continuous.kind)
    loc, scale = np.asarray(continuous.loc, np.float64), np.asarray(continuous.scale, np.float64)
    for name, field in (("kind", kind), ("loc", loc), ("scale", scale)):
        if field.shape != real.shape:
            raise fail(
                f"continuous.{name}.shape",
                field.shape,
                f"it must be that of successors, {real.shape}",
            )
    _refuse(
        real & ~np.isin(kind, KINDS), "continuous.kind", kind, f"it must be one of {list(KINDS)}"
    )
    here = real & (kind != PARTICLES)
    _refuse(here & ~np.isfinite(loc), "continuous.loc", loc, "it must be finite")
    useful = np.isfinite(scale) & (scale != 0)
    _refuse(here & ~useful, "continuous.scale", scale, "it must be finite and not 0")
    if not here.any():
        return None
    kind = np.where(here, kind, PARTICLES).astype(np.int8)
    return ContinuousRewards(kind, np.where(here, loc, 0.0), np.where(here, scale, 0.0))


def _refuse(wrong: np.ndarray, name: str, array: Any, right: str) -> None:
    """Raise an error about the first transition [x, a, b] that is `wrong`."""
    if wrong.any():
        at = tuple(map(int, np.argwhere(wrong)[0]))
        raise fail(
            f"{name}{list(at)}",
            np.asarray(array)[at].tolist(),
            f"state {at[0]}, action {at[1]}: {right}",
        )


def _as_mask(name: str, states: Any, num_states: int) -> np.ndarray:
    """A mask [S] of states, from itself or from a list of states."""
    array = np.asarray(states if np.size(states) else np.zeros(0, int))
    if array.dtype == bool and array.shape == (num_states,):
        return array
    if array.dtype == bool or not np.issubdtype(array.dtype, np.integer) or array.ndim != 1:
        raise fail(name, states, f"it must be a mask of shape ({num_states},) or a list of states")
    if array.size and not (array.min() >= 0 and array.max() < num_states):
        raise fail(name, states, f"states are numbers from 0 to {num_states - 1}")
    return np.isin(np.arange(num_states), array)


def nonzero_first(weights: np.ndarray) -> np.ndarray:
    """Indices along the last axis: the non-zero weights in their order, then others up to the widest row."""
    nonzero = weights != 0
    width = max(1, int(nonzero.sum(-1).max(initial=0)))
    return np.argsort(~nonzero, axis=-1, kind="stable")[..., :width]


def dense_to_arrays(transitions: Any, rewards: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    """Successors, probs and rewards [S, A, B] from `transitions [S, A, S]`; see `MDP.from_dense`."""
    transitions = as_probabilities(transitions)
    if (
        transitions.ndim != 3
        or transitions.shape[0] != transitions.shape[2]
        or 0 in transitions.shape
    ):
        raise fail("transitions.shape", transitions.shape, "it must be [states, actions, states]")
    successors = nonzero_first(transitions)
    probs = np.take_along_axis(transitions, successors, -1)
    is_random = isinstance(rewards, Particles)
    fields = (
        [rewards.atoms, rewards.probs]
        if is_random
        else [np.asarray(rewards, np.float64)[..., None]]
    )
    shape = fields[0].shape[:-1]
    if shape not in (transitions.shape[:2], transitions.shape):
        right = f"it must be {transitions.shape[:2]} or {transitions.shape}"
        raise fail("rewards.shape", shape, right + (" before the atoms" if is_random else ""))
    if len(shape) == 2:
        chosen = [
            np.broadcast_to(field[:, :, None], (*probs.shape, field.shape[-1])) for field in fields
        ]
    else:
        chosen = [
            np.take_along_axis(np.asarray(field), successors[..., None], 2) for field in fields
        ]
    return successors, probs, Particles(*chosen) if is_random else chosen[0][..., 0]


def lists_to_arrays(
    transitions: Mapping[int, Any] | Sequence[Any],
) -> tuple[np.ndarray, np.ndarray, Particles, ContinuousRewards]:
    """Successors, probs, rewards and continuous rewards [S, A, B] from lists `transitions[x][a]`; see `MDP.from_lists`."""
    rows = {
        (x, a): _merged(x, a, listed)
        for x, actions in _items(transitions)
        for a, listed in _items(actions)
    }
    if isinstance(transitions, Mapping):
        named = [
            *(int(x) for x in transitions),
            *(successor for row in rows.values() for _, successor, _ in row),
        ]
        num_states = 1 + max(named, default=-1)
    else:
        num_states = len(transitions)
    if num_states == 0:
        raise fail("transitions", transitions, "at least one state is needed")
    num_actions = 1 + max((a for _, a in rows), default=0)
    busy = {x for (x, _), row in rows.items() if row}
    rows |= {
        (x, a): [(1.0, x, 0.0)]
        for x in range(num_states)
        if x not in busy
        for a in range(num_actions)
    }

    atoms_needed = (
        reward.size for row in rows.values() for *_, reward in row if isinstance(reward, Particles)
    )
    shape = (num_states, num_actions, max(map(len, rows.values())))
    successors, probs = np.zeros(shape, np.int64), np.zeros(shape)
    atoms = np.zeros((*shape, max(atoms_needed, default=1)))
    weights = np.broadcast_to(np.arange(atoms.shape[-1]) == 0, atoms.shape).astype(np.float64)
    continuous = ContinuousRewards(np.zeros(shape, np.int8), np.zeros(shape), np.zeros(shape))
    for (x, a), row in rows.items():
        for b, (probability, successor, reward) in enumerate(row):
            at = x, a, b
            successors[at], probs[at] = successor, probability
            if isinstance(reward, ContinuousReward):
                continuous.kind[at], (continuous.loc[at], continuous.scale[at]) = (
                    reward.kind,
                    reward.affine,
                )
            elif isinstance(reward, Particles):
                atoms[at][: reward.size], weights[at] = reward.atoms, 0.0
                weights[at][: reward.size] = as_probabilities(reward.probs)
            else:
                atoms[at][0] = reward
    return successors, probs, Particles(atoms, weights), continuous


def _items(indexed: Mapping[int, Any] | Sequence[Any]) -> Iterable[tuple[int, Any]]:
    """The pairs (index, value) of a dictionary with whole numbers as keys, or of a list."""
    if not isinstance(indexed, Mapping):
        return enumerate(indexed)
    return [(check_count("state or action", index, 0), value) for index, value in indexed.items()]


def _merged(x: int, a: int, listed: Transitions) -> list[tuple[float, int, Reward]]:
    """The transitions of (x, a), equal next states and rewards added up, impossible ones left out."""
    merged: dict[Any, tuple[float, int, Reward]] = {}
    for entry in listed:
        place = f"transitions[{x}][{a}]"
        if not isinstance(entry, Sequence) or len(entry) != 3:
            raise fail(
                place,
                entry,
                f"state {x}, action {a}: each entry must be (probability, next state, reward)",
            )
        probability, successor, reward = entry
        if not probability >= 0:
            raise fail(
                place, entry, f"state {x}, action {a}: a probability is a number of at least 0"
            )
        if isinstance(reward, Particles) and reward.shape:
            raise fail(
                place,
                reward.shape,
                f"state {x}, action {a}: a reward is one distribution, not a batch",
            )
        if not isinstance(reward, Particles | ContinuousReward):
            if np.ndim(reward) or not np.isfinite(reward):
                raise fail(
                    place,
                    entry,
                    f"state {x}, action {a}: a reward must be a finite number, or a distribution",
                )
            reward = float(reward)
        if probability > 0:
            if not float(successor).is_integer():
                raise fail(place, entry, f"state {x}, action {a}: a next state is a whole number")
            successor = int(successor)
            key = successor, id(reward) if isinstance(reward, Particles) else reward
            before = merged[key][0] if key in merged else 0.0
            merged[key] = float(before + probability), successor, reward
    return list(merged.values())


def gymnasium_lists(env_or_id: Any) -> tuple[list[Any], np.ndarray | None]:
    """The lists and the start distribution of a Gymnasium toy-text environment, with one end state added.

    Gymnasium marks transitions as terminated, not states: whatever ends the episode leads to the end state.
    """
    if isinstance(env_or_id, str):
        import gymnasium  # slow to import, and few need it

        env = gymnasium.make(env_or_id)
        try:
            return gymnasium_lists(env)
        finally:
            env.close()
    env = env_or_id.unwrapped
    table = getattr(env, "P", None)
    if table is None:
        raise fail(
            "env_or_id",
            env_or_id,
            "the environment needs a table P, as FrozenLake-v1 and Taxi-v4 have",
        )
    end = len(table)
    lists: list[Any] = [
        [
            [(p, end if ended else x, float(r)) for p, x, r, ended in table[state][a]]
            for a in range(len(table[state]))
        ]
        for state in range(end)
    ]
    start = getattr(env, "initial_state_distrib", None)
    return [*lists, []], None if start is None else np.append(np.asarray(start, np.float64), 0.0)
