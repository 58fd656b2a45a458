"""What every contestant trains on, with which settings.

It imports nothing of edrl: the peers read it, too.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """Settings that are the same for all; steps are agent steps."""

    update_every: int
    target_every: int
    learning_rate: float
    steps: int  # of one measurement
    rounds: int = 7
    learn_after: int = 1_000
    # Before the first measurement: learning has started, and what is compiled is compiled.
    warm_up: int = 1_200
    replay: int = 20_000
    batch: int = 32
    gamma: float = 0.99
    epsilon: float = 0.1
    quantiles: int = 200
    adam_epsilon: float = 0.01 / 32


TASKS = {
    "atari": Task(update_every=4, target_every=10_000, learning_rate=5e-5, steps=200),
    "minatar": Task(update_every=1, target_every=1_000, learning_rate=2.5e-4, steps=400),
}
"""Atari's Pong as 84 x 84 x 4 images with Nature's network; MinAtar's Breakout with one small
convolution.
"""

UPDATE = Task(
    update_every=1, target_every=10_000, learning_rate=5e-5, steps=25, warm_up=30, rounds=15
)
"""Updates alone, on one batch, with Nature's network."""
