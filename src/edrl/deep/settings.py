"""The settings of a run, each with its kind: what it may be, how it is read and how it is spelt.

This is the one table that a config is checked by, and that variants of agents are read with.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import inf
from typing import Any, Protocol, cast, get_args, runtime_checkable

from edrl.core.check import check_count, check_number, check_seed, fail, one_of
from edrl.core.families import HEAD_NAMES, IMPUTATION_NAMES
from edrl.core.risk import risk_named
from edrl.deep.networks import NetworkName

Value = bool | int | float | str | tuple[float, ...] | None
"""What a setting may be."""


@runtime_checkable
class Kind(Protocol):
    """What a setting may be."""

    def check(self, name: str, value: Value) -> Value:
        """The value in its plain form (1e6 becomes 1000000); what it must not be raises."""


@dataclass(frozen=True)
class Count:
    """A whole number of at least `least`."""

    least: int
    most: int = 10**15  # more than memory or time can hold

    def check(self, name: str, value: Value) -> Value:
        return check_count(name, value, self.least, self.most)


@dataclass(frozen=True)
class Seed:
    """A seed."""

    def check(self, name: str, value: Value) -> Value:
        return check_seed(name, value)


@dataclass(frozen=True)
class Number:
    """A number in [low, high], or in (low, high] if it must be above `low`."""

    low: float
    high: float = inf
    above: bool = False

    def check(self, name: str, value: Value) -> Value:
        if isinstance(value, bool):
            raise fail(name, value, "it must be a number")
        return check_number(name, cast("float", value), self.low, self.high, open_low=self.above)


@dataclass(frozen=True)
class Flag:
    """True or false."""

    def check(self, name: str, value: Value) -> Value:
        if not isinstance(value, bool):
            raise fail(name, value, "it must be true or false")
        return value


@dataclass(frozen=True)
class Word:
    """One of some words, or MODULE:NAME of a user's own; any word if none are listed."""

    words: tuple[str, ...] = ()
    own: bool = False

    def check(self, name: str, value: Value) -> Value:
        if not isinstance(value, str):
            raise fail(name, value, "it must be a word")
        if not self._allows(value):
            raise fail(name, value, one_of(value, self.words, "MODULE:NAME" if self.own else ""))
        return value

    def _allows(self, word: str) -> bool:
        return not self.words or word in self.words or (self.own and is_users_own(word))


@dataclass(frozen=True)
class RiskName:
    """A risk measure and its number, such as cvar-0.1."""

    def check(self, name: str, value: Value) -> Value:
        risk_named(str(value))
        return value


@dataclass(frozen=True)
class Pair:
    """Two numbers in [low, high]."""

    low: float = -inf
    high: float = inf

    def check(self, name: str, value: Value) -> Value:
        if not isinstance(value, tuple) or len(value) != 2:
            raise fail(name, value, "it must be two numbers")
        return tuple(check_number(name, number, self.low, self.high) for number in value)


@dataclass(frozen=True)
class Optional:
    """What a setting of some kind may be, or None."""

    kind: Kind

    def check(self, name: str, value: Value) -> Value:
        return None if value is None else self.kind.check(name, value)


BESIDE = ("c51", "qr-dqn", "qr-dqn-imputation", "er-dqn", "er-dqn-naive")
"""The agents whose statistics can be learnt beside another agent."""

SETTINGS: dict[str, Kind] = {
    "env": Word(),
    "seed": Seed(),
    "size": Optional(Count(1)),
    "support": Pair(),
    "imputation": Optional(Word(IMPUTATION_NAMES, own=True)),
    "head": Optional(Word(HEAD_NAMES)),
    "network": Word(get_args(NetworkName)),
    "layer_norm": Flag(),
    "steps": Count(1),
    "replay": Count(1),
    "learn_after": Count(0),
    "update_every": Count(1),
    "target_every": Count(1),
    "batch": Count(1),
    "gamma": Number(0.0, 1.0),
    "n_step": Count(1),
    "envs": Count(1),
    "rollout": Count(0),
    "epochs": Count(1),
    "minibatches": Count(1),
    "trace": Number(0.0, 1.0),
    "cut_traces": Flag(),
    "double": Flag(),
    "risk": Optional(RiskName()),
    "beside": Optional(Word(BESIDE)),
    "optimiser": Word(("adam", "radam")),
    "learning_rate": Number(0.0, above=True),
    "schedule": Word(("constant", "linear", "cosine")),
    "schedule_steps": Optional(Count(1)),
    "schedule_floor": Number(0.0, 1.0),
    "adam_epsilon": Number(0.0, above=True),
    "max_gradient": Optional(Number(0.0, above=True)),
    "average": Number(0.0, 1.0),
    "epsilon": Pair(0.0, 1.0),
    "epsilon_steps": Count(0),
    "epsilon_follows": Flag(),
    "evaluate_every": Count(0),
    "evaluate_steps": Count(1),
    "evaluate_episodes": Count(0),
    "evaluate_epsilon": Number(0.0, 1.0),
    "sticky": Flag(),
    "log_every": Count(1),
    "checkpoint_every": Count(1),
}
"""Every setting of a `Config` but the agent's name."""

RUNS_OWN = ("env", "seed", "steps")
"""The settings in which runs of one agent may differ. All others tell agents apart."""

AGENTS_OWN = ("size", "imputation", "head", "double", "risk", "beside")
"""The settings that make another agent. They are part of its name whenever they are changed."""


def is_users_own(name: str) -> bool:
    """Whether a name has the form MODULE:NAME."""
    module, _, attribute = name.partition(":")
    return all(part.isidentifier() for part in module.split(".")) and attribute.isidentifier()


def check_name(argument: str, name: str, without: tuple[str, ...] = RUNS_OWN) -> None:
    """The name of a setting that may be changed here."""
    known = tuple(sorted(set(SETTINGS) - set(without)))
    if name in without:
        raise fail(argument, name, f"it belongs to runs; what can be changed is {', '.join(known)}")
    if name not in known:
        raise fail(argument, name, one_of(name, known))


def check_entries(entries: Mapping[str, Any]) -> None:
    """Whether JSON has held an object with a config's settings; the config checks their values."""
    if not isinstance(entries, Mapping):
        raise fail("config", entries, "it must be an object with settings by their names")
    for name in ("agent", *RUNS_OWN):  # others may have been added since it was written
        if name not in entries:
            raise fail("config", sorted(entries), f"it must have a setting {name!r}")
    for name in entries:
        if name not in ("agent", "changed", *SETTINGS):
            raise fail("config", name, "this version of edrl has no such setting")


def read_value(name: str, text: str) -> Value:
    """The value of a setting from its spelling: as in JSON, or a plain word."""
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return SETTINGS[name].check(name, tuple(value) if isinstance(value, list) else value)


def spell(value: Value) -> str:
    """The spelling that `read_value` reads: true, 51, 1e-4, [-10,10], scipy-root."""
    if isinstance(value, tuple):
        return f"[{','.join(map(spell, value))}]"
    if isinstance(value, float):
        return _shortest(value)
    return value if isinstance(value, str) else json.dumps(value)


def _shortest(number: float) -> str:
    """0.01 and 1e-4: the shorter of both forms, with every digit."""
    plain = f"{Decimal(repr(number)):f}".removesuffix(".0")
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)  # it is finite
    first, rest = str(digits[0]), "".join(map(str, digits[1:]))
    power = exponent + len(rest)
    scientific = f"{'-' if sign else ''}{first}{f'.{rest}' if rest else ''}e{power}"
    return min(plain, scientific, key=len)


def split_entries(text: str) -> list[str]:
    """Split at the commas that are not inside brackets."""
    entries, depth = [""], 0
    for character in text:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            entries.append("")
        else:
            entries[-1] += character
    return entries
