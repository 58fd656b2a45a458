"""Agents whose outputs are statistics of a distribution by construction: `er-dqn[head=chords]`."""

from pathlib import Path

import jax
import numpy as np
import pytest
from tests.deep.probes import Probe

from edrl.deep.config import Config, preset
from edrl.deep.training import train

SMALL = {
    "env": "probe", "network": "mlp", "steps": 700, "replay": 1_000, "learn_after": 100, "update_every": 1,
    "target_every": 25, "batch": 16, "gamma": 0.5, "learning_rate": 2e-3, "adam_epsilon": 1e-8,
    "epsilon": (1.0, 1.0), "evaluate_every": 0, "log_every": 200, "checkpoint_every": 700,
}  # fmt: skip
EXPECTED = np.array([[1, 0], [np.nan, np.nan], [0, 1]])


@pytest.mark.parametrize(
    "agent",
    [
        "er-dqn[head=chords,size=5]",
        pytest.param("er-dqn[head=atoms,size=5]", marks=pytest.mark.slow),
        pytest.param("qr-dqn[head=ordered,size=5]", marks=pytest.mark.slow),
    ],
)
def test_heads_solve_a_probe(agent: str, tmp_path: Path) -> None:
    """Expected returns within 0.1; no output of ER-DQN is inconsistent at any time."""
    run = train(Config(agent=agent, **SMALL), tmp_path / "run", env=Probe("both"))
    observations = np.array([[-1.0], [0.0], [1.0]], np.float32)
    parameters = run.state.learner.online
    means = np.asarray(run.agent.action_values(parameters, observations, jax.random.key(0)))
    assert np.nanmax(np.abs(means - EXPECTED)) < 0.1, means
    if agent.startswith("er-dqn"):
        metrics = np.genfromtxt(run.out / "metrics.csv", delimiter=",", names=True)
        assert len(metrics) > 2
        assert (metrics["inconsistent_share"][1:] == 0).all()


def test_a_head_is_part_of_the_agents_name() -> None:
    config = preset("parallel", agent="er-dqn[head=chords]")
    assert config.family().num_outputs == 12
    assert str(preset("parallel", head="atoms").variant) == "er-dqn[head=atoms]"
    assert Config.from_json(config.to_json()) == config
    assert Config(agent="er-dqn-naive", head="chords").family().num_outputs == 202
    assert Config(agent="qr-dqn", head="ordered").family().num_outputs == 201
    assert Config().family().num_outputs == 11


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("dqn[head=chords]", "head must be left out: Mean has no heads.* got 'chords'"),
        ("c51[head=atoms]", "head must be left out: Categorical has no heads.* got 'atoms'"),
        ("iqn[head=ordered]", "head must be left out: iqn has a network of its own"),
        ("qr-dqn[head=chords]", "head must be one of ordered, atoms, got 'chords'"),
        ("er-dqn[head=ordered]", "head must be one of chords, atoms, got 'ordered'"),
    ],
)
def test_heads_that_do_not_fit_are_refused(agent: str, words: str) -> None:
    """When a run or a study is planned, before anything is trained."""
    with pytest.raises(ValueError, match=words):
        Config(agent=agent)
