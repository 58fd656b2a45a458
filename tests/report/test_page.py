"""The page: self-contained, and plain about what does not hold."""

import base64
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest

from edrl.report import page, style
from edrl.report.claims import Claim, as_json, as_markdown, count_verdicts

HOLDS = Claim("one", "Lemma 1", "a < b & c", "1", "2", holds=True)
KNOWN = Claim(
    "two", "Lemma 2", "does not reproduce", "1", "2", holds=False, note="because of a slip"
)
FAILS = Claim("three", "Lemma 3", "should hold", "1", "2", holds=False)


class Collector(HTMLParser):
    """All tags with their attributes, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def example_page(tmp_path, claims: list[Claim], error: str = "") -> str:
    with style.applied():
        figure, axes = style.axes()
        axes.plot([1, 2], [3, 4], color=style.COLOURS["EDRL"])
        style.save(figure, tmp_path / "figure-1.5")  # a dot in a name is no suffix
    svg = (tmp_path / "figure-1.5.svg").read_bytes()
    assert (tmp_path / "figure-1.5.png").stat().st_size > 1000
    figures = [page.Figure("one", svg, "what to see <here>"), page.Figure("two", svg, "and there")]
    entry = page.Entry(
        "part",
        "Section",
        "Title",
        "Figure 1",
        "about",
        figures,
        claims,
        {"t": "data/t.csv"},
        1.0,
        error,
    )
    return page.render([entry], ["left-out"], full=False)


def test_the_page_holds_its_figures_and_needs_nothing_else(tmp_path) -> None:
    """Every figure is an SVG inside the page.

    No script, and no address but data and anchors and the CSV files.
    """
    found = Collector()
    found.feed(example_page(tmp_path, [HOLDS, KNOWN]))
    images = [attributes for tag, attributes in found.tags if tag == "img"]
    assert len(images) == 2
    for image in images:
        head, body = (image["src"] or "").split(",", 1)
        assert head == "data:image/svg+xml;base64"
        assert ElementTree.fromstring(base64.b64decode(body)).tag.endswith("svg")
        assert image["alt"]
    assert not [tag for tag, _ in found.tags if tag in ("script", "iframe")]
    addresses = [
        attributes.get("href") or attributes.get("src") or "" for _, attributes in found.tags
    ]
    assert not [address for address in addresses if "//" in address]
    assert page.PLAYGROUND in addresses
    assert "what to see <here>" in found.text  # escaped
    assert "Not run: left-out" in found.text


@pytest.mark.parametrize(
    ("claims", "words"), [([HOLDS, KNOWN], "because of a slip"), ([HOLDS, FAILS], "FAILS")]
)
def test_what_does_not_hold_is_said_plainly(tmp_path, claims: list[Claim], words: str) -> None:
    found = Collector()
    found.feed(example_page(tmp_path, claims))
    assert "What does not hold" in found.text
    assert words in found.text
    assert ("should hold and does not" in found.text) == (FAILS in claims)


def test_a_wide_table_scrolls_by_itself() -> None:
    """So that the page does not: every table lies in a box of its own."""
    wide = page.table(("a", "b"), [("0123456789" * 20, "1")])
    assert wide.startswith('<div class="scroll"><table>')
    assert ".scroll { overflow-x: auto; }" in page.document("title", [wide])


def test_a_part_that_failed_shows_its_error(tmp_path) -> None:
    found = Collector()
    found.feed(example_page(tmp_path, [], "ValueError: a < b"))
    assert "This part failed" in found.text
    assert "ValueError: a < b" in found.text


def test_claims_for_machines_and_readers() -> None:
    """claims.json has the fields that were promised; only a claim without an excuse fails."""
    assert {"id", "source", "claim", "measured", "expected", "holds"} <= set(as_json([HOLDS])[0])
    assert [claim.failed for claim in (HOLDS, KNOWN, FAILS)] == [False, False, True]
    assert count_verdicts([HOLDS, KNOWN, FAILS]).startswith("1 of 3 claims hold")
    assert as_markdown([HOLDS, KNOWN]).count("\n") == 4
