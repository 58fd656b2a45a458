"""Environments with one interface: Atari, MinAtar, Gymnasium, in JAX, suites of one's own.

A suite of one's own is registered by a module that is imported first: with

    class Toy:
        names = ("toy/corridor",)
        has_sticky_actions = False
        scores = {"toy/corridor": Scores(random=0.5, human=10.0)}

        def make(self, name, *, seed, sticky):
            return Corridor(seed)

    register(Toy())

in `my_games.py`, `edrl train --env my_games:toy/corridor` trains on it, studies take the same
name, and their reports show scores between the random and the human one.
"""

from edrl.deep.environments.environment import Environment, Step, Steps, observation_shape
from edrl.deep.environments.in_jax import JaxEnvironment, JaxOnHost, JaxStep
from edrl.deep.environments.source import EnvironmentSource
from edrl.deep.environments.suite import (
    Scores,
    Suite,
    import_suite,
    make,
    names,
    register,
    scores_of,
)

__all__ = [
    "Environment",
    "EnvironmentSource",
    "JaxEnvironment",
    "JaxOnHost",
    "JaxStep",
    "Scores",
    "Step",
    "Steps",
    "Suite",
    "import_suite",
    "make",
    "names",
    "observation_shape",
    "register",
    "scores_of",
]
