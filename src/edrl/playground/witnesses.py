"""The witnesses that `bellman_closed` finds, for the page: `python -m edrl.playground.witnesses`."""

import json
from pathlib import Path

import numpy as np

from edrl.core.families import Categorical, Expectiles, Moments, Quantiles
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics
from edrl.theory.closedness import bellman_closed

DATA = Path(__file__).parent / "data"

FAMILIES: dict[str, Statistics] = {
    "expectiles": Expectiles((0.1, 0.5, 0.9)),
    "quantiles": Quantiles((0.25, 0.5, 0.75)),
    "categorical": Categorical(np.linspace(-2.0, 2.0, 5)),
    "moments": Moments(2),
}
"""The families of the toy on witnesses, as `js/toys/witness.js` has them."""


def found_witnesses() -> dict[str, dict[str, object] | None]:
    """A witness for each family that is not Bellman closed, and None for those that are."""
    return {name: _witness(family) for name, family in FAMILIES.items()}


def _witness(family: Statistics) -> dict[str, object] | None:
    witness = bellman_closed(family).witness
    if witness is None:
        return None
    return {
        "mu": _plain(witness.mu),
        "nu": _plain(witness.nu),
        "rho": None if witness.rho is None else _plain(witness.rho),
        "weight": witness.weight,
        "reward": witness.reward,
        "gamma": witness.gamma,
        "gap": witness.gap,
    }


def _plain(mu: Particles) -> dict[str, list[float]]:
    """Without padding."""
    atoms, probs = np.asarray(mu.atoms), np.asarray(mu.probs)
    return {"atoms": atoms[probs > 0].tolist(), "probs": probs[probs > 0].tolist()}


def main(file: Path) -> None:
    """Write all witnesses."""
    text = json.dumps(found_witnesses(), separators=(",", ":"))
    file.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(DATA / "witnesses.json")
