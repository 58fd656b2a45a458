"""The `edrl` command."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import tyro

from edrl.cli.evaluate import Evaluate
from edrl.cli.play import Play
from edrl.cli.report import Report
from edrl.cli.reproduce import Reproduce
from edrl.cli.search import Search
from edrl.cli.suite import Suite
from edrl.cli.train import Settings, Train
from edrl.deep.config import PRESETS, PresetName, read_config

_ABOUT = (
    "Distributional reinforcement learning as statistics plus imputation. See edrl COMMAND --help."
)


def main() -> None:
    """Entry point of the command."""
    with _reader_may_leave():
        if sys.argv[1:] == ["--version"]:
            print(f"edrl {version('edrl')}")
            return
        try:
            sys.exit(_command()())
        except KeyboardInterrupt:  # commands that have something to save do so themselves
            print("Interrupted.", file=sys.stderr)
            sys.exit(130)


def _command() -> Reproduce | Train | Evaluate | Play | Suite | Search | Report:
    sys.path.append(os.getcwd())  # MODULE:NAME may lie in the directory where the command is given
    name, settings = _defaults()
    return tyro.cli(
        Annotated[Reproduce, tyro.conf.subcommand("reproduce")]
        | Annotated[Train, tyro.conf.subcommand("train", default=Train(settings, name))]
        | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
        | Annotated[Play, tyro.conf.subcommand("play")]
        | Annotated[Suite, tyro.conf.subcommand("suite")]
        | Annotated[Search, tyro.conf.subcommand("search")]
        | Annotated[Report, tyro.conf.subcommand("report")],
        prog="edrl",
        description=_ABOUT,
    )


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """`edrl ... | head`: who reads the output may have seen enough, which is no error to show a traceback of."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        try:
            print(flush=True)
        except BrokenPipeError:
            os.dup2(
                os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
            )  # what is left has nowhere to go
            sys.exit(141)  # as a program that SIGPIPE ended
        raise  # another pipe


def _defaults() -> tuple[PresetName, Settings]:
    """The preset asked for, and the settings that hold unless others are given, which --help then shows: the preset's,
    or those of the run that is to go on."""
    name: PresetName = next((name for name in PRESETS if name == _given("--preset")), "paper")
    resumed = _given("--resume")
    try:
        return name, Settings(**asdict(read_config(Path(resumed)))) if resumed else Settings(
            **PRESETS[name]
        )
    except (ValueError, OSError):
        return name, Settings(**PRESETS[name])  # the command will say what is wrong with the run


def _given(option: str) -> str:
    """The value of an option on the command line, before the line is parsed; empty if there is none."""
    for flag, value in zip(sys.argv, [*sys.argv[1:], ""], strict=True):
        if flag == option:
            return value
        if flag.startswith(f"{option}="):
            return flag.partition("=")[2]
    return ""
