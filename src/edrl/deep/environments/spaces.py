"""What a Gymnasium environment hands out, checked against what it has declared.

A network would take what does not fit without a word: NumPy turns 0.7 into the byte 0, and 300 into
44. So whatever would be changed on its way is refused, with the space and the value.
"""

import warnings
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from jaxtyping import Shaped

from edrl.core.check import fail
from edrl.core.precision import LARGEST_FLOAT32
from edrl.core.words import Described

_LARGEST_WHOLE = 2**24  # beyond which float32 rounds some whole numbers
_SHOWN = 8  # entries of an array that a message still shows
_RESULTS = {
    "reset": ("observation", "info"),
    "step": ("observation", "reward", "terminated", "truncated", "info"),
}


class FrameReader:
    """Turns observations of a space into frames, or says which observation does not fit.

    Frames are uint8 if the observations are, otherwise float32; a discrete observation becomes a
    one-hot vector. Floats outside the bounds are used as they are, with one warning: environments
    such as Gymnasium's LunarLander declare bounds that they do not keep.
    """

    def __init__(self, name: str, space: Box | Discrete) -> None:
        self._name, self._space = name, space
        self._told = False  # that there are floats outside the bounds
        one_hot = isinstance(space, Discrete)
        shape = (int(space.n),) if isinstance(space, Discrete) else space.shape
        self.shape: tuple[int, ...] = tuple(shape)
        self.dtype = np.dtype(np.uint8 if space.dtype == np.uint8 and not one_hot else np.float32)
        # Bounds are checked in any case, so most spaces need no other check.
        self._may_round = isinstance(space, Box) and bool(
            max(np.abs(space.low.astype(float)).max(), np.abs(space.high.astype(float)).max())
            > _LARGEST_WHOLE
        )

    def __call__(self, observation: Any) -> Shaped[np.ndarray, "*frame"]:
        """A copy of an observation: environments may write the next one into the same memory."""
        array = _numbers(observation)
        if array is None:
            raise self._unfit(observation)
        if isinstance(self._space, Discrete):
            return self._one_hot(self._space, array)
        return self._copied(self._space, array)

    def _one_hot(self, space: Discrete, array: np.ndarray) -> np.ndarray:
        inside = array.ndim == 0 and array == np.floor(array)
        if not inside or not 0 <= array - space.start < space.n:
            raise self._unfit(array)
        return np.asarray(np.arange(space.n) == array - space.start, np.float32)

    def _copied(self, space: Box, array: np.ndarray) -> np.ndarray:
        if array.shape != space.shape:
            right = f"it must have the shape {space.shape} of {space}"
            raise fail(f"observation of {self._name}", _with_shape(array), right)
        if not (np.abs(array) <= LARGEST_FLOAT32).all():  # nor NaN
            right = f"observations must be finite numbers of {space}"
            raise fail(f"observation of {self._name}", told(array), right)
        if space.dtype.kind in "iu":
            self._check_whole(space, array)
            if self._may_round:
                self._check_digits(array)
            return array.astype(self.dtype)
        if array.dtype.kind in "iu":
            self._check_digits(array)
        frame = array.astype(np.float32)
        if not self._told and ((frame < space.low) | (frame > space.high)).any():
            self._warn(space, frame)
        return frame

    def _warn(self, space: Box, frame: np.ndarray) -> None:
        """Say once which float lies outside its bounds."""
        self._told = True
        at = tuple(np.argwhere((frame < space.low) | (frame > space.high))[0].tolist())
        place = f"observation{list(at) or ''} of {self._name} is {frame[at]:g}"
        bounds = f"{space.low[at]:g} to {space.high[at]:g} of its observation space"
        used = "it is used as it is, and so are all others (this is told once)"
        warnings.warn(f"{place}, which lies outside {bounds}: {used}", stacklevel=3)

    def _check_whole(self, space: Box, array: np.ndarray) -> None:
        """Whether the whole numbers that were declared are what has come."""
        outside = (array < space.low) | (array > space.high)
        if array.dtype.kind == "f":
            outside |= array != np.floor(array)
        if outside.any():
            raise self._unfit(array[outside][0])

    def _check_digits(self, array: np.ndarray) -> None:
        """Whether float32 can tell the whole numbers from their neighbours."""
        beyond = (array > _LARGEST_WHOLE) | (array < -_LARGEST_WHOLE)
        if beyond.any():
            right = (
                f"float32, which the network takes, rounds whole numbers beyond {_LARGEST_WHOLE:,}"
            )
            raise fail(f"observation of {self._name}", array[beyond][0].item(), right)

    def _unfit(self, value: Any) -> ValueError:
        right = f"it must lie in the observation space {self._space}"
        return fail(f"observation of {self._name}", told(value), right)


def read_reward(name: str, reward: Any) -> float:
    """A reward as a number; an array with one entry is one."""
    array = _numbers(reward)
    if array is None or array.size != 1 or not abs(array.item()) <= LARGEST_FLOAT32:  # nor NaN
        right = "an environment's rewards must be finite numbers, up to 3.4e38 as float32 is"
        raise fail(f"reward of {name}", told(reward), right)
    return float(array.item())


def read_flag(name: str, argument: str, flag: Any) -> bool:
    """Whether an episode has ended: True, False, or an array with one of them."""
    array = _numbers(flag)
    if array is None or array.size != 1 or array.item() not in (0, 1):
        raise fail(f"{argument} of {name}", told(flag), "it must be True or False")
    return bool(array.item())


def read_results(name: str, method: str, results: Any) -> tuple[Any, ...]:
    """What `reset` or `step` returned, if it has as many parts as Gymnasium asks for."""
    parts = _RESULTS[method]
    if not isinstance(results, tuple) or len(results) != len(parts):
        got = f"{len(results)} of them" if isinstance(results, tuple) else type(results).__name__
        right = f"it must be a tuple ({', '.join(parts)})"
        raise fail(f"what {method} of {name} returns", Described(got), right)
    return results


def read_picture(name: str, picture: Any) -> np.ndarray:
    """What an environment draws, uint8 [height, width, 3]."""
    array = _numbers(picture)
    if array is None or array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8:
        right = "it must be an array of bytes [height, width, 3]"
        raise fail(f"picture of {name}", _shape_told(array), right)
    return array


def told(value: Any) -> Any:
    """A value as a message shows it: large arrays by their shapes."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist() if value.size <= _SHOWN else _shape_told(value)
    text = repr(value)
    return value if len(text) <= 80 else Described(f"{text[:80]}...")


def _with_shape(array: np.ndarray) -> Described:
    """The numbers, if they are few, and their shape."""
    numbers = f"{array.tolist()}, " if array.size <= _SHOWN else ""
    return Described(f"{numbers}{_shape_told(array)}")


def _shape_told(array: np.ndarray | np.generic | None) -> Any:
    return None if array is None else Described(f"{array.dtype} of shape {array.shape}")


def _numbers(value: Any) -> np.ndarray | None:
    """An array of numbers, or None if it is something else, such as text."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):  # lists of different lengths
        return None
    return array if array.dtype.kind in "buif" else None
