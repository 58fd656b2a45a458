"""Appendix A: the exact, expectile, quantile and categorical updates of one distribution, side by
side.
"""

import numpy as np

import edrl
from edrl import Particles
from edrl.core.metrics import wasserstein
from edrl.paper.experiment import Advance, Claim, Drawing, Experiment, Tables, joined, select, table
from edrl.paper.thresholds import judged
from edrl.report import style

_REWARD, _GAMMA = 0.5, 0.8
_K, _SUPPORT = 7, (-2.0, 3.0)
_STAGES = ("successor", "kept", "backed up", "new")
_ROWS = {"exact": "truth", "EDRL": "EDRL", "QDRL": "QDRL", "CDRL": "CDRL"}


def measure(full: bool, advance: Advance) -> Tables:
    rng = np.random.default_rng(1)
    successor = Particles(
        np.sort(np.concatenate([rng.normal(-1, 0.35, 160), rng.normal(1.4, 0.5, 240)]))
    )
    target = successor.push(_REWARD, _GAMMA)
    atoms, summary = [], []
    for name in _ROWS:
        kept, backed_up, new = _update(name, successor)
        for stage, mu in zip(_STAGES, (successor, kept, backed_up, new), strict=True):
            mu = mu.sorted()
            atoms.append(table(algorithm=name, stage=stage, atom=mu.atoms, prob=mu.probs))
        summary.append(
            table(
                algorithm=[name],
                w1=wasserstein(new, target),
                mean_error=abs(float(new.mean()) - float(target.mean())),
                std_ratio=new.std() / target.std(),
            )
        )
    return {"atoms": joined(*atoms), "summary": joined(*summary)}


def _update(name: str, successor: Particles) -> tuple[Particles, Particles, Particles]:
    """What is kept of the successor's returns, that backed up, and what is kept of the latter."""
    if name == "exact":
        target = successor.push(_REWARD, _GAMMA)
        return successor, target, target
    family = edrl.algorithm(name, _K, _SUPPORT)
    kept = family.impute(family.evaluate(successor))
    backed_up = kept.push(_REWARD, _GAMMA)
    return kept, backed_up, family.impute(family.evaluate(backed_up))


def draw(tables: Tables) -> list[Drawing]:
    figure, grid = style.axes(
        len(_ROWS), len(_STAGES), width=10, height=7, sharex=True, sharey=True
    )
    titles = (
        "true return at (x′, a′)",
        "kept: statistics, imputed",
        "r + γz",
        "kept after the update",
    )
    for line, (name, colour) in zip(grid, _ROWS.items(), strict=True):
        for axes, stage in zip(line, _STAGES, strict=True):
            reference = "successor" if stage in ("successor", "kept") else "backed up"
            true = select(tables["atoms"], algorithm="exact", stage=reference)
            x, cdf = np.append(true["atom"], 3.5), np.append(np.cumsum(true["prob"]), 1)
            axes.fill_between(x, cdf, step="post", color="#c8c8c8", linewidth=0)
            if stage != "successor":
                rows = select(tables["atoms"], algorithm=name, stage=stage)
                steps = rows["atom"], rows["prob"]
                style.step_cdf(axes, *steps, style.COLOURS[colour], name, ends=(-2.5, 3.5))
            axes.set(xlim=(-2.5, 3.5), ylim=(0, 1.03))
        line[0].set_ylabel(f"{name}\nP(Z ≤ z)")
    for axes, lowest, title in zip(grid[0], grid[-1], titles, strict=True):
        axes.set_title(title)
        lowest.set_xlabel("z")
    return [Drawing("four-updates", figure, _CAPTION)]


_CAPTION = (
    "One update by each algorithm, as distribution functions over the true ones (grey). What each keeps of the"
    " successor's returns (second column) is shrunk and shifted (third) and projected again (last). CDRL must split"
    " every atom onto its grid once more; QDRL and EDRL keep what they had, because their statistics move with the"
    " distribution."
)


def judge(tables: Tables) -> list[Claim]:
    """Two identities: statistics that move with the distribution, and a split that keeps the mean."""
    rows = tables["atoms"]

    def moved(name: str) -> float:
        """How far the second projection moves what the first has left."""
        before, after = (
            select(rows, algorithm=name, stage=stage) for stage in ("backed up", "new")
        )
        return float(wasserstein(_particles(before), _particles(after)))

    again = {name: moved(name) for name in ("EDRL", "QDRL", "CDRL")}
    spread = select(tables["summary"], algorithm="CDRL")["std_ratio"][0]
    return [
        judged(
            "appendix-a-projection",
            "Appendix A",
            "With one successor, only CDRL's projection moves mass in the update",
            ", ".join(f"{name} by {distance:.1e}" for name, distance in again.items()) + " in W1",
            {"EDRL and QDRL": max(again["EDRL"], again["QDRL"]), "CDRL": again["CDRL"]},
            kind="identity",
        ),
        judged(
            "appendix-a-spread",
            "Section 3.1",
            "The Cramér projection splits mass and so overestimates the spread",
            f"{spread:.3f}× the true standard deviation",
            spread,
            kind="identity",
        ),
    ]


def _particles(rows: dict[str, np.ndarray]) -> Particles:
    return Particles(rows["atom"], rows["prob"] / rows["prob"].sum())


EXPERIMENT = Experiment(
    "four-updates",
    "Four updates of one distribution",
    "Figure 10, Appendix A",
    "appendix",
    f"A successor with 400 equally likely returns in two modes; reward {_REWARD}, γ = {_GAMMA}. Each algorithm keeps"
    f" {_K} statistics; CDRL's support points are evenly spaced on [{_SUPPORT[0]:g}, {_SUPPORT[1]:g}].",
    measure,
    draw,
    judge,
    (5.0, 6.0),
)
