"""Forks: MDPs in which a state x0 leads to x1 or x2, whose returns are learnt exactly.

EDRL is tried on the MDPs of Appendix C, and on the worst and the best examples of its own. Learnt
statistics at x0 are one imputed backup away, so many forks are solved at once.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import differential_evolution

from edrl.core.families import Expectiles
from edrl.core.particles import Particles
from edrl.core.precision import in_float64
from edrl.core.statistics import Statistics
from edrl.core.types import Array
from edrl.paper.experiment import Table, table
from edrl.tabular.bellman import exact_backup
from edrl.tabular.mdp import MDP
from edrl.tabular.problems import cdrl_not_uniform, qdrl_not_uniform
from edrl.theory.bounds import edrl_level_bounds

M = 1  # of the first lemma: gamma = 2^m / (2^m + 1)
CDRL_GAMMA, QDRL_GAMMA = 2**M / (2**M + 1), 0.9
GAMMA = 0.5  # of EDRL's own examples, with returns in [-1, 1]
INNER = (0.1, 0.9)  # the levels that are learnt uniformly well
BATCH, ATOMS = 64, 3  # MDPs that are solved at once, and the atoms of their returns at x1 and x2


def solve_lemmas(family: Expectiles, depths: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """EDRL's learnt and true statistics at the first state of the first lemma's MDPs and the
    second's.
    """
    chains = [cdrl_not_uniform(M, depth, "A") for depth in depths]
    rewards = np.array([mdp.rewards.atoms[1, 0, 0, 0] for mdp in chains])
    atoms = np.broadcast_to(rewards[:, None, None], (len(chains), 2, ATOMS))
    solved = [
        _fork(family, CDRL_GAMMA, np.ones(len(chains)), atoms, np.full_like(atoms, 1 / ATOMS))
    ]
    mdp = qdrl_not_uniform(family.size, gamma=QDRL_GAMMA)
    atoms, probs = np.zeros((1, 2, ATOMS)), np.zeros((1, 2, ATOMS))
    atoms[0, :, :2], probs[0, :, :2] = mdp.rewards.atoms[1:3, 0, 0], mdp.rewards.probs[1:3, 0, 0]
    solved.append(_fork(family, QDRL_GAMMA, mdp.probs[0, 0, :1], atoms, probs))
    learnt, true = zip(*solved, strict=True)
    return np.concatenate(learnt), np.concatenate(true)


def measure_uniform(family: Expectiles, generations: int) -> Table:
    """EDRL's largest error over inner levels that a search finds, and the outermost level's in our
    example.
    """
    taus = np.asarray(family.taus)
    inner = (taus >= INNER[0] - 1e-12) & (taus <= INNER[1] + 1e-12)
    start = np.random.default_rng(0).uniform(size=(BATCH, 1 + 2 * 2 * ATOMS))

    def largest(x: np.ndarray) -> np.ndarray:
        learnt, true = _fork(family, GAMMA, *_decoded(x))
        return np.asarray(-np.abs(learnt - true)[:, inner].max(axis=-1))

    found = differential_evolution(
        largest, [(0, 1)] * start.shape[1],
        init=start,  # pyright: ignore[reportArgumentType]
        maxiter=generations, vectorized=True,
        updating="deferred", polish=False, rng=0, tol=0, atol=0,
    )  # fmt: skip
    first, atoms, probs = _outermost(taus[0])
    learnt, true = _fork(family, GAMMA, first, atoms, probs)
    off = np.abs(learnt - true)
    odds = taus[0] / (1 - taus[0])
    return table(
        k=family.size,
        inner=[-found.fun],
        inner_bound=edrl_level_bounds(taus, GAMMA, 1 - GAMMA)[inner].max(),
        inner_example=off[:, inner].max(),
        outermost=off[:, 0].max(),
        outermost_bound=GAMMA / 2 * (1 / (4 - odds) - odds / (1 + 2 * odds)),
        apart=np.abs(learnt[0] - learnt[1]).max(),
    )


def _outermost(tau: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two MDPs with the same expectiles at x1, from the level tau on, but different ones at x0.

    With w = tau / (1 - tau) the returns at x1 are -1, 0 and 1 with probabilities w/2, 1/2 - w/2 and
    1/2, or -w and 1 with equal ones. The return at x2, where x0 leads with probability w/(2 + w),
    is -1.
    """
    odds = tau / (1 - tau)
    sure = [-1.0] * ATOMS
    atoms = np.array([[[-1.0, 0.0, 1.0], sure], [[-odds, 1.0, 1.0], sure]])
    even = [1 / ATOMS] * ATOMS
    probs = np.array([[[odds / 2, 0.5 - odds / 2, 0.5], even], [[0.5, 0.5, 0.0], even]])
    return np.full(2, 2 / (2 + odds)), atoms, probs


def _decoded(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """From genes [D, n]: the probability of x1 [n], and atoms and probs of the returns [n, 2,
    ATOMS].
    """
    fields = x[1:].T.reshape(-1, 2, 2, ATOMS)
    weights = fields[:, 0] ** 3 + 1e-12  # small probabilities matter
    return x[0], 2 * fields[:, 1] - 1, weights / weights.sum(axis=-1, keepdims=True)


def _fork(
    family: Statistics, gamma: float, first: np.ndarray, atoms: np.ndarray, probs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Learnt and true statistics [n, K] at x0, which leads to x1 with probability `first`, else to
    x2.

    `atoms` and `probs` [n, 2, ATOMS] are the returns at x1 and x2: rewards before the end, or
    constant rewards for ever. Their statistics are learnt exactly, so x0 is one imputed backup
    away.
    """
    count = len(first)
    missing = BATCH - count  # the same shape for all: they share a compilation
    first, atoms, probs = (
        np.concatenate([part, np.repeat(part[:1], missing, axis=0)])
        for part in (first, atoms, probs)
    )
    learnt, true = _solve_fork(family, gamma, first, atoms, probs)
    return learnt[:count], true[:count]


@in_float64
@jax.jit
def _solve_fork(
    family: Statistics,
    gamma: jax.Array,
    first: jax.Array,
    atoms: jax.Array,
    probs: jax.Array,
) -> tuple[Array, Array]:
    returns = Particles(atoms, probs)
    weights = jnp.stack([first, 1 - first], axis=-1)

    def backed_up(eta: Particles) -> Array:
        return family.evaluate(Particles(gamma * eta.atoms, eta.probs).mixture(weights))

    return backed_up(family.impute(family.evaluate(returns))), backed_up(returns)


def two_step_returns(mdp: MDP) -> Particles:
    """The return distributions of an MDP of two steps and one action, with all atoms: [S, n]."""
    eta = Particles(np.zeros((mdp.num_states, 1, 1)))
    return exact_backup(mdp, 0, exact_backup(mdp, 0, eta))[:, 0]
