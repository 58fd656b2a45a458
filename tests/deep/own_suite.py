"""A suite of toy environments with scores, as a user would write it; importing it registers it."""

import numpy as np

from edrl.deep import Scores, Step, register


class Corridor:
    """Walk to the right end: 1 for each step to the right, and an end after five."""

    name, stack, scale, restorable = "toy/corridor", 1, 1.0, True
    frame_shape, frame_dtype = (1,), np.dtype(np.float32)
    num_actions, action_names = 2, ("left", "right")

    def __init__(self) -> None:
        self.time = 0

    def _frame(self) -> np.ndarray:
        return np.array([self.time / 5], np.float32)

    def reset(self) -> np.ndarray:
        self.time = 0
        return self._frame()

    def step(self, action: int) -> Step:
        self.time += 1
        return Step(self._frame(), float(action), float(action), self.time == 5, self.time == 5)

    def render(self) -> np.ndarray:
        return np.full((10, 10, 3), 50 * self.time, np.uint8)

    def save(self) -> dict[str, np.ndarray]:
        return {"time": np.array(self.time)}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        self.time = int(arrays["time"])

    def close(self) -> None: ...


class Toy:
    names = ("toy/corridor",)
    has_sticky_actions = False
    scores = {"toy/corridor": Scores(random=2.5, human=5.0)}  # noqa: RUF012

    def make(self, name: str, *, seed: int, sticky: bool) -> Corridor:
        return Corridor()


register(Toy())
