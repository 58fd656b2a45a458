"""Networks as ONNX: they answer as ours do, and agents that have no such form are refused."""

import dataclasses
import sys
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from tests.damage import command

import edrl
from edrl.deep import Trained, load, preset, train
from edrl.deep.agents import StatisticsAgent, build_agent
from edrl.deep.environments import EnvironmentSource, observation_shape
from edrl.report.onnx_network import onnx_bytes


def untrained(name: str, **settings: object) -> Trained:
    """An agent whose parameters are all drawn, gains and offsets of normalised layers too."""
    config = preset(name, **settings)
    source = EnvironmentSource(config.env, config.sticky)
    environment = source.with_seed(0)
    agent = build_agent(config, environment)
    rng = np.random.default_rng(0)
    parameters = jax.tree.map(
        lambda leaf: leaf + 0.1 * rng.normal(size=leaf.shape).astype(leaf.dtype),
        agent.init(jax.random.key(0)),
    )
    environment.close()
    return Trained(
        config, agent, parameters, 0, observation_shape(environment),
        np.dtype(environment.frame_dtype), environment.action_names, source, {}, Path(), False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "agent"),
    [
        ("minatar", "er-dqn"),
        ("parallel", "qr-dqn[size=7]"),  # layer normalisation
        ("minatar", "c51"),
        ("classic", "dqn"),
        ("paper", "er-dqn"),  # three convolutions with strides
    ],
)
def test_the_model_answers_as_the_agent_does(name: str, agent: str) -> None:
    trained = untrained(name, agent=agent)
    assert isinstance(trained.agent, StatisticsAgent)
    rng, shape = np.random.default_rng(1), (2, *trained.observation_shape)
    seen = rng.normal(size=shape)
    if trained.observation_dtype.kind == "u":
        seen = rng.integers(0, 256 if name == "paper" else 2, shape)
    seen = seen.astype(trained.observation_dtype)
    model = ReferenceEvaluator(onnx_bytes(trained))
    values, action_values = model.run(None, {"observations": seen})
    ours = np.asarray(trained.agent.values(trained.parameters, seen))
    np.testing.assert_allclose(values, ours, rtol=1e-4, atol=1e-5 * np.abs(ours).max())
    means = trained.agent.action_values(trained.parameters, seen, jax.random.key(0))
    np.testing.assert_allclose(action_values, means, rtol=1e-4, atol=1e-4 * np.abs(means).max())
    assert np.ptp(ours) > 0.1


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        ("iqn", "only networks for fixed statistics have it, not iqn"),
        ("er-dqn[risk=cvar-0.1]", "a risk measure needs an imputation"),
        ("er-dqn[head=chords]", "its head makes the statistics of Expectiles"),
    ],
)
def test_agents_that_need_more_are_refused(agent: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"onnx is True: this agent has no ONNX form, .*{why}"):
        onnx_bytes(untrained("minatar", agent=agent))


def test_a_mean_that_needs_an_imputation_is_refused() -> None:
    trained = untrained("minatar", size=3)
    family = edrl.Expectiles([0.1, 0.6, 0.8])
    without_mean = eqx.tree_at(lambda agent: agent.family, trained.agent, family)
    with pytest.raises(ValueError, match="the mean of Expectiles is no weighted sum"):
        onnx_bytes(dataclasses.replace(trained, agent=without_mean))


def test_the_command_writes_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, folder = tmp_path / "run", tmp_path / "agent"
    settings = {"steps": 60, "learn_after": 30, "evaluate_every": 60, "evaluate_steps": 20}
    train(preset("quick", **settings), out)
    arguments = ("export", str(out), str(folder), "--episodes", "1", "--no-film")
    assert command(*arguments, "--onnx")[0] == 0
    seen = np.ones((1, 4), np.float32)
    model = ReferenceEvaluator(str(folder / "network.onnx"))
    _, action_values = model.run(None, {"observations": seen})
    assert action_values.argmax() == load(out).act(seen[0])
    assert edrl.load(folder).act(seen[0]) == load(out).act(seen[0])
    assert command(*arguments)[0] == 0
    assert not (folder / "network.onnx").exists()  # what replaces an export has nothing of it
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'edrl\[onnx\]'"):
        onnx_bytes(load(out))
