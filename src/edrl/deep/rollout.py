"""Rollouts: the last steps of environments that are played side by side, learnt from once."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import DTypeLike

from edrl.deep.frames import successors
from edrl.deep.play import Turn
from edrl.deep.types import AnyArray


class Batch(NamedTuple):
    """Sampled transitions."""

    observations: Shaped[AnyArray, "*batch"]
    actions: Int[AnyArray, " *batch"]
    returns: Float[AnyArray, " *batch"]  # sum of gamma^i r_i over the n steps, or fewer
    discounts: Float[AnyArray, " *batch"]  # gamma^m after m steps, 0 if the return ended
    next_observations: Shaped[AnyArray, "*batch"]
    weights: Float[AnyArray, " *batch"] = np.ones((), np.float32)  # of the losses
    indices: Int[AnyArray, " *batch"] = np.zeros((), np.int64)  # where in the memory they begin


class Rollout(NamedTuple):
    """T steps of each lane, in the order in which they were made."""

    observations: Shaped[AnyArray, "T lane ..."]
    actions: Int[AnyArray, "T lane"]
    rewards: Float[AnyArray, "T lane"]
    discounts: Float[AnyArray, "T lane"]  # gamma, or 0 where the return ends with the step
    next_observations: Shaped[AnyArray, "T lane ..."]  # of the same episode, also where it ends
    goes_on: Bool[AnyArray, "T lane"]  # whether the next step belongs to the same episode


class RolloutMemory:
    """Holds the steps since the last update, and before those what is left of the last rollout."""

    def __init__(
        self,
        length: int,
        lanes: int,
        observation_shape: tuple[int, ...],
        dtype: DTypeLike,
        gamma: float,
    ) -> None:
        shape = (length, lanes)
        self._gamma = gamma
        self.rollout = Rollout(
            observations=np.zeros((*shape, *observation_shape), dtype),
            actions=np.zeros(shape, np.int32),
            rewards=np.zeros(shape, np.float32),
            discounts=np.zeros(shape, np.float32),
            next_observations=np.zeros((*shape, *observation_shape), dtype),
            goes_on=np.zeros(shape, bool),
        )
        self.added = np.zeros(lanes, np.int64)  # steps ever added to each lane

    @property
    def complete(self) -> bool:
        """Whether the last step has completed a rollout."""
        return int(self.added[0]) % len(self.rollout.actions) == 0

    def taken(self) -> Rollout:
        """A copy of the last rollout: what is computed from it later must not see later steps."""
        return Rollout(*(column.copy() for column in self.rollout))

    def remember(self, turn: Turn) -> None:
        """Add a step of every lane."""
        rollout, after = self.rollout, turn.after
        at = int(self.added[0]) % len(rollout.actions)
        rollout.observations[at] = turn.observations
        rollout.actions[at] = turn.actions
        rollout.rewards[at] = after.reward
        rollout.discounts[at] = np.where(after.terminal, 0.0, self._gamma)
        rollout.next_observations[at] = successors(turn.observations, after.frame)
        rollout.goes_on[at] = ~after.ended
        self.added += 1

    def cut(self, lane: int, frame: Shaped[np.ndarray, "..."]) -> None:
        """The lane's episode has been lost after its last step, which led to `frame`."""
        self.rollout.goes_on[(int(self.added[0]) - 1) % len(self.rollout.actions), lane] = False

    def sample(self, rng: np.random.Generator, size: int) -> Batch:
        """Transitions that are held, each drawn with the same probability."""
        rollout, lanes = self.rollout, len(self.added)
        rows = min(int(self.added[0]), len(rollout.actions))
        at = rng.integers(rows, size=size), rng.integers(lanes, size=size)
        return Batch(
            rollout.observations[at],
            rollout.actions[at],
            rollout.rewards[at],
            rollout.discounts[at],
            rollout.next_observations[at],
            np.ones(size, np.float32),
            at[0] * lanes + at[1],
        )

    def save(self) -> dict[str, np.ndarray]:
        """Everything that is held."""
        return {**self.rollout._asdict(), "added": self.added}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Go back to what `save` gave."""
        for name, array in self.save().items():
            array[...] = arrays[name]
