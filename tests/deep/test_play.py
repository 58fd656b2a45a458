"""Playing without learning: what is seen, what is counted, and who acts."""

from typing import Any

import numpy as np
import pytest

from edrl.deep.environments import Step
from edrl.deep.frames import RecentFrames
from edrl.deep.play import Played, play
from edrl.deep.replay import Replay


@pytest.mark.parametrize("stack", [1, 4])
def test_what_an_agent_sees_is_what_it_learns_from(stack: int) -> None:
    """Observations while playing are those that replay memory gives, over the ends of episodes,
    too.
    """
    rng = np.random.default_rng(0)
    replay = Replay(200, (2,), np.float32, stack)
    recent = RecentFrames(np.zeros((1, stack, 2), np.float32), np.zeros((1, stack), bool))
    recent.append(slice(1), rng.normal(size=(1, 2)), True)
    seen, times = [], []
    for step in range(60):
        seen.append(recent.observations()[0])
        times.append(int(replay.added[0]))
        ended = step % 7 == 6
        replay.add(recent.frames[0, -1], 0, 0.0, ended, bool(recent.starts[0, -1]))
        frame = rng.normal(size=2)
        if ended:
            replay.add_last(frame)
            frame = rng.normal(size=2)
        recent.append(slice(1), frame[None], ended)
    np.testing.assert_array_equal(replay.observe(replay.place(np.array(times))), np.stack(seen))


class Game:
    """Episodes of three steps; a step scores 5, of which learning sees a clipped 1."""

    name, scale, restorable, action_names = "game", 1.0, False, ("left", "right")
    frame_shape, frame_dtype, stack, num_actions = (1,), np.dtype(np.float32), 1, 2

    def __init__(self) -> None:
        self.time = 0
        self.played: list[int] = []

    def reset(self) -> np.ndarray:
        self.time = 0
        return np.zeros(1)

    def step(self, action: int) -> Step:
        self.time += 1
        self.played.append(action)
        return Step(np.zeros(1), 1.0, 5.0, self.time == 3, self.time == 3)

    def save(self) -> Any: ...

    def load(self, arrays: Any) -> None: ...

    def render(self) -> Any: ...

    def close(self) -> None: ...


def second(observations: np.ndarray) -> np.ndarray:
    """A policy."""
    return np.ones(len(observations), int)


def test_scores_are_the_games_own_and_a_cut_episode_counts_only_alone() -> None:
    game: Any = Game()
    found = play(game, second, 0.0, 0, steps=8)
    assert (found.scores, found.lengths) == ([15.0, 15.0], [3, 3])
    assert set(game.played) == {1}  # greedily
    alone: Any = Game()
    assert play(alone, second, 0.0, 0, steps=2).scores == [10.0]


def test_a_share_epsilon_of_actions_is_random() -> None:
    """Of which half are the greedy one: 2,000 steps are within four standard errors of that."""
    game: Any = Game()
    play(game, second, 0.4, 0, steps=2000)
    assert np.mean(game.played) == pytest.approx(0.8, abs=4 * np.sqrt(0.16 / 2000))


def test_the_interval_is_a_bootstraps() -> None:
    """Of many scores it is nearly the normal one; of equal scores there is none."""
    scores = np.random.default_rng(0).normal(5.0, 2.0, 400)
    interval = Played(scores.tolist(), [1] * 400).interval()
    assert interval is not None
    half = 1.96 * scores.std() / 20
    np.testing.assert_allclose(interval, [scores.mean() - half, scores.mean() + half], atol=0.03)
    assert Played([3.0, 3.0], [1, 1]).interval() is None
    assert Played([3.0], [1]).interval() is None
