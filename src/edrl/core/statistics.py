"""`Statistics`: what a family of K statistics must know, and what it gets for free (Section 3 of
the paper).
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from edrl.core.check import fail
from edrl.core.jit import jit
from edrl.core.particles import Particles
from edrl.core.precision import as_float, check_finite, check_fits
from edrl.core.types import (
    Array,
    Atoms,
    AtomsLike,
    BroadcastAtoms,
    BroadcastValues,
    Float,
    Numbers,
    NumbersLike,
    Scores,
    Values,
    ValuesLike,
)

Imputation: TypeAlias = Callable[["Statistics", ValuesLike], Particles]
"""An imputation Psi (Definition 3.4): from a family and its values [..., K] to `Particles [...,
n]`.
"""


class Statistics(eqx.Module):
    """A family of K statistics s_1, ..., s_K of a distribution (Definition 3.1) and a way to impute
    from them.

    Values are plain arrays [..., K]; samples are `Particles`. The two are different types on
    purpose: the "type error" of Section 3.1 must be asked for by name (`imputation=as_samples`).

    To add a family, write a class with `size`, `evaluate` and `loss` and a static field
    `imputation`; override `mean` if the values give it directly. A family is a record of data, and
    a pytree: its arrays (levels, say) may be traced. Whatever is no number, and every whole number,
    is a static field.
    """

    imputation: eqx.AbstractVar[Imputation]

    if not TYPE_CHECKING:  # who checks types should know which attributes there are

        def __getattribute__(self, name):
            # Methods are Python's own. Equinox would make a module of each at every access, which
            # takes longer than to impute does.
            return object.__getattribute__(self, name)

    own_imputations: ClassVar[Mapping[str, Imputation]] = {}
    """Imputations by name that are made for this family alone; those for all are in `IMPUTATIONS`.
    """

    def __check_init__(self) -> None:
        """Refuse fields that `jax.jit` could not trace, or would trace although shapes depend on
        them.
        """
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            data = isinstance(value, eqx.Module) or not (
                isinstance(value, str | int) or callable(value)
            )
            if not data and not field.metadata.get("static", False):
                right = f"write `{field.name}: ... = equinox.field(static=True, ...)`"
                raise TypeError(
                    f"the field {field.name} of {type(self).__name__} must be static: {right}"
                )

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """K, the length of a vector of values."""

    @abc.abstractmethod
    def evaluate(self, mu: Particles) -> Values:
        """The statistics [..., K] of the distributions `mu [..., n]` (Definition 3.1)."""

    @abc.abstractmethod
    def loss(self, values: BroadcastValues, target: Particles) -> Numbers:
        """A loss [...], the sum over k of L_k(values_k; target).

        It is affine in the target and minimised at `evaluate(target)`, as Section 3.4 asks for
        unbiased stochastic updates.
        """

    @property
    def encodes_mean(self) -> bool:
        """Whether the values determine the expected return, whatever distribution is imputed
        (Section 4.3).
        """
        return False

    @jit
    def mean(self, values: ValuesLike) -> Numbers:
        """The expected return [...] that `values [..., K]` encode (Section 4.3)."""
        return self.impute(values).mean()

    def impute(self, values: ValuesLike) -> Particles:
        """A distribution with these statistics (Definition 3.4), by the family's imputation.

        Values must be finite. Inside `jit`, where nobody can look at them, infinities count as the
        largest numbers, and a row with NaN gives atoms that are NaN: no distribution has it, and
        what has gone wrong must not be hidden.
        """
        return self._imputed(check_finite("values", self.check_values(values)))

    @jit
    def _imputed(self, values: Values) -> Particles:
        imputed = self._impute_finite(jnp.nan_to_num(values))
        lost = jnp.any(jnp.isnan(values), axis=-1, keepdims=True)
        return Particles(jnp.where(lost, jnp.nan, imputed.atoms), imputed.probs)

    def _impute_finite(self, values: Values) -> Particles:
        """What `impute` does with values that are finite."""
        return self.imputation(self, values)

    @jit
    def residual(self, values: ValuesLike) -> Values:
        """`evaluate(impute(values)) - values`: how far the imputed distribution is from what was
        asked.
        """
        return self.evaluate(self.impute(values)) - self.check_values(values)

    def score(self, values: BroadcastValues, atoms: BroadcastAtoms) -> Scores:
        """psi [..., K, n]: the derivative of L_k(values_k; delta_z) at each atom z, the
        M-estimator's score.
        """
        values, atoms = self.check_values(values), jnp.asarray(atoms)
        # A gradient has the shape of the values: axes that only the atoms have must be theirs, too.
        batch = jnp.broadcast_shapes(values.shape[:-1], atoms.shape[:-1])
        values = jnp.broadcast_to(values, (*batch, values.shape[-1]))

        def at_one_atom(values: jax.Array, atom: jax.Array) -> jax.Array:
            outcome = Particles(atom[..., None], jnp.ones_like(atom)[..., None])
            gradient: jax.Array = jax.grad(lambda v: jnp.sum(self.loss(v, outcome)))(values)
            return gradient

        return jax.vmap(at_one_atom, in_axes=(None, -1), out_axes=-1)(values, atoms)

    def numpy_score(self, values: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """The scores [K, n] of one row as a function of atoms [n], on the host: for SciPy's
        solvers.

        A family may offer it in plain NumPy, which is far faster for such small arrays.
        """
        return lambda atoms: np.asarray(self.score(values, atoms))

    def features(self, x: AtomsLike) -> Scores | None:
        """The functions h_k at points x, [..., K, n], if the statistics are expectations E[h_k(Z)];
        else None.
        """
        return None

    def places(self, values: ValuesLike) -> Float[jax.Array, "*batch m"]:
        """Places [..., m] on the axis of returns that the values speak of.

        `MaximumEntropy` and `RobustEntropy` put their atoms around them. M-estimators are such places themselves; for
        others they may be thresholds, or a mean and what is around it.
        """
        raise TypeError(
            "maximum entropy, robust or not, must know which places on the axis of returns the"
            f" statistics of {type(self).__name__} speak of: write the method `places`"
        )

    def knots(self, values: ValuesLike) -> Float[jax.Array, "*batch m"] | None:
        """Places [..., m] between which every score is linear, or None if there are none."""
        return None

    def bracket(
        self, lower: Particles, upper: Particles, mean: NumbersLike
    ) -> tuple[ValuesLike, ValuesLike] | None:
        """The least and greatest values [..., K] of distributions between two others in the convex
        order.

        P(x) = E[(x - Z)+] lies between those of `lower` and `upper`, which share the `mean`. None
        where nobody has worked it out.
        """
        return None

    def bounds(self) -> tuple[float, float] | None:
        """The range of returns that the statistics can tell apart, or None if it is the whole line."""
        return None

    @property
    def num_outputs(self) -> int:
        """How many raw outputs a network needs for one vector of values."""
        return self.size

    def link(self, outputs: Float[Array, "*batch outputs"]) -> Values:
        """From a network's raw outputs [..., num_outputs] to values [..., K]."""
        return jnp.asarray(outputs)

    def loss_on_outputs(
        self, outputs: Float[Array, "*#batch outputs"], target: Particles
    ) -> Numbers:
        """The loss as a function of raw outputs, where a family knows a numerically better form."""
        return self.loss(self.link(outputs), target)

    def check_values(self, values: ValuesLike) -> jax.Array:
        """`values` as a JAX array of floats, if its last axis holds this family's statistics."""
        if isinstance(values, Particles):
            right = "evaluate them first, family.evaluate(mu)"
            raise TypeError(f"got samples (Particles) where statistics are expected: {right}")
        given = as_float(values)
        check_fits("values", given)
        array = jnp.asarray(given)
        if array.shape[-1:] != (self.size,):
            right = f"the last axis must hold the {self.size} statistics of {type(self).__name__}"
            raise fail("values.shape", array.shape, right)
        return array

    def __hash__(self) -> int:
        """`jax.jit(family.impute)` asks for it. Arrays have no hash: their shapes stand for them.

        Families are equal if their arrays are, so equal ones have equal hashes.
        """
        leaves, structure = jax.tree.flatten(self)
        return hash((structure, *map(jnp.shape, leaves)))

    def __repr__(self) -> str:
        fields = (f"{f.name}={_brief(getattr(self, f.name))}" for f in dataclasses.fields(self))
        return f"{type(self).__name__}({', '.join(fields)})"


def check_family(family: object) -> None:
    """Refuse what is no family of statistics: a name, a class, or the policy that comes beside it."""
    if not isinstance(family, Statistics):
        right = "it must be an object of edrl.Statistics, such as edrl.Expectiles(11) or edrl.algorithm('EDRL')"
        raise fail("family", family, right)


def expect(target: Particles, losses: Scores) -> Numbers:
    """The expectation [...] under `target [..., n]` of per-atom losses [..., K, n], summed over
    statistics.
    """
    return jnp.sum(_weighted(losses, target.probs[..., None, :]), axis=(-2, -1))


_FEW_PAIRS = 1024  # up to here one pass over all pairs is as quick


def expect_with_score(
    values: jax.Array,
    target: Particles,
    pairs: Callable[[BroadcastValues, BroadcastAtoms], tuple[Scores, Scores]],
) -> Numbers:
    """As `expect`, where `pairs(values, atoms)` gives losses [..., K, n] and their derivatives in
    the values.

    XLA sums pairs one by one. Where there are many, atom after atom is added to all values
    instead, in vector instructions, which takes a fifth of the time for 200 values and 400 atoms.
    Targets are not differentiated, as Section 3.4 has it, and second derivatives are zero.
    """
    fixed, atoms, probs = jax.lax.stop_gradient((values, target.atoms, target.probs))

    def weighted(atoms: jax.Array, probs: jax.Array) -> tuple[jax.Array, jax.Array]:
        loss, score = pairs(fixed, atoms)
        return _weighted(loss, probs[..., None, :]), _weighted(score, probs[..., None, :])

    few = values.shape[-1] * target.size <= _FEW_PAIRS
    sums = _sums_over_pairs if few else _sums_atom_by_atom
    loss, score = sums(weighted, jnp.asarray(atoms), jnp.asarray(probs))
    return jnp.sum(loss + score * (values - fixed), axis=-1)


Weighted: TypeAlias = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
"""Two numbers [..., K, n] for atoms and probabilities [..., n]."""


def _sums_over_pairs(weighted: Weighted, atoms: Atoms, probs: Atoms) -> tuple[Values, Values]:
    """Two sums over the atoms, so that who needs the score alone does not pay for the loss."""
    loss, score = (jnp.sum(numbers, axis=-1) for numbers in weighted(atoms, probs))
    return loss, score


def _sums_atom_by_atom(weighted: Weighted, atoms: Atoms, probs: Atoms) -> tuple[Values, Values]:
    """The sums over the atoms with nothing between neighbouring values but the same operations."""

    def one(atom: jax.Array, prob: jax.Array) -> tuple[jax.Array, jax.Array]:
        loss, score = weighted(atom[..., None], prob[..., None])
        return loss[..., 0], score[..., 0]

    def add(
        sums: tuple[jax.Array, jax.Array], atom: tuple[jax.Array, jax.Array]
    ) -> tuple[tuple[jax.Array, jax.Array], None]:
        loss, score = one(*atom)
        return (sums[0] + loss, sums[1] + score), None

    along = jnp.moveaxis(atoms, -1, 0), jnp.moveaxis(probs, -1, 0)
    loss, score = jax.eval_shape(one, atoms[..., 0], probs[..., 0])
    zeros = jnp.zeros(loss.shape, loss.dtype), jnp.zeros(score.shape, score.dtype)
    return jax.lax.scan(add, zeros, along, unroll=2)[0]


def _weighted(numbers: Array, probs: Array) -> jax.Array:
    """`numbers * probs`, and 0 for padding, which may lie so far away that its loss is infinite."""
    return jnp.where(probs > 0, numbers, 0) * probs


def _brief(value: object) -> str:
    """A short text with the numbers in it."""
    if isinstance(value, jax.Array | np.ndarray) and not isinstance(value, Tracer):
        return np.array2string(np.asarray(value), precision=4, separator=", ", threshold=12)
    if callable(value) and not dataclasses.is_dataclass(value):
        return str(getattr(value, "__name__", repr(value)))
    return repr(value)
