"""The page in a real browser: no console error, every figure visible, nothing wider than the
screen.

Needs a Chromium on the path. EDRL_PAGE names the page to look at (`make test-page`), else a small
one is made.
"""

import html
import json
import os
import re
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest
from tests.report.test_page import HOLDS, KNOWN, example_page
from tests.study.test_report import ramp, write_run

from edrl.report.study_report import write_report

BROWSER = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
PROBE = """<script>
addEventListener("load", () => {
  const figures = [...document.images].map(image => {
    const box = image.getBoundingClientRect();
    return {complete: image.complete && image.naturalWidth > 0, width: box.width, height: box.height};
  });
  const found = {figures, width: document.documentElement.scrollWidth, screen: innerWidth};
  parent.document.title = "PROBE" + JSON.stringify(found);
});
</script>"""


def report_page(tmp_path: Path) -> str:
    """A report on runs of agents with long names, made by long commits."""
    agents = ("dqn", "er-dqn", "er-dqn[learning_rate=1e-4,double]", "qr-dqn-imputation")
    for agent, env in product(agents, ("minatar/breakout", "minatar/space_invaders")):
        calibration = (9.0, 1.0, 0.5, 0.4, 0.9)
        run = write_run(tmp_path, agent, env, 0, ramp(9.0), calibration=calibration)
        made = {"commit": "0123456789" * 4, "versions": {"jax": "0.10"}, "machine": {"cores": 2}}
        (run / "provenance.json").write_text(json.dumps([made]))
    text = write_report([tmp_path], tmp_path / "out").page.read_text(encoding="utf-8")
    return text.replace("<details>", "<details open>")  # as a reader may have them


def in_frame(text: str, width: int) -> str:
    """A page as a screen of `width` shows it: a window of Chromium has 500 pixels at least."""
    style = f"border: 0; width: {width}px; height: 900px"
    frame = f'<iframe style="{style}" srcdoc="{html.escape(text)}"></iframe>'
    return f"<!doctype html><title></title><body>{frame}</body>"


@pytest.mark.skipif(
    BROWSER is None and "EDRL_PAGE" not in os.environ, reason="no Chromium on the path"
)
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("page", ["claims", "runs"])
def test_the_page_loads_and_every_figure_is_visible(tmp_path: Path, width: int, page: str) -> None:
    assert BROWSER is not None, (
        "EDRL_PAGE asks for a look at the page, but there is no Chromium on the path"
    )
    if page == "runs":
        text = report_page(tmp_path)
    elif "EDRL_PAGE" in os.environ:
        text = Path(os.environ["EDRL_PAGE"]).read_text(encoding="utf-8")
    else:
        text = example_page(tmp_path, [HOLDS, KNOWN])
    probed = tmp_path / "page.html"
    framed = in_frame(text.replace("</body>", PROBE + "</body>"), width)
    probed.write_text(framed, encoding="utf-8")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--enable-logging=stderr",
        "--dump-dom",
    ]
    command = [
        BROWSER,
        *flags,
        f"--user-data-dir={tmp_path / 'profile'}",
        "--window-size=1400,900",
        probed.as_uri(),
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in result.stderr, result.stderr
    found = re.search(r"<title>PROBE(.*?)</title>", result.stdout)
    assert found is not None, result.stdout[:500]
    probe = json.loads(html.unescape(found.group(1)))
    assert probe["screen"] == width
    assert len(probe["figures"]) == text.count("<img ") > 0
    for figure in probe["figures"]:
        assert figure["complete"]
        assert figure["width"] > 300
        assert figure["height"] > 50
    assert probe["width"] <= probe["screen"], "the page must not scroll sideways"
