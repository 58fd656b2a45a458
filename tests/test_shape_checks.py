"""The test run checks the annotations of the library: without the hook of `conftest.py`, these
fail.
"""

import importlib
import pkgutil
from collections.abc import Callable
from importlib.machinery import SourceFileLoader

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from edrl.core.imputation.simple import on_support
from edrl.deep.frames import stacked
from edrl.tabular.dp import has_stalled
from edrl.theory.bounds import Decay

_ROW, _TABLE = np.zeros(3), np.zeros((2, 3))

# What is wrong here would go unnoticed: numbers come back all the same.
WRONG_SHAPES: dict[str, Callable[[], object]] = {
    "core": lambda: on_support(_TABLE, np.zeros((2, 4))),
    "tabular": lambda: has_stalled(_TABLE, 0.9),
    "theory": lambda: Decay(np.arange(3), _ROW, _TABLE, _TABLE > 0, 1.0, 0.1),
    "deep": lambda: stacked(np.zeros((2, 1, 4)), np.zeros((5, 1), bool)),
}


@pytest.mark.parametrize("package", WRONG_SHAPES)
def test_a_wrong_shape_is_noticed(package: str) -> None:
    with pytest.raises(TypeCheckError, match=f"edrl.{package}"):
        WRONG_SHAPES[package]()


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize("package", WRONG_SHAPES)
def test_checks_can_be_switched_off(package: str) -> None:
    """So that tests of the library's own errors see what users see."""
    WRONG_SHAPES[package]()


@pytest.mark.parametrize("package", WRONG_SHAPES)
def test_no_module_is_left_out(package: str) -> None:
    """A module that was imported before the hook, or beside it, has Python's own loader."""
    root = importlib.import_module(f"edrl.{package}")
    found = [root.__name__]
    found += [module.name for module in pkgutil.walk_packages(root.__path__, f"{root.__name__}.")]
    loaders = {name: type(importlib.import_module(name).__loader__) for name in found}
    assert len(found) > 2
    assert [name for name, loader in loaders.items() if loader is SourceFileLoader] == []
