"""Whether episodes end under a policy: without discounting, returns need that they do."""

import numpy as np

from edrl.core.check import fail
from edrl.core.precision import is_concrete
from edrl.core.types import Bool, Int
from edrl.tabular.mdp import MDP
from edrl.tabular.policy import Policy
from edrl.tabular.reach import reached


def check_episodes_end(
    mdp: MDP,
    policy: Policy,
    start: Bool[np.ndarray, " S"] | None = None,
    whose: str = "this policy",
) -> None:
    """Refuse a policy that need not reach a terminal state, if there is no discounting.

    Only episodes that begin in a state of the mask `start` count, by default all of them.
    """
    if not is_concrete(mdp.gamma, mdp.probs, policy.probs) or mdp.gamma < 1:
        return
    origins, targets = _steps(mdp, policy)
    visited = np.ones(mdp.num_states, bool) if start is None else reached(start, origins, targets)
    never = visited & ~reached(mdp.terminal, targets, origins)
    if never.any():
        right = (
            f"under {whose} an episode never ends from state {int(np.argmax(never))}, and its"
            " return has no value without discounting: use gamma < 1, or another policy"
        )
        raise fail("gamma", 1.0, right)


def _steps(mdp: MDP, policy: Policy) -> tuple[Int[np.ndarray, " steps"], Int[np.ndarray, " steps"]]:
    """From which states to which the policy can lead in one step."""
    actions, probs = policy.on_host()
    branches = np.take_along_axis(mdp.probs, actions[..., None], axis=1)
    x, w, b = np.nonzero((probs[..., None] > 0) & (branches > 0))
    return x, mdp.successors[x, actions[x, w], b]
