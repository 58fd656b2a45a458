"""Objects by name: what a user passes on the command line as MODULE:NAME."""

from collections.abc import Iterable
from typing import Any

from edrl.core.check import fail
from edrl.named_modules import import_named


def is_object_name(name: str) -> bool:
    """Whether a name has the form MODULE:NAME."""
    module, _, attribute = name.partition(":")
    return bool(module) and attribute.isidentifier()


def load_object(argument: str, name: str) -> Any:
    """The object called NAME in a module, by `MODULE:NAME`; errors name the `argument`."""
    if not is_object_name(name):
        raise fail(argument, name, "it must have the form MODULE:NAME")
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_named(module), attribute)
    except (ImportError, AttributeError) as error:
        right = f"{error}; it must be MODULE:NAME of a module that can be imported from here"
        raise fail(argument, name, right) from error


def check_trusted(run: str, names: Iterable[str], trust: bool) -> None:
    """Refuse to import what a run's files name, unless somebody says that he knows it.

    Args:
        run: where the names were read.
        names: what would be imported; those without a module are not.
        trust: whether that may be.
    """
    modules = [name for name in names if ":" in name]
    if modules and not trust:
        right = f"it names code of its own ({', '.join(modules)}), which would run on this machine"
        flags = "pass --trust (trust=True in Python) if you know what that is"
        raise fail("run", run, f"{right}: {flags}")
