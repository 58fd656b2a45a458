"""Imputation strategies (Definition 3.4): from values of statistics back to a distribution that has them."""

from typing import get_args

from edrl.core.check import fail
from edrl.core.imputation.equal_weights import EqualWeights
from edrl.core.imputation.exact_expectiles import ExactExpectiles, Levels
from edrl.core.imputation.gauss import gauss_quadrature
from edrl.core.imputation.maximum_entropy import MaximumEntropy
from edrl.core.imputation.scipy_reference import ScipyMinimize, ScipyRoot
from edrl.core.imputation.simple import as_samples, dirac, on_support, quantile_cells
from edrl.core.statistics import Statistics, Strategy

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


# Others would take one kind of statistics for another, and impute a law that has nothing to do with them.
_MADE_FOR: tuple[tuple[Strategy, tuple[str, ...]], ...] = (
    *((strategy, ("Expectiles",)) for name, strategy in STRATEGIES.items() if name.startswith("exact")),
    (gauss_quadrature, ("Mean", "Moments")),
    (quantile_cells, ("Quantiles", "HuberQuantiles")),
    (on_support, ("Categorical",)),
)


def strategy_for(impute: ImputeLike, family: Statistics) -> Strategy:
    """The strategy for a family, given by name or as a function `(family, values) -> Particles`."""
    if not callable(impute) and not (isinstance(impute, str) and impute in STRATEGIES):
        right = f"it must be a function (family, values) -> Particles or one of {sorted(STRATEGIES)}"
        raise fail("impute", impute, right)
    strategy = impute if callable(impute) else STRATEGIES[impute]
    kinds = {kind.__name__ for kind in type(family).__mro__}
    for other, made_for in _MADE_FOR:
        if strategy == other and not kinds & set(made_for):
            name = next(name for name, named in STRATEGIES.items() if named == strategy)
            right = f"it is made for {' and '.join(made_for)}, not for {type(family).__name__}"
            raise fail("impute", name, right)
    return strategy
