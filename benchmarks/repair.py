"""Could one mechanism repair inconsistent expectiles for exact and robust imputation alike?

Three ways for the same rows, those that are expectiles of nothing: the repair of exact imputation,
robust imputation, and of robust imputation only the step that makes a curve convex. Distributions
and noise are those of `noise`.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.noise import distributions
from benchmarks.timing import seconds
from edrl import Expectiles, Particles
from edrl.core.imputation.robust_expectiles import atoms_through
from edrl.core.metrics import wasserstein

NOISES = (0.01, 0.03, 0.1)
SIZES = (5, 11, 51)
_EACH, _BATCH, _ROUNDS, _REPEAT = 40, 32, 30, 5
_INCONSISTENT = 1e-3  # of the range, by which an expectile moves: as `inconsistent_share` has it


def run() -> dict[str, Any]:
    with jax.enable_x64(True):
        return {f"{size} expectiles": _of_size(size) for size in SIZES}


def _of_size(size: int) -> dict[str, Any]:
    found: dict[str, Any] = {f"noise {noise:g}": _distances(size, noise) for noise in NOISES}
    return {**found, "microseconds": _costs(size)}


def _noisy(size: int, noise: float) -> tuple[Particles, np.ndarray]:
    rng, family = np.random.default_rng([size, 4]), Expectiles(size)
    truth = distributions(rng, _EACH)
    clean = np.asarray(family.evaluate(truth))
    errors = noise * np.ptp(clean, axis=-1, keepdims=True) * rng.normal(size=clean.shape)
    return truth, clean + errors


def _distances(size: int, noise: float) -> dict[str, float]:
    """Mean W1 to the truth in its standard deviations, over the rows that are inconsistent."""
    truth, values = _noisy(size, noise)
    moved = np.abs(np.asarray(Expectiles(size).residual(values))).max(-1)
    rows = moved > _INCONSISTENT * np.ptp(values, axis=-1)
    found = {"inconsistent share": float(rows.mean())}
    for name, impute in _ways(size).items():
        distance = wasserstein(impute(jnp.asarray(values)), truth, 1) / truth.std()
        found[name] = float(np.asarray(distance)[rows].mean())
    return found


def _ways(size: int) -> dict[str, Callable[[jax.Array], Particles]]:
    return {
        "repair": Expectiles(size).impute,
        "robust": Expectiles(size, imputation="robust").impute,
        "chords": _through_chords,
    }


def _through_chords(values: jax.Array) -> Particles:
    """Knots are only sorted and lowered onto chords, as after the smoothing of robust imputation."""
    size = values.shape[-1]
    knots, taus = np.arange(size) != size // 2, jnp.asarray(Expectiles(size).taus)
    mean = values[..., size // 2, None]
    scale = jnp.max(jnp.abs(values - mean), axis=-1, keepdims=True)
    atoms, probs = atoms_through((values - mean)[..., knots] / scale, taus[knots])
    return Particles(mean + scale * atoms, probs)


def _costs(size: int) -> dict[str, float]:
    """The least time of a compiled call; also where the levels are not known before, as in IQN."""
    values = jnp.asarray(_noisy(size, 0.03)[1][:_BATCH])
    taus = jnp.asarray(Expectiles(size).taus)

    def at_traced_levels(name: str) -> Callable[[jax.Array], Particles]:
        compiled = jax.jit(
            lambda values, taus: Expectiles(taus, imputation=name, mean_at=size // 2).impute(values)
        )
        return lambda values: compiled(values, taus)

    calls: dict[str, Callable[[jax.Array], Particles]] = {}
    for name, way in _ways(size).items():
        calls[name] = jax.jit(way)
    for name in ("exact", "robust"):
        calls[f"{name}, traced"] = at_traced_levels(name)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call(values)  # compiles
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            times[name].append(1e6 * seconds(functools.partial(call, values), _REPEAT))
    return {name: min(measured) for name, measured in times.items()}
