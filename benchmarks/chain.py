"""EDRL on the 15-chain, against a plain NumPy/SciPy loop that follows the paper's procedure."""

from typing import Any

import numpy as np
import scipy.optimize
import scipy.stats

from benchmarks.timing import side_by_side
from edrl import Expectiles
from edrl.tabular import MDP, evaluate, learn, problems

SIZES = (1, 3, 5, 7, 9)
STEPS = 30_000


def impute(values: np.ndarray, taus: np.ndarray) -> np.ndarray:
    """K equally weighted samples with these expectiles: SciPy's root with default parameters, as in
    the paper.
    """

    def gradients(samples: np.ndarray) -> np.ndarray:
        error = samples[None, :] - values[:, None]
        return np.asarray(
            np.mean(np.where(error > 0, taus[:, None], 1 - taus[:, None]) * error, axis=1)
        )

    return np.asarray(scipy.optimize.root(gradients, values).x)


def plain_sweep(mdp: MDP, values: np.ndarray, taus: np.ndarray) -> np.ndarray:
    """One pass of Algorithm 1 over the states, for the policy that always moves forward."""
    samples = [
        np.zeros(len(taus)) if mdp.terminal[x] else impute(values[x], taus)
        for x in range(mdp.num_states)
    ]
    new = values.copy()
    for x in range(mdp.num_states):
        if mdp.terminal[x]:
            continue
        targets, weights = [], []
        for b in np.flatnonzero(mdp.probs[x, 0]):
            reward = mdp.rewards.atoms[x, 0, b, 0]
            targets.append(reward + mdp.gamma * samples[mdp.successors[x, 0, b]])
            weights.append(np.full(len(taus), mdp.probs[x, 0, b] / len(taus)))
        target, weight = np.concatenate(targets), np.concatenate(weights)
        new[x] = [scipy.stats.expectile(target, tau, weights=weight) for tau in taus]
    return new


def plain_steps(mdp: MDP, taus: np.ndarray, steps: int, alpha: float = 0.05) -> np.ndarray:
    """Algorithm 2 along one trajectory."""
    rng = np.random.default_rng(0)
    values, x = np.zeros((mdp.num_states, len(taus))), 0
    for _ in range(steps):
        b = rng.choice(len(mdp.probs[x, 0]), p=mdp.probs[x, 0])
        after = mdp.successors[x, 0, b]
        samples = np.zeros(len(taus)) if mdp.terminal[after] else impute(values[after], taus)
        target = mdp.rewards.atoms[x, 0, b, 0] + mdp.gamma * samples
        error = target[None, :] - values[x][:, None]
        values[x] += (
            2
            * alpha
            * np.mean(np.where(error > 0, taus[:, None], 1 - taus[:, None]) * error, axis=1)
        )
        x = 0 if mdp.terminal[after] else after
    return values


def run() -> dict[str, Any]:
    mdp = problems.n_chain(15)
    families = [Expectiles(k) for k in SIZES]
    sweeps = [evaluate(mdp, 0, family).iterations for family in families]
    # SciPy's imputation never settles: the loop is given as many sweeps as ours takes. It is timed
    # on a few sweeps and steps of each K, from values learnt already, and scaled up.
    few_sweeps, few_steps = 2, 300
    warm = [evaluate(mdp, 0, family, tolerance=1e-9).values[:, 0] for family in families]

    def plain_dp() -> None:
        for family, values in zip(families, warm, strict=True):
            for _ in range(few_sweeps):
                plain_sweep(mdp, values, np.asarray(family.taus))

    def plain_td() -> None:
        for family in families:
            plain_steps(mdp, np.asarray(family.taus), few_steps)

    dp = side_by_side(
        lambda: [evaluate(mdp, 0, family) for family in families] and None, plain_dp, repeat=3
    )
    td = side_by_side(
        lambda: [learn(mdp, family, 0, steps=STEPS) for family in families] and None,
        plain_td,
        rounds=3,
    )
    return {
        "EDRL by DP to 1e-9, K in {1,3,5,7,9}": _scaled(dp, float(np.mean(sweeps)) / few_sweeps),
        "EDRL by TD, 30,000 steps, K in {1,3,5,7,9}": _scaled(td, STEPS / few_steps),
        "sweeps to 1e-9": dict(zip(map(str, SIZES), sweeps, strict=True)),
    }


def _scaled(result: dict[str, float], factor: float) -> dict[str, float]:
    keys = ("theirs_seconds", "times_faster", "times_faster_least", "times_faster_most")
    return {key: value * factor if key in keys else value for key, value in result.items()} | {
        "scaled_by": factor
    }
