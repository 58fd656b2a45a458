"""A run: its state, and one step of it.

After `load` of what `save` wrote, every later number is the same as if nothing had happened, for
environments whose state can be saved: all but Gymnasium's, whose episodes are cut there.
"""

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from edrl.core.check import check_directory, fail
from edrl.core.statistics import Statistics
from edrl.deep import checkpoint
from edrl.deep.agents import Agent, build_agent
from edrl.deep.best import KeepBest
from edrl.deep.callbacks import Calibrate, Callback, Checkpoints, Evaluate, Event, Log
from edrl.deep.compiled import Compiled, compiled_training
from edrl.deep.config import Config
from edrl.deep.device_memory import DeviceReplay, DeviceRollout
from edrl.deep.environments import Environment, EnvironmentSource, observation_shape
from edrl.deep.environments.source import mixed_seed
from edrl.deep.learner import (
    GreedyPolicy,
    Passes,
    Seed,
    learn_from,
    new_learner,
    optimiser_for,
    seed_of,
    update,
    updates,
    with_new_target,
)
from edrl.deep.play import Actors
from edrl.deep.provenance import (
    FILE,
    check_identity,
    identity_of,
    passed_beside,
    provenance,
    read_provenance,
)
from edrl.deep.replay import Replay
from edrl.deep.replay_files import ReplayFiles
from edrl.deep.rollout import RolloutMemory
from edrl.deep.state import Counters, RunState, SinceLog, from_arrays, to_arrays
from edrl.deep.tables import Tables, Timing

if TYPE_CHECKING:
    from edrl.deep.environments.source import EnvironmentLike


class Streams(NamedTuple):
    """Streams of random numbers for agents that draw some, such as IQN: one for each purpose."""

    acting: int
    learning: int
    logging: int

    @classmethod
    def of(cls, seed: int) -> "Streams":
        return cls(*(mixed_seed(seed, 2**32 + purpose) for purpose in range(3)))


class Run:
    """A run in its directory. To make one writes nothing."""

    def __init__(
        self,
        config: Config,
        out: Path | str,
        *,
        agent: type[Agent] | Agent | None = None,
        family: Statistics | None = None,
        env: "EnvironmentLike | None" = None,
        replay: type[Replay] = Replay,
        callbacks: Sequence[Callback] = (),
    ):
        self.config, self.out = config, Path(out)
        self.source = EnvironmentSource(config.env if env is None else env, config.sticky)
        lanes = self.source.lanes(config.seed, config.envs)
        self.environment: Environment = lanes[0]
        self.agent = build_agent(config, self.environment, family, agent)
        self.streams = Streams.of(config.seed)
        self._compiled = compiled_training(config, self.environment, self.agent, self.streams)
        self.passed = passed_beside(
            agent=agent,
            env=None if env is None else self.environment.name,
            family=family,
            replay=None if replay is Replay else replay,
        )
        self.tables = Tables(self.out, self.agent.diagnostics)
        self._timing = Timing(self.out)
        self.callbacks = (
            Log(), Evaluate(), Calibrate(config.gamma), self.tables, KeepBest(), *callbacks,
            Checkpoints(), self._timing,
        )  # fmt: skip
        self.state = RunState(
            learner=new_learner(
                self.agent, optimiser_for(config, self.agent), jax.random.key(config.seed),
                target_network=not config.rollout,
            ),
            memory=_memory(config, self.environment, replay, self._compiled),
            actors=self._compiled.actors() if self._compiled else Actors.of(lanes),
            rng=np.random.default_rng(config.seed),
            counters=Counters(),
            since_log=SinceLog(),
            callbacks=_by_name(self.callbacks),
        )  # fmt: skip
        self._replay_files = ReplayFiles(self.out / "replay")
        self._whole = True  # whether it can be saved: not in the middle of a step
        self.interrupted: Callable[[], int] = lambda: 0  # the signal that asks it to end, if any

    @property
    def step(self) -> int:
        """How many steps have been made."""
        return self.state.counters.step

    @property
    def evaluation_due(self) -> bool:
        """Whether an evaluation is to be made before the next step."""
        due = self.config.evaluation_at(self.step)
        return due and self.state.counters.evaluated < self.step

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do: all steps are made, and the last evaluation too."""
        return self.step >= self.config.steps and not self.evaluation_due

    def tell(self, event: Event, *given: object) -> None:
        """Tell every callback, one after the other, what has happened."""
        for callback in self.callbacks:
            getattr(callback, event)(self, *given)

    def begin(self) -> None:
        """Make the directory, the first observations and the first checkpoint."""
        if checkpoint.found(self.out):
            right = "there is a run in it already: resume it, or choose another directory"
            raise fail("out", str(self.out), right)
        check_directory("out", self.out)
        files = {
            "config.json": self.config.to_json(), **self.tables.heads(), **self._timing.heads(),
        }  # fmt: skip
        for name, text in files.items():
            self._check_nothing_is_lost(name, text)
        self.out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            checkpoint.write_text(self.out / name, text)
        self._write_provenance([], {})
        if isinstance(self.state.actors, Actors):
            self.state.actors.begin()
        self.save()

    def _check_nothing_is_lost(self, name: str, text: str) -> None:
        """A run killed before its first checkpoint is begun again; nothing else is overwritten."""
        path = self.out / name
        there = path.read_text(errors="replace") if path.exists() else ""
        if not _but_for_steps(text).startswith(_but_for_steps(there)):
            right = f"there is a {name} in it that would be lost: choose another directory"
            raise fail("out", str(self.out), right)

    def note_resumption(self) -> None:
        """Write the settings, which may have grown, and what works on the run from now on."""
        checkpoint.replace_text(self.out / "config.json", self.config.to_json())
        self._write_provenance(read_provenance(self.out), {"step": self.step})

    def _write_provenance(self, before: list[dict[str, Any]], where: dict[str, int]) -> None:
        now = {**where, **provenance(), **self.passed}
        checkpoint.replace_text(self.out / FILE, json.dumps([*before, now], indent=1) + "\n")

    def advance(self) -> None:
        """One step of every environment, or a compiled block of steps: act, remember, learn."""
        if isinstance(self.state.actors, Actors):
            return self._step_here(self.state.actors)
        assert self._compiled is not None
        self._whole = False
        self._compiled.advance(self.state)
        self._whole = True

    def _step_here(self, actors: Actors) -> None:
        """One step of every environment on the host."""
        config, state, before = self.config, self.state, self.step
        policy = GreedyPolicy(self.agent, state.learner.acting, self.streams.acting, before)
        # Half a step of an environment whose state is saved must not be saved.
        self._whole = not self.environment.restorable
        turn = actors.act(policy, config.epsilon_at(before), state.rng)
        self._whole = False
        assert isinstance(state.memory, Replay | RolloutMemory)
        state.memory.remember(turn)
        state.since_log.played.add(turn, turn.after.ended)
        state.counters.step += config.envs
        state.counters.episodes += int(turn.after.ended.sum())
        if isinstance(state.memory, RolloutMemory):
            self._learn_from_rollout(state.memory)
        elif before >= config.learn_after:
            count = self.step // config.update_every - before // config.update_every
            self._learn_from_replay(state.memory, count)
            if config.due(self.step, config.target_every):
                state.learner = with_new_target(state.learner)
        self._whole = True

    def _learn_from_rollout(self, memory: RolloutMemory) -> None:
        """All updates from a rollout, once it is complete."""
        if not memory.complete:
            return
        optimiser = optimiser_for(self.config, self.agent, self.step)
        passes = Passes(self.config.epochs, self.config.minibatches)
        self.state.learner, losses = learn_from(
            self.agent, optimiser, self.state.learner, memory.taken(), passes, self._seed()
        )
        self.state.since_log.losses.append(losses)

    def _learn_from_replay(self, memory: Replay, count: int) -> None:
        """So many updates, in one call: several environments' steps make several due at once."""
        if not count:
            return
        state, size = self.state, self.config.batch
        batch = memory.sample(state.rng, count * size)
        following = (
            memory.following(np.asarray(batch.indices)) if self.config.mixes_returns else None
        )
        optimiser = optimiser_for(self.config, self.agent, self.step)
        given = self.agent, optimiser, state.learner
        if count == 1:
            state.learner, losses = update(*given, batch, self._seed(), following)
        else:
            state.learner, losses = updates(*given, batch, self._seed(), count, following)
        state.since_log.losses.append(losses)
        memory.update(np.reshape(batch.indices, losses.each.shape), losses.each)

    def _seed(self) -> Seed:
        """The seed of the random numbers that learning draws at this step."""
        return seed_of(self.streams.learning, self.step)

    def save(self) -> None:
        """Write a checkpoint of the whole state."""
        arrays = to_arrays(self.state)
        memory = self.state.memory
        replay = memory.on_host() if isinstance(memory, DeviceReplay) else memory
        files = self._replay_files.write(replay) if isinstance(replay, Replay) else {}
        identity = identity_of(self.config, self.passed)
        checkpoint.save(
            self.out, checkpoint.Checkpoint(self.step, self.finished, identity, arrays, files)
        )
        self.tell("on_checkpoint")

    def load(self, path: Path) -> None:
        """Continue from a checkpoint."""
        kept = checkpoint.load(path)
        check_identity(kept.identity, identity_of(self.config, self.passed))
        self._read_memory(kept.replay)
        self.state = from_arrays(self.state, kept.arrays)
        if isinstance(self.state.actors, Actors):
            self._cut_episodes(self.state.actors)

    def _read_memory(self, files: dict[str, str]) -> None:
        """Fill the memory from its files, if it has some."""
        memory = self.state.memory
        if isinstance(memory, Replay):
            self._replay_files.read(memory, files)
        elif isinstance(memory, DeviceReplay):
            replay = memory.empty()
            self._replay_files.read(replay, files)
            memory.take_from(replay)

    def _cut_episodes(self, actors: Actors) -> None:
        """Episodes of environments whose state is lost end here, as by a time limit."""
        memory = self.state.memory
        assert isinstance(memory, Replay | RolloutMemory)
        for lane, environment in enumerate(actors.environments):
            if not environment.restorable:
                memory.cut(lane, actors.recent.frames[lane, -1])
                actors.begin_episode(lane, environment.reset())

    @contextlib.contextmanager
    def saved_if_it_fails(self) -> Iterator[None]:
        """An environment that fails must not cost what was learnt."""
        try:
            yield
        except Exception:
            if self._whole:
                self.save()
            raise


def _memory(
    config: Config, environment: Environment, replay: type[Replay], compiled: Compiled | None
) -> Replay | RolloutMemory | DeviceReplay | DeviceRollout:
    """Where steps are kept until they are learnt from."""
    if compiled is not None:
        if replay is not Replay:
            right = "it must be left out: in environments written in JAX memory is on the device"
            raise fail("replay", replay, right)
        return compiled.memory()
    frame_shape, dtype = environment.frame_shape, environment.frame_dtype
    if not config.rollout:
        return replay(
            config.replay, frame_shape, dtype, environment.stack, config.n_step, config.gamma,
            config.envs,
        )  # fmt: skip
    if replay is not Replay:
        raise fail("replay", replay, "it must be left out: rollouts are learnt from without one")
    shape = observation_shape(environment)
    return RolloutMemory(config.rollout, config.envs, shape, dtype, config.gamma)


def _by_name(callbacks: Sequence[Callback]) -> dict[str, Callback]:
    named = {callback.name: callback for callback in callbacks}
    if len(named) < len(callbacks):
        names = sorted(callback.name for callback in callbacks)
        raise fail("callbacks", names, "each must have a `name` of its own")
    return named


def _but_for_steps(text: str) -> str:
    """The text of a config whatever its steps, by which a study may have grown since."""
    return re.sub(r'"steps": \d+', '"steps": ', text)
