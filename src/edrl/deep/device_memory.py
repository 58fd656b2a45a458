"""Memory on the device: what compiled training has seen, and transitions that it draws from that.

The columns are those of `Replay` and of `Rollout`, and the host can look at them as such: for
checkpoints, for diagnoses and in tests.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from edrl.deep.environments.in_jax import JaxOnHost
from edrl.deep.lanes import Happened
from edrl.deep.replay import NO_ACTION, Replay
from edrl.deep.rollout import Batch, Rollout, RolloutMemory
from edrl.deep.types import AnyArray, Key


class Columns(NamedTuple):
    """The entries of a replay memory, as in `Replay`."""

    frames: Shaped[Array, "capacity ..."]
    actions: Int[Array, " capacity"]
    rewards: Float[Array, " capacity"]
    terminals: Bool[Array, " capacity"]
    starts: Bool[Array, " capacity"]
    added: Int[Array, " lane"]  # entries ever added to each lane

    def written(
        self, places: Int[Array, " lane"], *entries: Shaped[Array, "lane ..."]
    ) -> "Columns":
        """The columns with entries at some places; a place beyond the last one is left out."""
        changed = {}
        for name, new in zip(self._fields[:-1], entries, strict=True):
            changed[name] = getattr(self, name).at[places].set(new, mode="drop")
        return self._replace(**changed)


@dataclass(frozen=True)
class Layout:
    """How a replay memory is laid out and sampled: pure functions of its columns."""

    lanes: int
    length: int  # of a lane
    n_step: int
    gamma: float

    def place(self, times: Int[Array, "..."], lanes: Int[Array, "..."]) -> Int[Array, "..."]:
        """Where the entries of some times are."""
        return lanes * self.length + times % self.length

    def remember(self, columns: Columns, happened: Happened) -> Columns:
        """Add a step of every lane, and the frames on which episodes ended."""
        lanes, after = jnp.arange(self.lanes), happened.after
        columns = columns.written(
            self.place(columns.added, lanes),
            happened.frames, happened.actions, after.reward, after.terminal, happened.starts,
        )  # fmt: skip
        nowhere = len(columns.actions)
        last = jnp.where(after.ended, self.place(columns.added + 1, lanes), nowhere)
        no_action, none = jnp.full(self.lanes, NO_ACTION), jnp.zeros(self.lanes)
        columns = columns.written(last, after.frame, no_action, none, none == 0, none != 0)
        return columns._replace(added=columns.added + 1 + after.ended)

    def sample(self, columns: Columns, key: Key, size: int) -> Batch:
        """Transitions drawn uniformly, with replacement, from all that are complete."""
        first = jnp.maximum(columns.added - self.length, 0)
        count = jnp.maximum(columns.added - self.n_step - first, 0)
        ends = jnp.cumsum(count)  # the lanes' transitions are numbered one after the other

        def drawn(key: Key) -> Int[Array, " batch"]:
            numbers = jax.random.randint(key, (size,), 0, ends[-1])
            lanes = jnp.searchsorted(ends, numbers, side="right")
            return self.place(numbers - (ends - count - first)[lanes], lanes)

        def real(places: Int[Array, " batch"]) -> Bool[Array, " batch"]:
            return columns.actions[places] != NO_ACTION

        def again(tried: tuple[Key, Int[Array, " batch"]]) -> tuple[Key, Int[Array, " batch"]]:
            key, places = tried
            key, now = jax.random.split(key)
            return key, jnp.where(real(places), places, drawn(now))

        key, now = jax.random.split(key)
        _, places = jax.lax.while_loop(
            lambda tried: ~jnp.all(real(tried[1])), again, (key, drawn(now))
        )
        return self.at(columns, places)

    def at(self, columns: Columns, places: Int[Array, " batch"]) -> Batch:
        """The transitions that begin at some places."""
        returns, discounts, after = jnp.zeros(len(places)), jnp.ones(len(places)), places
        for _ in range(self.n_step):
            # Once a return has ended, or an episode was cut, nothing is added.
            going = (discounts > 0) & (columns.actions[after] != NO_ACTION)
            returns = returns + jnp.where(going, discounts * columns.rewards[after], 0)
            kept = jnp.where(columns.terminals[after], 0, jnp.float32(self.gamma))
            discounts = jnp.where(going, discounts * kept, discounts)
            after = jnp.where(going, self.later(after, 1), after)
        return Batch(
            columns.frames[places],
            columns.actions[places],
            returns,
            discounts,
            columns.frames[after],
            jnp.ones(len(places)),
            places,
        )

    def following(self, columns: Columns, places: Int[Array, " batch"]) -> Rollout:
        """The `n_step` steps from each place on: [n_step, batch]."""
        at = self.later(places, jnp.arange(self.n_step)[:, None])
        after = self.later(at, 1)
        return Rollout(
            observations=columns.frames[at],
            actions=columns.actions[at],
            rewards=columns.rewards[at],
            discounts=jnp.where(columns.terminals[at], 0, jnp.float32(self.gamma)),
            next_observations=columns.frames[after],
            goes_on=columns.actions[after] != NO_ACTION,
        )

    def later(self, places: Int[Array, "..."], by: AnyArray | int) -> Int[Array, "..."]:
        """The places of the entries of the same lanes that came so many times later."""
        within = places % self.length
        return places - within + (within + by) % self.length


class DeviceReplay:
    """A replay memory whose entries are on the device."""

    def __init__(
        self, environment: JaxOnHost, capacity: int, n_step: int, gamma: float, lanes: int
    ) -> None:
        self._given = (
            capacity, environment.frame_shape, environment.frame_dtype, 1, n_step, gamma, lanes,
        )  # fmt: skip
        empty = self.empty()
        self.layout = Layout(lanes, empty.length, n_step, gamma)
        self.take_from(empty)

    def empty(self) -> Replay:
        """An empty memory on the host, of the same size."""
        return Replay(*self._given)

    def take_from(self, replay: Replay) -> None:
        """Take the entries of a memory on the host."""
        self.columns = Columns(
            jnp.array(replay.frames), jnp.array(replay.actions), jnp.array(replay.rewards),
            jnp.array(replay.terminals), jnp.array(replay.starts),
            jnp.array(replay.added, jnp.int32),
        )  # fmt: skip

    def on_host(self) -> Replay:
        """A memory on the host with these entries, to look at."""
        replay, columns = self.empty(), jax.device_get(self.columns)
        replay.frames, replay.actions, replay.rewards = columns[:3]
        replay.terminals, replay.starts = columns[3:5]
        replay.added = columns.added.astype(np.int64)
        return replay

    def sample(self, rng: np.random.Generator, size: int) -> Batch:
        """Transitions drawn uniformly, on the host."""
        return self.on_host().sample(rng, size)

    def save(self) -> dict[str, np.ndarray]:
        """Nothing: the entries are saved as they come."""
        return {}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Nothing: the entries are read from their files."""


class DeviceRollout:
    """The steps since the last update, and before those what is left of the last rollout."""

    def __init__(self, environment: JaxOnHost, length: int, lanes: int, gamma: float) -> None:
        self._given = length, lanes, environment.frame_shape, environment.frame_dtype, gamma
        self.load(RolloutMemory(*self._given).save())

    @property
    def place(self) -> int:
        """Where in the rollout the next step goes."""
        return self.added % len(self.rollout.actions)

    def sample(self, rng: np.random.Generator, size: int) -> Batch:
        """Transitions drawn uniformly, on the host."""
        memory = RolloutMemory(*self._given)
        memory.load(self.save())
        return memory.sample(rng, size)

    def save(self) -> dict[str, np.ndarray]:
        """Everything that is held, as `RolloutMemory` saves it."""
        added = np.full(self.rollout.actions.shape[1], self.added, np.int64)
        return {**jax.device_get(self.rollout)._asdict(), "added": added}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Go back to what `save` gave."""
        self.rollout = Rollout(*(jnp.array(arrays[name]) for name in Rollout._fields))
        self.added = int(arrays["added"][0])  # steps ever added to each lane
