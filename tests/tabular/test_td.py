"""Temporal differences: each step against the loss's gradient by hand, its limit against dynamic programming."""

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
from edrl.tabular.laws import Normal
from edrl.tabular.mdp import MDP
from edrl.tabular.policy import as_policy

STATES, ACTIONS, SEEDS = 4, 2, 16
END = STATES - 1
POLICY = np.array([[0.5, 0.5], [0.3, 0.7], [0.8, 0.2], [1.0, 0.0]])

FAMILIES: dict[str, Statistics] = {
    "mean": Mean(),
    "moments": Moments(2),
    "categorical": Categorical(np.linspace(-4, 4, 6)),
    "quantiles": Quantiles(3),
    "huber": HuberQuantiles(3, impute="as_samples"),
    "expectiles": Expectiles((0.2, 0.5, 0.8)),
}


@functools.cache
def task(gamma: float = 0.8) -> MDP:
    """Every pair leads to two states with random rewards; the last state is terminal, all others are starts."""
    rng = np.random.default_rng(7)
    successors = np.array([[[1, 2], [2, 0]], [[2, 3], [0, 3]], [[3, 3], [1, 3]], [[3, 3], [3, 3]]])
    probs = np.full((STATES, ACTIONS, 2), [0.4, 0.6])
    atoms = rng.uniform(-1, 1, (STATES, ACTIONS, 2, 2))
    atoms[2, 0] = [0.0, 1.0]  # the last step of some episodes pays 0 or 1
    atoms[END] = 0
    start = [0.5, 0.25, 0.25, 0.0]
    return MDP.from_arrays(successors, probs, Particles(atoms), gamma, terminal=[END], start=start)


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
    if isinstance(family, Mean | Moments):
        return 2 * (v - (z[None, :] ** np.arange(1, len(v) + 1)[:, None]) @ p)
    weight = np.where(error > 0, np.array(family.taus)[:, None], 1 - np.array(family.taus)[:, None])
    if isinstance(family, Expectiles):
        return -2 * (weight * error) @ p
    if isinstance(family, HuberQuantiles):
        return -(weight * np.clip(error, -family.kappa, family.kappa)) @ p
    return -(weight * np.sign(error)) @ p


def outcomes(
    family: Statistics, values: np.ndarray, x: int, a: int, rate: float, follow: np.ndarray = POLICY
) -> Iterator[np.ndarray]:
    """All that (x, a) can become by one step: after every successor x', reward r, and action a' with follow > 0.

    The target is r + gamma z with z imputed at (x', a'), and r alone where x' is terminal.
    """
    mdp, imputed = task(), family.impute(values)
    for b, reward in itertools.product(range(2), range(2)):
        y = mdp.successors[x, a, b]
        for following in np.flatnonzero(follow[y]):
            atoms = np.zeros_like(imputed.atoms[y, 0]) if mdp.terminal[y] else imputed.atoms[y, following]
            atoms = mdp.rewards.atoms[x, a, b, reward] + mdp.gamma * atoms
            step = gradient(family, values[x, a], atoms, imputed.probs[y, following])
            yield values[x, a] - rate * step


def check_one_step(
    family: Statistics, learnt: td.Learnt, values: np.ndarray, rate: float, follow: np.ndarray = POLICY
) -> None:
    """Exactly the visited pair changed, to one of its possible outcomes."""
    final, visits = learnt.final()[0], learnt.visits[0]
    for run in range(len(visits)):
        assert visits[run].sum() == 1
        x, a = map(int, np.argwhere(visits[run])[0])
        others = visits[run] == 0
        np.testing.assert_array_equal(final[run][others], values[others])
        possible = np.array(list(outcomes(family, values, x, a, rate, follow)))
        assert np.abs(possible - final[run, x, a]).max(axis=-1).min() < 1e-13, (run, x, a)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_one_step_is_the_gradient_at_the_visited_pair(family: Statistics) -> None:
    """Algorithm 2. Values are random, so an outcome with gamma twice or not at all, with another next action, with

    values that follow a terminal state, or learnt at another pair would be none of the possible ones.
    """
    values = random_values(family)
    learnt = learn(family, 1, step_size=0.3, initial=values)
    assert learnt.values.shape == (1, 1, SEEDS, STATES, ACTIONS, family.size)
    assert learnt.values.dtype == np.float64
    check_one_step(family, learnt, values, 0.3)
    visited = {tuple(map(int, np.argwhere(visits)[0])) for visits in learnt.visits[0]}
    assert len(visited) >= 4  # of the 6 that are not terminal: all starts and both actions
    assert END not in {x for x, _ in visited}


@pytest.mark.parametrize("name", ["mean", "categorical", "quantiles", "expectiles"])
def test_learning_converges_to_the_fixed_point_of_dynamic_programming(name: str) -> None:
    """With step sizes that decay as n^-0.7 the runs settle around the values that Algorithm 1 finds.

    How closely is judged by the runs themselves: their average is within 4 standard errors, plus what is left of
    the way from the start, which falls as exp(-sum of step sizes) and is nothing by then.
    """
    mdp, family = with_densities(), FAMILIES[name]
    target = dp.evaluate(mdp, POLICY, family).values[:END]
    learnt = learn(family, 20_000, mdp=mdp, step_size=0.5, decay=0.7)
    runs = learnt.final()[0][:, :END]
    error, spread = runs.mean(axis=0) - target, runs.std(axis=0, ddof=1)
    assert (np.abs(error) <= 4.5 * spread / np.sqrt(SEEDS) + 0.01).all()
    assert spread.max() < 0.1
    start = np.abs(family.evaluate(Particles(np.zeros(1))) - target)
    assert np.abs(error).max() < 0.1 * start.max()


@functools.cache
def with_densities() -> MDP:
    """The task with normal rewards added at the end, so that quantiles are unique."""
    mdp = task()
    lists = [
        [
            [(mdp.probs[x, a, b], int(mdp.successors[x, a, b]), Normal(0.5 * a - 0.1 * x + b, 0.5)) for b in range(2)]
            for a in range(ACTIONS)
        ]
        for x in range(END)
    ]
    return MDP.from_lists([*lists, []], mdp.gamma, start=mdp.start)
