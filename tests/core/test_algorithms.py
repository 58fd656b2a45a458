"""The named algorithms are the statistics and imputation that the paper says they are."""

from typing import Any

import numpy as np
import pytest

import edrl
from edrl.core.imputation import find_imputation

AS_PRINTED = ("EDRL-scipy", "EDRL-samples", "Huber-QDRL-samples", "ER-DQN-scipy")
"""The paper's own imputations, by K equally weighted samples, which rarely have the statistics
asked for.
"""


@pytest.mark.parametrize("name", [name for name in edrl.ALGORITHMS if name not in AS_PRINTED])
def test_every_algorithm_keeps_the_contract(name: str) -> None:
    edrl.verify(
        edrl.algorithm(name, None if edrl.ALGORITHMS[name].size == 1 else 5, support=(-20.0, 20.0))
    )


@pytest.mark.parametrize(
    ("name", "size", "imputation"),
    [
        ("DQN", 1, "dirac"),
        ("C51", 50, "categorical"),
        ("QR-DQN", 200, "as_samples"),
        ("ER-DQN", 11, "exact"),
        ("ER-DQN-naive", 201, "as_samples"),
        ("EDRL-naive", 11, "as_samples"),
        ("Huber-QDRL-imputation", 11, "maximum-entropy"),
        ("EDRL-scipy", 11, "scipy-root"),
        ("EDRL-samples", 11, "equal-weights"),
        ("Huber-QDRL-samples", 11, "equal-weights"),
        ("ER-DQN-scipy", 11, "scipy-root"),
    ],
)
def test_sizes_and_imputations(name: str, size: int, imputation: str) -> None:
    family = edrl.algorithm(name, support=(-10.0, 10.0))
    assert family.size == size
    assert family.imputation == find_imputation(imputation, family.own_imputations)


@pytest.mark.parametrize("name", AS_PRINTED)
def test_the_papers_own_imputations_are_not_exact(name: str) -> None:
    """Definition 3.4 asks for the given statistics, and equally weighted samples rarely have them."""
    rng, family = np.random.default_rng(0), edrl.algorithm(name, 5)
    values = family.evaluate(
        edrl.Particles(rng.normal(size=(20, 30)), rng.dirichlet(np.ones(30), 20))
    )
    off = np.abs(np.asarray(family.residual(values))).max(axis=-1)
    assert np.isfinite(off).all()
    assert np.median(off) > 1e-6


def test_imputations_of_our_own_say_so() -> None:
    """What the paper does not have is not cited as the paper's."""
    for name in ("EDRL", "ER-DQN", "Huber-QDRL-imputation", "QR-DQN-imputation"):
        assert edrl.ALGORITHMS[name].where.startswith("edrl: ")
    for name in AS_PRINTED:
        assert not edrl.ALGORITHMS[name].where.startswith("edrl")


def test_er_dqn_levels() -> None:
    """Appendix D.1: eleven levels from 0.01 to 0.99, the sixth of them exactly 1/2, so that the
    mean is the mean.
    """
    taus = edrl.algorithm("ER-DQN").taus  # type: ignore[attr-defined]
    assert (taus[0], taus[5], taus[10]) == (0.01, 0.5, 0.99)


@pytest.mark.parametrize("k", [1, 3, 5, 11, 51, 201])
def test_odd_numbers_of_levels_contain_one_half(k: int) -> None:
    assert 0.5 in edrl.evenly_spaced(k)
    assert 0.5 in edrl.midpoints(k)


@pytest.mark.usefixtures("without_shape_checks")
def test_errors() -> None:
    nothing: Any = None
    with pytest.raises(ValueError, match=r"name must be one of .*C51.*, got 'C52'"):
        edrl.algorithm("C52")
    with pytest.raises(ValueError, match=r"did you mean EDRL.*got 'EDLR'"):
        edrl.algorithm("EDLR")
    with pytest.raises(ValueError, match=r"name must be one of .*, got None"):
        edrl.algorithm(nothing)
    with pytest.raises(ValueError, match=r"imputation must be .*did you mean exact.*got 'Exat'"):
        edrl.Expectiles(5, imputation="Exat")
    with pytest.raises(ValueError, match=r"support( is |.* got )None.*C51 needs the range"):
        edrl.algorithm("C51")


def test_an_average_is_as_near_to_the_mean_as_an_imputed_law_where_values_are_noisy() -> None:
    """Why QR-DQN-imputation acts on the average of its Huber quantiles, which costs nothing."""
    rng, family = np.random.default_rng(0), edrl.algorithm("QR-DQN-imputation")
    mu = edrl.Particles(3 * rng.normal(size=(200, 30)), rng.dirichlet(np.ones(30), 200))
    values = np.asarray(family.evaluate(mu))
    noisy = values + 0.05 * np.ptp(values, axis=-1, keepdims=True) * rng.normal(size=values.shape)
    off_average, off_imputed = (
        float(np.sqrt(np.mean((np.asarray(means) - np.asarray(mu.mean())) ** 2)))
        for means in (family.mean(noisy), family.impute(noisy).mean())
    )
    assert off_average <= off_imputed
    np.testing.assert_allclose(
        family.mean(noisy), edrl.algorithm("QR-DQN", 11).mean(noisy), rtol=1e-12
    )
