"""The scores of a run's training episodes: many episodes, so little noise.

They are played with the exploration of their time, while the agent changes, and so are not what
evaluations measure.
"""

from itertools import groupby
from pathlib import Path

import numpy as np

from edrl.study.progress import check_increasing, numbers
from edrl.study.tables import Table, from_rows

TRAINING = ("step", "episodes", "score")
"""The columns: up to which step, how many episodes ended since the row before, their mean."""
SHARE = 0.1  # of a run, at its end, whose episodes make its final training score
_STRETCHES = 50  # of a run, of each of which one mean is kept


def read_training_scores(run: Path, planned: int) -> Table:
    """The mean score of the episodes of each fiftieth of a run, from its metrics.csv.

    Stretches in which no episode ended are left out.
    """
    path = run / "metrics.csv"
    rows = numbers(path, TRAINING, needed="score")
    check_increasing(path, "steps", rows["step"])
    check_increasing(path, "episodes", rows["episodes"])
    # The file counts all episodes since the beginning.
    rows["episodes"] = np.diff(rows["episodes"], prepend=0.0).tolist()
    kept = []
    for step, some in groupby(zip(*rows.values(), strict=True), lambda row: _end(row[0], planned)):
        _, episodes, scores = zip(*some, strict=True)
        mean = np.average(scores, weights=episodes)
        kept.append((step, int(sum(episodes)), float(f"{mean:.6g}")))  # runs.json is kept for long
    return from_rows(TRAINING, kept)


def _end(step: float, planned: int) -> int:
    """The last step of the stretch that a step belongs to."""
    place = -(-int(step) * _STRETCHES // planned)
    return place * planned // _STRETCHES


def final_training_score(rows: Table, reached: int) -> float:
    """The mean of the episodes in the last tenth of a run so far; nan if none ended in it."""
    step, episodes, score = (np.array(rows[name], np.float64) for name in TRAINING)
    last = step > (1 - SHARE) * reached
    return float(np.average(score[last], weights=episodes[last])) if last.any() else np.nan
