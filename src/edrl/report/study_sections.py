"""The sections of a report's page, in the order in which it shows them."""

import dataclasses
import html
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np

from edrl.core.algorithms import ALGORITHMS
from edrl.deep.config import AGENTS
from edrl.report import page, study_figures
from edrl.report.aggregates import MEASURES, RESAMPLES
from edrl.report.study_figures import label
from edrl.study import atari57
from edrl.study.results import Study, random_scores
from edrl.study.runs import LAST, RUNS, RunResult
from edrl.study.tables import Table, Tables, select

TITLE = "Deep agents compared"
_NO_PLAN = "where there is no plan (suite.json), another agent or game has the seed"


Show = Callable[[str], str]
"""The figure of a name, inside the page; nothing if there was nothing to draw."""


def body(study: Study, tables: Tables, warnings: list[str], show: Show) -> list[str]:
    sections = (
        ("run", "What was run", _what_was_run(study)),
        ("aggregates", "Aggregate scores", _aggregate_scores(study, tables, show)),
        ("profiles", "Performance profiles", _profiles(tables, show)),
        ("improvement", "Probability of improvement", _improvement(tables, show)),
        ("curves", "Training curves", _curves(study, tables, show)),
        ("efficiency", "Sample efficiency", _efficiency(tables, show)),
        ("calibration", "Learnt return distributions", _calibration(study, tables, show)),
        ("maxima", "Maximum scores, as in the paper's table", _maxima(study, tables)),
        ("speed", "Time and throughput", _speed(study, tables)),
    )
    links = "".join(f'<li><a href="#{anchor}">{html.escape(title)}</a></li>' for anchor, title, _ in sections)
    state = "; ".join(warnings) + "." if warnings else "All runs are there and finished."
    lines = [
        f"<h1>{TITLE}</h1>",
        f'<p class="summary{" fails" if warnings else ""}">{html.escape(state[0].upper() + state[1:])}</p>',
        f'<p class="soft">Written by edrl {datetime.now(UTC):%Y-%m-%d %H:%M} UTC. Intervals are 95 % percentile'
        f" intervals of a bootstrap with {RESAMPLES:,} resamples that draws seeds anew within each game (Agarwal et"
        " al., 2021); with few seeds they are somewhat too narrow. They say nothing about other games."
        ' One row a run: <a href="data/scores.csv">scores.csv</a>;'
        ' for machines: <a href="summary.json">summary.json</a>; every evaluation of every run, which later reports can'
        f' be made from: <a href="{RUNS}">{RUNS}</a>.</p>',
        f"<nav><ul>{links}</ul></nav>",
    ]
    for anchor, title, content in sections:
        lines += [f'<h2 id="{anchor}">{html.escape(title)}</h2>', *content]
    return lines


def _what_was_run(study: Study) -> list[str]:
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
    cells: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for agent, env, seed in study.missing:
        cells.setdefault((env, agent), ([], []))[0].append(str(seed))
    for run in study.unfinished:
        text = f"seed {run.config.seed} at {run.reached:,} of {run.planned:,} steps"
        cells.setdefault((run.env, run.agent), ([], []))[1].append(text)
    rows = [
        (label(env), agent, ", ".join(missing) or "–", "; ".join(begun) or "–")
        for (env, agent), (missing, begun) in sorted(cells.items())
    ]
    by_plan = {agent for agent, _, _ in study.planned}
    reasons = {"planned, and not there" if agent in by_plan else _NO_PLAN for agent, _, _ in study.missing}
    absent = "; or, ".join(sorted(reasons, key=lambda reason: reason == _NO_PLAN))
    counts = any(not run.finished for run in study.counted)
    rule = (
        "count as far as they have come, in everything below"
        if counts
        else "are on the curves as far as they have come, and count nowhere else"
    )
    return [
        page.table(("game", "agent", "missing seeds", "unfinished"), rows),
        f'<p class="soft">{f"Missing: {absent}. " if absent else ""}Unfinished runs {rule}.</p>',
    ]


def _made(study: Study) -> list[str]:
    counts: dict[tuple[str, str, str], int] = {}
    for run in study.runs:
        for maker in {_maker(one) for one in run.made}:  # a run that was resumed may have several
            counts[maker] = counts.get(maker, 0) + 1
    unknown = sum(not run.made for run in study.runs)
    rows = [(*maker, str(count)) for maker, count in sorted(counts.items(), key=lambda item: -item[1])]
    parts = [page.table(("commit", "versions", "machine", "runs"), rows)] if rows else []
    if unknown:
        parts.append(f'<p class="soft">{count(unknown, "run")} without a provenance.json: not known.</p>')
    if sum(counts.values()) > len(study.runs) - unknown:
        parts.append('<p class="soft">Runs that were resumed elsewhere count with each that made them.</p>')
    return parts


def _maker(made: dict[str, Any]) -> tuple[str, str, str]:
    def text(entry: Any) -> str:
        pairs = entry.items() if isinstance(entry, dict) else ()
        return ", ".join(f"{name} {value}" for name, value in pairs if value is not None) or str(entry or "not known")

    return text(made.get("commit")), text(made.get("versions")), text(made.get("machine"))


def _settings(study: Study) -> list[str]:
    """Those in which agents differ side by side, the rest in one list."""
    differing, shared = [], []
    agents = [agent for agent in study.agents if any(run.agent == agent for run in study.runs)]
    for field in dataclasses.fields(study.runs[0].config):
        if field.name in ("agent", "env", "seed"):
            continue
        values = {agent: set[str]() for agent in agents}
        of_game: dict[str, dict[str, set[str]]] = {}
        for run in study.runs:
            values[run.agent].add(_setting(run, field.name))
            of_game.setdefault(run.env, {}).setdefault(run.agent, set()).add(_setting(run, field.name))
        name, first = field.name.replace("_", " "), values[agents[0]]
        if any(found != first for found in values.values()) or any(map(_differ, of_game.values())):
            differing.append((name, *(" or ".join(sorted(values[agent])) for agent in agents)))
        else:
            shared.append((name, " or ".join(sorted(first))))
    parts = ["<p>Between agents nothing differs but the agent itself.</p>"] if len(agents) > 1 else []
    if differing:
        parts = ["<p>These differ between agents:</p>", page.table(("setting", *agents), differing, numbers=True)]
    return [*parts, f"<details><summary>Shared by all agents</summary>{page.table(('setting', ''), shared)}</details>"]


def _differ(values: dict[str, set[str]]) -> bool:
    """Whether agents have other values than each other."""
    return len({frozenset(found) for found in values.values()}) > 1


def _setting(run: RunResult, name: str) -> str:
    value = getattr(run.config, name)
    if name == "size" and value is None:
        value = ALGORITHMS[AGENTS[run.statistics]].size if run.statistics in AGENTS else None
    if value is None:
        return "the agent's own"
    if isinstance(value, tuple):
        return f"({', '.join(f'{entry:g}' for entry in value)})"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _aggregate_scores(study: Study, tables: Tables, show: Show) -> list[str]:
    scale, rows = tables["normalisation"], []
    for env, zero, one, zero_is, one_is, used in zip(*scale.values(), strict=True):
        rows.append((label(env), f"{zero:,.4g}", zero_is, f"{one:,.4g}", one_is, "yes" if used else "no"))
    kinds = []
    if "human" in scale["one_is"]:
        kinds.append("for Atari games 0 is a random agent and 1 a human, by the usual scores")
    if any(entry != "human" for entry in scale["one_is"]):
        kinds.append(
            f"{'for other games ' if kinds else ''}1 is the mean final score of the best agent in this report, so that"
            " scores cannot be compared between reports"
        )
    if "random agent (measured)" in scale["zero_is"]:
        kinds.append("for MinAtar 0 is a random agent, measured over 1,000 episodes (benchmarks/random_scores.py)")
    if "lowest evaluation in this report" in scale["zero_is"]:
        kinds.append("where no random agent's score is known, 0 is the lowest evaluation in this report")
    about = [
        f"<p>Scores are normalised, (score - zero) / (one - zero): {html.escape('; '.join(kinds))}. Intervals take"
        " the scale as given.</p>",
        f"<details><summary>Zero and one of {count(len(rows), 'game')}</summary>"
        + page.table(("game", "zero", "which is", "one", "which is", "in aggregates"), rows, scroll=True)
        + "</details>",
    ]
    if not tables["aggregates"]["agent"]:
        return [*about, "<p>No game can be aggregated: see above.</p>"]
    return [
        f"<p>Over {count(len(study.common), 'game')} that every agent has played:</p>",
        _aggregate_table(tables["aggregates"]),
        show("aggregates"),
        '<p class="soft">The interquartile mean (IQM) is the mean of the middle half of all runs, whatever their game;'
        " mean and median are over games, of each game's mean over seeds; the optimality gap is how far scores are"
        " below 1 on average, where less is better.</p>",
        *about,
        _data("aggregates", "normalisation"),
    ]


def _aggregate_table(rows: Table) -> str:
    lines: list[list[page.Cell]] = []
    best = {}
    for name in MEASURES:
        values = select(rows, measure=name)["value"]
        best[name] = values.min() if name == "optimality gap" else values.max()
    for agent in study_figures.agents_in(rows):
        found = [select(rows, agent=agent, measure=name) for name in MEASURES]
        cells = [
            page.Cell(interval(one["value"][0], one["low"][0], one["high"][0]), bool(one["value"][0] == best[name]))
            for name, one in zip(MEASURES, found, strict=True)
        ]
        lines.append([page.Cell(agent), *cells])
    return page.table(("agent", *MEASURES), lines, numbers=True)


def interval(value: float, low: float, high: float) -> str:
    """A number and its interval, if it has one."""
    return f"{value:.3f}" if math.isnan(low) else f"{value:.3f} [{low:.3f},\u00a0{high:.3f}]"


def _profiles(tables: Tables, show: Show) -> list[str]:
    if not tables["profiles"]["agent"]:
        return ["<p>No game can be aggregated.</p>"]
    return [show("profiles"), _data("profiles")]


def _improvement(tables: Tables, show: Show) -> list[str]:
    rows = tables["improvement"]
    if not rows["agent"]:
        return ["<p>It takes two agents that have played the same game.</p>"]
    lines = [
        (agent, other, interval(*numbers))
        for agent, other, *numbers in zip(*rows.values(), strict=True)
    ]  # fmt: skip
    pairs = page.table(("X", "Y", "P(X > Y)"), lines, numbers=True)
    return [
        show("improvement"),
        show("improvement-pairs"),
        f"<details><summary>All {len(lines)} ordered pairs with intervals</summary>{pairs}</details>",
        _data("improvement"),
    ]


def _curves(study: Study, tables: Tables, show: Show) -> list[str]:
    expected, rows = study.expected_seeds, tables["curves"]
    lines = []
    for (env, agent), found in study_figures.grouped(rows, "env", "agent").items():
        changes = np.flatnonzero(np.diff(found["seeds"], prepend=expected[env, agent]))
        parts = [f"{found['seeds'][at]} from step {found['step'][at]:,} on" for at in changes]
        if (found["seeds"] < expected[env, agent]).any():
            lines.append((label(env), agent, f"{'; '.join(parts)} (of {expected[env, agent]})"))
    fewer = [page.table(("game", "agent", "seeds behind the mean"), lines)] if lines else []
    note = ["<p>Fewer seeds than there should be stand behind these curves:</p>"] if lines else []
    return [show("curves"), *note, *fewer, _data("curves")]


def _efficiency(tables: Tables, show: Show) -> list[str]:
    if not tables["sample_efficiency"]["agent"]:
        return ["<p>There is no step at which every game has been evaluated.</p>"]
    return [show("sample-efficiency"), _data("sample_efficiency")]


def _calibration(study: Study, tables: Tables, show: Show) -> list[str]:
    rows = tables["calibration"]
    if not rows["agent"]:
        return ["<p>No run has compared its laws with the returns that it got (calibration.csv).</p>"]
    lines = []
    for (env, agent), found in study_figures.grouped(rows, "env", "agent").items():
        numbers = (f"{found[name].mean():.3g}" for name in ("expected", "got", "spread", "scatter"))
        lines.append((label(env), agent, *numbers, f"{found['within'].mean():.0%}"))
    head = ("game", "agent", "expected", "got", "std learnt", "std got", "within 90 %")
    return [
        show("calibration"),
        "<details><summary>The numbers</summary>" + page.table(head, lines, numbers=True) + "</details>",
        '<p class="soft">Discounted returns after moments of the evaluations, beside the laws that the agent had learnt'
        f" for them; means over seeds, of the last {LAST} evaluations. The standard deviation got is that of the return"
        " less what was expected, and so holds whatever expectations get wrong from state to state. Within 90 %: the"
        " share of returns between the learnt quantiles at 0.05 and 0.95.</p>",
        _data("calibration"),
    ]


def _maxima(study: Study, tables: Tables) -> list[str]:
    return [
        "<p>The maximum over training of the evaluation mean, averaged over seeds, ± the standard error over seeds."
        " The best of this report's agents is bold, and so is the best of the paper's;"
        " (4 of 5) says that fewer seeds count than elsewhere.</p>",
        _score_table(study, tables["games"], "maximum"),
        "<p class='soft'>Paper: Table 1 of Rowland et al. (2019), after 200 million frames (50 million agent steps);"
        " random and human as in that table's normalisation.</p>"
        if _paper_rows(study)
        else "",
        "<details><summary>Final scores in the same form</summary>"
        + _score_table(study, tables["games"], "final")
        + "</details>",
        _data("games", "scores"),
    ]


def _paper_rows(study: Study) -> dict[str, dict[str, float]]:
    """Of the Atari games in the study: the paper's row of each."""
    known = atari57.games()
    rows = {game: {name: known[name][at] for name in known} for at, game in enumerate(known["game"])}
    return {env: rows[env] for env in study.games if env in rows}


def _score_table(study: Study, rows: Table, kind: str) -> str:
    """Games by agents, beside the paper's agents and the scores of a human and a random agent where they are known."""
    paper, measured = _paper_rows(study), random_scores()
    most = max(rows["seeds"], default=1)
    lines: list[list[page.Cell]] = []
    for env in study.games:
        found = {agent: select(rows, env=env, agent=agent) for agent in study.agents}
        values = {agent: float(one[kind][0]) for agent, one in found.items() if len(one[kind])}
        line = [page.Cell(label(env))]
        for agent, one in found.items():
            if agent not in values:
                line.append(page.Cell("–"))
                continue
            error, seeds = float(one[f"{kind}_error"][0]), int(one["seeds"][0])
            text = _score(values[agent]) + ("" if math.isnan(error) else f" ±\u00a0{_score(error, values[agent])}")
            text += f" ({seeds}\u00a0of\u00a0{most})" if seeds < most else ""
            line.append(page.Cell(text, values[agent] == max(values.values())))
        known = paper.get(env, {})
        for agent in atari57.PAPER_AGENTS if paper else ():
            best = bool(known) and known[agent] == max(known[name] for name in atari57.PAPER_AGENTS)
            line.append(page.Cell(_score(known[agent]) if known else "–", best, soft=True))
        random = known.get("random", measured.get(env))
        line.append(page.Cell("–" if random is None else _score(random), soft=True))
        if paper:
            line.append(page.Cell(_score(known["human"]) if known else "–", soft=True))
        lines.append(line)
    beside = (*(f"{agent} (paper)" for agent in atari57.PAPER_AGENTS), "random", "human") if paper else ("random",)
    return page.table(("game", *study.agents, *beside), lines, numbers=True)


def _score(number: float, like: float | None = None) -> str:
    """With as many digits as one can use; an error with as many as its score."""
    size = abs(number if like is None else like)
    return f"{number:,.0f}" if size >= 1e4 else f"{number:,.1f}" if size >= 100 else f"{number:.2f}"


def _speed(study: Study, tables: Tables) -> list[str]:
    rows = tables["speed"]
    if not rows["agent"]:
        return ["<p>Absent: no run has a timing.csv.</p>"]
    lines = []
    for agent in study.agents:
        found = select(rows, agent=agent)
        timed, count = len(found["seconds"]), sum(run.agent == agent for run in study.counted)
        if not timed:
            lines.append((agent, f"0 of {count}", "–", "–", "–"))
            continue
        lines.append((agent, f"{timed} of {count}", _spread(found["seconds"]), _spread(found["steps_per_second"]),
                      f"{found['seconds_done_twice'].sum():,.0f}"))  # fmt: skip
    head = ("agent", "runs timed", "seconds a run", "agent steps a second", "seconds done twice")
    note = (
        '<p class="soft">Median over runs (least to most). The time of a run is that of its training loop, evaluations'
        " and compilation included; what was done twice, since a process ended between two checkpoints, is counted"
        " apart. Runs that share a machine slow each other down.</p>"
    )
    return [page.table(head, lines, numbers=True), note, _data("speed")]


def _spread(numbers: np.ndarray) -> str:
    return f"{np.median(numbers):,.0f} ({numbers.min():,.0f} to {numbers.max():,.0f})"


def count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _data(*names: str) -> str:
    links = ", ".join(f'<a href="data/{name}.csv">{name}.csv</a>' for name in names)
    return f'<p class="soft">Data: {links}.</p>'
