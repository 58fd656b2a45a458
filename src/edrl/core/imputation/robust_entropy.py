"""Robust imputation for any M-estimator: the distribution of largest entropy whose statistics are
near the given values, as near as their noise lets one tell.

With a ridge r, maximum entropy minimises over the weights w of the atoms on a grid

    F_r(w) = KL(w, q) + |E_w psi|^2 / (2 r),

with scores psi in units in which all values have the same noise. E_w psi is linear in w, so this is
convex. It is a penalised estimate: -alpha F_r is the logarithm of a posterior, with the prior
exp(-alpha KL(w, q)) and normal noise of variance r / alpha. So the ridge says how far the values
are believed. Each ridge of a grid has a marginal likelihood by Laplace's approximation,

    alpha^(K/2) exp(-alpha F_r) det(cov_w(psi) + r)^(-1/2),

where alpha follows from r if the noise is known, and is integrated out, with a flat prior of its
logarithm, if it is not: F_r^(-K/2) takes the place of the first two factors. The estimate is the
average of the weights over the grid of ridges, with these likelihoods.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.check import check_count, check_number, fail
from edrl.core.imputation.maximum_entropy import (
    MaximumEntropy,
    Problem,
    line_search,
    problem_for,
)
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics
from edrl.core.types import ValuesLike

_EFFORT = {"float64": (64, 1e-12)}  # the default grid and the least ridge
_LITTLE_EFFORT = (32, 1e-6)
_MOST_RIDGE = 10.0
_MARGIN = 100.0  # as in `MaximumEntropy`
_STEP = 1 / 16  # of the range: so far a value is moved to see what that does to its score
_LEAST_NOISE = 1e-3  # of a value beside the others': values without any noise can be told so


@dataclass(frozen=True)
class RobustEntropy:
    """Imputation from noisy values of M-estimators: maximum entropy, as far as they are believed.

    Entropy is relative to a kernel density estimate from the family's places. Noise moves the
    values; how far is known, or estimated for each row (docs/robust-imputation.md).
    """

    noise: float | tuple[float, ...] | None = None
    """The values' standard deviation, in their own units, or one for each; None to estimate it for
    each row. Without noise this is `MaximumEntropy`.
    """
    support: tuple[float, float] | None = None
    """The least and the greatest possible return, if they are known."""
    grid: int | None = None
    """As in `MaximumEntropy`."""
    per_decade: int = 2
    """So many ridges are tried for each power of ten, from 10 to 1e-12 in float64 and to 1e-6 in
    float32.
    """
    steps: int = 2
    """Newton steps from one ridge to the next. What has not converged has a small likelihood."""

    def __post_init__(self) -> None:
        check_noise(self.noise)
        check_support(self.support)
        if self.grid is not None:
            object.__setattr__(self, "grid", check_count("grid", self.grid, 4))
        for name in ("per_decade", "steps"):
            object.__setattr__(self, name, check_count(name, getattr(self, name), 1))

    def __call__(self, family: Statistics, values: ValuesLike) -> Particles:
        """Impute `Particles [..., n]` from values [..., K]."""
        values = jnp.asarray(values)
        if self.noise is not None and np.max(self.noise) == 0 and self.support is None:
            return MaximumEntropy(grid=self.grid)(family, values)
        grid, least = _EFFORT.get(values.dtype.name, _LITTLE_EFFORT)
        grid = self.grid or grid
        count = round(self.per_decade * np.log10(_MOST_RIDGE / least)) + 1
        ridges = jnp.asarray(np.geomspace(_MOST_RIDGE, least, count), values.dtype)
        noise, shape = self._noise_of(family.size)

        def one_row(values: jax.Array) -> tuple[jax.Array, jax.Array]:
            problem = problem_for(family, values, grid, _MARGIN, _kernel_density, self.support)
            spread, moves = _moves(family, values, problem)
            units = moves * jnp.asarray(shape, values.dtype)
            scores = problem.scores / units[:, None]
            variance = None if noise is None else jnp.asarray(noise / spread, values.dtype) ** 2
            return problem.atoms, _weights(scores, problem.reference, ridges, variance, self.steps)

        return Particles(*jnp.vectorize(one_row, signature="(k)->(n),(n)")(values))

    def _noise_of(self, size: int) -> tuple[float | None, np.ndarray]:
        """The largest standard deviation, if it is known, and how the others compare to it."""
        if self.noise is None:
            return None, np.ones(size)
        each = np.atleast_1d(np.asarray(self.noise, np.float64))
        if len(each) not in (1, size):
            right = f"it must be one number, or one for each of the {size} statistics"
            raise fail("noise", self.noise, right)
        most = float(each.max())
        compared = np.maximum(each / (most or 1), _LEAST_NOISE)
        return most, np.broadcast_to(compared, size)


def check_noise(noise: float | tuple[float, ...] | None) -> None:
    """Refuse a standard deviation that is no number of at least 0."""
    for each in np.atleast_1d(0.0 if noise is None else noise):
        check_number("noise", float(each), 0.0)


def check_support(support: tuple[float, float] | None) -> None:
    """Refuse bounds in the wrong order."""
    if support is not None and not support[0] < support[1]:
        raise fail("support", support, "it must be (low, high) with low < high")


def _kernel_density(places: jax.Array, atoms: jax.Array) -> jax.Array:
    """log q [n]: the room around each atom, times a kernel density estimate from the places.

    Its width is Scott's. Tails fall with the fourth power, so that no place is out of reach.
    """
    low, spread = jnp.min(places), jnp.max(places) - jnp.min(places)
    spread = jnp.where(spread > 0, spread, 1)
    centres, points = (places - low) / spread, (atoms - low) / spread
    width = jnp.std(centres) * len(places) ** -0.2
    distances = (points[:, None] - centres) / jnp.where(width > 0, width, 1)
    density = jnp.mean((1 + distances**2) ** -2, axis=-1)
    room = (jnp.append(points[1:], points[-1]) - jnp.append(points[0], points[:-1])) / 2
    # Where atoms coincide there is no room; they must be reachable all the same.
    log_mass = jnp.log(room + 1e-3 / len(atoms)) + jnp.log(density)
    return jax.nn.log_softmax(log_mass)


def _moves(family: Statistics, values: jax.Array, problem: Problem) -> tuple[jax.Array, jax.Array]:
    """The range of the places, and by how much E psi [K] moves when each value moves that far."""
    places = family.places(values)
    spread = jnp.max(places) - jnp.min(places)
    spread = jnp.where((spread > 0) & jnp.isfinite(spread), spread, 1)

    # By differences: scores bend at atoms, or are steps, and must not depend on rounding there.
    step = _STEP * spread
    scores = (family.score(values + side * step, problem.atoms) for side in (1, -1))
    probs = jax.nn.softmax(problem.reference)
    after, before = (jnp.sum(jnp.where(probs > 0, x * probs, 0), axis=-1) for x in scores)
    moves = jnp.abs(after - before) / (2 * _STEP) / problem.sizes
    return spread, jnp.where((moves > 0) & jnp.isfinite(moves), moves, 1)


def _weights(
    scores: jax.Array,
    reference: jax.Array,
    ridges: jax.Array,
    noise: jax.Array | None,
    steps: int,
) -> jax.Array:
    """The weights [n] for one matrix of scores [K, n]; `noise` is the values' variance, if known."""
    size, dtype, eps = len(scores), scores.dtype, float(jnp.finfo(scores.dtype).eps)
    reference = jax.nn.log_softmax(reference)

    def distribution(multipliers: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        logits = reference + multipliers @ scores
        probs = jax.nn.softmax(logits)
        return logits, probs, scores @ probs

    def newton(multipliers: jax.Array, ridge: jax.Array) -> tuple[jax.Array, jax.Array]:
        """One step, and half of the logarithm of the determinant at its start."""
        logits, probs, mean = distribution(multipliers)
        centred = scores - mean[:, None]
        hessian = (centred * probs) @ centred.T
        # What its rounding needs to be positive.
        hessian += jnp.diag(ridge + size * eps * jnp.diagonal(hessian))
        factor = jnp.linalg.cholesky(hessian)
        move = -jax.scipy.linalg.cho_solve((factor, True), mean + ridge * multipliers)
        length = line_search(logits, move @ scores, multipliers, move, ridge)
        moved = multipliers + length * move
        volume = jnp.sum(jnp.log(jnp.diagonal(factor)))
        return jnp.where(jnp.all(jnp.isfinite(moved)), moved, multipliers), volume

    def at_ridge(
        multipliers: jax.Array, ridge: jax.Array
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        multipliers, volume = newton(multipliers, ridge)
        for _ in range(steps - 1):
            multipliers, volume = newton(multipliers, ridge)
        logits, probs, mean = distribution(multipliers)
        divergence = multipliers @ mean - jax.nn.logsumexp(logits)
        objective = jnp.maximum(divergence + mean @ mean / (2 * ridge), eps)
        if noise is None:
            fit = -size / 2 * jnp.log(objective)
        else:
            # In logarithms, so that no noise at all leaves the least ridge alone.
            alpha = ridge / jnp.maximum(noise, float(jnp.finfo(dtype).tiny))
            fit = size / 2 * jnp.log(alpha) - jnp.minimum(alpha * objective, 1e30)
        return multipliers, (probs, fit - volume)

    _, (probs, fits) = jax.lax.scan(at_ridge, jnp.zeros(size, dtype), ridges)
    return jax.nn.softmax(jnp.nan_to_num(fits, nan=-jnp.inf).clip(-1e30, 1e30)) @ probs
