"""Theory made checkable: Bellman closedness, and bounds on what statistics can be learnt."""

from edrl.theory.bounds import (
    approximation_error,
    cdrl_bound,
    cdrl_cramer_bound,
    edrl_bound,
    edrl_level_bounds,
    measure_decay,
    qdrl_bound,
    sharper_cdrl_bound,
    sharper_qdrl_bound,
)
from edrl.theory.closedness import bellman_closed

__all__ = [
    "approximation_error",
    "bellman_closed",
    "cdrl_bound",
    "cdrl_cramer_bound",
    "edrl_bound",
    "edrl_level_bounds",
    "measure_decay",
    "qdrl_bound",
    "sharper_cdrl_bound",
    "sharper_qdrl_bound",
]
