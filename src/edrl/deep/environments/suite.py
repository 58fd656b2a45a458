"""Suites: families of environments that are known by name, with the scores of others in them."""

import contextlib
import csv
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from edrl.core.check import check_seed, fail, nearest
from edrl.deep.environments import atari, in_jax, jax_suites, minatar
from edrl.deep.environments.environment import Environment
from edrl.named_modules import import_named

if TYPE_CHECKING:
    import gymnasium

    Made = str | gymnasium.Env | in_jax.JaxEnvironment
    """What environments are made from."""


class Scores(NamedTuple):
    """What others score in an environment, where that is known."""

    random: float | None = None
    human: float | None = None


@runtime_checkable
class Suite(Protocol):
    """Environments by name."""

    @property
    def names(self) -> tuple[str, ...]:
        """The full names, such as minatar/breakout."""
        ...

    @property
    def has_sticky_actions(self) -> bool:
        """Whether `make` heeds `sticky`."""
        ...

    @property
    def scores(self) -> Mapping[str, Scores]:
        """Scores by name; names may be missing."""
        ...

    def make(self, name: str, *, seed: int, sticky: bool) -> Environment:
        """The environment with one of the names."""
        ...


class _Atari:
    """The 57 games, and the scores that the paper's table lists."""

    names = atari.GAMES
    has_sticky_actions = True

    @property
    def scores(self) -> dict[str, Scores]:
        rows = _table("atari57.csv")
        return {row["game"]: Scores(float(row["random"]), float(row["human"])) for row in rows}

    def make(self, name: str, *, seed: int, sticky: bool) -> Environment:
        return atari.Atari(name, seed=seed, sticky=sticky)


class _MinAtar:
    """The five games; benchmarks/random_scores.py measured their random scores."""

    prefix = "minatar/"
    names = tuple(f"minatar/{game}" for game in minatar.GAMES)
    has_sticky_actions = False  # its actions are always sticky, with probability 0.1

    @property
    def scores(self) -> dict[str, Scores]:
        return {row["env"]: Scores(float(row["random"])) for row in _table("minatar5.csv")}

    def make(self, name: str, *, seed: int, sticky: bool) -> Environment:
        return minatar.MinAtar(name.removeprefix(self.prefix), seed=seed)


class _InJax:
    """MinAtar's games as packages for JAX have them, which training compiles."""

    has_sticky_actions = False
    scores: Mapping[str, Scores] = MappingProxyType({})

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def make(self, name: str, *, seed: int, sticky: bool) -> Environment:
        return in_jax.JaxOnHost(jax_suites.made(name), seed=seed)


_SUITES: list[Suite] = [
    _Atari(), _MinAtar(), _InJax(jax_suites.PGX), _InJax(jax_suites.GYMNAX),
]  # fmt: skip


def register(suite: Suite) -> None:
    """Make the environments of a suite known by their names."""
    for name in suite.names:
        if name in names():
            raise fail(
                "suite", type(suite).__name__, f"there is an environment called {name} already"
            )
    _SUITES.append(suite)


def names() -> tuple[str, ...]:
    """The environments that suites know by name; `make` knows the ids of Gymnasium besides."""
    return tuple(name for suite in _SUITES for name in suite.names)


def scores_of(env: str) -> Scores:
    """What others score in an environment; nothing of one that no suite knows.

    No module is imported for it: names come from the files of runs, too.
    """
    suite, name = _registered(env)
    return Scores() if suite is None else suite.scores.get(name, Scores())


def import_suite(env: str) -> None:
    """Import the module of MODULE:NAME, which may register a suite, if it is on this machine."""
    module, _, _ = env.rpartition(":")
    if module:
        with contextlib.suppress(ImportError):
            import_named(module)


def make(env: "Made", *, seed: int, sticky: bool = False) -> Environment:
    """The environment called `env`, or an environment of Gymnasium or in JAX as an object.

    Args:
        env: "breakout" (Atari), "minatar/breakout", "pgx/minatar-breakout" (in JAX), "CartPole-v1"
            (Gymnasium), or "MODULE:NAME", where importing the module registers a suite or a
            Gymnasium id.
        seed: of the environment's random numbers.
        sticky: whether an Atari game repeats the last action with probability 0.25.
    """
    seed = check_seed("seed", seed)
    if isinstance(env, in_jax.JaxEnvironment):
        _check_sticky(sticky, env)
        return in_jax.JaxOnHost(env, seed=seed)
    suite, name = _find(env) if isinstance(env, str) else (None, "")
    if suite is None:
        return _make_gymnasium(env, seed, sticky)
    _check_sticky(sticky and not suite.has_sticky_actions, env)
    return suite.make(name, seed=seed, sticky=sticky)


def _check_sticky(refused: bool, env: "Made") -> None:
    if refused:
        raise fail("sticky", True, f"only Atari games can be made sticky, not {env}")


def _find(env: str) -> tuple[Suite | None, str]:
    try:
        return _suite_of(env)
    except ModuleNotFoundError as error:
        right = "what stands before the colon must be a module that can be imported from here"
        raise fail("env", env, f"{error}: {right}") from error
    except ImportError as error:
        raise fail("env", env, _advice(env, ())) from error


def _suite_of(env: str) -> tuple[Suite | None, str]:
    """The suite of an environment, if it has one, and its name there; its module is imported."""
    module, _, _ = env.rpartition(":")
    if module:
        import_named(module)
    return _registered(env)


def _registered(env: str) -> tuple[Suite | None, str]:
    """The suite of an environment, if it is known by now, and its name there."""
    _, _, name = env.rpartition(":")
    for suite in _SUITES:
        if name in suite.names:
            return suite, name
    return None, name


def _make_gymnasium(env: "str | gymnasium.Env", seed: int, sticky: bool) -> Environment:
    import gymnasium  # slow to import, and games by name do without it

    from edrl.deep.environments.gym import Gymnasium, registered

    if isinstance(env, str):
        try:
            registered(env)
        except (gymnasium.error.Error, ImportError, ValueError) as error:
            raise fail("env", env, _advice(env, tuple(gymnasium.registry))) from error
    elif not isinstance(env, gymnasium.Env):
        raise fail("env", env, "it must be a name, a gymnasium.Env or a JaxEnvironment")
    _check_sticky(sticky, env)
    try:
        return Gymnasium(env, seed=seed)
    except gymnasium.error.DependencyNotInstalled as error:
        raise ImportError(f"{env} needs what is not installed: {error}") from error
    except gymnasium.error.Error as error:
        raise fail("env", env, f"Gymnasium cannot make it: {error}") from error


def _advice(name: str, ids: tuple[str, ...]) -> str:
    """What the name might have been meant to be."""
    near = nearest(name.rpartition(":")[2], (*ids, *names()), most=4)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return (
        f"{meant}It must be one of the 57 Atari games, one of the five minatar/ games (pgx/ or"
        " gymnax/ for those in JAX), an id of Gymnasium, or MODULE:ID"
    )


def _table(name: str) -> list[dict[str, str]]:
    """The rows of a table of scores that comes with the package."""
    text = (files("edrl") / "study" / "data" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
