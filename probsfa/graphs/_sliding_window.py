"""Sliding windows: every sample is joined to all that stand close to it in the order of the labels."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from probsfa._arrays import as_float_array
from probsfa._typing import FloatArray
from probsfa._validation import check_count
from probsfa.graphs._labels import from_labels, order_of_labels
from probsfa.graphs._permuted import PermutedGraph
from probsfa.graphs._ties import TiedWindowGraph
from probsfa.graphs._window import WindowGraph

__all__ = ["WindowGraph", "sliding_window"]

#: Weights of a window by the distance of two samples in rank.
WindowWeights = ArrayLike | Callable[[FloatArray], ArrayLike]


@from_labels
def sliding_window(
    y: Any,
    half_width: int | None = None,
    mirrored: bool = True,
    *,
    weights: WindowWeights | None = None,
) -> PermutedGraph:
    """Return the sliding window graph of the samples sorted by label.

    All node weights are 1. With samples numbered from 1 to N in the order of the labels and half-width d,
    the edge weights of the square window are 1 where ``|n - n'| <= d``. Those of the mirrored window are
    besides 2 where ``n + n' <= d + 1`` or ``n + n' >= 2 N + 1 - d``: the window of a sample near an end is
    folded back onto the samples, so that all degrees are ``2 d + 1`` and the graph is consistent.

    Samples of equal label have no order. Their edge weights are the mean over all the orders they could
    stand in, so the graph does not depend on the order of the rows.

    Parameters
    ----------
    y : array-like (N,)
        Numeric labels, at least two different ones.
    half_width : int, optional
        d, from 1 to N - 1. Default N // 10, at most 32, the smaller of the two windows of section 6.2; or
        as far as an array of `weights` goes.
    mirrored : bool, default=True
        Whether the ends are mirrored.
    weights : array-like (d + 1,) or callable, optional
        Shape of the window: entry ``l`` is the weight of two samples ``l`` apart in the order of the labels,
        in both directions. A callable gets the distances ``0, 1, ..., d`` as an array. Not negative, and one
        of them beyond the first above zero. By default all are 1.

    Returns
    -------
    TrainingGraph
        Its Laplacian takes O(N D) for the square window, whatever d and however many labels are equal, and
        O(N log(d) D) for other weights.

    Raises
    ------
    ValueError
        If labels are missing or all the same, or `half_width` or `weights` do not fit.

    See Also
    --------
    reordering : Only the next sample in the order of the labels.
    serial, mixed : Groups of samples instead of a window.

    Notes
    -----
    Section 5.2 of the paper. Its condition for the upper end, ``n + n' >= 2 N - 1``, is the one above for
    d = 2, the case of its figure 7. As its formulas say, a window includes its own sample; these self-loops
    count in R alone, and ``weights[0] = 0`` leaves them out.

    Let P permute the places of equal labels among themselves, M average over them and c be the mean
    off-block Laplacian inside a block. The mean of ``P L P'`` over all P is ``M L M + diag(c) (1 - M)``,
    which costs one product with the Laplacian of the window.

    Examples
    --------
    >>> sliding_window([1, 2, 3, 4, 5], half_width=2).to_sparse().toarray().astype(int)
    array([[2, 2, 1, 0, 0],
           [2, 1, 1, 1, 0],
           [1, 1, 1, 1, 1],
           [0, 1, 1, 1, 2],
           [0, 0, 1, 2, 2]])

    Two samples of the same label:

    >>> sliding_window([1, 2, 2, 3], half_width=1, mirrored=False).to_sparse().toarray()
    array([[1. , 0.5, 0.5, 0. ],
           [0.5, 1. , 1. , 0.5],
           [0.5, 1. , 1. , 0.5],
           [0. , 0.5, 0.5, 1. ]])

    A window that falls off with the distance in rank:

    >>> graph = sliding_window([1, 2, 3, 4, 5], 2, weights=lambda lag: 1 / (1 + lag))
    >>> graph.is_consistent()
    True
    """
    order, sizes = order_of_labels(y)
    n = len(order)
    d, shape = check_window(n, half_width, weights)
    window = WindowGraph(n, d, ends="mirrored" if mirrored else "open", weights=shape)
    return PermutedGraph(window if len(sizes) == n else TiedWindowGraph(window, sizes), order)


def default_half_width(n: int) -> int:
    """Return the default half-width of a window over n samples."""
    return min(32, max(1, n // 10))


def check_window(
    n: int, half_width: int | None, weights: WindowWeights | None, most: int | None = None
) -> tuple[int, FloatArray | None]:
    """Return the half-width, at most `most`, and the weights of lags 0 to it, None where all are 1."""
    given = None if weights is None or callable(weights) else as_float_array(weights, "weights")
    if half_width is not None:
        d = check_count("half_width", half_width)
    elif given is not None and given.ndim == 1 and len(given) > 1:
        d = len(given) - 1
    else:
        d = default_half_width(n)
    most = n - 1 if most is None else most
    if d > most:
        raise ValueError(f"half_width must be at most {most} for {n} samples; got {d}.")
    if weights is None:
        return d, None
    if given is None:
        given = as_float_array(weights(np.arange(d + 1, dtype=np.float64)), "weights")  # type: ignore[operator]
    if given.shape != (d + 1,):
        raise ValueError(
            f"weights must be {d + 1} numbers, one for each distance in rank from 0 to half_width={d}; got "
            f"shape {given.shape}."
        )
    if not np.isfinite(given).all() or (given < 0).any() or not (given[1:] > 0).any():
        raise ValueError(
            "weights must be finite and not negative, and one beyond the first above zero: the first joins "
            "every sample to itself only."
        )
    return d, given / given.max()
