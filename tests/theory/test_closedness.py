"""Bellman closedness: verdicts that theory knows, and witnesses recomputed without the library."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

from contracts import StopLoss
from edrl.core.families import Categorical, Expectiles, HuberQuantiles, Mean, Moments, Quantiles
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics
from edrl.theory.closedness import Closedness, Witness, bellman_closed

EPS = np.finfo(np.float64).eps
Atoms = list[tuple[float, float]]


def atoms_of(mu: Particles) -> Atoms:
    return list(zip(np.asarray(mu.atoms).tolist(), np.asarray(mu.probs).tolist(), strict=True))


def backed_up(witness: Witness, mu: Particles) -> Atoms:
    """The backup of a witness by hand: (atom, probability) of r + gamma z, in the mixture if there
    is one.
    """
    rest = (
        []
        if witness.rho is None
        else [(z, (1 - witness.weight) * p) for z, p in atoms_of(witness.rho)]
    )
    mixture = [(z, witness.weight * p) for z, p in atoms_of(mu)] + rest
    return [(witness.reward + witness.gamma * z, p) for z, p in mixture]


def confirm(
    witness: Witness | None, evaluate: Callable[[Atoms], list[float]], rounding: float
) -> None:
    """mu and nu have the same statistics, and the stated different ones after the backup."""
    assert witness is not None
    before, after = [
        [np.array(evaluate(atoms)) for atoms in pair]
        for pair in (
            (atoms_of(witness.mu), atoms_of(witness.nu)),
            (backed_up(witness, witness.mu), backed_up(witness, witness.nu)),
        )
    ]
    np.testing.assert_allclose(before[0], before[1], atol=rounding)
    np.testing.assert_allclose(before[0], witness.statistics_before, atol=rounding)
    np.testing.assert_allclose(after[0], witness.backed_up_mu, atol=rounding)
    np.testing.assert_allclose(after[1], witness.backed_up_nu, atol=rounding)
    gap = abs(after[0] - after[1])[witness.statistic]
    assert gap == pytest.approx(witness.gap, abs=2 * rounding)
    assert gap > 100 * rounding


def expectations(functions: list[Callable[[Any], Any]]) -> Callable[[Atoms], list[float]]:
    return lambda atoms: [
        math.fsum(p * float(h(np.array([z]))[0]) for z, p in atoms) for h in functions
    ]


@pytest.mark.parametrize("k", [1, 2, 5, 10])
def test_moments_are_closed_and_their_bellman_equation_is_binomial(k: int) -> None:
    """Lemma 4.2: E[(r + gamma Z)^k] = sum_m C(k, m) gamma^(k-m) r^m E[Z^(k-m)]."""
    found = bellman_closed(Moments(k))
    assert found.closed
    assert found.route == "span"
    assert found.witness is None
    # Least squares solves for the coefficients with a relative error of the condition number times
    # rounding.
    nodes = np.cos(np.pi * (np.arange(200) + 0.5) / 200)
    rounding = 100 * EPS * np.linalg.cond(np.vander(nodes, k + 1))
    for r, gamma in [(0.3, 0.7), (-1.7, 0.99), (0.0, 0.5), (2.0, 0.0)]:
        expected = np.zeros((k, k + 1))
        for j in range(1, k + 1):
            for m in range(j + 1):
                expected[j - 1, j - m] = math.comb(j, m) * gamma ** (j - m) * r**m
        actual = found.coefficients(r, gamma)
        np.testing.assert_allclose(actual, expected, atol=rounding * (abs(r) + gamma + 1) ** k)


@pytest.mark.parametrize(
    "functions",
    [
        [lambda x: x, lambda x: x + x**2],
        [lambda x: 5 - x, lambda x: 2 * x**2 + x, lambda x: x**3 - x],
        [lambda x: x, lambda x: 3 * x, lambda x: x - 2],  # repetitions add nothing to the span
        [lambda x: np.full_like(x, 7.0)],
        [lambda x: 0 * x, lambda x: x],
        [np.polynomial.Legendre.basis(j) for j in range(1, 13)],
    ],
)
def test_any_basis_of_the_moments_is_closed(functions: list[Any]) -> None:
    """Theorem 4.3: what matters is the span with the constants; the Bellman equation is one of
    functions.
    """
    found = bellman_closed(functions)
    assert found.closed
    assert found.deviation < 1e-12
    x = np.linspace(-1, 1, 7)
    equation = found.coefficients(0.3, 0.6)
    here = np.vstack([np.ones_like(x), *(np.asarray(h(x), float) for h in functions)])
    there = np.stack([np.asarray(h(0.3 + 0.6 * x), float) for h in functions])
    np.testing.assert_allclose(equation @ here, there, atol=1e-12)


def test_functions_in_jax_are_run_in_float64() -> None:
    """In float32 the residual would be of the order of 1e-7."""
    found = bellman_closed([jnp.square, lambda x: jnp.asarray(x)])
    assert found.closed
    assert found.deviation < 1e-14


NOT_CLOSED: dict[str, list[Callable[[Any], Any]]] = {
    "second moment alone": [np.square],
    "first and third moment": [lambda x: x, lambda x: x**3],
    "exponential": [np.exp],
    "sine": [np.sin],
    "cosine": [np.cos],
    "sine and cosine": [np.sin, np.cos],
    "indicator": [lambda x: (np.asarray(x) <= 0.0) * 1.0],
    "absolute value": [np.abs],
    "hinge with the mean": [lambda x: x, lambda x: np.maximum(x, 0)],
    "moments and an exponential": [lambda x: x, np.square, np.exp],
    "exponential in JAX": [jnp.exp],
}


@pytest.mark.parametrize("name", NOT_CLOSED)
def test_other_expectations_are_not_closed(name: str) -> None:
    """Theorem 4.3: a witness with at most K + 2 atoms, as vertices of the linear programme have."""
    functions = NOT_CLOSED[name]
    found = bellman_closed(functions)
    assert not found.closed
    confirm(found.witness, expectations(functions), rounding=1e-6 if "JAX" in name else 1e-13)
    assert found.witness is not None
    assert found.witness.mu.size + found.witness.nu.size <= len(functions) + 2
    assert found.witness.check(functions) == pytest.approx(found.witness.gap, rel=1e-12)


def test_the_witness_is_the_best_one() -> None:
    """By duality the largest gap is twice the uniform distance of h(r + gamma x) to the span: for h
    = x^2, r = 1 and gamma = 0.9 that of 1.8 x to span{1, x^2} on the points, the largest of which
    is cos(pi/2n)."""
    found = bellman_closed([np.square], rewards=(1.0,), gammas=(0.9,))
    assert found.points is not None
    assert found.witness is not None
    assert found.witness.gap == pytest.approx(2 * 1.8 * found.points.max(), rel=1e-9)
    assert found.points.max() == pytest.approx(
        math.cos(math.pi / (2 * len(found.points))), rel=1e-12
    )


@pytest.mark.parametrize(
    "functions",
    [[np.exp], [np.sin, np.cos], [np.exp, lambda x: x * np.exp(x)], [lambda x: x, np.exp]],
)
def test_it_is_discounting_that_rules_exponentials_out(functions: list[Any]) -> None:
    """Engert (1970), in the proof of Theorem 4.3: x^l exp(lambda x) are closed under translation
    alone.
    """
    assert bellman_closed(functions, gammas=(1.0,)).closed
    assert not bellman_closed(functions, gammas=(1.0, 0.9)).closed


def test_the_verdict_is_about_the_interval() -> None:
    """|x - 5| is linear on (-1, 1), and its kink shows on (-10, 10)."""
    functions = [lambda x: np.abs(x - 5)]
    found = bellman_closed(functions, interval=(-1, 1))
    assert found.closed
    assert "for returns in [-1, 1]" in str(found)
    assert not bellman_closed(
        functions
    ).closed  # wider ones are tried before a set is called closed
    # A polynomial of degree nine is as good as exp up to 1e-9 on (-1, 1), but not on (-8, 8).
    almost = [*(lambda x, k=k: x**k for k in range(1, 10)), np.exp]
    assert bellman_closed(almost, tolerance=1e-6, interval=(-1, 1)).closed
    assert not bellman_closed(almost, tolerance=1e-6, interval=(-8, 8)).closed


@pytest.mark.parametrize(
    "support", [(-1.0, 1.0), (-1.0, 0.0, 1.0), tuple(np.linspace(0, 20, 12)), (0.0, 1.0, 5.0)]
)
def test_categorical_statistics_are_not_closed(support: tuple[float, ...]) -> None:
    """Lemma 4.4 (i), with a witness inside the support."""
    found = bellman_closed(Categorical(support))
    widths = np.diff(support)

    def by_hand(atoms: Atoms) -> list[float]:
        slopes = [
            [np.clip((b - z) / (b - a), 0, 1) for z, _ in atoms] for a, b in pairwise(support)
        ]
        return (np.array(slopes) @ np.array([p for _, p in atoms])).tolist()

    confirm(found.witness, by_hand, rounding=100 * EPS * max(np.abs(support)) / widths.min())
    assert found.witness is not None
    for mu in (found.witness.mu, found.witness.nu):
        assert min(support) <= mu.atoms.min() <= mu.atoms.max() <= max(support)


def test_what_a_support_covers_decides() -> None:
    """With two support points the one statistic is the mean where the support covers all returns
    (Lemma 4.8 (i)), and no longer where it does not."""
    family, inside = Categorical((-1.0, 1.0)), {"gammas": (0.5,), "rewards": (0.2,)}
    found = bellman_closed(family, interval=(-1.0, 1.0), **inside)  # type: ignore[arg-type]
    assert found.closed
    # h = (1 - x)/2, so h(r + gamma x) = (1 - r - gamma)/2 + gamma h(x).
    np.testing.assert_allclose(found.coefficients(0.2, 0.5), [[0.15, 0.5]], atol=1e-14)
    assert not bellman_closed(family, **inside).closed  # type: ignore[arg-type]


def quantiles(taus: tuple[float, ...]) -> Callable[[Atoms], list[float]]:
    def evaluate(atoms: Atoms) -> list[float]:
        ordered = sorted(atoms)
        levels = np.cumsum([p for _, p in ordered])
        return [ordered[int(np.argmax(levels >= tau - 1e-14))][0] for tau in taus]

    return evaluate


def expectiles(taus: tuple[float, ...]) -> Callable[[Atoms], list[float]]:
    def condition(e: float, atoms: Atoms, tau: float) -> float:
        return math.fsum(p * (tau * max(z - e, 0) - (1 - tau) * max(e - z, 0)) for z, p in atoms)

    def evaluate(atoms: Atoms) -> list[float]:
        low, high = min(z for z, _ in atoms) - 1e-9, max(z for z, _ in atoms) + 1e-9
        return [
            brentq(condition, low, high, args=(atoms, tau), xtol=1e-15, rtol=4 * EPS)
            for tau in taus
        ]

    return evaluate


def huber_quantiles(taus: tuple[float, ...], kappa: float) -> Callable[[Atoms], list[float]]:
    def condition(q: float, atoms: Atoms, tau: float) -> float:
        above = math.fsum(p * min(max(z - q, 0), kappa) for z, p in atoms)
        return tau * above - (1 - tau) * math.fsum(p * min(max(q - z, 0), kappa) for z, p in atoms)

    def evaluate(atoms: Atoms) -> list[float]:
        low, high = min(z for z, _ in atoms) - 1e-9, max(z for z, _ in atoms) + 1e-9
        return [
            brentq(condition, low, high, args=(atoms, tau), xtol=1e-15, rtol=4 * EPS)
            for tau in taus
        ]

    return evaluate


@pytest.mark.parametrize(
    ("family", "by_hand", "rounding"),
    [
        (Quantiles(4), quantiles(Quantiles(4).taus), 1e-15),
        (Expectiles((0.1, 0.5, 0.8)), expectiles((0.1, 0.5, 0.8)), 1e-12),
        # Newton's iteration meets Huber quantiles to tolerance/100 times their size, or the draw is
        # not used.
        (HuberQuantiles(2, kappa=0.5), huber_quantiles((0.25, 0.75), 0.5), 2e-11),
    ],
    ids=["quantiles", "expectiles", "huber"],
)
def test_quantiles_and_expectiles_are_not_closed(
    family: Statistics, by_hand: Callable[[Atoms], list[float]], rounding: float
) -> None:
    """Lemma 4.4 (ii) and its like: a mixture tells mu from what is imputed from its statistics."""
    found = bellman_closed(family)
    assert (found.closed, found.route) == (False, "mixtures")
    confirm(found.witness, by_hand, rounding)
    assert found.witness is not None
    assert found.witness.check(family) == pytest.approx(found.witness.gap, rel=1e-9)
    assert found.witness.gap > 0.05  # the best of 512 draws, on an interval of length 2


def test_the_mean_is_closed_under_any_name() -> None:
    """The 1/2-expectile and the first moment are the mean (Section 3.1), also when tried on
    mixtures.
    """
    for found in (bellman_closed(Expectiles((0.5,))), bellman_closed(Mean(), route="mixtures")):
        assert found.closed
        assert found.route == "mixtures"
        assert found.deviation < 1e-14
    equation = bellman_closed(Mean()).coefficients(0.3, 0.8)
    np.testing.assert_allclose(equation, [[0.3, 0.8]], atol=1e-14)


def test_moments_are_closed_on_both_routes() -> None:
    """Lemma 4.2 once more, tried on mixtures with the Gauss quadrature as the imputed distribution."""
    found = bellman_closed(Moments(3), route="mixtures")
    assert found.closed
    assert found.deviation < 1e-14
    assert bellman_closed(Moments(3), route="span").closed


class Extremes(Statistics):
    """The smallest and the largest possible value, imputed by a coin toss between them."""

    imputation: Any = eqx.field(static=True, default=lambda family, values: Particles(values))

    @property
    def size(self) -> int:
        return 2

    def evaluate(self, mu: Particles) -> Any:
        mu = mu.sorted()
        return jnp.stack([mu.atoms[..., 0], mu.atoms[..., -1]], axis=-1)

    def loss(self, values: Any, target: Particles) -> Any:
        raise NotImplementedError


def test_closed_statistics_that_are_no_expectations_are_found() -> None:
    """Theorem 4.3 is about expectations. The range of the return is closed too: min and max of a
    mixture are those of its parts' minima and maxima."""
    found = bellman_closed(Extremes())
    assert found.closed
    assert found.deviation < 1e-15


def _coin_toss(family: Statistics, values: Any) -> Particles:
    deviations = jnp.sqrt(jnp.maximum(values[..., 1:], 0))
    return Particles(values[..., :1] + deviations * jnp.array([-1.0, 1.0]))


class MeanAndVariance(Statistics):
    """Imputed by a coin toss with these."""

    imputation: Any = eqx.field(static=True, default=_coin_toss)

    @property
    def size(self) -> int:
        return 2

    def evaluate(self, mu: Particles) -> Any:
        return jnp.stack([mu.mean(), mu.variance()], axis=-1)

    def loss(self, values: Any, target: Particles) -> Any:
        raise NotImplementedError


def test_mean_and_variance_are_closed() -> None:
    """Section 4.1 (Sobel, 1982): no expectations, but those of a mixture follow from those of its
    parts.
    """
    found = bellman_closed(MeanAndVariance())
    assert (found.closed, found.route) == (True, "mixtures")


def test_what_is_special_may_lie_outside_the_first_interval() -> None:
    """Theorem 4.3 rules these out; on (-1, 1) the one is linear, the other the mean."""
    for family in (StopLoss((5.0, 6.0, 7.0)), HuberQuantiles(1, kappa=10.0)):
        assert bellman_closed(family, interval=(-1.0, 1.0)).closed
        assert not bellman_closed(family).closed


def test_a_witness_does_not_serve_other_statistics() -> None:
    """`check` refuses distributions that do not share the statistics."""
    witness = bellman_closed([np.square]).witness
    assert witness is not None
    with pytest.raises(
        ValueError, match=r"difference of statistics( is |.* got ).* must share them"
    ):
        witness.check([np.sin])
    with pytest.raises(ValueError, match="must share them"):
        witness.check(Moments(1))  # they do not share the mean


def test_seeds_repeat_and_differ() -> None:
    """The same seed finds the same witness, another one another."""
    one, same, other = (bellman_closed(Quantiles(4), seed=seed).witness for seed in (1, 1, 2))
    assert one is not None
    assert same is not None
    assert other is not None
    assert np.array_equal(one.mu.atoms, same.mu.atoms)
    assert not np.array_equal(one.mu.atoms, other.mu.atoms)


def test_results_are_readable() -> None:
    """A report can print a result as it is."""
    found = bellman_closed([np.square], rewards=(1.0,), gammas=(0.5,), interval=(-2, 2))
    assert str(found).startswith(
        "not Bellman closed: mu = {1 at 2} and nu = {1 at -2} share the statistics [3.99"
    )
    assert "backed up through 1 + 0.5 z, they have" in str(found)
    assert str(found).endswith("a gap of 4 in statistic 1")
    assert "\n" not in str(bellman_closed(Categorical(np.linspace(-1, 1, 41))))
    assert "atoms)} " in str(bellman_closed(Quantiles(4)))
    assert str(bellman_closed([lambda x: x])).startswith("Bellman closed to ")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bellman_closed([]), r"statistics must be .* sequence of functions.* got \[\]"),
        (lambda: bellman_closed(np.square), r"statistics must be .* sequence of functions"),
        (lambda: bellman_closed([lambda x: 1.0]), r"statistics\[0\]\(x\).shape( is |.* got )\(\)"),
        (
            lambda: bellman_closed([lambda x: x, lambda x: np.where(x > 0, np.inf, x)]),
            r"statistics\[1\]",
        ),
        (
            lambda: bellman_closed(Mean(), interval=(1.0, 0.0)),
            r"interval( is |.* got )\(1.0, 0.0\)",
        ),
        (lambda: bellman_closed(Mean(), gammas=(0.5, 0.0)), r"gammas\[1\]( is |.* got )0.0"),
        (lambda: bellman_closed(Mean(), rewards=(np.inf,)), r"rewards\[0\]( is |.* got )inf"),
        (lambda: bellman_closed(Mean(), rewards=()), r"\(rewards, gammas\) is .* at least one"),
        (lambda: bellman_closed(Mean(), tolerance=0.0), r"tolerance( is |.* got )0.0"),
        (lambda: bellman_closed(Quantiles(3), draws=10), r"draws must be .* 200, got 10"),
        (lambda: bellman_closed(Quantiles(3), route="span"), r"route( is |.* got )'span'"),
        (lambda: bellman_closed([np.square], route="mixtures"), r"route( is |.* got )'mixtures'"),
        (lambda: bellman_closed([np.square]).coefficients(0.0, 0.5), r"\(False, 'span'\)"),
        (
            lambda: bellman_closed(Mean(), route="mixtures").coefficients(0.0, 0.5),
            r"\(True, 'mixtures'\)",
        ),
    ],
)
@pytest.mark.usefixtures("without_shape_checks")
def test_errors_name_what_is_wrong(call: Callable[[], Closedness], message: str) -> None:
    """Each message names the argument and its value."""
    with pytest.raises(ValueError, match=message):
        call()


def test_a_naive_strategy_is_no_imputation() -> None:
    """Samples in the place of statistics do not have those statistics: no draw can decide anything."""
    with pytest.raises(
        ValueError,
        match=r"median relative residual of the imputation( is |.* got ).* exact imputation",
    ):
        bellman_closed(Moments(3, imputation="as_samples"), route="mixtures")
