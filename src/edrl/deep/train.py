"""Training: one loop, from the environment's step to the logged metrics, that can be stopped and continued exactly.

The state of a run is all in `Run`; after `load(save())` every later number is the same as if nothing had happened.
"""

import copy
import csv
import dataclasses
import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.check import fail
from edrl.core.statistics import Statistics
from edrl.deep import checkpoint
from edrl.deep.agent import Agent, Learner, copied
from edrl.deep.config import Config
from edrl.deep.environments import Environment, make
from edrl.deep.evaluate import Evaluation, evaluate, history_for
from edrl.deep.made import made_by
from edrl.deep.networks import network_for
from edrl.deep.pictures import draw_returns
from edrl.deep.replay import Replay
from edrl.deep.segments import Segments

METRICS = ("step", "episodes", "score", "length", "epsilon", "loss", "mean_value", "imputation_residual",
           "inconsistent_share")  # fmt: skip
TIMING = ("step", "seconds")  # the time since the row before, or since the run went on; after a kill, steps come twice
EVALUATIONS = ("step", "episodes", "mean", "least", "most", "length")
Listener = Callable[[int, dict[str, Any]], None]
"""listener(step, the last row of metrics)."""


def build_agent(config: Config, environment: Environment, family: Statistics | None = None) -> Agent:
    """The agent of a config for an environment; `family` replaces the config's statistics."""
    family = config.family() if family is None else family
    stack = (environment.stack,) if environment.stack > 1 else ()
    shape = (*environment.frame_shape, *stack)
    network = network_for(config.network, shape, environment.num_actions, family.num_outputs)
    return Agent(family, network, config.learning_rate, config.adam_epsilon, config.double)


class Run:
    """A run in its directory."""

    def __init__(self, config: Config, out: Path, family: Statistics | None = None, env: Any = None):
        self.config, self.out = config, Path(out)
        self._env = config.env if env is None else env
        self.environment = make(self._env, seed=config.seed, sticky=config.sticky)
        self.agent = build_agent(config, self.environment, family)
        self.replay = Replay(
            config.replay, self.environment.frame_shape, self.environment.frame_dtype, self.environment.stack,
            config.n_step, config.gamma,
        )  # fmt: skip
        self.segments = Segments(self.out / "replay")
        self.rng = np.random.default_rng(config.seed)
        self.learner: Learner = self.agent.init(jax.random.key(config.seed))
        self.history = history_for(self.environment)
        self.step = 0
        self.episodes = 0
        self.score = 0.0
        self.length = 0
        self.scores: list[float] = []  # of episodes that ended since the last row of metrics
        self.lengths: list[int] = []
        self.losses: list[Any] = []

    def begin(self) -> None:
        """Make the directory, and the first observation."""
        if checkpoint.found(self.out):  # without one, it was killed before it had begun
            raise fail("out", str(self.out), "there is a run in it already: resume it, or choose another directory")
        self.out.mkdir(parents=True, exist_ok=True)
        checkpoint.write_text(self.out / "config.json", self.config.to_json())
        checkpoint.write_text(self.out / "made.json", json.dumps([made_by()], indent=1) + "\n")
        for name, columns in (("metrics.csv", METRICS), ("evaluations.csv", EVALUATIONS), ("timing.csv", TIMING)):
            with (self.out / name).open("w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow(columns)
        self.history.begin(self.environment.reset())
        self.save()

    def advance(self) -> None:
        """One step: act, remember, learn."""
        config, replay = self.config, self.replay
        learning = self.step >= config.learn_after
        action = self._act(config.epsilon_at(self.step))
        frame, start = self.history.newest, self.history.fresh
        after = self.environment.step(action)
        replay.add(frame, action, after.reward, after.terminal, start)
        self.score += after.score
        self.length += 1
        if after.ended:
            replay.add_last(after.frame)
            self._end_episode()
        else:
            self.history.append(after.frame)
        self.step += 1
        if learning and self.step % config.update_every == 0:
            batch = replay.sample(self.rng, config.batch)
            self.learner, loss = self.agent.update(self.learner, batch)
            self.losses.append(loss)
        if learning and self.step % config.target_every == 0:
            self.learner = self.learner._replace(target=copied(self.learner.online))

    def _act(self, epsilon: float) -> int:
        if self.rng.random() < epsilon:
            return int(self.rng.integers(self.environment.num_actions))
        return int(np.asarray(self.agent.greedy(self.learner.online, self.history.observation()[None]))[0])

    def _end_episode(self) -> None:
        self.scores.append(self.score)
        self.lengths.append(self.length)
        self.episodes += 1
        self.score, self.length = 0.0, 0
        self.history.begin(self.environment.reset())

    def log(self) -> dict[str, Any]:
        """A row of metrics: means since the last one."""
        row: dict[str, Any] = {
            "step": self.step,
            "episodes": self.episodes,
            "score": _mean(self.scores),
            "length": _mean(self.lengths),
            "epsilon": self.config.epsilon_at(self.step),
            "loss": _mean([float(loss) for loss in self.losses]),
        }
        if self.losses:
            # On transitions of its own: the run's random numbers are the same whether or not it is logged.
            batch = self.replay.sample(np.random.default_rng((self.config.seed, self.step)), self.config.batch)
            row |= {name: float(value) for name, value in self.agent.diagnose(self.learner, batch).items()}
        self.scores, self.lengths, self.losses = [], [], []
        self._write_row("metrics.csv", METRICS, row)
        return row

    def evaluate(self) -> Evaluation:
        """Play apart from training, in an environment of its own that depends on the seed and the step alone."""
        seed = int(np.random.SeedSequence((self.config.seed, self.step)).generate_state(1)[0] >> 1)
        # An environment that was passed as an object is in use: play on a copy.
        env = self._env if isinstance(self._env, str) else copy.deepcopy(self._env)
        environment = make(env, seed=seed, evaluation=True, sticky=self.config.sticky)
        found = evaluate(
            self.agent, self.learner.online, environment, seed, self.config.evaluate_epsilon,
            steps=self.config.evaluate_steps, remember=(0, 25, 50, 100),
        )  # fmt: skip
        environment.close()
        scores = found.scores
        row = {
            "step": self.step, "episodes": len(scores), "mean": float(np.mean(scores)), "least": min(scores),
            "most": max(scores), "length": float(np.mean(found.lengths)),
        }  # fmt: skip
        self._write_row("evaluations.csv", EVALUATIONS, row)
        returns = self.agent.returns(self.learner.online, np.stack(list(found.remembered.values())))
        draw_returns(
            self.out / "pictures" / f"returns-{self.step:012d}.png", returns, tuple(found.remembered),
            environment.action_names, f"{self.config.agent} on {self.environment.name}, step {self.step:,}",
        )  # fmt: skip
        return found

    def log_time(self, seconds: float) -> None:
        """How long the steps since the last row took: the one file that two equal runs do not share."""
        self._write_row("timing.csv", TIMING, {"step": self.step, "seconds": f"{seconds:.3f}"})

    def _write_row(self, name: str, columns: tuple[str, ...], row: dict[str, Any]) -> None:
        with (self.out / name).open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow([row.get(column, "") for column in columns])

    def save(self) -> None:
        """A checkpoint of everything."""
        leaves = {f"learner/{n}": np.asarray(leaf) for n, leaf in enumerate(jax.tree.leaves(self.learner))}
        environment = {f"env/{name}": array for name, array in self.environment.save().items()}
        state = {
            "episodes": self.episodes, "score": self.score, "length": self.length, "scores": self.scores,
            "lengths": self.lengths, "losses": [float(loss) for loss in self.losses],
            "rng": self.rng.bit_generator.state, "env": self.environment.name, "fresh": self.history.fresh,
            "files": {name: (self.out / name).stat().st_size for name in ("metrics.csv", "evaluations.csv")},
        }  # fmt: skip
        arrays = {**leaves, **environment, "history": self.history.frames}
        files = self.segments.write(self.replay)
        checkpoint.save(self.out, checkpoint.Checkpoint(self.step, state, arrays, files))

    def load_learner(self, kept: checkpoint.Checkpoint) -> None:
        """The networks and the optimiser of a checkpoint."""
        leaves, tree = jax.tree.flatten(self.learner)
        loaded = [kept.arrays.get(f"learner/{n}") for n in range(len(leaves))]
        if any(new is None or new.shape != old.shape for new, old in zip(loaded, leaves, strict=True)):
            raise checkpoint.CheckpointError("the checkpoint is of another agent: its parameters have other shapes")
        self.learner = jax.tree.unflatten(tree, [jnp.asarray(leaf) for leaf in loaded])

    def load(self, path: Path) -> None:
        """Continue from a checkpoint."""
        kept = checkpoint.load(path)
        self.load_learner(kept)
        state, arrays = kept.state, kept.arrays
        self.segments.read(self.replay, kept.replay)
        self.rng.bit_generator.state = state["rng"]
        self.step, self.episodes = kept.step, state["episodes"]
        self.score, self.length = state["score"], state["length"]
        self.scores, self.lengths = state["scores"], state["lengths"]
        self.losses = [np.float32(loss) for loss in state["losses"]]
        self.history.frames = arrays["history"]
        self.history.fresh = state["fresh"]
        self.environment.load({name[4:]: array for name, array in arrays.items() if name.startswith("env/")})
        if not self.environment.restorable:
            # Its state is lost: the episode is cut here, as by a time limit, and a new one begins.
            self.replay.add_last(self.history.newest)
            self.score, self.length = 0.0, 0
            self.history.begin(self.environment.reset())
        for name, size in state["files"].items():
            with (self.out / name).open("r+") as file:
                file.truncate(size)  # what was logged after the checkpoint will be logged again


def train(
    config: Config,
    out: Path | str,
    *,
    family: Statistics | None = None,
    env: Any = None,
    listen: Listener = lambda step, row: None,
) -> Run:
    """Train an agent from the beginning: `train(preset("classic", agent="er-dqn"), "runs/cartpole")`.

    `family` trains statistics of your own, `env` a Gymnasium environment of your own.
    """
    run = Run(config, Path(out), family, env)
    run.begin()
    return _go_on(run, listen)


def resume(
    out: Path | str,
    *,
    family: Statistics | None = None,
    env: Any = None,
    older: bool = False,
    steps: int | None = None,
    listen: Listener = lambda step, row: None,
) -> Run:
    """Go on with a run from its last checkpoint, or with `older` from the one before if the last is damaged.

    With `steps`, train it for longer than was planned.
    """
    out = Path(out)
    found = checkpoint.found(out)
    if not found or not (out / "config.json").exists():
        raise fail("out", str(out), "there is no run with a checkpoint in it")
    config = Config.from_json((out / "config.json").read_text())
    if steps is not None and steps != config.steps:
        if steps < config.steps:
            raise fail("steps", steps, f"the run has been planned for {config.steps} steps and can only become longer")
        config = dataclasses.replace(config, steps=steps)
        checkpoint.replace_text(out / "config.json", config.to_json())
    for number, path in enumerate(found):
        run = Run(config, out, family, env)
        try:
            run.load(path)
        except checkpoint.CheckpointError as error:
            if older and number + 1 < len(found):
                continue
            raise checkpoint.CheckpointError(f"{error}. Resume with `older` to go on from the one before") from error
        if run.step < config.steps:
            _add_maker(out / "made.json", run.step)
        return _go_on(run, listen)
    raise AssertionError("the loop returns or raises")


def _add_maker(path: Path, step: int) -> None:
    before = json.loads(path.read_text()) if path.exists() else []
    checkpoint.replace_text(path, json.dumps([*before, {"step": step, **made_by()}], indent=1) + "\n")


def _go_on(run: Run, listen: Listener) -> Run:
    config = run.config
    with _until_interrupted() as interrupted:
        begin, began = time.perf_counter(), run.step
        logged = begin
        while run.step < config.steps:
            run.advance()
            if run.step % config.log_every == 0:
                row = run.log()
                now = time.perf_counter()
                run.log_time(now - logged)
                logged = now
                row["steps_per_second"] = (run.step - began) / (now - begin)
                listen(run.step, row)
            if config.evaluate_every and run.step % config.evaluate_every == 0:
                found = run.evaluate()
                listen(run.step, {"evaluation": float(np.mean(found.scores))})
            if run.step % config.checkpoint_every == 0 or run.step == config.steps:
                run.save()
            if interrupted():
                run.save()
                raise KeyboardInterrupt
    return run


@contextmanager
def _until_interrupted() -> Iterator[Callable[[], bool]]:
    """Ctrl-C is noticed between two steps, so that the state that is saved is a whole one."""
    noticed: list[int] = []
    try:
        before = signal.signal(signal.SIGINT, lambda number, frame: noticed.append(number))
    except ValueError:  # not in the main thread: whoever runs it decides when it stops
        yield lambda: False
        return
    try:
        yield lambda: bool(noticed)
    finally:
        signal.signal(signal.SIGINT, before)


def _mean(numbers: list[Any]) -> float | str:
    return float(np.mean(numbers)) if numbers else ""
