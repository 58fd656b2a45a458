"""The page's numbers are the library's: JavaScript and Python on the same thousand inputs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from tests.playground.browser import look, needs_browser

from edrl import Categorical, Expectiles, HuberQuantiles, Particles, Quantiles, Statistics, metrics
from edrl.core.risk import CVaR
from edrl.playground.bundle import bundle
from edrl.tabular import MDP, imputed_backup, return_distributions, solve_moments

_ALMOST = 1e-12
_MOST_ATOMS = 12
_LEVELS: dict[str, list[float]] = {
    "two": [0.5, 0.8],
    "no half": [0.15, 0.35, 0.6, 0.95],
    "uneven": [0.03, 0.2, 0.5, 0.55, 0.7, 0.94, 0.99],
}
_SUPPORT = [-2.0, -0.5, 0.0, 0.7, 1.5]

_RUNNER = """
const { core } = modules["core/index.js"];
const family = ({ kind, taus, kappa, support, imputation }) => ({
  expectiles: () => core.families.expectiles(taus, imputation),
  quantiles: () => core.families.quantiles(taus, imputation),
  huber: () => core.families.huberQuantiles(taus, kappa, imputation),
  categorical: () => core.families.categorical(support),
})[kind]();
const P = core.particles;
const operations = {
  evaluate: ({ of, mu }) => family(of).evaluate(mu),
  impute: ({ of, values }) => family(of).impute(values),
  mean: ({ of, values }) => family(of).mean(values),
  td: ({ of, values, mu, rate }) => core.mdp.tdUpdate(family(of), values, mu, rate),
  backup: ({ of, mus, weights, reward, gamma }) =>
    family(of).evaluate(P.push(P.mixture(mus, weights), reward, gamma)),
  measures: ({ mu, nu, points }) => [
    P.mean(mu), P.std(mu), P.wasserstein(mu, nu), P.cvar(mu, 0.3),
    ...P.cdf(mu, points), ...P.integratedCdf(mu, points),
  ],
  sweeps: ({ of, mdp, sweeps }) => {
    let values = core.mdp.initialValues(mdp, family(of));
    for (let i = 0; i < sweeps; i += 1) values = core.mdp.imputedBackup(mdp, family(of), values);
    return values;
  },
  means: ({ mdp }) => core.mdp.expectedReturns(mdp),
  band: ({ of, values, points }) => core.bands.fittingBand(family(of), values, points),
  truth: ({ mdp, sweeps, points }) => {
    let truth = core.truth.startOfTruth(mdp);
    for (let i = 0; i < sweeps; i += 1) truth = core.truth.tightenTruth(mdp, truth);
    return truth.lower.map((lower, x) => core.truth.cdfBand(lower, truth.upper[x], points));
  },
};
const answers = inputs.map(([name, args]) => operations[name](args));
document.getElementById("answer").textContent = JSON.stringify(answers);
"""

Case = tuple[str, dict[str, Any], Any]
"""The name of an operation, its arguments, and Python's answer."""


@pytest.fixture(autouse=True, scope="module")
def _float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def in_javascript(cases: list[Case], directory: Path) -> list[Any]:
    """The answers of the page's core to the same cases."""
    inputs = json.dumps([case[:2] for case in cases])
    script = f"{bundle('core/index.js')}\nconst inputs = {inputs};\n{_RUNNER}"
    return list(look(f'<pre id="answer"></pre><script>{script}</script>', directory))


def families() -> dict[str, tuple[dict[str, Any], Statistics]]:
    """Each family as JavaScript and as Python know it."""
    found: dict[str, tuple[dict[str, Any], Statistics]] = {}
    for name, taus in _LEVELS.items():
        found[f"expectiles {name}"] = {"kind": "expectiles", "taus": taus}, Expectiles(taus)
    taus = _LEVELS["uneven"]
    found["quantiles"] = {"kind": "quantiles", "taus": taus}, Quantiles(taus)
    found["huber"] = {"kind": "huber", "taus": taus, "kappa": 0.7}, HuberQuantiles(taus, 0.7)
    found["categorical"] = {"kind": "categorical", "support": _SUPPORT}, Categorical(_SUPPORT)
    return found


def distributions(rng: np.random.Generator, count: int) -> Particles:
    """Random ones with 1 to 12 atoms: some equal, some far from 0, the rest padding.

    They have one shape, so that JAX compiles each function once.
    """
    atoms = rng.normal(size=(count, _MOST_ATOMS)) * rng.choice([0.1, 1.0, 10.0], (count, 1))
    atoms += rng.choice([0.0, 0.0, 100.0], (count, 1))
    atoms[::4] = np.round(atoms[::4])
    probs = rng.gamma(0.7, size=atoms.shape)
    probs[np.arange(_MOST_ATOMS) > np.arange(count)[:, None] % _MOST_ATOMS] = 0
    return Particles(atoms, probs / probs.sum(axis=-1, keepdims=True))


def rows(mu: Particles) -> list[dict[str, list[float]]]:
    pairs = zip(np.asarray(mu.atoms).tolist(), np.asarray(mu.probs).tolist(), strict=True)
    return [{"atoms": atoms, "probs": probs} for atoms, probs in pairs]


def without_padding(mu: dict[str, list[float]]) -> dict[str, list[float]]:
    kept = [i for i, p in enumerate(mu["probs"]) if p > 0]
    return {name: [numbers[i] for i in kept] for name, numbers in mu.items()}


def cases_of_statistics(
    rng: np.random.Generator, of: dict[str, Any], family: Statistics
) -> Iterator[Case]:
    """Statistics of distributions, and what is imputed from them and from values with noise."""
    mu = distributions(rng, 40)
    values = np.asarray(family.evaluate(mu))
    for i, (one, expected) in enumerate(zip(rows(mu), values.tolist(), strict=True)):
        yield "evaluate", {"of": of, "mu": one if i % 2 else without_padding(one)}, expected
    if of["kind"] == "huber":
        return  # these are imputed by Newton's method, of which each step adds rounding
    noise = rng.normal(size=values.shape) * np.std(values, axis=-1, keepdims=True) * 0.3
    asked = np.concatenate([values, values + noise])
    imputed = family.impute(asked)
    means = np.asarray(family.mean(asked))
    for one, row, mean in zip(asked.tolist(), rows(imputed), means.tolist(), strict=True):
        yield "impute", {"of": of, "values": one}, row
        yield "mean", {"of": of, "values": one}, mean


def cases_of_updates(
    rng: np.random.Generator, of: dict[str, Any], family: Statistics
) -> Iterator[Case]:
    """Temporal-difference updates and backups of mixtures."""
    targets, mus = distributions(rng, 40), distributions(rng, 40)
    values = np.asarray(family.evaluate(distributions(rng, 40)))
    step = jax.vmap(jax.grad(family.loss))
    expected = values - 0.1 * np.asarray(step(values, targets))
    for one, target, moved in zip(values.tolist(), rows(targets), expected.tolist(), strict=True):
        yield "td", {"of": of, "values": one, "mu": target, "rate": 0.1}, moved
    # Mixtures of neighbours, in one array.
    atoms = 0.5 + 0.9 * np.asarray(mus.atoms).reshape(20, -1)
    probs = (np.asarray(mus.probs) * np.tile([[0.3], [0.7]], (20, 1))).reshape(20, -1)
    backed_up = np.asarray(family.evaluate(Particles(atoms, probs)))
    for i, expected in enumerate(backed_up.tolist()):
        args = {"mus": rows(mus)[2 * i : 2 * i + 2], "weights": [0.3, 0.7]}
        yield "backup", {"of": of, **args, "reward": 0.5, "gamma": 0.9}, expected


def cases_of_measures(rng: np.random.Generator) -> Iterator[Case]:
    points = np.linspace(-2, 2, 9)
    mu, nu = distributions(rng, 40), distributions(rng, 40)
    single = [mu.mean(), mu.std(), metrics.wasserstein(mu, nu), CVaR(0.3)(mu)]
    curves = [mu.cdf(points), metrics.integrated_cdf(mu, points)]
    numbers = np.column_stack([*single, *curves])
    for one, other, expected in zip(rows(mu), rows(nu), numbers.tolist(), strict=True):
        yield "measures", {"mu": one, "nu": other, "points": points.tolist()}, expected


def random_mdp(rng: np.random.Generator, gamma: float = 0.8) -> tuple[MDP, dict[str, Any]]:
    """Six states with one action; the last state is terminal."""
    states: list[list[list[float]]] = []
    for _ in range(5):
        nexts = rng.choice(6, 3, replace=False)
        probs = rng.dirichlet(np.ones(3))
        branches = zip(probs, nexts.tolist(), rng.normal(size=3), strict=True)
        states.append([list(branch) for branch in branches])
    lists = [[[tuple(branch) for branch in branches]] for branches in states]
    return MDP.from_lists([*lists, []], gamma), {"states": [*states, []], "gamma": gamma}


def cases_of_dynamic_programming(rng: np.random.Generator) -> Iterator[Case]:
    known = families()
    for name in ("expectiles uneven", "quantiles", "categorical"):
        of, family = known[name]
        nothing = np.asarray(family.evaluate(Particles(np.zeros(1))))
        for _ in range(4):
            mdp, same = random_mdp(rng)
            values = np.broadcast_to(nothing, (6, 1, family.size))
            for _ in range(6):
                values = np.asarray(imputed_backup(mdp, np.zeros(6, int), family, values))
            yield "sweeps", {"of": of, "mdp": same, "sweeps": 6}, values[:, 0].tolist()
            means = solve_moments(mdp, np.zeros(6, int), 1)[:, 0, 0]
            yield "means", {"mdp": same}, means.tolist()


def all_cases() -> list[Case]:
    rng = np.random.default_rng(24)
    found: list[Case] = []
    for of, family in families().values():
        found += cases_of_statistics(rng, of, family)
        found += cases_of_updates(rng, of, family)
    found += [*cases_of_measures(rng), *cases_of_dynamic_programming(rng)]
    return found


def far_apart(expected: Any, answer: Any) -> float:
    """The largest difference, relative to the largest number where that is above 1.

    Where an atom has no more mass than rounding leaves, its place says nothing.
    """
    if isinstance(expected, dict):
        real = np.asarray(expected["probs"]) > _ALMOST
        atoms = [np.asarray(mu["atoms"])[real] for mu in (expected, answer)]
        return max(far_apart(*atoms), far_apart(expected["probs"], answer["probs"]))
    one, other = np.asarray(expected, float), np.asarray(answer, float)
    assert one.shape == other.shape
    return float(np.abs(one - other).max() / max(1.0, np.abs(one).max()))


@needs_browser
def test_a_thousand_inputs_have_the_same_answers(tmp_path: Path) -> None:
    cases = all_cases()
    assert len(cases) >= 1000
    answers = in_javascript(cases, tmp_path)
    errors = [far_apart(case[2], answer) for case, answer in zip(cases, answers, strict=True)]
    worst = sorted(zip(errors, range(len(cases)), strict=True))[-5:]
    shown = [(error, cases[i], answers[i]) for error, i in worst]
    assert max(errors) <= _ALMOST, shown


def others_that_fit() -> Iterator[tuple[dict[str, Any], np.ndarray, list[Particles]]]:
    """Families and values, each with distributions that have them."""
    rng = np.random.default_rng(1)
    mu = Particles(rng.normal(size=9), rng.dirichlet(np.ones(9)))
    for name in ("expectiles uneven", "quantiles", "categorical"):
        of, family = families()[name]
        values = np.asarray(family.evaluate(mu))
        fitting = [mu, family.impute(values)]
        if of["kind"] == "expectiles":
            rules = ("exact-midpoint", "exact-knots", "exact-spline")
            fitting += [Expectiles(of["taus"], imputation=rule).impute(values) for rule in rules]
        yield of, values, fitting


@needs_browser
def test_bands_hold_and_newtons_method_agrees(tmp_path: Path) -> None:
    """All that fits lies in the band, the truth lies in its own, and Huber quantiles are met."""
    points = np.linspace(-3, 3, 201)
    inside = list(others_that_fit())
    cases: list[Case] = []
    for of, values, _ in inside:
        cases.append(
            ("band", {"of": of, "values": values.tolist(), "points": points.tolist()}, None)
        )
    mdp, same = random_mdp(np.random.default_rng(3))
    cases.append(("truth", {"mdp": same, "sweeps": 60, "points": points.tolist()}, None))
    of, huber = families()["huber"]
    mu = distributions(np.random.default_rng(5), 48)
    smooth = Particles(
        np.asarray(mu.atoms).reshape(4, -1), np.asarray(mu.probs).reshape(4, -1) / 12
    )
    asked = np.asarray(huber.evaluate(smooth))
    cases += [("impute", {"of": of, "values": row}, None) for row in asked.tolist()]
    answers = in_javascript(cases, tmp_path)

    for (_, _, fitting), band in zip(inside, answers, strict=False):
        low, high = np.transpose(band)
        assert np.mean(high - low) < 0.5  # it says something
        for one in fitting:
            # At an atom, F is its limit from the right, and the band holds its limit from the left.
            level = np.asarray(one.cdf(points))
            assert (level >= low - 1e-9).all()
            assert (level <= high + 1e-9).all()
    truth = return_distributions(mdp, np.zeros(6, int), atoms=256).particles[:, 0]
    for x, band in enumerate(answers[len(inside)][:5]):
        level = np.asarray(truth[x].cdf(points))
        slack = 0.02  # the other truth has an error, too
        assert (level >= np.array(band["low"]) - slack).all()
        assert (level <= np.array(band["high"]) + slack).all()
        assert np.mean(np.array(band["high"]) - band["low"]) < 0.25
    for row, found in zip(asked, answers[len(inside) + 1 :], strict=True):
        again = np.asarray(
            huber.evaluate(Particles(np.array(found["atoms"]), np.array(found["probs"])))
        )
        np.testing.assert_allclose(again, row, atol=1e-6 * np.abs(row).max())
