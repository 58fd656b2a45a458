"""Exact expectile imputation against SciPy's root, and how its cost grows with K."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import exponent, seconds, side_by_side
from edrl import Expectiles, HuberQuantiles, Particles
from edrl.core.algorithms import algorithm
from edrl.core.imputation.scipy_reference import solve_rows


def consistent_values(family: Expectiles, batch: int, seed: int = 0) -> np.ndarray:
    """The expectiles of random distributions."""
    rng = np.random.default_rng(seed)
    return np.asarray(
        family.evaluate(Particles(rng.normal(size=(batch, 32)), rng.dirichlet(np.ones(32), batch)))
    )


def against_scipy() -> dict[str, Any]:
    """A batch of 32 x 11: one compiled call against one `scipy.optimize.root` a row, both in
    float64.
    """
    family = Expectiles(11)
    values = consistent_values(family, 32)
    with jax.enable_x64(True):
        on_device = jnp.asarray(values)
        impute = family.impute
        result = side_by_side(
            lambda: impute(on_device).atoms,
            lambda: solve_rows(family, values, "root"),
            rounds=7,
            repeat=200,
        )
        many = consistent_values(family, 300, seed=1)
        atoms, success = solve_rows(family, many, "root")
        scipy_error = np.abs(np.asarray(family.evaluate(Particles(atoms))) - many).max(-1) / np.ptp(
            many, axis=-1
        )
        our_error = np.abs(np.asarray(family.residual(many))).max(-1) / np.ptp(many, axis=-1)
    return {
        **result,
        "scipy_success_share": float(success.mean()),
        "scipy_error_median": float(np.median(scipy_error)),
        "scipy_error_worst": float(scipy_error.max()),
        "our_error_worst": float(our_error.max()),
    }


def growth() -> dict[str, Any]:
    """The time of a batch of 256 consistent vectors as K grows, and of inconsistent ones, which
    need the repair.
    """
    sizes, rows = [11, 21, 51, 101, 201], {}
    for kind in ("consistent", "inconsistent"):
        times = []
        for k in sizes:
            family = Expectiles(k)
            values = consistent_values(family, 256)
            if kind == "inconsistent":
                values = values + 0.05 * np.random.default_rng(0).normal(size=values.shape)
            on_device = jnp.asarray(values, jnp.float32)
            impute = functools.partial(family.impute, on_device)
            jax.block_until_ready(impute())
            times.append(float(np.median([seconds(impute, 20) for _ in range(7)])))
        k_log_k = (sizes[-1] * np.log(sizes[-1])) / (sizes[0] * np.log(sizes[0]))
        rows[kind] = {
            "sizes": sizes,
            "times_of_the_smallest": [time / times[0] for time in times],
            "exponent": exponent(sizes, times),
            "growth": times[-1] / times[0],
            "growth_of_k_log_k": float(k_log_k),
        }
    return rows


def quick_entropy() -> dict[str, Any]:
    """The strategy of QR-DQN-imputation against maximum entropy to the end: time and residuals, for
    rows as a network puts them out: Huber quantiles of random distributions with noise, in units of each
    row's range."""
    quick, full = algorithm("QR-DQN-imputation"), HuberQuantiles(11)
    rng, found = np.random.default_rng(0), {}
    for noise in (0.0, 0.01, 0.05):
        scale = rng.uniform(0.3, 3, (32, 1))
        atoms = rng.uniform(0, 10, (32, 1)) + scale * rng.normal(size=(32, 30))
        values = np.asarray(full.evaluate(Particles(atoms, rng.dirichlet(np.ones(30), 32))))
        spread = np.ptp(values, axis=-1, keepdims=True)
        rows = jnp.asarray(values + noise * spread * rng.normal(size=values.shape), jnp.float32)
        ways = (functools.partial(family.impute, rows) for family in (quick, full))
        residuals = [
            np.abs(np.asarray(family.residual(rows))).max(-1) / spread[:, 0]
            for family in (quick, full)
        ]
        found[f"noise {noise:g}"] = {
            **side_by_side(*ways, rounds=7, repeat=20),
            **{
                f"{which}_residual_{name}": float(np.quantile(residual, share))
                for which, residual in zip(("quick", "full"), residuals, strict=True)
                for name, share in (("median", 0.5), ("of_ninety_per_cent", 0.9))
            },
        }
    return found


def run() -> dict[str, Any]:
    return {
        "exact imputation against scipy.optimize.root, 32 x 11": against_scipy(),
        "growth with K": growth(),
        "maximum entropy, quick against full, 32 x 11": quick_entropy(),
    }
