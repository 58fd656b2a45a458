"""Heads: whatever a network puts out, the values are statistics of some distribution."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from contracts import random_particles
from edrl import Expectiles, HuberQuantiles, Mean, Particles, Quantiles
from edrl.core.families import LevelStatistics
from edrl.core.families.heads import _LEAST, Chords

HEADS: dict[str, LevelStatistics] = {
    "chords-11": Expectiles(11, head="chords"),
    "chords-without-mean": Expectiles(4, head="chords"),
    "chords-low-side": Expectiles((0.05, 0.2, 0.4), head="chords"),
    "chords-high-side": Expectiles((0.5, 0.9), head="chords"),
    "atoms-11": Expectiles(11, head="atoms"),
    "quantiles-uneven": Quantiles((0.01, 0.2, 0.25, 0.9), head="ordered"),
    "huber-ordered": HuberQuantiles(5, head="ordered"),
    "huber-atoms": HuberQuantiles(5, head="atoms"),
}
every_head = pytest.mark.parametrize("name", HEADS)
one_of_each = pytest.mark.parametrize("name", ["chords-11", "atoms-11", "huber-ordered"])
ROWS = 16  # in every test, so that each head is compiled once
SCALES = (0.0, 1e-3, 1.0, 30.0, 1e4)


def raw_outputs(family: LevelStatistics, seed: int, dtype: Any = np.float64) -> np.ndarray:
    """Outputs of every size, from zero to what no network should put out."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice(SCALES, size=(ROWS, family.num_outputs))
    sizes[: ROWS // 4] = 1.0
    return (sizes * rng.normal(size=sizes.shape)).astype(dtype)


def usual_outputs(family: LevelStatistics, seed: int) -> np.ndarray:
    """Outputs of about 1."""
    return np.random.default_rng(seed).normal(size=(ROWS, family.num_outputs))


def rounding(values: np.ndarray) -> np.ndarray:
    """How far values of this size may be from what they should be."""
    eps = float(np.finfo(values.dtype).eps)
    return np.asarray(64 * eps * np.abs(values).max(axis=-1))


def infeasible(family: LevelStatistics, values: np.ndarray) -> float:
    """How far the expected scores are from 0, at least, under any distribution.

    Scores are linear between knots, so all mass may sit on knots, and far out on either side.
    """
    knots = family.knots(values)
    places = values if knots is None else np.asarray(knots)
    width = max(float(np.ptp(places)), 1e-9)
    far = 1e4 * width if knots is None else 0.0
    atoms = np.sort(np.concatenate([places, [places.min() - far, places.max() + far]]))
    scores = np.asarray(family.score(values, atoms)) / width
    size, n = scores.shape
    slack = np.ones((size, 1))
    found = linprog(
        np.append(np.zeros(n), 1.0),
        A_ub=np.block([[scores, -slack], [-scores, -slack]]),
        b_ub=np.zeros(2 * size),
        A_eq=np.append(np.ones(n), 0.0)[None],
        b_eq=[1.0],
    )
    assert found.success
    return float(found.fun)


@every_head
@settings(max_examples=6)
@given(seed=st.integers(0, 2**32 - 1))
def test_values_are_in_order_and_finite(name: str, seed: int) -> None:
    values = np.asarray(HEADS[name].link(raw_outputs(HEADS[name], seed)))
    assert np.isfinite(values).all()
    assert (np.diff(values, axis=-1) >= -rounding(values)[:, None]).all()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("chords-11", np.float64),
        ("chords-11", np.float32),
        ("atoms-11", np.float32),
        ("chords-low-side", np.float32),
        ("quantiles-uneven", np.float32),
    ],
)
@settings(max_examples=6)
@given(seed=st.integers(0, 2**32 - 1))
def test_imputation_has_nothing_to_repair(name: str, dtype: Any, seed: int) -> None:
    """Exact imputation gives the values back to rounding: none is inconsistent."""
    family = HEADS[name]
    outputs = jnp.asarray(raw_outputs(family, seed, dtype=dtype))
    values = np.asarray(family.link(outputs))
    assert values.dtype == dtype
    residual = np.abs(np.asarray(family.residual(values))).max(axis=-1)
    spread = np.ptp(values, axis=-1)
    within = {np.float32: 1e-3, np.float64: 1e-7}[dtype] * spread
    assert (residual <= within + rounding(values)).all()


@pytest.mark.parametrize(
    "name",
    ["chords-11", "chords-without-mean", "chords-low-side", "chords-high-side", "atoms-11", "huber-atoms"],
)  # fmt: skip
def test_a_distribution_with_these_statistics_exists(name: str) -> None:
    """By linear programming, which knows nothing of heads and imputations."""
    family = HEADS[name]
    for values in np.asarray(family.link(usual_outputs(family, 3)))[:8]:
        assert infeasible(family, values) < 1e-6


def test_order_alone_does_not_make_huber_quantiles() -> None:
    """What the head `ordered` cannot promise for them, and `atoms` can."""
    family = HEADS["huber-ordered"]
    values = np.asarray(family.link(3 * usual_outputs(family, 0)))
    assert max(infeasible(family, row) for row in values[:8]) > 1e-3


def test_outputs_of_zero_are_a_uniform_distribution() -> None:
    grid = Particles(np.linspace(-1, 1, 20_001))
    for family, within in (
        (Expectiles(11, head="chords"), 1e-3),
        (Quantiles(5, head="ordered"), 1e-3),
    ):
        values = np.asarray(family.link(np.zeros(family.num_outputs)))
        uniform = np.asarray(family.evaluate(grid))
        np.testing.assert_allclose(values / values[-1], uniform / uniform[-1], atol=within)
        assert 0.5 < np.ptp(values) < 1.5


def chord_outputs(family: Expectiles, values: np.ndarray) -> np.ndarray:
    """The raw outputs that give expectiles, by the formulas of Theorem 1 of exact imputation."""
    taus = np.asarray(family.taus)
    assert family.mean_at is not None
    mean = values[:, family.mean_at]
    x = np.delete(values, family.mean_at, axis=-1) - mean[:, None]
    ratio = np.delete(taus, family.mean_at)
    heights = x * ratio / (2 * ratio - 1)
    slopes = np.diff(heights, axis=-1) / np.diff(x, axis=-1)
    below = family.mean_at - 1  # the chord that crosses the mean
    at_mean = heights[:, below] - slopes[:, below] * x[:, below]
    ends = np.zeros((len(x), 1)), np.ones((len(x), 1))
    shares = np.diff(np.concatenate([ends[0], slopes, ends[1]], axis=-1), axis=-1)
    cdf = np.sqrt(ratio) / (np.sqrt(ratio) + np.sqrt(1 - ratio))
    start = np.diff(np.concatenate([[0], (cdf[1:] + cdf[:-1]) / 2, [1]]))
    logits = np.log(np.maximum(shares - _LEAST * start, 1e-12)) - np.log(start)
    scale = np.log(np.expm1(at_mean)) + 2.0
    return np.column_stack([mean, scale, logits])


def test_chords_reach_every_vector_of_expectiles() -> None:
    """Exactly for distributions with some mass everywhere, nearly for those of a few atoms."""
    family = HEADS["chords-11"]
    assert isinstance(family, Expectiles)
    rng = np.random.default_rng(1)
    sizes = rng.uniform(0.1, 9, (ROWS, 1))
    dense = Particles(sizes * rng.standard_t(4, size=(ROWS, 400)))
    values = np.asarray(family.evaluate(dense))
    found = np.asarray(family.link(chord_outputs(family, values)))
    np.testing.assert_allclose(found, values, rtol=1e-9, atol=1e-9)
    values = np.asarray(family.evaluate(random_particles(5)))
    values = values[np.ptp(values, axis=-1) > 0]  # the others are point masses
    found = np.asarray(family.link(chord_outputs(family, values)))
    assert (np.abs(found - values).max(axis=-1) < 0.01 * np.ptp(values, axis=-1)).all()


@pytest.mark.parametrize("family", [HEADS["atoms-11"], HEADS["huber-atoms"]], ids=["e", "h"])
def test_atoms_reach_the_statistics_of_as_many_atoms(family: LevelStatistics) -> None:
    n, rng = family.size, np.random.default_rng(2)
    start = np.asarray(family.link(np.zeros(family.num_outputs)))
    assert np.ptp(start) < 1.5
    atoms, probs = 3 * rng.normal(size=(ROWS, n)), rng.dirichlet(np.full(n, 2.0), ROWS)
    mu = Particles(atoms, probs)
    from_start = atoms - np.linspace(-1, 1, n) * 4 * np.log1p(np.exp(-2.0))
    outputs = np.column_stack([mu.mean(), from_start, np.log(probs)])
    values = np.asarray(family.evaluate(mu))
    found = np.asarray(family.link(outputs))
    assert (np.abs(found - values).max(axis=-1) < 0.01 * np.ptp(atoms, axis=-1)).all()


@every_head
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    family = HEADS[name]
    outputs = jnp.asarray(usual_outputs(family, 4))
    along = jnp.asarray(usual_outputs(family, 5))
    _, slope = jax.jvp(family.link, (outputs,), (along,))
    step = 1e-6
    ahead, behind = family.link(outputs + step * along), family.link(outputs - step * along)
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-6)


@one_of_each
def test_gradients_of_the_loss_are_finite(name: str) -> None:
    """Also of extreme outputs in single precision."""
    family = HEADS[name]
    extreme = jnp.asarray(raw_outputs(family, 6, dtype=np.float32))
    target = Particles(jnp.zeros((ROWS, 3), jnp.float32))
    gradient = jax.grad(lambda outputs: jnp.sum(family.loss_on_outputs(outputs, target)))
    assert np.isfinite(gradient(extreme)).all()


@pytest.mark.parametrize("name", ["chords-11", "atoms-11"])
def test_a_target_with_the_same_statistics_asks_for_no_change(name: str) -> None:
    family = HEADS[name]
    outputs = jnp.asarray(usual_outputs(family, 5))
    own = family.impute(family.link(outputs))

    @jax.jit
    def gradient(shift: float) -> jax.Array:
        target = Particles(own.atoms + shift, own.probs)
        return jax.grad(lambda outputs: jnp.sum(family.loss_on_outputs(outputs, target)))(outputs)

    assert np.abs(gradient(0.0)).max() < 1e-9
    assert np.abs(gradient(1.0)).max() > 0.1


@pytest.mark.parametrize("name", ["chords-11", "atoms-11"])
def test_the_mean_learns_as_that_of_dqn(name: str) -> None:
    """The gradient of the first output is that of a single expectile, whatever the shape is."""
    family = HEADS[name]
    outputs = jnp.asarray(usual_outputs(family, 9))
    target = Particles(np.random.default_rng(9).normal(size=(ROWS, 3)))
    loss, gradient = jax.value_and_grad(
        lambda outputs: jnp.sum(family.loss_on_outputs(outputs, target)) / family.size
    )(outputs)
    of_dqn = jax.grad(lambda mean: jnp.sum(Mean().loss(mean, target)))(outputs[:, :1])
    np.testing.assert_allclose(gradient[:, :1], of_dqn, atol=1e-9)
    assert loss * family.size == pytest.approx(
        float(jnp.sum(family.loss(family.link(outputs), target)))
    )


@one_of_each
def test_heads_compile_and_map(name: str) -> None:
    """A family may be an argument of a compiled function: its levels are then traced. The first
    output is what actions are chosen by.
    """
    family = HEADS[name]
    outputs = usual_outputs(family, 7)
    values = family.link(outputs)
    compiled = jax.jit(lambda family, outputs: family.link(outputs))
    np.testing.assert_allclose(compiled(family, outputs), values, rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(family.link)(outputs), values, rtol=1e-12)
    mean = jnp.mean(values, axis=-1) if name == "huber-ordered" else family.mean(values)
    np.testing.assert_allclose(mean, outputs[:, 0], atol=1e-12)


def test_a_single_statistic_needs_no_head() -> None:
    family = Expectiles(1, head="chords")
    assert family.num_outputs == 1
    np.testing.assert_array_equal(family.link(np.array([3.0])), [3.0])


def test_chords_must_know_their_sides() -> None:
    def link(taus: jax.Array, mean_at: int | None) -> jax.Array:
        family = Expectiles(taus, head="chords", mean_at=mean_at)
        return family.link(jnp.zeros(family.num_outputs))

    taus = jnp.array([0.2, 0.5, 0.7])
    compiled = jax.jit(link, static_argnums=1)
    np.testing.assert_allclose(compiled(taus, 1), link(taus, 1))
    with pytest.raises(ValueError, match="mean_at"):
        compiled(taus, None)
    with pytest.raises(ValueError, match="head must be left out here"):
        Quantiles(3, head=Chords()).link(np.zeros(3))


@pytest.mark.parametrize(
    ("kind", "head", "words"),
    [(Expectiles, "ordered", "chords, atoms"), (Quantiles, "chords", "ordered"),
     (HuberQuantiles, "order", r"ordered, atoms \(did you mean ordered\?\)")],
)  # fmt: skip
def test_heads_of_other_statistics_are_refused(kind: Any, head: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"head must be one of {words}, got '{head}'"):
        kind(5, head=head)
