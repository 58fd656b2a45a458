"""Aggregates of scores over games and seeds, with bootstrap intervals, as Agarwal et al. (2021)
define them.

An agent's scores are one array a game, with an entry a seed; games may have different numbers of
seeds, since runs go missing. The bootstrap is stratified: it draws the seeds of each game with
replacement, and never mixes games. It sees the spread over seeds alone; which games are played is
taken as given.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edrl.core.check import fail
from edrl.core.words import Described, count

Scores = Sequence[np.ndarray]
"""One array [..., seeds] a game."""

RESAMPLES = 2000
ENDS = (0.025, 0.975)  # of a 95 % interval


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval, whose ends are nan where no game has a second seed."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Band:
    """Numbers along an axis with their pointwise 95 % intervals."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def mean(scores: Scores) -> np.ndarray:
    """The mean over games of each game's mean."""
    return np.asarray(np.mean([game.mean(axis=-1) for game in scores], axis=0))


def median(scores: Scores) -> np.ndarray:
    """The median over games of each game's mean."""
    return np.asarray(np.median([game.mean(axis=-1) for game in scores], axis=0))


def interquartile_mean(scores: Scores) -> np.ndarray:
    """The mean of the middle half of all runs, of all games together."""
    runs = np.sort(np.concatenate(scores, axis=-1), axis=-1)
    cut = runs.shape[-1] // 4
    return np.asarray(runs[..., cut : runs.shape[-1] - cut].mean(axis=-1))


def optimality_gap(scores: Scores, threshold: float = 1.0) -> np.ndarray:
    """How far scores are below the threshold, on average.

    Scores above the threshold do not make up for scores below it.
    """
    gaps = [np.maximum(threshold - game, 0.0).mean(axis=-1) for game in scores]
    return np.asarray(np.mean(gaps, axis=0))


MEASURES: dict[str, Callable[[Scores], np.ndarray]] = {
    "IQM": interquartile_mean,
    "median": median,
    "mean": mean,
    "optimality gap": optimality_gap,
}


def estimate(measure: Callable[[Scores], np.ndarray], scores: Scores, seed: int = 0) -> Estimate:
    """A measure of an agent's scores with its interval."""
    _check(scores)
    value = float(measure(scores))
    if not _varies(scores):
        return Estimate(value, np.nan, np.nan)
    return _with_interval(value, measure(resampled(scores, seed)))


def resampled(scores: Scores, seed: int = 0) -> list[np.ndarray]:
    """Scores drawn with replacement within each game, [RESAMPLES, seeds]."""
    rng = np.random.default_rng(seed)
    return [game[_drawn(rng, len(game))] for game in scores]


def profile(scores: Scores, taus: np.ndarray, seed: int = 0) -> Band:
    """The share of runs whose score is above each of `taus`."""
    _check(scores)
    rng = np.random.default_rng(seed)
    above = [np.asarray(game[:, None] > taus, np.float64) for game in scores]
    runs = sum(len(game) for game in scores)
    value = np.concatenate(above).mean(axis=0)
    if not _varies(scores):
        return _without_interval(value)
    drawn = sum(len(game) / runs * (_weights(rng, len(game)) @ game) for game in above)
    return Band(value, *np.quantile(drawn, ENDS, axis=0))


def improvement(ours: Scores, theirs: Scores, seed: int = 0) -> Estimate:
    """The probability that a run of ours beats one of theirs on the same game, the mean over
    games; a tie is half."""
    _check(ours)
    _check(theirs)
    if len(ours) != len(theirs):
        right = f"there must be as many as ours, {len(ours)}, in the same order"
        raise fail("theirs", Described(count(len(theirs), "game")), right)
    rng = np.random.default_rng(seed)
    wins = list(map(_wins, ours, theirs))
    value = float(np.mean([game.mean() for game in wins]))
    if not _varies((*ours, *theirs)):
        return Estimate(value, np.nan, np.nan)
    drawn = [_resampled_mean(rng, game) for game in wins]
    return _with_interval(value, np.mean(drawn, axis=0))


def _wins(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """1 where a run of ours beats one of theirs, 1/2 where they tie, else 0: [ours, theirs]."""
    return np.asarray((ours[:, None] > theirs) + 0.5 * (ours[:, None] == theirs))


def _resampled_mean(rng: np.random.Generator, wins: np.ndarray) -> np.ndarray:
    """The mean of a table after its rows and its columns are drawn with replacement."""
    rows, columns = (_weights(rng, size) for size in wins.shape)
    return np.asarray(((rows @ wins) * columns).sum(axis=1))


def _with_interval(value: float, drawn: np.ndarray) -> Estimate:
    low, high = np.quantile(drawn, ENDS)
    return Estimate(value, float(low), float(high))


def mean_curve(curves: np.ndarray, seed: int = 0) -> Band:
    """The mean over seeds of curves [seeds, steps].

    A seed that has not reached a step is nan there and does not count.
    """
    value, low, high = np.full((3, curves.shape[1]), np.nan)
    there = ~np.isnan(curves)
    # Steps that the same seeds have reached are treated together: there are few such groups, and
    # many steps.
    for group in np.unique(there, axis=1).T:
        steps = (there == group[:, None]).all(axis=0)
        reached = curves[np.ix_(group, steps)]
        if len(reached) > 0:
            value[steps] = reached.mean(axis=0)
        if len(reached) > 1:
            drawn = _weights(np.random.default_rng(seed), len(reached)) @ reached
            low[steps], high[steps] = np.quantile(drawn, ENDS, axis=0)
    return Band(value, low, high)


def _drawn(rng: np.random.Generator, size: int) -> np.ndarray:
    """Which seeds each resample takes, [RESAMPLES, size]."""
    return rng.integers(size, size=(RESAMPLES, size))


def _weights(rng: np.random.Generator, size: int) -> np.ndarray:
    """How often each resample takes each seed, as a share: a resample's mean is then a matrix
    product."""
    return np.asarray(np.eye(size)[_drawn(rng, size)].mean(axis=1))


def _varies(scores: Scores) -> bool:
    return any(len(game) > 1 for game in scores)


def _without_interval(value: np.ndarray) -> Band:
    return Band(value, np.full_like(value, np.nan), np.full_like(value, np.nan))


def _check(scores: Scores) -> None:
    if not (scores and all(np.ndim(game) == 1 and np.size(game) > 0 for game in scores)):
        right = "it must hold one array a game, with at least one seed in each"
        raise fail("scores", list(map(np.shape, scores)), right)
