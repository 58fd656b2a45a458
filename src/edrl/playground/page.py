"""The playground as one HTML file: its style, its script and its data are inside."""

import json
from importlib.resources import files
from pathlib import Path

from edrl.core.check import fail
from edrl.playground.bundle import bundle

_TITLE = "<title>edrl: playground</title>"  # by which a page is known for one of ours
_ABOUT = (
    "Seven toys on the return distributions of reinforcement learning. Everything is computed in"
    " this page, in double precision, with the numbers of <b>edrl</b>; a button under each toy"
    " shows the Python code. What you set is in the address, so a link restores it."
)
_DATA = ("agent", "witnesses")  # files of JSON in `data`
_NO_NETWORK = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
)


def render() -> str:
    """The page."""
    room = files("edrl.playground")
    style = (room / "playground.css").read_text(encoding="utf-8")
    data = {name: json.loads((room / "data" / f"{name}.json").read_text()) for name in _DATA}
    script = (
        f'"use strict";\nconst DATA = {_as_script(data)};\n{bundle("page/main.js")}\n'
        'const playground = modules["page/main.js"].start();'
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_NO_NETWORK}">\n'
        f'<link rel="icon" href="data:,">\n{_TITLE}\n'
        f"<style>{style}</style>\n</head>\n<body>\n<h1>A playground of return distributions</h1>\n"
        f'<p class="soft">{_ABOUT}</p>\n<nav aria-label="Toys"></nav>\n'
        f'<main id="stage"></main>\n<script>\n{script}\n</script>\n</body>\n</html>\n'
    )


def write(out: Path) -> None:
    """Write the page to a file; one that somebody else has written is not overwritten."""
    if out.is_dir():
        raise fail("out", str(out), "it must be a file, e.g. playground.html")
    if out.exists() and _TITLE not in out.read_text(encoding="utf-8", errors="replace")[:4096]:
        raise fail("out", str(out), "there is a file that is not one of ours: name another one")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(render(), encoding="utf-8")


def _as_script(data: object) -> str:
    """JSON that may stand inside a script."""
    return json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
