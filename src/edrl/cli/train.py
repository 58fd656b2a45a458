"""`edrl train`."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from edrl.core.check import check_directory, fail
from edrl.deep import checkpoint
from edrl.deep.config import PRESETS, Config, PresetName, preset, read_config
from edrl.deep.environments import make
from edrl.deep.train import Listener, resume, train
from edrl.deep.trained import build_agent
from edrl.deep.variant import Variant
from edrl.study.estimate import sizes_of
from edrl.study.locks import Taken, locked
from edrl.study.machine import free_memory


class Settings(Config):
    __doc__ = Config.__doc__  # for --help

    def __post_init__(self) -> None:
        """Checked later, as a Config: here the parser would put names of its own before the error."""


@dataclass(frozen=True)
class Train:
    """Train an agent, or go on with a run.

    Writes OUT/config.json, metrics.csv, evaluations.csv, calibration.csv, TensorBoard's files, pictures of return
    distributions and checkpoints. Ctrl-C saves; `edrl train --resume OUT` goes on exactly where the run was.

    Examples: `edrl train --agent er-dqn --env breakout --preset paper --out runs/breakout`,
    `edrl train --preset minatar --env minatar/seaquest --agent 'er-dqn[size=51,double]' --out runs/seaquest`.
    """

    config: tyro.conf.OmitArgPrefixes[Config]
    preset: PresetName = "paper"
    """Where the settings below come from, unless they are given: paper (Atari), minatar, classic (CartPole and
    friends) or quick."""
    out: Path | None = None
    """The run's directory."""
    resume: Path | None = None
    """Go on with the run in this directory; its own settings hold, but --steps may be more."""
    older: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """With --resume: if the last checkpoint is damaged, go on from the one before."""

    def __call__(self) -> int:
        """Train, and return the exit status."""
        console = Console()
        where = self.resume or self.out
        if where is None:
            console.print("[red]Say where the run goes with --out, or which run goes on with --resume.[/red]")
            return 2
        if self.resume and not self.resume.is_dir():
            console.print(Text(str(fail("resume", str(where), "there is no such directory")), style="red"))
            return 2
        try:
            config = self._resumed() if self.resume else self._new()
            if not self.resume:
                if self.older:
                    raise fail("older", True, "it is for --resume: a new run has no checkpoints")
                check_directory("out", where)
                environment = make(config.env, seed=0, sticky=config.sticky)
                environment.close()
                build_agent(config, environment)  # what cannot be trained leaves no directory behind
            _warn(console, config)
            progress = _Progress(where, config.steps)
            with locked(where / "lock"), progress as listen:
                run = (
                    resume(where, older=self.older, steps=config.steps, listen=listen)
                    if self.resume
                    else train(config, where, listen=listen)
                )
        except KeyboardInterrupt:
            saved = f"Stopped and saved. Go on with: edrl train --resume {where}"
            console.print(saved if checkpoint.found(where) else "Stopped; nothing had begun.", soft_wrap=True)
            return 130
        except (ValueError, ImportError, OSError, Taken, checkpoint.CheckpointError) as error:
            console.print(Text(str(error), style="red"), soft_wrap=True)
            return 2
        text = f"Done: {run.step:,} steps, {run.episodes:,} episodes, in {where}"
        score = f"; the last evaluation's mean score is {progress.score:.2f}" if progress.score is not None else ""
        console.print(text + score, soft_wrap=True)
        return 0

    def _new(self) -> Config:
        """The settings of a new run: the preset's, but those that were given."""
        before = asdict(Settings(**PRESETS[self.preset]))
        settings = asdict(self.config)
        given = {name: value for name, value in settings.items() if value != before[name]}
        return preset(self.preset, **given)

    def _resumed(self) -> Config:
        """The settings of the run that goes on, maybe for longer; others than its own are refused, not ignored."""
        assert self.resume is not None
        own = read_config(self.resume)
        named = Variant.parse(self.config.agent)
        asked = asdict(self.config) | {"agent": named.base} | dict(named.changes)
        given = {name: asked[name] for name in asked if asked[name] != getattr(own, name)}
        given.pop("changed", None)
        steps = given.pop("steps", own.steps)
        given |= {"out": str(self.out)} if self.out else {}
        given |= {"preset": self.preset} if self.preset != "paper" else {}
        for name, value in given.items():
            raise fail(name, value, "with --resume the run's own settings hold: leave it out")
        return replace(own, steps=steps)


def _warn(console: Console, config: Config) -> None:
    """What somebody would not want to find out after hours."""
    needed, free = sizes_of(config).memory, free_memory()
    if needed > free:
        text = f"The run grows to {needed / 1e9:.1f} GB of memory, but {free / 1e9:.1f} GB are free: see --replay."
        console.print(Text(text, style="yellow"), soft_wrap=True)
    if config.evaluate_every > config.steps:
        text = f"There will be no evaluation: the first would come after {config.evaluate_every:,} steps"
        console.print(Text(f"{text} (--evaluate-every).", style="yellow"), soft_wrap=True)


class _Progress:
    """A bar with speed and time left, a line for each evaluation, and TensorBoard's files."""

    def __init__(self, out: Path, steps: int):
        self.out, self.steps = out, steps
        self.score: float | None = None  # of the last evaluation

    def __enter__(self) -> Listener:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                   TextColumn("{task.fields[note]}"))  # fmt: skip
        # Rows of metrics may come minutes apart: rich would forget them, and with them the time left.
        bar = Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=3600)
        self.bar = bar.__enter__()
        self.task = self.bar.add_task("train", total=self.steps, note="")
        self.board: Any = None
        return self.listen

    def __exit__(self, *error: Any) -> None:
        self.bar.__exit__(*error)
        if self.board is not None:
            self.board.close()

    def listen(self, step: int, row: dict[str, Any]) -> None:
        if self.board is None:
            from tensorboardX import SummaryWriter

            self.board = SummaryWriter(str(self.out / "tensorboard"), purge_step=step)
        for name, value in row.items():
            if name != "step" and value != "":
                self.board.add_scalar(name, value, step)
        if "evaluation" in row:
            self.score = row["evaluation"]
            self.bar.console.print(f"step {step:,}: evaluation, mean score {self.score:.2f}", highlight=False)
        if "steps_per_second" in row:
            score = row["score"]
            note = f"{row['steps_per_second']:.0f} steps/s" + (f", score {score:.1f}" if score != "" else "")
            self.bar.update(self.task, completed=step, note=note)
