"""A headless Chromium for tests: it loads a page, lets its scripts run, and hands back one JSON."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

BROWSER = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on the path")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
)


def look(page: str, directory: Path, width: int = 1280, budget: int = 30_000) -> Any:
    """What the page's script has put, as JSON, into an element with the id `answer`.

    An error, a warning or any other line on the console fails the test. `budget` is virtual time
    in milliseconds, for timers and frames of animations.
    """
    assert BROWSER is not None
    path = directory / "page.html"
    path.write_text(page, encoding="utf-8")
    command = [
        BROWSER,
        *_FLAGS,
        f"--user-data-dir={directory / 'profile'}",
        f"--window-size={width},900",
        f"--virtual-time-budget={budget}",
        "--dump-dom",
        path.as_uri(),
    ]
    found = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    assert "CONSOLE" not in found.stderr, found.stderr[-4000:]
    answer = re.search(r'<pre id="answer"[^>]*>(.*?)</pre>', found.stdout, re.DOTALL)
    assert answer is not None, found.stdout[-2000:]
    return json.loads(unescape(answer[1]))
