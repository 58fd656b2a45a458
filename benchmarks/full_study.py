"""What the paper's whole study costs: 57 games x 4 agents x 3 seeds x 200 million frames, from
measured speeds.

`python -m benchmarks full_study` measures what a run spends on its environment and on acting, takes
the speed of training from results/training.json, and works out hours, disk, memory and traffic on
CPUs and on an assumed GPU.
"""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from edrl.deep.config import Config
from edrl.deep.environments import make
from edrl.study.estimate import sizes_of

RUNS = 57 * 4 * 3
CONFIG = Config()  # the paper's
GAMES = ("pong", "breakout", "seaquest", "qbert", "asteroids")  # from quick to slow ones
GPU = {
    # Assumed, not measured here: no GPU was at hand. Nature's network with batches of 32 is far too
    # small for a modern GPU, so these are latencies of launching it rather than arithmetic.
    "update_milliseconds": 1.5,
    "act_milliseconds": 0.4,
    "runs_at_once": 4,
}


def run() -> dict[str, Any]:
    step = float(np.mean([_environment_seconds(game) for game in GAMES]))
    training = json.loads((Path(__file__).parent / "results" / "training.json").read_text())
    speed = training["results"]["atari, one core"]["ours, er-dqn"]["steps_per_second"]
    evaluation = CONFIG.steps // CONFIG.evaluate_every * CONFIG.evaluate_steps
    cpu_hours = (CONFIG.steps / speed + evaluation * (step + _act_seconds())) / 3600
    act, update = (
        GPU["act_milliseconds"] / 1e3,
        GPU["update_milliseconds"] / 1e3 / CONFIG.update_every,
    )

    def hours_on_gpu(act: float, update: float) -> float:
        return (CONFIG.steps * (step + act + update) + evaluation * (step + act)) / 3600

    gpu_hours = hours_on_gpu(act, update)
    sizes = sizes_of(CONFIG)
    saved = CONFIG.steps / CONFIG.checkpoint_every
    # Every transition is written once, and the networks with their optimiser at each checkpoint.
    written = CONFIG.steps * 7066 + saved * 4 * 1.7e6 * 4
    return {
        "runs": RUNS,
        "agent_steps": {"training": CONFIG.steps, "evaluation": evaluation},
        "measured": {
            "environment_steps_per_second": 1 / step,
            "training_steps_per_second_on_one_core": speed,
        },
        "assumed": GPU,
        "one_run": {
            "core_hours_on_cpu": cpu_hours,
            "hours_with_a_share_of_a_gpu": gpu_hours,
            "hours_if_latencies_were_halved": hours_on_gpu(act / 2, update / 2),
            "memory_gigabytes": sizes.memory / 1e9,
            "disk_gigabytes": sizes.disk / 1e9,
            "written_gigabytes": written / 1e9,
            "megabytes_a_second": written / 1e6 / (gpu_hours * 3600),
        },
        "all_runs": {
            "core_hours_on_cpu": RUNS * cpu_hours,
            "gpu_hours": RUNS * gpu_hours / GPU["runs_at_once"],
            "core_hours_beside_gpus": RUNS * gpu_hours,
            "disk_terabytes": RUNS * sizes.disk / 1e12,
            "written_terabytes": RUNS * written / 1e12,
        },
    }


def table(result: dict[str, Any]) -> str:
    """The table of docs/full-study.md, from what `run` returned."""
    one, all_runs = result["one_run"], result["all_runs"]

    def rounded(hours: float) -> str:
        return f"{round(hours, -2 if hours < 1e5 else -3):,.0f}"

    gpu_hours, beside = rounded(all_runs["gpu_hours"]), rounded(all_runs["core_hours_beside_gpus"])
    written = f"{one['written_gigabytes']:.0f} GB, {one['megabytes_a_second']:.1f} MB/s"
    return f"""\
| | one run | all {result["runs"]} |
|---|---|---|
| on CPUs: core-hours | {one["core_hours_on_cpu"]:.0f} | {rounded(all_runs["core_hours_on_cpu"])} |
| with a quarter of a GPU: hours | {one["hours_with_a_share_of_a_gpu"]:.0f} | {gpu_hours} GPU-hours, and {beside} core-hours beside them |
| memory | {one["memory_gigabytes"]:.1f} GB | as many times as run at once |
| disk | {one["disk_gigabytes"]:.1f} GB | {all_runs["disk_terabytes"]:.1f} TB |
| written to disk | {written} | {all_runs["written_terabytes"]:.0f} TB |
"""  # noqa: E501


def _environment_seconds(game: str, steps: int = 1_500) -> float:
    """Of an agent step with random actions, which is four frames, and their preprocessing."""
    environment = make(game, seed=0)
    rng = np.random.default_rng(0)
    environment.reset()
    began = time.perf_counter()
    for action in rng.integers(environment.num_actions, size=steps):
        if environment.step(int(action)).ended:
            environment.reset()
    return (time.perf_counter() - began) / steps


def _act_seconds(steps: int = 300) -> float:
    """Of choosing an action on this machine's CPU."""
    import jax

    from edrl.deep.agents import build_agent
    from edrl.deep.learner import GreedyPolicy

    agent = build_agent(CONFIG, make("pong", seed=0))
    policy = GreedyPolicy(agent, agent.init(jax.random.key(0)), stream=0)
    observation = np.zeros((1, 84, 84, 4), np.uint8)
    policy(observation)  # compiles
    began = time.perf_counter()
    for _ in range(steps):
        policy(observation)
    return (time.perf_counter() - began) / steps
