"""Statistics beside an agent: they learn its returns, and it does not notice."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from probes import Probe

from edrl.deep.config import Config
from edrl.deep.trained import load
from edrl.deep.training import train

REPLAY = {
    "env": "probe", "network": "mlp", "steps": 1_500, "replay": 2_000, "learn_after": 100,
    "update_every": 1, "target_every": 25, "batch": 16, "gamma": 0.5, "learning_rate": 2e-3,
    "adam_epsilon": 1e-8, "epsilon": (1.0, 0.5), "epsilon_steps": 500, "evaluate_every": 0,
    "log_every": 500, "checkpoint_every": 1_500,
}  # fmt: skip
ROLLOUTS = {
    **REPLAY, "steps": 4_000, "envs": 8, "rollout": 4, "minibatches": 4, "max_gradient": 0.1,
    "log_every": 2_000,
}  # fmt: skip


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(REPLAY, id="replay", marks=pytest.mark.slow),
        pytest.param(ROLLOUTS, id="rollouts"),
    ],
)
@pytest.mark.parametrize(
    "agent",
    ["dqn", *(pytest.param(name, marks=pytest.mark.slow) for name in ("er-dqn-naive", "iqn"))],
)
def test_the_agent_learns_what_it_learns_alone(
    agent: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    """To the last digit, cut gradients included; and the distributions are those of its returns."""
    given = {**settings, "size": 5 if agent == "er-dqn-naive" else None}
    alone = train(Config(agent=agent, **given), tmp_path / "alone", env=lambda: Probe("both"))
    named = f"{agent}[beside=er-dqn]"
    both = train(Config(agent=named, **given), tmp_path / "both", env=lambda: Probe("both"))
    pairs = zip(
        *map(jax.tree.leaves, (alone.state.learner.online, both.state.learner.online.actor)),
        strict=True,
    )
    for one, other in pairs:
        np.testing.assert_array_equal(one, other)
    seen = np.array([[-1.0], [1.0]], np.float32)
    trained = load(tmp_path / "both", env=lambda: Probe("both"))
    returns = trained.returns(seen)
    np.testing.assert_allclose(returns.mean(), [[1.0, 0.0], [0.0, 1.0]], atol=0.1)


def test_beside_needs_features(tmp_path: Path) -> None:
    from own_iqn import OwnIQN

    with pytest.raises(ValueError, match=r"OwnIQN.*features|features.*OwnIQN"):
        train(Config(beside="er-dqn", **REPLAY), tmp_path / "run", agent=OwnIQN, env=Probe("both"))
