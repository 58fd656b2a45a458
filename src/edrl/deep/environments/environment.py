"""What an environment is to an agent, and what all environments here share."""

from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Shaped

from edrl.core.check import fail


class Step(NamedTuple):
    """What one action led to."""

    frame: np.ndarray  # the newest frame only
    reward: float  # for learning
    score: float  # as the environment counts it
    terminal: bool  # the return ends here: no bootstrap
    ended: bool  # the episode ends here, terminal or truncated: reset() must follow


class Steps(NamedTuple):
    """What one action each led to in several environments."""

    frame: Shaped[np.ndarray, "lane ..."]
    reward: Float[np.ndarray, " lane"]
    score: Float[np.ndarray, " lane"]
    terminal: Bool[np.ndarray, " lane"]
    ended: Bool[np.ndarray, " lane"]


@runtime_checkable
class Environment(Protocol):
    """One environment on the host. An observation is the last `stack` frames."""

    name: str
    frame_shape: tuple[int, ...]
    frame_dtype: np.dtype
    stack: int
    scale: float  # by which a network multiplies frames: 1/255 for bytes
    num_actions: int
    action_names: tuple[str, ...]
    restorable: bool  # whether save() and load() give exact resumption

    def reset(self) -> np.ndarray:
        """The first frame of a new episode."""
        ...

    def step(self, action: int) -> Step:
        """Take an action, a number from 0 to `num_actions - 1`."""
        ...

    def render(self) -> np.ndarray:
        """What a person would look at, uint8 [height, width, 3]."""
        ...

    def save(self) -> dict[str, np.ndarray]:
        """The complete state, random generators included, as arrays of numbers."""
        ...

    def load(self, state: dict[str, np.ndarray]) -> None:
        """Go to a saved state; if `restorable`, every later step is the same to the last bit."""
        ...

    def close(self) -> None:
        """Let go of windows and memory."""
        ...


def observation_shape(environment: Environment) -> tuple[int, ...]:
    """The shape of an observation: the frame's, and the stack if there is one."""
    stack = (environment.stack,) if environment.stack > 1 else ()
    return (*environment.frame_shape, *stack)


def check_step(action: int, num_actions: int, running: bool) -> None:
    """Whether `step(action)` may be called now."""
    if not running:
        raise RuntimeError(
            "no episode is running: call reset() before the first step and after one that ended it"
        )
    if not 0 <= action < num_actions:
        raise fail("action", action, f"it must be a whole number from 0 to {num_actions - 1}")


def check_saved_name(name: str, state: dict[str, np.ndarray]) -> None:
    """Whether a saved state is one of the environment called `name`."""
    saved = array_to_text(state["name"]) if "name" in state else None
    if saved != name:
        raise fail(
            "state['name']",
            saved,
            f"it must be {name!r}, the environment that the state is loaded into",
        )


def missing(package: str, extra: str) -> ImportError:
    """The error for a package that an extra of this one installs, ready to be raised."""
    return ImportError(f"{package} is not installed: pip install 'edrl[{extra}]'")


def text_to_array(text: str) -> np.ndarray:
    """Text as an array of bytes."""
    return np.frombuffer(text.encode(), np.uint8)


def array_to_text(array: np.ndarray) -> str:
    """The text in an array of bytes."""
    return np.asarray(array, np.uint8).tobytes().decode()


def generator_to_array(generator: np.random.Generator) -> np.ndarray:
    """The state of a PCG64 generator: state and increment in halves, and a spare 32-bit draw."""
    state: dict[str, Any] = dict(generator.bit_generator.state)
    words = [part for number in state["state"].values() for part in divmod(number, 2**64)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], np.uint64)


def array_to_generator(array: np.ndarray) -> np.random.Generator:
    """A PCG64 generator in a state that `generator_to_array` wrote down."""
    high, low, inc_high, inc_low, has_uint32, uinteger = (int(word) for word in array)
    bits = np.random.PCG64(0)
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": high * 2**64 + low, "inc": inc_high * 2**64 + inc_low},
        "has_uint32": has_uint32,
        "uinteger": uinteger,
    }
    return np.random.Generator(bits)


Form: TypeAlias = jax.ShapeDtypeStruct
"""The shape and the dtype of an array."""


def is_key(leaf: object) -> bool:
    """Whether it is an array of JAX's typed random keys, which NumPy cannot hold."""
    return isinstance(leaf, jax.Array | Form) and bool(
        jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    )


def to_plain(leaf: ArrayLike) -> np.ndarray:
    """An array as NumPy can hold it."""
    return np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)


def from_plain(like: jax.Array | Form, array: np.ndarray) -> jax.Array:
    """An array like another one from what `to_plain` made of it."""
    return jax.random.wrap_key_data(jnp.asarray(array)) if is_key(like) else jnp.asarray(array)
