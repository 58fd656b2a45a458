"""What Figures 4 to 6 and Appendix E share: the chains, their truth, and how growth is judged."""

import numpy as np
import pytest

from edrl.paper.chains import (
    FORWARD,
    Chains,
    Method,
    along,
    at_start,
    expectiles,
    least_growth,
    measure_methods,
    padded_chain,
    side_by_side,
    significant_falls,
)
from edrl.study.tables import table
from edrl.tabular import evaluate, problems, return_distributions


@pytest.mark.parametrize("length", [2, 3, 15])
def test_chains_side_by_side_are_the_chains(length: int) -> None:
    """Section 5.1: each has the transitions, rewards and returns of `problems.n_chain` under the
    action forward.
    """
    whole, start = side_by_side((2, 3, 15))
    chain, states = problems.n_chain(length), np.arange(length) + start[length]
    np.testing.assert_array_equal(
        whole.successors[states, 0] - start[length], chain.successors[:, FORWARD]
    )
    np.testing.assert_array_equal(whole.probs[states, 0], chain.probs[:, FORWARD])
    np.testing.assert_array_equal(whole.rewards.atoms[states, 0], chain.rewards.atoms[:, FORWARD])
    np.testing.assert_array_equal(whole.terminal[states], chain.terminal)
    assert whole.gamma == chain.gamma
    alone = padded_chain(length)
    np.testing.assert_array_equal(alone.successors[:length, 0], chain.successors[:, FORWARD])
    np.testing.assert_array_equal(alone.rewards.atoms[:length, 0], chain.rewards.atoms[:, FORWARD])
    assert alone.terminal[length - 1 :].all()
    assert not alone.terminal[: length - 1].any()


@pytest.mark.slow
def test_errors_are_those_of_one_chain_alone() -> None:
    """Dynamic programming of all chains at once gives for each what it gives alone."""
    chains = Chains((3, 15))
    rows = measure_methods(
        chains,
        [Method.of_expectiles("EDRL", ks=(3,), lengths=(3, 15), seeds=0)],
        ["midpoints"],
        silent,
    )
    family, alone = expectiles("midpoints", 3), problems.n_chain(15)
    truth = return_distributions(alone, FORWARD, atoms=512)
    learnt = evaluate(alone, FORWARD, family).values[:14, FORWARD]
    expected = np.abs(learnt - np.asarray(truth.values(family))[:14, FORWARD]).mean(-1)
    found, distances = along(rows, "error", "distance")
    np.testing.assert_allclose(found[0], expected[::-1], rtol=1e-3, atol=1e-6)
    assert distances.tolist() == list(range(1, 15))
    assert along(rows, "error", "length")[1].tolist() == [3, 15]


def silent(fraction: float, note: str) -> None:
    assert 0 <= fraction <= 1


def test_the_start_is_that_of_the_longest_chain() -> None:
    rows = table(mode="DP", seed=[0, 0, 1, 1, 0], length=[15, 15, 15, 15, 9], distance=[14, 1, 1, 14, 8],
                 error=[8.0, 1.0, 3.0, 10.0, 99.0])  # fmt: skip
    assert at_start(rows, "error", mode="DP") == 9.0


def test_growth_is_judged_in_every_cell() -> None:
    """One step down in one cell is enough to lose; noise of the seeds is not."""
    growing = np.arange(1.0, 13).reshape(3, 1, 4)  # [K, seeds, cells]
    assert least_growth(growing, 0) > 1
    assert least_growth(growing, 2) > 1
    broken = growing.copy()
    broken[1, 0, 2] = 2.9
    assert least_growth(broken, 0) < 1
    rng = np.random.default_rng(0)
    noisy = np.array([1.0, 2.0, 3.0])[:, None, None] + 0.01 * rng.normal(size=(3, 6, 5))
    assert significant_falls(noisy, 0) == (0, 10)
    assert significant_falls(-noisy, 0) == (10, 10)
    level = rng.normal(size=(2, 6, 2000))
    falls, steps = significant_falls(level, 0)
    assert 0.01 < falls / steps < 0.05  # one side of a 95 % interval
