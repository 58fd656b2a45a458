"""`Statistics`: what a family of K statistics must know, and what it gets for free (Section 3 of the paper)."""

import abc
import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from edrl.core.check import fail
from edrl.core.particles import Particles
from edrl.core.precision import as_float_beside, compiled

Strategy = Callable[["Statistics", Any], Particles]
"""An imputation strategy Psi (Definition 3.4): from a family and its values [..., K] to `Particles [..., n]`."""


def _of_values(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method, compiled, whose first argument are values, in lists or whole numbers, too.

    Levels of the dtype of whole numbers would all be 0, and values of another size would be broadcast, silently.
    """
    method = compiled(method)

    @functools.wraps(method)
    def checked(self: "Statistics", values: Any, *others: Any, **named: Any) -> Any:
        values = as_float_beside(values, (others, named))
        shape = jnp.shape(values)
        if shape[-1:] != (self.size,):
            right = f"the last axis must hold the {self.size} statistics of {type(self).__name__}"
            raise fail("values.shape", shape, right)
        return method(self, values, *others, **named)

    return checked


class Statistics(abc.ABC):
    """A family of K statistics s_1, ..., s_K of a distribution (Definition 3.1) and a way to impute from them.

    Values are plain arrays [..., K]; samples are `Particles`. The two are different types on purpose: the
    "type error" of Section 3.1 must be asked for by name (`impute=as_samples`).

    To add a family, write a frozen dataclass with `size`, `evaluate` and `loss` and a field or class attribute
    `strategy`; override `mean` if the values give it directly. Families are static pytrees: they pass through
    `jax.jit` as they are, and equal families share one compilation.
    """

    strategy: Strategy

    _numerical: ClassVar[tuple[str, ...]] = ("evaluate", "features", "link", "loss_on_outputs")
    _numerical_of_values: ClassVar[tuple[str, ...]] = ("loss", "mean", "score", "knots", "places")

    def __init_subclass__(cls) -> None:
        """Make a static pytree of the family; compile its functions, and let their precision follow the input."""
        jax.tree_util.register_static(cls)
        for name in (*cls._numerical, *cls._numerical_of_values):
            if name in cls.__dict__:
                method = cls.__dict__[name]
                setattr(cls, name, _of_values(method) if name in cls._numerical_of_values else compiled(method))

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """K, the length of a vector of values."""

    @abc.abstractmethod
    def evaluate(self, mu: Particles) -> Any:
        """The statistics [..., K] of the distributions `mu [..., n]` (Definition 3.1)."""

    @abc.abstractmethod
    def loss(self, values: Any, target: Particles) -> Any:
        """A loss [...], the sum over k of L_k(values_k; target): affine in the target and minimised at
        `evaluate(target)`, as Section 3.4 asks for unbiased stochastic updates."""

    @property
    def encodes_mean(self) -> bool:
        """Whether the values determine the expected return, whatever distribution is imputed (Section 4.3)."""
        return False

    @_of_values
    def mean(self, values: Any) -> Any:
        """The expected return [...] that `values [..., K]` encode (Section 4.3)."""
        return self.impute(values).mean()

    @_of_values
    def impute(self, values: Any) -> Particles:
        """A distribution with these statistics (Definition 3.4), by the family's strategy."""
        strategy = inspect.getattr_static(self, "strategy")  # a function in a class body must not become a method
        return strategy(self, jnp.asarray(values))

    @_of_values
    def residual(self, values: Any) -> Any:
        """`evaluate(impute(values)) - values`: how far the imputed distribution is from what was asked."""
        return self.evaluate(self.impute(values)) - jnp.asarray(values)

    @_of_values
    def score(self, values: Any, atoms: Any) -> Any:
        """psi [..., K, n]: the derivative of L_k(values_k; delta_z) at each atom z, the M-estimator's score."""
        values, atoms = jnp.asarray(values), jnp.asarray(atoms)
        # A gradient has the shape of the values: axes that only the atoms have must be theirs, too.
        batch = jnp.broadcast_shapes(values.shape[:-1], atoms.shape[:-1])
        values = jnp.broadcast_to(values, (*batch, values.shape[-1]))

        def at_one_atom(values: Any, atom: Any) -> Any:
            gradient = jax.grad(
                lambda v: jnp.sum(self.loss(v, Particles(atom[..., None], jnp.ones_like(atom)[..., None])))
            )
            return gradient(values)

        return jax.vmap(at_one_atom, in_axes=(None, -1), out_axes=-1)(values, atoms)

    @_of_values
    def places(self, values: Any) -> Any:
        """Places [..., m] on the axis of returns that the values speak of: `MaximumEntropy` puts its atoms around them.

        M-estimators are such places themselves; for others they may be thresholds, or a mean and what is around it.
        """
        right = "MaximumEntropy must know which places on the axis of returns these statistics speak of: write `places`"
        raise fail("places", f"that of {type(self).__name__}", right)

    @property
    def num_outputs(self) -> int:
        """How many raw outputs a network needs for one vector of values."""
        return self.size

    @compiled
    def link(self, outputs: Any) -> Any:
        """From a network's raw outputs [..., num_outputs] to values [..., K]."""
        return outputs

    @compiled
    def loss_on_outputs(self, outputs: Any, target: Particles) -> Any:
        """The loss as a function of raw outputs, where a family knows a numerically better form."""
        return self.loss(self.link(outputs), target)


def check_family(family: Any) -> None:
    """Refuse what is no family of statistics: a name, a class, or the policy that comes beside it."""
    if not isinstance(family, Statistics):
        right = "it must be an object of edrl.Statistics, such as edrl.Expectiles(11) or edrl.algorithm('EDRL')"
        raise fail("family", family, right)


def expect(target: Particles, losses: ArrayLike) -> Any:
    """The expectation [...] under `target [..., n]` of per-atom losses [..., K, n], summed over statistics."""
    return jnp.sum(_weighted(jnp.asarray(losses), target.probs[..., None, :]), axis=(-2, -1))


def expect_with_score(values: Any, target: Particles, losses: Any, scores: Any) -> Any:
    """As `expect`, for losses [..., K, n] whose derivatives in the values, `scores`, are known.

    Both are summed over the atoms in one pass, so that the gradient costs nothing more: for 201 values and atoms that
    halves the time. Targets are not differentiated, as Section 3.4 has it, and second derivatives are zero.
    """
    losses, scores, probs = jax.lax.stop_gradient((losses, scores, target.probs[..., None, :]))
    zero = jnp.zeros((), losses.dtype)

    def add(one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
        return one[0] + other[0], one[1] + other[1]

    weighted = _weighted(losses, probs), _weighted(scores, probs)
    loss, score = jax.lax.reduce(weighted, (zero, zero), add, (losses.ndim - 1,))
    return jnp.sum(loss + score * (values - jax.lax.stop_gradient(values)), axis=-1)


def _weighted(numbers: Any, probs: Any) -> Any:
    """`numbers * probs`, and 0 for padding, which may lie so far away that its loss is infinite."""
    return jnp.where(probs > 0, numbers, 0) * probs
