"""`python -m benchmarks.peers.dopamine_quantile atari`: Dopamine's QR-DQN in JAX, through the gate."""

import sys
from types import ModuleType
from typing import Any

from benchmarks.peers.gate import Gate
from benchmarks.peers.tasks import TASKS, Task


def without_baselines() -> None:
    """Stand in for OpenAI's baselines, which Dopamine imports for PPO's preprocessing alone and
    does not install.
    """
    common: Any = ModuleType("baselines.common")
    common.atari_wrappers = None
    sys.modules.update({"baselines": ModuleType("baselines"), "baselines.common": common})


def build_agent(task: Task, num_actions: int) -> Any:
    """The agent as it comes, but for the task's settings and uniform replay, as the others have it."""
    import gin
    from dopamine.jax.agents.dqn.dqn_agent import identity_epsilon
    from dopamine.jax.agents.quantile.quantile_agent import JaxQuantileAgent

    gin.bind_parameter("ReplayBuffer.batch_size", task.batch)
    gin.bind_parameter("ReplayBuffer.max_capacity", task.replay)
    gin.bind_parameter("PrioritizedSamplingDistribution.max_capacity", task.replay)
    gin.bind_parameter("create_optimizer.learning_rate", task.learning_rate)
    gin.bind_parameter("create_optimizer.eps", task.adam_epsilon)
    return JaxQuantileAgent(
        num_actions,
        num_atoms=task.quantiles,
        gamma=task.gamma,
        min_replay_history=task.learn_after,
        update_period=task.update_every,
        target_update_period=task.target_every,
        epsilon_fn=identity_epsilon,
        epsilon_train=task.epsilon,
        replay_scheme="uniform",
        seed=0,
    )


def main(game: str) -> None:
    without_baselines()
    import jax
    from dopamine.discrete_domains.atari_lib import create_atari_environment

    task = TASKS[game]
    env = create_atari_environment("Pong", sticky_actions=False)
    agent = build_agent(task, env.action_space.n)
    gate = Gate(
        task, ("dopamine-rl", "jax"), settle=lambda: jax.block_until_ready(agent.optimizer_state)
    )
    while True:
        action = agent.begin_episode(env.reset())
        while True:
            observation, reward, terminal, _ = env.step(action)
            reward = max(-1.0, min(1.0, reward))
            gate.step()
            if env.game_over:
                break
            action = agent.step(reward, observation)
        agent.end_episode(reward, terminal)


if __name__ == "__main__":
    main(*sys.argv[1:])
