"""Aggregates against brute force and SciPy; intervals that cover, repeat and never mix games."""

import itertools

import numpy as np
import pytest
from scipy.stats import trim_mean

from edrl.report import aggregates
from edrl.report.aggregates import MEASURES, estimate, improvement, mean_curve, profile, resampled


def ragged(seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(game, 1.0, size) for game, size in enumerate((5, 3, 4, 1))]


def test_measures_are_what_their_definitions_say() -> None:
    games = ragged()
    means = [sum(game) / len(game) for game in games]
    pooled = np.concatenate(games)
    assert float(MEASURES["mean"](games)) == pytest.approx(sum(means) / 4)
    assert float(MEASURES["median"](games)) == pytest.approx(sum(sorted(means)[1:3]) / 2)
    assert float(MEASURES["IQM"](games)) == pytest.approx(trim_mean(pooled, 0.25))
    gaps = [np.mean([1 - score if score < 1 else 0.0 for score in game]) for game in games]
    assert float(MEASURES["optimality gap"](games)) == pytest.approx(np.mean(gaps))


@pytest.mark.parametrize("size", range(1, 14))
def test_the_interquartile_mean_is_scipys_for_every_number_of_runs(size: int) -> None:
    scores = np.random.default_rng(size).normal(size=size)
    assert float(aggregates.interquartile_mean([scores])) == pytest.approx(trim_mean(scores, 0.25))


def test_resampling_never_mixes_games() -> None:
    games = [np.arange(5) + 100.0 * number for number in range(4)]
    for game, drawn in zip(games, resampled(games), strict=True):
        assert drawn.shape == (aggregates.RESAMPLES, 5)
        assert set(drawn.ravel()) == set(game)
        assert drawn.mean(axis=1).std() > 0


@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_of_resamples_is_the_measure_of_each(name: str) -> None:
    """Vectorised over resamples, and one by one."""
    drawn = resampled(ragged())
    together = MEASURES[name](drawn)
    for row in (0, 17, 1999):
        assert together[row] == pytest.approx(float(MEASURES[name]([game[row] for game in drawn])))


def test_intervals_cover_and_repeat() -> None:
    """Of 100 samples of 20 normal seeds on 3 games, about 95 intervals hold the true mean, 0."""
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(100):
        found = estimate(aggregates.mean, [rng.normal(size=20) for _ in range(3)])
        assert found.low < found.value < found.high
        inside += found.low < 0 < found.high
    assert 85 <= inside <= 100
    games = ragged()
    assert estimate(aggregates.mean, games) == estimate(aggregates.mean, games)
    assert estimate(aggregates.mean, games, seed=1) != estimate(aggregates.mean, games, seed=2)


def test_one_seed_has_no_interval() -> None:
    games = [np.array([1.0]), np.array([3.0])]
    found = estimate(aggregates.mean, games)
    assert found.value == 2
    assert np.isnan([found.low, found.high]).all()
    assert np.isnan(improvement(games, games).low)
    assert np.isnan(profile(games, np.array([0.0])).low).all()


def test_the_probability_of_improvement_by_brute_force_with_ties() -> None:
    rng = np.random.default_rng(5)
    ours = [rng.integers(0, 4, size).astype(float) for size in (3, 5)]
    theirs = [rng.integers(0, 4, size).astype(float) for size in (4, 2)]
    expected = np.mean(
        [
            np.mean([(x > y) + 0.5 * (x == y) for x, y in itertools.product(a, b)])
            for a, b in zip(ours, theirs, strict=True)
        ]
    )
    found = improvement(ours, theirs)
    assert found.value == pytest.approx(expected)
    assert found.low <= found.value <= found.high
    assert found.value + improvement(theirs, ours).value == pytest.approx(1)
    assert improvement(ours, ours).value == pytest.approx(0.5)


def test_the_interval_of_an_improvement_is_that_of_resampled_scores() -> None:
    """By drawing scores instead of weights."""
    rng = np.random.default_rng(6)
    ours, theirs = ([rng.normal(shift, 1, 5) for _ in range(4)] for shift in (0.5, 0.0))
    pairs = zip(resampled(ours, 1), resampled(theirs, 2), strict=True)
    drawn = np.mean([(a[:, :, None] > b[:, None, :]).mean(axis=(1, 2)) for a, b in pairs], axis=0)
    found = improvement(ours, theirs)
    np.testing.assert_allclose(
        [found.low, found.high], np.quantile(drawn, aggregates.ENDS), atol=0.03
    )


def test_a_profile_falls_from_one_to_zero_within_its_band() -> None:
    games = ragged()
    taus = np.linspace(-5, 9, 50)
    found = profile(games, taus)
    pooled = np.concatenate(games)
    np.testing.assert_allclose(found.value, [np.mean(pooled > tau) for tau in taus])
    for line in (found.value, found.low, found.high):
        assert (np.diff(line) <= 1e-12).all()
    assert found.value[0] == 1
    assert found.value[-1] == 0
    assert (found.low <= found.value + 1e-12).all()
    assert (found.value <= found.high + 1e-12).all()


def test_a_curve_averages_the_seeds_that_came_so_far() -> None:
    curves = np.array([[1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, np.nan], [2.0, 6.0, np.nan, np.nan]])
    found = mean_curve(curves)
    np.testing.assert_allclose(found.value, [2, 4, 4, 4])
    assert np.isnan(found.low).tolist() == [False, False, False, True]  # one seed has no band
    assert (found.low[:3] >= [1, 2, 3]).all()
    assert (found.high[:3] <= [3, 6, 5]).all()


@pytest.mark.parametrize("bad", [[], [np.array([])], [np.zeros((2, 2))]])
def test_scores_that_are_none_are_refused(bad: list[np.ndarray]) -> None:
    with pytest.raises(ValueError, match="one array a game"):
        estimate(aggregates.mean, bad)


def test_games_must_match() -> None:
    with pytest.raises(ValueError, match="as many as ours"):
        improvement([np.ones(2)], [np.ones(2)] * 2)
