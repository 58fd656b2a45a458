"""The tables of a report, measured from what runs have left behind."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, combinations, product

import numpy as np

from edrl.deep.calibration import CALIBRATION, Calibration
from edrl.report import aggregates
from edrl.study.results import Study, mean_and_error
from edrl.study.runs import Key, RunResult
from edrl.study.tables import Table, Tables, from_rows

Points = tuple[np.ndarray, np.ndarray]
"""Steps, and the scores at them."""
RAW_MEASURES = ("mean", "IQM")  # of one game's raw scores, of which none is optimal
MOST_STEPS = 60  # on the curve of the aggregate, each of which is a bootstrap of its own


def measure(study: Study) -> Tables:
    """Every table of the report."""
    return {
        "scores": _scores(study),
        "normalisation": _normalisation(study),
        "aggregates": _aggregates(study),
        "profiles": _profiles(study),
        "improvement": _improvement(study),
        "curves": _curves(study, study.evaluated, _evaluations),
        "training": _curves(study, study.runs, _training_scores),
        "sample_efficiency": _sample_efficiency(study),
        "games": _by_game(study),
        "calibration": calibration((run.key, run.calibrated) for run in study.counted),
        "speed": _speed(study),
    }


def _by_game_and_agent(
    study: Study, runs: Sequence[RunResult]
) -> dict[tuple[str, str], list[RunResult]]:
    """The runs of each agent in each game, in the order of tables; none is empty."""
    found: dict[tuple[str, str], list[RunResult]] = {}
    for pair in product(study.games, study.played):
        own = [run for run in runs if (run.env, run.agent) == pair]
        if own:
            found[pair] = own
    return found


def _aggregated(study: Study) -> list[str]:
    """The agents that are aggregated: none if they have no game in common."""
    return study.played if study.common else []


def _rows(*columns: np.ndarray) -> Iterable[tuple[float, ...]]:
    """The rows of some columns, in Python's own numbers."""
    return zip(*(column.tolist() for column in columns), strict=True)


def _scores(study: Study) -> Table:
    counted = {run.key for run in study.counted}
    columns = (
        "agent", "env", "seed", "planned", "reached", "evaluations", "finished", "counted", "final",
        "final_normalised", "maximum", "training", "directory",
    )  # fmt: skip
    rows = []
    for run in study.runs:
        progress = (run.planned, run.reached, len(run.scores), run.finished, run.key in counted)
        evaluated = (run.final, _normalised_final(study, run), run.maximum)
        rows.append((*run.key, *progress, *evaluated, run.final_training, str(run.path)))
    return from_rows(columns, rows)


def _normalised_final(study: Study, run: RunResult) -> float:
    scale = study.scales.get(run.env)
    return scale(run.final) if scale is not None and scale.usable else np.nan


def _normalisation(study: Study) -> Table:
    rows = []
    for env, scale in study.scales.items():
        rows.append((env, *dataclasses.astuple(scale), env in study.common))
    return from_rows(("env", "zero", "one", "zero_is", "one_is", "aggregated"), rows)


def _aggregates(study: Study) -> Table:
    rows = []
    names = RAW_MEASURES if study.raw else tuple(aggregates.MEASURES)
    for agent, name in product(_aggregated(study), names):
        found = aggregates.estimate(aggregates.MEASURES[name], study.normalised(agent))
        rows.append((agent, name, *dataclasses.astuple(found)))
    return from_rows(("agent", "measure", "value", "low", "high"), rows)


def _profiles(study: Study) -> Table:
    scores = {agent: study.normalised(agent) for agent in _aggregated(study)}
    taus = _taus(list(chain.from_iterable(scores.values())), study.raw)
    rows: list[tuple[object, ...]] = []
    for agent, games in scores.items():
        found = aggregates.profile(games, taus)
        rows += [(agent, *row) for row in _rows(taus, found.value, found.low, found.high)]
    return from_rows(("agent", "tau", "share", "low", "high"), rows)


def _taus(scores: Sequence[np.ndarray], raw: bool) -> np.ndarray:
    """Where profiles are drawn."""
    if raw:
        low, high = np.min(np.concatenate(scores)), np.max(np.concatenate(scores))
        margin = 0.05 * (high - low) or 1.0
        return np.linspace(low - margin, high + margin, 201)
    everything = np.concatenate([[0.0, 1.0], *scores])
    # On Atari some scores are a hundred times human: beyond eight times there is little to see.
    return np.linspace(everything.min(), min(everything.max(), 8.0) * 1.02, 201)


def _improvement(study: Study) -> Table:
    rows = []
    for agent, other in combinations(_aggregated(study), 2):
        found = aggregates.improvement(study.normalised(agent), study.normalised(other))
        rows.append((agent, other, found.value, found.low, found.high))
        rows.append((other, agent, 1 - found.value, 1 - found.high, 1 - found.low))
    return from_rows(("agent", "other", "probability", "low", "high"), rows)


def _evaluations(run: RunResult) -> Points:
    return run.steps, run.scores


def _training_scores(run: RunResult) -> Points:
    return np.array(run.training["step"], np.int64), np.array(run.training["score"])


def _curves(
    study: Study, runs: Sequence[RunResult], points: Callable[[RunResult], Points]
) -> Table:
    """The mean score over all seeds that reached a step, with those of unfinished runs."""
    rows: list[tuple[object, ...]] = []
    for pair, own in _by_game_and_agent(study, runs).items():
        rows += [(*pair, *row) for row in _curve(list(map(points, own)))]
    return from_rows(("env", "agent", "step", "mean", "low", "high", "seeds"), rows)


def _curve(runs: Sequence[Points]) -> Iterable[tuple[float, ...]]:
    steps = np.unique(np.concatenate([own for own, _ in runs]))
    curves = np.full((len(runs), len(steps)), np.nan)
    for curve, (own, scores) in zip(curves, runs, strict=True):
        curve[np.searchsorted(steps, own)] = scores
    found = aggregates.mean_curve(curves)
    seeds = (~np.isnan(curves)).sum(axis=0)
    return _rows(steps, found.value, found.low, found.high, seeds)


def _sample_efficiency(study: Study) -> Table:
    rows = []
    for agent in _aggregated(study):
        by_step = _scores_by_step(study, agent)
        complete = sorted(step for step in by_step if len(by_step[step]) == len(study.common))
        for step in _evenly_chosen(complete):
            games = [np.array(scores) for scores in by_step[step].values()]
            found = aggregates.estimate(aggregates.interquartile_mean, games)
            rows.append((agent, step, *dataclasses.astuple(found), sum(map(len, games))))
    return from_rows(("agent", "step", "IQM", "low", "high", "runs"), rows)


def _scores_by_step(study: Study, agent: str) -> dict[int, dict[str, list[float]]]:
    """Step -> game -> the normalised scores of an agent's evaluations."""
    found: dict[int, dict[str, list[float]]] = {}
    for run in study.runs:
        if run.agent == agent and run.env in study.common:
            scores = study.scales[run.env](run.scores)
            for step, score in _rows(run.steps, scores):
                found.setdefault(int(step), {}).setdefault(run.env, []).append(score)
    return found


def _evenly_chosen(steps: Sequence[int]) -> list[int]:
    """At most MOST_STEPS of the steps, the first and the last among them."""
    places = np.linspace(0, len(steps) - 1, min(len(steps), MOST_STEPS)).round().astype(int)
    return [steps[place] for place in np.unique(places)]


def _by_game(study: Study) -> Table:
    """Maximum, final and training scores, means over seeds with standard errors."""
    kinds = {"maximum": "maximum", "final": "final", "training": "final_training"}
    rows = []
    for pair, runs in _by_game_and_agent(study, study.counted).items():
        row: list[object] = [*pair, len(runs)]
        for name in kinds.values():
            row += mean_and_error([getattr(run, name) for run in runs])
        rows.append(row)
    columns = chain.from_iterable((kind, f"{kind}_error") for kind in kinds)
    return from_rows(("env", "agent", "seeds", *columns), rows)


def calibration(runs: Iterable[tuple[Key, Calibration | None]]) -> Table:
    """Learnt distributions beside the returns that followed, a row for each run that has them."""
    rows = []
    for key, found in runs:
        if found is not None:
            rows.append((*key, *(getattr(found, name) for name in CALIBRATION[1:])))
    return from_rows(("agent", "env", "seed", *CALIBRATION[1:]), rows)


def _speed(study: Study) -> Table:
    """Seconds and steps a second of each run that counts and has timed itself."""
    rows = []
    for run in study.counted:
        if run.timing is not None:
            time = run.timing
            numbers = (time.seconds, time.seconds_done_twice, time.steps / time.seconds)
            rows.append((*run.key, *numbers))
    columns = ("agent", "env", "seed", "seconds", "seconds_done_twice", "steps_per_second")
    return from_rows(columns, rows)
