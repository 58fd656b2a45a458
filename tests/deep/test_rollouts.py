"""Learning from rollouts: no replay memory, no target network, lambda-returns."""

from pathlib import Path

import jax
import numpy as np
import pytest
from own_iqn import OwnIQN
from probes import KINDS, Probe, others_are_slow
from test_train import expected

from edrl import Expectiles, Mean, Particles
from edrl.core.lambda_returns import lambda_returns
from edrl.deep.agents import StatisticsAgent
from edrl.deep.config import AGENTS, Config, preset
from edrl.deep.environments import Steps
from edrl.deep.learner import Passes, learn_from, new_learner, seed_of
from edrl.deep.networks import network_for
from edrl.deep.optimiser import Optimiser
from edrl.deep.play import Turn
from edrl.deep.rollout import Rollout, RolloutMemory
from edrl.deep.run import Run
from edrl.deep.training import lengthened, resume, train

T, LANES, ACTIONS = 8, 6, 3
PARALLEL = {
    "env": "probe", "network": "mlp", "envs": 8, "rollout": 4, "minibatches": 4, "gamma": 0.5,
    "steps": 2_400, "learning_rate": 2e-3, "adam_epsilon": 1e-8, "epsilon": (1.0, 1.0),
    "evaluate_every": 0, "log_every": 2_400, "checkpoint_every": 2_400, "support": (-2.0, 2.0),
}  # fmt: skip


@pytest.mark.parametrize("trace", [pytest.param(0.0, marks=pytest.mark.slow), 0.65])
@pytest.mark.parametrize("agent", others_are_slow(AGENTS, "dqn", "c51", "er-dqn-naive"))
def test_every_agent_solves_the_probes_from_rollouts(
    agent: str, trace: float, tmp_path: Path
) -> None:
    size = {"dqn": None, "c51": 41, "iqn": 8}.get(agent, 5)
    for kind in KINDS if agent == "er-dqn" else ("delayed", "both"):
        config = Config(agent=agent, size=size, trace=trace, **PARALLEL)
        run = train(config, tmp_path / kind, env=lambda kind=kind: Probe(kind))
        observations = np.array([[-1.0], [0.0], [1.0]], np.float32)
        parameters = run.state.learner.acting
        means = run.agent.action_values(parameters, observations, jax.random.key(0))
        assert np.nanmax(np.abs(np.asarray(means) - expected(kind))) < 0.1, (kind, means)


def rollout(seed: int = 0) -> Rollout:
    rng = np.random.default_rng(seed)
    shape = (T, LANES)
    return Rollout(
        observations=rng.normal(size=(*shape, 4)).astype(np.float32),
        actions=rng.integers(ACTIONS, size=shape),
        rewards=rng.normal(size=shape).astype(np.float32),
        discounts=np.where(rng.random(shape) < 0.2, 0.0, 0.9).astype(np.float32),
        next_observations=rng.normal(size=(*shape, 4)).astype(np.float32),
        goes_on=rng.random(shape) < 0.7,
    )


def agent(trace: float = 0.65, cut: bool = True) -> StatisticsAgent:
    network = network_for("mlp", (4,), ACTIONS, 3)
    return StatisticsAgent(Expectiles(3), network, trace=trace, cut_traces=cut)


@pytest.mark.parametrize("cut", [False, True])
def test_targets_bootstrap_from_the_best_action_and_end_where_they_must(cut: bool) -> None:
    """A longer return goes on only within an episode and, if traces are cut, only if the next
    action was the best one there.
    """
    learnt, steps, key = agent(cut=cut), rollout(), jax.random.key(1)
    parameters = learnt.init(key)
    found = learnt.targets(parameters, steps, key)
    bootstraps, traces = np.zeros((T, LANES, 3), np.float32), np.zeros((T, LANES), np.float32)
    for t in range(T):
        values = np.asarray(learnt.values(parameters, steps.next_observations[t]))
        best = values[..., 1].argmax(axis=-1)
        bootstraps[t] = values[np.arange(LANES), best]
        if t + 1 < T:
            greedy = steps.actions[t + 1] == best
            traces[t] = 0.65 * (steps.goes_on[t] & (greedy if cut else True))
    given = learnt.family, bootstraps, steps.rewards, steps.discounts, traces
    expected = lambda_returns(*given)
    assert ((traces > 0) & (traces < 1)).any()
    np.testing.assert_allclose(found.mean(), expected.mean(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.variance(), expected.variance(), rtol=1e-3, atol=1e-4)


def test_every_epoch_learns_from_every_step_once() -> None:
    """With a learning rate of 0 the losses of an epoch are those of all steps, in some order."""
    learnt, steps, key = agent(), rollout(), jax.random.key(1)
    still = Optimiser(0.0)
    learner = new_learner(learnt, still, key, target_network=False)
    targets = learnt.targets(learner.online, steps, key)
    flat = Particles(
        *(np.asarray(x).reshape(T * LANES, -1) for x in (targets.atoms, targets.probs))
    )
    alone = learnt.fit(
        learner.online, steps.observations.reshape(-1, 4), steps.actions.reshape(-1), flat, key
    )
    _, losses = learn_from(learnt, still, learner, steps, Passes(2, 4), seed_of(0, 0))
    assert losses.each.shape == (8, 12)
    for epoch in np.asarray(losses.each).reshape(2, -1):
        np.testing.assert_allclose(np.sort(epoch), np.sort(np.asarray(alone)), rtol=1e-4)
    first, second = np.asarray(losses.each).reshape(2, -1)
    assert (first != second).any()


def turn(seen: float, after: float, terminal: bool, ended: bool) -> Turn:
    frame, later = np.array([[seen]], np.float32), np.array([[after]], np.float32)
    zero, two = np.zeros(1), np.full(1, 2.0)
    steps = Steps(later, two, two, np.array([terminal]), np.array([ended]))
    lanes = np.zeros(1, int)
    return Turn(lanes, lanes, frame, frame, zero.astype(bool), lanes + 1, steps, zero)


def test_a_truncated_step_is_bootstrapped_from_its_own_last_observation() -> None:
    """gamma 0 after a terminal only; the next step of an episode that ended is another's."""
    memory = RolloutMemory(3, 1, (1,), np.float32, 0.9)
    assert memory.complete  # there is nothing to wait for, and nothing to learn from yet
    memory.remember(turn(1.0, 2.0, terminal=False, ended=False))
    assert not memory.complete
    memory.remember(turn(2.0, 3.0, terminal=False, ended=True))
    memory.remember(turn(7.0, 8.0, terminal=True, ended=True))
    assert memory.complete
    kept = memory.taken()
    np.testing.assert_array_equal(kept.next_observations[:, 0, 0], [2.0, 3.0, 8.0])
    np.testing.assert_array_equal(kept.discounts[:, 0], np.array([0.9, 0.9, 0.0], np.float32))
    np.testing.assert_array_equal(kept.goes_on[:, 0], [True, False, False])
    memory.remember(turn(9.0, 9.5, terminal=False, ended=False))
    memory.cut(0, np.zeros(1))
    assert not memory.rollout.goes_on[0, 0]
    assert kept.goes_on[0, 0]  # a copy: what learns from it must not see later steps


def test_agents_without_targets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"trace must.*replay memory.*OwnIQN"):
        train(Config(**PARALLEL), tmp_path / "run", agent=OwnIQN, env=lambda: Probe("both"))


def test_a_run_in_an_environment_that_cannot_be_restored_goes_on(tmp_path: Path) -> None:
    config = Config(**{**PARALLEL, "steps": 96, "checkpoint_every": 40, "log_every": 48})
    train(config, tmp_path / "run", env=lambda: Probe("both"))
    again = resume(tmp_path / "run", env=lambda: Probe("both"), steps=200)
    assert again.step == 200
    assert again.config.schedule_steps is None


@pytest.mark.parametrize("envs", [pytest.param(1, marks=pytest.mark.slow), 8])
def test_returns_of_several_lengths_are_learnt_from_replay(envs: int, tmp_path: Path) -> None:
    """Actions are random, so only traces that are cut give the returns of the best ones."""
    settings = {"envs": envs, "rollout": 0, "n_step": 3, "trace": 0.9, "cut_traces": True}
    short = {"replay": 1_000, "learn_after": 100, "target_every": 25, "batch": 16, "steps": 2_000}
    config = Config(**{**PARALLEL, "update_every": 1, "size": 5, **settings, **short})
    for kind in ("delayed", "both"):
        run = train(config, tmp_path / kind, env=lambda kind=kind: Probe(kind))
        seen = np.array([[-1.0], [0.0], [1.0]], np.float32)
        means = run.agent.action_values(run.state.learner.acting, seen, jax.random.key(0))
        assert np.nanmax(np.abs(np.asarray(means) - expected(kind))) < 0.1, (kind, means)


def test_one_expectile_is_dqn(tmp_path: Path) -> None:
    """Expectiles with K = 1 give the updates of the mean, to rounding."""
    learnt = {}
    for family in (Mean(), Expectiles(1)):
        one = StatisticsAgent(family, network_for("mlp", (4,), ACTIONS, 1))
        optimiser = Optimiser(1e-3, 1e-4)
        learner = new_learner(one, optimiser, jax.random.key(0), target_network=False)
        learner, losses = learn_from(
            one, optimiser, learner, rollout(), Passes(2, 4), seed_of(0, 0)
        )
        learnt[type(family)] = learner.online, losses.mean
    for one, other in zip(*map(jax.tree.leaves, learnt.values()), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_the_parallel_preset_trains_minatar(tmp_path: Path) -> None:
    config = preset("parallel", agent="er-dqn", steps=3_000, log_every=1_000, evaluate_episodes=3,
                    evaluate_steps=50, evaluate_every=1_500, checkpoint_every=1_500)  # fmt: skip
    run = Run(config, tmp_path / "run")
    assert run.state.learner.target is None
    run = train(config, tmp_path / "run")
    rows = (run.out / "evaluations.csv").read_text().splitlines()[1:]
    assert [row.split(",")[:2] for row in rows] == [["1504", "3"], ["3008", "3"]]


def test_exploration_may_fall_with_the_learning_rate() -> None:
    """To its last share over epsilon_steps as ever, and that share falls as the rate does."""
    config = preset("parallel", steps=1_000, epsilon_steps=100)
    assert config.epsilon_at(0) == 1.0
    assert config.epsilon_at(100) == pytest.approx(0.05 * 0.9)
    assert config.epsilon_at(500) == pytest.approx(0.05 * 0.5)
    assert config.epsilon_at(2_000) == config.learning_rate_at(2_000) == 0.0


def test_the_learning_rate_falls_to_its_floor_and_stays_when_a_run_is_made_longer() -> None:
    for schedule, half in (("linear", 0.5), ("cosine", 0.5), ("constant", 1.0)):
        config = Config(steps=1_000, schedule=schedule, schedule_floor=0.2, learning_rate=1e-3)
        longer = lengthened(config, 3_000)
        rates = [one.learning_rate_at(step) / 1e-3 for one in (config, longer) for step in (0, 500)]
        left = 1.0 if schedule == "constant" else 0.2 + 0.8 * half
        assert rates == pytest.approx([1.0, left, 1.0, left])
        end = 1.0 if schedule == "constant" else 0.2
        assert longer.learning_rate_at(2_000) == pytest.approx(1e-3 * end)
