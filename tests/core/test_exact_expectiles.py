"""Exact expectile imputation: exact on consistent values, total on all others, and robust to scale."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.interpolate
import scipy.optimize
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from edrl.core.families import ExactExpectiles, Expectiles, evenly_spaced, midpoints
from edrl.core.imputation import expectile_repair
from edrl.core.metrics import integrated_cdf, wasserstein
from edrl.core.particles import Particles

SIZES = [1, 2, 3, 5, 9, 11, 51, 201]


def levels(k: int, kind: str) -> tuple[float, ...]:
    rng = np.random.default_rng(k)
    match kind:
        case "paper":
            return Expectiles(k).taus
        case "random":
            return tuple(np.sort(rng.uniform(0.005, 0.995, k)))
        case "low side":
            return tuple(np.sort(rng.uniform(0.005, 0.45, k)))
    raise ValueError(kind)


def distributions(seed: int, batch: int = 64, atoms: int = 20) -> Particles:
    """Light and heavy tails, many and few distinct atoms, dense and nearly degenerate weights."""
    rng = np.random.default_rng(seed)
    z = np.concatenate(
        [
            rng.normal(size=(batch // 4, atoms)),
            rng.standard_t(1.5, size=(batch // 4, atoms)),
            rng.integers(0, 3, size=(batch // 4, atoms)).astype(float),
            rng.exponential(size=(batch // 4, atoms)) ** 2,
        ]
    )
    p = rng.dirichlet(np.full(atoms, 0.3), size=len(z))
    return Particles(z, p / p.sum(-1, keepdims=True))


def in_double(mu: Particles) -> Particles:
    """The same numbers in float64, so that a float32 result is judged without further rounding."""
    probs = np.asarray(mu.probs, np.float64)
    return Particles(np.asarray(mu.atoms, np.float64), probs / probs.sum(-1, keepdims=True))


def spread(values: np.ndarray) -> np.ndarray:
    return np.ptp(values, axis=-1) if values.shape[-1] > 1 else np.abs(values[..., 0])


@pytest.mark.parametrize(
    ("k", "kind"),
    [
        *(
            pytest.param(k, "paper", marks=[pytest.mark.slow] if k in (2, 5, 9) else [])
            for k in SIZES
        ),
        (11, "random"),
        *(
            pytest.param(k, "low side", marks=[] if k in (1, 2, 11) else [pytest.mark.slow])
            for k in SIZES
        ),
    ],
)
def test_consistent_expectiles_are_imputed_exactly(k: int, kind: str) -> None:
    """s(Psi(s(mu))) = s(mu) for every mu (Definition 3.4): to 1e-9 of the spread in float64, 1e-4
    in float32.
    """
    family = Expectiles(levels(k, kind))
    values = np.asarray(family.evaluate(distributions(k)))
    double = family.impute(values)
    assert np.abs(family.evaluate(double) - values).max(-1) == pytest.approx(
        0, abs=1e-9 * spread(values).min()
    )
    single = family.impute(jnp.asarray(values, jnp.float32))
    assert single.atoms.dtype == jnp.float32
    error = np.abs(family.evaluate(in_double(single)) - values).max(-1)
    assert (error <= 1e-4 * spread(values)).all()


@pytest.mark.parametrize("k", SIZES)
def test_imputed_expectiles_against_scipy(k: int) -> None:
    """scipy.stats.expectile, an independent oracle, finds the values in the imputed distribution."""
    family = Expectiles(k)
    values = np.asarray(family.evaluate(distributions(k, batch=4)))
    imputed = family.impute(values)
    for row in range(len(values)):
        for tau, value in list(zip(family.taus, values[row], strict=True))[:: max(1, k // 9)]:
            atoms, weights = np.asarray(imputed.atoms[row]), np.asarray(imputed.probs[row])
            oracle = scipy.stats.expectile(atoms[weights > 0], tau, weights=weights[weights > 0])
            assert oracle == pytest.approx(value, abs=1e-9 * spread(values)[row])


@settings(max_examples=300)
@given(
    values=st.lists(st.floats(-1e300, 1e300), min_size=11, max_size=11),
    taus=st.sampled_from([Expectiles(11).taus, midpoints(11)]),
)
def test_any_finite_input_gives_a_valid_distribution_of_its_mean(
    values: list[float], taus: tuple[float, ...]
) -> None:
    """An imputation is total; the mean is the input's 1/2-expectile, whatever came in."""
    family = Expectiles(taus)
    imputed = family.impute(np.asarray(values))
    Particles(
        np.asarray(imputed.atoms), np.asarray(imputed.probs)
    )  # refuses NaN, infinities and bad weights
    assert imputed.mean() == pytest.approx(values[5], abs=1e-12 * max(map(abs, values)) + 1e-300)


@settings(max_examples=200)
@given(values=st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=10, max_size=10))
def test_any_finite_input_is_accepted_in_float32_and_without_a_mean(values: list[float]) -> None:
    """Total in single precision, and when no tau is 1/2."""
    family = Expectiles(midpoints(10))
    imputed = family.impute(jnp.asarray(values, jnp.float32))
    assert np.asarray(imputed.probs).sum() == pytest.approx(1, abs=1e-5)
    low, high = sorted(values)[4:6]
    slack = 1e-5 * max(map(abs, values)) + 1e-30
    assert low - slack <= float(imputed.mean()) <= high + slack


@pytest.mark.parametrize("log_scale", [-12, -6, 0, 6, 12])
def test_equivariance_under_scaling(log_scale: int) -> None:
    """Psi(c v) = c Psi(v) for powers of two c: to the last bit, since nothing is rounded on the
    way.
    """
    family = Expectiles(11)
    scale = 2.0 ** round(log_scale * np.log2(10))
    values = np.asarray(family.evaluate(distributions(1)))
    plain, scaled = family.impute(values), family.impute(scale * values)
    np.testing.assert_array_equal(scaled.atoms, scale * np.asarray(plain.atoms))
    np.testing.assert_array_equal(scaled.probs, plain.probs)


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9])
def test_a_large_offset_costs_no_more_than_the_rounding_of_the_input(offset: float) -> None:
    """An offset of `offset` spreads leaves eps * offset of the spread in the values; the error is a
    few of those.
    """
    family = Expectiles(11)
    values = np.asarray(family.evaluate(distributions(2)))
    values = offset + values / spread(values)[:, None]
    error = np.abs(np.asarray(family.residual(values))).max(-1)
    assert (error <= 64 * np.finfo(float).eps * offset).all()


def test_dirac_and_ties() -> None:
    """Equal expectiles are those of a point mass; ties elsewhere are inconsistent, and repaired."""
    family = Expectiles(11)
    point = family.impute(np.full(11, 3.7))
    np.testing.assert_allclose(
        np.asarray(point.atoms)[np.asarray(point.probs) > 0], 3.7, rtol=1e-15
    )
    tied = np.array([-2, -2, -2, -1, -0.5, 0, 0.5, 1, 3, 3, 3.0])
    assert family.impute(tied).mean() == pytest.approx(0, abs=1e-14)


def disordered(seed: int, batch: int = 50) -> np.ndarray:
    """Values [batch, 7] in order and around their mean, 0, but otherwise arbitrary."""
    rng = np.random.default_rng(seed)
    below, above = (np.sort(rng.exponential(size=(batch, 3))) for _ in range(2))
    return np.concatenate([-below[:, ::-1], np.zeros((batch, 1)), above], axis=-1)


def knots_and_heights(
    values: np.ndarray, taus: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = np.delete(values, 3, axis=-1)
    return x, taus / (2 * taus - 1) * x, (1 - taus) / (2 * taus - 1) * x


def half(name: str, *knots: np.ndarray, taus: np.ndarray, far: float) -> np.ndarray:
    """One of the two convex functions of the repair at the knots, in double: P where x < 0, P - x
    where x > 0.
    """
    rest = (
        (None,) if name == "_outside_in" else ()
    )  # how many knots are below the mean: not known before
    with jax.enable_x64(True):
        return np.asarray(
            getattr(expectile_repair, name)(*map(jnp.asarray, (*knots, taus)), *rest, far)
        )


def test_one_half_of_the_repair_is_the_greatest_convex_minorant() -> None:
    """Brute force: at x it is the least value of any chord over x, among all pairs of knots and the
    two asymptotes.
    """
    taus, far = np.delete(Expectiles(7).taus, 3), 1e7
    x, p, q = knots_and_heights(disordered(0), taus)
    found = half("_minorant", x, p, q, taus=taus, far=far) + np.maximum(x, 0)
    for row in range(len(x)):
        xs, ps = np.concatenate([[-far], x[row], [far]]), np.concatenate([[0.0], p[row], [far]])
        minorant = [
            min(
                ps[a] + (ps[b] - ps[a]) * (at - xs[a]) / (xs[b] - xs[a])
                for a in range(8)
                for b in range(8)
                if xs[a] <= at <= xs[b] and a != b
            )
            for at in x[row]
        ]
        np.testing.assert_allclose(found[row], minorant, atol=1e-5)


def test_the_other_half_moves_each_knot_no_further_than_it_must() -> None:
    """The heights are convex; the third knot lies where it was, or on the line or the chord of
    those outside it; and knots of a distribution stay where they are."""
    taus, far = np.delete(Expectiles(7).taus, 3), 1e7
    x, p, q = knots_and_heights(disordered(1), taus)
    found = half("_outside_in", x, p, q, taus=taus, far=far) + np.maximum(x, 0)
    slopes = np.diff(found, axis=-1) / np.diff(x, axis=-1)
    assert (np.diff(slopes, axis=-1) > -1e-12).all()
    assert ((slopes > 0) & (slopes < 1)).all()

    def line(a: int, b: int) -> np.ndarray:
        """Through two knots, at the third."""
        return found[:, a] + (found[:, b] - found[:, a]) / (x[:, b] - x[:, a]) * (x[:, 2] - x[:, a])

    least, most = np.maximum(line(0, 1), line(4, 5)), line(1, 4)
    np.testing.assert_allclose(found[:, 2], np.clip(p[:, 2], least, most), atol=1e-12)

    consistent = np.asarray(Expectiles(7).evaluate(distributions(7)))
    x, p, q = knots_and_heights(consistent - consistent[:, 3:4], taus)
    kept = half("_outside_in", x, p, q, taus=taus, far=far)
    error = np.abs(kept - np.where(taus < 0.5, p, q)).max(axis=-1)
    assert (error <= 1e-12 * np.abs(x).max(axis=-1)).all()


def test_the_repair_is_the_mixture_of_least_squares() -> None:
    """The imputed distribution's P at the knots lies between the two halves, and nowhere between
    them are squares less.
    """
    family = Expectiles(7)
    taus, far = np.delete(family.taus, 3), 1 / np.sqrt(np.finfo(float).eps)
    values = disordered(2)
    x, p, q = knots_and_heights(values, taus)
    scale = 2.0 ** np.ceil(np.log2(np.abs(x).max(axis=-1, keepdims=True) / 4)) * 4
    low, near = (
        scale * half(name, x / scale, p / scale, q / scale, taus=taus, far=far)
        for name in ("_minorant", "_outside_in")
    )
    weight = ((1 - 2 * taus) / (2 * taus * (1 - taus))) ** 2
    shares = np.linspace(0, 1, 1001)[:, None, None]
    squares = np.sum(
        weight * (low + shares * (near - low) - np.where(taus < 0.5, p, q)) ** 2, axis=-1
    )
    best = shares[squares.argmin(axis=0)][:, 0]
    imputed = family.impute(values)
    height = np.asarray(integrated_cdf(imputed, x))
    expected = low + best * (near - low) + np.where(taus < 0.5, 0, x)
    np.testing.assert_allclose(height, expected, atol=2e-3 * np.abs(near - low).max())


@pytest.mark.parametrize("noise", [0.001, 0.01, 0.03])
def test_noise_does_not_change_the_width_of_a_law(noise: float) -> None:
    """A network's outputs are near expectiles, and are none: the distribution must be near the one
    that they are near to.

    The greatest convex minorant alone makes a point mass of nearly a quarter of these at 3 %.
    """
    family, mu, rng = Expectiles(11), distributions(3), np.random.default_rng(0)
    values = np.asarray(family.evaluate(mu))
    values = values + noise * spread(values)[:, None] * rng.normal(size=values.shape)
    imputed = family.impute(jnp.asarray(values, jnp.float32))
    residual = np.abs(np.asarray(family.evaluate(imputed)) - values).mean(axis=-1) / spread(values)
    assert residual.mean() < noise
    ratio = np.asarray(imputed.std() / mu.std())
    assert 0.9 < np.median(ratio) < 1.1
    assert (ratio > 0.5).mean() > 0.95


def test_values_in_disorder_near_the_mean_do_not_make_a_point_mass() -> None:
    """What ER-DQN's network gave for a state of MinAtar's Breakout; e_0.6 to e_0.8 are below the
    mean.
    """
    values = np.array([1.018, 1.674, 1.730, 1.749, 1.754, 1.779, 1.776, 1.768, 1.771, 1.787, 1.978])
    imputed = Expectiles(11).impute(values)
    assert imputed.std() > 0.15 * np.ptp(values)
    assert np.abs(Expectiles(11).evaluate(imputed) - values).max() < 0.05 * np.ptp(values)


def knots_of(family: Expectiles, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The expectiles other than the mean, with P(x) = E[(x - Z)+] and E[(Z - x)+] there."""
    mean = family.mean_at
    taus, x = np.delete(family.taus, mean), np.delete(values, mean, axis=-1)
    centred = x - values[..., mean : mean + 1]
    return x, taus * centred / (2 * taus - 1), (1 - taus) * centred / (2 * taus - 1)


def test_midpoint_is_the_middle_of_all_distributions_with_these_expectiles() -> None:
    """Every P lies below the chord of its gap and above the neighbours' chords, prolonged:
    `midpoint` lies halfway.

    So between the second knot and the last but one no distribution is closer to all that are
    possible.
    """
    family = Expectiles(11, imputation="exact-midpoint")
    values = np.asarray(family.evaluate(distributions(4)))
    imputed = family.impute(values)
    x, p, _ = knots_of(family, values)
    slopes = np.diff(p) / np.diff(x)
    for i in range(1, 8):
        at = x[:, i : i + 1] + np.linspace(0, 1, 7) * (x[:, i + 1 : i + 2] - x[:, i : i + 1])
        before, here, after = (
            p[:, j : j + 1] + slope * (at - x[:, j : j + 1])
            for j, slope in (
                (i, slopes[:, i - 1 : i]),
                (i, slopes[:, i : i + 1]),
                (i + 1, slopes[:, i + 1 : i + 2]),
            )
        )
        middle = (here + np.maximum(before, after)) / 2
        error = np.abs(integrated_cdf(imputed, at) - middle).max(-1)
        assert (error <= 1e-12 * spread(values)).all()


def test_spline_levels_are_those_of_scipy() -> None:
    """At inner knots F is the slope of SciPy's monotone interpolant of E[(x - Z)+], above the mean
    of E[(Z - x)+].
    """
    family = Expectiles(11, imputation="exact-spline")
    values = np.asarray(family.evaluate(distributions(5)))[:16]  # dense enough for knots well apart
    imputed = family.impute(values)
    x, p, q = knots_of(family, values)
    slack = 1e-9 * spread(values)[:, None, None]  # an atom may sit on a knot
    mass_by = [
        np.sum((imputed.atoms[:, None] <= x[..., None] + shift) * imputed.probs[:, None], axis=-1)
        for shift in (-slack, slack)
    ]
    for row in range(len(values)):
        low, high = (
            scipy.interpolate.PchipInterpolator(x[row], side[row]).derivative()(x[row])
            for side in (p, q)
        )
        oracle = np.where(np.arange(10) < 5, low, 1 + high)
        assert ((mass_by[0][row] <= oracle + 1e-9) & (oracle - 1e-9 <= mass_by[1][row]))[1:-1].all()


def test_a_pair_varies_as_two_even_densities() -> None:
    """Two atoms in each gap [a, b], of mean y and variance (y - a)(b - y)/3. So do masses that are
    spread evenly over [a, y] and [y, b]. Tails hold at least half of what their chord allows."""
    family = Expectiles(11)
    values = np.asarray(family.evaluate(distributions(6)))[:16]
    imputed = family.impute(values)
    atoms, probs = (np.asarray(part).reshape(16, 11, 2) for part in (imputed.atoms, imputed.probs))
    x, p, q = knots_of(family, values)
    a, b = x[:, :-1, None], x[:, 1:, None]
    slack = 1e-12 * spread(values)[:, None, None]
    inner, mass = atoms[:, 1:-1], probs[:, 1:-1]
    assert ((a - slack <= inner) & (inner <= b + slack)).all()
    y = (np.sum(mass * inner, -1, keepdims=True) + 1e-300 * a) / (
        np.sum(mass, -1, keepdims=True) + 1e-300
    )
    variance, of_the_ends = mass * (inner - y) ** 2, mass * (y - a) * (b - y)
    np.testing.assert_allclose(
        variance.sum(-1), of_the_ends.sum(-1) / 3, atol=1e-12 * spread(values).max() ** 2
    )
    for i, rise in ((0, np.diff(p)), (-1, -np.diff(q))):
        share = probs[:, i].sum(-1) / (rise / np.diff(x))[:, i]
        assert ((share > 0.5 - 1e-6) & (share < 1 + 1e-6)).all()


def cdf_at(mu: Particles, x: np.ndarray) -> np.ndarray:
    """P(Z <= x) of distributions [batch] at points x [batch, n]."""
    return np.sum(
        (np.asarray(mu.atoms)[:, None] <= x[..., None]) * np.asarray(mu.probs)[:, None], axis=-1
    )


def test_levels_at_the_knots_are_those_of_the_page() -> None:
    """F at the knots as docs/exact-imputation.md has it, with slopes 0 and 1 beyond the outermost
    chords.

    midpoint: the mean of two slopes. pairs: midpoint, and at the outermost knots the parabola
    through three, but at least half of the way to the asymptote's slope is left to the tail.
    """
    many = Particles(
        np.random.default_rng(8).normal(size=(16, 200))
    )  # so that mass is in every gap, and on no knot
    values = np.asarray(Expectiles(11).evaluate(many))
    x, p, _ = knots_of(Expectiles(11), values)
    g, s = np.diff(x), np.diff(p) / np.diff(x)
    s = np.pad(s, [(0, 0), (1, 1)], constant_values=(0, 1))
    midpoint = (s[:, :-1] + s[:, 1:]) / 2
    pairs = midpoint.copy()
    first = g[:, 0] / (g[:, 0] + g[:, 1]) * (s[:, 2] - s[:, 1])
    last = g[:, -1] / (g[:, -2] + g[:, -1]) * (s[:, -2] - s[:, -3])
    pairs[:, 0] = s[:, 1] - np.minimum(first, s[:, 1] / 2)
    pairs[:, -1] = s[:, -2] + np.minimum(last, (1 - s[:, -2]) / 2)
    for rule, expected in {"midpoint": midpoint, "pairs": pairs}.items():
        imputed = Expectiles(11, imputation=ExactExpectiles(rule)).impute(values)  # type: ignore[arg-type]
        np.testing.assert_allclose(cdf_at(imputed, x), expected, atol=1e-7)


def test_how_far_out_the_rules_put_mass() -> None:
    """`knots` stays between the least and the greatest atom of every distribution with these
    expectiles; the default goes beyond the outermost knot at most 2 (1 + 1 / sqrt 3) times as far
    as `knots`."""
    mu = distributions(9)
    values = np.asarray(Expectiles(11).evaluate(mu))
    x, slack = knots_of(Expectiles(11), values)[0], 1e-7 * spread(values)

    def ends(of: Particles) -> tuple[np.ndarray, np.ndarray]:
        atoms, heavy = np.asarray(of.atoms), np.asarray(of.probs) > 0
        return np.where(heavy, atoms, np.inf).min(-1), np.where(heavy, atoms, -np.inf).max(-1)

    (low, high), (first, last) = (
        ends(mu),
        ends(Expectiles(11, imputation=ExactExpectiles("knots")).impute(values)),
    )
    assert ((low - slack <= first) & (last <= high + slack)).all()
    farthest = ends(Expectiles(11).impute(values))
    factor = 2 * (1 + 3**-0.5) * (1 + 1e-6)
    assert (x[:, 0] - farthest[0] <= factor * (x[:, 0] - first) + slack).all()
    assert (farthest[1] - x[:, -1] <= factor * (last - x[:, -1]) + slack).all()


def in_some_distribution(values: np.ndarray, taus: np.ndarray, reach: float) -> bool:
    """Linear programming: weights of a grid, up to `reach` beyond the values, with which these are
    its expectiles.
    """
    low, high = values.min(), values.max()
    grid = np.unique([low - reach, *np.linspace(low, high, 30), *values, high + reach])
    apart = grid - values[:, None]
    conditions = np.where(apart > 0, taus[:, None], 1 - taus[:, None]) * apart
    conditions /= np.abs(conditions).max(axis=-1, keepdims=True)
    found = scipy.optimize.linprog(
        np.zeros(len(grid)),
        A_eq=np.vstack([conditions, np.ones(len(grid))]),
        b_eq=[*np.zeros(len(taus)), 1.0],
    )
    assert found.status in (0, 2)  # solved, or infeasible
    return bool(found.status == 0)


def room(values: np.ndarray, taus: np.ndarray, mean: float, reach: float) -> float:
    """The least slack of the theorem's conditions, for returns up to `reach` beyond the values:
    below 0, one fails.
    """
    outer = taus != 0.5
    tau, x = taus[outer], values[outer] - mean
    p, width = tau / (2 * tau - 1) * x, np.ptp(values)
    order = min((np.sign(tau - 0.5) * x).min(), np.diff(x).min()) / width
    if order <= 0:
        return float(order)
    slopes = np.concatenate([p[:1] / reach, np.diff(p) / np.diff(x), 1 - (p - x)[-1:] / reach])
    return float(np.diff(slopes).min())


def most_room(values: np.ndarray, taus: np.ndarray, reach: float) -> float:
    """`room` at the mean; without it, at the best one: conditions are linear in the mean, so their
    least is concave.
    """
    if 0.5 in taus:
        return room(values, taus, values[taus == 0.5][0], reach)
    low, high = values[taus < 0.5].max(), values[taus > 0.5].min()
    if low >= high:
        return (high - low) / np.ptp(values)
    best = scipy.optimize.minimize_scalar(
        lambda mean: -room(values, taus, mean, reach),
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return -float(best.fun)


@pytest.mark.parametrize(
    "taus",
    [
        (0.2, 0.5, 0.8),
        Expectiles(7).taus,
        (0.1, 0.3, 0.5, 0.7, 0.9),
        (0.1, 0.2, 0.3, 0.5),
        (0.5, 0.6, 0.8, 0.99),
        (0.1, 0.3, 0.6, 0.9),
        (0.2, 0.3, 0.4, 0.8),
    ],
    ids=str,
)
def test_values_are_expectiles_if_and_only_if_their_chords_are_convex(
    taus: tuple[float, ...],
) -> None:
    """The theorem of docs/exact-imputation.md: for expectiles, for those with noise and for random
    numbers, it says what linear programming says; and imputation is exact on just those. Values
    close to a limit are left out."""
    family, level = Expectiles(taus), np.asarray(taus)
    rng = np.random.default_rng(len(taus))
    mu = Particles(rng.normal(size=(300, 8)), rng.dirichlet(np.full(8, 0.5), 300))
    values = np.array(family.evaluate(mu))
    noise = rng.choice([1e-3, 1e-2, 0.05], size=(100, 1)) * np.ptp(
        values[100:200], axis=-1, keepdims=True
    )
    values[100:200] += noise * rng.normal(size=(100, len(taus)))
    values[200:] = np.sort(rng.normal(size=(100, len(taus))))
    residual = np.abs(np.asarray(family.residual(values))).max(axis=-1) / np.ptp(values, axis=-1)
    verdicts = []
    for row, off in zip(values, residual, strict=True):
        reach = 100 * np.ptp(row)
        on_an_interval, anywhere = (most_room(row, level, far) for far in (reach, np.inf))
        if abs(on_an_interval) > 1e-5:
            verdicts.append(on_an_interval > 0)
            assert in_some_distribution(row, level, reach) == verdicts[-1]
        if abs(anywhere) > 1e-5:
            assert (off < 1e-9) == (anywhere > 0)
    assert len(verdicts) > 200
    assert 50 < sum(verdicts) < len(verdicts) - 25


@pytest.mark.usefixtures("without_shape_checks")
def test_unknown_levels_are_refused() -> None:
    """The message names the argument, its value and the rules there are."""
    with pytest.raises(ValueError, match=r"rule must be one of .*midpoint.*pairs.*, got 'middle'"):
        ExactExpectiles("middle")  # type: ignore[arg-type]


def test_jit_vmap_and_batches_agree() -> None:
    """Compiled, mapped and batched, the distribution is the same (an atom without mass may lie
    elsewhere).
    """
    family = Expectiles(11)
    with jax.enable_x64(True):
        values = jnp.asarray(family.evaluate(distributions(3)))
        batched = family.impute(values)
        for other in (jax.jit(lambda v: family.impute(v))(values), jax.vmap(family.impute)(values)):
            assert float(wasserstein(other, batched).max()) <= 1e-12 * float(jnp.ptp(values))


@pytest.mark.parametrize("inconsistent", [0, 1, 3, 4, 24])
def test_rows_that_are_repaired_leave_the_others_as_they_are(inconsistent: int) -> None:
    """Few inconsistent rows are repaired apart: each of 24 rows is as on its own.

    So are gradients, but for repaired rows, where chords in line leave kinks.
    """
    family = Expectiles(5)
    rng = np.random.default_rng(inconsistent)
    values = rng.uniform(0.5, 2, (24, 1)) * np.array([-1.0, -0.3, 0.1, 0.4, 1.5])
    repaired = rng.choice(24, inconsistent, replace=False)
    values[repaired] += rng.normal(0, 0.4, (inconsistent, 5))
    rest = np.delete(np.arange(24), repaired)

    def moments(values: jax.Array) -> tuple[jax.Array, Particles]:
        mu = family.impute(values)
        return jnp.sum(mu.probs * mu.atoms**2), mu

    together = jax.jit(jax.grad(moments, has_aux=True))
    alone = jax.jit(jax.vmap(jax.grad(moments, has_aux=True)))
    with jax.enable_x64(True):
        gradients, imputed = together(jnp.asarray(values).reshape(4, 6, 5))
        gradient_of_each, each = alone(jnp.asarray(values))
        for found, expected in ((imputed.atoms, each.atoms), (imputed.probs, each.probs)):
            np.testing.assert_allclose(np.reshape(found, (24, -1)), expected, rtol=0, atol=1e-13)
        gradients = np.reshape(gradients, (24, 5))
        assert np.isfinite(gradients).all()
        np.testing.assert_allclose(
            gradients[rest], np.asarray(gradient_of_each)[rest], rtol=0, atol=1e-11
        )


@functools.cache
def gradients(taus: tuple[float, ...]) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
    """Both modes' gradients of the imputed distribution's second moment, compiled once."""
    family = Expectiles(taus)

    def second_moment(values: jax.Array) -> jax.Array:
        mu = family.impute(values)
        return jnp.sum(mu.probs * mu.atoms**2)

    return jax.jit(
        lambda values: (jax.grad(second_moment)(values), jax.jacfwd(second_moment)(values))
    )


@pytest.mark.parametrize(
    "values",
    [
        np.linspace(-1, 1, 11),
        np.zeros(11),
        np.array([3, 1, 2, 5, 4, 0, 1, 1, -2, 7, 0.0]),
        np.array([-2, -2, -2, -1, -0.5, 0, 0.5, 1, 3, 3, 3.0]),
    ],
    ids=["consistent", "dirac", "unsorted", "ties"],
)
@pytest.mark.parametrize(
    "taus",
    [
        pytest.param(
            evenly_spaced(11), id="mean", marks=pytest.mark.xdist_group("gradients with the mean")
        ),
        pytest.param(
            tuple(np.linspace(0.02, 0.4, 11)),
            id="no mean",
            marks=pytest.mark.xdist_group("gradients without it"),
        ),
    ],
)
def test_gradients_are_finite(values: np.ndarray, taus: tuple[float, ...]) -> None:
    """The imputed distribution's second moment differentiates without NaN, in both modes."""
    with jax.enable_x64(True):
        assert all(np.isfinite(gradient).all() for gradient in gradients(taus)(jnp.asarray(values)))


def test_gradient_is_the_derivative() -> None:
    """On consistent values the gradient agrees with finite differences."""
    family = Expectiles(5)
    values = np.array([-1.0, -0.3, 0.1, 0.4, 1.5])

    def second_moment(values: jax.Array) -> jax.Array:
        mu = family.impute(values)
        return jnp.sum(mu.probs * mu.atoms**2)

    with jax.enable_x64(True):
        gradient = jax.grad(second_moment)(jnp.asarray(values))
        for i, direction in enumerate(np.eye(5)):
            step = 1e-6 * direction
            difference = (second_moment(values + step) - second_moment(values - step)) / 2e-6
            assert float(gradient[i]) == pytest.approx(float(difference), rel=1e-5, abs=1e-6)


def test_not_a_number_stays_visible_and_in_its_row() -> None:
    """A network that diverges must not look healthy: NaN in, NaN out, for that row only, where it is
    compiled and cannot be refused.
    """
    family = Expectiles(11)
    values = jnp.asarray(np.linspace(-1, 1, 22).reshape(2, 11), jnp.float32).at[1, 3].set(jnp.nan)
    imputed = jax.jit(family.impute)(values)
    assert np.isfinite(imputed.atoms[0]).all()
    assert np.isnan(imputed.atoms[1]).any()
