"""Where the command finds modules: what lies in its directory is imported only if it is named."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edrl.deep import preset, train

SMALL = ("--steps=40", "--learn-after=20", "--evaluate-every=0", "--log-every=20")
MINE = """
from pathlib import Path

import edrl

three = edrl.Expectiles(3)
Path("imported").touch()
"""


def command(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`edrl ...`, given in a directory; -P: an installed script does not look there either."""
    code = "from edrl.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments],
        cwd=directory,
        env={**os.environ, "EDRL_CACHE": str(directory / "cache")},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of somebody else's."""
    out = tmp_path_factory.mktemp("theirs") / "run"
    settings = preset("quick", steps=40, learn_after=20, evaluate_every=0, log_every=20)
    train(settings, out)
    return out


def test_what_lies_beside_a_run_is_not_imported(run: Path, tmp_path: Path) -> None:
    """Its config asks for a package that is not installed, and a file has that package's name."""
    name, env = "gymnax", "gymnax/Breakout-MinAtar"
    try:
        __import__(name)
    except ImportError:
        pass
    else:
        pytest.skip(f"{name} is installed")
    shutil.copytree(run, tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    config.write_text(config.read_text().replace("CartPole-v1", env))
    assert env in config.read_text()
    (tmp_path / f"{name}.py").write_text("open('imported', 'w')\n")
    for arguments in (["evaluate", "run"], ["play", "run"], ["train", "--resume", "run"]):
        ended = command(tmp_path, *arguments)
        assert ended.returncode == 2, ended.stdout + ended.stderr
        assert f"{name} is not installed" in " ".join(ended.stdout.split())
        assert not (tmp_path / "imported").exists()


def test_a_module_that_is_named_is_found(tmp_path: Path) -> None:
    """On the command line, and in a run that is trusted."""
    (tmp_path / "mine.py").write_text(MINE)
    seen = tmp_path / "imported"
    ended = command(tmp_path, "train", "--preset=quick", "--agent=mine:three", *SMALL, "--out=run")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    seen.unlink()
    ended = command(tmp_path, "evaluate", "run", "--episodes=1")
    assert "names code of its own (mine:three)" in " ".join(ended.stdout.split())
    assert not seen.exists()
    ended = command(tmp_path, "evaluate", "run", "--episodes=1", "--trust")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert seen.exists()


def test_the_processes_of_a_study_find_no_more(tmp_path: Path) -> None:
    """The one that measures its speed, and the ones that work on its runs."""
    (tmp_path / "mine.py").write_text(MINE.replace('"imported"', '"named"'))
    (tmp_path / "numpy.py").write_text("open('imported', 'w')\n")
    settings = [flag.removeprefix("--").replace("-", "_") for flag in SMALL]
    ended = command(
        tmp_path, "suite", "--games", "CartPole-v1", "--agents", "mine:three", "--seeds", "1",
        "--preset", "quick", "--set", *settings, "--out", "study",
    )  # fmt: skip
    assert (tmp_path / "named").exists()
    assert not (tmp_path / "imported").exists()
    assert ended.returncode == 0, ended.stdout + ended.stderr
