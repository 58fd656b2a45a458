"""Replay memory: every frame stored once, n-step transitions cut out of the stream when sampled.

An entry is a frame, the action taken on seeing it, and what came of it. When an episode ends, its
last frame gets an entry of its own without an action, so that a truncated episode can be
bootstrapped from. Environments that are played side by side have a lane each.
"""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import DTypeLike

from edrl.core.check import check_count, fail
from edrl.deep.frames import stacked
from edrl.deep.play import Moment
from edrl.deep.rollout import Batch, Rollout
from edrl.deep.types import AnyArray

NO_ACTION = -1


@dataclass
class Replay:
    """The last `capacity` entries of streams of frames, one a lane, sampled uniformly.

    A memory of another kind is a subclass, passed as `train(..., replay=...)`. It may override
    `sample`, `update`, and `save` and `load` for arrays of its own that a checkpoint must hold.
    """

    capacity: int
    frame_shape: tuple[int, ...]
    frame_dtype: DTypeLike
    stack: int = 1
    n_step: int = 1
    gamma: float = 0.99
    lanes: int = 1

    def __post_init__(self) -> None:
        check_count("capacity", self.capacity, self.lanes * (self.stack + self.n_step + 2))
        self.length = self.capacity // self.lanes  # of a lane
        try:
            self.frames = np.zeros((self.capacity, *self.frame_shape), self.frame_dtype)
        except MemoryError as error:
            right = f"its frames of {self.frame_shape} need more memory than there is ({error})"
            raise fail("replay", self.capacity, f"{right}: make it smaller") from error
        self.actions = np.full(self.capacity, NO_ACTION, np.int32)
        self.rewards = np.zeros(self.capacity, np.float32)
        self.terminals = np.zeros(self.capacity, bool)
        self.starts = np.zeros(self.capacity, bool)  # an episode's first frame
        self.added = np.zeros(self.lanes, np.int64)  # entries ever added to each lane

    def __len__(self) -> int:
        return int(np.minimum(self.added, self.length).sum())

    @property
    def oldest(self) -> Int[np.ndarray, " lane"]:
        """The time of each lane's oldest entry."""
        return np.maximum(self.added - self.length, 0)

    def place(
        self, times: Int[np.ndarray, "..."], lanes: Int[np.ndarray, "..."] | int = 0
    ) -> Int[np.ndarray, "..."]:
        """Where the entries of some times are."""
        return lanes * self.length + times % self.length

    def next_place(self, lane: int) -> int:
        """Where the next entry of a lane goes."""
        return lane * self.length + int(self.added[lane]) % self.length

    def add(
        self,
        frame: Shaped[np.ndarray, "..."],
        action: int,
        reward: float,
        terminal: bool,
        start: bool,
        lane: int = 0,
    ) -> None:
        """Add a frame, the action taken on it, its reward, and whether the return ended with it."""
        place = self.next_place(lane)
        self.frames[place] = frame
        self.actions[place] = action
        self.rewards[place] = reward
        self.terminals[place] = terminal
        self.starts[place] = start
        self.added[lane] += 1

    def remember(self, moment: Moment) -> None:
        """Add a step of one lane, and the frame on which its episode ended if it did."""
        after = moment.after
        self.add(
            moment.frame, moment.action, after.reward, after.terminal, moment.start, moment.lane
        )
        if after.ended:
            self.add_last(after.frame, moment.lane)

    def cut(self, lane: int, frame: Shaped[np.ndarray, "..."]) -> None:
        """The lane's episode has been lost after its last step, which led to `frame`."""
        self.add_last(frame, lane)

    def add_last(self, frame: Shaped[np.ndarray, "..."], lane: int = 0) -> None:
        """Add the frame on which an episode ended."""
        self.add(frame, NO_ACTION, 0.0, terminal=True, start=False, lane=lane)

    def sample(self, rng: np.random.Generator, size: int) -> Batch:
        """Transitions drawn uniformly, with replacement, from all that are complete."""
        first, count = self._complete()
        ends = np.cumsum(count)  # the lanes' transitions are numbered one after the other
        if ends[-1] == 0:
            raise fail("replay", len(self), "it holds no complete transition yet")
        chosen = np.empty((2, 0), np.int64)
        while chosen.shape[1] < size:
            drawn = rng.integers(0, ends[-1], size)
            lanes = np.searchsorted(ends, drawn, side="right")
            times = drawn - (ends - count - first)[lanes]
            real = self.actions[self.place(times, lanes)] != NO_ACTION
            chosen = np.concatenate([chosen, np.stack([times, lanes])[:, real]], axis=1)
        return self.gather(*chosen[:, :size])

    def update(
        self, indices: Int[AnyArray, " *batch"], losses: Float[jax.Array, " *batch"]
    ) -> None:
        """Take note of the losses of a batch; a memory with priorities changes them here."""

    def save(self) -> dict[str, np.ndarray]:
        """What a checkpoint must hold besides the entries, which are saved as they come."""
        return {}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Go back to what `save` gave."""

    def startable(self) -> Bool[np.ndarray, " capacity"]:
        """Which places a complete transition begins at."""
        found = np.zeros(self.capacity, bool)
        for lane, (first, count) in enumerate(zip(*self._complete(), strict=True)):
            found[self.place(np.arange(first, first + count), lane)] = True
        return np.asarray(found & (self.actions != NO_ACTION))

    def at(self, places: Int[np.ndarray, " batch"]) -> Batch:
        """The transitions that begin at some places."""
        lanes, _ = np.divmod(places, self.length)
        return self.gather(self._times(places, lanes), lanes)

    def _times(
        self, places: Int[np.ndarray, " batch"], lanes: Int[np.ndarray, " batch"]
    ) -> Int[np.ndarray, " batch"]:
        """When the entries at some places were added."""
        newest = self.added[lanes] - 1
        return np.asarray(newest - (newest - places % self.length) % self.length)

    def gather(
        self, times: Int[np.ndarray, " batch"], lanes: Int[np.ndarray, " batch"] | int = 0
    ) -> Batch:
        """The transitions that begin at the given times."""
        returns = np.zeros(len(times), np.float32)
        discounts = np.ones(len(times), np.float32)
        after = times.copy()
        for _ in range(self.n_step):
            place = self.place(after, lanes)
            # Once a return has ended, or an episode was cut, nothing is added.
            going = (discounts > 0) & (self.actions[place] != NO_ACTION)
            returns += np.where(going, discounts * self.rewards[place], 0)
            kept = np.where(self.terminals[place], 0, self.gamma)
            discounts = np.where(going, discounts * kept, discounts)
            after += going
        begin = self.place(times, lanes)
        return Batch(
            self.observe(times, lanes),
            self.actions[begin],
            returns.astype(np.float32),
            discounts.astype(np.float32),
            self.observe(after, lanes),
            np.ones(len(times), np.float32),
            begin,
        )

    def following(self, places: Int[np.ndarray, " batch"]) -> Rollout:
        """The `n_step` steps from each place on: [n_step, batch]."""
        lanes, _ = np.divmod(places, self.length)
        first = self._times(places, lanes)
        columns = []
        for later in range(self.n_step):
            times = first + later
            at, after = self.place(times, lanes), self.place(times + 1, lanes)
            columns.append(
                Rollout(
                    observations=self.observe(times, lanes),
                    actions=self.actions[at],
                    rewards=self.rewards[at],
                    discounts=np.where(self.terminals[at], 0, self.gamma).astype(np.float32),
                    next_observations=self.observe(times + 1, lanes),
                    goes_on=self.actions[after] != NO_ACTION,
                )
            )
        return Rollout(*(np.stack(column) for column in zip(*columns, strict=True)))

    def observe(
        self, times: Int[np.ndarray, " batch"], lanes: Int[np.ndarray, " batch"] | int = 0
    ) -> Shaped[np.ndarray, "batch ..."]:
        """What an agent saw at the given times."""
        if self.stack == 1:
            return np.asarray(self.frames[self.place(times, lanes)])
        back = times[:, None] - np.arange(self.stack - 1, -1, -1)  # oldest first
        place = self.place(back, np.asarray(lanes)[..., None])
        return stacked(self.frames[place], self.starts[place])

    def _complete(self) -> tuple[Int[np.ndarray, " lane"], Int[np.ndarray, " lane"]]:
        """Each lane's first time at which a transition may begin, and how many there are."""
        first = self.oldest + np.where(self.oldest > 0, self.stack - 1, 0)
        return first, np.maximum(self.added - self.n_step - first, 0)
