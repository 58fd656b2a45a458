"""Runs experiments in processes of their own, keeps what is finished, and writes the page.

A part of the page is finished when its tables lie in `data/<name>` beside a `part.json`: the size,
the time it took, and the fingerprint of the code that measured. Only what is missing, or was
measured by other code, is run again.
"""

import hashlib
import json
import shutil
import time
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

import jax

import edrl
from edrl.core.json_text import parse_json
from edrl.paper import EXPERIMENTS
from edrl.paper.experiment import SECTIONS, Experiment
from edrl.paper.parts import find_part, find_parts
from edrl.paper.workers import Listener, interruptible, report_progress, worker_pool
from edrl.playground.page import write as write_playground
from edrl.report import page, style
from edrl.report.claims import Claim, as_json, as_markdown
from edrl.study.tables import Tables, read_csv, write_csv


@dataclass(frozen=True)
class Part:
    """An experiment as the page shows it."""

    name: str
    captions: dict[str, str]  # of its figures, by name
    claims: list[Claim]
    tables: list[str]
    seconds: float
    error: str = ""  # the traceback, if it failed


def reproduce(
    names: Sequence[str], out: Path, full: bool, again: bool, workers: int, listen: Listener
) -> list[Part]:
    """Run the named parts as far as they are not finished, and write the page of all that are.

    A part of a user's own is named by its file. The page shows it if it is named.
    """
    named = find_parts(names)
    shown = _shown(named, out, full)
    (out / "data").mkdir(parents=True, exist_ok=True)
    (out / "figures").mkdir(exist_ok=True)
    measured = {}
    for name, experiment in shown.items():
        done = not again and is_finished(experiment.where, out, full)
        measured[name] = name in named and not done
    # Long ones last, from where they are taken, so that no worker is left alone with one.
    waiting = sorted(shown, key=lambda name: cost(shown[name].where, full, measured[name]))
    jobs = {name: (shown[name].where, out, full, measured[name]) for name in waiting}
    parts = _run_all(jobs, workers, listen, (out / ".jax_cache").resolve())
    found = [parts[name] for name in shown]
    _write(found, shown, out, full)
    return found


def _run_all(
    jobs: dict[str, tuple[str, Path, bool, bool]], workers: int, listen: Listener, cache: Path
) -> dict[str, Part]:
    """Run parts in workers, the last job first; never more are submitted than can be begun."""
    parts: dict[str, Part] = {}
    waiting, running = dict(jobs), dict[Future[Part], str]()
    with worker_pool(min(workers, len(jobs)), listen, cache) as submit:
        while waiting or running:
            while waiting and len(running) < workers:
                name, job = waiting.popitem()
                running[submit(_work, *job)] = name
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(future)
                parts[name] = _outcome(name, future)
                listen(name, 1.0, "failed" if parts[name].error else "done")
    return parts


def _shown(named: Mapping[str, Experiment], out: Path, full: bool) -> dict[str, Experiment]:
    """The parts that the page shows, in its order: those that are named or finished."""
    finished = {
        name: experiment for name, experiment in EXPERIMENTS.items() if is_finished(name, out, full)
    }
    order = {name: number for number, name in enumerate(EXPERIMENTS)}
    sections = list(SECTIONS)

    def place(experiment: Experiment) -> tuple[int, int]:
        last = len(order)  # a user's part comes after ours in its section
        return sections.index(experiment.section), order.get(experiment.name, last)

    shown = sorted((finished | dict(named)).values(), key=place)
    return {experiment.name: experiment for experiment in shown}


def cost(part: str, full: bool, measured: bool) -> float:
    """The rough seconds that a part will take if it is to be measured, or only drawn."""
    return find_part(part).cost[full] if measured else 2.0


def is_finished(part: str, out: Path, full: bool) -> bool:
    """Whether the part has been measured, at this size and by this code."""
    experiment = find_part(part)
    stamp = out / "data" / experiment.name / "part.json"
    if not stamp.exists():
        return False
    try:
        kept = parse_json(stamp.read_text(encoding="utf-8"))
        return bool(kept["full"] == full and kept["fingerprint"] == _fingerprint(experiment))
    except (ValueError, TypeError, KeyError):
        return False  # it is damaged: what was measured is not known


def _fingerprint(experiment: Experiment) -> str:
    """A hash of the code behind an experiment: what experiments share, and its own file."""
    return hashlib.sha256(_shared_code() + experiment.file.read_bytes()).hexdigest()


@cache
def _shared_code() -> bytes:
    """A hash of the library, and of what experiments share."""
    root = Path(edrl.__file__).parent
    own = {experiment.file for experiment in EXPERIMENTS.values()}
    files = set((root / "paper").glob("*.py")) - own
    for room in ("core", "tabular", "theory"):
        files.update((root / room).rglob("*.py"))
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.digest()


def _work(part: str, out: Path, full: bool, measured: bool) -> Part:
    """In a worker: measure if need be, then draw and judge from the files."""
    experiment = find_part(part)
    name = experiment.name
    kept = out / "data" / name
    if measured:
        begin = time.perf_counter()
        with interruptible():
            tables = experiment.measure(
                full, lambda fraction, note: report_progress(name, fraction, note)
            )
        _keep(tables, kept, experiment, full, time.perf_counter() - begin)
    files = sorted(kept.glob("*.csv"))
    tables = {path.stem: read_csv(path) for path in files}
    captions = _draw(experiment, tables, out / "figures")
    seconds = json.loads((kept / "part.json").read_text())["seconds"]
    # A compiled program holds memory maps, of which Linux allows a process 65,530: XLA crashes
    # beyond.
    jax.clear_caches()
    return Part(name, captions, experiment.judge(tables), [path.stem for path in files], seconds)


def _draw(experiment: Experiment, tables: Tables, figures: Path) -> dict[str, str]:
    """Draw and save the figures of a part, and return their captions by their names."""
    captions = {}
    with style.applied():
        for drawing in experiment.draw(tables):
            name = drawing.name
            if experiment.own_file:  # a directory of its own, so that none of ours is replaced
                name = f"{experiment.name}/{drawing.name}"
                (figures / experiment.name).mkdir(exist_ok=True)
            style.save(drawing.figure, figures / name)
            captions[name] = drawing.caption
    return captions


def _keep(tables: Tables, kept: Path, experiment: Experiment, full: bool, seconds: float) -> None:
    """Write all tables, or none: a run that ends in between leaves no half part behind."""
    partial = kept.with_name(experiment.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for stem, rows in tables.items():
        write_csv(partial / f"{stem}.csv", rows)
    stamp = {"full": full, "seconds": round(seconds, 1), "fingerprint": _fingerprint(experiment)}
    (partial / "part.json").write_text(json.dumps(stamp, indent=1) + "\n")
    shutil.rmtree(kept, ignore_errors=True)
    partial.rename(kept)


def _outcome(name: str, future: "Future[Part]") -> Part:
    try:
        return future.result()
    except Exception as error:  # one part that fails must not cost the others
        return Part(name, {}, [], [], 0.0, "".join(traceback.format_exception(error)))


def _write(
    parts: Sequence[Part], experiments: Mapping[str, Experiment], out: Path, full: bool
) -> None:
    """The page, and the claims for machines and for a README."""
    claims = list(chain.from_iterable(part.claims for part in parts))
    text = json.dumps(as_json(claims), indent=1, ensure_ascii=False)
    (out / "claims.json").write_text(text + "\n", encoding="utf-8")
    (out / "claims.md").write_text(as_markdown(claims), encoding="utf-8")
    entries = [_entry(part, experiments[part.name], out) for part in parts]
    shown = {part.name for part in parts}
    missing = [name for name in EXPERIMENTS if name not in shown]
    (out / "index.html").write_text(page.render(entries, missing, full), encoding="utf-8")
    write_playground(out / page.PLAYGROUND)


def _entry(part: Part, experiment: Experiment, out: Path) -> page.Entry:
    figures = []
    for name, caption in part.captions.items():
        svg = (out / "figures" / f"{name}.svg").read_bytes()
        figures.append(page.Figure(name, svg, caption))
    return page.Entry(
        name=part.name,
        section=SECTIONS[experiment.section],
        title=experiment.title,
        source=experiment.source,
        about=experiment.about,
        figures=figures,
        claims=part.claims,
        data={table: f"data/{part.name}/{table}.csv" for table in part.tables},
        seconds=part.seconds,
        error=part.error,
    )
