"""Small loops are compiled as one kernel once `edrl.tabular` is imported."""

import os
import subprocess
import sys

import numpy as np
import pytest

from edrl import Expectiles
from edrl.tabular import learn, problems

_OPTION = "--xla_backend_extra_options"

# A loop over more than the 1 kB up to which XLA does so by itself.
_COMPILED_WHOLE = """
import jax, jax.numpy as jnp
{imported}
loop = jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda i, x: x * x[::-1] - i, x))
print("xla_cpu_small_call" in loop.lower(jnp.zeros(1000)).compile().as_text())
"""
_LEARN = """
import numpy as np
from edrl import Expectiles
from edrl.tabular import learn, problems
learnt = learn(problems.n_chain(5), Expectiles(5), 0, steps=300)
np.save({file!r}, learnt.final())
"""


def _fresh_process(code: str, flags: str = "") -> str:
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_importing_the_tabular_wing_compiles_small_loops_whole() -> None:
    assert _fresh_process(_COMPILED_WHOLE.format(imported="")) == "False"
    assert _fresh_process(_COMPILED_WHOLE.format(imported="import edrl.tabular")) == "True"


def test_options_of_the_user_stay() -> None:
    given = f"{_OPTION}=xla_cpu_small_while_loop_byte_threshold=0"
    code = "import os, edrl.tabular; print(os.environ['XLA_FLAGS'])"
    assert _fresh_process(code, given) == given
    other = "--xla_cpu_enable_fast_math=false"
    assert _fresh_process(code, other).startswith(f"{other} {_OPTION}=")


@pytest.mark.parametrize("threshold", [0, 2**16])
def test_what_is_learnt_does_not_depend_on_it(threshold: int, tmp_path: os.PathLike[str]) -> None:
    file = os.path.join(tmp_path, "learnt.npy")
    flags = f"{_OPTION}=xla_cpu_small_while_loop_byte_threshold={threshold}"
    _fresh_process(_LEARN.format(file=file), flags)
    here = learn(problems.n_chain(5), Expectiles(5), 0, steps=300).final()
    np.testing.assert_allclose(np.load(file), here, rtol=0, atol=1e-12)
