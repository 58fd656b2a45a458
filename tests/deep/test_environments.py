"""Environments: Atari against Gymnasium and ale-py, MinAtar against MinAtar, resumption to the bit,
errors.
"""

import io
import sys
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from edrl.deep.environments import Environment, Step, make, names
from edrl.deep.environments.atari import GAMES, Atari
from edrl.deep.environments.environment import array_to_generator, generator_to_array
from edrl.deep.environments.gym import Gymnasium
from edrl.deep.environments.minatar import GAMES as MINATAR_GAMES
from edrl.deep.environments.resize import AreaResize


@pytest.fixture
def ale_py() -> Any:
    return pytest.importorskip("ale_py", reason="Atari games need pip install 'edrl[atari]'")


@pytest.fixture
def minatar() -> Any:
    return pytest.importorskip("minatar", reason="MinAtar needs pip install 'edrl[minatar]'")


def play(env: Environment, actions: np.ndarray) -> Iterator[Step]:
    """What the actions lead to, each episode's first frame as a step without a reward; the episode
    may be running.
    """
    running = env._running  # type: ignore[attr-defined]
    for action in actions:
        if not running:
            yield Step(env.reset(), 0.0, 0.0, False, False)
        step = env.step(int(action))
        running = not step.ended
        yield step


def random_actions(env: Environment, count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(env.num_actions, size=count)


def equal(left: Step, right: Step) -> bool:
    return np.array_equal(left.frame, right.frame) and left[1:] == right[1:]


def same(left: Iterator[Step], right: Iterator[Step]) -> bool:
    return all(equal(a, b) for a, b in zip(left, right, strict=True))


def through_a_file(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Write and read a state without pickle."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **state)
    file.seek(0)
    with np.load(file, allow_pickle=False) as loaded:
        return dict(loaded)


# ----------------------------------------------------------------------------------------------------------
# Atari


def test_a_shrunk_pixel_is_the_mean_of_its_area() -> None:
    """Against overlaps counted in whole numbers. Six float32 operations on numbers up to 255 err by
    at most 6 * 255 * 2**-24 < 1e-4, and rounding adds a half."""
    image = np.random.default_rng(0).integers(256, size=(210, 160)).astype(np.uint8)

    def overlaps(pixels: int, cells: int) -> np.ndarray:
        finely = np.zeros((pixels, cells))
        for unit in range(pixels * cells):
            finely[unit // cells, unit // pixels] += 1 / pixels
        return finely

    mean = overlaps(210, 84).T @ image @ overlaps(160, 84)
    assert np.abs(AreaResize(210, 160, 84)(image) - mean).max() <= 0.5 + 1e-4


def test_shrinking_is_opencvs_to_the_bit() -> None:
    """Also with few grey levels, where means halfway between two are frequent, and for PAL's 250
    lines.
    """
    cv2 = pytest.importorskip(
        "cv2", reason="the comparison needs pip install opencv-python-headless"
    )
    generator = np.random.default_rng(0)
    for height in (210, 250):
        resize = AreaResize(height, 160, 84)
        for levels in (2, 5, 256):
            image = (generator.integers(levels, size=(height, 160)) * 255 // (levels - 1)).astype(
                np.uint8
            )
            assert np.array_equal(
                resize(image), cv2.resize(image, (84, 84), interpolation=cv2.INTER_AREA)
            )


@pytest.mark.parametrize("sticky", [False, True])
@pytest.mark.parametrize("game", ["breakout", "space_invaders"])
def test_atari_is_gymnasiums_preprocessing(ale_py: Any, game: str, sticky: bool) -> None:
    """Frames to the bit, raw scores, ends and, by the seed, no-ops and sticky actions, over
    episodes.
    """
    pytest.importorskip(
        "cv2", reason="Gymnasium's AtariPreprocessing needs pip install opencv-python-headless"
    )
    raw = ale_py.AtariEnv(game, frameskip=1, repeat_action_probability=0.25 if sticky else 0.0)
    theirs = gymnasium.wrappers.AtariPreprocessing(raw)
    ours = make(game, seed=3, sticky=sticky)
    frame, _ = theirs.reset(seed=3)
    assert np.array_equal(ours.reset(), frame)
    episodes, larger = 1, 0
    for action in random_actions(ours, 350):
        step = ours.step(int(action))
        frame, score, terminated, _, _ = theirs.step(action)
        assert np.array_equal(step.frame, frame)
        assert (step.score, step.reward) == (score, np.clip(score, -1, 1))
        assert step.ended == terminated
        larger += score > 1
        if step.ended:
            episodes += 1
            assert np.array_equal(ours.reset(), theirs.reset()[0])
    assert episodes > 1 if game == "breakout" else larger > 0  # what each game is there to show


@pytest.mark.parametrize("game", ["breakout", "pong"])
def test_atari_is_the_vector_environment(ale_py: Any, game: str) -> None:
    """ale-py's C++ vector environment gives the same frames, clipped rewards and ends."""
    vector = ale_py.AtariVectorEnv(
        game,
        num_envs=1,
        num_threads=1,
        noop_max=0,
        use_fire_reset=False,
        stack_num=1,
        reward_clipping=True,
    )
    ours = Atari(game, seed=0, noop_max=0)
    frames, _ = vector.reset(seed=0)
    assert np.array_equal(ours.reset(), frames[0, 0])
    for action in random_actions(ours, 300, seed=1):
        step = ours.step(int(action))
        frames, rewards, terminated, _, _ = vector.step(np.array([action]))
        assert np.array_equal(step.frame, frames[0, 0])
        assert (step.reward, step.ended) == (rewards[0], terminated[0])
        if step.ended:
            frames, *_ = vector.step(np.array([0]))  # it resets itself in the step after
            assert np.array_equal(ours.reset(), frames[0, 0])
    vector.close()


def test_a_lost_life_is_terminal(ale_py: Any) -> None:
    """A game of Breakout has five lives: five terminals, of which the last ends the episode."""
    env = Atari("breakout", seed=1)
    env.reset()
    lost = 0
    for action in random_actions(env, 1000):
        lives = env._ale.lives()
        step = env.step(int(action))
        assert step.terminal == (env._ale.lives() < lives)
        lost += step.terminal
        if step.ended:
            break
    assert step.ended
    assert step.terminal
    assert lost == 5


def test_an_episode_starts_with_1_to_30_noops(ale_py: Any) -> None:
    """The emulator's own count of frames after 40 resets."""
    env = Atari("pong", seed=0)
    counts = []
    for _ in range(40):
        env.reset()
        counts.append(env._ale.getEpisodeFrameNumber())
    assert min(counts) >= 1
    assert max(counts) <= 30
    assert len(set(counts)) > 12  # of 30 (1 - (29/30)**40) = 22 expected
    none = Atari("pong", seed=0, noop_max=0)
    none.reset()
    assert none._ale.getEpisodeFrameNumber() == 0


def test_the_cap_is_a_truncation_with_a_true_frame(ale_py: Any) -> None:
    """The episode ends, not terminal, in the first step at whose end 100 frames are played; its
    frame is a full one.
    """
    capped, free = Atari("pong", seed=5, max_frames=100), Atari("pong", seed=5)
    assert np.array_equal(capped.reset(), free.reset())
    noops = free._ale.getEpisodeFrameNumber()
    for number, action in enumerate(random_actions(free, 30), start=1):
        step, uncapped = capped.step(int(action)), free.step(int(action))
        assert equal(step._replace(ended=False), uncapped)
        assert step.ended == (noops + 4 * number >= 100)
        assert not step.terminal
        if step.ended:
            break
    assert step.ended


def test_all_57_games_start_and_step(ale_py: Any) -> None:
    """Under the names of the paper's table, with the minimal action set."""
    table = (files("edrl.study") / "data" / "atari57.csv").read_text()
    assert [line.split(",")[0] for line in table.splitlines()[1:]] == list(GAMES)
    for game in GAMES:
        env = make(game, seed=0)
        first = env.reset()
        steps = [env.step(action % env.num_actions) for action in range(3)]
        assert {(step.frame.shape, step.frame.dtype) for step in steps} == {
            (first.shape, first.dtype)
        }
        assert (
            (first.shape, first.dtype) == (env.frame_shape, env.frame_dtype) == ((84, 84), np.uint8)
        )
        minimal = env._ale.getMinimalActionSet()  # type: ignore[attr-defined]
        assert env.action_names == tuple(action.name for action in minimal)
    assert Atari("breakout", seed=0).action_names == ("NOOP", "FIRE", "RIGHT", "LEFT")


@pytest.mark.parametrize(
    ("game", "sticky"),
    [
        ("breakout", False),
        ("breakout", True),
        ("qbert", False),
        ("berzerk", True),
        ("yars_revenge", True),
    ],
)
def test_atari_goes_on_to_the_bit_after_a_load(ale_py: Any, game: str, sticky: bool) -> None:
    """In a new process's instance, seeded otherwise.

    ALE's own snapshots fail this for all but Breakout.
    """
    env = make(game, seed=0, sticky=sticky)
    for before in (90, 101):
        list(play(env, random_actions(env, before, seed=before)))
        other = make(game, seed=99, sticky=sticky)
        other.load(through_a_file(env.save()))
        assert np.array_equal(env.render(), other.render())
        actions = random_actions(env, 120, seed=1)
        assert same(play(env, actions), play(other, actions))
        np.testing.assert_equal(other.save(), env.save())


def test_atari_resumes_between_episodes(ale_py: Any) -> None:
    """A state saved before the first episode or after one asks for a reset, and the next no-ops are
    the same.
    """
    env, other = (Atari("pong", seed=seed, sticky=True, max_frames=60) for seed in (0, 7))
    for _ in range(2):
        other.load(through_a_file(env.save()))
        with pytest.raises(RuntimeError, match=r"call reset\(\)"):
            other.step(0)
        assert np.array_equal(env.reset(), other.reset())
        ended = False
        while not ended:
            step = env.step(0)
            assert equal(step, other.step(0))
            ended = step.ended


def test_atari_refuses_a_state_that_it_cannot_reach(ale_py: Any) -> None:
    """Another game's state, and one whose actions lead elsewhere."""
    env = make("breakout", seed=0)
    env.reset()
    env.step(1)
    state = env.save()
    with pytest.raises(ValueError, match=r"'pong'.*'breakout'"):
        make("pong", seed=0).load(state)
    with pytest.raises(ValueError, match="another frame"):
        make("breakout", seed=0).load({**state, "played": np.array([1, 2, 2, 2, 2], np.uint8)})


# --------------------------------------------------------------------------------------------------------
# MinAtar


@pytest.mark.parametrize("game", MINATAR_GAMES)
def test_minatar_is_minatar(minatar: Any, game: str) -> None:
    """Frames, rewards and ends of MinAtar's own class with its defaults: sticky with 0.1, ramping
    difficulty.
    """
    theirs = minatar.Environment(game, sticky_action_prob=0.1, difficulty_ramping=True)
    theirs.seed(4)
    theirs.reset()
    ours = make(f"minatar/{game}", seed=4)
    minimal = theirs.minimal_action_set()
    assert ours.num_actions == len(minimal)
    assert ours.frame_shape == tuple(theirs.state_shape())
    assert np.array_equal(ours.reset(), theirs.state())
    ends = 0
    for action in random_actions(ours, 3000):
        step = ours.step(int(action))
        reward, terminal = theirs.act(minimal[action])
        assert np.array_equal(step.frame, theirs.state())
        assert step[1:] == (reward, reward, terminal, terminal)
        if step.ended:
            ends += 1
            theirs.reset()
            assert np.array_equal(ours.reset(), theirs.state())
    assert ends > 0
    assert step.frame.dtype == ours.frame_dtype == np.uint8
    assert ours.render().shape == (160, 160, 3)


@pytest.mark.parametrize("game", MINATAR_GAMES)
def test_minatar_goes_on_to_the_bit_after_a_load(minatar: Any, game: str) -> None:
    """In an instance seeded otherwise: every attribute of the game, its generator and the sticky
    action come along.
    """
    env = make(f"minatar/{game}", seed=0)
    for before in (0, 1, 57, 333):
        list(play(env, random_actions(env, before, seed=before)))
        other = make(f"minatar/{game}", seed=99)
        other.load(through_a_file(env.save()))
        attributes, others = (dict(vars(e._game)) for e in (env, other))  # type: ignore[attr-defined]
        del attributes["random"], others["random"]
        np.testing.assert_equal(others, attributes)
        actions = random_actions(env, 500, seed=1)
        assert same(play(env, actions), play(other, actions))
        np.testing.assert_equal(other.save(), env.save())


def test_minatar_refuses_a_state_of_another_game_or_version(minatar: Any) -> None:
    env = make("minatar/breakout", seed=0)
    state = env.save()
    with pytest.raises(ValueError, match=r"minatar/asterix.*minatar/breakout"):
        make("minatar/asterix", seed=0).load(state)
    del state["game/brick_map"]
    with pytest.raises(ValueError, match="brick_map"):
        env.load(state)


# ------------------------------------------------------------------------------------------------------
# Gymnasium


class Counter(gymnasium.Env):
    """Counts its steps in one array that it hands out again and again; actions and rewards start at
    1.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012, Gymnasium's way
    observation_space = Box(0, 255, (2,), np.uint8)
    action_space = Discrete(2, start=1)
    render_mode = "rgb_array"

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = np.array([0, self.np_random.integers(256)], np.uint8)
        return self.count, {}

    def step(self, action: int) -> Any:
        self.count[0] += 1
        return self.count, action, self.count[0] == 3, False, {}

    def render(self) -> Any:
        return np.full((4, 5, 3), self.count[0])


def test_gymnasium_by_id_and_by_object() -> None:
    """The same episodes, in float32."""
    left, right = make("CartPole-v1", seed=2), make(gymnasium.make("CartPole-v1"), seed=2)
    assert left.name == right.name == "CartPole-v1"
    assert left.action_names == ("0", "1")
    assert left.reset().dtype == left.frame_dtype == np.float32
    assert np.array_equal(left.reset(), (right.reset(), right.reset())[1])
    actions = random_actions(left, 100)
    assert same(play(left, actions), play(right, actions))
    assert make("gymnasium.envs.classic_control:CartPole-v1", seed=2).name == "CartPole-v1"


def test_terminal_and_truncated_are_told_apart() -> None:
    """A pole that falls is terminal; a TimeLimit only ends the episode."""
    fallen = next(
        step for step in play(make("CartPole-v1", seed=0), np.ones(100, int)) if step.ended
    )
    assert fallen.terminal
    limited = make(gymnasium.make("CartPole-v1", max_episode_steps=3), seed=0)
    limited.reset()
    assert [
        (step.terminal, step.ended) for step in (limited.step(0), limited.step(1), limited.step(0))
    ] == [
        (False, False),
        (False, False),
        (False, True),
    ]


def test_gymnasiums_frames_and_actions_are_translated() -> None:
    """A copy of each observation, actions from 0, uint8 kept, one-hot vectors for discrete
    observations.
    """
    env = make(Counter(), seed=0)
    frames = [env.reset(), *(env.step(action).frame for action in (0, 1))]
    assert [int(frame[0]) for frame in frames] == [0, 1, 2]
    assert frames[0].dtype == env.frame_dtype == np.uint8
    last = env.step(1)
    assert (last.reward, last.terminal, last.ended) == (2.0, True, True)
    assert env.render().tolist() == np.full((4, 5, 3), 3).tolist()
    lake = make("FrozenLake-v1", seed=0)
    assert lake.frame_shape == (16,)
    assert lake.reset().tolist() == np.eye(16)[0].tolist()
    assert lake.frame_dtype == np.float32


def test_frames_are_scaled_by_what_they_are() -> None:
    """Bytes to at most 1, whatever the network; other numbers are left alone."""
    bytes_, bits, floats = (
        make(gymnasium.wrappers.TransformObservation(Counter(), lambda frame: frame, space), seed=0)
        for space in (
            Box(0, 255, (2,), np.uint8),
            Box(0, 1, (2,), np.uint8),
            Box(0, 1, (2,), np.float32),
        )
    )
    assert (bytes_.scale, bits.scale, floats.scale) == (1 / 255, 1.0, 1.0)
    assert make("FrozenLake-v1", seed=0).scale == 1.0


@pytest.mark.parametrize("name", ["NormalizeObservation", "NormalizeReward"])
def test_wrappers_that_adapt_are_refused(name: str) -> None:
    """Evaluations play an environment of their own: what a wrapper has learnt in training would not
    be there.
    """
    wrapped = getattr(gymnasium.wrappers, name)(gymnasium.make("CartPole-v1"))
    with pytest.raises(ValueError, match=f"wrapper of CartPole-v1 is {name}: .*adapts"):
        make(gymnasium.wrappers.TimeLimit(wrapped, 10), seed=0)


def test_actions_that_a_wrapper_has_changed_are_called_by_their_numbers() -> None:
    class Named(Counter):
        def get_action_meanings(self) -> list[str]:
            return ["LEFT", "RIGHT"]

    def wrapped(count: int) -> gymnasium.Env:
        return gymnasium.wrappers.TransformAction(Named(), lambda action: 1, Discrete(count))

    assert make(Named(), seed=0).action_names == ("LEFT", "RIGHT")
    assert make(wrapped(1), seed=0).action_names == ("0",)
    assert make(wrapped(3), seed=0).action_names == ("0", "1", "2")


def test_what_gymnasium_cannot_make_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(error: Exception) -> None:
        def creator(**_: Any) -> gymnasium.Env:
            raise error

        spec = gymnasium.envs.registration.EnvSpec("Broken-v0", entry_point=creator)
        monkeypatch.setitem(gymnasium.registry, "Broken-v0", spec)

    broken(gymnasium.error.DependencyNotInstalled("pip install box2d"))
    with pytest.raises(ImportError, match=r"Broken-v0 needs.*box2d"):
        make("Broken-v0", seed=0)
    broken(gymnasium.error.InvalidAction("no such map"))
    with pytest.raises(ValueError, match=r"Broken-v0.*no such map"):
        make("Broken-v0", seed=0)


def test_gymnasium_starts_the_next_episode_after_a_load() -> None:
    """The episode that ran is lost, and the next one starts as it would have."""
    env = make(Counter(), seed=0)
    env.reset()
    other = make(Counter(), seed=0)
    other.load(through_a_file(env.save()))
    assert not env.restorable
    with pytest.raises(RuntimeError, match=r"call reset\(\)"):
        other.step(0)
    assert np.array_equal(other.reset(), env.reset())


# ------------------------------------------------------------------------------------------------------------
# all


@pytest.mark.parametrize("name", ["breakout", "minatar/seaquest", "CartPole-v1"])
def test_one_seed_repeats_and_two_differ(name: str) -> None:
    pytest.importorskip(
        {"breakout": "ale_py", "minatar/seaquest": "minatar"}.get(name, "gymnasium")
    )
    one, again, two = make(name, seed=1), make(name, seed=1), make(name, seed=2)
    actions = random_actions(one, 120)
    first = list(play(one, actions))
    assert same(iter(first), play(again, actions))
    assert not all(equal(a, b) for a, b in zip(first, play(two, actions), strict=False))


def test_a_generator_survives_its_array() -> None:
    """With the half of a 64-bit draw that a 32-bit one leaves over."""
    generator = np.random.default_rng(0)
    generator.integers(10, dtype=np.int32)
    other = array_to_generator(generator_to_array(generator))
    assert (
        other.integers(2**31, size=9, dtype=np.int32).tolist()
        == generator.integers(2**31, size=9, dtype=np.int32).tolist()
    )
    assert other.random(5).tolist() == generator.random(5).tolist()


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("brekout", "breakout"),
        ("Breakout", "breakout"),
        ("montezuma", "montezuma_revenge"),
        ("minatar/breakot", "minatar/breakout"),
        ("CartPol-v1", "CartPole-v1"),
        ("CartPole-v99", "CartPole-v1"),
        ("nothing like it", "57 Atari games"),
    ],
)
def test_an_unknown_name_is_told_its_neighbours(wrong: str, near: str) -> None:
    with pytest.raises(ValueError, match=f"env is '{wrong}': .*{near}"):
        make(wrong, seed=0, sticky=True)


def test_what_no_agent_here_can_play_is_refused() -> None:
    with pytest.raises(ValueError, match=r"action space of Pendulum-v1 is Box.*finitely many"):
        make("Pendulum-v1", seed=0)
    with pytest.raises(
        ValueError, match=r"observation space of Blackjack-v1 must be Box or Discrete.*got Tuple"
    ):
        make("Blackjack-v1", seed=0)
    with pytest.raises(ValueError, match=r"env must be .*gymnasium.Env.*, got 3"):
        make(3, seed=0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"sticky .*CartPole-v1"):
        make("CartPole-v1", seed=0, sticky=True)
    with pytest.raises(ValueError, match="seed must be"):
        make("CartPole-v1", seed=-1)
    with pytest.raises(
        ValueError, match=r"render_mode of CartPole-v1 must be 'rgb_array'.*, got None"
    ):
        Gymnasium(gymnasium.make("CartPole-v1"), seed=0).render()


def test_what_draws_an_environment_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    env = make("CartPole-v1", seed=0)
    env.reset()
    assert env.render().shape == (400, 600, 3)
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(ImportError, match=r"CartPole-v1 cannot be drawn.*pygame"):
        env.render()


@pytest.mark.parametrize(
    ("module", "extra", "name"),
    [("ale_py", "atari", "pong"), ("minatar", "minatar", "minatar/asterix")],
)
def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, module: str, extra: str, name: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"pip install 'edrl\[{extra}\]'"):
        make(name, seed=0)


def test_steps_are_checked() -> None:
    env = make(Counter(), seed=0)
    with pytest.raises(RuntimeError, match=r"call reset\(\)"):
        env.step(0)
    env.reset()
    for wrong in (-1, 2):
        with pytest.raises(ValueError, match=f"action must be .* from 0 to 1, got {wrong}"):
            env.step(wrong)


def test_names_are_those_that_make_knows() -> None:
    assert len(names()) == len(set(names())) == 57 + 5 + 5 + 5


class Plain(gymnasium.Env[np.ndarray, int]):
    """Knows nothing of drawing, and its numbers can be bad."""

    action_space, observation_space = Discrete(2), Box(-1, 1, (1,), np.float32)
    reward, seen = 0.0, 0.0

    def reset(
        self, *, seed: int | None = None, options: Any = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return np.full(1, self.seen, np.float32), self.reward, False, False, {}


def test_an_environment_need_not_draw() -> None:
    gymnasium.register("Plain-v0", lambda: Plain())  # takes no render_mode
    try:
        make("Plain-v0", seed=0).reset()
    finally:
        del gymnasium.registry["Plain-v0"]


def test_numbers_that_are_none_are_traced_to_the_environment() -> None:
    for name, words in (("reward", "reward of Plain is nan"), ("seen", "observation of Plain")):
        plain = Plain()
        env = make(plain, seed=0)
        env.reset()
        setattr(plain, name, float("nan"))
        with pytest.raises(ValueError, match=words):
            env.step(0)


def test_a_module_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="No module named 'nowhere'"):
        make("nowhere:CartPole-v1", seed=0)
