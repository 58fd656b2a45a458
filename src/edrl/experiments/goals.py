"""Appendix E: the 15-chain with uniform and Gaussian goal rewards."""

from edrl import Expectiles
from edrl.experiments.chain import KS, STEPS, Chain, Method, at_start, listed, measure_methods, plot_errors
from edrl.experiments.experiment import Advance, Claim, Drawing, Experiment, Table, Tables
from edrl.report import style
from edrl.tabular import Normal, Uniform, problems

_GOALS = {"uniform": Uniform(-1.0, 1.0), "gaussian": Normal(0.0, 1.0)}
_TITLES = {"uniform": "goal reward uniform on (-1, 1)", "gaussian": "goal reward standard Gaussian"}
_LABELS = {"error": "mean absolute expectile error", "w1": "Wasserstein-1 distance"}
_ALGORITHMS = ("EDRL-naive", "EDRL")
_REWARD_ATOMS = 32


def measure(full: bool, advance: Advance) -> Tables:
    ks, td_ks = (KS, KS) if full else ((1, 3, 9), (9,))
    methods = [
        Method("EDRL", Expectiles, ks, seeds=30 if full else 5, td_ks=td_ks),
        Method("EDRL-naive", lambda k: Expectiles(k, impute="as_samples"), ks, seeds=30 if full else 5, td_ks=td_ks),
    ]
    tables: dict[str, Table] = {}
    for number, (name, goal) in enumerate(_GOALS.items()):

        def part(fraction: float, note: str, number: int = number, name: str = name) -> None:
            advance((number + fraction) / len(_GOALS), f"{name}: {note}")

        chain = Chain(problems.n_chain(15, goal=goal, reward_atoms=_REWARD_ATOMS))
        tables[name] = measure_methods(chain, methods, part)
    return tables


def draw(tables: Tables) -> list[Drawing]:
    drawings = []
    for column, label in _LABELS.items():
        figure, grid = style.axes(2, 4, width=11, height=5.2, sharex=True, sharey=True)
        for line, (mode, how) in zip(
            grid, (("TD", "temporal differences"), ("DP", "dynamic programming")), strict=True
        ):
            for number, axes in enumerate(line):
                goal, algorithm = list(_GOALS)[number // 2], _ALGORITHMS[number % 2]
                plot_errors(axes, tables[goal], column, mode, algorithm)
                axes.legend(fontsize=7)
                if mode == "TD":
                    axes.set_title(f"{algorithm},\n{_TITLES[goal]}", fontsize=8.5)
            line[0].set_ylabel(f"{label}\n({how})", fontsize=9)
        for axes in grid[-1]:
            axes.set_xlabel("steps to the goal")
        grid[0, 0].set_ylim(bottom=0)
        drawings.append(Drawing(f"goals-{column}", figure, _CAPTIONS[column]))
    return drawings


_CAPTIONS = {
    "error": "Expectile errors with random rewards at the goal: as with the fixed reward of Figure 5, the error without"
    " imputation grows with the distance, and imputation keeps it low.",
    "w1": "Wasserstein-1 distance between imputed and true return distributions for the same runs: more expectiles help"
    " with imputation, and hardly without.",
}


def judge(tables: Tables) -> list[Claim]:
    claims = []
    for goal in _GOALS:
        ks = sorted({k for k in tables[goal]["k"] if k > 1})

        def start(algorithm: str, k: int, mode: str, column: str, goal: str = goal) -> float:
            return at_start(tables[goal], column, mode=mode, algorithm=algorithm, k=k)

        ratios = [start("EDRL-naive", k, "DP", "error") / start("EDRL", k, "DP", "error") for k in ks]
        learnt = start("EDRL-naive", 9, "TD", "error") / start("EDRL", 9, "TD", "error")
        w1 = [start("EDRL", k, "DP", "w1") for k in (1, 3, 9)]
        naive_w1 = start("EDRL-naive", 9, "DP", "w1")
        claims += [
            Claim(
                f"goals-{goal}-error",
                "Appendix E",
                f"EDRL's expectile error at x0, with exact imputation, is below naive's, {_TITLES[goal]}",
                f"by {listed(ratios, ks, '×')} (DP); {learnt:.3g}× for K = 9 (TD)",
                "> 1×, and > 3× for K = 9",
                min(ratios) > 1 and min(ratios[-1], learnt) > 3,
            ),
            Claim(
                f"goals-{goal}-w1",
                "Appendix E",
                f"Three and nine expectiles lower EDRL's W1 at x0, naive's stays poor, {_TITLES[goal]}",
                f"{listed(w1, (1, 3, 9))}; naive {naive_w1:.3g} for K = 9",
                "decreasing; naive > 2× EDRL's",
                sorted(w1, reverse=True) == w1 and naive_w1 > 2 * w1[-1],
            ),
        ]
    return claims


EXPERIMENT = Experiment(
    "goals",
    "Uniform and Gaussian goal rewards",
    "Figures 13 and 14, Appendix E",
    "appendix",
    "As Figure 5 with exact imputation, and rewards at the goal drawn from the uniform law on (-1, 1)"
    " and from the standard Gaussian (in"
    f" dynamic programming discretised into {_REWARD_ATOMS} atoms, in temporal differences drawn as they are); K ∈"
    f" {{1, 3, 9}}, for K = 9 five seeds of {STEPS:,} steps (full size: K ∈ {{1, 3, 5, 7, 9}}, 30 seeds).",
    measure,
    draw,
    judge,
    (45.0, 150.0),
)
