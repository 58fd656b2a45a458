"""What `import edrl` and the `edrl` command give, and what they do not import for it."""

import ast
import importlib
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import edrl
from edrl import cli
from edrl.tabular import problems

HEAVY = ("gymnasium", "jax", "matplotlib", "numpy", "ray", "scipy", "scipy.optimize")


def imported(code: str, *arguments: str) -> set[str]:
    """Which of the heavy packages a fresh interpreter has imported after some code."""
    show = f"\nimport sys\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    command = [sys.executable, "-c", code + show, *arguments]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(found.stdout.splitlines()[-1].split())


def test_all_names_are_there() -> None:
    assert len(edrl.__all__) <= 60
    for name in edrl.__all__:
        assert getattr(edrl, name) is not None
    assert set(edrl.__all__) < set(dir(edrl))
    assert edrl.__version__ == version("edrl")


def test_names_are_in_order() -> None:
    """Constants, classes, then the rest, as the linter sorts them."""
    order = sorted(edrl.__all__, key=lambda name: (name.islower(), not name.isupper(), name))
    assert edrl.__all__ == order


def test_a_type_checker_sees_the_names_that_there_are() -> None:
    """The static imports, which nobody runs, name the same objects."""
    tree = ast.parse(Path(edrl.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and not node.orelse
                and isinstance(node.test, ast.Name))  # fmt: skip
    seen = []
    for statement in block.body:
        assert isinstance(statement, ast.ImportFrom)
        for alias in statement.names:
            seen.append(alias.asname or alias.name)
            module = importlib.import_module(str(statement.module))
            assert getattr(edrl, seen[-1]) is getattr(module, alias.name)
    assert sorted(seen) == sorted(edrl.__all__)


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'edrl' has no attribute 'trian'"):
        edrl.trian  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Expectile'"):
        exec("from edrl import Expectile")


def test_the_verbs_do_what_they_say() -> None:
    assert edrl.evaluate_policy(problems.n_chain(3), 0, edrl.Mean()).means().shape == (3, 2)
    assert edrl.preset("quick").agent == edrl.Config().agent
    assert edrl.algorithm("Er-Dqn") == edrl.algorithm("ER-DQN") == edrl.algorithm("er-dqn")


def test_importing_edrl_is_nearly_free() -> None:
    assert imported("import edrl") == set()
    assert imported("import edrl; edrl.Expectiles(5)") <= {"jax", "numpy", "scipy"}
    assert "matplotlib" not in imported("import edrl.deep.training")
    assert "matplotlib" not in imported("import edrl; edrl.train, edrl.tabular, edrl.theory")


COMMAND = """
from edrl.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code
"""


@pytest.mark.parametrize("flag", ["--version", "--help", "-h"])
def test_a_word_about_the_command_imports_nothing_heavy(flag: str) -> None:
    assert imported(COMMAND, flag) == set()


def test_a_commands_help_imports_no_other_command() -> None:
    assert not imported(COMMAND, "train", "--help") & {"gymnasium", "matplotlib", "ray"}
    assert not imported(COMMAND, "suite", "--help") & {"gymnasium", "matplotlib", "ray"}


def test_help_tells_all_commands_in_their_own_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["edrl", "--help"])
    with pytest.raises(SystemExit):
        cli.main()
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for name, summary in cli.COMMANDS.items():
        command = getattr(importlib.import_module(f"edrl.cli.{name}"), name.capitalize())
        assert command.__doc__.splitlines()[0] == summary
        assert f"{name} {summary}" in printed


def test_what_is_no_command_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in ([], ["trian"], ["--seed"]):
        monkeypatch.setattr(sys, "argv", ["edrl", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 2
        printed = capsys.readouterr().err
        assert "reproduce, train, evaluate" in printed
