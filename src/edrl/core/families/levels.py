"""The levels tau_1 < ... < tau_K of quantiles and expectiles."""

from collections.abc import Callable, Sequence

import numpy as np

from edrl.core.check import check_count, check_increasing, fail

Taus = int | Sequence[float] | np.ndarray


def midpoints(k: int) -> tuple[float, ...]:
    """tau_k = (2k - 1) / 2K, the levels of QDRL, QR-DQN and ER-DQN-naive."""
    k = check_count("taus", k, 1)
    return tuple(((2 * np.arange(k) + 1) / (2 * k)).tolist())


def evenly_spaced(k: int) -> tuple[float, ...]:
    """K levels from 0.01 to 0.99, as ER-DQN's eleven; for K = 1 the mean's own level 1/2."""
    k = check_count("taus", k, 1)
    taus = np.linspace(0.01, 0.99, k)
    if k % 2:
        taus[k // 2] = 0.5  # exactly: the mean must be the mean
    return tuple(taus.tolist())


def check_taus(taus: Taus) -> tuple[float, ...]:
    """Levels given one by one: strictly increasing, strictly between 0 and 1."""
    if taus is None or np.ndim(taus) != 1:
        raise fail("taus", taus, "it must be a sequence of levels, e.g. (0.1, 0.5, 0.9)")
    return check_increasing("taus", tuple(np.asarray(taus, dtype=np.float64).tolist()), 0.0, 1.0)


def levels_for(taus: Taus, spread: Callable[[int], tuple[float, ...]]) -> tuple[float, ...]:
    """Levels given one by one, or their number, which `spread` turns into levels."""
    if isinstance(taus, int | float | np.integer | np.floating) and float(taus).is_integer():
        return spread(int(taus))  # 11.0 is a number of levels, too
    return check_taus(taus)
