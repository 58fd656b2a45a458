"""`python -m benchmarks.peers.rejax_agents ENVS,UPDATES dqn`: rejax's DQN or IQN in gymnax's Breakout.

It has our network for MinAtar, and our numbers of samples in IQN. It answers each line "go" by the
seconds of CPU time that the next steps took.
"""

import sys
import time
from importlib.metadata import version
from typing import Any

import jax
from flax import linen as nn
from jax import numpy as jnp
from rejax.algos.dqn import DQN, EpsilonGreedyPolicy
from rejax.algos.iqn import IQN
from rejax.algos.iqn import EpsilonGreedyPolicy as QuantilePolicy
from rejax.networks import ImplicitQuantileNetwork

STEPS, LEARN_AFTER, SAMPLES = 1_600, 1_600, 8


def features(observations: Any) -> Any:
    x = nn.relu(nn.Conv(16, (3, 3), padding="VALID")(observations))
    return x.reshape(len(x), -1)


class Values(nn.Module):
    action_dim: int

    @nn.compact
    def __call__(self, obs: Any) -> Any:
        return nn.Dense(self.action_dim)(nn.relu(nn.Dense(128)(features(obs))))

    def take(self, obs: Any, action: Any) -> Any:
        return jnp.take_along_axis(self(obs), action[:, None], axis=1).squeeze(1)


class Quantiles(ImplicitQuantileNetwork):
    @nn.compact
    def __call__(self, obs: Any, rng: Any) -> Any:
        seen = features(obs)
        tau = jax.random.uniform(rng, (len(obs),))
        cosines = jnp.cos(jnp.pi * jnp.outer(tau, jnp.arange(1, 65)))
        x = seen * nn.relu(nn.Dense(seen.shape[-1])(cosines))
        return nn.Dense(self.action_dim)(nn.relu(nn.Dense(128)(x))), tau


def made(agent: str, envs: int, updates: int) -> Any:
    settings: dict[str, Any] = {
        "env": "Breakout-MinAtar", "num_envs": envs, "num_epochs": updates, "batch_size": 32,
        "buffer_size": 20_000, "fill_buffer": LEARN_AFTER, "target_update_freq": 1_600,
        "polyak": 0.0, "gamma": 0.99, "learning_rate": 2.5e-4, "total_timesteps": 10**8,
        "eps_start": 0.1, "eps_end": 0.1, "skip_initial_evaluation": True,
    }  # fmt: skip
    if agent == "dqn":
        built = DQN.create(**settings, ddqn=False)
        return built.replace(agent=EpsilonGreedyPolicy(Values)(action_dim=3))
    samples = {"num_tau_samples": SAMPLES, "num_tau_prime_samples": SAMPLES}
    built = IQN.create(**settings, **samples)
    network = QuantilePolicy(Quantiles)(hidden_layer_sizes=(64,), activation=nn.relu, action_dim=3)
    return built.replace(agent=network)


def main(setting: str, agent: str) -> None:
    envs, updates = map(int, setting.split(","))
    algorithm = made(agent, envs, updates)

    def chunk(state: Any) -> Any:
        turns = STEPS // envs
        return jax.lax.fori_loop(0, turns, lambda _, now: algorithm.train_iteration(now), state)

    advance = jax.jit(chunk, donate_argnums=0)
    state = jax.jit(algorithm.init_state)(jax.random.PRNGKey(0))
    for _ in range(3):  # the memory is filled, and learning has begun
        state = jax.block_until_ready(advance(state))
    packages = ("rejax", "gymnax", "jax")
    print("ready", ", ".join(f"{name} {version(name)}" for name in packages), flush=True)
    while sys.stdin.readline() == "go\n":
        began = time.process_time()
        state = jax.block_until_ready(advance(state))
        print("seconds", time.process_time() - began, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
