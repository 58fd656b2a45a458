"""Planning a study: every game with every agent and every seed, as configs with a name."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path

from edrl.core.check import check_count, check_seed, fail
from edrl.deep.checkpoint import replace_text
from edrl.deep.config import Config, PresetName, preset
from edrl.deep.environments import make, names
from edrl.deep.settings import SETTINGS, Value, check_name, read_value
from edrl.deep.variant import Variant
from edrl.study.tables import Json, read_object

VERSION = 1
PLAN = "suite.json"
SUITES: dict[str, tuple[str, ...]] = {
    "atari57": tuple(name for name in names() if "/" not in name),
    "minatar5": tuple(name for name in names() if name.startswith("minatar/")),
}
"""Names for many games at once."""

Settings = Mapping[str, Value]
"""Settings for all agents, by their names."""


@dataclass(frozen=True)
class Planned:
    """A run of a study. Its name is the path of its directory within the study."""

    name: str
    config: Config


def plan(
    games: Sequence[str],
    agents: Sequence[str],
    seeds: int,
    preset_name: PresetName,
    settings: Settings | None = None,
    first_seed: int = 0,
) -> list[Planned]:
    """All runs, seed by seed, so that agents and games have equally many runs at any time.

    Args:
        games: names of games, or of suites of them.
        agents: names of agents, with what is changed for them: "er-dqn", "er-dqn[size=51]".
        seeds: how many seeds.
        preset_name: where the settings come from.
        settings: what replaces the preset's for all agents; what an agent's name says comes first.
        first_seed: the first of the seeds.
    """
    check_count("seeds", seeds, 1)
    check_seed("first_seed", first_seed)
    listed = _games(games)
    variants = _variants(agents, preset_name, settings or {})
    everything = product(range(first_seed, first_seed + seeds), listed, variants)
    return [_planned(config, game, seed) for seed, game, config in everything]


def _planned(config: Config, game: str, seed: int) -> Planned:
    name = f"{_as_directory(game)}/{config.variant.directory}/seed-{seed}"
    return Planned(name, dataclasses.replace(config, env=game, seed=seed))


def _games(entries: Sequence[str]) -> list[str]:
    listed = list(chain.from_iterable(SUITES.get(entry, (entry,)) for entry in entries))
    _check_distinct("games", listed)
    for game in listed:
        try:
            make(game, seed=0).close()  # a wrong name, or a missing extra, is better known now
        except ValueError as error:
            raise ValueError(f"{error}; many games at once are {' and '.join(SUITES)}") from error
    return listed


def _variants(agents: Sequence[str], preset_name: PresetName, settings: Settings) -> list[Config]:
    """A config of each agent, in which game and seed are still to be set."""
    for name in settings:
        check_name("set", name, without=("env", "seed"))
    configs = [_variant(agent, preset_name, settings) for agent in agents]
    _check_distinct("agents", [str(config.variant) for config in configs])
    return configs


def _variant(agent: str, preset_name: PresetName, settings: Settings) -> Config:
    changes = dict(Variant.parse(agent).changes)
    for_all = {name: value for name, value in settings.items() if name not in changes}
    try:
        return preset(preset_name, agent=agent, **for_all)
    except ValueError as error:  # which names a setting, of one of several agents
        raise ValueError(f"{agent}: {error}") from error


def _check_distinct(argument: str, values: Sequence[str]) -> None:
    if not values or len(set(values)) < len(values):
        raise fail(argument, list(values), "there must be at least one, and none twice")


def _as_directory(name: str) -> str:
    return name.replace("/", "-").replace(":", "-")


def parse_settings(entries: Sequence[str]) -> dict[str, Value]:
    """Settings for all agents from `steps=1000`: values as in JSON, or plain words."""
    settings: dict[str, Value] = {}
    for entry in entries:
        name, equals, text = entry.partition("=")
        if not equals or "." in name:
            right = "it must be NAME=VALUE for all agents; for one, write it into the agent's name"
            raise fail("set", entry, f"{right}: er-dqn[NAME=VALUE]")
        check_name("set", name, without=("env", "seed"))
        settings[name] = read_value(name, text)
    return settings


def added_to_plan(out: Path, runs: Sequence[Planned]) -> list[Planned]:
    """The runs of the study in `out`, if there is one, with these added or lengthened.

    A study may grow by games, agents, seeds and steps. A run that has been planned must not get
    other settings.
    """
    before = read_plan(out) if (out / PLAN).exists() else []
    _check_code_is_named(out, before, runs)
    merged = {run.name: run for run in before}
    names = {_identity(run.config): run.name for run in before}  # which another version has given
    for run in runs:
        name = names.get(_identity(run.config), run.name)
        old = merged.get(name)
        merged[name] = run if old is None else _grown(old, run)
    return list(merged.values())


def _check_code_is_named(out: Path, before: Sequence[Planned], runs: Sequence[Planned]) -> None:
    """Refuse to go on with somebody else's code: all of it must be named by who goes on."""
    named = {name for run in runs for name in run.config.names_of_code()}
    kept = {name for run in before for name in run.config.names_of_code()}
    foreign = sorted(name for name in kept - named if ":" in name)  # others are ours
    if foreign:
        right = f"its plan names code of its own ({', '.join(foreign)}), which would run"
        advice = "name it in your command, too, if you know what that is, or another directory"
        raise fail("out", str(out), f"{right} on this machine: {advice}")


def _identity(config: Config) -> tuple[str, object, str, int]:
    return config.agent, config.agent_settings, config.env, config.seed


def write_plan(out: Path, runs: Sequence[Planned]) -> list[Planned]:
    """Write the plan to `suite.json`, or add to the one that is there; returns all runs."""
    merged = added_to_plan(out, runs)
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"version": VERSION, "runs": list(map(_entry, merged))}, indent=1)
    replace_text(out / PLAN, text + "\n")
    return merged


def _entry(run: Planned) -> Json:
    config = dataclasses.asdict(run.config)
    return {"name": run.name, "agent": str(run.config.variant), "config": config}


def _grown(old: Planned, new: Planned) -> Planned:
    """A run that has been planned, with the steps of a later plan."""
    for name in SETTINGS:
        before, after = getattr(old.config, name), getattr(new.config, name)
        right = f"{old.name} has been planned with {before}"
        if name == "steps":
            if after < before:
                raise fail(name, after, f"{right}: it can only grow")
        elif before != after:
            raise fail(name, after, f"{right}: choose another directory")
    return Planned(old.name, dataclasses.replace(old.config, steps=new.config.steps))


def read_plan(out: Path) -> list[Planned]:
    """The runs of the study in a directory."""
    file = out / PLAN
    if not file.exists():
        raise fail("suite", str(out), f"there is no study in it (no {PLAN})")
    content = read_object(file)
    try:
        if content["version"] != VERSION:
            raise fail(
                "version", content["version"], f"it must be {VERSION} for this version of edrl"
            )
        return [
            Planned(_checked_name(run["name"]), Config.from_entries(run["config"]))
            for run in content["runs"]
        ]
    except KeyError as error:
        raise ValueError(f"{file} cannot be read: it has no {error}") from error
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from error


def _checked_name(name: object) -> str:
    """The name of a run, which must lie within the study's directory."""
    if not isinstance(name, str) or not name or Path(name).is_absolute() or ".." in name.split("/"):
        raise fail("name", name, "it must be the name of a directory in the study's")
    return name
