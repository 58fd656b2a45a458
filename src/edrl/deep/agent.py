"""The agent, written once: any statistics with any imputation strategy, from DQN to ER-DQN (Section 5.3, Appendix D).

One update is a straight line: impute at the next state's greedy action from the target network, push through
r + gamma z, and take the gradient of the family's loss at the action taken.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from edrl.core.families import Categorical
from edrl.core.particles import Particles
from edrl.core.risk import Risk, action_values
from edrl.core.statistics import Statistics
from edrl.deep.networks import Network, Parameters
from edrl.deep.replay import Batch

# On two CPU cores an update takes half as long if XLA orders it for memory, not for what could run at once: its matrix
# products use every core by themselves.
_IN_ORDER = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}


class Learner(NamedTuple):
    """All that learning changes."""

    online: Parameters
    target: Parameters
    optimiser: Any


def copied(parameters: Parameters) -> Parameters:
    """Parameters in memory of their own: an update gives the memory of its arguments back."""
    return jax.tree.map(jnp.copy, parameters)


@dataclass(frozen=True, eq=False)
class Agent:
    """What an agent is: statistics, a network for them, and how its parameters are updated."""

    family: Statistics
    network: Network
    learning_rate: float
    adam_epsilon: float
    double: bool = False
    risk: Risk | None = None  # what actions are chosen by, if it is not their expected return

    @cached_property
    def _adam(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate, eps=self.adam_epsilon)

    def init(self, key: jax.Array) -> Learner:
        """Random parameters, the same for both networks."""
        online = self.network.init(key)
        return Learner(online, copied(online), self._adam.init(online))

    def values(self, parameters: Parameters, observations: Any) -> Any:
        """The statistics [batch, action, K] of the returns."""
        return self.family.link(self.network(parameters, observations))

    @partial(jax.jit, static_argnames="self")
    def greedy(self, parameters: Parameters, observations: Any) -> Any:
        """The actions [batch] of highest worth."""
        return jnp.argmax(action_values(self.family, self.values(parameters, observations), self.risk), axis=-1)

    @partial(jax.jit, static_argnames="self")
    def returns(self, parameters: Parameters, observations: Any) -> Particles:
        """The imputed return distributions [batch, action, n]."""
        return self.family.impute(self.values(parameters, observations))

    @partial(jax.jit, static_argnames="self")
    def returns_of(self, parameters: Parameters, observations: Any, actions: Any) -> Particles:
        """The imputed return distributions [batch, n] of one action each."""
        return self.family.impute(_taken(self.values(parameters, observations), actions))

    def next_values(self, learner: Learner, batch: Batch) -> Any:
        """The target network's statistics [batch, K] at the next state's greedy action."""
        values = self.values(learner.target, batch.next_observations)
        judge = self.values(learner.online, batch.next_observations) if self.double else values
        best = jnp.argmax(action_values(self.family, judge, self.risk), axis=-1)
        return _taken(values, best)

    def targets(self, learner: Learner, batch: Batch) -> Particles:
        """The laws [batch, n] of r + gamma^n z, z imputed; of r alone where the return ended."""
        return self.family.impute(self.next_values(learner, batch)).push(batch.returns, batch.discounts)

    def loss(self, online: Parameters, batch: Batch, targets: Particles) -> Any:
        """Summed over the statistics, averaged over target atoms and the batch, at the actions taken."""
        taken = _taken(self.network(online, batch.observations), batch.actions)
        return jnp.mean(self.family.loss_on_outputs(taken, targets))

    @partial(jax.jit, static_argnames="self", donate_argnames="learner", compiler_options=_IN_ORDER)
    def update(self, learner: Learner, batch: Batch) -> tuple[Learner, Any]:
        """One step of Adam, and the loss before it."""
        return self._step(learner, batch)

    @partial(jax.jit, static_argnames="self", donate_argnames="learner", compiler_options=_IN_ORDER)
    def updates(self, learner: Learner, batches: Batch) -> tuple[Learner, Any]:
        """Steps of Adam, one after the other, for batches [update, batch, ...], and the loss before each."""
        return jax.lax.scan(self._step, learner, batches)

    def _step(self, learner: Learner, batch: Batch) -> tuple[Learner, Any]:
        targets = jax.lax.stop_gradient(self.targets(learner, batch))
        loss, gradient = jax.value_and_grad(self.loss)(learner.online, batch, targets)
        changes, optimiser = self._adam.update(gradient, learner.optimiser)
        return learner._replace(online=optax.apply_updates(learner.online, changes), optimiser=optimiser), loss

    @partial(jax.jit, static_argnames="self")
    def diagnose(self, learner: Learner, batch: Batch) -> dict[str, Any]:
        """How far the imputed distributions are from the statistics that a network put out, and how often they are off;
        how far their mean is from the one that the statistics encode, which is a bias of all targets; and how much of
        the targets a support cannot hold."""
        values = self.next_values(learner, batch)
        residual = jnp.abs(self.family.residual(values))
        mean = self.family.mean(values)
        spread = jnp.max(values, axis=-1) - jnp.min(values, axis=-1)
        found = {
            "mean_value": jnp.mean(mean),
            "imputed_mean_shift": jnp.mean(self.family.impute(values).mean() - mean),
            "imputation_residual": jnp.mean(residual),
            "inconsistent_share": jnp.mean(jnp.max(residual, axis=-1) > 1e-3 * spread),
        }
        if isinstance(self.family, Categorical):
            targets, low, high = self.targets(learner, batch), self.family.support[0], self.family.support[-1]
            beyond = (targets.atoms < low) | (targets.atoms > high)
            found["beyond_support"] = jnp.mean(jnp.sum(jnp.where(beyond, targets.probs, 0.0), axis=-1))
        return found


def _taken(table: Any, actions: Any) -> Any:
    """The rows [batch, K] of one action each in [batch, action, K]."""
    return jnp.take_along_axis(table, actions[:, None, None], axis=1)[:, 0]
