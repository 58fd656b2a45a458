"""Replay memory: every frame stored once, n-step transitions cut out of the stream when they are sampled.

An entry is a frame, the action taken on seeing it, and what came of it. When an episode ends, its last frame gets an
entry of its own without an action, so that a truncated episode can be bootstrapped from. Observations are stacks of
the last frames; frames before an episode's first are zero.
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
    """The last `capacity` entries of a stream of frames, sampled uniformly."""

    capacity: int
    frame_shape: tuple[int, ...]
    frame_dtype: Any
    stack: int = 1
    n_step: int = 1
    gamma: float = 0.99

    def __post_init__(self) -> None:
        check_count("capacity", self.capacity, self.stack + self.n_step + 2)
        self.frames = np.zeros((self.capacity, *self.frame_shape), self.frame_dtype)
        self.actions = np.full(self.capacity, _NO_ACTION, np.int32)
        self.rewards = np.zeros(self.capacity, np.float32)
        self.terminals = np.zeros(self.capacity, bool)
        self.starts = np.zeros(self.capacity, bool)  # an episode's first frame
        self.added = 0  # entries ever added

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def add(self, frame: np.ndarray, action: int, reward: float, terminal: bool, start: bool) -> None:
        """A frame, the action taken on it, its reward, and whether the return ended with it."""
        place = self.added % self.capacity
        self.frames[place] = frame
        self.actions[place] = action
        self.rewards[place] = reward
        self.terminals[place] = terminal
        self.starts[place] = start
        self.added += 1

    def add_last(self, frame: np.ndarray) -> None:
        """The frame on which an episode ended."""
        self.add(frame, _NO_ACTION, 0.0, terminal=True, start=False)

    def sample(self, rng: np.random.Generator, size: int) -> Batch:
        """Transitions drawn uniformly, with replacement, from all that are complete."""
        oldest = self.added - len(self)
        first, last = oldest + (self.stack - 1 if oldest else 0), self.added - self.n_step
        if last <= first:
            raise fail("replay", len(self), "it holds no complete transition yet")
        chosen = np.empty(0, np.int64)
        while len(chosen) < size:
            drawn = rng.integers(first, last, size)
            chosen = np.concatenate([chosen, drawn[self.actions[drawn % self.capacity] != _NO_ACTION]])
        return self.gather(chosen[:size])

    def gather(self, times: np.ndarray) -> Batch:
        """The transitions that begin at the given times."""
        returns = np.zeros(len(times), np.float32)
        discounts = np.ones(len(times), np.float32)
        after = times.copy()
        for _ in range(self.n_step):
            place = after % self.capacity
            # Once a return has ended, or the next action is missing because an episode was cut, nothing is added.
            going = (discounts > 0) & (self.actions[place] != _NO_ACTION)
            returns += np.where(going, discounts * self.rewards[place], 0)
            discounts = np.where(going, discounts * np.where(self.terminals[place], 0, self.gamma), discounts)
            after += going
        actions = self.actions[times % self.capacity]
        return Batch(
            self.observe(times), actions, returns.astype(np.float32), discounts.astype(np.float32), self.observe(after)
        )

    def observe(self, times: np.ndarray) -> np.ndarray:
        """Stacks of the frames up to the given times, [batch, ..., stack], or plain frames if the stack is 1."""
        if self.stack == 1:
            return self.frames[times % self.capacity]
        back = times[:, None] - np.arange(self.stack - 1, -1, -1)  # oldest first
        place = back % self.capacity
        # A frame counts if no episode starts after it, up to the time itself.
        starts = self.starts[place]
        later = np.cumsum(starts[:, ::-1], axis=1)[:, ::-1] - starts
        seen = (later == 0) & (back >= 0)
        stacked = self.frames[place]
        stacked[~seen] = 0
        return np.moveaxis(stacked, 1, -1)
