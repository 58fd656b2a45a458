"""Learnt return distributions beside the returns that were got."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edrl.core.families import Mean
from edrl.core.particles import Particles
from edrl.deep import calibration
from edrl.deep.agents import Agent, StatisticsAgent
from edrl.deep.calibration import BOUNDS, CALIBRATION, UNKNOWN, Calibration, Returns
from edrl.deep.environments import Step
from edrl.deep.networks import network_for
from edrl.deep.play import Moment
from edrl.deep.tables import Tables

NONE = np.zeros(1)
STEPS = st.tuples(
    st.sampled_from([-1.0, 0.0, 2.0]),
    st.sampled_from(["goes on", "terminal", "lost life", "truncated"]),
)


def moment(seen: float, reward: float, how: str, action: int = 0) -> Moment:
    ends = {
        "goes on": (False, False),
        "terminal": (True, True),
        "lost life": (True, False),
        "truncated": (False, True),
    }
    after = Step(NONE, reward, reward, *ends[how])
    return Moment(0, 0, np.array([seen]), NONE, False, action, after, 0.0)


@given(
    played=st.lists(STEPS, min_size=1, max_size=30),
    gamma=st.sampled_from([0.0, 0.5, 0.9]),
    every=st.integers(1, 4),
)
def test_returns_are_the_discounted_sums_up_to_the_terminal(
    played: list[tuple[float, str]], gamma: float, every: int
) -> None:
    """By brute force; a return whose end was not seen counts if what is missing weighs at most
    UNKNOWN.
    """
    returns = Returns(gamma, every)
    for place, (reward, how) in enumerate(played):
        returns.watch(moment(place, reward, how))
    returns.settle()
    expected = {}
    for start in range(0, len(played), every):
        total, weight = 0.0, 1.0
        for reward, how in played[start:]:
            total, weight = total + weight * reward, weight * gamma
            if how != "goes on":
                break
        if how in ("terminal", "lost life") or weight <= UNKNOWN:
            expected[start] = total
    found = {int(seen[0]): total for seen, _, total in returns.kept}
    assert found == pytest.approx(expected)


def test_many_returns_are_thinned_but_stay_spread_over_all_that_was_played(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What an agent sees may be large; each return is still the one of its moment."""
    monkeypatch.setattr(calibration, "MOST", 10)
    returns = Returns(0.5, every=1)
    for place in range(200):
        returns.watch(moment(place, float(place), "terminal"))
    kept = [int(seen[0]) for seen, _, _ in returns.kept]
    assert len(kept) <= 20
    assert (min(kept), max(kept)) == (0, pytest.approx(200, abs=20))
    assert np.diff(kept).max() <= 2 * np.diff(kept).min()
    assert [total for _, _, total in returns.kept] == kept


class Knowing(Agent):
    """An agent that has learnt equally likely atoms for each of its actions, whatever it sees."""

    atoms: jax.Array  # [action, n]

    @classmethod
    def build(cls, config: Any, environment: Any) -> Any: ...

    def init(self, key: Any) -> Any: ...

    def loss(self, parameters: Any, target: Any, batch: Any, key: Any) -> Any: ...

    def returns(self, parameters: Any, observations: Any, key: Any) -> Particles:
        return Particles(jnp.broadcast_to(self.atoms, (len(observations), *self.atoms.shape)))


def agent_of(learnt: dict[int, np.ndarray]) -> Knowing:
    return Knowing(
        jnp.asarray(np.stack([learnt[action] for action in sorted(learnt)]), jnp.float32)
    )


def test_right_laws_are_found_right_and_others_not() -> None:
    """Action 0 gives N(0, 1), action 1 gives N(5, 4): known laws of one-step returns."""
    rng = np.random.default_rng(0)
    returns = Returns(0.99, every=1)
    for _ in range(1000):
        action = int(rng.integers(2))
        returns.watch(moment(0.0, float(rng.normal(5 * action, 1 + action)), "terminal", action))
    normal = np.sort(rng.normal(size=4000))
    right = returns.against(agent_of({0: normal, 1: 5 + 2 * normal}), {})
    assert right is not None
    assert right.returns == 1000
    assert right.expected == pytest.approx(right.got, abs=0.15)
    assert right.spread == pytest.approx(right.scatter, rel=0.08)
    assert right.within == pytest.approx(0.9, abs=0.03)

    narrow = returns.against(agent_of({0: normal / 10, 1: 5 + normal / 5}), {})
    assert narrow is not None
    assert narrow.spread == pytest.approx(right.spread / 10)
    assert narrow.scatter == pytest.approx(right.scatter, rel=0.01)
    assert narrow.within < 0.2

    shifted = returns.against(agent_of({0: normal + 3, 1: 8 + 2 * normal}), {})
    assert shifted is not None
    assert shifted.expected - right.expected == pytest.approx(3)
    assert shifted.scatter == pytest.approx(right.scatter)
    assert shifted.within < 0.5


def test_without_a_return_there_is_nothing_to_say() -> None:
    returns = Returns(0.99)
    assert returns.against(agent_of({0: NONE}), {}) is None
    returns.watch(moment(0.0, 1.0, "truncated"))
    assert returns.against(agent_of({0: NONE}), {}) is None


@pytest.mark.parametrize(
    ("expected", "got", "words"),
    [
        (121.0, 99.0, "impossible"),
        (-0.5, 0.1, "impossible"),
        (90.0, 60.0, "expects a return of 90 on average and got 60"),
        (62.0, 60.0, None),
    ],
)
def test_what_is_impossible_or_far_from_what_was_got_is_said(
    expected: float, got: float, words: str | None
) -> None:
    found = Calibration(100, expected, got, 1.0, 1.0, 0.9, highest=100.0, lowest=0.0)
    assert (found.warning is None) if words is None else (words in str(found.warning))


def test_returns_cannot_exceed_those_of_the_greatest_reward_for_ever() -> None:
    """Rewards of 1 at every step and gamma = 0.9: at most 10, at least 0."""
    network = network_for("mlp", (1,), 2, 1)
    agent = StatisticsAgent(Mean(), network)
    returns = Returns(0.9, every=1)
    for place in range(4):
        returns.watch(moment(place, 1.0, "goes on" if place < 3 else "terminal"))
    found = returns.against(agent, agent.init(jax.random.key(0)))
    assert found is not None
    assert (found.lowest, found.highest) == (0.0, pytest.approx(10.0))


def test_a_run_of_an_earlier_version_goes_on_in_its_own_columns(tmp_path: Path) -> None:
    """Its calibration.csv lacks the bounds: longer rows would be taken for damaged ones."""
    known = [name for name in CALIBRATION if name not in BOUNDS]
    (tmp_path / "calibration.csv").write_text(",".join(known) + "\n")
    calibration = Calibration(5, 1.0, 2.0, 3.0, 4.0, 0.5, highest=9.0, lowest=-9.0)
    Tables(tmp_path, ()).write_row("calibration.csv", calibration.row(100))
    _, row, _ = (tmp_path / "calibration.csv").read_text().split("\n")
    assert row == "100,5,1.0,2.0,3.0,4.0,0.5"
