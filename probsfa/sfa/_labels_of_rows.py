"""Labels that come with the rows of one array or of several sequences."""

from typing import Any

import numpy as np

from probsfa._validation import Sequences

__all__ = ["labels_of_rows"]


def labels_of_rows(y: Any, found: Sequences) -> Any:
    """Return labels of all rows in one array, or None; what they are is for the graph to judge."""
    if y is None:
        return None
    if found.is_list and isinstance(y, list) and len(y) == len(found.lengths):
        pieces = [np.atleast_1d(np.asarray(piece)) for piece in y]
        if tuple(len(piece) for piece in pieces) == found.lengths:
            return np.concatenate(pieces)
    labels = np.asarray(y)
    if labels.ndim == 0 or len(labels) != found.n_rows:
        came = f"shape {labels.shape}" if labels.ndim else repr(y)
        raise ValueError(
            f"y must have one label per row of X, {found.n_rows}, or be a list of one array per sequence; "
            f"got {came}."
        )
    return labels
