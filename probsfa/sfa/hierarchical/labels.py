"""Labels of several sequences as one array."""

from typing import Any

import numpy as np

__all__ = ["join_labels"]


def join_labels(y: Any, lengths: tuple[int, ...]) -> Any:
    """Return the labels of all rows in one array, or None without any.

    Parameters
    ----------
    y : array-like (N,), list of array-likes (N_i,), or None
        One label for every row; a list may have one array for every sequence.
    lengths : tuple of int
        Rows of every sequence.

    Raises
    ------
    ValueError
        If there is not one label for every row.

    Examples
    --------
    >>> join_labels([[0, 1], [1]], (2, 1)).tolist()
    [0, 1, 1]
    """
    if y is None:
        return None
    if isinstance(y, list) and [np.size(piece) for piece in y] == list(lengths) and np.ndim(y[0]) == 1:
        return np.concatenate([np.asarray(piece) for piece in y])
    labels = np.asarray(y)
    if labels.shape[:1] != (sum(lengths),):
        raise ValueError(
            f"y must have one label for each of the {sum(lengths)} rows; got shape {labels.shape}."
        )
    return labels
