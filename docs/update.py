"""Brings a finished report into the documentation: `python docs/update.py [report]`, after `make reproduce`.

Copies the README's pictures, the claims and the tables that they rest on, and writes the README's table of claims.
"""

import json
import shutil
import sys
from pathlib import Path

from edrl.experiments import EXPERIMENTS
from edrl.experiments.run import is_finished
from edrl.report.claims import Claim, as_markdown, count_verdicts

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"
PICTURES = ("figure-2", "figure-5")
BEGIN, END = "<!-- claims: written by docs/update.py -->", "<!-- end of claims -->"


def read_claims() -> list[Claim]:
    """The claims as they were last brought in."""
    return [Claim(**entry) for entry in json.loads((DOCS / "claims.json").read_text(encoding="utf-8"))]


def claims_block(claims: list[Claim]) -> str:
    """What stands between the README's marks."""
    against = as_markdown([claim for claim in claims if not claim.holds])
    every = f"<details><summary>All {len(claims)} claims</summary>\n\n{as_markdown(claims)}\n</details>"
    return f"{BEGIN}\n\n{count_verdicts(claims)}:\n\n{against}\n{every}\n\n{END}"


def update(report: Path) -> None:
    """Copy what the documentation shows of a complete report."""
    missing = [name for name in EXPERIMENTS if not is_finished(name, report, full=False)]
    if missing:
        sys.exit(f"{report} lacks what this code measures: {', '.join(missing)}. Run `make reproduce` first.")
    shutil.copy(report / "claims.json", DOCS / "claims.json")
    shutil.rmtree(DOCS / "tables", ignore_errors=True)
    for name in EXPERIMENTS:
        (DOCS / "tables" / name).mkdir(parents=True)
        for table in (report / "data" / name).glob("*.csv"):
            shutil.copy(table, DOCS / "tables" / name / table.name)
    for name in PICTURES:
        shutil.copy(report / "figures" / f"{name}.png", DOCS / "figures" / f"{name}.png")
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    README.write_text(before + claims_block(read_claims()) + after, encoding="utf-8")


if __name__ == "__main__":
    update(Path(sys.argv[1] if len(sys.argv) > 1 else "report"))
