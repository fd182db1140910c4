"""Ring: a window over samples in the order of an angle, without ends."""

from typing import Any

import numpy as np

from probsfa._validation import check_positive
from probsfa.graphs._labels import check_labels, from_labels, order_of_labels
from probsfa.graphs._permuted import PermutedGraph
from probsfa.graphs._sliding_window import WindowWeights, check_window
from probsfa.graphs._ties import TiedWindowGraph
from probsfa.graphs._window import WindowGraph

__all__ = ["ring"]


@from_labels
def ring(
    y: Any,
    period: float | None = None,
    half_width: int | None = None,
    *,
    weights: WindowWeights | None = None,
) -> PermutedGraph:
    """Return the window graph of samples around a circle.

    The samples are sorted by their position on the circle, and each is joined to the `half_width` next on
    either side, with the weight 1, across the point where the circle closes too. All samples weigh 1 and
    have the degree ``2 half_width + 1``, so that the graph is consistent. Slow features of it come in pairs:
    sine and cosine of the angle, of twice the angle, and so on.

    Parameters
    ----------
    y : array-like (N,)
        Angles, or other positions that are the same after a period.
    period : float, optional
        The period: 360 for degrees, 24 for hours of the day. Default ``2 * pi``, for positions within two
        turns.
    half_width : int, optional
        From 1 to (N - 1) // 2. Default N // 10, at most 32.
    weights : array-like (half_width + 1,) or callable, optional
        Shape of the window, as in :func:`sliding_window`.

    Raises
    ------
    ValueError
        If y are no finite numbers, all the same, or more than two turns apart without a period, the period is
        not positive, or the window does not fit.

    See Also
    --------
    sliding_window : The same on a line.
    probsfa.sfa.GraphSFARegressor : Estimates angles, with ``period=``.

    Notes
    -----
    The periodic form of the window of Escalante-B. & Wiskott (2013, section 5.2); a circle has no ends to be
    mirrored. Equal positions have no order: their edge weights are the mean over all the orders they could
    stand in, as in :func:`sliding_window`, so the graph does not depend on the order of the rows.

    Examples
    --------
    >>> ring([0.0, 1.0, 2.0, 3.0, 4.0], period=5.0, half_width=1).to_sparse().toarray().astype(int)
    array([[1, 1, 0, 0, 1],
           [1, 1, 1, 0, 0],
           [0, 1, 1, 1, 0],
           [0, 0, 1, 1, 1],
           [1, 0, 0, 1, 1]])
    """
    labels = check_labels(y)
    if period is None:
        period = 2 * np.pi
        if np.ptp(labels) > 2 * period:
            raise ValueError(
                f"y has values from {labels.min():g} to {labels.max():g}, which are no angles in radians. "
                "Give the period: ring(y, period=360) for degrees, Ring(period=360) to an estimator."
            )
    period = check_positive("period", period)
    n = len(labels)
    if n < 3:
        raise ValueError(f"y has {n} positions; a ring needs at least three samples.")
    positions = np.mod(labels, period)
    positions[positions >= period] = 0.0  # rounding of small negative ones
    if np.all(positions == positions[0]):
        raise ValueError(
            f"y has only one position, {positions[0]}, on the circle; a ring needs at least two."
        )
    d, shape = check_window(n, half_width, weights, most=(n - 1) // 2)
    order, sizes = order_of_labels(positions)
    window = WindowGraph(n, d, ends="ring", weights=shape)
    return PermutedGraph(window if len(sizes) == n else TiedWindowGraph(window, sizes), order)
