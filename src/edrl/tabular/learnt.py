"""What temporal differences have learnt."""

from dataclasses import dataclass

import numpy as np

from edrl.core.statistics import Statistics
from edrl.core.types import Float, Int


@dataclass(frozen=True)
class Learnt:
    """What temporal differences have learnt, for each step size and seed."""

    family: Statistics
    values: Float[np.ndarray, "records alphas seeds S A K"]  # the last record is the final one
    visits: Int[np.ndarray, "alphas seeds S A"]
    steps: Int[np.ndarray, " records"]  # how many steps had been made

    def final(self) -> Float[np.ndarray, "alphas seeds S A K"]:
        """The values at the end, for each step size and seed."""
        final: np.ndarray = self.values[-1]
        return final
