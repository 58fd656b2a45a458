"""An agent's name: one record, from which label, spelling, directory and order follow."""

import contextlib
import dataclasses
import inspect
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edrl.deep.config import Config, preset
from edrl.deep.settings import (
    RUNS_OWN,
    SETTINGS,
    Count,
    Flag,
    Kind,
    Number,
    Optional,
    Pair,
    RiskName,
    Word,
    read_value,
    spell,
)
from edrl.deep.variant import AGENTS, Variant, labels


def values(kind: Kind) -> st.SearchStrategy[Any]:
    """All that a setting of a kind may be, but None."""
    if isinstance(kind, Optional):
        return values(kind.kind)
    if isinstance(kind, Count):
        return st.integers(kind.least, 10**12)
    if isinstance(kind, Number):
        return st.floats(kind.low, min(kind.high, 1e300), exclude_min=kind.above)
    if isinstance(kind, Pair):
        one = st.floats(max(kind.low, -1e300), min(kind.high, 1e300))
        return st.tuples(one, one)
    if isinstance(kind, Word):
        return st.sampled_from((*kind.words, "mine:solver") if kind.own else kind.words)
    if isinstance(kind, RiskName):
        return st.floats(0.01, 0.99).map(lambda number: f"expectile-{number}")
    assert isinstance(kind, Flag)
    return st.booleans()


CHANGEABLE = sorted(set(SETTINGS) - set(RUNS_OWN))
CHANGES = st.lists(st.sampled_from(CHANGEABLE), unique=True, max_size=4).flatmap(
    lambda names: st.tuples(*(st.tuples(st.just(name), values(SETTINGS[name])) for name in names))
)
BASES = st.sampled_from((*AGENTS, *AGENTS.values(), "mine:Stat", "my.own.module:Stat"))


@given(BASES, CHANGES)
def test_the_spelling_is_read_as_it_was_written(base: str, changes: Any) -> None:
    variant = Variant(base, changes)
    assert Variant.parse(str(variant)) == variant
    assert Variant.parse(f" {str(variant).replace(',', ' , ').replace('=', ' = ')} ") == variant
    assert Variant(base, changes[::-1]) == variant  # the order does not matter
    assert str(Variant.parse(str(variant))) == str(variant)


@given(BASES, CHANGES, BASES, CHANGES)
def test_two_variants_share_nothing_that_they_are_called_by(
    base: str, changes: Any, other_base: str, other_changes: Any
) -> None:
    one, other = Variant(base, changes), Variant(other_base, other_changes)
    assert (one == other) == (str(one) == str(other)) == (one.directory == other.directory)
    assert len(set(labels([one, other]).values())) == len({one, other})


@given(st.text(max_size=30) | st.from_regex(r"er-dqn\[.{0,20}\]?", fullmatch=True))
def test_any_text_is_read_or_refused_by_name(text: str) -> None:
    with contextlib.suppress(ValueError):
        variant = Variant.parse(text)
        assert Variant.parse(str(variant)) == variant
        return
    with pytest.raises(ValueError, match=r"must|already|belongs"):
        Variant.parse(text)


@given(st.data())
def test_a_value_is_read_as_it_was_spelt(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(CHANGEABLE))
    value = data.draw(values(SETTINGS[name]))
    assert read_value(name, spell(value)) == value


@pytest.mark.parametrize(
    ("spelling", "label", "directory"),
    [
        ("er-dqn", "ER-DQN", "er-dqn"),
        ("Er-Dqn[size=51]", "ER-DQN (size 51)", "er-dqn+size=51"),
        ("ER-DQN[double]", "ER-DQN (double)", "er-dqn+double"),
        ("er-dqn[double=false]", "ER-DQN (no double)", "er-dqn+double=false"),
        (
            "er-dqn[n_step=3,learning_rate=0.0001]",
            "ER-DQN (learning rate 1e-4, n-step 3)",
            "er-dqn+learning_rate=1e-4+n_step=3",
        ),
        ("er-dqn[imputation=scipy-root]", "ER-DQN (scipy-root)", "er-dqn+imputation=scipy-root"),
        ("er-dqn[head=chords]", "ER-DQN (chords head)", "er-dqn+head=chords"),
        ("er-dqn[risk=cvar-0.2]", "ER-DQN (cvar-0.2)", "er-dqn+risk=cvar-0.2"),
        ("dqn[beside=er-dqn]", "DQN (er-dqn beside)", "dqn+beside=er-dqn"),
        ("c51[support=[-25,25]]", "C51 (support [-25,25])", "c51+support=-25,25"),
        ("mine:Stat[size=7]", "Stat (size 7)", "mine-Stat+size=7"),
        ("mine:DQN", "mine:DQN", "mine-DQN"),
    ],
)
def test_what_an_agent_is_called_by(spelling: str, label: str, directory: str) -> None:
    variant = Variant.parse(spelling)
    assert (variant.label, variant.directory) == (label, directory)


@pytest.mark.parametrize(
    ("spelling", "words"),
    [
        ("er-dqm", "agent must be one of .*did you mean er-dqn.* got 'er-dqm'"),
        ("", "agent must be one of"),
        ("er-dqn:scipy-root", "MODULE:NAME"),
        ("er-dqn[size=51", r"must be er-dqn or er-dqn\[NAME=VALUE"),
        ("er-dqn[]", r"must be er-dqn or er-dqn\[NAME=VALUE"),
        ("er-dqn[size=51]x", r"must be er-dqn or er-dqn\[NAME=VALUE"),
        ("er-dqn[siz=51]", "setting of er-dqn must be one of .*did you mean size"),
        ("er-dqn[seed=1]", "belongs to runs"),
        ("er-dqn[size]", "must have a value"),
        ("er-dqn[size=0]", "size must be a whole number of at least 1, got 0"),
        ("er-dqn[size=null]", "must have a value"),
        ("er-dqn[size=5,size=7]", "changed to 5 already"),
        ("er-dqn[double=maybe]", "double must be true or false, got 'maybe'"),
        ("er-dqn[imputation=exakt]", "did you mean exact"),
        ("er-dqn[head=chord]", "did you mean chords"),
    ],
)
def test_mistakes_in_a_name_are_explained(spelling: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Variant.parse(spelling)


def test_the_order_of_tables() -> None:
    spelt = ["mine:Stat", "er-dqn[size=51]", "er-dqn[size=5]", "er-dqn", "dqn", "er-dqn-naive"]
    assert list(labels(map(Variant.parse, spelt)).values()) == [
        "DQN", "ER-DQN", "ER-DQN (size 5)", "ER-DQN (size 51)", "ER-DQN-naive", "Stat",
    ]  # fmt: skip


def test_a_config_knows_its_variant() -> None:
    config = preset("minatar", agent="ER-DQN[learning_rate=1e-4,double]")
    assert (config.agent, config.learning_rate, config.double) == ("er-dqn", 1e-4, True)
    assert str(config.variant) == "er-dqn[double,learning_rate=1e-4]"
    assert Config.from_json(config.to_json()) == config
    assert dataclasses.replace(config, steps=10_000_000, seed=3).variant == config.variant
    assert str(dataclasses.replace(config, learning_rate=3e-4).variant).endswith("3e-4]")
    # What makes another agent is in its name in any case, but for what the agent has anyway.
    assert preset("minatar", size=51) == preset("minatar", agent="er-dqn[size=51]")
    assert str(preset("minatar", size=11, learning_rate=1e-4).variant) == "er-dqn"


@pytest.mark.parametrize("make", [Config, lambda **given: preset("minatar", **given)])
def test_a_name_and_a_setting_must_not_contradict(make: Any) -> None:
    assert make(agent="er-dqn[size=51]", size=51).size == 51
    with pytest.raises(ValueError, match=r"size must be 51, as in er-dqn\[size=51\].*got 5"):
        make(agent="er-dqn[size=51]", size=5)


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("clasic", {}, "preset must be one of .*did you mean classic.* got 'clasic'"),
        ([], {}, r"preset must be one of .* got \[\]"),
        ("quick", {"step": 3}, "setting must be one of .*did you mean steps.* got 'step'"),
        ("quick", {"Learning_rat": 1}, "did you mean learning_rate.* got 'Learning_rat'"),
    ],
)
@pytest.mark.usefixtures("without_shape_checks")
def test_what_a_preset_does_not_know_is_told(name: Any, given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        preset(name, **given)


def test_every_setting_has_a_kind_and_a_sentence() -> None:
    fields = [field.name for field in dataclasses.fields(Config)]
    assert set(fields) - {"agent", "changed"} == set(SETTINGS)
    texts = re.findall(
        r'^    (\w+): .*\n    """((?:.|\n)*?)"""', inspect.getsource(Config), flags=re.MULTILINE
    )
    assert [name for name, _ in texts] == fields
    for _, text in texts:
        assert len(text.split()) > 5
        assert text.endswith(".")
