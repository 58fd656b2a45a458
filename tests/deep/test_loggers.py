"""Loggers by name show what the tables of a run hold, and nothing else."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edrl.cli.train import Train
from edrl.deep import Callback, Config, train
from edrl.deep.loggers import LOGGERS, logger_named

SMALL = Config(
    env="minatar/breakout", network="minatar", steps=300, replay=200, learn_after=50, log_every=50, batch=8, size=3,
    evaluate_every=100, evaluate_steps=30, checkpoint_every=100, target_every=50, epsilon_steps=100,
)  # fmt: skip


class Elsewhere:
    """Stands in the place of TensorBoard, Weights & Biases and MLflow, and notes what it is told."""

    def __init__(self) -> None:
        self.shown: dict[str, list[float]] = {}
        self.settings: dict[str, Any] = {}
        self.ended = False

    def add(self, numbers: dict[str, float], step: int) -> None:
        for name, number in numbers.items():
            self.shown.setdefault(name, []).append(number)

    def end(self) -> None:
        self.ended = True

    def replace(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Take the place of all three packages."""
        board = SimpleNamespace(
            add_scalar=lambda name, number, step: self.add({name: number}, step), close=self.end
        )
        monkeypatch.setattr("tensorboardX.SummaryWriter", lambda *_, **__: board)
        monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=self._wandb))
        mlflow = SimpleNamespace(
            start_run=lambda run_name: None,
            log_params=self.settings.update,
            log_metrics=self.add,
            end_run=self.end,
        )
        monkeypatch.setitem(sys.modules, "mlflow", mlflow)

    def _wandb(self, *, dir: str, name: str, group: str, config: dict[str, Any]) -> Any:
        self.settings.update(config)
        return SimpleNamespace(log=self.add, finish=self.end)


@pytest.mark.parametrize("name", LOGGERS)
def test_loggers_show_the_columns_of_the_tables(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("minatar")
    elsewhere = Elsewhere()
    elsewhere.replace(monkeypatch)
    train(SMALL, tmp_path / "run", callbacks=[logger_named(name)])
    for table, prefix in (
        ("metrics", ""),
        ("evaluations", "evaluation/"),
        ("calibration", "calibration/"),
    ):
        rows = np.genfromtxt(tmp_path / "run" / f"{table}.csv", delimiter=",", names=True)
        for column in rows.dtype.names[1:]:
            numbers = rows[column][np.isfinite(rows[column])]
            np.testing.assert_allclose(elsewhere.shown.pop(prefix + column), numbers)
    assert not elsewhere.shown
    assert elsewhere.ended
    assert name == "tensorboard" or elsewhere.settings["size"] == SMALL.size


class Own(Callback):
    """A callback of one's own."""


def test_a_callback_of_ones_own_is_a_logger() -> None:
    assert type(logger_named("tests.deep.test_loggers:Own")).__name__ == "Own"


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_package_that_is_missing_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("minatar")
    monkeypatch.setitem(sys.modules, name, None)
    assert Train(config=SMALL, out=tmp_path / "run", logger=(name,))() == 2
    assert f"pip install 'edrl[{name}]'" in capsys.readouterr().out


def test_unknown_loggers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"logger must be one of tensorboard, wandb.*'tensorbord'"):
        logger_named("tensorbord")
    with pytest.raises(ValueError, match=r"logger must be an edrl\.deep\.Callback"):
        logger_named("pathlib:Path")
