"""The code that the README and the guides show is run as it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md", "docs/add-a-statistic.md"])
def test_examples_run(page: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), page, "exec"), {"__name__": "example"})


def test_every_test_named_in_the_paper_map_exists() -> None:
    named = set(re.findall(r"`(test_\w+\.py)`", (ROOT / "docs/paper-map.md").read_text()))
    there = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert named
    assert named <= there
