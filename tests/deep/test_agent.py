"""The agent's targets and loss against brute force, for every named agent, and the known mistakes of others."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from edrl.core.algorithms import algorithm
from edrl.core.risk import CVaR
from edrl.deep.agent import Agent, Learner
from edrl.deep.config import AGENTS
from edrl.deep.networks import network_for
from edrl.deep.replay import Batch

BATCH, ACTIONS = 5, 3


def built(name: str, double: bool = False, size: int = 5) -> tuple[Agent, Learner, Batch]:
    family = algorithm(AGENTS[name], None if name == "dqn" else size, support=(-4.0, 4.0))
    agent = Agent(family, network_for("mlp", (4,), ACTIONS, family.num_outputs), 1e-3, 1e-8, double)
    online, other = agent.init(jax.random.key(0)), agent.init(jax.random.key(1))
    rng = np.random.default_rng(2)
    batch = Batch(
        rng.normal(size=(BATCH, 4)).astype(np.float32), np.array([0, 2, 1, 1, 0]),
        rng.normal(size=BATCH).astype(np.float32), np.array([0.9, 0.0, 0.9, 0.81, 0.0], np.float32),
        rng.normal(size=(BATCH, 4)).astype(np.float32),
    )  # fmt: skip
    return agent, online._replace(target=other.online), batch


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("name", AGENTS)
def test_loss_is_that_of_brute_force(name: str, double: bool) -> None:
    """Row by row: argmax of means (not of statistics one by one) by the target network (by the online one if double),
    r + gamma^n z, r alone after an end, the loss at the action taken, summed over statistics, averaged over rows."""
    agent, learner, batch = built(name, double)
    family = agent.family
    losses = []
    for row in range(BATCH):
        after = np.asarray(agent.values(learner.target, batch.next_observations[row : row + 1])[0], np.float64)
        judge = np.asarray(agent.values(learner.online, batch.next_observations[row : row + 1])[0], np.float64)
        worth = [float(family.mean((judge if double else after)[action])) for action in range(ACTIONS)]
        law = family.impute(after[int(np.argmax(worth))])
        atoms = float(batch.returns[row]) + float(batch.discounts[row]) * np.asarray(law.atoms)
        outputs = agent.network(learner.online, batch.observations[row : row + 1])[0, batch.actions[row]]
        target = type(law)(atoms, np.asarray(law.probs))
        losses.append(float(family.loss_on_outputs(np.asarray(outputs, np.float64), target)))
    found = agent.loss(learner.online, batch, agent.targets(learner, batch))
    # Single against double precision; Newton steps that are cut off (qr-dqn-imputation) carry the difference on.
    assert float(found) == pytest.approx(np.mean(losses), rel=5e-3 if name == "qr-dqn-imputation" else 2e-3)


@pytest.mark.parametrize("name", AGENTS)
def test_an_update_moves_only_the_online_network_and_lowers_the_loss(name: str) -> None:
    agent, learner, batch = built(name)
    before = [np.asarray(leaf) for leaf in jax.tree.leaves(learner.target)]
    kept = jax.tree.map(np.asarray, learner)
    losses = []
    for _ in range(30):
        learner, loss = agent.update(learner, batch)
        losses.append(float(loss))
    assert losses[-1] < losses[0]
    for old, new in zip(before, jax.tree.leaves(learner.target), strict=True):
        np.testing.assert_array_equal(old, new)
    assert any(
        (np.asarray(a) != b).any()
        for a, b in zip(jax.tree.leaves(learner.online), jax.tree.leaves(kept.online), strict=True)
    )


def test_updates_at_once_are_updates_one_after_the_other() -> None:
    agent, learner, batch = built("er-dqn")
    several = Batch(*(np.stack([column, column[::-1]]) for column in batch))
    one, losses = agent.init(jax.random.key(0))._replace(target=learner.target), []
    for number in range(2):
        one, loss = agent.update(one, Batch(*(column[number] for column in several)))
        losses.append(float(loss))
    same = agent.init(jax.random.key(0))._replace(target=built("er-dqn")[1].target)
    both, found = agent.updates(same, several)
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    for a, b in zip(jax.tree.leaves(both), jax.tree.leaves(one), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_er_dqn_acts_on_the_middle_expectile() -> None:
    """Greedy actions are by the 1/2-expectile, which is the mean, not by the average of the statistics."""
    agent, learner, batch = built("er-dqn", size=11)
    values = np.asarray(agent.values(learner.online, batch.observations))
    np.testing.assert_array_equal(agent.greedy(learner.online, batch.observations), values[..., 5].argmax(-1))
    assert agent.family.taus[5] == pytest.approx(0.5)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "exact"), [("er-dqn", True), ("er-dqn-naive", False)])
def test_diagnoses_are_of_what_the_target_network_puts_out(name: str, exact: bool) -> None:
    """Of the values that are bootstrapped from: how far imputation is from them, and how often by a thousandth.

    Section 4.3: exact imputation keeps the mean whatever a network puts out, taking values for samples does not.
    """
    agent, learner, batch = built(name)
    found = {what: float(number) for what, number in agent.diagnose(learner, batch).items()}
    values = np.asarray(agent.values(learner.target, batch.next_observations), np.float64)
    chosen = values[np.arange(BATCH), np.asarray(agent.family.mean(values)).argmax(-1)]
    residual = np.abs(np.asarray(agent.family.evaluate(agent.family.impute(chosen))) - chosen)
    assert found["mean_value"] == pytest.approx(np.mean(agent.family.mean(chosen)), rel=1e-4)
    shift = np.asarray(agent.family.impute(chosen).mean()) - np.asarray(agent.family.mean(chosen))
    assert found["imputed_mean_shift"] == pytest.approx(shift.mean(), abs=1e-5)
    assert (np.abs(shift).max() < 1e-6) == exact
    assert found["imputation_residual"] == pytest.approx(residual.mean(), rel=1e-2)
    share = (residual.max(-1) > 1e-3 * np.ptp(chosen, axis=-1)).mean()
    assert found["inconsistent_share"] == pytest.approx(share)
    assert share > 0  # what a network puts out at first is no law's
    assert exact or residual.mean() > 1e-3


@pytest.mark.parametrize("double", [False, True])
def test_a_risk_measure_chooses_actions_and_next_actions(double: bool) -> None:
    """By the worst third of the imputed returns, which here is not always the action of highest mean."""
    plain, learner, batch = built("er-dqn", double, size=11)
    agent = dataclasses.replace(plain, risk=CVaR(1 / 3))
    observations = np.random.default_rng(3).normal(size=(200, 4)).astype(np.float32)
    values = np.asarray(agent.values(learner.online, observations), np.float64)
    worth = np.asarray(CVaR(1 / 3)(agent.family.impute(values)))
    np.testing.assert_array_equal(agent.greedy(learner.online, observations), worth.argmax(-1))
    assert (worth.argmax(-1) != np.asarray(plain.greedy(learner.online, observations))).any()
    after = np.asarray(agent.values(learner.target, batch.next_observations), np.float64)
    judge = np.asarray(agent.values(learner.online, batch.next_observations), np.float64) if double else after
    best = np.asarray(CVaR(1 / 3)(agent.family.impute(judge))).argmax(-1)
    np.testing.assert_allclose(agent.next_values(learner, batch), after[np.arange(BATCH), best], rtol=1e-5)


def test_the_paper_agents() -> None:
    """Appendix D: 11 expectiles at linspace(.01, .99), naive 201 at the midpoints, QR-DQN 200 at the midpoints."""
    taus: dict[str, Any] = {name: getattr(algorithm(AGENTS[name], support=(0, 1)), "taus", ()) for name in AGENTS}
    np.testing.assert_allclose(taus["er-dqn"], np.linspace(0.01, 0.99, 11))
    np.testing.assert_allclose(taus["er-dqn-naive"], (2 * np.arange(201) + 1) / 402)
    np.testing.assert_allclose(taus["qr-dqn"], (2 * np.arange(200) + 1) / 400)


def test_batches_as_large_as_the_statistics_are_no_coincidence() -> None:
    """A level broadcast along the wrong axis would go unnoticed only where batch and statistics have one size."""
    agent, learner, batch = built("er-dqn", size=BATCH)
    whole = float(agent.loss(learner.online, batch, agent.targets(learner, batch)))
    rows = [Batch(*(field[i : i + 1] for field in batch)) for i in range(BATCH)]
    apart = np.mean([float(agent.loss(learner.online, row, agent.targets(learner, row))) for row in rows])
    assert whole == pytest.approx(apart, rel=1e-5)
