"""Every named algorithm runs in dynamic programming, in temporal differences and in control, as it
stands.
"""

import numpy as np
import pytest

import edrl
from edrl.tabular import control, evaluate, learn, problems

MDP = problems.n_chain(4)


# The paper's own imputations are not exact: nothing settles. In ER-DQN-scipy it is that of
# EDRL-scipy.
_AS_PRINTED = ("EDRL-scipy", "EDRL-samples", "Huber-QDRL-samples")
# QR-DQN-imputation differs from Huber-QDRL-imputation in how long it iterates alone.
_SLOW = {
    name: [pytest.mark.slow] for name in ("QR-DQN-imputation", "ER-DQN-scipy", "Huber-QDRL-samples")
}


@pytest.fixture(params=[pytest.param(name, marks=_SLOW.get(name, [])) for name in edrl.ALGORITHMS])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def family(name: str) -> edrl.Statistics:
    return edrl.algorithm(name, None if name == "DQN" else 5, support=(-12.0, 2.0))


def test_dynamic_programming_and_control(name: str, family: edrl.Statistics) -> None:
    """Evaluation settles, its returns lie in the range of the problem, and forward is the better
    way to the goal.
    """
    sweeps = 30 if name in _AS_PRINTED else None
    solution = evaluate(MDP, 0, family, max_iterations=sweeps)
    assert solution.converged or name in _AS_PRINTED
    assert ((solution.means()[:, 0] <= 1) & (solution.means()[:, 0] >= -12)).all()
    assert (control(MDP, family, max_iterations=sweeps).policy.actions[:3, 0] == 0).all()


def test_temporal_differences(family: edrl.Statistics) -> None:
    """A pair that is visited is learnt, one that is not stays as it was."""
    learnt = learn(MDP, family, 0, steps=40)
    changed = (
        np.abs(learnt.final() - np.asarray(family.evaluate(edrl.Particles([0.0])))).max(-1) > 0
    )
    assert np.isfinite(learnt.final()).all()
    assert not changed[..., 1].any()
    assert changed[0, 0, 0, 0]
