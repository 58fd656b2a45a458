"""True return distributions: the stated bounds contain what can be enumerated or integrated in
closed form.
"""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from edrl.core.families import Categorical, Expectiles, Mean, Moments, Quantiles
from edrl.core.metrics import integrated_cdf, integrated_cdf_distance, kolmogorov_smirnov
from edrl.core.particles import Particles
from edrl.tabular import convex_bounds
from edrl.tabular.bellman import exact_backup, solve_moments
from edrl.tabular.ground_truth import return_distributions
from edrl.tabular.mdp import MDP
from edrl.tabular.problems import control_mdp, garnet, n_chain
from edrl.tabular.return_range import _Backup, return_range
from edrl.tabular.rewards import Exponential, Normal
from edrl.tabular.rollouts import rollouts

STATES, ACTIONS, ATOMS = 4, 2, 32
ROUNDING = 1e-13  # of sums of a few hundred terms of size 1


def acyclic(seed: int, gamma: float = 0.9) -> MDP:
    """States lead to later ones, the last of which is terminal; everything else is random."""
    rng = np.random.default_rng(seed)
    shape = (STATES, ACTIONS, 2)
    successors = np.minimum(
        np.arange(STATES)[:, None, None] + rng.integers(1, 3, shape), STATES - 1
    )
    atoms = rng.uniform(-1, 1, (*shape, 2))
    atoms[-1] = 0
    rewards = Particles(atoms, rng.dirichlet(np.ones(2), shape))
    probs = rng.dirichlet(np.ones(2), shape[:2])
    return MDP.from_arrays(
        successors, probs, rewards, gamma, terminal=[STATES - 1], start=[0.6, 0.4, 0.0, 0.0]
    )


def random_policy(seed: int) -> np.ndarray:
    return np.random.default_rng(seed + 1000).dirichlet(np.ones(ACTIONS), STATES)


def enumerated(mdp: MDP, policy: Any) -> Particles:
    """The exact return distributions [S, A, n] of an MDP without cycles."""
    eta = Particles(np.zeros((STATES, ACTIONS, 1)))
    for _ in range(STATES - 1):
        eta = exact_backup(mdp, policy, eta)
    return eta


def points(mu: Particles) -> np.ndarray:
    """Where to compare integrated CDFs: around and all along the distributions."""
    low, high = mu.atoms.min(axis=-1) - 0.1, mu.atoms.max(axis=-1) + 0.1
    return np.linspace(low, high, 301, axis=-1)


@pytest.mark.parametrize(("seed", "gamma"), [(0, 0.9), (1, 0.5), (2, 1.0), (3, 0.0)])
def test_the_truth_lies_between_the_bounds(seed: int, gamma: float) -> None:
    """lower <= exact <= upper in the convex order, |P - P_exact| <= error everywhere, and equal
    means.
    """
    mdp, policy = acyclic(seed, gamma), random_policy(seed)
    exact, found = enumerated(mdp, policy), return_distributions(mdp, policy, atoms=ATOMS)
    x = points(exact)
    below, middle, above = (
        integrated_cdf(mu, x) for mu in (found.lower, found.particles, found.upper)
    )
    true = integrated_cdf(exact, x)
    assert (below <= true + ROUNDING).all()
    assert (true <= above + ROUNDING).all()
    assert (np.abs(middle - true) <= found.error[..., None] + ROUNDING).all()
    assert (integrated_cdf_distance(found.particles, exact) <= found.error + ROUNDING).all()
    assert found.error.max() < 0.02
    assert (found.error[-1] == 0).all()
    np.testing.assert_allclose(found.means, exact.mean(), atol=ROUNDING)
    for mu in (found.lower, found.particles, found.upper):
        assert isinstance(mu.atoms, np.ndarray)
        assert mu.atoms.dtype == np.float64
        np.testing.assert_allclose(mu.mean(), found.means, atol=ROUNDING)


def test_brackets_contain_the_true_expectiles() -> None:
    mdp, policy, family = acyclic(0), random_policy(0), Expectiles((0.05, 0.5, 0.9))
    found = return_distributions(mdp, policy, atoms=ATOMS)
    low, high = found.bracket(family)
    true = family.evaluate(enumerated(mdp, policy))
    assert (low <= true + ROUNDING).all()
    assert (true <= high + ROUNDING).all()
    np.testing.assert_allclose(high[..., 1], low[..., 1], atol=ROUNDING)  # the mean is exact
    assert (high - low)[..., 0].max() > 1e-5  # the others are not


def test_the_error_shrinks_with_the_number_of_atoms() -> None:
    """As 1/n^2: four times the atoms leave about a sixteenth of the error, or a quarter at the very
    least.
    """
    mdp, policy = acyclic(0), random_policy(0)
    coarse, fine = (
        return_distributions(mdp, policy, atoms=n).error.max() for n in (ATOMS, 4 * ATOMS)
    )
    assert 0 < fine <= coarse / 4


def test_a_tolerance_that_is_met_ends_the_iterations() -> None:
    mdp, policy = acyclic(0), random_policy(0)
    found = return_distributions(mdp, policy, atoms=ATOMS, tolerance=1.0)
    assert found.iterations <= convex_bounds._SWEEPS_AT_ONCE
    few = return_distributions(mdp, policy, atoms=ATOMS, max_iterations=2)
    assert few.iterations == 2
    # However few the iterations, the truth is in between.
    assert (
        integrated_cdf_distance(few.particles, enumerated(mdp, policy)) <= few.error + ROUNDING
    ).all()


def test_another_policy_has_other_returns() -> None:
    mdp = acyclic(0)
    first, second = (return_distributions(mdp, random_policy(seed), atoms=ATOMS) for seed in (0, 1))
    exact = enumerated(mdp, random_policy(1))
    assert (integrated_cdf_distance(second.particles, exact) <= second.error + ROUNDING).all()
    assert (integrated_cdf_distance(first.particles, exact) > first.error)[0].any()


def test_outcomes_in_parts_are_outcomes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp, policy = acyclic(0), random_policy(0)
    whole = return_distributions(mdp, policy, atoms=ATOMS)
    monkeypatch.setattr(convex_bounds, "_ATOMS_AT_ONCE", 10 * ATOMS)  # 10 of the 50 outcomes
    parts = return_distributions(mdp, policy, atoms=ATOMS)
    # Nodes are placed by the roots of masses, so rounding of 1e-17 moves them by 1e-9.
    assert integrated_cdf_distance(whole.particles, parts.particles).max() <= 1e-9


def test_continuous_rewards_without_discounting() -> None:
    """control_mdp: returns are E and 1.85 - E with E exponential, whose integrated CDFs are known."""
    mdp = control_mdp(reward_atoms=16)
    found = return_distributions(mdp, 0, atoms=ATOMS)
    assert (found.error[0] >= mdp.discretisation_error[3:5, 0]).all()
    for action, distribution in enumerate((Exponential(), Exponential(shift=1.85, reflected=True))):
        x = np.linspace(-6, 8, 501)
        difference = np.abs(
            integrated_cdf(found.particles[0, action], x) - distribution.integrated_cdf(x)
        )
        assert difference.max() <= found.error[0, action] + ROUNDING
        assert found.error[0, action] < 0.05
    np.testing.assert_allclose(found.means[0], [1.0, 0.85], atol=ROUNDING)


def test_an_undiscounted_walk_of_random_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight states that are left with probability 1/20, the last of which then pays E: that is the
    return of all.

    The error of the discretised distribution counts in full, however late it is paid. And
    iterations go on until the news from the end have come all the way, although the largest error
    stays the same so long.
    """
    monkeypatch.setattr(convex_bounds, "_SWEEPS_AT_ONCE", 1)
    lists = [[[(0.05, x + 1, Exponential() if x == 7 else 0.0), (0.95, x, 0.0)]] for x in range(8)]
    mdp = MDP.from_lists([*lists, []], 1.0, reward_atoms=2)
    found = return_distributions(mdp, 0, atoms=8)
    x = np.linspace(0, 10, 501)
    difference = np.abs(
        integrated_cdf(found.particles[0, 0], x) - Exponential().integrated_cdf(x)
    ).max()
    coarse = Exponential().integrated_cdf_error(2)
    assert difference <= found.error[0, 0] + ROUNDING
    assert 0.9 * coarse < difference
    assert found.error[0, 0] < coarse + 0.1


def test_the_fifteen_chain() -> None:
    """The mean of the mixture is exact, and what is left of the error small next to the spread of
    the return.
    """
    mdp = n_chain(15)
    found = return_distributions(mdp, 0, atoms=128)
    np.testing.assert_allclose(found.particles.mean(), solve_moments(mdp, 0, 1)[..., 0], atol=1e-11)
    variance = solve_moments(mdp, 0, 2)[0, 0] @ [0, 1] - found.means[0, 0] ** 2
    assert found.lower.variance()[0, 0] <= variance <= found.upper.variance()[0, 0]
    assert found.error.max() < 0.001 * np.sqrt(variance)


def test_ranges_are_the_extremes_of_enumerated_returns() -> None:
    for gamma in (0.0, 0.9, 1.0):
        mdp, policy = acyclic(5, gamma), random_policy(5)
        exact = enumerated(mdp, policy)
        low, high = return_range(mdp, policy)
        np.testing.assert_allclose(low, exact.atoms.min(axis=-1), atol=ROUNDING)
        np.testing.assert_allclose(high, exact.atoms.max(axis=-1), atol=ROUNDING)


def test_ranges_of_endless_returns_are_geometric_series() -> None:
    """From state 0, rewards 1 for ever or until the end; a little wider, never narrower, also for
    gamma near 1.
    """
    for gamma, slack in ((0.9, 1e-10), (0.9999, 1 / (1 - 0.9999))):
        mdp = MDP.from_lists([[[(0.9, 0, 1.0), (0.1, 1, -1.0)]], []], gamma)
        low, high = return_range(mdp, 0)
        assert 1 / (1 - gamma) * (1 - 1e-14) <= high[0, 0] <= 1 / (1 - gamma) + slack
        assert -1 - slack <= low[0, 0] <= -1
        assert low[1, 0] == high[1, 0] == 0


def test_undiscounted_cycles_that_do_not_pay_are_no_obstacle() -> None:
    """0 -> 1 pays 1 and 1 -> 0 takes it back: the return is 5 from either end, or 6 or 4."""
    mdp = MDP.from_lists(
        [[[(0.5, 1, 1.0), (0.5, 2, 5.0)]], [[(0.5, 0, -1.0), (0.5, 2, 5.0)]], []], 1.0
    )
    low, high = return_range(mdp, 0)
    assert low[:, 0].tolist() == [5.0, 4.0, 0.0]
    assert high[:, 0].tolist() == [6.0, 5.0, 0.0]


def test_unbounded_returns_are_refused() -> None:
    mdp = MDP.from_lists([[[(0.5, 0, 1.0), (0.5, 1, 0.0)]], []], 1.0)
    with pytest.raises(ValueError, match="returns are unbounded"):
        return_distributions(mdp, 0)


def test_bad_arguments_are_named() -> None:
    mdp = acyclic(0)
    for options, message in (
        ({"atoms": 1}, r"atoms( is |.* got )1"),
        ({"tolerance": -1.0}, r"tolerance( is |.* got )-1"),
        ({"max_iterations": 0}, r"max_iterations( is |.* got )0"),
    ):
        with pytest.raises(ValueError, match=message):
            return_distributions(mdp, 0, **options)
    for options, message in (
        ({"episodes": 0}, r"episodes( is |.* got )0"),
        ({"state": 4}, r"state( is |.* got )4"),
        ({"action": -1}, r"action( is |.* got )-1"),
        ({"truncation": 0.0}, r"truncation( is |.* got )0"),
    ):
        with pytest.raises(ValueError, match=message):
            rollouts(mdp, 0, **{"episodes": 10, **options})


EPISODES = 10_000
DKW = np.sqrt(
    np.log(2 / 1e-9) / (2 * EPISODES)
)  # sup |F_n - F| is larger with probability below 1e-9


@pytest.mark.parametrize(("state", "action"), [(None, None), (1, None), (0, 1)])
def test_rollouts_are_draws_from_the_return_distribution(
    state: int | None, action: int | None
) -> None:
    """The Dvoretzky-Kiefer-Wolfowitz inequality, and the mean within 5 standard errors."""
    mdp, policy = acyclic(0), random_policy(0)
    sampled = rollouts(mdp, policy, EPISODES, state=state, action=action)
    assert sampled.atoms.shape == (EPISODES,)
    assert sampled.atoms.dtype == np.float64
    start = mdp.start if state is None else np.eye(STATES)[state]
    first = policy if action is None else np.eye(ACTIONS)[np.full(STATES, action)]
    exact = enumerated(mdp, policy)
    weights = start[:, None] * first
    expected = Particles(exact.atoms.ravel(), (weights[..., None] * exact.probs).ravel())
    # Equal returns come out of different sums: compare just beside the atoms.
    rounded = (
        Particles(np.round(sampled.atoms, 9)),
        Particles(np.round(expected.atoms, 9), expected.probs),
    )
    assert kolmogorov_smirnov(*rounded) <= DKW
    assert abs(sampled.mean() - expected.mean()) <= 5 * expected.std() / np.sqrt(EPISODES)
    other = Particles(np.round(enumerated(mdp, random_policy(3))[1, 0].atoms, 9), exact[1, 0].probs)
    assert kolmogorov_smirnov(rounded[0], other) > DKW  # the test can tell distributions apart


def test_rollouts_repeat_with_their_seed() -> None:
    mdp, policy = acyclic(0), random_policy(0)
    first, again, other = (rollouts(mdp, policy, EPISODES, seed).atoms for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def loop_or_draw(gamma: float) -> MDP:
    """State 0 pays 1 for ever, state 1 pays a normal reward and ends."""
    return MDP.from_lists(
        [[[(1.0, 0, 1.0)]], [[(1.0, 2, Normal(1.0, 2.0))]], []], gamma, reward_atoms=4
    )


def test_rollouts_of_endless_episodes_are_truncated_where_little_is_left() -> None:
    """A reward of 1 for ever: 1/(1 - gamma) less at most the truncation."""
    for gamma, truncation in ((0.9, 1e-2), (0.9, 1e-6), (0.0, 1e-6)):
        returns = rollouts(loop_or_draw(gamma), 0, EPISODES, state=0, truncation=truncation).atoms
        assert ((1 / (1 - gamma) - truncation <= returns) & (returns <= 1 / (1 - gamma))).all()


def test_rollouts_begin_though_little_is_asked_for() -> None:
    """Truncated where *less* than the share is left: at the first step all of it is."""
    mdp = MDP.from_lists([[[(1.0, 1, 5.0)]], []], 0.0)
    assert rollouts(mdp, 0, 3, truncation=1.0).atoms.tolist() == [5.0] * 3


def test_rollouts_draw_continuous_rewards_themselves() -> None:
    """Not their discretisation: all draws differ, and fit the distribution."""
    returns = rollouts(loop_or_draw(0.9), 0, EPISODES, state=1).atoms
    assert len(np.unique(returns)) == EPISODES
    assert stats.kstest(returns, stats.norm(1.0, 2.0).cdf).statistic <= DKW


def test_values_of_the_truth_are_those_of_its_particles() -> None:
    mdp, policy = acyclic(0), random_policy(0)
    found = return_distributions(mdp, policy, atoms=ATOMS)
    np.testing.assert_allclose(found.values(Mean())[..., 0], found.means, atol=ROUNDING)


def test_progress_is_shown_only_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    mdp, policy = acyclic(0), random_policy(0)
    return_distributions(mdp, policy, atoms=ATOMS)
    assert capsys.readouterr() == ("", "")
    return_distributions(mdp, policy, atoms=ATOMS, progress=True)
    assert "return distributions" in capsys.readouterr().err


def test_brackets_hold_a_finer_truth() -> None:
    """Quantiles are not monotone in the convex order: theirs are where P may have its supporting
    line.
    """
    mdp = garnet(0, 4, 2, 2, 0.9, max_reward=0.1)
    coarse, fine = (return_distributions(mdp, "uniform", atoms=atoms) for atoms in (32, 256))
    for family in (Quantiles(9), Expectiles(9), Categorical(np.linspace(-1, 1, 9)), Mean()):
        low, high = coarse.bracket(family)
        least, greatest = fine.bracket(family)  # between which the truth lies
        assert (low <= greatest + ROUNDING).all()
        assert (least <= high + ROUNDING).all()
        values = np.asarray(fine.values(family))
        assert np.mean((low - ROUNDING <= values) & (values <= high + ROUNDING)) > 0.99
    with pytest.raises(ValueError, match="no bracket"):
        coarse.bracket(Moments(2))


@pytest.mark.usefixtures("without_shape_checks")
def test_counts_may_be_whole_floats_and_places_must_be_whole() -> None:
    chain = n_chain(4)
    few = return_distributions(chain, 0, atoms=64.0).upper  # type: ignore[arg-type]
    np.testing.assert_array_equal(few.atoms, return_distributions(chain, 0, atoms=64).upper.atoms)
    assert rollouts(chain, 0, 3.0).size == 3  # type: ignore[arg-type]
    for name in ("state", "action"):
        with pytest.raises(ValueError, match=f"{name} must .* got 0.5"):
            rollouts(chain, 0, 3, **{name: 0.5})


def test_undiscounted_ranges_end_with_the_longest_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sweeps for states that all end in one step, however many there are."""
    states, sweeps = 200, [0]
    mdp = MDP.from_lists([*([[(1.0, states, float(x))]] for x in range(states)), []], 1.0)
    original = _Backup.of_states

    def counted(*args: Any) -> Any:
        sweeps[0] += 1
        return original(*args)

    monkeypatch.setattr(_Backup, "of_states", counted)
    low, high = return_range(mdp, 0)
    np.testing.assert_array_equal(low[:-1, 0], np.arange(states))
    np.testing.assert_array_equal(high, low)
    assert sweeps[0] <= 4
