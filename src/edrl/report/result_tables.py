"""The tables of a report, measured from what runs have left behind."""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from edrl.deep.calibration import Calibration
from edrl.report import aggregates
from edrl.study.results import Study, mean_and_error
from edrl.study.runs import Key
from edrl.study.tables import Table, Tables

MOST_STEPS = 60  # on the curve of the aggregate, each of which is a bootstrap of its own


def measure(study: Study) -> Tables:
    """Every table of the report."""
    return {
        "scores": _scores(study),
        "normalisation": _normalisation(study),
        "aggregates": _aggregates(study),
        "profiles": _profiles(study),
        "improvement": _improvement(study),
        "curves": _curves(study),
        "sample_efficiency": _sample_efficiency(study),
        "games": _by_game(study),
        "calibration": calibration((run.key, run.calibrated) for run in study.counted),
        "speed": _speed(study),
    }


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    kept = list(rows)
    return {name: [row[number] for row in kept] for number, name in enumerate(columns)}


def _scores(study: Study) -> Table:
    counted = {run.key for run in study.counted}
    columns = (
        "agent", "env", "seed", "planned", "reached", "evaluations", "finished", "counted", "final",
        "final_normalised", "maximum", "directory",
    )  # fmt: skip
    rows = []
    for run in study.runs:
        scale = study.scales.get(run.env)
        normal = scale(run.final) if scale is not None and scale.usable else np.nan
        progress = (run.planned, run.reached, len(run.scores), run.finished, run.key in counted)
        rows.append((*run.key, *progress, run.final, normal, run.maximum, str(run.path)))
    return _table(columns, rows)


def _normalisation(study: Study) -> Table:
    return _table(
        ("env", "zero", "one", "zero_is", "one_is", "aggregated"),
        [
            (env, s.zero, s.one, s.zero_is, s.one_is, env in study.common)
            for env, s in study.scales.items()
        ],
    )


def _aggregates(study: Study) -> Table:
    rows = []
    for agent in study.played if study.common else ():
        for name, statistic in aggregates.MEASURES.items():
            found = aggregates.estimate(statistic, study.normalised(agent))
            rows.append((agent, name, found.value, found.low, found.high))
    return _table(("agent", "measure", "value", "low", "high"), rows)


def _profiles(study: Study) -> Table:
    columns = ("agent", "tau", "share", "low", "high")
    if not study.common:
        return _table(columns, ())
    scores = {agent: study.normalised(agent) for agent in study.played}
    everything = np.concatenate([game for games in scores.values() for game in games])
    # On Atari some scores are a hundred times human: beyond eight times there is little to see.
    taus = np.linspace(min(0.0, everything.min()), max(1.0, min(everything.max(), 8.0)) * 1.02, 201)
    rows: list[tuple[object, ...]] = []
    for agent, games in scores.items():
        found = aggregates.profile(games, taus)
        entries = (taus, found.value, found.low, found.high)
        rows += [(agent, *row) for row in zip(*(array.tolist() for array in entries), strict=True)]
    return _table(columns, rows)


def _improvement(study: Study) -> Table:
    rows = []
    for number, agent in enumerate(study.played if study.common else ()):
        for other in study.played[number + 1 :]:
            found = aggregates.improvement(study.normalised(agent), study.normalised(other))
            rows.append((agent, other, found.value, found.low, found.high))
            rows.append((other, agent, 1 - found.value, 1 - found.high, 1 - found.low))
    return _table(("agent", "other", "probability", "low", "high"), rows)


def _curves(study: Study) -> Table:
    """The mean evaluation over all seeds that came so far, unfinished runs among them."""
    rows: list[tuple[object, ...]] = []
    for env in study.games:
        for agent in study.played:
            runs = [
                run
                for run in study.runs
                if (run.agent, run.env) == (agent, env) and len(run.scores)
            ]
            if not runs:
                continue
            steps = np.unique(np.concatenate([run.steps for run in runs]))
            curves = np.full((len(runs), len(steps)), np.nan)
            for curve, run in zip(curves, runs, strict=True):
                curve[np.searchsorted(steps, run.steps)] = run.scores
            found = aggregates.mean_curve(curves)
            seeds = (~np.isnan(curves)).sum(axis=0)
            entries = (steps, found.value, found.low, found.high, seeds)
            rows += [
                (env, agent, *row)
                for row in zip(*(array.tolist() for array in entries), strict=True)
            ]
    return _table(("env", "agent", "step", "mean", "low", "high", "seeds"), rows)


def _sample_efficiency(study: Study) -> Table:
    rows = []
    for agent in study.played if study.common else ():
        at: dict[int, dict[str, list[float]]] = {}  # step -> game -> normalised scores
        for run in study.runs:
            if run.agent == agent and run.env in study.common:
                for step, score in zip(run.steps.tolist(), run.scores.tolist(), strict=True):
                    at.setdefault(step, {}).setdefault(run.env, []).append(
                        study.scales[run.env](score)
                    )
        steps = sorted(step for step, games in at.items() if len(games) == len(study.common))
        for place in np.unique(
            np.linspace(0, len(steps) - 1, min(len(steps), MOST_STEPS)).round().astype(int)
        ):
            games = [np.array(scores) for scores in at[steps[place]].values()]
            found = aggregates.estimate(aggregates.interquartile_mean, games)
            rows.append(
                (agent, steps[place], found.value, found.low, found.high, sum(map(len, games)))
            )
    return _table(("agent", "step", "IQM", "low", "high", "runs"), rows)


def _by_game(study: Study) -> Table:
    """Maximum and final scores, means over seeds with standard errors."""
    rows = []
    for env in study.games:
        for agent in study.played:
            runs = [run for run in study.counted if (run.agent, run.env) == (agent, env)]
            if runs:
                highest, last = [run.maximum for run in runs], [run.final for run in runs]
                rows.append(
                    (env, agent, len(runs), *mean_and_error(highest), *mean_and_error(last))
                )
    return _table(
        ("env", "agent", "seeds", "maximum", "maximum_error", "final", "final_error"), rows
    )


def calibration(runs: Iterable[tuple[Key, Calibration | None]]) -> Table:
    """Learnt distributions beside the returns that followed, a row for each run that has them."""
    columns = ("agent", "env", "seed", *(field.name for field in dataclasses.fields(Calibration)))
    return _table(
        columns, [(*key, *dataclasses.astuple(found)) for key, found in runs if found is not None]
    )


def _speed(study: Study) -> Table:
    """Seconds and steps a second of each run that counts and has timed itself."""
    timed = [(run.key, run.timing) for run in study.counted if run.timing is not None]
    return _table(
        ("agent", "env", "seed", "seconds", "seconds_done_twice", "steps_per_second"),
        [
            (*key, time.seconds, time.seconds_done_twice, time.steps / time.seconds)
            for key, time in timed
        ],
    )
