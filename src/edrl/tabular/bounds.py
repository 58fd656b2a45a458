"""How far learnt statistics are from the true ones (Definition 4.5): bounds, and measurements.

Besides the paper's bounds for CDRL (Theorem 4.6) and QDRL (Theorem 4.7) there are two of our own: a sharper
one for QDRL, and one for EDRL with exact imputation, for which the paper has none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edrl.core.check import check_count, check_number, fail
from edrl.core.families.levels import check_taus
from edrl.core.metrics import statistic_error
from edrl.core.statistics import Statistics
from edrl.tabular import dp
from edrl.tabular.brackets import bracket_of
from edrl.tabular.mdp import MDP
from edrl.tabular.progress import track
from edrl.tabular.truth import Truth, return_distributions


def cdrl_bound(k: int, gamma: float) -> float:
    """Theorem 4.6: gamma / (2 (1 - gamma) (K - 1)), for K even support points on +-Rmax/(1 - gamma).

    The mean is over the K - 1 statistics of Lemma 3.2, which are probabilities: Rmax drops out.
    """
    check_count("k", k, 2)
    return _check_gamma(gamma) / (2 * (1 - gamma) * (k - 1))


def qdrl_bound(k: int, gamma: float, max_reward: float) -> float:
    """Theorem 4.7: 2 Rmax (5 - 2 gamma) / ((1 - gamma)^2 K), for K mid-quantiles."""
    check_count("k", k, 1)
    check_number("max_reward", max_reward, 0.0)
    return 2 * max_reward * (5 - 2 * _check_gamma(gamma)) / ((1 - gamma) ** 2 * k)


def sharper_qdrl_bound(k: int, gamma: float, max_reward: float) -> float:
    """Rmax (2 - gamma) / ((1 - gamma)^2 K): Theorem 4.7 with a constant five to six times smaller.

    A mid-quantile halves its cell, so W1(Pi mu, mu) <= I/(2K) for a law mu of width I, half of Lemma B.2 (i).
    For the learnt eta = Pi T eta and the true eta_pi, W1(eta, eta_pi) <= W1(Pi T eta, T eta) + W1(T eta, T
    eta_pi) <= I/(2K) + gamma W1(eta, eta_pi), so it is at most I/(2K (1 - gamma)). The error is W1(eta, Pi
    eta_pi), which is at most I/(2K) more, and I = 2 Rmax/(1 - gamma).
    """
    check_count("k", k, 1)
    check_number("max_reward", max_reward, 0.0)
    return max_reward * (2 - _check_gamma(gamma)) / ((1 - gamma) ** 2 * k)


def edrl_bound(taus: Sequence[float] | np.ndarray, gamma: float, max_reward: float) -> float:
    """A bound for EDRL with exact imputation that stays within the range of returns (`impute="exact-knots"`).

    Let P(x) = E[(x - Z)+], d = sup |P - P'|, I = 2 Rmax/(1 - gamma), and Delta the widest step of 0, tau_1,
    ..., tau_K, 1, with 1/2 among the taus.
    (i) T contracts d by gamma.
    (ii) Imputation keeps P at the expectiles. Between two of them below the mean, P grows by at most I Delta:
    P = tau E|Z - x| implies dP/dtau <= E|Z - x|/(1 - tau), where E|Z - x| <= I/(1 + 2 sqrt(tau (1 - tau))).
    Above the mean E[(Z - x)+] falls in the same way. So imputation moves a law by d <= I Delta, and with (i)
    the learnt distributions are within I Delta/(1 - gamma) of the true ones, and gamma times that backed up.
    (iii) As the means agree, expectiles differ by at most d |1 - 2 tau|/min(tau, 1 - tau), and by at most I.
    With the midpoints as taus this is O(log K / K).
    """
    levels = np.asarray(check_taus(taus))
    check_number("max_reward", max_reward, 0.0)
    if not (levels == 0.5).any() or len(levels) < 3:
        raise fail("taus", taus, "at least three levels are needed, 1/2 among them: the argument rests on the mean")
    width = 2 * max_reward / (1 - _check_gamma(gamma))
    distance = gamma * width * np.diff(levels, prepend=0.0, append=1.0).max() / (1 - gamma)
    errors = distance * np.abs(1 - 2 * levels) / np.minimum(levels, 1 - levels)
    return float(np.minimum(errors, width).mean())


@dataclass(frozen=True)
class ApproximationError:
    """The error of Definition 4.5 for one MDP and policy, and how sure it is."""

    error: float  # the supremum over pairs
    pairs: np.ndarray  # [S, A], the mean over the statistics of |true - learnt|
    uncertainty: float | None  # |error - exact error| is at most this; None where no bracket is known
    learnt: dp.Solution
    true_values: np.ndarray  # [S, A, K]


def approximation_error(
    mdp: MDP,
    policy: Any,
    family: Statistics,
    *,
    truth: Truth | np.ndarray | None = None,
    atoms: int = 512,
    tolerance: float = 1e-9,
    max_iterations: int = 10_000,
) -> ApproximationError:
    """sup over (x, a) of the mean over k of |s_k(eta_pi(x, a)) - learnt value| (Definition 4.5).

    The learnt values are the fixed point of `dp.evaluate`. `truth` is a `Truth`, or true statistics
    [S, A, K] where they are known; by default it is computed with `atoms` atoms. Continuous rewards count as
    discretised, for both.
    """
    if truth is None:
        truth = return_distributions(mdp, policy, atoms=atoms)
    learnt = dp.evaluate(mdp, policy, family, tolerance=tolerance, max_iterations=max_iterations)
    true_values = np.asarray(truth.values(family) if isinstance(truth, Truth) else truth, np.float64)
    if true_values.shape != learnt.values.shape:
        raise fail("truth.shape", true_values.shape, f"the statistics have the shape {learnt.values.shape}")
    pairs = np.asarray(statistic_error(learnt.values, true_values))
    uncertainty: float | None = 0.0
    if isinstance(truth, Truth):
        bracket = bracket_of(family, truth.lower, truth.upper, truth.means)
        off = None if bracket is None else np.maximum(true_values - bracket[0], bracket[1] - true_values)
        uncertainty = None if off is None else float(off.mean(axis=-1).max())
    return ApproximationError(float(pairs.max()), pairs, uncertainty, learnt, true_values)


@dataclass(frozen=True)
class Decay:
    """Measured errors of Definition 4.5 as the number of statistics grows, on a class of MDPs."""

    ks: np.ndarray  # [n]
    errors: np.ndarray  # [M, n]
    uncertainties: np.ndarray  # [M, n], NaN where none is known
    converged: np.ndarray  # bool [M, n]: did dynamic programming settle?
    exponent: float  # a in error ~ K^-a, by least squares in the logarithms with a constant for each MDP
    standard_error: float  # of the exponent

    @property
    def worst(self) -> np.ndarray:
        """The largest error over the MDPs for each K: the least epsilon of Definition 4.5 for them."""
        return np.asarray(self.errors.max(axis=0))

    @property
    def mean(self) -> np.ndarray:
        """The mean error over the MDPs for each K."""
        return np.asarray(self.errors.mean(axis=0))


def measure_decay(
    make_family: Callable[[int], Statistics],
    ks: Sequence[int],
    mdps: Sequence[MDP] | Callable[[int], MDP],
    policy: Any = "uniform",
    *,
    count: int = 8,
    truths: Sequence[Truth] | None = None,
    atoms: int = 512,
    tolerance: float = 1e-9,
    max_iterations: int = 10_000,
    progress: bool = False,
) -> Decay:
    """The error of Definition 4.5 for every `make_family(k)` on every MDP, and how fast it falls with k.

    `mdps` are MDPs, or a function from seeds 0, ..., count - 1 to them, as `garnet` is. MDPs of one shape
    share their compilations. `truths` saves computing the true return distributions again, with `atoms` atoms
    each.
    """
    if callable(mdps):
        mdps = [mdps(seed) for seed in range(check_count("count", count, 1))]
    if len(mdps) * (len(set(ks)) - 1) < 2:
        raise fail("(number of mdps, ks)", (len(mdps), ks), "for a slope and its error, two points must be left over")
    if truths is None:
        truths = [return_distributions(mdp, policy, atoms=atoms) for mdp in mdps]
    options: dict[str, Any] = {"tolerance": tolerance, "max_iterations": max_iterations}
    rows = []
    with track("approximation errors", len(ks) * len(mdps), progress) as advance:
        for k in ks:
            family = make_family(k)
            for mdp, truth in zip(mdps, truths, strict=True):
                found = approximation_error(mdp, policy, family, truth=truth, **options)
                uncertainty = np.nan if found.uncertainty is None else found.uncertainty
                rows.append((found.error, uncertainty, found.learnt.converged))
                advance(1, f"K = {k}, error {found.error:.1e}")
    table = np.array(rows, np.float64).reshape(len(ks), len(mdps), 3)
    errors, uncertainties, converged = np.moveaxis(table, (0, 1, 2), (2, 1, 0))
    exponent, standard_error = _slope(np.asarray(ks), errors)
    return Decay(np.asarray(ks), errors, uncertainties, converged > 0, exponent, standard_error)


def _slope(ks: np.ndarray, errors: np.ndarray) -> tuple[float, float]:
    """The exponent a of errors [M, n] ~ c_m K^-a and its standard error."""
    if not (errors > 0).all():
        raise fail("least error", float(errors.min()), "errors that vanish have no rate: the statistics are closed")
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
