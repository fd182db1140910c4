"""Serial graph: all samples of a group of labels are joined to all of the next group."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse

from probsfa.graphs._group import GroupGraph
from probsfa.graphs._labels import from_labels, label_groups, warn_of_heavy_samples
from probsfa.graphs._sample_weights import weighted
from probsfa.graphs.training_graph import TrainingGraph

__all__ = ["serial"]

#: What helps against groups of few samples.
ADVICE = (
    "take fewer groups (n_groups, balanced=True), or sliding_window, in which all samples weigh the same."
)


@from_labels
def serial(
    y: Any, n_groups: int | None = None, *, balanced: bool = True, sample_weight: Any = None
) -> TrainingGraph:
    """Return the serial graph of numeric labels.

    The sorted labels are cut into at most L groups, equal labels staying together. Every sample is joined
    to every sample of the groups below and above its own, and to none of its own. For groups of equal
    size all edges weigh 1 and all samples 2, but 1 in the first and in the last group, so that the graph
    is consistent.

    Parameters
    ----------
    y : array-like (N,)
        Numeric labels.
    n_groups : int, optional
        L, at least 2, better 4 or more. Default ``sqrt(N)``, at most 50.
    balanced : bool, default=True
        Whether groups of less than half of ``N / L`` samples, those of rare labels, are merged with the
        smaller one of their neighbours. Otherwise labels that take no more than L values are groups of their
        own, however few samples these have.
    sample_weight : array-like (N,), optional
        How many times each sample counts: the graph is that of samples which stand there so many times.

    Warns
    -----
    UserWarning
        Where there are less than 4 groups, which have no slow function of the label; or where a sample
        weighs more than ten times the mean.

    See Also
    --------
    mixed : With edges inside each group, too.
    sliding_window : Without groups.
    clustered : For classes.

    Notes
    -----
    Section 5.3 of the paper, which assumes groups of equal size. Labels are cut by their midranks: groups
    depend on the labels and not on the order of the rows. For sizes ``N_l`` and their mean ``M``,
    node weights are divided by ``N_l / M`` here and edge weights by ``N_l N_l' / M^2``: groups stay equally
    important, and the graph consistent.

    Examples
    --------
    >>> graph = serial([1, 2, 3, 4, 5, 6, 7, 8], n_groups=4)
    >>> graph.to_sparse().toarray().astype(int)
    array([[0, 0, 1, 1, 0, 0, 0, 0],
           [0, 0, 1, 1, 0, 0, 0, 0],
           [1, 1, 0, 0, 1, 1, 0, 0],
           [1, 1, 0, 0, 1, 1, 0, 0],
           [0, 0, 1, 1, 0, 0, 1, 1],
           [0, 0, 1, 1, 0, 0, 1, 1],
           [0, 0, 0, 0, 1, 1, 0, 0],
           [0, 0, 0, 0, 1, 1, 0, 0]])
    >>> graph.node_weights
    array([1., 1., 2., 2., 2., 2., 1., 1.])
    """
    groups = label_groups(y, n_groups, balanced=balanced, sample_weight=sample_weight)
    sizes = np.bincount(groups, weights=sample_weight)
    sizes = sizes / (sizes.sum() / len(sizes))
    importance = np.full(len(sizes), 2.0, dtype=np.float64)
    importance[[0, -1]] = 1.0
    graph = weighted(GroupGraph(groups, neighbour_edges(sizes), importance / sizes), sample_weight)
    warn_of_heavy_samples(graph, ADVICE)
    if len(sizes) < 4:
        warnings.warn(
            f"The serial graph of {len(sizes)} groups has no slow function of the label: with no edges "
            "inside groups, the label itself has a delta value of 2 or more, no less than noise. Take 4 "
            "groups or more, or mixed or clustered where labels take few values.",
            stacklevel=2,
        )
    return graph


def neighbour_edges(sizes: np.ndarray) -> scipy.sparse.csr_array:
    """Return edge weights between neighbouring groups of the given relative sizes, 1 where they are 1."""
    above = 1.0 / (sizes[:-1] * sizes[1:])
    return scipy.sparse.diags_array([above, above], offsets=[1, -1]).tocsr()
