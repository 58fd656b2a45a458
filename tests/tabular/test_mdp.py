"""`MDP` and `Policy`: every constructor agrees with a brute-force reading of what it was given."""

import itertools
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from edrl.core.families import Expectiles, Mean
from edrl.core.particles import Particles
from edrl.tabular.bellman import solve_moments
from edrl.tabular.dp import evaluate
from edrl.tabular.mdp import MDP
from edrl.tabular.policy import Policy, as_policy
from edrl.tabular.rewards import ContinuousRewards, Exponential, Normal, Uniform

LISTS: list[Any] = [
    [
        [(0.5, 1, 1.0), (0.25, 1, 1.0), (0.25, 0, Particles([1.0, 5.0], [0.75, 0.25]))],
        [(1.0, 2, Normal(2.0, 1.0))],
    ],
    [[(0.5, 2, 0.0), (0.5, 2, -1.0)], [(0.1, 0, Exponential(2.0)), (0.9, 1, 3.0)]],
    [],
]


def dense(mdp: MDP) -> tuple[np.ndarray, np.ndarray]:
    """Transition probabilities [S, A, S] and expected rewards [S, A], read off the arrays."""
    transitions = np.zeros((mdp.num_states, mdp.num_actions, mdp.num_states))
    x, a, b = np.indices(mdp.probs.shape)
    np.add.at(transitions, (x, a, mdp.successors[x, a, b]), mdp.probs)
    means = np.sum(mdp.rewards.atoms * mdp.rewards.probs, axis=-1)
    return transitions, np.sum(means * mdp.probs, axis=-1)


def expected_return(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """The expected returns [S] of a policy [S, A], by a dense linear system."""
    transitions, rewards = dense(mdp)
    matrix = np.einsum("xa,xay->xy", policy, transitions)
    free = ~mdp.terminal
    values = np.zeros(mdp.num_states)
    system = np.eye(free.sum()) - mdp.gamma * matrix[np.ix_(free, free)]
    values[free] = np.linalg.solve(system, np.sum(policy * rewards, axis=-1)[free])
    return values


def random_dense(
    seed: int, states: int = 5, actions: int = 2
) -> tuple[np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    transitions = rng.random((states, actions, states)) * (
        rng.random((states, actions, states)) < 0.5
    )
    transitions[..., 0] += 0.1  # no empty row
    return transitions / transitions.sum(-1, keepdims=True), rng


@pytest.mark.parametrize("shape", [(5, 2), (5, 2, 5), (5, 2, 3), (5, 2, 5, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_from_dense_keeps_every_probability_and_reward(seed: int, shape: tuple[int, ...]) -> None:
    """Reading the sparse arrays back gives the dense ones, for all four shapes of rewards."""
    transitions, rng = random_dense(seed)
    atoms = rng.normal(size=shape)
    distribution = shape[-1] == 3
    probs = rng.dirichlet(np.ones(3), size=shape[:-1]) if distribution else np.ones((*shape, 1))
    rewards: Any = Particles(atoms, probs) if distribution else atoms
    mdp = MDP.from_dense(transitions, rewards, 0.9, terminal=None, start=2)
    assert mdp.probs.shape[-1] == np.count_nonzero(transitions, axis=-1).max()
    assert mdp.num_transitions == np.count_nonzero(transitions)
    assert np.array_equal(dense(mdp)[0], transitions)
    assert np.array_equal(mdp.start, [0, 0, 1, 0, 0])
    atoms = atoms if distribution else atoms[..., None]
    for x, a, b in np.argwhere(mdp.probs > 0):
        at = (x, a) if atoms.ndim == 3 else (x, a, mdp.successors[x, a, b])
        assert np.array_equal(mdp.rewards.atoms[x, a, b], atoms[at])
        assert np.array_equal(mdp.rewards.probs[x, a, b], probs[at])
    padding = mdp.probs == 0
    x = np.indices(mdp.probs.shape)[0]
    assert np.array_equal(mdp.successors[padding], x[padding])
    assert np.all(mdp.rewards.atoms[padding] == 0)


def test_from_lists_reads_numbers_particles_and_continuous() -> None:
    """Each row is read by hand; equal next states and rewards are added up, others stay branches."""
    mdp = MDP.from_lists(LISTS, 0.9, reward_atoms=4)
    assert (mdp.num_states, mdp.num_actions, mdp.num_transitions) == (3, 2, 9)
    assert mdp.successors.dtype == np.int32
    assert mdp.probs.dtype == mdp.rewards.atoms.dtype == mdp.rewards.probs.dtype == np.float64
    assert np.array_equal(mdp.terminal, [False, False, True])
    assert np.array_equal(mdp.successors[0, 0], [1, 0])
    assert np.array_equal(mdp.probs[0, 0], [0.75, 0.25])
    assert np.array_equal(mdp.rewards.atoms[0, 0], [[1, 0, 0, 0], [1, 5, 0, 0]])
    assert np.array_equal(mdp.rewards.probs[0, 0], [[1, 0, 0, 0], [0.75, 0.25, 0, 0]])
    assert np.array_equal(mdp.successors[1, 0], [2, 2])
    assert np.array_equal(mdp.rewards.atoms[1, 0, :, 0], [0, -1])
    assert np.array_equal(mdp.rewards.atoms[0, 1, 0], Normal(2.0, 1.0).discretise(4).atoms)
    assert np.array_equal(mdp.rewards.probs[0, 1, 0], [0.25] * 4)
    assert np.array_equal(mdp.rewards.atoms[1, 1, 0], Exponential(2.0).discretise(4).atoms)
    assert mdp.continuous is not None
    assert np.array_equal(
        mdp.continuous.kind, [[[0, 0], [1, 0]], [[0, 0], [3, 0]], [[0, 0], [0, 0]]]
    )
    assert (mdp.continuous.loc[0, 1, 0], mdp.continuous.scale[0, 1, 0]) == (2.0, 1.0)
    errors = (
        Normal(2.0, 1.0).integrated_cdf_error(4),
        0.1 * Exponential(2.0).integrated_cdf_error(4),
    )
    np.testing.assert_allclose(
        mdp.discretisation_error, [[0, errors[0]], [0, errors[1]], [0, 0]], rtol=1e-15
    )
    terminal = np.array([1.0, 0.0])
    assert np.array_equal(mdp.probs[2], [terminal, terminal])
    assert np.array_equal(mdp.successors[2], np.full((2, 2), 2))
    assert np.all(mdp.rewards.atoms[2] == 0)
    np.testing.assert_array_equal(mdp.rewards.probs.sum(-1), 1)


def test_lists_dictionaries_functions_and_arrays_agree() -> None:
    """One MDP, four ways in."""
    mdp = MDP.from_lists(LISTS, 0.9)
    nested = {
        x: dict(enumerate(actions)) for x, actions in enumerate(LISTS) if actions
    }  # 2 is only led to
    others = [
        MDP.from_lists(nested, 0.9),
        MDP.from_function(lambda x, a: LISTS[x][a] if LISTS[x] else [], 3, 2, 0.9),
        MDP.from_arrays(mdp.successors, mdp.probs, mdp.rewards, 0.9, continuous=mdp.continuous),
        MDP.from_arrays(
            mdp.successors,
            mdp.probs,
            mdp.rewards,
            0.9,
            continuous=jax.tree.map(jnp.asarray, mdp.continuous),
        ),
    ]
    for other in others:
        assert eqx.tree_equal(mdp, other)
    assert np.array_equal(others[0].rewards.atoms, mdp.rewards.atoms)


def test_padding_is_written_whatever_was_there() -> None:
    """What has probability 0 points at its own state and pays 0, though it was out of range and
    NaN.
    """
    successors = np.array([[[1, -7]], [[99, 0]]])
    rewards = np.array([[[2.0, np.nan]], [[np.inf, 3.0]]])
    mdp = MDP.from_arrays(successors, [[[1.0, 0.0]], [[0.0, 1.0]]], rewards, 0.5)
    assert np.array_equal(mdp.successors, [[[1, 0]], [[1, 0]]])
    assert np.array_equal(mdp.rewards.atoms[..., 0], [[[2, 0]], [[0, 3]]])
    assert np.array_equal(mdp.rewards.probs[..., 0], np.ones((2, 1, 2)))
    assert mdp.continuous is None
    assert np.array_equal(mdp.discretisation_error, np.zeros((2, 1)))


def test_terminal_states_are_given_or_absorbing_without_reward() -> None:
    """A mask, a list and nothing at all mean the same; a row of zeros becomes a self loop."""
    loops = np.array([[[0.0, 1.0]], [[0.0, 1.0]]])
    pays = np.array([[1.0], [0.0]])
    inferred = MDP.from_dense(loops, pays, 0.5)
    zeros = MDP.from_dense(loops * [[[1.0]], [[0.0]]], [[1.0], [np.nan]], 0.5, terminal=[1])
    masked = MDP.from_dense(loops, pays, 0.5, terminal=np.array([False, True]))
    assert np.array_equal(inferred.terminal, [False, True])
    assert eqx.tree_equal(inferred, zeros)
    assert eqx.tree_equal(inferred, masked)
    assert not MDP.from_dense(loops, [[0.0], [1.0]], 0.5).terminal.any()  # absorbing, but it pays
    assert not MDP.from_dense(loops, pays, 0.5, terminal=[]).terminal.any()


def read_gymnasium(table: Any, gamma: float) -> np.ndarray:
    """The uniform policy's expected returns from the table alone: nothing follows a terminated
    step.
    """
    size = len(table)
    system, constant = np.eye(size), np.zeros(size)
    for x, a in itertools.product(range(size), range(len(table[0]))):
        for p, y, r, terminated in table[x][a]:
            constant[x] += p * r / len(table[0])
            system[x, y] -= gamma * p * (not terminated) / len(table[0])
    return np.linalg.solve(system, constant)


@pytest.mark.parametrize(
    "name",
    ["FrozenLake-v1", "CliffWalking-v1", pytest.param("Taxi", marks=pytest.mark.slow)],
)
def test_gymnasium_tables_have_the_same_expected_returns(name: str) -> None:
    """The MDP's linear system and the table's give one answer, to the condition number 2 / (1 -
    gamma).
    """
    gymnasium = pytest.importorskip("gymnasium")
    if name == "Taxi":
        name = max(spec for spec in gymnasium.registry if spec.startswith("Taxi-v"))
    env = gymnasium.make(name)
    table = env.unwrapped.P
    mdp = MDP.from_gymnasium(name, 0.95)
    assert (mdp.num_states, mdp.num_actions) == (len(table) + 1, len(table[0]))
    assert np.array_equal(np.flatnonzero(mdp.terminal), [len(table)])
    values = expected_return(mdp, as_policy(mdp, "uniform").dense(mdp.num_actions))
    expected = read_gymnasium(table, 0.95)
    tolerance = 2 / (1 - 0.95) * len(table) * np.finfo(float).eps * np.abs(expected).max()
    assert np.abs(values[:-1] - expected).max() <= tolerance
    assert values[-1] == 0
    assert np.array_equal(mdp.start[:-1], env.unwrapped.initial_state_distrib)
    assert eqx.tree_equal(mdp, MDP.from_gymnasium(env, 0.95))


def test_a_terminated_transition_ends_the_episode_even_into_a_living_state() -> None:
    """State 1 is reached terminated from 0 and unterminated from itself: the first pays 1 and no
    more.
    """
    table = {0: {0: [(1.0, 1, 1.0, True)]}, 1: {0: [(0.5, 1, 1.0, False), (0.5, 1, 1.0, False)]}}
    mdp = MDP.from_gymnasium(SimpleNamespace(unwrapped=SimpleNamespace(P=table)), 0.5)
    np.testing.assert_allclose(expected_return(mdp, np.ones((3, 1))), [1, 2, 0], rtol=1e-15)
    assert mdp.num_transitions == 3  # equal transitions were added up
    assert np.array_equal(mdp.start, [1, 0, 0])
    with pytest.raises(ValueError, match="needs a table P"):
        MDP.from_gymnasium(SimpleNamespace(unwrapped=SimpleNamespace()), 0.5)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_gamma_one_is_allowed_exactly_if_episodes_end(seed: int) -> None:
    """Against brute force: some policy must reach the terminal state from everywhere.

    A policy is evaluated exactly if it does so itself.
    """
    rng = np.random.default_rng(seed)
    states, actions = 4, 2
    linked = rng.random((states, actions, states)) < 0.35
    linked[..., -1] |= ~linked.any(-1)
    linked[-1] = False
    linked[-1, :, -1] = True
    transitions = linked / linked.sum(-1, keepdims=True)

    def ends(steps: np.ndarray) -> bool:
        return bool((np.linalg.matrix_power(np.eye(states) + steps, states)[:, -1] > 0).all())

    transitions[-1] = 0.0  # the rows of a terminal state may be empty
    if not ends(linked.any(1)):
        with pytest.raises(ValueError, match=r"no policy reaches .* from state [0-2]: use gamma"):
            MDP.from_dense(transitions, np.ones((4, 2)), 1.0, terminal=[states - 1])
        return
    rewards = np.ones((states, actions, states))
    mdp = MDP.from_dense(transitions, rewards, 1.0, terminal=[states - 1])
    for policy in itertools.product(range(actions), repeat=states):
        if ends(linked[np.arange(states), policy]):
            expected = expected_return(mdp, np.eye(actions)[list(policy)])
            found = solve_moments(mdp, list(policy), 1)[np.arange(states), policy, 0]
            np.testing.assert_allclose(found, expected, rtol=1e-9)
        else:
            with pytest.raises(ValueError, match=r"never ends from state [0-2].*: use gamma < 1"):
                solve_moments(mdp, list(policy), 1)


HALVES, ONES = np.full((2, 2, 2), 0.5), np.ones((2, 2))
SPARSE = (np.zeros((2, 2, 1), int), np.ones((2, 2, 1)), np.ones((2, 2, 1)), 0.9)


def changed(array: Any, at: Any, value: Any) -> np.ndarray:
    """A copy with one entry replaced."""
    copy = np.array(array, float if isinstance(value, float) else None)
    copy[at] = value
    return copy


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MDP.from_dense(changed(HALVES, (1, 0, 1), -0.5), ONES, 0.9), "-0.5.*state 1, action 0"),
        (lambda: MDP.from_dense(changed(HALVES, (1, 0, 1), np.nan), ONES, 0.9), "nan.*state 1, action 0"),
        (lambda: MDP.from_dense(changed(HALVES, (0, 1, 1), 0.5001), ONES, 0.9), r"probs\[0, 1\]( is |.* got )1.0001"),
        (lambda: MDP.from_dense(changed(HALVES, (0, 1), 0.0), ONES, 0.9), r"sum of probs\[0, 1\]( is |.* got )0.0"),
        (lambda: MDP.from_dense(HALVES, changed(ONES, (1, 1), np.nan), 0.9), "nan.*state 1, action 1"),
        (lambda: MDP.from_dense(np.ones((2, 2, 3)), ONES, 0.9), r"transitions.shape( is |.* got )\(2, 2, 3\)"),
        (lambda: MDP.from_dense(HALVES, np.ones(2), 0.9), r"rewards.shape( is |.* got )\(2,\)"),
        (lambda: MDP.from_dense(HALVES, ONES, 1.5), r"gamma( is |.* got )1.5"),
        (lambda: MDP.from_dense(HALVES, ONES, float("nan")), r"gamma( is |.* got )nan"),
        (lambda: MDP.from_dense(HALVES, ONES, 1.0), r"gamma is 1.0: no policy .* from state 0"),
        (lambda: MDP.from_dense(HALVES, ONES, 0.9, terminal=[1]), r"terminal\[1\].*action 0 of state 1"),
        (lambda: MDP.from_dense(HALVES, ONES, 0.9, terminal=[2]), r"terminal( is |.* got )\[2\]"),
        (lambda: MDP.from_dense(HALVES, ONES, 0.9, terminal=[True]), r"terminal( is |.* got )\[True\]"),
        (lambda: MDP.from_dense(HALVES, ONES, 0.9, start=2), r"start( is |.* got )2"),
        (lambda: MDP.from_dense(HALVES, ONES, 0.9, start=[0.5, 0.4]), r"sum of start( is |.* got )0.9"),
        (lambda: MDP.from_dense(HALVES, ONES, 0.9, start=[2.0, -1.0]), r"start\[1\]( is |.* got )-1.0"),
        (lambda: MDP.from_dense(HALVES, ONES, 0.9, start=[1.0]), r"start.shape( is |.* got )\(1,\)"),
        (lambda: MDP.from_dense(HALVES, ONES, 0.9, state_names=["x"]), "2 names are needed"),
        (lambda: MDP.from_arrays(changed(SPARSE[0], (1, 1, 0), 2), *SPARSE[1:]), "is 2: .*state 1, action 1"),
        (lambda: MDP.from_arrays(SPARSE[0] + 0.5, *SPARSE[1:]), "array of integers"),
        (lambda: MDP.from_arrays(SPARSE[0], np.ones((2, 2)), *SPARSE[2:]), r"probs.shape( is |.* got )\(2, 2\)"),
        (lambda: MDP.from_arrays(*SPARSE[:2], np.ones((2, 2)), 0.9), r"rewards.shape( is |.* got )\(2, 2\)"),
        (lambda: MDP.from_arrays(*SPARSE, continuous=_continuous(scale=0.0)), r"continuous.scale\[0, 0, 0\] is 0.0"),
        (lambda: MDP.from_arrays(*SPARSE, continuous=_continuous(loc=np.nan)), r"continuous.loc\[0, 0, 0\] is nan"),
        (lambda: MDP.from_arrays(*SPARSE, continuous=_continuous(kind=7)), r"continuous.kind\[0, 0, 0\] is 7"),
        (lambda: MDP.from_arrays(*SPARSE, continuous=ContinuousRewards(*np.ones((3, 2)))), "continuous.kind.shape"),
        (lambda: MDP.from_arrays(*SPARSE, continuous=_continuous(), reward_atoms=0), r"reward_atoms( is |.* got )0"),
        (lambda: MDP.from_lists([[[(1.0, 3, 0.0)]]], 0.9), "is 3: .*state 0, action 0.*0 to 0"),
        (lambda: MDP.from_lists([[[(1.0, -1, 0.0)]], []], 0.9), "is -1: .*state 0, action 0"),
        (lambda: MDP.from_lists([[[(1.0, 0.7, 0.0)]], []], 0.9), "state 0, action 0: a next state is a whole"),
        (lambda: MDP.from_lists([[[(0.9, 0, 1.0)]]], 0.9), r"sum of probs\[0, 0\]( is |.* got )0.9"),
        (lambda: MDP.from_lists([[[(-1.0, 0, 1.0), (2.0, 0, 1.0)]]], 0.9), "action 0: a probability"),
        (lambda: MDP.from_lists([[], [[(1.0, 0, np.nan)]]], 0.9), "state 1, action 0: a reward"),
        (lambda: MDP.from_lists([[[(1.0, 1, np.zeros(2))]], []], 0.9), "finite number, or a distribution"),
        (lambda: MDP.from_lists([[[(1.0, 0)]]], 0.9), "state 0, action 0: each entry must be"),
        (lambda: MDP.from_lists([[[(1.0, 0, Particles(np.ones((2, 3))))]]], 0.9), "a reward is one"),
        (lambda: MDP.from_lists({0: {1: [(1.0, 1, 0.0)]}}, 0.9), r"actions of state 0 is \[1\]: action 0 is missing"),
        (lambda: MDP.from_lists({0: {0: [(1.0, 10**9, 0.0)]}}, 0.9), "1000000000: .*state 1 is .*state 0 leads"),
        (lambda: MDP.from_lists({0: {0: [(1.0, 1, 0.0)]}, 10**9: {}}, 0.9), "1000000000: .*state 2 is neither listed"),
        (lambda: MDP.from_lists({0: {0: [(1.0, 1, 0.0)], 10**9: [(1.0, 1, 0.0)]}}, 0.9), r"action 1 is missing"),
        (lambda: MDP.from_lists([[[(1.0, 10**30, 0.0)]], []], 0.9), "next state is 1000.*state 0, action 0"),
        (lambda: MDP.from_lists([[[(1.0, 1, 0.0)]] * 2, [[(1.0, 0, 0.0)]]], 0.9), "state 1 is .*action 1 is missing"),
        (lambda: MDP.from_lists([[[("1", 0, 0.0)]]], 0.9), "state 0, action 0: a probability"),
        (lambda: MDP.from_lists([[[(1.0, "0", 0.0)]]], 0.9), "state 0, action 0: a next state"),
        (lambda: MDP.from_lists({-1: {0: [(1.0, 1, 0.0)]}}, 0.9), r"state or action( is |.* got )-1"),
        (lambda: MDP.from_lists([], 0.9), "at least one state"),
        (lambda: MDP.from_function(lambda x, a: [(1.0, 0, 1.0)], 0, 1, 0.9), r"num_states( is |.* got )0"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("without_shape_checks")
def test_errors_name_what_is_wrong(build: Callable[[], MDP], message: str) -> None:
    """Bad input is refused with its place, its value and what would be right."""
    with pytest.raises(ValueError, match=message):
        build()


def _continuous(kind: int = 1, loc: float = 0.0, scale: float = 1.0) -> ContinuousRewards:
    return ContinuousRewards(*(np.full((2, 2, 1), value) for value in (kind, loc, scale)))


def test_sums_within_the_tolerance_are_taken_as_they_are() -> None:
    """A sum off by 1e-9 passes and is not touched."""
    probs = changed(SPARSE[1], (0, 0, 0), 1 - 1e-9)
    assert np.array_equal(MDP.from_arrays(SPARSE[0], probs, *SPARSE[2:]).probs, probs)


def test_an_mdp_passes_through_jit_and_a_new_gamma_does_not_recompile() -> None:
    """`gamma` is a leaf, the names are not."""
    mdp = MDP.from_lists(LISTS, 0.9, state_names=["a", "b", "c"])
    traces = []

    @jax.jit
    def total(mdp: MDP) -> Any:
        traces.append(mdp.state_names)
        return mdp.gamma * mdp.probs.sum()

    assert total(mdp) == pytest.approx(0.9 * 6)
    assert total(eqx.tree_at(lambda m: m.gamma, mdp, 0.5)) == pytest.approx(0.5 * 6)
    assert traces == [("a", "b", "c")]


def binomial_bound(count: int) -> float:
    """Hoeffding: the frequency in `count` draws is further off with probability at most 1e-9."""
    return float(np.sqrt(np.log(2 / 1e-9) / (2 * count)))


def test_sampling_has_the_frequencies_of_the_table() -> None:
    """Branches and rewards of (0, 0) by jit and vmap; outside, a batch of states works."""
    mdp = MDP.from_lists(LISTS, 0.9, reward_atoms=4)
    count = 20_000
    keys = jax.random.split(jax.random.key(0), count)

    @jax.jit
    def draw(mdp: MDP, keys: jax.Array) -> tuple[jax.Array, jax.Array]:
        def one(key: jax.Array) -> tuple[jax.Array, jax.Array]:
            key_branch, key_reward = jax.random.split(key)
            branch = mdp.sample_branch(key_branch, 0, 0)
            return branch, mdp.sample_reward(key_reward, 0, 0, branch)

        return jax.vmap(one)(keys)

    branches, rewards = map(np.asarray, draw(mdp, keys))
    assert abs(np.mean(branches == 0) - 0.75) <= binomial_bound(count)
    assert set(branches.tolist()) == {0, 1}
    assert np.all(rewards[branches == 0] == 1)
    assert abs(np.mean(rewards == 5) - 0.25 * 0.25) <= binomial_bound(count)
    assert set(rewards.tolist()) == {1.0, 5.0}
    states = np.repeat([0, 2], count)
    again = np.asarray(mdp.sample_branch(jax.random.key(1), states, np.zeros_like(states)))
    assert abs(np.mean(again[:count] == 0) - 0.75) <= binomial_bound(count)
    assert np.all(again[count:] == 0)


def test_continuous_rewards_are_sampled_exactly() -> None:
    """Draws from continuous rewards pass the Dvoretzky-Kiefer-Wolfowitz bound, which four atoms
    would fail by an eighth; the discrete branch beside them still pays its number; a key repeats,
    another does not."""
    mdp = MDP.from_lists(LISTS, 0.9, reward_atoms=4)
    count = 20_000
    at = np.stack([np.repeat(index, count) for index in ([1, 1, 0], [1, 1, 1], [0, 1, 0])])
    rewards, same, other = (mdp.sample_reward(jax.random.key(seed), *at) for seed in (0, 0, 1))
    assert rewards.dtype == np.float64
    exponential, number, normal = rewards.reshape(3, count)
    bound = binomial_bound(count)
    assert bound < 1 / 8
    assert stats.kstest(exponential, stats.expon(scale=2.0).cdf).statistic <= bound
    assert np.all(number == 3)
    assert stats.kstest(normal, stats.norm(2.0, 1.0).cdf).statistic <= bound
    assert np.array_equal(rewards, same)
    assert not np.any(exponential == other[:count])


POLICY_MDP = MDP.from_dense(np.full((3, 2, 3), 1 / 3), np.ones((3, 2)), 0.9)


@pytest.mark.parametrize(
    ("policy", "expected", "width"),
    [
        (1, [[0, 1], [0, 1], [0, 1]], 1),
        (np.int64(0), [[1, 0], [1, 0], [1, 0]], 1),
        ([0, 1, 0], [[1, 0], [0, 1], [1, 0]], 1),
        (jnp.array([0, 1, 0]), [[1, 0], [0, 1], [1, 0]], 1),
        (np.eye(2)[[0, 1, 1]], [[1, 0], [0, 1], [0, 1]], 1),
        ([[0.25, 0.75], [0.0, 1.0], [1.0, 0.0]], [[0.25, 0.75], [0, 1], [1, 0]], 2),
        ("uniform", [[0.5, 0.5]] * 3, 2),
        (Policy(np.array([[1, 1]] * 3), np.full((3, 2), 0.5)), [[0, 1]] * 3, 2),
    ],
)
def test_a_policy_may_be_said_in_many_ways(policy: Any, expected: Any, width: int) -> None:
    """All forms mean the same dense probabilities [S, A], in float64."""
    chosen = as_policy(POLICY_MDP, policy)
    assert chosen.actions.shape == chosen.probs.shape == (3, width)
    assert chosen.probs.dtype == np.float64
    probs = chosen.dense(2)
    assert probs.dtype == np.float64
    assert np.array_equal(probs, expected)


def test_policies_may_be_traced() -> None:
    """Inside jit, actions and probabilities [S, A] become policies unchecked."""
    actions = jnp.array([0, 1, 0])
    traced = jax.jit(lambda mdp, actions: as_policy(mdp, actions).dense(2))(POLICY_MDP, actions)
    assert np.array_equal(traced, [[1, 0], [0, 1], [1, 0]])
    probs = jnp.array([[0.25, 0.75], [0.0, 1.0], [1.0, 0.0]])
    assert np.array_equal(
        jax.jit(lambda mdp, probs: as_policy(mdp, probs).dense(2))(POLICY_MDP, probs), probs
    )


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ([0, 2, 0], r"policy.actions\[1\]( is |.* got )\[2\].*0 to 1"),
        (-1, r"policy.actions\[0\]( is |.* got )\[-1\]"),
        ([[0.5, 0.5], [0.5, 0.5], [0.5, 0.4]], r"policy.probs\[2\].*state 2"),
        ([[0.5, 0.5], [1.5, -0.5], [0.5, 0.5]], r"policy.probs\[1\].*state 1"),
        ([[0.5, 0.5], [np.nan, 0.5], [0.5, 0.5]], r"policy.probs\[1\].*state 1"),
        ([0.0, 1.0, 0.0], "whole numbers.*float64"),
        ([True, False, True], "whole numbers.*bool"),
        ([0, 1], r"shape \(3,\).*\(2,\)"),
        ("greedy", r"policy( is |.* got )'greedy'"),
        (Policy(np.zeros((2, 1), int), np.ones((2, 1))), r"both must be \[3, W\]"),
    ],
)
def test_policy_errors_name_the_state(policy: Any, message: str) -> None:
    """A bad policy is refused with the state at fault."""
    with pytest.raises(ValueError, match=message):
        as_policy(POLICY_MDP, policy)


@pytest.mark.parametrize(
    "policy",
    [
        np.arange(16) % 4,
        np.full((16, 4), 0.25),
        Policy(np.zeros((16, 2), int), np.full((16, 2), 0.5)),
    ],
    ids=["actions", "probabilities", "policy"],
)
def test_a_policy_for_the_states_of_gymnasium_fits_its_mdp(policy: Any) -> None:
    """FrozenLake has 16 states, the MDP an end state more, in which no action counts."""
    mdp = MDP.from_gymnasium("FrozenLake-v1", 0.99)
    chosen = as_policy(mdp, policy)
    assert len(chosen.actions) == mdp.num_states == 17
    np.testing.assert_array_equal(chosen.probs.sum(-1), 1)
    dense = chosen.dense(4)
    if not isinstance(policy, Policy):
        given = np.eye(4)[policy] if policy.ndim == 1 else policy
        np.testing.assert_array_equal(dense[:16], given)
    np.testing.assert_array_equal(evaluate(mdp, chosen, Mean()).values[16], 0)
    with pytest.raises(ValueError, match=r"shape \(17,\).*states from 16 on are terminal.*\(15,\)"):
        as_policy(mdp, np.zeros(15, int))


def test_uniform_law_in_the_array_path() -> None:
    """`distributions` replace the rewards where their kind is not 0 and leave the others alone."""
    kind = np.array([[[2]], [[0]]])
    continuous = ContinuousRewards(kind, np.full((2, 1, 1), -1.0), np.full((2, 1, 1), 2.0))
    mdp = MDP.from_arrays(
        [[[1]], [[0]]],
        np.ones((2, 1, 1)),
        [[[9.0]], [[7.0]]],
        0.9,
        continuous=continuous,
        reward_atoms=5,
    )
    assert np.array_equal(mdp.rewards.atoms[0, 0, 0], Uniform(-1.0, 1.0).discretise(5).atoms)
    assert np.array_equal(mdp.rewards.atoms[1, 0, 0], [7, 0, 0, 0, 0])
    assert mdp.continuous is not None
    assert mdp.continuous.kind.dtype == np.int8
    assert np.array_equal(mdp.continuous.scale, [[[2.0]], [[0.0]]])


def test_without_a_word_episodes_start_where_something_can_happen() -> None:
    """In many gridworlds state 0 is terminal."""
    world = [[], [[(0.5, 0, -1.0), (0.5, 2, -1.0)]], [[(1.0, 1, -1.0)]]]
    assert MDP.from_lists(world, 1.0).start.tolist() == [0, 1, 0]
    assert MDP.from_lists(world, 1.0, start=0).start.tolist() == [1, 0, 0]
    assert MDP.from_lists([[]], 1.0).start.tolist() == [1]


def test_probabilities_of_lower_precision_are_taken_for_what_they_are() -> None:
    """A softmax in float32 sums to 1 as well as float32 can; what is further off is wrong in any
    precision.
    """
    logits = jax.random.normal(jax.random.key(0), (3, 2, 3))
    probs = jax.nn.softmax(logits)
    rewards = Particles(jnp.array([0.0, 1.0, 2.0]))
    mdp = MDP.from_dense(probs, np.zeros((3, 2)), 0.9, start=jax.nn.softmax(logits[0, 0]))
    np.testing.assert_allclose(mdp.probs.sum(-1), 1, atol=1e-15)
    np.testing.assert_allclose(mdp.start.sum(), 1, atol=1e-15)
    softmax = jax.nn.softmax(logits[:, 0, :2])
    actions = jnp.broadcast_to(jnp.arange(2), (3, 2))
    for policy in (
        softmax,
        np.asarray(softmax),
        np.asarray(softmax, np.float64),
        Policy(actions, softmax),
    ):
        np.testing.assert_allclose(as_policy(mdp, policy).probs.sum(-1), 1, atol=1e-15)
        evaluate(mdp, policy, Mean())  # which computes in float64, whatever is given
    paid = MDP.from_lists([[[(1.0, 1, rewards)]], []], 0.9)
    np.testing.assert_allclose(paid.rewards.probs.sum(-1), 1, atol=1e-15)
    with pytest.raises(ValueError, match=r"sum to 1, not to 0\.99"):
        as_policy(mdp, 0.99 * jax.nn.softmax(logits[:, 0, :2]))
    with pytest.raises(ValueError, match="must sum to 1"):
        MDP.from_dense(0.99 * probs, np.zeros((3, 2)), 0.9)


def test_a_reward_may_be_a_number_of_any_library() -> None:
    expected = MDP.from_lists([[[(1.0, 1, 1.0)]], []], 0.9).rewards.atoms
    for reward in (1, np.float32(1), np.array(1.0), jnp.float32(1)):
        np.testing.assert_array_equal(
            MDP.from_lists([[[(1.0, 1, reward)]], []], 0.9).rewards.atoms, expected
        )


@pytest.mark.parametrize(("gamma", "most"), [(0.9, "1e+299"), (0.0, "1e+300"), (1.0, "5e+299")])
def test_rewards_whose_returns_float64_cannot_hold_are_refused(gamma: float, most: str) -> None:
    def paying(reward: float) -> MDP:
        return MDP.from_lists([[[(0.5, 1, 1.0), (0.5, 1, reward)]], []], gamma)

    words = rf"rewards\[0, 0, 1\] is -1e\+308: state 0.*gamma {gamma:g} .*at most {re.escape(most)}"
    with pytest.raises(ValueError, match=words):
        paying(-1e308)
    assert np.isfinite(evaluate(paying(-9e298), [0, 0], Expectiles(5)).values).all()
