"""The paper's MDPs: rows as the paper states them, and the numbers of its figures and proofs."""

from typing import Any

import numpy as np
import pytest

from edrl.core.particles import Particles
from edrl.tabular.mdp import MDP
from edrl.tabular.problems import (
    PROBLEMS,
    bimodal_chain,
    cdrl_not_uniform,
    control_mdp,
    garnet,
    n_chain,
    qdrl_not_uniform,
    quantile_mean_inconsistent,
    quantile_not_closed,
)
from edrl.tabular.rewards import Normal, Uniform

EPS = np.finfo(np.float64).eps


def return_law(mdp: MDP, state: int, action: int = 0) -> list[tuple[float, float]]:
    """All (return, probability) from a state of an MDP without cycles that takes `action` once and
    then 0.
    """
    if mdp.terminal[state]:
        return [(0.0, 1.0)]
    distribution = []
    for b in np.flatnonzero(mdp.probs[state, action]):
        for z, q in return_law(mdp, int(mdp.successors[state, action, b])):
            for r, p in zip(
                mdp.rewards.atoms[state, action, b],
                mdp.rewards.probs[state, action, b],
                strict=True,
            ):
                if p > 0:
                    distribution.append(
                        (float(r + mdp.gamma * z), float(mdp.probs[state, action, b] * p * q))
                    )
    return sorted(distribution)


def quantile(distribution: list[tuple[float, float]], tau: float) -> float:
    """min{z : F(z) >= tau}, up to the rounding of the sum of probabilities."""
    levels = np.cumsum([p for _, p in distribution])
    return distribution[int(np.argmax(levels >= tau - len(distribution) * EPS))][0]


def mean(distribution: list[tuple[float, float]]) -> float:
    return sum(z * p for z, p in distribution)


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_is_a_valid_mdp(name: str) -> None:
    """Shapes, sums and padding are as `MDP` promises, and a second call builds the same."""
    mdp, again = PROBLEMS[name](), PROBLEMS[name]()
    shape = mdp.probs.shape
    assert mdp.successors.shape == shape == mdp.rewards.shape
    assert (mdp.terminal.shape, mdp.start.shape, mdp.discretisation_error.shape) == (
        shape[:1],
        shape[:1],
        shape[:2],
    )
    np.testing.assert_allclose(mdp.probs.sum(-1), 1, atol=1e-12)
    np.testing.assert_allclose(mdp.rewards.probs.sum(-1), 1, atol=1e-12)
    assert np.array_equal(mdp.start, np.arange(len(mdp.start)) == 0)
    assert (mdp.continuous is None) == bool((mdp.discretisation_error == 0).all())
    assert mdp.state_names is None or len(mdp.state_names) == mdp.num_states
    assert np.array_equal(mdp.probs, again.probs)
    assert np.array_equal(mdp.rewards.atoms, again.rewards.atoms)


def test_bimodal_chain_pays_at_its_end() -> None:
    """Figure 2: x0, ..., x6 in a row, so that the return at x0 is gamma^6 times the reward at x6."""
    mdp = bimodal_chain()
    assert (mdp.num_states, mdp.num_actions, mdp.gamma) == (8, 1, 0.9)
    assert mdp.state_names == ("x0", "x1", "x2", "x3", "x4", "x5", "x6", "end")
    assert np.array_equal(mdp.successors[:6, 0, 0], np.arange(1, 7))
    assert np.all(mdp.rewards.atoms[:6] == 0)
    last, first = return_law(mdp, 6), return_law(mdp, 0)
    np.testing.assert_allclose([z for z, _ in first], [0.9**6 * z for z, _ in last], rtol=1e-14)
    atoms = np.concatenate([Normal(mode, 0.3).discretise(64).atoms for mode in (-1.0, 1.0)])
    np.testing.assert_allclose([z for z, _ in last], np.sort(atoms), rtol=1e-14)
    inside = sum(p for z, p in last if abs(z) < 0.3)
    beside = sum(p for z, p in last if 0.7 < z < 1.3)
    assert inside < 0.05 < 0.3 < beside  # two modes
    plain = bimodal_chain(3, 0.5, modes=[(0.25, -1.0), (0.75, Particles([1.0, 2.0]))])
    assert return_law(plain, 0) == [(-0.25, 0.25), (0.25, 0.375), (0.5, 0.375)]


def test_n_chain_rows() -> None:
    """Section 5.1: every row of the 15-chain, by hand."""
    mdp = n_chain()
    assert (mdp.num_states, mdp.num_actions, mdp.gamma) == (15, 2, 0.99)
    assert mdp.action_names == ("forward", "backward")
    assert np.array_equal(mdp.terminal, np.arange(15) == 14)
    for x in range(14):
        for action, right in enumerate((0.95, 0.05)):
            assert np.array_equal(mdp.successors[x, action], [x + 1, 0])
            np.testing.assert_allclose(mdp.probs[x, action], [right, 1 - right], rtol=4 * EPS)
            assert np.array_equal(
                mdp.rewards.atoms[x, action, :, 0], [1.0 if x == 13 else 0.0, -1.0]
            )


@pytest.mark.parametrize("goal", [2.5, Particles([1.0, 3.0]), Uniform(-1.0, 1.0), Normal(0.0, 1.0)])
def test_n_chain_goals(goal: Any) -> None:
    """Appendix E: only the transition into the rightmost state pays the goal's reward."""
    mdp = n_chain(4, goal, reward_atoms=8)
    expected = (
        goal
        if isinstance(goal, Particles)
        else goal.discretise(8)
        if hasattr(goal, "kind")
        else Particles([goal])
    )
    for action in (0, 1):
        assert np.array_equal(mdp.rewards.atoms[2, action, 0], expected.atoms)
        assert np.array_equal(mdp.rewards.probs[2, action, 0], expected.probs)
    means = np.sum(mdp.rewards.atoms * mdp.rewards.probs, axis=-1)
    assert np.array_equal(means[:2, :, 0], np.zeros((2, 2)))
    assert np.array_equal(means[:3, :, 1], -np.ones((3, 2)))
    assert n_chain(2).num_states == 2
    assert n_chain(200, gamma=1.0).gamma == 1  # every policy ends
    with pytest.raises(ValueError, match=r"length( is |.* got )1"):
        n_chain(1)


def test_control_mdp_has_means_1_and_085() -> None:
    """Section 5.2: the expected returns of the two actions are 1 and 0.85, whatever the
    discretisation.
    """
    for reward_atoms in (1, 64):
        mdp = control_mdp(reward_atoms)
        assert mdp.gamma == 1
        assert mean(return_law(mdp, 0, 0)) == pytest.approx(1.0, abs=1e-13)
        assert mean(return_law(mdp, 0, 1)) == pytest.approx(0.85, abs=1e-13)
    for x in range(1, 5):
        assert np.array_equal(mdp.successors[x, 0], mdp.successors[x, 1])
        assert np.array_equal(mdp.rewards.atoms[x, 0], mdp.rewards.atoms[x, 1])
    assert np.array_equal(mdp.successors[:, 0, 0], [1, 3, 4, 5, 5, 5])
    assert mdp.successors[0, 1, 0] == 2
    assert mdp.rewards.atoms[3].min() >= 0  # support [0, inf)
    assert mdp.rewards.atoms[4].max() <= 1.85  # support (-inf, 1.85]


@pytest.mark.parametrize("k", [1, 2, 5])
def test_quantiles_are_not_closed(k: int) -> None:
    """Lemma 4.4 (ii): the same mid-quantiles at x1 and x2, different 1/(2k)-quantiles at x0."""
    uniform, atoms = quantile_not_closed(k, "uniform", 0.8), quantile_not_closed(k, "atoms", 0.8)
    for i in range(k):
        tau = (2 * i + 1) / (2 * k)
        for state, expected in ((1, tau), (2, tau + 1 / k)):
            assert quantile(return_law(uniform, state), tau) == pytest.approx(expected, abs=1e-12)
            assert quantile(return_law(atoms, state), tau) == pytest.approx(expected, abs=1e-12)
    bins = (
        33 * k
    )  # an atom is at most half a bin away from the quantile of the uniform distribution
    low = quantile(return_law(uniform, 0), 1 / (2 * k))
    assert abs(low - 0.8 / k) <= 0.8 * 0.5 / bins + 1e-12
    assert quantile(return_law(atoms, 0), 1 / (2 * k)) == pytest.approx(0.8 / (2 * k), abs=1e-12)


@pytest.mark.parametrize("k", [1, 3, 20])
def test_quantiles_prefer_the_worse_action(k: int) -> None:
    """Lemma 4.8 (ii): means 1/(4k) > 1/(8k), while the means of the k quantiles are 0 < 1/(8k)."""
    mdp = quantile_mean_inconsistent(k)
    distributions = [return_law(mdp, 0, action) for action in (0, 1)]
    taus = (2 * np.arange(k) + 1) / (2 * k)
    assert [mean(distribution) for distribution in distributions] == pytest.approx(
        [1 / (4 * k), 1 / (8 * k)], rel=1e-14
    )
    learnt = [
        np.mean([quantile(distribution, tau) for tau in taus]) for distribution in distributions
    ]
    assert learnt == pytest.approx([0, 1 / (8 * k)], rel=1e-14)


@pytest.mark.parametrize(("m", "depth"), [(1, 3), (1, 9), (3, 5), (3, 12)])
def test_categorical_statistics_do_not_converge_uniformly(m: int, depth: int) -> None:
    """Appendix C, first lemma: CDRL fits rho_B at x2 to both rewards, but the statistic at x1
    differs by 1 / (2 (2^m + 1)) at every depth."""
    width = 0.5**depth

    def statistic(distribution: list[tuple[float, float]]) -> float:
        return sum(p * float(np.clip((0.5 + width - z) / width, 0, 1)) for z, p in distribution)

    mdps = [cdrl_not_uniform(m, depth, "A"), cdrl_not_uniform(m, depth, "B")]
    bins = np.arange(2**depth + 1) * width
    fitted = []
    for mdp in mdps:
        assert mdp.gamma == 2**m / (2**m + 1)
        distribution = return_law(mdp, 1)
        hats = np.maximum(
            1 - np.abs(np.array([z for z, _ in distribution])[:, None] - bins) / width, 0
        )
        fitted.append(np.array([p for _, p in distribution]) @ hats)  # the Cramér projection
        assert all(0 <= z <= 1 for z, _ in distribution)
    np.testing.assert_allclose(fitted[0], fitted[1], atol=1e-12)
    statistics = [statistic(return_law(mdp, 0)) for mdp in mdps]
    tolerance = 4 * EPS / width  # gamma * z is rounded, and the slope of h is 1 / width
    assert statistics == pytest.approx([0, 1 / (2 * (2**m + 1))], abs=tolerance)


@pytest.mark.parametrize(("k", "epsilon"), [(1, None), (5, None), (5, 0.01), (51, None)])
def test_quantiles_do_not_converge_uniformly(k: int, epsilon: float | None) -> None:
    """Appendix C, second lemma: quantiles 1 at x1 and -1 at x2 give x0 the median -gamma, but it is
    0.
    """
    mdp = qdrl_not_uniform(k, epsilon, 0.8)
    taus = (2 * np.arange(k) + 1) / (2 * k)
    assert {quantile(return_law(mdp, 1), tau) for tau in taus} == {1.0}
    assert {quantile(return_law(mdp, 2), tau) for tau in taus} == {-1.0}
    assert quantile(return_law(mdp, 0), 0.5) == 0
    learnt = sorted(zip((0.8, -0.8), mdp.probs[0, 0].tolist(), strict=True))
    assert quantile(learnt, 0.5) == -0.8


@pytest.mark.parametrize("size", [1, 3])
def test_garnet_is_what_it_says(size: int) -> None:
    """`branching` distinct successors, rewards in the range, no terminal state; seeds differ and
    repeat.
    """
    mdp = garnet(1, 12, 3, 5, 0.7, max_reward=2.0, reward_atoms=size)
    assert mdp.probs.shape == (12, 3, 5)
    assert mdp.rewards.atoms.shape == (12, 3, 5, size)
    assert mdp.num_transitions == 12 * 3 * 5
    assert all(len(set(row)) == 5 for row in mdp.successors.reshape(-1, 5).tolist())
    assert 1 < np.abs(mdp.rewards.atoms).max() <= 2
    assert not mdp.terminal.any()
    assert np.array_equal(garnet(1, 12, 3, 5, 0.7, 2.0, size).rewards.atoms, mdp.rewards.atoms)
    assert not np.array_equal(garnet(2, 12, 3, 5, 0.7, 2.0, size).successors, mdp.successors)
    assert np.array_equal(
        np.sort(garnet(0, 4, 2, 4).successors), np.broadcast_to(np.arange(4), (4, 2, 4))
    )


def test_garnet_chooses_all_successors_equally_often() -> None:
    """Each of 7 states is a successor with probability 3/7: Hoeffding's bound at 1e-9 a state."""
    mdp = garnet(0, 7, 2000, 3)
    frequency = np.stack([(mdp.successors == state).any(-1).mean() for state in range(7)])
    assert np.abs(frequency - 3 / 7).max() <= np.sqrt(np.log(2 / 1e-9) / (2 * 14_000))
    assert np.abs(mdp.probs.mean((0, 1)) - 1 / 3).max() <= np.sqrt(np.log(2 / 1e-9) / (2 * 14_000))


def test_a_large_garnet_stays_sparse() -> None:
    """100,000 states x 4 actions x 5 successors: 28 bytes a transition."""
    mdp = garnet(0, 100_000, 4, 5, 0.99)
    assert mdp.num_transitions == 2_000_000
    held = (
        mdp.successors.nbytes
        + mdp.probs.nbytes
        + mdp.rewards.atoms.nbytes
        + mdp.rewards.probs.nbytes
    )
    assert held == 2_000_000 * (4 + 8 + 8 + 8)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: quantile_not_closed(0), r"k( is |.* got )0"),
        (lambda: quantile_not_closed(2, "normal"), r"variant( is |.* got )'normal'"),
        (lambda: quantile_not_closed(2, atoms_per_level=4), r"atoms_per_level must be odd, got 4"),
        (lambda: cdrl_not_uniform(0), r"m( is |.* got )0"),
        (lambda: cdrl_not_uniform(3, 4), r"depth must be .* at least 5, got 4"),
        (lambda: cdrl_not_uniform(variant="C"), r"variant( is |.* got )'C'"),
        (lambda: qdrl_not_uniform(4), r"k must be odd.*, got 4"),
        (lambda: qdrl_not_uniform(5, 0.05), r"epsilon must be so small.*, got 0.05"),
        (lambda: qdrl_not_uniform(5, 0.0), r"epsilon( is |.* got )0.0"),
        (lambda: garnet(0, 3, 2, 4), r"branching is 4: .* only 3 states"),
        (lambda: garnet(0, 3, 2, 2, max_reward=-1.0), r"max_reward( is |.* got )-1.0"),
        (lambda: bimodal_chain(0), r"length( is |.* got )0"),
        (lambda: bimodal_chain(modes=[(0.5, 1.0)]), r"sum of probs\[6, 0\]( is |.* got )0.5"),
    ],
)
@pytest.mark.usefixtures("without_shape_checks")
def test_parameters_outside_a_proof_are_refused(build: Any, message: str) -> None:
    """Each message names the parameter and its value."""
    with pytest.raises(ValueError, match=message):
        build()
