"""What environments of one's own hand out: what does not fit their spaces is refused in words."""

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from edrl.deep.environments import make
from edrl.deep.frames import RecentFrames, together

BYTES, FLOATS, PLACES = Box(0, 255, (2,), np.uint8), Box(-1, 1, (2,), np.float32), Discrete(5)
LONG = Box(-(2**40), 2**40, (2,), np.int64)


class Odd(gymnasium.Env):
    """Declares a space, and hands out what it is told to."""

    action_space = Discrete(2)

    def __init__(self, space: gymnasium.Space, first: Any, *later: Any) -> None:
        self.observation_space, self.first, self.later = space, first, list(later)
        self.reward: Any = 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.first, {}

    def step(self, action: int) -> Any:
        return self.later.pop(0), self.reward, False, False, {}


def rewarding(reward: Any) -> Odd:
    odd = Odd(PLACES, 0, 1)
    odd.reward = reward
    return odd


@pytest.mark.parametrize("reward", [None, np.array([1.0, 2.0]), np.nan, "1.0", 1j, 1e39, -1e300])
def test_rewards_must_be_numbers(reward: Any) -> None:
    env = make(rewarding(reward), seed=0)
    env.reset()
    with pytest.raises(ValueError, match=r"reward of Odd.*finite numbers"):
        env.step(0)


@pytest.mark.parametrize("reward", [np.array([1.0]), np.array(1), np.float32(1), True, 1])
def test_a_reward_may_be_an_array_with_one_entry(reward: Any) -> None:
    env = make(rewarding(reward), seed=0)
    env.reset()
    assert env.step(0)[1:3] == (1.0, 1.0)


@pytest.mark.parametrize(
    ("space", "observation", "words"),
    [
        (BYTES, np.array([0.5, 1.0]), r"must lie in .*Box\(0, 255, \(2,\), uint8\), got 0.5"),
        (BYTES, np.array([7, 300]), r"must lie in .*Box\(0, 255, \(2,\), uint8\), got 300"),
        (BYTES, np.array([7, -1]), "got -1"),
        (Box(0, 1, (2,), np.uint8), np.array([0, 2], np.uint8), "got 2"),
        (Box(-5, 5, (1,), np.int64), np.array([9]), "got 9"),
        (PLACES, 9, r"must lie in .*Discrete\(5\), got 9"),
        (PLACES, 1.5, "got 1.5"),
        (PLACES, np.eye(5)[2], r"Discrete\(5\), got \[0.0, 0.0, 1.0"),
        (Discrete(5, start=3), 2, "got 2"),
        (FLOATS, 0.5, r"must have the shape \(2,\) of Box.*got 0.5, float64 of shape \(\)"),
        (FLOATS, np.zeros(3), r"got \[0.0, 0.0, 0.0\], float64 of shape \(3,\)"),
        (FLOATS, np.zeros(99), r"got float64 of shape \(99,\)"),
        (FLOATS, np.zeros((1, 2)), r"got \[\[0.0, 0.0\]\], float64 of shape \(1, 2\)"),
        (LONG, np.array([0, 2**24 + 1]), "is 16777217: float32.* beyond 16,777,216"),
        (LONG, np.array([-(2**24) - 1, 0]), "is -16777217: float32"),
        (FLOATS, np.array([0, 2**24 + 1]), "is 16777217: float32"),
        (FLOATS, [0.0, 1e39], "must be finite numbers"),
        (FLOATS, "left", r"must lie in .*Box.*got 'left'"),
        (FLOATS, [[1.0], [1.0, 2.0]], "must lie in"),
        (FLOATS, {"a": 1}, "must lie in"),
    ],
)
def test_observations_outside_their_space_are_refused(
    space: gymnasium.Space, observation: Any, words: str
) -> None:
    """At the first observation, and at a later one: NumPy would change each of them in silence."""
    good = np.zeros(2, int) if space == LONG else space.sample()
    for first, later in ((observation, good), (good, observation)):
        env = make(Odd(space, first, later), seed=0)
        with pytest.raises(ValueError, match=f"observation of Odd.*{words}"):
            env.reset(), env.step(0)


def test_what_fits_a_space_may_have_another_type() -> None:
    """Whole numbers that are floats, lists, and float64 for float32 lose nothing."""
    assert make(Odd(BYTES, np.array([3.0, 200.0])), seed=0).reset().tolist() == [3, 200]
    assert make(Odd(BYTES, [3, 200]), seed=0).reset().dtype == np.uint8
    assert make(Odd(FLOATS, [0.25, 1.0]), seed=0).reset().tolist() == [0.25, 1.0]
    assert make(Odd(PLACES, np.array(4)), seed=0).reset().tolist() == [0, 0, 0, 0, 1]


def test_floats_outside_the_bounds_are_used_and_told_once() -> None:
    """LunarLander and others do not keep the bounds that they declare."""
    env = make(Odd(FLOATS, np.array([0.0, 3.0]), np.array([0.0, 4.0])), seed=0)
    told = r"observation\[1\] of Odd is 3, which lies outside -1 to 1 of .* used as it is"
    with pytest.warns(UserWarning, match=told):
        assert env.reset().tolist() == [0, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert env.step(0).frame.tolist() == [0, 4]


def test_whole_numbers_that_float32_holds_are_kept() -> None:
    for space in (LONG, Box(-np.inf, np.inf, (2,), np.float32)):
        frame = make(Odd(space, np.array([2**24, -(2**24)])), seed=0).reset()
        assert frame.tolist() == [2**24, -(2**24)]


@pytest.mark.parametrize(
    ("method", "results", "words"),
    [
        ("reset", np.zeros(2), r"what reset of Odd returns must be a tuple \(observation, info\)"),
        ("step", (np.zeros(2), 0.0, False, {}), "what step of Odd returns .* got 4 of them"),
        ("step", (np.zeros(2), 0.0, "False", False, {}), "terminated of Odd must be True or False"),
        ("step", (np.zeros(2), 0.0, False, None, {}), "truncated of Odd must be True or False"),
        ("render", np.zeros((4, 5, 3)), r"picture of Odd must be .*bytes.*float64 of shape \(4"),
        ("render", None, r"picture of Odd must be an array of bytes"),
    ],
)
def test_what_an_environment_returns_has_gymnasiums_form(
    method: str, results: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Odd, method, lambda self, *_, **__: results)
    odd = Odd(FLOATS, np.zeros(2), np.zeros(2))
    odd.render_mode = "rgb_array"
    env = make(odd, seed=0)
    with pytest.raises(ValueError, match=words):
        env.reset(), env.step(0), env.render()


def test_a_space_without_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"observation space of Odd .*at least one number"):
        make(Odd(Box(0, 1, (0,)), np.zeros(0)), seed=0)


def test_frames_of_ones_own_environment_must_fit() -> None:
    """NumPy would repeat one number for a whole frame."""
    recent = RecentFrames(np.zeros((1, 2, 3), np.uint8), np.zeros((1, 2), bool))
    for frame in (np.zeros(1, np.uint8), np.zeros((2, 3), np.uint8), np.full(3, 0.5)):
        with pytest.raises(ValueError, match=r"frame must be uint8 of shape \(3,\)"):
            together([np.zeros(3, np.uint8), frame], recent)
