"""The playground in a real browser: every toy is operated, and its Python code gives its numbers."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from tests.playground.browser import look, needs_browser

from edrl import cli
from edrl.playground.page import render, write
from edrl.playground.weights import DATA

TOYS = ("imputation", "backup", "grid", "witness", "control", "minatar", "decode")
_BYTES = 1_000_000
_OPERATE = (Path(__file__).parent / "operate.js").read_text(encoding="utf-8")
_PHONE = 390

# Loads the page as wide as a phone, one toy after the other, and says how wide each one is.
_ON_A_PHONE = """<!doctype html><body><pre id="answer" hidden></pre><script>
const toys = %s;
const widths = [];
const next = () => {
  if (widths.length === toys.length) {
    document.getElementById("answer").textContent = JSON.stringify(widths);
    return;
  }
  const frame = document.createElement("iframe");
  frame.style = "width: %dpx; height: 800px; border: 0";
  frame.src = "inner.html#" + toys[widths.length];
  document.body.append(frame);
};
addEventListener("message", (event) => {
  widths.push(event.data);
  document.querySelector("iframe").remove();
  next();
});
next();
</script>"""
_TELL_WIDTH = """<script>
setTimeout(() => parent.postMessage({
  toy: playground.current.toy.id, width: document.documentElement.scrollWidth,
  handles: document.querySelectorAll("#stage *").length,
}, "*"), 200);
</script>"""


@pytest.fixture(scope="module")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What every toy has shown."""
    page = render().replace("</body>", f"<script>{_OPERATE}</script></body>")
    return look(page, tmp_path_factory.mktemp("page"), budget=60_000)


def test_the_page_is_one_small_file_without_network() -> None:
    text = render()
    assert len(text.encode()) < _BYTES
    tags: list[tuple[str, dict[str, str | None]]] = []

    class Collector(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append((tag, dict(attrs)))

    Collector().feed(text)
    assert not [tag for tag, given in tags if (given.get("src") or "") != ""]
    assert [given["href"] for tag, given in tags if tag == "link"] == ["data:,"]
    policy = next(given["content"] for tag, given in tags if "http-equiv" in given)
    assert policy is not None
    assert "default-src 'none'" in policy
    assert text.count("</script>") == 1


def test_a_page_of_others_is_not_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "playground.html"
    write(out)
    write(out)  # our own is
    out.write_text("<title>mine</title>")
    with pytest.raises(ValueError, match="not one of ours"):
        write(out)
    with pytest.raises(ValueError, match="must be a file"):
        write(tmp_path)


def test_the_command_writes_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "toys.html"
    monkeypatch.setattr(sys, "argv", ["edrl", "playground", "--out", str(out)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert out.read_text(encoding="utf-8") == render()
    assert "toys.html" in capsys.readouterr().out.replace("\n", "")


@needs_browser
@pytest.mark.parametrize("toy", TOYS)
def test_a_link_restores_what_a_toy_shows(operated: Any, toy: str) -> None:
    found = operated[toy]
    assert "error" not in found, found["error"]
    assert len(found["shown"]) > 2
    assert found["hash"].startswith(f"{toy}?")
    assert found["again"] == found["shown"]


@needs_browser
@pytest.mark.parametrize("toy", TOYS)
def test_the_python_code_gives_the_same_numbers(operated: Any, toy: str) -> None:
    """The code that the page shows is run as it is, but for printing what takes long."""
    lines = operated[toy]["code"].splitlines()
    code = "\n".join(line for line in lines if not line.startswith(("print(", "jax.config")))
    names: dict[str, Any] = {}
    with jax.enable_x64(True):
        exec(compile(code, toy, "exec"), names)
        answer = np.asarray(names["answer"], float)
    shown = np.asarray(operated[toy]["shown"], float)
    # SciPy finds the least squares by another method.
    np.testing.assert_allclose(shown, answer, rtol=0, atol=1e-7 if toy == "decode" else 1e-12)


@needs_browser
def test_statistics_can_be_dragged_and_moved_by_keys(operated: Any) -> None:
    found = operated["imputation"]
    assert found["dragged"][0] > found["before"][0] + 1
    assert found["dragged"][1:] == found["before"][1:]
    assert found["keyed"][2] == pytest.approx(found["before"][2] + 0.08)
    assert found["repaired"]
    assert "No distribution has these values" in found["message"]
    assert "A distribution has these" in found["fits"]
    assert {kind: len(numbers) > 4 for kind, numbers in found["others"].items()} == {
        "quantiles": True,
        "huber": True,
        "categorical": True,
    }


@needs_browser
def test_naive_statistics_collapse_and_imputed_ones_do_not(operated: Any) -> None:
    values = np.reshape(operated["backup"]["shown"], (2, -1))
    spread = values.max(axis=1) - values.min(axis=1)
    assert spread[1] < 0.75 * spread[0]
    assert "After 6 backups" in operated["backup"]["message"]


@needs_browser
def test_a_world_is_edited_solved_and_learnt(operated: Any) -> None:
    found = operated["grid"]
    assert "world=-.....%3F" in found["hash"] or "world=-.....?" in found["hash"]
    assert "cell=3" in found["hash"]
    assert "sweeps=12" in found["hash"]
    assert found["sweeps"] >= 40
    assert found["learnt"] > 10


@needs_browser
def test_matching_and_the_librarys_own_witnesses(operated: Any) -> None:
    """All but moments have a witness, and the page finds the gap that the library found."""
    found = operated["witness"]
    assert found["matched"] < 1e-6
    kept = json.loads((DATA / "witnesses.json").read_text(encoding="utf-8"))
    for kind, one in found["own"].items():
        if kind == "moments":
            assert kept[kind] is None
            assert not one["found"]
            assert "Bellman closed" in one["message"]
            continue
        assert one["found"]
        assert one["gap"] == pytest.approx(kept[kind]["gap"], abs=1e-12)
        assert one["apart"] < 1e-9


@needs_browser
def test_figure_7_and_a_bad_pair(operated: Any) -> None:
    assert "The better action is a1. CDRL and QDRL" in operated["control"]["figure"]
    assert "must lie between 0 and 1" in operated["decode"]["refused"]


@needs_browser
def test_the_agent_plays(operated: Any) -> None:
    """It plays on from where a link leads, whoever made the steps before."""
    found = operated["minatar"]
    actions = re.search(r"actions=([012]+)", found["hash"])
    assert actions is not None
    assert "22" in actions[1]  # two steps to the right, by keys
    assert f"after {len(actions[1])} steps" in found["message"]
    assert found["moves"] > len(actions[1]) >= 20


@needs_browser
def test_nothing_is_wider_than_the_screen(operated: Any, tmp_path: Path) -> None:
    assert operated["width"] <= operated["screen"]
    inner = render().replace("</body>", f"{_TELL_WIDTH}</body>")
    (tmp_path / "inner.html").write_text(inner, encoding="utf-8")
    widths = look(_ON_A_PHONE % (json.dumps(TOYS), _PHONE), tmp_path)
    assert [one["toy"] for one in widths] == list(TOYS)
    for one in widths:
        assert one["width"] <= _PHONE, one
        assert one["handles"] > 20
