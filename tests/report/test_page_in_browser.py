"""The page in a real browser: no console error, every figure visible, nothing wider than the
screen.

Needs a Chromium on the path. EDRL_PAGE names the page to look at (`make test-page`), else a small
one is made.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.report.test_page import HOLDS, KNOWN, example_page

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
  document.title = "PROBE" + JSON.stringify({figures, width: document.documentElement.scrollWidth, screen: innerWidth});
});
</script>"""


@pytest.mark.skipif(
    BROWSER is None and "EDRL_PAGE" not in os.environ, reason="no Chromium on the path"
)
@pytest.mark.parametrize("width", [1280, 500])
def test_the_page_loads_and_every_figure_is_visible(tmp_path: Path, width: int) -> None:
    assert BROWSER is not None, (
        "EDRL_PAGE asks for a look at the page, but there is no Chromium on the path"
    )
    if "EDRL_PAGE" in os.environ:
        text = Path(os.environ["EDRL_PAGE"]).read_text(encoding="utf-8")
    else:
        text = example_page(tmp_path, [HOLDS, KNOWN])
    probed = tmp_path / "page.html"
    probed.write_text(text.replace("</body>", PROBE + "</body>"), encoding="utf-8")
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
        f"--window-size={width},900",
        probed.as_uri(),
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in result.stderr, result.stderr
    found = re.search(r"<title>PROBE(.*?)</title>", result.stdout)
    assert found is not None, result.stdout[:500]
    probe = json.loads(found.group(1).replace("&quot;", '"'))
    assert len(probe["figures"]) == text.count("<img ") > 0
    for figure in probe["figures"]:
        assert figure["complete"]
        assert figure["width"] > 300
        assert figure["height"] > 50
    assert probe["width"] <= probe["screen"], "the page must not scroll sideways"
