"""Prioritised replay (Schaul et al., 2016) as a user would write it."""

import numpy as np

from edrl.deep import Batch, Replay


class Prioritised(Replay):
    """Transitions are drawn in proportion to their last loss to the power `alpha`."""

    alpha, beta = 0.6, 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        self.priorities = np.zeros(self.capacity)
        self.highest = 1.0  # which a new transition has

    def add(
        self,
        frame: np.ndarray,
        action: int,
        reward: float,
        terminal: bool,
        start: bool,
        lane: int = 0,
    ) -> None:
        self.priorities[self.next_place(lane)] = self.highest
        super().add(frame, action, reward, terminal, start, lane)

    def sample(self, rng: np.random.Generator, size: int) -> Batch:
        shares = np.where(self.startable(), self.priorities, 0.0)
        shares /= shares.sum()
        places = rng.choice(self.capacity, size, p=shares)
        weights = (np.count_nonzero(shares) * shares[places]) ** -self.beta
        return self.at(places)._replace(weights=(weights / weights.max()).astype(np.float32))

    def update(self, indices: np.ndarray, losses: np.ndarray) -> None:
        found = (np.abs(np.asarray(losses, np.float64)) + 1e-6) ** self.alpha
        self.priorities[indices] = found
        self.highest = max(self.highest, found.max())

    def save(self) -> dict[str, np.ndarray]:
        return {"priorities": self.priorities, "highest": np.array(self.highest)}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        self.priorities[:], self.highest = arrays["priorities"], float(arrays["highest"])
