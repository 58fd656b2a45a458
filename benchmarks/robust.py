"""What robust imputation costs, against exact imputation and in an update of a deep agent: batch
32, MinAtar's network.
"""

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.imputation import consistent_values
from benchmarks.timing import seconds
from edrl import (
    Expectiles,
    HuberQuantiles,
    Imputation,
    MaximumEntropy,
    Particles,
    RobustEntropy,
)
from edrl.core.metrics import wasserstein
from edrl.deep.agents import StatisticsAgent
from edrl.deep.config import Config
from edrl.deep.learner import new_learner, optimiser_for, seed_of, update
from edrl.deep.networks import network_for
from edrl.deep.rollout import Batch

_BATCH, _ACTIONS, _ROUNDS, _REPEAT = 32, 6, 50, 10


def run() -> dict[str, Any]:
    return {"imputation": imputations(), "update": updates(), "Huber quantiles": iterations()}


def imputations() -> dict[str, Any]:
    """Both on expectiles and on expectiles with noise of 3 %, in float64.

    As calls, which look for values that are not finite first, and compiled, as part of a program.
    """
    found = {}
    with jax.enable_x64(True):
        for size in (5, 11, 51):
            exact, robust = Expectiles(size), Expectiles(size, imputation="robust")
            clean = consistent_values(exact, _BATCH)
            noise = np.random.default_rng(0).normal(size=clean.shape)
            noisy = clean + 0.03 * np.ptp(clean, axis=-1, keepdims=True) * noise
            calls = {}
            for name, family in (("exact", exact), ("robust", robust)):
                compiled = jax.jit(family.impute)
                for kind, values in (("consistent", clean), ("noisy", noisy)):
                    given = jnp.asarray(values)
                    calls[f"{name}, {kind}"] = functools.partial(family.impute, given)
                    calls[f"{name}, {kind}, compiled"] = functools.partial(compiled, given)
            found[f"{size} expectiles"] = _microseconds(calls)
    return found


def updates() -> dict[str, Any]:
    """An update of ER-DQN with each imputation; `as_samples` shows what it costs without any."""
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 2, (2, _BATCH, 10, 10, 4)).astype(np.uint8)
    rewards, discounts = rng.normal(size=_BATCH), np.full(_BATCH, 0.99)
    actions = rng.integers(0, _ACTIONS, _BATCH)
    batch = Batch(
        frames[0], actions, rewards.astype(np.float32), discounts.astype(np.float32), frames[1]
    )
    found = {}
    for size in (11, 51):
        calls = {
            name: _updater(Config(agent="er-dqn", size=size, imputation=name), batch)
            for name in ("as_samples", "exact", "robust")
        }
        found[f"{size} expectiles"] = _microseconds(calls)
    return found


def iterations() -> dict[str, Any]:
    """How many ridges and Newton steps are worth their time: 11 Huber quantiles with 1 % of noise.

    These are not the distributions of `noise`: gamma, Laplace, log-normal and with four atoms.
    """
    rng = np.random.default_rng(0)
    kinds = [
        rng.gamma(2, size=(8, 30)),
        rng.laplace(size=(8, 30)),
        rng.lognormal(size=(8, 30)),
        rng.choice([-2.0, -0.5, 0.3, 1.7], size=(8, 30)),
    ]
    found, truth = {}, Particles(np.concatenate(kinds))
    with jax.enable_x64(True):
        clean = np.asarray(HuberQuantiles(11).evaluate(truth))
        errors = rng.normal(size=clean.shape)
        values = jnp.asarray(clean + 0.01 * np.ptp(clean, axis=-1, keepdims=True) * errors)
        ways: dict[str, Imputation] = {"maximum entropy": MaximumEntropy()}
        for ridges, steps in ((1, 1), (1, 2), (2, 1), (2, 2), (3, 3)):
            name = f"{ridges} ridges a decade, {steps} steps each"
            ways[name] = RobustEntropy(per_decade=ridges, steps=steps)
        for name, way in ways.items():
            family = HuberQuantiles(11, imputation=way)
            distance = wasserstein(family.impute(values), truth, 1) / truth.std()
            cost = _cpu_milliseconds(functools.partial(family.impute, values))
            found[name] = {"wasserstein": float(np.mean(distance)), "cpu_milliseconds": cost}
    return found


def _cpu_milliseconds(call: Callable[[], Any]) -> float:
    """Of this process, in the quietest of some calls."""
    times = []
    for _ in range(_ROUNDS):
        start = time.process_time()
        jax.block_until_ready(call())
        times.append(1e3 * (time.process_time() - start))
    return min(times)


def _updater(config: Config, batch: Batch) -> Callable[[], Any]:
    family = config.family()
    network = network_for("minatar", (10, 10, 4), _ACTIONS, family.num_outputs, 1.0)
    agent = StatisticsAgent(family, network)
    optimiser = optimiser_for(config, agent)
    state, seed = [new_learner(agent, optimiser, jax.random.key(0))], seed_of(0, 0)

    def step() -> Any:
        state[0], losses = update(agent, optimiser, state[0], batch, seed)
        return state[0].online, losses

    return step


def _microseconds(calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """The least time of a call, by turns: other work on the machine only adds to it."""
    for call in calls.values():
        call()  # compiles
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            times[name].append(1e6 * seconds(call, _REPEAT))
    return {name: float(np.min(measured)) for name, measured in times.items()}
