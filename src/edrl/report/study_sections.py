"""The sections of a report's page, in the order in which it shows them."""

import html
import math
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np

from edrl.report import page
from edrl.report.aggregates import MEASURES, RESAMPLES
from edrl.report.run_sections import count, what_was_run
from edrl.report.study_figures import label
from edrl.study import atari57
from edrl.study.results import Study, random_scores
from edrl.study.runs import LAST, RUNS
from edrl.study.tables import Columns, Table, Tables, grouped, rows_of, select

TITLE = "Deep agents compared"


Show = Callable[[str], str]
"""The figure of a name, inside the page; nothing if there was nothing to draw."""


def body(study: Study, tables: Tables, warnings: list[str], show: Show) -> list[str]:
    sections = (
        ("run", "What was run", what_was_run(study)),
        ("aggregates", "Aggregate scores", _aggregate_scores(study, tables, show)),
        ("profiles", "Performance profiles", _profiles(tables, show)),
        ("improvement", "Probability of improvement", _improvement(tables, show)),
        ("curves", "Training curves", _curves(study, tables, show)),
        ("efficiency", "Sample efficiency", _efficiency(tables, show)),
        ("calibration", "Learnt return distributions", _calibration(tables, show)),
        ("maxima", "Maximum scores, as in the paper's table", _maxima(study, tables)),
        ("speed", "Time and throughput", _speed(study, tables)),
    )
    state = "; ".join(warnings) + "." if warnings else "All runs are there and finished."
    lines = [
        f"<h1>{TITLE}</h1>",
        page.summary(state[0].upper() + state[1:], bool(warnings)),
        f'<p class="soft">Written by edrl {datetime.now(UTC):%Y-%m-%d %H:%M} UTC. Intervals are 95'
        f" % percentile intervals of a bootstrap with {RESAMPLES:,} resamples, which draws the"
        " seeds of each game with replacement (Agarwal et al., 2021); with few seeds they are"
        " somewhat too narrow. They say nothing about other games."
        ' One row a run: <a href="data/scores.csv">scores.csv</a>; for machines: <a'
        ' href="summary.json">summary.json</a>; every evaluation of every run, which later reports'
        f' can be made from: <a href="{RUNS}">{RUNS}</a>.</p>',
        page.contents((anchor, title) for anchor, title, _ in sections),
    ]
    for anchor, title, content in sections:
        lines += [f'<h2 id="{anchor}">{html.escape(title)}</h2>', *content]
    return lines


def _aggregate_scores(study: Study, tables: Tables, show: Show) -> list[str]:
    about = _scales(tables["normalisation"])
    if not tables["aggregates"]["agent"]:
        return [*about, "<p>No game can be aggregated: see above.</p>"]
    return [
        f"<p>Over {count(len(study.common), 'game')} that every agent has played:</p>",
        _aggregate_table(tables["aggregates"]),
        show("aggregates"),
        '<p class="soft">The interquartile mean (IQM) is the mean of the middle half of all runs,'
        " of all games together. Mean and median are over games, of each game's mean over seeds. The"
        " optimality gap is how far scores are below 1 on average: less is better.</p>",
        *about,
        _data("aggregates", "normalisation"),
    ]


def _scales(scale: Table) -> list[str]:
    """What normalised scores are, and the zero and one of each game."""
    rows = []
    for env, zero, one, zero_is, one_is, used in zip(*scale.values(), strict=True):
        ends = (f"{zero:,.4g}", zero_is, f"{one:,.4g}", one_is)
        rows.append((label(env), *ends, "yes" if used else "no"))
    head = ("game", "zero", "which is", "one", "which is", "in aggregates")
    games = f"Zero and one of {count(len(rows), 'game')}"
    return [
        "<p>Scores are normalised, (score - zero) / (one - zero):"
        f" {html.escape('; '.join(_kinds_of_scales(scale)))}. Intervals take the scale as"
        " given.</p>",
        page.details(games, page.table(head, rows, scroll=True)),
    ]


def _kinds_of_scales(scale: Table) -> list[str]:
    kinds = []
    if "human" in scale["one_is"]:
        kinds.append("for Atari games 0 is a random agent and 1 a human, by the usual scores")
    if set(scale["one_is"]) - {"human"}:
        others = "for other games " if kinds else ""
        kinds.append(
            f"{others}1 is the mean final score of the best agent in this report, so that scores"
            " cannot be compared between reports"
        )
    zeros = {
        "random agent (measured)": "for MinAtar 0 is a random agent, measured over 1,000 episodes"
        " (benchmarks/random_scores.py)",
        "lowest evaluation in this report": "where no random agent's score is known, 0 is the"
        " lowest evaluation in this report",
    }
    return [*kinds, *(text for zero, text in zeros.items() if zero in scale["zero_is"])]


def _aggregate_table(rows: Table) -> str:
    best = {}
    for name in MEASURES:
        values = select(rows, measure=name)["value"]
        best[name] = values.min() if name == "optimality gap" else values.max()
    lines: list[list[page.Cell]] = []
    for agent in dict.fromkeys(rows["agent"]):
        line = [page.Cell(agent)]
        for name in MEASURES:
            one = select(rows, agent=agent, measure=name)
            text = interval(one["value"][0], one["low"][0], one["high"][0])
            line.append(page.Cell(text, bool(one["value"][0] == best[name])))
        lines.append(line)
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
    lines = []
    for agent, other, *numbers in zip(*rows.values(), strict=True):
        lines.append((agent, other, interval(*numbers)))
    pairs = page.table(("X", "Y", "P(X > Y)"), lines, numbers=True)
    return [
        show("improvement"),
        show("improvement-pairs"),
        page.details(f"All {len(lines)} ordered pairs with intervals", pairs),
        _data("improvement"),
    ]


def _curves(study: Study, tables: Tables, show: Show) -> list[str]:
    lines = []
    for (env, agent), found in grouped(tables["curves"], "env", "agent").items():
        expected = study.expected_seeds[env, agent]
        if (found["seeds"] < expected).any():
            lines.append((label(env), agent, f"{_changes(found, expected)} (of {expected})"))
    if not lines:
        return [show("curves"), _data("curves")]
    return [
        show("curves"),
        "<p>Fewer seeds than there should be stand behind these curves:</p>",
        page.table(("game", "agent", "seeds behind the mean"), lines),
        _data("curves"),
    ]


def _changes(curve: Columns, expected: int) -> str:
    """How many seeds stand behind a curve, from each step on at which their number changes."""
    places = np.flatnonzero(np.diff(curve["seeds"], prepend=expected))
    parts = [f"{curve['seeds'][at]} from step {curve['step'][at]:,} on" for at in places]
    return "; ".join(parts)


def _efficiency(tables: Tables, show: Show) -> list[str]:
    if not tables["sample_efficiency"]["agent"]:
        return ["<p>There is no step at which every game has been evaluated.</p>"]
    return [show("sample-efficiency"), _data("sample_efficiency")]


def _calibration(tables: Tables, show: Show) -> list[str]:
    rows = tables["calibration"]
    if not rows["agent"]:
        return [
            "<p>No run has compared its distributions with the returns that it got"
            " (calibration.csv).</p>"
        ]
    lines = []
    for (env, agent), found in grouped(rows, "env", "agent").items():
        columns = ("expected", "got", "spread", "scatter")
        numbers = [f"{found[name].mean():.3g}" for name in columns]
        lines.append((label(env), agent, *numbers, f"{found['within'].mean():.0%}"))
    head = ("game", "agent", "expected", "got", "std learnt", "std got", "within 90 %")
    table = page.table(head, lines, numbers=True)
    return [
        show("calibration"),
        page.details("The numbers", table),
        '<p class="soft">Discounted returns after moments of the evaluations, beside the'
        " distributions that the agent had learnt for them; means over seeds, of the last"
        f" {LAST} evaluations. The standard deviation got is that of the return less what was"
        " expected, and so holds whatever expectations get wrong from state to state. Within 90 %:"
        " the share of returns between the learnt quantiles at 0.05 and 0.95.</p>",
        _data("calibration"),
    ]


def _maxima(study: Study, tables: Tables) -> list[str]:
    paper = (
        "<p class='soft'>Paper: Table 1 of Rowland et al. (2019), after 200 million frames (50"
        " million agent steps); random and human as in that table's normalisation.</p>"
    )
    final = _score_table(study, tables["games"], "final")
    return [
        "<p>The maximum over training of the evaluation mean, averaged over seeds, ± the standard"
        " error over seeds. The best of this report's agents is bold, and so is the best of the"
        " paper's; (4 of 5) says that fewer seeds count than elsewhere.</p>",
        _score_table(study, tables["games"], "maximum"),
        paper if _paper_rows(study) else "",
        page.details("Final scores in the same form", final),
        _data("games", "scores"),
    ]


def _paper_rows(study: Study) -> dict[str, dict[str, float]]:
    """The paper's row of each Atari game in the study."""
    return {row["game"]: row for row in rows_of(atari57.games()) if row["game"] in study.games}


def _score_table(study: Study, rows: Table, kind: str) -> str:
    """Games by agents, beside the paper's agents, a random agent and a human, where known."""
    paper = _paper_rows(study)
    lines = []
    for env in study.games:
        beside = _scores_beside(env, paper)
        lines.append([page.Cell(label(env)), *_own_scores(study, rows, env, kind), *beside])
    known = (*(f"{agent} (paper)" for agent in atari57.PAPER_AGENTS), "random", "human")
    head = ("game", *study.agents, *(known if paper else ("random",)))
    return page.table(head, lines, numbers=True)


def _own_scores(study: Study, rows: Table, env: str, kind: str) -> list[page.Cell]:
    """The scores of the report's agents in a game; the best is bold."""
    most = max(rows["seeds"], default=1)
    best = max(select(rows, env=env)[kind], default=math.nan)
    cells = []
    for agent in study.agents:
        found = select(rows, env=env, agent=agent)
        if not len(found[kind]):
            cells.append(page.Cell("–"))
            continue
        value, error = float(found[kind][0]), float(found[f"{kind}_error"][0])
        seeds = int(found["seeds"][0])
        text = _score(value)
        if not math.isnan(error):
            text += f" ±\u00a0{_score(error, value)}"
        if seeds < most:
            text += f" ({seeds}\u00a0of\u00a0{most})"
        cells.append(page.Cell(text, value == best))
    return cells


def _scores_beside(env: str, paper: dict[str, dict[str, float]]) -> list[page.Cell]:
    """The scores in a game that others have measured."""
    if env in paper:
        known = paper[env]
        best = max(known[agent] for agent in atari57.PAPER_AGENTS)
        agents = [
            page.Cell(_score(known[agent]), known[agent] == best, soft=True)
            for agent in atari57.PAPER_AGENTS
        ]
        return [*agents, *(_soft_score(known[name]) for name in ("random", "human"))]
    random = _soft_score(random_scores().get(env))
    if not paper:
        return [random]
    return [*[_soft_score(None)] * len(atari57.PAPER_AGENTS), random, _soft_score(None)]


def _soft_score(score: float | None) -> page.Cell:
    return page.Cell("–" if score is None else _score(score), soft=True)


def _score(number: float, like: float | None = None) -> str:
    """A score with as many digits as are useful; an error has as many as its score."""
    size = abs(number if like is None else like)
    if size >= 1e4:
        return f"{number:,.0f}"
    return f"{number:,.1f}" if size >= 100 else f"{number:.2f}"


def _speed(study: Study, tables: Tables) -> list[str]:
    rows = tables["speed"]
    if not rows["agent"]:
        return ["<p>No run has a timing.csv.</p>"]
    lines = []
    for agent in study.agents:
        found = select(rows, agent=agent)
        runs = sum(run.agent == agent for run in study.counted)
        timed = f"{len(found['seconds'])} of {runs}"
        numbers: tuple[str, ...] = ("–", "–", "–")
        if len(found["seconds"]):
            twice = f"{found['seconds_done_twice'].sum():,.0f}"
            numbers = (_spread(found["seconds"]), _spread(found["steps_per_second"]), twice)
        lines.append((agent, timed, *numbers))
    head = ("agent", "runs timed", "seconds a run", "agent steps a second", "seconds done twice")
    note = (
        '<p class="soft">Median over runs (least to most). The time of a run is that of its'
        " training loop, evaluations and compilation included; what was done twice, since a process"
        " ended between two checkpoints, is counted apart. Runs that share a machine slow each"
        " other down.</p>"
    )
    return [page.table(head, lines, numbers=True), note, _data("speed")]


def _spread(numbers: np.ndarray) -> str:
    return f"{np.median(numbers):,.0f} ({numbers.min():,.0f} to {numbers.max():,.0f})"


def _data(*names: str) -> str:
    links = ", ".join(page.link(f"data/{name}.csv", f"{name}.csv") for name in names)
    return page.note(f"Data: {links}.")
