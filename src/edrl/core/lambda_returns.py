"""Lambda-returns of distributions: targets that mix returns of every length, by imputation."""

import jax
import jax.numpy as jnp

from edrl.core.jit import jit
from edrl.core.particles import Particles
from edrl.core.statistics import Statistics
from edrl.core.types import Float, NumbersLike, Values, ValuesLike


@jit
def lambda_returns(
    family: Statistics,
    bootstraps: ValuesLike,
    rewards: NumbersLike,
    discounts: NumbersLike,
    traces: NumbersLike,
) -> Particles:
    """The targets [T, ..., n] of T steps that followed each other.

    The target of step t is the distribution of r_t + gamma_t Z. Here Z is drawn from the
    bootstrapped distribution of the next state with probability 1 - c_t, and from the target of
    step t + 1 with probability c_t. That target is kept as its statistics and imputed from them, so
    the work of a step does not grow with T. Where imputation keeps the mean, the mean of the
    targets is the lambda-return of the means.

    Args:
        family: the statistics and their imputation.
        bootstraps: the statistics [T, ..., K] of the return from the state after each step.
        rewards: r_t, [T, ...].
        discounts: gamma_t, [T, ...]; 0 where the return ends with the step.
        traces: c_t, [T, ...]: lambda, or 0 where the next step is not part of the same return. The
            last one does not count.
    """
    bootstraps = jnp.asarray(bootstraps)

    def back(
        after: Values, step: tuple[jax.Array, jax.Array, jax.Array, jax.Array]
    ) -> tuple[Values, Particles]:
        bootstrap, reward, discount, trace = step
        both = family.impute(jnp.stack([bootstrap, after], axis=-2))
        target = both.mixture(_shares(trace)).push(reward, discount)
        return family.evaluate(target), target

    steps = (bootstraps, jnp.asarray(rewards), jnp.asarray(discounts), jnp.asarray(traces))
    return jax.lax.scan(back, bootstraps[-1], steps, reverse=True)[1]


def _shares(trace: jax.Array) -> Float[jax.Array, "*batch 2"]:
    """The weights of the bootstrapped distribution and of the next step's target."""
    return jnp.stack([1 - trace, trace], axis=-1)
