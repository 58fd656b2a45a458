"""Compiled training: environments written in JAX, in the parallel mode and from replay memory."""

import csv
import os
import signal
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_probes import JaxProbe, Walk
from own_replay import Prioritised
from test_train import expected

from edrl.cli.train import Train
from edrl.deep import JaxEnvironment, JaxStep, compiled
from edrl.deep.callbacks import Callback, Row
from edrl.deep.config import Config, preset
from edrl.deep.device_memory import Columns, DeviceReplay, DeviceRollout, Layout
from edrl.deep.environments import Steps, jax_suites, make
from edrl.deep.environments.in_jax import JaxOnHost
from edrl.deep.lanes import Happened
from edrl.deep.learner import Passes, learn_from, optimiser_for, seed_of, update, updates
from edrl.deep.play import Turn
from edrl.deep.replay import NO_ACTION, Replay
from edrl.deep.run import Run
from edrl.deep.tables import TABLES
from edrl.deep.trained import load
from edrl.deep.training import resume, train

PARALLEL: dict[str, Any] = {
    "env": "jax", "network": "mlp", "envs": 8, "rollout": 4, "minibatches": 4, "gamma": 0.5,
    "steps": 2_400, "learning_rate": 2e-3, "adam_epsilon": 1e-8, "epsilon": (1.0, 1.0),
    "evaluate_every": 0, "log_every": 2_400, "checkpoint_every": 2_400, "support": (-2.0, 2.0),
    "trace": 0.65, "learn_after": 0, "agent": "dqn",
}  # fmt: skip
REPLAY: dict[str, Any] = {
    **PARALLEL, "rollout": 0, "trace": 1.0, "steps": 800, "replay": 1_000, "learn_after": 100,
    "update_every": 1, "target_every": 25, "batch": 16, "envs": 1, "log_every": 800,
    "checkpoint_every": 800,
}  # fmt: skip
SHORT: dict[str, Any] = {
    "steps": 400, "log_every": 40, "checkpoint_every": 100, "evaluate_every": 200,
    "evaluate_steps": 20, "epsilon": (1.0, 0.1), "epsilon_steps": 200, "schedule": "linear",
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("delayed", {**PARALLEL, "agent": "er-dqn", "size": 5}),
        pytest.param("both", PARALLEL, marks=pytest.mark.slow),
        pytest.param("both", {**REPLAY, "agent": "er-dqn", "size": 5}, marks=pytest.mark.slow),
        ("delayed", {**REPLAY, "envs": 8, "n_step": 3, "trace": 0.9, "cut_traces": True}),
        pytest.param(
            "both",
            {**REPLAY, "envs": 4, "update_every": 8, "steps": 6_400, "target_every": 200},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_agents_solve_the_probes(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    """Expected returns within 0.1 of the true ones: gamma = 1/2 shows a discount too many."""
    run = train(Config(**settings), tmp_path / "run", env=JaxProbe(kind))
    seen = np.array([[-1.0], [0.0], [1.0]], np.float32)
    means = run.agent.action_values(run.state.learner.acting, seen, jax.random.key(0))
    assert np.nanmax(np.abs(np.asarray(means) - expected(kind))) < 0.1, means


MODES: dict[str, dict[str, Any]] = {
    "rollouts": {**PARALLEL, **SHORT, "average": 0.9, "evaluate_episodes": 3},
    "replay": {**REPLAY, **SHORT, "n_step": 2, "double": True},
    "many": {**REPLAY, **SHORT, "envs": 6, "update_every": 3, "n_step": 3, "trace": 0.5},
    "seldom": {**REPLAY, **SHORT, "envs": 2, "update_every": 8, "replay": 120},
}


SLOW = ("replay", "seldom")


def same_arrays(one: Any, other: Any) -> None:
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def memory_arrays(run: Run) -> Any:
    memory = run.state.memory
    if isinstance(memory, DeviceReplay):
        return memory.columns
    assert isinstance(memory, DeviceRollout)
    return memory.save()


class LightsOut(Callback):
    """Breaks a run off, without a last checkpoint."""

    def __init__(self, stop: int) -> None:
        self._stop = stop

    def on_log(self, run: Run, row: Row) -> None:
        if run.step >= self._stop:
            raise RuntimeError("the lights go out")


class Interrupt(Callback):
    """Ctrl-C, once."""

    def on_log(self, run: Run, row: Row) -> None:
        if 200 <= run.step < 240:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(
    "mode", ["rollouts", "many", *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)]
)
def test_a_resumed_run_is_the_run_wherever_blocks_end(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken off, stopped by Ctrl-C, or in other blocks: the same files to the last digit."""
    config, env = Config(**MODES[mode]), Walk()
    whole = train(config, tmp_path / "whole", env=env)
    with pytest.raises(RuntimeError, match="lights"):
        train(config, tmp_path / "broken", env=env, callbacks=[LightsOut(280)])
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "stopped", env=env, callbacks=[Interrupt()])
    again = [resume(tmp_path / "broken", env=env), resume(tmp_path / "stopped", env=env)]
    if not config.rollout:
        monkeypatch.setattr(compiled, "MOST_STEPS", 25)
        again.append(train(config, tmp_path / "blocks", env=env))
    for run in again:
        for name in TABLES:
            assert (run.out / name).read_bytes() == (whole.out / name).read_bytes()
        same_arrays(run.state.learner, whole.state.learner)
        same_arrays(memory_arrays(run), memory_arrays(whole))


def test_things_happen_at_the_steps_of_the_host(tmp_path: Path) -> None:
    """Rows, evaluations and checkpoints do not wait for a block or a rollout to be complete."""
    config = Config(**{**MODES["rollouts"], "log_every": 72, "checkpoint_every": 150})
    run = train(config, tmp_path / "run", env=Walk())
    rows = list(csv.DictReader((run.out / "metrics.csv").read_text().splitlines()))
    assert [int(row["step"]) for row in rows] == [72, 144, 216, 288, 360]
    assert [float(row["epsilon"]) for row in rows] == [
        config.epsilon_at(int(row["step"])) for row in rows
    ]
    evaluations = list(csv.DictReader((run.out / "evaluations.csv").read_text().splitlines()))
    assert [int(row["step"]) for row in evaluations] == [200, 400]
    saved = sorted(path.name for path in run.out.glob("checkpoint-*"))
    assert saved == ["checkpoint-000000000304", "checkpoint-000000000400"]
    assert all(np.isfinite(float(row["mean_value"])) for row in rows)


def test_one_seed_repeats_and_two_differ(tmp_path: Path) -> None:
    found = {}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        config = Config(**{**MODES["rollouts"], "steps": 80, "seed": seed, "evaluate_every": 0})
        train(config, tmp_path / name, env=Walk())
        found[name] = (tmp_path / name / "metrics.csv").read_text()
    assert found["a"] == found["b"]
    assert found["a"] != found["c"]


def copied(tree: Any) -> Any:
    return jax.tree.map(jnp.copy, tree)


def close(one: Any, other: Any) -> None:
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6)


def test_a_rollout_is_learnt_from_as_on_the_host(tmp_path: Path) -> None:
    """What a block has played, given to the host's own `learn_from`."""
    config = Config(**{**MODES["rollouts"], "log_every": 400, "evaluate_every": 0})
    run = Run(config, tmp_path / "run", env=Walk())
    for _ in range(2):
        before = copied(run.state.learner)
        run.advance()
    optimiser = optimiser_for(config, run.agent, run.step)
    seed = seed_of(run.streams.learning, run.step)
    memory = run.state.memory
    assert isinstance(memory, DeviceRollout)
    passes = Passes(config.epochs, config.minibatches)
    learner, losses = learn_from(run.agent, optimiser, before, memory.rollout, passes, seed)
    close(run.state.learner, learner)
    np.testing.assert_allclose(run.state.since_log.losses[-1].mean, losses.mean, rtol=1e-4)


@pytest.mark.parametrize("mode", [pytest.param("replay", marks=pytest.mark.slow), "many"])
def test_replay_is_learnt_from_as_on_the_host(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The updates of one turn, given to the host's own `update` with the transitions drawn."""
    monkeypatch.setattr(compiled, "MOST_STEPS", 1)
    monkeypatch.setattr(compiled, "_LEAST_TURNS", 1)
    long = {"log_every": 400, "evaluate_every": 0, "target_every": 300, "learn_after": 30}
    config = Config(**{**MODES[mode], **long})
    run = Run(config, tmp_path / "run", env=Walk())
    while run.step < 42:
        before, step = copied(run.state.learner), run.step
        run.advance()
    memory = run.state.memory
    assert isinstance(memory, DeviceReplay)
    count = max(1, config.envs // config.update_every)
    _, key = jax.random.split(
        jax.random.wrap_key_data(jnp.asarray(seed_of(run.streams.acting, step)))
    )
    places = np.asarray(memory.layout.sample(memory.columns, key, count * config.batch).indices)
    host = memory.on_host()
    optimiser, seed = (
        optimiser_for(config, run.agent, run.step),
        seed_of(run.streams.learning, run.step),
    )
    if mode == "replay":
        learner, losses = update(run.agent, optimiser, before, host.at(places), seed)
    else:
        given = run.agent, optimiser, before, host.at(places), seed, count
        learner, losses = updates(*given, host.following(places))
    close(run.state.learner, learner)
    np.testing.assert_allclose(
        run.state.since_log.losses[-1].mean, np.ravel(losses.mean), rtol=1e-4
    )


def steps_of(rng: np.random.Generator, lanes: int, count: int) -> list[Turn]:
    """Turns in which episodes of every kind end."""
    turns, starts, numbers = [], np.ones(lanes, bool), np.arange(lanes)
    for number in range(count):
        frames = np.stack([np.full(lanes, number), numbers], axis=1).astype(np.float32)
        ended = rng.random(lanes) < 0.3
        terminal = ended & (rng.random(lanes) < 0.5)
        rewards, none = rng.normal(size=lanes), np.zeros(lanes)
        after = Steps(frames + np.float32([0.5, 0]), rewards, none, terminal, ended)
        actions = np.full(lanes, number % 3)
        turns.append(Turn(numbers, numbers, frames, frames, starts, actions, after, none))
        starts = ended
    return turns


@pytest.mark.parametrize(("n_step", "count"), [(1, 60), (3, 7), (3, 60)])
def test_memory_on_the_device_is_the_hosts(n_step: int, count: int) -> None:
    """The same steps make the same columns, the same transitions and the same longer returns.

    After 60 steps the oldest entries have been overwritten.
    """
    lanes, capacity = 3, 61
    turns = steps_of(np.random.default_rng(count), lanes, count)
    host = Replay(capacity, (2,), np.float32, 1, n_step, 0.9, lanes)
    layout = Layout(lanes, host.length, n_step, 0.9)
    remember = jax.jit(layout.remember)
    columns = Columns(
        *(jnp.asarray(x) for x in (host.frames, host.actions, host.rewards, host.terminals)),
        jnp.asarray(host.starts), jnp.zeros(lanes, jnp.int32),
    )  # fmt: skip
    for turn in turns:
        host.remember(turn)
        happened = Happened(
            jnp.asarray(turn.frames),
            jnp.asarray(turn.starts),
            jnp.asarray(turn.actions, jnp.int32),
            JaxStep(*map(jnp.asarray, turn.after)),
            jnp.zeros(lanes),
            jnp.zeros(lanes, jnp.int32),
        )
        columns = remember(columns, happened)
    for name in ("frames", "actions", "rewards", "terminals", "starts", "added"):
        np.testing.assert_array_equal(getattr(columns, name), getattr(host, name))
    (places,) = np.nonzero(host.startable())
    found = jax.jit(layout.at)(columns, jnp.asarray(places, jnp.int32))
    for one, other in zip(found, host.at(places), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    following = jax.jit(layout.following)(columns, jnp.asarray(places, jnp.int32))
    for one, other in zip(following, host.following(places), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    draw = jax.jit(layout.sample, static_argnums=2)
    drawn = np.asarray(draw(columns, jax.random.key(0), 40 * len(places)).indices)
    counts = np.bincount(drawn, minlength=capacity)
    assert set(np.nonzero(counts)[0]) <= set(places)
    # Uniform: chi-squared over the places, whose 1e-6 quantile is below 3.5 times their number.
    assert np.sum((counts[places] - 40) ** 2 / 40) < 3.5 * len(places) + 25


def test_scores_and_lengths_are_those_of_what_was_played(tmp_path: Path) -> None:
    config = Config(**{**MODES["many"], "steps": 240, "log_every": 10_000, "evaluate_every": 0})
    run = train(config, tmp_path / "run", env=Walk())
    memory = run.state.memory
    assert isinstance(memory, DeviceReplay)
    replay = memory.on_host()
    lengths, scores = [], []
    for lane in range(6):
        entries = replay.place(np.arange(replay.added[lane]), lane)
        ends = np.nonzero(replay.actions[entries] == NO_ACTION)[0]
        for rewards in np.split(replay.rewards[entries], ends + 1)[: len(ends)]:
            lengths.append(len(rewards) - 1)
            scores.append(2 * float(rewards.sum()))  # a reward is half a score
    assert max(lengths) == 6
    assert run.state.counters.episodes == len(lengths)
    assert sorted(run.state.since_log.played.lengths) == sorted(lengths)
    assert sorted(run.state.since_log.played.scores) == pytest.approx(sorted(scores))


def test_the_host_can_play_save_and_draw(tmp_path: Path) -> None:
    environment, other = JaxOnHost(Walk(), seed=3), JaxOnHost(Walk(), seed=4)
    other.load(environment.save())
    environment.reset()
    environment.step(2)
    other.load(environment.save())
    for action in (0, 1, 2):
        one = environment.step(action)
        two = other.step(action)
        if one.ended:
            break
        assert one[1:] == two[1:]
        np.testing.assert_array_equal(one.frame, two.frame)
    assert environment.render().shape == (1, 9, 3)
    with pytest.raises(ValueError, match=r"probe.*walk"):
        JaxOnHost(JaxProbe("both"), seed=0).load(environment.save())


def test_a_run_is_loaded_and_played_as_others_are(tmp_path: Path) -> None:
    config = Config(**{**MODES["replay"], "steps": 120})
    train(config, tmp_path / "run", env=Walk())
    trained = load(tmp_path / "run", env=Walk())
    assert trained.act(np.zeros(9, np.uint8)) in range(3)
    with pytest.raises(ValueError, match="env"):
        load(tmp_path / "run", env=JaxProbe("both"))


class Changed(Walk):
    """A walk that does something else than it declares."""

    def __init__(self, what: str) -> None:
        self.what = what

    def reset(self, key):
        state, frame = super().reset(key)
        return frame if self.what == "reset" else (state, frame)

    def step(self, key, state, action):
        state, after = super().step(key, state, action)
        if self.what == "frame":
            after = after._replace(frame=after.frame.astype(jnp.float32))
        if self.what == "reward":
            after = after._replace(reward=after.reward[None])
        if self.what == "flag":
            after = after._replace(terminal=after.reward)
        if self.what == "state":
            state = {**state, "at": state["at"].astype(jnp.float32)}
        if self.what == "tree":
            state = {**state, "more": 1}
        return state, (tuple(after) if self.what == "tuple" else after)


class Unhashable(Walk):
    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("environment", "error"),
    [
        (Changed("reset"), "what reset of walk returns must be a pair"),
        (Changed("frame"), r"frame of walk after a step must be uint8 of shape \(9,\), got"),
        (Changed("reward"), r"reward of walk must be float32 of shape \(\), got"),
        (Changed("flag"), r"terminal of walk must be bool of shape \(\), got"),
        (Changed("state"), r"state\['at'\] of walk after a step must be int32"),
        (Changed("tree"), "state of walk after a step must be"),
        (Changed("tuple"), "what step of walk returns.*must be a JaxStep"),
        (Unhashable(), "env.*hashable"),
    ],
)
def test_an_environment_that_is_not_what_it_says_is_refused(
    environment: JaxEnvironment, error: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=error):
        Run(Config(**PARALLEL), tmp_path / "run", env=environment)


def test_what_compiled_training_cannot_do_is_refused(tmp_path: Path) -> None:
    for settings, given, error in (
        ({}, {"replay": Prioritised}, "replay.*on the device"),
        ({"sticky": True}, {}, "sticky"),
        ({"steps": 10**12}, {}, "steps must be at most"),
    ):
        with pytest.raises(ValueError, match=error):
            Run(Config(**{**REPLAY, **settings}), tmp_path / "run", env=Walk(), **given)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pgx", None)
    jax_suites.made.cache_clear()
    with pytest.raises(ImportError, match=r"pgx is not installed: pip install 'edrl\[pgx\]'"):
        make("pgx/minatar-breakout", seed=0)


@pytest.mark.parametrize(
    "env",
    [
        "pgx/minatar-breakout",
        pytest.param("gymnax/Breakout-MinAtar", marks=pytest.mark.slow),
    ],
)
def test_minatar_in_jax_is_trained_by_the_command(env: str, tmp_path: Path) -> None:
    pytest.importorskip(env.partition("/")[0])
    config = preset(
        "parallel", agent="dqn", env=env, steps=320, envs=8, rollout=8, minibatches=4,
        evaluate_every=160, evaluate_episodes=2, evaluate_steps=20, log_every=160,
        checkpoint_every=160,
    )  # fmt: skip
    assert Train(config=config, out=tmp_path / "run")() == 0
    trained = load(tmp_path / "run")
    assert trained.action_names == ("NOOP", "LEFT", "RIGHT")
    assert trained.observation_shape == (10, 10, 4)
    environment = make(env, seed=0)
    frame = environment.reset()
    assert frame.dtype == np.uint8
    assert set(np.unique(frame)) == {0, 1}
    assert environment.render().shape == (160, 160, 3)


@pytest.mark.slow
@pytest.mark.parametrize("env", [*jax_suites.PGX, *jax_suites.GYMNAX])
def test_every_game_is_what_it_declares(env: str) -> None:
    """Shapes are checked when it is made; the actions are those of MinAtar's own game."""
    pytest.importorskip(env.partition("/")[0])
    pytest.importorskip("minatar")
    game = env.partition("/")[2].lower().replace("minatar", "").strip("-")
    own = make(f"minatar/{game.replace('spaceinvaders', 'space_invaders')}", seed=0)
    found = make(env, seed=0)
    assert (found.frame_shape, found.action_names) == (own.frame_shape, own.action_names)
    found.reset()
    scores = [found.step(step % found.num_actions).score for step in range(5)]
    assert np.isfinite(scores).all()
