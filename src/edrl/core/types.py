"""Shapes that annotations name.

Axes have the same names everywhere: `*batch` for any number of leading axes, `K` for statistics,
`n` for atoms. Results are JAX arrays of floats; arguments (`...Like`) may be NumPy arrays and
whole numbers as well. The test run checks every annotation (`tests/conftest.py`).
"""

from typing import TypeAlias

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray, Real

Array: TypeAlias = jax.Array | np.ndarray
Key: TypeAlias = PRNGKeyArray

Numbers: TypeAlias = Float[jax.Array, "*batch"]
"""One number for each distribution of a batch."""
Values: TypeAlias = Float[jax.Array, "*batch K"]
"""Values of K statistics."""
Scores: TypeAlias = Float[jax.Array, "*batch K n"]
"""A number for each statistic and atom."""
Atoms: TypeAlias = Float[jax.Array, "*batch n"]
"""Outcomes, or their probabilities."""

NumbersLike: TypeAlias = Real[Array, "*batch"]
ValuesLike: TypeAlias = Real[Array, "*batch K"]
AtomsLike: TypeAlias = Real[Array, "*batch n"]
BroadcastValues: TypeAlias = Real[Array, "*#batch K"]
"""Values whose batch axes broadcast with those of the other arguments."""
BroadcastAtoms: TypeAlias = Real[Array, "*#batch n"]
"""Atoms whose batch axes broadcast with those of the other arguments."""
Taus: TypeAlias = Float[Array, "*rows K"]
"""Levels of statistics: shared by all examples, or a row for each."""

__all__ = [
    "Array",
    "Atoms",
    "AtomsLike",
    "Bool",
    "BroadcastAtoms",
    "BroadcastValues",
    "Float",
    "Int",
    "Key",
    "Numbers",
    "NumbersLike",
    "Real",
    "Scores",
    "Taus",
    "Values",
    "ValuesLike",
]
