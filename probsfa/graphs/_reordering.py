"""Sample reordering: the samples sorted by label are treated as a time series."""

from typing import Any

import numpy as np

from probsfa.graphs._labels import from_labels, order_of_labels
from probsfa.graphs._permuted import PermutedGraph
from probsfa.graphs._temporal import temporal
from probsfa.graphs._ties import TiedWindowGraph
from probsfa.graphs._window import WindowGraph

__all__ = ["reordering"]


@from_labels
def reordering(y: Any) -> PermutedGraph:
    """Return the graph that joins every sample to the next one in the order of the labels.

    Plain slow feature analysis of the sorted samples (section 5.1 of the paper). Samples of equal label have
    no order: their edge weights are the mean over all the orders they could stand in, so the graph does not
    depend on the order of the rows.

    Parameters
    ----------
    y : array-like (N,)
        Numeric labels, at least two different ones.

    Returns
    -------
    TrainingGraph
        Its Laplacian takes O(N D), however many labels are equal.

    Raises
    ------
    ValueError
        If labels are missing or all the same.

    See Also
    --------
    sliding_window : Several neighbours in the order of the labels.
    temporal : In the order of time.

    Notes
    -----
    Of m samples with one label, each pair is joined with ``2 / m``, and each sample with ``1 / m`` to the
    next label, shared among its samples.

    Examples
    --------
    >>> reordering([0.3, 0.1, 0.2]).to_sparse().toarray()
    array([[0., 0., 1.],
           [0., 0., 1.],
           [1., 1., 0.]])
    >>> reordering([0, 0, 1]).to_sparse().toarray()
    array([[0. , 1. , 0.5],
           [1. , 0. , 0.5],
           [0.5, 0.5, 0. ]])
    """
    order, sizes = order_of_labels(y)
    if len(sizes) == len(order):
        return PermutedGraph(temporal(len(order)), order)
    neighbours = WindowGraph(len(order), 1, ends="open", weights=np.array([0.0, 1.0]))
    return PermutedGraph(TiedWindowGraph(neighbours, sizes), order)
