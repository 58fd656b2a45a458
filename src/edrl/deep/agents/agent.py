"""What an agent is: four pure functions of (parameters, data, key)."""

import abc
from typing import ClassVar, TypedDict

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from edrl.core.check import fail
from edrl.core.particles import Particles
from edrl.core.risk import Risk, risk_named
from edrl.core.words import Described
from edrl.deep.config import Config
from edrl.deep.environments import Environment
from edrl.deep.rollout import Batch, Rollout
from edrl.deep.types import (
    ActionValues,
    AnyArray,
    Key,
    Losses,
    Observations,
    Parameters,
    Targets,
)


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
    trace: float = eqx.field(static=True, default=0.0, kw_only=True)
    """Lambda, the weight of longer returns in targets that mix several lengths."""
    cut_traces: bool = eqx.field(static=True, default=False, kw_only=True)
    """Whether longer returns end where the next action was not the agent's best."""
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

    def goals(self, target: Parameters, batch: Batch, key: Key) -> Targets | None:
        """What transitions teach, for `fit`; None if the target network alone does not tell.

        Where it does, `loss` is `fit` to them, and updates that share a target network make theirs
        at once.
        """
        return None

    @property
    def num_statistics(self) -> int:
        """How many losses `loss` averages."""
        return 1

    def targets(self, parameters: Parameters, rollout: Rollout, key: Key) -> Targets:
        """What the steps [T, lane] of a rollout teach, for `fit`: a pytree of arrays [T, lane, ...].

        Agents that mix returns of several lengths, or learn without replay memory, write this and
        `fit`.
        """
        raise self._learns_from_replay_only()

    def traces(self, rollout: Rollout, best: Int[Array, "T lane"]) -> Float[Array, "T lane"]:
        """The weights of longer returns, which end with an episode and, if `cut_traces`, before
        another action than the `best` one of the next state.
        """
        follows = jnp.asarray(rollout.goes_on)
        if self.cut_traces:
            next_actions = jnp.concatenate([rollout.actions[1:], rollout.actions[:1]])
            follows = follows & (next_actions == best)
        return jnp.where(follows, jnp.float32(self.trace), 0.0)

    def fit(
        self,
        parameters: Parameters,
        observations: Observations,
        actions: Int[AnyArray, " batch"],
        targets: Targets,
        key: Key,
    ) -> Losses:
        """The loss of each step against what `targets` gave for it."""
        raise self._learns_from_replay_only()

    def _learns_from_replay_only(self) -> Exception:
        """The error of an agent without `targets` and `fit`, ready to be raised."""
        right = "it must be 1, without cut_traces and with a replay memory (rollout 0)"
        return fail(
            "trace", self.trace, f"{right}: {type(self).__name__} has no `targets` and `fit`"
        )

    def features(
        self, parameters: Parameters, observations: Observations
    ) -> Float[Array, "batch feature"]:
        """What the last hidden layer takes, for statistics that are learnt beside this agent."""
        raise fail(
            "beside", Described(type(self).__name__), "this agent has no `features` to learn from"
        )

    @property
    def num_features(self) -> int:
        """How many features an observation has."""
        raise fail(
            "beside", Described(type(self).__name__), "this agent has no `features` to learn from"
        )

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


class SharedSettings(TypedDict):
    """The fields that every agent has."""

    double: bool
    risk: Risk | None
    trace: float
    cut_traces: bool


def shared_settings(config: Config) -> SharedSettings:
    """What a config says of the fields that every agent has."""
    return {
        "double": config.double,
        "risk": None if config.risk is None else risk_named(config.risk),
        "trace": config.trace,
        "cut_traces": config.cut_traces,
    }
