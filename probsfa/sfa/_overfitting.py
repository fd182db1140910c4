"""Slowness on rows that were left out of a fit, and one warning for all estimators that over-fit.

Outputs of a rich function space can follow nearly any course over the training rows. Whether they are slow
at all shows on consecutive rows that were left out: the rows are cut into folds, each fold is left out in
turn, and the delta values there are compared with those of the training rows.
"""

import warnings

import numpy as np
from numpy.typing import ArrayLike

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.graphs.moments import Moments, MomentStream
from probsfa.linalg import RankError, slow_directions
from probsfa.metrics import timescale
from probsfa.sfa._expand import Expander, extend_stream

__all__ = ["check_overfitting", "cut", "held_out_delta", "noise_delta", "warn_of_overfitting"]

_N_FOLDS = 5
_LEAST_SQUARE = 0.1  # of an output on a fold, in units of its variance over the training rows
# White noise has a delta value of 2 with standard deviation 2 / sqrt(n); an output above 1.8 is of no use.
_NOISE, _LEAST_NOISE, _DEVIATIONS = 1.8, 1.0, 2.0
# An output whose time scale on rows left out is this share of that in training, and less than so many rows,
# follows the training rows only.
_SHARE, _SHORT = 1 / 4, 3.0
_ROWS_PER_DIRECTION = 20  # white noise then has a delta value of 1.1 in training
_MOST_DIRECTIONS = 300  # with more, two folds are left out instead of five


def cut(lengths: tuple[int, ...], n_folds: int = _N_FOLDS) -> list[slice]:
    """Cut rows into consecutive folds of about equal length.

    Parameters
    ----------
    lengths : tuple of int
        Rows of every sequence. A cut is moved to where a sequence begins if one does within a quarter of a
        fold.
    n_folds : int, default=5
        Number of folds; fewer where there are fewer rows.

    Returns
    -------
    list of slice

    Examples
    --------
    >>> cut((40, 60), 2)
    [slice(0, 40, None), slice(40, 100, None)]
    """
    n = sum(lengths)
    n_folds = min(n_folds, n)
    begins = np.cumsum([0, *lengths])
    borders = [0]
    for border in np.linspace(0, n, n_folds + 1)[1:-1]:
        nearest = int(begins[np.argmin(np.abs(begins - border))])
        moved = nearest if abs(nearest - border) <= n / n_folds / 4 else int(round(border))
        if moved > borders[-1]:
            borders.append(moved)
    if borders[-1] < n:
        borders.append(n)
    return [slice(a, b) for a, b in zip(borders[:-1], borders[1:], strict=True)]


def held_out_delta(changes: ArrayLike, squares: ArrayLike) -> FloatArray:
    """Return the delta values of outputs on rows left out, the mean over the folds.

    Parameters
    ----------
    changes : array-like (F, ...)
        Mean squared change of every output on each fold.
    squares : array-like (F, ...)
        Mean square of every output on each fold, about its mean over the *training* rows. About the mean of
        the fold itself, whatever is slower than a fold would be nearly constant, and fast by that measure.

    Notes
    -----
    An output that is nearly zero on a fold, as those of a narrow kernel are, is slow or fast by chance. What
    its mean square lacks of a tenth of the variance in training counts as white noise.
    """
    changes, squares = np.asarray(changes, dtype=np.float64), np.asarray(squares, dtype=np.float64)
    lacking = np.maximum(_LEAST_SQUARE - squares, 0.0)
    deltas: FloatArray = ((changes + 2.0 * lacking) / (squares + lacking)).mean(axis=0)
    return deltas


def noise_delta(n_rows: int) -> float:
    """Return the delta value from which on an output of so many rows is no slower than white noise."""
    return float(np.clip(2.0 - 2.0 * _DEVIATIONS / np.sqrt(n_rows), _LEAST_NOISE, _NOISE))


def check_overfitting(
    sequences: Sequences,
    expander: Expander,
    training: FloatArray,
    rank: int,
    *,
    lag: int,
    rank_tol: float | None,
    skip_incomplete: bool = False,
    remedy: str,
    stacklevel: int,
) -> None:
    """Warn where the slowest outputs of expanded rows are not slow on rows left out.

    Parameters
    ----------
    sequences : Sequences
        Training rows before the expansion.
    expander : Expander
        Fitted to all of them.
    training : ndarray (K,)
        Delta values of the K slowest outputs over the training rows.
    rank : int
        Directions in which the expanded rows vary. With more than 20 rows for each, outputs cannot over-fit
        much, and nothing is computed.
    lag, rank_tol
        Of the estimator.
    skip_incomplete : bool, default=False
        Whether rows may have missing values, and do not count then.
    remedy, stacklevel
        As in :func:`warn_of_overfitting`.
    """
    if not rank < sequences.n_rows - 1 < _ROWS_PER_DIRECTION * rank:
        return
    folds = cut(sequences.lengths)
    moments = [_moments(_part(sequences, fold), expander, lag, skip_incomplete) for fold in folds]
    tested = range(len(folds)) if rank <= _MOST_DIRECTIONS else (0, len(folds) // 2)
    changes, squares = [], []
    for at in tested:
        train = Moments.empty(expander.n_features_out, lag)
        for number, part in enumerate(moments):
            if number != at:
                train = train.merge(part)
        try:
            found = slow_directions(
                train.difference_moment,
                train.covariance,
                len(training),
                rank_tol,
                variance_floor=train.variance_floor,
            )
            change, spread = moments[at].difference_moment, moments[at].covariance
        except (RankError, ValueError):  # too little variation, or no difference, in one of the two parts
            continue
        W = found.weights
        changes.append(np.sum(W * (change @ W), axis=0))
        squares.append(np.sum(W * (spread @ W), axis=0) + ((moments[at].mean - train.mean) @ W) ** 2)
    if changes:
        held_out = held_out_delta(changes, squares)
        n_rows = sum(part.n_rows for part in moments)
        warn_of_overfitting(training, held_out, n_rows, remedy, stacklevel=stacklevel + 1)


def warn_of_overfitting(
    training: FloatArray, held_out: FloatArray, n_rows: int, remedy: str, *, stacklevel: int
) -> None:
    """Warn of the first output whose delta value in training does not hold on rows left out.

    Parameters
    ----------
    training, held_out : ndarray (K,)
        Delta values.
    n_rows : int
        Number of all rows.
    remedy : str
        What to change: "Use ...".
    stacklevel : int
        Of the caller, as in :func:`warnings.warn`.
    """
    noise = held_out > noise_delta(n_rows)
    noise[1:] &= held_out[1:] > training[1:]  # fast outputs may be wanted, but then slow ones come first
    there = np.nan_to_num(timescale(held_out))
    faster = (there < _SHARE * timescale(training)) & (there < _SHORT)
    if not (noise | faster).any():
        return
    j = int(np.argmax(noise | faster))
    found = "is no slower than white noise" if noise[j] else "changes much faster than in training"
    warnings.warn(
        f"Output {j} {found} on rows left out: its delta value is {held_out[j]:.3g} there, and "
        f"{training[j]:.3g} on the training rows. {remedy}",
        stacklevel=stacklevel + 1,
    )


def _part(sequences: Sequences, fold: slice) -> Sequences:
    """Return the rows of a fold, cut where sequences begin."""
    begins = np.cumsum([0, *sequences.lengths])
    borders = np.unique(np.clip(begins, fold.start, fold.stop))
    return Sequences(sequences.values[fold], tuple(np.diff(borders).tolist()))


def _moments(sequences: Sequences, expander: Expander, lag: int, skip_incomplete: bool) -> Moments:
    stream = MomentStream.start(expander.n_features_out, lag)
    return extend_stream(stream, sequences, expander, skip_incomplete=skip_incomplete).moments
