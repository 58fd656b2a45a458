"""How far learnt statistics are from the true ones (Definition 4.5): bounds, and measurements.

Besides the paper's bounds for CDRL (Theorem 4.6) and QDRL (Theorem 4.7) and an older one for CDRL
there are three of our own: sharper ones for CDRL and QDRL, and one for EDRL with exact imputation,
for which the paper has none. docs/edrl-theorem.md proves the last one and its uniform corollary.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np

from edrl.core.check import check_count, check_number, fail
from edrl.core.families.levels import check_taus
from edrl.core.metrics import statistic_error
from edrl.core.precision import in_float64
from edrl.core.statistics import Statistics
from edrl.core.types import Bool, Float, Int
from edrl.tabular import dp
from edrl.tabular.ground_truth import Truth, return_distributions
from edrl.tabular.mdp import MDP
from edrl.tabular.policy import PolicyLike
from edrl.tabular.progress import track

Levels: TypeAlias = Sequence[float] | Float[np.ndarray, " K"]
"""Increasing levels of expectiles in (0, 1)."""


def cdrl_bound(k: int, gamma: float) -> float:
    """Theorem 4.6: gamma / (2 (1 - gamma) (K - 1)).

    The K support points lie evenly on +-Rmax/(1 - gamma). The mean is over the K - 1 statistics of
    Lemma 3.2, which are probabilities: Rmax drops out.
    """
    check_count("k", k, 2)
    return _check_gamma(gamma) / (2 * (1 - gamma) * (k - 1))


def cdrl_cramer_bound(k: int, gamma: float) -> float:
    """sqrt(gamma / ((1 - gamma) (K - 1))): an older bound on the error of Theorem 4.6.

    Rowland et al. (2018, Proposition 3) bound the supremum-Cramér distance of the learnt eta from
    the true eta_pi: its square is at most h / (1 - gamma), with h = I / (K - 1) the spacing and I
    the width of the support.
    (i) The statistic of a cell is the CDF of the projected distribution there. So the mean error is
    the integral of |F - G| over the support divided by I, where F and G are the CDFs of eta and of
    Pi eta_pi.
    (ii) By Jensen's inequality it is at most l2(eta, Pi eta_pi) / sqrt(I).
    (iii) eta = Pi T eta and Pi eta_pi = Pi T eta_pi, and Pi T contracts the distance by
    sqrt(gamma). So the squared mean error is at most gamma h / ((1 - gamma) I), and h / I is
    1 / (K - 1).
    Where this says anything, that is, where it is below 1, Theorem 4.6 is less than half of it.
    """
    check_count("k", k, 2)
    return math.sqrt(_check_gamma(gamma) / ((1 - gamma) * (k - 1)))


def sharper_cdrl_bound(k: int, gamma: float) -> float:
    """gamma / (2 sqrt(1 - gamma^2) (K - 1)): Theorem 4.6 times sqrt((1 - gamma) / (1 + gamma)).

    (i) The Cramér projection rounds y at random to one of its neighbours in the support, y + e. The
    mean of e is 0, and that of e^2 is at most h^2 / 4, with h the spacing.
    (ii) Along one trajectory let G_t be the return from time t on. Let G'_n have the learnt
    distribution of the pair at time n, and G'_t = R_t + gamma G'_{t+1} + e_t be rounded with fresh
    randomness. By eta = Pi T eta, each G'_t has the learnt distribution of the pair at time t.
    (iii) G'_0 - G_0 is the sum of gamma^t e_t for t < n, and a rest of the order of gamma^n. Given
    all that comes later, e_t has mean 0. So their squares add up, not their sizes, and
    W1(eta, eta_pi)^2 <= E[(G'_0 - G_0)^2] <= h^2 / (4 (1 - gamma^2)) for n to infinity.
    (iv) As in Theorem 4.6, the error is W1(Pi T eta, Pi T eta_pi) / I <= gamma W1(eta, eta_pi) / I,
    with I = (K - 1) h the width of the support.
    """
    check_count("k", k, 2)
    return _check_gamma(gamma) / (2 * math.sqrt(1 - gamma**2) * (k - 1))


def qdrl_bound(k: int, gamma: float, max_reward: float) -> float:
    """Theorem 4.7: 2 Rmax (5 - 2 gamma) / ((1 - gamma)^2 K), for K mid-quantiles."""
    check_count("k", k, 1)
    check_number("max_reward", max_reward, 0.0)
    return 2 * max_reward * (5 - 2 * _check_gamma(gamma)) / ((1 - gamma) ** 2 * k)


def sharper_qdrl_bound(k: int, gamma: float, max_reward: float) -> float:
    """Rmax (2 - gamma) / ((1 - gamma)^2 K): Theorem 4.7 with a constant five to six times smaller.

    A mid-quantile halves its cell, so W1(Pi mu, mu) <= I/(2K) for a distribution mu of width I,
    half of Lemma B.2 (i). For the learnt eta = Pi T eta and the true eta_pi, W1(eta, eta_pi) is at
    most W1(Pi T eta, T eta) + W1(T eta, T eta_pi) <= I/(2K) + gamma W1(eta, eta_pi), so it is at
    most I/(2K (1 - gamma)). The error is W1(eta, Pi eta_pi), which is at most I/(2K) more, and I is
    2 Rmax/(1 - gamma).
    """
    check_count("k", k, 1)
    check_number("max_reward", max_reward, 0.0)
    return max_reward * (2 - _check_gamma(gamma)) / ((1 - gamma) ** 2 * k)


def edrl_level_bounds(
    taus: Levels, gamma: float, max_reward: float, within_range: bool = False
) -> Float[np.ndarray, " K"]:
    """How far learnt expectiles can be from the true ones: EDRL with any exact imputation.

    The bound for the level tau is

        gamma kappa Delta I / (1 - gamma) * |1 - 2 tau| / min(tau, 1 - tau),

    or I, if that is less. I = 2 Rmax / (1 - gamma) is the width of the range of returns, Delta the
    widest step of 0, tau_1, ..., tau_K, 1, and kappa = 1 / (1 - 2 max(tau_1, 1 - tau_K)).

    Let P(x) = E[(x - Z)+] and d = sup |P - P'|. In short (docs/edrl-theorem.md has the proof):
    (i) Learnt expectiles stay in the range of returns, of width I, wherever the imputed atoms are.
    (ii) Two distributions with the same expectiles have d <= kappa Delta I. They agree in P at all
    expectiles but the mean, where P is free. On either side of it, both lie between P at the next
    expectile and one common chord.
    (iii) The Bellman operator contracts d by gamma. So the learnt distributions are within kappa
    Delta I / (1 - gamma) of the true ones, and gamma times that after a backup.
    (iv) As the means agree, expectiles differ by at most d |1 - 2 tau| / min(tau, 1 - tau).

    With `within_range` the imputed atoms must lie in the range of returns, as those of
    "exact-knots" do. Then kappa is 1. Midpoints have kappa Delta = 1 / (K - 1).
    """
    levels = np.asarray(check_taus(taus))
    check_number("max_reward", max_reward, 0.0)
    if not ((levels == 0.5).any() and levels[0] < 0.5 < levels[-1]):
        right = (
            "1/2 must be among them, with a level on either side: the argument rests on the mean"
        )
        raise fail("taus", taus, right)
    width = 2 * max_reward / (1 - _check_gamma(gamma))
    kappa = 1.0 if within_range else 1 / (1 - 2 * max(levels[0], 1 - levels[-1]))
    distance = gamma * kappa * np.diff(levels, prepend=0.0, append=1.0).max() * width / (1 - gamma)
    bounds = distance * np.abs(1 - 2 * levels) / np.minimum(levels, 1 - levels)
    return np.asarray(np.minimum(bounds, width))


def edrl_bound(taus: Levels, gamma: float, max_reward: float, within_range: bool = False) -> float:
    """The mean of `edrl_level_bounds`, for Definition 4.5: O(log K / K) for midpoints."""
    return float(edrl_level_bounds(taus, gamma, max_reward, within_range).mean())


@dataclass(frozen=True)
class ApproximationError:
    """The error of Definition 4.5 for one MDP and policy, and how sure it is."""

    error: float  # the supremum over pairs
    pairs: Float[np.ndarray, "S A"]  # the mean over the statistics of |true - learnt|
    # |error - exact error| is at most this; None where no bracket is known:
    uncertainty: float | None
    learnt: dp.Solution
    true_values: Float[np.ndarray, "S A K"]


@in_float64
def approximation_error(
    mdp: MDP,
    policy: PolicyLike,
    family: Statistics,
    *,
    truth: Truth | Float[np.ndarray, "..."] | None = None,
    atoms: int = 512,
    tolerance: float = 1e-9,
    max_iterations: int = 10_000,
) -> ApproximationError:
    """sup over (x, a) of the mean over k of |s_k(eta_pi(x, a)) - learnt value| (Definition 4.5).

    The learnt values are the fixed point of `dp.evaluate`. `truth` is a `Truth`, or true statistics
    [S, A, K] where they are known; by default it is computed with `atoms` atoms. Continuous rewards
    count as discretised, for both.
    """
    if truth is None:
        truth = return_distributions(mdp, policy, atoms=atoms)
    learnt = dp.evaluate(mdp, policy, family, tolerance=tolerance, max_iterations=max_iterations)
    values = truth.values(family) if isinstance(truth, Truth) else truth
    true_values = np.asarray(values, np.float64)
    if true_values.shape != learnt.values.shape:
        right = f"the statistics have the shape {learnt.values.shape}"
        raise fail("truth.shape", true_values.shape, right)
    pairs = np.asarray(statistic_error(learnt.values, true_values))
    uncertainty = _uncertainty(family, truth, true_values) if isinstance(truth, Truth) else 0.0
    return ApproximationError(float(pairs.max()), pairs, uncertainty, learnt, true_values)


def _uncertainty(
    family: Statistics, truth: Truth, values: Float[np.ndarray, "S A K"]
) -> float | None:
    """How far the exact mean error can be from that of `values`; None if no bracket is known."""
    bracket = family.bracket(truth.lower, truth.upper, truth.means)
    if bracket is None:
        return None
    off = np.maximum(values - np.asarray(bracket[0]), np.asarray(bracket[1]) - values)
    return float(off.mean(axis=-1).max())


@dataclass(frozen=True)
class Decay:
    """Measured errors of Definition 4.5 as the number of statistics grows, on M MDPs."""

    ks: Int[np.ndarray, " n"]
    errors: Float[np.ndarray, "M n"]
    uncertainties: Float[np.ndarray, "M n"]  # NaN where none is known
    converged: Bool[np.ndarray, "M n"]  # whether dynamic programming has settled
    # a in error ~ K^-a, by least squares in the logarithms with a constant for each MDP:
    exponent: float
    standard_error: float  # of the exponent

    @property
    def worst(self) -> Float[np.ndarray, " n"]:
        """The largest error for each K: the least epsilon of Definition 4.5 for these MDPs."""
        return np.asarray(self.errors.max(axis=0))

    @property
    def mean(self) -> Float[np.ndarray, " n"]:
        """The mean error over the MDPs for each K."""
        return np.asarray(self.errors.mean(axis=0))


def measure_decay(
    make_family: Callable[[int], Statistics],
    ks: Sequence[int],
    mdps: Sequence[MDP] | Callable[[int], MDP],
    policy: PolicyLike = "uniform",
    *,
    count: int = 8,
    truths: Sequence[Truth] | None = None,
    atoms: int = 512,
    tolerance: float = 1e-9,
    max_iterations: int = 10_000,
    progress: bool = False,
) -> Decay:
    """The error of Definition 4.5 for every `make_family(k)` and MDP, and how fast it falls.

    `mdps` are MDPs, or a function from seeds 0, ..., count - 1 to them, as `garnet` is. MDPs of one
    shape share their compilations. `truths` saves computing the true return distributions again,
    with `atoms` atoms each.
    """
    mdps = _sampled(mdps, count) if callable(mdps) else mdps
    _check_points(mdps, ks)
    if truths is None:
        truths = [return_distributions(mdp, policy, atoms=atoms) for mdp in mdps]
    families = [(k, make_family(k)) for k in ks]
    cases = product(families, zip(mdps, truths, strict=True))
    rows = []
    with track("approximation errors", len(ks) * len(mdps), progress) as advance:
        for (k, family), (mdp, truth) in cases:
            found = approximation_error(
                mdp,
                policy,
                family,
                truth=truth,
                tolerance=tolerance,
                max_iterations=max_iterations,
            )
            rows.append((found.error, found.uncertainty, found.learnt.converged))
            advance(1, f"K = {k}, error {found.error:.1e}")
    # An uncertainty of None becomes NaN.
    table = np.array(rows, np.float64).reshape(len(ks), len(mdps), 3)
    errors, uncertainties, converged = np.moveaxis(table, (0, 1, 2), (2, 1, 0))
    exponent, standard_error = _slope(np.asarray(ks), errors)
    return Decay(np.asarray(ks), errors, uncertainties, converged > 0, exponent, standard_error)


def _sampled(make_mdp: Callable[[int], MDP], count: int) -> list[MDP]:
    return [make_mdp(seed) for seed in range(check_count("count", count, 1))]


def _check_points(mdps: Sequence[MDP], ks: Sequence[int]) -> None:
    """Whether there are enough points for a slope."""
    if len(mdps) * (len(set(ks)) - 1) < 2:
        right = "a slope and its error need at least two points more than there are MDPs"
        raise fail("(number of mdps, ks)", (len(mdps), ks), right)


def _slope(ks: Int[np.ndarray, " n"], errors: Float[np.ndarray, "M n"]) -> tuple[float, float]:
    """The exponent a of errors ~ c_m K^-a and its standard error."""
    if not (errors > 0).all():
        right = "errors that vanish have no rate: the statistics are closed"
        raise fail("least error", float(errors.min()), right)
    x, y = np.log(ks), np.log(errors)
    x, y = x - x.mean(), y - y.mean(axis=-1, keepdims=True)
    spread = len(errors) * np.sum(x**2)
    slope = np.sum(x * y) / spread
    left = np.sum((y - slope * x) ** 2) / (errors.size - len(errors) - 1)
    return float(-slope), float(np.sqrt(left / spread))


def _check_gamma(gamma: float) -> float:
    if not 0 <= gamma < 1:
        raise fail("gamma", gamma, "the bounds hold for discount factors in [0, 1)")
    return float(gamma)
