"""MinAtar's five games (Young and Tian, 2019)."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np

from edrl.core.check import fail, one_of
from edrl.deep.environments.environment import (
    Step,
    array_to_text,
    check_saved_name,
    check_step,
    missing,
    text_to_array,
)

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")

STICKY_PROBABILITY = 0.1
ACTION_NAMES = {"n": "NOOP", "l": "LEFT", "u": "UP", "r": "RIGHT", "d": "DOWN", "f": "FIRE"}
_HEX = "000000 1f77b4 ff7f0e 2ca02c d62728 9467bd 8c564b e377c2 7f7f7f bcbd22 17becf"
COLOURS = np.frombuffer(bytes.fromhex(_HEX), np.uint8).reshape(
    -1, 3
)  # nothing, then up to ten channels
CELL = 16  # side of a rendered cell in pixels


class MinAtar:
    """One game with frames uint8 `[10, 10, channels]` of zeros and ones, and rewards as they are.

    As in MinAtar's paper, actions are sticky with probability 0.1 and the difficulty ramps up where
    the game knows that. The action set is the game's minimal one (version 1 of MinAtar's Gymnasium
    environments), so that no two actions are the same. Games end only by themselves; Freeway's
    clock is a terminal to MinAtar and so here.
    """

    stack = 1
    scale = 1.0
    restorable = True
    frame_dtype = np.dtype(np.uint8)

    def __init__(self, game: str, *, seed: int) -> None:
        if game not in GAMES:
            raise fail("game", game, one_of(game, GAMES))
        self.name = f"minatar/{game}"
        self._game = _game_class(game)(ramping=True)
        self._random = self._game.random = np.random.RandomState(seed)
        self._last_action = 0
        self._running = False
        self._actions: list[int] = self._game.minimal_action_set()
        self.num_actions = len(self._actions)
        self.action_names = tuple(
            ACTION_NAMES[self._game.action_map[action]] for action in self._actions
        )
        self.frame_shape: tuple[int, ...] = tuple(self._game.state_shape())

    def reset(self) -> np.ndarray:
        """Start an episode; as in MinAtar, the last one's action may stick to its first step."""
        self._game.reset()
        self._running = True
        return self._frame()

    def step(self, action: int) -> Step:
        """Take an action, or with probability 0.1 the last one again."""
        check_step(action, self.num_actions, self._running)
        if self._random.rand() >= STICKY_PROBABILITY:
            self._last_action = self._actions[action]
        reward, terminal = self._game.act(self._last_action)
        score, over = float(reward), bool(terminal)
        self._running = not over
        return Step(self._frame(), score, score, over, over)

    def render(self) -> np.ndarray:
        """A picture, uint8 [160, 160, 3]."""
        return draw_cells(self._frame())

    def save(self) -> dict[str, np.ndarray]:
        """The attributes of the game (as JSON if they are no arrays) and its random generator."""
        attributes = self._attributes()
        arrays = {
            name: value.copy()
            for name, value in attributes.items()
            if isinstance(value, np.ndarray)
        }
        plain = {name: value for name, value in attributes.items() if name not in arrays}
        random = self._random.get_state(legacy=False)
        return {
            "name": text_to_array(self.name),
            "random_key": random["state"]["key"],
            "random_rest": np.array(
                [random["state"]["pos"], random["has_gauss"], random["gauss"]], np.float64
            ),
            "last_action": np.array(self._last_action),
            "running": np.array(self._running),
            "plain": text_to_array(json.dumps(plain, default=np.generic.item)),
            **{f"game/{name}": array for name, array in arrays.items()},
        }

    def load(self, state: dict[str, np.ndarray]) -> None:
        """Give the game the attributes and the random generator that were saved."""
        check_saved_name(self.name, state)
        attributes: dict[str, Any] = json.loads(array_to_text(state["plain"]))
        attributes |= {
            name.removeprefix("game/"): v.copy()
            for name, v in state.items()
            if name.startswith("game/")
        }
        known = self._attributes()
        if _forms(attributes) != _forms(known):
            raise fail(
                "state", sorted(attributes), f"it must have MinAtar's attributes {sorted(known)}"
            )
        vars(self._game).update(attributes)
        position, has_gauss, gauss = state["random_rest"].tolist()
        self._random.set_state(
            ("MT19937", state["random_key"], int(position), int(has_gauss), gauss)
        )
        self._last_action = int(state["last_action"])
        self._running = bool(state["running"])

    def close(self) -> None:
        """Nothing to let go of."""

    def _attributes(self) -> dict[str, Any]:
        """The attributes of the game but its random generator."""
        return {name: value for name, value in vars(self._game).items() if name != "random"}

    def _frame(self) -> np.ndarray:
        frame: np.ndarray = self._game.state().view(np.uint8)
        return frame


def draw_cells(frame: np.ndarray) -> np.ndarray:
    """A square for each cell of a frame, in the colour of its highest channel."""
    highest = np.max(frame * np.arange(1, frame.shape[-1] + 1), axis=-1)
    return np.asarray(COLOURS[highest].repeat(CELL, axis=0).repeat(CELL, axis=1))


def _forms(attributes: dict[str, Any]) -> dict[str, object]:
    """The names of attributes, and the form of those that are arrays."""
    forms: dict[str, object] = {}
    for name, value in attributes.items():
        forms[name] = (value.shape, value.dtype) if isinstance(value, np.ndarray) else None
    return forms


def _game_class(game: str) -> Any:
    """MinAtar's class of a game, from its file: to import all of MinAtar takes seconds."""
    package = importlib.util.find_spec("minatar")
    if package is None or package.origin is None:
        raise missing("minatar", "minatar")
    path = Path(package.origin).parent / "environments" / f"{game}.py"
    spec = importlib.util.spec_from_file_location(f"minatar.environments.{game}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Env
