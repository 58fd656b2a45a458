"""Learnt laws beside returns, for runs that were made before edrl wrote them down:
`python docs/results/calibration.py REPORT STUDY`.

Plays 10,000 steps with the last agent of every run in STUDY, writes REPORT/data/calibration.csv and draws it. Newer
runs do so at each evaluation, and `edrl report` shows it.
"""

import sys
from pathlib import Path

from rich.progress import track

from edrl.deep.calibration import Calibration, Returns
from edrl.deep.environments import make
from edrl.deep.evaluate import evaluate
from edrl.deep.trained import load_trained
from edrl.experiments.experiment import write_csv
from edrl.report import style
from edrl.studies import figures
from edrl.studies.results import read_study
from edrl.studies.tables import calibration

SEED = 1_000_000  # as in `edrl evaluate`
STEPS = 10_000


def measure(path: Path) -> Calibration | None:
    """Of the run in a directory."""
    run = load_trained(path)
    environment = make(run.config.env, seed=SEED, sticky=run.config.sticky)
    returns = Returns(run.config.gamma)
    evaluate(
        run.agent, run.parameters, environment, SEED, run.config.evaluate_epsilon, steps=STEPS, watch=returns.watch
    )
    environment.close()
    return returns.against(run.agent, run.parameters)


def main(report: Path, study: Path) -> None:
    rows = calibration([(run.key, measure(run.path)) for run in track(read_study([study]).runs)])
    write_csv(report / "data" / "calibration.csv", rows)
    with style.applied():
        drawing = figures.calibration(rows)
        style.save(drawing.figure, report / "figures" / drawing.name)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    for place, what in (
        (Path(sys.argv[1], "data"), "REPORT is what `edrl report` wrote"),
        (Path(sys.argv[2]), "STUDY holds runs"),
    ):
        if not place.is_dir():
            sys.exit(f"there is no directory {place}: {what}")  # before minutes of play, not after
    main(Path(sys.argv[1]), Path(sys.argv[2]))
