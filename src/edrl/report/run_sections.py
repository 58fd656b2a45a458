"""The section of a report's page on what was run, what is missing, and how agents differ."""

from collections.abc import Iterable

from edrl.deep.settings import Value, spell
from edrl.report import page
from edrl.report.study_figures import label
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
    missing: dict[tuple[str, str], list[str]] = {}
    for agent, env, seed in study.missing:
        missing.setdefault((env, agent), []).append(str(seed))
    begun: dict[tuple[str, str], list[str]] = {}
    for run in study.unfinished:
        text = f"seed {run.config.seed} at {run.reached:,} of {run.planned:,} steps"
        begun.setdefault((run.env, run.agent), []).append(text)
    rows = []
    for env, agent in sorted({*missing, *begun}):
        seeds = ", ".join(missing.get((env, agent), [])) or "–"
        rows.append((label(env), agent, seeds, "; ".join(begun.get((env, agent), [])) or "–"))
    return [
        page.table(("game", "agent", "missing seeds", "unfinished"), rows),
        f'<p class="soft">{_why_missing(study)}Unfinished runs {_what_counts(study)}.</p>',
    ]


def _why_missing(study: Study) -> str:
    by_plan = {agent for agent, _, _ in study.planned}
    absent = {agent for agent, _, _ in study.missing}
    reasons = ["planned, and not there"] if absent & by_plan else []
    reasons += [_NO_PLAN] if absent - by_plan else []
    return f"Missing: {'; or, '.join(reasons)}. " if reasons else ""


def _what_counts(study: Study) -> str:
    if any(not run.finished for run in study.counted):
        return "count as far as they have come, in everything below"
    return "are on the curves as far as they have come, and count nowhere else"


def _made(study: Study) -> list[str]:
    counts: dict[tuple[str, str, str], int] = {}
    for run in study.runs:
        for maker in {_maker(one) for one in run.made}:  # a run that was resumed may have several
            counts[maker] = counts.get(maker, 0) + 1
    unknown = sum(not run.made for run in study.runs)
    most_first = sorted(counts.items(), key=lambda item: -item[1])
    rows = [(*maker, str(number)) for maker, number in most_first]
    parts = [page.table(("commit", "versions", "machine", "runs"), rows)] if rows else []
    if unknown:
        text = f"{count(unknown, 'run')} without a provenance.json: not known."
        parts.append(f'<p class="soft">{text}</p>')
    if sum(counts.values()) > len(study.runs) - unknown:
        text = "Runs that were resumed elsewhere count with each that made them."
        parts.append(f'<p class="soft">{text}</p>')
    return parts


def _maker(made: Json) -> tuple[str, str, str]:
    return _listed(made.get("commit")), _listed(made.get("versions")), _listed(made.get("machine"))


def _listed(entry: object) -> str:
    pairs = entry.items() if isinstance(entry, dict) else ()
    listed = ", ".join(f"{name} {value}" for name, value in pairs if value is not None)
    return listed or str(entry or "not known")


def _settings(study: Study) -> list[str]:
    """Those in which agents differ side by side, the rest in one list."""
    records = {run.agent: run.record for run in study.runs}
    agents = [agent for agent in study.agents if agent in records]
    differing, shared = [], []
    for name in _names(record.values for record in records.values()):
        values = [_setting(records[agent].values.get(name)) for agent in agents]
        words = name.replace("_", " ")
        if len(set(values)) > 1:
            differing.append((words, *values))
        else:
            shared.append((words, values[0]))
    same = f"<details><summary>Shared by all agents</summary>{page.table(('setting', ''), shared)}"
    return [*_differences(agents, differing), f"{same}</details>"]


def _names(settings: Iterable[dict[str, Value]]) -> list[str]:
    """The names of all settings that any agent has."""
    return sorted({name for own in settings for name in own})


def _differences(agents: list[str], rows: list[tuple[str, ...]]) -> list[str]:
    if rows:
        table = page.table(("setting", *agents), rows, numbers=True)
        return ["<p>These differ between agents:</p>", table]
    if len(agents) > 1:
        return ["<p>Between agents nothing differs but the agent itself.</p>"]
    return []


def _setting(value: Value) -> str:
    if value is None:
        return "the agent's own"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return spell(value)


def count(number: int, what: str) -> str:
    """3 runs, 1 run."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")
