"""Frame stacking: an observation is the last few frames of one episode."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Bool, Int, Shaped

from edrl.core.check import fail
from edrl.core.words import Described
from edrl.deep.environments import Environment


def stacked(
    frames: Shaped[np.ndarray, "batch stack *frame"], starts: Bool[np.ndarray, "batch stack"]
) -> Shaped[np.ndarray, "batch ..."]:
    """Observations [batch, ..., stack], or plain frames if the stack is 1.

    Args:
        frames: the last frames, oldest first; those of earlier episodes become zero, in place.
        starts: which of them are the first of their episode.
    """
    if frames.shape[1] == 1:
        return frames[:, 0]
    # A frame counts if no episode starts after it.
    later = np.cumsum(starts[:, ::-1], axis=1)[:, ::-1] - starts
    frames[later > 0] = 0
    return np.moveaxis(frames, 1, -1)


def successors(
    observations: Shaped[np.ndarray, "lane ..."], frames: Shaped[np.ndarray, "lane ..."]
) -> Shaped[np.ndarray, "lane ..."]:
    """The observations after one more frame each of the same episodes."""
    if observations.ndim == frames.ndim:
        return frames
    return np.concatenate([observations[..., 1:], frames[..., None]], axis=-1)


@jax.tree_util.register_dataclass
@dataclass
class RecentFrames:
    """The last frames of environments that are played side by side, one lane each."""

    frames: Shaped[np.ndarray, "lane stack *frame"]
    starts: Bool[np.ndarray, "lane stack"]

    @classmethod
    def of(cls, environment: Environment, lanes: int) -> "RecentFrames":
        """None yet, in the shape of an environment's frames."""
        shape = (lanes, environment.stack)
        frames = np.zeros((*shape, *environment.frame_shape), environment.frame_dtype)
        return cls(frames, np.zeros(shape, bool))

    def append(
        self,
        lanes: Int[np.ndarray, " lane"] | slice,
        frames: Shaped[np.ndarray, "lane ..."],
        starts: Bool[np.ndarray, " lane"] | bool,
    ) -> None:
        """The next frames of some lanes, and whether they are the first of an episode."""
        for column, newest in ((self.frames, frames), (self.starts, starts)):
            if column.shape[1] > 1:
                column[lanes, :-1] = column[lanes, 1:]
            column[lanes, -1] = newest

    def observations(self) -> Shaped[np.ndarray, "lane ..."]:
        """What the agent sees now."""
        # Copies: what JAX computes from them later must not see frames that come later.
        return np.ascontiguousarray(stacked(self.frames.copy(), self.starts))

    def newest(
        self, observations: Shaped[np.ndarray, "lane ..."]
    ) -> Shaped[np.ndarray, "lane ..."]:
        """The newest frames of observations."""
        return observations if self.frames.shape[1] == 1 else observations[..., -1]


def together(
    frames: Sequence[Shaped[np.ndarray, "*frame"]], recent: RecentFrames
) -> Shaped[np.ndarray, "lane ..."]:
    """Frames of several lanes in one array, of the form that an environment has declared."""
    shape, dtype = recent.frames.shape[2:], recent.frames.dtype
    for frame in frames:
        # NumPy would repeat a frame of another shape, and cut numbers that do not fit into bytes.
        fits = frame.dtype == dtype or np.can_cast(frame.dtype, dtype, "same_kind")
        if frame.shape != shape or not fits:
            right = f"it must be {dtype} of shape {shape}, as the environment declares"
            raise fail("frame", Described(f"{frame.dtype} of shape {frame.shape}"), right)
    # `concatenate` takes a third of the time of `stack`.
    flat = np.concatenate([frame.reshape(1, -1) for frame in frames])
    return flat.reshape(-1, *shape).astype(dtype, copy=False)
