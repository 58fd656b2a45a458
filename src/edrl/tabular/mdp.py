"""`MDP`: a finite Markov decision process with random rewards, stored sparsely (Section 2)."""

from collections.abc import Callable, Sequence
from typing import TypedDict, Unpack

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import ArrayLike

from edrl.core.check import check_count, check_number, fail
from edrl.core.particles import Particles
from edrl.core.precision import is_concrete
from edrl.core.types import Array, Bool, Float, Int, Key
from edrl.core.words import count
from edrl.tabular.lists import Lists, ToyText, Transitions, gymnasium_lists, lists_to_arrays
from edrl.tabular.reach import reached
from edrl.tabular.rewards import PARTICLES, ContinuousRewards
from edrl.tabular.table import SUM_TOLERANCE, Table, as_probabilities, dense_to_arrays, tabulate

_ALIGNMENT = 64  # bytes
_LARGEST_RETURN = 1e300  # with room for sums of some returns: float64 ends at 1.8e308


class Options(TypedDict, total=False):
    """What every constructor of `MDP` takes by name; `MDP.from_arrays` explains each."""

    terminal: npt.ArrayLike | None
    start: int | npt.ArrayLike | None
    reward_atoms: int
    state_names: Sequence[str] | None
    action_names: Sequence[str] | None


class MDP(eqx.Module):
    """A finite MDP with S states, A actions, and at most B successors of each pair of them.

    Build one with `from_dense`, `from_arrays`, `from_lists`, `from_function` or `from_gymnasium`:
    these check what they are given. Branch b of state x and action a leads to the state
    `successors[x, a, b]` with probability `probs[x, a, b]` and pays a reward with the distribution
    `rewards[x, a, b]`. Padding has probability 0 and points at the state itself. The return from a
    terminal state is 0: its rows are a self loop without reward.

    Continuous rewards are held twice: discretised in `rewards`, for dynamic programming, and
    exactly in `continuous`, for sampling. `discretisation_error` is the price of the former in the
    integrated CDF P(x) = E[(x - R)+].

    The arrays are NumPy's. An MDP may be an argument of a compiled function, where they are traced.
    """

    successors: Int[np.ndarray, "S A B"]
    probs: Float[np.ndarray, "S A B"]
    rewards: Particles  # [S, A, B, R]
    terminal: Bool[np.ndarray, " S"]
    start: Float[np.ndarray, " S"]  # the distribution of the first state
    gamma: float
    # The largest |P - P_discretised| of the rewards, averaged over successors:
    discretisation_error: Float[np.ndarray, "S A"]
    continuous: ContinuousRewards | None = None  # [S, A, B]
    state_names: tuple[str, ...] | None = eqx.field(static=True, default=None)
    action_names: tuple[str, ...] | None = eqx.field(static=True, default=None)

    @classmethod
    def from_arrays(
        cls,
        successors: npt.ArrayLike,
        probs: npt.ArrayLike,
        rewards: npt.ArrayLike | Particles,
        gamma: float,
        *,
        terminal: npt.ArrayLike | None = None,
        start: int | npt.ArrayLike | None = None,
        continuous: ContinuousRewards | None = None,
        reward_atoms: int = 64,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
    ) -> "MDP":
        """From `successors`, `probs` and `rewards` [S, A, B].

        Args:
            successors: The next states, whole numbers.
            probs: Their probabilities.
            rewards: Numbers, or `Particles` [S, A, B, R].
            gamma: In [0, 1], and 1 only if a terminal state can be reached from every state. Then
                only policies that do so with probability one have returns.
            terminal: A mask [S] or a list of states, whose rows may be all zeros. By default, the
                states that all actions keep without reward.
            start: A distribution [S] or a state, by default the first that is not terminal.
            continuous: These replace the rewards where their kind is not 0.
            reward_atoms: How many atoms a continuous reward is discretised into.
            state_names: Names for plots and tables.
            action_names: Names for plots and tables.
        """
        table = tabulate(successors, probs, rewards, continuous, terminal, reward_atoms)
        num_states, num_actions = table.discretisation_error.shape
        gamma = check_number("gamma", gamma, 0.0, 1.0)
        if gamma == 1:
            _check_an_end_is_possible(table)
        _check_returns_fit(table.rewards, gamma)
        return cls(
            successors=_aligned(table.successors),
            probs=_aligned(table.probs),
            rewards=jax.tree.map(_aligned, table.rewards),
            terminal=table.terminal,
            start=_as_start(start, table.terminal),
            gamma=gamma,
            discretisation_error=table.discretisation_error,
            continuous=table.continuous,
            state_names=_names("state_names", state_names, num_states),
            action_names=_names("action_names", action_names, num_actions),
        )

    @classmethod
    def from_dense(
        cls,
        transitions: npt.ArrayLike,
        rewards: npt.ArrayLike | Particles,
        gamma: float,
        **options: Unpack[Options],
    ) -> "MDP":
        """From `transitions [S, A, S]` and `rewards` of the shape [S, A] or [S, A, S].

        Rewards are arrays or `Particles`. The options are those of `from_arrays`.
        """
        return cls.from_arrays(*dense_to_arrays(transitions, rewards), gamma, **options)

    @classmethod
    def from_lists(cls, transitions: Lists, gamma: float, **options: Unpack[Options]) -> "MDP":
        """From `transitions[x][a]`, each a list of (probability, next state, reward).

        These are in lists or in dictionaries. A reward is a number, `Particles`, or a continuous
        distribution. A state without transitions is terminal; in a dictionary it need not be there
        if a transition leads to it. States are numbered from 0 without gaps.
        The options are those of `from_arrays`.
        """
        successors, probs, rewards, continuous = lists_to_arrays(transitions)
        return cls.from_arrays(successors, probs, rewards, gamma, continuous=continuous, **options)

    @classmethod
    def from_function(
        cls,
        step: Callable[[int, int], Transitions],
        num_states: int,
        num_actions: int,
        gamma: float,
        **options: Unpack[Options],
    ) -> "MDP":
        """From `step(x, a)`, which lists (probability, next state, reward) as in `from_lists`."""
        states = range(check_count("num_states", num_states, 1))
        actions = range(check_count("num_actions", num_actions, 1))
        lists: list[list[Transitions]] = []
        for x in states:
            lists.append([step(x, a) for a in actions])
        return cls.from_lists(lists, gamma, **options)

    @classmethod
    def from_gymnasium(
        cls, env_or_id: str | ToyText, gamma: float, **options: Unpack[Options]
    ) -> "MDP":
        """From the table `P` of a Gymnasium environment: FrozenLake, CliffWalking, Taxi.

        The environment may be given by its name. States keep their numbers. One end state is added,
        to which all transitions lead that end the episode. It is the last one: a policy for the
        environment's own states is taken as it is, and results have a row more.
        """
        lists, start = gymnasium_lists(env_or_id)
        options.setdefault("start", start)
        return cls.from_lists(lists, gamma, **options)

    @property
    def num_states(self) -> int:
        """S, terminal states included."""
        return int(self.probs.shape[0])

    @property
    def num_actions(self) -> int:
        """A."""
        return int(self.probs.shape[1])

    @property
    def num_transitions(self) -> int:
        """The number of branches with positive probability."""
        return int(np.count_nonzero(self.probs))

    def __repr__(self) -> str:
        """Short, and with numbers in it where there are any."""
        if not is_concrete(*jax.tree.leaves(self)) or not isinstance(self.probs, np.ndarray):
            return f"MDP(gamma={self.gamma}, successors={self.successors}, probs={self.probs})"
        rewards = np.asarray(self.rewards.atoms)[np.asarray(self.rewards.probs) > 0]
        return (
            f"MDP({count(self.num_states, 'state')} ({int(self.terminal.sum())} terminal), "
            f"{count(self.num_actions, 'action')}, {count(self.num_transitions, 'transition')}, "
            f"rewards from {rewards.min():.4g} to {rewards.max():.4g}, gamma={self.gamma})"
        )

    def sample_branch(
        self, key: Key, state: Int[ArrayLike, "*batch"], action: Int[ArrayLike, "*batch"]
    ) -> Int[jax.Array, "*batch"]:
        """A random branch b in [0, B): the next state is `successors[state, action, b]`."""
        levels = jnp.cumsum(jnp.asarray(self.probs)[state, action], axis=-1)
        draw = jax.random.uniform(key, levels.shape[:-1], levels.dtype)
        # Strictly below the total: neither padding nor a total rounded below 1 is ever reached.
        return jnp.sum(levels <= (draw * levels[..., -1])[..., None], axis=-1)

    def sample_reward(
        self,
        key: Key,
        state: Int[ArrayLike, "*batch"],
        action: Int[ArrayLike, "*batch"],
        branch: Int[ArrayLike, "*batch"],
    ) -> Float[jax.Array, "*batch"]:
        """A draw from the reward's own distribution.

        It is continuous where `continuous` says so, and else one of the particles.
        """
        key_atom, key_continuous = jax.random.split(key)

        def here(table: Array) -> jax.Array:
            return jnp.asarray(table)[state, action, branch]

        reward = Particles(here(self.rewards.atoms), here(self.rewards.probs)).sample(key_atom)
        if self.continuous is None:
            return jnp.asarray(reward)
        continuous = jax.tree.map(here, self.continuous)
        return jnp.where(continuous.kind == PARTICLES, reward, continuous.sample(key_continuous))


def sizes_of(mdp: MDP) -> str:
    """How large a problem is, in words: 5 states, 1 action."""
    return f"{count(mdp.num_states, 'state')}, {count(mdp.num_actions, 'action')}"


def _aligned(array: np.ndarray) -> np.ndarray:
    """The array where JAX reads it on the host as it is: from a multiple of 64 bytes on.

    It would otherwise copy a large MDP each time it is passed to a compiled function.
    """
    if array.ctypes.data % _ALIGNMENT == 0:
        return array
    room = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    there = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    there[...] = array
    there.flags.writeable = array.flags.writeable
    return there


def _as_start(
    start: int | npt.ArrayLike | None, terminal: Bool[np.ndarray, " S"]
) -> Float[np.ndarray, " S"]:
    """The start distribution, from itself, from one state, or from None.

    None stands for the first state that is not terminal.
    """
    num_states = len(terminal)
    if start is None:
        start = int(np.argmin(terminal))
    if not isinstance(start, int | np.integer):
        return _start_probabilities(start, num_states)
    state = check_count("start", int(start), 0)
    if state >= num_states:
        raise fail("start", start, f"it must be a state, a number from 0 to {num_states - 1}")
    return np.asarray(np.arange(num_states) == state, np.float64)


def _start_probabilities(start: npt.ArrayLike, num_states: int) -> Float[np.ndarray, " S"]:
    array = as_probabilities(start)
    if array.shape != (num_states,):
        raise fail(
            "start.shape", array.shape, f"one probability a state is needed: ({num_states},)"
        )
    if not (array >= 0).all():
        x = int(np.argmin(array >= 0))
        right = f"the probability to start in state {x} must be at least 0"
        raise fail(f"start[{x}]", float(array[x]), right)
    if not abs(array.sum() - 1) <= SUM_TOLERANCE:
        raise fail("sum of start", float(array.sum()), "the start probabilities must sum to 1")
    return array


def _check_an_end_is_possible(table: Table) -> None:
    """Refuse an undiscounted MDP in which no policy reaches a terminal state from some state."""
    x, a, b = np.nonzero(table.probs)
    never = ~reached(table.terminal, table.successors[x, a, b], x)
    if never.any():
        state = int(np.argmax(never))
        right = f"no policy reaches a terminal state from state {state}: use gamma < 1"
        raise fail("gamma", 1.0, right)


def _check_returns_fit(rewards: Particles, gamma: float) -> None:
    """Refuse rewards whose returns, or differences of them, float64 cannot hold."""
    atoms = np.asarray(rewards.atoms)
    # Without discounting, as if each state paid once.
    steps = 1 / (1 - gamma) if gamma < 1 else len(atoms)
    most = _LARGEST_RETURN / steps
    largest = tuple(map(int, np.unravel_index(np.abs(atoms).argmax(), atoms.shape)))
    if abs(atoms[largest]) > most:
        x, a, b, _ = largest
        right = (
            f"state {x}, action {a}: float64 cannot hold the returns: with gamma {gamma:g} rewards"
            f" must be at most {most:.2g} in size"
        )
        raise fail(f"rewards[{x}, {a}, {b}]", float(atoms[largest]), right)


def _names(argument: str, names: Sequence[str] | None, count: int) -> tuple[str, ...] | None:
    if names is not None and len(names) != count:
        raise fail(argument, names, f"{count} names are needed")
    return None if names is None else tuple(names)
