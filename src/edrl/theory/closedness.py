"""Bellman closedness (Definition 4.1), decided numerically, with a witness wherever it fails.

A set of statistics is Bellman closed if their values at the successors determine their values after
a backup. It is not if two distributions mu and nu agree in all of them but no longer do after a
backup. Such a pair is a witness, and checking it takes no theory.

For expectations E[h_k(Z)], Theorem 4.3 turns the question into one about functions: is span{1, h_1,
..., h_K} closed under x -> r + gamma x? Regression answers it ("span"). Other statistics are tried
on random backups in which mu is replaced by the distribution that the family imputes from mu's
values ("mixtures").
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias

import jax
import numpy as np
from scipy.optimize import linprog

from edrl.core.check import check_count, check_number, fail
from edrl.core.particles import Particles
from edrl.core.precision import in_float64
from edrl.core.statistics import Statistics
from edrl.core.types import Bool, Float, Values
from edrl.theory.witness import Functions, Witness, evaluate, features, together, values

Route = Literal["span", "mixtures"]
Interval: TypeAlias = tuple[float, float]
Backup: TypeAlias = tuple[float, float]
"""A reward and a discount."""

_REWARDS = (-0.7, 0.0, 0.4, 1.0)  # unless others are asked for, in half widths of the interval


@dataclass(frozen=True)
class Closedness:
    """Whether statistics are Bellman closed, and why."""

    closed: bool
    route: Route
    deviation: float  # the largest found, relative to the statistics' size
    witness: Witness | None  # there is one unless closed
    interval: Interval  # of the returns that the verdict is about
    functions: Functions | Statistics | None = None  # of the route by span
    points: Float[np.ndarray, " n"] | None = None

    @in_float64
    def coefficients(self, reward: float, gamma: float) -> Float[np.ndarray, "K terms"]:
        """The Bellman equation h(r + gamma x) = a_0 + A h(x), with a_0 in the first column."""
        if not self.closed or self.functions is None or self.points is None:
            right = "only closed expectations, found by span, have linear Bellman equations"
            raise fail("(closed, route)", (self.closed, self.route), right)
        design, size = _design(self.functions, self.points)
        pushed = features(self.functions, reward + gamma * self.points)
        solution = np.linalg.lstsq(design.T, pushed.T, rcond=None)[0]
        return np.asarray(solution.T / size[:, 0])

    def __str__(self) -> str:
        if self.witness is not None:
            return f"not Bellman closed: {self.witness}"
        low, high = self.interval
        where = f"for returns in [{low:g}, {high:g}] (by {self.route})"
        return f"Bellman closed to {self.deviation:.1e} {where}"


@in_float64
def bellman_closed(
    statistics: Statistics | Functions,
    *,
    interval: Interval | None = None,
    gammas: Sequence[float] = (0.5, 0.9),
    rewards: Sequence[float] | None = None,
    tolerance: float = 1e-9,
    draws: int = 512,
    seed: int = 0,
    route: Route | None = None,
) -> Closedness:
    """Decide whether a family of statistics, or the expectations of functions, are Bellman closed.

    Args:
        statistics: A family, or functions h_1, ..., h_K.
        interval: The verdict is about distributions on it. It must show what is special about the
            functions (kinks, curvature). By default it is (-1, 1) and, if nothing is found there,
            ten and a hundred times as much; or a family's support, and then all that is backed up
            into it.
        gammas: The discounts of the backups.
        rewards: By default -0.7, 0, 0.4 and 1 times half the width of the interval.
        tolerance: Deviations count if they exceed it times the statistic's size.
        draws: The number of random backups of the route "mixtures".
        seed: Their seed.
        route: By default "span" where there are functions, and else "mixtures".
    """
    question = _Question(
        statistics,
        _route(statistics, route),
        tuple(gammas),
        None if rewards is None else tuple(rewards),
        check_number("tolerance", tolerance, 0.0, open_low=True),
        check_count("draws", draws, 200),
        seed,
    )
    first = _first_interval(statistics) if interval is None else _check_interval(interval)
    found = question.answer(first, _half_width(first))
    if interval is not None or not found.closed:
        return found
    for wider, half_width in question.wider(first):
        more = question.answer(wider, half_width)
        if not more.closed:
            return more
        # The first interval's points stay: on them equations have the most digits.
        deviation = max(found.deviation, more.deviation)
        found = dataclasses.replace(found, interval=wider, deviation=deviation)
    return found


@dataclass(frozen=True)
class _Question:
    """Whether statistics are closed under backups; `bellman_closed` says what each field is."""

    statistics: Statistics | Functions
    route: Route
    gammas: tuple[float, ...]
    rewards: tuple[float, ...] | None
    tolerance: float
    draws: int
    seed: int

    def __post_init__(self) -> None:
        for i, gamma in enumerate(self.gammas):
            check_number(f"gammas[{i}]", gamma, 0.0, 1.0, open_low=True)
        for i, reward in enumerate(self.rewards or ()):
            check_number(f"rewards[{i}]", reward)
        if not self.gammas or self.rewards == ():
            given = (self.rewards, self.gammas)
            raise fail("(rewards, gammas)", given, "at least one of each is needed")

    def backups(self, half_width: float) -> list[Backup]:
        """All pairs of a reward and a discount."""
        rewards = self.rewards
        if rewards is None:
            rewards = tuple(share * half_width for share in _REWARDS)
        return [(float(reward), float(gamma)) for reward, gamma in product(rewards, self.gammas)]

    def answer(self, interval: Interval, half_width: float) -> Closedness:
        """The verdict for distributions on an interval."""
        backups = self.backups(half_width)
        if self.route == "span":
            return _by_span(self.statistics, interval, backups, self.tolerance)
        assert isinstance(self.statistics, Statistics)
        how = (backups, self.tolerance, self.draws, self.seed)
        return _by_mixtures(self.statistics, interval, *how)

    def wider(self, interval: Interval) -> list[tuple[Interval, float]]:
        """Other intervals to look at, each with the half width that sets the size of rewards."""
        (low, high), half = interval, _half_width(interval)
        if _bounds(self.statistics) is None:
            return [((low * times, high * times), half * times) for times in (10.0, 100.0)]
        # All that is backed up into the support.
        reward, gamma = np.array(self.backups(half)).T
        ends = np.concatenate([interval, (low - reward) / gamma, (high - reward) / gamma])
        return [((float(ends.min()), float(ends.max())), half)]


def _route(statistics: Statistics | Functions, asked: Route | None) -> Route:
    """The route that was asked for, if it is possible, or the first one that is."""
    possible: list[Route] = ["span"]
    if isinstance(statistics, Statistics):
        expectations = statistics.features(np.zeros(1)) is not None
        possible = ["span", "mixtures"] if expectations else ["mixtures"]
    route = asked or possible[0]
    if route not in possible:
        raise fail("route", route, '"span" is for functions and features, "mixtures" for families')
    return route


def _bounds(statistics: Statistics | Functions) -> Interval | None:
    return statistics.bounds() if isinstance(statistics, Statistics) else None


def _first_interval(statistics: Statistics | Functions) -> Interval:
    return _bounds(statistics) or (-1.0, 1.0)


def _check_interval(interval: Interval) -> Interval:
    low, high = interval
    if not (np.isfinite([low, high]).all() and low < high):
        raise fail("interval", interval, "it must be two finite numbers, the lower one first")
    return low, high


def _half_width(interval: Interval) -> float:
    return (interval[1] - interval[0]) / 2


def _by_span(
    statistics: Statistics | Functions,
    interval: Interval,
    backups: list[Backup],
    tolerance: float,
) -> Closedness:
    """Regress h_k(r + gamma x) on {1, h(x)}: the span is closed if no residual is left.

    This is Theorem 4.3.
    """
    count = len(features(statistics, np.asarray(interval, np.float64)))
    n = 16 * (count + 16)
    # Chebyshev's points: polynomials are well-conditioned on them.
    unit = -np.cos(np.pi * (np.arange(n) + 0.5) / n)
    points = (interval[0] + interval[1]) / 2 + (interval[1] - interval[0]) / 2 * unit
    design, size = _design(statistics, points)
    _, spectrum, basis = np.linalg.svd(design, full_matrices=False)
    # Orthonormal, repetitions dropped:
    basis = basis[spectrum > n * np.finfo(np.float64).eps * spectrum[0]]
    # For each backup, [G, K, n]:
    pushed = np.stack([features(statistics, r + gamma * points) for r, gamma in backups])
    residual = pushed - pushed @ basis.T @ basis
    residual -= residual @ basis.T @ basis  # once more: orthogonal to the last bit
    scale = np.maximum(size[1:, 0], np.abs(pushed).max(axis=(0, 2)))
    relative = np.abs(residual).max(axis=-1) / scale
    deviation = float(relative.max())
    if deviation <= tolerance:
        return Closedness(True, "span", deviation, None, interval, statistics, points)
    g, k = np.unravel_index(int(relative.argmax()), relative.shape)
    mu, nu = _extremal_pair(points, basis, residual[g, k])
    before, *after = values(statistics, mu, *(one.push(*backups[g]) for one in (mu, nu)))
    gap = float(abs(after[0] - after[1])[k])
    witness = Witness(mu, nu, *backups[g], before, after[0], after[1], int(k), gap)
    return Closedness(False, "span", deviation, witness, interval, statistics, points)


def _extremal_pair(
    points: Float[np.ndarray, " n"],
    basis: Float[np.ndarray, "rank n"],
    residual: Float[np.ndarray, " n"],
) -> tuple[Particles, Particles]:
    """Two distributions on `points` with equal expectations of the basis but not of the residual.

    Its positive and negative parts, normalised, would do: the residual is orthogonal to 1 and to
    each h. The best pair is found by a linear programme. By duality it is twice as far apart as
    h_k(r + gamma x) is from the span in the uniform norm, and a vertex has at most K + 2 atoms.
    """
    n = len(points)
    objective = residual / np.abs(residual).max()
    rows = basis * np.sqrt(n)
    equations = np.vstack([np.hstack([rows, -rows]), np.repeat([1.0, 0.0], n)])
    right = np.append(np.zeros(len(rows)), 1.0)
    found = linprog(
        np.concatenate([-objective, objective]), A_eq=equations, b_eq=right, method="highs-ds"
    )
    signed = found.x[:n] - found.x[n:] if found.success else objective
    kept = np.abs(signed) > 1e-9
    points, signed, rows = points[kept], signed[kept], basis[:, kept]
    for _ in range(2):  # the programme is solved to about 1e-7: back into the null space
        signed = signed - np.linalg.pinv(rows) @ (rows @ signed)
    above, below = signed > 0, signed < 0
    mu = Particles(points[above], signed[above] / signed[above].sum())
    return mu, Particles(points[below], signed[below] / signed[below].sum())


def _by_mixtures(
    family: Statistics,
    interval: Interval,
    backups: list[Backup],
    tolerance: float,
    draws: int,
    seed: int,
) -> Closedness:
    """Random backups, in which a successor has mu, or what is imputed from mu's statistics.

    If that makes a difference, the statistics are not closed. Backing up one distribution alone
    would not show it: quantiles and expectiles move along with r + gamma z.
    """
    rng = np.random.default_rng(seed)
    mu, rho = (_random_distributions(rng, family, interval, draws) for _ in range(2))
    weight = rng.uniform(0.1, 0.9, draws)
    reward, gamma = rng.choice(np.array(backups), draws).T
    before = np.asarray(evaluate(family, mu))
    imputed_mu: Particles = _impute(family, before)
    nu = Particles(np.asarray(imputed_mu.atoms), np.asarray(imputed_mu.probs))
    share = np.stack([weight, 1 - weight], axis=-1)
    backed_up = (together(one, rho, axis=1).mixture(share).push(reward, gamma) for one in (mu, nu))
    imputed, *after = np.asarray(evaluate(family, together(nu, *backed_up)))
    size = _without_zeros(np.abs(np.concatenate([before, *after])).max(axis=0))
    # Statistics that are only nearly shared may differ a little more after the backup: no gap.
    unshared = (np.abs(imputed - before) / size).max(axis=-1)
    usable = unshared <= tolerance / 100
    relative = np.where(usable[:, None], np.abs(after[0] - after[1]) / size, 0)
    deviation = float(relative.max())
    if deviation <= tolerance:
        _check_imputation(unshared, usable)
        return Closedness(True, "mixtures", deviation, None, interval)
    i, k = map(int, np.unravel_index(int(relative.argmax()), relative.shape))
    gap = float(abs(after[0] - after[1])[i, k])
    how = (float(reward[i]), float(gamma[i]))
    found = (before[i], after[0][i], after[1][i])
    witness = Witness(mu[i], nu[i], *how, *found, k, gap, rho[i], float(weight[i]))
    return Closedness(False, "mixtures", deviation, witness, interval)


def _random_distributions(
    rng: np.random.Generator, family: Statistics, interval: Interval, draws: int
) -> Particles:
    atoms = 2 * family.size + 6
    places = rng.uniform(*interval, (draws, atoms))
    return Particles(places, rng.dirichlet(np.full(atoms, 0.7), draws))


def _check_imputation(unshared: Float[np.ndarray, " n"], usable: Bool[np.ndarray, " n"]) -> None:
    """An imputation that misses most statistics proves nothing."""
    if np.mean(usable) < 0.5:
        right = (
            f"in most of {len(usable)} draws it missed the statistics asked for: "
            "an exact imputation is needed"
        )
        raise fail("median relative residual of the imputation", float(np.median(unshared)), right)


@jax.jit
def _impute(family: Statistics, values: Values) -> Particles:
    imputed: Particles = family.impute(values)
    return imputed


def _without_zeros(size: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Sizes to divide by: 1 where there is none."""
    return np.where(size > 0, size, 1)


def _design(
    statistics: Statistics | Functions, x: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "terms n"], Float[np.ndarray, "terms 1"]]:
    """The functions 1, h_1, ..., h_K at the points, scaled, and their sizes."""
    rows = np.vstack([np.ones_like(x), features(statistics, x)])
    size = _without_zeros(np.abs(rows).max(axis=-1, keepdims=True))
    return rows / size, size
