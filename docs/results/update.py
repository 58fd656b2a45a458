"""Brings the report on a study into the documentation.

`python docs/results/update.py NAME REPORT [SEARCH]` copies the runs, tables and pictures that
`edrl report` wrote to docs/results/NAME, with the search.csv of `edrl search` if there was one. It
writes the tables of docs/results/NAME.md between its marks, without paths of run directories.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from edrl.report.study_figures import label
from edrl.study.runs import RUNS, RunResult, read_runs
from edrl.study.search import best, means
from edrl.study.tables import Table, read_csv, select, write_csv

RESULTS = Path(__file__).parent
TABLES, PICTURES = ("games", "curves", "scores", "speed"), ("curves",)
# Of several games and seeds:
COMPARED = ("aggregates", "improvement"), ("aggregates", "improvement-pairs")
BEGIN, END = "<!-- tables: written by docs/results/update.py -->", "<!-- end of tables -->"


def block(name: str) -> str:
    """What stands between the marks of a page: tables of what lies in its directory."""
    games = read_csv(RESULTS / name / "games.csv")
    parts = [_progress(name), _games(games), *_training(games)]
    if _compared(games):
        parts.append(_aggregates(read_csv(RESULTS / name / "aggregates.csv")))
        parts.append(_improvement(read_csv(RESULTS / name / "improvement.csv")))
    parts.append(_speed(read_csv(RESULTS / name / "speed.csv")))
    if (RESULTS / name / "calibration.csv").exists():
        parts.append(_calibration(read_csv(RESULTS / name / "calibration.csv")))
    if (RESULTS / name / "search.csv").exists():
        parts.append(_search(read_csv(RESULTS / name / "search.csv")))
    if (RESULTS / name / RUNS).exists():
        parts += _seed_by_seed(read_runs(RESULTS / name / RUNS)[0])
    return f"{BEGIN}\n\n" + "\n".join(parts) + f"\n{END}"


def update(name: str, report: Path, search: Path | None = None) -> None:
    """Copy what the page shows, and write its tables."""
    out = RESULTS / name
    out.mkdir(exist_ok=True)
    more = COMPARED if _compared(read_csv(report / "data" / "games.csv")) else ((), ())
    for known in ("training", "calibration"):
        if read_csv(report / "data" / f"{known}.csv")["agent"]:
            more = ((*more[0], known), (*more[1], known))
    for table in (*TABLES, *more[0]):
        rows = read_csv(report / "data" / f"{table}.csv")
        rows.pop("directory", None)
        write_csv(out / f"{table}.csv", rows)
    shutil.copy(report / RUNS, out / RUNS)
    for picture in (*PICTURES, *more[1]):
        shutil.copy(report / "figures" / f"{picture}.png", out / f"{picture}.png")
    if search is not None and search.resolve() != (out / "search.csv").resolve():
        shutil.copy(search, out / "search.csv")
    page = RESULTS / f"{name}.md"
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    page.write_text(before + block(name) + rest.split(END)[1], encoding="utf-8")


def _compared(games: Table) -> bool:
    """Whether agents can be compared: over several games, with intervals."""
    return len(set(games["env"])) > 1 and max(games["seeds"]) > 1


def _agents(rows: Table) -> list[str]:
    """The agents of a table, in the order in which the report wrote them."""
    return list(dict.fromkeys(rows["agent"]))


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _progress(name: str) -> str:
    """How many runs there are, and how many are still to come."""
    rows = read_csv(RESULTS / name / "scores.csv")
    finished, steps = sum(rows["finished"]), max(rows["planned"])
    runs = RESULTS / name / RUNS  # older results lack it; they are whole
    planned = max(len(rows["agent"]), len(read_runs(runs)[1]) if runs.exists() else 0)
    if finished == planned:
        return f"{finished} runs of {steps:,} agent steps.\n"
    so_far = f"**{finished} of {planned} runs** have come to {steps:,} agent steps so far"
    return f"{so_far}; the others do not count.\n"


def _games(rows: Table) -> str:
    """Final and highest scores: the mean over seeds, with its standard error."""
    agents = _agents(rows)
    lines = []
    for env in dict.fromkeys(rows["env"]):
        found = [select(rows, env=env, agent=agent) for agent in agents]
        scores = [f"{_score(one, 'final')}; {_score(one, 'maximum')}" for one in found]
        lines.append([label(env), *scores])
    fewest, most = min(rows["seeds"]), max(rows["seeds"])
    seeds = (
        f"{most} seed{'' if most == 1 else 's'}" if fewest == most else f"{fewest} to {most} seeds"
    )
    text = f"Scores of evaluations: the mean of the last three; the highest. Means over {seeds}"
    text += " ± standard error" if most > 1 else ""
    return f"{text}:\n\n{_markdown(['', *agents], lines)}"


def _training(rows: Table) -> list[str]:
    """Scores of training episodes, if they are known: older results lack them."""
    known = [score for score in rows.get("training", ()) if score == score]
    if not known:
        return []
    agents, lines = _agents(rows), []
    for env in dict.fromkeys(rows["env"]):
        found = [select(rows, env=env, agent=agent) for agent in agents]
        lines.append([label(env), *(_score(one, "training") for one in found)])
    text = (
        "Scores in training, with exploration: the mean of all episodes in the last tenth of a run"
    )
    return [f"{text}:\n\n{_markdown(['', *agents], lines)}"]


def _score(row: dict[str, np.ndarray], kind: str) -> str:
    if not len(row[kind]) or row[kind][0] != row[kind][0]:
        return "–"
    value, error = float(row[kind][0]), float(row[f"{kind}_error"][0])
    return f"{value:.2f}" if error != error else f"{value:.2f} ± {error:.2f}"


def _aggregates(rows: Table) -> str:
    measures = list(dict.fromkeys(rows["measure"]))
    lines = []
    for agent in _agents(rows):
        found = [select(rows, agent=agent, measure=measure) for measure in measures]
        lines.append([agent, *(_interval(one, "value") for one in found)])
    table = _markdown(["", *measures], lines)
    if "optimality gap" not in measures:  # agents share one game, whose scores are raw
        return f"Raw final scores in the game that all agents share [95 % interval]:\n\n{table}"
    return f"Normalised final scores over all games [95 % interval]:\n\n{table}"


def _improvement(rows: Table) -> str:
    agents = _agents(rows)
    lines = []
    for agent in agents:
        pairs = [select(rows, agent=agent, other=other) for other in agents]
        lines.append([agent, *(_interval(pair, "probability") for pair in pairs)])
    text = (
        "Probability that a run of the agent in the row is better than one of the agent in the"
        " column, on a game drawn at random [95 % interval]"
    )
    return f"{text}:\n\n{_markdown(['', *agents], lines)}"


def _interval(row: dict[str, np.ndarray], name: str) -> str:
    """A number with its interval; empty if there is none."""
    if not len(row[name]):
        return ""
    value, low, high = (float(row[column][0]) for column in (name, "low", "high"))
    return f"{value:.2f}" if low != low else f"{value:.2f} [{low:.2f}, {high:.2f}]"


def _speed(rows: Table) -> str:
    lines = []
    for agent in _agents(rows):
        speeds = [float(speed) for speed in select(rows, agent=agent)["steps_per_second"]]
        lines.append([agent, _median(speeds, ",.0f")])
    text = "Agent steps a second, evaluations included, median over runs (least to most)"
    return f"{text}:\n\n{_markdown(['', 'steps/s'], lines)}"


def _calibration(rows: Table) -> str:
    """How wide the learnt distributions are, of agents that learn more than a mean."""
    agents = [agent for agent in _agents(rows) if select(rows, agent=agent)["spread"].any()]
    lines = []
    for env in dict.fromkeys(rows["env"]):
        found = [select(rows, env=env, agent=agent) for agent in agents]
        ratios = [_median(one["spread"] / one["scatter"], ".2g") for one in found]
        lines.append([label(env), *ratios])
    text = (
        "The learnt standard deviation of returns as a multiple of how far they scatter around what"
        " was expected, median over seeds (least to most)"
    )
    return f"{text}:\n\n{_markdown(['', *agents], lines)}"


def _seed_by_seed(runs: Sequence[RunResult]) -> list[str]:
    """What every run came to at its very last evaluation, if that looked at distributions."""
    known = [run for run in runs if run.finished and run.calibration["step"]]
    rows: dict[tuple[str, str], list[RunResult]] = {}
    for run in sorted(known, key=lambda run: run.config.seed):
        rows.setdefault((run.agent, run.env), []).append(run)
    if not rows:
        return []
    head = ["", "", "score", "expected/got", "spread/scatter", "within"]
    lines = []
    for (agent, env), found in rows.items():
        columns = zip(*map(_last_evaluation, found), strict=True)
        cells = ["–" if set(column) == {"–"} else ", ".join(column) for column in columns]
        lines.append([agent, label(env), *cells])
    text = "The last evaluation alone. Agents of a mean alone have no spread"
    return [f"## Seed by seed\n\n{text}:\n\n{_markdown(head, lines)}"]


def _last_evaluation(run: RunResult) -> tuple[str, str, str, str]:
    """The score of a run, how much of its returns it expects and how well it knows their spread."""
    last = {name: rows[-1] for name, rows in run.calibration.items()}
    expected = f"{last['expected'] / last['got']:.2f}" if last["got"] else "–"
    score = f"{run.scores[-1]:.3g}"
    if not last["spread"]:
        return score, expected, "–", "–"
    spread = f"{last['spread'] / last['scatter']:.2f}" if last["scatter"] else "–"
    return score, expected, spread, f"{100 * last['within']:.0f} %"


def _median(numbers: Any, form: str) -> str:
    """With the least and the most, if there are several."""
    if not len(numbers):
        return "–"
    between = f" ({min(numbers):{form}} to {max(numbers):{form}})" if len(numbers) > 1 else ""
    return f"{median(numbers):{form}}{between}"


def _search(rows: Table) -> str:
    """Final scores of every value in each game, and what decides: their normalised mean."""
    values = sorted(set(rows["value"]), key=float)
    games = list(dict.fromkeys(rows["env"]))
    averaged = means(rows)
    lines = []
    for agent, chosen in best(rows).items():
        line = [agent]
        for env in games:
            found = [select(rows, agent=agent, env=env, value=value) for value in values]
            line.append("; ".join(f"{one['final'][0]:.1f}" for one in found))
        numbers = {value: f"{averaged[agent, value]:.2f}" for value in values}
        numbers[chosen] = f"**{numbers[chosen]}**"
        lines.append([*line, "; ".join(numbers.values())])
    tried = "; ".join(f"{value:g}" for value in values)
    text = f"The search: final scores with {tried}, and the mean of normalised ones"
    table = _markdown(["", *map(label, games), "normalised"], lines)
    return f"{text} (the best in bold):\n\n{table}"


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    if not (RESULTS / f"{sys.argv[1]}.md").exists():
        sys.exit(f"NAME is {sys.argv[1]!r}: write a page {sys.argv[1]}.md with the marks first")
    for file in (Path(sys.argv[2], "data", "games.csv"), *map(Path, sys.argv[3:])):
        if not file.exists():
            sys.exit(
                f"there is no {file}: REPORT is what `edrl report` wrote, SEARCH the search.csv of"
                " `edrl search`"
            )
    update(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) == 4 else None)
