"""Everything is imported, and a run is trained, where Python has no more than on Windows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# What others import may be as it is here: they have wheels for Windows.
AS_ON_WINDOWS = """
import fcntl, importlib, os, pkgutil, signal, sys, types

import ale_py, equinox, gymnasium, imageio_ffmpeg, jax, matplotlib.pyplot, minatar, optax, ray
import rich.progress, safetensors.numpy, scipy.optimize, scipy.stats, tensorboardX, tyro

jax.numpy.zeros(3) + 1  # a backend


def locking(handle, mode, count):
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise PermissionError(13, "Permission denied") from error


def set_wakeup_fd(handle, *, warn_on_full_buffer=True, before=signal.set_wakeup_fd):
    if handle >= 0:
        os.set_blocking(handle, False)  # Windows takes one that blocks
    return before(handle, warn_on_full_buffer=warn_on_full_buffer)


signal.set_wakeup_fd = set_wakeup_fd
msvcrt = types.ModuleType("msvcrt")
msvcrt.LK_NBLCK, msvcrt.locking = 2, locking
sys.modules["msvcrt"] = msvcrt
for name in ("fcntl", "grp", "posix", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
for name in ("fork", "getuid", "killpg", "sched_getaffinity", "sched_setaffinity", "setsid"):
    delattr(os, name)
for name in ("SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1"):
    delattr(signal, name)
sys.platform = "win32"

import edrl
"""
IMPORT_ALL = """
names = [module.name for module in pkgutil.walk_packages(edrl.__path__, "edrl.")]
assert len(names) > 100
for name in names:
    importlib.import_module(name)
"""
TRAIN = """
from edrl.cli import main


def edrl_command(*arguments):
    sys.argv = ["edrl", *arguments]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, ended.code


settings = ("--steps=64", "--learn-after=30", "--evaluate-every=64", "--evaluate-steps=20")
edrl_command("train", "--preset=quick", *settings, "--out=run")
edrl_command("evaluate", "run", "--episodes=2")
edrl_command("train", "--resume", "run", "--steps=96")
"""


def run(code: str, where: Path) -> str:
    """What a fresh process prints."""
    environment = {**os.environ, "EDRL_CACHE": str(where / "cache")}
    command = [sys.executable, "-c", AS_ON_WINDOWS + code]
    found = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.mark.slow
def test_every_module_is_imported(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    run(IMPORT_ALL, tmp_path)


@pytest.mark.slow
def test_a_run_is_trained_evaluated_and_resumed(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    printed = run(TRAIN, tmp_path)
    assert "mean score" in printed
    assert "Done: 96 steps" in printed
