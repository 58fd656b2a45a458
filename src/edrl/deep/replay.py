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
from edrl.deep.play import Turn
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

    def remember(self, turn: Turn) -> None:
        """Add a step of some lanes, and the frames on which their episodes ended if they did."""
        after = turn.after
        columns = (turn.lanes, turn.actions, after.reward, after.terminal, turn.starts, after.ended)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for row, (lane, action, reward, terminal, start, ended) in enumerate(rows):
            self.add(turn.frames[row], action, reward, terminal, start, lane)
            if ended:
                self.add_last(after.frame[row], lane)

    def cut(self, lane: int, frame: Shaped[np.ndarray, "..."]) -> None:
        """The lane's episode has been lost after its last step, which led to `frame`."""
        self.add_last(frame, lane)

    def add_last(self, frame: Shaped[np.ndarray, "..."], lane: int = 0) -> None:
        """Add the frame on which an episode ended."""
        self.add(frame, NO_ACTION, 0.0, terminal=True, start=False, lane=lane)

    def sample(self, rng: np.random.Generator, size: int) -> Batch:
        """Transitions drawn uniformly, with replacement, from all that are complete."""
        spans = self._complete()
        if not any(spans):
            raise fail("replay", len(self), "it holds no complete transition yet")
        places = self._drawn(spans, rng, size)
        while len(places) < size:
            places = np.concatenate([places, self._drawn(spans, rng, size)])
        return self.at(places[:size])

    def _drawn(
        self, spans: list[range], rng: np.random.Generator, size: int
    ) -> Int[np.ndarray, " place"]:
        """Places of that many entries, drawn from some times of each lane, less those without an
        action.
        """
        # The lanes' times are numbered one after the other.
        ends = np.cumsum([len(span) for span in spans])
        numbers = rng.integers(0, ends[-1], size)
        lanes = ends.searchsorted(numbers, side="right")
        shifts = np.array([span.stop for span in spans]) - ends
        places = self.place(numbers + shifts.take(lanes), lanes)
        return places.compress(self.actions.take(places) != NO_ACTION)

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
        for lane, span in enumerate(self._complete()):
            found[self.place(np.array(span, np.int64), lane)] = True
        return np.asarray(found & (self.actions != NO_ACTION))

    def gather(
        self, times: Int[np.ndarray, " batch"], lanes: Int[np.ndarray, " batch"] | int = 0
    ) -> Batch:
        """The transitions that begin at the given times."""
        return self.at(self.place(times, lanes))

    def at(self, places: Int[np.ndarray, " batch"]) -> Batch:
        """The transitions that begin at some places."""
        # What is drawn for every update: `take` is several times as fast as brackets.
        returns, after = self.rewards.take(places), self.later(places, 1)
        discounts = np.where(self.terminals.take(places), 0, self.gamma)
        for _ in range(self.n_step - 1):
            # Once a return has ended, or an episode was cut, nothing is added.
            going = (discounts > 0) & (self.actions.take(after) != NO_ACTION)
            returns += np.where(going, discounts * self.rewards.take(after), 0)
            kept = np.where(self.terminals.take(after), 0, self.gamma)
            discounts = np.where(going, discounts * kept, discounts)
            after = np.where(going, self.later(after, 1), after)
        return Batch(
            self.observe(places),
            self.actions.take(places),
            returns,
            discounts.astype(np.float32),
            self.observe(after),
            np.ones(len(places), np.float32),
            places,
        )

    def following(self, places: Int[np.ndarray, " batch"]) -> Rollout:
        """The `n_step` steps from each place on: [n_step, batch]."""
        columns, at = [], places
        for _ in range(self.n_step):
            after = self.later(at, 1)
            columns.append(
                Rollout(
                    observations=self.observe(at),
                    actions=self.actions[at],
                    rewards=self.rewards[at],
                    discounts=np.where(self.terminals[at], 0, self.gamma).astype(np.float32),
                    next_observations=self.observe(after),
                    goes_on=self.actions[after] != NO_ACTION,
                )
            )
            at = after
        return Rollout(*(np.stack(column) for column in zip(*columns, strict=True)))

    def later(self, places: Int[np.ndarray, "..."], by: AnyArray | int) -> Int[np.ndarray, "..."]:
        """The places of the entries of the same lanes that came so many times later."""
        within = places % self.length
        return np.asarray(places - within + (within + by) % self.length)

    def observe(self, places: Int[np.ndarray, " batch"]) -> Shaped[np.ndarray, "batch ..."]:
        """What an agent saw when the entries at some places were added."""
        if self.stack == 1:
            return self.frames.take(places, axis=0)
        back = self.later(places[:, None], np.arange(1 - self.stack, 1))  # oldest first
        return stacked(self.frames.take(back, axis=0), self.starts.take(back))

    def _complete(self) -> list[range]:
        """The times of each lane at which a transition may begin."""
        spans = []
        for added in self.added.tolist():
            oldest = added - self.length
            first = oldest + self.stack - 1 if oldest > 0 else 0
            spans.append(range(first, max(first, added - self.n_step)))
        return spans
