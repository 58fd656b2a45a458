"""The code that the README and the guides show is run as it stands."""

import importlib.util
import itertools
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.decode import cost_table, decode_table, seed_table
from benchmarks.full_study import table
from benchmarks.heads import table as heads_table
from benchmarks.noise import ROBUST, noise_table, where_it_fails
from benchmarks.random_scores import EPISODES
from benchmarks.random_scores import scores as random_scores

import edrl
import edrl.deep.agents
import edrl.deep.config
import edrl.deep.environments.atari
import edrl.tabular
from edrl import cli
from edrl.core import imputation
from edrl.deep.variant import Variant
from edrl.paper import EXPERIMENTS
from edrl.report.result_tables import mean_and_error
from edrl.study.runs import read_runs
from edrl.study.tables import read_csv, select
from edrl.theory import closedness

ROOT = Path(__file__).parents[1]


def module(path: str) -> Any:
    """A script of the documentation."""
    spec = importlib.util.spec_from_file_location("script", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
    if "```python" in path.read_text(encoding="utf-8")
)
assert len(PAGES) >= 10
SLOW_PAGES = ("docs/deep.md", "docs/own-environment.md", "docs/own-mdp.md", "docs/risk.md")
assert set(SLOW_PAGES) < set(PAGES)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] if page in SLOW_PAGES else []) for page in PAGES],
)
def test_examples_run(page: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), page, "exec"), {"__name__": "example"})


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
def test_the_tutorial_runs() -> None:
    cells = json.loads((ROOT / "docs/tutorial.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    short = [cell.replace("steps=40_000, evaluate_every=20_000", "steps=2_000") for cell in code]
    assert short != code
    exec(compile("\n".join(short), "tutorial.ipynb", "exec"), {"__name__": "example"})


def documented_commands() -> list[str]:
    """Every line `edrl ...` of a block of commands, joined where a backslash ends it."""
    found: list[str] = []
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for block in re.findall(r"^```\w*\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE):
            lines = block.replace("\\\n", " ").splitlines()
            found += [line for line in lines if line.startswith("edrl ")]
    return list(dict.fromkeys(found))


def test_every_command_in_the_documentation_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags, values and the agents' names; commands that train are not carried out."""
    monkeypatch.setattr(cli, "cache_compilations_of_command", lambda: None)
    monkeypatch.setattr(sys, "path", [*sys.path])
    commands = documented_commands()
    assert len(commands) >= 40
    for line in commands:
        arguments = shlex.split(line, comments=True)[1:]
        try:
            cli._command(arguments)
        except SystemExit as refused:
            pytest.fail(f"{line}: {refused}")
        if "--agents" in arguments:
            following = arguments[arguments.index("--agents") + 1 :]
            for name in itertools.takewhile(lambda word: not word.startswith("-"), following):
                Variant.parse(name)  # which refuses unknown names and settings


def test_numbers_of_the_deep_results_are_those_of_the_pages_that_it_names() -> None:
    page = (ROOT / "docs/deep-results.md").read_text(encoding="utf-8")
    named = re.findall(r"\((results/\w+\.md)\)", page)
    measured = " ".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in named)
    numbers = set(re.findall(r"\d+\.\d+", page))
    assert len(numbers) > 10
    assert not [number for number in numbers if number not in measured]


def _readme() -> str:
    return " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


def _benchmark(name: str) -> Any:
    return json.loads((ROOT / f"benchmarks/results/{name}.json").read_text())["results"]


def test_the_readme_is_short_and_shows_what_its_example_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.encode()) <= 7_000
    found = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", text, re.DOTALL)
    assert found is not None
    code, shown = found.groups()
    exec(compile(code, "README.md", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out == shown


def test_the_readmes_numbers_are_those_that_were_measured() -> None:
    readme = _readme()
    exact = _benchmark("imputation")["exact imputation against scipy.optimize.root, 32 x 11"]
    assert f"**{exact['times_faster']:,.0f} times**" in readme
    assert f"{exact['our_error_worst']:.0e}".replace("e-0", "e-") in readme
    rows = read_csv(ROOT / "docs/results/minatar5/calibration.csv")
    wide = {}
    for agent in ("QR-DQN", "ER-DQN-naive", "QR-DQN-imputation", "ER-DQN"):
        own = select(rows, agent=agent)
        wide[agent] = own["spread"] / own["scatter"]
    without = np.concatenate([wide["QR-DQN"], wide["ER-DQN-naive"]])
    imputed = np.concatenate([wide["QR-DQN-imputation"], wide["ER-DQN"]])
    assert f"**{np.median(imputed):.2f} against {np.median(without):.2f}**" in readme
    assert f"medians over {len(imputed) + len(without)} runs" in readme
    better = read_csv(ROOT / "docs/results/minatar5/improvement.csv")
    (naive,) = select(better, agent="ER-DQN", other="ER-DQN-naive")["probability"]
    assert f"**{naive:.2f}** is the probability that ER-DQN scores better" in readme
    peers = _benchmark("training")
    rival = "sb3-contrib, QR-DQN"
    on_minatar = peers["minatar, all cores"][rival]["ours_er_dqn_times_faster"]
    on_pong = peers["atari, all cores"][rival]["ours_er_dqn_times_faster"]
    assert f"**{on_minatar:.1f} times**" in readme
    assert f"{on_pong:.1f} times on Pong" in readme
    own_iqn = (ROOT / "tests/deep/own_iqn.py").read_text(encoding="utf-8").splitlines()
    assert f"**{len(own_iqn)}** make IQN" in readme


def test_the_version_stands_in_one_place() -> None:
    """And the citation has the same."""
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert cited[1] == edrl.__version__
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text()


def test_every_test_named_in_the_paper_map_exists() -> None:
    named = set(re.findall(r"`(test_\w+\.py)`", (ROOT / "docs/paper-map.md").read_text()))
    there = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert named
    assert named <= there


def test_every_function_named_in_the_paper_map_exists() -> None:
    """`tabular.learn`, `Closedness.coefficients`: in the package, or in one of its parts."""
    rows, _ = (ROOT / "docs/paper-map.md").read_text().split("## Figures, tables and checks")
    cells = [line.split("|")[2] for line in rows.split("\n") if line.count("|") == 4][2:]
    named = [name for cell in cells for name in re.findall(r"`(\w[\w.]*)(?:[(\[][^`]*)?`", cell)]
    assert len(named) > 40
    places = (edrl, edrl.tabular, imputation, closedness, edrl.deep.config)
    assert not [name for name in named if not any(_has(place, name.split(".")) for place in places)]


def _has(place: Any, names: list[str]) -> bool:
    if not names:
        return True
    first, *rest = names
    if first in getattr(place, "__annotations__", {}) and not rest:  # a field of a dataclass
        return True
    return hasattr(place, first) and _has(getattr(place, first), rest)


def test_every_part_of_the_reproduction_is_in_the_paper_map() -> None:
    _, parts = (ROOT / "docs/paper-map.md").read_text().split("## Figures, tables and checks")
    rows = re.findall(r"\| `([\w-]+)` \| `\w+\.py`", parts)
    assert rows == list(EXPERIMENTS)


def test_the_readme_shows_the_claims_as_they_were_measured() -> None:
    """Sentence and page are what docs/update.py makes of docs/claims.json, and no claim in them
    fails.
    """
    update = module("docs/update.py")
    claims = update.read_claims()
    assert update.summary(claims) in (ROOT / "README.md").read_text(encoding="utf-8")
    assert update.claims_page(claims) == (ROOT / "docs/claims.md").read_text(encoding="utf-8")
    assert not [claim.id for claim in claims if claim.failed]


def test_the_cost_of_the_full_study_is_as_it_was_worked_out() -> None:
    result = json.loads((ROOT / "benchmarks/results/full_study.json").read_text())["results"]
    assert table(result) in (ROOT / "docs/full-study.md").read_text(encoding="utf-8")


def test_imputation_from_noise_is_as_it_was_measured() -> None:
    result = json.loads((ROOT / "benchmarks/results/noise.json").read_text())["results"]
    page = (ROOT / "docs/robust-imputation.md").read_text(encoding="utf-8")
    for kind, names in ROBUST.items():
        assert noise_table(result, kind) in page
        for name, label in names.items():
            for failure in where_it_fails(result, kind, name):
                assert f"- {label}; {failure}" in page


def test_decoding_is_as_it_was_measured() -> None:
    result = json.loads((ROOT / "benchmarks/results/decode.json").read_text())["results"]
    page = (ROOT / "docs/decode.md").read_text(encoding="utf-8")
    for made in (decode_table, seed_table, cost_table):
        assert made(result) in page


def test_heads_are_as_they_were_measured() -> None:
    result = json.loads((ROOT / "benchmarks/results/heads.json").read_text())["results"]
    assert heads_table(result) in (ROOT / "docs/results/heads.md").read_text(encoding="utf-8")


RESULTS = sorted(  # a page is written before its study runs, and has no tables until then
    path.stem for path in (ROOT / "docs/results").glob("*.md") if path.with_suffix("").is_dir()
)
assert len(RESULTS) >= 3


@pytest.mark.parametrize("page", RESULTS)
def test_results_show_the_tables_that_lie_beside_them(page: str) -> None:
    update = module("docs/results/update.py")
    assert update.block(page) in (ROOT / f"docs/results/{page}.md").read_text(encoding="utf-8")


def test_random_scores_are_those_of_the_table() -> None:
    """Which is what docs/report.md says that the script writes."""
    pytest.importorskip("minatar")
    table = read_csv(ROOT / "src/edrl/study/data/minatar5.csv")
    known = dict(zip(table["env"], table["random"], strict=True))
    for env in (
        "minatar/breakout",
        "minatar/asterix",
        "minatar/seaquest",
    ):  # whose episodes are short
        assert random_scores(env, EPISODES).mean() == pytest.approx(known[env])


def test_the_widths_of_c51_are_those_of_its_runs() -> None:
    """What the discount leaves after each renewal of the target network, and what was learnt
    (minatar5.md).
    """
    runs, _ = read_runs(ROOT / "docs/results/minatar5/runs.json")
    (run,) = [run for run in runs if run.key == ("C51", "minatar/freeway", 0)]
    low, high = run.config.support
    uniform = np.linspace(low, high, 51).std()
    shown = [
        run.calibration["step"].index(step)
        for step in (100_000, 300_000, 500_000, 800_000, 1_000_000)
    ]
    renewals = [
        (run.calibration["step"][at] - run.config.learn_after) // run.config.target_every
        for at in shown
    ]
    left = [f"{uniform * run.config.gamma**count:.1f}" for count in renewals]
    learnt = [f"{run.calibration['spread'][at]:.1f}" for at in shown]
    page = " ".join((ROOT / "docs/results/minatar5.md").read_text(encoding="utf-8").split())
    for numbers in (left, learnt):
        assert f"{', '.join(numbers[:-1])} and {numbers[-1]}" in page


@pytest.mark.parametrize("page", RESULTS)
def test_every_interval_that_a_page_of_results_speaks_of_is_in_its_tables(page: str) -> None:
    text, tables = (
        (ROOT / f"docs/results/{page}.md").read_text(encoding="utf-8").split("<!-- tables")
    )
    number = r"-?\d+\.\d+"
    spoken = re.findall(rf"{number} \[{number}, {number}\]", " ".join(text.split()))
    assert spoken or page != "minatar5"  # the others speak of none
    assert not [interval for interval in spoken if interval not in tables]


def test_exact_imputation_again_is_as_the_page_says() -> None:
    """Final scores over three seeds, and the speeds of the pairs that there are (scipy.md)."""
    runs = {run.key: run for run in read_runs(ROOT / "docs/results/scipy/again/runs.json")[0]}
    page = " ".join((ROOT / "docs/results/scipy.md").read_text(encoding="utf-8").split())
    ratios = []
    for env in ("minatar/breakout", "minatar/space_invaders"):
        mean, error = mean_and_error([runs["ER-DQN", env, seed].final for seed in range(3)])
        assert f"{mean:.2f} ± {error:.2f}" in page
        exact, scipy = (runs[agent, env, 0].timing for agent in ("ER-DQN", "ER-DQN (scipy-root)"))
        assert exact is not None
        assert scipy is not None
        ratios.append(f"{scipy.seconds / exact.seconds:.1f}")
    assert f"{' and '.join(ratios)} times as many agent steps a second" in page


def test_the_laws_that_agents_learnt_are_as_the_page_says() -> None:
    """Ranges and medians over runs, which the page's tables give game by game."""
    rows = read_csv(ROOT / "docs/results/minatar5/calibration.csv")
    page = " ".join((ROOT / "docs/results/minatar5.md").read_text(encoding="utf-8").split())

    def of_runs(above: str, below: str, *agents: str) -> np.ndarray:
        found = [select(rows, agent=agent) for agent in agents]
        return np.concatenate([one[above] / one[below] for one in found])

    for agents in (("QR-DQN", "ER-DQN-naive"), ("QR-DQN-imputation", "ER-DQN")):
        wide = of_runs("spread", "scatter", *agents)
        assert f"{wide.min():.2f} to {wide.max():.2f}" in page
        assert f"({len(wide)} runs, median {np.median(wide):.2f})" in page
    wide = of_runs("spread", "scatter", "ER-DQN (as_samples)")
    least, middle, most = np.quantile(wide, [0, 0.5, 1])
    assert (
        f"{least:.2f} to {most:.2f} for ER-DQN (as_samples) ({len(wide)} runs, median {middle:.2f})"
        in page
    )
    for text, agents in (
        ("{} to {} times the returns that it gets (median {})", ("ER-DQN",)),
        ("DQN {} to {} ({})", ("DQN",)),
        ("QR-DQN-imputation {} to {} ({})", ("QR-DQN-imputation",)),
        ("QR-DQN and ER-DQN-naive {} to {} ({})", ("QR-DQN", "ER-DQN-naive")),
        ("ER-DQN (as_samples) {} to {} ({})", ("ER-DQN (as_samples)",)),
    ):
        high = of_runs("expected", "got", *agents)
        assert (
            text.format(*(f"{number:.2f}" for number in (high.min(), high.max(), np.median(high))))
            in page
        )
