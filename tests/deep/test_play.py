"""Playing without learning: what is seen, what is counted, and who acts."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edrl.deep.environments import Step
from edrl.deep.play import History, evaluate
from edrl.deep.replay import Replay


@pytest.mark.parametrize("stack", [1, 4])
def test_what_an_agent_sees_is_what_it_learns_from(stack: int) -> None:
    """Observations while playing are those that replay memory gives, over the ends of episodes, too."""
    rng = np.random.default_rng(0)
    replay = Replay(200, (2,), np.float32, stack)
    history = History(np.zeros((1, stack, 2), np.float32), np.ones(1, bool))
    history.begin(rng.normal(size=2))
    seen, times = [], []
    for step in range(60):
        seen.append(history.observations()[0])
        times.append(int(replay.added[0]))
        ended = step % 7 == 6
        replay.add(history.newest(), 0, 0.0, ended, bool(history.fresh[0]))
        frame = rng.normal(size=2)
        if ended:
            replay.add_last(frame)
            history.begin(rng.normal(size=2))
        else:
            history.append(frame)
    np.testing.assert_array_equal(replay.observe(np.array(times)), np.stack(seen))


class Game:
    """Episodes of three steps; a step scores 5, of which learning sees a clipped 1."""

    frame_shape, frame_dtype, stack, num_actions = (1,), np.float32, 1, 2

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


AGENT: Any = SimpleNamespace(greedy=lambda parameters, observations: np.array([1]))


def test_scores_are_the_games_own_and_a_cut_episode_counts_only_alone() -> None:
    game: Any = Game()
    found = evaluate(AGENT, [], game, 0, 0.0, steps=8)
    assert (found.scores, found.lengths) == ([15.0, 15.0], [3, 3])
    assert set(game.played) == {1}  # greedily
    alone: Any = Game()
    assert evaluate(AGENT, [], alone, 0, 0.0, steps=2).scores == [10.0]


def test_a_share_epsilon_of_actions_is_random() -> None:
    """Of which half are the greedy one: 2,000 steps are within four standard errors of that."""
    game: Any = Game()
    evaluate(AGENT, [], game, 0, 0.4, steps=2000)
    assert np.mean(game.played) == pytest.approx(0.8, abs=4 * np.sqrt(0.16 / 2000))
