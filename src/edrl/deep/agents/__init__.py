"""The agents, and where a config's agent comes from."""

from typing import TypeGuard

from edrl.core.check import fail
from edrl.core.statistics import Statistics
from edrl.deep.agents.agent import Agent
from edrl.deep.agents.beside import Beside
from edrl.deep.agents.iqn import IQN
from edrl.deep.agents.statistics_agent import StatisticsAgent
from edrl.deep.config import Config
from edrl.deep.environments import Environment
from edrl.deep.objects import is_object_name, load_object

__all__ = ["IQN", "Agent", "Beside", "StatisticsAgent", "build_agent"]

KINDS: dict[str, type[Agent]] = {"iqn": IQN}
"""Agents that are more than a family of statistics, by their names in a config."""


def build_agent(
    config: Config,
    environment: Environment,
    family: Statistics | None = None,
    agent: type[Agent] | Agent | None = None,
) -> Agent:
    """The agent of a config for an environment.

    Args:
        family: replaces the config's statistics.
        agent: replaces the config's agent: a class of agents, or one that is built already.
    """
    if isinstance(agent, Agent):
        return agent
    if agent is not None and not _is_kind(agent):
        raise fail("agent", agent, "it must be an edrl.deep.Agent, or a class of them")
    kind = _kind(config) if agent is None else agent
    if family is not None:
        built: Agent = StatisticsAgent.build(config, environment, family)
    else:
        built = kind.build(config, environment)
    return built if config.beside is None else Beside.of(built, config, environment)


def _kind(config: Config) -> type[Agent]:
    """The class of a config's agent: named, of a module of one's own, or for any statistics."""
    if is_object_name(config.agent):
        found = load_object("agent", config.agent)
        if _is_kind(found):
            return found
    return KINDS.get(config.agent, StatisticsAgent)


def _is_kind(found: object) -> TypeGuard[type[Agent]]:
    return isinstance(found, type) and issubclass(found, Agent)
