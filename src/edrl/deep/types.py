"""Types that agents, networks and replay memories share."""

from typing import TypeAlias

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, Shaped

AnyArray: TypeAlias = np.ndarray | jax.Array
"""Made on the host, and then an argument of compiled functions."""
Parameters: TypeAlias = PyTree
"""What learning changes: any pytree of arrays."""
Targets: TypeAlias = PyTree
"""What an agent's outputs are fitted to: any pytree of arrays with a row for each example."""
Observations: TypeAlias = Shaped[AnyArray, "batch ..."]
ActionValues: TypeAlias = Float[Array, "batch action"]
Losses: TypeAlias = Float[Array, " batch"]
Key: TypeAlias = PRNGKeyArray
