"""Mixed graph: the serial graph with edges inside the groups."""

from typing import Any

import numpy as np
import scipy.sparse

from probsfa.graphs._group import GroupGraph
from probsfa.graphs._labels import from_labels, label_groups, warn_of_heavy_samples
from probsfa.graphs._sample_weights import weighted
from probsfa.graphs._serial import ADVICE, neighbour_edges
from probsfa.graphs.training_graph import TrainingGraph

__all__ = ["mixed"]


@from_labels
def mixed(
    y: Any, n_groups: int | None = None, *, balanced: bool = True, sample_weight: Any = None
) -> TrainingGraph:
    """Return the mixed graph of numeric labels, serial and clustered in one.

    The sorted labels are cut into at most L groups, equal labels staying together. Every sample is joined
    to every sample of its own group and of the groups below and above. For groups of equal size all
    samples and edges weigh 1, but the edges inside the first and inside the last group 2, so that the
    graph is consistent.

    Parameters
    ----------
    y : array-like (N,)
        Numeric labels.
    n_groups : int, optional
        L, at least 2. Default ``sqrt(N)``, at most 50.
    balanced : bool, default=True
        Whether groups of less than half of ``N / L`` samples, those of rare labels, are merged with the
        smaller one of their neighbours. Otherwise labels that take no more than L values are groups of their
        own, however few samples these have.
    sample_weight : array-like (N,), optional
        How many times each sample counts: the graph is that of samples which stand there so many times.

    Warns
    -----
    UserWarning
        Where a sample weighs more than ten times the mean.

    See Also
    --------
    serial : Without edges inside a group.
    sliding_window : Without groups.
    clustered : For classes.

    Notes
    -----
    Section 5.4 of the paper. For groups of unequal size, node and edge weights are divided as in
    :func:`serial`.

    Examples
    --------
    >>> mixed([1, 2, 3, 4, 5, 6], n_groups=3).to_sparse().toarray().astype(int)
    array([[2, 2, 1, 1, 0, 0],
           [2, 2, 1, 1, 0, 0],
           [1, 1, 1, 1, 1, 1],
           [1, 1, 1, 1, 1, 1],
           [0, 0, 1, 1, 2, 2],
           [0, 0, 1, 1, 2, 2]])
    """
    groups = label_groups(y, n_groups, balanced=balanced, sample_weight=sample_weight)
    sizes = np.bincount(groups, weights=sample_weight)
    sizes = sizes / (sizes.sum() / len(sizes))
    inside = np.ones(len(sizes), dtype=np.float64)
    inside[[0, -1]] = 2.0
    edges = neighbour_edges(sizes) + scipy.sparse.diags_array(inside / sizes**2)
    graph = weighted(GroupGraph(groups, edges.tocsr(), 1.0 / sizes), sample_weight)
    warn_of_heavy_samples(graph, ADVICE)
    return graph
