"""`edrl train`."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from edrl.core.check import check_directory, fail
from edrl.core.words import count
from edrl.deep import checkpoint
from edrl.deep.callbacks import Callback, Evaluation, Row
from edrl.deep.config import PRESETS, Config, PresetName, preset, read_config
from edrl.deep.loggers import logger_named
from edrl.deep.objects import check_trusted
from edrl.deep.run import Run
from edrl.deep.training import begin, go_on, lengthened
from edrl.deep.variant import Variant
from edrl.study.estimate import sizes_with
from edrl.study.locks import Taken, locked
from edrl.study.machine import free_memory


class Settings(Config):
    __doc__ = Config.__doc__  # for --help

    def __post_init__(self) -> None:
        """Checked later: here the parser would put names of its own before the error."""


@dataclass(frozen=True)
class Train:
    """Train an agent, or go on with a run.

    Writes OUT/config.json, metrics.csv, evaluations.csv, calibration.csv, TensorBoard's files,
    pictures of return distributions and checkpoints. Ctrl-C saves; `edrl train --resume OUT` goes
    on exactly where the run was.

    Examples: `edrl train --agent er-dqn --env breakout --preset paper --out runs/breakout`,
    `edrl train --preset minatar --env minatar/seaquest --agent 'er-dqn[size=51,double]' --out
    runs/seaquest`.
    """

    config: tyro.conf.OmitArgPrefixes[Config]
    preset: PresetName = "paper"
    """Where settings that are not given come from: paper (the paper's, for Atari), minatar, parallel
    (MinAtar without replay memory), classic (CartPole and its like) or quick (classic, but short).
    The defaults below are the preset's."""
    out: Path | None = None
    """The directory that the new run is written to: its settings, metrics and checkpoints."""
    resume: Path | None = None
    """The directory of a run that is to go on from its last checkpoint. Its own settings hold;
    only --steps may be given, to train it for longer."""
    older: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """With --resume: go on from the checkpoint before the last one if the last one is damaged."""
    trust: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """With --resume: import the modules that the run names as MODULE:NAME. That runs their code:
    only for a run that you know. Those of a new run are imported, since you name them."""

    logger: tuple[str, ...] = ("tensorboard",)
    """Where the columns of the tables are shown besides: tensorboard, wandb, mlflow, or MODULE:NAME,
    a callback of your own. The tables themselves are always written. Name none to have none."""

    def __call__(self) -> int:
        """Train, and return the exit status."""
        console = Console()
        where = self.resume or self.out
        if where is None:
            text = "Say where the run goes with --out, or which run goes on with --resume."
            console.print(Text(text, style="red"))
            return 2
        progress = _Progress()
        try:
            run = self._train(where, [_Warnings(console), progress])
        except KeyboardInterrupt:
            saved = f"Stopped and saved. Go on with: edrl train --resume {where}"
            begun = checkpoint.found(where)
            console.print(saved if begun else "Stopped; nothing had begun.", soft_wrap=True)
            return 130
        except (ValueError, ImportError, OSError, Taken, checkpoint.CheckpointError) as error:
            console.print(Text(str(error), style="red"), soft_wrap=True)
            return 2
        episodes = count(run.state.counters.episodes, "episode")
        text = f"Done: {count(run.step, 'step')}, {episodes}, in {where}"
        if progress.score is not None:
            text += f"; the last evaluation's mean score is {progress.score:.2f}"
        console.print(text, soft_wrap=True)
        return 0

    def _train(self, where: Path, callbacks: list[Callback]) -> Run:
        """Train the run; what cannot be trained leaves no directory behind."""
        from edrl.report.return_pictures import ReturnPictures  # --help needs no matplotlib

        config = self._resumed(where) if self.resume else self._new(where)
        loggers = [logger_named(name) for name in self.logger]
        run = Run(config, where, callbacks=[*callbacks, *loggers, ReturnPictures()])
        with locked(where / "lock"):
            return go_on(run, older=self.older) if self.resume else begin(run)

    def _new(self, out: Path) -> Config:
        """The settings of a new run: the preset's, but those that were given."""
        before = asdict(Settings(**PRESETS[self.preset]))
        settings = asdict(self.config)
        given = {name: value for name, value in settings.items() if value != before[name]}
        config = preset(self.preset, **given)
        if self.older:
            raise fail("older", True, "it is for --resume: a new run has no checkpoints")
        check_directory("out", out)
        return config

    def _resumed(self, out: Path) -> Config:
        """The settings of a run that goes on, maybe for longer; others than its own are refused."""
        if not out.is_dir():
            raise fail("resume", str(out), "there is no such directory")
        if not checkpoint.found(out):
            raise fail("resume", str(out), "there is no run with a checkpoint in it")
        own = read_config(out)
        check_trusted(str(out), own.names_of_code(), self.trust)
        given = self._given_beside(own)
        steps = given.pop("steps", own.steps)
        for name, value in given.items():
            raise fail(name, value, "with --resume the run's own settings hold: leave it out")
        return lengthened(own, replace(own, steps=steps).steps)

    def _given_beside(self, own: Config) -> dict[str, Any]:
        """What was given and is not as a run has it."""
        named = Variant.parse(self.config.agent)
        asked = asdict(self.config) | {"agent": named.base} | dict(named.changes)
        given = {name: asked[name] for name in asked if asked[name] != getattr(own, name)}
        given.pop("changed", None)
        given |= {"out": str(self.out)} if self.out else {}
        given |= {"preset": self.preset} if self.preset != "paper" else {}
        return given


def train_by_default(arguments: Sequence[str]) -> Train:
    """The command without its flags: settings are the preset's, or those of the run to go on with.

    The preset and the run are looked up before the line is parsed, so that --help shows them.
    """
    name: PresetName = "paper"
    for known in PRESETS:
        if known == _given(arguments, "--preset"):
            name = known
    resumed = _given(arguments, "--resume")
    try:
        settings = asdict(read_config(Path(resumed))) if resumed else PRESETS[name]
    except (ValueError, OSError):
        settings = PRESETS[name]  # the command will say what is wrong with the run
    return Train(Settings(**settings), name)


def _given(arguments: Sequence[str], option: str) -> str:
    """The value of an option, before the command line is parsed; empty if there is none."""
    for flag, value in zip(arguments, [*arguments[1:], ""], strict=True):
        if flag == option:
            return value
        if flag.startswith(f"{option}="):
            return flag.partition("=")[2]
    return ""


class _Warnings(Callback):
    """Says what somebody would not want to find out after hours."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def on_begin(self, run: Run) -> None:
        needed, free = sizes_with(run.config, run.environment, run.agent).memory, free_memory()
        if needed > free:
            self._warn(
                f"The run grows to {needed / 1e9:.1f} GB of memory, but {free / 1e9:.1f} GB are"
                " free: see --replay."
            )
        if run.config.evaluate_every > run.config.steps:
            self._warn(
                "There will be no evaluation: the first would come after"
                f" {run.config.evaluate_every:,} steps (--evaluate-every)."
            )

    def _warn(self, text: str) -> None:
        self._console.print(Text(text, style="yellow"), soft_wrap=True)


class _Progress(Callback):
    """Shows a bar with speed and time left, and a line for each evaluation."""

    def __init__(self) -> None:
        self.score: float | None = None  # of the last evaluation
        # Rows of metrics may come minutes apart: rich would forget them, and the time left.
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            transient=True,
            speed_estimate_period=3600,
        )
        self._task = self._bar.add_task("train", note="")
        self._since = 0, 0.0  # the step and the time from which speed is counted

    def on_begin(self, run: Run) -> None:
        self._bar.update(self._task, total=run.config.steps)
        self._bar.start()
        self._since = run.step, time.perf_counter()

    def on_log(self, run: Run, row: Row) -> None:
        step, then = self._since
        self._since = run.step, time.perf_counter()
        speed = (run.step - step) / (self._since[1] - then)
        score = f", score {row['score']:.1f}" if row["score"] != "" else ""
        self._bar.update(self._task, completed=run.step, note=f"{speed:.0f} steps/s{score}")

    def on_evaluation(self, run: Run, evaluation: Evaluation) -> None:
        self.score = float(evaluation.row(run.step)["mean"])
        text = f"step {run.step:,}: evaluation, mean score {self.score:.2f}"
        self._bar.console.print(text, highlight=False)
        self._warn_of(run, evaluation)
        self._since = run.step, time.perf_counter()

    def _warn_of(self, run: Run, evaluation: Evaluation) -> None:
        """Say what is wrong with expected returns, once there has been time to learn them."""
        found = evaluation.calibration
        if found is not None and found.warning and 2 * run.step > run.config.steps:
            self._bar.console.print(Text(found.warning, style="yellow"), soft_wrap=True)

    def on_end(self, run: Run) -> None:
        self._bar.stop()
