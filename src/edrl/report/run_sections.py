"""The section of a report's page on what was run, what is missing, and how agents differ."""

import re
from collections import Counter, defaultdict
from itertools import chain

from edrl.core.words import count
from edrl.deep.settings import spell
from edrl.report import page
from edrl.report.study_figures import label
from edrl.study.identity import Record
from edrl.study.results import Study
from edrl.study.runs import LAST
from edrl.study.tables import Json

_NO_PLAN = "where there is no plan (suite.json), another agent or game has the seed"


def what_was_run(study: Study) -> list[str]:
    finished = len(study.runs) - len(study.unfinished)
    total = f"{len(study.planned)} planned" if study.planned else "no plan (suite.json) was found"
    steps = sorted({run.planned for run in study.runs})
    facts = (
        ("games", ", ".join(map(label, study.games))),
        ("agents", ", ".join(study.agents)),
        *_what_differs(study),
        ("seeds", ", ".join(map(str, study.seeds))),
        ("agent steps", " or ".join(f"{number:,}" for number in steps)),
        ("runs", f"{len(study.runs)} found, {finished} of them finished; {total}"),
        ("final score", f"the mean of a run's last {LAST} evaluations"),
    )
    return [
        page.table((), facts),
        "<h3>Missing and unfinished runs</h3>",
        *_gaps(study),
        "<h3>Made by</h3>",
        *_made(study),
        "<h3>Settings</h3>",
        *_settings(study),
    ]


def _gaps(study: Study) -> list[str]:
    if not study.missing and not study.unfinished:
        return ["<p>None.</p>"]
    missing, begun = _missing_seeds(study), _unfinished_seeds(study)
    rows = []
    for env, agent in sorted({*missing, *begun}):
        seeds, unfinished = ", ".join(missing[env, agent]), "; ".join(begun[env, agent])
        rows.append((label(env), agent, seeds or "–", unfinished or "–"))
    return [
        page.table(("game", "agent", "missing seeds", "unfinished"), rows),
        page.note(f"{_why_missing(study)}Unfinished runs {_what_counts(study)}."),
    ]


def _missing_seeds(study: Study) -> dict[tuple[str, str], list[str]]:
    """The seeds of missing runs, by game and agent."""
    found = defaultdict(list)
    for agent, env, seed in study.missing:
        found[env, agent].append(str(seed))
    return found


def _unfinished_seeds(study: Study) -> dict[tuple[str, str], list[str]]:
    """The seeds of unfinished runs and how far each has come, by game and agent."""
    found = defaultdict(list)
    for run in study.unfinished:
        text = f"seed {run.config.seed} at {run.reached:,} of {run.planned:,} steps"
        found[run.env, run.agent].append(text)
    return found


def _why_missing(study: Study) -> str:
    by_plan = {agent for agent, _, _ in study.planned}
    absent = {agent for agent, _, _ in study.missing}
    reasons = {"planned, and not there": absent & by_plan, _NO_PLAN: absent - by_plan}
    given = [reason for reason, agents in reasons.items() if agents]
    return f"Missing: {'; or, '.join(given)}. " if given else ""


def _what_counts(study: Study) -> str:
    if any(not run.finished for run in study.counted):
        return "count as far as they have come, in everything below"
    return "are on the curves as far as they have come, and count nowhere else"


def _made(study: Study) -> list[str]:
    counts = _count_makers(study)
    unknown = sum(not run.made for run in study.runs)
    parts = []
    if counts:
        rows = [(*maker, str(number)) for maker, number in counts.most_common()]
        parts.append(page.table(("commit", "versions", "machine", "runs"), rows))
    if unknown:
        text = f"{count(unknown, 'run')} without a provenance.json: not known."
        parts.append(page.note(text))
    if counts.total() > len(study.runs) - unknown:
        text = "Runs that were resumed elsewhere count with each that made them."
        parts.append(page.note(text))
    return parts


def _count_makers(study: Study) -> Counter[tuple[str, str, str]]:
    counts: Counter[tuple[str, str, str]] = Counter()
    for run in study.runs:
        counts.update(set(map(_maker, run.made)))  # a run that was resumed may have several
    return counts


def _maker(made: Json) -> tuple[str, str, str]:
    names = ("commit", "versions", "machine")
    commit, versions, machine = (_listed(made.get(name)) for name in names)
    return re.sub(r"^([0-9a-f]{12})[0-9a-f]{28}", r"\1", commit), versions, machine


def _listed(entry: object) -> str:
    if not isinstance(entry, dict):
        return str(entry or "not known")
    known = [f"{name} {value}" for name, value in entry.items() if value is not None]
    return ", ".join(known) or "not known"


def _settings(study: Study) -> list[str]:
    """The settings in which agents differ, side by side, and a list of all others."""
    differing, shared = _by_setting(study)
    rows = [(name, values[0]) for name, values in shared.items()]
    same = page.details("Shared by all agents", page.table(("setting", ""), rows))
    return [*_differences(_begun(study), differing), same]


def _begun(study: Study) -> list[str]:
    """The agents that have a run."""
    there = {run.agent for run in study.runs}
    return [agent for agent in study.agents if agent in there]


def _by_setting(study: Study) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The values that agents have, by setting: where they differ, and where they do not."""
    records = {run.agent: run.record for run in study.runs}
    names = sorted(set(chain.from_iterable(record.values for record in records.values())))
    differing: dict[str, list[str]] = {}
    shared: dict[str, list[str]] = {}
    for name in names:
        values = [_value(records[agent], name) for agent in _begun(study)]
        kind = differing if len(set(values)) > 1 else shared
        kind[name.replace("_", " ")] = values
    return differing, shared


def _what_differs(study: Study) -> list[tuple[str, str]]:
    differing, _ = _by_setting(study)
    return [("agents differ in", f"{', '.join(differing)} (see Settings)")] if differing else []


def _differences(agents: list[str], differing: dict[str, list[str]]) -> list[str]:
    if differing:
        rows = [(name, *values) for name, values in differing.items()]
        table = page.table(("setting", *agents), rows, numbers=True)
        return ["<p>These differ between agents:</p>", table]
    if len(agents) > 1:
        return ["<p>Between agents nothing differs but the agent itself.</p>"]
    return []


def _value(record: Record, name: str) -> str:
    """A setting of an agent, for people."""
    value = record.values.get(name)
    if value is None:
        return "the agent's own"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return spell(value)
