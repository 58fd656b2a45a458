"""Agents in folders for others: what is written, what is read again, and what is refused."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays
from tests.damage import ODD_VALUES, command
from tests.deep.own_replay import Prioritised
from tests.deep.probes import Probe

import edrl
from edrl.deep import Config, Trained, exported, load, preset, train
from edrl.deep.checkpoint import CheckpointError
from edrl.report import export as exporting

pytestmark = pytest.mark.xdist_group("exports")  # one process makes what its tests share

SMALL = {
    "steps": 150, "replay": 200, "learn_after": 50, "log_every": 50, "evaluate_every": 50,
    "evaluate_steps": 30, "checkpoint_every": 150, "size": 3, "batch": 8, "target_every": 50,
}  # fmt: skip
FILES = {"model.safetensors", "config.json", "provenance.json", "results.json", "README.md"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "minatar"
    train(preset("minatar", **SMALL, average=0.9), out)
    return out


@pytest.fixture(scope="module")
def sound(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared") / "new" / "agent"
    status, printed = command("export", str(run), str(folder), "--episodes", "3")
    assert status == 0
    assert str(folder) in printed
    return folder


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    return shutil.copytree(sound, tmp_path / "agent")


def plays_alike(one: Trained, other: Trained) -> bool:
    """Whether two agents answer alike to the last digit."""
    shape = (20, *one.observation_shape)
    seen = np.random.default_rng(0).integers(0, 2, shape).astype(one.observation_dtype)
    returns = [agent.returns(seen) for agent in (one, other)]
    same = [np.array_equal(one.act(seen), other.act(seen))]
    same += [np.array_equal(returns[0].atoms, returns[1].atoms)]
    same += [np.array_equal(returns[0].probs, returns[1].probs)]
    return all(same)


def test_what_is_loaded_is_what_was_trained(run: Path, sound: Path) -> None:
    shared = edrl.load(sound)
    assert plays_alike(load(run), shared)
    assert (shared.step, shared.best) == (150, False)
    assert repr(shared) == repr(load(run))
    assert {path.name for path in sound.iterdir()} == {*FILES, "replay.mp4"}
    assert not list(sound.parent.glob(".*"))
    assert (sound / "config.json").read_text() == (run / "config.json").read_text()
    arrays = load_arrays((sound / "model.safetensors").read_bytes())
    assert arrays.keys() == {f"network/{n}/{part}" for n in range(3) for part in ("weight", "bias")}


def test_the_best_network_is_another(run: Path, tmp_path: Path) -> None:
    best = load(run, best=True)
    edrl.export(best, tmp_path / "best", episodes=1, film=False)
    shared = load(tmp_path / "best")
    assert plays_alike(best, shared)
    assert (shared.step, shared.best) == (best.step, True)
    assert "the best evaluation's network" in (tmp_path / "best" / "README.md").read_text()
    with pytest.raises(ValueError, match=r"best must be left out: .* is no run"):
        load(tmp_path / "best", best=True)
    with pytest.raises(ValueError, match=r"older must be left out: .* is no run"):
        load(tmp_path / "best", older=True)


def test_the_commands_read_it_as_they_read_a_run(run: Path, folder: Path) -> None:
    played = [command("evaluate", str(place), "--episodes", "3") for place in (run, folder)]
    assert played[0] == played[1]
    film = folder.parent / "film.gif"
    assert command("play", str(folder), "--steps", "2", "--video", str(film))[0] == 0
    assert film.exists()
    assert command("train", "--resume", str(folder))[0] == 2
    assert command("export", str(folder), str(folder.parent / "again"), "--episodes=3")[0] == 0
    for name in ("model.safetensors", "results.json", "README.md"):
        again = (folder.parent / "again" / name).read_bytes()
        assert again == (folder / name).read_bytes()


def test_results_are_those_of_new_episodes(run: Path, sound: Path) -> None:
    found = json.loads((sound / "results.json").read_text())
    scores = found["scores"]
    assert found["episodes"] == len(scores) == len(found["lengths"]) == 3
    assert found["mean"] == pytest.approx(np.mean(scores))
    assert found["std"] == pytest.approx(np.std(scores))
    _, printed = command("evaluate", str(run), "--episodes", "3")
    assert f"mean score {found['mean']:.2f}" in printed
    interval = found["interval"]
    if interval is not None:
        assert interval[0] <= found["mean"] <= interval[1]
    calibration = found["calibration"]
    assert f"{calibration['expected']:.3g} expected" in printed
    assert f"{calibration['within']:.0%} within" in printed


def test_the_card_has_what_the_hub_reads(sound: Path) -> None:
    _, front, body = (sound / "README.md").read_text().split("---\n", 2)
    card = yaml.safe_load(front)
    assert card["library_name"] == "edrl"
    assert card["pipeline_tag"] == "reinforcement-learning"
    wanted = {"minatar/breakout", "deep-reinforcement-learning", "reinforcement-learning", "er-dqn"}
    assert wanted <= set(card["tags"])
    (entry,) = card["model-index"]
    assert entry["name"] == "ER-DQN (size 3)"
    (result,) = entry["results"]
    assert result["task"]["type"] == "reinforcement-learning"
    assert result["dataset"] == {"name": "minatar/breakout", "type": "minatar/breakout"}
    found = json.loads((sound / "results.json").read_text())
    score = f"{found['mean']:.2f} +/- {found['std']:.2f}"
    (metric,) = result["metrics"]
    assert (metric["type"], metric["value"]) == ("mean_reward", score)
    assert "edrl.load(snapshot_download(" in body
    assert "| `size` | `3` |" in body
    assert "replay.mp4" in body


def test_a_computer_keeps_its_name(run: Path, sound: Path) -> None:
    (own,), (shared,) = (
        json.loads((place / "provenance.json").read_text()) for place in (run, sound)
    )
    assert own["machine"].pop("host")
    assert own == shared


def test_what_was_passed_is_passed_again(tmp_path: Path) -> None:
    """But for a replay memory, which nobody needs to play."""
    config = Config(**{**SMALL, "env": "CartPole-v1", "network": "mlp", "size": None})
    given: dict[str, Any] = {"env": Probe("both"), "family": edrl.Quantiles(5)}
    train(config, tmp_path / "run", **given, replay=Prioritised)
    trained = load(tmp_path / "run", **given, replay=Prioritised)
    edrl.export(trained, tmp_path / "agent", episodes=2, film=False)
    shared = load(tmp_path / "agent", **given)
    observation = np.array([0.5])
    np.testing.assert_array_equal(
        shared.returns(observation).atoms, trained.returns(observation).atoms
    )
    card = (tmp_path / "agent" / "README.md").read_text()
    assert "# ER-DQN on Probe" in card
    assert ", env=env, family=family)  #" in card
    with pytest.raises(ValueError, match="trained with family=Quantiles"):
        load(tmp_path / "agent", env=Probe("both"))


def test_an_environment_that_cannot_be_drawn_needs_no_film(tmp_path: Path) -> None:
    train(Config(env="probe", network="mlp", **SMALL), tmp_path / "run", env=Probe("both"))
    trained = load(tmp_path / "run", env=Probe("both"))
    with pytest.raises(ValueError, match=r"render_mode of Probe .* pass --no-film \(film=False"):
        edrl.export(trained, tmp_path / "agent")
    assert not (tmp_path / "agent").exists()


def test_without_ffmpeg_the_film_is_a_gif(
    sound: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the film of an earlier export does not stay beside it; files of others do."""
    folder = shutil.copytree(sound, tmp_path / "agent")
    (folder / "LICENSE").write_text("mine")
    monkeypatch.setattr(exporting, "has_ffmpeg", lambda: False)
    edrl.export(run, folder, episodes=1)
    assert {path.name for path in folder.iterdir()} == {*FILES, "replay.gif", "LICENSE"}
    assert "![An episode](replay.gif)" in (folder / "README.md").read_text()


@pytest.mark.parametrize("name", ["README.md", "config.json", "model.safetensors"])
def test_files_of_others_are_not_overwritten(name: str, run: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    status, printed = command("export", str(run), str(tmp_path), "--no-film")
    assert status == 2
    assert f"there is a {name} in it that is not of an export" in printed
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_a_file_or_a_run_is_no_place_for_an_export(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    before = sorted(path.name for path in run.iterdir())
    for place, words in ((tmp_path / "file", "is a file"), (run, "not of an export")):
        with pytest.raises(ValueError, match=words):
            edrl.export(run, place, film=False)
    assert sorted(path.name for path in run.iterdir()) == before


def test_ctrl_c_leaves_nothing_behind(
    run: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def interrupted(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(exporting, "play", interrupted)
    for place in (folder, folder.parent / "new"):
        assert command("export", str(run), str(place))[0] == 130
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("moved", range(6))
def test_half_an_export_is_no_agent_and_can_be_made_again(
    moved: int, run: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the last step is broken off, old and new files are not taken for one agent."""
    replace, done = Path.replace, []

    def broken_off(self: Path, target: Path) -> Path:
        if len(done) == moved:
            raise KeyboardInterrupt
        done.append(target)
        return replace(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", broken_off)
        with pytest.raises(KeyboardInterrupt):
            edrl.export(run, folder, episodes=1)
    with pytest.raises(ValueError, match=r"no config.json|no run with a checkpoint"):
        load(folder)
    edrl.export(run, folder, episodes=1, film=False)
    assert plays_alike(load(run), load(folder))


def edit_arrays(change: Callable[[dict[str, np.ndarray]], object]) -> Callable[[Path], None]:
    """A damage that changes arrays and leaves the header as it is."""

    def do(folder: Path) -> None:
        path = folder / exported.FILE
        header, _ = exported._read(path)
        arrays = load_arrays(path.read_bytes())
        change(arrays)
        path.write_bytes(save_arrays(arrays, {"edrl": str(header)}))

    return do


def edit_header(name: str, value: object) -> Callable[[Path], None]:
    """A damage that changes an entry of the header."""

    def do(folder: Path) -> None:
        path = folder / exported.FILE
        header = json.loads(str(exported._read(path)[0]))
        header[name] = value
        arrays = load_arrays(path.read_bytes())
        path.write_bytes(save_arrays(arrays, {"edrl": json.dumps(header)}))

    return do


def overwrite(content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / exported.FILE).write_bytes(content) and None


def cut(folder: Path) -> None:
    path = folder / exported.FILE
    path.write_bytes(path.read_bytes()[:-100])


def without_header(folder: Path) -> None:
    path = folder / exported.FILE
    path.write_bytes(save_arrays(load_arrays(path.read_bytes())))


LAST = "network/2/bias"
WRONG: dict[str, tuple[Callable[[Path], None], str]] = {
    "empty": (overwrite(b""), "is damaged: it holds no arrays that can be read"),
    "text": (overwrite(b"no arrays"), "is damaged: it holds no arrays that can be read"),
    "huge header": (overwrite(b"\xff" * 64), "is damaged: it holds no arrays that can be read"),
    "pickle": (overwrite(b"\x80\x04cos\nsystem\n."), "is damaged: it holds no arrays"),
    "cut": (cut, "is damaged: it holds no arrays that can be read"),
    "of others": (without_header, "is not of an agent that `edrl export` wrote"),
    "missing": (edit_arrays(lambda a: a.pop(LAST)), f"is of another agent: it has no {LAST}"),
    "shape": (
        edit_arrays(lambda a: a.update({LAST: np.zeros(7, np.float32)})),
        f"is of another agent: {LAST} is float32 (7,), not float32 (9,)",
    ),
    "type": (
        edit_arrays(lambda a: a.update({LAST: np.zeros(9, np.float64)})),
        f"is of another agent: {LAST} is float64 (9,), not float32 (9,)",
    ),
    "more": (
        edit_arrays(lambda a: a.update({"network/9": np.zeros(1)})),
        "is of another agent: it has network/9, which is not its",
    ),
    "NaN": (
        edit_arrays(lambda a: a[LAST].fill(np.nan)),
        "its network holds numbers that are not finite",
    ),
    "later": (edit_header("version", 2), "has format 2, but this version of edrl reads 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files_are_named(name: str, folder: Path) -> None:
    do, words = WRONG[name]
    do(folder)
    with pytest.raises((ValueError, CheckpointError)) as found:
        load(folder)
    assert words in str(found.value)
    assert str(folder / exported.FILE) in str(found.value)
    status, printed = command("evaluate", str(folder))
    assert status == 2
    assert "model.safetensors" in printed


@pytest.mark.parametrize("entry", ["version", "step", "best", "identity"])
def test_whatever_the_header_says_the_error_is_in_words(entry: str, folder: Path) -> None:
    whole = (folder / exported.FILE).read_bytes()
    right = {"version": [True], "step": [10**400], "best": [True]}  # True is 1
    for value in ODD_VALUES:
        if value in right.get(entry, []):
            continue
        (folder / exported.FILE).write_bytes(whole)
        edit_header(entry, value)(folder)
        with pytest.raises(CheckpointError, match=r"model\.safetensors"):
            load(folder)


def test_a_config_of_another_agent_is_refused(folder: Path) -> None:
    """Even one with a network of the same shape."""
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace('"er-dqn"', '"qr-dqn"'))
    with pytest.raises(ValueError, match="agent is 'qr-dqn': the run was trained with er-dqn"):
        load(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json cannot be read"):
        load(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ValueError, match=r"no config\.json"):
        load(folder)


def test_settings_that_a_later_version_adds_are_their_defaults(run: Path, folder: Path) -> None:
    """What this version calls `beside` stands for a setting that an earlier one did not know."""
    config = json.loads((folder / "config.json").read_text())
    assert config.pop("beside") is None
    (folder / "config.json").write_text(json.dumps(config))
    header = json.loads(str(exported._read(folder / exported.FILE)[0]))
    del header["identity"]["settings"]["beside"]
    edit_header("identity", header["identity"])(folder)
    assert plays_alike(load(run), load(folder))


@pytest.mark.parametrize("setting", ["env", "agent", "imputation"])
def test_no_code_that_it_names_is_imported_without_trust(
    setting: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {"env": '"minatar/breakout"', "agent": '"er-dqn"', "imputation": "null"}[setting]
    config = (folder / "config.json").read_text()
    changed = config.replace(f'"{setting}": {before}', f'"{setting}": "evil:Name"')
    assert changed != config
    (folder / "config.json").write_text(changed)
    (tmp_path / "evil.py").write_text("raise SystemExit('code has run')")
    monkeypatch.syspath_prepend(str(tmp_path))
    for arguments in (["evaluate"], ["play", "--video=film.gif"], ["export", "--no-film", "other"]):
        status, printed = command(arguments[0], str(folder), *arguments[1:])
        assert status == 2
        assert "code of its own (evil:Name)" in printed
        assert "pass --trust (trust=True in Python)" in printed
    assert "evil" not in sys.modules


def test_with_trust_code_by_name_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_to_share.py").write_text("import edrl\n\nthree = edrl.Expectiles(3)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    own = {**SMALL, "size": None, "agent": "mine_to_share:three"}
    train(preset("minatar", **own), tmp_path / "run")
    folder = tmp_path / "agent"
    flags = ("--episodes=1", "--no-film", "--trust")
    assert command("export", str(tmp_path / "run"), str(folder), *flags)[0] == 0
    card = (folder / "README.md").read_text()
    assert ", trust=True)" in card
    assert "code that is not in this folder: `mine_to_share:three`" in card
    assert "three" in yaml.safe_load(card.split("---\n")[1])["tags"]
    with pytest.raises(ValueError, match="--trust"):
        load(folder)
    assert plays_alike(load(tmp_path / "run", trust=True), load(folder, trust=True))
