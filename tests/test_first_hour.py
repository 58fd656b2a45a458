"""What a command says when something is in its way: a full disk, a locale, a page of others."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.damage import command
from tests.deep.probes import Probe

from edrl.core.particles import Particles
from edrl.deep import Config, train
from edrl.deep.environments import make
from edrl.report.agent_film import return_axis, steps_per_second
from edrl.report.page import check_no_foreign_page, document

SMALL: dict[str, Any] = {
    "steps": 150, "replay": 200, "learn_after": 50, "log_every": 50, "evaluate_every": 0,
    "checkpoint_every": 50, "size": 3, "batch": 8, "target_every": 50, "network": "mlp",
}  # fmt: skip


@pytest.mark.parametrize(
    ("saves", "words"),
    [(0, "nothing of it had been saved"), (2, r"step 50, is safe: go on with edrl train --resume")],
)
def test_a_full_disk_is_explained(
    saves: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which run, what is safe, and how to go on; what was half written goes."""
    savez, left = np.savez, iter(range(2 * saves))

    def full(file: Any, **arrays: np.ndarray) -> None:
        savez(file, **arrays)  # type: ignore[arg-type]
        if "learner/online/0/bias" in arrays and next(left, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        next(left, None)

    monkeypatch.setattr(np, "savez", full)
    out = tmp_path / "run"
    with pytest.raises(OSError, match=f"the run {out} is written; .*{words}") as caught:
        train(Config(env="probe", **SMALL), out, env=Probe("both"))
    assert caught.value.errno == errno.ENOSPC
    assert not (out / "checkpoint.partial").exists()


def test_a_strict_locale_does_not_break_a_report() -> None:
    """The signs that it lacks become question marks."""
    script = (
        "import sys; sys.argv = ['edrl', 'report', 'n\\u00f6where \\u2264']\n"
        "from edrl.cli import main; main()"
    )
    strict = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **strict},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert "DIR is 'n?where ?': there is no such directory" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_page_of_others_is_not_overwritten(tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    page.write_text("<title>my thesis</title>")
    for arguments in (["report", str(tmp_path)], ["reproduce", "figure-1"]):
        status, printed = command(*arguments, "--out", str(tmp_path))
        assert status == 2
        assert "an index.html in it that is not one of ours" in printed
    assert page.read_text() == "<title>my thesis</title>"
    page.write_text(document("ours", []))
    check_no_foreign_page(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--seed", str(2**64)], f"seed must be at most 4294967295, got {2**64}"),
        (["train", "--agent", "ERDQN"], "did you mean er-dqn"),
        (["suite", "--games", "pong", "--set", "steps=1e6x"], "steps must be a whole number"),
        (["suite", "--games", "pong", "--set", "steps=0.5"], "steps must be a whole number"),
    ],
)
def test_wrong_settings_are_told_in_words(arguments: list[str], words: str, tmp_path: Path) -> None:
    status, printed = command(*arguments, "--out", str(tmp_path / "out"))
    assert status == 2
    assert words in printed
    assert not (tmp_path / "out").exists()


def test_people_write_steps_and_agents_as_they_speak(tmp_path: Path) -> None:
    given = ["--games", "minatar/breakout", "--agents", "ER-DQN", "--seeds", "1"]
    settings = ["--preset", "minatar", "--set", "steps=1e6", "--out", str(tmp_path), "--dry-run"]
    status, printed = command("suite", *given, *settings)
    assert status == 0
    assert "1,000,000 agent steps" in printed


def test_films_have_one_axis_and_the_environments_pace() -> None:
    near, far = Particles(np.array([[0.0, 1.0]])), Particles(np.array([[0.0, 9.0]]))
    assert return_axis([near, far]) == return_axis([far, near])
    assert return_axis([near, far])[1] > 8.9
    assert steps_per_second(make("CartPole-v1", seed=0)) == 50.0
    assert steps_per_second(make("minatar/breakout", seed=0)) == 15.0
