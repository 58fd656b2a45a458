"""Figure 3: the N-chain, drawn from the MDP itself, and what its returns look like."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch

from edrl.paper.experiment import (
    Advance,
    Claim,
    Columns,
    Drawing,
    Experiment,
    Tables,
    select,
    table,
)
from edrl.paper.thresholds import judged
from edrl.report import style
from edrl.tabular import problems, return_distributions

_LENGTH = 15
_BANDWIDTH = 0.15
_COLOURS = {"forward": "#0b6e4f", "backward": "#8a5a00"}


def measure(full: bool, advance: Advance) -> Tables:
    chain = problems.n_chain(_LENGTH)
    assert chain.action_names is not None
    branches = np.argwhere(np.asarray(chain.probs) > 0)
    alive = branches[~chain.terminal[branches[:, 0]]]
    at = tuple(alive.T)
    transitions = table(
        state=alive[:, 0],
        action=[chain.action_names[action] for action in alive[:, 1]],
        successor=np.asarray(chain.successors)[at],
        prob=np.asarray(chain.probs)[at],
        reward=np.asarray(chain.rewards.atoms)[at][:, 0],
        ends=chain.terminal[np.asarray(chain.successors)[at]],
    )
    returns = return_distributions(chain, 0, atoms=512).particles
    x = np.linspace(-8, 2, 401)
    states = np.arange(_LENGTH - 1)
    atoms, probs = (np.asarray(part)[states, 0][:, None] for part in (returns.atoms, returns.probs))
    kernel = np.exp(-0.5 * ((x[:, None] - atoms) / _BANDWIDTH) ** 2)
    density = (kernel * probs).sum(-1) / (_BANDWIDTH * np.sqrt(2 * np.pi))
    densities = table(
        distance=np.repeat(_LENGTH - 1 - states, x.size),
        x=np.tile(x, len(states)),
        density=density.ravel(),
    )
    return {"transitions": transitions, "densities": densities}


def draw(tables: Tables) -> list[Drawing]:
    rows = tables["transitions"]
    figure, panels = style.axes(2, 1, width=10, height=4.4)
    for axes, action in zip(panels, _COLOURS, strict=True):
        _draw_chain(axes, select(rows, action=action), action)
    shown = (1, 4, 7, 10, 14)
    returns, panels = style.axes(1, len(shown), width=10, height=2.5, sharex=True, sharey=True)
    for axes, distance in zip(panels, shown, strict=True):
        found = select(tables["densities"], distance=distance)
        axes.fill_between(found["x"], found["density"], color="#c8c8c8", linewidth=0)
        axes.plot(found["x"], found["density"], color=style.COLOURS["truth"], linewidth=1)
        steps = "1 step" if distance == 1 else f"{distance} steps"
        axes.set(title=f"{steps} to the goal", xlabel="return", xlim=(-6, 1.6))
    panels[0].set_ylabel("density, smoothed")
    return [
        Drawing("figure-3", figure, _CAPTION),
        Drawing("figure-3-returns", returns, _CAPTION_RETURNS),
    ]


def _draw_chain(axes: Axes, rows: Columns, action: str) -> None:
    """Circles for states, arrows for transitions, as wide as they are likely."""
    last = int(max(rows["state"].max(), rows["successor"].max()))
    ends = set(rows["successor"][rows["ends"]].tolist())
    for state in range(last + 1):
        _draw_state(axes, state, state in ends)
    transitions = (rows["state"], rows["successor"], rows["prob"], rows["reward"])
    for state, successor, prob, reward in zip(*transitions, strict=True):
        _draw_arrow(axes, state, successor, prob, _COLOURS[action])
        if reward and successor > state:
            axes.text(state + 0.5, 0.62, f"reward {reward:+g}", ha="center", fontsize=8)
    right = rows["prob"][rows["successor"] > rows["state"]]
    left = rows["prob"][rows["successor"] <= rows["state"]]
    toll = rows["reward"][rows["successor"] == 0]
    axes.set(xlim=(-1.2, last + 0.6), ylim=(-3.2, 1.0), aspect="auto")
    axes.set_title(
        f"{action}: right with probability {right.mean():g}, to $x_0$ with {left.mean():g}"
        f" and reward {toll.mean():+g}",
        loc="left",
    )
    axes.axis("off")


def _draw_state(axes: Axes, state: int, terminal: bool) -> None:
    """A circle, and a second one in it if the state is terminal."""
    outer: style.Options = {"facecolor": "white", "edgecolor": "black", "linewidth": 1.2}
    axes.add_patch(Circle((state, 0), 0.3, fill=True, zorder=3, **outer))
    if terminal:
        inner: style.Options = {"edgecolor": "black", "linewidth": 0.8, "zorder": 4}
        axes.add_patch(Circle((state, 0), 0.24, fill=False, **inner))
    axes.text(state, 0, f"$x_{{{state}}}$", ha="center", va="center", fontsize=8, zorder=5)


def _draw_arrow(axes: Axes, state: int, successor: int, prob: float, colour: str) -> None:
    """Above the states to the right, below them to the left, and round a state to itself."""
    if successor > state:
        start, stop, bend = (state + 0.2, 0.24), (successor - 0.2, 0.24), -0.45
    elif successor < state:
        start, stop, bend = (state, -0.3), (successor, -0.3), -0.3
    else:
        start, stop, bend = (state - 0.22, -0.2), (state - 0.22, 0.2), -2.6
    arrow = FancyArrowPatch(
        start,
        stop,
        connectionstyle=f"arc3,rad={bend}",
        arrowstyle="-|>",
        mutation_scale=9,
        linewidth=0.5 + 1.6 * prob,
        color=colour,
        alpha=0.35 + 0.65 * prob,
    )
    axes.add_patch(arrow)


_CAPTION = (
    "The 15-chain, drawn from its transition table: arrows are as wide as they are"
    " likely; the last state is terminal."
)
_CAPTION_RETURNS = (
    "True return distributions under the policy that goes forward, smoothed with a Gaussian of width 0.15. The"
    " farther from the goal, the more modes: one for each number of falls back to x0."
)


def modes(density: np.ndarray) -> int:
    """The number of peaks that are at least 1 % as high as the highest."""
    inner = density[1:-1]
    peaks = (inner > density[:-2]) & (inner >= density[2:]) & (inner > 0.01 * density.max())
    return int(peaks.sum())


def judge(tables: Tables) -> list[Claim]:
    forward = select(tables["transitions"], action="forward")
    right, start = forward["successor"] > 0, forward["successor"] == 0
    goal = forward["reward"][forward["successor"] == _LENGTH - 1]
    chance, back, toll = forward["prob"][right], forward["prob"][start], forward["reward"][start]
    printed = ((chance, 0.95), (back, 0.05), (goal, 1.0), (toll, -1.0))
    off = max(float(np.abs(found - number).max()) for found, number in printed)
    counts = {
        d: modes(select(tables["densities"], distance=d)["density"]) for d in range(1, _LENGTH)
    }
    lost = int(np.sum(np.diff(list(counts.values())) < 0))
    shown = ", ".join(f"{counts[d]} at distance {d}" for d in (1, 4, 7, 14))
    return [
        judged(
            "figure-3",
            "Section 5.1",
            "The chain moves right with 0.95, to x0 with 0.05; rewards +1 at the goal, -1 at x0",
            f"{chance.min():g}, {back.min():g}; {goal[0]:+g}, {toll.mean():+g}",
            {"largest deviation": off},
            kind="identity",
        ),
        judged(
            "figure-3-modes",
            "Section 5.1",
            "The return distribution has more modes far from the goal than near it, and no step"
            " away from the goal loses one",
            f"{shown} (peaks after smoothing)",
            {
                "steps away from the goal that lose a mode": lost,
                "modes at 14 steps over those at 1": counts[14] / counts[1],
            },
        ),
    ]


EXPERIMENT = Experiment(
    "figure-3",
    "The N-chain",
    "Figure 3, Section 5.1",
    "paper",
    "The chain of Section 5.1 with N = 15 states and γ = 0.99, as the library builds it.",
    measure,
    draw,
    judge,
    (2.0, 6.0),
)
