"""The deep wing: any agent on Atari, MinAtar, Gymnasium and environments of one's own, in float32.

Its front door: `train`, `resume` and `load`, the classes that an extension builds on, and
`register` for environments. Names are imported when they are first used.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edrl.deep.agents import IQN, Agent, StatisticsAgent
    from edrl.deep.callbacks import Callback, Evaluation
    from edrl.deep.config import Config, preset
    from edrl.deep.environments import (
        Environment,
        JaxEnvironment,
        JaxOnHost,
        JaxStep,
        Scores,
        Step,
        Suite,
        register,
    )
    from edrl.deep.replay import Replay
    from edrl.deep.rollout import Batch
    from edrl.deep.run import Run
    from edrl.deep.trained import Trained, load
    from edrl.deep.training import resume, train

__all__ = [
    "IQN",
    "Agent",
    "Batch",
    "Callback",
    "Config",
    "Environment",
    "Evaluation",
    "JaxEnvironment",
    "JaxOnHost",
    "JaxStep",
    "Replay",
    "Run",
    "Scores",
    "StatisticsAgent",
    "Step",
    "Suite",
    "Trained",
    "load",
    "preset",
    "register",
    "resume",
    "train",
]

_MODULES = {
    "agents": ("IQN", "Agent", "StatisticsAgent"),
    "callbacks": ("Callback", "Evaluation"),
    "config": ("Config", "preset"),
    "environments": (
        "Environment",
        "JaxEnvironment",
        "JaxOnHost",
        "JaxStep",
        "Scores",
        "Step",
        "Suite",
        "register",
    ),
    "replay": ("Replay",),
    "rollout": ("Batch",),
    "run": ("Run",),
    "training": ("resume", "train"),
    "trained": ("Trained", "load"),
}


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"edrl.deep.{module}"), name)
    raise AttributeError(f"module 'edrl.deep' has no attribute {name!r}")
