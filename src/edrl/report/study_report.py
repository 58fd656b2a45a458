"""The page on a study: what was run and what is missing, aggregates, curves, the paper's table,
and speed."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from edrl.core.check import check_directory, fail
from edrl.core.words import count, form
from edrl.deep.environments import import_suite
from edrl.report import game_figures, page, study_figures, style
from edrl.report.result_tables import measure
from edrl.report.study_figures import label
from edrl.report.study_sections import TITLE, body
from edrl.report.style import Drawing
from edrl.study.results import Study, read_study
from edrl.study.runs import RUNS, RunResult, write_runs
from edrl.study.tables import Json, Table, Tables, read_csv, rows_of, write_csv

_KEY = ("agent", "env", "seed")
_CSS = """.numbers th, .numbers td { text-align: right; white-space: normal; overflow-wrap: normal;
  padding: .3rem 0 .3rem .6rem; font-size: .95em; }
.numbers th:first-child, .numbers td:first-child { text-align: left; padding-left: 0; }
.numbers td.soft { font-size: .95em; }
td:first-child { overflow-wrap: normal; }
"""


@dataclass(frozen=True)
class Report:
    """A report that has been written."""

    page: Path
    study: Study
    aggregates: Table
    warnings: list[str]  # sentences on what is missing or preliminary


def write_report(directories: Sequence[Path], out: Path, trust: bool = False) -> Report:
    """Read all runs in some directories, and write the page, its figures, its data, summary.json
    and runs.json.

    With `trust`, modules that runs name are imported, to know the scores of others in their games.
    """
    check_directory("out", out)
    if (out / "claims.json").exists() and (out / "index.html").exists():
        right = "the page of `edrl reproduce` lies in it: name another directory"
        raise fail("out", str(out), right)
    page.check_no_foreign_page(out)
    study = read_study(directories)
    for env in study.games if trust else ():
        import_suite(env)
    for name in ("data", "figures"):
        (out / name).mkdir(parents=True, exist_ok=True)
    write_runs(out / RUNS, study.runs, study.plans)
    tables = _write_tables(measure(study), out / "data")
    figures = _draw(study, tables, out / "figures")
    warnings = _warnings(study)
    content = body(study, tables, warnings, lambda name: figures.get(name, ""))
    (out / "index.html").write_text(page.document(TITLE, content, _CSS), encoding="utf-8")
    summary = _summary(study, tables, warnings)
    text = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False)
    (out / "summary.json").write_text(text + "\n", encoding="utf-8")
    return Report(out / "index.html", study, tables["aggregates"], warnings)


def _write_tables(tables: Tables, directory: Path) -> Tables:
    """Write all tables, and read them again: the files hold all that is drawn and printed."""
    for name, rows in tables.items():
        write_csv(directory / f"{name}.csv", rows)
    return {name: read_csv(directory / f"{name}.csv") for name in tables}


def _draw(study: Study, tables: Tables, directory: Path) -> dict[str, str]:
    """Draw and save all figures, and return them by their names as the page shows them."""
    drawn = {}
    with style.applied():
        for drawing in _drawings(study, tables):
            style.save(drawing.figure, directory / drawing.name)
            svg = (directory / f"{drawing.name}.svg").read_bytes()
            drawn[drawing.name] = page.embedded(page.Figure(drawing.name, svg, drawing.caption))
    return drawn


def _drawings(study: Study, tables: Tables) -> Iterable[Drawing]:
    looks, kind = style.looks(study.bases), study.kind
    if tables["aggregates"]["agent"]:
        yield study_figures.aggregates(tables["aggregates"], looks, kind)
        yield study_figures.profiles(tables["profiles"], looks, kind)
    if tables["improvement"]["agent"]:
        yield study_figures.improvement_matrix(tables["improvement"], looks)
        yield study_figures.improvement_pairs(tables["improvement"], looks)
    yield game_figures.curves(tables["curves"], looks, study.expected_seeds)
    if tables["training"]["agent"]:
        yield game_figures.training(tables["training"], looks, study.expected_seeds)
    if tables["sample_efficiency"]["agent"]:
        expected = {agent: _expected_runs(study, agent) for agent in study.agents}
        rows = tables["sample_efficiency"]
        yield game_figures.sample_efficiency(rows, looks, expected, kind)
    if any(tables["calibration"]["spread"]):
        yield game_figures.calibration(tables["calibration"], looks)


def _expected_runs(study: Study, agent: str) -> int:
    return sum(study.expected_seeds[env, agent] for env in study.common)


def _warnings(study: Study) -> list[str]:
    """What a reader must know before believing a number."""
    found = []
    if study.missing:
        found.append(f"{count(len(study.missing), 'run')} missing")
    if study.unfinished:
        found.append(f"{count(len(study.unfinished), 'run')} unfinished")
    if any(not run.finished for run in study.counted):
        text = "no game has a finished run of every agent, so all count as they are"
        found.append(f"scores are preliminary: {text}")
    if study.warned:
        warned, of = len(study.warned), count(len(study.counted), "run")
        text = f"{form(warned, 'expects', 'expect')} returns that are impossible or far from those"
        found.append(f"{warned} of {of} {text} {form(warned, 'it', 'they')} got")
    return [*found, *_games_left_out(study), *_differing_steps(study), *_few_seeds(study)]


def _games_left_out(study: Study) -> list[str]:
    flat = [env for env, scale in study.scales.items() if not scale.usable]
    lacking = [env for env in study.games if env not in (*study.common, *flat)]
    reasons = {
        "no agent is better than the scale's zero": flat,
        "not every agent has a run that counts": lacking,
    }
    found = []
    for reason, games in reasons.items():
        if games:
            listed = ", ".join(map(label, games))
            found.append(f"left out of aggregates, since {reason}: {listed}")
    return found


def _differing_steps(study: Study) -> list[str]:
    for env in study.games:
        if len({run.planned for run in study.counted if run.env == env}) > 1:
            return ["runs of one game differ in their number of steps"]
    return []


def _few_seeds(study: Study) -> list[str]:
    scores = chain.from_iterable(map(study.normalised, study.played))
    seeds = set(map(len, scores))
    if 1 not in seeds:
        return []
    if seeds == {1}:
        return ["one seed a game: there are no intervals"]
    text = "their spread over seeds is unknown and intervals too narrow"
    return [f"some games have one seed of an agent: {text}"]


def _summary(study: Study, tables: Tables, warnings: list[str]) -> Json:
    """What summary.json holds; a number that is not there is null."""
    counts = {"found": study.runs, "planned": study.planned, "counted": study.counted}
    listed = ("normalisation", "aggregates", "improvement", "games")
    return {
        "games": study.games,
        "agents": study.agents,
        "seeds": study.seeds,
        "runs": {name: len(runs) for name, runs in counts.items()},
        "warnings": warnings,
        "missing": [dict(zip(_KEY, key, strict=True)) for key in study.missing],
        "unfinished": list(map(_unfinished, study.unfinished)),
        **{name: list(map(_with_nulls, rows_of(tables[name]))) for name in listed},
    }


def _unfinished(run: RunResult) -> Json:
    key = dict(zip(_KEY, run.key, strict=True))
    return {**key, "reached": run.reached, "of": run.planned}


def _with_nulls(row: Json) -> Json:
    return {name: None if _is_nan(entry) else entry for name, entry in row.items()}


def _is_nan(entry: object) -> bool:
    return isinstance(entry, float) and math.isnan(entry)
