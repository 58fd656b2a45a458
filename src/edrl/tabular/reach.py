"""Which states steps lead to."""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from edrl.core.types import Bool, Int


def reached(
    start: Bool[np.ndarray, " S"],
    origins: Int[np.ndarray, " steps"],
    targets: Int[np.ndarray, " steps"],
) -> Bool[np.ndarray, " S"]:
    """The states that steps from origins to targets lead to from those of `start`, these included.

    With origins and targets exchanged, these are the states from which `start` can be reached.
    """
    outside = len(start)  # one more node, from which all states of `start` are a step away
    first = np.flatnonzero(start)
    rows = np.concatenate([origins, np.full(len(first), outside)])
    columns = np.concatenate([targets, first])
    graph = csr_array((np.ones(len(rows), np.int8), (rows, columns)), shape=(outside + 1,) * 2)
    found = breadth_first_order(graph, outside, return_predecessors=False)
    mask = np.zeros(outside + 1, bool)
    mask[found] = True
    return mask[:-1]
