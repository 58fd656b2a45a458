"""The paper, figure by figure: each module measures, draws itself, and judges what is claimed."""

from edrl.paper import (
    bounds,
    closedness,
    equation8,
    figure1,
    figure2,
    figure3,
    figure4,
    figure5,
    figure6,
    figure7,
    figure8,
    four_updates,
    goals,
    gradients,
    imputation,
    levels,
    mean_consistency,
    naive_mean,
    non_uniform,
    paper_imputation,
    projections,
    quantiles_expectiles,
    td_fixed_point,
    td_lambda,
    witnesses,
)
from edrl.paper.experiment import Experiment

_MODULES = (
    figure1,
    figure2,
    figure3,
    figure4,
    figure5,
    paper_imputation,
    figure6,
    figure7,
    figure8,
    quantiles_expectiles,
    four_updates,
    goals,
    closedness,
    witnesses,
    projections,
    bounds,
    mean_consistency,
    non_uniform,
    gradients,
    td_fixed_point,
    equation8,
    imputation,
    levels,
    naive_mean,
    td_lambda,
)
EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in _MODULES
}
"""All parts of the page, in its order."""
