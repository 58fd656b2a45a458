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
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jax

import edrl
from edrl.core.check import fail
from edrl.paper import EXPERIMENTS
from edrl.paper.experiment import SECTIONS
from edrl.paper.workers import Listener, interruptible, report_progress, worker_pool
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
    """Run the named experiments as far as they are not finished, and write the page of all that are."""
    for name in names:
        if name not in EXPERIMENTS:
            raise fail("name", name, f"it must be one of {', '.join(EXPERIMENTS)}")
    (out / "data").mkdir(parents=True, exist_ok=True)
    (out / "figures").mkdir(exist_ok=True)
    shown = [name for name in EXPERIMENTS if name in names or is_finished(name, out, full)]
    to_measure = {
        name: name in names and (again or not is_finished(name, out, full)) for name in shown
    }
    # Long ones first, so that no worker is left alone with one at the end.
    waiting = sorted(shown, key=lambda name: cost(name, full, to_measure[name]))
    parts: dict[str, Part] = {}
    with worker_pool(min(workers, len(shown)), listen, (out / ".jax_cache").resolve()) as submit:
        running: dict[Future[Part], str] = {}
        while waiting or running:
            while waiting and len(running) < workers:
                name = waiting.pop()
                running[submit(_work, name, out, full, to_measure[name])] = name
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(future)
                parts[name] = _outcome(name, future)
                listen(name, 1.0, "failed" if parts[name].error else "done")
    found = [parts[name] for name in shown]
    _write(found, out, full)
    return found


def cost(name: str, full: bool, to_measure: bool) -> float:
    """The rough seconds that a part will take, measured again or only drawn."""
    return EXPERIMENTS[name].cost[full] if to_measure else 2.0


def is_finished(name: str, out: Path, full: bool) -> bool:
    """Whether the part has been measured, at this size and by this code."""
    stamp = out / "data" / name / "part.json"
    if not stamp.exists():
        return False
    kept = json.loads(stamp.read_text())
    return bool(kept["full"] == full and kept["fingerprint"] == _fingerprint(name))


@cache
def _fingerprint(name: str) -> str:
    """A hash of the code behind an experiment: the library, what experiments share, and its own module."""
    root = Path(edrl.__file__).parent
    own = {experiment.module: name for name, experiment in EXPERIMENTS.items()}
    files = [path for room in ("core", "tabular", "theory") for path in (root / room).rglob("*.py")]
    for path in (root / "paper").glob("*.py"):
        module = f"edrl.paper.{path.stem}"
        if module not in own or module == EXPERIMENTS[name].module:
            files.append(path)
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _work(name: str, out: Path, full: bool, to_measure: bool) -> Part:
    """In a worker: measure if need be, then draw and judge from the files."""
    experiment = EXPERIMENTS[name]
    kept = out / "data" / name
    if to_measure:
        begin = time.perf_counter()
        with interruptible(), jax.enable_x64(True):
            tables = experiment.measure(
                full, lambda fraction, note: report_progress(name, fraction, note)
            )
        _keep(tables, kept, name, full, time.perf_counter() - begin)
    files = sorted(kept.glob("*.csv"))
    tables = {path.stem: read_csv(path) for path in files}
    with style.applied():
        drawings = experiment.draw(tables)
        for drawing in drawings:
            style.save(drawing.figure, out / "figures" / drawing.name)
    captions = {drawing.name: drawing.caption for drawing in drawings}
    seconds = json.loads((kept / "part.json").read_text())["seconds"]
    return Part(name, captions, experiment.judge(tables), [path.stem for path in files], seconds)


def _keep(tables: Tables, kept: Path, name: str, full: bool, seconds: float) -> None:
    """Write all tables, or none: a run that ends in between leaves no half part behind."""
    partial = kept.with_name(name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for stem, rows in tables.items():
        write_csv(partial / f"{stem}.csv", rows)
    stamp = {"full": full, "seconds": round(seconds, 1), "fingerprint": _fingerprint(name)}
    (partial / "part.json").write_text(json.dumps(stamp, indent=1) + "\n")
    shutil.rmtree(kept, ignore_errors=True)
    partial.rename(kept)


def _outcome(name: str, future: "Future[Part]") -> Part:
    try:
        return future.result()
    except Exception as error:  # one part that fails must not cost the others
        return Part(name, {}, [], [], 0.0, "".join(traceback.format_exception(error)))


def _write(parts: Sequence[Part], out: Path, full: bool) -> None:
    """The page, and the claims for machines and for a README."""
    entries = []
    for part in parts:
        experiment = EXPERIMENTS[part.name]
        figures = [
            page.Figure(name, (out / "figures" / f"{name}.svg").read_bytes(), caption)
            for name, caption in part.captions.items()
        ]
        data = {table: f"data/{part.name}/{table}.csv" for table in part.tables}
        entries.append(
            page.Entry(
                part.name, SECTIONS[experiment.section], experiment.title, experiment.source, experiment.about,
                figures, part.claims, data, part.seconds, part.error,
            )
        )  # fmt: skip
    claims = [claim for part in parts for claim in part.claims]
    (out / "claims.json").write_text(
        json.dumps(as_json(claims), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    (out / "claims.md").write_text(as_markdown(claims), encoding="utf-8")
    missing = [name for name in EXPERIMENTS if name not in {part.name for part in parts}]
    (out / "index.html").write_text(page.render(entries, missing, full), encoding="utf-8")
