"""Scores of an agent that plays MinAtar at random: `python -m benchmarks.random_scores`.

They are the zero of normalised scores in `edrl report`; the table lies in
src/edrl/study/data/minatar5.csv.
"""

from pathlib import Path

import numpy as np

from edrl.deep.environments import make
from edrl.deep.environments.minatar import GAMES
from edrl.study.tables import Table, write_csv

EPISODES = 1_000
TABLE = Path(__file__).parents[1] / "src" / "edrl" / "studies" / "data" / "minatar5.csv"


def scores(env: str, episodes: int, seed: int = 0) -> np.ndarray:
    """The scores of episodes in which every action is uniformly random."""
    environment = make(env, seed=seed)
    rng = np.random.default_rng(seed)
    found = np.zeros(episodes)
    for episode in range(episodes):
        environment.reset()
        ended = False
        while not ended:
            after = environment.step(int(rng.integers(environment.num_actions)))
            found[episode] += after.score
            ended = after.ended
    return found


def main() -> None:
    rows: Table = {"env": [], "random": [], "standard_error": [], "episodes": []}
    for game in GAMES:
        found = scores(f"minatar/{game}", EPISODES)
        error = float(found.std(ddof=1) / np.sqrt(EPISODES))
        entries = (f"minatar/{game}", float(found.mean()), round(error, 4), EPISODES)
        for column, entry in zip(rows.values(), entries, strict=True):
            column.append(entry)
        print(*entries)
    write_csv(TABLE, rows)


if __name__ == "__main__":
    main()
