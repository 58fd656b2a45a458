"""`verify`: whether a family of one's own keeps what the algorithms count on."""

from typing import Any, NamedTuple

import numpy as np

from edrl.core.families.m_estimator import MEstimator
from edrl.core.particles import Particles
from edrl.core.precision import in_float64
from edrl.core.statistics import Statistics, check_family

_ROWS, _ATOMS = 6, 9


class Verified(NamedTuple):
    """What was found about a family that keeps its contract."""

    residual: float
    """The largest `|evaluate(impute(values)) - values|` on statistics of random distributions, each
    in units of the largest value it has there: about 0 if imputation is exact, large if values are
    taken for samples or imputation does not converge."""


@in_float64
def verify(family: Statistics, scale: float = 1.0, seed: int = 0) -> Verified:
    """Check a family on random distributions of about this `scale`; a `ValueError` says what is
    wrong.

    Shapes and batches; that `loss` is least at `evaluate`, for which it is the loss (Section 3.4),
    and affine in its target, without which sampled updates are biased; the score of an
    `MEstimator`, which is 0 at q = z and increases in q; that `impute` gives finite atoms for any
    values; and `mean`, where the values are said to encode it. How far imputation is from exact is
    in what is returned.
    """
    check_family(family)
    rng = np.random.default_rng(seed)
    mu, nu = (_random_distributions(rng, scale) for _ in range(2))
    if isinstance(family, MEstimator):
        _check_score(family, np.asarray(mu.atoms))
    values = np.asarray(family.evaluate(mu))
    _check_shape("evaluate(mu)", values, (_ROWS, family.size))
    _check_rows("evaluate(mu)", values, [family.evaluate(mu[row]) for row in range(_ROWS)])
    _check_loss(family, values, mu, nu, rng, scale)
    anything = values + scale * rng.normal(size=values.shape)
    for what, given in (
        ("statistics of a distribution", values),
        ("values of no distribution", anything),
    ):
        _check_imputed(family, given, what)
    _check_mean(family, values, mu)
    sizes = np.abs(values).max(axis=0)
    return Verified(
        float(np.max(np.abs(np.asarray(family.residual(values))) / np.where(sizes > 0, sizes, 1)))
    )


def _random_distributions(rng: np.random.Generator, scale: float) -> Particles:
    return Particles(
        scale * rng.normal(size=(_ROWS, _ATOMS)), rng.dirichlet(np.ones(_ATOMS), _ROWS)
    )


def _check_score(family: MEstimator, atoms: np.ndarray) -> None:
    size = family.size
    ascending = np.sort(atoms[0])
    scores = np.stack(
        [np.asarray(family.score(np.full((1, size), q), ascending[None])) for q in ascending]
    )
    _check_shape("score(values [1, K], atoms [1, n])", scores[0], (1, size, _ATOMS))
    scores = scores[:, 0]  # [q, K, z]
    slack = 1e-6 * np.abs(scores).max()
    side = np.sign(ascending[:, None] - ascending)[:, None, :]  # of q from z
    if (scores * side < -slack).any():
        raise ValueError(
            "score must not be negative for q > z, nor positive for q < z: is its sign turned round?"
        )
    if (np.diff(scores, axis=0) < -slack).any():
        raise ValueError(
            "score must increase in the value q: its integral, the loss, would not be convex"
        )


def _check_loss(
    family: Statistics,
    values: np.ndarray,
    mu: Particles,
    nu: Particles,
    rng: np.random.Generator,
    scale: float,
) -> None:
    least = np.asarray(family.loss(values, mu))
    _check_shape("loss(values, mu)", least, (_ROWS,))
    _check_rows(
        "loss(values, mu)", least, [family.loss(values[row], mu[row]) for row in range(_ROWS)]
    )
    elsewhere = [values + size * scale * rng.normal(size=values.shape) for size in (0.01, 0.1, 1.0)]
    losses = np.stack([np.asarray(family.loss(other, mu)) for other in elsewhere])
    slack = 1e-6 * np.maximum(
        np.abs(losses).max(axis=0), np.abs(least)
    )  # whatever the units of returns
    for other in losses:
        if (other < least - slack).any():
            raise ValueError("loss(values, mu) must be least at values = evaluate(mu)")
    both = _mixed(mu, nu)
    halves = (least + np.asarray(family.loss(values, nu))) / 2
    off = np.abs(np.asarray(family.loss(values, both)) - halves)
    if (off > slack + 1e-6 * np.abs(halves)).any():
        raise ValueError("loss(values, mu) must be affine in mu: an expectation over its atoms")


def _mixed(mu: Particles, nu: Particles) -> Particles:
    """The distribution that is one of both with probability 1/2 each."""
    atoms = np.concatenate([mu.atoms, nu.atoms], axis=-1)
    return Particles(atoms, np.concatenate([mu.probs / 2, nu.probs / 2], axis=-1))


def _check_imputed(family: Statistics, values: np.ndarray, what: str) -> None:
    imputed = family.impute(values)
    atoms, probs = np.asarray(imputed.atoms), np.asarray(imputed.probs)
    _check_shape("impute(values)", atoms[..., 0], (_ROWS,))
    try:
        Particles(atoms, probs)  # looks at numbers; `impute` was compiled, and had none to look at
    except ValueError as error:
        raise ValueError(f"impute(values) is no distribution, for {what}: {error}") from error


def _check_mean(family: Statistics, values: np.ndarray, mu: Particles) -> None:
    means = np.asarray(family.mean(values))
    _check_shape("mean(values)", means, (_ROWS,))
    if family.encodes_mean:
        # Of the distribution, or of the imputed one: categorical statistics see no more than lies
        # on their support.
        size = 1e-6 * np.abs(np.asarray(mu.atoms)).max(axis=-1)
        off = [np.abs(means - np.asarray(nu.mean())) > size for nu in (mu, family.impute(values))]
        if (off[0] & off[1]).any():
            raise ValueError(
                "mean(values) is not the mean of the distribution, although encodes_mean says that it is"
            )


def _check_shape(what: str, found: np.ndarray, right: tuple[int, ...]) -> None:
    if found.shape != right:
        raise ValueError(f"{what} has the shape {found.shape}, it must be {right}")


def _check_rows(what: str, batch: np.ndarray, rows: list[Any]) -> None:
    alone = np.stack([np.asarray(row) for row in rows])
    if not np.allclose(batch, alone, rtol=1e-5, atol=1e-7 * np.abs(alone).max()):
        raise ValueError(
            f"{what} of a batch is not that of its rows: write it for leading axes `...`"
        )
