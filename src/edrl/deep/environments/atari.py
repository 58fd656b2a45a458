"""Atari 2600 games through the Arcade Learning Environment, preprocessed as in the paper."""

import numpy as np

from edrl.core.check import check_count, fail, one_of
from edrl.deep.environments.environment import (
    Step,
    array_to_generator,
    check_saved_name,
    check_step,
    generator_to_array,
    missing,
    text_to_array,
)
from edrl.deep.environments.resize import AreaResize

_NAMES = """
alien amidar assault asterix asteroids atlantis bank_heist battle_zone beam_rider berzerk bowling
boxing breakout centipede chopper_command crazy_climber defender demon_attack double_dunk enduro
fishing_derby freeway frostbite gopher gravitar hero ice_hockey jamesbond kangaroo krull
kung_fu_master montezuma_revenge ms_pacman name_this_game phoenix pitfall pong private_eye qbert
riverraid road_runner robotank seaquest skiing solaris space_invaders star_gunner surround tennis
time_pilot tutankham up_n_down venture video_pinball wizard_of_wor yars_revenge zaxxon
"""
GAMES = tuple(_NAMES.split())
"""The 57 games of the paper's table, by their names there."""

ACTION_REPEAT = 4
SIZE = 84
STICKY_PROBABILITY = 0.25
NOOP = 0


class Atari:
    """One game with action repeat 4, grey 84x84 frames and rewards clipped to ±1.

    - A frame is the elementwise maximum of the last two of the 4 raw grey screens, shrunk by area
      interpolation: the same to the bit as from Gymnasium's `AtariPreprocessing` and from ale-py's
      `AtariVectorEnv`. If the game ends during the 4, unread screens are missing from its last
      frame, as there; nothing is learnt from that frame.
    - `score` is the sum of the game's points over the 4 screens, `reward` that sum clipped to [-1,
      1].
    - A lost life is terminal, but the episode goes on.
    - An episode starts with 1 to `noop_max` raw no-ops and without a press of FIRE. It is truncated
      at the end of the step in which it reaches `max_frames` raw frames, no-ops included: 27,000
      steps for the usual 108,000.
    - The minimal action set. `sticky` repeats the last action with probability 0.25 (Machado et
      al., 2018).

    Seeds mean what they mean to ale-py's Gymnasium environment: the same no-ops, the same sticky
    actions.

    ALE's own snapshots leave out the video chip's place within the frame, and Berzerk, Q*bert and
    Yars' Revenge go on differently after them. So a saved state holds ALE's snapshot of the moment
    before the episode, which is exact, and the actions since; `load` plays them again, about 0.6 ms
    for each.
    """

    stack = 4
    scale = 1 / 255
    restorable = True
    frame_shape: tuple[int, ...] = (SIZE, SIZE)
    frame_dtype = np.dtype(np.uint8)

    def __init__(
        self,
        game: str,
        *,
        seed: int,
        sticky: bool = False,
        noop_max: int = 30,
        max_frames: int = 108_000,
    ) -> None:
        if game not in GAMES:
            raise fail("game", game, one_of(game, GAMES))
        self.name = game
        self._noop_max = check_count("noop_max", noop_max, 0)
        self._max_frames = check_count("max_frames", max_frames, 1)

        try:
            import ale_py
            from ale_py import roms
        except ImportError as error:
            raise missing("ale-py", "atari") from error
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        generator_seed, ale_seed = np.random.SeedSequence(seed).generate_state(2)
        self._generator = np.random.default_rng(int(generator_seed))
        self._ale = ale_py.ALEInterface()
        self._ale.setInt("random_seed", int(ale_seed.astype(np.int32)))
        self._ale.setFloat("repeat_action_probability", STICKY_PROBABILITY if sticky else 0.0)
        self._ale.loadROM(str(roms.get_rom_path(game)))
        self._actions = self._ale.getMinimalActionSet()
        self.num_actions = len(self._actions)
        self.action_names = tuple(action.name for action in self._actions)

        height, width = self._ale.getScreenDims()
        self._resize = AreaResize(height, width, SIZE)
        self._screens = np.zeros((2, height, width), np.uint8)
        self._running = False
        # What it takes to play the episode again: -1 no-ops if there has been none yet.
        self._before = self._snapshot()
        self._noops = -1
        self._played = bytearray()

    def reset(self) -> np.ndarray:
        """Start an episode with its random no-ops."""
        self._before = self._snapshot()
        self._noops = int(self._generator.integers(1, self._noop_max + 1)) if self._noop_max else 0
        self._played.clear()
        self._begin()
        self._running = True
        return self._frame()

    def step(self, action: int) -> Step:
        """Repeat an action 4 times, or up to the end of the game."""
        check_step(action, self.num_actions, self._running)
        lives = self._ale.lives()
        score = float(self._repeat(action))
        self._played.append(action)
        over = self._ale.game_over()
        terminal = over or self._ale.lives() < lives
        ended = over or self._ale.getEpisodeFrameNumber() >= self._max_frames
        self._running = not ended
        return Step(self._frame(), max(-1.0, min(1.0, score)), score, terminal, ended)

    def render(self) -> np.ndarray:
        """The raw screen in colour, uint8 [210, 160, 3]."""
        return self._ale.getScreenRGB()

    def save(self) -> dict[str, np.ndarray]:
        """The game before the episode, the actions since, and the frame that these lead to."""
        return {
            "name": text_to_array(self.name),
            "generator": generator_to_array(self._generator),
            "before": np.frombuffer(self._before, np.uint8),
            "noops": np.array(self._noops),
            "played": np.array(self._played, np.uint8),
            "running": np.array(self._running),
            "frame": self._frame(),
        }

    def load(self, state: dict[str, np.ndarray]) -> None:
        """Play the saved episode again, up to where it was saved."""
        from ale_py import ALEState

        check_saved_name(self.name, state)
        self._generator = array_to_generator(state["generator"])
        self._before = state["before"].tobytes()
        self._noops = int(state["noops"])
        self._played = bytearray(state["played"].tobytes())
        self._running = bool(state["running"])
        self._ale.restoreSystemState(ALEState(self._before))
        self._screens[:] = 0
        if self._noops >= 0:
            self._begin()
        for action in self._played:
            self._repeat(action)
        if not np.array_equal(self._frame(), state["frame"]):
            raise fail(
                "state",
                self.name,
                "its actions led to another frame: saved with other settings or another ALE",
            )

    def close(self) -> None:
        """Nothing to let go of."""

    def _snapshot(self) -> bytes:
        return self._ale.cloneSystemState().serialize()

    def _begin(self) -> None:
        self._ale.reset_game()
        for _ in range(self._noops):
            self._ale.act(NOOP)
            if self._ale.game_over():
                self._ale.reset_game()
        self._ale.getScreenGrayscale(self._screens[0])
        self._screens[1] = 0

    def _repeat(self, action: int) -> int:
        """Act 4 times; leaves the maximum of the last two screens in the first buffer."""
        ale, act = self._ale, self._actions[action]
        latest, last_but_one = self._screens
        score = 0
        for repeat in range(ACTION_REPEAT):
            score += ale.act(act)
            if ale.game_over():
                break
            if repeat >= ACTION_REPEAT - 2:
                ale.getScreenGrayscale(latest if repeat == ACTION_REPEAT - 1 else last_but_one)
        np.maximum(latest, last_but_one, out=latest)
        return score

    def _frame(self) -> np.ndarray:
        return self._resize(self._screens[0])
