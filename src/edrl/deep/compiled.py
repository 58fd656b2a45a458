"""Compiled training: what the host does before and after each block, which is one program.

A block ends wherever the host has something to do: a row of metrics, an evaluation, a checkpoint, a
new target network, a complete rollout, the end. So a run does the same things at the same steps as
on the host. Random numbers depend on the seed and the step alone, and no result on where blocks end.
"""

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, UInt32

from edrl.core.check import fail
from edrl.deep.agents.agent import Agent
from edrl.deep.blocks import (
    ReplayRules,
    RolloutRules,
    Told,
    Turns,
    replay_block,
    rollout_block,
)
from edrl.deep.config import Config
from edrl.deep.device_memory import DeviceReplay, DeviceRollout
from edrl.deep.environments import Environment
from edrl.deep.environments.in_jax import JaxOnHost
from edrl.deep.lanes import Lanes, first_lanes
from edrl.deep.learner import Losses, Passes, optimiser_for, seed_of, with_new_target

if TYPE_CHECKING:
    from edrl.deep.run import Streams
    from edrl.deep.state import RunState

MOST_STEPS = 2_000  # of a block: a run that is asked to end saves after it
_LEAST_TURNS = 8  # of the longest block, however many environments there are
_MOST_ENTRIES = 2**31 - 1  # of a lane in replay memory: they are counted in 32 bits


class Compiled:
    """Training in an environment written in JAX."""

    def __init__(
        self, config: Config, environment: JaxOnHost, agent: Agent, streams: "Streams"
    ) -> None:
        if 2 * config.steps > _MOST_ENTRIES * config.envs:  # every step may end an episode
            right = f"it must be at most {_MOST_ENTRIES // 2} for each environment in JAX"
            raise fail("steps", config.steps, right)
        self._config, self._agent, self._streams = config, agent, streams
        self._environment = environment
        # What programs are compiled for.
        self._most_turns = config.rollout or max(MOST_STEPS // config.envs, _LEAST_TURNS)

    def actors(self) -> Lanes:
        """The first episodes."""
        environment, count = self._environment.pure, self._config.envs
        lanes: Lanes = first_lanes(environment, count, self._streams.acting)
        return lanes

    def memory(self) -> DeviceReplay | DeviceRollout:
        """An empty memory."""
        config, environment = self._config, self._environment
        if config.rollout:
            return DeviceRollout(environment, config.rollout, config.envs, config.gamma)
        return DeviceReplay(environment, config.replay, config.n_step, config.gamma, config.envs)

    def advance(self, state: "RunState") -> None:
        """One block."""
        if isinstance(state.memory, DeviceRollout):
            self._advance_rollout(state, state.memory)
        else:
            assert isinstance(state.memory, DeviceReplay)
            self._advance_replay(state, state.memory)

    def _advance_rollout(self, state: "RunState", memory: DeviceRollout) -> None:
        """Turns until the rollout is complete, or until something is due."""
        config, step, place = self._config, state.counters.step, memory.place
        count = min(self._turns_until_due(step), config.rollout - place)
        after = step + count * config.envs
        rules = RolloutRules(
            self._environment.pure, config.gamma, Passes(config.epochs, config.minibatches)
        )
        (state.learner, memory.rollout, state.actors), told, losses = rollout_block(
            rules,
            self._agent,
            optimiser_for(config, self._agent, after),
            (state.learner, memory.rollout, state.actors),
            self._turns(step, count),
            count,
            place,
            seed_of(self._streams.learning, after),
        )
        memory.added += count
        complete = place + count == config.rollout
        self._note(state, told, count, np.asarray(losses) if complete else np.zeros(0))

    def _advance_replay(self, state: "RunState", memory: DeviceReplay) -> None:
        """Turns until something is due, also a new target network."""
        config, step = self._config, state.counters.step
        count = self._turns_until_due(step, config.target_every)
        turns = self._turns(step, count)
        rules = ReplayRules(
            self._environment.pure,
            memory.layout,
            max(1, config.envs // config.update_every),
            config.batch,
            config.mixes_returns,
        )
        (state.learner, memory.columns, state.actors), told = replay_block(
            rules,
            self._agent,
            optimiser_for(config, self._agent, step),
            (state.learner, memory.columns, state.actors),
            turns,
            count,
        )
        learns = np.nonzero(np.asarray(turns.learns)[:count])
        self._note(state, told, count, np.asarray(told.losses)[learns].reshape(-1))
        last = state.counters.step - config.envs
        if last >= config.learn_after and config.due(state.counters.step, config.target_every):
            state.learner = with_new_target(state.learner)

    def _turns_until_due(self, step: int, *also: int) -> int:
        """How many turns there are until something is due that happens every so many steps."""
        config = self._config
        periods = (config.log_every, config.evaluate_every, config.checkpoint_every, *also)
        due = [(step // every + 1) * every for every in periods if every]
        return min(self._most_turns, -(-(min(*due, config.steps) - step) // config.envs))

    def _turns(self, step: int, count: int) -> Turns:
        """What is decided for the next turns, and for empty ones after them."""
        config, most = self._config, self._most_turns
        before = step + config.envs * np.arange(most)
        after = before + config.envs
        epsilons, rates = np.zeros(most, np.float32), np.zeros(most, np.float32)
        epsilons[:count] = [config.epsilon_at(int(one)) for one in before[:count]]
        rates[:count] = [config.learning_rate_at(int(one)) for one in after[:count]]
        due = after // config.update_every > before // config.update_every
        return Turns(
            _seeds(self._streams.acting, before),
            _seeds(self._streams.learning, after),
            epsilons,
            rates,
            due & (before >= config.learn_after),
        )

    def _note(
        self, state: "RunState", told: Told, count: int, losses: Float[np.ndarray, " update"]
    ) -> None:
        """Take note of the turns of a block."""
        ended, scores, lengths = (np.asarray(column)[:count] for column in told[:3])
        state.counters.step += count * self._config.envs
        state.counters.episodes += int(ended.sum())
        state.since_log.played.scores += scores[ended].tolist()
        state.since_log.played.lengths += lengths[ended].tolist()
        if len(losses):
            means = jnp.asarray(losses)
            state.since_log.losses.append(Losses(means, means))


def compiled_training(
    config: Config, environment: Environment, agent: Agent, streams: "Streams"
) -> Compiled | None:
    """How a run is trained in an environment written in JAX; None for other environments."""
    if not isinstance(environment, JaxOnHost):
        return None
    return Compiled(config, environment, agent, streams)


def _seeds(stream: int, numbers: Int[np.ndarray, " turn"]) -> UInt32[np.ndarray, "turn 2"]:
    """`seed_of` for many numbers."""
    return np.stack([np.full(len(numbers), stream), numbers], axis=1).astype(np.uint32)
