"""MinAtar's games as pgx and gymnax have written them in JAX."""

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, Shaped

from edrl.deep.environments.environment import missing
from edrl.deep.environments.in_jax import JaxEnvironment, JaxStep, State
from edrl.deep.environments.minatar import draw_cells

PGX = tuple(
    f"pgx/minatar-{game}"
    for game in ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
)
GYMNAX = tuple(
    f"gymnax/{game}-MinAtar"
    for game in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")
)
_ACTION_NAMES: Mapping[str, str] = {
    "asterix": "NOOP LEFT UP RIGHT DOWN",
    "breakout": "NOOP LEFT RIGHT",
    "freeway": "NOOP UP DOWN",
    "seaquest": "NOOP LEFT UP RIGHT DOWN FIRE",
    "spaceinvaders": "NOOP LEFT RIGHT FIRE",
}


class _MinAtar(JaxEnvironment):
    """Frames uint8 [10, 10, channels] of zeros and ones, and the game's minimal action set."""

    frame_dtype = np.dtype(np.uint8)

    def __init__(self, name: str) -> None:
        self.name = name
        game = name.partition("/")[2].replace("minatar-", "").replace("-MinAtar", "")
        self._action_names = tuple(_ACTION_NAMES[game.replace("_", "").lower()].split())
        self.num_actions = len(self._action_names)

    @property
    def action_names(self) -> tuple[str, ...]:
        return self._action_names

    def draw(self, state: State, frame: Shaped[np.ndarray, "..."]) -> np.ndarray:
        return draw_cells(frame)


class Pgx(_MinAtar):
    """A game of pgx (Koyamada et al., 2023): as MinAtar's own, with sticky actions."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._game = _imported("pgx").make(name.partition("/")[2])
        self.frame_shape = tuple(self._game.observation_shape)

    def reset(self, key: PRNGKeyArray) -> tuple[State, Shaped[Array, "..."]]:
        state = self._game.init(key)
        return state, state.observation.astype(jnp.uint8)

    def step(
        self, key: PRNGKeyArray, state: State, action: Int[Array, ""]
    ) -> tuple[State, JaxStep]:
        later: Any = self._game.step(state, action, key)
        reward, terminal = later.rewards[0], later.terminated
        frame = later.observation.astype(jnp.uint8)
        return later, JaxStep(frame, reward, reward, terminal, terminal | later.truncated)


class Gymnax(_MinAtar):
    """A game of gymnax (Lange, 2022): actions are not sticky, and episodes are cut by its limit."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._game, self._parameters = _imported("gymnax").make(name.partition("/")[2])
        self.frame_shape = tuple(self._game.obs_shape)

    def reset(self, key: PRNGKeyArray) -> tuple[State, Shaped[Array, "..."]]:
        seen, state = self._game.reset_env(key, self._parameters)
        return jax.tree.map(jnp.asarray, state), seen.astype(jnp.uint8)

    def step(
        self, key: PRNGKeyArray, state: State, action: Int[Array, ""]
    ) -> tuple[State, JaxStep]:
        given = key, state, action, self._parameters
        seen, state, reward, terminal, _ = self._game.step_env(*given)
        ended = terminal | self._game.is_truncated(state, self._parameters)
        return state, JaxStep(seen.astype(jnp.uint8), reward, reward, terminal, ended)


@cache
def made(name: str) -> JaxEnvironment:
    """The game with a name, one object for all that play it: it is compiled once."""
    return Pgx(name) if name in PGX else Gymnax(name)


def _imported(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise missing(package, package) from error
