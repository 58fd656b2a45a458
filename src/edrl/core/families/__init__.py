"""The families of statistics: one file each, one contract for all (tests/contracts.py)."""

from edrl.core.families.categorical import Categorical
from edrl.core.families.expectiles import ExactExpectiles, Expectiles, RobustExpectiles
from edrl.core.families.levels import Head, LevelStatistics, evenly_spaced, midpoints
from edrl.core.families.m_estimator import MEstimator
from edrl.core.families.moments import Mean, Moments
from edrl.core.families.quantiles import HuberQuantiles, Quantiles
from edrl.core.imputation import IMPUTATIONS

IMPUTATION_NAMES = tuple(
    dict.fromkeys(
        name
        for named in (
            IMPUTATIONS,
            *(
                kind.own_imputations
                for kind in (Expectiles, Quantiles, HuberQuantiles, Categorical, Moments)
            ),
        )
        for name in named
    )
)
"""Every imputation that has a name; not every family has each of them."""

HEAD_NAMES = tuple(
    dict.fromkeys(
        name for kind in (Expectiles, Quantiles, HuberQuantiles) for name in kind.own_heads
    )
)
"""Every head that has a name; not every family has each of them."""

__all__ = [
    "HEAD_NAMES",
    "IMPUTATION_NAMES",
    "Categorical",
    "ExactExpectiles",
    "Expectiles",
    "Head",
    "HuberQuantiles",
    "LevelStatistics",
    "MEstimator",
    "Mean",
    "Moments",
    "Quantiles",
    "RobustExpectiles",
    "evenly_spaced",
    "midpoints",
]
