"""Appendix A.4: what quantiles and expectiles of one distribution are."""

import numpy as np
from scipy.stats import expectile as scipy_expectile

from edrl import Expectiles, Particles, Quantiles
from edrl.paper.experiment import Advance, Claim, Drawing, Experiment, Tables, select, table
from edrl.paper.thresholds import judged
from edrl.report import style

_TAU = 0.8
_LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)


def _outcomes() -> Particles:
    """A skewed distribution with two modes: 400 equally likely atoms."""
    rng = np.random.default_rng(0)
    return Particles(
        np.sort(np.concatenate([rng.normal(0, 0.6, 280), 2.5 + rng.exponential(0.8, 120)]))
    )


def measure(full: bool, advance: Advance) -> Tables:
    outcomes = _outcomes()
    atoms = np.asarray(outcomes.atoms)
    quantiles, expectiles = (
        np.asarray(family(_LEVELS).evaluate(outcomes)) for family in (Quantiles, Expectiles)
    )
    q, e = (float(family((_TAU,)).evaluate(outcomes)[0]) for family in (Quantiles, Expectiles))
    below, above = np.maximum(e - atoms, 0).mean(), np.maximum(atoms - e, 0).mean()
    return {
        "outcomes": table(atom=atoms, prob=outcomes.probs),
        "levels": table(
            tau=_LEVELS,
            quantile=quantiles,
            expectile=expectiles,
            scipy_expectile=[scipy_expectile(atoms, tau) for tau in _LEVELS],
        ),
        "at_tau": table(
            tau=[_TAU],
            quantile=q,
            expectile=e,
            mass_below_quantile=np.mean(atoms <= q),
            mass_under_quantile=np.mean(atoms < q),
            deviation_below=below,
            deviation_above=above,
        ),
    }


def draw(tables: Tables) -> list[Drawing]:
    atoms = np.asarray(tables["outcomes"]["atom"])
    cdf = np.arange(1, len(atoms) + 1) / len(atoms)
    at = {name: column[0] for name, column in tables["at_tau"].items()}
    figure, (left, right) = style.axes(1, 2, width=10, height=3.7, sharey=True)
    for axes in (left, right):
        steps: style.Options = {"drawstyle": "steps-post", "label": "distribution function F"}
        axes.plot(atoms, cdf, color=style.COLOURS["truth"], **steps)
        axes.set(xlabel="outcome z", ylim=(0, 1.03), xlim=(-2, 6.5))
    q, colour = at["quantile"], style.COLOURS["QDRL"]
    left.plot([-2, q, q], [_TAU, _TAU, 0], "--", color=colour, label=f"F(q) = {_TAU}")
    mark: style.Options = {"markersize": 9, "clip_on": False, "linestyle": "none"}
    left.plot(q, 0, label=f"quantile q = {q:.2f}", **style.look_of("QDRL"), **mark)
    left.set(title=f"The {_TAU}-quantile cuts probability", ylabel="F(z)")
    e = at["expectile"]
    lower, upper = atoms <= e, atoms >= e
    below: style.Options = {"step": "post", "color": "#7fceb8"}
    below["label"] = f"E[(e - Z)+] = {at['deviation_below']:.3f}"
    right.fill_between(np.append(atoms[lower], e), np.append(cdf[lower], cdf[lower][-1]), **below)
    above: style.Options = {"step": "post", "color": "#b9c9c4"}
    above["label"] = f"E[(Z - e)+] = {at['deviation_above']:.3f}"
    x, y = np.insert(atoms[upper], 0, e), np.insert(cdf[upper], 0, cdf[lower][-1])
    right.fill_between(x, y, 1, **above)
    right.plot(e, 0, label=f"expectile e = {e:.2f}", **style.look_of("EDRL"), **mark)
    right.set_title(f"The {_TAU}-expectile balances areas {_TAU / (1 - _TAU):.0f} : 1")
    for axes in (left, right):
        axes.legend(loc="lower right")
    return [Drawing("quantiles-expectiles", figure, _CAPTION)]


_CAPTION = (
    "The same distribution twice. Left: the quantile is where F reaches the level, wherever the rest of the"
    " outcomes lie. Right: the expectile is where the area below F to its left is 4 times the area above F to its"
    " right, so it moves with the size of the outcomes."
)


def judge(tables: Tables) -> list[Claim]:
    at = {name: float(column[0]) for name, column in select(tables["at_tau"]).items()}
    levels = select(tables["levels"])
    ratio = at["deviation_below"] / at["deviation_above"]
    off = np.abs(levels["expectile"] - levels["scipy_expectile"]).max()
    return [
        judged(
            "appendix-a-quantile",
            "Appendix A.4",
            "At least τ·100 % of the outcomes are at or below the τ-quantile, and it is the least such value",
            f"P(Z ≤ q) = {at['mass_below_quantile']:.4f}, P(Z < q) = {at['mass_under_quantile']:.4f}, τ = {_TAU}",
            {
                "τ - P(Z ≤ q)": _TAU - at["mass_below_quantile"],
                "τ - P(Z < q)": _TAU - at["mass_under_quantile"],
            },
            kind="identity",
        ),
        judged(
            "appendix-a-expectile",
            "Appendix A.4",
            "Deviations below e average to τ/(1-τ) times those above it",
            f"{ratio:.12g} times, for τ = {_TAU}",
            {"distance of the ratio from τ/(1-τ)": abs(ratio - _TAU / (1 - _TAU))},
            kind="identity",
        ),
        judged(
            "definition-3.3",
            "Definition 3.3",
            "Our expectiles agree with scipy.stats.expectile at five levels",
            f"off by {off:.1e}",
            off,
            kind="identity",
        ),
    ]


EXPERIMENT = Experiment(
    "quantiles-expectiles",
    "Quantiles and expectiles",
    "Appendix A.4",
    "appendix",
    f"400 outcomes with two modes and a long tail; quantile and expectile at level τ = {_TAU}.",
    measure,
    draw,
    judge,
    (2.0, 4.0),
)
