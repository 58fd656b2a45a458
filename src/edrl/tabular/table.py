"""The sparse arrays of an `MDP`, checked and padded, from sparse or dense arrays."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Shaped

from edrl.core.check import check_count, fail
from edrl.core.particles import Particles
from edrl.core.types import Bool, Float, Int
from edrl.tabular.rewards import KINDS, PARTICLES, ContinuousRewards

SUM_TOLERANCE = 1e-8


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
    successors, probs = _checked_transitions(given_successors, given_probs)
    atoms, weights = _atoms_and_weights(rewards, successors.shape)
    real = probs > 0
    _refuse(real & ~np.isfinite(atoms).all(-1), "rewards", atoms, "a reward must be finite")
    continuous = None if continuous is None else _checked_continuous(continuous, real)

    states = np.arange(len(successors))
    pays = real & ((atoms != 0) & (weights > 0)).any(-1)
    if continuous is not None:
        pays |= continuous.kind != PARTICLES
    busy = pays | (real & (successors != states[:, None, None]))
    terminal = _terminal_states(given_terminal, real, busy)
    successors = np.where(real, successors, states[:, None, None]).astype(np.int32)
    probs = np.where(terminal[:, None, None], np.arange(probs.shape[-1]) == 0, probs)
    _check_sums(probs)

    discretisation_error = np.zeros(probs.shape[:2])
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


def _checked_transitions(
    given_successors: npt.ArrayLike, given_probs: npt.ArrayLike
) -> tuple[Int[np.ndarray, "S A B"], Float[np.ndarray, "S A B"]]:
    """Next states and their probabilities, which may not sum to 1 yet."""
    successors, probs = np.asarray(given_successors), as_probabilities(given_probs)
    whole = np.issubdtype(successors.dtype, np.integer)
    if not whole or successors.ndim != 3 or successors.size == 0:
        got = (successors.dtype.name, successors.shape)
        right = "it must be an array of integers [states, actions, successors]"
        raise fail("successors", got, right)
    if probs.shape != successors.shape:
        raise fail("probs.shape", probs.shape, f"it must be that of successors, {successors.shape}")
    wrong = ~(np.isfinite(probs) & (probs >= 0))
    _refuse(wrong, "probs", probs, "a probability is a number of at least 0")
    outside = (probs > 0) & ((successors < 0) | (successors >= len(successors)))
    right = f"a next state is a number from 0 to {len(successors) - 1}"
    _refuse(outside, "successors", successors, right)
    return successors, probs


def _terminal_states(
    given: npt.ArrayLike | None,
    real: Bool[np.ndarray, "S A B"],
    busy: Bool[np.ndarray, "S A B"],
) -> Bool[np.ndarray, " S"]:
    """The terminal states: those given, or those that all actions keep without reward.

    The return of the latter is 0 in any case. `busy` transitions pay or lead elsewhere.
    """
    if given is None:
        return np.asarray(real.any(-1).all(-1) & ~busy.any((1, 2)))
    terminal = _as_mask("terminal", given, len(real))
    wrong = terminal[:, None, None] & busy
    if wrong.any():
        x, a, _ = map(int, np.argwhere(wrong)[0])
        right = (
            f"action {a} of state {x} pays or leads elsewhere, but the return from a terminal state"
            " is 0: pay on the way into it, or let it lead to an end state"
        )
        raise fail(f"terminal[{x}]", True, right)
    return terminal


def _check_sums(probs: Float[np.ndarray, "S A B"]) -> None:
    total = probs.sum(-1)
    wrong = np.abs(total - 1) > SUM_TOLERANCE
    if wrong.any():
        x, a = map(int, np.argwhere(wrong)[0])
        right = (
            f"the probabilities of state {x}, action {a} must sum to 1 to within {SUM_TOLERANCE:g}"
        )
        raise fail(f"sum of probs[{x}, {a}]", float(total[x, a]), right)


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
    array = np.asarray(states)
    if array.dtype == bool and array.shape == (num_states,):
        return array
    listed = array if array.size else np.zeros(0, int)
    if not np.issubdtype(listed.dtype, np.integer) or listed.ndim != 1:
        raise fail(name, states, f"it must be a mask of shape ({num_states},) or a list of states")
    everything = np.arange(num_states)
    if not np.isin(listed, everything).all():
        raise fail(name, states, f"states are numbers from 0 to {num_states - 1}")
    return np.isin(everything, listed)


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
