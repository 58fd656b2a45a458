"""`Particles`: a finite weighted distribution on the line, the only form in which samples exist here."""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from edrl.core.check import check_count, check_number, fail
from edrl.core.precision import as_float, as_floats, compiled, is_concrete, keep_precision


class Particles(eqx.Module):
    """The distribution `sum_i probs[i] * delta(atoms[i])`, or a batch of them along the leading axes.

    Atoms need not be sorted or distinct, and atoms of probability zero are allowed: they are padding, and
    nothing computed here depends on where they lie. `probs` may be left out (equal weights) and may have
    fewer leading axes than `atoms`.
    """

    atoms: Any  # [..., n]
    probs: Any  # [..., n]

    def __init__(self, atoms: ArrayLike, probs: ArrayLike | None = None):
        points = as_float(atoms)
        if points.ndim == 0 or points.shape[-1] == 0:
            raise fail("atoms.shape", points.shape, "atoms need a last axis with at least one atom, e.g. [0.0, 1.0]")
        if probs is None:
            given = masses = np.full(points.shape[-1], 1.0 / points.shape[-1], points.dtype)
        else:
            given = as_float(probs)
            points, masses = as_floats(atoms, probs)
        _check_shape(masses.shape, points.shape)
        widened = _bits(given) < _bits(masses)
        if is_concrete(points, masses):
            _check_atoms(np.asarray(points))
            _check_probs("probs", np.asarray(given if widened else masses))
        masses = _summing_to_one(masses) if widened else masses
        xp: Any = np if isinstance(points, np.ndarray) and isinstance(masses, np.ndarray) else jnp
        self.atoms = points
        self.probs = masses if masses.shape == points.shape else xp.broadcast_to(masses, points.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The batch shape: that of `atoms` without its last axis."""
        return tuple(self.atoms.shape[:-1])

    @property
    def size(self) -> int:
        """The number of atoms of each distribution of the batch, padding included."""
        return int(self.atoms.shape[-1])

    def __getitem__(self, index: Any) -> "Particles":
        """The distributions at `index` of the batch axes: `mu[state, action]`."""
        if not self.shape:
            raise IndexError("a single distribution has no batch axes to index")
        index = index if isinstance(index, tuple) else (index,)
        if not any(part is Ellipsis for part in index):  # `in` would compare arrays
            index = (*index, Ellipsis)
        return Particles(self.atoms[(*index, slice(None))], self.probs[(*index, slice(None))])

    def __iter__(self) -> Iterator["Particles"]:
        """The distributions along the first batch axis."""
        # Python's default would index until an IndexError, which JAX arrays do not raise.
        if not self.shape:
            raise TypeError("a single distribution has no batch axes to iterate over")
        return (self[i] for i in range(self.shape[0]))

    @keep_precision
    def push(self, reward: ArrayLike, gamma: ArrayLike) -> "Particles":
        """The law of `reward + gamma * Z`: the pushforward through f_{r,gamma} of Equation (3)."""
        reward, gamma = jnp.asarray(reward)[..., None], jnp.asarray(gamma)[..., None]
        atoms = reward + gamma * self.atoms
        return Particles(atoms, jnp.broadcast_to(self.probs, atoms.shape))

    @keep_precision
    def add(self, other: "Particles") -> "Particles":
        """The law of the sum of independent draws from both (a convolution): n * m atoms."""
        atoms = self.atoms[..., :, None] + other.atoms[..., None, :]
        ours, theirs = _in_one_precision(self.probs, other.probs)
        probs = ours[..., :, None] * theirs[..., None, :]
        return Particles(_flat(atoms), _flat(probs))

    @keep_precision
    def mixture(self, weights: ArrayLike) -> "Particles":
        """Mix the last batch axis with `weights [..., m]`: from [..., m, n] to [..., m * n] atoms."""
        weights = jnp.asarray(weights)
        if not self.shape or weights.shape[-1:] != self.shape[-1:]:
            raise fail("weights.shape", weights.shape, f"its last axis must match the batch shape {self.shape}")
        if is_concrete(weights):
            _check_probs("weights", np.asarray(as_float(weights)))
        shares, probs = _in_one_precision(as_float(weights), self.probs)
        probs = shares[..., None] * probs
        atoms = jnp.broadcast_to(self.atoms, probs.shape)
        return Particles(_flat(atoms), _flat(probs))

    @compiled
    def mean(self) -> Any:
        """E[Z], summed around the most probable atom so that a large offset costs no digits."""
        origin = self._mode()
        return origin[..., 0] + jnp.sum(self.probs * (self.atoms - origin), axis=-1)

    @compiled
    def variance(self) -> Any:
        """E[(Z - E[Z])^2], centred around the most probable atom first for the same reason."""
        deviation = self.atoms - self._mode()
        deviation = deviation - jnp.sum(self.probs * deviation, axis=-1, keepdims=True)
        return jnp.sum(self.probs * deviation * deviation, axis=-1)  # in this order padding cannot overflow

    @compiled
    def std(self) -> Any:
        """The standard deviation."""
        return jnp.sqrt(self.variance())

    @compiled
    def cdf(self, x: ArrayLike) -> Any:
        """F(x) = P(Z <= x) at points `x [..., m]`."""
        x = jnp.asarray(x)
        if x.ndim == 0:
            raise fail("x.shape", x.shape, "points come along a last axis, e.g. [0.5]")
        below = self.atoms[..., None, :] <= x[..., :, None]
        return jnp.sum(jnp.where(below, self.probs[..., None, :], 0.0), axis=-1)

    @keep_precision
    def quantile(self, taus: ArrayLike) -> Any:
        """F^{-1}(tau) = min{x : F(x) >= tau} at levels `taus [m]`, up to the rounding of a sum of n probs."""
        ordered = self.sorted()
        taus = jnp.asarray(taus, ordered.atoms.dtype)
        if taus.ndim != 1:
            raise fail("taus.shape", taus.shape, "levels come along one axis, e.g. [0.5]")
        if is_concrete(taus):
            _check_levels(np.asarray(taus))
        return _quantile(ordered.atoms, ordered.probs, taus)

    @keep_precision
    def sample(self, key: jax.Array, shape: int | Sequence[int] = ()) -> Any:
        """Independent draws: [*batch, *shape]; `shape` may be a number."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        mu = self.settled()
        return _draw(mu.atoms, mu.probs, key, math.prod(shape)).reshape(*self.shape, *shape)

    @compiled
    def settled(self) -> "Particles":
        """The same distributions with padding moved onto the most probable atom, where it does no harm."""
        return Particles(jnp.where(self.probs > 0, self.atoms, self._mode()), self.probs)

    @compiled
    def sorted(self) -> "Particles":
        """The same distributions with atoms in increasing order, their padding settled."""
        mu = self.settled()
        return Particles(*jax.lax.sort((mu.atoms, jnp.asarray(mu.probs)), num_keys=1))

    @functools.partial(compiled, static=("tolerance",))
    def merged(self, tolerance: float = 0.0) -> "Particles":
        """Sorted, with each run of atoms at most `tolerance` apart gathered at its barycentre.

        Shapes are kept, so that this jits: the runs come first, then the largest atom with probability zero.
        Mean preserving; atoms further than `tolerance` from their neighbours stay as they are, to the bit.
        """
        check_number("tolerance", tolerance, low=0.0)
        ordered = self.sorted()
        gaps = jnp.diff(ordered.atoms, axis=-1, prepend=ordered.atoms[..., :1])
        return _gather(ordered, jnp.cumsum(gaps > tolerance, axis=-1), self.size)

    @functools.partial(compiled, static=("n",))
    def compressed(self, n: int) -> "Particles":
        """At most `n` atoms: neighbours are gathered at their barycentres, so the mean is kept exactly.

        Atom i belongs to the cell `floor(n * u)`, where u averages its mid-level of probability and its
        relative place between the extremes. If the first and last atoms of a cell are `a` apart in level and
        `b` in place, gathering it costs at most (max - min) * a * b in W1. As a + b <= 2 / n, that is at most
        (max - min) / n^2 a cell and (max - min) / n in all.
        """
        n = check_count("n", n, 1)
        if n >= self.size:
            return self.sorted()
        ordered = self.sorted()
        atoms, probs = ordered.atoms, ordered.probs
        low, high = atoms[..., :1], atoms[..., -1:]
        place = (atoms - low) / jnp.where(high > low, high - low, 1)
        level = jnp.cumsum(probs, axis=-1) - probs / 2
        cell = jnp.clip(jnp.floor(n * (level + place) / 2), 0, n - 1).astype(int)
        return _gather(ordered, cell, n)

    def _mode(self) -> Any:
        """A most probable atom [..., 1], which is never padding."""
        return jnp.take_along_axis(jnp.asarray(self.atoms), jnp.argmax(self.probs, axis=-1, keepdims=True), axis=-1)


def level_rounding(levels: Any) -> float:
    """How far prefix sums `levels [..., n]` of n probabilities may be from where they belong.

    Prefix sums are formed in trees of depth 2 * log2(n). Each step rounds by eps / 2, and so may have each
    probability and whatever the sum is compared with; twice that is on the safe side.
    """
    return 2 * (1 + math.log2(levels.shape[-1])) * float(jnp.finfo(levels.dtype).eps)


def _bits(probs: Any) -> int:
    return int(jnp.finfo(probs.dtype).bits)


def _summing_to_one(probs: Any) -> Any:
    """Probabilities that were rounded to a lower precision than theirs."""
    return probs / probs.sum(axis=-1, keepdims=True)


def _in_one_precision(*probs: Any) -> list[Any]:
    """Probabilities in the widest of their precisions, where those of a lower one are made to sum to 1 anew."""
    dtype = jnp.result_type(*probs)
    wide = [jnp.asarray(some, dtype) for some in probs]
    return [_summing_to_one(new) if _bits(old) < _bits(new) else new for old, new in zip(probs, wide, strict=True)]


def _flat(x: Any) -> Any:
    """The last two axes in one."""
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


@jax.jit
def _quantile(atoms: Any, probs: Any, taus: Any) -> Any:
    """The first of the sorted atoms whose level reaches tau, for each of `taus [m]`."""
    levels = jnp.cumsum(probs, axis=-1)
    first = jnp.sum(levels[..., None, :] < taus[:, None] - level_rounding(levels), axis=-1)
    return jnp.take_along_axis(atoms, jnp.minimum(first, atoms.shape[-1] - 1), axis=-1)


@functools.partial(jax.jit, static_argnames="m")
def _draw(atoms: Any, probs: Any, key: jax.Array, m: int) -> Any:
    """m independent draws [..., m]: the first atom whose level exceeds a uniform number."""
    levels = jnp.cumsum(probs, axis=-1)
    draws = jax.random.uniform(key, (*atoms.shape[:-1], m), levels.dtype)
    index = jnp.sum(levels[..., None, :] <= draws[..., :, None] * levels[..., -1:, None], axis=-1)
    return jnp.take_along_axis(atoms, index, axis=-1)


def _gather(ordered: Particles, cell: Any, n: int) -> Particles:
    """Sum the mass of each of `n` cells of sorted particles and put it at the cell's barycentre."""
    atoms, probs = ordered.atoms, ordered.probs
    onto = jnp.zeros((*ordered.shape, n), atoms.dtype)
    index = (*jnp.indices(cell.shape, sparse=True)[:-1], cell)
    count = jnp.zeros(onto.shape, int).at[index].add(1)
    # Where a cell begins, or, if it is empty, the next one: so the result is sorted, and the sums stay small.
    first = jnp.minimum(jnp.cumsum(count, axis=-1) - count, ordered.size - 1)
    start = jnp.take_along_axis(atoms, first, axis=-1)
    mass = onto.at[index].add(probs)
    moment = onto.at[index].add(probs * (atoms - jnp.take_along_axis(start, cell, axis=-1)))
    return Particles(start + moment / jnp.where(mass > 0, mass, 1), mass)


def _check_shape(probs: tuple[int, ...], atoms: tuple[int, ...]) -> None:
    try:
        fits = np.broadcast_shapes(probs, atoms) == atoms and probs[-1:] == atoms[-1:]
    except ValueError:
        fits = False
    if not fits:
        raise fail("probs.shape", probs, f"it must match atoms, whose shape is {atoms}")


def _check_atoms(atoms: np.ndarray) -> None:
    if not np.isfinite(atoms).all():
        at = tuple(map(int, np.argwhere(~np.isfinite(atoms))[0]))
        raise fail(f"atoms{list(at)}", float(atoms[at]), "atoms must be finite")


def _check_levels(taus: np.ndarray) -> None:
    outside = ~((taus >= 0) & (taus <= 1))
    if outside.any():
        at = int(np.argmax(outside))
        raise fail(f"taus[{at}]", float(taus[at]), "levels must lie in [0, 1]")


def _check_probs(argument: str, probs: np.ndarray) -> None:
    if not (probs >= 0).all():  # NaN is caught here too
        at = tuple(map(int, np.argwhere(~(probs >= 0))[0]))
        raise fail(f"{argument}{list(at)}", float(probs[at]), "probabilities must be numbers of at least 0")
    total = probs.sum(axis=-1, dtype=np.float64)
    off = np.abs(total - 1)
    if off.max(initial=0) > np.sqrt(float(jnp.finfo(probs.dtype).eps)):
        place = "" if probs.ndim == 1 else str(list(map(int, np.unravel_index(off.argmax(), off.shape))))
        worst = float(total.flat[int(off.argmax())])
        raise fail(f"sum of {argument}{place}", worst, "probabilities must sum to 1: divide them by their sum")
