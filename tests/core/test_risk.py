"""Risk measures against brute force and variational oracles, and the axioms that each of them
satisfies.
"""

import math
from decimal import Decimal, getcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from edrl.core.particles import Particles
from edrl.core.risk import (
    CVaR,
    Entropic,
    ExpectedReturn,
    ExpectileRisk,
    MeanDeviation,
    MeanVariance,
    Risk,
    ValueAtRisk,
    risk_named,
)

EPS = np.finfo(np.float64).eps
BATCH, N = 16, 6
seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=25, deadline=None)

RISKS = [
    ExpectedReturn(), CVaR(0.3), ValueAtRisk(0.3), Entropic(2.0), Entropic(-2.0), ExpectileRisk(0.2),
    ExpectileRisk(0.8), MeanVariance(0.5),
]  # fmt: skip
each_risk = pytest.mark.parametrize("risk", RISKS, ids=repr)
# Averages of N numbers of size at most 8, each formed in at most 2 * N roundings, divided by a
# share >= 0.2.
ATOL = N * 2 * N * 8 / 0.2 * EPS


def batch(seed: int, bound: float = 4.0) -> Particles:
    """Random distributions within [-bound, bound], some of their atoms weightless."""
    rng = np.random.default_rng(seed)
    probs = (0.01 + rng.dirichlet(np.ones(N), BATCH)) * (rng.random((BATCH, N)) < 0.8)
    probs[:, 0] += 0.1
    return Particles(rng.uniform(-bound, bound, (BATCH, N)), probs / probs.sum(-1, keepdims=True))


@pytest.mark.parametrize("alpha", [0.05, 0.3, 1.0])
@given(seed=seeds)
@few
def test_cvar_is_the_rockafellar_uryasev_maximum(alpha: float, seed: int) -> None:
    """CVaR = max_c { c - E[(c - Z)+] / alpha }; the function is concave with kinks at atoms only."""
    mu = batch(seed)
    c = mu.atoms[:, :, None]
    values = mu.atoms - (mu.probs[:, None] * np.maximum(c - mu.atoms[:, None], 0)).sum(-1) / alpha
    np.testing.assert_allclose(CVaR(alpha)(mu), values.max(-1), atol=N * 2 * N * 8 / alpha * EPS)


@pytest.mark.parametrize("k", [1, 5])
def test_cvar_of_samples_is_the_mean_of_the_worst(k: int) -> None:
    """alpha = k / 8 of 8 equally likely samples: the k lowest."""
    samples = np.random.default_rng(k).normal(size=(BATCH, 8))
    np.testing.assert_allclose(
        CVaR(k / 8)(Particles(samples)), np.sort(samples)[:, :k].mean(-1), atol=8 * 8 * 4 * EPS
    )


def test_cvar_takes_a_fraction_of_the_atom_at_its_level() -> None:
    """Share 0.5 of {0: 0.25, 1: 0.75} is all of the 0 and a third of the 1."""
    assert CVaR(0.5)(Particles([1.0, 0.0], [0.75, 0.25])) == 0.5


@given(seeds)
@few
def test_cvar_is_monotone_in_alpha_from_the_minimum_to_the_mean(seed: int) -> None:
    mu = batch(seed)
    alphas = [1e-9, 0.05, 0.3, 0.7, 1.0]
    values = np.stack([CVaR(alpha)(mu) for alpha in alphas])
    assert (np.diff(values, axis=0) >= -ATOL).all()
    lowest = np.where(mu.probs > 0, mu.atoms, np.inf).min(-1)
    np.testing.assert_array_equal(values[0], lowest)  # no atom weighs less than 1e-9
    np.testing.assert_allclose(values[-1], mu.mean(), atol=ATOL)


@given(seeds)
@few
def test_value_at_risk_is_the_inverted_cdf(seed: int) -> None:
    mu = batch(seed)
    expected = [
        np.quantile(a[p > 0], 0.3, method="inverted_cdf", weights=p[p > 0])
        for a, p in zip(mu.atoms, mu.probs, strict=True)
    ]
    np.testing.assert_array_equal(ValueAtRisk(0.3)(mu), expected)


@pytest.mark.parametrize("beta", [-2.0, 2.0, 1e4])
@given(seed=seeds)
@few
def test_entropic_is_a_log_sum_exp(beta: float, seed: int) -> None:
    """Against SciPy's log-sum-exp, whose result of size up to 4 |beta| is rounded before beta
    divides it.
    """
    mu = batch(seed)
    expected = -special.logsumexp(-beta * mu.atoms, b=mu.probs, axis=-1) / beta
    np.testing.assert_allclose(Entropic(beta)(mu), expected, atol=4 * N * (8 + 4 / abs(beta)) * EPS)


@pytest.mark.parametrize("beta", [1e-3, -1e-8, 1e-15])
def test_entropic_keeps_its_digits_as_beta_vanishes(beta: float) -> None:
    """Against 60-digit arithmetic: the logarithm of nearly 1, divided by nearly 0, has to be right."""
    getcontext().prec = 60
    mu = batch(0)
    for atoms, probs, value in zip(mu.atoms, mu.probs, Entropic(beta)(mu), strict=True):
        weights = [Decimal(float(p)) for p in probs]
        terms = zip(weights, atoms, strict=True)
        total = sum(p * (-Decimal(beta) * Decimal(float(a))).exp() for p, a in terms) / sum(weights)
        assert abs(float(-total.ln() / Decimal(beta)) - value) <= 4 * N * 8 * EPS


def test_entropic_survives_extremes() -> None:
    """Nothing overflows; where the term of one atom z dominates, the value is z - log(p) / beta."""
    mu = Particles([-1000.0, 0.0, 1000.0], [1e-30, 0.5, 0.5])
    np.testing.assert_allclose(Entropic(1.0)(mu), -1000.0 - math.log(1e-30), rtol=4 * EPS)
    np.testing.assert_allclose(Entropic(-1.0)(mu), 1000.0 + math.log(0.5), rtol=4 * EPS)
    np.testing.assert_allclose(Entropic(1e200)(mu), -1000.0, rtol=4 * EPS)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parameters_too_small_or_large_for_the_precision_are_limits(dtype: type) -> None:
    mu = Particles(np.array([[0, 1, 2], [0, 0, 0]], dtype))
    for tiny in (1e-40, 1e-46, 1e-320):
        np.testing.assert_array_equal(CVaR(tiny)(mu), [0, 0])
        for beta in (tiny, -tiny):
            np.testing.assert_allclose(Entropic(beta)(mu), [1, 0], rtol=1e-6)
    np.testing.assert_allclose(Entropic(1e39)(mu), [0, 0], atol=1e-30)
    np.testing.assert_allclose(Entropic(-1e39)(mu), [2, 0], atol=1e-6)


@given(seeds)
@few
def test_order_of_the_measures(seed: int) -> None:
    """minimum <= averse measures <= mean <= seeking measures <= maximum (Jensen for the entropic
    ones).
    """
    mu = batch(seed)
    low, high, mean = mu.settled().atoms.min(-1), mu.settled().atoms.max(-1), mu.mean()
    for risk in (CVaR(0.3), Entropic(2.0), ExpectileRisk(0.2)):
        assert (low <= risk(mu) + ATOL).all()
        assert (risk(mu) <= mean + ATOL).all()
    for risk in (Entropic(-2.0), ExpectileRisk(0.8)):
        assert (mean <= risk(mu) + ATOL).all()
        assert (risk(mu) <= high + ATOL).all()
    assert (CVaR(0.3)(mu) <= ValueAtRisk(0.3)(mu) + ATOL).all()


@given(seeds)
@few
def test_expectile_satisfies_its_first_order_condition(seed: int) -> None:
    """tau E[(Z - e)+] = (1 - tau) E[(e - Z)+] (Definition 3.3)."""
    mu = batch(seed)
    for tau in (0.2, 0.8):
        error = mu.atoms - ExpectileRisk(tau)(mu)[:, None]
        gap = tau * (mu.probs * np.maximum(error, 0)).sum(-1) - (1 - tau) * (
            mu.probs * np.maximum(-error, 0)
        ).sum(-1)
        assert (np.abs(gap) <= ATOL).all()
    np.testing.assert_allclose(ExpectileRisk(0.5)(mu), mu.mean(), atol=ATOL)


@each_risk
@given(seed=seeds, shift=st.floats(-4, 4))
@few
def test_translation_equivariance(risk: Risk, seed: int, shift: float) -> None:
    mu = batch(seed)
    np.testing.assert_allclose(risk(mu.push(shift, 1.0)), risk(mu) + shift, atol=3 * ATOL)


@given(seeds, st.floats(0.01, 2.0))
@few
def test_positive_homogeneity(seed: int, scale: float) -> None:
    """The coherent measures and the quantile scale with Z; for the entropic one beta scales
    inversely.
    """
    mu = batch(seed)
    scaled = mu.push(0.0, scale)
    for risk in (
        ExpectedReturn(),
        CVaR(0.3),
        ValueAtRisk(0.3),
        ExpectileRisk(0.2),
        ExpectileRisk(0.8),
    ):
        np.testing.assert_allclose(risk(scaled), scale * risk(mu), atol=2 * ATOL)
    np.testing.assert_allclose(Entropic(2.0)(mu.push(0.0, 0.5)), 0.5 * Entropic(1.0)(mu), atol=ATOL)
    np.testing.assert_allclose(
        MeanVariance(0.5)(mu.push(0.0, 2.0)), 2 * MeanVariance(1.0)(mu), atol=16 * ATOL
    )


@pytest.mark.parametrize("risk", RISKS[:-1], ids=repr)
@given(seed=seeds)
@few
def test_more_is_better(risk: Risk, seed: int) -> None:
    """Monotone: raising outcomes never lowers the worth (mean minus variance is the known
    exception).
    """
    mu = batch(seed)
    gain = np.random.default_rng(seed).exponential(size=mu.atoms.shape)
    assert (risk(Particles(mu.atoms + gain, mu.probs)) >= risk(mu) - ATOL).all()


def test_mean_variance_is_not_monotone() -> None:
    """A free lottery ticket can be worth less than nothing: the exception above is one."""
    assert MeanVariance(1.0)(Particles([0.0, 8.0])) < MeanVariance(1.0)(Particles([0.0]))


@pytest.mark.parametrize(
    "risk", [CVaR(0.3), CVaR(0.05), ExpectileRisk(0.2), ExpectileRisk(0.5)], ids=repr
)
@given(seed=seeds)
@few
def test_coherent_measures_reward_diversification(risk: Risk, seed: int) -> None:
    """Superadditive, however X and Y depend on each other: risk(X + Y) >= risk(X) + risk(Y)."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(N), BATCH)
    x, y = rng.uniform(-4, 4, (2, BATCH, N))
    x[BATCH // 2 :] = -y[BATCH // 2 :] * rng.random((BATCH // 2, 1))  # strongly dependent ones too
    together, apart = (
        risk(Particles(x + y, probs)),
        risk(Particles(x, probs)) + risk(Particles(y, probs)),
    )
    assert (together >= apart - 8 * ATOL).all()


def test_value_at_risk_does_not() -> None:
    """The textbook counterexample: two defaults of probability 4 % are unseen apart and seen
    together.
    """
    bond = Particles([-100.0, 0.0], [0.04, 0.96])
    risk = ValueAtRisk(0.05)
    assert risk(bond) == 0.0
    assert risk(bond.add(bond)) == -100.0


@each_risk
def test_padding_has_no_influence(risk: Risk) -> None:
    """Weightless atoms may lie on the others, among them or astronomically far away."""
    mu = batch(1)
    atoms, probs = mu.atoms.copy(), mu.probs.copy()
    probs[:, [0, 3, 5]] = 0
    probs[:, 1] += 0.1
    probs /= probs.sum(-1, keepdims=True)
    atoms[:, [0, 3, 5]] = atoms[:, [1, 1, 1]]
    near = Particles(atoms.copy(), probs)
    atoms[:, [0, 3, 5]] = 1e30, 0.5, -1e30
    np.testing.assert_allclose(risk(Particles(atoms, probs)), risk(near), atol=ATOL)


@each_risk
def test_a_large_offset_costs_no_digits(risk: Risk) -> None:
    """Dyadic atoms moved by 2^40 exactly: only the result's own rounding, 2^40 eps, remains."""
    rng = np.random.default_rng(2)
    mu = Particles(rng.integers(-4096, 4096, (BATCH, N)) / 1024, rng.dirichlet(np.ones(N), BATCH))
    far = Particles(mu.atoms + 2.0**40, mu.probs)
    np.testing.assert_allclose(risk(far) - 2.0**40, risk(mu), atol=2.0**40 * EPS)


@each_risk
def test_precision_jit_vmap_and_static(risk: Risk) -> None:
    """float64 and float32 stay what they are; a measure is hashable and goes through jit as it is."""
    mu = batch(3)
    exact = risk(mu)
    assert exact.dtype == np.float64
    single = Particles(jnp.float32(mu.atoms), jnp.float32(mu.probs))
    value = jax.jit(lambda risk, mu: jax.vmap(risk)(mu))(risk, single)
    assert value.dtype == jnp.float32
    if not isinstance(risk, ValueAtRisk):  # a quantile may jump to the next atom
        np.testing.assert_allclose(
            value, exact, atol=ATOL / EPS * float(jnp.finfo(jnp.float32).eps)
        )
    assert jax.eval_shape(risk, single).dtype == jnp.float32
    assert isinstance(hash(risk), int)


def test_equal_measures_share_one_compilation() -> None:
    traces = []

    @jax.jit
    def greedy(risk: Risk, mu: Particles) -> jax.Array:
        traces.append(type(risk))
        return jnp.argmax(risk(mu), axis=-1)

    mu = Particles(
        jnp.array([[1.0, 1.0], [-10.0, 14.0]])
    )  # a safe action and a better but risky one
    assert greedy(ExpectedReturn(), mu) == 1
    assert greedy(CVaR(0.5), mu) == 0
    assert greedy(CVaR(np.float64(0.5)), mu) == 0
    assert len(traces) == 2
    assert hash(CVaR(0.5)) == hash(CVaR(np.float64(0.5)))
    assert CVaR(0.5) != ValueAtRisk(0.5)


@pytest.mark.parametrize(
    ("make", "argument", "values"),
    [
        (CVaR, "alpha", [0.0, -0.1, 1.1, math.nan]),
        (ValueAtRisk, "alpha", [0.0, 1.1, math.nan]),
        (Entropic, "beta", [0.0, math.inf, math.nan]),
        (ExpectileRisk, "tau", [0.0, 1.0, math.nan]),
        (MeanVariance, "weight", [math.inf, math.nan]),
    ],
)
def test_bad_parameters_are_refused(make, argument: str, values: list[float]) -> None:
    for value in values:
        with pytest.raises(ValueError, match=rf"{argument} must .*, got {value!r}"):
            make(value)


@pytest.mark.parametrize(
    ("name", "risk"),
    [
        ("cvar-0.1", CVaR(0.1)),
        ("expectile-0.3", ExpectileRisk(0.3)),
        ("deviation-0.5", MeanDeviation(0.5)),
        ("variance-2", MeanVariance(2.0)),
        ("entropic--1", Entropic(-1.0)),
    ],
)
def test_risk_measures_have_names(name: str, risk: Risk) -> None:
    assert risk_named(name) == risk


@pytest.mark.parametrize("name", ["cvar", "cvar-2", "luck-1", "cvar-much", "", "expectile-1"])
def test_wrong_names_of_risk_measures_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"risk.*(NAME-NUMBER|does not fit)"):
        risk_named(name)


def test_mean_deviation_is_in_the_units_of_returns() -> None:
    """Twice the returns, twice the value; brute force on three outcomes."""
    mu = Particles(np.array([0.0, 1.0, 5.0]), np.array([0.5, 0.25, 0.25]))
    expected = 1.5 - 0.5 * np.sqrt(0.5 * 1.5**2 + 0.25 * 0.5**2 + 0.25 * 3.5**2)
    assert float(MeanDeviation(0.5)(mu)) == pytest.approx(expected, rel=1e-6)
    assert float(MeanDeviation(0.5)(mu.push(0.0, 2.0))) == pytest.approx(2 * expected, rel=1e-6)
