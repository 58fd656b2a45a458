"""The tabular wing: finite MDPs, the paper's problems, dynamic programming and learning, all in float64."""

from edrl.tabular import problems, truth
from edrl.tabular.bellman import exact_backup, imputed_backup, solve_moments
from edrl.tabular.bounds import (
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
from edrl.tabular.closedness import bellman_closed
from edrl.tabular.dp import control, evaluate
from edrl.tabular.laws import Exponential, Normal, Uniform
from edrl.tabular.mdp import MDP
from edrl.tabular.policy import Policy, as_policy
from edrl.tabular.td import learn
from edrl.tabular.truth import return_distributions, rollouts

__all__ = [
    "MDP",
    "Exponential",
    "Normal",
    "Policy",
    "Uniform",
    "approximation_error",
    "as_policy",
    "bellman_closed",
    "cdrl_bound",
    "cdrl_cramer_bound",
    "control",
    "edrl_bound",
    "edrl_level_bounds",
    "evaluate",
    "exact_backup",
    "imputed_backup",
    "learn",
    "measure_decay",
    "problems",
    "qdrl_bound",
    "return_distributions",
    "rollouts",
    "sharper_cdrl_bound",
    "sharper_qdrl_bound",
    "solve_moments",
    "truth",
]
