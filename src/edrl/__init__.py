"""edrl: distributional reinforcement learning as statistics plus imputation.

The front door: families of statistics, imputations, dynamic programming, theory, and the verbs of
the deep wing (`train`, `resume`, `load`, `export`). Names are imported when they are first used.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edrl import deep, tabular, theory
    from edrl.compilations import cache_compilations
    from edrl.core import metrics, risk
    from edrl.core.algorithms import ALGORITHMS, Algorithm, algorithm
    from edrl.core.decoding import Decoded, decode
    from edrl.core.families import (
        Categorical,
        ExactExpectiles,
        Expectiles,
        HuberQuantiles,
        Mean,
        MEstimator,
        Moments,
        Quantiles,
        RobustExpectiles,
        evenly_spaced,
        midpoints,
    )
    from edrl.core.imputation import (
        IMPUTATIONS,
        EqualWeights,
        MaximumEntropy,
        RobustEntropy,
        ScipyMinimize,
        ScipyRoot,
        as_samples,
    )
    from edrl.core.particles import Particles
    from edrl.core.statistics import Imputation, Statistics
    from edrl.core.verify import Verified, verify
    from edrl.deep.config import Config, preset
    from edrl.deep.trained import load
    from edrl.deep.training import resume, train
    from edrl.report.export import export
    from edrl.tabular.dp import control
    from edrl.tabular.dp import evaluate as evaluate_policy
    from edrl.tabular.ground_truth import return_distributions
    from edrl.tabular.mdp import MDP
    from edrl.tabular.td import learn
    from edrl.theory.closedness import bellman_closed

__version__ = "0.1.0"

__all__ = [
    "ALGORITHMS",
    "IMPUTATIONS",
    "MDP",
    "Algorithm",
    "Categorical",
    "Config",
    "Decoded",
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
    "RobustEntropy",
    "RobustExpectiles",
    "ScipyMinimize",
    "ScipyRoot",
    "Statistics",
    "Verified",
    "algorithm",
    "as_samples",
    "bellman_closed",
    "cache_compilations",
    "control",
    "decode",
    "deep",
    "evaluate_policy",
    "evenly_spaced",
    "export",
    "learn",
    "load",
    "metrics",
    "midpoints",
    "preset",
    "resume",
    "return_distributions",
    "risk",
    "tabular",
    "theory",
    "train",
    "verify",
]

# What each module gives. A module that is given itself has no names.
_MODULES: dict[str, tuple[str, ...]] = {
    "edrl.compilations": ("cache_compilations",),
    "edrl.core.algorithms": ("ALGORITHMS", "Algorithm", "algorithm"),
    "edrl.core.decoding": ("Decoded", "decode"),
    "edrl.core.families": (
        "Categorical", "ExactExpectiles", "Expectiles", "HuberQuantiles", "MEstimator", "Mean",
        "Moments", "Quantiles", "RobustExpectiles", "evenly_spaced", "midpoints",
    ),
    "edrl.core.imputation": (
        "IMPUTATIONS", "EqualWeights", "MaximumEntropy", "RobustEntropy", "ScipyMinimize", "ScipyRoot",
        "as_samples",
    ),
    "edrl.core.metrics": (),
    "edrl.core.particles": ("Particles",),
    "edrl.core.risk": (),
    "edrl.core.statistics": ("Imputation", "Statistics"),
    "edrl.core.verify": ("Verified", "verify"),
    "edrl.deep": (),
    "edrl.deep.config": ("Config", "preset"),
    "edrl.deep.trained": ("load",),
    "edrl.deep.training": ("resume", "train"),
    "edrl.report.export": ("export",),
    "edrl.tabular": (),
    "edrl.tabular.dp": ("control", "evaluate_policy"),
    "edrl.tabular.ground_truth": ("return_distributions",),
    "edrl.tabular.mdp": ("MDP",),
    "edrl.tabular.td": ("learn",),
    "edrl.theory": (),
    "edrl.theory.closedness": ("bellman_closed",),
}  # fmt: skip
_NAMES_THERE = {"evaluate_policy": "evaluate"}  # where it is another name


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if not TYPE_CHECKING:  # a type checker sees the imports above, and so refuses other names

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'edrl' has no attribute {name!r}")
        globals()[name] = found = _find(name)
        return found


def _find(name: str) -> object:
    """Import what a name of the front door stands for."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(module), _NAMES_THERE.get(name, name))
        if not names and module.endswith(f".{name}"):
            return importlib.import_module(module)
    raise AttributeError(f"module 'edrl' lists {name!r}, but does not say where it is")
