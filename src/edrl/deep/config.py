"""Everything that defines a run: one frozen record, which is the flags and config.json at once."""

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from edrl.core.algorithms import ALGORITHMS, algorithm
from edrl.core.check import fail, one_of
from edrl.core.json_text import parse_json
from edrl.core.statistics import Statistics
from edrl.deep.named_statistics import named_imputation, own_statistics, with_head
from edrl.deep.networks import NetworkName
from edrl.deep.settings import AGENTS_OWN, RUNS_OWN, SETTINGS, Value, check_entries
from edrl.deep.variant import AGENTS, Changes, Variant

PresetName = Literal["paper", "minatar", "parallel", "classic", "quick"]
OptimiserName = Literal["adam", "radam"]
ScheduleName = Literal["constant", "linear", "cosine"]
HeadName = Literal["chords", "atoms", "ordered"]
BesideName = Literal["c51", "qr-dqn", "qr-dqn-imputation", "er-dqn", "er-dqn-naive"]


@dataclass(frozen=True)
class Config:
    """A run of an agent. Steps are agent steps: in Atari one of them is four frames."""

    agent: str = "er-dqn"
    """Which agent learns: dqn, c51, qr-dqn, qr-dqn-imputation, er-dqn, er-dqn-naive or iqn; or
    MODULE:NAME, statistics or an agent of your own. er-dqn[size=51,double] changes settings, and
    says so in the agent's name."""
    env: str = "breakout"
    """What is played: an Atari game (breakout), a MinAtar game (minatar/breakout) or a Gymnasium
    id (CartPole-v1), which a module of your own may register (MODULE:ID)."""
    seed: int = 0
    """The seed of the network, of exploration, of replay and of the environment."""
    size: int | None = None
    """How many statistics of the return are learnt; the paper's number for the agent by default."""
    support: tuple[float, float] = (-10.0, 10.0)
    """The range of returns that c51 can represent: the ends of its support."""
    imputation: str | None = None
    """Another imputation for the agent's statistics: scipy-root, for example, is the paper's own
    for er-dqn (as many processes as XLA has threads share its work); or MODULE:NAME of your own."""
    head: HeadName | None = None
    """How the network's raw outputs become statistics of some distribution: chords or atoms for
    er-dqn, ordered or atoms for qr-dqn. By default the raw outputs are the statistics."""
    network: NetworkName = "nature"
    """The network: nature or the smaller nips for 84 x 84 frames, minatar for 10 x 10 images, mlp
    for vectors."""
    layer_norm: bool = False
    """Whether the network normalises its hidden layers (LayerNorm)."""
    steps: int = 50_000_000
    """How many steps the agent is trained for."""
    replay: int = 1_000_000
    """How many transitions the replay memory holds."""
    learn_after: int = 50_000
    """How many steps are played before the first update."""
    update_every: int = 4
    """How many steps lie between two updates of the network."""
    target_every: int = 10_000
    """How many steps lie between two copies of the network to the target network."""
    batch: int = 32
    """How many transitions an update learns from."""
    gamma: float = 0.99
    """The discount factor, by which a reward counts less with every step until it comes."""
    n_step: int = 1
    """How many rewards are summed before the return is bootstrapped. Returns of fewer steps count
    as well if `trace` is below 1."""
    envs: int = 1
    """How many environments are played side by side. A step of each counts, and all updates that
    are due are made at once."""
    rollout: int = 0
    """How many steps of each environment are learnt from at once, without replay memory and target
    network, as in PQN; 0 learns from a replay memory."""
    epochs: int = 2
    """How many times each step of a rollout is learnt from."""
    minibatches: int = 32
    """How many updates learn from a whole rollout once."""
    trace: float = 1.0
    """Lambda, the weight of longer returns: 0 bootstraps after one step; 1 after n_step steps, or
    at the end of a rollout."""
    cut_traces: bool = False
    """Whether longer returns end where an action was not the agent's best, so that it learns the
    returns of its best actions."""
    double: bool = False
    """Whether the online network chooses the next action, as in Double DQN, and not the target
    network."""
    risk: str | None = None
    """What actions are chosen by instead of their expected return: cvar-0.1 (the mean of the worst
    tenth of returns), expectile-0.3, deviation-0.5 (the mean less half a standard deviation),
    variance-NUMBER or entropic-NUMBER. Targets bootstrap from the actions chosen so."""
    beside: BesideName | None = None
    """Another agent's statistics of the returns, learnt beside this agent on features that they do
    not change: dqn[beside=er-dqn] plays as dqn does and knows its return distributions."""
    optimiser: OptimiserName = "adam"
    """The optimiser: adam, or radam, which begins with smaller steps."""
    learning_rate: float = 5e-5
    """Adam's learning rate, the size of a step."""
    schedule: ScheduleName = "constant"
    """How the learning rate falls: constant, linear or cosine."""
    schedule_steps: int | None = None
    """How many steps it takes the learning rate to fall; all steps that are planned by default. A
    run that is made longer keeps it."""
    schedule_floor: float = 0.0
    """The share of the learning rate that is left once it has fallen."""
    adam_epsilon: float = 0.01 / 32
    """Adam's epsilon, which keeps steps small where gradients are small. It is for a loss that is
    summed over the statistics, as in the paper."""
    max_gradient: float | None = None
    """The norm to which longer gradients are cut; none are by default."""
    average: float = 0.0
    """The share that a moving average of the network's weights keeps with each update: 0.999, say.
    The average acts, is evaluated and makes the targets; 0 turns it off."""
    epsilon: tuple[float, float] = (1.0, 0.01)
    """The share of random actions at the beginning, and at the end of its decay."""
    epsilon_steps: int = 1_000_000
    """How many steps it takes the share of random actions to fall, once learning has begun."""
    epsilon_follows: bool = False
    """Whether the share of random actions goes on falling as the learning rate does."""
    evaluate_every: int = 250_000
    """How many steps lie between two evaluations; 0 turns them off."""
    evaluate_steps: int = 125_000
    """How many steps an evaluation plays. Its last episode is cut, and counts only if it is the
    only one."""
    evaluate_episodes: int = 0
    """How many episodes an evaluation plays side by side, each to its end or for evaluate_steps
    steps; 0 plays one after the other."""
    evaluate_epsilon: float = 0.001
    """The share of random actions in evaluations."""
    sticky: bool = False
    """Whether an Atari game repeats the last action with probability 0.25."""
    log_every: int = 10_000
    """How many steps lie between two rows of metrics."""
    checkpoint_every: int = 250_000
    """How many steps lie between two checkpoints."""
    changed: Annotated[tuple[str, ...], tyro.conf.Suppress] = ()
    """The settings that are part of the agent's name: those in the brackets of its spelling."""

    def __post_init__(self) -> None:
        named = Variant.parse(self.agent)
        for name, value in self._checked_settings(named).items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "agent", named.base)
        object.__setattr__(self, "changed", self._changed({*self.changed, *dict(named.changes)}))
        if self.schedule_steps is None and self.schedule != "constant":
            object.__setattr__(self, "schedule_steps", self.steps)
        self._check_together()

    def _checked_settings(self, named: Variant) -> dict[str, Value]:
        """All settings in their plain form, with those in the agent's name."""
        given = {name: getattr(self, name) for name in SETTINGS}
        beside = {name: value for name, value in given.items() if value != DEFAULTS[name]}
        settings = {**given, **checked_changes(named, beside)}
        return {name: kind.check(name, settings[name]) for name, kind in SETTINGS.items()}

    def _changed(self, named: set[str]) -> tuple[str, ...]:
        """The settings in the agent's name: those given with it, and what makes another agent."""
        own = {name for name in AGENTS_OWN if getattr(self, name) != DEFAULTS[name]}
        absent = {name for name in named | own if getattr(self, name) is None}
        if self.size == own_size(self.agent):
            absent.add("size")
        return tuple(sorted((named | own) - absent))

    def _check_together(self) -> None:
        """Whether the settings go together."""
        self._check_dqn()
        self._check_support()
        self._check_head()
        if self.rollout:
            self._check_rollout()
        else:
            self._check_envs()
            self._check_replay()

    def _check_dqn(self) -> None:
        if self.agent == "dqn" and self.size not in (None, 1):
            raise fail("size", self.size, "it must be 1: dqn learns one statistic, the mean")
        if self.agent == "dqn" and self.risk is not None:
            raise fail("risk", self.risk, "it must be left out: dqn learns a mean alone")

    def _check_envs(self) -> None:
        if self.double and self.mixes_returns:
            right = "it must be false: returns of several lengths are not chosen by two networks"
            raise fail("double", True, right)
        if self.envs % self.update_every and self.update_every % self.envs:
            right = f"one of it and envs ({self.envs}) must divide the other"
            raise fail("update_every", self.update_every, right)

    def _check_replay(self) -> None:
        least = self.envs * (self.n_step + 2)
        if self.learn_after < least:
            right = f"it must be at least {least}: envs (n_step + 2)"
            raise fail("learn_after", self.learn_after, right)
        if self.replay < self.learn_after:
            right = f"it must be at least learn_after ({self.learn_after}), to hold those steps"
            raise fail("replay", self.replay, right)

    def _check_rollout(self) -> None:
        steps = self.envs * self.rollout
        if steps % self.minibatches:
            right = f"it must divide envs times rollout ({steps}), the steps that it shares out"
            raise fail("minibatches", self.minibatches, right)
        if self.double:
            raise fail("double", True, "it must be false: with rollouts there is no target network")
        if self.n_step != 1:
            raise fail("n_step", self.n_step, "it must be 1: rollouts have `trace` for it")

    def _check_support(self) -> None:
        if not self.support[0] < self.support[1]:
            raise fail("support", self.support, "it must be increasing: (low, high)")

    def _check_head(self) -> None:
        if self.head is None:
            return
        if self.agent == "iqn":
            raise fail("head", self.head, "it must be left out: iqn has a network of its own")
        if self.agent in AGENTS:  # code of a user's own is not imported before it is needed
            with_head(self.head, self._statistics())

    @property
    def variant(self) -> Variant:
        """The agent's name: its base and what was changed for it."""
        return Variant(self.agent, tuple((name, getattr(self, name)) for name in self.changed))

    def names_of_code(self, env: object = None, agent: object = None) -> list[str]:
        """What may be MODULE:NAME and is imported then; `env` and `agent` replace their own."""
        names = {self.env: env, self.agent: agent, self.imputation or "": None}
        return [name for name, replaced in names.items() if replaced is None]

    @property
    def agent_settings(self) -> Changes:
        """All settings but those in which runs of one agent may differ.

        A size that is not given is the agent's. A schedule over all steps is none of its own.
        """
        names = sorted(set(SETTINGS) - set(RUNS_OWN))
        settings = {name: getattr(self, name) for name in names}
        settings["size"] = self.size or own_size(self.agent)
        if self.schedule_steps == self.steps:
            settings["schedule_steps"] = None
        return tuple(settings.items())

    def family(self) -> Statistics:
        """The agent's statistics and imputation."""
        family = self._statistics()
        if self.imputation is not None:
            imputation = named_imputation(self.imputation, family)
            family = dataclasses.replace(family, imputation=imputation)
        return family if self.head is None else with_head(self.head, family)

    def _statistics(self) -> Statistics:
        """The agent's statistics, with their own imputation and head."""
        if self.agent not in AGENTS:
            return own_statistics(self.agent, self.size)
        return algorithm(AGENTS[self.agent], self.size, self.support)

    def epsilon_at(self, step: int) -> float:
        """The share of random actions at a step, which falls linearly once learning has begun."""
        first, last = self.epsilon
        if self.epsilon_follows:
            last *= self.learning_rate_at(step) / self.learning_rate
        done = min(1.0, max(0, step - self.learn_after) / max(1, self.epsilon_steps))
        return first + done * (last - first)

    @property
    def mixes_returns(self) -> bool:
        """Whether targets from replay memory mix returns of several lengths."""
        return self.n_step > 1 and (self.trace < 1 or self.cut_traces)

    def learning_rate_at(self, step: int) -> float:
        """The learning rate at a step."""
        if self.schedule == "constant":
            return self.learning_rate
        done = min(1.0, step / (self.schedule_steps or self.steps))
        left = 1 - done if self.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2
        return self.learning_rate * (self.schedule_floor + (1 - self.schedule_floor) * left)

    def due(self, step: int, every: int) -> bool:
        """Whether what happens `every` so many steps happens after this one.

        Environments that are played side by side step at once, so it may be a little late.
        """
        return step > 0 and every > 0 and step % every < self.envs

    def evaluation_at(self, step: int) -> bool:
        """Whether there is an evaluation after a step."""
        return self.due(step, self.evaluate_every)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Config":
        """The config that `to_json` wrote."""
        return cls.from_entries(parse_json(text))

    @classmethod
    def from_entries(cls, entries: Any) -> "Config":
        """The config whose settings JSON has held, whatever that is: lists are tuples."""
        check_entries(entries)
        lists = {name: tuple(entry) for name, entry in entries.items() if isinstance(entry, list)}
        changed = lists.get("changed", ())
        if entries.get("changed", []) != [*changed] or not set(SETTINGS).issuperset(changed):
            raise fail("changed", entries["changed"], "it must be a list of settings' names")
        return cls(**{**entries, **lists})


DEFAULTS: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(Config)}
"""Every setting's value in the paper."""


def own_size(agent: str) -> int | None:
    """The number of statistics that an agent has by default; None if it is not known beforehand."""
    named = ALGORITHMS.get(AGENTS.get(agent, ""))
    return None if named is None else named.size


def checked_changes(variant: Variant, given: Mapping[str, Value]) -> dict[str, Value]:
    """A variant's changes; settings that are given beside it must not contradict them."""
    for name, value in variant.changes:
        if given.get(name, value) != value:
            right = f"it must be {value}, as in {variant}, or be left out of one"
            raise fail(name, given[name], right)
    return dict(variant.changes)


def read_config(run: Path) -> Config:
    """The config of the run in a directory."""
    file = run / "config.json"
    if not file.exists():
        raise fail("run", str(run), "there is no run in it (no config.json)")
    try:
        return Config.from_json(file.read_text(encoding="utf-8"))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from error


_CLASSIC: dict[str, Any] = {
    "env": "CartPole-v1", "network": "mlp", "layer_norm": True, "steps": 200_000, "envs": 16,
    "rollout": 32, "epochs": 2, "minibatches": 8, "trace": 0.97, "cut_traces": True,
    # Where every return is the same, gradients are noise. A smaller epsilon makes whole steps of it,
    # which unlearn what was learnt.
    "optimiser": "radam", "learning_rate": 1e-3, "schedule": "linear", "adam_epsilon": 1e-4,
    "max_gradient": 10.0, "epsilon": (1.0, 0.2), "epsilon_steps": 20_000, "epsilon_follows": True,
    "evaluate_every": 40_000, "evaluate_steps": 10_000, "evaluate_episodes": 20,
    "log_every": 2_000, "checkpoint_every": 40_000, "support": (0.0, 100.0),
    # With --rollout 0, from a replay memory:
    "replay": 50_000, "learn_after": 1_000, "update_every": 4, "target_every": 500, "batch": 128,
}  # fmt: skip
_MINATAR: dict[str, Any] = {
    "env": "minatar/breakout", "network": "minatar", "steps": 5_000_000, "replay": 100_000,
    "learn_after": 5_000, "update_every": 1, "target_every": 1_000, "learning_rate": 2.5e-4,
    "adam_epsilon": 1e-8,
    "epsilon": (1.0, 0.1), "epsilon_steps": 100_000, "evaluate_every": 100_000,
    "evaluate_steps": 10_000, "checkpoint_every": 100_000,
}  # fmt: skip
_PARALLEL: dict[str, Any] = {
    "env": "minatar/breakout", "network": "minatar", "layer_norm": True, "steps": 10_000_000,
    "envs": 32, "rollout": 32, "epochs": 2, "minibatches": 32, "trace": 0.65, "cut_traces": True, "learn_after": 0,
    "optimiser": "radam", "learning_rate": 5e-4, "schedule": "linear", "adam_epsilon": 1e-8,
    "max_gradient": 10.0, "epsilon": (1.0, 0.05), "epsilon_steps": 1_000_000,
    "epsilon_follows": True,
    "evaluate_every": 1_000_000, "evaluate_steps": 10_000, "evaluate_episodes": 64,
    "log_every": 100_000, "checkpoint_every": 500_000,
}  # fmt: skip
_SHORT: dict[str, Any] = {
    "steps": 5_000, "evaluate_every": 2_500, "evaluate_steps": 1_000, "checkpoint_every": 1_000,
}  # fmt: skip
PRESETS: dict[PresetName, dict[str, Any]] = {
    "paper": {},
    "minatar": _MINATAR,
    "parallel": _PARALLEL,
    "classic": _CLASSIC,
    "quick": {**_CLASSIC, **_SHORT},
}
"""Settings that differ from the paper's."""


def preset(name: PresetName, **settings: Any) -> Config:
    """A preset with other settings: `preset("minatar", agent="er-dqn[size=51]", seed=3)`."""
    if name not in tuple(PRESETS):  # it may be no name at all
        raise fail("preset", name, one_of(name, PRESETS))
    for setting in settings:
        if setting not in ("agent", "changed", *SETTINGS):
            raise fail("setting", setting, one_of(setting, ("agent", *SETTINGS)))
    variant = Variant.parse(settings.get("agent", DEFAULTS["agent"]))
    return Config(**{**PRESETS[name], **settings, **checked_changes(variant, settings)})
