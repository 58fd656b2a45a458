"""The optimiser against Optax's."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from edrl.deep.agents.beside import Parts
from edrl.deep.optimiser import Optimiser


@pytest.mark.parametrize("rectified", [False, True])
@pytest.mark.parametrize("max_gradient", [None, 1.0])
def test_steps_are_those_of_optax(rectified: bool, max_gradient: float | None) -> None:
    """From the first step on: RAdam's first five do not divide by the root of the squares."""
    ours = Optimiser(0.01, 1e-4, rectified=rectified, max_gradient=max_gradient)
    scaled = optax.scale_by_radam if rectified else optax.scale_by_adam
    cut = optax.identity() if max_gradient is None else optax.clip_by_global_norm(max_gradient)
    theirs = optax.chain(cut, scaled(eps=1e-4), optax.scale(-0.01))
    rng = np.random.default_rng(0)
    one = other = {"a": jnp.asarray(rng.normal(size=(3, 4)), jnp.float32), "b": jnp.ones(2)}
    moments, state = ours.init(one), theirs.init(other)
    for step in range(40):
        size = 2.0 if step % 2 else 0.01  # above and below the norm to which they are cut
        gradient = jax.tree.map(lambda x, s=size: s * rng.normal(size=x.shape).astype("f"), one)
        one, moments = ours.step(one, gradient, moments)
        direction, state = theirs.update(gradient, state)
        other = optax.apply_updates(other, direction)
        for name in one:
            np.testing.assert_allclose(one[name], other[name], rtol=2e-5, atol=1e-6)


def test_gradients_of_an_agent_and_of_statistics_beside_it_are_cut_apart() -> None:
    ours = Optimiser(0.01, max_gradient=1.0)
    long, short = jnp.array([30.0, 40.0]), jnp.array([0.3, 0.4])
    start = Parts(jnp.zeros(2), jnp.zeros(2))
    _, moments = ours.step(start, Parts(long, short), ours.init(start))
    np.testing.assert_allclose(moments.mu.actor, [0.06, 0.08], rtol=1e-5)
    np.testing.assert_allclose(moments.mu.beside, [0.03, 0.04], rtol=1e-5)
