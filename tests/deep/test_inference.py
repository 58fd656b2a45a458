"""A trained agent in somebody's hands: what it is asked, and what it does not import."""

import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from tests.damage import command
from tests.deep.probes import Probe

from edrl.deep import Config, Trained, load, preset, resume, train

SMALL = {
    "steps": 150, "replay": 200, "learn_after": 50, "log_every": 50, "evaluate_every": 50,
    "evaluate_steps": 30, "checkpoint_every": 150, "size": 3, "batch": 8, "target_every": 50,
}  # fmt: skip
OWN = '"imputation": "evil:impute"'


@pytest.fixture(scope="module")
def of_vectors(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    out = tmp_path_factory.mktemp("run") / "probe"
    train(Config(env="probe", network="mlp", **SMALL), out, env=Probe("both"))
    return load(out, env=Probe("both"))


@pytest.fixture(scope="module")
def of_pictures(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    out = tmp_path_factory.mktemp("run") / "minatar"
    train(preset("minatar", **SMALL), out)
    return load(out)


def test_one_observation_or_a_batch(of_vectors: Trained) -> None:
    batch = np.array([[-1.0], [0.5], [1.0]])
    actions, returns = of_vectors.act(batch), of_vectors.returns(batch)
    assert isinstance(actions, np.ndarray)
    assert actions.shape == (3,)
    assert returns.atoms.shape[:2] == (3, 2)
    for row, observation in enumerate(batch):
        action = of_vectors.act(observation)
        assert type(action) is int
        assert action == actions[row]
        single = of_vectors.returns(observation)
        assert single.atoms.shape == returns.atoms.shape[1:]
        np.testing.assert_allclose(single.atoms, returns.atoms[row], rtol=1e-4, atol=1e-5)
    assert of_vectors.act([0.5]) == actions[1]  # a list is an observation, too


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        (
            0.5,
            r"observation must have the shape \(1,\), or \(batch, 1\), got an array of shape \(\)",
        ),
        (np.zeros(2), r"got an array of shape \(2,\)"),
        (np.zeros((2, 3, 1)), r"got an array of shape \(2, 3, 1\)"),
        (np.zeros((0, 1)), r"got an array of shape \(0, 1\)"),
        ([np.nan], "observation must be finite, got nan"),
        ([[0.0], [np.inf]], "observation must be finite, got inf"),
        (["left"], "observation must be numbers, got an array of <U4"),
        ([None], "observation must be numbers, got an array of object"),
        ([[0.0], [1.0, 2.0]], r"observation must be one array .*, got \[\[0.0\], \[1.0, 2.0\]\]"),
        ([1e300], r"observation must be at most 3.4e38 .* float32 .* got 1e\+300"),
    ],
)
def test_what_is_no_observation_is_refused(
    observation: object, words: str, of_vectors: Trained
) -> None:
    for ask in (of_vectors.act, of_vectors.returns):
        with pytest.raises(ValueError, match=words):
            ask(observation)  # type: ignore[operator]


def test_answers_that_are_not_finite_are_not_given(of_vectors: Trained) -> None:
    """Of NaN, the first action would be the best."""
    spoiled = replace(of_vectors, parameters=jax.tree.map(lambda x: x * 1e3, of_vectors.parameters))
    batch = np.array([[0.5], [-3e38]])
    for observation in (batch, batch[1]):
        for ask in (spoiled.act, spoiled.returns):
            with pytest.raises(ValueError, match=r"observation.* is -3e\+38: .* not finite"):
                ask(observation)
    assert spoiled.act(batch[0]) in (0, 1)


def test_bytes_are_not_cut(of_pictures: Trained) -> None:
    """A picture that was scaled to floats is not the one that the network learnt from."""
    picture = np.zeros((10, 10, 4), np.uint8)
    assert of_pictures.act(picture) == of_pictures.act(picture.astype(float))
    for odd in (0.5, 300, -1):
        with pytest.raises(ValueError, match=f"whole numbers from 0 to 255.*got {odd}"):
            of_pictures.act(np.where(picture == 0, odd, 0))


def test_it_says_what_it_is(of_pictures: Trained) -> None:
    assert repr(of_pictures) == (
        "Trained(er-dqn[size=3] on minatar/breakout after 150 steps;"
        " observations uint8 (10, 10, 4); actions NOOP, LEFT, RIGHT)"
    )


@pytest.mark.parametrize("setting", ["env", "agent", "imputation"])
def test_no_code_of_a_run_is_imported_without_trust(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads a run that he downloaded must not run what lies beside it."""
    run = tmp_path / "run"
    train(preset("minatar", **SMALL), run)
    config = (run / "config.json").read_text()
    name = {"env": "evil:CartPole-v1", "agent": "evil:Mine", "imputation": "evil:impute"}[setting]
    before = {"env": '"minatar/breakout"', "agent": '"er-dqn"', "imputation": "null"}[setting]
    changed = config.replace(f'"{setting}": {before}', f'"{setting}": "{name}"')
    assert changed != config
    (run / "config.json").write_text(changed)
    (tmp_path / "evil.py").write_text("raise SystemExit('code has run')")
    monkeypatch.syspath_prepend(str(tmp_path))
    commands = (
        ["evaluate", str(run)], ["play", str(run), "--video", str(tmp_path / "film.gif")],
        ["train", "--resume", str(run)],
    )  # fmt: skip
    for arguments in commands:
        status, printed = command(*arguments)
        assert status == 2
        assert f"code of its own ({name})" in printed
        assert "pass --trust (trust=True in Python)" in printed
    for read in (load, resume):
        with pytest.raises(ValueError, match="--trust"):
            read(run)  # type: ignore[operator]
    assert command("report", str(run), "--out", str(tmp_path / "report"))[0] == 0
    assert "evil" not in sys.modules
    if setting == "env":
        given = ("report", str(run), "--out", str(tmp_path / "report"), "--trust")
        assert command(*given)[0] == "code has run"
        with pytest.raises(SystemExit, match="code has run"):
            load(run, trust=True)


def test_reading_a_config_imports_no_imputation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A head is checked with every config that is read; the imputation beside it is not needed."""
    (tmp_path / "evil.py").write_text("raise SystemExit('code has run')")
    monkeypatch.syspath_prepend(str(tmp_path))
    config = Config.from_json(Config(head="chords").to_json().replace('"imputation": null', OWN))
    assert config.imputation == "evil:impute"
    assert "evil" not in sys.modules
    with pytest.raises(SystemExit, match="code has run"):
        config.family()
