"""Clustered graph: all samples of a class are joined to each other."""

from typing import Any

import numpy as np
import scipy.sparse

from probsfa._validation import check_option
from probsfa.graphs._group import GroupGraph
from probsfa.graphs._labels import check_classes, from_labels, warn_of_heavy_samples

__all__ = ["clustered"]


@from_labels
def clustered(y: Any, weighting: str = "samples") -> GroupGraph:
    """Return the graph of a classification, which makes GSFA Fisher's discriminant analysis.

    Samples of one class are joined pairwise, each to itself too; there are no other edges. With S classes
    the first S - 1 features tell them apart. The graph is consistent.

    Parameters
    ----------
    y : array-like (N,)
        Classes, numbers or strings.
    weighting : {"samples", "classes"}, default="samples"
        Whether all samples are equally important, ``v_n = 1`` and ``gamma_nn' = 1 / N_s`` in a class of N_s
        samples, or all classes, ``v_n = 1 / N_s`` and ``gamma_nn' = 1 / N_s^2``.

    See Also
    --------
    serial, mixed : For labels that are numbers.

    Notes
    -----
    Section 4.1 of the paper and its footnote 2; equivalence to Fisher's discriminant in section 7.2.

    Examples
    --------
    >>> clustered(["a", "b", "a"]).to_sparse().toarray()
    array([[0.5, 0. , 0.5],
           [0. , 1. , 0. ],
           [0.5, 0. , 0.5]])
    """
    classes = check_classes(y)
    by_classes = check_option("weighting", weighting, ("samples", "classes")) == "classes"
    sizes = np.bincount(classes).astype(np.float64)
    inside = 1.0 / sizes**2 if by_classes else 1.0 / sizes
    weights = 1.0 / sizes if by_classes else np.ones_like(sizes)
    graph = GroupGraph(classes, scipy.sparse.diags_array(inside).tocsr(), weights)
    if by_classes:
        warn_of_heavy_samples(graph, "merge rare classes, or take weighting='samples'.")
    return graph
