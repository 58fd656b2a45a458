"""The tabular wing, in float64: finite MDPs, problems, dynamic programming and learning."""

from edrl.tabular import ground_truth, problems
from edrl.tabular.bellman import exact_backup, imputed_backup, solve_moments
from edrl.tabular.dp import control, evaluate
from edrl.tabular.ground_truth import return_distributions
from edrl.tabular.mdp import MDP
from edrl.tabular.policy import Policy, as_policy
from edrl.tabular.rewards import Exponential, Normal, Uniform
from edrl.tabular.rollouts import rollouts
from edrl.tabular.small_loops import compile_small_loops_whole
from edrl.tabular.td import learn

compile_small_loops_whole()

__all__ = [
    "MDP",
    "Exponential",
    "Normal",
    "Policy",
    "Uniform",
    "as_policy",
    "control",
    "evaluate",
    "exact_backup",
    "ground_truth",
    "imputed_backup",
    "learn",
    "problems",
    "return_distributions",
    "rollouts",
    "solve_moments",
]
