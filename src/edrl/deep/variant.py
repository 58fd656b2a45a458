"""An agent's name: a record of its base and of the settings that were changed for it.

Everything that an agent is called by follows from this record: the label for people, the spelling
on the command line (`er-dqn[size=51]`), the directory of its runs, and its place in tables.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from edrl.core.check import fail, one_of
from edrl.deep.settings import (
    SETTINGS,
    Flag,
    Value,
    check_name,
    is_users_own,
    read_value,
    spell,
    split_entries,
)

AGENTS = {
    name.lower(): name
    for name in ("DQN", "C51", "QR-DQN", "QR-DQN-imputation", "ER-DQN", "ER-DQN-naive", "IQN")
}
"""The named agents: as they are typed, and as people write them. Tables keep this order."""

Changes = tuple[tuple[str, Value], ...]
"""Settings by their names, sorted."""

_PHRASES = {
    "imputation": "{}",
    "risk": "{}",
    "head": "{} head",
    "beside": "{} beside",
    "n_step": "n-step {}",
}
"""How labels speak of settings, where it is not by their names."""


@dataclass(frozen=True)
class Variant:
    """A base agent and what was changed for it: `Variant("er-dqn", (("size", 51),))`.

    Changes are sorted by their names and have the types of a config's fields. A change to the
    base's default is kept: presets and `--set` have other defaults, and `er-dqn[double=false]`
    then says something.

    Args:
        base: one of `AGENTS`, MODULE:NAME, or the description of statistics that `train` was given.
        changes: settings and their values.
    """

    base: str
    changes: Changes = ()

    def __post_init__(self) -> None:
        if self.base.lower() in AGENTS:
            object.__setattr__(self, "base", self.base.lower())
        checked: dict[str, Value] = {}
        for name, value in self.changes:
            check_name(f"a setting of {self.base}", name)
            if name in checked:
                raise fail(
                    f"{name} of {self.base}",
                    value,
                    f"it has been changed to {checked[name]} already",
                )
            if value is None:
                raise fail(f"{name} of {self.base}", value, "it must have a value")
            checked[name] = SETTINGS[name].check(name, value)
        object.__setattr__(self, "changes", tuple(sorted(checked.items())))

    @classmethod
    def parse(cls, text: str) -> "Variant":
        """From its spelling: `er-dqn`, `er-dqn[double]`, `mine:Stat[size=7,learning_rate=1e-4]`."""
        if not isinstance(text, str):  # as a file may say
            raise fail("agent", text, "it must be the name of an agent")
        base, bracket, rest = text.strip().partition("[")
        _check_base(base)
        if bracket and (not rest.endswith("]") or not rest.removesuffix("]").strip()):
            raise fail("agent", text, f"it must be {base} or {base}[NAME=VALUE,...]")
        entries = split_entries(rest.removesuffix("]")) if bracket else []
        return cls(base, tuple(_change(base, entry) for entry in entries))

    def __str__(self) -> str:
        """The spelling, which `parse` reads."""
        spelt = ",".join(_spelt(*change) for change in self.changes)
        return f"{self.base}[{spelt}]" if spelt else self.base

    @property
    def label(self) -> str:
        """The name for people: ER-DQN (size 51). Users' own go without their module."""
        return self._labelled(AGENTS.get(self.base) or _short(self.base))

    @property
    def full_label(self) -> str:
        """The name for people with the whole of the base."""
        return self._labelled(AGENTS.get(self.base, self.base))

    def _labelled(self, name: str) -> str:
        phrases = [_phrase(*change) for change in self.changes]
        return f"{name} ({', '.join(phrases)})" if phrases else name

    @property
    def directory(self) -> str:
        """The name of the directory of its runs: er-dqn+size=51. Two variants never share one."""
        parts = (self.base, *(_spelt(*change) for change in self.changes))
        return "+".join(parts).replace("[", "").replace("]", "").replace(":", "-")

    def changed(self, name: str, value: Value) -> "Variant":
        """The same agent with one more change."""
        return Variant(self.base, (*self.changes, (name, value)))

    @property
    def place(self) -> tuple[int, str, list[tuple[str, float, str]]]:
        """What tables sort by: named agents, then users' own; a base comes before its variants."""
        known = list(AGENTS)
        rank = known.index(self.base) if self.base in AGENTS else len(known)
        return rank, self.base, [_sortable(*change) for change in self.changes]


def labels(variants: Iterable[Variant]) -> dict[Variant, str]:
    """A label for each variant, in the order of tables; no two are alike.

    Users' own that have one name in two modules are called by both.
    """
    ordered = sorted(set(variants), key=lambda variant: variant.place)
    times = Counter(variant.label for variant in ordered)
    return {one: one.label if times[one.label] == 1 else one.full_label for one in ordered}


def _check_base(base: str) -> None:
    if base.lower() not in AGENTS and not is_users_own(base):
        raise fail("agent", base, one_of(base, tuple(AGENTS), "MODULE:NAME of your own"))


def _short(base: str) -> str:
    """Stat of `mine:Stat` and of Stat(size=3); the whole where one of our agents has the name."""
    described = re.match(r"\w+(?=\()", base)
    short = described[0] if described else base.rpartition(":")[2]
    return base if short.lower() in AGENTS else short


def _change(base: str, entry: str) -> tuple[str, Value]:
    """A setting and its value; a flag alone is true."""
    name, equals, value = (part.strip() for part in entry.partition("="))
    check_name(f"a setting of {base}", name)
    if not equals and not isinstance(SETTINGS[name], Flag):
        raise fail(f"{name} of {base}", "", f"it must have a value: {name}=VALUE")
    return name, read_value(name, value) if equals else True


def _spelt(name: str, value: Value) -> str:
    return name if value is True else f"{name}={spell(value)}"


def _phrase(name: str, value: Value) -> str:
    words = name.replace("_", " ")
    if isinstance(value, bool):
        return words if value else f"no {words}"
    return _PHRASES.get(name, f"{words} {{}}").format(spell(value))


def _sortable(name: str, value: Value) -> tuple[str, float, str]:
    number = float(value) if isinstance(value, int | float) else 0.0
    return name, number, spell(value)
