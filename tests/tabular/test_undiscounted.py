"""gamma = 1: returns of policies that end with probability one, and clear words for others."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from edrl.core.families import Expectiles, Mean
from edrl.core.metrics import kolmogorov_smirnov
from edrl.tabular.bellman import solve_moments
from edrl.tabular.dp import control, evaluate
from edrl.tabular.ground_truth import return_distributions
from edrl.tabular.mdp import MDP
from edrl.tabular.return_range import return_range
from edrl.tabular.rollouts import rollouts
from edrl.tabular.td import learn

GO, STAY = 0, 1
EPISODES = 10_000
DKW = np.sqrt(np.log(2 / 1e-9) / (2 * EPISODES))  # exceeded with probability below 1e-9


def lane(reward: float = 0.0) -> MDP:
    """Three states in a row: `GO` moves on or slips back to the first, `STAY` never ends.

    The last step pays 1 or 2.
    """

    def go(x: int) -> list[tuple[float, int, float]]:
        if x == 2:
            return [(0.25, 3, 1.0), (0.5, 3, 2.0), (0.25, 0, reward)]
        return [(0.75, x + 1, reward), (0.25, 0, reward)]

    return MDP.from_lists([*([go(x), [(1.0, x, reward)]] for x in range(3)), []], 1.0)


def test_a_policy_that_ends_has_returns() -> None:
    """Whatever happens before, the return is 1 with probability 1/3 and else 2."""
    mdp = lane()
    solution = evaluate(mdp, GO, Expectiles((0.1, 0.5, 0.9)))
    assert solution.converged
    np.testing.assert_allclose(solution.means()[:3, GO], 5 / 3, atol=1e-8)
    truth = return_distributions(mdp, GO, atoms=32)
    np.testing.assert_allclose(truth.means[:3], 5 / 3, atol=1e-12)
    assert truth.error.max() < 1e-4
    np.testing.assert_allclose(truth.particles[0, GO].cdf([1.0, 1.9]), 1 / 3, atol=1e-3)
    sampled = rollouts(mdp, GO, EPISODES)
    assert abs(float(sampled.cdf([1.0])[0]) - 1 / 3) < DKW
    learnt = learn(mdp, Mean(), GO, steps=20_000, step_size=0.01)
    assert learnt.final()[0, 0, 0, GO, 0] == pytest.approx(5 / 3, abs=0.1)


UNENDING: list[Callable[[MDP, Any], object]] = [
    lambda mdp, policy: evaluate(mdp, policy, Mean()),
    lambda mdp, policy: learn(mdp, Mean(), policy, steps=10, sampling="all"),
    lambda mdp, policy: return_distributions(mdp, policy),
    lambda mdp, policy: return_range(mdp, policy),
    lambda mdp, policy: solve_moments(mdp, policy, 2),
    lambda mdp, policy: rollouts(mdp, policy, 10, state=2),
    lambda mdp, policy: rollouts(mdp, policy, 10, state=1, action=GO),
]


@pytest.mark.parametrize("use", UNENDING)
def test_a_policy_that_never_ends_is_refused(use: Callable[[MDP, Any], object]) -> None:
    """It goes on from states 0 and 1, and stays in state 2."""
    with pytest.raises(ValueError, match=r"never ends from state .*use gamma < 1, or another"):
        use(lane(), [GO, GO, STAY])


def test_where_samples_never_come_a_policy_need_not_end() -> None:
    """State 1 stays where it is, and is not reached from state 0."""
    mdp = MDP.from_lists(
        [[[(1.0, 2, 3.0)], [(1.0, 2, 3.0)]], [[(1.0, 0, 0.0)], [(1.0, 1, 0.0)]], []], 1.0
    )
    policy = [GO, STAY]
    assert rollouts(mdp, policy, 3).atoms.tolist() == [3.0] * 3
    assert learn(mdp, Mean(), policy, steps=100).final()[0, 0, 0, GO, 0] > 2
    assert rollouts(mdp, policy, 3, state=1, action=GO).atoms.tolist() == [3.0] * 3
    with pytest.raises(ValueError, match="from state 1"):
        evaluate(mdp, policy, Mean())


def test_control_finds_the_way_out_where_staying_costs() -> None:
    found = control(lane(-1.0), Expectiles(5))
    assert found.converged
    assert found.policy.actions[:3, 0].tolist() == [GO] * 3
    expected = solve_moments(lane(-1.0), GO, 1)[:3, GO, 0]
    np.testing.assert_allclose(found.means()[:3, GO], expected, atol=1e-6)


def test_control_says_so_if_what_it_finds_never_ends() -> None:
    """Staying is free and comes first: it looks as good as going, though it never gets there."""
    mdp = MDP.from_lists([[[(1.0, 0, 0.0)], [(1.0, 1, 1.0)]], []], 1.0)
    with pytest.raises(ValueError, match="the greedy policy that was found an episode never ends"):
        control(mdp, Mean())


def test_returns_without_bounds_are_still_evaluated_and_sampled() -> None:
    """Each step costs 1, and their number has no bound: the truth names what helps instead."""
    mdp = lane(-1.0)
    with pytest.raises(ValueError, match=r"unbounded.*rollouts"):
        return_distributions(mdp, GO)
    sampled = rollouts(mdp, GO, EPISODES)
    mean = solve_moments(mdp, GO, 1)[0, GO, 0]
    assert abs(sampled.mean() - mean) < 5 * sampled.std() / np.sqrt(EPISODES)
    solution = evaluate(mdp, GO, Expectiles(31))
    assert solution.converged
    assert kolmogorov_smirnov(solution.distributions()[0, GO], sampled) < 0.25
