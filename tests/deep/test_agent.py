"""The agent's targets and loss against brute force, for every named agent, and the known mistakes
of others.
"""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from edrl.core.algorithms import algorithm
from edrl.core.risk import CVaR
from edrl.deep.agents import IQN, Agent, StatisticsAgent
from edrl.deep.config import AGENTS
from edrl.deep.learner import (
    GreedyPolicy,
    Learner,
    diagnose,
    new_learner,
    seed_of,
    update,
    updates,
)
from edrl.deep.networks import network_for
from edrl.deep.optimiser import Optimiser
from edrl.deep.rollout import Batch

BATCH, ACTIONS = 5, 3
ADAM, SEED, KEY = Optimiser(1e-3, 1e-8), seed_of(0, 0), jax.random.key(9)
STATISTICS = [name for name in AGENTS if name != "iqn"]


def built(name: str, double: bool = False, size: int = 5) -> tuple[StatisticsAgent, Learner, Batch]:
    family = algorithm(AGENTS[name], None if name == "dqn" else size, support=(-4.0, 4.0))
    agent = StatisticsAgent(
        family, network_for("mlp", (4,), ACTIONS, family.num_outputs), double=double
    )
    return agent, *with_data(agent)


def with_data(agent: Agent) -> tuple[Learner, Batch]:
    """Two networks of other parameters, and transitions of which some ended."""
    online, other = (new_learner(agent, ADAM, jax.random.key(number)) for number in range(2))
    rng = np.random.default_rng(2)
    batch = Batch(
        rng.normal(size=(BATCH, 4)).astype(np.float32), np.array([0, 2, 1, 1, 0]),
        rng.normal(size=BATCH).astype(np.float32), np.array([0.9, 0.0, 0.9, 0.81, 0.0], np.float32),
        rng.normal(size=(BATCH, 4)).astype(np.float32), np.ones(BATCH, np.float32), np.arange(BATCH),
    )  # fmt: skip
    return online._replace(target=other.online), batch


def total_loss(agent: Agent, learner: Learner, batch: Batch) -> float:
    return float(agent.loss(learner.online, learner.target, batch, KEY).mean())


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("name", STATISTICS)
def test_loss_is_that_of_brute_force(name: str, double: bool) -> None:
    """Row by row: argmax of means (not of statistics one by one) by the target network (by the
    online one if double), r + gamma^n z, r alone after an end, the loss at the action taken,
    averaged over statistics and rows."""
    agent, learner, batch = built(name, double)
    family = agent.family
    losses = []
    for row in range(BATCH):
        after = np.asarray(
            agent.values(learner.target, batch.next_observations[row : row + 1])[0], np.float64
        )
        judge = np.asarray(
            agent.values(learner.online, batch.next_observations[row : row + 1])[0], np.float64
        )
        expected = [
            float(family.mean((judge if double else after)[action])) for action in range(ACTIONS)
        ]
        imputed = family.impute(after[int(np.argmax(expected))])
        atoms = float(batch.returns[row]) + float(batch.discounts[row]) * np.asarray(imputed.atoms)
        outputs = agent.network(learner.online, batch.observations[row : row + 1])[
            0, batch.actions[row]
        ]
        target = type(imputed)(atoms, np.asarray(imputed.probs))
        loss = family.loss_on_outputs(np.asarray(outputs, np.float64), target)
        losses.append(float(loss) / family.size)
    found = agent.loss(learner.online, learner.target, batch, KEY)
    assert found.shape == (BATCH,)
    # Single against double precision; Newton steps that are cut off (qr-dqn-imputation) carry the
    # difference on.
    assert float(found.mean()) == pytest.approx(
        np.mean(losses), rel=5e-3 if name == "qr-dqn-imputation" else 2e-3
    )


@pytest.mark.parametrize("name", AGENTS)
def test_an_update_moves_only_the_online_network_and_lowers_the_loss(name: str) -> None:
    agent, learner, batch = iqn() if name == "iqn" else built(name)
    before = [np.asarray(leaf) for leaf in jax.tree.leaves(learner.target)]
    kept = jax.tree.map(np.asarray, learner)
    losses = []
    for _ in range(30):
        learner, loss = update(agent, ADAM, learner, batch, SEED)
        losses.append(float(loss.mean))
    assert losses[-1] < losses[0]
    for old, new in zip(before, jax.tree.leaves(learner.target), strict=True):
        np.testing.assert_array_equal(old, new)
    assert any(
        (np.asarray(a) != b).any()
        for a, b in zip(jax.tree.leaves(learner.online), jax.tree.leaves(kept.online), strict=True)
    )


@pytest.mark.parametrize("double", [False, True])
def test_updates_at_once_are_updates_one_after_the_other(double: bool) -> None:
    """Also where the online network has a say in the targets, which then change in between."""
    agent, learner, batch = built("er-dqn", double=double)
    several = [batch, Batch(*(column[::-1] for column in batch))]
    one, losses = learner, []
    for part in several:
        one, loss = update(agent, ADAM, one, part, SEED)
        losses.append(float(loss.mean))
    together = Batch(*(np.concatenate(columns) for columns in zip(*several, strict=True)))
    both, found = updates(agent, ADAM, built("er-dqn", double=double)[1], together, SEED, 2)
    assert found.each.shape == (2, BATCH)
    np.testing.assert_allclose(found.mean, losses, rtol=1e-5)
    for a, b in zip(jax.tree.leaves(both), jax.tree.leaves(one), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_er_dqn_acts_on_the_middle_expectile() -> None:
    """Greedy actions are by the 1/2-expectile, which is the mean, not by the average of the
    statistics.
    """
    agent, learner, batch = built("er-dqn", size=11)
    values = np.asarray(agent.values(learner.online, batch.observations))
    greedy = GreedyPolicy(agent, learner.online, 0)(batch.observations)
    np.testing.assert_array_equal(greedy, values[..., 5].argmax(-1))
    assert agent.family.taus[5] == pytest.approx(0.5)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "exact"), [("er-dqn", True), ("er-dqn-naive", False)])
def test_diagnoses_are_of_what_the_target_network_puts_out(name: str, exact: bool) -> None:
    """Of the values that are bootstrapped from: how far imputation is from them, and how often by a
    thousandth.

    Section 4.3: exact imputation keeps the mean whatever a network puts out, taking values for
    samples does not.
    """
    agent, learner, batch = built(name)
    found = {what: float(number) for what, number in diagnose(agent, learner, batch, SEED).items()}
    values = np.asarray(agent.values(learner.target, batch.next_observations), np.float64)
    chosen = values[np.arange(BATCH), np.asarray(agent.family.mean(values)).argmax(-1)]
    residual = np.abs(np.asarray(agent.family.evaluate(agent.family.impute(chosen))) - chosen)
    assert found["mean_value"] == pytest.approx(
        np.asarray(agent.family.mean(chosen)).mean(), rel=1e-4
    )
    shift = np.asarray(agent.family.impute(chosen).mean()) - np.asarray(agent.family.mean(chosen))
    assert found["imputed_mean_shift"] == pytest.approx(shift.mean(), abs=1e-5)
    assert (np.abs(shift).max() < 1e-6) == exact
    assert found["imputation_residual"] == pytest.approx(residual.mean(), rel=1e-2)
    share = (residual.max(-1) > 1e-3 * np.ptp(chosen, axis=-1)).mean()
    assert found["inconsistent_share"] == pytest.approx(share)
    assert share > 0  # what a network puts out at first is no distribution's
    assert exact or residual.mean() > 1e-3


@pytest.mark.parametrize("double", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_risk_measure_chooses_actions_and_next_actions(double: bool) -> None:
    """By the worst third of the imputed returns, which here is not always the action of highest
    mean.
    """
    plain, learner, batch = built("er-dqn", double, size=11)
    agent = dataclasses.replace(plain, risk=CVaR(1 / 3))
    careful, neutral = (GreedyPolicy(one, learner.online, 0) for one in (agent, plain))
    observations = np.random.default_rng(3).normal(size=(200, 4)).astype(np.float32)
    values = np.asarray(agent.values(learner.online, observations), np.float64)
    worst = np.asarray(CVaR(1 / 3)(agent.family.impute(values)))
    np.testing.assert_array_equal(careful(observations), worst.argmax(-1))
    assert (worst.argmax(-1) != neutral(observations)).any()
    after = np.asarray(agent.values(learner.target, batch.next_observations), np.float64)
    judge = (
        np.asarray(agent.values(learner.online, batch.next_observations), np.float64)
        if double
        else after
    )
    best = np.asarray(CVaR(1 / 3)(agent.family.impute(judge))).argmax(-1)
    found = agent.next_values(learner.online, learner.target, batch)
    np.testing.assert_allclose(found, after[np.arange(BATCH), best], rtol=1e-5)


def test_the_paper_agents() -> None:
    """Appendix D: 11 expectiles at linspace(.01, .99), naive 201 at the midpoints, QR-DQN 200 at
    the midpoints.
    """
    taus: dict[str, Any] = {
        name: getattr(algorithm(AGENTS[name], support=(0, 1)), "taus", ()) for name in STATISTICS
    }
    np.testing.assert_allclose(taus["er-dqn"], np.linspace(0.01, 0.99, 11))
    np.testing.assert_allclose(taus["er-dqn-naive"], (2 * np.arange(201) + 1) / 402)
    np.testing.assert_allclose(taus["qr-dqn"], (2 * np.arange(200) + 1) / 400)


def test_batches_as_large_as_the_statistics_are_no_coincidence() -> None:
    """A level broadcast along the wrong axis would go unnoticed only where batch and statistics
    have one size.
    """
    agent, learner, batch = built("er-dqn", size=BATCH)
    whole = total_loss(agent, learner, batch)
    rows = [Batch(*(field[i : i + 1] for field in batch)) for i in range(BATCH)]
    apart = np.mean([total_loss(agent, learner, row) for row in rows])
    assert whole == pytest.approx(apart, rel=1e-5)


def iqn(double: bool = False) -> tuple[IQN, Learner, Batch]:
    agent = IQN(network_for("mlp", (4,), ACTIONS, 1), double=double)
    return agent, *with_data(agent)


@pytest.mark.parametrize("double", [False, True])
def test_the_loss_of_iqn_is_that_of_brute_force(double: bool) -> None:
    """Row by row and pair by pair, with the levels that the agent draws from its key."""
    agent, learner, batch = iqn(double)
    choice, levels = jax.random.split(KEY)
    taus, next_taus = np.asarray(jax.random.uniform(levels, (2, BATCH, 8)))
    judge = learner.online if double else learner.target
    best = np.asarray(agent.returns(judge, batch.next_observations, choice).mean()).argmax(-1)
    now = np.asarray(agent.quantiles(learner.online, batch.observations, taus))
    later = np.asarray(agent.quantiles(learner.target, batch.next_observations, next_taus))
    found = agent.loss(learner.online, learner.target, batch, KEY)
    for row in range(BATCH):
        total = 0.0
        for tau, value in zip(taus[row], now[row, batch.actions[row]], strict=True):
            for atom in later[row, best[row]]:
                error = batch.returns[row] + batch.discounts[row] * atom - value
                huber = error**2 / 2 if abs(error) <= 1 else abs(error) - 0.5
                total += abs(tau - (error < 0)) * huber / 8**2
        assert float(found[row]) == pytest.approx(total, rel=1e-4)


def test_levels_of_iqn_are_of_each_rows_own() -> None:
    """Other levels in one row change that row alone, and keys make other levels."""
    agent, learner, batch = iqn()
    taus = np.full((BATCH, 3), 0.5, np.float32)
    before = np.asarray(agent.quantiles(learner.online, batch.observations, taus))
    taus[2] = 0.9
    after = np.asarray(agent.quantiles(learner.online, batch.observations, taus))
    assert ((before != after).any(axis=(1, 2)) == (np.arange(BATCH) == 2)).all()
    one, other = (
        agent.returns(learner.online, batch.observations, jax.random.key(n)) for n in range(2)
    )
    assert one.shape == (BATCH, ACTIONS)
    assert one.size == 32
    assert (np.asarray(one.atoms) != np.asarray(other.atoms)).any()


def test_weights_of_a_batch_weight_the_losses() -> None:
    """A transition of weight 0 might as well not be there, and the losses that are told are
    unweighted.
    """
    agent, _, batch = built("er-dqn")
    weights = np.array([2, 0, 2, 0, 1], np.float32)
    kept = np.array([0, 2, 0, 2, 4])
    found, losses = update(agent, ADAM, built("er-dqn")[1], batch._replace(weights=weights), SEED)
    same, _ = update(
        agent, ADAM, built("er-dqn")[1], Batch(*(column[kept] for column in batch)), SEED
    )
    for a, b in zip(jax.tree.leaves(found.online), jax.tree.leaves(same.online), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    _, plain = update(agent, ADAM, built("er-dqn")[1], batch, SEED)
    np.testing.assert_allclose(losses.each, plain.each, rtol=1e-6)
