"""Targets and losses of agents with many quantiles, and of one from its score alone, against the
forms that they replaced: one core, float32.

The old forms are kept here as they were: XLA's sort, searches of the centres of gaps, and losses of
all pairs summed by XLA.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import side_by_side
from edrl import HuberQuantiles, MEstimator, Particles, Quantiles, midpoints
from edrl.core.families.balance import balance_point
from edrl.core.families.levels import column
from edrl.core.lambda_returns import lambda_returns
from edrl.core.particles import level_rounding
from edrl.core.statistics import Statistics, expect

_STEPS, _LANES, _ROUNDS = 32, 32, 7


class SmoothQuantiles(MEstimator):
    """README's."""

    taus: tuple[float, ...] = midpoints(7)

    @property
    def size(self) -> int:
        return len(self.taus)

    def score(self, values: Any, atoms: Any) -> Any:
        error, taus = atoms[..., None, :] - values[..., :, None], jnp.asarray(self.taus)[:, None]
        return -jnp.where(error > 0, taus, 1 - taus) * jnp.tanh(2 * error)


class OldQuantiles(Quantiles):
    def __init__(self, size: int) -> None:
        super().__init__(size)

    def evaluate(self, mu: Particles) -> Any:
        return _old_quantile(_old_sorted(mu), self.taus)

    def loss(self, values: Any, target: Particles) -> Any:
        error = target.atoms[..., None, :] - values[..., :, None]
        taus = column(self.taus, error.dtype)
        return expect(target, jnp.where(error >= 0, taus, taus - 1) * error)


class OldHuberQuantiles(HuberQuantiles):
    def __init__(self, size: int, imputation: str) -> None:
        super().__init__(size, imputation=imputation)

    def evaluate(self, mu: Particles) -> Any:
        mu = _old_sorted(mu)
        origin = mu.atoms[..., mu.size // 2 : mu.size // 2 + 1]
        atoms, kappa = mu.atoms - origin, self.kappa
        knots = jnp.sort(jnp.concatenate([atoms - kappa, atoms, atoms + kappa], axis=-1), axis=-1)
        gaps, centres = jnp.diff(knots, axis=-1), (knots[..., 1:] + knots[..., :-1]) / 2
        start = jnp.zeros_like(atoms[..., :1])
        levels = jnp.concatenate([start, jnp.cumsum(mu.probs, axis=-1)], axis=-1)

        def cdf(x: jax.Array) -> jax.Array:
            return jnp.take_along_axis(levels, _count_up_to(atoms, x), axis=-1)

        rising = (cdf(centres) - cdf(centres - kappa)) * gaps
        falling = (cdf(centres + kappa) - cdf(centres)) * gaps
        below = jnp.concatenate([start, jnp.cumsum(rising, axis=-1)], axis=-1)
        above = jnp.cumsum(falling[..., ::-1], axis=-1)[..., ::-1]
        above = jnp.concatenate([above, start], axis=-1)
        taus = jnp.asarray(self.taus, atoms.dtype)
        balanced = balance_point(knots, below, above, taus, rounding=level_rounding(knots))
        largest = jnp.max(jnp.where(mu.probs > 0, jnp.abs(atoms), 0), axis=-1, keepdims=True)
        digits = kappa > 64 * jnp.finfo(atoms.dtype).eps * largest
        return jnp.where(digits, origin + balanced, _old_quantile(_old_sorted(mu), taus))

    def loss(self, values: Any, target: Particles) -> Any:
        error = target.atoms[..., None, :] - values[..., :, None]
        taus, size = column(self.taus, error.dtype), jnp.abs(error)
        capped = jnp.minimum(size, self.kappa)
        losses = jnp.where(error > 0, taus, 1 - taus) * capped * (size - capped / 2)
        scores = self.score(values, target.atoms)
        return _old_expectation(values, target, losses, scores)


class OldSmoothQuantiles(SmoothQuantiles):
    def loss(self, values: Any, target: Particles) -> Any:
        fixed = jax.lax.stop_gradient(values)
        q, z = fixed[..., None, :], target.atoms[..., :, None]
        places, shares = np.polynomial.legendre.leggauss(8)
        nodes = jnp.asarray((places + 1) / 2, values.dtype)[:, None, None]
        path = z[..., None, :, :] + nodes * (q - z)[..., None, :, :]
        along = self.score(path, z[..., None, :, :])[..., 0]
        weights = jnp.asarray(shares / 2, values.dtype)[:, None, None]
        area = jnp.swapaxes((q - z) * jnp.sum(weights * along, axis=-3), -1, -2)
        slope = jax.lax.stop_gradient(self.score(values, target.atoms))
        return expect(target, area + slope * (values - fixed)[..., :, None])


PAIRS: dict[str, tuple[Statistics, Statistics]] = {
    "51 quantiles": (Quantiles(51), OldQuantiles(51)),
    "200 quantiles": (Quantiles(200), OldQuantiles(200)),
    "51 Huber quantiles": (
        HuberQuantiles(51, imputation="quantile"),
        OldHuberQuantiles(51, "quantile"),
    ),
    "200 Huber quantiles as samples": (
        HuberQuantiles(200, imputation="as_samples"),
        OldHuberQuantiles(200, "as_samples"),
    ),
    "7 smooth quantiles": (SmoothQuantiles(), OldSmoothQuantiles()),
}


def run() -> dict[str, Any]:
    return {name: _compared(*pair) for name, pair in PAIRS.items()}


def _compared(new: Statistics, old: Statistics) -> dict[str, Any]:
    """The targets of a rollout, and the loss of its steps with its gradient, in microseconds a step."""
    rng, steps = np.random.default_rng(0), (_STEPS, _LANES)
    samples = rng.normal(size=(*steps, 30)) + 3 * rng.normal(size=(*steps, 1))
    exact = np.asarray(new.evaluate(Particles(samples.astype(np.float32))))
    values = jnp.asarray(exact + 0.02 * rng.normal(size=exact.shape), jnp.float32)
    rewards = jnp.asarray(rng.normal(size=steps), jnp.float32)
    discounts = jnp.asarray(np.where(rng.random(steps) < 0.02, 0, 0.99), jnp.float32)
    traces = jnp.full(steps, 0.65, jnp.float32)

    def targets(family: Statistics) -> Callable[[], Particles]:
        return lambda: lambda_returns(family, values, rewards, discounts, traces)

    goal = targets(new)()

    def learning(family: Statistics) -> Callable[[], Any]:
        @eqx.filter_jit
        def gradient(values: jax.Array, goal: Particles) -> tuple[jax.Array, jax.Array]:
            found: tuple[jax.Array, jax.Array] = jax.value_and_grad(
                lambda values: jnp.sum(family.loss(values, goal))
            )(values)
            return found

        return lambda: gradient(values, goal)

    theirs = np.asarray(targets(old)().atoms)
    return {
        "atoms": goal.size,
        "targets": _microseconds(targets(new), targets(old)),
        "targets_differ_at_most": float(np.max(np.abs(np.asarray(goal.atoms) - theirs))),
        "loss_and_gradient": _microseconds(learning(new), learning(old)),
        "gradients_differ_at_most": float(
            np.max(np.abs(np.asarray(learning(new)()[1] - learning(old)()[1])))
        ),
    }


def _microseconds(new: Callable[[], Any], old: Callable[[], Any]) -> dict[str, float]:
    """Of one step, and how many times as fast the new form is."""
    # The old forms leave large arrays to be freed, which falls into the first call after them.
    found = side_by_side(new, old, rounds=_ROUNDS, repeat=10)
    each = 1e6 / (_STEPS * _LANES)
    return {
        "new": each * found["ours_seconds"],
        "old": each * found["theirs_seconds"],
        **{name: value for name, value in found.items() if name.startswith("times")},
    }


def _old_sorted(mu: Particles) -> Particles:
    mu = mu.settled()
    return Particles(*jax.lax.sort((jnp.asarray(mu.atoms), jnp.asarray(mu.probs)), num_keys=1))


def _old_quantile(ordered: Particles, taus: Any) -> jax.Array:
    levels = jnp.cumsum(ordered.probs, axis=-1)
    reached = jnp.asarray(taus, levels.dtype)[..., :, None] - level_rounding(levels)
    first = jnp.sum(levels[..., None, :] < reached, axis=-1)
    return jnp.take_along_axis(ordered.atoms, jnp.minimum(first, ordered.size - 1), axis=-1)


def _old_expectation(values: jax.Array, target: Particles, losses: Any, scores: Any) -> jax.Array:
    losses, scores = jax.lax.stop_gradient((losses, scores))
    probs, zero = target.probs[..., None, :], jnp.zeros((), losses.dtype)
    weighted = (losses * probs, scores * probs)
    add = lambda one, other: (one[0] + other[0], one[1] + other[1])  # noqa: E731
    loss, score = jax.lax.reduce(weighted, (zero, zero), add, (losses.ndim - 1,))
    return jnp.sum(loss + score * (values - jax.lax.stop_gradient(values)), axis=-1)


_count_up_to = jnp.vectorize(
    lambda atoms, x: jnp.searchsorted(atoms, x, side="right"), signature="(n),(k)->(k)"
)
