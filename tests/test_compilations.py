"""Compiled programs are kept on disk and found by the next process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edrl import compilations

_COMPILE = """
import jax, jax.numpy as jnp, edrl
{ask}
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.jit(lambda x: jnp.sort(jnp.sin(x)))(jnp.arange(8.0))
"""


def _process(code: str, cache: Path) -> None:
    environment = {**os.environ, "EDRL_CACHE": str(cache)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_a_process_that_asks_for_it_keeps_its_programs(tmp_path: Path) -> None:
    _process(_COMPILE.format(ask=""), tmp_path / "not asked")
    assert not (tmp_path / "not asked").exists()
    _process(_COMPILE.format(ask="edrl.cache_compilations()"), tmp_path / "asked")
    kept = {file.name for file in (tmp_path / "asked").iterdir()}
    assert kept
    _process(_COMPILE.format(ask="edrl.cache_compilations()"), tmp_path / "asked")
    assert {file.name for file in (tmp_path / "asked").iterdir()} == kept


def test_the_command_keeps_them_where_the_user_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS")
    for name in names:
        monkeypatch.setenv(name, "what is put back after the test")
        monkeypatch.delenv(name)
    monkeypatch.setenv("EDRL_CACHE", str(tmp_path / "cache"))
    compilations.cache_compilations_of_command()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "cache")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    compilations.cache_compilations_of_command()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "elsewhere"


def test_a_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EDRL_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    compilations.cache_compilations_of_command()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


def test_the_oldest_programs_give_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilations, "_MOST_BYTES", 25)
    monkeypatch.setenv("EDRL_CACHE", str(tmp_path))
    for age, name in enumerate(("new", "old", "oldest")):
        (tmp_path / name).write_text("0123456789")
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    compilations.cache_compilations_of_command()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["new", "old"]
