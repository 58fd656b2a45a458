"""Everything that defines a run: one frozen record, which is the flags and the run's config.json at once."""

import dataclasses
import importlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Literal

from edrl.core.algorithms import algorithm
from edrl.core.check import check_count, check_number, fail
from edrl.core.imputation import STRATEGIES
from edrl.core.statistics import Statistics
from edrl.deep.networks import NetworkName
from edrl.deep.objects import is_object_name, load_object

PresetName = Literal["paper", "minatar", "classic", "quick"]

THREADS = "PJRT_NPROC"
"""The environment variable that limits XLA's threads, on whose number sums depend."""

AGENTS = {n.lower(): n for n in ("DQN", "C51", "QR-DQN", "QR-DQN-imputation", "ER-DQN", "ER-DQN-naive", "IQN")}
"""Agents by their names on the command line."""


@dataclass(frozen=True)
class Config:
    """A run of an agent. Steps are agent steps: in Atari one of them is four frames."""

    agent: str = "er-dqn"
    """dqn, c51, qr-dqn, qr-dqn-imputation, er-dqn, er-dqn-naive or iqn; or MODULE:NAME, statistics or an agent of your
    own."""
    env: str = "breakout"
    """An Atari game (breakout), a MinAtar game (minatar/breakout) or a Gymnasium id (CartPole-v1), which a module of
    your own may register (MODULE:ID)."""
    seed: int = 0
    """Of the network, of exploration, of replay and of the environment."""
    size: int | None = None
    """How many statistics; by default the paper's number for the agent."""
    support: tuple[float, float] = (-10.0, 10.0)
    """The range of returns for c51."""
    imputation: str | None = None
    """Another imputation strategy for the agent's statistics, e.g. scipy-root, the paper's own for er-dqn,
    which is spread over as many processes as XLA has threads; or MODULE:NAME of your own."""
    network: NetworkName = "nature"
    """nature or the smaller nips (84 x 84 frames), minatar (10 x 10 images) or mlp (vectors)."""
    steps: int = 50_000_000
    """How long to train."""
    replay: int = 1_000_000
    """Capacity of the replay memory."""
    learn_after: int = 50_000
    """Steps before the first update."""
    update_every: int = 4
    """Steps between two updates."""
    target_every: int = 10_000
    """Steps between two copies of the network to the target network."""
    batch: int = 32
    """Transitions in an update."""
    gamma: float = 0.99
    """Discount factor."""
    n_step: int = 1
    """Rewards before bootstrapping."""
    envs: int = 1
    """Environments that are played side by side; a step of each counts, and updates that fall due are made at once."""
    double: bool = False
    """Choose the next action by the online network, as Double DQN does."""
    cvar: float = 1.0
    """Choose actions by the mean of the worst share of their returns (CVaR); 1 is the expected return."""
    learning_rate: float = 5e-5
    """Adam's."""
    adam_epsilon: float = 0.01 / 32
    """Adam's."""
    epsilon: tuple[float, float] = (1.0, 0.01)
    """Share of random actions at first, and in the end."""
    epsilon_steps: int = 1_000_000
    """Steps over which it falls."""
    evaluate_every: int = 250_000
    """Steps between two evaluations; 0 for none."""
    evaluate_steps: int = 125_000
    """Steps of an evaluation (its last episode is cut, and does not count unless it is the only one)."""
    evaluate_epsilon: float = 0.001
    """Share of random actions in evaluations."""
    sticky: bool = False
    """Atari: repeat the last action with probability 0.25."""
    log_every: int = 10_000
    """Steps between two rows of metrics."""
    checkpoint_every: int = 250_000
    """Steps between two checkpoints."""

    def __post_init__(self) -> None:
        if not is_agent(self.agent):
            raise fail("agent", self.agent, f"it must be one of {', '.join(AGENTS)}, or MODULE:NAME")
        if self.agent == "dqn" and self.size not in (None, 1):
            raise fail("size", self.size, "dqn learns one statistic, the mean")
        if self.agent == "dqn" and self.cvar != 1:
            raise fail("cvar", self.cvar, "dqn learns a mean alone, and has no other returns to choose by")
        own = self.imputation is None or is_object_name(self.imputation)
        if not own and self.imputation not in STRATEGIES:
            raise fail("imputation", self.imputation, f"it must be one of {', '.join(STRATEGIES)}, or MODULE:NAME")
        counts = dict.fromkeys(
            ("steps", "replay", "update_every", "target_every", "batch", "n_step", "evaluate_steps", "log_every",
             "checkpoint_every", "envs"), 1,
        ) | dict.fromkeys(("seed", "evaluate_every", "epsilon_steps"), 0)  # fmt: skip
        for name, least in counts.items():
            object.__setattr__(self, name, check_count(name, getattr(self, name), least))  # 1e6 is the integer
        for name in ("steps", "target_every", "log_every", "evaluate_every", "checkpoint_every"):
            if getattr(self, name) % self.envs:
                raise fail(name, getattr(self, name), f"{self.envs} envs step at once: it must be a multiple of that")
        if self.envs % self.update_every and self.update_every % self.envs:
            raise fail("update_every", self.update_every, f"one of it and envs ({self.envs}) must divide the other")
        after = check_count("learn_after", self.learn_after, self.envs * (self.n_step + 2))
        object.__setattr__(self, "learn_after", after)
        if self.size is not None:
            object.__setattr__(self, "size", check_count("size", self.size, 1))
        above_zero = ("learning_rate", "adam_epsilon", "cvar")
        for name in ("gamma", "evaluate_epsilon", *above_zero):
            most = inf if name in ("learning_rate", "adam_epsilon") else 1.0
            number = check_number(name, getattr(self, name), 0.0, most, open_low=name in above_zero)
            object.__setattr__(self, name, number)  # a plain one, which JSON can hold
        for name in ("epsilon", "support"):
            if not isinstance(getattr(self, name), tuple) or len(getattr(self, name)) != 2:
                raise fail(name, getattr(self, name), "it must be two numbers")
        if not self.support[0] < self.support[1]:
            raise fail("support", self.support, "the first number must be less than the second")
        for share in self.epsilon:
            check_number("epsilon", share, 0.0, 1.0)
        if self.replay < self.learn_after:
            raise fail("replay", self.replay, f"it must hold the {self.learn_after} steps before the first update")

    @property
    def label(self) -> str:
        """The agent's name for people, with its imputation and what it chooses by if they are not its own."""
        name = AGENTS.get(self.agent) or self.agent.partition(":")[2]
        if self.agent not in AGENTS and name.lower() in AGENTS:
            return self.agent  # a user's own that is called as one of ours
        changed = [self.imputation] if self.imputation else []
        changed += [f"CVaR {self.cvar:g}"] if self.cvar != 1 else []
        return f"{name} ({', '.join(changed)})" if changed else name

    def family(self) -> Statistics:
        """The agent's statistics and imputation strategy."""
        own = self.agent not in AGENTS
        family = _load(self.agent, self.size) if own else algorithm(AGENTS[self.agent], self.size, self.support)
        if self.imputation is None:
            return family
        if own or not hasattr(family, "taus"):
            raise fail("imputation", self.imputation, f"the statistics of {self.agent} have only one way to be imputed")
        known = self.imputation in STRATEGIES
        strategy: Any = STRATEGIES[self.imputation] if known else load_object("imputation", self.imputation)
        if hasattr(strategy, "processes"):  # SciPy's, solved row by row
            strategy = dataclasses.replace(strategy, processes=int(os.environ.get(THREADS) or os.cpu_count() or 1))
        kind: Any = type(family)
        return kind(family.taus, impute=strategy)

    def epsilon_at(self, step: int) -> float:
        """The share of random actions at a step: the first before learning, then falling linearly."""
        first, last = self.epsilon
        done = min(1.0, max(0, step - self.learn_after) / max(1, self.epsilon_steps))
        return first + done * (last - first)

    def evaluation_at(self, step: int) -> bool:
        """Whether there is an evaluation after a step."""
        return step > 0 and self.evaluate_every > 0 and step % self.evaluate_every == 0

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Config":
        """The config that `to_json` wrote."""
        entries: dict[str, Any] = json.loads(text)
        known = {field.name for field in dataclasses.fields(cls)}
        for name in entries:
            if name not in known:
                raise fail("config", name, "this version of edrl has no such setting")
        entries = {name: tuple(entry) if isinstance(entry, list) else entry for name, entry in entries.items()}
        return cls(**entries)


def read_config(run: Path) -> Config:
    """The config of the run in a directory."""
    file = run / "config.json"
    if not file.exists():
        raise fail("run", str(run), "there is no run in it (no config.json)")
    try:
        return Config.from_json(file.read_text())
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from error


def is_agent(name: str) -> bool:
    """Whether a name is one of `AGENTS`, or has the form of a user's own, MODULE:NAME."""
    module, _, attribute = name.partition(":")
    return name in AGENTS or (module not in AGENTS and bool(module) and attribute.isidentifier())


def _load(name: str, size: int | None) -> Statistics:
    """Statistics of a user's own: MODULE:NAME, where NAME is an object, or makes one (with `size` statistics)."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        right = f"{error}; it must name statistics in a module that can be imported from here"
        raise fail("agent", name, right) from error
    if callable(found) and not isinstance(found, Statistics):
        try:
            found = found() if size is None else found(size)
            found.size  # noqa: B018 - a size that it cannot have shows only when it is asked for
        except (TypeError, AttributeError) as error:
            given = "" if size is None else f" with size {size}"
            raise fail("agent", name, f"it cannot be made{given}: {type(error).__name__}: {error}") from error
    elif size is not None:
        raise fail("size", size, f"{name} is an object whose size is settled")
    if not isinstance(found, Statistics):
        raise fail("agent", name, "it must be an object of edrl.Statistics, or a class or function that makes one")
    return found


def in_order(labels: Iterable[str]) -> list[str]:
    """Agents' labels as `AGENTS` lists them, a variant after the agent that it varies, users' own at the end."""
    order = {label: place for place, label in enumerate(AGENTS.values())}
    return sorted(labels, key=lambda label: (order.get(label.split(" (")[0], len(order)), label))


_CLASSIC: dict[str, Any] = {
    "env": "CartPole-v1", "network": "mlp", "steps": 50_000, "replay": 50_000, "learn_after": 1_000, "update_every": 4,
    "target_every": 100, "batch": 128, "learning_rate": 1e-3, "adam_epsilon": 1e-8, "epsilon": (1.0, 0.02),
    "epsilon_steps": 5_000, "evaluate_every": 10_000, "evaluate_steps": 5_000, "log_every": 500,
    "checkpoint_every": 10_000, "support": (0.0, 100.0),
}  # fmt: skip
PRESETS: dict[PresetName, dict[str, Any]] = {
    "paper": {},
    "minatar": {
        "env": "minatar/breakout", "network": "minatar", "steps": 5_000_000, "replay": 100_000, "learn_after": 5_000,
        "update_every": 1, "target_every": 1_000, "learning_rate": 2.5e-4, "epsilon": (1.0, 0.1),
        "epsilon_steps": 100_000, "evaluate_every": 100_000, "evaluate_steps": 10_000, "checkpoint_every": 100_000,
    },
    "classic": _CLASSIC,
    "quick": {**_CLASSIC, "steps": 5_000, "evaluate_every": 2_500, "evaluate_steps": 1_000, "checkpoint_every": 1_000},
}  # fmt: skip
"""Settings that differ from the paper's."""


def preset(name: PresetName, **settings: Any) -> Config:
    """The settings of a preset, with changes: `preset("minatar", agent="qr-dqn", seed=3)`."""
    if name not in PRESETS:
        raise fail("preset", name, f"it must be one of {', '.join(PRESETS)}")
    return Config(**{**PRESETS[name], **settings})
