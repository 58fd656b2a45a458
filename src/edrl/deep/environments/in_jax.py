"""Environments written in JAX: pure functions, which training compiles together with learning."""

import abc
from functools import cache, partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped

from edrl.core.check import fail
from edrl.core.words import Described
from edrl.deep.environments.environment import (
    Form,
    Step,
    check_saved_name,
    check_step,
    from_plain,
    text_to_array,
    to_plain,
)

State: TypeAlias = PyTree
"""The state of an environment: any pytree of arrays, of the same shapes at every step."""
Whole: TypeAlias = int | Int[Array, ""]
"""A whole number; in a compiled function an array."""


class JaxStep(NamedTuple):
    """What one action led to: a `Step` of arrays."""

    frame: Shaped[Array, "..."]  # what is seen now
    reward: Float[Array, "*lane"]  # for learning
    score: Float[Array, "*lane"]  # as the environment counts it
    terminal: Bool[Array, "*lane"]  # the return ends here: no bootstrap
    ended: Bool[Array, "*lane"]  # the episode ends here, terminal or truncated


class JaxEnvironment(abc.ABC):
    """An environment as two pure functions, `reset` and `step`, which are compiled with learning.

    To write one, subclass this and pass it as `train(config, out, env=Mine())`. Nothing may be
    changed in the object: what changes is in the state. An observation is one frame; who needs
    several frames keeps them in the state.
    """

    name: str
    num_actions: int
    frame_shape: tuple[int, ...]
    frame_dtype: np.dtype
    scale: float = 1.0  # by which a network multiplies frames: 1/255 for bytes

    @abc.abstractmethod
    def reset(self, key: PRNGKeyArray) -> tuple[State, Shaped[Array, "..."]]:
        """The state at the beginning of an episode, and its first frame."""

    @abc.abstractmethod
    def step(
        self, key: PRNGKeyArray, state: State, action: Int[Array, ""]
    ) -> tuple[State, JaxStep]:
        """The state after an action, and what it led to; an episode that has ended is not reset."""

    @property
    def action_names(self) -> tuple[str, ...]:
        """What the actions are called; their numbers by default."""
        return tuple(str(action) for action in range(self.num_actions))

    def draw(self, state: State, frame: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "..."]:
        """What a person would look at, uint8 [height, width, 3]."""
        right = "it cannot be drawn: write `draw(state, frame)` for films"
        raise fail("env", self.name, right)


class JaxOnHost:
    """One environment written in JAX as the host sees it: for evaluations, films and pictures."""

    stack = 1
    restorable = True

    def __init__(self, environment: JaxEnvironment, *, seed: int) -> None:
        self._form = check_environment(environment)
        self.pure = environment
        self.name = environment.name
        self.frame_shape = tuple(environment.frame_shape)
        self.frame_dtype = np.dtype(environment.frame_dtype)
        self.scale = environment.scale
        self.num_actions = environment.num_actions
        self.action_names = environment.action_names
        self._seed, self._drawn = seed, 0  # how many random keys have been used
        self._state: State = None
        self._frame = np.zeros(self.frame_shape, self.frame_dtype)
        self._running = False

    def reset(self) -> np.ndarray:
        """Start an episode."""
        self._state, frame = _reset(self.pure, *self._next_key())
        self._frame, self._running = np.asarray(frame), True
        return self._frame

    def step(self, action: int) -> Step:
        """Take an action."""
        check_step(action, self.num_actions, self._running)
        self._state, after = _step(self.pure, *self._next_key(), self._state, action)
        frame, *numbers = jax.device_get(after)
        self._frame = np.asarray(frame)
        reward, score, terminal, ended = (number.item() for number in numbers)
        self._running = not ended
        return Step(self._frame, reward, score, terminal, ended)

    def _next_key(self) -> tuple[int, int]:
        """What makes the next random key."""
        self._drawn += 1
        return self._seed, self._drawn

    def render(self) -> np.ndarray:
        """What the environment draws."""
        return np.asarray(self.pure.draw(self._state, self._frame))

    def save(self) -> dict[str, np.ndarray]:
        """The arrays of the state, in their order, and how many random keys have been used."""
        leaves = [to_plain(leaf) for leaf in jax.tree.leaves(self._state)]
        return {
            "name": text_to_array(self.name),
            "drawn": np.array(self._drawn),
            "running": np.array(self._running),
            "frame": self._frame,
            **{f"state/{number}": leaf for number, leaf in enumerate(leaves)},
        }

    def load(self, state: dict[str, np.ndarray]) -> None:
        """Go to a saved state."""
        check_saved_name(self.name, state)
        self._drawn, self._running = int(state["drawn"]), bool(state["running"])
        self._frame = state["frame"]
        if "state/0" not in state:  # it was saved before its first episode
            self._state = None
            return
        forms, tree = jax.tree.flatten(self._form)
        leaves = [from_plain(form, state[f"state/{number}"]) for number, form in enumerate(forms)]
        self._state = jax.tree.unflatten(tree, leaves)

    def close(self) -> None:
        """Nothing to let go of."""


def _key(seed: Whole, number: Whole) -> PRNGKeyArray:
    return jax.random.fold_in(jax.random.key(seed), number)


@partial(jax.jit, static_argnums=0)
def _reset(environment: JaxEnvironment, seed: Whole, number: Whole) -> tuple[State, Array]:
    return environment.reset(_key(seed, number))


@partial(jax.jit, static_argnums=0)
def _step(
    environment: JaxEnvironment, seed: Whole, number: Whole, state: State, action: Whole
) -> tuple[State, JaxStep]:
    return environment.step(_key(seed, number), state, jnp.asarray(action, jnp.int32))


def check_environment(environment: JaxEnvironment) -> State:
    """The form of its states, or an error that says what is wrong with the environment."""
    try:
        return _checked(environment)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        right = "it must be hashable, as objects are that do not define __eq__"
        raise fail("env", Described(type(environment).__name__), right) from error


@cache
def _checked(environment: JaxEnvironment) -> State:
    """Nothing is computed: shapes and dtypes are followed through `reset` and `step`."""
    name, key = environment.name, jax.random.key(0)
    state, frame = _pair(name, "reset", jax.eval_shape(environment.reset, key))
    _check_form(f"frame of {name}", frame, _declared(environment))
    action = Form((), jnp.int32)
    found = jax.eval_shape(environment.step, key, state, action)
    later, after = _pair(name, "step", found)
    if not isinstance(after, JaxStep):
        right = "the second part of it must be a JaxStep"
        raise fail(f"what step of {name} returns", Described(type(after).__name__), right)
    _check_state(name, state, later)
    _check_form(f"frame of {name} after a step", after.frame, _declared(environment))
    for field in ("reward", "score"):
        _check_form(f"{field} of {name}", getattr(after, field), Form((), jnp.float32))
    for field in ("terminal", "ended"):
        _check_form(f"{field} of {name}", getattr(after, field), Form((), jnp.bool_))
    return state


def _declared(environment: JaxEnvironment) -> Form:
    return Form(tuple(environment.frame_shape), np.dtype(environment.frame_dtype))


def _pair(name: str, method: str, found: object) -> tuple[State, PyTree]:
    if not isinstance(found, tuple) or len(found) != 2:
        second = "frame" if method == "reset" else "JaxStep"
        right = f"it must be a pair: the state and the {second}"
        raise fail(f"what {method} of {name} returns", Described(type(found).__name__), right)
    return found


def _check_state(name: str, before: State, after: State) -> None:
    """Whether a step leaves the form of the state as it is."""
    was, now = str(jax.tree.structure(before)), str(jax.tree.structure(after))
    if was != now:
        raise fail(
            f"state of {name} after a step", Described(now), f"it must be {was}, as after reset"
        )
    for (path, one), other in zip(
        jax.tree_util.tree_leaves_with_path(before), jax.tree.leaves(after), strict=True
    ):
        place = jax.tree_util.keystr(path)
        _check_form(f"state{place} of {name} after a step", other, one)


def _check_form(what: str, found: Form | Array, right: Form) -> None:
    if (found.shape, found.dtype) != (right.shape, right.dtype):
        raise fail(what, _told(found), f"it must be {_told(right)}")


def _told(form: Form | Array) -> Described:
    return Described(f"{form.dtype} of shape {form.shape}")
