"""Imputation from expectiles with noise, as networks put them out: is the result near the one that
they are near to?
"""

from typing import Any

import numpy as np

from edrl import Expectiles, Particles
from edrl.core.metrics import wasserstein

STRATEGIES = {
    "exact": "exact",
    "scipy-root": "SciPy's root",
    "maximum-entropy": "maximum entropy",
    "as_samples": "as samples (naive)",
}
NOISES = (0.0, 0.001, 0.01, 0.03, 0.1)
_EACH = 50


def laws(rng: np.random.Generator) -> Particles:
    """Normal, exponential, of three values, and with heavy tails: 30 atoms each."""
    kinds = [
        rng.normal(size=(_EACH, 30)),
        rng.exponential(size=(_EACH, 30)),
        rng.choice([-1.0, 0.0, 2.0], size=(_EACH, 30)),
        rng.standard_t(3, size=(_EACH, 30)),
    ]
    return Particles(np.concatenate(kinds))


def run() -> dict[str, Any]:
    """For each noise, in units of the expectiles' range: residuals in the same units, the standard
    deviation and the Wasserstein-1 distance to the distribution without noise."""
    rng, family = np.random.default_rng(0), Expectiles(11)
    truth = laws(rng)
    clean = np.asarray(family.evaluate(truth))
    spread = np.ptp(clean, axis=-1, keepdims=True)
    found: dict[str, Any] = {}
    for noise in NOISES:
        values = clean + noise * spread * rng.normal(size=clean.shape)
        found[f"noise {noise:g}"] = {}
        for strategy in STRATEGIES:
            imputed = Expectiles(11, imputation=strategy).impute(values)
            residual = np.abs(np.asarray(family.evaluate(imputed)) - values).mean(-1) / spread[:, 0]
            width = np.asarray(imputed.std()) / np.asarray(truth.std())
            distance = np.asarray(wasserstein(imputed, truth, 1)) / np.asarray(truth.std())
            found[f"noise {noise:g}"][strategy] = {
                "residual": float(residual.mean()),
                "std_ratio_median": float(np.median(width)),
                "std_ratio_least": float(width.min()),
                "std_ratio_most": float(width.max()),
                "wasserstein": float(distance.mean()),
            }
    return found


def noise_table(results: dict[str, Any]) -> str:
    """For docs/exact-imputation.md."""
    lines = ["| noise | imputation | residual | width | W1 |", "|---|---|---|---|---|"]
    for noise in NOISES:
        for strategy, name in STRATEGIES.items():
            found = results[f"noise {noise:g}"][strategy]
            least_to_most = f"{found['std_ratio_least']:.2f} to {found['std_ratio_most']:.2f}"
            width = f"{found['std_ratio_median']:.2f} ({least_to_most})"
            lines.append(
                f"| {100 * noise:g} % | {name} | {found['residual']:.4f} | {width} | {found['wasserstein']:.2f} |"
            )
    return "\n".join(lines)
