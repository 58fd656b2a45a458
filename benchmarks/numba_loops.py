"""Dynamic programming and temporal differences as plain loops, compiled by Numba.

These are the references that `benchmarks.loops` compares with: scalar code that allocates nothing
in its loops. They do all that the library does: the exact imputation with its whole repair, the
same backups, the same updates. `differences` in `benchmarks.loops` compares the numbers.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from edrl import Expectiles
from edrl.tabular import MDP

REACH = 1 / math.sqrt(np.finfo(np.float64).eps)
APART = 3**-0.5
TINY = float(np.finfo(np.float64).tiny)


class Levels(NamedTuple):
    """What exact imputation needs of the levels: all of them, and those of the knots."""

    all: np.ndarray  # [K]
    knots: np.ndarray  # [n], without the middle one
    middle: int  # the place of the level 1/2
    p_ratio: np.ndarray  # P / x at the knots
    q_ratio: np.ndarray  # (P - x) / x
    weights: np.ndarray  # of the least squares in the repair

    @classmethod
    def of(cls, family: Expectiles) -> "Levels":
        """The levels must have 1/2 among them."""
        taus = np.asarray(family.taus)
        assert family.mean_at is not None
        t = np.delete(taus, family.mean_at)
        weights = ((1 - 2 * t) / (2 * t * (1 - t))) ** 2
        return cls(taus, t, family.mean_at, t / (2 * t - 1), (1 - t) / (2 * t - 1), weights)


class Transitions(NamedTuple):
    """An MDP whose rewards are numbers, for loops: the policy always takes the action 0."""

    successors: np.ndarray  # [S, A, B]
    probs: np.ndarray  # [S, A, B]
    rewards: np.ndarray  # [S, A, B]
    terminal: np.ndarray  # [S]
    gamma: float

    @classmethod
    def of(cls, mdp: MDP) -> "Transitions":
        """The arrays as loops like them."""
        rewards = np.ascontiguousarray(mdp.rewards.atoms[..., 0])
        return cls(mdp.successors.astype(np.int64), mdp.probs, rewards, mdp.terminal, mdp.gamma)


@njit
def side(value_left, value_right, tau):
    """One of two numbers: P left of the mean, P - x right of it."""
    return value_left if tau < 0.5 else value_right


@njit
def arriving(p, x, hull, m):
    """The slope with which the minorant arrives at its last vertex."""
    j = int(hull[m - 1])
    if m == 1:
        return p[j] / REACH
    i = int(hull[m - 2])
    return (p[j] - p[i]) / (x[j] - x[i]) if x[j] > x[i] else -np.inf


@njit
def lower_hull(x, p, q, hull):
    """The vertices of the greatest convex minorant, kept on a stack; returns their number."""
    m = 0
    for i in range(x.shape[0]):
        while m > 0:
            j = int(hull[m - 1])
            run = x[i] - x[j]
            if run > 0 and arriving(p, x, hull, m) > (p[i] - p[j]) / run:
                m -= 1
            else:
                break
        hull[m] = i
        m += 1
    while m > 1 and arriving(p, x, hull, m) > 1 - q[int(hull[m - 1])] / REACH:
        m -= 1
    return m


@njit
def minorant(x, p, q, taus, hull, low):
    """The greatest convex minorant at all knots."""
    m = lower_hull(x, p, q, hull)
    k = 0
    for i in range(x.shape[0]):
        while k < m and hull[k] < i:
            k += 1
        if k < m and hull[k] == i:
            low[i] = side(p[i], q[i], taus[i])
        elif k == 0:
            a = int(hull[0])
            height = p[a] * (1 - (x[a] - x[i]) / REACH)
            low[i] = side(height, height - x[i], taus[i])
        elif k == m:
            b = int(hull[m - 1])
            height = q[b] * (1 - (x[i] - x[b]) / REACH)
            low[i] = side(height + x[i], height, taus[i])
        else:
            b, a = int(hull[k - 1]), int(hull[k])
            run = x[a] - x[b]
            way = (x[i] - x[b]) / run if run > 0 else 0.0
            low[i] = side(p[b] + way * (p[a] - p[b]), q[b] + way * (q[a] - q[b]), taus[i])


@njit
def tail_end(x, p, q, taus, outer, inner, largest):
    """Where a tail ends at the latest."""
    here = side(p[outer], q[outer], taus[outer])
    run = abs(x[outer]) - abs(x[inner])
    rise = side(p[inner], q[inner], taus[inner]) - here
    tail = here * run / rise if rise * REACH > here * run else 0.0
    return abs(x[outer]) + max(tail, 4 * largest)


@njit
def inward(depth, height, ours, theirs):
    """The next knot of a side, at a height that leaves the function convex; `ours` moves on."""
    run, width = ours[0] - depth, ours[0] + theirs[0]
    least = max(ours[1] + ours[2] * run, theirs[1] + theirs[2] * (theirs[0] + depth) - depth)
    most = ours[1] + run * (theirs[1] + theirs[0] - ours[1]) / (width if width > 0 else 1.0)
    height = min(max(height, least), most)
    if run > 0:
        ours[2] = (height - ours[1]) / run
    ours[0], ours[1] = depth, height
    return height


@njit
def outside_in(x, p, q, taus, near):
    """Each knot moved, from the outermost inward, no further than those outside it ask for."""
    n = x.shape[0]
    largest, below = 0.0, 0
    for i in range(n):
        largest = max(largest, abs(x[i]), side(p[i], q[i], taus[i]))
        below += taus[i] < 0.5
    left, right = np.zeros(3), np.zeros(3)
    left[0] = tail_end(x, p, q, taus, 0, min(1, n - 1), largest)
    right[0] = tail_end(x, p, q, taus, n - 1, max(n - 2, 0), largest)
    for r in range(max(below, n - below)):
        if r < below:
            near[r] = inward(abs(x[r]), side(p[r], q[r], taus[r]), left, right)
        i = n - 1 - r
        if i >= below:
            near[i] = inward(abs(x[i]), side(p[i], q[i], taus[i]), right, left)


@njit
def repair(x, levels, slopes, work):
    """`x` is sorted and kept on its side, and `slopes` are filled; returns P and P - x at the ends."""
    taus, n = levels.knots, x.shape[0]
    p, q, low, near, hull = work[0], work[1], work[2], work[3], work[4]
    for i in range(1, n):
        t, j = x[i], i - 1
        while j >= 0 and x[j] > t:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = t
    for i in range(n):
        x[i] = min(x[i], 0.0) if taus[i] < 0.5 else max(x[i], 0.0)
        p[i], q[i] = levels.p_ratio[i] * x[i], levels.q_ratio[i] * x[i]
    minorant(x, p, q, taus, hull, low)
    outside_in(x, p, q, taus, near)
    length = along = 0.0
    for i in range(n):
        across = near[i] - low[i]
        length += levels.weights[i] * across * across
        along += levels.weights[i] * (side(p[i], q[i], taus[i]) - low[i]) * across
    share = min(max(along / length, 0.0), 1.0) if length > TINY else 0.0
    for i in range(n):
        height = low[i] + share * (near[i] - low[i])
        p[i], q[i] = side(height, x[i] + height, taus[i]), side(height - x[i], height, taus[i])
    slopes[0], slopes[n] = p[0] / REACH, 1 - q[n - 1] / REACH
    best = slopes[0]
    for i in range(1, n):
        run = x[i] - x[i - 1]
        slope = (p[i] - p[i - 1]) / run if run > 0 else 0.0
        best = max(best, min(max(slope, slopes[0]), slopes[n]))
        slopes[i] = best
    slopes[n] = max(best, slopes[n])
    return p[0], q[n - 1]


@njit
def chords(x, levels, slopes):
    """Fill the slopes of the chords; whether the knots are those of expectiles."""
    n = x.shape[0]
    slopes[0] = levels.p_ratio[0] * x[0] / REACH
    slopes[n] = 1 - levels.q_ratio[n - 1] * x[n - 1] / REACH
    fine = True
    for i in range(n):
        fine &= x[i] <= 0 if levels.knots[i] < 0.5 else x[i] >= 0
    for i in range(1, n):
        run = x[i] - x[i - 1]
        fine &= run > 0
        rise = levels.p_ratio[i] * x[i] - levels.p_ratio[i - 1] * x[i - 1]
        slopes[i] = rise / run if run > 0 else 0.0
    for i in range(n):
        fine &= slopes[i + 1] >= slopes[i]
    return fine


@njit
def share_of(one, other):
    """one / (one + other), and 1/2 where both are 0."""
    return one / (one + other) if one + other > 0 else 0.5


@njit
def at_most_half(part, whole):
    """part / whole, but at most 1/2."""
    return part / (whole if whole > 0 else 1.0) if 2 * part < whole else 0.5


@njit
def place_pairs(x, slopes, p_first, q_last, atoms, probs):
    """The rule "pairs", or the midpoint of at most two knots; returns the number of atoms."""
    n = x.shape[0]
    paired = n > 2
    first = last = 0.5
    if paired:
        share = share_of(x[1] - x[0], x[2] - x[1])
        first = 1 - at_most_half(share * (slopes[2] - slopes[1]), slopes[1] - slopes[0])
        share = 1 - share_of(x[n - 2] - x[n - 3], x[n - 1] - x[n - 2])
        last = at_most_half(share * (slopes[n - 1] - slopes[n - 2]), slopes[n] - slopes[n - 1])
    for g in range(n + 1):
        if g == 0:
            mass = slopes[0] + first * (slopes[1] - slopes[0])
            a = x[0] - p_first / (mass if mass > 0 else 1.0)
            low, high, m_low, m_high = 2 * a - x[0], x[0], mass / 2, mass / 2
        elif g == n:
            mass = (1 - slopes[n]) + (1 - last) * (slopes[n] - slopes[n - 1])
            a = x[n - 1] + q_last / (mass if mass > 0 else 1.0)
            low, high, m_low, m_high = x[n - 1], 2 * a - x[n - 1], mass / 2, mass / 2
        else:
            leftward = first if g == 1 else 0.5
            m_low = (1 - leftward) * (slopes[g] - slopes[g - 1])
            m_high = (last if g == n - 1 else 0.5) * (slopes[g + 1] - slopes[g])
            low, high = x[g - 1], x[g]
            a = low + share_of(m_high, m_low) * (high - low)
        if paired:
            atoms[2 * g], atoms[2 * g + 1] = a - APART * (a - low), a + APART * (high - a)
            probs[2 * g], probs[2 * g + 1] = m_low, m_high
        else:
            atoms[g], probs[g] = a, m_low + m_high
    return 2 * (n + 1) if paired else n + 1


@njit
def impute(values, levels, x, slopes, work, atoms, probs):
    """Exact imputation of one row; returns the number of atoms."""
    n = levels.knots.shape[0]
    if n == 0:
        atoms[0], probs[0] = values[0], 1.0
        return 1
    mean, largest = values[levels.middle], 0.0
    for i in range(n):
        x[i] = values[i if i < levels.middle else i + 1] - mean
        largest = max(largest, abs(x[i]))
    scale = 2.0 ** math.frexp(largest)[1] if largest > 0 else 1.0
    for i in range(n):
        x[i] /= scale
    if chords(x, levels, slopes):
        p_first, q_last = levels.p_ratio[0] * x[0], levels.q_ratio[n - 1] * x[n - 1]
    else:
        p_first, q_last = repair(x, levels, slopes, work)
    m = place_pairs(x, slopes, p_first, q_last, atoms, probs)
    total = centre = 0.0
    for i in range(m):
        total += probs[i]
    for i in range(m):
        probs[i] /= total
        centre += probs[i] * atoms[i]
    for i in range(m):
        atoms[i] = mean + scale * (atoms[i] - centre)
    return m


@njit
def impute_rows(values, levels):
    """Exact imputation of a batch of rows: atoms and probabilities."""
    rows, size, n = values.shape[0], values.shape[1], levels.knots.shape[0]
    m = 2 * size if n > 2 else size
    x, slopes, work = np.empty(n), np.empty(n + 1), np.empty((5, n))
    atoms, probs = np.empty((rows, m)), np.empty((rows, m))
    for row in range(rows):
        impute(values[row], levels, x, slopes, work, atoms[row], probs[row])
    return atoms, probs


@njit
def expectiles(atoms, probs, m, taus, below, above, out):
    """The expectiles of m weighted atoms, which are sorted by insertion: they come in sorted runs."""
    for i in range(1, m):
        atom, prob, j = atoms[i], probs[i], i - 1
        while j >= 0 and atoms[j] > atom:
            atoms[j + 1], probs[j + 1] = atoms[j], probs[j]
            j -= 1
        atoms[j + 1], probs[j + 1] = atom, prob
    below[0] = mass = 0.0
    for i in range(1, m):
        mass += probs[i - 1]
        below[i] = below[i - 1] + mass * (atoms[i] - atoms[i - 1])
    above[m - 1] = mass = 0.0
    for i in range(m - 2, -1, -1):
        mass += probs[i + 1]
        above[i] = above[i + 1] + mass * (atoms[i + 1] - atoms[i])
    i = 1
    for k in range(taus.shape[0]):
        if m == 1:
            out[k] = atoms[0]
            continue
        tau = taus[k]
        while i < m - 1 and (1 - tau) * below[i] < tau * above[i]:
            i += 1
        before = tau * above[i - 1] - (1 - tau) * below[i - 1]
        drop = before - (tau * above[i] - (1 - tau) * below[i])
        step = min(max(before / drop, 0.0), 1.0) if drop > 0 else 0.0
        out[k] = atoms[i - 1] + step * (atoms[i] - atoms[i - 1])


@njit
def sweeps(mdp, levels, values, tolerance, most):
    """Sweeps of Algorithm 1 from `values [S, A, K]` until they settle; also returns their number."""
    S, A, B = mdp.successors.shape
    K, n = levels.all.shape[0], levels.knots.shape[0]
    size = 2 * K if n > 2 else K
    x, slopes, work = np.empty(n), np.empty(n + 1), np.empty((5, n))
    at, masses = np.zeros((S, size)), np.zeros((S, size))
    atoms, probs = np.empty(B * size), np.empty(B * size)
    below, above = np.empty(B * size), np.empty(B * size)
    values, new = values.copy(), np.empty_like(values)
    done = 0
    while done < most:
        for s in range(S):
            if mdp.terminal[s]:
                masses[s, 0] = 1.0
            else:
                impute(values[s, 0], levels, x, slopes, work, at[s], masses[s])
        change = 0.0
        for s in range(S):
            for a in range(A):
                m = 0
                for b in range(B):
                    share, y = mdp.probs[s, a, b], mdp.successors[s, a, b]
                    if share == 0:
                        continue
                    for j in range(1 if mdp.terminal[y] else size):
                        atoms[m] = mdp.rewards[s, a, b] + mdp.gamma * at[y, j]
                        probs[m] = share * masses[y, j]
                        m += 1
                expectiles(atoms, probs, m, levels.all, below, above, new[s, a])
                for k in range(K):
                    change = max(change, abs(new[s, a, k] - values[s, a, k]))
        values, new = new, values
        done += 1
        if change <= tolerance:
            break
    return values, done


@njit
def branch_of(probs, chance):
    """The branch that a uniform random number chooses."""
    level, b = probs[0], 0
    while level <= chance:
        b += 1
        level += probs[b]
    return b


@njit
def edrl_td(mdp, levels, chances, alpha):
    """EDRL along a trajectory from state 0, a step for each random number: values [S, K]."""
    K, n = levels.all.shape[0], levels.knots.shape[0]
    values = np.zeros((mdp.successors.shape[0], K))
    x, slopes, work = np.empty(n), np.empty(n + 1), np.empty((5, n))
    atoms, probs = np.empty(2 * K), np.empty(2 * K)
    s = 0
    for chance in chances:
        b = branch_of(mdp.probs[s, 0], chance)
        y, reward = mdp.successors[s, 0, b], mdp.rewards[s, 0, b]
        if mdp.terminal[y]:
            atoms[0], probs[0], m = 0.0, 1.0, 1
        else:
            m = impute(values[y], levels, x, slopes, work, atoms, probs)
        for j in range(m):
            atoms[j] = reward + mdp.gamma * atoms[j]
        for k in range(K):
            value, tau, score = values[s, k], levels.all[k], 0.0
            for j in range(m):
                error = atoms[j] - value
                score += probs[j] * (tau if error > 0 else 1 - tau) * error
            values[s, k] = value + 2 * alpha * score
        s = 0 if mdp.terminal[y] else y
    return values


@njit
def qdrl_td(mdp, taus, chances, alpha, start):
    """QDRL along a trajectory from state 0, for midpoints and from values `start [S, K]`.

    All atoms weigh the same, so that they need not be sorted.
    """
    K = taus.shape[0]
    values, new = start.copy(), np.empty(K)
    s = 0
    for chance in chances:
        b = branch_of(mdp.probs[s, 0], chance)
        y, reward = mdp.successors[s, 0, b], mdp.rewards[s, 0, b]
        ended = mdp.terminal[y]
        for k in range(K):
            value = values[s, k]
            if ended:
                above = 1.0 if reward > value else 0.0
                equal = 1.0 if reward == value else 0.0
            else:
                above = equal = 0.0
                for j in range(K):
                    target = reward + mdp.gamma * values[y, j]
                    above += 1.0 if target > value else 0.0
                    equal += 1.0 if target == value else 0.0
                above, equal = above / K, equal / K
            # Where target and value are equal, the loss has no slope.
            new[k] = value + alpha * (taus[k] * above - (1 - taus[k]) * (1 - above - equal))
        for k in range(K):
            values[s, k] = new[k]
        s = 0 if ended else y
    return values


@njit
def cdrl_td(mdp, support, chances, alpha):
    """CDRL (by the Cramér distance) along a trajectory from state 0: cumulative probabilities."""
    m = support.shape[0]
    K = m - 1
    steepness = 1 / (support[1:] - support[:-1])
    values, h, levels = np.zeros((mdp.successors.shape[0], K)), np.empty(K), np.empty(K)
    for k in range(K):
        values[:, k] = min(max(support[k + 1] * steepness[k], 0.0), 1.0)
    s = 0
    for chance in chances:
        b = branch_of(mdp.probs[s, 0], chance)
        y, reward = mdp.successors[s, 0, b], mdp.rewards[s, 0, b]
        ended = mdp.terminal[y]
        level = 0.0
        for k in range(K):
            level = max(level, min(max(values[y, k], 0.0), 1.0))
            levels[k], h[k] = level, 0.0
        for j in range(1 if ended else m):
            if ended:
                target, prob = reward, 1.0
            else:
                target = reward + mdp.gamma * support[j]
                before = 0.0 if j == 0 else levels[j - 1]
                prob = (1.0 if j == K else levels[j]) - before
            for k in range(K):
                h[k] += prob * min(max((support[k + 1] - target) * steepness[k], 0.0), 1.0)
        for k in range(K):
            values[s, k] += 2 * alpha * (h[k] - values[s, k])
        s = 0 if ended else y
    return values
