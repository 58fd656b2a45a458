"""Planning a study: every game with every agent and every seed, as configs with a name."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edrl.core.check import check_count, fail
from edrl.deep.checkpoint import replace_text
from edrl.deep.config import AGENTS, Config, PresetName, is_agent, preset
from edrl.deep.environments import make, names

VERSION = 1
SUITES: dict[str, tuple[str, ...]] = {
    "atari57": tuple(name for name in names() if "/" not in name),
    "minatar5": tuple(name for name in names() if name.startswith("minatar/")),
}
"""Names for many games at once."""

_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word", tuple: "a list: [0.5,1]"}


@dataclass(frozen=True)
class Planned:
    """A run of a study; its name is its directory's within the study's."""

    name: str
    config: Config


def plan(
    games: Sequence[str],
    agents: Sequence[str],
    seeds: int,
    preset_name: PresetName,
    settings: Mapping[str, Any] | None = None,
    first_seed: int = 0,
) -> list[Planned]:
    """All runs, seed by seed: what is done at any time is as balanced as it can be.

    An agent with another imputation is named with it: "er-dqn:scipy-root". `settings` replace the preset's:
    `{"steps": 1_000_000}` for all agents, `{"er-dqn.learning_rate": 1e-4}` for one.
    """
    check_count("seeds", seeds, 1)
    check_count("first_seed", first_seed, 0)
    for agent in agents:
        if not is_agent(agent) and agent.partition(":")[0] not in AGENTS:
            right = f"it must be one of {', '.join(AGENTS)}, or AGENT:IMPUTATION, or MODULE:NAME of your own"
            raise fail("agents", agent, right)
    listed = [game for entry in games for game in SUITES.get(entry, (entry,))]
    for name, values in (("games", listed), ("agents", list(agents))):
        if not values or len(set(values)) < len(values):
            raise fail(name, values, "there must be at least one, and none twice")
    for game in listed:
        try:
            make(game, seed=0).close()  # a wrong name, or a missing extra, is better known now
        except ValueError as error:
            raise ValueError(f"{error}; many games at once are {' and '.join(SUITES)}") from error
    _check_settings(settings or {}, agents)
    runs = [
        Planned(
            f"{_as_directory(game)}/{_as_directory(agent)}/seed-{seed}",
            preset(preset_name, **{"env": game, "seed": seed, **_settings_of(agent, settings or {})}),
        )
        for seed in range(first_seed, first_seed + seeds)
        for game in listed
        for agent in agents
    ]
    _check_labels(runs)
    return runs


def _check_labels(runs: Sequence[Planned]) -> None:
    """An agent is called by one name in reports, and no two by the same."""
    directories: dict[str, str] = {}
    for run in runs:
        agent = run.name.split("/")[-2]
        if directories.setdefault(run.config.label, agent) != agent:
            both = [directories[run.config.label], agent]
            raise fail("agents", both, f"two of them would be called {run.config.label} in reports: rename one")


def _as_directory(name: str) -> str:
    return name.replace("/", "-").replace(":", "-")


def _settings_of(agent: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those for all, then the agent's own."""
    name, _, imputation = agent.partition(":")
    named = {"agent": agent} if is_agent(agent) else {"agent": name, "imputation": imputation}
    for_all = {name: value for name, value in settings.items() if "." not in name}
    own = {name.rpartition(".")[2]: value for name, value in settings.items() if name.rpartition(".")[0] == agent}
    return named | for_all | own


def _check_settings(settings: Mapping[str, Any], agents: Sequence[str]) -> None:
    known = {field.name: field.default for field in dataclasses.fields(Config)}
    for name in ("env", "agent", "seed"):
        del known[name]  # the plan's own
    for name, value in settings.items():
        agent, _, setting = name.rpartition(".")
        if setting not in known:
            raise fail("set", name, f"the settings are {', '.join(sorted(known))}")
        if agent and agent not in agents:
            raise fail("set", name, f"the agents are {', '.join(agents)}")
        kind = type(known[setting])
        fits = type(value) in (int, float) if kind is float else type(value) is kind
        if kind in _KINDS and not fits:
            raise fail(f"set {name}", value, f"it must be {_KINDS[kind]}")


def parse_settings(entries: Sequence[str]) -> dict[str, Any]:
    """From `steps=1000`, `er-dqn.learning_rate=1e-4`: values as in JSON, or plain words."""
    settings: dict[str, Any] = {}
    for entry in entries:
        name, equals, text = entry.partition("=")
        if not equals:
            raise fail("set", entry, "it must be NAME=VALUE or AGENT.NAME=VALUE")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        settings[name] = tuple(value) if isinstance(value, list) else value
    return settings


def added_to_plan(out: Path, runs: Sequence[Planned]) -> list[Planned]:
    """The runs of the study in `out`, if there is one, with these added or lengthened.

    A study may grow: by games, agents and seeds, and by steps. Anything else that differs is a mistake.
    """
    before = {run.name: run for run in read_plan(out)} if (out / "suite.json").exists() else {}
    for run in runs:
        old = before.get(run.name)
        if old is not None:
            _check_growth(old, run)
    merged = list((before | {run.name: run for run in runs}).values())
    _check_labels(merged)
    return merged


def write_plan(out: Path, runs: Sequence[Planned]) -> list[Planned]:
    """Write the plan to `suite.json`, or add to the one that is there; returns all runs."""
    merged = added_to_plan(out, runs)
    out.mkdir(parents=True, exist_ok=True)
    entries = [
        {"name": run.name, "agent": run.config.label, "env": run.config.env, "seed": run.config.seed,
         "config": dataclasses.asdict(run.config)}
        for run in merged
    ]  # fmt: skip
    replace_text(out / "suite.json", json.dumps({"version": VERSION, "runs": entries}, indent=1) + "\n")
    return merged


def _check_growth(old: Planned, new: Planned) -> None:
    for field in dataclasses.fields(Config):
        before, after = getattr(old.config, field.name), getattr(new.config, field.name)
        if before != after and not (field.name == "steps" and after > before):
            right = "it can only grow" if field.name == "steps" else "choose another directory for other settings"
            raise fail(field.name, after, f"{old.name} has been planned with {before}: {right}")


def read_plan(out: Path) -> list[Planned]:
    """The runs of the study in a directory."""
    file = out / "suite.json"
    if not file.exists():
        raise fail("suite", str(out), "there is no study in it (no suite.json)")
    content = json.loads(file.read_text())
    if content.get("version") != VERSION:
        raise fail("suite", str(file), f"it has format {content.get('version')}, this version reads {VERSION}")
    return [Planned(run["name"], Config.from_json(json.dumps(run["config"]))) for run in content["runs"]]
