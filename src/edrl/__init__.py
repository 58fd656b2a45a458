"""edrl: distributional reinforcement learning as statistics plus imputation."""

from edrl import tabular, theory
from edrl.core import metrics, risk
from edrl.core.algorithms import ALGORITHMS, Algorithm, algorithm
from edrl.core.families import (
    Categorical,
    ExactExpectiles,
    Expectiles,
    HuberQuantiles,
    Mean,
    MEstimator,
    Moments,
    Quantiles,
    evenly_spaced,
    midpoints,
)
from edrl.core.imputation import (
    IMPUTATIONS,
    EqualWeights,
    MaximumEntropy,
    ScipyMinimize,
    ScipyRoot,
    as_samples,
)
from edrl.core.particles import Particles
from edrl.core.statistics import Imputation, Statistics
from edrl.core.verify import Verified, verify

__version__ = "0.1.0"

__all__ = [
    "ALGORITHMS",
    "IMPUTATIONS",
    "Algorithm",
    "Categorical",
    "EqualWeights",
    "ExactExpectiles",
    "Expectiles",
    "HuberQuantiles",
    "Imputation",
    "MEstimator",
    "MaximumEntropy",
    "Mean",
    "Moments",
    "Particles",
    "Quantiles",
    "ScipyMinimize",
    "ScipyRoot",
    "Statistics",
    "Verified",
    "algorithm",
    "as_samples",
    "evenly_spaced",
    "metrics",
    "midpoints",
    "risk",
    "tabular",
    "theory",
    "verify",
]
