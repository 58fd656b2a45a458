"""Signals while a run is trained: answered at once, and a second one ends even what hangs."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.deep import hanging

from edrl import cli
from edrl.cli.decode import Decode
from edrl.deep import checkpoint, interruption, last_resort, preset, train
from edrl.deep.environments import Step
from edrl.deep.environments.gym import Gymnasium
from edrl.deep.interruption import until_interrupted
from edrl.deep.run import Run
from edrl.study import local


def _ended_by(second: int, command: str, run: Path, answer: str) -> str:
    """What is said in the end, if a command that hangs answers Ctrl-C, and a second signal."""
    line = [sys.executable, str(hanging.__file__), command, str(run)]
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert process.stdout.readline() == "hangs\n"
            process.send_signal(signal.SIGINT)
            # XLA may have said something of its own before.
            assert any(answer in line for line in process.stderr)
            time.sleep(2 * last_resort.TOGETHER)
            process.send_signal(second)
            assert process.wait(timeout=60) == 128 + second
            return process.stderr.read()
        finally:
            process.kill()


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_is_answered_and_a_second_one_ends_a_run_that_hangs(
    second: int, tmp_path: Path
) -> None:
    out, answer = tmp_path / "run", "saves after this step. Ctrl-C again ends it"
    assert "the checkpoint is safe" in _ended_by(second, "train", out, answer)
    assert checkpoint.load(checkpoint.found(out)[0]).step == 0


@contextlib.contextmanager
def _keeping_the_gil(command: str, run: Path) -> Iterator[subprocess.Popen[str]]:
    """A command in which no thread of Python's runs any more."""
    line = [sys.executable, str(hanging.__file__), command, str(run), "gil"]
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "hangs\n"
            yield process
        finally:
            process.kill()


def test_a_second_ctrl_c_ends_what_keeps_the_gil(run: Path) -> None:
    with _keeping_the_gil("evaluate", run) as process:
        until = time.monotonic() + 60
        # Two may not do: what watches over the process could have begun only now.
        while process.poll() is None and time.monotonic() < until:
            process.send_signal(signal.SIGINT)
            time.sleep(2 * last_resort.TOGETHER)
        assert process.returncode == -signal.SIGKILL
        assert process.stderr is not None
        assert "Ended at once." in process.stderr.read()


def test_what_watches_over_a_process_ends_with_it(run: Path) -> None:
    with _keeping_the_gil("evaluate", run) as process:
        process.kill()
        process.communicate(timeout=30)  # until nobody has its standard error open


def test_signals_are_noticed_without_what_watches_over_the_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody may end it, and there may be no room for one more process."""
    watcher, begun = interruption._watcher, []

    def killed(signals: int, work: interruption._Work) -> "subprocess.Popen[bytes] | None":
        begun.append(watcher(signals, work))
        begun[0].kill()
        begun[0].wait()
        return begun[0]

    monkeypatch.setattr(interruption, "_watcher", killed)
    monkeypatch.setattr(interruption, "_end", lambda number, _: ended.append(number))
    ended: list[int] = []
    with until_interrupted():
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(2 * last_resort.TOGETHER)
    assert "saves after this step" in capsys.readouterr().err
    assert ended == [signal.SIGINT]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "run"
    train(preset("quick", steps=40, learn_after=20, evaluate_every=0, log_every=20), out)
    return out


@pytest.mark.parametrize("command", ["evaluate", "play"])
def test_a_second_ctrl_c_ends_play_that_hangs(command: str, run: Path) -> None:
    answer = "Stopping after this step. Ctrl-C again ends it at once."
    assert "Ended at once." in _ended_by(signal.SIGINT, command, run, answer)


def test_ctrl_c_stops_play_between_two_steps(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Even if the environment would catch a KeyboardInterrupt."""
    step, taken = Gymnasium.step, []

    def stubborn(self: Gymnasium, action: int) -> Step:
        with contextlib.suppress(KeyboardInterrupt):
            taken.append(signal.raise_signal(signal.SIGINT))
        return step(self, action)

    monkeypatch.setattr(Gymnasium, "step", stubborn)
    video = tmp_path / "play.gif"
    for arguments in ["evaluate", str(run)], ["play", str(run), "--video", str(video)]:
        monkeypatch.setattr(sys, "argv", ["edrl", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 130
        assert "Stopping after this step" in capfd.readouterr().err
        assert len(taken) == 1
        taken.clear()
    assert not video.exists()


def test_ctrl_c_before_the_first_step_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost from the moment at which a run is made."""
    save = Run.save

    def interrupted(self: Run) -> None:
        signal.raise_signal(signal.SIGINT)
        save(self)

    monkeypatch.setattr(Run, "save", interrupted)
    config = preset("quick", steps=40, learn_after=20, evaluate_every=0, log_every=20)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run")
    assert checkpoint.load(checkpoint.found(tmp_path / "run")[0]).step == 0


# A command that is interrupted at some point, where what is raised would be lost.
INTERRUPTED = """
import contextlib, os, signal, sys
import edrl.cli.decode, edrl.cli.evaluate, edrl.cli.train
from edrl import cli


def interrupted(*given, **named):
    with contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    os._exit(1)


assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
WHERE = interrupted
cli.main()
"""


@pytest.mark.parametrize(
    ("where", "arguments"),
    [
        ("cli.cache_compilations_of_command", ["decode", "cells.csv"]),
        ("edrl.cli.train.Run", ["train", "--preset=quick", "--out=run"]),
        ("edrl.cli.evaluate.load", ["evaluate", "run"]),
    ],
)
def test_ctrl_c_ends_what_has_only_begun(where: str, arguments: list[str], tmp_path: Path) -> None:
    """Without a word, and even in a callback of XLA's, from which nothing is raised."""
    code = INTERRUPTED.replace("WHERE", where)
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.returncode == -signal.SIGINT, ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "run").exists()


def test_other_commands_are_interrupted_as_ever(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: Decode) -> int:
        signal.raise_signal(signal.SIGINT)
        return 0

    monkeypatch.setattr(Decode, "__call__", interrupted)
    monkeypatch.setattr(sys, "argv", ["edrl", "decode", "cells.csv", "--support", "0", "1"])
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err.strip() == "Interrupted."
    assert signal.getsignal(signal.SIGINT) is before


def _ends(monkeypatch: pytest.MonkeyPatch, pause: float, *numbers: int) -> list[int]:
    """The signals that end the process, of some that come one after the other."""
    ended: list[int] = []
    monkeypatch.setattr(interruption, "_watcher", lambda *_: None)  # it would end this process
    monkeypatch.setattr(interruption, "_end", lambda number, _: ended.append(number))
    with until_interrupted() as interrupted:
        assert interrupted() == 0
        for number in numbers:
            time.sleep(pause)
            os.kill(os.getpid(), number)
        assert interrupted() == numbers[0]
    return ended


def test_systems_repeat_sigterm_and_launchers_pass_a_ctrl_c_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither is somebody's wish to end without saving."""
    ctrl_c, term = signal.SIGINT, signal.SIGTERM
    assert _ends(monkeypatch, 0.0, ctrl_c, ctrl_c, term) == []
    assert _ends(monkeypatch, 0.3, term, term) == []
    assert _ends(monkeypatch, 0.3, ctrl_c, ctrl_c) == [ctrl_c]
    assert _ends(monkeypatch, 0.3, term, ctrl_c) == [ctrl_c]
    assert capsys.readouterr().err.count("saves after this step") == 4


def test_all_is_as_before_afterwards() -> None:
    before = signal.set_wakeup_fd(-1), threading.active_count(), len(os.listdir("/proc/self/fd"))
    with until_interrupted():
        pass
    after = signal.set_wakeup_fd(-1), threading.active_count(), len(os.listdir("/proc/self/fd"))
    assert before == after


def test_a_second_ctrl_c_ends_the_runs_of_a_study_that_hang(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()  # it ignores SIGTERM from now on
    wait, waits = process.wait, iter([KeyboardInterrupt()])

    def interrupted_once(timeout: float | None = None) -> int:
        for error in waits:
            raise error
        return wait(timeout)

    monkeypatch.setattr(process, "wait", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        local._end([process])
    assert process.returncode == -signal.SIGKILL
    assert "every run saves. Ctrl-C again ends them" in capsys.readouterr().err
