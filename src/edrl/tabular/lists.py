"""From lists of transitions, and from Gymnasium's tables, to the sparse arrays of an `MDP`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from edrl.core.check import check_count, fail
from edrl.core.particles import Particles
from edrl.core.types import Array, Float, Int, Real
from edrl.tabular.rewards import ContinuousReward, ContinuousRewards
from edrl.tabular.table import as_probabilities

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

_CheckedReward: TypeAlias = float | Particles | ContinuousReward
_Checked: TypeAlias = tuple[float, int, _CheckedReward]
_Rows: TypeAlias = dict[tuple[int, int], list[_Checked]]  # of each state and action


class Listed(NamedTuple):
    """The arrays that lists of transitions stand for."""

    successors: Int[np.ndarray, "S A B"]
    probs: Float[np.ndarray, "S A B"]
    rewards: Particles  # [S, A, B, R]
    continuous: ContinuousRewards  # [S, A, B]


def lists_to_arrays(transitions: Lists) -> Listed:
    """Successors, probs, rewards and continuous rewards from lists; see `MDP.from_lists`."""
    rows = _rows(transitions)
    num_states, num_actions = _count_states(transitions, rows), _count_actions(rows)
    _check_successors(rows, num_states)
    for x in sorted(
        set(range(num_states)) - _busy_states(rows)
    ):  # terminal states stay where they are
        rows |= {(x, a): [(1.0, x, 0.0)] for a in range(num_actions)}
    return _filled(rows, (num_states, num_actions, max(map(len, rows.values()))))


def _filled(rows: _Rows, shape: tuple[int, int, int]) -> Listed:
    """The arrays of checked rows, with padding where a row is short."""
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
    return Listed(successors, probs, Particles(atoms, weights), ContinuousRewards(kind, loc, scale))


def _rows(transitions: Lists) -> _Rows:
    """The transitions of each state and action that is listed."""
    rows = {}
    for x, actions in _items(transitions):
        for a, listed in _items(actions):
            rows[x, a] = _merged(x, a, listed)
    return rows


def _count_states(transitions: Lists, rows: _Rows) -> int:
    """The length of a list; for a dictionary, 1 more than the largest state that it names."""
    named = _named_states(transitions, rows)
    if not named:
        raise fail("transitions", transitions, "at least one state is needed")
    largest = max(named)
    if len(named) <= largest:  # before anything is made for so many states
        missing = _first_missing(named)
        right = (
            f"states are numbered from 0 without gaps, but state {missing} is neither listed nor"
            f" led to{_where_from(rows, largest)}; give it an empty dictionary if it is meant"
        )
        raise fail("largest state in transitions", largest, right)
    return 1 + largest


def _named_states(transitions: Lists, rows: _Rows) -> set[int]:
    """The states of a list; for a dictionary, those that it lists or leads to."""
    if not isinstance(transitions, Mapping):
        return set(range(len(transitions)))
    named = {int(x) for x in transitions}
    for row in rows.values():
        named |= {successor for _, successor, _ in row if successor >= 0}
    return named


def _where_from(rows: _Rows, state: int) -> str:
    """A note on which state and action lead there, if any do."""
    for (x, a), row in rows.items():
        if any(successor == state for _, successor, _ in row):
            return f" (action {a} of state {x} leads to {state})"
    return ""


def _count_actions(rows: _Rows) -> int:
    """The number of actions: the same in all states that have transitions."""
    listed = _listed_actions(rows)
    most = max(map(len, listed.values()), default=1)
    for x, actions in sorted(listed.items()):
        missing = _first_missing(actions)
        if missing < most or missing <= max(actions):
            right = f"action {missing} is missing: a state has all of them, or none at an end"
            raise fail(f"actions of state {x}", sorted(actions), right)
    return most


def _listed_actions(rows: _Rows) -> dict[int, set[int]]:
    """The actions of each state that has transitions."""
    listed: dict[int, set[int]] = {x: set() for x in _busy_states(rows)}
    for x, a in rows:
        if x in listed:
            listed[x].add(a)
    return listed


def _busy_states(rows: _Rows) -> set[int]:
    """The states that have transitions; the others are terminal."""
    return {x for (x, _), row in rows.items() if row}


def _first_missing(numbers: set[int]) -> int:
    """The least whole number from 0 on that is not among the numbers."""
    return next(i for i in range(len(numbers) + 1) if i not in numbers)


def _check_successors(rows: _Rows, num_states: int) -> None:
    for (x, a), row in rows.items():
        for _, successor, _ in row:
            if not 0 <= successor < num_states:
                right = f"a next state is a number from 0 to {num_states - 1}"
                raise fail("next state", successor, f"state {x}, action {a}: {right}")


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
    probability = _as_number(entry[0])
    if probability is None or not probability >= 0:
        raise refuse(entry, "a probability is a number of at least 0")
    reward = _checked_reward(entry[2], refuse)
    if probability == 0:
        return 0.0, x, reward
    if not _is_whole(entry[1]):
        raise refuse(entry, "a next state is a whole number")
    return probability, int(entry[1]), reward


def _checked_reward(reward: object, refuse: Callable[[object, str], ValueError]) -> _CheckedReward:
    if isinstance(reward, ContinuousReward):
        return reward
    if isinstance(reward, Particles):
        if reward.shape:
            raise refuse(reward.shape, "a reward is one distribution, not a batch")
        return reward
    number = _as_number(reward)
    if number is None or not np.isfinite(number):
        raise refuse(reward, "a reward must be a finite number, or a distribution")
    return number


def _as_number(given: object) -> float | None:
    """A number, in whatever type it comes; None for text, arrays and the rest."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        return float(given)
    array = np.asarray(given)
    return float(array) if array.ndim == 0 and np.issubdtype(array.dtype, np.number) else None


def _is_whole(given: object) -> bool:
    number = _as_number(given)
    return number is not None and number.is_integer()


@runtime_checkable
class ToyText(Protocol):
    """The environments of Gymnasium that have a table of transitions."""

    @property
    def unwrapped(self) -> object:
        """The environment that has the attribute `P`."""


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
