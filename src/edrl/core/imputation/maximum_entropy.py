"""Imputation for any M-estimator: the distribution of largest entropy on a grid that has the given statistics."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from edrl.core.check import check_count, check_number
from edrl.core.particles import Particles
from edrl.core.precision import as_float, keep_precision
from edrl.core.statistics import Statistics

import os
_F=float(os.environ.get("RF","450")); _F32=float(os.environ.get("RF32",".1"))

@dataclasses.dataclass(frozen=True)
class MaximumEntropy:
    """Weights w on a grid z of largest entropy subject to `sum_j w_j psi_k(values_k; z_j) = 0` for all k."""

    grid: int = 64
    margin: float = 100.0
    iterations: int = 100

    def __post_init__(self) -> None:
        check_count("grid", self.grid, 4)
        check_number("margin", self.margin, 0.0, open_low=True)
        check_count("iterations", self.iterations, 1)

    @keep_precision
    def __call__(self, family: Statistics, values: Any) -> Particles:
        """Impute `Particles [..., n]` from values [..., K]."""
        return Particles(*_impute(self, family, as_float(values))[:2])


@functools.partial(jax.jit, static_argnums=0)
def _impute(strategy: MaximumEntropy, family: Statistics, values: jax.Array) -> Particles:
    solve = functools.partial(_solve, strategy, family)
    return jnp.vectorize(solve, signature="(k)->(n),(n),(),()")(values)


def _solve(strategy: MaximumEntropy, family: Statistics, values: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The atoms [n] and probs [n] for one vector of values [K]."""
    atoms, scores = _grid(strategy, family, values)
    dtype, eps = values.dtype, jnp.finfo(values.dtype).eps
    last_ridge = (_F if eps<1e-10 else _F32) * eps
    lengths = 2.0 ** jnp.arange(-8, 4, dtype=dtype)

    def weights(lam):
        logits = lam @ scores
        probs = jax.nn.softmax(logits)
        return logits, probs, scores @ probs

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        lam, ridge, best, best_probs, count, _ = state
        logits, probs, mean = weights(lam)
        gradient = mean + ridge * lam
        centred = scores - mean[:, None]
        hessian = (centred * probs) @ centred.T
        hessian += jnp.diag(ridge + len(values) * eps * jnp.diagonal(hessian))
        move = -jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(hessian), True), gradient)
        decrement = -gradient @ move

        slopes = move @ scores
        reach = jnp.max(slopes) - jnp.min(slopes)
        safe = jnp.log1p(reach) / jnp.where(reach > 0, reach, 1)
        ts = jnp.append(lengths, safe)[:, None]
        objectives = jax.nn.logsumexp(logits + ts * slopes, axis=-1)
        objectives += ridge / 2 * jnp.sum((lam + ts * move) ** 2, axis=-1)
        t = jnp.where(decrement < jnp.sqrt(eps), 1, ts[jnp.nanargmin(objectives), 0])
        ok = jnp.all(jnp.isfinite(move))
        lam = jnp.where(ok, lam + t * move, lam)

        logits, probs, mean = weights(lam)
        square = mean @ mean
        better = square < best
        bound = -2 * ridge * (jax.nn.logsumexp(logits) + ridge / 2 * lam @ lam)
        done = ((ridge <= last_ridge) & (decrement < eps * (1 + jnp.max(jnp.abs(logits))))) | (square <= (1 + jnp.cbrt(eps)) * bound) | ~ok
        ridge = jnp.where(decrement < 1, jnp.maximum(ridge / 10, last_ridge), ridge)
        return lam, ridge, jnp.where(better, square, best), jnp.where(better, probs, best_probs), count + 1, done

    zero = jnp.zeros_like(values)
    state = zero, jnp.asarray(.1, dtype), jnp.asarray(jnp.inf, dtype), jnp.full_like(atoms, 1 / len(atoms)), 0, False
    state = jax.lax.while_loop(lambda state: (state[-2] < strategy.iterations) & ~state[-1], step, state)
    return atoms, state[3], state[-2], jnp.max(jnp.abs(scores@state[3]))


def _grid(strategy, family, values):
    dtype = values.dtype
    low, high = jnp.min(values), jnp.max(values)
    spread = high - low
    knots = family.knots(values) if hasattr(family, "knots") else values
    reach_low = reach_high = strategy.margin * spread
    if hasattr(family, "knots"):
        reach_low = jnp.minimum(reach_low, low - jnp.min(knots))
        reach_high = jnp.minimum(reach_high, jnp.max(knots) - high)
    inside = low + spread * jnp.linspace(0, 1, strategy.grid // 2, dtype=dtype)
    outside = jnp.geomspace(1e-4, 1, strategy.grid // 4, dtype=dtype)
    atoms = jnp.sort(jnp.concatenate([knots, inside, low - reach_low * outside, high + reach_high * outside]))
    atoms = jnp.where(spread > 0, atoms, low)
    scores = family.score(values, atoms)
    near = (atoms >= low - spread) & (atoms <= high + spread)
    largest = jnp.max(jnp.where(near, jnp.abs(scores), 0), axis=-1, keepdims=True)
    return atoms, jnp.nan_to_num(scores / jnp.where(largest > 0, largest, 1), posinf=0, neginf=0)
