"""Sample reordering: the samples sorted by label are treated as a time series."""

from typing import Any

import numpy as np

from probsfa.graphs._labels import check_labels, from_labels
from probsfa.graphs._permuted import PermutedGraph
from probsfa.graphs._temporal import temporal

__all__ = ["reordering"]


@from_labels
def reordering(y: Any) -> PermutedGraph:
    """Return the graph that joins every sample to the next one in the order of the labels.

    Plain slow feature analysis of the sorted samples (section 5.1 of the paper); equal labels keep the order
    of the samples.

    Parameters
    ----------
    y : array-like (N,)
        Numeric labels.

    See Also
    --------
    sliding_window : Several neighbours in the order of the labels.
    temporal : In the order of time.

    Examples
    --------
    >>> reordering([0.3, 0.1, 0.2]).to_sparse().toarray()
    array([[0., 0., 1.],
           [0., 0., 1.],
           [1., 1., 0.]])
    """
    labels = check_labels(y)
    return PermutedGraph(temporal(len(labels)), np.argsort(labels, kind="stable"))
