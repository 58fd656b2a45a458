"""Replay memory against a plain list of episodes."""

from typing import Any

import numpy as np
import pytest

from edrl.deep.replay import Replay


def filled(
    capacity: int, stack: int, n_step: int, steps: int, seed: int = 0
) -> tuple[Replay, list[dict[str, Any]]]:
    """A replay after a random stream, and the stream: a dict for each entry with all that it should
    give.
    """
    rng = np.random.default_rng(seed)
    replay = Replay(capacity, (2,), np.float32, stack, n_step, gamma=0.9)
    stream: list[dict[str, Any]] = []
    start = True
    while len(stream) < steps:
        entry = {
            "frame": rng.normal(size=2).astype(np.float32), "action": int(rng.integers(4)),
            "reward": float(np.float32(rng.normal())), "terminal": bool(rng.random() < 0.15), "start": start,
        }  # fmt: skip
        cut = rng.random() < 0.1  # a truncation
        life_lost = entry["terminal"] and rng.random() < 0.5
        replay.add(entry["frame"], entry["action"], entry["reward"], entry["terminal"], start)
        stream.append(entry)
        start = False
        if cut or (entry["terminal"] and not life_lost):
            last = rng.normal(size=2).astype(np.float32)
            replay.add_last(last)
            stream.append({"frame": last, "action": None, "start": False})
            start = True
    return replay, stream


def observation(stream: list[dict[str, Any]], time: int, stack: int) -> np.ndarray:
    frames, now = [], time
    for _ in range(stack):
        frames.append(stream[now]["frame"] if now is not None else np.zeros(2, np.float32))
        now = None if now is None or stream[now]["start"] else now - 1
    return np.stack(frames[::-1], axis=-1) if stack > 1 else frames[0]


@pytest.mark.parametrize(("stack", "n_step"), [(1, 1), (4, 1), (4, 3), (1, 5)])
@pytest.mark.parametrize("capacity", [60, 1000])
def test_transitions_are_those_of_the_stream(stack: int, n_step: int, capacity: int) -> None:
    """Observations never mix episodes; n-step returns stop at ends, bootstrap at cuts, and count
    every discount.
    """
    replay, stream = filled(capacity, stack, n_step, 200)
    oldest = max(0, len(stream) - capacity)
    times = np.array([
        time for time in range(oldest + (stack - 1 if oldest else 0), len(stream) - n_step)
        if stream[time]["action"] is not None
    ])  # fmt: skip
    batch = replay.gather(times)
    for row, time in enumerate(times):
        total, discount, now = 0.0, 1.0, int(time)
        for _ in range(n_step):
            if stream[now]["action"] is None:  # cut: bootstrap from here
                break
            total += discount * stream[now]["reward"]
            discount *= 0.0 if stream[now]["terminal"] else 0.9
            now += 1
            if discount == 0:
                break
        np.testing.assert_array_equal(
            batch.observations[row], observation(stream, int(time), stack)
        )
        assert batch.actions[row] == stream[int(time)]["action"]
        assert batch.returns[row] == pytest.approx(total, abs=1e-5)
        assert batch.discounts[row] == pytest.approx(discount, abs=1e-6)
        if discount > 0:
            np.testing.assert_array_equal(
                batch.next_observations[row], observation(stream, now, stack)
            )


@pytest.mark.parametrize("capacity", [40, 1000])
def test_lanes_are_memories_of_their_own(capacity: int) -> None:
    """Streams that come in turns, of unequal length, are kept apart; all their transitions can be
    drawn.
    """
    alone = [filled(capacity, 2, 3, steps, seed) for seed, steps in enumerate((60, 90, 0))]
    replay = Replay(3 * capacity, (2,), np.float32, 2, 3, gamma=0.9, lanes=3)
    for time in range(max(len(stream) for _, stream in alone)):
        for lane, (_, stream) in enumerate(alone):
            if time < len(stream):
                entry = stream[time]
                if entry["action"] is None:
                    replay.add_last(entry["frame"], lane)
                else:
                    reward, terminal = entry["reward"], entry["terminal"]
                    replay.add(
                        entry["frame"], entry["action"], reward, terminal, entry["start"], lane
                    )
    assert len(replay) == sum(len(single) for single, _ in alone)
    expected = set()
    for lane, (single, stream) in enumerate(alone):
        oldest = int(single.oldest[0])
        times = np.array([
            time for time in range(oldest + (1 if oldest else 0), len(stream) - 3) if stream[time]["action"] is not None
        ], int)  # fmt: skip
        found = replay.gather(times, np.full(len(times), lane))
        np.testing.assert_array_equal(found.indices, replay.place(times, lane))
        np.testing.assert_array_equal(replay.at(found.indices).observations, found.observations)
        for one, other in zip(single.gather(times)[:-1], found[:-1], strict=True):
            np.testing.assert_array_equal(one, other)
        expected |= {observations.tobytes() for observations in single.gather(times).observations}
    drawn = replay.sample(np.random.default_rng(0), 5000)
    assert {observations.tobytes() for observations in drawn.observations} == expected
    assert set(drawn.indices) == set(np.flatnonzero(replay.startable()))


def test_samples_are_uniform_over_complete_transitions() -> None:
    """Every time that begins a transition is drawn about equally often, and no other."""
    replay, stream = filled(60, 2, 1, 100)
    drawn = np.concatenate(
        [replay.sample(np.random.default_rng(seed), 500).actions for seed in range(4)]
    )
    assert set(drawn.tolist()) <= {0, 1, 2, 3}
    seen: dict[float, int] = {}
    for seed in range(40):
        for x in replay.sample(np.random.default_rng(seed), 500).observations[:, 0, -1]:
            seen[float(x)] = seen.get(float(x), 0) + 1
    oldest = len(stream) - 60
    possible = [t for t in range(oldest + 1, len(stream) - 1) if stream[t]["action"] is not None]
    assert set(seen) == {float(stream[t]["frame"][0]) for t in possible}
    expected = 40 * 500 / len(possible)
    # Poisson counts: six standard deviations.
    assert max(abs(count - expected) for count in seen.values()) < 6 * expected**0.5


def test_an_empty_memory_says_so() -> None:
    with pytest.raises(ValueError, match="no complete transition"):
        Replay(10, (2,), np.float32).sample(np.random.default_rng(0), 4)


def test_memory_of_a_million_frames_is_within_8_gigabytes() -> None:
    """A frame is stored once: 7,056 bytes and little else a transition."""
    replay = Replay(1000, (84, 84), np.uint8, stack=4)
    columns = (replay.frames, replay.actions, replay.rewards, replay.terminals, replay.starts)
    assert sum(column.nbytes for column in columns) / 1000 < 7100


def test_what_follows_is_the_stream_from_each_place_on() -> None:
    """Step by step against the entries themselves, across ends of episodes and of the ring."""
    replay = Replay(60, (1,), np.float32, stack=1, n_step=4, gamma=0.9, lanes=2)
    rng = np.random.default_rng(0)
    for number in range(70):
        for lane in range(2):
            ended = bool(rng.random() < 0.2)
            terminal = ended and bool(rng.random() < 0.5)
            replay.add(np.array([number]), number % 3, number, terminal, False, lane)
            if ended:
                replay.add_last(np.array([number + 0.5]), lane)
    batch = replay.sample(rng, 40)
    steps = replay.following(batch.indices)
    np.testing.assert_array_equal(steps.observations[0], batch.observations)
    np.testing.assert_array_equal(steps.actions[0], batch.actions)
    total, weight, last = np.zeros(40), np.ones(40), np.zeros(40)
    going = np.ones(40, bool)
    for t in range(4):
        total += np.where(going, weight * steps.rewards[t], 0)
        weight = np.where(going, weight * steps.discounts[t], weight)
        last = np.where(going, steps.next_observations[t, :, 0], last)
        going = going & steps.goes_on[t] & (weight > 0)
        if t < 3:  # what follows within an episode is the next step of it
            together = steps.goes_on[t]
            np.testing.assert_array_equal(
                steps.next_observations[t][together], steps.observations[t + 1][together]
            )
    np.testing.assert_allclose(total, batch.returns, rtol=1e-5)
    np.testing.assert_allclose(weight, batch.discounts, rtol=1e-5)
    bootstrapped = batch.discounts > 0
    np.testing.assert_array_equal(last[bootstrapped], batch.next_observations[bootstrapped, 0])
    assert not steps.goes_on.all()
