"""The Bellman operator against enumeration (Equation (3)), and moments against closed forms (Lemma
4.2).
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from edrl.core.families import Categorical, Expectiles, Mean, Moments, Quantiles
from edrl.core.metrics import wasserstein
from edrl.core.particles import Particles
from edrl.core.precision import in_float64
from edrl.tabular import bellman
from edrl.tabular.bellman import exact_backup, imputed_backup, solve_moments
from edrl.tabular.mdp import MDP
from edrl.tabular.policy import Policy, as_policy
from edrl.tabular.problems import garnet
from edrl.tabular.rewards import Exponential, Normal, Uniform

EPS = np.finfo(np.float64).eps
STATES, ACTIONS, BRANCHES, REWARDS, ATOMS = 4, 2, 2, 2, 3

FAMILIES = {
    "mean": Mean(),
    "categorical": Categorical(np.linspace(-4, 4, 9)),
    "quantiles": Quantiles(5),
    "expectiles": Expectiles(5),
}


def random_mdp(seed: int, gamma: float = 0.9, acyclic: bool = False) -> MDP:
    """All branches, rewards and actions have a random probability; the last state is terminal."""
    rng = np.random.default_rng(seed)
    shape = (STATES, ACTIONS, BRANCHES)
    successors = rng.integers(0, STATES, shape)
    if acyclic:
        successors = np.minimum(
            np.arange(STATES)[:, None, None] + rng.integers(1, 3, shape), STATES - 1
        )
    successors[-1] = STATES - 1
    probs = rng.dirichlet(np.ones(BRANCHES), shape[:2])
    atoms = rng.uniform(-1, 1, (*shape, REWARDS))
    atoms[-1] = 0
    rewards = Particles(atoms, rng.dirichlet(np.ones(REWARDS), shape))
    return MDP.from_arrays(successors, probs, rewards, gamma, terminal=[STATES - 1])


def random_policy(seed: int) -> np.ndarray:
    return np.random.default_rng(seed + 1000).dirichlet(np.ones(ACTIONS), STATES)


def random_returns(seed: int) -> Particles:
    rng = np.random.default_rng(seed + 2000)
    shape = (STATES, ACTIONS, ATOMS)
    return Particles(rng.normal(size=shape), rng.dirichlet(np.ones(ATOMS), shape[:2]))


def random_values(seed: int, family: Any) -> np.ndarray:
    """Increasing in [0, 1]: what statistics of any of the families can be."""
    return np.sort(
        np.random.default_rng(seed + 3000).random((STATES, ACTIONS, family.size)), axis=-1
    )


def backup_by_hand(
    mdp: MDP, policy: np.ndarray, eta: Particles, x: int, a: int
) -> tuple[np.ndarray, np.ndarray]:
    """Atoms and probabilities of (T eta)(x, a): every successor, reward, next action and next
    return.
    """
    distribution = []
    for b, y in enumerate(mdp.successors[x, a]):
        for reward, p_reward in zip(
            mdp.rewards.atoms[x, a, b], mdp.rewards.probs[x, a, b], strict=True
        ):
            for action, p_action in enumerate(policy[y]):
                for z, p in zip(eta.atoms[y, action], eta.probs[y, action], strict=True):
                    following = 0.0 if mdp.terminal[y] else z
                    weight = mdp.probs[x, a, b] * p_reward * p_action * p
                    distribution.append((reward + mdp.gamma * following, weight))
    atoms, probs = np.array(distribution).T
    return atoms, probs


def same_law(mu: Particles, atoms: np.ndarray, probs: np.ndarray) -> bool:
    """Equality of distributions: the order, repetition and padding of atoms do not matter."""
    assert abs(mu.probs.sum() - 1) < 1e-12
    return stats.wasserstein_distance(mu.atoms, atoms, mu.probs, probs) < 1e-12


def return_law(mdp: MDP, policy: np.ndarray) -> Particles:
    """The exact return distributions of an MDP without cycles: backups from anything, once per
    state.
    """
    eta = Particles(np.zeros((STATES, ACTIONS, 1)))
    for _ in range(STATES - 1):
        eta = exact_backup(mdp, policy, eta)
    return eta


@pytest.mark.parametrize("seed", range(4))
def test_exact_backup_enumerates_equation_3(seed: int) -> None:
    mdp, policy, eta = random_mdp(seed), random_policy(seed), random_returns(seed)
    backed_up = exact_backup(mdp, policy, eta)
    assert backed_up.atoms.shape == (STATES, ACTIONS, BRANCHES * REWARDS * ACTIONS * ATOMS)
    assert isinstance(backed_up.atoms, np.ndarray)
    assert backed_up.atoms.dtype == np.float64
    for x in range(STATES):
        for a in range(ACTIONS):
            assert same_law(backed_up[x, a], *backup_by_hand(mdp, policy, eta, x, a)), (x, a)


def test_exact_backup_of_a_deterministic_policy_follows_its_actions() -> None:
    mdp, eta = random_mdp(0), random_returns(0)
    actions = np.array([1, 0, 1, 0])
    backed_up = exact_backup(mdp, actions, eta)
    assert backed_up.size == BRANCHES * REWARDS * ATOMS
    assert same_law(backed_up[0, 0], *backup_by_hand(mdp, np.eye(2)[actions], eta, 0, 0))


def test_the_return_of_a_terminal_state_is_zero() -> None:
    backed_up = exact_backup(random_mdp(1), random_policy(1), random_returns(1))
    assert (backed_up[STATES - 1].atoms == 0).all()


def test_true_return_distributions_are_the_fixed_point() -> None:
    """T eta_pi = eta_pi, and on an MDP without cycles S - 1 backups reach eta_pi from anywhere."""
    mdp, policy = random_mdp(2, acyclic=True), random_policy(2)
    eta = return_law(mdp, policy)
    assert wasserstein(exact_backup(mdp, policy, eta), eta).max() < 1e-12


def test_backups_contract_by_gamma_in_the_largest_wasserstein_distance() -> None:
    mdp, policy = random_mdp(3, gamma=0.7), random_policy(3)
    for seed in range(5):
        mu, nu = random_returns(seed), random_returns(seed + 100)
        before = wasserstein(mu, nu).max()
        after = wasserstein(exact_backup(mdp, policy, mu), exact_backup(mdp, policy, nu)).max()
        assert after <= 0.7 * before * (1 + 1e-12)


def test_the_contraction_factor_is_sharp() -> None:
    """Where nothing is mixed, shifted returns stay exactly gamma apart."""
    loop = MDP.from_lists([[[(1.0, 0, 1.0)]]], 0.7)
    near, far = (exact_backup(loop, 0, Particles(np.full((1, 1, 1), z))) for z in (0.0, 2.0))
    assert np.isclose(wasserstein(near, far)[0, 0], 1.4, rtol=1e-14)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_imputed_backup_is_impute_then_backup_then_evaluate(family: Any) -> None:
    """Algorithm 1 is nothing else, although it imputes only what the policy reaches."""
    mdp, policy = random_mdp(4), random_policy(4)
    values = random_values(4, family)
    by_parts = jax.jit(
        lambda values: family.evaluate(exact_backup(mdp, policy, family.impute(values)))
    )
    expected = in_float64(by_parts)(values)
    backed_up = imputed_backup(mdp, policy, family, values)
    assert isinstance(backed_up, np.ndarray)
    assert backed_up.dtype == np.float64
    np.testing.assert_allclose(backed_up, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("pairs_at_once", [1, 3])
def test_groups_of_pairs_give_what_all_pairs_at_once_give(
    pairs_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mdp, policy, family = random_mdp(5), as_policy(random_mdp(5), random_policy(5)), Quantiles(5)
    values = random_values(5, family)
    atoms_a_pair = BRANCHES * REWARDS * ACTIONS * family.size
    monkeypatch.setattr(bellman, "_ATOMS_AT_ONCE", pairs_at_once * atoms_a_pair)
    pairs = bellman.DistinctPairs.of(mdp)
    grouped = in_float64(jax.jit(lambda values: bellman.sweep(mdp, policy, family, values, pairs)))(
        values
    )
    monkeypatch.undo()
    np.testing.assert_allclose(
        grouped, imputed_backup(mdp, policy, family, values), rtol=0, atol=1e-14
    )


def test_shapes_and_values_are_checked() -> None:
    mdp, policy = random_mdp(0), random_policy(0)
    with pytest.raises(ValueError, match=r"eta.shape( is |.* got )\(4, 3\)"):
        exact_backup(mdp, policy, Particles(np.zeros((4, 3, 1))))
    with pytest.raises(ValueError, match=r"values.shape( is |.* got )\(4, 2, 4\).*\(4, 2, 5\)"):
        imputed_backup(mdp, policy, Quantiles(5), np.zeros((4, 2, 4)))
    values = np.zeros((4, 2, 5))
    values[1, 0, 2] = np.nan
    with pytest.raises(ValueError, match=r"values\[1, 0, 2\]( is |.* got )nan"):
        imputed_backup(mdp, policy, Quantiles(5), values)
    with pytest.raises(ValueError, match=r"k( is |.* got )0"):
        solve_moments(mdp, policy, 0)


def raw_moments(cumulants: list[float]) -> np.ndarray:
    """E[Z^j] for j = 1, ..., from the cumulants: m_j = sum_i C(j - 1, i - 1) kappa_i m_{j - i}."""
    moments = [1.0]
    for j in range(1, len(cumulants) + 1):
        terms = (
            math.comb(j - 1, i - 1) * cumulants[i - 1] * moments[j - i] for i in range(1, j + 1)
        )
        moments.append(sum(terms))
    return np.array(moments[1:])


LAWS = {
    "normal": (Normal(0.3, 0.5), stats.norm(0.3, 0.5)),
    "uniform": (Uniform(-1.0, 2.0), stats.uniform(-1.0, 3.0)),
    "exponential": (Exponential(0.5, shift=-1.0), stats.expon(-1.0, 0.5)),
    "particles": (
        Particles(np.array([0.0, 1.0, 3.0]), np.array([0.5, 0.25, 0.25])),
        stats.rv_discrete(values=([0, 1, 3], [0.5, 0.25, 0.25])),
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_moments_of_a_discounted_sum_of_independent_rewards(name: str) -> None:
    """Cumulants add up: kappa_j of the return is kappa_j of the reward / (1 - gamma^j), for any
    distribution.
    """
    reward, distribution = LAWS[name]
    mean, variance, skew, kurtosis = (float(s) for s in distribution.stats(moments="mvsk"))
    cumulants = [mean, variance, skew * variance**1.5, kurtosis * variance**2]
    loop = MDP.from_lists([[[(1.0, 0, reward)]]], 0.8, reward_atoms=2)
    expected = raw_moments([kappa / (1 - 0.8 ** (j + 1)) for j, kappa in enumerate(cumulants)])
    np.testing.assert_allclose(solve_moments(loop, 0, 4)[0, 0], expected, rtol=1e-12)


def test_moments_of_a_reflected_law() -> None:
    """The moments of a discounted sum of -E are those of E with alternating signs."""
    upward, downward = (
        solve_moments(MDP.from_lists([[[(1.0, 0, Exponential(2.0, reflected=sign))]]], 0.5), 0, 5)[
            0, 0
        ]
        for sign in (False, True)
    )
    np.testing.assert_allclose(downward, upward * [-1, 1, -1, 1, -1], rtol=1e-12)
    kappas = [2.0**j * math.factorial(j - 1) / (1 - 0.5**j) for j in range(1, 6)]
    np.testing.assert_allclose(upward, raw_moments(kappas), rtol=1e-12)


def test_high_moments_of_laws_do_not_overflow_integers() -> None:
    """E[E^25] = 25!, beyond 64 bits."""
    once = MDP.from_lists([[[(1.0, 1, Exponential())]], []], 0.5)
    assert np.isclose(solve_moments(once, 0, 25)[0, 0, -1], math.factorial(25), rtol=1e-12)


def test_undiscounted_moments_of_a_geometric_episode() -> None:
    """With probability p the end comes at each step, and each pays 1: E[N] = 1/p, E[N^2] = (2 -
    p)/p^2.
    """
    p = 0.3
    mdp = MDP.from_lists([[[(p, 1, 1.0), (1 - p, 0, 1.0)]], []], 1.0)
    moments = solve_moments(mdp, 0, 3)
    third = stats.geom(p).moment(3)
    np.testing.assert_allclose(moments[0, 0], [1 / p, (2 - p) / p**2, third], rtol=1e-12)
    assert (moments[1] == 0).all()


def test_a_constant_reward_has_the_powers_of_its_return_as_moments() -> None:
    loop = MDP.from_lists([[[(1.0, 0, -1.5)]]], 0.9)
    np.testing.assert_allclose(
        solve_moments(loop, 0, 4)[0, 0], (-15.0) ** np.arange(1, 5), rtol=1e-12
    )


def test_moments_are_those_of_the_enumerated_return_distributions() -> None:
    for gamma in (0.0, 0.9, 1.0):
        mdp, policy = random_mdp(6, gamma, acyclic=True), random_policy(6)
        expected = Moments(4).evaluate(return_law(mdp, policy))
        np.testing.assert_allclose(solve_moments(mdp, policy, 4), expected, rtol=1e-11, atol=1e-13)


def test_first_and_second_moments_solve_dense_linear_systems() -> None:
    """Sobel's equations: M1 = E[R] + gamma P M1 and M2 = E[R^2] + 2 gamma E[R M1'] + gamma^2 P M2."""
    mdp = garnet(3, states=12, actions=3, branching=4, gamma=0.95, reward_atoms=3)
    policy = np.random.default_rng(0).dirichlet(np.ones(3), 12)
    n = 36
    # P[(x, a), (y, b)] and E[R 1{X' = y}] * pi(b | y)
    chain, paid = np.zeros((n, n)), np.zeros((n, n))
    r1 = np.sum(mdp.rewards.atoms * mdp.rewards.probs, axis=-1)
    r2 = np.sum(mdp.rewards.atoms**2 * mdp.rewards.probs, axis=-1)
    for x, a, b in np.ndindex(mdp.probs.shape):
        y = mdp.successors[x, a, b]
        for following in range(3):
            weight = mdp.probs[x, a, b] * policy[y, following]
            chain[3 * x + a, 3 * y + following] += weight
            paid[3 * x + a, 3 * y + following] += weight * r1[x, a, b]
    reward, square = (np.sum(mdp.probs * r, axis=-1).ravel() for r in (r1, r2))
    first = np.linalg.solve(np.eye(n) - 0.95 * chain, reward)
    second = np.linalg.solve(np.eye(n) - 0.95**2 * chain, square + 2 * 0.95 * paid @ first)
    moments = solve_moments(mdp, policy, 2)
    np.testing.assert_allclose(moments[..., 0].ravel(), first, rtol=1e-10)
    np.testing.assert_allclose(moments[..., 1].ravel(), second, rtol=1e-10)
    assert (moments[..., 1] > moments[..., 0] ** 2).all()


def test_a_policy_in_single_precision_loses_nothing() -> None:
    """Its own probabilities are exact here: moments are computed in float64 whatever they come in."""
    mdp = garnet(3, states=12, actions=3, branching=4, reward_atoms=3)
    single = Policy(jnp.ones((12, 1), jnp.int32), jnp.ones((12, 1), jnp.float32))
    np.testing.assert_allclose(solve_moments(mdp, single, 2), solve_moments(mdp, 1, 2), rtol=1e-14)


def test_nothing_follows_when_all_states_are_terminal() -> None:
    end = MDP.from_lists([[]], 1.0)
    assert (solve_moments(end, 0, 3) == 0).all()
    assert (exact_backup(end, 0, Particles(np.ones((1, 1, 2)))).atoms == 0).all()


def test_pairs_with_the_same_transitions_are_backed_up_once() -> None:
    """Two states lead to a third in the same way; their values are as if each were alone."""
    same = [(0.5, 2, 1.0), (0.5, 3, Particles([0.0, 2.0]))]
    lists = [[same, [(1.0, 2, 1.0)]], [same, same], [[(1.0, 3, -1.0)], [(1.0, 0, 0.5)]], []]
    mdp, family = MDP.from_lists(lists, 0.9), Expectiles(5)
    found = bellman.DistinctPairs.of(mdp)
    assert found.kind[0] == found.kind[2] == found.kind[3]
    assert len(found.first) == 5  # of eight: the end state's two actions are the same as well
    alone = bellman.DistinctPairs(np.arange(8), np.arange(8))
    values = np.random.default_rng(0).normal(size=(4, 2, 5)).cumsum(-1)
    policy = as_policy(mdp, "uniform")
    sweep = in_float64(jax.jit(bellman.sweep))
    np.testing.assert_array_equal(
        sweep(mdp, policy, family, values, found), sweep(mdp, policy, family, values, alone)
    )
