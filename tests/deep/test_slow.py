"""Minutes of training and killing: `make test-slow`."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from edrl.deep.checkpoint import found
from edrl.deep.config import AGENTS, Config, preset
from edrl.deep.tables import TABLES
from edrl.deep.training import train

pytestmark = pytest.mark.slow

KILLS = 4
SHORT = {
    "minatar/breakout": preset(
        "minatar", steps=8_000, replay=2_000, learn_after=500, log_every=100, evaluate_every=2_000, evaluate_steps=200,
        checkpoint_every=150,
    ),
    "pong": Config(
        env="pong", steps=900, replay=300, learn_after=100, target_every=50, log_every=20, evaluate_every=200,
        evaluate_steps=50, checkpoint_every=25, epsilon_steps=200,
    ),
}  # fmt: skip


@pytest.mark.parametrize("agent", AGENTS)
def test_cartpole_is_solved(agent: str, tmp_path: Path) -> None:
    """475 of 500 in an evaluation, the bound at which Gymnasium calls CartPole-v1 solved, by one of
    three seeds: which one depends on last digits, and so on the machine."""
    size = {"dqn": None, "c51": 51, "qr-dqn-imputation": 5}.get(agent, 11)
    batch = (
        32 if agent == "qr-dqn-imputation" else 128
    )  # its imputation iterates: minutes, not seconds
    evaluations: list[list[float]] = []
    for seed in range(3):
        run = train(
            preset("classic", agent=agent, seed=seed, size=size, batch=batch), tmp_path / str(seed)
        )
        evaluations.append(
            np.genfromtxt(run.out / "evaluations.csv", delimiter=",", names=True)["mean"].tolist()
        )
        if max(evaluations[-1]) >= 475:
            return
    pytest.fail(f"evaluations, seed by seed: {evaluations}")


def command(config: Config, out: Path) -> list[str]:
    """A process that begins a run, or goes on with it."""
    (out.parent / "wanted.json").write_text(config.to_json())
    code = (
        "import pathlib, sys\n"
        "from edrl.deep.config import Config\nfrom edrl.deep.training import resume, train\n"
        "from edrl.deep.checkpoint import found\n"
        "out, wanted = map(pathlib.Path, sys.argv[1:])\n"
        "resume(out) if found(out) else train(Config.from_json(wanted.read_text()), out)\n"
    )
    return [sys.executable, "-c", code, str(out), str(out.parent / "wanted.json")]


@pytest.mark.parametrize("env", SHORT)
def test_a_run_that_is_killed_again_and_again_is_the_run(env: str, tmp_path: Path) -> None:
    """SIGKILL at random moments and in the midst of saves: the files end up the same to the last
    digit.
    """
    config = SHORT[env]
    whole, out = tmp_path / "whole" / "run", tmp_path / "killed" / "run"
    whole.parent.mkdir()
    out.parent.mkdir()
    subprocess.run(command(config, whole), check=True)
    rng = np.random.default_rng(0)
    for kill in range(2 * KILLS):
        process = subprocess.Popen(command(config, out))
        before = [path.name for path in found(out)]
        while process.poll() is None and [path.name for path in found(out)] == before:
            time.sleep(0.01)
        if kill % 2:
            while process.poll() is None and not (out / "checkpoint.partial").exists():
                pass
        else:
            time.sleep(float(rng.uniform(0.0, 1.0)))
        assert process.poll() is None, "the run is too short to be killed so often"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run(command(config, out), check=True)
    for name in TABLES:
        assert (out / name).read_bytes() == (whole / name).read_bytes()
