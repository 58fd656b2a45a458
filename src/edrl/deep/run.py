"""A run: its state, one step of it, and what it writes.

After `load` of what `save` wrote every later number is the same as if nothing had happened, for environments whose
state can be saved: all but Gymnasium's, whose episodes are cut there.
"""

import contextlib
import copy
import csv
import dataclasses
import json
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np

from edrl.core.check import check_directory, fail
from edrl.core.statistics import Statistics
from edrl.deep import checkpoint
from edrl.deep.agent import Learner, copied
from edrl.deep.calibration import Calibration, Returns
from edrl.deep.config import Config
from edrl.deep.environments import Environment, Step, make
from edrl.deep.pictures import draw_returns
from edrl.deep.play import Evaluation, Moment, evaluate, history_for
from edrl.deep.provenance import made_by, made_with
from edrl.deep.replay import Batch, Replay
from edrl.deep.replay_files import Segments
from edrl.deep.trained import build_agent, restored

METRICS = ("step", "episodes", "score", "length", "epsilon", "loss", "mean_value", "imputed_mean_shift",
           "imputation_residual", "inconsistent_share")  # fmt: skip
TIMING = ("step", "seconds")  # the time since the row before; a row of 0 seconds says where a run began or went on
_MOST_BEYOND = 0.5
_BEYOND = "most returns to learn from lie beyond the support of c51, and count as its ends: choose another support"
SHOWN = (0, 25, 50, 100)  # the steps of an episode before the observations whose returns are drawn
EVALUATIONS = ("step", "episodes", "mean", "least", "most", "length")
CALIBRATION = ("step", *(field.name for field in dataclasses.fields(Calibration)))
TABLES = {"metrics.csv": METRICS, "evaluations.csv": EVALUATIONS, "calibration.csv": CALIBRATION}
"""What is the same for two equal runs."""


class Run:
    """A run in its directory."""

    def __init__(self, config: Config, out: Path, family: Statistics | None = None, env: Any = None):
        self.config, self.out = config, Path(out)
        self._env = config.env if env is None else env
        self._another = _source(self._env)
        self.environments = [self._make(lane) for lane in range(config.envs)]
        self.environment = self.environments[0]
        self.agent = build_agent(config, self.environment, family)
        self._made_with = made_with(config, family, None if env is None else self.environment.name)
        self.replay = Replay(
            config.replay, self.environment.frame_shape, self.environment.frame_dtype, self.environment.stack,
            config.n_step, config.gamma, config.envs,
        )  # fmt: skip
        self.segments = Segments(self.out / "replay")
        self.rng = np.random.default_rng(config.seed)
        self.learner: Learner = self.agent.init(jax.random.key(config.seed))
        self.history = history_for(self.environment, config.envs)
        self.whole = True  # whether it can be saved: not in the midst of a step
        self.step = 0
        self.evaluated = 0  # the step of the last evaluation
        self.episodes = 0
        self.score = [0.0] * config.envs  # of the episodes that are played
        self.length = [0] * config.envs
        self.scores: list[float] = []  # of episodes that ended since the last row of metrics
        self.lengths: list[int] = []
        self.losses: list[Any] = []
        self._clock = 0.0  # when time was logged last

    def _make(self, lane: int) -> Environment:
        """The environment of a lane; its seed is the run's, or for others depends on it."""
        own = np.random.SeedSequence((self.config.seed, lane)).generate_state(1)[0] >> 1
        # An environment that was passed as an object is the first lane's.
        env = self._another() if lane or callable(self._env) else self._env
        return make(env, seed=int(own) if lane else self.config.seed, sticky=self.config.sticky)

    def begin(self) -> None:
        """Make the directory, and the first observation."""
        if checkpoint.found(self.out):
            raise fail("out", str(self.out), "there is a run in it already: resume it, or choose another directory")
        check_directory("out", self.out)
        for name, begun in self._first_files().items():
            # What a run leaves that is killed before its first checkpoint is written anew; nothing else is.
            there = (self.out / name).read_text(errors="replace") if (self.out / name).exists() else ""
            if not _but_for_steps(begun).startswith(_but_for_steps(there)):
                right = f"there is a {name} in it that would be lost: choose another directory"
                raise fail("out", str(self.out), right)
        self.out.mkdir(parents=True, exist_ok=True)
        for name, text in self._first_files().items():
            checkpoint.write_text(self.out / name, text)
        checkpoint.replace_text(self.out / "made.json", json.dumps([self.maker()], indent=1) + "\n")
        for lane, environment in enumerate(self.environments):
            self.history.begin(environment.reset(), lane)
        self.save()

    def maker(self) -> dict[str, Any]:
        """What makes this run now, with statistics and an environment that were passed beside its config."""
        return made_by() | {name: given for name in ("family", "env") if (given := self._made_with[name]) is not None}

    def _first_files(self) -> dict[str, str]:
        tables = {**TABLES, "timing.csv": TIMING}
        return {"config.json": self.config.to_json(), **{name: _head(columns) for name, columns in tables.items()}}

    def advance(self) -> None:
        """One step of every environment: act, remember, learn."""
        config, before = self.config, self.step
        # Of an environment whose state is saved, half a step must not be; others are begun anew when a run goes on.
        self.whole = not self.environment.restorable
        actions = [int(action) for action in self._act(config.epsilon_at(self.step))]
        steps = [environment.step(action) for environment, action in zip(self.environments, actions, strict=True)]
        first = [
            environment.reset() if after.ended else None
            for environment, after in zip(self.environments, steps, strict=True)
        ]
        self.whole = False
        for lane, (action, after, frame) in enumerate(zip(actions, steps, first, strict=True)):
            self._remember(lane, action, after, frame)
        self.step += config.envs
        if before >= config.learn_after:
            self._learn(self.step // config.update_every - before // config.update_every)
            if self.step % config.target_every == 0:
                self.learner = self.learner._replace(target=copied(self.learner.online))
        self.whole = True

    def _act(self, epsilon: float) -> np.ndarray:
        """The actions [lane]."""
        exploring = self.rng.random(self.config.envs) < epsilon
        explored = self.rng.integers(self.environment.num_actions, size=self.config.envs)
        if exploring.all():
            return explored
        greedy = np.asarray(self.agent.greedy(self.learner.online, self.history.observations()))
        return np.where(exploring, explored, greedy)

    def _remember(self, lane: int, action: int, after: Step, first: np.ndarray | None) -> None:
        """What a step of one environment was, and where it led; `first` is the next frame if the episode has ended."""
        frame, start = self.history.newest(lane), bool(self.history.fresh[lane])
        self.replay.add(frame, action, after.reward, after.terminal, start, lane)
        self.score[lane] += after.score
        self.length[lane] += 1
        if first is None:
            self.history.append(after.frame, lane)
            return
        self.replay.add_last(after.frame, lane)
        self.scores.append(self.score[lane])
        self.lengths.append(self.length[lane])
        self.episodes += 1
        self._begin_episode(lane, first)

    def _begin_episode(self, lane: int, first: np.ndarray) -> None:
        self.score[lane], self.length[lane] = 0.0, 0
        self.history.begin(first, lane)

    def _learn(self, updates: int) -> None:
        """So many updates, in one call: several environments' steps make several due at once."""
        size = self.config.batch
        if updates == 1:
            self.learner, loss = self.agent.update(self.learner, self.replay.sample(self.rng, size))
            self.losses.append(loss)
        elif updates:
            drawn = self.replay.sample(self.rng, updates * size)
            batches = Batch(*(column.reshape(updates, size, *column.shape[1:]) for column in drawn))
            self.learner, losses = self.agent.updates(self.learner, batches)
            self.losses.append(losses)

    def _each_loss(self) -> list[float]:
        return [float(loss) for some in self.losses for loss in np.atleast_1d(some)]

    def log(self) -> dict[str, Any]:
        """A row of metrics: means since the last one."""
        row: dict[str, Any] = {
            "step": self.step,
            "episodes": self.episodes,
            "score": _mean(self.scores),
            "length": _mean(self.lengths),
            "epsilon": self.config.epsilon_at(self.step),
            "loss": _mean(self._each_loss()),
        }
        if self.losses:
            # On transitions of its own: the run's random numbers are the same whether or not it is logged.
            batch = self.replay.sample(np.random.default_rng((self.config.seed, self.step)), self.config.batch)
            row |= {name: float(value) for name, value in self.agent.diagnose(self.learner, batch).items()}
        self.scores, self.lengths, self.losses = [], [], []
        self._write_row("metrics.csv", METRICS, row)
        if row.get("beyond_support", 0.0) > _MOST_BEYOND:
            warnings.warn(_BEYOND, stacklevel=2)
        if row["loss"] != "" and not np.isfinite(row["loss"]):
            right = f"learning has diverged by step {self.step:,}; a smaller learning_rate may help"
            raise fail("loss", row["loss"], right)
        return row

    @property
    def unfinished(self) -> bool:
        """Whether there are steps to take, or an evaluation is to be made that was broken off."""
        return self.step < self.config.steps or self.evaluation_due

    @property
    def evaluation_due(self) -> bool:
        return self.config.evaluation_at(self.step) and self.evaluated < self.step

    def evaluate(self, at_each_step: Callable[[], None] = lambda: None) -> Evaluation:
        """Play apart from training, in an environment of its own that depends on the seed and the step alone.

        `at_each_step` may raise, to break it off: then nothing is written.
        """
        shown: dict[int, np.ndarray] = {}  # observations, by the steps of their episodes before them
        returns = Returns(self.config.gamma)

        def watch(moment: Moment) -> None:
            at_each_step()
            returns.watch(moment)
            if moment.before in SHOWN:
                shown.setdefault(moment.before, moment.observation)

        seed = int(np.random.SeedSequence((self.config.seed, self.step)).generate_state(1)[0] >> 1)
        environment = make(self._another(), seed=seed, sticky=self.config.sticky)
        found = evaluate(
            self.agent, self.learner.online, environment, seed, self.config.evaluate_epsilon,
            steps=self.config.evaluate_steps, watch=watch,
        )  # fmt: skip
        environment.close()
        calibration = returns.against(self.agent, self.learner.online)
        scores = found.scores
        row = {
            "step": self.step, "episodes": len(scores), "mean": float(np.mean(scores)), "least": min(scores),
            "most": max(scores), "length": float(np.mean(found.lengths)),
        }  # fmt: skip
        with _all_or_none(self.out / "evaluations.csv", self.out / "calibration.csv"):
            self._write_row("evaluations.csv", EVALUATIONS, row)
            if calibration is not None:
                self._write_row("calibration.csv", CALIBRATION, {"step": self.step, **dataclasses.asdict(calibration)})
        self.evaluated = self.step
        laws = self.agent.returns(self.learner.online, np.stack(list(shown.values())))
        draw_returns(
            self.out / "pictures" / f"returns-{self.step:012d}.png", laws, tuple(shown),
            environment.action_names, f"{self.config.agent} on {self.environment.name}, step {self.step:,}",
        )  # fmt: skip
        return found

    def start_clock(self) -> None:
        """Time counts from here on."""
        self._clock = time.perf_counter()
        self.log_time()

    def log_time(self) -> None:
        """How long it took since the last row, evaluations and all: the one file that two equal runs do not share."""
        now = time.perf_counter()
        self._write_row("timing.csv", TIMING, {"step": self.step, "seconds": f"{now - self._clock:.3f}"})
        self._clock = now

    def _write_row(self, name: str, columns: tuple[str, ...], row: dict[str, Any]) -> None:
        with (self.out / name).open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow([row.get(column, "") for column in columns])

    def save(self) -> None:
        """A checkpoint of everything."""
        leaves = {f"learner/{n}": np.asarray(leaf) for n, leaf in enumerate(jax.tree.leaves(self.learner))}
        environments = {
            f"env/{lane}/{name}": array
            for lane, environment in enumerate(self.environments)
            for name, array in environment.save().items()
        }
        state = {
            "evaluated": self.evaluated, "episodes": self.episodes,
            "score": self.score, "length": self.length, "scores": self.scores,
            "lengths": self.lengths, "losses": self._each_loss(), "rng": self.rng.bit_generator.state,
            "files": {name: _size_on_disk(self.out / name) for name in TABLES},
            "made_with": self._made_with,
        }  # fmt: skip
        arrays = {**leaves, **environments, "history": self.history.frames, "fresh": self.history.fresh}
        files = self.segments.write(self.replay)
        checkpoint.save(self.out, checkpoint.Checkpoint(self.step, state, arrays, files))

    def load(self, path: Path) -> None:
        """Continue from a checkpoint."""
        kept = checkpoint.load(path)
        for name, size in kept.state["files"].items():
            if not (self.out / name).exists() or (self.out / name).stat().st_size < size:
                raise checkpoint.CheckpointError(f"{name} is damaged: it is shorter than at {path.name}")
        self.learner = restored(self.learner, kept, self._made_with)
        state, arrays = kept.state, kept.arrays
        self.segments.read(self.replay, kept.replay)
        self.rng.bit_generator.state = state["rng"]
        self.step, self.episodes = kept.step, state["episodes"]
        # What does not say comes from before any evaluation could be broken off.
        self.evaluated = state.get("evaluated", kept.step)
        self.score, self.length = state["score"], state["length"]
        self.scores, self.lengths = state["scores"], state["lengths"]
        self.losses = [np.float32(loss) for loss in state["losses"]]
        self.history.frames, self.history.fresh = arrays["history"], arrays["fresh"]
        for lane, environment in enumerate(self.environments):
            own = f"env/{lane}/"
            environment.load({name[len(own) :]: array for name, array in arrays.items() if name.startswith(own)})
            if not environment.restorable:
                # Its state is lost: the episode is cut here, as by a time limit, and a new one begins.
                self.replay.add_last(self.history.newest(lane), lane)
                self._begin_episode(lane, environment.reset())
        for name, size in state["files"].items():
            with (self.out / name).open("r+") as file:
                file.truncate(size)  # what was logged after the checkpoint will be logged again
        _end_last_line(self.out / "timing.csv")  # its rows stay: time is spent, whatever was lost
        for name in TABLES.keys() - state["files"].keys():  # a table that edrl did not write when the run was begun
            checkpoint.write_text(self.out / name, _head(TABLES[name]))


def _source(env: Any) -> Callable[[], Any]:
    """What gives environments that nobody uses: by a name, from a function that makes them, as copies of an object."""
    if isinstance(env, str):
        return lambda: env
    if callable(env):
        return cast(Callable[[], Any], env)
    try:
        unused = copy.deepcopy(env)  # now: one that has drawn itself, say, can often not be copied any more
    except Exception as error:
        right = f"evaluations play on copies of it, and it cannot be copied ({error}): pass a function that makes it"
        raise fail("env", env, right) from error
    return lambda: copy.deepcopy(unused)


def _head(columns: tuple[str, ...]) -> str:
    return ",".join(columns) + "\n"


def _but_for_steps(text: str) -> str:
    """The text of a config whatever its steps, by which a study may have grown since."""
    return re.sub(r'"steps": \d+', '"steps": ', text)


@contextlib.contextmanager
def _all_or_none(*tables: Path) -> Iterator[None]:
    """Rows of one evaluation: if one cannot be written, the others go, for it will be made again."""
    sizes = {table: table.stat().st_size for table in tables}
    try:
        yield
    except OSError:
        for table, size in sizes.items():
            os.truncate(table, size)
        raise


def _end_last_line(path: Path) -> None:
    """One that was cut short, by a full disk or the end of a process, must not run into the next."""
    text = path.read_bytes() if path.exists() else b""
    if text and not text.endswith(b"\n"):
        with path.open("ab") as file:
            file.write(b"\n")


def _size_on_disk(path: Path) -> int:
    """Of a file, once what was written to it is there: what a checkpoint counts on must not be lost with the power."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return path.stat().st_size


def _mean(numbers: list[Any]) -> float | str:
    return float(np.mean(numbers)) if numbers else ""
