"""The tabular wing against plain loops in Numba (`benchmarks.numba_loops`): CPU time on one core.

Each run checks first that both find the same numbers. Numba's loops are scalar code without any
overhead, made for one task each: a ratio of 1 is as fast as such a loop.
"""

import functools
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from benchmarks import numba_loops as loops
from edrl import Categorical, Expectiles, Particles, Quantiles
from edrl.tabular import evaluate, imputed_backup, learn, problems

STEPS = 100_000
Call = Callable[[], Any]


def cpu_seconds(function: Call) -> float:
    """Of all threads of the process: what one core needs for one call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def ratio(ours: Call, theirs: Call, rounds: int = 5) -> dict[str, float]:
    """Both by turns after one untimed call each; medians, and the median of the ratios."""
    ours(), theirs()
    pairs = [(cpu_seconds(ours), cpu_seconds(theirs)) for _ in range(rounds)]
    ratios = [slow / fast for slow, fast in pairs]
    return {
        "ours_seconds": float(np.median([one for one, _ in pairs])),
        "numba_seconds": float(np.median([other for _, other in pairs])),
        "times_as_long": float(np.median(ratios)),
        "times_as_long_least": min(ratios),
        "times_as_long_most": max(ratios),
    }


def again(repeat: int, function: Callable[..., Any], *args: Any) -> None:
    """Call a short function several times."""
    for _ in range(repeat):
        jax.block_until_ready(function(*args))


def chances(steps: int) -> np.ndarray:
    """The uniform numbers that choose the branches of seed 0, as `learn` draws them."""
    with jax.enable_x64(True):
        key = jax.random.key(0)

        def draw(step: jax.Array) -> jax.Array:
            return jax.random.uniform(jax.random.split(jax.random.fold_in(key, step))[0], (7,))[3]

        return np.asarray(jax.vmap(draw)(jax.numpy.arange(steps)))


def differences(steps: int = 2_000) -> dict[str, float]:
    """The largest difference between our numbers and Numba's, for each task but imputation."""
    chain = problems.n_chain(15)
    arrays, drawn = loops.Transitions.of(chain), chances(steps)
    edrl, qdrl, cdrl = Expectiles(9), Quantiles(9), Categorical(np.linspace(-15, 1, 33))
    levels = loops.Levels.of(edrl)
    # Where a target equals a value, rounding decides about the step of a quantile: no such start.
    start = np.random.default_rng(0).normal(size=(15, 2, 9))
    start[14] = 0
    theirs = {
        "EDRL by TD": (edrl, None, loops.edrl_td(arrays, levels, drawn, 0.05)),
        "QDRL by TD": (qdrl, start, loops.qdrl_td(arrays, qdrl.taus, drawn, 0.05, start[:, 0])),
        "CDRL by TD": (cdrl, None, loops.cdrl_td(arrays, cdrl.support, drawn, 0.05)),
    }
    found = {}
    for name, (family, initial, values) in theirs.items():
        ours = learn(chain, family, 0, steps=steps, initial=initial).final()[0, 0, :, 0]
        found[name] = float(np.abs(ours - values).max())
    solved, _ = loops.sweeps(arrays, levels, np.zeros((15, 2, 9)), 1e-9, 10_000)
    found["EDRL by DP"] = float(np.abs(evaluate(chain, 0, edrl).values - solved).max())
    return found


def temporal_differences() -> dict[str, Any]:
    """Along a trajectory of the 15-chain."""
    chain = problems.n_chain(15)
    arrays, rng = loops.Transitions.of(chain), np.random.default_rng(0)
    edrl, qdrl, cdrl = Expectiles(9), Quantiles(9), Categorical(np.linspace(-15, 1, 33))
    levels, zeros = loops.Levels.of(edrl), np.zeros((15, 9))
    tasks = {
        "EDRL, K = 9": (edrl, lambda: loops.edrl_td(arrays, levels, rng.random(STEPS), 0.05)),
        "QDRL, K = 9": (
            qdrl,
            lambda: loops.qdrl_td(arrays, qdrl.taus, rng.random(STEPS), 0.05, zeros),
        ),
        "CDRL, 33 places": (
            cdrl,
            lambda: loops.cdrl_td(arrays, cdrl.support, rng.random(STEPS), 0.05),
        ),
    }
    return {
        name: ratio(functools.partial(learn, chain, family, 0, steps=STEPS), theirs)
        for name, (family, theirs) in tasks.items()
    }


def dynamic_programming() -> dict[str, float]:
    """The 15-chain to 1e-9, K = 9."""
    chain, family = problems.n_chain(15), Expectiles(9)
    arrays, levels, start = (
        loops.Transitions.of(chain),
        loops.Levels.of(family),
        np.zeros((15, 2, 9)),
    )
    return ratio(
        lambda: evaluate(chain, 0, family).values,
        lambda: loops.sweeps(arrays, levels, start, 1e-9, 10_000)[0],
    )


def large_sweep(states: int = 10_000) -> dict[str, float]:
    """One sweep over a Garnet MDP with 4 actions and 5 successors of each pair, K = 11."""
    mdp, family = (
        problems.garnet(0, states=states, actions=4, branching=5, gamma=0.95),
        Expectiles(11),
    )
    arrays, levels = loops.Transitions.of(mdp), loops.Levels.of(family)
    values = np.zeros((states, 4, 11))
    for _ in range(2):
        values = np.asarray(imputed_backup(mdp, 0, family, values))
    ours, theirs = (
        imputed_backup(mdp, 0, family, values),
        loops.sweeps(arrays, levels, values, 0.0, 1),
    )
    return {
        **ratio(
            lambda: imputed_backup(mdp, 0, family, values),
            lambda: loops.sweeps(arrays, levels, values, 0.0, 1)[0],
            rounds=3,
        ),
        "difference": float(np.abs(ours - theirs[0]).max()),
    }


def imputation(repeat: int = 200) -> dict[str, Any]:
    """Exact imputation of 32 x 11: consistent rows, one noisy row among them, noisy rows."""
    family, rng = Expectiles(11), np.random.default_rng(0)
    levels, found = loops.Levels.of(family), {}
    with jax.enable_x64(True):
        mu = Particles(rng.normal(size=(32, 32)), rng.dirichlet(np.ones(32), 32))
        values = np.asarray(family.evaluate(mu))
        noisy = values + 0.05 * rng.normal(size=values.shape)
        one_noisy = np.where(np.arange(32)[:, None] == 0, noisy, values)
        impute = jax.jit(lambda rows: family.impute(rows).atoms)
        for name, rows in (("consistent", values), ("one noisy", one_noisy), ("noisy", noisy)):
            on_device = jax.numpy.asarray(rows)
            found[name] = ratio(
                functools.partial(again, repeat, impute, on_device),
                functools.partial(again, repeat, loops.impute_rows, rows, levels),
            )
    return found


def run() -> dict[str, Any]:
    return {
        "largest difference from Numba": differences(),
        "temporal differences, 15-chain": temporal_differences(),
        "dynamic programming, 15-chain, K = 9": dynamic_programming(),
        "a sweep over 10^4 states x 4 x 5, K = 11": large_sweep(),
        "exact imputation, 32 x 11": imputation(),
    }
