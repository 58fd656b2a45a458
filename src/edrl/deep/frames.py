"""Frame stacking: an observation is the last few frames of one episode."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Bool, Shaped

from edrl.core.check import fail
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


def successor(
    observation: Shaped[np.ndarray, "..."], frame: Shaped[np.ndarray, "..."]
) -> Shaped[np.ndarray, "..."]:
    """The observation after one more frame of the same episode."""
    if observation.ndim == frame.ndim:
        return frame
    return np.concatenate([observation[..., 1:], frame[..., None]], axis=-1)


def _check_frame(
    frame: Shaped[np.ndarray, "..."], frames: Shaped[np.ndarray, "lane stack *frame"]
) -> None:
    """NumPy would repeat a frame of another shape, and cut numbers that do not fit into bytes."""
    if frame.shape == frames.shape[2:] and np.can_cast(frame.dtype, frames.dtype, "same_kind"):
        return
    right = f"it must be {frames.dtype} of shape {frames.shape[2:]}, as the environment declares"
    raise fail("frame", f"{frame.dtype} of shape {frame.shape}", right)


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

    def append(self, lane: int, frame: np.ndarray, start: bool) -> None:
        """The next frame of a lane; `start` says that it is the first of its episode."""
        _check_frame(frame, self.frames)
        for column, newest in ((self.frames, frame), (self.starts, start)):
            column[lane, :-1] = column[lane, 1:]
            column[lane, -1] = newest

    def observations(self) -> Shaped[np.ndarray, "lane ..."]:
        """What the agent sees now."""
        # Copies: what JAX computes from them later must not see frames that come later.
        return np.ascontiguousarray(stacked(self.frames.copy(), self.starts))
