"""Frames of the playground in a headless Chromium: is every toy smooth at 60 frames a second?

`work` is the time that scripts and layout take of a frame while something moves in it. A frame has
1000 / 60 = 16.7 milliseconds. Painting comes after it, in other processes.
"""

import json
import queue
import re
import shutil
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from edrl.playground.page import render

_FRAME = 1000 / 60
_WIDTHS = {"desktop": 1280, "phone": 500}  # Chromium has no narrower window
_SCRIPT = (Path(__file__).parent / "frames.js").read_text(encoding="utf-8")


def run() -> dict[str, Any]:
    """Milliseconds of frames, for each motion and each width of the window."""
    return {name: _measured(width) for name, width in _WIDTHS.items()}


def _measured(width: int) -> dict[str, dict[str, float]]:
    answers: queue.Queue[bytes] = queue.Queue()
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", render())
    page = page.replace("</body>", f"<script>{_SCRIPT}</script></body>")

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(page.encode())

        def do_POST(self) -> None:
            answers.put(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer(b"")

        def _answer(self, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing on the console."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as profile:
        browser = _browser(f"http://127.0.0.1:{server.server_port}/", width, profile)
        try:
            found = json.loads(answers.get(timeout=240))
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()
    return {name: _summary(name, one) for name, one in found.items()}


def _browser(address: str, width: int, profile: str) -> "subprocess.Popen[bytes]":
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        raise RuntimeError("this benchmark needs Chromium on the path")
    flags = (
        "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
        "--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0",
        f"--user-data-dir={profile}", f"--window-size={width},900",
    )  # fmt: skip
    return subprocess.Popen([path, *flags, address], stderr=subprocess.DEVNULL)


def _summary(name: str, found: dict[str, Any]) -> dict[str, float]:
    if "error" in found:
        raise RuntimeError(f"{name}: {found['error']}")
    work, gaps = np.array(found["work"]), np.array(found["gaps"])
    return {
        "work_median": round(float(np.median(work)), 2),
        "work_95": round(float(np.quantile(work, 0.95)), 2),
        "work_most": round(float(work.max()), 2),
        "frames_a_second": round(1000 / float(np.mean(gaps)), 1),
        "late": round(float(np.mean(gaps > 1.5 * _FRAME)), 3),
    }
