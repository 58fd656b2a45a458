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
import numpy as np
from edrl import metrics, risk, tabular
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
families = (
    edrl.Mean(), edrl.Moments(2), edrl.Categorical((0.0, 1.0)), edrl.Quantiles(3),
    edrl.HuberQuantiles(3), family,
)
atoms = np.array([0.0, 1.0, 2.0])
for call in (
    *(family.evaluate for family in families),
    lambda atoms: family.loss(values, atoms),
    lambda atoms: metrics.wasserstein(atoms, mu),
    lambda atoms: metrics.wasserstein(mu, atoms, p=2.0),
    lambda atoms: metrics.cramer(mu, atoms),
    lambda atoms: metrics.kolmogorov_smirnov(atoms, atoms),
    lambda atoms: metrics.integrated_cdf(atoms, atoms),
    risk.CVaR(0.5), risk.ValueAtRisk(0.5), risk.Entropic(1.0), risk.ExpectedReturn(),
    risk.ExpectileRisk(0.3), risk.MeanVariance(1.0), risk.MeanDeviation(1.0),
    mu.add,
    lambda atoms: tabular.exact_backup(tabular.problems.n_chain(3), 0, atoms),
):
    try:
        call(atoms)
    except TypeError as error:
        print(error)
"""


def test_at_run_time_each_form_is_told_in_plain_words() -> None:
    """In a process of its own, without the checks of types that are on in this one."""
    found = subprocess.run([sys.executable, "-c", MESSAGES], capture_output=True, text=True)
    lines = found.stdout.splitlines()
    values_for_samples, samples_for_values = [lines[0], *lines[4:]], lines[1:4]
    assert len(lines) == 4 + 6 + 15, found.stderr
    assert all("samples (Particles) where statistics are expected" in x for x in samples_for_values)
    for text in values_for_samples:
        assert "got an array of shape (3,) where samples are expected" in text
        assert "pass edrl.Particles(atoms, probs)" in text


NO_SAMPLES = """
import edrl
from edrl import metrics, risk
family, mu = edrl.Expectiles(3), edrl.Particles([0.0, 1.0])
values = family.evaluate(mu)
for wrong in ([1.0, 2.0], (1.0, 2.0), None, "abc", object()):
    for call in (
        family.evaluate,
        edrl.Quantiles(3).evaluate,
        lambda wrong: family.loss(values, wrong),
        lambda wrong: metrics.wasserstein(mu, wrong),
        lambda wrong: metrics.cramer(wrong, mu),
        risk.CVaR(0.5), risk.MeanDeviation(1.0),
        mu.add,
    ):
        try:
            call(wrong)
        except TypeError as error:
            print(error)
"""


def test_what_is_neither_an_array_nor_samples_is_told_in_the_same_words() -> None:
    found = subprocess.run([sys.executable, "-c", NO_SAMPLES], capture_output=True, text=True)
    lines = found.stdout.splitlines()
    assert len(lines) == 5 * 8, found.stderr
    for place, kind in enumerate(("list", "tuple", "NoneType", "str", "object")):
        for text in lines[8 * place : 8 * (place + 1)]:
            assert f"got {kind} where samples are expected: pass edrl.Particles" in text
