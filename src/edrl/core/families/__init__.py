"""The families of statistics: one file each, one contract for all (tests/contracts.py)."""

from edrl.core.families.categorical import Categorical
from edrl.core.families.expectiles import ExactExpectiles, Expectiles
from edrl.core.families.levels import LevelStatistics, evenly_spaced, midpoints
from edrl.core.families.m_estimator import MEstimator
from edrl.core.families.moments import Mean, Moments
from edrl.core.families.quantiles import HuberQuantiles, Quantiles

__all__ = [
    "Categorical",
    "ExactExpectiles",
    "Expectiles",
    "HuberQuantiles",
    "LevelStatistics",
    "MEstimator",
    "Mean",
    "Moments",
    "Quantiles",
    "evenly_spaced",
    "midpoints",
]
