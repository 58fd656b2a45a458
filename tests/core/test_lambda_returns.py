"""Lambda-returns of distributions against brute force and against those of means."""

import jax
import numpy as np
import pytest

from edrl import Categorical, Expectiles, Mean, Moments, Particles, Quantiles, Statistics
from edrl.core.lambda_returns import lambda_returns

T, LANES, GAMMA = 6, 3, 0.9
FAMILIES = [Mean(), Moments(2), Expectiles(5), Quantiles(7), Categorical(np.linspace(-9, 9, 19))]


def steps(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rewards, discounts of which some are 0, and samples of the returns to bootstrap from."""
    rng = np.random.default_rng(seed)
    discounts = np.where(rng.random((T, LANES)) < 0.2, 0.0, GAMMA)
    return rng.normal(size=(T, LANES)), discounts, rng.normal(size=(T, LANES, 4))


@pytest.mark.parametrize("trace", [0.0, 0.65, 1.0])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
def test_the_targets_are_those_of_the_recursion(family: Statistics, trace: float) -> None:
    """Step by step from the last one, a lane at a time: r + gamma Z, where Z is the mixture of the
    bootstrapped and the next target's imputed distribution.
    """
    rewards, discounts, samples = steps(0)
    with jax.enable_x64(True):
        bootstraps = np.asarray(family.evaluate(Particles(samples)))
        found = lambda_returns(family, bootstraps, rewards, discounts, np.full((T, LANES), trace))
        for lane in range(LANES):
            after = bootstraps[-1, lane]
            for t in reversed(range(T)):
                first, second = family.impute(bootstraps[t, lane]), family.impute(after)
                atoms = np.concatenate([first.atoms, second.atoms])
                probs = np.concatenate([(1 - trace) * first.probs, trace * second.probs])
                target = Particles(rewards[t, lane] + discounts[t, lane] * atoms, probs)
                after = np.asarray(family.evaluate(target))
                np.testing.assert_allclose(
                    family.evaluate(found[t, lane]), after, rtol=1e-9, atol=1e-9
                )


@pytest.mark.parametrize("family", [Mean(), Moments(2), Expectiles(5)], ids=repr)
def test_the_mean_of_the_targets_is_the_lambda_return_of_the_means(family: Statistics) -> None:
    """For statistics that encode the mean, whatever else they say: G_t = r_t + gamma_t ((1 - c_t)
    v_t + c_t G_{t+1}).
    """
    rewards, discounts, samples = steps(1)
    traces = np.random.default_rng(2).choice([0.0, 0.65], (T, LANES))
    with jax.enable_x64(True):
        bootstraps = family.evaluate(Particles(samples))
        found = np.asarray(lambda_returns(family, bootstraps, rewards, discounts, traces).mean())
    means = samples.mean(axis=-1)
    expected, after = np.zeros((T, LANES)), means[-1]
    for t in reversed(range(T)):
        after = rewards[t] + discounts[t] * ((1 - traces[t]) * means[t] + traces[t] * after)
        expected[t] = after
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_nothing_comes_from_behind_a_cut_or_an_end() -> None:
    """Where the trace or the discount is 0, later rewards do not count."""
    rewards, _, samples = steps(3)
    for traces, discounts in (
        (np.zeros((T, LANES)), np.full((T, LANES), GAMMA)),
        (np.ones((T, LANES)), np.zeros((T, LANES))),
    ):
        bootstraps = Expectiles(5).evaluate(Particles(samples))
        found = lambda_returns(Expectiles(5), bootstraps, rewards, discounts, traces)
        changed = rewards.copy()
        changed[3:] += 100
        other = lambda_returns(Expectiles(5), bootstraps, changed, discounts, traces)
        np.testing.assert_array_equal(found.mean()[:3], other.mean()[:3])
