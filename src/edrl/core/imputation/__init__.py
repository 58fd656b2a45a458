"""Imputation (Definition 3.4): from values of statistics back to a distribution that has them."""

from collections.abc import Mapping

from edrl.core.check import fail, one_of
from edrl.core.imputation.equal_weights import EqualWeights
from edrl.core.imputation.maximum_entropy import MaximumEntropy
from edrl.core.imputation.robust_entropy import RobustEntropy
from edrl.core.imputation.scipy_reference import ScipyMinimize, ScipyRoot
from edrl.core.imputation.simple import as_samples, dirac, shifted_samples
from edrl.core.statistics import Imputation

__all__ = [
    "IMPUTATIONS",
    "EqualWeights",
    "MaximumEntropy",
    "RobustEntropy",
    "ScipyMinimize",
    "ScipyRoot",
    "as_samples",
    "dirac",
    "find_imputation",
    "shifted_samples",
]

IMPUTATIONS: dict[str, Imputation] = {
    "as_samples": as_samples,
    "shifted-samples": shifted_samples,
    "dirac": dirac,
    "maximum-entropy": MaximumEntropy(),
    "robust": RobustEntropy(),
    "equal-weights": EqualWeights(),
    "scipy-root": ScipyRoot(),
    "scipy-minimize": ScipyMinimize(),
}
"""Imputations by name, for every family; some families have others of their own
(`own_imputations`).
"""


def find_imputation(given: str | Imputation, own: Mapping[str, Imputation]) -> Imputation:
    """An imputation by name, or the function itself; `own` are those of the family besides
    `IMPUTATIONS`.
    """
    if isinstance(given, str):
        known = {**IMPUTATIONS, **own}
        if given not in known:
            raise fail("imputation", given, one_of(given, sorted(known)))
        return known[given]
    if not callable(given):
        raise fail(
            "imputation", given, "it must be a name or a function (family, values) -> Particles"
        )
    return given
