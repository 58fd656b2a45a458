"""Replay memory: every frame stored once, n-step transitions cut out of the stream when they are sampled.

An entry is a frame, the action taken on seeing it, and what came of it. When an episode ends, its last frame gets an
entry of its own without an action, so that a truncated episode can be bootstrapped from. Observations are stacks of
the last frames; frames before an episode's first are zero. Environments that are played side by side have a lane each.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from edrl.core.check import check_count, fail

_NO_ACTION = -1


class Batch(NamedTuple):
    """Sampled transitions."""

    observations: np.ndarray  # [batch, ..., stack]
    actions: np.ndarray  # [batch]
    returns: np.ndarray  # [batch]: sum of gamma^i r_i over the n steps, or fewer
    discounts: np.ndarray  # [batch]: gamma^m after m steps, 0 if the return ended
    next_observations: np.ndarray  # [batch, ..., stack]


@dataclass
class Replay:
    """The last `capacity` entries of streams of frames, one a lane, sampled uniformly."""

    capacity: int
    frame_shape: tuple[int, ...]
    frame_dtype: Any
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
            right = f"its frames of {self.frame_shape} need more memory than there is ({error}): make it smaller"
            raise fail("replay", self.capacity, right) from error
        self.actions = np.full(self.capacity, _NO_ACTION, np.int32)
        self.rewards = np.zeros(self.capacity, np.float32)
        self.terminals = np.zeros(self.capacity, bool)
        self.starts = np.zeros(self.capacity, bool)  # an episode's first frame
        self.added = np.zeros(self.lanes, np.int64)  # entries ever added to each lane

    def __len__(self) -> int:
        return int(np.minimum(self.added, self.length).sum())

    @property
    def oldest(self) -> np.ndarray:
        """The time of each lane's oldest entry."""
        return np.maximum(self.added - self.length, 0)

    def place(self, times: Any, lanes: Any = 0) -> Any:
        """Where the entries of some times are."""
        return lanes * self.length + times % self.length

    def add(self, frame: np.ndarray, action: int, reward: float, terminal: bool, start: bool, lane: int = 0) -> None:
        """A frame, the action taken on it, its reward, and whether the return ended with it."""
        place = self.place(self.added[lane], lane)
        self.frames[place] = frame
        self.actions[place] = action
        self.rewards[place] = reward
        self.terminals[place] = terminal
        self.starts[place] = start
        self.added[lane] += 1

    def add_last(self, frame: np.ndarray, lane: int = 0) -> None:
        """The frame on which an episode ended."""
        self.add(frame, _NO_ACTION, 0.0, terminal=True, start=False, lane=lane)

    def sample(self, rng: np.random.Generator, size: int) -> Batch:
        """Transitions drawn uniformly, with replacement, from all that are complete."""
        first = self.oldest + np.where(self.oldest > 0, self.stack - 1, 0)
        count = np.maximum(self.added - self.n_step - first, 0)
        ends = np.cumsum(count)  # the lanes' transitions are numbered one after the other
        if ends[-1] == 0:
            raise fail("replay", len(self), "it holds no complete transition yet")
        chosen = np.empty((2, 0), np.int64)
        while chosen.shape[1] < size:
            drawn = rng.integers(0, ends[-1], size)
            lanes = np.searchsorted(ends, drawn, side="right")
            times = drawn - (ends - count - first)[lanes]
            real = self.actions[self.place(times, lanes)] != _NO_ACTION
            chosen = np.concatenate([chosen, np.stack([times, lanes])[:, real]], axis=1)
        return self.gather(*chosen[:, :size])

    def gather(self, times: np.ndarray, lanes: Any = 0) -> Batch:
        """The transitions that begin at the given times."""
        returns = np.zeros(len(times), np.float32)
        discounts = np.ones(len(times), np.float32)
        after = times.copy()
        for _ in range(self.n_step):
            place = self.place(after, lanes)
            # Once a return has ended, or the next action is missing because an episode was cut, nothing is added.
            going = (discounts > 0) & (self.actions[place] != _NO_ACTION)
            returns += np.where(going, discounts * self.rewards[place], 0)
            discounts = np.where(going, discounts * np.where(self.terminals[place], 0, self.gamma), discounts)
            after += going
        actions = self.actions[self.place(times, lanes)]
        before, later = self.observe(times, lanes), self.observe(after, lanes)
        return Batch(before, actions, returns.astype(np.float32), discounts.astype(np.float32), later)

    def observe(self, times: np.ndarray, lanes: Any = 0) -> np.ndarray:
        """Stacks of the frames up to the given times, [batch, ..., stack], or plain frames if the stack is 1."""
        if self.stack == 1:
            return self.frames[self.place(times, lanes)]
        back = times[:, None] - np.arange(self.stack - 1, -1, -1)  # oldest first
        place = self.place(back, np.asarray(lanes)[..., None])
        # A frame counts if no episode starts after it, up to the time itself.
        starts = self.starts[place]
        later = np.cumsum(starts[:, ::-1], axis=1)[:, ::-1] - starts
        seen = (later == 0) & (back >= 0)
        stacked = self.frames[place]
        stacked[~seen] = 0
        return np.moveaxis(stacked, 1, -1)
