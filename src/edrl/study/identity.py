"""Which runs belong to one agent: those that differ only in their game, seed and steps.

All other runs are told apart by the settings in which they differ. The names under which they were
trained do not matter.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from edrl.deep.config import DEFAULTS, Config, own_size
from edrl.deep.settings import RUNS_OWN, SETTINGS, Value
from edrl.deep.variant import Changes, Variant, labels

_OF_STATISTICS = ("size", "imputation", "head")


@dataclass(frozen=True)
class Record:
    """What the agent of a run was: its base with all settings but the run's own.

    Args:
        base: the agent's name, or the description of statistics that `train` was given.
        settings: all settings of the agent; none if they are not known.
    """

    base: str
    settings: Changes = ()

    @classmethod
    def of(cls, config: Config, family: str | None = None) -> "Record":
        """The record of a config; `family` describes statistics that replaced the config's."""
        if family is None:
            return cls(config.agent, config.agent_settings)
        settings = [entry for entry in config.agent_settings if entry[0] not in _OF_STATISTICS]
        return cls(family, tuple(settings))

    @classmethod
    def kept(cls, base: str, settings: Mapping[str, Value]) -> "Record":
        """As a file keeps it: settings that came up since it was written have their defaults."""
        if not settings:
            return cls(base)
        since = set(SETTINGS) - set(RUNS_OWN) - set(settings)
        if "size" not in settings:  # they belong to statistics that replaced the config's
            since -= set(_OF_STATISTICS)
        values = {**{name: DEFAULTS[name] for name in since}, **settings}
        return cls(base, tuple(sorted(values.items())))

    @cached_property
    def values(self) -> dict[str, Value]:
        """The settings by their names."""
        return dict(self.settings)

    def variant(self, names: Collection[str]) -> Variant:
        """The agent, named by some of its settings."""
        changes = [(name, self.values[name]) for name in names if self.values.get(name) is not None]
        return Variant(self.base, tuple(changes))

    def differs_from_default(self, name: str) -> bool:
        """Whether a setting must be told to someone who knows the defaults."""
        default = own_size(self.base) if name == "size" else DEFAULTS[name]
        return self.values.get(name) not in (None, default)


def told_apart(found: Iterable[tuple[Record, Collection[str]]]) -> dict[Record, Variant]:
    """A variant for each record; no two records have the same.

    Args:
        found: records, each with the settings that its runs were named by.
    """
    names: dict[Record, set[str]] = {}
    for record, named in found:
        names.setdefault(record, set()).update(named)
    while twins := _twins(names):
        told = [_unlike_default(record, twins) for record in twins]
        if not any(told):  # a default beside a setting that is switched off
            told = [set(_differing(twins)) for _ in twins]
        for record, more in zip(twins, told, strict=True):
            names[record] |= more
    return {record: record.variant(own) for record, own in names.items()}


def labels_of(variants: Mapping[Record, Variant]) -> dict[Record, str]:
    """A label for each record."""
    known = labels(variants.values())
    return {record: known[variant] for record, variant in variants.items()}


def _twins(names: Mapping[Record, set[str]]) -> list[Record]:
    """Records that have the same name so far; empty if there are none."""
    called: dict[Variant, list[Record]] = {}
    for record, own in names.items():
        if record.settings:
            called.setdefault(record.variant(own), []).append(record)
    return next((records for records in called.values() if len(records) > 1), [])


def _unlike_default(record: Record, twins: list[Record]) -> set[str]:
    """What tells a record from its twins and must be told to someone who knows the defaults."""
    return set(filter(record.differs_from_default, _differing(twins)))


def _differing(records: list[Record]) -> list[str]:
    """The settings that are not the same in all records."""
    names = sorted(set().union(*(record.values for record in records)))
    found = [name for name in names if len({record.values.get(name) for record in records}) > 1]
    assert found, records  # else they were one record
    return found
