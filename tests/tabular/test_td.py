"""Temporal differences: each step against the loss's gradient by hand, its limit against dynamic
programming.
"""

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from edrl.core.families import Categorical, Expectiles, HuberQuantiles, Mean, Moments, Quantiles
from edrl.core.particles import Particles
from edrl.core.risk import CVaR
from edrl.core.statistics import Statistics
from edrl.tabular import dp, td
from edrl.tabular.mdp import MDP
from edrl.tabular.rewards import Normal

STATES, ACTIONS, SEEDS = 4, 2, 16
END = STATES - 1
POLICY = np.array([[0.5, 0.5], [0.3, 0.7], [0.8, 0.2], [1.0, 0.0]])
FORCED = np.array(
    [[0.5, 0.5], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
)  # in states 1 and 2, one action only

FAMILIES: dict[str, Statistics] = {
    "mean": Mean(),
    "moments": Moments(2),
    "categorical": Categorical(np.linspace(-4, 4, 6)),
    "quantiles": Quantiles(3),
    "huber": HuberQuantiles(3, imputation="as_samples"),
    "expectiles": Expectiles((0.2, 0.5, 0.8)),
}


@functools.cache
def task(gamma: float = 0.8) -> MDP:
    """Every pair leads to two states with random rewards; the last state is terminal, all others
    are starts.
    """
    rng = np.random.default_rng(7)
    successors = np.array([[[1, 2], [2, 0]], [[2, 3], [0, 3]], [[3, 3], [1, 3]], [[3, 3], [3, 3]]])
    probs = np.full((STATES, ACTIONS, 2), [0.4, 0.6])
    atoms = rng.uniform(-1, 1, (STATES, ACTIONS, 2, 2))
    atoms[2, 0] = [0.0, 1.0]  # the last step of some episodes pays 0 or 1
    atoms[END] = 0
    start = [0.5, 0.25, 0.25, 0.0]
    rewards = Particles(atoms, np.array([0.3, 0.7]))
    return MDP.from_arrays(successors, probs, rewards, gamma, terminal=[END], start=start)


def learn(family: Statistics, steps: int, **options: Any) -> td.Learnt:
    """One compilation a family: evaluation along trajectories of SEEDS runs, unless told otherwise."""
    mdp = options.pop("mdp", task())
    if "control" not in options:
        options.setdefault("policy", POLICY)
    return td.learn(mdp, family, steps=steps, seeds=options.pop("seeds", SEEDS), **options)


def random_values(family: Statistics, seed: int = 0) -> np.ndarray:
    """Increasing in [0, 1]: what statistics of any family can be, and moments of most."""
    values = np.sort(np.random.default_rng(seed).random((STATES, ACTIONS, family.size)), axis=-1)
    return values[..., ::-1] if isinstance(family, Moments) else values  # E[Z^2] <= E[Z] there


def gradient(family: Statistics, v: np.ndarray, z: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The gradient of each family's loss, by hand, for distinct values and atoms."""
    error = z[None, :] - v[:, None]  # [K, n]
    if isinstance(family, Categorical):
        low, high = np.array(family.support[:-1])[:, None], np.array(family.support[1:])[:, None]
        return 2 * (v - np.clip((high - z) / (high - low), 0, 1) @ p)
    if isinstance(family, Mean):
        return v - z @ p
    if isinstance(family, Moments):
        return 2 * (v - (z[None, :] ** np.arange(1, len(v) + 1)[:, None]) @ p)
    weight = np.where(error > 0, np.array(family.taus)[:, None], 1 - np.array(family.taus)[:, None])
    if isinstance(family, Expectiles):
        return -2 * (weight * error) @ p
    if isinstance(family, HuberQuantiles):
        return -(weight * np.clip(error, -family.kappa, family.kappa)) @ p
    return -(weight * np.sign(error)) @ p


def outcomes(
    family: Statistics, values: np.ndarray, x: int, a: int, rate: float, follow: np.ndarray = POLICY
) -> Iterator[tuple[int, int, np.ndarray]]:
    """x', a', and what (x, a) becomes: for every successor x', reward, and action a' with
    follow[x', a'] > 0.

    The target is r + gamma z with z imputed at (x', a'), and r alone where x' is terminal.
    """
    mdp, imputed = task(), family.impute(values)
    for b, reward in itertools.product(range(2), range(2)):
        y = mdp.successors[x, a, b]
        for following in np.flatnonzero(follow[y]):
            atoms = (
                np.zeros_like(imputed.atoms[y, 0])
                if mdp.terminal[y]
                else imputed.atoms[y, following]
            )
            atoms = mdp.rewards.atoms[x, a, b, reward] + mdp.gamma * atoms
            step = gradient(family, values[x, a], atoms, imputed.probs[y, following])
            yield int(y), int(following), values[x, a] - rate * step


def check_one_step(
    family: Statistics,
    learnt: td.Learnt,
    values: np.ndarray,
    rate: float,
    follow: np.ndarray = POLICY,
) -> None:
    """Exactly the visited pair changed, to one of its possible outcomes."""
    final, visits = learnt.final()[0], learnt.visits[0]
    for run in range(len(visits)):
        assert visits[run].sum() == 1
        x, a = map(int, np.argwhere(visits[run])[0])
        others = visits[run] == 0
        np.testing.assert_array_equal(final[run][others], values[others])
        assert explained(final[run, x, a], outcomes(family, values, x, a, rate, follow)), (
            run,
            x,
            a,
        )


def explained(
    new: np.ndarray, possible: Iterator[tuple[int, int, np.ndarray]]
) -> list[tuple[int, int]]:
    """The x' and a' from which the new values can have come."""
    return [(y, a) for y, a, values in possible if np.abs(values - new).max() < 1e-13]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_one_step_is_the_gradient_at_the_visited_pair(family: Statistics) -> None:
    """Equation (9) and Algorithm 2, against the gradient of each loss by hand.

    As values are random and the next action is mostly forced, no outcome is possible in which gamma
    comes twice or not at all, another action is bootstrapped from, something follows the end, or
    another pair learns.
    """
    values = random_values(family)
    learnt = learn(family, 1, step_size=0.3, initial=values, policy=FORCED)
    assert learnt.values.shape == (1, 1, SEEDS, STATES, ACTIONS, family.size)
    assert learnt.values.dtype == np.float64
    check_one_step(family, learnt, values, 0.3, FORCED)
    visited = {tuple(map(int, np.argwhere(visits)[0])) for visits in learnt.visits[0]}
    assert visited == {(0, 0), (0, 1), (1, 0), (2, 1)}  # all starts, and what is done there


def test_the_action_bootstrapped_from_is_taken_next() -> None:
    """On-policy: (x', a') of one update is the pair of the next, or a new start if x' is terminal."""
    values = random_values(Mean())
    history = learn(Mean(), 8, step_size=0.3, initial=values, record_every=1).values[:, 0]
    for run in range(SEEDS):
        before, came_from = values, None
        for after in history[:, run]:
            (x, a) = map(int, np.argwhere((after != before).any(axis=-1))[0])
            assert came_from is None or came_from == (x, a) or (came_from[0] == END and x != END)
            (came_from,) = set(explained(after[x, a], outcomes(Mean(), before, x, a, 0.3)))
            before = after


@functools.cache
def with_densities() -> MDP:
    """The same transitions with normal rewards, under which quantiles are unique."""
    mdp = task()

    def step(x: int, a: int) -> list[tuple[float, int, Normal]]:
        branches = zip(mdp.probs[x, a], mdp.successors[x, a], strict=True)
        return [
            (p, int(y), Normal(0.5 * a - 0.1 * x + b, 0.5))
            for b, (p, y) in enumerate(branches)
            if x != END
        ]

    return MDP.from_function(step, STATES, ACTIONS, mdp.gamma, start=mdp.start)


@pytest.mark.parametrize(
    ("name", "step_size", "parameters"),
    [
        ("mean", 0.5, "values"),
        ("categorical", 0.5, "values"),
        ("quantiles", 2.0, "values"),
        ("expectiles", 1.0, "values"),
        ("logits", 5.0, "outputs"),
    ],
)
def test_learning_converges_to_the_fixed_point_of_dynamic_programming(
    name: str, step_size: float, parameters: Any
) -> None:
    """With step sizes that decay as n^-0.7, the runs average to what Algorithm 1 finds, within 5
    standard errors.

    A softmax reaches a probability of 0 in the limit only, as slowly as the logarithm of time. So
    logits have a support on which every point has some mass at the fixed point.
    """
    mdp = with_densities() if name in ("quantiles", "logits") else task()
    family = Categorical(np.linspace(0, 2, 4)) if name == "logits" else FAMILIES[name]
    target = dp.evaluate(mdp, POLICY, family).values[:END]
    options: dict[str, Any] = {
        "mdp": mdp,
        "step_size": step_size,
        "decay": 0.7,
        "parameters": parameters,
    }
    runs = learn(family, 12_000, **options).final()[0][:, :END]
    error = np.abs(runs.mean(axis=0) - target)
    standard_error = runs.std(axis=0, ddof=1) / np.sqrt(SEEDS)
    assert (error <= 5 * standard_error + 1e-6).all()
    # That says something: the runs have come a long way, and agree.
    away = np.abs(family.evaluate(Particles(np.zeros(1))) - target)
    assert standard_error.max() < 0.02 * away.max()


@pytest.mark.parametrize("name", ["moments", "quantiles", "expectiles"])
@pytest.mark.parametrize("control", [None, "q-learning"])
def test_outputs_behind_an_identity_link_are_values(name: str, control: Any) -> None:
    """Where `link` changes nothing, learning the outputs is learning the values, from the same
    start.
    """
    family = FAMILIES[name]
    options: dict[str, Any] = {"step_size": 0.1} | ({} if control is None else {"control": control})
    values, outputs = (
        learn(family, 50, parameters=which, **options) for which in ("values", "outputs")
    )
    np.testing.assert_array_equal(outputs.values, values.values)
    np.testing.assert_array_equal(outputs.visits, values.visits)


def projected(support: np.ndarray, atoms: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """Equation (12) by hand: each atom's mass is split between its two neighbours on the support."""
    found = np.zeros(len(support))
    for z, p in zip(np.clip(atoms, support[0], support[-1]), probs, strict=True):
        k = min(int(np.searchsorted(support, z, side="right")) - 1, len(support) - 2)
        up = (z - support[k]) / (support[k + 1] - support[k])
        found[k] += p * (1 - up)
        found[k + 1] += p * up
    return found


def softmax(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True))


def test_one_step_on_logits_is_the_gradient_of_the_kl_loss() -> None:
    """Appendix A.2: the gradient of KL(Pi_C target || softmax(logits)) in the logits is
    softmax(logits) - Pi_C target.

    The visited pair's values become the cumulative sums of softmax(logits - rate * gradient), and
    no other's change.
    """
    family, mdp, rate = FAMILIES["categorical"], task(), 0.7
    assert isinstance(family, Categorical)
    support = np.array(family.support)
    logits = np.random.default_rng(3).normal(size=(STATES, ACTIONS, len(support)))
    probs = softmax(logits)
    options: dict[str, Any] = {"parameters": "outputs", "step_size": rate, "policy": FORCED}
    learnt = learn(family, 1, initial=logits, **options)
    before = np.cumsum(probs, axis=-1)[..., :-1]
    for final, visits in zip(learnt.final()[0], learnt.visits[0], strict=True):
        x, a = map(int, np.argwhere(visits)[0])
        np.testing.assert_allclose(final[visits == 0], before[visits == 0], atol=1e-15)
        possible = []
        for b, reward in itertools.product(range(2), range(2)):
            y = mdp.successors[x, a, b]
            for following in np.flatnonzero(FORCED[y]):
                atoms = np.zeros(len(support)) if mdp.terminal[y] else support
                atoms = mdp.rewards.atoms[x, a, b, reward] + mdp.gamma * atoms
                target = projected(support, atoms, probs[y, following])
                moved = logits[x, a] - rate * (probs[x, a] - target)
                possible.append((int(y), int(following), np.cumsum(softmax(moved))[:-1]))
        assert explained(final[x, a], iter(possible)), (x, a)


def test_constant_step_sizes_forget_and_decaying_ones_average() -> None:
    """Where an episode ends with a reward of 0 or 1: v - (v - r) is the last reward, v - (v - r)/n
    the average.
    """
    last = learn(Mean(), 400, step_size=1.0, decay=0.0).final()[0, :, 2, 0, 0]
    assert np.isin(last, [0.0, 1.0]).all()
    learnt = learn(Mean(), 400, step_size=1.0, decay=1.0)
    mean, count = learnt.final()[0, :, 2, 0, 0], learnt.visits[0, :, 2, 0]
    paid = mean * count
    np.testing.assert_allclose(paid, np.round(paid), atol=1e-9)
    assert (np.abs(mean - 0.7) <= 5 * 0.5 / np.sqrt(count)).all()
    assert len(np.unique(paid)) > 1


def test_terminal_states_are_never_visited_and_never_change() -> None:
    values = random_values(Mean())
    learnt = learn(Mean(), 400, initial=values)
    assert (learnt.visits[:, :, END] == 0).all()
    assert (learnt.final()[:, :, END] == values[END]).all()
    assert (learnt.visits.sum(axis=(-2, -1)) == 400).all()


def test_visits_follow_the_start_distribution_and_the_policy() -> None:
    """The expected visits of states in an episode are start (I - P)^-1; each action takes its
    share.
    """
    mdp = task()
    chain = np.zeros((END, END))
    for x, a, b in itertools.product(range(END), range(ACTIONS), range(2)):
        y = mdp.successors[x, a, b]
        if y != END:
            chain[x, y] += POLICY[x, a] * mdp.probs[x, a, b]
    often = np.linalg.solve(np.eye(END) - chain.T, mdp.start[:END])
    expected = (often / often.sum())[:, None] * POLICY[:END]
    visits = learn(Mean(), 400).visits[0].sum(axis=0)[:END]
    count = visits.sum()
    # Visits of one episode depend on each other, but episodes are short: variances are a few times
    # binomial ones.
    assert (np.abs(visits / count - expected) <= 10 * np.sqrt(expected / count)).all()


def test_a_seed_repeats_and_two_seeds_differ() -> None:
    first, again = (learn(Mean(), 50).final() for _ in range(2))
    np.testing.assert_array_equal(first, again)
    for one, other in itertools.combinations(range(SEEDS), 2):
        assert (first[0, one] != first[0, other]).any()
    backwards = learn(Mean(), 50, seeds=list(range(SEEDS))[::-1]).final()
    np.testing.assert_array_equal(backwards[:, ::-1], first)


def test_step_sizes_at_once_are_the_single_runs() -> None:
    """Up to the rounding of another order of operations."""
    together = learn(Mean(), 50, step_size=[0.1, 0.4])
    for i, step_size in enumerate([0.1, 0.4]):
        alone = learn(Mean(), 50, step_size=step_size)
        np.testing.assert_allclose(together.final()[i], alone.final()[0], rtol=0, atol=1e-13)
        np.testing.assert_array_equal(together.visits[i], alone.visits[0])


def test_recording_on_the_way_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Randomness depends on the time alone, however the steps are cut into blocks."""
    whole = learn(Mean(), 60)
    recorded = learn(Mean(), 60, record_every=20)
    assert recorded.steps.tolist() == [20, 40, 60]
    assert whole.steps.tolist() == [60]
    np.testing.assert_array_equal(recorded.final(), whole.final())
    np.testing.assert_array_equal(recorded.visits, whole.visits)
    np.testing.assert_array_equal(recorded.values[0], learn(Mean(), 20).final())
    monkeypatch.setattr(td, "_STEPS_AT_ONCE", 7)
    np.testing.assert_array_equal(learn(Mean(), 60, record_every=20).values, recorded.values)


def test_numbers_of_steps_and_settings_share_one_compilation() -> None:
    learn(
        Mean(), 20, record_every=10
    )  # a state of NumPy's, then one of JAX's: the cache counts both
    compiled = td._run._cache_size()
    learn(Mean(), 33, step_size=0.2, decay=0.5, record_every=11, mdp=task(gamma=0.3))
    learn(Mean(), 5, policy=np.full((STATES, ACTIONS), 0.5), initial=random_values(Mean()))
    assert td._run._cache_size() == compiled


def test_without_a_future_the_expected_reward_is_learnt() -> None:
    """gamma = 0: the average of all rewards seen, whatever follows."""
    mdp = task(gamma=0.0)
    learnt = learn(Mean(), 4000, mdp=mdp, step_size=0.5, decay=1.0)
    count = learnt.visits[0, :, :END].sum(axis=0)
    means = np.sum(learnt.final()[0, :, :END, :, 0] * learnt.visits[0, :, :END], axis=0) / count
    rewards = np.sum(np.sum(mdp.rewards.atoms * mdp.rewards.probs, axis=-1) * mdp.probs, axis=-1)[
        :END
    ]
    assert (
        np.abs(means - rewards) <= 5 / np.sqrt(count)
    ).all()  # rewards are at most 1 away from their mean


@pytest.mark.parametrize("sampling", ["uniform", "all"])
def test_pairs_can_be_sampled_without_a_trajectory(sampling: Any) -> None:
    values = random_values(Mean())
    once = learn(Mean(), 1, sampling=sampling, step_size=0.3, initial=values)
    visits = learn(Mean(), 400, sampling=sampling).visits[0]
    if sampling == "uniform":
        check_one_step(Mean(), once, values, 0.3)
        expected = 400 * SEEDS / (END * ACTIONS)
        assert (np.abs(visits.sum(axis=0)[:END] - expected) <= 5 * np.sqrt(expected)).all()
        assert (visits[:, END] == 0).all()
        return
    assert (visits[:, :END] == 400).all()
    assert (visits[:, END] == 0).all()
    assert (once.final()[0, :, END] == values[END]).all()
    for run, x, a in np.ndindex(SEEDS, END, ACTIONS):
        assert explained(once.final()[0, run, x, a], outcomes(Mean(), values, x, a, 0.3))


def test_q_learning_bootstraps_from_the_greedy_action_and_finds_the_best_policy() -> None:
    """Greedy in the mean: the other action may have higher quantiles, but none of its outcomes is
    possible.
    """
    family = Quantiles(3)
    values = random_values(family)
    values[:, 0] = [-1.0, 0.0, 2.0]
    values[:, 1] = [0.4, 0.5, 0.6]  # the higher mean
    learnt = learn(family, 1, control="q-learning", step_size=0.3, initial=values, epsilon=1.0)
    check_one_step(family, learnt, values, 0.3, follow=np.eye(ACTIONS)[np.ones(STATES, int)])

    options: dict[str, Any] = {"control": "q-learning", "epsilon": 1.0, "mdp": clear_cut()}
    final = learn(family, 2000, step_size=0.5, decay=0.6, **options).final()[0]
    best = dp.control(clear_cut(), Mean()).policy.actions[:END, 0]
    assert set(best) == {0, 1}
    assert (family.mean(final).argmax(axis=-1)[:, :END] == best).all()


def clear_cut() -> MDP:
    """The task with rewards that make one action the better one by far, a different one from state
    to state.
    """
    rewards = np.zeros((STATES, ACTIONS, 2))
    rewards[0, 1], rewards[1, 0], rewards[2, 1] = 1.0, 1.0, 1.0
    mdp = task()
    atoms = Particles(
        np.stack([rewards - 0.1, rewards + 0.1], axis=-1)
        * (np.arange(STATES) < END)[:, None, None, None]
    )
    return MDP.from_arrays(mdp.successors, mdp.probs, atoms, 0.2, terminal=[END], start=mdp.start)


def test_sarsa_converges_to_the_values_of_its_soft_policy() -> None:
    """Within 5 standard errors of dynamic programming with the same epsilon; one step follows
    either action.
    """
    values = random_values(Mean())
    once = learn(Mean(), 1, control="sarsa", step_size=0.3, initial=values, epsilon=0.5)
    check_one_step(Mean(), once, values, 0.3, follow=np.ones((STATES, ACTIONS)))

    target = dp.control(clear_cut(), Mean(), epsilon=0.5).means()[:END]
    options: dict[str, Any] = {"control": "sarsa", "epsilon": 0.5, "mdp": clear_cut()}
    runs = learn(Mean(), 8000, step_size=0.5, decay=0.8, **options).final()[0, :, :END, :, 0]
    standard_error = runs.std(axis=0, ddof=1) / np.sqrt(SEEDS)
    assert (np.abs(runs.mean(axis=0) - target) <= 5 * standard_error).all()
    assert standard_error.max() < 0.01
    greedy = dp.control(clear_cut(), Mean()).means()[:END]
    assert np.abs(greedy - target).max() > 0.05  # so the test can tell it from Q-learning's limit


def test_without_exploration_only_greedy_actions_are_taken() -> None:
    values = np.zeros((STATES, ACTIONS, 1))
    values[:, 1] = 100.0  # far above any return: no update within a few steps changes the order
    visits = learn(Mean(), 20, control="sarsa", initial=values, epsilon=0.0, step_size=1e-3).visits[
        0
    ]
    assert (visits[:, :, 0] == 0).all()
    assert (visits.sum(axis=(1, 2)) == 20).all()


def test_risk_decides_which_action_is_greedy() -> None:
    """The first action has the higher mean and the worse tail: by CVaR the second one is
    bootstrapped from.
    """
    family = Quantiles(3)
    values = np.zeros((STATES, ACTIONS, 3))
    values[:, 0] = [-1.0, 0.0, 4.0]
    values[:, 1] = [0.4, 0.5, 0.6]
    options: dict[str, Any] = {
        "control": "q-learning",
        "initial": values,
        "step_size": 0.3,
        "epsilon": 1.0,
    }
    learnt = learn(family, 1, risk=CVaR(0.3), **options)
    check_one_step(family, learnt, values, 0.3, follow=np.eye(ACTIONS)[np.ones(STATES, int)])
    neutral = learn(family, 1, **options)
    check_one_step(family, neutral, values, 0.3, follow=np.eye(ACTIONS)[np.zeros(STATES, int)])


def test_progress_is_shown_only_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    learn(Mean(), 10)
    assert capsys.readouterr() == ("", "")
    learn(Mean(), 10, progress=True)
    assert "temporal differences" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": None}, r"policy( is |.* got )None"),
        ({"policy": 0, "control": "sarsa"}, r"policy( is |.* got )0"),
        ({"control": "expected-sarsa"}, r"control( is |.* got )'expected-sarsa'"),
        ({"policy": 0, "control": "qlearning"}, r"control( is |.* got )'qlearning'"),
        ({"policy": Mean()}, r"policy( is |.* got )Mean: these are statistics"),
        ({"control": "sarsa", "risk": "cvar"}, r"risk( is |.* got )'cvar'"),
        ({"policy": 0, "sampling": "replay"}, r"sampling( is |.* got )'replay'"),
        (
            {"policy": 0, "parameters": "logits"},
            r"parameters must be 'values' or 'outputs', got 'logits'",
        ),
        (
            {"policy": 0, "parameters": "outputs", "initial": np.zeros((STATES, ACTIONS, 2))},
            r"initial\.shape",
        ),
        (
            {
                "policy": 0,
                "parameters": "outputs",
                "initial": np.full((STATES, ACTIONS, 1), np.nan),
            },
            "initial is ",
        ),
        ({"policy": 0, "steps": 0}, r"steps( is |.* got )0"),
        ({"policy": 0, "step_size": 0.0}, r"step_size( is |.* got )0\.0"),
        ({"policy": 0, "step_size": []}, "step_size is .*at least one is needed"),
        ({"policy": 0, "seeds": []}, "seeds is .*at least one is needed"),
        ({"policy": 0, "seeds": 0}, r"seeds( is |.* got )0"),
        ({"policy": 0, "seeds": [1, -1]}, r"seeds( is |.* got )-1"),
        ({"policy": 0, "decay": 2.0}, r"decay( is |.* got )2\.0"),
        ({"control": "sarsa", "epsilon": -0.1}, r"epsilon( is |.* got )-0\.1"),
        ({"policy": 0, "record_every": 3}, r"record_every( is |.* got )3"),
        ({"policy": 0, "initial": np.zeros((STATES, ACTIONS, 2))}, r"initial\.shape"),
        ({"policy": 5}, r"policy\.actions"),
    ],
)
@pytest.mark.usefixtures("without_shape_checks")
def test_bad_arguments_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        td.learn(task(), Mean(), **{"steps": 10, **options})


def test_what_diverges_is_said() -> None:
    with pytest.warns(
        UserWarning, match=r"1 of 2 runs has diverged, to values that are not finite"
    ):
        td.learn(task(), Mean(), 0, steps=500, step_size=[0.1, 1e10], sampling="all")


def test_settings_of_control_are_refused_for_a_policy() -> None:
    for setting in ({"epsilon": 0.5}, {"risk": lambda mu: mu.mean()}):
        with pytest.raises(ValueError, match="it is for control"):
            td.learn(task(), Mean(), 0, steps=1, **setting)
