"""Labels that come with the rows of one array or of several sequences."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from probsfa.graphs._rows import check_unmasked

__all__ = ["labels_of_rows"]


def labels_of_rows(y: Any, lengths: Sequence[int]) -> Any:
    """Return labels of all rows in one array; what they are is for the graph to judge.

    Parameters
    ----------
    y : array-like (N,) or (N, n_targets), list of such for every sequence, or None
        One label, or one row of targets, for every row. Where there are several sequences, one label for each
        of them is that of all its rows.
    lengths : sequence of int
        Rows of every sequence.

    Returns
    -------
    ndarray (N,) or (N, n_targets), or None
        None where there are no labels.

    Raises
    ------
    ValueError
        If there is not one label for every row, or one is masked.

    Examples
    --------
    >>> labels_of_rows([[0, 1], [1]], (2, 1)).tolist()
    [0, 1, 1]
    >>> labels_of_rows(["a", "b"], (2, 1)).tolist()
    ['a', 'a', 'b']
    """
    if y is None:
        return None
    if isinstance(y, list) and len(y) == len(lengths):
        pieces = [np.asarray(check_unmasked(piece, f"y[{i}]")) for i, piece in enumerate(y)]
        shapes = [piece.shape for piece in pieces]
        if [shape[:1] for shape in shapes] == [(n,) for n in lengths] and len({s[1:] for s in shapes}) == 1:
            return np.concatenate(pieces)
    labels = np.asarray(check_unmasked(y))
    n_rows = sum(lengths)
    if labels.ndim == 1 and 1 < len(lengths) == len(labels) != n_rows:
        return np.repeat(labels, lengths)
    if labels.ndim == 0 or len(labels) != n_rows:
        came = f"shape {labels.shape}" if labels.ndim else repr(y)
        raise ValueError(
            f"y must have one label per row of X, {n_rows}, or be a list of one array or label per sequence; "
            f"got {came}."
        )
    return labels
