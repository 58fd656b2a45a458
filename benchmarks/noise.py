"""Imputation from expectiles and Huber quantiles with noise, as networks put them out: is the
result near the distribution that they are near to?

The robust imputation was chosen on other distributions (gamma, Laplace, log-normal, uniform, four
atoms, Bernoulli, mixtures of three, Pareto) with other seeds. It must estimate the noise.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from edrl import Expectiles, HuberQuantiles, Particles
from edrl.core.families import LevelStatistics
from edrl.core.metrics import wasserstein

KINDS: dict[str, Callable[..., LevelStatistics]] = {
    "expectiles": Expectiles,
    "Huber quantiles": HuberQuantiles,
}
ROBUST = {
    "expectiles": {"robust-free-mean": "robust, free mean", "robust": "robust"},
    "Huber quantiles": {"robust": "robust"},
}
_RIVALS_FOR_ALL = {
    "scipy-root": "SciPy root",
    "scipy-minimize": "SciPy minimise",
    "maximum-entropy": "maximum entropy",
    "equal-weights": "equal weights",
    "as_samples": "as samples",
}
RIVALS = {
    "expectiles": {"exact": "exact", **_RIVALS_FOR_ALL},
    "Huber quantiles": _RIVALS_FOR_ALL,
}
TOO_SLOW = {("Huber quantiles", 51): ("scipy-root", "scipy-minimize")}
"""Left out for their time; they are far behind with fewer values."""
NOISES = (0.0, 0.001, 0.01, 0.03, 0.1)
SIZES = {5: 12, 11: 12, 51: 4}
"""How many distributions of each kind are imputed: SciPy takes seconds for 51 expectiles."""
SHAPES = {"even": "at all levels", "tails": "more in the tails"}


def distributions(rng: np.random.Generator, each: int) -> Particles:
    """Normal, exponential, of three values, with heavy tails, with two modes: 30 atoms each."""
    modes = np.where(rng.random((each, 30)) < rng.uniform(0.2, 0.8, (each, 1)), -3.0, 3.0)
    kinds = [
        rng.normal(size=(each, 30)),
        rng.exponential(size=(each, 30)),
        rng.choice([-1.0, 0.0, 2.0], size=(each, 30)),
        rng.standard_t(3, size=(each, 30)),
        modes + rng.normal(size=(each, 30)),
    ]
    return Particles(np.concatenate(kinds))


def noise_of(shape: str, taus: np.ndarray) -> np.ndarray:
    """Standard deviations as multiples of the noise: 1, or from 1/2 at 1/2 to 2 in the tails."""
    return np.ones_like(taus) if shape == "even" else 0.5 + 1.5 * np.abs(2 * taus - 1)


def run() -> dict[str, Any]:
    """For each kind and number of statistics, shape of the noise and noise in units of the values'
    range: the mean Wasserstein-1 distance to the distribution without noise, in its standard
    deviations, and the mean residual in units of the range."""
    with jax.enable_x64(True):
        return {
            f"{size} {kind}, noise {SHAPES[shape]}": {
                f"noise {noise:g}": _cell(kind, size, shape, noise) for noise in NOISES
            }
            for kind in KINDS
            for size in SIZES
            for shape in SHAPES
        }


def _cell(kind: str, size: int, shape: str, noise: float) -> dict[str, dict[str, float]]:
    rng, family = np.random.default_rng([size, len(shape)]), KINDS[kind](size)
    truth = distributions(rng, SIZES[size])
    clean = np.asarray(family.evaluate(truth))
    spread = np.ptp(clean, axis=-1, keepdims=True)
    errors = rng.normal(size=clean.shape) * noise_of(shape, np.asarray(family.taus))
    values = clean + noise * spread * errors
    found, slow = {}, TOO_SLOW.get((kind, size), ())
    for name in (name for name in (*ROBUST[kind], *RIVALS[kind]) if name not in slow):
        imputed = KINDS[kind](size, imputation=name).impute(values)
        residual = np.abs(np.asarray(family.evaluate(imputed)) - values).mean(-1) / spread[:, 0]
        distance = np.asarray(wasserstein(imputed, truth, 1)) / np.asarray(truth.std())
        found[name] = {
            "wasserstein": float(distance.mean()),
            "residual": float(residual.mean()),
        }
    return found


def noise_table(results: dict[str, Any], kind: str) -> str:
    """For docs/robust-imputation.md: distances, with the least of each row in bold."""
    names = {**ROBUST[kind], **RIVALS[kind]}
    lines = [
        f"| {kind}, noise | " + " | ".join(names.values()) + " |",
        "|---|" + "---|" * len(names),
    ]
    for title, cells in _of_kind(results, kind).items():
        for noise in NOISES:
            cell = cells[f"noise {noise:g}"]
            found = {name: cell[name]["wasserstein"] for name in names if name in cell}
            least = min(found.values())
            marked = [_marked(found.get(name), least) for name in names]
            label = f"{title.replace(f' {kind}, noise', ',')}: {100 * noise:g} %"
            lines.append(f"| {label} | " + " | ".join(marked) + " |")
    return "\n".join(lines)


def _marked(distance: float | None, least: float) -> str:
    """Bold if it is the least; a dash for a rival that was too slow."""
    if distance is None:
        return "–"
    return f"**{distance:.3f}**" if distance <= least else f"{distance:.3f}"


def where_it_fails(results: dict[str, Any], kind: str, robust: str) -> list[str]:
    """The cells in which a rival is nearer to the truth, to three digits."""
    failures = []
    for title, cells in _of_kind(results, kind).items():
        for noise in NOISES:
            found = {name: cell["wasserstein"] for name, cell in cells[f"noise {noise:g}"].items()}
            best = min(found.keys() & RIVALS[kind], key=lambda name: found[name])
            if round(found[robust], 3) > round(found[best], 3):
                lead = f"{found[best]:.3f} against {found[robust]:.3f}"
                failures.append(f"{title}, {100 * noise:g} %: {RIVALS[kind][best]}, {lead}")
    return failures


def _of_kind(results: dict[str, Any], kind: str) -> dict[str, Any]:
    return {title: cells for title, cells in results.items() if f" {kind}, " in title}
