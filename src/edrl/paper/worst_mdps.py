"""A search for small MDPs on which an algorithm errs as much as possible, each solved exactly.

The MDPs are cycles of a few states with one action. From each state there are four ways: on to the
next state of the cycle, to an endless state that always pays Rmax, to one that always pays -Rmax,
or to the end. Each way has its own probability and its own reward in [-Rmax, Rmax]. Rmax is 1 -
gamma, so that all returns lie in [-1, 1]. The return is known exactly: there is one way round the
cycle, so it has one atom for each number of steps and each way to leave.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import differential_evolution

from edrl.core.particles import Particles
from edrl.core.precision import in_float64
from edrl.core.statistics import Statistics
from edrl.core.types import Array
from edrl.tabular.mdp import MDP

WAYS = ("on", "top", "bottom", "end")
_AFTER = (1.0, -1.0, 0.0)  # the returns of the three ways out, after their reward
_STEPS = 240  # of the return: what comes later counts less than 0.9^240 = 1e-11
_COARSE, _FINE = 1e-4, 1e-12  # the discount after which sweeps stop: in the search, and at its end
_POPULATION = 64

_Two = tuple[jax.Array, jax.Array]
_Three = tuple[jax.Array, jax.Array, jax.Array]
_Four = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


@dataclass(frozen=True)
class Worst:
    """The MDP with the largest error found, and how the algorithm errs on it."""

    probs: np.ndarray  # [S, 4], of the four ways
    rewards: np.ndarray  # [S, 4]
    errors: np.ndarray  # [S, K], of each statistic
    change: float  # the largest change of a statistic in the last sweep
    rest: float  # an error of this size can be left in the true statistics, in the units of returns


def cycle_mdp(probs: np.ndarray, rewards: np.ndarray, gamma: float) -> MDP:
    """The MDP of the module's docstring: its cycle, then the endless states and the end."""
    count = len(probs)
    top, bottom, end = count, count + 1, count + 2
    live = []
    for x in range(count):
        following = ((x + 1) % count, top, bottom, end)
        live.append([list(zip(probs[x], following, rewards[x], strict=True))])
    endless = [[[(1.0, top, 1 - gamma)]], [[(1.0, bottom, gamma - 1)]]]
    return MDP.from_lists([*live, *endless, []], gamma)


def search(family: Statistics, gamma: float, states: int, generations: int) -> Worst:
    """Maximise the error of Definition 4.5 over cycles of `states` states by differential
    evolution.

    The seed is fixed: the same search finds the same MDP.
    """
    genes = 2 * len(WAYS) * states
    start = np.random.default_rng(0).uniform(size=(_POPULATION, genes))

    def errors(x: np.ndarray, discount: float) -> tuple[np.ndarray, np.ndarray]:
        sweeps = int(np.ceil(np.log(discount) / np.log(gamma)))
        found: tuple[np.ndarray, np.ndarray]
        found = _errors(family, *_decoded(x, states, gamma), gamma, sweeps)
        return found

    def largest(x: np.ndarray) -> np.ndarray:
        return np.asarray(-errors(x, _COARSE)[0].mean(axis=-1).max(axis=-1))

    found = differential_evolution(
        largest, [(0, 1)] * genes,
        init=start,  # pyright: ignore[reportArgumentType]
        maxiter=generations, vectorized=True,
        updating="deferred", polish=False, rng=0, tol=0, atol=0, mutation=(0.4, 0.9), recombination=0.8,
    )  # fmt: skip
    # The whole population's shape once more: no new compilation.
    best = np.repeat(found.x[:, None], _POPULATION, axis=1)
    final, change = errors(best, _FINE)
    probs, rewards = _decoded(best, states, gamma)
    return Worst(probs[0], rewards[0], final[0], float(change[0].max()), 2 * gamma**_STEPS)


def _decoded(x: np.ndarray, states: int, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and rewards [n, S, 4] from genes [D, n] in [0, 1]."""
    x = x.T.reshape(-1, states, 2, len(WAYS))
    weights = x[:, :, 0] ** 3 + 1e-12  # small probabilities matter, so they get much of the range
    return weights / weights.sum(axis=-1, keepdims=True), (1 - gamma) * (2 * x[:, :, 1] - 1)


@in_float64
@jax.jit
def _errors(
    family: Statistics,
    probs: jax.Array,
    rewards: jax.Array,
    gamma: jax.Array,
    sweeps: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """|learnt - true| for each statistic [n, S, K], and the change in the last sweep [n, S, K]."""
    leave = Particles(rewards[..., 1:] + gamma * jnp.asarray(_AFTER), probs[..., 1:])

    def sweep(values: Array) -> Array:
        eta = family.impute(jnp.roll(values, -1, axis=1))  # of the next state
        atoms = jnp.concatenate([rewards[..., :1] + gamma * eta.atoms, leave.atoms], axis=-1)
        masses = jnp.concatenate([probs[..., :1] * eta.probs, leave.probs], axis=-1)
        return family.evaluate(Particles(atoms, masses))

    nothing = jnp.zeros((*probs.shape[:2], 1))
    values = family.evaluate(Particles(nothing, jnp.ones_like(nothing)))
    before = jax.lax.fori_loop(0, sweeps - 1, lambda _, values: sweep(values), values)
    learnt = sweep(before)
    true = family.evaluate(_returns(leave, probs, rewards, gamma))
    return jnp.abs(learnt - true), jnp.abs(learnt - before)


def _returns(leave: Particles, probs: jax.Array, rewards: jax.Array, gamma: jax.Array) -> Particles:
    """The true return distributions [n, S, 3 _STEPS + 1]; what goes on after _STEPS steps ends
    there.
    """

    def step(carry: _Three, way: _Four) -> tuple[_Three, _Two]:
        reach, discount, paid = carry
        on, reward, atoms, masses = way
        out = paid[..., None] + discount * atoms, reach[..., None] * masses
        return (reach * on, discount * gamma, paid + discount * reward), out

    def along(table: Array) -> jax.Array:
        """What each state meets at each step: [_STEPS, n, S, ...]."""
        places = (jnp.arange(_STEPS)[:, None] + jnp.arange(table.shape[1])) % table.shape[1]
        return jnp.moveaxis(jnp.asarray(table)[:, places], 1, 0)

    on, rewards_on = along(probs[..., 0]), along(rewards[..., 0])
    ways = on, rewards_on, along(leave.atoms), along(leave.probs)
    start = jnp.ones(probs.shape[:2]), jnp.ones(()), jnp.zeros(probs.shape[:2])
    (reach, _, paid), out = jax.lax.scan(step, start, ways)
    atoms, masses = (jnp.moveaxis(part, 0, -2).reshape(*reach.shape, -1) for part in out)
    atoms = jnp.concatenate([atoms, paid[..., None]], axis=-1)
    return Particles(atoms, jnp.concatenate([masses, reach[..., None]], axis=-1))
