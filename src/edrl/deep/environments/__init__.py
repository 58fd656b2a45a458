"""Environments on the host, all with one interface: Atari, MinAtar, Gymnasium."""

from difflib import get_close_matches
from typing import TYPE_CHECKING

from edrl.core.check import check_count, fail
from edrl.deep.environments import atari, minatar
from edrl.deep.environments.environment import Environment, Step

if TYPE_CHECKING:
    import gymnasium

__all__ = ["Environment", "Step", "make", "names"]

_MINATAR = "minatar/"


def names() -> tuple[str, ...]:
    """The games that `make` knows by name, besides the ids of Gymnasium: 57 of Atari, 5 of MinAtar."""
    return (*atari.GAMES, *(_MINATAR + game for game in minatar.GAMES))


def make(env: "str | gymnasium.Env", *, seed: int, sticky: bool = False) -> Environment:
    """The environment called `env`: "breakout" (Atari), "minatar/breakout", "CartPole-v1" (Gymnasium), or an object.

    `sticky` concerns Atari: whether the game repeats the last action with probability 0.25. (MinAtar's actions are
    always sticky, with probability 0.1.)
    """
    seed = check_count("seed", seed, 0)
    if isinstance(env, str) and env in atari.GAMES:
        return atari.Atari(env, seed=seed, sticky=sticky)
    if isinstance(env, str) and env in names():
        _refuse_sticky(sticky, env)
        return minatar.MinAtar(env.removeprefix(_MINATAR), seed=seed)

    import gymnasium  # slow to import, and games by name do without it

    from edrl.deep.environments.gym import Gymnasium, registered

    if isinstance(env, str):
        try:
            registered(env)
        except ModuleNotFoundError as error:
            right = f"{error}: what stands before the colon must be a module that can be imported from here"
            raise fail("env", env, right) from error
        except (gymnasium.error.Error, ImportError, ValueError) as error:
            raise fail("env", env, _advice(env, list(gymnasium.registry))) from error
    elif not isinstance(env, gymnasium.Env):
        raise fail("env", env, "it must be a name or a gymnasium.Env")
    _refuse_sticky(sticky, env)
    try:
        return Gymnasium(env, seed=seed)
    except gymnasium.error.DependencyNotInstalled as error:
        raise ImportError(f"{env} needs what is not installed: {error}") from error
    except gymnasium.error.Error as error:
        raise fail("env", env, f"Gymnasium cannot make it: {error}") from error


def _refuse_sticky(sticky: bool, env: "str | gymnasium.Env") -> None:
    if sticky:
        raise fail("sticky", sticky, f"only Atari games can be made sticky, not {env}")


def _advice(name: str, ids: list[str]) -> str:
    """What the name might have been meant to be."""
    spelt = {known.lower(): known for known in (*ids, *names())}
    near = [spelt[match] for match in get_close_matches(name.rpartition(":")[2].lower(), spelt, n=4)]
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return (
        f"{meant}It must be one of the 57 Atari games, one of the five minatar/ games, an id of Gymnasium, or MODULE:ID"
    )
