"""A search for small MDPs on which an algorithm errs as much as possible, each solved exactly.

The MDPs are cycles of a few states with one action. From each state there are four ways: on to the
next state of the cycle, to an endless state that always pays Rmax, to one that always pays -Rmax,
or to the end. Each way has its own probability and its own reward in [-Rmax, Rmax]. Rmax is 1 -
gamma, so that all returns lie in [-1, 1]. The return is known exactly: there is one way round the
cycle, so it has one atom for each number of steps and each way to leave.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import differential_evolution

from edrl.core.particles import Particles
from edrl.core.precision import in_float64
from edrl.core.statistics import Statistics
from edrl.core.types import Array
from edrl.paper.experiment import Advance, Table, Tables, joined, table
from edrl.tabular import dp
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
class Search:
    """Where and how long the worst MDPs of an algorithm are searched for."""

    states: int  # of the cycle
    generations: int
    ks: tuple[int, ...]


SEARCHES = {
    "CDRL": Search(states=2, generations=150, ks=(3, 9, 33)),
    "QDRL": Search(states=1, generations=80, ks=(3, 9, 33)),
    "EDRL": Search(states=1, generations=40, ks=(3, 9)),
}
# An MDP with rare large returns, on which EDRL's dynamic programming goes on changing for ever.
RESTLESS = np.array([[0.98, 0.015, 0.005, 0.0]]), np.array([[-0.1, 0.0, 0.0, 0.0]])
RESTLESS_K, RESTLESS_SWEEPS = 9, 1000


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


def measure(
    make: Mapping[str, Callable[[int], Statistics]],
    gammas: Sequence[float],
    effort: int,
    advance: Advance,
) -> Tables:
    """The largest errors that a search over small MDPs finds for each algorithm, and these MDPs."""
    cases = []
    for algorithm, plan in SEARCHES.items():
        cases += [(algorithm, plan, k, gamma) for k, gamma in product(plan.ks, gammas)]
    errors, mdps = [], []
    for number, (algorithm, plan, k, gamma) in enumerate(cases):
        note = f"the worst MDP for {algorithm}, K = {k}, γ = {gamma}"
        advance(0.5 + 0.45 * number / len(cases), note)
        found = search(make[algorithm](k), gamma, plan.states, effort * plan.generations)
        where: dict[str, object] = {"algorithm": algorithm, "gamma": gamma, "k": k}
        slope = (k - 1) / 2 if algorithm == "CDRL" else 1.0  # by how much statistics follow returns
        how = {"uncertainty": slope * found.rest, "change": found.change}
        errors.append(table(**where, error=float(found.errors.mean(axis=-1).max()), **how))
        mdps.append(table(**where, state=np.arange(len(found.probs)), **_columns(found)))
    return {"worst": joined(*errors), "worst_mdps": joined(*mdps)}


def _columns(found: Worst) -> dict[str, np.ndarray]:
    """Probability and reward of each way out of each state."""
    probs = dict(zip(WAYS, found.probs.T, strict=True))
    rewards = zip(WAYS, found.rewards.T, strict=True)
    return probs | {f"reward_{way}": column for way, column in rewards}


def measure_restless(family: Statistics) -> Table:
    """How much each sweep of dynamic programming changes on an MDP on which it never settles."""
    mdp = cycle_mdp(*RESTLESS, gamma=0.9)
    solved = dp.evaluate(mdp, 0, family, max_iterations=RESTLESS_SWEEPS)
    return table(sweep=np.arange(1, solved.iterations + 1), change=solved.residuals)


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
