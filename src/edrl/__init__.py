"""edrl: distributional reinforcement learning as statistics plus imputation strategies."""

from edrl import tabular, theory
from edrl.core import metrics, risk
from edrl.core.algorithms import ALGORITHMS, Algorithm, algorithm
from edrl.core.families import (
    Categorical,
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
    STRATEGIES,
    EqualWeights,
    ExactExpectiles,
    MaximumEntropy,
    ScipyMinimize,
    ScipyRoot,
    as_samples,
    gauss_quadrature,
    on_support,
    quantile_cells,
)
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics, Strategy
from edrl.core.verify import Verified, verify

__version__ = "0.1.0"

__all__ = [
    "ALGORITHMS",
    "STRATEGIES",
    "Algorithm",
    "Categorical",
    "EqualWeights",
    "ExactExpectiles",
    "Expectiles",
    "HuberQuantiles",
    "MEstimator",
    "MaximumEntropy",
    "Mean",
    "Moments",
    "Particles",
    "Quantiles",
    "ScipyMinimize",
    "ScipyRoot",
    "Statistics",
    "Strategy",
    "Verified",
    "algorithm",
    "as_samples",
    "evenly_spaced",
    "gauss_quadrature",
    "metrics",
    "midpoints",
    "on_support",
    "quantile_cells",
    "risk",
    "tabular",
    "theory",
    "verify",
]
