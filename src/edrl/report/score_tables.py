"""The sections of a report's page with scores game by game, beside those of others."""

import math

from edrl.report import page
from edrl.report.study_figures import label
from edrl.study import atari57
from edrl.study.results import Study, random_scores
from edrl.study.tables import Table, Tables, rows_of, select


def maxima(study: Study, tables: Tables) -> list[str]:
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
        page.data_links("games", "scores"),
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
        value, seeds = float(found[kind][0]), int(found["seeds"][0])
        text = _with_error(value, float(found[f"{kind}_error"][0]))
        if seeds < most:
            text += f" ({seeds}\u00a0of\u00a0{most})"
        cells.append(page.Cell(text, value == best))
    return cells


def _with_error(value: float, error: float) -> str:
    """A mean and its standard error, where they are known."""
    if math.isnan(value):
        return "–"
    return _score(value) if math.isnan(error) else f"{_score(value)} ±\u00a0{_score(error, value)}"


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


def training_beside_evaluations(games: Table) -> str:
    """The training score of each agent in each game, beside its final score of evaluations."""
    lines = []
    for row in rows_of(games):
        kinds = ("training", "final")
        scores = [_with_error(row[kind], row[f"{kind}_error"]) for kind in kinds]
        lines.append((label(row["env"]), row["agent"], *scores, str(row["seeds"])))
    head = ("game", "agent", "in training", "in evaluations", "seeds")
    return page.table(head, lines, numbers=True)
