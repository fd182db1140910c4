"""Control limits from statistics of normal rows that no fit has seen."""

import warnings

import numpy as np

from probsfa._typing import FloatArray

__all__ = ["contiguous_folds", "control_limits", "trailing_means"]


def contiguous_folds(lengths: tuple[int, ...], n_folds: int) -> list[list[tuple[int, int, int]]]:
    """Cut sequences into stretches that are left out together.

    Parameters
    ----------
    lengths : tuple of int
        Rows of each sequence.
    n_folds : int
        How many folds; all rows in order are cut into that many parts of nearly equal size.

    Returns
    -------
    list of list of tuple of int
        For each fold its stretches: number of the sequence, first row, row after the last.
    """
    starts = np.concatenate([[0], np.cumsum(lengths)])
    edges = np.linspace(0, starts[-1], n_folds + 1).round().astype(int)
    folds = []
    for first, last in zip(edges[:-1], edges[1:], strict=True):
        stretches = []
        for i, (begin, end) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
            a, b = max(first, begin), min(last, end)
            if a < b:
                stretches.append((i, int(a - begin), int(b - begin)))
        folds.append(stretches)
    return folds


def trailing_means(values: FloatArray, window: int) -> FloatArray:
    """Means (T, S) over the last rows up to each, leaving out NaN; NaN before the first `window` of them."""
    means = np.full(values.shape, np.nan)
    if len(values) < window:
        return means
    last = np.lib.stride_tricks.sliding_window_view(values, window, axis=0)
    counts = np.count_nonzero(~np.isnan(last), axis=-1)
    totals = np.nansum(last, axis=-1)
    np.divide(totals, counts, out=means[window - 1 :], where=counts > 0)
    return means


def control_limits(held_out: FloatArray, alpha: float, *, joint: bool) -> FloatArray:
    """Limits that rows as those given exceed with a given probability.

    Parameters
    ----------
    held_out : ndarray of shape (N, S)
        Statistics of normal rows that the model was not fitted to; NaN where they cannot be told.
    alpha : float
        Part of the rows that may exceed a limit: that of each statistic or, with `joint`, any of them.
    joint : bool
        Whether the limits together have this false-alarm rate; all then have the same one by themselves.

    Returns
    -------
    ndarray of shape (S,)
        The limit is the largest held-out value but for the ``k`` above it, with the largest ``k`` for which
        that holds.

    Warns
    -----
    UserWarning
        If there are too few rows to tell so rare an event: limits are then the largest values.
    """
    judged = held_out[~np.isnan(held_out).all(axis=1)]
    n = len(judged)
    descending = np.sort(np.where(np.isnan(judged), -np.inf, judged), axis=0)[::-1]
    k = int(np.floor(alpha * n + 1e-9))
    if joint:
        # Rank of a value: how many are at least as large. Limits are exceeded by rows of best rank k or less.
        ranks = np.stack(
            [np.searchsorted(-descending[:, s], -judged[:, s], side="right") for s in range(judged.shape[1])],
            axis=1,
        )
        best = np.sort(np.where(np.isnan(judged), n + 1, ranks).min(axis=1))
        k = int(best[k]) - 1
    if k == 0:
        warnings.warn(
            f"{n} normal rows are few for a false-alarm rate of {alpha:g} with {judged.shape[1]} statistics: "
            "limits are their largest values. Give more rows or a larger alpha.",
            UserWarning,
            stacklevel=3,
        )
    limits = descending[k]
    return np.where(np.isneginf(limits), np.inf, limits)  # a statistic that no row has
