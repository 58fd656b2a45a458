"""Human-normalised scores and their summaries."""

import numpy as np
import pytest
from scipy.stats import trim_mean

from edrl.study import atari57
from edrl.study.tables import select


def test_the_paper_table_gives_the_paper_scores() -> None:
    """57 games.

    Mean and median human-normalised scores as published with these human and random scores.
    """
    normalised = atari57.normalised_table(atari57.paper_scores())
    assert len(normalised["game"]) == 57
    found = atari57.summary(normalised)
    for agent, mean, median in (
        ("ER-DQN", 1684, 187.6),
        ("ER-DQN-naive", 1424, 166.6),
        ("QR-DQN", 1380, 173.8),
    ):
        values = {
            m: select(found, agent=agent, measure=m)["value"][0] for m in ("mean", "median", "IQM")
        }
        assert values["mean"] == pytest.approx(mean, abs=0.5)
        assert values["median"] == pytest.approx(median, abs=0.05)
        assert values["IQM"] == pytest.approx(trim_mean(normalised[agent], 0.25))
    assert sum(select(found, measure="games won")["value"]) == pytest.approx(57)


def test_random_is_0_and_human_is_100() -> None:
    known = atari57.games()
    for column, expected in (("random", 0.0), ("human", 100.0)):
        scores = atari57.human_normalised(dict(zip(known["game"], known[column], strict=True)))
        np.testing.assert_allclose(list(scores.values()), expected, atol=1e-12)


def test_runs_of_ones_own_join_through_the_same_function() -> None:
    """Only games that all have played count; ties are shared; intervals hold the value."""
    own = {"pong": 21.0, "breakout": 1.0}
    rows = atari57.summary(atari57.normalised_table({**atari57.paper_scores(), "mine": own}))
    wins = {
        agent: select(rows, agent=agent, measure="games won")["value"][0]
        for agent in (*atari57.PAPER_AGENTS, "mine")
    }
    assert sum(wins.values()) == pytest.approx(2)
    assert wins["mine"] == pytest.approx(0.25)  # of pong, which all four win
    mean = select(rows, agent="mine", measure="mean")
    assert mean["low"][0] <= mean["value"][0] <= mean["high"][0]


def test_an_unknown_game_is_named() -> None:
    with pytest.raises(ValueError, match="tetris"):
        atari57.human_normalised({"tetris": 1.0})
