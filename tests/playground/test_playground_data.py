"""The data in the page are what the library gives."""

import json

import pytest

from edrl.playground.weights import DATA
from edrl.playground.witnesses import FAMILIES, found_witnesses


def test_the_witnesses_are_those_that_the_library_finds() -> None:
    kept = json.loads((DATA / "witnesses.json").read_text(encoding="utf-8"))
    found = found_witnesses()
    assert set(kept) == set(found) == set(FAMILIES)
    for name, witness in found.items():
        if witness is None:
            assert kept[name] is None
        else:
            assert kept[name]["gap"] == pytest.approx(witness["gap"], rel=1e-6)


def test_the_agent_says_where_it_comes_from() -> None:
    agent = json.loads((DATA / "agent.json").read_text(encoding="utf-8"))
    assert agent["command"].startswith("edrl train --preset parallel --agent er-dqn")
    assert len(agent["commit"]) == 40
    assert agent["score"] > 10
    assert 0.5 in agent["taus"]
    assert (DATA / "agent.json").stat().st_size < 300_000
