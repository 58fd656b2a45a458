"""Brings a finished report into the documentation: `python docs/update.py [report]`, after `make
reproduce`.

`python docs/update.py report PART...` brings in these parts alone, after `edrl reproduce PART...`,
and leaves the tables of all others as they are.

`python docs/update.py --full [report-full]` brings in what is finished of the full size, after
`make reproduce-full`.

Copies the README's pictures, the claims and the tables that they rest on, writes the table of
claims in docs/claims.md, and the README's sentence on it.
"""

import json
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import jax

from edrl.paper import EXPERIMENTS
from edrl.paper.run import is_finished
from edrl.report.claims import Claim, as_json, as_markdown, count_verdicts
from edrl.study.tables import read_csv

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"
PICTURES = ("figure-2", "figure-5")
BEGIN, END = "<!-- claims: written by docs/update.py -->", "<!-- end of claims -->"


def read_claims() -> list[Claim]:
    """The claims as they were last brought in."""
    return [
        Claim(**entry) for entry in json.loads((DOCS / "claims.json").read_text(encoding="utf-8"))
    ]


def summary(claims: list[Claim]) -> str:
    """What stands between the README's marks."""
    return f"{BEGIN}\n{count_verdicts(claims)} ([every claim, with what was measured](docs/claims.md)).\n{END}"


def claims_page(claims: list[Claim]) -> str:
    """The page of all claims."""
    after = sum(claim.numbers == "seen" for claim in claims)
    return f"""# Claims

`make reproduce` measures and judges every claim of the paper and our own. {count_verdicts(claims)}.

Each claim is decided by numbers and limits. The limits are in
[`thresholds.toml`](../src/edrl/paper/thresholds.toml), with the day on which they were set and the
reason. A dagger (†) marks the {after} limits that were set or moved when the numbers were known. The margin
is the factor by which the tightest number of a claim clears its limit. An equals sign marks definitions and
identities: they check our code, and are not counted as evidence. The tables behind the claims are in
`docs/tables`; a test spoils them claim by claim.

## What does not hold

{as_markdown([claim for claim in claims if not claim.holds])}
## All claims

{as_markdown(claims)}"""


def update(report: Path, names: Sequence[str]) -> None:
    """Copy what the documentation shows of these parts of a report."""
    missing = [name for name in names if not is_finished(name, report, full=False)]
    if missing:
        sys.exit(
            f"{report} lacks what this code measures: {', '.join(missing)}. Run `make reproduce` first."
        )
    for old in (DOCS / "tables").glob("*"):
        if old.name in names or old.name not in EXPERIMENTS:
            shutil.rmtree(old)
    for name in names:
        (DOCS / "tables" / name).mkdir(parents=True)
        for table in (report / "data" / name).glob("*.csv"):
            shutil.copy(table, DOCS / "tables" / name / table.name)
    for name in PICTURES:
        if name in names:
            shutil.copy(report / "figures" / f"{name}.png", DOCS / "figures" / f"{name}.png")
    write_claims([claim for name in EXPERIMENTS for claim in judged(DOCS / "tables" / name)])
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    README.write_text(before + summary(read_claims()) + after, encoding="utf-8")
    (DOCS / "claims.md").write_text(claims_page(read_claims()), encoding="utf-8")


def judged(kept: Path) -> list[Claim]:
    """The claims of the part whose tables these are."""
    return EXPERIMENTS[kept.name].judge({path.stem: read_csv(path) for path in kept.glob("*.csv")})


def write_claims(claims: list[Claim], file: str = "claims.json") -> None:
    """Write claims for machines."""
    text = json.dumps(as_json(claims), indent=1, ensure_ascii=False) + "\n"
    (DOCS / file).write_text(text, encoding="utf-8")


def full_page(seconds: dict[str, float], claims: list[Claim], default: list[Claim]) -> str:
    """The page on the full size: how long it took, and which verdicts differ from the default size."""
    rows = "\n".join(f"| `{name}` | {time:.0f} |" for name, time in seconds.items())
    before = {claim.id: claim.holds for claim in default}
    changed = [claim for claim in claims if claim.holds != before.get(claim.id)]
    missing = [name for name in EXPERIMENTS if name not in seconds]
    left = f"Not run yet: {', '.join(missing)}." if missing else "Every part was run."
    minutes = sum(seconds.values()) / 60
    system = f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    machine = f"{os.cpu_count()} cores ({system})"
    return f"""# The full size

`edrl reproduce --full` takes the paper's sizes and many seeds. Its tables are in `docs/tables-full`,
its claims in [claims-full.json](claims-full.json). {count_verdicts(claims)}.

Measured in {minutes:.0f} minutes of single processes on {machine}, with other work beside it. {left}

## Verdicts that differ from the default size

{as_markdown(changed) if changed else "None."}

## Time of each part

| part | seconds |
|---|---|
{rows}
"""


def update_full(report: Path) -> None:
    """Copy what is finished of a report of full size."""
    names = [name for name in EXPERIMENTS if (report / "data" / name / "part.json").exists()]
    shutil.rmtree(DOCS / "tables-full", ignore_errors=True)
    seconds, claims = {}, []
    for name in names:
        kept = report / "data" / name
        seconds[name] = json.loads((kept / "part.json").read_text())["seconds"]
        claims += judged(kept)
        (DOCS / "tables-full" / name).mkdir(parents=True)
        for path in kept.glob("*.csv"):
            shutil.copy(path, DOCS / "tables-full" / name / path.name)
    write_claims(claims, "claims-full.json")
    (DOCS / "full-size.md").write_text(full_page(seconds, claims, read_claims()), encoding="utf-8")


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)  # claims are judged with all digits
    arguments = [argument for argument in sys.argv[1:] if argument != "--full"]
    if "--full" in sys.argv:
        update_full(Path(arguments[0] if arguments else "report-full"))
    else:
        update(Path(arguments[0] if arguments else "report"), arguments[1:] or list(EXPERIMENTS))
