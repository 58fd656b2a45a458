"""`python -m benchmarks.peers.sb3 atari`: QR-DQN of Stable-Baselines3 contrib, through the gate."""

import sys
from typing import Any

import ale_py
import gymnasium
import numpy as np
import torch
from sb3_contrib import QRDQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecFrameStack

from benchmarks.peers.gate import Gate
from benchmarks.peers.tasks import TASKS


class SmallConvolution(BaseFeaturesExtractor):
    """The network of our MinAtar preset: 16 filters of 3 x 3, then 128 units."""

    def __init__(self, observation_space: gymnasium.spaces.Box) -> None:
        super().__init__(observation_space, features_dim=128)
        height, width, channels = observation_space.shape
        self.convolution = torch.nn.Conv2d(channels, 16, 3)
        self.dense = torch.nn.Linear(16 * (height - 2) * (width - 2), 128)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found = torch.relu(self.convolution(images.permute(0, 3, 1, 2)))
        return torch.relu(self.dense(found.flatten(1)))


class FloatImages(gymnasium.ObservationWrapper):
    """MinAtar's booleans as the floats that the network takes."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(0, 1, env.observation_space.shape, np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return observation.astype(np.float32)


class AtTheGate(BaseCallback):
    """Passes the gate in every step."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self._gate = gate

    def _on_step(self) -> bool:
        self._gate.step()
        return True


def pong() -> tuple[str, Any, dict[str, Any]]:
    """Policy, environment and network: all of them SB3's own for Atari."""
    gymnasium.register_envs(ale_py)
    return "CnnPolicy", VecFrameStack(make_atari_env("PongNoFrameskip-v4", seed=0), 4), {}


def breakout() -> tuple[str, Any, dict[str, Any]]:
    """Policy, environment and network; SB3 has none for images as small as MinAtar's."""
    from minatar.gym import register_envs

    if "MinAtar/Breakout-v1" not in gymnasium.registry:  # some versions register themselves
        register_envs()
    env = FloatImages(gymnasium.make("MinAtar/Breakout-v1"))
    return "MlpPolicy", env, {"features_extractor_class": SmallConvolution, "net_arch": []}


def main(game: str) -> None:
    task = TASKS[game]
    gate = Gate(task, ("sb3-contrib", "torch"))
    policy, env, network = pong() if game == "atari" else breakout()
    optimizer = {
        "optimizer_class": torch.optim.Adam,
        "optimizer_kwargs": {"eps": task.adam_epsilon},
    }
    agent = QRDQN(
        policy,
        env,
        learning_rate=task.learning_rate,
        buffer_size=task.replay,
        learning_starts=task.learn_after,
        batch_size=task.batch,
        gamma=task.gamma,
        train_freq=task.update_every,
        gradient_steps=1,
        target_update_interval=task.target_every,
        exploration_initial_eps=task.epsilon,
        exploration_final_eps=task.epsilon,
        policy_kwargs={"n_quantiles": task.quantiles, **network, **optimizer},
        seed=0,
    )
    agent.learn(10**9, callback=AtTheGate(gate))


if __name__ == "__main__":
    main(*sys.argv[1:])
