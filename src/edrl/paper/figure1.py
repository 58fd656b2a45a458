"""Figure 1: one imputed backup, drawn: statistics, imputed distributions, the Bellman operator, new
statistics.
"""

import numpy as np
from matplotlib.axes import Axes

from edrl import Expectiles
from edrl.paper.experiment import Advance, Claim, Drawing, Experiment, Tables, joined, select, table
from edrl.paper.thresholds import judged
from edrl.report import style
from edrl.tabular import evaluate, imputed_backup, problems

_K, _STATE, _FORWARD = 7, 9, 0
_COLOURS = {
    "next": style.COLOURS["EDRL"],
    "reset": "#7fceb8",
    "here": "#004d39",
}  # shades of EDRL's


def measure(full: bool, advance: Advance) -> Tables:
    chain, family = problems.n_chain(15), Expectiles(_K)
    values = evaluate(chain, 0, family).values
    after = imputed_backup(chain, _FORWARD, family, values)
    statistics, atoms = [], []
    mixed_atoms, mixed_probs = [], []
    for role, branch in (("next", 0), ("reset", 1)):
        successor = int(chain.successors[_STATE, _FORWARD, branch])
        prob = float(chain.probs[_STATE, _FORWARD, branch])
        reward = float(chain.rewards.atoms[_STATE, _FORWARD, branch, 0])
        imputed = family.impute(values[successor, _FORWARD])
        pushed = imputed.push(reward, chain.gamma)
        residual = np.abs(family.evaluate(imputed) - values[successor, _FORWARD])
        where: dict[str, object] = {"role": role, "state": successor}
        value = values[successor, _FORWARD]
        statistics.append(table(**where, tau=family.taus, value=value, residual=residual))
        for stage, mu, weight in (("imputed", imputed, 1.0), ("pushed", pushed, prob)):
            atoms.append(table(stage=stage, **where, atom=mu.atoms, prob=weight * mu.probs))
        mixed_atoms.append(np.asarray(pushed.atoms))
        mixed_probs.append(prob * np.asarray(pushed.probs))
    target = type(imputed)(np.concatenate(mixed_atoms), np.concatenate(mixed_probs))
    by_hand = np.asarray(family.evaluate(target))
    statistics.append(
        table(
            role="here",
            state=_STATE,
            tau=family.taus,
            value=after[_STATE, _FORWARD],
            residual=np.abs(by_hand - after[_STATE, _FORWARD]),
        )
    )
    return {"statistics": joined(*statistics), "atoms": joined(*atoms)}


def draw(tables: Tables) -> list[Drawing]:
    figure, panels = style.axes(1, 4, width=11, height=3.3, sharex=True)
    names = {}
    for role in _COLOURS:
        names[role] = f"$x_{{{select(tables['statistics'], role=role)['state'][0]}}}$"
    for role in ("next", "reset"):
        _expectiles(panels[0], select(tables["statistics"], role=role), role, names[role])
        for axes, stage in ((panels[1], "imputed"), (panels[2], "pushed")):
            rows = select(tables["atoms"], stage=stage, role=role)
            style.stems(axes, rows["atom"], rows["prob"], _COLOURS[role], names[role])
    _expectiles(panels[3], select(tables["statistics"], role="here"), "here", names["here"])
    titles = (
        "1. statistics of the successors",
        "2. imputed distributions",
        "3. Bellman: mix r + γz",
        "4. new statistics",
    )
    labels = ("level τ", "probability", "probability", "level τ")
    for axes, title, label in zip(panels, titles, labels, strict=True):
        axes.set(title=title, xlabel="return", ylabel=label)
        axes.legend(loc="upper left")
    return [Drawing("figure-1", figure, _CAPTION)]


def _expectiles(axes: Axes, rows: dict[str, np.ndarray], role: str, name: str) -> None:
    axes.plot(rows["value"], rows["tau"], "o-", color=_COLOURS[role], label=f"expectiles at {name}")
    axes.set_ylim(0, 1.25)


_CAPTION = (
    "One backup of EDRL, from left to right: seven expectiles at each of the two successors of a state; the"
    " distributions imputed from them, which have exactly these expectiles; both shrunk, shifted by the rewards 0"
    " and -1 and mixed with probabilities 0.95 and 0.05; and the expectiles of that mixture, which are the state's"
    " new statistics."
)


def judge(tables: Tables) -> list[Claim]:
    rows = tables["statistics"]
    imputed = max(select(rows, role=role)["residual"].max() for role in ("next", "reset"))
    backed_up = select(rows, role="here")["residual"].max()
    return [
        judged(
            "definition-3.4",
            "Definition 3.4",
            "The imputed distributions have the statistics they are imputed from",
            f"off by {imputed:.1e}",
            imputed,
            kind="identity",
        ),
        judged(
            "equation-6",
            "Equation (6)",
            "Imputing, pushing, mixing and evaluating by hand is the library's backup",
            f"off by {backed_up:.1e}",
            backed_up,
            kind="identity",
        ),
    ]


EXPERIMENT = Experiment(
    "figure-1",
    "One imputed backup",
    "Figure 1, Section 3.2",
    "paper",
    f"EDRL with K = {_K} expectiles (levels from 0.01 to 0.99, exact imputation) on the 15-chain, at its fixed"
    f" point: the backup of state x{_STATE} under the action forward.",
    measure,
    draw,
    judge,
    (6.0, 6.0),
)
