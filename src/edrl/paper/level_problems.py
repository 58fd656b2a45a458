"""The problems on which rules of imputation are compared: Garnets, chains, rivers, lakes, a taxi."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edrl import Particles
from edrl.tabular import MDP
from edrl.tabular.lists import Reward
from edrl.tabular.problems import garnet, n_chain
from edrl.tabular.rewards import Exponential, Uniform


@dataclass(frozen=True)
class Problem:
    """An MDP whose rewards are at most 1, which changes no relative error."""

    group: str
    name: str
    mdp: MDP


def direct_sum(mdps: Sequence[MDP]) -> MDP:
    """The MDP that consists of all `mdps` side by side. Where it has too many actions, they are
    repeated, each as often as the others: so a uniform policy stays uniform."""
    actions = math.lcm(*(mdp.num_actions for mdp in mdps))
    branches = max(mdp.probs.shape[-1] for mdp in mdps)
    atoms = max(mdp.rewards.size for mdp in mdps)
    successors, probs, places, weights, terminal = [], [], [], [], []
    states = 0
    for mdp in mdps:
        again = np.arange(actions) % mdp.num_actions
        more = [(0, 0), (0, 0), (0, branches - mdp.probs.shape[-1])]
        reward_size = [*more, (0, atoms - mdp.rewards.size)]
        weight = np.pad(mdp.rewards.probs[:, again], reward_size)
        weight[..., 0] += weight.sum(axis=-1) == 0  # of branches that are never taken
        successors.append(states + np.pad(mdp.successors[:, again], more))
        probs.append(np.pad(mdp.probs[:, again], more))
        places.append(np.pad(mdp.rewards.atoms[:, again], reward_size))
        weights.append(weight)
        terminal.append(mdp.terminal)
        states += mdp.num_states
    rewards = Particles(np.concatenate(places), np.concatenate(weights))
    arrays = np.concatenate(successors), np.concatenate(probs), rewards
    return MDP.from_arrays(*arrays, mdps[0].gamma, terminal=np.concatenate(terminal))


def _problem(group: str, name: str, mdp: MDP) -> Problem:
    scale = np.abs(mdp.rewards.atoms).max()
    rewards = Particles(mdp.rewards.atoms / scale, mdp.rewards.probs)
    arrays = (mdp.successors, mdp.probs, rewards, mdp.gamma)
    return Problem(group, name, MDP.from_arrays(*arrays, terminal=mdp.terminal))


SHAPES: dict[str, tuple[int, int, int, int]] = {
    "small": (7, 2, 4, 1),
    "sparse": (12, 4, 2, 1),
    "large": (24, 2, 4, 1),
    "random rewards": (9, 2, 3, 2),
}
"""Garnets: states, actions, successors, and the number of rewards of a transition."""


def garnets(shape: str, seeds: range, gamma: float) -> list[Problem]:
    """Garnets of one of the `SHAPES`."""
    states, actions, branching, rewards = SHAPES[shape]
    found = []
    for seed in seeds:
        mdp = garnet(seed, states, actions, branching, gamma, 1.0, rewards)
        found.append(_problem("Garnet", f"{shape}, seed {seed}", mdp))
    return found


GOALS: dict[str, Reward] = {"1": 1.0, "uniform": Uniform(-1.0, 1.0), "exponential": Exponential()}
"""Rewards at the goals of chains."""


def chains(gamma: float, *lengths: int, goal: str = "1") -> list[Problem]:
    """N-chains with one of the `GOALS`."""
    found = []
    for length in lengths:
        mdp = n_chain(length, GOALS[goal], gamma, reward_atoms=8)
        found.append(_problem("N-chain", f"{length}-chain, goal {goal}", mdp))
    return found


def river_swim(length: int, gamma: float) -> MDP:
    """Strehl and Littman's (2008): a swimmer goes with the current for little, or against it for a
    reward upstream.
    """
    last = length - 1

    def step(x: int, action: int) -> list[tuple[float, int, Reward]]:
        if action == 0:
            return [(1.0, max(x - 1, 0), 0.005 * (x == 0))]
        moves = ((0.35, 1), (0.6, 0), (0.05, -1))
        return [(p, min(max(x + move, 0), last), 1.0 * (x == last)) for p, move in moves]

    return MDP.from_function(step, length, 2, gamma)


def rivers(gamma: float, *lengths: int) -> list[Problem]:
    """RiverSwim of several lengths."""
    mdps = {f"{length} states": river_swim(length, gamma) for length in lengths}
    return [_problem("RiverSwim", name, mdp) for name, mdp in mdps.items()]


def lakes(gamma: float, size: int, seeds: Sequence[int]) -> list[Problem]:
    """Gymnasium's FrozenLake on random maps."""
    import gymnasium
    from gymnasium.envs.toy_text.frozen_lake import generate_random_map

    found = []
    for seed in seeds:
        env = gymnasium.make("FrozenLake-v1", desc=generate_random_map(size, seed=seed))
        mdp = MDP.from_gymnasium(env, gamma)
        found.append(_problem("FrozenLake", f"{size}x{size}, map {seed}", mdp))
    return found


def taxi(gamma: float) -> Problem:
    """Gymnasium's Taxi in the rain, where it may drift to the side."""
    import gymnasium

    env = gymnasium.make("Taxi-v4", is_rainy=True)
    return _problem("Taxi", "in the rain", MDP.from_gymnasium(env, gamma))
