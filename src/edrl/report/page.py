"""The page: one HTML file with its figures inside, which needs no network and runs no script."""

import base64
import html
import os
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path

from edrl.core.check import fail
from edrl.report.claims import Claim, count_verdicts

PLAYGROUND = "playground.html"
"""What lies beside the page: toys on return distributions."""
TITLE = "Statistics and Samples in Distributional Reinforcement Learning, reproduced"

_ABOUT = (
    "The theory and the tabular experiments of Rowland, Dadashi, Kumar, Munos, Bellemare"
    " and Dabney (ICML 2019), run again by <b>edrl</b>, and their table of Atari scores,"
    " summarised here. Under each figure stands what is claimed, what was measured, and"
    " whether it holds."
)
_TITLE = "<title>edrl: "  # by which a page is known for one of ours
_CSS = """
:root { color-scheme: light; --ink: #1c2127; --soft: #5b6570; --line: #dfe3e8;
  --good: #00654a; --bad: #a8321c; --known: #7a5600; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1.1rem 5rem;
  color: var(--ink); background: #fff;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial,
  sans-serif; }
h1 { font-size: 1.65rem; line-height: 1.25; margin: .4rem 0 .6rem; }
h2 { font-size: 1.35rem; margin: 3.2rem 0 .4rem; padding-bottom: .3rem;
  border-bottom: 2px solid var(--ink); }
h3 { font-size: 1.1rem; margin: 2.4rem 0 .2rem; }
a { color: #00558a; }
.soft { color: var(--soft); font-size: .88rem; }
.scroll { overflow-x: auto; }
figure { margin: 1rem 0 1.2rem; }
figure img { display: block; width: 100%; height: auto; }
figcaption { font-size: .94rem; margin-top: .35rem; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; line-height: 1.4; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem .35rem 0;
  border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; }
th { font-weight: 600; white-space: nowrap; }
td.verdict { font-weight: 600; width: 6.5rem; overflow-wrap: normal; }
summary { cursor: pointer; font-weight: 600; margin: 1rem 0; }
.holds { color: var(--good); } .fails { color: var(--bad); } .known { color: var(--known); }
.summary { padding: .8rem 1rem; border-left: 4px solid var(--good); background: #f3f8f6;
  font-size: 1.05rem; }
.summary.fails { border-color: var(--bad); background: #fbf3f1; }
nav ul { columns: 2 20rem; padding-left: 1.1rem; margin: .4rem 0; font-size: .95rem; }
pre { background: #fbf3f1; padding: .8rem; overflow-x: auto; font-size: .8rem; }
@media (max-width: 40rem) {
  body { font-size: 15px; padding: 1rem .8rem 4rem; }
  h1 { font-size: 1.35rem; }
  table.claims, .claims tbody, .claims tr, .claims td { display: block; }
  .claims thead { display: none; }
  .claims tr { border-bottom: 1px solid var(--line); padding: .5rem 0; }
  .claims td, .claims td.verdict { border: 0; padding: .05rem 0; width: auto; }
  .claims td[data-label]::before { content: attr(data-label) ": "; color: var(--soft); }
}
"""


@dataclass(frozen=True)
class Figure:
    """A drawing in SVG with its caption."""

    name: str
    svg: bytes
    caption: str

    @property
    def width(self) -> int:
        """The width in pixels. A figure of 11 inches fills the page, so all texts have one size."""
        points = re.search(rb'<svg [^>]*?width="([\d.]+)pt"', self.svg, re.DOTALL)
        return 940 if points is None else round(float(points.group(1)) / 72 * 86)


@dataclass(frozen=True)
class Cell:
    """An entry of a table, which may be bold or soft."""

    text: str
    best: bool = False
    soft: bool = False


@dataclass(frozen=True)
class Entry:
    """One experiment on the page."""

    name: str
    section: str
    title: str
    source: str
    about: str
    figures: Sequence[Figure]
    claims: Sequence[Claim]
    data: dict[str, str]  # of its tables: where the CSV files lie, seen from the page
    seconds: float
    error: str = ""


def render(entries: Sequence[Entry], missing: Sequence[str], full: bool) -> str:
    """The page as HTML; entries of one section come together."""
    claims = list(chain.from_iterable(entry.claims for entry in entries))
    failed = any(claim.failed for claim in claims) or any(entry.error for entry in entries)
    body = [
        f"<h1>{html.escape(TITLE)}</h1>",
        f"<p>{_ABOUT}</p>",
        summary(f"{count_verdicts(claims)}.", failed),
        f"<p>Play with it: {link(PLAYGROUND, 'seven toys on return distributions')}.</p>",
        _facts(entries, missing, full),
        _contents(entries),
        *_what_does_not_hold(claims),
        details(f"All {len(claims)} claims in one table", _claims_table(claims)),
        details("How the limits were set", _limits(claims)),
    ]
    for name, group in groupby(entries, lambda entry: entry.section):
        body += [f'<h2 id="{_anchor(name)}">{html.escape(name)}</h2>', *map(_entry, group)]
    return document(TITLE, body)


def summary(text: str, bad: bool) -> str:
    """The paragraph that a reader sees first, in the colour of good or of bad news."""
    kind = "summary fails" if bad else "summary"
    return f'<p class="{kind}">{html.escape(text)}</p>'


def note(text: str) -> str:
    """A paragraph in small print."""
    return f'<p class="soft">{text}</p>'


def details(title: str, content: str) -> str:
    """A part of the page that is folded until a reader opens it."""
    return f"<details><summary>{title}</summary>{content}</details>"


def link(target: str, text: str) -> str:
    """A link to a file, or to a place on the page."""
    return f'<a href="{html.escape(target)}">{html.escape(text)}</a>'


def data_links(*names: str) -> str:
    """Where the tables behind a section lie."""
    links = ", ".join(link(f"data/{name}.csv", f"{name}.csv") for name in names)
    return note(f"Data: {links}.")


def contents(places: Iterable[tuple[str, str]]) -> str:
    """A list of links to places on the page, each an anchor and its title."""
    items = [f"<li>{link(f'#{anchor}', title)}</li>" for anchor, title in places]
    return f"<nav><ul>{''.join(items)}</ul></nav>"


def check_no_foreign_page(out: Path) -> None:
    """A page that somebody else has written is not overwritten."""
    page = out / "index.html"
    if page.exists() and _TITLE not in page.read_text(encoding="utf-8", errors="replace")[:4096]:
        right = "there is an index.html in it that is not one of ours: name another directory"
        raise fail("out", str(out), right)


def document(title: str, body: Sequence[str], css: str = "") -> str:
    """A whole page from the parts of its body; `css` comes after the style that all pages share."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"{_TITLE}{html.escape(title)}</title>\n<style>{_CSS}{css}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def embedded(figure: Figure) -> str:
    """A figure with its caption, inside the page."""
    source = base64.b64encode(figure.svg).decode()
    return (
        f'<figure id="fig-{figure.name}"><div class="scroll">'
        f'<img alt="{html.escape(figure.caption)}"'
        f' style="max-width: {figure.width}px; min-width: {min(figure.width, 560)}px"'
        f' src="data:image/svg+xml;base64,{source}"></div>'
        f"<figcaption>{html.escape(figure.caption)}</figcaption></figure>"
    )


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str | Cell]],
    numbers: bool = False,
) -> str:
    """A table of text, or of `numbers`. A wide one scrolls by itself, so that the page does not."""
    heads = _row(head, "th")
    lines = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    kind = ' class="numbers"' if numbers else ""
    top = f"<thead>{heads}</thead>" if head else ""
    return f'<div class="scroll"><table{kind}>{top}<tbody>{lines}</tbody></table></div>'


def _row(texts: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(text)}</{tag}>' for text in texts)}</tr>"


def _cell(entry: str | Cell) -> str:
    cell = entry if isinstance(entry, Cell) else Cell(entry)
    text = f"<b>{html.escape(cell.text)}</b>" if cell.best else html.escape(cell.text)
    return f'<td class="soft">{text}</td>' if cell.soft else f"<td>{text}</td>"


def _facts(entries: Sequence[Entry], missing: Sequence[str], full: bool) -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in ("edrl", "jax", "numpy", "scipy"))
    minutes = sum(entry.seconds for entry in entries) / 60
    text = (
        f"{'Full' if full else 'Default'} size; {minutes:.1f} CPU minutes of measuring on"
        f" {os.cpu_count()} cores ({platform.machine()}, {platform.system()}, Python"
        f" {platform.python_version()}; {versions}); written {datetime.now(UTC):%Y-%m-%d %H:%M}"
        " UTC. All computations are in double precision and all seeds are fixed."
    )
    if missing:
        text += f" Not run: {', '.join(missing)}."
    return note(html.escape(text))


def _what_does_not_hold(claims: Sequence[Claim]) -> list[str]:
    against = [claim for claim in claims if not claim.holds]
    if not against:
        return []
    return ['<h2 id="against">What does not hold</h2>', _claims_table(against)]


def _limits(claims: Sequence[Claim]) -> str:
    """When each limit was set and why, those that were set after the numbers were seen first."""
    order = ("seen", "unrecorded", "unseen")
    columns = attrgetter("id", "expected", "margin", "set_on", "numbers", "reason", "earlier")
    rows = list(map(columns, sorted(claims, key=lambda claim: order.index(claim.numbers))))
    head = ("claim", "limit", "margin", "set on", "numbers", "reason", "earlier")
    text = (
        "A margin is the factor by which the tightest number of a claim clears its limit. Numbers:"
        " seen, the limit was set, or moved, when they were known (marked † above); unrecorded, it"
        " came with the first version of its part; unseen, it was written down before the numbers"
        " were measured. An = marks definitions and identities, which check our code and are not"
        " counted as evidence."
    )
    return f"<p>{html.escape(text)}</p>{table(head, rows)}"


def _contents(entries: Sequence[Entry]) -> str:
    return contents((entry.name, entry.title) for entry in entries)


def _entry(entry: Entry) -> str:
    parts = [
        f'<h3 id="{entry.name}">{html.escape(entry.title)}'
        f' <span class="soft">{html.escape(entry.source)}</span></h3>',
        f"<p>{html.escape(entry.about)}</p>",
    ]
    if entry.error:
        failed = '<p class="verdict fails">This part failed.</p>'
        parts.append(f"{failed}<pre>{html.escape(entry.error)}</pre>")
    parts += [embedded(figure) for figure in entry.figures]
    if entry.claims:
        parts.append(_claims_table(entry.claims))
    links = ", ".join(link(path, f"{name}.csv") for name, path in entry.data.items())
    parts.append(note(f"Data: {links}. Measured in {entry.seconds:.0f} s."))
    return "\n".join(parts)


def _claims_table(claims: Sequence[Claim]) -> str:
    names = ("verdict", "claim", "measured", "expected", "margin", "source")
    rows = "".join(map(_claim_row, claims))
    head = f"<thead>{_row(names, 'th')}</thead>"
    return f'<table class="claims">{head}<tbody>{rows}</tbody></table>'


def _claim_row(claim: Claim) -> str:
    verdict = f"{claim.mark} {html.escape(claim.verdict)}"
    return (
        f'<tr><td class="verdict {_kind(claim)}">{verdict}</td>'
        f"<td>{html.escape(claim.claim)}{_why_not(claim)}</td>"
        f'<td data-label="measured">{html.escape(claim.measured)}</td>'
        f'<td data-label="expected">{html.escape(claim.expected)}{_history(claim)}</td>'
        f'<td data-label="margin">{html.escape(claim.margin)}</td>'
        f'<td class="soft" data-label="source">{html.escape(claim.source)}</td></tr>'
    )


def _kind(claim: Claim) -> str:
    """The style that a verdict is shown in."""
    if claim.holds:
        return "holds"
    return "known" if claim.note else "fails"


def _why_not(claim: Claim) -> str:
    if not claim.why_not:
        return ""
    return f'<br><span class="soft">Why not: {html.escape(claim.why_not)}</span>'


def _history(claim: Claim) -> str:
    """A sign behind a limit, which tells when and why it was set."""
    if not claim.limit_history:
        return ""
    sign = "†" if claim.numbers == "seen" else "°"
    return f' <abbr title="{html.escape(claim.limit_history)}">{sign}</abbr>'


def _anchor(text: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in text.lower())
