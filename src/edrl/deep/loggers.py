"""Loggers by name: TensorBoard, Weights & Biases, MLflow, or one of a module of your own."""

from __future__ import annotations

import abc
import dataclasses
import importlib
from typing import Any

from edrl.core.check import fail, one_of
from edrl.deep.callbacks import Callback, Evaluation, Row
from edrl.deep.environments.environment import missing
from edrl.deep.objects import is_object_name, load_object
from edrl.deep.run import Run


class Logger(Callback):
    """Sends the columns of the tables elsewhere; a subclass says where."""

    def on_log(self, run: Run, row: Row) -> None:
        self._send(run, "", row)

    def on_evaluation(self, run: Run, evaluation: Evaluation) -> None:
        self._send(run, "evaluation/", evaluation.row(run.step))
        if evaluation.calibration is not None:
            self._send(run, "calibration/", evaluation.calibration.row(run.step))

    @abc.abstractmethod
    def send(self, run: Run, numbers: dict[str, float]) -> None:
        """Note numbers of the present step by their names."""

    def _send(self, run: Run, prefix: str, row: Row) -> None:
        columns = [name for name, value in row.items() if name != "step" and value != ""]
        self.send(run, {prefix + name: float(row[name]) for name in columns})


class TensorBoard(Logger):
    """Writes RUN/tensorboard, for `tensorboard --logdir RUN`."""

    _board: Any = None

    def send(self, run: Run, numbers: dict[str, float]) -> None:
        if self._board is None:
            from tensorboardX import SummaryWriter

            self._board = SummaryWriter(str(run.out / "tensorboard"), purge_step=run.step)
        for name, number in numbers.items():
            self._board.add_scalar(name, number, run.step)

    def on_end(self, run: Run) -> None:
        if self._board is not None:
            self._board.close()


class WeightsAndBiases(Logger):
    """A run of Weights & Biases, named after the directory; WANDB_PROJECT names its project.

    A run that goes on is another one there, of the same group.
    """

    _wandb_run: Any = None

    def on_begin(self, run: Run) -> None:
        wandb = _imported("wandb")
        name, settings = run.out.resolve().name, dataclasses.asdict(run.config)
        self._wandb_run = wandb.init(dir=str(run.out), name=name, group=name, config=settings)

    def send(self, run: Run, numbers: dict[str, float]) -> None:
        self._wandb_run.log(numbers, step=run.step)

    def on_end(self, run: Run) -> None:
        if self._wandb_run is not None:
            self._wandb_run.finish()


class MLflow(Logger):
    """A run of MLflow, named after the directory; MLFLOW_TRACKING_URI says where it is kept."""

    _mlflow: Any = None

    def on_begin(self, run: Run) -> None:
        mlflow = _imported("mlflow")
        mlflow.start_run(run_name=run.out.resolve().name)
        self._mlflow = mlflow
        mlflow.log_params(dataclasses.asdict(run.config))

    def send(self, run: Run, numbers: dict[str, float]) -> None:
        self._mlflow.log_metrics(numbers, step=run.step)

    def on_end(self, run: Run) -> None:
        if self._mlflow is not None:
            self._mlflow.end_run()


LOGGERS: dict[str, type[Callback]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "mlflow": MLflow,
}
"""The loggers by name. The tables of a run, metrics.csv and the others, are always written."""


def logger_named(name: str) -> Callback:
    """A logger by its name, or a callback of a module of your own: MODULE:NAME."""
    if is_object_name(name):
        found = load_object("logger", name)
        made = found() if isinstance(found, type) else found
        if not isinstance(made, Callback):
            raise fail("logger", name, "it must be an edrl.deep.Callback, or a class of them")
        return made
    if name not in LOGGERS:
        raise fail("logger", name, one_of(name, LOGGERS, "MODULE:NAME"))
    return LOGGERS[name]()


def _imported(package: str) -> Any:
    """A package that an extra installs."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise missing(package, package) from error
