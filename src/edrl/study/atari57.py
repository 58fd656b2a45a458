"""Human-normalised scores on the 57 Atari games: the paper's agents, and through `summary`
anybody's."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path

import numpy as np
from scipy.stats import bootstrap, trim_mean

from edrl.core.check import fail
from edrl.study.tables import Table, from_rows, read_csv, table

PAPER_AGENTS = ("QR-DQN", "ER-DQN-naive", "ER-DQN")
_MEASURES: dict[str, Callable[..., np.ndarray]] = {
    "mean": np.mean,
    "median": np.median,
    "IQM": partial(trim_mean, proportiontocut=0.25),
}

Scores = Mapping[str, Mapping[str, float]]
"""Raw scores: agent -> game -> score."""


def games() -> Table:
    """The table of the paper's scores with those of a random agent and of a human."""
    return read_csv(Path(str(files("edrl.study") / "data" / "atari57.csv")))


def paper_scores() -> dict[str, dict[str, float]]:
    """The raw scores of the paper's agents."""
    known = games()
    return {agent: dict(zip(known["game"], known[agent], strict=True)) for agent in PAPER_AGENTS}


def human_normalised(scores: Mapping[str, float]) -> dict[str, float]:
    """100 (score - random) / (human - random) for each game: 0 is a random agent, 100 a human."""
    known = games()
    bounds = dict(
        zip(known["game"], zip(known["random"], known["human"], strict=True), strict=True)
    )
    found = {}
    for game, score in scores.items():
        if game not in bounds:
            raise fail("game", game, f"it must be one of the 57: {', '.join(bounds)}")
        low, high = bounds[game]
        found[game] = 100 * (score - low) / (high - low)
    return found


def normalised_table(agents: Scores) -> Table:
    """Human-normalised scores, a row for each game that all agents have played, a column for
    each agent."""
    normal = {agent: human_normalised(scores) for agent, scores in agents.items()}
    common = sorted(set.intersection(*map(set, normal.values())))
    if not common:
        raise fail("agents", list(agents), "they must have a game in common")
    columns = {agent: [scores[game] for game in common] for agent, scores in normal.items()}
    return table(game=common, **columns)


def summary(normalised: Table) -> Table:
    """Mean, median, interquartile mean and games won of each agent, with 95 % bootstrap
    intervals over the games.

    A game that several agents win is shared between them.
    """
    agents = [name for name in normalised if name != "game"]
    scores = np.array([normalised[agent] for agent in agents], np.float64)
    best = scores == scores.max(axis=0)
    won = (best / best.sum(axis=0)).sum(axis=1).tolist()
    rows: list[tuple[object, ...]] = []
    for agent, own, wins in zip(agents, scores, won, strict=True):
        rows += [(agent, name, *_with_interval(name, own)) for name in _MEASURES]
        rows.append((agent, "games won", wins, np.nan, np.nan))
    return from_rows(("agent", "measure", "value", "low", "high"), rows)


def _with_interval(name: str, scores: np.ndarray) -> tuple[float, float, float]:
    """A measure of an agent's scores, and the ends of its interval."""
    measure = _MEASURES[name]
    found = bootstrap(
        (scores,),
        measure,
        axis=0,
        n_resamples=4999,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(measure(scores, axis=0)), float(found.low), float(found.high)
