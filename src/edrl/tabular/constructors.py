"""From what users have to the checked sparse arrays of an `MDP`.

Users have dense arrays, lists, or Gymnasium's tables.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Shaped

from edrl.core.check import check_count, fail
from edrl.core.particles import Particles
from edrl.core.types import Array, Bool, Float, Int, Real
from edrl.tabular.rewards import KINDS, PARTICLES, ContinuousReward, ContinuousRewards

T = TypeVar("T")

Number: TypeAlias = float | np.number | Real[Array, ""]
"""A number of any library."""

Reward: TypeAlias = Number | Particles | ContinuousReward
"""The reward of one transition: a number, a discrete distribution, or a continuous one."""

Transition: TypeAlias = tuple[Number, int | np.integer, Reward]
"""(probability, next state, reward)."""

Transitions: TypeAlias = Iterable[Transition]
"""What can follow a state and an action."""

Actions: TypeAlias = Mapping[int, Transitions] | Sequence[Transitions]
"""The transitions of each action of one state."""

Lists: TypeAlias = Mapping[int, Actions] | Sequence[Actions]
"""The actions of each state, as `MDP.from_lists` takes them."""

SUM_TOLERANCE = 1e-8


@runtime_checkable
class ToyText(Protocol):
    """The environments of Gymnasium that have a table of transitions."""

    @property
    def unwrapped(self) -> object:
        """The environment that has the attribute `P`."""


def as_probabilities(probs: npt.ArrayLike) -> Float[np.ndarray, "..."]:
    """`probs` in float64; rows that a lower precision has rounded are made to sum to 1.

    A softmax in float32, for example, sums to 1 only as well as float32 can tell.
    """
    given = np.asarray(probs)
    wide = given.astype(np.float64)
    if not jnp.issubdtype(given.dtype, jnp.floating):
        return wide
    # What float32 can hold may have been rounded to it, though it comes in float64: `in_float64`
    # widens arguments.
    precision = np.float32 if given.dtype == np.float64 else given.dtype
    rounded = (wide.astype(precision) == wide).all(axis=-1, keepdims=True)
    total = wide.sum(axis=-1, keepdims=True)
    near = np.abs(total - 1) <= float(jnp.finfo(precision).eps) ** 0.5
    return np.where(rounded & near, wide / np.where(near, total, 1), wide)


class Table(NamedTuple):
    """The arrays of an MDP, checked and padded as `MDP` documents them."""

    successors: Int[np.ndarray, "S A B"]
    probs: Float[np.ndarray, "S A B"]
    rewards: Particles  # [S, A, B, R]
    terminal: Bool[np.ndarray, " S"]
    continuous: ContinuousRewards | None  # [S, A, B]
    discretisation_error: Float[np.ndarray, "S A"]


def tabulate(
    given_successors: npt.ArrayLike,
    given_probs: npt.ArrayLike,
    rewards: npt.ArrayLike | Particles,
    continuous: ContinuousRewards | None,
    given_terminal: npt.ArrayLike | None,
    reward_atoms: int,
) -> Table:
    """Check sparse arrays, discretise continuous rewards, write padding and terminal rows."""
    successors, probs = np.asarray(given_successors), as_probabilities(given_probs)
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
    if given_terminal is None:  # absorbing states that pay nothing: their return is 0 in any case
        terminal = real.any(-1).all(-1) & ~busy.any((1, 2))
    else:
        terminal = _as_mask("terminal", given_terminal, len(states))
    wrong = terminal[:, None, None] & busy
    if wrong.any():
        x, a, _ = map(int, np.argwhere(wrong)[0])
        right = (
            f"action {a} of state {x} pays or leads elsewhere, but the return from a terminal state"
            " is 0: pay on the way into it, or let it lead to an end state"
        )
        raise fail(f"terminal[{x}]", True, right)
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


def _atoms_and_weights(
    rewards: npt.ArrayLike | Particles, shape: tuple[int, ...]
) -> tuple[Float[np.ndarray, "... R"], Float[np.ndarray, "... R"]]:
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
    atoms: Float[np.ndarray, "S A B R"],
    weights: Float[np.ndarray, "S A B R"],
    continuous: ContinuousRewards,
    n: int,
) -> tuple[Float[np.ndarray, "S A B size"], Float[np.ndarray, "S A B size"]]:
    """Write `n` equally likely atoms where a reward is continuous, and make room for them."""
    size = max(n, atoms.shape[-1])

    def padded(array: Float[np.ndarray, "S A B m"]) -> Float[np.ndarray, "S A B size"]:
        return np.pad(array, [(0, 0)] * 3 + [(0, size - array.shape[-1])])

    is_continuous = np.asarray(continuous.kind != PARTICLES)[..., None]
    equal = np.where(np.arange(size) < n, 1 / n, 0.0)
    atoms = np.where(is_continuous, padded(continuous.atoms(n)), padded(atoms))
    return atoms, np.where(is_continuous, equal, padded(weights))


def _checked_continuous(
    continuous: ContinuousRewards, real: Bool[np.ndarray, "S A B"]
) -> ContinuousRewards | None:
    """The distributions of real transitions as NumPy arrays, or None if none is continuous."""
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


def _refuse(
    wrong: Bool[np.ndarray, "S A B"], name: str, array: Shaped[np.ndarray, "S A B ..."], right: str
) -> None:
    """Raise an error about the first transition (x, a, b) that is `wrong`."""
    if wrong.any():
        at = tuple(map(int, np.argwhere(wrong)[0]))
        raise fail(
            f"{name}{list(at)}",
            array[at].tolist(),
            f"state {at[0]}, action {at[1]}: {right}",
        )


def _as_mask(name: str, states: npt.ArrayLike, num_states: int) -> Bool[np.ndarray, " S"]:
    """A mask of states, from itself or from a list of states."""
    given = np.asarray(states)
    array = given if given.size else np.zeros(0, int)
    if array.dtype == bool and array.shape == (num_states,):
        return array
    if array.dtype == bool or not np.issubdtype(array.dtype, np.integer) or array.ndim != 1:
        raise fail(name, states, f"it must be a mask of shape ({num_states},) or a list of states")
    if array.size and not (array.min() >= 0 and array.max() < num_states):
        raise fail(name, states, f"states are numbers from 0 to {num_states - 1}")
    return np.isin(np.arange(num_states), array)


def nonzero_first(weights: Float[np.ndarray, "*batch n"]) -> Int[np.ndarray, "*batch width"]:
    """Indices along the last axis: first those of weights that are not 0, in their order.

    Others follow, up to the width of the row with the most such weights.
    """
    nonzero = weights != 0
    width = max(1, int(nonzero.sum(-1).max(initial=0)))
    return np.argsort(~nonzero, axis=-1, kind="stable")[..., :width]


def dense_to_arrays(
    transitions: npt.ArrayLike, rewards: npt.ArrayLike | Particles
) -> tuple[
    Int[np.ndarray, "S A B"],
    Float[np.ndarray, "S A B"],
    Float[np.ndarray, "S A B"] | Particles,
]:
    """Successors, probs and rewards from `transitions [S, A, S]`; see `MDP.from_dense`."""
    dense = as_probabilities(transitions)
    if dense.ndim != 3 or dense.shape[0] != dense.shape[2] or 0 in dense.shape:
        raise fail("transitions.shape", dense.shape, "it must be [states, actions, states]")
    successors = nonzero_first(dense)
    probs = np.take_along_axis(dense, successors, -1)

    def at_successors(field: Float[np.ndarray, "S A *rest"]) -> Float[np.ndarray, "S A B R"]:
        """The entries of the successors; a field [S, A, R] is the same for all of them."""
        if field.ndim == 3:
            return np.broadcast_to(field[:, :, None], (*probs.shape, field.shape[-1]))
        return np.take_along_axis(field, successors[..., None], 2)

    if isinstance(rewards, Particles):
        _check_dense(rewards.shape, dense.shape, " before the atoms")
        atoms, weights = np.asarray(rewards.atoms), np.asarray(rewards.probs)
        return successors, probs, Particles(at_successors(atoms), at_successors(weights))
    numbers = np.asarray(rewards, np.float64)
    _check_dense(numbers.shape, dense.shape, "")
    return successors, probs, at_successors(numbers[..., None])[..., 0]


def _check_dense(rewards: tuple[int, ...], dense: tuple[int, ...], note: str) -> None:
    if rewards not in (dense[:2], dense):
        raise fail("rewards.shape", rewards, f"it must be {dense[:2]} or {dense}{note}")


_Checked: TypeAlias = tuple[Number, int, float | Particles | ContinuousReward]
_Rows: TypeAlias = dict[tuple[int, int], list[_Checked]]  # of each state and action


def lists_to_arrays(
    transitions: Lists,
) -> tuple[Int[np.ndarray, "S A B"], Float[np.ndarray, "S A B"], Particles, ContinuousRewards]:
    """Successors, probs, rewards and continuous rewards from lists; see `MDP.from_lists`."""
    rows = _rows(transitions)
    num_states = _count_states(transitions, rows)
    if num_states == 0:
        raise fail("transitions", transitions, "at least one state is needed")
    num_actions = 1 + max((a for _, a in rows), default=0)
    busy = {x for (x, _), row in rows.items() if row}
    for x in sorted(set(range(num_states)) - busy):  # terminal states stay where they are
        rows |= {(x, a): [(1.0, x, 0.0)] for a in range(num_actions)}

    shape = (num_states, num_actions, max(map(len, rows.values())))
    successors, probs = np.zeros(shape, np.int64), np.zeros(shape)
    atoms = np.zeros((*shape, _most_atoms(rows)))
    weights = np.broadcast_to(np.arange(atoms.shape[-1]) == 0, atoms.shape).astype(np.float64)
    kind, loc, scale = np.zeros(shape, np.int8), np.zeros(shape), np.zeros(shape)
    for (x, a), row in rows.items():
        for b, (probability, successor, reward) in enumerate(row):
            at = x, a, b
            successors[at], probs[at] = successor, probability
            if isinstance(reward, ContinuousReward):
                kind[at], (loc[at], scale[at]) = reward.kind, reward.affine
            elif isinstance(reward, Particles):
                atoms[at][: reward.size], weights[at] = reward.atoms, 0.0
                weights[at][: reward.size] = as_probabilities(reward.probs)
            else:
                atoms[at][0] = reward
    return successors, probs, Particles(atoms, weights), ContinuousRewards(kind, loc, scale)


def _rows(transitions: Lists) -> _Rows:
    """The transitions of each state and action that is listed."""
    rows = {}
    for x, actions in _items(transitions):
        for a, listed in _items(actions):
            rows[x, a] = _merged(x, a, listed)
    return rows


def _count_states(transitions: Lists, rows: _Rows) -> int:
    """The length of a list; for a dictionary, 1 more than the largest state that it names."""
    if not isinstance(transitions, Mapping):
        return len(transitions)
    named = [int(x) for x in transitions]
    for row in rows.values():
        named += [successor for _, successor, _ in row]
    return 1 + max(named, default=-1)


def _most_atoms(rows: _Rows) -> int:
    """The number of atoms of the reward that has the most."""
    most = 1
    for row in rows.values():
        sizes = [reward.size for *_, reward in row if isinstance(reward, Particles)]
        most = max([most, *sizes])
    return most


def _items(indexed: Mapping[int, T] | Sequence[T]) -> Iterable[tuple[int, T]]:
    """The pairs (index, value) of a dictionary with whole numbers as keys, or of a list."""
    if not isinstance(indexed, Mapping):
        return enumerate(indexed)
    return [(check_count("state or action", index, 0), value) for index, value in indexed.items()]


def _merged(x: int, a: int, listed: Transitions) -> list[_Checked]:
    """The transitions of (x, a); equal ones are added up, impossible ones left out."""
    merged: dict[tuple[int, int | float | ContinuousReward], _Checked] = {}
    for entry in listed:
        probability, successor, reward = _checked_entry(x, a, entry)
        if probability > 0:
            key = successor, id(reward) if isinstance(reward, Particles) else reward
            before = merged[key][0] if key in merged else 0.0
            merged[key] = float(before + probability), successor, reward
    return list(merged.values())


def _checked_entry(x: int, a: int, entry: object) -> _Checked:
    """The entry of state x and action a, if it is right; an impossible one may lead anywhere."""

    def refuse(got: object, right: str) -> ValueError:
        return fail(f"transitions[{x}][{a}]", got, f"state {x}, action {a}: {right}")

    if not isinstance(entry, Sequence) or len(entry) != 3:
        raise refuse(entry, "each entry must be (probability, next state, reward)")
    probability, successor, reward = entry
    if not probability >= 0:
        raise refuse(entry, "a probability is a number of at least 0")
    if isinstance(reward, Particles) and reward.shape:
        raise refuse(reward.shape, "a reward is one distribution, not a batch")
    if not isinstance(reward, Particles | ContinuousReward):
        if np.ndim(reward) or not np.isfinite(reward):
            raise refuse(entry, "a reward must be a finite number, or a distribution")
        reward = float(reward)
    if probability == 0:
        return 0.0, x, reward
    if not float(successor).is_integer():
        raise refuse(entry, "a next state is a whole number")
    return probability, int(successor), reward


def gymnasium_lists(
    env_or_id: str | ToyText,
) -> tuple[list[Sequence[Transitions]], Float[np.ndarray, " S"] | None]:
    """The lists and the start distribution of a Gymnasium toy-text environment.

    Gymnasium marks transitions as terminated, not states. One end state is added, and whatever ends
    the episode leads to it.
    """
    if isinstance(env_or_id, str):
        import gymnasium  # slow to import, and few need it

        env = gymnasium.make(env_or_id)
        try:
            return gymnasium_lists(env)
        finally:
            env.close()
    inner = env_or_id.unwrapped
    table = getattr(inner, "P", None)
    if table is None:
        right = "the environment needs a table P, as FrozenLake-v1 and Taxi-v4 have"
        raise fail("env_or_id", env_or_id, right)
    end = len(table)

    def listed(state: int, action: int) -> list[Transition]:
        entries = table[state][action]
        return [(p, end if ended else int(x), float(r)) for p, x, r, ended in entries]

    lists: list[Sequence[Transitions]] = []
    for state in range(end):
        lists.append([listed(state, action) for action in range(len(table[state]))])
    lists.append([])
    start = getattr(inner, "initial_state_distrib", None)
    return lists, None if start is None else np.append(np.asarray(start, np.float64), 0.0)
