"""TD(lambda): updates by hand, the mean's own TD(lambda), cuts, and fixed points."""

from typing import Any

import numpy as np
import pytest

from edrl.core.families import Categorical, Expectiles, Mean, Quantiles
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics
from edrl.paper.td_lambda import Paths, fixed_point
from edrl.tabular import dp
from edrl.tabular.mdp import MDP
from edrl.tabular.problems import garnet
from edrl.tabular.td import learn

GAMMA, RATE = 0.9, 0.3
THREE = Expectiles((0.2, 0.5, 0.8))
NAIVE = Expectiles((0.2, 0.5, 0.8), "as_samples")  # its fixed points are far from each other
REWARDS, PROBS, STEPS = np.array([0.0, 3.0]), np.array([0.8, 0.2]), 3


def line() -> MDP:
    """Nothing is random: 0 to 1 to 2 to the end, paying 1, 10 and 100."""
    steps = {x: {0: [(1.0, x + 1, 10.0**x)]} for x in range(3)}
    return MDP.from_lists(steps, gamma=GAMMA)


def chain() -> MDP:
    """Three steps with the same random reward, then the end: the chain of `Paths.of`."""
    rewards = zip(PROBS.tolist(), REWARDS.tolist(), strict=True)
    drawn = list(rewards)
    steps = {x: {0: [(p, x + 1, r) for p, r in drawn]} for x in range(STEPS)}
    return MDP.from_lists(steps, gamma=GAMMA)


@pytest.mark.parametrize("trace", [0.4, 1.0])
def test_a_rollout_is_learnt_from_by_lambda_returns(trace: float) -> None:
    """By hand, over two rollouts of five steps of episodes of three: the second begins where the
    first ended. All returns of a rollout come from the values before it, nothing comes from behind
    the end of an episode, and a pair that was seen twice learns twice.
    """
    values = np.array([2.0, 3.0, 5.0, 0.0])
    expected, states = values.copy(), [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
    for rollout in (states[:5], states[5:]):
        known, after, returns = expected.copy(), 0.0, []
        for place, x in reversed(list(enumerate(rollout))):
            last = place == len(rollout) - 1
            following = known[x + 1] if last else (1 - trace) * known[x + 1] + trace * after
            after = 10.0**x + GAMMA * (0.0 if x == 2 else following)
            returns.append((x, after))
        for x, after in reversed(returns):
            expected[x] += RATE * (after - expected[x])
    options: dict[str, Any] = {"steps": 10, "rollout": 5, "step_size": RATE}
    learnt = learn(
        line(), Mean(), 0, trace=trace, initial=values.reshape(4, 1, 1), record_every=5, **options
    )
    np.testing.assert_allclose(learnt.final()[0, 0, :, 0, 0], expected, rtol=1e-12)
    assert learnt.visits[0, 0, :, 0].tolist() == [4, 3, 3, 0]
    assert learnt.steps.tolist() == [5, 10]


@pytest.mark.parametrize("family", [Categorical(np.linspace(-9, 9, 7)), Quantiles(3)], ids=repr)
def test_rollouts_of_one_step_are_learnt_from_as_without_a_trace(family: Statistics) -> None:
    """What follows the last step of a rollout is bootstrapped, whatever lambda is."""
    mdp = garnet(0, states=3, actions=2, branching=2, gamma=GAMMA)
    options: dict[str, Any] = {"steps": 40, "step_size": 0.1}
    one = learn(mdp, family, "uniform", trace=0.7, rollout=1, **options).final()
    other = learn(mdp, family, "uniform", **options).final()
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    assert np.abs(other).max() > 0.1


def test_the_mean_of_expectiles_is_learnt_as_the_mean_alone() -> None:
    """With exact imputation the mean of a target is the lambda-return of the means, and the loss of
    the 1/2-expectile has the gradient of the mean's loss: whole runs agree, to rounding.

    Taken for samples, the same expectiles have another mean.
    """
    mdp = garnet(1, states=3, actions=2, branching=2, gamma=GAMMA)
    options: dict[str, Any] = {"steps": 400, "trace": 0.65, "step_size": 0.2}
    alone = learn(mdp, Mean(), "uniform", **options).final()[..., 0]
    exact = learn(mdp, THREE, "uniform", **options).final()[..., 1]
    np.testing.assert_allclose(exact, alone, rtol=1e-9, atol=1e-9)
    naive = learn(mdp, NAIVE, "uniform", **options).final()[..., 1]
    assert np.abs(naive - alone).max() > 1e-3


def test_q_learning_cuts_before_an_action_that_is_not_greedy() -> None:
    """Watkins: the return of 0 goes on through 1 only with its greedy action, which pays 1. The
    other one pays 100, and then the greedy action's value, 10, is bootstrapped. SARSA takes what
    comes.
    """
    mdp = MDP.from_lists(
        {
            0: {0: [(1.0, 1, 0.0)], 1: [(1.0, 1, 0.0)]},
            1: {0: [(1.0, 2, 1.0)], 1: [(1.0, 2, 100.0)]},
        },
        gamma=1.0,
    )
    initial = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 0.0]])[..., None]
    options: dict[str, Any] = {"steps": 2, "rollout": 2, "trace": 1.0, "epsilon": 1.0, "seeds": 16}
    found = {}
    for control in ("q-learning", "sarsa"):
        learnt = learn(mdp, Mean(), control=control, step_size=1.0, initial=initial, **options)
        found[control] = set(np.round(learnt.final()[0, :, 0].sum(axis=(1, 2)), 9).tolist())
    assert found == {"q-learning": {1.0, 10.0}, "sarsa": {1.0, 100.0}}


@pytest.mark.parametrize("trace", [0.65, 1.0])
def test_learning_converges_to_the_fixed_point_of_expected_updates(trace: float) -> None:
    """That of dynamic programming over all paths of the chain, in rollouts of one episode each:
    within 5 standard errors of the runs' average, and far from the one without longer returns.
    """
    paths = Paths.of(REWARDS, PROBS, STEPS, GAMMA)
    target, without = (fixed_point(NAIVE, paths, one) for one in (trace, 0.0))
    options: dict[str, Any] = {"steps": 3 * 4000, "rollout": 3, "step_size": 1.0, "decay": 0.7}
    runs = learn(chain(), NAIVE, 0, trace=trace, seeds=16, **options).final()[0, :, :STEPS, 0]
    error = runs.std(axis=0, ddof=1) / 4
    assert (np.abs(runs.mean(axis=0) - target) <= 5 * error).all()
    assert np.abs(without - target)[0, 0] > 5 * error[0, 0]


def test_without_longer_returns_the_fixed_point_is_that_of_dynamic_programming() -> None:
    """Lambda = 0 is Algorithm 1."""
    found = fixed_point(THREE, Paths.of(REWARDS, PROBS, STEPS, GAMMA), 0.0)
    solved = dp.evaluate(chain(), 0, THREE).values[:STEPS, 0]
    np.testing.assert_allclose(found, solved, rtol=1e-9, atol=1e-9)


def test_monte_carlo_has_the_true_statistics() -> None:
    """Lambda = 1: targets are returns of whole paths, as the imputation of equal expectiles is a
    certain return. For CDRL it is two neighbours of the return, so its fixed point stays as it is.
    """
    paths = Paths.of(REWARDS, PROBS, STEPS, GAMMA)
    truth = paths.truth()
    right = THREE.evaluate(truth)
    np.testing.assert_allclose(fixed_point(THREE, paths, 1.0)[0], right, rtol=1e-9)
    assert np.abs(fixed_point(THREE, paths, 0.0)[0] - right).max() > 1e-3
    categorical = Categorical(np.linspace(-1, 10, 4))
    zero, one = (fixed_point(categorical, paths, trace)[0] for trace in (0.0, 1.0))
    np.testing.assert_allclose(one, zero, atol=1e-12)
    assert np.abs(one - categorical.evaluate(Particles(truth.atoms, truth.probs))).max() > 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trace": 1.5}, "trace"),
        ({"trace": 0.5, "sampling": "all"}, "sampling='trajectory'"),
        ({"rollout": 5}, "it is for a trace"),
        ({"trace": 0.5, "rollout": 0}, "rollout"),
        ({"trace": 0.5, "steps": 30}, "multiple of rollout, 20"),
        ({"trace": 0.5, "record_every": 10}, "record_every"),
    ],
)
def test_bad_arguments_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learn(line(), Mean(), 0, **{"steps": 40, **options})
