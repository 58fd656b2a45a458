"""What users add lies outside the package: an agent, a replay memory, environments, a callback, an
imputation.
"""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from tests.deep.own_iqn import OwnIQN
from tests.deep.own_replay import Prioritised
from tests.deep.probes import Probe

import edrl.deep
from edrl.cli.evaluate import Evaluate
from edrl.cli.train import Train
from edrl.deep import Agent, Callback, Config, Run, Trained, load, resume, train
from edrl.deep.callbacks import Evaluation, Row
from edrl.deep.environments import import_suite, make, names, register, scores_of, suite
from edrl.deep.tables import TABLES
from edrl.study.plan import plan
from edrl.study.progress import finished
from edrl.study.results import read_study

HERE = Path(__file__).parent
PROBE: dict[str, Any] = {
    "env": "probe", "network": "mlp", "steps": 700, "replay": 1_000, "learn_after": 100, "update_every": 1,
    "target_every": 25, "batch": 16, "gamma": 0.5, "learning_rate": 2e-3, "adam_epsilon": 1e-8,
    "epsilon": (1.0, 1.0), "evaluate_every": 0, "log_every": 100, "checkpoint_every": 700,
}  # fmt: skip
SMALL = Config(
    env="minatar/breakout", network="minatar", steps=300, replay=200, learn_after=50, log_every=50, batch=8, size=3,
    evaluate_every=100, evaluate_steps=30, checkpoint_every=100, target_every=50, epsilon_steps=100,
)  # fmt: skip
BOTH = np.array([[1.0, 0.0], [0.0, 1.0]])
"""The action values of the probe `both` at its observations -1 and 1."""


def action_values(known: Run | Trained) -> np.ndarray:
    parameters = known.parameters if isinstance(known, Trained) else known.state.learner.online
    observations = np.array([[-1.0], [1.0]], np.float32)
    return np.asarray(known.agent.action_values(parameters, observations, jax.random.key(0)))


def test_an_agent_of_ones_own_learns_and_is_loaded_again(tmp_path: Path) -> None:
    assert len((HERE / "own_iqn.py").read_text().splitlines()) <= 60
    run = train(Config(**PROBE), tmp_path / "run", agent=OwnIQN, env=Probe("both"))
    np.testing.assert_allclose(action_values(run), BOTH, atol=0.15)
    loaded = load(tmp_path / "run", agent=OwnIQN, env=Probe("both"))
    np.testing.assert_array_equal(action_values(loaded), action_values(run))
    with pytest.raises(ValueError, match=r"agent.*trained with agent=tests\.deep\.own_iqn\.OwnIQN"):
        load(tmp_path / "run", env=Probe("both"))
    with pytest.raises(
        Exception, match=r"(?s)agent.*Agent"
    ):  # by us, or by the type checker of the tests
        train(Config(**PROBE), tmp_path / "three", agent=3, env=Probe("both"))  # type: ignore[arg-type]


def test_an_agent_of_ones_own_by_name(tmp_path: Path) -> None:
    config = Config(
        **{**PROBE, "agent": "tests.deep.own_iqn:OwnIQN", "env": "CartPole-v1", "steps": 150}
    )
    assert Train(config=config, out=tmp_path / "run")() == 0
    assert isinstance(load(tmp_path / "run", trust=True).agent, OwnIQN)


@pytest.mark.parametrize("agent", ["er-dqn", pytest.param("iqn", marks=pytest.mark.slow)])
def test_a_prioritised_replay_learns_and_goes_on_exactly(agent: str, tmp_path: Path) -> None:
    """Its priorities are part of the run's tree, and random numbers of agents depend on the step
    alone.
    """
    config = Config(**{**PROBE, "agent": agent, "size": 5})
    run = train(config, tmp_path / "probe", env=Probe("both"), replay=Prioritised)
    np.testing.assert_allclose(action_values(run), BOTH, atol=0.15)
    assert len(np.unique(run.state.memory.priorities)) > 100  # type: ignore[attr-defined]

    short = dataclasses.replace(SMALL, agent=agent)
    whole = train(short, tmp_path / "whole", replay=Prioritised)
    train(dataclasses.replace(short, steps=150), tmp_path / "run", replay=Prioritised)
    again = resume(tmp_path / "run", steps=300, replay=Prioritised)
    for one, other in zip(
        *(jax.tree.leaves(run.state.learner) for run in (whole, again)), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    for name in TABLES:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    with pytest.raises(ValueError, match=r"replay.*trained with replay=.*Prioritised"):
        resume(tmp_path / "run", steps=400)


@pytest.fixture
def _own_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite can be imported, and is forgotten after a test."""
    monkeypatch.setattr(suite, "_SUITES", list(suite._SUITES))
    monkeypatch.delitem(sys.modules, "own_suite", raising=False)
    monkeypatch.syspath_prepend(str(HERE))


@pytest.mark.usefixtures("_own_suite")
def test_a_suite_of_ones_own_is_trained_planned_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = "own_suite:toy/corridor"
    settings = {
        **PROBE, "env": env, "gamma": 0.9, "epsilon": (1.0, 0.1), "evaluate_every": 700, "evaluate_steps": 50,
        "size": 5,
    }  # fmt: skip
    out = tmp_path / "toy-corridor" / "er-dqn" / "seed-0"
    assert Train(config=Config(**settings), out=out)() == 0
    assert Evaluate(out, episodes=2, trust=True)() == 0
    assert "mean score 5.00, 2 episodes" in capsys.readouterr().out.replace("\n", " ")
    (run,) = plan([env], ["er-dqn"], 1, "minatar", {"network": "mlp"})
    assert run.config.env == env
    study = read_study([tmp_path])
    scale = study.scales[env]
    assert (scale.zero, scale.one, scale.one_is) == (2.5, 5.0, "human")
    np.testing.assert_allclose(study.normalised(study.agents[0]), [[1.0]])


@pytest.mark.usefixtures("_own_suite")
def test_suites_say_what_others_score() -> None:
    assert scores_of("breakout") == (1.7, 30.5)
    assert scores_of("minatar/breakout") == (pytest.approx(0.416), None)
    assert scores_of("CartPole-v1") == scores_of("nowhere:toy/corridor") == (None, None)
    assert scores_of("own_suite:toy/corridor") == (None, None)  # names run no code
    import_suite("own_suite:toy/corridor")
    assert scores_of("own_suite:toy/corridor") == (2.5, 5.0)
    import_suite("nowhere:toy/corridor")  # a report does without it
    assert "toy/corridor" in names()
    with pytest.raises(ValueError, match="only Atari games can be made sticky"):
        make("toy/corridor", seed=0, sticky=True)
    import own_suite  # type: ignore[import-not-found]

    with pytest.raises(ValueError, match=r"there is an environment called toy/corridor already"):
        register(own_suite.Toy())


class Count(Callback):
    """Counts steps, also over a resumption."""

    steps = 0

    def on_step(self, run: Run) -> None:
        self.steps += 1

    def save(self) -> dict[str, np.ndarray]:
        return {"steps": np.array(self.steps)}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        self.steps = int(arrays.get("steps", 0))


class Events(Callback):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_begin(self, run: Run) -> None:
        self.seen.append("begin")

    def on_log(self, run: Run, row: Row) -> None:
        self.seen.append(f"log {run.step}")

    def on_evaluation(self, run: Run, evaluation: Any) -> None:
        self.seen.append(f"evaluation {run.step}")

    def on_checkpoint(self, run: Run) -> None:
        self.seen.append(f"checkpoint {run.step}")

    def on_end(self, run: Run) -> None:
        self.seen.append("end")


def test_a_callback_counts_and_is_told_what_happens(tmp_path: Path) -> None:
    count, events = Count(), Events()
    config = dataclasses.replace(SMALL, steps=100)
    train(config, tmp_path / "run", callbacks=[count, events])
    assert count.steps == 100
    assert events.seen == [
        "checkpoint 0", "begin", "log 50", "log 100", "evaluation 100", "checkpoint 100", "end",
    ]  # fmt: skip
    again = Count()
    resume(tmp_path / "run", steps=150, callbacks=[again])
    assert again.steps == 150
    with pytest.raises(ValueError, match=r"callbacks.*a `name` of its own"):
        train(config, tmp_path / "other", callbacks=[Count(), Count()])


def test_an_imputation_of_ones_own_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_imputation.py").write_text(
        "from edrl import Particles\n\n\ndef middle(family, values):\n    return Particles(values[..., 1:2])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    config = dataclasses.replace(SMALL, imputation="own_imputation:middle", steps=100)
    assert Train(config=config, out=tmp_path / "run")() == 0
    returns = load(tmp_path / "run", trust=True).returns(np.zeros((1, 10, 10, 4), np.uint8))
    assert returns.size == 1
    with pytest.raises(ValueError, match=r"imputation.*No module named 'nowhere'"):
        dataclasses.replace(config, imputation="nowhere:middle").family()


def test_a_checkpoint_is_the_tree_of_a_run(tmp_path: Path) -> None:
    """Arrays are named by their paths, and the manifest says whether the run is finished."""
    run = train(dataclasses.replace(SMALL, steps=100), tmp_path / "run")
    with np.load(tmp_path / "run" / "checkpoint-000000000100" / "arrays.npz") as arrays:
        np.testing.assert_array_equal(
            arrays["learner/online/0/weight"], run.state.learner.online[0]["weight"]
        )
        assert int(arrays["counters/step"]) == 100
        roots = {name.split("/")[0] for name in arrays}
    fields = {field.name for field in dataclasses.fields(run.state)}
    assert roots | {"memory"} == fields  # a uniform replay memory has nothing but its files
    manifest = json.loads(
        (tmp_path / "run" / "checkpoint-000000000100" / "manifest.json").read_text()
    )
    assert manifest["finished"]
    assert finished(tmp_path / "run", dataclasses.replace(SMALL, steps=100))
    assert not finished(tmp_path / "run", SMALL)


def test_an_agent_that_says_nothing_more_is_chosen_by_its_mean_and_logs_its_loss(
    tmp_path: Path,
) -> None:
    assert Agent.diagnostics == ()
    run = train(
        Config(**{**PROBE, "steps": 200}), tmp_path / "run", agent=OwnIQN, env=Probe("both")
    )
    head, *rows = (run.out / "metrics.csv").read_text().splitlines()
    assert head == "step,episodes,score,length,epsilon,learning_rate,loss"
    assert len(rows) == 2


def test_training_needs_no_plots() -> None:
    """A cluster's workers may lack fonts and screens: pictures are a callback of the report's."""
    code = (
        "import sys, edrl.deep; edrl.deep.train, edrl.deep.load; print('matplotlib' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_the_front_door_has_all_that_it_lists() -> None:
    for name in edrl.deep.__all__:
        assert getattr(edrl.deep, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        edrl.deep.trian  # noqa: B018


def test_the_network_of_the_best_evaluation_is_kept(tmp_path: Path) -> None:
    """Also by a run that goes on: what an earlier part of it had is still the best."""
    networks: dict[int, np.ndarray] = {}
    scores: dict[int, float] = {}

    class Note(Callback):
        def on_evaluation(self, run: Run, evaluation: Evaluation) -> None:
            networks[run.step] = np.array(run.state.learner.acting[0]["weight"])
            scores[run.step] = float(np.mean(evaluation.played.scores))

    config = dataclasses.replace(SMALL, steps=300, evaluate_every=50, evaluate_steps=60)
    train(dataclasses.replace(config, steps=150), tmp_path / "run", callbacks=[Note()])
    resume(tmp_path / "run", steps=300, callbacks=[Note()])
    best = max(scores, key=lambda step: (scores[step], -step))
    kept = load(tmp_path / "run", best=True)
    assert kept.step == best
    np.testing.assert_array_equal(kept.parameters[0]["weight"], networks[best])
    (tmp_path / "run" / "best.npz").unlink()
    with pytest.raises(ValueError, match="no evaluation of it was kept"):
        load(tmp_path / "run", best=True)
