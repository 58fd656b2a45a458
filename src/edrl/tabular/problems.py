"""The MDPs of the paper's figures and proofs, and random MDPs to try a method on.

Where the paper pays a reward "at a terminal state", the reward is paid here on leaving that state
into an end state, because the return from a terminal state is 0.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from edrl.core.check import check_count, check_number, fail
from edrl.core.particles import Particles
from edrl.core.types import Float
from edrl.core.words import count, form
from edrl.tabular.lists import Actions, Lists, Reward
from edrl.tabular.mdp import MDP
from edrl.tabular.rewards import Exponential, Normal, Uniform


def bimodal_chain(
    length: int = 7,
    gamma: float = 0.9,
    modes: Sequence[tuple[float, Reward]] = ((0.5, Normal(-1.0, 0.3)), (0.5, Normal(1.0, 0.3))),
    reward_atoms: int = 64,
) -> MDP:
    """Figure 2: a chain x0, ..., x6 with one action, and a bimodal reward at its end.

    The paper gives no numbers for the reward: `modes` lists (probability, reward) of what it is
    mixed from.
    """
    length = check_count("length", length, 1)
    last = length - 1
    return MDP.from_lists(
        [
            *([[(1.0, x + 1, 0.0)]] for x in range(last)),
            [[(p, last + 1, reward) for p, reward in modes]],
            [],
        ],
        gamma,
        reward_atoms=reward_atoms,
        state_names=[*_numbered(length), "end"],
        action_names=["forward"],
    )


def n_chain(
    length: int = 15, goal: Reward = 1.0, gamma: float = 0.99, reward_atoms: int = 64
) -> MDP:
    """Section 5.1, Figure 3: a chain with the actions `forward` and `backward`.

    `forward` moves right with probability 0.95 and else to x0; `backward` is the reverse.
    The reward is -1 on the way to x0 and `goal` on the way to the rightmost state, which is
    terminal; Appendix E also takes the goals `Uniform(-1, 1)` and `Normal(0, 1)`.
    """
    length = check_count("length", length, 2)
    last = length - 1

    def step(x: int, action: int) -> list[tuple[float, int, Reward]]:
        if x == last:
            return []
        right, left = (0.95, 0.05) if action == 0 else (0.05, 0.95)
        return [(right, x + 1, goal if x + 1 == last else 0.0), (left, 0, -1.0)]

    return MDP.from_function(
        step,
        length,
        2,
        gamma,
        start=0,
        reward_atoms=reward_atoms,
        state_names=_numbered(length),
        action_names=["forward", "backward"],
    )


def control_mdp(reward_atoms: int = 64) -> MDP:
    """Section 5.2 and Figure 7: the action in x0 chooses between x0 -> x1 -> x3 and x0 -> x2 -> x4.

    The reward at x3 is E and that at x4 is 1.85 - E with E exponential of mean 1, so the expected
    returns are 1 and 0.85 (gamma = 1). The density at x4 is misprinted as exp(lambda + 1.85) for
    lambda <= 1.85, which integrates to exp(3.7); meant is exp(lambda - 1.85). All actions do the
    same in states other than x0.
    """
    after: dict[int, tuple[int, Reward]] = {
        1: (3, 0.0),
        2: (4, 0.0),
        3: (5, Exponential()),
        4: (5, Exponential(shift=1.85, reflected=True)),
    }
    lists: dict[int, Actions] = {0: [[(1.0, 1, 0.0)], [(1.0, 2, 0.0)]]}
    for x, (successor, reward) in after.items():
        lists[x] = [[(1.0, successor, reward)]] * 2
    return MDP.from_lists(
        lists,
        1.0,
        reward_atoms=reward_atoms,
        state_names=[*_numbered(5), "end"],
        action_names=["a1", "a2"],
    )


def quantile_not_closed(
    k: int = 4,
    variant: Literal["uniform", "atoms"] = "uniform",
    gamma: float = 0.9,
    atoms_per_level: int = 33,
) -> MDP:
    """Lemma 4.4 (ii): rewards with the same k mid-quantiles at x1 and x2, but not at x0.

    x0 leads to x1 or x2 with equal probability. Rewards there are uniform on [0, 1] and [1/k, 1 +
    1/k], or the k equally likely atoms at their mid-quantiles. The 1/(2k)-quantile at x0 is gamma/k
    for the first; for the second the proof prints 3 gamma/(2k), but F already reaches 1/(2k) at
    gamma/(2k), so that is the quantile min{z : F(z) >= tau}. It differs from gamma/k all the same.
    The uniform distributions are discretised into an odd number `atoms_per_level` of atoms for each
    level, which keeps their mid-quantiles.
    """
    k = check_count("k", k, 1)
    if check_count("atoms_per_level", atoms_per_level, 1) % 2 == 0:
        raise fail("atoms_per_level", atoms_per_level, "it must be odd")
    middles = (2 * np.arange(k) + 1) / (2 * k)
    pairs: dict[str, tuple[Reward, Reward]] = {
        "uniform": (Uniform(0.0, 1.0), Uniform(1 / k, 1 + 1 / k)),
        "atoms": (Particles(middles), Particles(middles + 1 / k)),
    }
    if variant not in pairs:
        raise fail("variant", variant, f"it must be one of {list(pairs)}")
    return _fork((0.5, 0.5), pairs[variant], gamma, reward_atoms=k * atoms_per_level)


def quantile_mean_inconsistent(k: int = 4, gamma: float = 0.9) -> MDP:
    """Lemma 4.8 (ii): with k quantiles, QDRL prefers the worse one of two actions.

    The first action has twice the mean of the second, which QDRL prefers.
    In one state, the first action pays 1 with probability 1/(4k) and else 0, the second pays
    1/(8k).
    """
    k = check_count("k", k, 1)
    rare = Particles(np.array([0.0, 1.0]), np.array([4 * k - 1, 1]) / (4 * k))
    actions: Actions = [[(1.0, 1, rare)], [(1.0, 1, 1 / (8 * k))]]
    return MDP.from_lists(
        [actions, []], gamma, state_names=["x0", "end"], action_names=["a1", "a2"]
    )


def cdrl_not_uniform(m: int = 1, depth: int = 5, variant: Literal["A", "B"] = "A") -> MDP:
    """Appendix C, first lemma: CDRL learns the same for two rewards.

    Its bins lie at j/2^depth in [0, 1].
    x1 leads to x2 without reward and gamma = 2^m / (2^m + 1) (the proof's "for some k" means m). At
    x2, rho_A lies in the middle between the bins that rho_B charges equally. The statistic h_{1/2,
    1/2 + 2^-depth} of the return at x1 is 0 under rho_A and 1 / (2 (2^m + 1)) under rho_B, whatever
    the depth. Besides the proof's depth > m + 1, it needs m >= 1: for m = 0 both statistics are
    1/4.
    """
    m = check_count("m", m, 1)
    depth = check_count("depth", depth, m + 2)
    corner, width = 0.5 + 0.5 ** (m + 1), 0.5**depth
    continuous: dict[str, Reward] = {
        "A": corner + 1.5 * width,
        "B": Particles(corner + width * np.array([1.0, 2.0])),
    }
    if variant not in continuous:
        raise fail("variant", variant, f"it must be one of {list(continuous)}")
    chain: Lists = [[[(1.0, 1, 0.0)]], [[(1.0, 2, continuous[variant])]], []]
    return MDP.from_lists(chain, 2**m / (2**m + 1), state_names=["x1", "x2", "end"])


def qdrl_not_uniform(k: int = 5, epsilon: float | None = None, gamma: float = 0.9) -> MDP:
    """Appendix C, second lemma: QDRL with k (odd) quantiles learns a wrong median at x0.

    It is -gamma instead of 0.

    x0 leads to x1 with probability 1/2 - epsilon and else to x2, where rewards are 0 with
    probability 1/(2k) - epsilon and else 1 and -1. The proof asks for epsilon << 1; what it uses is
    P(return <= -gamma) = (1/2 + epsilon) (1 - 1/(2k) + epsilon) < 1/2, that is, epsilon below about
    1/(6k). The default is 1/(8k).
    """
    if check_count("k", k, 1) % 2 == 0:
        raise fail("k", k, "it must be odd, so that the median is one of the quantiles")
    epsilon = check_number(
        "epsilon", 1 / (8 * k) if epsilon is None else epsilon, 0.0, 0.5, open_low=True
    )
    often = 1 - 1 / (2 * k) + epsilon
    if not (0.5 + epsilon) * often < 0.5:
        raise fail(
            "epsilon", epsilon, f"it must be so small that (1/2 + epsilon) * {often:g} < 1/2"
        )
    probs = np.array([1 - often, often])
    rewards = Particles(np.array([0.0, 1.0]), probs), Particles(np.array([0.0, -1.0]), probs)
    return _fork((0.5 - epsilon, 0.5 + epsilon), rewards, gamma)


def garnet(
    seed: int,
    states: int = 20,
    actions: int = 3,
    branching: int = 4,
    gamma: float = 0.9,
    max_reward: float = 1.0,
    reward_atoms: int = 1,
) -> MDP:
    """A random MDP (Archibald, McKinnon and Thomas, 1995) without terminal states.

    Each state and action has `branching` distinct random successors, with probabilities that cut
    [0, 1] at uniform points. The reward of each transition is uniform on [-max_reward, max_reward],
    or a random distribution with `reward_atoms` such atoms.
    """
    states, branching = check_count("states", states, 1), check_count("branching", branching, 1)
    shape = states, check_count("actions", actions, 1), branching
    if branching > states:
        raise fail(
            "branching",
            branching,
            f"there {form(states, 'is', 'are')} only {count(states, 'state')} to lead to",
        )
    max_reward = check_number("max_reward", max_reward, 0.0)
    size = check_count("reward_atoms", reward_atoms, 1)
    rng = np.random.default_rng(seed)

    def cuts(*sizes: int) -> Float[np.ndarray, "..."]:
        inner = np.sort(rng.random((*sizes[:-1], sizes[-1] - 1)), axis=-1)
        return np.diff(inner, axis=-1, prepend=0.0, append=1.0)

    # Floyd's way to a random subset: each newcomer is a number up to j or, if that is taken, j.
    successors = np.empty(shape, np.int64)
    for b, j in enumerate(range(states - branching, states)):
        newcomer = rng.integers(0, j + 1, shape[:2])
        taken = (successors[..., :b] == newcomer[..., None]).any(-1)
        successors[..., b] = np.where(taken, j, newcomer)
    probs = cuts(*shape)
    rewards = Particles(rng.uniform(-max_reward, max_reward, (*shape, size)), cuts(*shape, size))
    return MDP.from_arrays(successors, probs, rewards, gamma)


def _fork(
    probs: tuple[float, float], rewards: tuple[Reward, Reward], gamma: float, reward_atoms: int = 64
) -> MDP:
    """One action: x0 leads to x1 or x2, from which the rewards are paid."""
    lists: Lists = [
        [[(probs[0], 1, 0.0), (probs[1], 2, 0.0)]],
        *([[(1.0, 3, reward)]] for reward in rewards),
        [],
    ]
    return MDP.from_lists(
        lists, gamma, reward_atoms=reward_atoms, state_names=[*_numbered(3), "end"]
    )


def _numbered(count: int) -> list[str]:
    return [f"x{x}" for x in range(count)]


PROBLEMS: dict[str, Callable[[], MDP]] = {
    "bimodal_chain": bimodal_chain,
    "n_chain": n_chain,
    "n_chain_uniform": lambda: n_chain(goal=Uniform(-1.0, 1.0)),
    "n_chain_normal": lambda: n_chain(goal=Normal(0.0, 1.0)),
    "control_mdp": control_mdp,
    "quantile_not_closed": quantile_not_closed,
    "quantile_not_closed_atoms": lambda: quantile_not_closed(variant="atoms"),
    "quantile_mean_inconsistent": quantile_mean_inconsistent,
    "cdrl_not_uniform": cdrl_not_uniform,
    "cdrl_not_uniform_b": lambda: cdrl_not_uniform(variant="B"),
    "qdrl_not_uniform": qdrl_not_uniform,
    "garnet": lambda: garnet(0),
    "garnet_random_rewards": lambda: garnet(0, reward_atoms=3),
}
"""A default instance of every problem, by name."""
