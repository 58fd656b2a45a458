"""`edrl train`, `evaluate` and `play`, as a user calls them."""

import dataclasses
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.damage import command as typed

from edrl import Quantiles, __version__, cli
from edrl.cli.evaluate import Evaluate
from edrl.cli.flags import whole_number
from edrl.cli.play import Play
from edrl.cli.train import Train
from edrl.core.particles import Particles
from edrl.deep.calibration import Returns
from edrl.deep.config import preset, read_config
from edrl.deep.play import Moment
from edrl.deep.replay import Replay
from edrl.deep.run import Run
from edrl.report import film
from edrl.report.agent_film import picture, return_axis
from edrl.study.locks import locked
from edrl.study.plan import plan

pytestmark = pytest.mark.xdist_group("commands")  # one process makes what its tests share

SMALL = preset(
    "minatar", steps=150, replay=200, learn_after=50, log_every=50, evaluate_every=100, evaluate_steps=30,
    checkpoint_every=100, size=3, batch=8,
)  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "breakout"
    assert Train(config=SMALL, out=out)() == 0
    return out


def test_a_run_leaves_what_it_promises(run: Path) -> None:
    for name in (
        "config.json",
        "metrics.csv",
        "evaluations.csv",
        "calibration.csv",
        "pictures/returns-000000000100.png",
    ):
        assert (run / name).stat().st_size > 0
    assert list((run / "tensorboard").glob("events*"))
    assert [path.name for path in sorted(run.glob("checkpoint-*"))] == [
        "checkpoint-000000000100",
        "checkpoint-000000000150",
    ]
    assert Train(SMALL, resume=run)() == 0  # nothing is left to do


def test_training_says_what_it_came_to_and_what_it_will_not_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Train(config=SMALL, out=tmp_path / "run")() == 0
    printed = capsys.readouterr()
    score = float((tmp_path / "run" / "evaluations.csv").read_text().split("\n")[1].split(",")[2])
    assert f"the last evaluation's mean score is {score:.2f}" in " ".join(printed.out.split())
    assert f"step 100: evaluation, mean score {score:.2f}" in printed.err
    monkeypatch.setattr("edrl.cli.train.free_memory", lambda: 1e6)
    assert (
        Train(config=dataclasses.replace(SMALL, evaluate_every=1000), out=tmp_path / "other")() == 0
    )
    warned = _printed(capsys)
    assert "GB of memory, but 0.0 GB are free" in warned
    assert "the first would come after 1,000 steps" in warned


def test_the_version_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["edrl", "--version"])
    cli.main()
    assert capsys.readouterr().out == f"edrl {__version__}\n"


def test_help_tells_of_the_version(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["edrl", "--help"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "edrl --version shows the version" in _printed(capsys)


def test_whole_numbers_may_be_spelt_as_in_settings(tmp_path: Path) -> None:
    """As `--set steps=1e3` takes them."""
    for text, number in (("1e3", 1000), ("1_000", 1000), ("-1", -1), ("9" * 20, int("9" * 20))):
        assert whole_number(text) == number
    for flag in ("--steps", "--size", "--seed"):
        for text in ("1.5", "1e400", "nan", "many"):
            status, printed = typed("train", flag, text, "--out", str(tmp_path))
            assert status == 2
            assert "it must be a whole number, such as 1000 or 1e6" in printed.replace(" │ │ ", " ")
    nowhere = str(tmp_path)
    commands = (
        ("train", "--resume", nowhere, "--steps", "1e3"),
        ("train", "--resume", nowhere, "--size", "1e1"),
        ("evaluate", nowhere, "--episodes", "1e2"),
        ("play", nowhere, "--steps", "1e2"),
        ("suite", "--seeds", "1e1"),
    )
    for arguments in commands:
        status, printed = typed(*arguments)
        assert status == 2
        assert "no run" in printed or "--out" in printed, printed  # the number was read


def test_evaluate_and_play(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Evaluate(run, episodes=3)() == 0
    printed = capsys.readouterr().out
    assert "3 episodes" in printed
    assert Evaluate(run, episodes=1)() == 0
    assert ", 1 episode\n" in capsys.readouterr().out
    assert "within the learnt 90 % intervals" in printed
    assert Play(run, video=tmp_path / "film.gif", steps=6, every=2)() == 0
    with Image.open(tmp_path / "film.gif") as opened:
        assert opened.size[1] == 320


def test_a_film_shows_one_of_so_many_steps(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[int] = []
    monkeypatch.setattr(
        "edrl.report.agent_film.write_film",
        lambda path, pictures, seconds: shown.append(len(pictures)),
    )
    for every in (1, 2, 3):
        assert Play(run, video=tmp_path / "film.gif", steps=3, every=every)() == 0
    assert shown == [3, 2, 1]


def test_to_play_asks_for_no_replay_memory(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of the paper's has seven gigabytes of it, which a laptop may lack."""
    monkeypatch.setattr("edrl.deep.run.Replay", None)
    assert Evaluate(run, episodes=1)() == 0
    with pytest.raises(ValueError, match=r"replay.*make it smaller"):
        Replay(10**9, (10**6,), np.uint8)


def test_what_cannot_be_played_is_explained(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (Evaluate(run, seed=-1), Play(run, seed=-1)):
        assert command() == 2
        assert "seed must be" in _printed(capsys)


def test_two_do_not_train_one_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with locked(run / "lock"):
        assert Train(SMALL, resume=run)() == 2
    assert "somebody else is at work" in " ".join(capsys.readouterr().out.split())


def test_an_mp4_shows_the_pictures(tmp_path: Path) -> None:
    """Odd lengths are cut; what comes back is what went in, as far as the codec lets it."""
    shades = (40, 120, 200)
    film.write_film(
        tmp_path / "film.mp4", [np.full((33, 65, 3), shade, np.uint8) for shade in shades], 0.5
    )
    decode = [
        film._ffmpeg(),
        "-loglevel",
        "error",
        "-i",
        str(tmp_path / "film.mp4"),
        "-f",
        "rawvideo",
    ]
    seen = subprocess.run(
        [*decode, "-pix_fmt", "rgb24", "-"], capture_output=True, check=True
    ).stdout
    frames = np.frombuffer(seen, np.uint8).reshape(-1, 32 * 64 * 3)
    np.testing.assert_allclose(frames.mean(axis=1), shades, atol=4)


@pytest.mark.parametrize("name", ["film.gif", "film.mp4"])
def test_films_of_others_are_not_overwritten(name: str, tmp_path: Path) -> None:
    """One that edrl has made may be replaced."""
    ours, other = tmp_path / name, tmp_path / f"other-{name}"
    film.check_film(ours)
    film.write_film(ours, [np.zeros((32, 64, 3), np.uint8)] * 2, 0.5)
    film.check_film(ours)
    other.write_bytes(b"GIF89a, which somebody else has made")
    with pytest.raises(ValueError, match="not one of ours: name another one"):
        film.check_film(other)


def test_a_film_of_others_stays(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "film.gif"
    path.write_bytes(b"mine")
    assert Play(run, video=path, steps=2)() == 2
    assert "not one of ours" in _printed(capsys)
    assert path.read_bytes() == b"mine"


def test_a_picture_shows_the_game_beside_the_returns() -> None:
    game = np.zeros((10, 10, 3), np.uint8)
    game[0] = (10, 200, 30)
    returns = Particles(np.array([[0.0, 1.0], [0.5, 2.0]]), np.full((2, 2), 0.5))
    pixels = picture(game, returns, 1, 3.0, ("left", "right"), return_axis([returns]))
    assert pixels.dtype == np.uint8
    assert pixels.shape[0] == 320
    assert pixels[5, 100].tolist() == [10, 200, 30]
    assert pixels[:, 330:].std() > 0


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (Train(config=SMALL), "--out"),
        (Train(SMALL, resume=Path("nowhere")), "nowhere"),
        (
            Train(config=preset("minatar", env="minatar/brekout"), out=Path("never-made")),
            "minatar/breakout",
        ),
        (
            Train(config=preset("paper", env="CartPole-v1"), out=Path("never-made")),
            "choose network mlp",
        ),
        (Evaluate(Path("nowhere")), "nowhere"),
        (Play(Path("nowhere")), "nowhere"),
        (Play(Path("nowhere"), video=Path("film.avi")), ".gif or .mp4"),
        (Play(Path("nowhere"), every=0), "every"),
        (Evaluate(Path("nowhere"), episodes=0), "episodes"),
    ],
)
def test_mistakes_are_explained(
    command: Callable[[], int], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command() == 2
    assert words in capsys.readouterr().out
    assert not Path("never-made").exists()


def test_a_missing_extra_is_named_in_full(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The brackets of 'edrl[atari]' are part of the command, not of the colours it is printed in."""
    monkeypatch.setitem(sys.modules, "ale_py", None)
    assert Train(config=preset("paper", env="pong"), out=tmp_path / "run")() == 2
    assert "pip install 'edrl[atari]'" in capsys.readouterr().out.replace("\n", "")


def test_help_shows_the_values_of_the_preset(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["edrl", "train", "--preset", "minatar", "--help"])
    with pytest.raises(SystemExit):
        cli.main()
    printed = capsys.readouterr().out
    assert "minatar/breakout" in printed
    assert "0.00025" in printed  # its learning rate


def test_output_that_nobody_reads_to_its_end_gives_no_traceback() -> None:
    """As in `edrl train --help | head`."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-c", "from edrl.cli import main; main()", "train", "--help"]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert ended.returncode == 141
    assert "Traceback" not in ended.stderr


def test_ctrl_c_gives_no_traceback(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In commands that have nothing to save; those that have are tested where they save."""

    def interrupted(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("edrl.cli.evaluate.play", interrupted)
    monkeypatch.setattr(sys, "argv", ["edrl", "evaluate", str(run)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err.strip() == "Interrupted."


def test_ctrl_c_keeps_what_has_been_evaluated(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watch, ended = Returns.watch, []

    def interrupted(self: Returns, moment: Moment) -> None:
        if len(ended) == 2:
            raise KeyboardInterrupt
        watch(self, moment)
        ended.extend([True] * moment.after.ended)

    assert Evaluate(run, episodes=2)() == 0
    whole = _printed(capsys)
    monkeypatch.setattr(Returns, "watch", interrupted)
    assert Evaluate(run, episodes=5)() == 130
    assert _printed(capsys) == whole.replace("2 episodes", "2 of 5 episodes")


def test_a_wrong_setting_is_named_as_it_was_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Without the parser's own names, and before anything is written."""
    monkeypatch.setattr(sys, "argv", ["edrl", "train", "--steps=-5", f"--out={tmp_path / 'run'}"])
    with pytest.raises(SystemExit):
        cli.main()
    assert _printed(capsys) == "steps must be a whole number of at least 1, got -5"
    assert not (tmp_path / "run").exists()


def test_a_run_is_trained_for_longer_but_not_otherwise(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is given beside --resume is not ignored, not even where it is a preset's value and not
    the run's own.
    """
    run = shutil.copytree(run, tmp_path / "run")  # the others want it as it is

    def resume(*given: str) -> int:
        monkeypatch.setattr(sys, "argv", ["edrl", "train", "--resume", str(run), *given])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert isinstance(ended.value.code, int)
        return ended.value.code

    for name, value in (
        ("env", "breakout"),
        ("agent", "dqn"),
        ("preset", "minatar"),
        ("out", "elsewhere"),
    ):
        assert resume(f"--{name}={value}") == 2
        assert f"{name} is '{value}': with --resume the run's own settings hold" in _printed(capsys)
    assert resume("--steps=100") == 2
    assert "can only become longer" in _printed(capsys)
    assert resume("--steps=200", "--agent=er-dqn") == 0  # as it is
    assert "Done: 200 steps" in _printed(capsys)
    assert resume() == 0
    assert "Done: 200 steps" in _printed(capsys)


def test_older_is_for_going_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Train(SMALL, out=tmp_path / "run", older=True)() == 2
    assert "it is for --resume" in _printed(capsys)


def test_nothing_is_called_saved_that_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: Run) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "begin", interrupted)
    assert Train(SMALL, out=tmp_path / "run")() == 130
    assert "nothing had begun" in _printed(capsys)


def test_statistics_of_ones_own_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """MODULE:NAME is an agent like any other, in a study too."""
    (tmp_path / "mine.py").write_text(
        "import edrl\n\nthree = edrl.Expectiles(3)\nEvenly = edrl.Quantiles\nx = 1\n\n\ndef Bare():\n    return three\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    config = dataclasses.replace(SMALL, agent="mine:three", size=None)
    assert config.variant.label == "three"
    assert Train(config=config, out=tmp_path / "run")() == 0
    assert Evaluate(tmp_path / "run", episodes=1, trust=True)() == 0
    assert "mine:three on minatar/breakout" in _printed(capsys)
    assert dataclasses.replace(SMALL, agent="mine:Evenly").family() == Quantiles(3)
    for agent, size, words in (
        ("mine:three", 3, "size is settled"),
        ("mine:x", None, "must be an object of edrl.Statistics"),
        ("mine:y", None, "has no attribute 'y'"),
        ("theirs:y", None, "No module named 'theirs'"),
        ("mine:Bare", 5, "cannot be made with size 5: TypeError"),
    ):
        with pytest.raises(ValueError, match=words):
            dataclasses.replace(SMALL, agent=agent, size=size).family()
    agents = ["mine:three[learning_rate=1e-3]", "er-dqn[size=5]", "er-dqn[imputation=scipy-root]"]
    runs = plan(["minatar/breakout"], agents, 1, "minatar")
    assert [str(run.config.variant) for run in runs] == agents
    assert [run.config.learning_rate for run in runs] == [1e-3, 2.5e-4, 2.5e-4]


def test_an_agents_name_says_what_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same spelling as in studies; case does not matter, and a contradiction is no choice."""

    def train(*given: str) -> int:
        flags = ("--preset=quick", "--steps=20", "--learn-after=10", "--log-every=10", "--batch=4")
        flags += ("--rollout=0", "--envs=1")
        monkeypatch.setattr(sys, "argv", ["edrl", "train", *flags, *given])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert isinstance(ended.value.code, int)
        return ended.value.code

    assert (
        train("--agent", "Er-Dqn[size=3,double,learning_rate=1e-4]", f"--out={tmp_path / 'run'}")
        == 0
    )
    config = read_config(tmp_path / "run")
    assert (config.agent, config.size, config.double, config.learning_rate) == (
        "er-dqn",
        3,
        True,
        1e-4,
    )
    assert str(config.variant) == "er-dqn[double,learning_rate=1e-4,size=3]"
    assert train("--agent=er-dqn[size=3]", "--size=5", f"--out={tmp_path / 'other'}") == 2
    assert "size must be 3, as in er-dqn[size=3]" in _printed(capsys)
    assert not (tmp_path / "other").exists()


def test_a_file_is_no_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    for out in (file, file / "below"):
        assert Train(config=SMALL, out=out)() == 2
        assert f"out is '{out}': {file} is a file: name a directory" in _printed(capsys)


@pytest.mark.usefixtures("without_shape_checks")
def test_a_config_that_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "checkpoint-000000000001").mkdir()
    assert Evaluate(tmp_path)() == 2
    assert "no config.json" in _printed(capsys)
    for text, words in (
        ("{", "config.json cannot be read"),
        ('{"steps": 5}', "config must have a setting 'agent', got ['steps']"),
        (
            SMALL.to_json().replace('"steps": 150', '"steps": "many"'),
            "steps must be a whole number of at least 1, got 'many'",
        ),
    ):
        (tmp_path / "config.json").write_text(text)
        assert Evaluate(tmp_path)() == 2
        assert words in _printed(capsys)


def _printed(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())
