"""What an agent is: four pure functions of (parameters, data, key)."""

import abc
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from edrl.core.particles import Particles
from edrl.core.risk import CVaR, Risk
from edrl.deep.config import Config
from edrl.deep.environments import Environment
from edrl.deep.replay import Batch
from edrl.deep.types import ActionValues, AnyArray, Key, Losses, Observations, Parameters


class Agent(eqx.Module):
    """How returns are represented, compared and learnt.

    The optimiser, replay memory and acting are written once, elsewhere. To add an agent, write a
    class with `build`, `init`, `returns` and `loss`. Compiled functions take an agent as an
    argument, so every field that holds no array is marked with `eqx.field(static=True)`.
    """

    double: bool = eqx.field(static=True, default=False, kw_only=True)
    """Whether the online network chooses the next action, as in Double DQN."""
    risk: Risk | None = eqx.field(default=None, kw_only=True)
    """What actions are chosen by, if it is not their expected return."""
    diagnostics: ClassVar[tuple[str, ...]] = ()
    """The names of what `diagnose` reports: columns of metrics.csv."""

    @classmethod
    @abc.abstractmethod
    def build(cls, config: Config, environment: Environment) -> "Agent":
        """The agent that a config describes, for the frames and actions of an environment."""

    @abc.abstractmethod
    def init(self, key: Key) -> Parameters:
        """Random parameters."""

    @abc.abstractmethod
    def returns(self, parameters: Parameters, observations: Observations, key: Key) -> Particles:
        """The return distributions [batch, action, n]."""

    def action_values(
        self, parameters: Parameters, observations: Observations, key: Key
    ) -> ActionValues:
        """What actions are chosen by: expected returns, or a risk measure of the distributions."""
        returns = self.returns(parameters, observations, key)
        return returns.mean() if self.risk is None else self.risk(returns)

    @abc.abstractmethod
    def loss(self, parameters: Parameters, target: Parameters, batch: Batch, key: Key) -> Losses:
        """The loss of each transition, so that a replay memory may weight them.

        Args:
            parameters: the online network's, in which the loss is differentiated.
            target: the target network's, from which returns are bootstrapped.
        """

    def diagnose(
        self, parameters: Parameters, target: Parameters, batch: Batch, key: Key
    ) -> dict[str, Float[Array, ""]]:
        """Numbers to log beside the loss, by the names in `diagnostics`."""
        return {}

    def judge(self, parameters: Parameters, target: Parameters) -> Parameters:
        """The parameters that choose the next action in a target."""
        return jax.lax.stop_gradient(parameters) if self.double else target


def of_actions(
    table: Shaped[Array, "batch action n"], actions: Int[AnyArray, " batch"]
) -> Shaped[Array, "batch n"]:
    """The rows of one action each."""
    return jnp.take_along_axis(table, actions[:, None, None], axis=1)[:, 0]


def risk_of(config: Config) -> Risk | None:
    """What a config's agent chooses actions by, if it is not their expected return."""
    return None if config.cvar == 1 else CVaR(config.cvar)
