"""The true return distributions: between two bounds in the convex order, or by rollouts.

mu is below nu in the convex order if both have the same mean and P_mu <= P_nu, where
P(x) = E[(x - Z)+] is the integrated CDF. The Bellman operator T keeps this order: mixtures and
r + gamma z do. Gathering atoms at barycentres goes down in the order. Splitting them onto a grid
(the Cramér projection) goes up. So iterating T from a point mass at the true mean, gathering, stays
below the truth for ever. Iterating T from the two ends of the range, splitting, stays above it.
Whatever the number of iterations, the truth lies between. Both bounds are rigorous.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edrl.core.check import check_count, check_number, fail
from edrl.core.metrics import integrated_cdf_distance
from edrl.core.particles import Particles
from edrl.core.plot import COLOURS
from edrl.core.precision import in_float64
from edrl.core.statistics import Statistics
from edrl.core.types import Float
from edrl.core.words import count
from edrl.tabular.bellman import average, solve_linear, solve_moments
from edrl.tabular.convex_bounds import bound_pairs, bound_states, in_parts, of_states, outcomes_of
from edrl.tabular.mdp import MDP, sizes_of
from edrl.tabular.plot import Layer, State, plot_returns
from edrl.tabular.policy import Policy, PolicyLike, as_policy
from edrl.tabular.return_range import return_range, state_range

if TYPE_CHECKING:
    import matplotlib.figure


@dataclass(frozen=True)
class Truth:
    """Return distributions of all pairs, known to `error`.

    |P(x) - P_true(x)| is at most `error[s, a]` for every x.
    """

    mdp: MDP
    particles: Particles  # [S, A, 2n]: the even mixture of the two bounds
    error: Float[np.ndarray, "S A"]
    lower: Particles  # [S, A, n], below the truth in the convex order
    upper: Particles  # [S, A, n], above it
    means: Float[np.ndarray, "S A"]  # exact
    iterations: int

    @in_float64
    def values(self, family: Statistics) -> Float[np.ndarray, "S A K"]:
        """The statistics of the return distributions."""
        return np.asarray(family.evaluate(self.particles))

    @in_float64
    def bracket(
        self, family: Statistics
    ) -> tuple[Float[np.ndarray, "S A K"], Float[np.ndarray, "S A K"]]:
        """The least and greatest values of the truth, for families that have a `bracket`.

        Continuous rewards are discretised before: there the bracket is that of the discretised
        problem.
        """
        found = family.bracket(self.lower, self.upper, self.means)
        if found is None:
            raise fail("family", family, "it has no bracket: write the method `bracket`")
        low, high = found
        return np.asarray(low), np.asarray(high)

    def plot(self, states: State | Sequence[State] | None = None) -> "matplotlib.figure.Figure":
        """Draw the return distributions of some states, their actions side by side.

        Args:
            states: Numbers or names of states, by default the likeliest start.

        Returns:
            A figure of Matplotlib's pyplot: `.savefig("returns.png")` saves it.
        """
        layer = Layer("truth", self.particles, COLOURS[0])
        return plot_returns(self.mdp, [layer], states, "True return distributions")

    def __repr__(self) -> str:
        sizes = sizes_of(self.mdp)
        sweeps = count(self.iterations, "sweep")
        return (
            f"Truth({sizes}: error at most {self.error.max():.2g} after {sweeps};"
            f" expected returns from {self.means.min():.4g} to {self.means.max():.4g})"
        )


@in_float64
def return_distributions(
    mdp: MDP,
    policy: PolicyLike,
    *,
    atoms: int = 512,
    tolerance: float = 1e-6,
    max_iterations: int = 20_000,
    progress: bool | None = None,
) -> Truth:
    """The return distribution of every pair under `policy`, to a stated accuracy.

    `atoms` is the resolution: the error falls about as 1/atoms^2. The distributions of states are
    iterated until their error is within `tolerance` or no longer shrinks. Those of pairs follow by
    one more backup.
    """
    chosen = as_policy(mdp, policy)
    atoms = check_count("atoms", atoms, 2)
    check_number("tolerance", tolerance, 0.0)
    max_iterations = check_count("max_iterations", max_iterations, 1)
    means = solve_moments(mdp, chosen, 1)[..., 0]
    ends = return_range(mdp, chosen)
    outcomes = outcomes_of(mdp)
    under_policy = of_states(outcomes, np.asarray(chosen.dense(mdp.num_actions)))
    bounds, done = bound_states(
        in_parts(under_policy, atoms),
        mdp.gamma,
        _expected_steps(mdp, chosen),
        average(chosen, means),
        state_range(chosen, ends),
        atoms,
        tolerance,
        max_iterations,
        progress,
    )
    at_pairs = bound_pairs(in_parts(outcomes, atoms), mdp.gamma, ends, bounds, atoms)
    points = np.asarray(at_pairs.atoms).reshape(2, *means.shape, atoms)
    masses = np.asarray(at_pairs.probs).reshape(2, *means.shape, atoms)
    lower, upper = Particles(points[0], masses[0]), Particles(points[1], masses[1])
    middle = Particles(np.concatenate(points, axis=-1), np.concatenate(masses, axis=-1) / 2)
    error = np.asarray(integrated_cdf_distance(lower, upper)) / 2
    error = error + solve_linear(mdp, chosen, mdp.discretisation_error, mdp.gamma)
    return Truth(mdp, middle, error, lower, upper, means, done)


def _expected_steps(mdp: MDP, policy: Policy) -> float:
    """The expected number of discounted steps, from the pair that has the most, and at least 1."""
    shape = (mdp.num_states, mdp.num_actions)
    alive = np.broadcast_to(~mdp.terminal[:, None], shape).astype(np.float64)
    return max(1.0, float(solve_linear(mdp, policy, alive, mdp.gamma).max()))
