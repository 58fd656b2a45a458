"""Imputation strategies (Definition 3.4): from values of statistics back to a distribution that has them."""

from typing import get_args

from edrl.core.check import fail
from edrl.core.imputation.equal_weights import EqualWeights
from edrl.core.imputation.exact_expectiles import ExactExpectiles, Levels
from edrl.core.imputation.gauss import gauss_quadrature
from edrl.core.imputation.maximum_entropy import MaximumEntropy
from edrl.core.imputation.scipy_reference import ScipyMinimize, ScipyRoot
from edrl.core.imputation.simple import as_samples, dirac, on_support, quantile_cells
from edrl.core.statistics import Strategy

ImputeLike = str | Strategy

STRATEGIES: dict[str, Strategy] = {
    "as_samples": as_samples,
    "dirac": dirac,
    "quantile": quantile_cells,
    "categorical": on_support,
    "exact": ExactExpectiles(),
    **{f"exact-{levels}": ExactExpectiles(levels) for levels in get_args(Levels)},
    "maximum-entropy": MaximumEntropy(),
    "gauss": gauss_quadrature,
    "equal-weights": EqualWeights(),
    "scipy-root": ScipyRoot(),
    "scipy-minimize": ScipyMinimize(),
}


def strategy_for(impute: ImputeLike) -> Strategy:
    """The strategy itself, given by name or as a function `(family, values) -> Particles`."""
    if callable(impute):
        return impute
    if impute not in STRATEGIES:
        right = f"it must be a function (family, values) -> Particles or one of {sorted(STRATEGIES)}"
        raise fail("impute", impute, right)
    return STRATEGIES[impute]
