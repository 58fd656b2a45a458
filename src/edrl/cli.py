"""The `edrl` command."""

import os
import sys
from typing import Annotated

import tyro

from edrl.commands.play import Play
from edrl.commands.report import Report
from edrl.commands.reproduce import Reproduce
from edrl.commands.search import Search
from edrl.commands.suite import Suite
from edrl.commands.train import Evaluate, Settings, Train
from edrl.deep.config import PRESETS, PresetName

_ABOUT = "Distributional reinforcement learning as statistics plus imputation. See edrl COMMAND --help."


def main() -> None:
    """Entry point of the command."""
    sys.path.append(os.getcwd())  # MODULE:NAME may lie in the directory where the command is given
    name = _preset()
    command = tyro.cli(
        Annotated[Reproduce, tyro.conf.subcommand("reproduce")]
        | Annotated[Train, tyro.conf.subcommand("train", default=Train(Settings(**PRESETS[name]), name))]
        | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
        | Annotated[Play, tyro.conf.subcommand("play")]
        | Annotated[Suite, tyro.conf.subcommand("suite")]
        | Annotated[Search, tyro.conf.subcommand("search")]
        | Annotated[Report, tyro.conf.subcommand("report")],
        prog="edrl",
        description=_ABOUT,
    )
    sys.exit(command())


def _preset() -> PresetName:
    """The preset asked for, whose settings are then the defaults that --help shows."""
    for flag, value in zip(sys.argv, [*sys.argv[1:], ""], strict=True):
        for name in PRESETS:
            if (flag, value) == ("--preset", name) or flag == f"--preset={name}":
                return name
    return "paper"
