"""Signals while a run is trained: answered at once, and a second one ends even what hangs."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.deep import hanging

from edrl.deep import checkpoint, interruption
from edrl.deep.interruption import until_interrupted
from edrl.study import local


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_is_answered_and_a_second_one_ends_a_run_that_hangs(
    second: int, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    command = [sys.executable, str(hanging.__file__), str(out)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert process.stdout.readline() == "hangs\n"
            process.send_signal(signal.SIGINT)
            # XLA may have said something of its own before.
            answer = "saves after this step. Ctrl-C again ends it"
            assert any(answer in line for line in process.stderr)
            time.sleep(2 * interruption._TOGETHER)
            process.send_signal(second)
            assert process.wait(timeout=60) == 128 + second
            assert "the checkpoint is safe" in process.stderr.read()
        finally:
            process.kill()
    assert checkpoint.load(checkpoint.found(out)[0]).step == 0


def _ends(monkeypatch: pytest.MonkeyPatch, pause: float, *numbers: int) -> list[int]:
    """The signals that end the process, of some that come one after the other."""
    ended: list[int] = []
    monkeypatch.setattr(interruption, "_end", ended.append)
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
