"""Tiny environments written in JAX, as a user would write them."""

import jax
import jax.numpy as jnp
import numpy as np

from edrl.deep import JaxEnvironment, JaxStep


class JaxProbe(JaxEnvironment):
    """The probes of `probes.py`: observations [1], two actions; `kind` says what is probed."""

    name, num_actions = "probe", 2
    frame_shape, frame_dtype = (1,), np.dtype(np.float32)

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def reset(self, key):
        signs = jax.random.choice(key, jnp.array([-1.0, 1.0]))
        state = signs if self.kind in ("observed", "both") else jnp.zeros(())
        return state, state[None]

    def step(self, key, state, action):
        reward = {
            "constant": jnp.ones(()),
            "observed": state,
            "delayed": state,
            "action": (action == 1).astype(jnp.float32),
            "both": ((action == 1) == (state > 0)).astype(jnp.float32),
        }[self.kind]
        ended = (state == 1.0) if self.kind == "delayed" else jnp.array(True)
        after = jnp.ones(())
        return after, JaxStep(after[None], reward, reward, ended, ended)


class Walk(JaxEnvironment):
    """A random walk on 0..8 from the middle: its ends are terminal, and six steps are the limit.

    Its state is a dictionary with a typed random key in it, and rewards are half the score.
    """

    name, num_actions = "walk", 3
    frame_shape, frame_dtype = (9,), np.dtype(np.uint8)

    def reset(self, key):
        state = {"at": jnp.int32(4), "time": jnp.int32(0), "key": key}
        return state, self._frame(state)

    def step(self, key, state, action):
        chance = jax.random.fold_in(state["key"], state["time"])
        move = jnp.where(jax.random.uniform(chance) < 0.2, jax.random.randint(key, (), -1, 2), 0)
        at = jnp.clip(state["at"] + action - 1 + move, 0, 8)
        state = {"at": at, "time": state["time"] + 1, "key": state["key"]}
        terminal = (at == 0) | (at == 8)
        score = (at - 3).astype(jnp.float32)
        ended = terminal | (state["time"] == 6)
        return state, JaxStep(self._frame(state), score / 2, score, terminal, ended)

    def _frame(self, state):
        return (jnp.arange(9) == state["at"]).astype(jnp.uint8)

    def draw(self, state, frame):
        return np.repeat(frame[None, :, None], 3, axis=2) * np.uint8(255)
