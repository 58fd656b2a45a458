"""Types carry the thesis: samples and statistics cannot be taken for one another by accident."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parent / "type_errors.py"
ROOT = Path(__file__).parents[2]
WRONG = {n for n, line in enumerate(FILE.read_text().split("\n"), 1) if "# refused" in line}


def test_mypy_refuses_every_form_of_the_type_error() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(FILE)]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    refused = {int(line) for line in re.findall(r"type_errors\.py:(\d+): error", found.stdout)}
    assert refused == WRONG, found.stdout


def test_pyright_refuses_every_form_of_the_type_error() -> None:
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--outputjson",
        "--pythonpath",
        sys.executable,
        str(FILE),
    ]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    try:
        diagnostics = json.loads(found.stdout)["generalDiagnostics"]
    except ValueError:
        pytest.skip(f"pyright cannot be run here: {found.stderr[-200:]}")
    errors = (d for d in diagnostics if d["severity"] == "error")
    assert {d["range"]["start"]["line"] + 1 for d in errors} == WRONG, found.stdout


MESSAGES = """
import edrl
family = edrl.Expectiles(3)
mu = edrl.Particles([0.0, 1.0])
values = family.evaluate(mu)
for call in (
    lambda: family.loss(values, values),
    lambda: family.loss(mu, mu),
    lambda: family.mean(mu),
    lambda: family.impute(mu),
):
    try:
        call()
    except TypeError as error:
        print(error)
"""


def test_at_run_time_each_form_is_told_in_plain_words() -> None:
    """In a process of its own, without the checks of types that are on in this one."""
    found = subprocess.run([sys.executable, "-c", MESSAGES], capture_output=True, text=True)
    first, *others = found.stdout.splitlines()
    assert "statistics (an array) where samples are expected" in first
    assert len(others) == 3
    assert all("samples (Particles) where statistics are expected" in text for text in others)
