"""Iterating the Bellman operator on two bounds of the return distributions in the convex order."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.metrics import integrated_cdf_distance
from edrl.core.particles import Particles
from edrl.core.types import Float, Int
from edrl.tabular.mdp import MDP
from edrl.tabular.progress import track
from edrl.tabular.return_range import PairRange, StateRange

_SWEEPS_AT_ONCE = 32  # between two choices of nodes
_ATOMS_AT_ONCE = 2**20  # bounds the memory of a sweep


class Outcomes(NamedTuple):
    """The Bellman operator as a list.

    With probability `probs`, `source` gets a reward and the return of `target`.
    """

    source: Int[np.ndarray, "*parts N"]  # a state, or a pair x * A + a
    target: Int[np.ndarray, "*parts N"]  # a state
    rewards: Float[np.ndarray, "*parts N"]
    probs: Float[np.ndarray, "*parts N"]


def bound_pairs(
    parts: Outcomes, gamma: float, ends: PairRange, bounds: Particles, atoms: int
) -> Particles:
    """The lower and upper bound of the pairs' distributions, [2, S * A, n], from the states'."""
    low, high = (end.ravel() for end in ends)
    nodes = np.linspace(low, high, atoms, axis=-1)
    pairs: Particles = _backed_up(parts, gamma, nodes, bounds)
    for _ in range(2):  # until the nodes are where the mass is
        pairs = _backed_up(parts, gamma, _nodes(pairs, low, high), bounds)
    return pairs


def bound_states(
    parts: Outcomes,
    gamma: float,
    horizon: float,
    means: Float[np.ndarray, " S"],
    ends: StateRange,
    atoms: int,
    tolerance: float,
    max_iterations: int,
    progress: bool | None,
) -> tuple[Particles, int]:
    """The lower and upper bound of the states' distributions, [2, S, n], and how many sweeps."""
    nodes = np.linspace(*ends, atoms, axis=-1)
    bounds = _extremes(means, *ends, atoms)
    best, error, done, idle = bounds, np.inf, 0, 0
    with track("return distributions", max_iterations, progress) as advance:
        while done < max_iterations and error > tolerance and idle < 3:
            steps = min(_SWEEPS_AT_ONCE, max_iterations - done)
            bounds = _tighten(parts, gamma, nodes, bounds, steps)
            nodes = _nodes(bounds, *ends)
            new_error = float(np.max(integrated_cdf_distance(*bounds))) / 2
            done += steps
            # Within about a horizon the start of the iteration is forgotten. Idle is what after
            # that brings less than 2 %, or less than a quarter of what would be forgotten.
            enough = min(0.02, (1 - np.exp(-steps / horizon)) / 4)
            idle = idle + 1 if done > horizon and new_error > (1 - enough) * error else 0
            if new_error < error:
                best, error = bounds, new_error
            advance(steps, f"error {error:.1e}")
    return best, done


def outcomes_of(mdp: MDP) -> Outcomes:
    """What can follow each pair. A list, as few rewards are as random as the most random one."""
    probs = mdp.probs[..., None] * np.asarray(mdp.rewards.probs)
    x, a, b, r = np.nonzero(probs)
    rewards = np.asarray(mdp.rewards.atoms)[x, a, b, r]
    pairs = x * mdp.num_actions + a
    return Outcomes(pairs, mdp.successors[x, a, b], rewards, probs[x, a, b, r])


def of_states(outcomes: Outcomes, policy: Float[np.ndarray, "S A"]) -> Outcomes:
    """What can follow each state under a policy; outcomes of several actions are one."""
    weights = policy.ravel()[outcomes.source]
    taken = weights > 0
    keys = (outcomes.source // policy.shape[1], outcomes.target, outcomes.rewards)
    keys = tuple(key[taken] for key in keys)
    order = np.lexsort(keys[::-1])
    source, target, rewards = (key[order] for key in keys)
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(source) != 0) | (np.diff(target) != 0) | (np.diff(rewards) != 0)
    probs = np.add.reduceat((weights * outcomes.probs)[taken][order], np.flatnonzero(new))
    return Outcomes(source[new], target[new], rewards[new], probs)


def in_parts(outcomes: Outcomes, atoms: int) -> Outcomes:
    """Padded parts [parts, m] that fit into memory when each outcome has `atoms` atoms."""
    count = len(outcomes.probs)
    size = min(count, max(1, _ATOMS_AT_ONCE // atoms))
    padding = -count % size
    return Outcomes(*(np.pad(field, (0, padding)).reshape(-1, size) for field in outcomes))


@jax.jit
def _tighten(
    parts: Outcomes,
    gamma: Float[jax.Array, ""],
    nodes: Float[jax.Array, "S n"],
    bounds: Particles,
    steps: Int[jax.Array, ""],
) -> Particles:
    """Back the bounds of states up, `steps` times."""
    tightened: Particles = jax.lax.fori_loop(
        0, steps, lambda _, bounds: _backed_up(parts, gamma, nodes, bounds), bounds
    )
    return tightened


@jax.jit
def _backed_up(
    parts: Outcomes,
    gamma: Float[jax.Array, ""],
    nodes: Float[jax.Array, "sources n"],
    bounds: Particles,
) -> Particles:
    """From both bounds of states, [2, S, n], to those of the sources of `parts`, on `nodes`."""
    mass, moment = jax.vmap(lambda eta: _cells(parts, gamma, nodes, eta))(bounds)
    gathered = nodes + moment[0] / jnp.where(mass[0] > 0, mass[0], 1)  # the barycentre of each cell
    return Particles(
        jnp.stack([gathered, nodes]), jnp.stack([mass[0], _split(mass[1], moment[1], nodes)])
    )


def _cells(
    parts: Outcomes,
    gamma: Float[jax.Array, ""],
    nodes: Float[jax.Array, "sources n"],
    eta: Particles,
) -> tuple[Float[jax.Array, "sources n"], Float[jax.Array, "sources n"]]:
    """Back eta [S, n] up: the mass in each cell between two nodes, and its moment about the left.

    That is all that either projection needs. The last of the n cells is empty.
    """

    count, size = nodes.shape

    def add(
        sums: tuple[jax.Array, jax.Array], part: Outcomes
    ) -> tuple[tuple[jax.Array, jax.Array], None]:
        edges = nodes[part.source]
        atoms = part.rewards[:, None] + gamma * eta.atoms[part.target]
        cell = jax.vmap(lambda edges, x: jnp.searchsorted(edges, x, side="right"))(
            edges[:, 1:-1], atoms
        )
        mass = part.probs[:, None] * eta.probs[part.target]
        moment = mass * (atoms - jnp.take_along_axis(edges, cell, axis=-1))
        # One flat index: XLA adds to places of two axes twenty times as slowly.
        place = (part.source[:, None] * size + cell).ravel()
        masses, moments = sums
        return (masses.at[place].add(mass.ravel()), moments.at[place].add(moment.ravel())), None

    nothing = jnp.zeros(count * size)
    (masses, moments), _ = jax.lax.scan(add, (nothing, nothing), parts)
    return masses.reshape(count, size), moments.reshape(count, size)


def _split(
    mass: Float[jax.Array, "sources n"],
    moment: Float[jax.Array, "sources n"],
    nodes: Float[jax.Array, "sources n"],
) -> Float[jax.Array, "sources n"]:
    """Up the convex order: the mass of each cell is split between its nodes (Equation (12)).

    The mean is kept.
    """
    width = jnp.diff(nodes, axis=-1, append=nodes[..., -1:])
    to_right = jnp.where(width > 0, jnp.clip(moment / jnp.where(width > 0, width, 1), 0, mass), 0)
    return mass - to_right + jnp.roll(to_right, 1, axis=-1)


def _extremes(
    means: Float[np.ndarray, " S"],
    low: Float[np.ndarray, " S"],
    high: Float[np.ndarray, " S"],
    n: int,
) -> Particles:
    """The least and the greatest distribution of a mean and a range, [2, S, n].

    Below all others is the point mass, above them is the one with all mass at the ends.
    """
    share = np.clip((means - low) / np.where(high > low, high - low, 1), 0, 1)
    atoms = np.stack(
        [np.broadcast_to(means[:, None], (len(means), n)), np.linspace(low, high, n, axis=-1)]
    )
    probs = np.zeros_like(atoms)
    probs[0, :, 0], probs[1, :, 0], probs[1, :, -1] = 1, 1 - share, share
    return Particles(atoms, probs)


def _nodes(
    bounds: Particles, low: Float[np.ndarray, " S"], high: Float[np.ndarray, " S"]
) -> Float[np.ndarray, "S n"]:
    """Nodes over [low, high] that suit both bounds [2, S, n].

    Mass m in a cell of width w opens a gap of at most m w / 4 between the two projections'
    integrated CDFs. All cells have the same m w if the density of nodes is the root of that of the
    mass: most nodes are spread so. Some lie on the heaviest atoms, which then stay where they are,
    and some evenly, where there may be mass later.
    """
    atoms = np.concatenate(np.asarray(bounds.atoms), axis=-1)
    probs = np.concatenate(np.asarray(bounds.probs / 2), axis=-1)
    order = np.argsort(atoms, axis=-1)
    atoms = np.take_along_axis(atoms, order, axis=-1)
    probs = np.take_along_axis(probs, order, axis=-1)
    ends = low[:, None], high[:, None]
    nothing = np.zeros_like(ends[0])

    def share(weights: Float[np.ndarray, "S m"]) -> Float[np.ndarray, "S m"]:
        total = weights.sum(axis=-1, keepdims=True)
        return np.asarray(weights / np.where(total > 0, total, 1))

    gaps = np.maximum(np.diff(np.hstack([ends[0], atoms, ends[1]])), 0)
    neighbours = np.hstack([nothing, probs]), np.hstack([probs, nothing])
    beside = (neighbours[0] + neighbours[1]) / 2
    over_gaps = 0.8 * share(np.sqrt(beside * gaps)) + 0.1 * share(gaps)
    at_atoms = 0.1 * share(np.minimum(probs, 2 / bounds.size))
    # One after the other: a gap, an atom, a gap, ..., a gap.
    steps = np.stack([over_gaps, np.hstack([at_atoms, nothing])], axis=-1)
    steps = steps.reshape(len(low), -1)[:, :-1]
    measure = np.hstack([nothing, np.cumsum(steps, axis=-1)])
    x = np.hstack([ends[0], np.repeat(atoms, 2, axis=-1), ends[1]])
    # All rows at once: row i runs from 2i to 2i + 1.
    row = 2.0 * np.arange(len(low))[:, None]
    places = row + np.linspace(0, 1, bounds.size)[1:-1]
    inner = np.interp(places, (row + measure / measure[:, -1:]).ravel(), x.ravel())
    inner = np.maximum.accumulate(np.clip(inner, *ends), axis=-1)  # interpolation rounds
    return np.hstack([ends[0], inner, ends[1]])
