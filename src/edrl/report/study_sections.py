"""The sections of a report's page, in the order in which it shows them."""

import html
import math
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np

from edrl.core.words import count
from edrl.report import page
from edrl.report.aggregates import RESAMPLES
from edrl.report.run_sections import what_was_run
from edrl.report.score_tables import maxima, training_beside_evaluations
from edrl.report.study_figures import label
from edrl.study.results import Study
from edrl.study.runs import LAST, RUNS
from edrl.study.tables import Columns, Table, Tables, grouped, select
from edrl.study.training_scores import SHARE

TITLE = "Deep agents compared"


Show = Callable[[str], str]
"""The figure of a name, inside the page; nothing if there was nothing to draw."""


def body(study: Study, tables: Tables, warnings: list[str], show: Show) -> list[str]:
    sections = (
        ("run", "What was run", what_was_run(study)),
        ("aggregates", "Aggregate scores", _aggregate_scores(study, tables, show)),
        ("profiles", "Performance profiles", _profiles(tables, show)),
        ("improvement", "Probability of improvement", _improvement(tables, show)),
        ("curves", "Learning curves", _curves(study, tables, show)),
        ("efficiency", "Sample efficiency", _efficiency(tables, show)),
        ("calibration", "Learnt return distributions", _calibration(study, tables, show)),
        ("maxima", "Maximum scores, as in the paper's table", maxima(study, tables)),
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
    about = _scales(study, tables["normalisation"])
    if not tables["aggregates"]["agent"]:
        return [*about, "<p>No game can be aggregated: see above.</p>"]
    return [
        f"<p>Over {count(len(study.common), 'game')} that every agent has played:</p>",
        _aggregate_table(tables["aggregates"]),
        show("aggregates"),
        page.note(_RAW_MEASURES if study.raw else _MEASURES),
        *about,
        page.data_links("aggregates", "normalisation"),
    ]


_RAW_MEASURES = (
    "Final scores as the game gives them, over seeds. The interquartile mean (IQM) is the mean of"
    " the middle half of all runs."
)
_MEASURES = (
    "The interquartile mean (IQM) is the mean of the middle half of all runs, of all games together."
    " Mean and median are over games, of each game's mean over seeds. The optimality gap is how far"
    " scores are below 1 on average: less is better."
)


def _scales(study: Study, scale: Table) -> list[str]:
    """What normalised scores are, and the zero and one of each game."""
    if study.raw:
        (env,) = study.common
        return [f"<p>Scores are raw: only {html.escape(label(env))} has been played by all.</p>"]
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
        page.details(games, page.table(head, rows)),
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
    best, names = {}, dict.fromkeys(rows["measure"])
    for name in names:
        values = select(rows, measure=name)["value"]
        best[name] = values.min() if name == "optimality gap" else values.max()
    lines: list[list[page.Cell]] = []
    for agent in dict.fromkeys(rows["agent"]):
        line = [page.Cell(agent)]
        for name in names:
            one = select(rows, agent=agent, measure=name)
            text = interval(one["value"][0], one["low"][0], one["high"][0])
            line.append(page.Cell(text, bool(one["value"][0] == best[name])))
        lines.append(line)
    return page.table(("agent", *names), lines, numbers=True)


def interval(value: float, low: float, high: float) -> str:
    """A number and its interval, if it has one."""
    form = ".3f" if abs(value) < 10 else ",.1f"  # raw scores may be large
    if math.isnan(low):
        return f"{value:{form}}"
    return f"{value:{form}} [{low:{form}},\u00a0{high:{form}}]"


def _profiles(tables: Tables, show: Show) -> list[str]:
    if not tables["profiles"]["agent"]:
        return ["<p>No game can be aggregated.</p>"]
    return [show("profiles"), page.data_links("profiles")]


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
        page.data_links("improvement"),
    ]


def _curves(study: Study, tables: Tables, show: Show) -> list[str]:
    return [
        show("curves"),
        *_fewer_seeds(study, tables["curves"]),
        page.data_links("curves"),
        "<h3>Training beside evaluations</h3>",
        *_training(tables, show),
    ]


def _fewer_seeds(study: Study, curves: Table) -> list[str]:
    lines = []
    for (env, agent), found in grouped(curves, "env", "agent").items():
        expected = study.expected_seeds[env, agent]
        if (found["seeds"] < expected).any():
            lines.append((label(env), agent, f"{_changes(found, expected)} (of {expected})"))
    if not lines:
        return []
    return [
        "<p>Fewer seeds than there should be stand behind these curves:</p>",
        page.table(("game", "agent", "seeds behind the mean"), lines),
    ]


def _training(tables: Tables, show: Show) -> list[str]:
    if not tables["training"]["agent"]:
        return ["<p>Of these runs no scores of training episodes are kept.</p>"]
    return [
        show("training"),
        "<p>Scores at the end, means over seeds ± the standard error over seeds. In training: of all"
        f" episodes that ended in the last {SHARE:.0%} of a run. In evaluations: of the last {LAST},"
        " which have few episodes each. A training score is lower where exploration costs score, and"
        " where the agent still learns.</p>",
        training_beside_evaluations(tables["games"]),
        page.data_links("training", "games", "scores"),
    ]


def _changes(curve: Columns, expected: int) -> str:
    """How many seeds stand behind a curve, from each step on at which their number changes."""
    places = np.flatnonzero(np.diff(curve["seeds"], prepend=expected))
    parts = [f"{curve['seeds'][at]} from step {curve['step'][at]:,} on" for at in places]
    return "; ".join(parts)


def _efficiency(tables: Tables, show: Show) -> list[str]:
    if not tables["sample_efficiency"]["agent"]:
        return ["<p>There is no step at which every game has been evaluated.</p>"]
    return [show("sample-efficiency"), page.data_links("sample_efficiency")]


def _calibration(study: Study, tables: Tables, show: Show) -> list[str]:
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
        warned = sum((agent, env, seed) in study.warned for seed in found["seed"].tolist())
        within, runs = f"{found['within'].mean():.0%}", len(found["seed"])
        lines.append((label(env), agent, *numbers, within, f"{warned} of {runs}"))
    head = ("game", "agent", "expected", "got", "std learnt", "std got", "within 90 %", "warned")
    table = page.table(head, lines, numbers=True)
    return [
        show("calibration"),
        *_warned(study),
        page.details("The numbers", table),
        '<p class="soft">Discounted returns after moments of the evaluations, beside the'
        " distributions that the agent had learnt for them; means over seeds, of the last"
        f" {LAST} evaluations. The standard deviation got is that of the return less what was"
        " expected, and so holds whatever expectations get wrong from state to state. Within 90 %:"
        " the share of returns between the learnt quantiles at 0.05 and 0.95. Warned: how many runs"
        " expect returns that are impossible or far from those they got.</p>",
        page.data_links("calibration"),
    ]


def _warned(study: Study) -> list[str]:
    """The warnings of runs, which training and `edrl evaluate` give as well."""
    if not study.warned:
        return []
    lines = []
    for (agent, env, seed), warning in study.warned.items():
        lines.append((label(env), agent, str(seed), warning))
    title = f"Warnings of {count(len(lines), 'run')}: expected returns that cannot be trusted"
    return [page.details(title, page.table(("game", "agent", "seed", "warning"), lines))]


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
    return [page.table(head, lines, numbers=True), note, page.data_links("speed")]


def _spread(numbers: np.ndarray) -> str:
    return f"{np.median(numbers):,.0f} ({numbers.min():,.0f} to {numbers.max():,.0f})"
