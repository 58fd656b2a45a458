"""The true return distributions: between two bounds in the convex order, or by rollouts.

mu is below nu in the convex order if both have the same mean and P_mu <= P_nu, where
P(x) = E[(x - Z)+] is the integrated CDF. The Bellman operator T keeps this order: mixtures and
r + gamma z do. Gathering atoms at barycentres goes down in the order. Splitting them onto a grid
(the Cramér projection) goes up. So iterating T from a point mass at the true mean, gathering, stays
below the truth for ever. Iterating T from the two ends of the range, splitting, stays above it.
Whatever the number of iterations, the truth lies between. Both bounds are rigorous.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.check import check_count, check_number, fail
from edrl.core.metrics import integrated_cdf_distance
from edrl.core.particles import Particles
from edrl.core.precision import in_float64
from edrl.core.statistics import Statistics
from edrl.core.types import Bool, Float, Int, Key
from edrl.tabular.bellman import average, solve_linear, solve_moments
from edrl.tabular.mdp import MDP
from edrl.tabular.policy import Policy, PolicyLike, as_policy
from edrl.tabular.progress import track

_SWEEPS_AT_ONCE = 32  # between two choices of nodes
_ATOMS_AT_ONCE = 2**20  # bounds the memory of a sweep
_RANGE_SWEEPS = 2_000  # after which ranges are widened by what is left

StateRange: TypeAlias = tuple[Float[np.ndarray, " S"], Float[np.ndarray, " S"]]
PairRange: TypeAlias = tuple[Float[np.ndarray, "S A"], Float[np.ndarray, "S A"]]


@dataclass(frozen=True)
class Truth:
    """Return distributions of all pairs, known to `error`.

    |P(x) - P_true(x)| is at most `error[s, a]` for every x.
    """

    particles: Particles  # [S, A, 2n]: the even mixture of the two bounds
    error: Float[np.ndarray, "S A"]
    lower: Particles  # [S, A, n], below the truth in the convex order
    upper: Particles  # [S, A, n], above it
    means: Float[np.ndarray, "S A"]  # exact
    iterations: int

    @in_float64
    def values(self, family: Statistics) -> Float[np.ndarray, "S A K"]:
        """The statistics of the return distributions."""
        return np.asarray(family.evaluate(self.particles))

    @in_float64
    def bracket(
        self, family: Statistics
    ) -> tuple[Float[np.ndarray, "S A K"], Float[np.ndarray, "S A K"]]:
        """The least and greatest values of the truth, for families that have a `bracket`.

        Continuous rewards are discretised before: there the bracket is that of the discretised
        problem.
        """
        found = family.bracket(self.lower, self.upper, self.means)
        if found is None:
            raise fail("family", family, "it has no bracket: write the method `bracket`")
        low, high = found
        return np.asarray(low), np.asarray(high)


@in_float64
def return_distributions(
    mdp: MDP,
    policy: PolicyLike,
    *,
    atoms: int = 512,
    tolerance: float = 1e-6,
    max_iterations: int = 20_000,
    progress: bool = False,
) -> Truth:
    """The return distribution of every pair under `policy`, to a stated accuracy.

    `atoms` is the resolution: the error falls about as 1/atoms^2. The distributions of states are
    iterated until their error is within `tolerance` or no longer shrinks. Those of pairs follow by
    one more backup.
    """
    chosen = as_policy(mdp, policy)
    atoms = check_count("atoms", atoms, 2)
    check_number("tolerance", tolerance, 0.0)
    max_iterations = check_count("max_iterations", max_iterations, 1)
    means = solve_moments(mdp, chosen, 1)[..., 0]
    ends = return_range(mdp, chosen)
    outcomes = _outcomes(mdp)
    of_states = _of_states(outcomes, np.asarray(chosen.dense(mdp.num_actions)))
    bounds, done = _bound_states(
        _in_parts(of_states, atoms),
        mdp.gamma,
        _expected_steps(mdp, chosen),
        average(chosen, means),
        _state_range(chosen, ends),
        atoms,
        tolerance,
        max_iterations,
        progress,
    )
    at_pairs = _bound_pairs(_in_parts(outcomes, atoms), mdp.gamma, ends, bounds, atoms)
    points = np.asarray(at_pairs.atoms).reshape(2, *means.shape, atoms)
    masses = np.asarray(at_pairs.probs).reshape(2, *means.shape, atoms)
    lower, upper = Particles(points[0], masses[0]), Particles(points[1], masses[1])
    middle = Particles(np.concatenate(points, axis=-1), np.concatenate(masses, axis=-1) / 2)
    error = np.asarray(integrated_cdf_distance(lower, upper)) / 2
    error = error + solve_linear(mdp, chosen, mdp.discretisation_error, mdp.gamma)
    return Truth(middle, error, lower, upper, means, done)


def _expected_steps(mdp: MDP, policy: Policy) -> float:
    """The expected number of discounted steps, from the pair that has the most, and at least 1."""
    shape = (mdp.num_states, mdp.num_actions)
    alive = np.broadcast_to(~mdp.terminal[:, None], shape).astype(np.float64)
    return max(1.0, float(solve_linear(mdp, policy, alive, mdp.gamma).max()))


def _bound_pairs(
    parts: "_Outcomes", gamma: float, ends: PairRange, bounds: Particles, atoms: int
) -> Particles:
    """The lower and upper bound of the pairs' distributions, [2, S * A, n], from the states'."""
    low, high = (end.ravel() for end in ends)
    nodes = np.linspace(low, high, atoms, axis=-1)
    pairs: Particles = _backed_up(parts, gamma, nodes, bounds)
    for _ in range(2):  # until the nodes are where the mass is
        pairs = _backed_up(parts, gamma, _nodes(pairs, low, high), bounds)
    return pairs


def _bound_states(
    parts: "_Outcomes",
    gamma: float,
    horizon: float,
    means: Float[np.ndarray, " S"],
    ends: StateRange,
    atoms: int,
    tolerance: float,
    max_iterations: int,
    progress: bool,
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


class _Outcomes(NamedTuple):
    """The Bellman operator as a list.

    With probability `probs`, `source` gets a reward and the return of `target`.
    """

    source: Int[np.ndarray, "*parts N"]  # a state, or a pair x * A + a
    target: Int[np.ndarray, "*parts N"]  # a state
    rewards: Float[np.ndarray, "*parts N"]
    probs: Float[np.ndarray, "*parts N"]


def _outcomes(mdp: MDP) -> _Outcomes:
    """What can follow each pair. A list, as few rewards are as random as the most random one."""
    probs = mdp.probs[..., None] * np.asarray(mdp.rewards.probs)
    x, a, b, r = np.nonzero(probs)
    rewards = np.asarray(mdp.rewards.atoms)[x, a, b, r]
    pairs = x * mdp.num_actions + a
    return _Outcomes(pairs, mdp.successors[x, a, b], rewards, probs[x, a, b, r])


def _of_states(outcomes: _Outcomes, policy: Float[np.ndarray, "S A"]) -> _Outcomes:
    """What can follow each state under a policy."""
    weights = policy.ravel()[outcomes.source]
    state = outcomes.source // policy.shape[1]
    chosen = outcomes._replace(source=state, probs=weights * outcomes.probs)
    return _Outcomes(*(field[weights > 0] for field in chosen))


def _in_parts(outcomes: _Outcomes, atoms: int) -> _Outcomes:
    """Padded parts [parts, m] that fit into memory when each outcome has `atoms` atoms."""
    count = len(outcomes.probs)
    size = min(count, max(1, _ATOMS_AT_ONCE // atoms))
    padding = -count % size
    return _Outcomes(*(np.pad(field, (0, padding)).reshape(-1, size) for field in outcomes))


@jax.jit
def _tighten(
    parts: _Outcomes,
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
    parts: _Outcomes,
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
    parts: _Outcomes,
    gamma: Float[jax.Array, ""],
    nodes: Float[jax.Array, "sources n"],
    eta: Particles,
) -> tuple[Float[jax.Array, "sources n"], Float[jax.Array, "sources n"]]:
    """Back eta [S, n] up: the mass in each cell between two nodes, and its moment about the left.

    That is all that either projection needs. The last of the n cells is empty.
    """

    def add(
        sums: Float[jax.Array, "sources n 2"], part: _Outcomes
    ) -> tuple[Float[jax.Array, "sources n 2"], None]:
        edges = nodes[part.source]
        atoms = part.rewards[:, None] + gamma * eta.atoms[part.target]
        cell = jax.vmap(lambda edges, x: jnp.searchsorted(edges, x, side="right"))(
            edges[:, 1:-1], atoms
        )
        mass = part.probs[:, None] * eta.probs[part.target]
        moment = mass * (atoms - jnp.take_along_axis(edges, cell, axis=-1))
        return sums.at[part.source[:, None], cell].add(jnp.stack([mass, moment], axis=-1)), None

    sums, _ = jax.lax.scan(add, jnp.zeros((*nodes.shape, 2)), parts)
    return sums[..., 0], sums[..., 1]


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


@in_float64
def return_range(mdp: MDP, policy: PolicyLike) -> PairRange:
    """The least and the greatest return possible at every pair, a little wider if gamma < 1."""
    chosen = as_policy(mdp, policy)
    possible, rewards = np.asarray(mdp.rewards.probs) > 0, np.asarray(mdp.rewards.atoms)
    worst = np.where(possible, rewards, np.inf).min(axis=-1)
    best = np.where(possible, rewards, -np.inf).max(axis=-1)

    def of_pairs(low: Float[np.ndarray, " S"], high: Float[np.ndarray, " S"]) -> PairRange:
        real = mdp.probs > 0
        lowest = np.where(real, worst + mdp.gamma * low[mdp.successors], np.inf)
        highest = np.where(real, best + mdp.gamma * high[mdp.successors], -np.inf)
        return lowest.min(axis=-1), highest.max(axis=-1)

    def sweep(states: StateRange) -> tuple[StateRange, float, bool]:
        """The states' new range, its change, and whether that is only rounding."""
        new = _state_range(chosen, of_pairs(*states))
        change = max(_largest(new[0] - states[0]), _largest(new[1] - states[1]))
        return new, change, change <= 1e-12 * max(map(_largest, (worst, best, *new)))

    if mdp.gamma == 1:
        # Longest and shortest paths to the end pass no state twice, unless that pays again.
        nowhere = np.where(mdp.terminal, 0.0, np.inf)
        states = nowhere, -nowhere
        for _ in range(mdp.num_states):
            before, states = states, _state_range(chosen, of_pairs(*states))
            if np.array_equal(before, states):
                break
        if not sweep(states)[2]:
            right = "returns are unbounded, as an episode can pass a state again and be paid for it"
            raise fail("gamma", mdp.gamma, right)
        return of_pairs(*states)
    states = np.zeros(mdp.num_states), np.zeros(mdp.num_states)
    change = np.inf
    for _ in range(_RANGE_SWEEPS):
        states, change, settled = sweep(states)
        if settled:
            break
    rest = change * mdp.gamma / (1 - mdp.gamma)  # all that later rewards can still add
    low, high = of_pairs(*states)
    alive = ~mdp.terminal[:, None]
    return low - rest * alive, high + rest * alive


def _largest(numbers: Float[np.ndarray, "..."]) -> float:
    return float(np.abs(numbers).max())


def _state_range(policy: Policy, ends: PairRange) -> StateRange:
    """From the ranges of pairs to those of states under the policy."""
    actions, probs = policy.on_host()
    taken = probs > 0
    low, high = (np.take_along_axis(end, actions, axis=1) for end in ends)
    return np.where(taken, low, np.inf).min(axis=-1), np.where(taken, high, -np.inf).max(axis=-1)


@in_float64
def rollouts(
    mdp: MDP,
    policy: PolicyLike,
    episodes: int,
    seed: int = 0,
    *,
    state: int | None = None,
    action: int | None = None,
    truncation: float = 1e-6,
) -> Particles:
    """The empirical distribution of `episodes` simulated returns.

    1,000 of them are the ground truth of Section 5.1. Episodes begin in `state` (by default, the
    start distribution draws it) with `action` (by default, the policy draws it). An episode ends in
    a terminal state, or when discounting leaves less than `truncation` times the largest reward.
    """
    episodes = check_count("episodes", episodes, 1)
    check_number("truncation", truncation, 0.0, 1.0, open_low=True)
    for name, value, count in (
        ("state", state, mdp.num_states),
        ("action", action, mdp.num_actions),
    ):
        if value is not None and check_count(name, value, 0) >= count:
            raise fail(name, value, f"it must be a number from 0 to {count - 1}")
    start = mdp.start if state is None else (np.arange(mdp.num_states) == state).astype(float)
    first = -1 if action is None else action
    key = jax.random.key(seed)
    least_discount = truncation * (1 - mdp.gamma)
    return Particles(
        _rollouts(mdp, as_policy(mdp, policy), key, start, first, least_discount, episodes)
    )


class _Rollout(NamedTuple):
    """Where the simulated episodes are."""

    time: Int[jax.Array, ""]
    discount: Float[jax.Array, ""]
    states: Int[jax.Array, " episodes"]
    returns: Float[jax.Array, " episodes"]  # so far


@jax.jit(static_argnames="episodes")
def _rollouts(
    mdp: MDP,
    policy: Policy,
    key: Key,
    start: Float[jax.Array, " S"],
    first: Int[jax.Array, ""],
    least_discount: Float[jax.Array, ""],
    episodes: int,
) -> Float[jax.Array, " episodes"]:
    key_start, key_steps = jax.random.split(key)
    states = jax.random.choice(key_start, mdp.num_states, (episodes,), p=jnp.asarray(start))
    states = states.astype(jnp.int32)
    terminal, successors = jnp.asarray(mdp.terminal), jnp.asarray(mdp.successors)
    actions, probs = jnp.asarray(policy.actions), jnp.asarray(policy.probs)

    def step(carry: _Rollout) -> _Rollout:
        time, discount, states, returns = carry
        keys = jax.random.split(jax.random.fold_in(key_steps, time), 3)
        key_action, key_branch, key_reward = keys
        behaviour = Particles(actions[states].astype(float), probs[states])
        choice = behaviour.sample(key_action).astype(int)
        choice = jnp.where((time == 0) & (first >= 0), first, choice)
        branch = mdp.sample_branch(key_branch, states, choice)
        reward = mdp.sample_reward(key_reward, states, choice, branch)
        returns = returns + jnp.where(terminal[states], 0, discount * reward)
        after = successors[states, choice, branch]
        return _Rollout(time + 1, discount * mdp.gamma, after, returns)

    def going_on(carry: _Rollout) -> Bool[jax.Array, ""]:
        alive = jnp.any(~terminal[carry.states])
        return alive & (carry.discount >= least_discount) & (carry.discount > 0)

    carry = _Rollout(jnp.asarray(0), jnp.ones(()), states, jnp.zeros(episodes))
    return jax.lax.while_loop(going_on, step, carry).returns
