"""Shapes that annotations name.

Axes have the same names everywhere: `*batch` for any number of leading axes, `K` for statistics,
`n` for atoms. Results are JAX arrays; arguments (`...Like`) may be NumPy arrays as well.
"""

from typing import TypeAlias

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

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

NumbersLike: TypeAlias = Float[Array, "*batch"]
ValuesLike: TypeAlias = Float[Array, "*batch K"]
AtomsLike: TypeAlias = Float[Array, "*batch n"]
Taus: TypeAlias = Float[Array, "*rows K"]
"""Levels of statistics: shared by all examples, or a row for each."""

__all__ = [
    "Array",
    "Atoms",
    "AtomsLike",
    "Bool",
    "Float",
    "Int",
    "Key",
    "Numbers",
    "NumbersLike",
    "Scores",
    "Taus",
    "Values",
    "ValuesLike",
]
