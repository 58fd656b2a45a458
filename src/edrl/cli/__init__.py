"""The `edrl` command: `edrl NAME` is the class Name in cli/name.py, imported when asked for."""

import importlib
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn, Union

from edrl import __version__
from edrl.cli.flags import FLAGS
from edrl.compilations import cache_compilations_of_command
from edrl.named_modules import find_named_modules_in

COMMANDS = {
    "reproduce": "Run the paper's experiments, judge every claim, and write a page to read.",
    "train": "Train an agent, or go on with a run.",
    "evaluate": "Play episodes with a trained agent.",
    "play": "Play an episode with a trained agent and film it.",
    "export": "Write a trained agent to a folder that others can load without running code.",
    "suite": "Run a study: every game with every agent and every seed.",
    "search": (
        "Choose a setting for every agent by the same small search, before a study is run with it."
    ),
    "report": "Compare runs of agents, and say what is missing.",
    "decode": "Decode the distribution behind measured expectiles, such as cells' reversal points.",
    "playground": "Write a page to play with: seven toys on return distributions.",
}
"""All commands, and what each does: the first line of its own help."""

_NOTICE_CTRL_C = ("train", "evaluate", "play")  # themselves, once they have begun to play
_ABOUT = (
    "Distributional reinforcement learning as statistics plus imputation. See edrl COMMAND --help;"
    " edrl --version shows the version."
)


def main() -> None:
    """Entry point of the command."""
    _print_whatever_the_locale()
    with _reader_may_leave():
        if sys.argv[1:] == ["--version"]:
            print(f"edrl {__version__}")
            return
        try:
            sys.exit(_status(sys.argv[1:]))
        except KeyboardInterrupt:  # commands that have something to save do so themselves
            print("Interrupted.", file=sys.stderr)
            sys.exit(130)


def _status(arguments: list[str]) -> int:
    """Carry out the command that was given, and return its exit status.

    While it begins, Ctrl-C ends the process without a word: nothing is there that could be lost. A
    KeyboardInterrupt might be: what is raised in a callback of XLA's, nobody hears of.
    """
    with _on_ctrl_c(signal.SIG_DFL):
        command = _command(arguments)
        if arguments[0] in _NOTICE_CTRL_C:
            return command()
        with _on_ctrl_c(signal.default_int_handler):
            return command()


@contextmanager
def _on_ctrl_c(answer: signal.Handlers | Callable[..., object]) -> Iterator[None]:
    """Answer Ctrl-C in a way, unless it is ignored, as in what a shell starts in the background."""
    before = signal.getsignal(signal.SIGINT)
    mine = threading.current_thread() is threading.main_thread()
    if not mine or before in (signal.SIG_IGN, None):
        yield
        return
    signal.signal(signal.SIGINT, answer)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _command(arguments: list[str]) -> Callable[[], int]:
    """The command that was given, with its flags."""
    name = arguments[0] if arguments else ""
    if name not in COMMANDS:
        _help(arguments)
    import tyro  # here: what is imported before `main`, Ctrl-C ends with a traceback

    cache_compilations_of_command()
    find_named_modules_in(Path.cwd())  # where MODULE:NAME may lie
    if name == "train":  # what its flags are by default depends on two of them
        from edrl.cli.train import Train, train_by_default

        default = train_by_default(arguments)
        return tyro.cli(
            Train, prog="edrl train", args=arguments[1:], default=default, registry=FLAGS
        )
    command = getattr(importlib.import_module(f"edrl.cli.{name}"), name.capitalize())
    parsed: Callable[[], int] = tyro.cli(
        command, prog=f"edrl {name}", args=arguments[1:], registry=FLAGS
    )
    return parsed


def _print_whatever_the_locale() -> None:
    """A name or a sign that a terminal's encoding lacks is shown as a question mark."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


@dataclass(frozen=True)
class _Command:
    """Stands for a command whose file is not imported, since its name is all that is shown."""


def _help(arguments: list[str]) -> NoReturn:
    """Show all commands, or say that there is no such command."""
    import tyro

    listed = [
        Annotated[_Command, tyro.conf.subcommand(name, description=summary)]
        for name, summary in COMMANDS.items()
    ]
    commands: Any = Union[tuple(listed)]  # noqa: UP007 - of a list
    tyro.cli(commands, prog="edrl", description=_ABOUT, args=arguments)  # which ends it
    sys.exit("The command comes first: edrl COMMAND [FLAGS]. See edrl --help.")


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """Show no traceback if the reader of the output closes it early, as in `edrl ... | head`."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        try:
            print(flush=True)
        except BrokenPipeError:
            # What is left has nowhere to go.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(141)  # as a program that SIGPIPE ended
        raise  # another pipe
