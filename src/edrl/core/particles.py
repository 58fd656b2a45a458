"""`Particles`: a finite weighted distribution on the line, the only form in which samples exist
here.
"""

import math
from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from edrl.core.check import check_count, check_number, fail
from edrl.core.jit import jit
from edrl.core.order import search, sorted_pairs
from edrl.core.precision import as_float, check_fits, is_concrete
from edrl.core.types import Array, Atoms, AtomsLike, Float, Int, Key, Numbers
from edrl.core.words import count

if TYPE_CHECKING:
    import matplotlib.figure

_FEW = 6  # atoms that are listed one by one

Index = int | np.integer | slice | EllipsisType | None | Sequence[int] | Array


class Particles(eqx.Module):
    """The distribution `sum_i probs[i] * delta(atoms[i])`, or a batch of them along the leading
    axes.

    Atoms need not be sorted or distinct. Atoms of probability zero are padding: nothing computed
    here depends on where they lie. `probs` may be left out (equal weights) and may have fewer
    leading axes than `atoms`.
    """

    atoms: Float[Array, "*batch n"]
    probs: Float[Array, "*batch n"]

    def __init__(self, atoms: ArrayLike, probs: ArrayLike | None = None):
        points = as_float(atoms)
        if points.ndim == 0 or points.shape[-1] == 0:
            right = "atoms need a last axis with at least one atom, e.g. [0.0, 1.0]"
            raise fail("atoms.shape", points.shape, right)
        equal = np.full(points.shape[-1], 1.0 / points.shape[-1], points.dtype)
        given = equal if probs is None else as_float(probs)
        _check_shape(given.shape, points.shape)
        if is_concrete(points, given):
            _check_atoms(np.asarray(points))
            _check_probs("probs", np.asarray(given))
        masses = _as_precise(given, points)
        self.atoms = points.astype(masses.dtype)
        self.probs = _broadcast(masses, points.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The batch shape: that of `atoms` without its last axis."""
        return tuple(self.atoms.shape[:-1])

    @property
    def size(self) -> int:
        """The number of atoms of each distribution of the batch, padding included."""
        return int(self.atoms.shape[-1])

    def __getitem__(self, index: Index | tuple[Index, ...]) -> "Particles":
        """The distributions at `index` of the batch axes: `mu[state, action]`."""
        if not self.shape:
            raise IndexError("a single distribution has no batch axes to index")
        index = index if isinstance(index, tuple) else (index,)
        if not any(part is Ellipsis for part in index):  # `in` would compare arrays
            index = (*index, Ellipsis)
        atoms, probs = self.atoms, self.probs
        if any(isinstance(part, jax.Array) for part in index):
            atoms, probs = jnp.asarray(atoms), jnp.asarray(probs)
        return Particles(atoms[(*index, slice(None))], probs[(*index, slice(None))])

    def __iter__(self) -> Iterator["Particles"]:
        """The distributions along the first batch axis."""
        # Python's default would index until an IndexError, which JAX arrays do not raise.
        if not self.shape:
            raise TypeError("a single distribution has no batch axes to iterate over")
        return (self[i] for i in range(self.shape[0]))

    def __repr__(self) -> str:
        """Short, and with numbers in it where there are any."""
        atoms, probs = self.atoms, self.probs
        if not isinstance(atoms, np.ndarray | jax.Array) or not is_concrete(atoms, probs):
            return f"Particles(atoms={atoms}, probs={probs})"  # inside a transformation of JAX
        return _in_words(np.asarray(atoms), np.asarray(probs))

    def plot(
        self, truth: "Particles | None" = None, labels: Sequence[str] | None = None
    ) -> "matplotlib.figure.Figure":
        """Draw the distribution functions of one distribution or a few, with their means.

        Args:
            truth: One distribution to draw broad and grey under the others.
            labels: A name for each distribution of the batch.

        Returns:
            A figure of Matplotlib's pyplot: `.savefig("returns.png")` saves it.
        """
        from edrl.core.plot import plot_distributions

        return plot_distributions(self, truth, labels)

    def push(self, reward: ArrayLike, gamma: ArrayLike) -> "Particles":
        """The distribution of `reward + gamma * Z`: the pushforward through f_{r,gamma} of Equation
        (3).
        """
        check_fits("reward", reward)
        check_fits("atoms", self.atoms)
        atoms = jnp.asarray(reward)[..., None] + jnp.asarray(gamma)[..., None] * self.atoms
        return Particles(atoms, jnp.broadcast_to(self.probs, atoms.shape))

    def add(self, other: "Particles") -> "Particles":
        """The distribution of the sum of independent draws from both (a convolution): n * m atoms."""
        other = check_samples(other)
        atoms = self.atoms[..., :, None] + other.atoms[..., None, :]
        check_fits("atoms", atoms)
        ours, theirs = _as_precise(self.probs, other.probs), _as_precise(other.probs, self.probs)
        probs = ours[..., :, None] * theirs[..., None, :]
        return Particles(_flat(jnp.asarray(atoms)), _flat(jnp.asarray(probs)))

    def mixture(self, weights: ArrayLike) -> "Particles":
        """Mix the last batch axis with `weights [..., m]`: from [..., m, n] to [..., m * n] atoms."""
        shares = as_float(weights)
        check_fits("atoms", self.atoms)
        if not self.shape or shares.shape[-1:] != self.shape[-1:]:
            right = f"its last axis must match the batch shape {self.shape}"
            raise fail("weights.shape", shares.shape, right)
        if is_concrete(shares):
            _check_probs("weights", np.asarray(shares))
        own, shares = _as_precise(self.probs, shares), _as_precise(shares, self.probs)
        probs = jnp.asarray(shares)[..., None] * own
        return Particles(_flat(jnp.broadcast_to(self.atoms, probs.shape)), _flat(probs))

    @jit
    def mean(self) -> Numbers:
        """E[Z], summed around the most probable atom so that a large offset costs no digits."""
        origin = self._mode()
        return origin[..., 0] + jnp.sum(self.probs * (self.atoms - origin), axis=-1)

    @jit
    def variance(self) -> Numbers:
        """E[(Z - E[Z])^2], centred around the most probable atom first for the same reason."""
        deviation = self.atoms - self._mode()
        deviation = deviation - jnp.sum(self.probs * deviation, axis=-1, keepdims=True)
        # In this order padding cannot overflow.
        return jnp.sum(self.probs * deviation * deviation, axis=-1)

    @jit
    def std(self) -> Numbers:
        """The standard deviation."""
        return jnp.sqrt(self.variance())

    @jit
    def cdf(self, x: ArrayLike) -> Float[jax.Array, "*batch m"]:
        """F(x) = P(Z <= x) at points `x [..., m]`."""
        points = jnp.asarray(x)
        if points.ndim == 0:
            raise fail("x.shape", points.shape, "points come along a last axis, e.g. [0.5]")
        below = self.atoms[..., None, :] <= points[..., :, None]
        return jnp.sum(jnp.where(below, self.probs[..., None, :], 0.0), axis=-1)

    def quantile(self, taus: ArrayLike) -> Float[jax.Array, "*batch m"]:
        """F^{-1}(tau) = min{x : F(x) >= tau} at levels `taus [..., m]`.

        It is right up to the rounding of a sum of n probabilities.
        """
        levels = as_float(taus)
        if levels.ndim == 0:
            raise fail("taus.shape", levels.shape, "levels come along a last axis, e.g. [0.5]")
        if is_concrete(levels):
            _check_levels(np.asarray(levels))
        return _quantile(self, levels)

    def sample(self, key: Key, shape: int | Sequence[int] = ()) -> Float[jax.Array, "..."]:
        """Independent draws: [*batch, *shape]; `shape` may be a number."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        return _draw(self.settled(), key, math.prod(shape)).reshape(*self.shape, *shape)

    @jit
    def settled(self) -> "Particles":
        """The same distributions with padding moved onto the most probable atom, where it does no
        harm.
        """
        return Particles(jnp.where(self.probs > 0, self.atoms, self._mode()), self.probs)

    @jit
    def sorted(self) -> "Particles":
        """The same distributions with atoms in increasing order, their padding settled."""
        mu = self.settled()
        return Particles(*sorted_pairs(mu.atoms, mu.probs))

    @jit(static="tolerance")
    def merged(self, tolerance: float = 0.0) -> "Particles":
        """Sorted, with each run of atoms at most `tolerance` apart gathered at its barycentre.

        Shapes are kept, so that this jits: the runs come first, then the largest atom with
        probability zero. Mean preserving; atoms further than `tolerance` from their neighbours stay
        as they are, to the bit.
        """
        check_number("tolerance", tolerance, low=0.0)
        ordered = self.sorted()
        gaps = jnp.diff(ordered.atoms, axis=-1, prepend=ordered.atoms[..., :1])
        return _gather(ordered, jnp.cumsum(gaps > tolerance, axis=-1), self.size)

    @jit(static="n")
    def compressed(self, n: int) -> "Particles":
        """At most `n` atoms: neighbours are gathered at their barycentres, so the mean is kept
        exactly.

        Atom i belongs to the cell `floor(n * u)`, where u averages its mid-level of probability and
        its relative place between the extremes. If the first and last atoms of a cell are `a` apart
        in level and `b` in place, gathering it costs at most (max - min) * a * b in W1. As a + b <=
        2 / n, that is at most (max - min) / n^2 a cell and (max - min) / n in all.
        """
        n = check_count("n", n, 1)
        ordered = self.sorted()
        if n >= self.size:
            return ordered
        atoms, probs = ordered.atoms, ordered.probs
        low, high = atoms[..., :1], atoms[..., -1:]
        place = (atoms - low) / jnp.where(high > low, high - low, 1)
        level = jnp.cumsum(probs, axis=-1) - probs / 2
        cell = jnp.clip(jnp.floor(n * (level + place) / 2), 0, n - 1).astype(int)
        return _gather(ordered, cell, n)

    def _mode(self) -> Float[jax.Array, "*batch 1"]:
        """A most probable atom [..., 1], which is never padding."""
        most_probable = jnp.argmax(self.probs, axis=-1, keepdims=True)
        return jnp.take_along_axis(jnp.asarray(self.atoms), most_probable, axis=-1)


def _in_words(atoms: np.ndarray, probs: np.ndarray) -> str:
    """The atoms where there are few, and else how many there are and where their means lie."""
    means = np.sum(probs * atoms, axis=-1)
    size = atoms.shape[-1]
    if means.ndim:
        ends = f"means from {means.min():.4g} to {means.max():.4g}" if means.size else "none"
        return f"Particles(batch {means.shape} of {count(size, 'atom')}: {ends})"
    std = np.sqrt(np.sum(probs * (atoms - means) ** 2))
    text = f"mean {means:.4g}, std {std:.4g}"
    if size > _FEW:
        return f"Particles({size} atoms from {atoms.min():.4g} to {atoms.max():.4g}: {text})"
    pairs = zip(atoms.tolist(), probs.tolist(), strict=True)
    listed = ", ".join(f"{atom:.4g} ({prob:.4g})" for atom, prob in pairs)
    return f"Particles({listed}: {text})"


def check_samples(mu: Particles) -> Particles:
    """`mu`, if it is a distribution."""
    if not isinstance(mu, Particles):
        shape = getattr(mu, "shape", None)  # lists, which may hold traced numbers, have none
        got = type(mu).__name__ if shape is None else f"an array of shape {shape}"
        right = "pass edrl.Particles(atoms, probs); values of statistics are imputed first"
        raise TypeError(f"got {got} where samples are expected: {right}, family.impute(values)")
    return mu


def level_rounding(levels: Atoms) -> float:
    """How far prefix sums `levels [..., n]` of n probabilities may be from where they belong.

    Prefix sums are formed in trees of depth 2 * log2(n). Each step rounds by eps / 2, and so may
    have each probability and whatever the sum is compared with; twice that is on the safe side.
    """
    return 2 * (1 + math.log2(levels.shape[-1])) * float(jnp.finfo(levels.dtype).eps)


def _as_precise(probs: Array, other: Array) -> Array:
    """Probabilities in the common precision of the two; widened ones are made to sum to 1 again."""
    dtype = _common_dtype(probs, other)
    if probs.dtype == dtype:
        return probs
    cast = probs.astype(dtype)
    if jnp.finfo(probs.dtype).bits > jnp.finfo(dtype).bits:
        return cast
    return cast / cast.sum(axis=-1, keepdims=True)


def _common_dtype(one: Array, other: Array) -> np.dtype:
    """NumPy's rule on the host, which keeps float64; JAX's rule where a JAX array takes part."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.result_type(one.dtype, other.dtype)
    return jnp.result_type(one, other)


def _broadcast(array: Array, shape: tuple[int, ...]) -> Array:
    if array.shape == shape:
        return array
    on_host = isinstance(array, np.ndarray)
    return np.broadcast_to(array, shape) if on_host else jnp.broadcast_to(array, shape)


def _flat(x: jax.Array) -> jax.Array:
    """The last two axes in one."""
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


@jit
def _quantile(mu: Particles, taus: Float[Array, "*rows m"]) -> Float[jax.Array, "*batch m"]:
    ordered = mu.sorted()
    return quantile_of_sorted(ordered.atoms, jnp.cumsum(ordered.probs, axis=-1), taus)


def quantile_of_sorted(
    atoms: AtomsLike, levels: Atoms, taus: Float[Array, "*rows m"]
) -> Float[jax.Array, "*batch m"]:
    """The first of the sorted atoms whose level, the sum of probabilities up to it, reaches tau."""
    first = search(levels, jnp.asarray(taus, levels.dtype) - level_rounding(levels))
    atoms = jnp.broadcast_to(jnp.asarray(atoms), (*first.shape[:-1], atoms.shape[-1]))
    return jnp.take_along_axis(atoms, jnp.minimum(first, atoms.shape[-1] - 1), axis=-1)


@jit(static="m")
def _draw(mu: Particles, key: Key, m: int) -> Float[jax.Array, "*batch m"]:
    """m independent draws [..., m]: the first atom whose level exceeds a uniform number."""
    levels = jnp.cumsum(jnp.asarray(mu.probs), axis=-1)
    draws = jax.random.uniform(key, (*mu.shape, m), levels.dtype)
    index = jnp.sum(levels[..., None, :] <= draws[..., :, None] * levels[..., -1:, None], axis=-1)
    return jnp.take_along_axis(jnp.asarray(mu.atoms), index, axis=-1)


def _gather(ordered: Particles, cell: Int[Array, "*batch n"], n: int) -> Particles:
    """Sum the mass of each of `n` cells of sorted particles and put it at the cell's barycentre."""
    atoms, probs = jnp.asarray(ordered.atoms), jnp.asarray(ordered.probs)
    onto = jnp.zeros((*ordered.shape, n), atoms.dtype)
    index = (*jnp.indices(cell.shape, sparse=True)[:-1], cell)
    count = jnp.zeros(onto.shape, int).at[index].add(1)
    # Where a cell begins, or, if it is empty, the next one: so the result is sorted, and the sums
    # stay small.
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
        at = tuple(map(int, np.argwhere(outside)[0]))
        raise fail(f"taus{list(at)}", float(taus[at]), "levels must lie in [0, 1]")


def _check_probs(argument: str, probs: np.ndarray) -> None:
    if not (probs >= 0).all():  # NaN is caught here too
        at = tuple(map(int, np.argwhere(~(probs >= 0))[0]))
        right = "probabilities must be numbers of at least 0"
        raise fail(f"{argument}{list(at)}", float(probs[at]), right)
    total = probs.sum(axis=-1, dtype=np.float64)
    off = np.abs(total - 1)
    if off.max(initial=0) > np.sqrt(float(jnp.finfo(probs.dtype).eps)):
        worst = np.unravel_index(int(off.argmax()), off.shape)
        place = "" if probs.ndim == 1 else str(list(map(int, worst)))
        right = "probabilities must sum to 1: divide them by their sum"
        raise fail(f"sum of {argument}{place}", float(total[worst]), right)
