"""The figures of a report: every text lies within the picture, and no two lie on each other."""

import itertools
from collections.abc import Iterator

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from edrl.report import game_figures, study_figures, style
from edrl.report.style import Drawing
from edrl.study.tables import Table, from_rows

FEW = {"DQN": "dqn", "ER-DQN": "er-dqn"}
MANY = {  # as a study of variants names them
    "DQN": "dqn",
    "C51 (support [-25,25])": "c51",
    "QR-DQN (size 51)": "qr-dqn",
    "QR-DQN-imputation": "qr-dqn-imputation",
    "ER-DQN": "er-dqn",
    "ER-DQN (learning rate 1e-4, double, n-step 3)": "er-dqn",
    "ER-DQN (as_samples)": "er-dqn",
    "ER-DQN-naive (size 51)": "er-dqn-naive",
    "MyVeryOwnSmoothedStatistics": "mine:MyVeryOwnSmoothedStatistics",
}
GAMES = ("minatar/space_invaders", "CartPole-v1", "mine:ALongNameOfAnEnvironment-v0", "a", "b")


def drawings(bases: dict[str, str], games: tuple[str, ...], kind: str) -> Iterator[Drawing]:
    looks = style.looks(bases)
    top = 23_456.7 if kind == "raw" else 1.0
    names = ("mean", "IQM") if kind == "raw" else ("IQM", "median", "mean", "optimality gap")
    share = {agent: top * (1 + place) / len(bases) for place, agent in enumerate(bases)}
    rows = [
        (agent, name, value, value - 0.1 * top, value + 0.1 * top)
        for (agent, value), name in itertools.product(share.items(), names)
    ]
    columns = ("agent", "measure", "value", "low", "high")
    yield study_figures.aggregates(from_rows(columns, rows), looks, kind)
    rows = [(agent, tau, 1 - tau / top, 0.0, 1.0) for agent in bases for tau in (0.0, top)]
    columns = ("agent", "tau", "share", "low", "high")
    yield study_figures.profiles(from_rows(columns, rows), looks, kind)
    pairs = itertools.permutations(bases, 2)
    columns = ("agent", "other", "probability", "low", "high")
    chances = from_rows(columns, [(*pair, 0.51, 0.4, 0.6) for pair in pairs])
    yield study_figures.improvement_matrix(chances, looks)
    yield study_figures.improvement_pairs(chances, looks)
    yield from against_steps(bases, games, kind, share)
    rows = [(agent, env, 0.1 * (1 + n), 1.0) for n, agent in enumerate(bases) for env in games]
    yield game_figures.calibration(from_rows(("agent", "env", "spread", "scatter"), rows), looks)


def against_steps(
    bases: dict[str, str], games: tuple[str, ...], kind: str, share: dict[str, float]
) -> Iterator[Drawing]:
    looks = style.looks(bases)
    points = list(itertools.product(games, bases, (0, 5_000_000, 10_000_000)))
    rows = [(env, agent, at, share[agent] * at, 0.0, 1.0, 1) for env, agent, at in points]
    curves: Table = from_rows(("env", "agent", "step", "mean", "low", "high", "seeds"), rows)
    expected = dict.fromkeys(itertools.product(games, bases), 1)
    yield game_figures.curves(curves, looks, expected)
    yield game_figures.training(curves, looks, expected)
    rows = [(agent, at, share[agent], 0.0, 1.0, 1) for agent in bases for at in (0, 10_000_000)]
    table = from_rows(("agent", "step", "IQM", "low", "high", "runs"), rows)
    yield game_figures.sample_efficiency(table, looks, dict.fromkeys(bases, 1), kind)


def shown_texts(figure: Figure) -> Iterator[Text]:
    """All texts but the labels of ticks that lie beyond the axes, which are not drawn."""
    hidden = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not (low <= tick.get_loc() <= high and axes.axison):
                    hidden |= {tick.label1, tick.label2}
    for text in figure.findobj(Text):
        if text.get_text().strip() and text.get_visible() and text not in hidden:
            yield text


def extents(figure: Figure) -> list[tuple[str, Bbox]]:
    figure.canvas.draw()
    found = [(text.get_text(), text.get_window_extent()) for text in shown_texts(figure)]
    return [(words, box) for words, box in found if box.width > 0]


@pytest.mark.parametrize("kind", ["normalised", "raw"])
@pytest.mark.parametrize("bases", [FEW, MANY], ids=["few", "many"])
def test_every_text_has_its_own_place(bases: dict[str, str], kind: str) -> None:
    games = GAMES if kind == "normalised" else GAMES[1:2]
    with style.applied():
        for drawing in drawings(bases, games, kind):
            found = extents(drawing.figure)
            page = drawing.figure.bbox.padded(1)
            for words, box in found:
                assert page.containsx(box.x0), (drawing.name, words)
                assert page.containsx(box.x1), (drawing.name, words)
                assert page.containsy(box.y0), (drawing.name, words)
                assert page.containsy(box.y1), (drawing.name, words)
            for (one, first), (other, second) in itertools.combinations(found, 2):
                assert not first.padded(-1).overlaps(second.padded(-1)), (drawing.name, one, other)
            named = " ".join(words.replace("\n", "") for words, _ in found).replace(" ", "")
            shown = set(bases) - ({"DQN"} if drawing.name == "improvement-pairs" else set())
            for agent in shown if len(bases) > 2 else ():
                assert agent.replace(" ", "") in named, drawing.name


def test_a_check_of_overlaps_finds_them() -> None:
    """The check above can fail: two texts on each other, and one beyond the edge."""
    with style.applied():
        figure, _ = style.axes()
        figure.text(0.5, 0.5, "one")
        figure.text(0.5, 0.5, "two")
        figure.text(0.99, 0.5, "a text that is cut")
        found = dict(extents(figure))
    assert found["one"].overlaps(found["two"])
    assert found["a text that is cut"].x1 > figure.bbox.x1


def test_a_legend_is_read_row_by_row_in_the_order_of_agents() -> None:
    with style.applied():
        figure, _ = style.axes()
        style.legend_above(figure, style.looks(MANY), list(MANY))
        found = [
            (-round(box.y0, -1), box.x0, words.replace("\n", " ")) for words, box in extents(figure)
        ]
    legend = [words for _, _, words in sorted(found) if words in MANY]
    assert legend == list(MANY)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("QR-DQN (size 51)", ["QR-DQN", "(size 51)"]),
        ("QR-DQN-imputation", ["QR-DQN-", "imputation"]),
        ("DQN", ["DQN"]),
        ("ER-DQN (learning rate 1e-4, double)", ["ER-DQN", "(learning rate", "1e-4, double)"]),
    ],
)
def test_long_names_break_between_words(text: str, lines: list[str]) -> None:
    assert style.wrapped(text, 0.75, size=8).split("\n") == lines
