"""An agent in a folder that others can load without running code: `edrl.export`."""

import contextlib
import dataclasses
import json
import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from edrl.core.check import check_count, check_directory, check_seed, fail
from edrl.deep import exported
from edrl.deep.calibration import Returns
from edrl.deep.callbacks import Evaluation
from edrl.deep.play import Moment, play
from edrl.deep.provenance import FILE as PROVENANCE
from edrl.deep.provenance import identity_of, read_provenance
from edrl.deep.trained import DivergedError, Trained, check_expected, load
from edrl.report.agent_film import film_episode
from edrl.report.film import has_ffmpeg
from edrl.report.model_card import model_card
from edrl.report.onnx_network import FILE as ONNX
from edrl.report.onnx_network import onnx_bytes

CONFIG, RESULTS, CARD = "config.json", "results.json", "README.md"
FILMS = ("replay.mp4", "replay.gif")
# In this order they are written, and in the reverse order they are deleted: wherever that is
# broken off, a folder without a config is no agent, and one with our model is ours.
FILES = (exported.FILE, ONNX, RESULTS, CARD, PROVENANCE, *FILMS, CONFIG)
"""All files that an export may write."""


def export(
    run: Path | str | Trained,
    directory: Path | str,
    *,
    episodes: int = 30,
    seed: int = 1_000_000,
    film: bool = True,
    onnx: bool = False,
    watch: Callable[[Moment], None] = lambda moment: None,
) -> Path:
    """Write an agent to a folder that `edrl.load` reads, and that a model hub can show.

    The folder has the weights (safetensors), the settings, the provenance, the score of new
    episodes with its interval, calibration, a film and a model card. All is written or nothing.

    Args:
        run: the directory of a run, or what `load` made of it: `load(run, best=True)`.
        directory: where to write. An earlier export there is replaced, and other files stay.
        episodes: how many episodes are played for the score.
        seed: of the environment and of random actions in these episodes.
        film: whether an episode is filmed, as .mp4 if there is ffmpeg and as .gif otherwise.
        onnx: whether the network is written as network.onnx, too, for programs without JAX.
        watch: sees every step of the episodes.

    Returns:
        The directory.
    """
    check_count("episodes", episodes, 1)
    check_seed("seed", seed)
    directory = Path(directory)
    _check_no_foreign_files(directory)
    trained = run if isinstance(run, Trained) else load(run)
    with _unfinished(directory) as made:
        if onnx:  # first: an agent that has no such form is refused before it plays
            (made / ONNX).write_bytes(onnx_bytes(trained))
        _write(made, trained, episodes, seed, film, watch)
        _replace(made, directory)
    return directory


@contextlib.contextmanager
def _unfinished(directory: Path) -> Iterator[Path]:
    """A place for files until all are there, on the same disk: to rename them is no copy."""
    new = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".edrl-export-", dir=directory) as made:
            yield Path(made)
    except BaseException:
        if new:
            with contextlib.suppress(OSError):  # files that are in place stay
                directory.rmdir()
        raise


def _check_no_foreign_files(directory: Path) -> None:
    """What somebody else has written is not overwritten."""
    check_directory("directory", directory)
    if exported.is_ours(directory):
        return
    for name in FILES:
        if (directory / name).exists():
            right = f"there is a {name} in it that is not of an export: name another directory"
            raise fail("directory", str(directory), right)


def _write(
    made: Path,
    trained: Trained,
    episodes: int,
    seed: int,
    film: bool,
    watch: Callable[[Moment], None],
) -> None:
    filmed = _film(made, trained, seed) if film else None
    evaluation = _evaluate(trained, episodes, seed, watch)
    provenance = _without_host(read_provenance(trained.out))
    _write_json(made / PROVENANCE, provenance)
    _write_json(made / RESULTS, _results(trained, evaluation, seed))
    (made / CARD).write_text(model_card(trained, evaluation, provenance, filmed), encoding="utf-8")
    (made / CONFIG).write_text(trained.config.to_json(), encoding="utf-8")
    # Whoever plays needs no replay memory.
    passed = {name: text for name, text in trained.passed.items() if name != "replay"}
    header = exported.Exported(trained.step, trained.best, identity_of(trained.config, passed))
    (made / exported.FILE).write_bytes(exported.model_bytes(trained.parameters, header))


def _film(made: Path, trained: Trained, seed: int) -> str:
    """The name of the film of an episode."""
    name = FILMS[0] if has_ffmpeg() else FILMS[1]
    try:
        film_episode(trained, made / name, seed=seed)
    except DivergedError:
        raise
    except (ValueError, ImportError) as error:
        advice = "without a film it works: pass --no-film (film=False in Python)"
        raise ValueError(f"{error}. {advice}") from error
    return name


def _evaluate(
    trained: Trained, episodes: int, seed: int, watch: Callable[[Moment], None]
) -> Evaluation:
    """How an agent plays new episodes."""
    returns, environment = Returns(trained.config.gamma), trained.source.with_seed(seed)

    def seen(moment: Moment) -> None:
        returns.watch(moment)
        watch(moment)

    policy, epsilon = trained.policy(seed), trained.config.evaluate_epsilon
    played = play(environment, policy, epsilon, seed, episodes=episodes, watch=seen)
    environment.close()
    calibration = returns.against(trained.agent, trained.parameters)
    check_expected(trained.out, calibration)
    return Evaluation(played, trained.action_names, calibration)


def _results(trained: Trained, evaluation: Evaluation, seed: int) -> dict[str, object]:
    played, calibration = evaluation.played, evaluation.calibration
    return {
        "agent": str(trained.config.variant),
        "env": trained.env_name,
        "step": trained.step,
        "best": trained.best,
        "seed": seed,
        "epsilon": trained.config.evaluate_epsilon,
        "episodes": len(played.scores),
        "mean": float(np.mean(played.scores)),
        "std": float(np.std(played.scores)),
        "interval": played.interval(),
        "calibration": None if calibration is None else _finite(dataclasses.asdict(calibration)),
        "warning": None if calibration is None else calibration.warning,
        "scores": played.scores,
        "lengths": played.lengths,
    }


def _finite(numbers: dict[str, float]) -> dict[str, float | None]:
    """What JSON can hold: without discounting, returns have no bounds."""
    return {name: one if math.isfinite(one) else None for name, one in numbers.items()}


def _without_host(entries: list[dict[str, object]]) -> list[dict[str, object]]:
    """The name of somebody's computer is nobody else's business."""
    found = json.loads(json.dumps(entries))
    for entry in found:
        if isinstance(entry.get("machine"), dict):
            entry["machine"].pop("host", None)
    return list(found)


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _replace(made: Path, directory: Path) -> None:
    """Put files in the place of those of an earlier export."""
    for name in reversed(FILES):
        (directory / name).unlink(missing_ok=True)
    for name in FILES:
        if (made / name).exists():
            (made / name).replace(directory / name)
