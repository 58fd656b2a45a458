"""The named algorithms: each is a family of statistics with an imputation, and nothing more."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edrl.core.check import check_count, fail, one_of
from edrl.core.families import Categorical, Expectiles, HuberQuantiles, Mean, Quantiles, midpoints
from edrl.core.imputation import MaximumEntropy
from edrl.core.statistics import Statistics


@dataclass(frozen=True)
class Algorithm:
    """A name, what makes its statistics and imputation from a size and a range, and the paper's
    size.
    """

    name: str
    where: str  # in the paper
    # The number of statistics (of support points, for categorical ones) if none is asked for.
    size: int
    build: Callable[[int, tuple[float, float]], Statistics]
    needs_range: bool = False

    def __call__(
        self, size: int | None = None, support: tuple[float, float] | None = None
    ) -> Statistics:
        """The algorithm with `size` statistics; `support` = (low, high) is the range of categorical
        ones.
        """
        size = self.size if size is None else check_count("size", size, 1)
        if self.needs_range and support is None:
            raise fail(
                "support",
                support,
                f"{self.name} needs the range of returns, e.g. support=(-10.0, 10.0)",
            )
        return self.build(size, (0.0, 0.0) if support is None else support)


# A network puts out values that are inconsistent by more than the last Newton steps gain: twelve come
# near the residual of a hundred in a third of the time, which every update pays (`python -m
# benchmarks imputation`).
_QUICK = MaximumEntropy(grid=32, iterations=12)


def _categorical(size: int, support: tuple[float, float]) -> Statistics:
    return Categorical(np.linspace(*support, size))


ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        # Tabular. EDRL and Huber-QDRL-imputation have imputations of our own; the paper's have
        # names of their own.
        Algorithm("CDRL", "Section 2.2", 51, _categorical, needs_range=True),
        Algorithm("QDRL", "Section 2.2", 11, lambda k, _: Quantiles(k)),
        Algorithm(
            "EDRL", "edrl: Section 3.3 with exact imputation", 11, lambda k, _: Expectiles(k)
        ),
        Algorithm(
            "EDRL-scipy",
            "Sections 3.3 and 5.1",
            11,
            lambda k, _: Expectiles(k, imputation="scipy-root"),
        ),
        Algorithm(
            "EDRL-samples",
            "Equation (8), our solver",
            11,
            lambda k, _: Expectiles(k, imputation="equal-weights"),
        ),
        Algorithm(
            "EDRL-naive", "Section 3.1", 11, lambda k, _: Expectiles(k, imputation="as_samples")
        ),
        Algorithm(
            "Huber-QDRL-imputation",
            "edrl: Section 5.1 by maximum entropy",
            11,
            lambda k, _: HuberQuantiles(k),
        ),
        Algorithm(
            "Huber-QDRL-samples",
            "Section 5.1, our solver",
            11,
            lambda k, _: HuberQuantiles(k, imputation="equal-weights"),
        ),
        Algorithm(
            "Huber-QDRL-naive",
            "Section 5.1",
            11,
            lambda k, _: HuberQuantiles(k, imputation="as_samples"),
        ),
        # Deep, Section 5.3 and Appendix D.
        Algorithm("DQN", "Section 5.3", 1, lambda k, _: Mean()),
        Algorithm("C51", "Section 2.2", 51, _categorical, needs_range=True),
        Algorithm(
            "QR-DQN",
            "Section 5.3",
            200,
            lambda k, _: HuberQuantiles(k, imputation="as_samples", acts_by_average=True),
        ),
        Algorithm(
            "QR-DQN-imputation",
            "edrl: Section 5.1 by maximum entropy",
            11,
            lambda k, _: HuberQuantiles(k, imputation=_QUICK, acts_by_average=True),
        ),
        Algorithm(
            "ER-DQN", "edrl: Section 5.3 with exact imputation", 11, lambda k, _: Expectiles(k)
        ),
        Algorithm(
            "ER-DQN-scipy",
            "Section 5.3, Appendix D",
            11,
            lambda k, _: Expectiles(k, imputation="scipy-root"),
        ),
        Algorithm(
            "ER-DQN-naive",
            "Appendix D.2",
            201,
            lambda k, _: Expectiles(midpoints(k), imputation="as_samples"),
        ),
    )
}


def algorithm(
    name: str, size: int | None = None, support: tuple[float, float] | None = None
) -> Statistics:
    """The statistics and imputation of a named algorithm: `algorithm("EDRL", 9)`; see `ALGORITHMS`."""
    known = {known.lower(): known for known in ALGORITHMS}
    if str(name).lower() not in known:
        raise fail("name", name, one_of(name, ALGORITHMS))
    return ALGORITHMS[known[name.lower()]](size, support)
