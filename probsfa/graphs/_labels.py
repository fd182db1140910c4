"""Validation, ordering and grouping of labels."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, column_or_1d

from probsfa._validation import check_count
from probsfa.graphs._combined import check_group_weights, check_sample_weight
from probsfa.graphs._rows import check_unmasked
from probsfa.graphs.training_graph import TrainingGraph

__all__ = [
    "check_classes",
    "check_complete",
    "check_labels",
    "default_n_groups",
    "is_missing",
    "label_groups",
    "sort_labels",
    "warn_of_heavy_samples",
]

# Largest weight relative to the mean. At this limit, one of 100 samples has a tenth of the total weight.
_MAX_WEIGHT_RATIO = 10


def is_missing(labels: Any) -> NDArray[np.bool_]:
    """Return a mask (N,) of labels that are NaN, None, NaT or the NA of pandas."""
    values = np.asarray(labels)
    if values.dtype.kind in "fcmM":
        return np.isnan(values)
    if values.dtype.kind != "O":
        return np.zeros(values.shape, dtype=bool)
    absent = [
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float) and value != value)
        for value in values.ravel()
    ]
    return np.array(absent, dtype=bool).reshape(values.shape)


def check_labels(y: Any) -> NDArray[np.float64]:
    """Return numeric labels (N,) as float64; raise a ValueError for other labels."""
    labels = column_or_1d(check_complete(y))
    if labels.dtype.kind in "USO":
        try:
            labels = labels.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"y must be numbers for this graph; its first value is {str(labels[0])!r}. For class "
                "labels use graph='clustered'."
            ) from None
    labels = check_array(labels, ensure_2d=False, dtype=np.float64, input_name="y")
    if len(labels) < 2:
        raise ValueError(f"y has {len(labels)} label; a graph requires at least two samples.")
    return labels


def check_classes(y: Any) -> NDArray[np.intp]:
    """Return the class of every sample as an index into the sorted distinct labels, which may be strings."""
    labels = column_or_1d(check_complete(y))
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        raise ValueError("y contains NaN or infinity; every sample requires a class.")
    return np.unique(labels, return_inverse=True)[1].astype(np.intp)


def check_complete(y: Any) -> Any:
    """Return labels unchanged, or raise a ValueError with advice if some are missing."""
    labels = check_unmasked(y)
    absent = is_missing(labels)
    if absent.any():
        position = ", ".join(map(str, np.argwhere(absent)[0].tolist()))
        raise ValueError(
            f"y contains NaN, None or NA: {int(absent.sum())} of {absent.size} labels are missing, the first "
            f"is y[{position}]. Remove these rows, or connect them to nearest neighbours or adjacent rows: "
            f"graph=probsfa.graphs.SemiSupervised(...)."
        )
    return labels


def sort_labels(y: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the order of numeric labels and the number of samples of each distinct label.

    Parameters
    ----------
    y : array-like (N,)
        Numeric labels.

    Returns
    -------
    order : ndarray (N,)
        Indices of the samples, from the smallest label to the largest.
    sizes : ndarray (S,)
        Numbers of samples of each distinct label, in ascending order of labels.

    Raises
    ------
    ValueError
        If labels are missing, or all the same.
    """
    labels = check_labels(y)
    order = np.argsort(labels, kind="stable")
    sizes = np.unique(labels, return_counts=True)[1]
    _check_different(labels, len(sizes))
    return order, sizes


def label_groups(
    y: Any,
    n_groups: int | None,
    *,
    balanced: bool = True,
    sample_weight: Any = None,
    name: str = "n_groups",
) -> NDArray[np.intp]:
    """Divide labels into groups, lower labels first; return the group of every sample, shape (N,).

    Samples of equal label stay together, so groups do not depend on the order of the samples. If there are at
    most `n_groups` distinct labels, each is a group. Otherwise the range of midranks is divided into
    intervals of equal length; if no labels are equal, the sizes of the groups differ by at most one. By
    default there are ``sqrt(N)`` groups, at most 50 as in Escalante-B. & Wiskott (2013, section 6.2).

    The labels -y have the groups of y in reverse order. There may be exceptions if the mean of y is midway
    between its minimum and maximum: a midrank on the boundary in the middle, or groups of equal size that may
    be merged, are then assigned by their order.

    Parameters
    ----------
    y : array-like (N,)
        Numeric labels.
    n_groups : int or None
        Maximum number of groups.
    balanced : bool, default=True
        Whether groups of less than half of ``N / n_groups`` samples are merged with the smaller adjacent
        group.
    sample_weight : array-like (N,), optional
        Sample weights.
    name : str, default="n_groups"
        Name of the number of groups in error messages.
    """
    labels = check_labels(y)
    low, high = labels.min(), labels.max()
    if labels.mean() - low > (0.5 + 1e-9) * (
        high - low
    ):  # reversed labels, so that ties have the same result for y and -y
        groups = label_groups(-labels, n_groups, balanced=balanced, sample_weight=sample_weight, name=name)
        return groups.max() - groups
    distinct, label_index, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if sample_weight is not None:
        counts = np.bincount(label_index, weights=check_sample_weight(sample_weight, len(labels)))
        check_group_weights(counts)
    n = counts.sum()
    max_groups = default_n_groups(n) if n_groups is None else check_count(name, n_groups, minimum=2)
    _check_different(labels, len(distinct))
    group_index = np.arange(len(distinct))
    if len(distinct) > max_groups:
        midrank_group, remainder = np.divmod((2 * np.cumsum(counts) - counts) * max_groups, 2 * n)
        # A midrank on the boundary of two groups is assigned to the group farther from the middle.
        is_below = (remainder == 0) & (2 * midrank_group < max_groups)
        group_index = np.unique(midrank_group - is_below, return_inverse=True)[1]
    if balanced:
        group_index = _merge_small(np.bincount(group_index, weights=counts), n / (2 * max_groups))[
            group_index
        ]
    return group_index[label_index].astype(np.intp)


def _merge_small(sizes: NDArray[Any], smallest: float) -> NDArray[np.intp]:
    """Return the merged group of every group.

    The smallest group is repeatedly merged with the smaller adjacent group, until all groups have at least
    size `smallest` or two groups remain.
    """
    merged = sizes.tolist()
    first = list(range(len(merged)))  # first group of each merged group
    while len(merged) > 2:
        i = int(np.argmin(merged))
        if merged[i] >= smallest:
            break
        adjacent = [j for j in (i - 1, i + 1) if 0 <= j < len(merged)]
        j = min(adjacent, key=merged.__getitem__)
        low, high = min(i, j), max(i, j)
        merged[low] += merged.pop(high)
        first.pop(high)
    return np.searchsorted(first, np.arange(len(sizes)), side="right") - 1


def _check_different(labels: NDArray[np.float64], n_distinct: int) -> None:
    if n_distinct < 2:
        raise ValueError(f"y has only one value, {labels[0]}; a graph of labels requires at least two.")


def default_n_groups(n: float) -> int:
    """Return the default number of groups for n samples."""
    return min(50, max(2, round(n**0.5)))


def warn_of_heavy_samples(graph: TrainingGraph, advice: str) -> None:
    """Warn of samples with more than ten times the mean weight, because these dominate the features.

    Parameters
    ----------
    graph : TrainingGraph
        Graph of labels.
    advice : str
        Advice, a clause that ends the sentence.
    """
    ratio = graph.node_weights / (graph.Q / graph.n_vertices)
    n_heavy = int((ratio > _MAX_WEIGHT_RATIO).sum())
    if n_heavy:
        warnings.warn(
            f"{n_heavy} of {graph.n_vertices} samples have more than {_MAX_WEIGHT_RATIO} times the mean "
            f"weight, up to {ratio.max():.3g} times: their labels are rare, and these few samples dominate "
            "the features; "
            f"{advice}",
            stacklevel=3,
        )
