"""Clustered graph: all samples of a class are joined to each other."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from probsfa._validation import check_option
from probsfa.graphs._group import GroupGraph
from probsfa.graphs._labels import check_classes, from_labels, warn_of_heavy_samples
from probsfa.graphs._sample_weights import check_masses, check_sample_weight, weighted
from probsfa.graphs.training_graph import TrainingGraph

__all__ = ["clustered"]


@from_labels
def clustered(y: Any, weighting: str = "samples", *, sample_weight: Any = None) -> TrainingGraph:
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
    sample_weight : array-like (N,), optional
        How many times each sample counts: the graph is that of samples which stand there so many times.

    Raises
    ------
    ValueError
        If a label is missing, or there is one class only.

    Warns
    -----
    UserWarning
        Where labels look like numbers rather than classes, or -1 stands beside classes numbered from 0; with
        ``weighting="classes"`` where a sample weighs more than ten times the mean.

    See Also
    --------
    serial, mixed : For labels that are numbers.
    semi_supervised : For samples only some of which have a class.

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
    if sample_weight is not None:
        sample_weight = check_sample_weight(sample_weight, len(classes))
    sizes = np.bincount(classes, weights=sample_weight).astype(np.float64)
    check_masses(sizes)
    if len(sizes) < 2:
        raise ValueError(
            "y has one class; a graph of classes needs at least two, or there is nothing to tell apart."
        )
    _warn_of_numbers(np.asarray(y), len(sizes))
    by_classes = check_option("weighting", weighting, ("samples", "classes")) == "classes"
    inside = 1.0 / sizes**2 if by_classes else 1.0 / sizes
    weights = 1.0 / sizes if by_classes else np.ones_like(sizes)
    of_class = GroupGraph(classes, scipy.sparse.diags_array(inside).tocsr(), weights)
    graph = weighted(of_class, sample_weight)
    if by_classes:
        warn_of_heavy_samples(graph, "merge rare classes, or take weighting='samples'.")
    return graph


def _warn_of_numbers(labels: NDArray[Any], n_classes: int) -> None:
    """Warn where labels were hardly meant as classes."""
    kind = labels.dtype.kind
    if kind == "f" and 2 * n_classes > len(labels) and (labels != np.round(labels)).any():
        warnings.warn(
            f"y holds {n_classes} different numbers for {len(labels)} samples, and each is taken for a "
            "class; for labels that are numbers take serial, mixed or sliding_window.",
            stacklevel=3,
        )
    if kind == "i" and n_classes > 2 and labels.min() == -1 and (labels == 0).any():
        warnings.warn(
            "y has the label -1 beside classes numbered from 0, and it is taken for a class of its own. If "
            "it stands for no label, take semi_supervised(X, y, missing=-1), as an object "
            "SemiSupervised(missing=-1), or leave those rows out.",
            stacklevel=3,
        )
