"""How far a study is, as tables in the terminal."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from edrl.deep.variant import Variant, labels
from edrl.study.status import RunStatus, State, count_states

_COLOURS: dict[State, str] = {
    "done": "green",
    "running": "cyan",
    "failed": "red",
    "waiting": "dim",
}
_WORST_FIRST: tuple[State, ...] = ("failed", "running", "waiting", "done")


def progress(statuses: Sequence[RunStatus]) -> Table:
    """What is running, and counts of the rest."""
    shown = status_table(at_work(statuses))
    shown.caption = counts(statuses)
    return shown


def at_work(statuses: Sequence[RunStatus]) -> list[RunStatus]:
    """The runs that are running or have failed."""
    return [status for status in statuses if status.state in ("running", "failed")]


def counts(statuses: Sequence[RunStatus]) -> str:
    """How many runs are in each state, and how many steps are done."""
    number = count_states(statuses)
    steps = sum(status.step for status in statuses)
    planned = sum(status.steps for status in statuses)
    listed = ", ".join(f"{number[state]} {state}" for state in _COLOURS)
    return f"{listed}; {steps:,} of {planned:,} steps ({steps / max(1, planned):.0%})"


def status_table(statuses: Sequence[RunStatus]) -> Table:
    """A row for each run."""
    table = Table()
    table.add_column("run", overflow="fold")
    for name in ("state", "steps", "steps/s", "score"):
        table.add_column(name, no_wrap=True)
    table.add_column("where, or why not", overflow="fold")
    for status in statuses:
        table.add_row(*_row(status))
    return table


def _row(status: RunStatus) -> tuple[str | Text, ...]:
    return (
        status.name,
        Text(status.state, style=_COLOURS[status.state]),
        f"{status.step / status.steps:.0%}",
        f"{status.step / status.seconds:,.0f}" if status.seconds else "",
        f"{float(status.score):.2f}" if status.score else "",
        Text(status.reason or status.machine),
    )


def overview(statuses: Sequence[RunStatus]) -> Table:
    """Games by agents: how many runs are done, of how many."""
    cells: dict[tuple[str, Variant], list[RunStatus]] = {}
    for status in statuses:
        cells.setdefault((status.env, status.agent), []).append(status)
    agents = labels(status.agent for status in statuses)
    table = Table()
    table.add_column("runs done", no_wrap=True)
    for label in agents.values():
        table.add_column(label, overflow="fold")  # whole in a narrow terminal, too
    for env in dict.fromkeys(status.env for status in statuses):
        table.add_row(env, *(_cell(cells.get((env, agent), [])) for agent in agents))
    return table


def _cell(statuses: Sequence[RunStatus]) -> Text:
    """How many are done, in the colour of what is wrong, or else of what is going on."""
    if not statuses:
        return Text("")
    number = count_states(statuses)
    state: State = next(state for state in _WORST_FIRST if number[state])
    return Text(f"{number['done']} of {number.total()}", style=_COLOURS[state])
