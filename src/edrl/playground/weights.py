"""The network of a run as a small file: `python -m edrl.playground.weights RUN` writes the page's.

Weights become whole numbers of a byte, with a scale for each output of a layer.
"""

import base64
import dataclasses
import json
import sys
from pathlib import Path
from typing import TypeAlias

import numpy as np

from edrl.core.check import fail
from edrl.core.families import Expectiles
from edrl.deep.agents.statistics_agent import StatisticsAgent
from edrl.deep.config import Config, preset
from edrl.deep.trained import Trained, load

DATA = Path(__file__).parent / "data"
_MOST = 127
_WATCHED = ("evaluate_every", "checkpoint_every", "log_every")  # change nothing that is learnt

SavedLayer: TypeAlias = dict[str, str | list[float]]


def saved_agent(trained: Trained, run: Path) -> dict[str, object]:
    """An agent as the page reads it, with the settings and the commit of its run."""
    agent, config = trained.agent, trained.config
    if not isinstance(agent, StatisticsAgent) or config.network != "minatar":
        raise fail("run", str(run), "it must be of a StatisticsAgent with the network minatar")
    if not isinstance(agent.family, Expectiles):
        raise fail("run", str(run), "its statistics must be expectiles, as er-dqn's are")
    provenance = json.loads((run / "provenance.json").read_text())[0]
    evaluation = (run / "evaluations.csv").read_text().splitlines()
    score = dict(zip(evaluation[0].split(","), evaluation[-1].split(","), strict=True))
    return {
        "command": command_of(config),
        "commit": provenance["commit"],
        "score": float(score["mean"]),
        "episodes": int(score["episodes"]),
        "steps": trained.step,
        "taus": np.asarray(agent.family.taus).tolist(),
        "actions": agent.network.num_actions,
        "outputs": agent.network.num_outputs,
        "layers": [
            saved_layer(layer, by_filter=depth == 0)
            for depth, layer in enumerate(trained.parameters)
        ],
    }


def command_of(config: Config) -> str:
    """The command that trains so: the preset, and what differs from it but for what is watched."""
    usual = preset("parallel", agent=config.agent, env=config.env)
    words = ["edrl train --preset parallel", f"--agent {config.agent}", f"--env {config.env}"]
    for field in dataclasses.fields(config):
        name, value = field.name, getattr(config, field.name)
        if value != getattr(usual, name) and name not in _WATCHED:
            words.append(f"--{name.replace('_', '-')} {value}")
    return " ".join(words)


def saved_layer(layer: dict[str, np.ndarray], *, by_filter: bool) -> SavedLayer:
    """A layer's weight [output, input] in bytes, and all else as numbers."""
    weight = np.asarray(layer["weight"], np.float64)
    weight = weight if by_filter else weight.T
    scale = np.abs(weight).max(axis=1) / _MOST
    whole = np.rint(weight / np.where(scale > 0, scale, 1)[:, None]).astype(np.int8)
    found: SavedLayer = {
        "weight": base64.b64encode(np.ascontiguousarray(whole).tobytes()).decode(),
        "scale": _rounded(scale),
        "bias": _rounded(np.asarray(layer["bias"])),
    }
    if "gain" in layer:
        found |= {name: _rounded(np.asarray(layer[name])) for name in ("gain", "offset")}
    return found


def read_layer(saved: SavedLayer, *, by_filter: bool) -> dict[str, np.ndarray]:
    """The layer that the page computes with, in the network's own layout."""
    scale = np.array(saved["scale"])
    whole = np.frombuffer(base64.b64decode(str(saved["weight"])), np.int8)
    weight = whole.reshape(len(scale), -1) * scale[:, None]
    layer = {"weight": weight if by_filter else weight.T}
    for name in ("bias", "gain", "offset"):
        if name in saved:
            layer[name] = np.array(saved[name])
    return {name: numbers.astype(np.float32) for name, numbers in layer.items()}


def _rounded(numbers: np.ndarray) -> list[float]:
    """Six digits, which is more than the bytes have."""
    return [float(f"{number:.6g}") for number in numbers]


def main(run: Path, file: Path) -> None:
    """Write the agent of a run's last checkpoint."""
    saved = saved_agent(load(run), run)
    file.write_text(json.dumps(saved, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), DATA / "agent.json")
