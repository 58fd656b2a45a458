"""Training: probes that every agent must solve, and runs that go on exactly where they were."""

import contextlib
import csv
import dataclasses
import errno
import itertools
import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from probes import KINDS, Probe, others_are_slow

from edrl.core.families import Expectiles
from edrl.core.risk import CVaR
from edrl.deep import checkpoint, replay_files
from edrl.deep.agents import StatisticsAgent
from edrl.deep.callbacks import Callback, Evaluation, Row
from edrl.deep.config import AGENTS, Config, preset
from edrl.deep.run import Run
from edrl.deep.tables import TABLES, Tables
from edrl.deep.trained import load
from edrl.deep.training import resume, train
from edrl.report.return_pictures import ReturnPictures
from edrl.study.progress import finished as is_finished
from edrl.study.tables import read_csv

SMALL: dict[str, Any] = {
    "steps": 400, "replay": 500, "learn_after": 100, "target_every": 50, "log_every": 50, "evaluate_every": 200,
    "evaluate_steps": 40, "checkpoint_every": 100, "epsilon_steps": 200, "batch": 16, "network": "mlp", "size": 3,
}  # fmt: skip


def expected(kind: str) -> np.ndarray:
    """The true values [observation -1, 0, 1; action] under the greedy policy, NaN where they do not
    matter.
    """
    nan = np.nan
    return {
        "constant": np.array([[nan, nan], [1, 1], [nan, nan]]),
        "observed": np.array([[-1, -1], [nan, nan], [1, 1]]),
        "delayed": np.array([[nan, nan], [0.5, 0.5], [1, 1]]),
        "action": np.array([[nan, nan], [0, 1], [nan, nan]]),
        "both": np.array([[1, 0], [nan, nan], [0, 1]]),
    }[kind]


@pytest.mark.parametrize("agent", others_are_slow(AGENTS, "er-dqn", "iqn"))
def test_every_agent_solves_the_probes(agent: str, tmp_path: Path) -> None:
    """Expected returns within 0.1 of the true ones, for every probe: gamma = 1/2 shows a discount
    too many.
    """
    size = {"dqn": None, "c51": 41, "iqn": None}.get(agent, 5)
    # The iterated imputation of Huber quantiles takes its time: two probes hold all that is probed.
    for kind in ("delayed", "both") if agent == "qr-dqn-imputation" else KINDS:
        config = Config(
            agent=agent, env="probe", size=size, support=(-2.0, 2.0), network="mlp", steps=700, replay=1_000,
            learn_after=100, update_every=1, target_every=25, batch=16, gamma=0.5, learning_rate=2e-3,
            adam_epsilon=1e-8, epsilon=(1.0, 1.0), evaluate_every=0, log_every=700, checkpoint_every=700,
        )  # fmt: skip
        run = train(config, tmp_path / kind, env=Probe(kind))
        observations = np.array([[-1.0], [0.0], [1.0]], np.float32)
        means = np.asarray(
            run.agent.action_values(run.state.learner.online, observations, jax.random.key(0))
        )
        off = np.abs(means - expected(kind))
        assert np.nanmax(off) < 0.1, (agent, kind, means)


def test_settings_reach_what_they_set(tmp_path: Path) -> None:
    settings = {
        **SMALL,
        "n_step": 3,
        "double": True,
        "gamma": 0.9,
        "evaluate_every": 0,
        "epsilon": (1.0, 0.01),
    }
    config = Config(env="probe", **settings)
    assert [config.epsilon_at(step) for step in (0, 100, 200, 300, 999)] == pytest.approx(
        [1, 1, 0.505, 0.01, 0.01]
    )
    run = Run(config, tmp_path / "run", env=Probe("both"))
    replay = run.state.memory
    assert (replay.n_step, replay.gamma, run.agent.double, run.agent.risk) == (3, 0.9, True, None)
    careful = Run(
        dataclasses.replace(config, risk="cvar-0.2"), tmp_path / "careful", env=Probe("both")
    )
    assert careful.agent.risk == CVaR(0.2)
    run.begin()
    renewed, before = [], np.array(run.state.learner.target[0]["weight"])
    while run.step < 200:
        run.advance()
        now = np.array(run.state.learner.target[0]["weight"])
        if (now != before).any():
            renewed.append(run.step)
        before = now
    assert renewed == [150, 200]  # every 50 steps, once learning has changed something


@pytest.mark.parametrize("sticky", [False, True])
def test_sticky_actions_reach_the_game(sticky: bool, tmp_path: Path) -> None:
    pytest.importorskip("ale_py")
    config = preset("paper", env="pong", sticky=sticky, replay=2_000, learn_after=1_000)
    game: Any = Run(config, tmp_path / "run").environment
    assert game._ale.getFloat("repeat_action_probability") == (0.25 if sticky else 0.0)


def test_a_family_of_ones_own_becomes_an_agent(tmp_path: Path) -> None:
    """No new file: any statistics are trained, here expectiles at levels of one's own."""
    family = Expectiles((0.2, 0.5, 0.7))
    run = train(
        Config(env="probe", **{**SMALL, "steps": 150}),
        tmp_path / "run",
        family=family,
        env=Probe("both"),
    )
    assert isinstance(run.agent, StatisticsAgent)
    assert run.agent.family == family
    assert run.state.learner.online[-1]["bias"].shape == (2 * 3,)


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ("minatar/breakout", {}),
        ("minatar/seaquest", {"envs": 10, "update_every": 5, "average": 0.9}),
        ("minatar/breakout", {"envs": 4, "rollout": 8, "minibatches": 4, "evaluate_episodes": 2}),
    ],
)
def test_a_resumed_run_is_the_run(
    env: str, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at any step, also between two checkpoints, and resumed: the same files to the last
    digit.
    """
    monkeypatch.setattr(
        replay_files, "_ROWS", 30
    )  # a checkpoint's transitions are in several files
    config = preset("minatar", **{**SMALL, "network": "minatar", **settings}, env=env)
    whole = train(config, tmp_path / "whole")
    for stop in (137, 250):
        out = tmp_path / f"stopped-{stop}"

        class LightsOut(Callback):
            def on_log(self, run: Run, row: Row, stop: int = stop) -> None:
                if run.step >= stop:
                    raise RuntimeError("the lights go out")

        with pytest.raises(RuntimeError, match="lights"):
            train(config, out, callbacks=[LightsOut()])
        again = resume(out)
        for name in TABLES:
            assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
        for one, other in zip(whole.state.learner.online, again.state.learner.online, strict=True):
            np.testing.assert_array_equal(one["weight"], other["weight"])
        for name, array in whole.state.memory.save().items():
            np.testing.assert_array_equal(again.state.memory.save()[name], array)
        np.testing.assert_array_equal(again.state.memory.added, whole.state.memory.added)


def test_environments_side_by_side_are_the_same_training(tmp_path: Path) -> None:
    """As many steps, updates and transitions as with one; every lane plays an episode of its own."""
    config = Config(
        env="probe", **{**SMALL, "envs": 5, "update_every": 1, "evaluate_every": 0, "batch": 8}
    )
    run = Run(config, tmp_path / "run", env=Probe("both"))
    run.begin()
    while run.step < 120:
        run.advance()
    assert run.step == 120
    replay = run.state.memory
    assert len(run.state.since_log.mean_losses()) == 120 - 100
    assert int((replay.actions >= 0).sum()) == 120
    assert (
        len({replay.frames[replay.place(np.arange(20), lane)].tobytes() for lane in range(5)}) == 5
    )
    before, after = run.agent.init(jax.random.key(0)), run.state.learner.online
    assert not np.array_equal(before[0]["bias"], after[0]["bias"])


def test_one_seed_repeats_and_two_differ(tmp_path: Path) -> None:
    files = {}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train(
            preset("minatar", **{**SMALL, "network": "minatar", "steps": 200}, seed=seed),
            tmp_path / name,
        )
        files[name] = (tmp_path / name / "metrics.csv").read_text()
    assert files["a"] == files["b"]
    assert files["a"] != files["c"]


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A run with two checkpoints, cut after the second."""
    train(
        Config(env="probe", **{**SMALL, "steps": 200, "evaluate_every": 0}),
        tmp_path / "run",
        env=Probe("both"),
    )
    return tmp_path / "run"


def test_a_damaged_checkpoint_is_named_and_the_one_before_can_be_used(finished: Path) -> None:
    newest, before = checkpoint.found(finished)
    file = newest / "arrays.npz"
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(checkpoint.CheckpointError, match=r"damaged: arrays.npz.*older"):
        resume(finished, env=Probe("both"))
    run = resume(finished, env=Probe("both"), older=True)
    assert run.step == 200
    assert before.name < newest.name
    checkpoint.load(checkpoint.found(finished)[0])  # the damaged one has been replaced


def test_what_cannot_be_used_does_not_stay_among_the_kept(finished: Path) -> None:
    """An unreadable manifest at a step that comes no more; and with one checkpoint there is none
    before.
    """
    newest, before = checkpoint.found(finished)
    odd = newest.with_name("checkpoint-000000000199")
    newest.rename(odd)
    (odd / "manifest.json").write_text("{")
    resume(finished, env=Probe("both"), older=True)
    assert [path.name for path in checkpoint.found(finished)] == [newest.name, before.name]
    for path in checkpoint.found(finished):
        (path / "arrays.npz").unlink()
    with pytest.raises(checkpoint.CheckpointError, match=r"arrays.npz is missing$"):
        resume(finished, env=Probe("both"), older=True)


def test_metrics_that_are_shorter_than_they_were_are_named(finished: Path) -> None:
    metrics = finished / "metrics.csv"
    metrics.write_bytes(metrics.read_bytes()[:-5])
    with pytest.raises(checkpoint.CheckpointError, match=r"metrics.csv is damaged"):
        resume(finished, env=Probe("both"))


def test_to_play_no_replay_memory_is_needed(finished: Path) -> None:
    shutil.rmtree(finished / "replay")
    newest = checkpoint.found(finished)[0]
    assert checkpoint.load(newest, replay=False).step == 200
    with pytest.raises(ValueError, match="replay memory has been deleted"):
        resume(finished, env=Probe("both"), steps=500, older=True)
    assert (
        checkpoint.found(finished)[0] == newest
    )  # an older one, without that memory, is no way out


def test_a_run_goes_on_with_what_it_was_made_with(tmp_path: Path) -> None:
    """Statistics and environments that were passed must be passed again; config.json cannot be
    changed in between.
    """
    config, family = (
        Config(env="CartPole-v1", **{**SMALL, "steps": 100, "evaluate_every": 0}),
        Expectiles((0.2, 0.5, 0.7)),
    )
    out = tmp_path / "run"
    train(config, out, family=family, env=Probe("both"))
    with pytest.raises(
        ValueError, match=r"family is None: the run was trained with family=Expectiles"
    ):
        resume(out, env=Probe("both"))
    with pytest.raises(ValueError, match="trained with env=Probe"):
        resume(out, family=family)
    with pytest.raises(ValueError, match="trained with family=Expectiles"):
        resume(out, family=Expectiles((0.2, 0.5, 0.8)), env=Probe("both"))
    (out / "config.json").write_text(dataclasses.replace(config, gamma=0.5).to_json())
    with pytest.raises(ValueError, match=r"gamma is 0.5: the run was trained with 0.99"):
        resume(out, family=family, env=Probe("both"))
    (out / "config.json").write_text(config.to_json())
    assert resume(out, family=family, env=Probe("both"), steps=150).step == 150
    makers = json.loads(
        (out / "provenance.json").read_text()
    )  # for reports, which have no checkpoints
    assert [maker["env"] for maker in makers] == ["Probe", "Probe"]
    assert all(maker["family"].startswith("Expectiles(taus=[0.2, 0.5, 0.7]") for maker in makers)


def test_nothing_of_others_is_overwritten(tmp_path: Path) -> None:
    config = Config(env="probe", **{**SMALL, "steps": 100, "evaluate_every": 0})
    (tmp_path / "config.json").write_text('{"a": 1}')
    with pytest.raises(ValueError, match=r"there is a config\.json in it"):
        train(config, tmp_path, env=Probe("both"))
    assert (tmp_path / "config.json").read_text() == '{"a": 1}'
    out = tmp_path / "run"
    train(config, out, env=Probe("both"))
    metrics = (out / "metrics.csv").read_text()
    for path in checkpoint.found(out):
        shutil.rmtree(path)
    with pytest.raises(ValueError, match=r"there is a metrics\.csv in it"):
        train(config, out, env=Probe("both"))
    assert (out / "metrics.csv").read_text() == metrics


def test_a_run_that_diverges_says_so(tmp_path: Path) -> None:
    config = Config(env="probe", **SMALL, learning_rate=1e30)
    with pytest.raises(ValueError, match=r"loss is .* learning has diverged by step 150"):
        train(config, tmp_path / "run", env=Probe("both"))


def test_all_the_time_of_a_run_is_told(tmp_path: Path) -> None:
    """A row when metrics are logged and one at the end, the last evaluation included."""

    class Slow(Callback):
        def on_evaluation(self, run: Run, evaluation: Evaluation) -> None:
            time.sleep(0.3)

    config = Config(env="probe", **{**SMALL, "steps": 220, "evaluate_every": 110})
    began = time.perf_counter()
    train(config, tmp_path / "run", env=Probe("both"), callbacks=[Slow()])
    passed = time.perf_counter() - began
    with (tmp_path / "run" / "timing.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [0, 50, 100, 150, 200, 220]
    seconds = [float(row["seconds"]) for row in rows]
    assert min(seconds[3], seconds[5]) >= 0.3  # evaluations come after steps 110 and 220
    assert sum(seconds) <= passed + 0.01


def test_a_foreign_or_newer_checkpoint_is_refused(finished: Path) -> None:
    newest = checkpoint.found(finished)[0]
    manifest = newest / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"version": 3', '"version": 99'))
    with pytest.raises(checkpoint.CheckpointError, match="format 99"):
        resume(finished, env=Probe("both"))
    manifest.unlink()
    with pytest.raises(checkpoint.CheckpointError, match="not a checkpoint"):
        resume(finished, env=Probe("both"))
    with pytest.raises(ValueError, match="no run"):
        resume(finished / "nowhere")


def test_a_full_disk_costs_nothing_but_the_new_checkpoint(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last good checkpoint survives, what was half written goes, and the run can be resumed."""
    run = Run(Config.from_json((finished / "config.json").read_text()), finished, env=Probe("both"))
    newest = checkpoint.found(finished)[0]
    run.load(newest)
    run.state.counters.step += 1

    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space"):
        run.save()
    monkeypatch.undo()
    assert checkpoint.found(finished)[0] == newest
    assert not (finished / "checkpoint.partial").exists()
    checkpoint.load(newest)


class Killed(BaseException):
    """Nothing in the program catches it, as nothing catches SIGKILL."""


def test_saving_a_step_again_keeps_what_was_saved_until_the_new_one_is_there(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an evaluation that was broken off."""
    newest = checkpoint.found(finished)[0]
    kept = checkpoint.load(newest)
    seen: list[bool] = []
    rmtree = shutil.rmtree

    def watch(path: Path, *args: Any, **kwargs: Any) -> None:
        if Path(path).exists():
            seen.append(newest.exists())
        rmtree(path, *args, **kwargs)

    monkeypatch.setattr(shutil, "rmtree", watch)
    checkpoint.save(finished, dataclasses.replace(kept, arrays={"episodes": np.array(-1)}))
    assert seen == [True]  # the old one went when the new one was in its place
    assert checkpoint.load(newest).arrays["episodes"] == -1


def test_a_kill_at_any_moment_of_a_save_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before each operation on the disk that a save is made of, one after the other, then
    resumed.
    """
    config = preset(
        "minatar", **{**SMALL, "network": "minatar", "steps": 300, "checkpoint_every": 60}
    )
    train(config, tmp_path / "whole")
    train(
        dataclasses.replace(config, steps=200), tmp_path / "begun"
    )  # its next save has one to forget, too
    checkpoint.write_text(tmp_path / "begun" / "config.json", config.to_json())
    kills = 0
    for moment in itertools.count():
        out = tmp_path / f"killed-{moment}"
        shutil.copytree(tmp_path / "begun", out)
        operations = itertools.count()

        def or_killed(operation: Any, moment: int = moment, operations: Any = operations) -> Any:
            def operate(*args: Any, **kwargs: Any) -> Any:
                if next(operations) == moment:
                    raise Killed
                return operation(*args, **kwargs)

            return operate

        with monkeypatch.context() as patched, contextlib.suppress(Killed):
            for owner, name in (
                (np, "savez"),
                (os, "fsync"),
                (os, "rename"),
                (os, "unlink"),
                (os, "rmdir"),
            ):
                patched.setattr(owner, name, or_killed(getattr(owner, name)))
            resume(out)
            break  # there is no such moment: all have been tried
        kills += 1
        resume(out)
        for name in TABLES:
            assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert kills >= 20


class SignalAt(Callback):
    """Asks a run to end at the row of metrics of a step, just before an evaluation."""

    def __init__(self, step: int, number: int) -> None:
        self.step, self.number = step, number

    def on_log(self, run: Run, row: Row) -> None:
        if run.step == self.step:
            signal.raise_signal(self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_and_so_does_the_end_that_a_system_asks_for(
    number: int, tmp_path: Path
) -> None:
    before = signal.getsignal(number)

    config = Config(env="probe", **{**SMALL, "evaluate_every": 0})
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", env=Probe("both"), callbacks=[SignalAt(150, number)])
    assert checkpoint.load(checkpoint.found(tmp_path / "run")[0]).step == 150
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("stop", [200, 400])
def test_a_long_evaluation_does_not_keep_a_run_from_saving(stop: int, tmp_path: Path) -> None:
    """It is broken off, and made when the run goes on, also after the last step: the same files to
    the last digit.
    """
    config = preset("minatar", **{**SMALL, "network": "minatar"})
    train(config, tmp_path / "whole")

    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(config, out, callbacks=[SignalAt(stop, signal.SIGTERM), ReturnPictures()])
    assert checkpoint.load(checkpoint.found(out)[0]).step == stop
    assert not (out / "pictures" / f"returns-{stop:012d}.png").exists()
    assert not is_finished(out, config)
    resume(out)
    assert is_finished(out, config)
    for name in TABLES:
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_run_that_cannot_be_trained_further_stays_what_it_is(finished: Path) -> None:
    shutil.rmtree(finished / "replay")
    before = (finished / "config.json").read_text()
    with pytest.raises(ValueError, match="replay memory has been deleted"):
        resume(finished, steps=300, env=Probe("both"))
    assert (finished / "config.json").read_text() == before


def test_a_directory_with_a_run_is_not_overwritten(finished: Path) -> None:
    with pytest.raises(ValueError, match="there is a run in it already"):
        train(Config(env="probe", **SMALL), finished, env=Probe("both"))


def test_metrics_say_how_good_imputation_was(finished: Path) -> None:
    with (finished / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [50, 100, 150, 200]
    assert rows[0]["loss"] == ""  # nothing learnt yet
    # What they are: test_agent.py.
    for name in ("mean_value", "imputed_mean_shift", "imputation_residual", "inconsistent_share"):
        assert np.isfinite(float(rows[-1][name]))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"agent": "rainbow"}, "er-dqn"),
        ({"gamma": 1.5}, "gamma"),
        ({"risk": "cvar-0.0"}, "alpha must"),
        ({"risk": "cvar"}, "NAME-NUMBER"),
        ({"risk": "luck-1"}, "cvar, expectile"),
        ({"risk": "cvar-0.5", "agent": "dqn"}, "a mean alone"),
        ({"beside": "dqn"}, "beside must be one of c51"),
        ({"imputation": "guess"}, "scipy-root"),
        ({"replay": 10}, "replay"),
        ({"batch": 0}, "batch"),
        ({"evaluate_steps": 0}, "evaluate_steps"),
        ({"adam_epsilon": 0.0}, "adam_epsilon"),
        ({"envs": 4, "rollout": 8, "minibatches": 5}, "must divide envs times rollout"),
        ({"rollout": 32, "double": True}, "no target network"),
        ({"rollout": 32, "n_step": 3, "trace": 0.5}, "trace"),
        ({"schedule": "exponential"}, "constant, linear, cosine"),
        ({"schedule_floor": 1.5}, "schedule_floor"),
        ({"max_gradient": 0.0}, "max_gradient"),
        ({"average": 1.5}, "average"),
        ({"epsilon": 0.1}, "two numbers"),
        ({"envs": 10, "update_every": 4}, "must divide"),
    ],
)
@pytest.mark.usefixtures("without_shape_checks")
def test_bad_settings_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Config(**settings)


@pytest.mark.parametrize(
    ("agent", "imputation"), [("er-dqn", "gauss"), ("qr-dqn", "exact"), ("c51", "exact")]
)
def test_imputations_for_other_statistics_are_refused(agent: str, imputation: str) -> None:
    with pytest.raises(ValueError, match="imputation must be one of"):
        Config(agent=agent, imputation=imputation).family()


def test_qr_dqn_acts_on_the_average_with_any_imputation() -> None:
    values = np.array([0.0, 0.5, 4.0], np.float32)
    for imputation in (None, "maximum-entropy"):
        family = Config(agent="qr-dqn", size=3, imputation=imputation).family()
        assert family.mean(values) == pytest.approx(1.5)


@pytest.mark.usefixtures("without_shape_checks")
def test_a_config_survives_its_file() -> None:
    assert isinstance(preset("minatar", steps=1e6).steps, int)
    config = preset("minatar", agent="qr-dqn", seed=3)
    assert Config.from_json(config.to_json()) == config
    with pytest.raises(ValueError, match="no such setting"):
        Config.from_json(config.to_json().replace("{", '{"colour": 1,', 1))


def test_the_paper_preset() -> None:
    """Appendix D and QR-DQN's settings."""
    config = preset("paper")
    assert (config.replay, config.learn_after, config.batch, config.update_every) == (
        1_000_000,
        50_000,
        32,
        4,
    )
    assert (config.target_every, config.epsilon, config.epsilon_steps) == (
        10_000,
        (1.0, 0.01),
        1_000_000,
    )
    assert (config.learning_rate, config.adam_epsilon, config.gamma) == (5e-5, 0.01 / 32, 0.99)
    assert (config.evaluate_every, config.evaluate_steps, config.evaluate_epsilon) == (
        250_000,
        125_000,
        0.001,
    )
    assert config.family() == Expectiles(11)


def test_an_environment_that_cannot_be_copied_is_made_by_a_function(tmp_path: Path) -> None:
    """Evaluations play on others: one that cannot be had is known before anything is trained."""

    class Connected(Probe):
        def __init__(self) -> None:
            super().__init__("both")
            self.lock = threading.Lock()

    config = Config(env="probe", **{**SMALL, "steps": 200, "envs": 5, "update_every": 1})
    with pytest.raises(ValueError, match=r"env.*cannot be copied.*function"):
        train(config, tmp_path / "object", env=Connected())
    assert not (tmp_path / "object").exists()
    made = train(config, tmp_path / "function", env=Connected)
    plain = train(config, tmp_path / "plain", env=Probe("both"))
    for name in TABLES:
        assert (made.out / name).read_text() == (plain.out / name).read_text()


@pytest.mark.parametrize(
    "broken_part", ["edrl.deep.callbacks.play", "edrl.deep.calibration.Returns.against"]
)
def test_an_evaluation_that_fails_does_not_cost_what_was_learnt(
    broken_part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it half written: it is made anew when the run goes on."""

    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of order")

    config = Config(env="probe", **{**SMALL, "checkpoint_every": 400})
    with monkeypatch.context() as broken:
        broken.setattr(broken_part, fails)
        with pytest.raises(RuntimeError, match="out of order"):
            train(config, tmp_path / "run", env=Probe("both"))
    assert checkpoint.found(tmp_path / "run")[0].name.endswith("200")
    run = resume(tmp_path / "run", env=Probe("both"))
    plain = train(config, tmp_path / "plain", env=Probe("both"))
    for name in ("evaluations.csv", "calibration.csv"):
        steps, expected = (read_csv(one.out / name)["step"] for one in (run, plain))
        assert steps == expected  # one row each


@pytest.mark.parametrize("table", ["evaluations.csv", "calibration.csv"])
def test_a_row_that_cannot_be_written_is_not_half_there(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full for a moment, in the midst of a row: the evaluation is made anew, and
    told once.
    """
    write_row = Tables.write_row

    def full(tables: Tables, name: str, row: Row) -> None:
        if name == table:
            with (tables._out / name).open("a") as file:
                file.write("200,4")
            raise OSError(errno.ENOSPC, "no space left")
        write_row(tables, name, row)

    config = preset("minatar", **{**SMALL, "network": "minatar"})
    with monkeypatch.context() as patched:
        patched.setattr(Tables, "write_row", full)
        with pytest.raises(OSError, match="no space left"):
            train(config, tmp_path / "run")
    resume(tmp_path / "run")
    assert is_finished(tmp_path / "run", config)
    train(config, tmp_path / "whole")
    for name in TABLES:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize("where", ["step", "reset"])
@pytest.mark.parametrize("envs", [1, 2])
def test_an_environment_that_fails_does_not_cost_what_was_learnt(
    where: str, envs: int, tmp_path: Path
) -> None:
    """The last of them, in a step or where an episode ends; the run is saved before it, and goes on
    with what works.
    """

    class Fragile(Probe):  # whose episodes are one step long
        steps = 0

        def step(self, action: int) -> Any:
            Fragile.steps += 1
            if Fragile.steps == 332 + envs and where == "step":
                raise RuntimeError("no power")
            return super().step(action)

        def reset(self, **given: Any) -> Any:
            if Fragile.steps == 332 + envs and where == "reset":
                Fragile.steps += 1
                raise RuntimeError("no power")
            return super().reset(**given)

    config = Config(
        env="probe", **{**SMALL, "checkpoint_every": 400, "evaluate_every": 0, "envs": envs}
    )
    with pytest.raises(RuntimeError, match="no power"):
        train(config, tmp_path / "run", env=lambda: Fragile("both"))
    assert checkpoint.load(checkpoint.found(tmp_path / "run")[0]).step == 332
    assert read_csv(tmp_path / "run" / "timing.csv")["step"][-1] == 332  # its time is told, too
    run = resume(tmp_path / "run", env=lambda: Fragile("both"))
    assert run.step == 400
    assert np.isfinite(float(read_csv(tmp_path / "run" / "metrics.csv")["loss"][-1]))


def test_a_trained_agent_is_loaded_without_touching_its_run(tmp_path: Path) -> None:
    """With what was passed to `train`, from a path as text, too; it says what the run's own agent
    says.
    """
    family, config = Expectiles((0.2, 0.5, 0.7)), Config(env="probe", **{**SMALL, "steps": 150})
    run = train(config, tmp_path / "run", family=family, env=Probe("both"))
    shutil.rmtree(tmp_path / "run" / "replay")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    trained = load(str(tmp_path / "run"), env=lambda: Probe("both"), family=family)
    assert isinstance(trained.agent, StatisticsAgent)
    assert (trained.step, trained.agent.family) == (150, family)
    observations = np.array([[-1.0], [1.0]], np.float32)
    expected = run.agent.returns(run.state.learner.online, observations, jax.random.key(0))
    np.testing.assert_allclose(trained.returns(observations).atoms, expected.atoms, rtol=1e-5)
    np.testing.assert_array_equal(trained.act(observations), np.asarray(expected.mean()).argmax(-1))
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before
    with pytest.raises(ValueError, match=r"family is None: .*trained with family=Expectiles"):
        load(tmp_path / "run", env=Probe("both"))


def test_a_support_that_does_not_hold_the_returns_is_said(tmp_path: Path) -> None:
    config = Config(agent="c51", env="probe", **{**SMALL, "steps": 150, "evaluate_every": 0})
    with pytest.warns(UserWarning, match="beyond the support of c51"):
        train(
            dataclasses.replace(config, support=(2.0, 3.0)), tmp_path / "off", env=Probe("constant")
        )
    train(
        dataclasses.replace(config, support=(-2.0, 3.0)), tmp_path / "on", env=Probe("constant")
    )  # warns of nothing


def test_statistics_without_a_support_hold_every_return(tmp_path: Path) -> None:
    class Rich(Probe):
        def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            observation, reward, *rest = super().step(action)
            return observation, 1e8 * reward, *rest

    settings = {**SMALL, "steps": 150, "evaluate_every": 0}
    for agent in ("er-dqn", "qr-dqn"):
        config = Config(agent=agent, env="probe", **settings)
        train(config, tmp_path / agent, env=Rich("constant"))  # warns of nothing
    config = Config(agent="c51", env="probe", **{**settings, "size": 7})
    with pytest.warns(UserWarning, match=r"beyond the support of c51\[size=7\], and"):
        train(config, tmp_path / "c51", env=Rich("constant"))


@pytest.mark.usefixtures("without_shape_checks")
def test_numbers_of_numpy_are_settings_too() -> None:
    config = Config(size=np.int64(5), gamma=np.float32(0.5), learning_rate=np.float64(1e-3))  # type: ignore[arg-type]
    assert Config.from_json(config.to_json()) == config
