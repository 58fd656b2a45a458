"""When equally weighted samples have given expectiles: the criterion of docs/exact-imputation.md,
both ways.
"""

import numpy as np
import pytest

from edrl import Expectiles, Particles, midpoints
from edrl.paper.imputation import equal_weights_exist
from edrl.paper.update_times import random_values

LEVELS = [Expectiles(3).taus, Expectiles(7).taus, midpoints(5), (0.1, 0.2, 0.3, 0.5)]


@pytest.mark.parametrize("taus", LEVELS, ids=str)
def test_expectiles_of_equally_weighted_samples_meet_the_criterion(taus: tuple[float, ...]) -> None:
    """Necessity: also for samples in clusters, which leave gaps between knots without any."""
    rng = np.random.default_rng(0)
    spread, clustered = rng.normal(size=(2, 500, len(taus)))
    samples = np.concatenate(
        [spread, rng.choice([-1.0, 0.0, 2.0], clustered.shape) + 0.01 * clustered]
    )
    values = np.asarray(Expectiles(taus).evaluate(Particles(samples)))
    assert equal_weights_exist(values, np.asarray(taus)).all()


@pytest.mark.parametrize("taus", LEVELS, ids=str)
def test_samples_that_meet_the_criterion_can_be_written_down(taus: tuple[float, ...]) -> None:
    """Sufficiency: the tangents of slope i/K at the i-th knot meet at K samples with the given
    expectiles.
    """
    family, level, k = Expectiles(taus), np.asarray(taus), len(taus)
    values = random_values(family, 3000, seed=0)
    values = values[equal_weights_exist(values, level)]
    assert len(values) > 20
    outer = level != 0.5
    mean, x = values[:, ~outer], values[:, outer]
    p = level[outer] / (2 * level[outer] - 1) * (x - mean)
    f = np.arange(1, k) / k
    # The tangent at x is p + f (t - x): neighbours meet each other, the outermost the asymptotes 0
    # and t - mean.
    crossing = np.diff(f * x - p, axis=-1, prepend=0.0, append=0.0)
    crossing[:, -1:] = mean - (f * x - p)[:, -1:]
    samples = k * crossing
    np.testing.assert_allclose(family.evaluate(Particles(samples)), values, atol=1e-9)
