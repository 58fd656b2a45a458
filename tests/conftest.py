"""Shared test settings."""

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import jax
import jaxtyping
import pytest
from hypothesis import HealthCheck, settings

# Every annotation of these packages is checked at run time, shapes and dtypes included: of the
# arguments and of what is returned, at each call (in a compiled function, at each trace). What was
# imported before would stay unchecked; `test_shape_checks.py` sees to it that nothing was. As for
# mypy, a whole number is a float.
jaxtyping.install_import_hook(
    ["edrl.core", "edrl.tabular", "edrl.theory", "edrl.deep"],
    "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))",
)

_TRIED = "tried"  # what reports call the counts of a test's examples
_IN_FLOAT64 = ("core", "tabular", "theory", "paper")  # checked to more digits than float32 has

# Most of the time goes into compiling, so XLA takes its quicker code generator here, and optimises
# only deep agents. `make test-optimised` compiles everything as users do.
_OPTIMISED = os.environ.get("EDRL_TEST_OPTIMISED") == "1"
_QUICK = "--xla_cpu_use_fusion_emitters=false"


def _compile_quickly() -> None:
    """Set XLA's flag for this process and those that it starts.

    XLA ends a process with a flag that it does not know: another one asks.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if _QUICK in flags:
        return
    quick = {**os.environ, "XLA_FLAGS": f"{flags} {_QUICK}", "JAX_PLATFORMS": "cpu"}
    asked = [sys.executable, "-c", "import jax; jax.devices()"]
    if subprocess.run(asked, env=quick, capture_output=True, check=False).returncode == 0:
        os.environ["XLA_FLAGS"] = quick["XLA_FLAGS"]


if not _OPTIMISED:
    _compile_quickly()

# What one process has compiled, the other and the next run need not.
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parents[1] / ".jax_cache"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)

# Examples compile; a first one is slow, and that is no failure. The same examples are tried each
# time, so that a red run is the doing of the change it tests; `make test-search` draws new ones.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("edrl", settings.get_profile("search"), derandomize=True)
settings.load_profile("edrl")


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_programs() -> Iterator[None]:
    """Each compiled program holds a few memory maps, of which Linux allows a process 65,530: XLA
    crashes beyond.

    What a module has compiled is dropped after it. The cache on disk keeps it for those that need
    it again.
    """
    yield
    jax.clear_caches()


@pytest.fixture(autouse=True, scope="module")
def _optimisations(request: pytest.FixtureRequest) -> Iterator[None]:
    """None but where agents are trained: the programs are many and run for an instant each."""
    few = request.path.parent.name != "deep" and not _OPTIMISED
    jax.config.update("jax_disable_most_optimizations", few)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(autouse=True, scope="module")
def _precision(request: pytest.FixtureRequest) -> Iterator[None]:
    """Float64 where numerics are checked; elsewhere JAX's default, as users have it."""
    with jax.enable_x64(request.path.parent.name in _IN_FLOAT64):
        yield


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> Iterator[Counter[str]]:
    """Counts of examples by their outcome, which are printed at the end of a search."""
    counts: Counter[str] = Counter()
    yield counts
    request.node.user_properties.append((_TRIED, sorted(counts.items())))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what a search has tried; other processes hand it over with their reports."""
    if settings().derandomize:
        return
    for report in chain.from_iterable(terminalreporter.stats.values()):
        for name, counts in getattr(report, "user_properties", ()):
            if name == _TRIED and report.when == "teardown":
                told = [f"{outcome} ({count})" for outcome, count in counts]
                terminalreporter.write_line(f"{report.nodeid} tried {', '.join(told)}")


def pytest_runtest_setup() -> None:
    """Of a list, one item is checked, a random one: let it be the same in each run."""
    random.seed(0)


@pytest.fixture
def without_shape_checks() -> Iterator[None]:
    """For tests of the errors that users see: what they hand in is wrong on purpose."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
