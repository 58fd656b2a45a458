"""Which runs belong to one agent: those that differ only in their game, seed and steps.

All other runs are told apart by the settings in which they differ. The names under which they were
trained do not matter.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from edrl.deep.config import DEFAULTS, Config, own_size
from edrl.deep.settings import Value
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

    @cached_property
    def values(self) -> dict[str, Value]:
        """The settings by their names."""
        return dict(self.settings)

    def variant(self, names: Collection[str]) -> Variant:
        """The agent, named by some of its settings."""
        changes = [(name, self.values[name]) for name in names if name in self.values]
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
        differing = _differing(twins)
        for record in twins:
            names[record].update(filter(record.differs_from_default, differing))
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


def _differing(records: list[Record]) -> list[str]:
    """The settings that are not the same in all records."""
    first = records[0].values
    others = records[1:]
    return [
        name for name in first if any(other.values.get(name) != first[name] for other in others)
    ]
