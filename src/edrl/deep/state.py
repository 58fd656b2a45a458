"""The state of a run: one tree, saved as arrays that are named by their paths in it.

A new piece of state is one more field. It may be an array, a number, a pytree of those, a random
generator, or an object with `save() -> dict of arrays` and `load(dict of arrays)`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import PyTree

from edrl.deep.checkpoint import CheckpointError
from edrl.deep.device_memory import DeviceReplay, DeviceRollout
from edrl.deep.environments.environment import (
    array_to_generator,
    from_plain,
    generator_to_array,
    to_plain,
)
from edrl.deep.lanes import Lanes
from edrl.deep.learner import Learner, Losses
from edrl.deep.play import Actors, Played
from edrl.deep.replay import Replay
from edrl.deep.rollout import RolloutMemory

Arrays = dict[str, np.ndarray]
Tree = TypeVar("Tree", bound=PyTree)


@runtime_checkable
class Stateful(Protocol):
    """An object that saves itself: an environment, a replay memory, a callback."""

    def save(self) -> Arrays: ...

    def load(self, arrays: Arrays) -> None: ...


Leaf: TypeAlias = ArrayLike | np.random.Generator | Stateful


@jax.tree_util.register_dataclass
@dataclass
class Counters:
    """How far a run has come, in steps unless it says otherwise."""

    step: int = 0
    episodes: int = 0  # that have ended
    logged: int = 0  # the last row of metrics
    evaluated: int = 0  # the last evaluation


@dataclass
class SinceLog:
    """What has happened since the last row of metrics."""

    played: Played = field(default_factory=Played)
    losses: list[Losses] = field(default_factory=list)

    def mean_losses(self) -> np.ndarray:
        """The loss before each update."""
        return np.concatenate([np.zeros(0), *(np.atleast_1d(one.mean) for one in self.losses)])

    def clear(self) -> None:
        self.played, self.losses = Played(), []

    def save(self) -> Arrays:
        scores, lengths = np.array(self.played.scores), np.array(self.played.lengths, np.int64)
        return {"scores": scores, "lengths": lengths, "losses": self.mean_losses()}

    def load(self, arrays: Arrays) -> None:
        self.played = Played(arrays["scores"].tolist(), arrays["lengths"].tolist())
        losses = jnp.asarray(arrays["losses"], jnp.float32)
        self.losses = [Losses(losses, losses)] if len(losses) else []


@jax.tree_util.register_dataclass
@dataclass
class RunState:
    """Everything that changes while a run goes on."""

    learner: Learner
    memory: Replay | RolloutMemory | DeviceReplay | DeviceRollout
    actors: Actors | Lanes
    rng: np.random.Generator
    counters: Counters
    since_log: SinceLog
    callbacks: Mapping[str, Stateful]


def to_arrays(tree: PyTree) -> Arrays:
    """A tree as arrays, each named by its path: `learner/online/0/weight`."""
    arrays: Arrays = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        if isinstance(leaf, Stateful):
            arrays |= {f"{name}/{part}": array for part, array in leaf.save().items()}
        elif isinstance(leaf, np.random.Generator):
            arrays[name] = generator_to_array(leaf)
        else:
            arrays[name] = to_plain(leaf)
    return arrays


def from_arrays(tree: Tree, arrays: Arrays, where: str = "the checkpoint") -> Tree:
    """A tree like this one, with what `to_arrays` saved; objects in it are loaded in place.

    Errors say `where` the arrays come from.
    """
    other = f"{where} is of another agent"

    def loaded(path: tuple[jax.tree_util.KeyEntry, ...], leaf: Leaf) -> object:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        if isinstance(leaf, Stateful):
            _load(leaf, name, _below(arrays, f"{name}/"), other)
            return leaf
        if name not in arrays:
            raise CheckpointError(f"{other}: it has no {name}")
        return _like(leaf, name, arrays[name], other)

    found: Tree = jax.tree_util.tree_map_with_path(loaded, tree)
    return found


def _load(leaf: Stateful, name: str, arrays: Arrays, other: str) -> None:
    """Load an object in place; `other` says that the arrays are not those of such an object."""
    try:
        leaf.load(arrays)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        why = f"{name} cannot be loaded ({type(error).__name__}: {error})"
        raise CheckpointError(f"{other}: {why}") from error
    # Objects convert what they load (`bool(state["running"])`) and so believe another kind of
    # number; what they would save now tells which kind is theirs.
    for part, own in leaf.save().items():
        if part in arrays and arrays[part].dtype.kind != own.dtype.kind:
            expected = f"{name}/{part} is {arrays[part].dtype}, not {own.dtype}"
            raise CheckpointError(f"{other}: {expected}")


def _below(arrays: Arrays, prefix: str) -> Arrays:
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def _like(
    leaf: ArrayLike | np.random.Generator, name: str, array: np.ndarray, other: str
) -> object:
    """An array as what it was before it was saved; `other` says that it is not like this."""
    like = generator_to_array(leaf) if isinstance(leaf, np.random.Generator) else to_plain(leaf)
    if (array.shape, array.dtype) != (like.shape, like.dtype):
        expected = f"{name} is {array.dtype} {array.shape}, not {like.dtype} {like.shape}"
        raise CheckpointError(f"{other}: {expected}")
    if isinstance(leaf, np.random.Generator):
        return array_to_generator(array)
    if isinstance(leaf, jax.Array):
        return from_plain(leaf, array)
    return array.item() if isinstance(leaf, int | float) else array
