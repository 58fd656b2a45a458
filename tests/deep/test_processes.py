"""Work that is dealt out to processes: the same answer, and nothing left behind."""

import functools
import os
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edrl import Expectiles, Particles
from edrl.core.imputation.scipy_reference import ScipyRoot, solve_rows
from edrl.deep import processes
from edrl.deep.processes import OverProcesses


def random_values(family: Expectiles, seed: int, batch: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mu = Particles(rng.normal(size=(batch, 20)), rng.dirichlet(np.ones(20), batch))
    return np.asarray(family.evaluate(mu), np.float64)


def test_no_process_is_refused() -> None:
    with pytest.raises(ValueError, match="processes must be a whole number of at least 1, got 0"):
        OverProcesses(0)


def test_processes_that_are_told_to_end_still_help_their_parent_to_save():
    """Clusters and containers tell all processes of a job at once."""
    family, values = Expectiles(3), np.array([[-1.0, 0.0, 1.0], [0.0, 1.0, 2.5]])
    expected, _ = solve_rows(family, values, spread=OverProcesses(3))
    pool = processes._pool(3)
    until, begun = time.monotonic() + 120, set[int]()
    while begun != set(pool._processes):
        assert time.monotonic() < until
        begun = {future.result() for future in [pool.submit(os.getpid) for _ in range(50)]}
    for number in list(pool._processes):
        os.kill(number, signal.SIGTERM)
    time.sleep(1.0)
    assert all(process.is_alive() for process in pool._processes.values())
    np.testing.assert_array_equal(solve_rows(family, values, spread=OverProcesses(3))[0], expected)
    pool.shutdown()
    processes._pool.cache_clear()


def test_processes_that_cannot_begin_are_explained(monkeypatch):
    """As in a script that trains on import: they would train, too."""

    class Broken:
        def map(self, *_):
            raise BrokenProcessPool

    monkeypatch.setattr(processes, "_pool", functools.cache(lambda _: Broken()))
    with pytest.raises(RuntimeError, match="if __name__ == '__main__'"):
        solve_rows(Expectiles(3), np.zeros((2, 3)), spread=OverProcesses(2))


def test_scipy_over_processes_gives_the_same():
    """Rows are dealt out, also fewer than there are processes, inside compiled functions too: bit
    for bit.
    """
    family, imputation = Expectiles(5), ScipyRoot(spread=OverProcesses(2))
    values = random_values(family, 10, 5)
    expected = solve_rows(family, values)
    for alone, dealt in zip(
        expected, solve_rows(family, values, spread=OverProcesses(2)), strict=True
    ):
        np.testing.assert_array_equal(dealt, alone)
    with jax.enable_x64(True):
        compiled = jax.jit(lambda v: imputation(family, v))(jnp.asarray(values))
        alone = imputation(family, values[0])
    np.testing.assert_array_equal(compiled.atoms, expected[0])
    np.testing.assert_array_equal(alone.atoms, expected[0][0])


SCRIPT = """
import os
from pathlib import Path

import numpy as np

from edrl.deep.processes import OverProcesses
from edrl.paper.workers import worker_pool

if __name__ == "__main__":
    print(OverProcesses(1)(len, np.ones((4, 2))))
    with worker_pool(1, print, Path("cache")) as submit:
        print(submit(os.getenv, "PYTHONSAFEPATH", "as ever").result())
    assert "PYTHONSAFEPATH" not in os.environ
"""


def test_no_process_imports_what_lies_in_the_current_directory(tmp_path: Path) -> None:
    """Where a file may have the name of a module that Python needs to start it."""
    script, here = tmp_path / "script.py", tmp_path / "here"
    script.write_text(SCRIPT)
    here.mkdir()
    (here / "pickle.py").write_text("open('imported', 'w')\n")
    ended = subprocess.run([sys.executable, script], cwd=here, capture_output=True, text=True)
    assert ended.stdout == "[4]\nas ever\n", ended.stderr
    assert not (here / "imported").exists()
