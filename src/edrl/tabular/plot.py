"""Pictures of the returns of states: a panel for each action, what was learnt over the truth."""

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from edrl.core.check import check_index, fail
from edrl.core.particles import Particles
from edrl.core.plot import TRUTH, Curve, draw, label_axes, new_figure, view_of, write_means
from edrl.core.statistics import Statistics
from edrl.tabular.mdp import MDP

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

State: TypeAlias = int | str
"""A state's number or name."""

_MOST_COLUMNS = 4
_FEW_LAYERS = 2  # whose means are written into the panels


class Layer(NamedTuple):
    """The distributions of all pairs [S, A, n], drawn in one colour."""

    label: str  # for the legend; empty for none
    particles: Particles
    colour: str
    width: float = 1.6


@runtime_checkable
class HasParticles(Protocol):
    """A `Truth`, for example."""

    @property
    def particles(self) -> Particles:
        """The distributions of all pairs [S, A, n]."""
        ...


def truth_layers(truth: HasParticles | Particles | None) -> list[Layer]:
    """The truth, if it is given: it lies broad and grey under all else."""
    if truth is None:
        return []
    particles = getattr(truth, "particles", truth)
    if not isinstance(particles, Particles):
        right = "it must be what edrl.tabular.return_distributions gives, or Particles"
        raise fail("truth", truth, right)
    return [Layer("truth", particles, TRUTH, 4.0)]


def name_of(family: Statistics) -> str:
    """The family in a few words."""
    return f"{family.size} {type(family).__name__}"


def _no_note(state: int, action: int) -> str:
    return ""


def plot_returns(
    mdp: MDP,
    layers: Sequence[Layer],
    states: State | Sequence[State] | None,
    title: str,
    note: Callable[[int, int], str] = _no_note,
) -> "matplotlib.figure.Figure":
    """The returns of some states, by default of the likeliest start: a panel for each action.

    The note of a state and an action stands behind their names.
    """
    _check_shapes(mdp, layers)
    chosen = _numbers(mdp, states)
    columns = min(mdp.num_actions, _MOST_COLUMNS)
    rows_a_state = -(-mdp.num_actions // columns)
    rows = rows_a_state * len(chosen)
    figure, panels = new_figure(rows, columns, 1.2 + 2.7 * columns, 0.9 + 2.2 * rows)
    pairs = list(itertools.product(chosen, range(mdp.num_actions)))
    curves = [_curves(layers, *pair) for pair in pairs]
    view = view_of(list(itertools.chain.from_iterable(curves)))
    for place, panel in enumerate(_in_order(panels, len(chosen), mdp.num_actions)):
        panel.set_title(_name(mdp, *pairs[place]) + note(*pairs[place]), fontsize=9.5)
        draw(panel, curves[place], view)
        if len(layers) <= _FEW_LAYERS:
            write_means(panel, curves[place])
    label_axes(panels)
    if len(layers) > 1:
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(title, fontsize=10.5)
    return figure


def _check_shapes(mdp: MDP, layers: Sequence[Layer]) -> None:
    for layer in layers:
        if layer.particles.shape != (mdp.num_states, mdp.num_actions):
            right = f"one distribution a state and action is needed: {mdp.probs.shape[:2]}"
            raise fail(f"shape of {layer.label}", layer.particles.shape, right)


def _curves(layers: Sequence[Layer], state: int, action: int) -> list[Curve]:
    return [
        Curve(layer.label, layer.particles[state, action], layer.colour, layer.width)
        for layer in layers
    ]


def _in_order(
    panels: np.ndarray, num_states: int, num_actions: int
) -> "list[matplotlib.axes.Axes]":
    """The panels state by state; those behind a state's last action are hidden."""
    by_state = panels.reshape(num_states, -1)
    for panel in by_state[:, num_actions:].flat:
        panel.set_visible(False)
    return list(by_state[:, :num_actions].flat)


def _numbers(mdp: MDP, states: State | Sequence[State] | None) -> list[int]:
    """The states' numbers."""
    if states is None:
        return [int(np.argmax(mdp.start))]
    if isinstance(states, int | float | str):
        return [_number(mdp, states)]
    return [_number(mdp, state) for state in states]


def _number(mdp: MDP, state: State) -> int:
    if isinstance(state, str):
        return _number_of(mdp.state_names or (), state)
    return check_index("state", state, mdp.num_states)


def _number_of(names: tuple[str, ...], name: str) -> int:
    if name not in names:
        raise fail("state", name, f"it must be one of the state names, {names}")
    return names.index(name)


def _name(mdp: MDP, state: int, action: int) -> str:
    """The pair in words."""
    of_state = f"state {state}" if mdp.state_names is None else mdp.state_names[state]
    of_action = f"action {action}" if mdp.action_names is None else mdp.action_names[action]
    return f"{of_state}, {of_action}"
