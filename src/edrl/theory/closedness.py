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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import jax
import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from edrl.core.check import check_count, check_number, fail
from edrl.core.particles import Particles
from edrl.core.precision import in_float64
from edrl.core.statistics import Statistics
from edrl.core.types import Array, Float, Values

Functions: TypeAlias = Sequence[Callable[[Float[np.ndarray, " n"]], npt.ArrayLike]]
"""Functions h_1, ..., h_K, each from points [n] to values [n].

They stand for the statistics E[h_k(Z)].
"""

Route = Literal["span", "mixtures"]

_REWARDS = (-0.7, 0.0, 0.4, 1.0)  # unless others are asked for, in half widths of the interval
_SHARED = 0.01  # of the gap: so much a witness's statistics may differ before the backup


@dataclass(frozen=True)
class Witness:
    """Two distributions that share their statistics until they are backed up through r + gamma z.

    The backup is the distribution of r + gamma Z for Z from mu, or from the mixture of mu and `rho`
    that gives mu the share `weight`. The same is done with nu in the place of mu.
    """

    mu: Particles  # [n]
    nu: Particles  # [n']
    reward: float
    gamma: float
    statistics_before: Float[np.ndarray, " K"]  # of mu and of nu
    backed_up_mu: Float[np.ndarray, " K"]
    backed_up_nu: Float[np.ndarray, " K"]
    statistic: int  # which of the K gives it away, from 0
    gap: float  # |backed_up_mu - backed_up_nu| there
    rho: Particles | None = None
    weight: float = 1.0

    @in_float64
    def check(self, statistics: Statistics | Functions) -> float:
        """The gap, computed again; an error unless mu and nu share the statistics."""
        mu, nu, after_mu, after_nu = _values(statistics, self.mu, self.nu, *self.backups())
        shared = float(np.abs(mu - nu).max())
        gap = float(np.abs(after_mu - after_nu)[self.statistic])
        if not shared <= _SHARED * gap:
            right = f"mu and nu must share them to witness a gap of {gap:g}"
            raise fail("difference of statistics", shared, right)
        return gap

    @in_float64
    def backups(self) -> tuple[Particles, Particles]:
        """The backed-up distributions, with mu and with nu."""
        mu, nu = self.mu, self.nu
        if self.rho is not None:
            share = np.array([self.weight, 1 - self.weight])
            mu, nu = _together(mu, self.rho).mixture(share), _together(nu, self.rho).mixture(share)
        return mu.push(self.reward, self.gamma), nu.push(self.reward, self.gamma)

    def __str__(self) -> str:
        mixed = ""
        if self.rho is not None:
            mixed = f", in a mixture with 1 - {self.weight:.3g} of rho = {_written(self.rho)}"
        return (
            f"mu = {_written(self.mu)} and nu = {_written(self.nu)} share the statistics "
            f"{_rounded(self.statistics_before)}; backed up through {self.reward:.3g} + "
            f"{self.gamma:.3g} z{mixed}, "
            f"they have {_rounded(self.backed_up_mu)} and {_rounded(self.backed_up_nu)}: "
            f"a gap of {self.gap:.3g} in statistic {self.statistic + 1}"
        )


@dataclass(frozen=True)
class Closedness:
    """Whether statistics are Bellman closed, and why."""

    closed: bool
    route: Route
    deviation: float  # the largest found, relative to the statistics' size
    witness: Witness | None  # there is one unless closed
    interval: tuple[float, float]  # of the returns that the verdict is about
    functions: Functions | Statistics | None = None  # of the route by span
    points: Float[np.ndarray, " n"] | None = None

    @in_float64
    def coefficients(self, reward: float, gamma: float) -> Float[np.ndarray, "K terms"]:
        """The Bellman equation h(r + gamma x) = a_0 + A h(x), with a_0 in the first column."""
        if not self.closed or self.functions is None or self.points is None:
            right = "only closed expectations, found by span, have linear Bellman equations"
            raise fail("(closed, route)", (self.closed, self.route), right)
        design, size = _design(self.functions, self.points)
        pushed = _features(self.functions, reward + gamma * self.points)
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
    interval: tuple[float, float] | None = None,
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
    check_number("tolerance", tolerance, 0.0, open_low=True)
    draws = check_count("draws", draws, 200)
    for i, gamma in enumerate(gammas):
        check_number(f"gammas[{i}]", gamma, 0.0, 1.0, open_low=True)
    for i, reward in enumerate(() if rewards is None else rewards):
        check_number(f"rewards[{i}]", reward)
    has_functions = not isinstance(statistics, Statistics) or _is_expectation(statistics)
    route = route or ("span" if has_functions else "mixtures")
    fits = {"span": has_functions, "mixtures": isinstance(statistics, Statistics)}
    if not fits.get(route, False):
        raise fail("route", route, '"span" is for functions and features, "mixtures" for families')

    def decide(span: tuple[float, float], half_width: float) -> Closedness:
        backups = _backups(half_width, rewards, gammas)
        if route == "span":
            return _by_span(statistics, span, backups, tolerance)
        assert isinstance(statistics, Statistics)
        return _by_mixtures(statistics, span, backups, tolerance, draws, seed)

    bounds = statistics.bounds() if isinstance(statistics, Statistics) else None
    low, high = (bounds or (-1.0, 1.0)) if interval is None else interval
    if not (np.isfinite([low, high]).all() and low < high):
        raise fail("interval", interval, "it must be two finite numbers, the lower one first")
    half = (high - low) / 2
    found = decide((low, high), half)
    if interval is not None or not found.closed:
        return found
    wider = [((low * times, high * times), half * times) for times in (10.0, 100.0)]
    if bounds is not None:
        backups = _backups(half, rewards, gammas)
        below = [(low - reward) / gamma for reward, gamma in backups]
        above = [(high - reward) / gamma for reward, gamma in backups]
        wider = [((min(low, *below, *above), max(high, *below, *above)), half)]
    for span, half_width in wider:
        more = decide(span, half_width)
        if not more.closed:
            return more
        # The first interval's points stay: on them equations have the most digits.
        found = dataclasses.replace(
            found, interval=span, deviation=max(found.deviation, more.deviation)
        )
    return found


def _is_expectation(family: Statistics) -> bool:
    return family.features(np.zeros(1)) is not None


def _backups(
    half_width: float, rewards: Sequence[float] | None, gammas: Sequence[float]
) -> list[tuple[float, float]]:
    """All pairs of a reward and a discount."""
    given = [share * half_width for share in _REWARDS] if rewards is None else rewards
    backups = [(float(reward), float(gamma)) for reward in given for gamma in gammas]
    if not backups:
        raise fail("(rewards, gammas)", (rewards, gammas), "at least one of each is needed")
    return backups


def _by_span(
    statistics: Statistics | Functions,
    interval: tuple[float, float],
    backups: list[tuple[float, float]],
    tolerance: float,
) -> Closedness:
    """Regress h_k(r + gamma x) on {1, h(x)}: the span is closed if no residual is left.

    This is Theorem 4.3.
    """
    count = len(_features(statistics, np.asarray(interval, np.float64)))
    n = 16 * (count + 16)
    # Chebyshev's points: polynomials are well-conditioned on them.
    unit = -np.cos(np.pi * (np.arange(n) + 0.5) / n)
    points = (interval[0] + interval[1]) / 2 + (interval[1] - interval[0]) / 2 * unit
    design, size = _design(statistics, points)
    _, spectrum, basis = np.linalg.svd(design, full_matrices=False)
    # Orthonormal, repetitions dropped:
    basis = basis[spectrum > n * np.finfo(np.float64).eps * spectrum[0]]
    # For each backup, [G, K, n]:
    pushed = np.stack([_features(statistics, r + gamma * points) for r, gamma in backups])
    residual = pushed - pushed @ basis.T @ basis
    residual -= residual @ basis.T @ basis  # once more: orthogonal to the last bit
    scale = np.maximum(size[1:, 0], np.abs(pushed).max(axis=(0, 2)))
    relative = np.abs(residual).max(axis=-1) / scale
    deviation = float(relative.max())
    if deviation <= tolerance:
        return Closedness(True, "span", deviation, None, interval, statistics, points)
    g, k = np.unravel_index(int(relative.argmax()), relative.shape)
    mu, nu = _extremal_pair(points, basis, residual[g, k])
    before, *after = _values(statistics, mu, *(one.push(*backups[g]) for one in (mu, nu)))
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
    interval: tuple[float, float],
    backups: list[tuple[float, float]],
    tolerance: float,
    draws: int,
    seed: int,
) -> Closedness:
    """Random backups, in which a successor has mu, or what is imputed from mu's statistics.

    If that makes a difference, the statistics are not closed. Backing up one distribution alone
    would not show it: quantiles and expectiles move along with r + gamma z.
    """
    rng = np.random.default_rng(seed)
    atoms = 2 * family.size + 6

    def random_distributions() -> Particles:
        return Particles(
            rng.uniform(*interval, (draws, atoms)), rng.dirichlet(np.full(atoms, 0.7), draws)
        )

    mu, rho = random_distributions(), random_distributions()
    weight = rng.uniform(0.1, 0.9, draws)
    reward, gamma = rng.choice(np.array(backups), draws).T
    before = np.asarray(_evaluate(family, mu))
    imputed_mu: Particles = _impute(family, before)
    nu = Particles(np.asarray(imputed_mu.atoms), np.asarray(imputed_mu.probs))
    share = np.stack([weight, 1 - weight], axis=-1)
    backed_up = (_together(one, rho, axis=1).mixture(share).push(reward, gamma) for one in (mu, nu))
    imputed, *after = np.asarray(_evaluate(family, _together(nu, *backed_up)))
    size = np.abs(np.concatenate([before, *after])).max(axis=0)
    size = np.where(size > 0, size, 1)
    # Statistics that are only nearly shared may differ a little more after the backup: no gap.
    unshared = (np.abs(imputed - before) / size).max(axis=-1)
    usable = unshared <= tolerance / 100
    relative = np.where(usable[:, None], np.abs(after[0] - after[1]) / size, 0)
    deviation = float(relative.max())
    if deviation <= tolerance and np.mean(usable) < 0.5:
        right = (
            f"in most of {draws} draws it missed the statistics asked for: "
            "an exact imputation is needed"
        )
        raise fail("median relative residual of the imputation", float(np.median(unshared)), right)
    if deviation <= tolerance:
        return Closedness(True, "mixtures", deviation, None, interval)
    i, k = map(int, np.unravel_index(int(relative.argmax()), relative.shape))
    gap = float(abs(after[0] - after[1])[i, k])
    how = (float(reward[i]), float(gamma[i]))
    values = (before[i], after[0][i], after[1][i])
    witness = Witness(mu[i], nu[i], *how, *values, k, gap, rho[i], float(weight[i]))
    return Closedness(False, "mixtures", deviation, witness, interval)


def _values(statistics: Statistics | Functions, *mus: Particles) -> Float[np.ndarray, "m K"]:
    """The statistics of m distributions."""
    mu = _together(*mus)
    if isinstance(statistics, Statistics):
        return np.asarray(_evaluate(statistics, mu))
    features = [_features(statistics, atoms) for atoms in np.asarray(mu.atoms)]
    return np.asarray(np.einsum("mkn,mn->mk", np.stack(features), np.asarray(mu.probs)))


def _together(*mus: Particles, axis: int = 0) -> Particles:
    """Distributions of one batch shape stacked along a new axis, those with fewer atoms padded."""
    most = max(mu.size for mu in mus)

    def padded(array: Array, mode: Literal["edge", "constant"]) -> Float[np.ndarray, "..."]:
        pad = [(0, 0)] * (array.ndim - 1) + [(0, most - array.shape[-1])]
        return np.pad(array, pad, mode=mode)

    atoms = np.stack([padded(mu.atoms, "edge") for mu in mus], axis=axis)
    return Particles(atoms, np.stack([padded(mu.probs, "constant") for mu in mus], axis=axis))


@jax.jit
def _evaluate(family: Statistics, mu: Particles) -> Values:
    return family.evaluate(mu)


@jax.jit
def _impute(family: Statistics, values: Values) -> Particles:
    imputed: Particles = family.impute(values)
    return imputed


def _features(
    statistics: Statistics | Functions, x: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "K n"]:
    """h_k(x) for every k."""
    if isinstance(statistics, Statistics):
        return np.asarray(statistics.features(x))
    if callable(statistics) or not statistics:
        raise fail(
            "statistics",
            statistics,
            "it must be a family or a sequence of functions, e.g. [np.square]",
        )
    rows = [np.asarray(h(x), np.float64) for h in statistics]
    for k, row in enumerate(rows):
        if row.shape != x.shape or not np.isfinite(row).all():
            right = f"each function must take points {x.shape} to finite numbers of the same shape"
            raise fail(f"statistics[{k}](x).shape", row.shape, right)
    return np.stack(rows)


def _design(
    statistics: Statistics | Functions, x: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "terms n"], Float[np.ndarray, "terms 1"]]:
    """The functions 1, h_1, ..., h_K at the points, scaled, and their sizes."""
    rows = np.vstack([np.ones_like(x), _features(statistics, x)])
    size = np.abs(rows).max(axis=-1, keepdims=True)
    size = np.where(size > 0, size, 1)
    return rows / size, size


def _rounded(values: Float[np.ndarray, " K"]) -> str:
    return np.array2string(values, 10_000, 4, True, ", ", threshold=12, edgeitems=3)


def _written(mu: Particles) -> str:
    """A distribution on one line: its atoms and probabilities, or the first few of them."""
    mu = mu.sorted()
    terms = [f"{p:.3g} at {z:.4g}" for z, p in zip(mu.atoms, mu.probs, strict=True) if p > 0]
    shown = terms if len(terms) <= 8 else [*terms[:6], f"... ({len(terms)} atoms)"]
    return "{" + ", ".join(shown) + "}"
