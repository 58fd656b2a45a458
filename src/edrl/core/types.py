"""Shapes that annotations name.

Axes have the same names everywhere: `*batch` for any number of leading axes, `K` for statistics, `n` for atoms.
Arguments may be JAX or NumPy arrays; results are JAX arrays.
"""

from typing import TypeAlias

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

Array: TypeAlias = jax.Array | np.ndarray

Numbers: TypeAlias = Float[Array, "*batch"]
"""One number for each distribution of a batch."""
Values: TypeAlias = Float[Array, "*batch K"]
"""Values of K statistics."""
Atoms: TypeAlias = Float[Array, "*batch n"]
"""Outcomes, or their probabilities."""
Taus: TypeAlias = Float[Array, "*rows K"]
"""Levels of statistics: shared by all examples, or a row for each."""
Key: TypeAlias = PRNGKeyArray

__all__ = ["Array", "Atoms", "Bool", "Float", "Int", "Key", "Numbers", "Taus", "Values"]
