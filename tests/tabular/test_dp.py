"""Dynamic programming: what evaluation and control converge to, against independent solutions."""

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edrl.core.families import (
    Categorical,
    Expectiles,
    HuberQuantiles,
    Mean,
    Moments,
    Quantiles,
    midpoints,
)
from edrl.core.metrics import statistic_error
from edrl.core.particles import Particles
from edrl.core.risk import CVaR, ExpectedReturn
from edrl.core.statistics import Statistics
from edrl.tabular import dp
from edrl.tabular.bellman import solve_moments
from edrl.tabular.ground_truth import return_distributions
from edrl.tabular.mdp import MDP
from edrl.tabular.policy import as_policy
from edrl.tabular.problems import PROBLEMS, control_mdp, garnet, n_chain
from edrl.tabular.rewards import Normal

EDRL = Expectiles(11)
NAIVE = Expectiles(11, imputation="as_samples")
WIDE = Categorical(
    np.linspace(-101, 101, 12)
)  # beyond 1/(1 - gamma) for gamma = 0.99 and rewards in [-1, 1]

# Families whose mean is learnt exactly come first: Lemma 4.8 (i) and the 1/2-expectile.
EXACT_MEANS: dict[str, Statistics] = {
    "mean": Mean(),
    "moments": Moments(1),
    "categorical": WIDE,
    "EDRL": EDRL,
}
OTHERS: dict[str, Statistics] = {
    "quantiles": Quantiles(11),
    "huber": HuberQuantiles(5),
    "naive": NAIVE,
}


def dense(mdp: MDP) -> tuple[np.ndarray, np.ndarray]:
    """Transition probabilities [S, A, S] and expected rewards [S, A], those of terminal states
    zero.
    """
    transitions = np.zeros((mdp.num_states, mdp.num_actions, mdp.num_states))
    for x, a, b in np.ndindex(mdp.probs.shape):
        transitions[x, a, mdp.successors[x, a, b]] += 0 if mdp.terminal[x] else mdp.probs[x, a, b]
    means = np.sum(mdp.rewards.atoms * mdp.rewards.probs, axis=-1)
    return transitions, np.sum(means * mdp.probs, axis=-1)


def q_values(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """Q^pi [S, A] for a policy [S, A], by a dense linear system (Equation (1))."""
    transitions, rewards = dense(mdp)
    chain = np.einsum("xa,xay->xy", policy, transitions)
    v = np.linalg.solve(
        np.eye(mdp.num_states) - mdp.gamma * chain, np.sum(policy * rewards, axis=-1)
    )
    return rewards + mdp.gamma * transitions @ v


def value_iteration(mdp: MDP) -> np.ndarray:
    """Q* [S, A], by classical value iteration to the last bit."""
    transitions, rewards = dense(mdp)
    q = np.zeros_like(rewards)
    for _ in range(20_000):
        before, q = q, rewards + mdp.gamma * transitions @ q.max(axis=-1)
        if np.abs(q - before).max() < 1e-14:
            break
    return q


def choice(first: Particles | float, second: Particles | float, gamma: float = 0.9) -> MDP:
    """x0 -> x1 by either action; there, the action chooses between two rewards and the end."""
    lists = [[[(1.0, 1, 0.0)]] * 2, [[(1.0, 2, first)], [(1.0, 2, second)]], []]
    return MDP.from_lists(lists, gamma)


@pytest.fixture(scope="module")
def chain() -> MDP:
    return n_chain(15)


CHAINS = {"n_chain": PROBLEMS["n_chain"], "dull chain": lambda: n_chain(15, goal=-0.5, gamma=0.9)}
CASES = [
    *((name, problem) for problem in CHAINS for name in [*EXACT_MEANS, *OTHERS]),
    *((name, "qdrl_not_uniform") for name in ("mean", "moments", "categorical", "quantiles")),
]


@pytest.mark.parametrize(("name", "problem"), CASES)
def test_evaluation_converges_to_a_fixed_point_of_the_imputed_backup(
    name: str, problem: str
) -> None:
    """Lemma 4.8 and Section 4.3: its means are exact for CDRL on a covering support, EDRL, and
    moments.
    """
    mdp, family = (PROBLEMS | CHAINS)[problem](), (EXACT_MEANS | OTHERS)[name]
    solution = dp.evaluate(mdp, 0, family, tolerance=1e-10)
    assert solution.converged
    assert solution.residuals[-1] <= 1e-10
    assert len(solution.residuals) == solution.iterations
    assert isinstance(solution.values, np.ndarray)
    assert solution.values.dtype == np.float64
    assert solution.values.shape == (mdp.num_states, mdp.num_actions, family.size)
    again = dp.evaluate(mdp, 0, family, tolerance=1e-10, initial=solution.values, max_iterations=1)
    assert again.residuals[0] <= 1e-10 * (1 + 1e-6)
    if name in EXACT_MEANS:
        policy = np.eye(mdp.num_actions)[np.zeros(mdp.num_states, int)]
        # The means contract by gamma, and last moved by no more than the statistics that they sum.
        moved = 1e-10 * (WIDE.support[-1] - WIDE.support[0] if family is WIDE else 1.0)
        exact = q_values(mdp, policy)
        np.testing.assert_allclose(solution.means(), exact, rtol=0, atol=moved / (1 - mdp.gamma))


def test_moments_are_learnt_exactly() -> None:
    """Lemma 4.2: they are Bellman closed, whatever distribution is imputed from them.

    Once all have last moved by tol, e_j <= (tol + sum over m of C(j, m) gamma^(j-m) |R|^m e_{j-m})
    / (1 - gamma^j).
    """
    k, tolerance, mdp = 4, 1e-11, n_chain(15, gamma=0.9)
    solution = dp.evaluate(mdp, 0, Moments(k), tolerance=tolerance)
    errors = [0.0]
    for j in range(1, k + 1):
        coupled = sum(
            math.comb(j, m) * mdp.gamma ** (j - m) * errors[j - m] for m in range(1, j + 1)
        )
        errors.append((tolerance + coupled) / (1 - mdp.gamma**j))
    assert (np.abs(solution.values - solve_moments(mdp, 0, k)) <= errors[1:]).all()
    assert errors[-1] < 1e-6


def test_quantiles_do_not_learn_the_mean(chain: MDP) -> None:
    """Lemma 4.8 (ii)."""
    wrong = dp.evaluate(chain, 0, Quantiles(11)).means() - solve_moments(chain, 0, 1)[..., 0]
    assert np.abs(wrong).max() > 0.1


def test_expected_returns_of_a_random_policy_are_exact() -> None:
    mdp = garnet(1, states=8, actions=3, branching=3)
    policy = np.random.default_rng(1).dirichlet(np.ones(3), 8)
    for family in (Mean(), Categorical(np.linspace(-10, 10, 5))):
        means = dp.evaluate(mdp, policy, family, tolerance=1e-13).means()
        np.testing.assert_allclose(
            means, q_values(mdp, policy), rtol=0, atol=20 * 1e-13 / (1 - mdp.gamma)
        )


def test_imputation_keeps_expectiles_that_the_naive_backup_loses(chain: MDP) -> None:
    """Figures 4 and 5: at x0 of the 15-chain, EDRL-Naive is off by more than 1, EDRL by about 0.02."""
    truth = return_distributions(chain, 0, atoms=128)
    low, high = (end[0, 0] for end in truth.bracket(EDRL))
    errors = []
    for family in (EDRL, NAIVE):
        learnt = dp.evaluate(chain, 0, family).values[0, 0]
        # The error is known up to the width of the truth's bracket.
        errors.append([statistic_error(learnt, end) for end in (low, high)])
    doubt = np.mean(high - low)
    (edrl, naive), slack = np.mean(errors, axis=-1), doubt / 2
    assert edrl < 0.03 + slack
    assert naive > 1 - slack
    assert naive - slack > 10 * (edrl + slack)


def test_residuals_of_the_mean_fall_by_gamma(chain: MDP) -> None:
    """The Bellman operator contracts by gamma in the largest difference, up to the rounding of
    values.
    """
    solution = dp.evaluate(chain, "uniform", Mean(), tolerance=1e-8)
    rounding = 4 * np.finfo(np.float64).eps * np.abs(solution.values).max()
    assert (solution.residuals[1:] <= chain.gamma * solution.residuals[:-1] + rounding).all()


def test_iterations_stop_at_the_maximum_and_go_on_from_there(chain: MDP) -> None:
    """Also across the blocks in which sweeps are compiled; k sweeps then m are k + m sweeps."""
    at_once = dp.evaluate(chain, 0, Mean(), tolerance=0.0, max_iterations=67)
    assert not at_once.converged
    assert at_once.iterations == len(at_once.residuals) == 67
    first = dp.evaluate(chain, 0, Mean(), tolerance=0.0, max_iterations=64)
    then = dp.evaluate(chain, 0, Mean(), tolerance=0.0, max_iterations=3, initial=first.values)
    np.testing.assert_array_equal(then.values, at_once.values)
    np.testing.assert_array_equal(
        np.concatenate([first.residuals, then.residuals]), at_once.residuals
    )
    one = dp.evaluate(chain, 0, Mean(), max_iterations=1)
    np.testing.assert_allclose(one.values[..., 0], dense(chain)[1], atol=1e-15)


def test_the_first_sweep_backs_up_the_initial_values(chain: MDP) -> None:
    initial = np.random.default_rng(0).normal(size=(15, 2, 1))
    solution = dp.evaluate(chain, 0, Mean(), initial=initial, max_iterations=1)
    transitions, rewards = dense(chain)
    following = np.where(chain.terminal, 0, initial[:, 0, 0])
    np.testing.assert_allclose(
        solution.values[..., 0], rewards + 0.99 * transitions @ following, rtol=0, atol=1e-14
    )


def test_what_diverges_stops_without_convergence(chain: MDP) -> None:
    """Values that overflow end as NaN, which no further sweep can mend.

    It is said, unless sweeps were asked for.
    """
    with pytest.warns(
        UserWarning,
        match=r"sweeps have not settled the statistics: the last one changed them by nan",
    ):
        solution = dp.evaluate(chain, 0, Mean(imputation=magnified))
    assert not solution.converged
    assert not dp.evaluate(chain, 0, Mean(imputation=magnified), max_iterations=500).converged
    assert solution.iterations < 1000


def magnified(family: Statistics, values: Any) -> Particles:
    return Particles(10 * values)


def test_a_warning_names_the_line_that_asked(tmp_path: Path) -> None:
    """In a process of its own: the checks of annotations are calls between it and the warning."""
    script = tmp_path / "asks.py"
    script.write_text(
        "import edrl\n"
        "from edrl.tabular import dp, problems\n"
        "grows = edrl.Mean(imputation=lambda _, values: edrl.Particles(10 * values))\n"
        "dp.evaluate(problems.n_chain(4), 0, grows)\n"
    )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert f"{script}:4: UserWarning" in run.stderr


@pytest.mark.usefixtures("without_shape_checks")
def test_bad_arguments_are_named(chain: MDP) -> None:
    with pytest.raises(ValueError, match=r"initial.shape( is |.* got )\(15, 2\)"):
        dp.evaluate(chain, 0, Mean(), initial=np.zeros((15, 2)))
    initial = np.zeros((15, 2, 1))
    initial[3, 1] = np.inf
    with pytest.raises(ValueError, match=r"initial\[3, 1, 0\]( is |.* got )inf"):
        dp.evaluate(chain, 0, Mean(), initial=initial)
    with pytest.raises(ValueError, match=r"tolerance( is |.* got )-1"):
        dp.evaluate(chain, 0, Mean(), tolerance=-1.0)
    with pytest.raises(ValueError, match=r"max_iterations( is |.* got )0"):
        dp.control(chain, Mean(), max_iterations=0)
    with pytest.raises(ValueError, match=r"epsilon( is |.* got )1\.5"):
        dp.control(chain, Mean(), epsilon=1.5)
    with pytest.raises(
        ValueError, match=r"family must be an object of edrl\.Statistics.*, got 'EDRL'"
    ):
        dp.evaluate(chain, 0, "EDRL")
    with pytest.raises(ValueError, match=r"family( is |.* got )0"):
        dp.evaluate(chain, Mean(), 0)
    with pytest.raises(ValueError, match=r"risk( is |.* got )'cvar'"):
        dp.control(chain, Mean(), risk="cvar")


def test_equal_shapes_share_one_compilation(chain: MDP) -> None:
    dp.evaluate(chain, 0, Mean())
    dp.control(chain, Mean(), epsilon=0.1)
    compiled = dp._sweeps._cache_size()
    dp.evaluate(n_chain(15, goal=2.0, gamma=0.5), 1, Mean(), tolerance=1e-3, max_iterations=7)
    dp.evaluate(chain, np.ones(15, int), Mean(), initial=np.ones((15, 2, 1)))
    dp.control(chain, Mean(), epsilon=0.3, tolerance=1e-4)
    assert dp._sweeps._cache_size() == compiled


def test_progress_is_shown_only_when_asked_for(
    chain: MDP, capsys: pytest.CaptureFixture[str]
) -> None:
    dp.evaluate(chain, 0, Mean())
    assert capsys.readouterr() == ("", "")
    dp.evaluate(chain, 0, Mean(), progress=True)
    assert "dynamic programming" in capsys.readouterr().err


def test_nothing_is_learnt_where_all_states_are_terminal_or_the_future_does_not_count() -> None:
    end = MDP.from_lists([[]], 1.0)
    solution = dp.evaluate(end, 0, Mean(), initial=np.ones((1, 1, 1)))
    assert solution.values == 0
    myopic = garnet(0, states=8, actions=3, branching=3, gamma=0.0)
    solution = dp.evaluate(myopic, "uniform", Mean())
    assert solution.iterations <= 2
    np.testing.assert_allclose(solution.means(), dense(myopic)[1], atol=1e-14)


@pytest.mark.parametrize(
    ("family", "action"),
    [(EDRL, 0), (Categorical((0.0, 1.0, 2.0)), 1), (Quantiles(3), 1)],
    ids=["EDRL", "CDRL", "QDRL"],
)
def test_only_edrl_chooses_the_better_action(family: Statistics, action: int) -> None:
    """Section 5.2, Figure 7: expected returns are 1 and 0.85; CDRL and QDRL misjudge the
    exponential tails.
    """
    solution = dp.control(control_mdp(reward_atoms=64), family)
    assert solution.converged
    assert solution.policy.actions[0, 0] == action
    if family is EDRL:
        np.testing.assert_allclose(solution.means()[0], [1.0, 0.85], atol=1e-12)


def frozen_lake() -> MDP:
    return MDP.from_gymnasium("FrozenLake-v1", 0.95)


@pytest.mark.parametrize("make", [lambda: garnet(2), frozen_lake], ids=["garnet", "FrozenLake"])
def test_control_of_the_mean_is_value_iteration(make: Callable[[], MDP]) -> None:
    mdp = make()
    solution = dp.control(mdp, Mean(), tolerance=1e-12)
    assert solution.converged
    optimal = value_iteration(mdp)
    np.testing.assert_allclose(solution.means(), optimal, rtol=0, atol=1e-12 / (1 - mdp.gamma))
    chosen = np.take_along_axis(optimal, solution.policy.actions, axis=1)[:, 0]
    np.testing.assert_allclose(chosen, optimal.max(axis=-1), rtol=0, atol=1e-12 / (1 - mdp.gamma))
    assert (solution.policy.probs == 1).all()


def test_greedy_follows_one_action_not_the_best_of_each_statistic() -> None:
    """The wide distribution has the highest upper quantiles, the certain reward the higher mean:
    only it is backed up.
    """
    wide = Particles(np.array([-1.0, 1.0]))
    solution = dp.control(choice(wide, Particles(np.array([0.1, 0.1]))), Quantiles(10))
    np.testing.assert_allclose(solution.values[0], 0.9 * 0.1, atol=1e-12)
    assert solution.values[1].max() == 1  # a maximum over actions would have found this one


def test_risk_changes_the_choice() -> None:
    """Mean 1 with a loss of 1 possible, or 0.9 for certain: the mean prefers the former, CVaR the
    latter.
    """
    mdp = choice(Particles(np.array([-1.0, 3.0])), Particles(np.array([0.9, 0.9])))
    for risk, action in ((None, 0), (ExpectedReturn(), 0), (CVaR(0.2), 1)):
        solution = dp.control(mdp, Quantiles(10), risk=risk)
        assert solution.policy.actions[1, 0] == action
        np.testing.assert_allclose(solution.means()[0], 0.9 * [1.0, 0.9][action], atol=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0])
def test_sarsa_values_are_those_of_the_soft_policy_it_finds(chain: MDP, epsilon: float) -> None:
    """The fixed point evaluates its own policy: best action with 1 - epsilon + epsilon/A, others
    epsilon/A.
    """
    solution = dp.control(chain, Mean(), epsilon=epsilon, tolerance=1e-12)
    policy = solution.policy.dense(2)
    assert solution.converged
    np.testing.assert_allclose(np.sort(policy, axis=-1)[:, 0], epsilon / 2, atol=1e-15)
    np.testing.assert_allclose(policy.sum(axis=-1), 1, atol=1e-15)
    np.testing.assert_allclose(
        solution.means(), q_values(chain, policy), atol=1e-12 / (1 - chain.gamma)
    )
    if epsilon < 1:
        best = solution.means().argmax(axis=-1)
        assert (policy.argmax(axis=-1) == best).all()


def test_greedy_policy_of_given_values() -> None:
    """Ties go to the first action; the result is a policy in NumPy's float64, in and out of
    `as_policy`.
    """
    values = np.array([[[0.0], [1.0]], [[2.0], [2.0]]])
    greedy = dp.greedy_policy(Mean(), values)
    assert greedy.actions.tolist() == [[1], [0]]
    assert greedy.probs.dtype == np.float64
    soft = dp.greedy_policy(Mean(), values, epsilon=0.2)
    np.testing.assert_allclose(soft.dense(2), [[0.1, 0.9], [0.9, 0.1]], atol=1e-15)
    two_states = MDP.from_lists([[[(1.0, 1, 0.0)], [(1.0, 1, 1.0)]], []], 0.9)
    assert as_policy(two_states, soft) is soft


def test_distributions_of_a_solution_have_its_statistics() -> None:
    mdp, family = (
        choice(Particles(np.array([-1.0, 3.0])), Particles(np.array([0.9, 0.9]))),
        Quantiles(10),
    )
    solution = dp.control(mdp, family)
    np.testing.assert_array_equal(family.evaluate(solution.distributions()), solution.values)


def test_continuous_rewards_are_evaluated_at_their_exact_mean() -> None:
    mdp = n_chain(4, goal=Normal(0.7, 2.0), reward_atoms=8)
    exact = n_chain(4, goal=0.7)
    policy = np.eye(2)[np.zeros(4, int)]
    np.testing.assert_allclose(
        dp.evaluate(mdp, 0, Mean()).means(), q_values(exact, policy), atol=1e-7
    )


def test_tiny_and_huge_returns_settle_as_others_do() -> None:
    """To the same number of digits: no sweep too few at rewards of 1e-10, and not for ever at 1e8,
    where a unit in the last place is more than the tolerance."""
    unit = [[[(0.5, 0, -1.0), (0.5, 1, 3.3)]], [[(0.7, 0, 1 / 3), (0.3, 2, 0.0)]], []]
    expected = dp.evaluate(MDP.from_lists(unit, 0.97), 0, Expectiles(3)).values
    for scale in (1e-10, 1.0, 1e8):
        lists = [
            [[(p, y, scale * r) for p, y, r in listed] for listed in actions] for actions in unit
        ]
        mdp = MDP.from_lists(lists, 0.97)
        solution = dp.evaluate(mdp, 0, Expectiles(3))
        assert solution.converged
        np.testing.assert_allclose(solution.values / scale, expected, rtol=1e-6, atol=1e-7)
    moments = dp.evaluate(MDP.from_lists(unit, 0.97), 0, Moments(8))  # the eighth is 4e9
    assert moments.converged
    np.testing.assert_allclose(
        moments.values, solve_moments(MDP.from_lists(unit, 0.97), 0, 8), rtol=1e-9, atol=1e-6
    )


def test_values_that_vanish_settle_too() -> None:
    """From values of 1, where nothing is paid: the scale is that of what has been, or they would
    shrink for ever.
    """
    mdp = MDP.from_dense(np.ones((1, 1, 1)), np.zeros((1, 1)), 0.9, terminal=[])
    solution = dp.evaluate(mdp, 0, Mean(), initial=np.ones((1, 1, 1)))
    assert solution.converged
    assert solution.iterations < 250


def test_what_cycles_for_ever_is_stopped_and_named() -> None:
    # Rare large returns, on which the default imputation never settles (the paper's `restless`).
    ways = [(0.98, 0, -0.1), (0.015, 1, 0.0), (0.005, 2, 0.0)]
    restless = Expectiles(midpoints(9))
    mdp = MDP.from_lists([[ways], [[(1.0, 1, 0.1)]], [[(1.0, 2, -0.1)]]], 0.9)
    with pytest.warns(UserWarning, match=r"1,\d\d\d sweeps .*, and the changes no longer shrink"):
        found = dp.evaluate(mdp, 0, restless)
    assert not found.converged
    assert found.iterations == len(found.residuals) < 1_100
    asked = dp.evaluate(mdp, 0, restless, max_iterations=1_500)
    assert asked.iterations == 1_500  # whoever asks for a number of sweeps gets it


@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.99])
def test_only_what_no_longer_shrinks_has_stalled(gamma: float) -> None:
    sweeps = np.arange(10_000)
    horizon = 1 / (1 - gamma)
    window = max(500, round(20 * horizon))
    halving_in_time = 0.5 ** (sweeps / window)  # the slowest that is spared
    late_peak = np.where(sweeps < horizon, 1e-3, gamma**sweeps)
    switch = np.where(sweeps < window, gamma**sweeps, gamma ** (sweeps - window))
    for residuals in (gamma**sweeps, halving_in_time, late_peak, switch * halving_in_time):
        for count in range(64, 10_001, 64):
            assert not dp.has_stalled(residuals[:count], gamma)
    cycle = 1e-3 * (2 + np.sin(sweeps))
    assert not dp.has_stalled(cycle[: 2 * window - 1], gamma)
    assert dp.has_stalled(cycle[: 2 * window], gamma)
    assert not dp.has_stalled(cycle, 1.0)  # without discounting there is no horizon
