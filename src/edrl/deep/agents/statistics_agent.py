"""Any statistics with any imputation, from DQN to ER-DQN (Section 5.3, Appendix D)."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from edrl.core.lambda_returns import lambda_returns
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics
from edrl.deep.agents.agent import Agent, of_actions, shared_settings
from edrl.deep.config import Config
from edrl.deep.environments import Environment, observation_shape
from edrl.deep.networks import Network, network_for
from edrl.deep.rollout import Batch, Rollout
from edrl.deep.types import ActionValues, AnyArray, Key, Losses, Observations, Parameters

_FAR = 1e6  # beyond every support
_ENDLESS = 0.5 * _FAR  # a mean farther out says that there is no support, but for rounding
_ROUNDINGS = (
    64  # that values may be off by: those of a narrow distribution far from 0 have few digits
)


class StatisticsAgent(Agent):
    """A family of statistics, which knows how to impute, and a network for their values."""

    family: Statistics
    network: Network

    diagnostics: ClassVar[tuple[str, ...]] = (
        "mean_value",
        "imputed_mean_shift",
        "imputation_residual",
        "inconsistent_share",
        "beyond_support",
    )

    @classmethod
    def build(
        cls, config: Config, environment: Environment, family: Statistics | None = None
    ) -> "StatisticsAgent":
        """The config's agent; `family` replaces its statistics."""
        family = config.family() if family is None else family
        shape, actions = observation_shape(environment), environment.num_actions
        outputs = family.num_outputs
        network = network_for(
            config.network, shape, actions, outputs, environment.scale, config.layer_norm
        )
        return cls(family, network, **shared_settings(config))

    @property
    def num_statistics(self) -> int:
        return self.family.size

    def features(
        self, parameters: Parameters, observations: Observations
    ) -> Float[Array, "batch feature"]:
        return self.network.features(parameters, observations)

    @property
    def num_features(self) -> int:
        return self.network.num_features

    def init(self, key: Key) -> Parameters:
        return self.network.init(key)

    def values(
        self, parameters: Parameters, observations: Observations
    ) -> Float[Array, "batch action K"]:
        """The statistics of the returns."""
        return self.family.link(self.network(parameters, observations))

    def returns(self, parameters: Parameters, observations: Observations, key: Key) -> Particles:
        return self.family.impute(self.values(parameters, observations))

    def action_values(
        self, parameters: Parameters, observations: Observations, key: Key
    ) -> ActionValues:
        return self._compare(self.values(parameters, observations))

    def loss(self, parameters: Parameters, target: Parameters, batch: Batch, key: Key) -> Losses:
        """Averaged over the statistics and over target atoms, at the actions taken."""
        goal = jax.lax.stop_gradient(self.goal(parameters, target, batch))
        return self.fit(parameters, batch.observations, batch.actions, goal, key)

    def goals(self, target: Parameters, batch: Batch, key: Key) -> Particles | None:
        own_loss = type(self).loss is not StatisticsAgent.loss  # a subclass may not fit to goals
        return None if self.double or own_loss else self.goal(target, target, batch)

    def fit(
        self,
        parameters: Parameters,
        observations: Observations,
        actions: Int[AnyArray, " batch"],
        targets: Particles,
        key: Key,
    ) -> Losses:
        outputs = of_actions(self.network(parameters, observations), actions)
        return self.family.loss_on_outputs(outputs, targets) / self.family.size

    def targets(self, parameters: Parameters, rollout: Rollout, key: Key) -> Particles:
        """Lambda-returns, bootstrapped from the best actions."""
        bootstraps, best = self._bootstraps(parameters, rollout.next_observations)
        traces = self.traces(rollout, best)
        return lambda_returns(self.family, bootstraps, rollout.rewards, rollout.discounts, traces)

    def _bootstraps(
        self, parameters: Parameters, observations: Shaped[AnyArray, "T lane ..."]
    ) -> tuple[Float[Array, "T lane K"], Int[Array, "T lane"]]:
        """The statistics of the best actions, and these actions."""

        def best(row: Observations) -> tuple[Float[Array, "lane K"], Int[Array, " lane"]]:
            values = self.values(parameters, row)
            actions = jnp.argmax(self._compare(values), axis=-1)
            return of_actions(values, actions), actions

        # Row by row: the hidden layers of all observations at once may need gigabytes.
        values, actions = jax.lax.map(best, jnp.asarray(observations))
        return values, actions

    def goal(self, parameters: Parameters, target: Parameters, batch: Batch) -> Particles:
        """The distributions [batch, n] of r + gamma^n z, z imputed; of r where the return ended."""
        values = self.next_values(parameters, target, batch)
        return self.family.impute(values).push(batch.returns, batch.discounts)

    def next_values(
        self, parameters: Parameters, target: Parameters, batch: Batch
    ) -> Float[Array, "batch K"]:
        """The target network's statistics at the next state's best action."""
        values = self.values(target, batch.next_observations)
        judged = values
        if self.double:
            judged = self.values(self.judge(parameters, target), batch.next_observations)
        return of_actions(values, jnp.argmax(self._compare(judged), axis=-1))

    def diagnose(
        self, parameters: Parameters, target: Parameters, batch: Batch, key: Key
    ) -> dict[str, Float[Array, ""]]:
        """How faithful the imputation of the target network's statistics is.

        `imputed_mean_shift` is a bias of all goals. `beyond_support` is the share of the goals'
        mass that the statistics cannot hold.
        """
        values = self.next_values(parameters, target, batch)
        imputed, mean = self.family.impute(values), self.family.mean(values)
        residual = jnp.abs(self.family.residual(values))
        spread = jnp.max(values, axis=-1) - jnp.min(values, axis=-1)
        rounding = _ROUNDINGS * jnp.finfo(values.dtype).eps * jnp.max(jnp.abs(values), axis=-1)
        return {
            "mean_value": jnp.mean(mean),
            "imputed_mean_shift": jnp.mean(imputed.mean() - mean),
            "imputation_residual": jnp.mean(residual),
            "inconsistent_share": jnp.mean(jnp.max(residual, axis=-1) > 1e-3 * spread + rounding),
            "beyond_support": self._beyond(imputed.push(batch.returns, batch.discounts)),
        }

    def _compare(self, values: Float[Array, "batch action K"]) -> ActionValues:
        """What actions with these statistics are chosen by."""
        if self.risk is None:
            return self.family.mean(values)
        return self.risk(self.family.impute(values))

    def _beyond(self, goal: Particles) -> Float[Array, ""]:
        """The share of mass farther out than any mean that the statistics can express.

        It is 0 for those that can express every mean, however large the rewards.
        """
        extremes = Particles(jnp.array([[-_FAR], [_FAR]], goal.atoms.dtype))
        low, high = self.family.mean(self.family.evaluate(extremes))
        outside = (goal.atoms < low) & (low > -_ENDLESS)
        outside |= (goal.atoms > high) & (high < _ENDLESS)
        return jnp.mean(jnp.sum(jnp.where(outside, goal.probs, 0.0), axis=-1))
