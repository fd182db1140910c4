"""Expansions and the linear map of slow feature estimators, and a check on held-out rows."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_memory, readable_count
from probsfa.graphs.moments import Moments, MomentStream, block_rows
from probsfa.graphs.training_graph import GraphMoments
from probsfa.linalg import RankError, SlowDirections, slow_directions
from probsfa.metrics import timescale

__all__ = [
    "Expander",
    "check_overfitting",
    "check_overfitting_by_refits",
    "extend_stream",
    "held_out_delta",
    "noise_delta",
    "set_linear_attributes",
    "split_into_folds",
    "transform_rows",
    "warn_of_overfitting",
]

# Minimum share of the variance of a monomial that monomials of lower degree do not explain. At 1e-8, about
# eight of the sixteen digits of double precision remain.
_MIN_VARIANCE_SHARE = 1e-8


@dataclass(frozen=True, eq=False)
class Expander:
    """A fitted expansion, or the identity, for rows that may have missing values.

    Attributes
    ----------
    transformer : fitted transformer or None
        None is the identity.
    n_features_out : int
        Columns after the expansion.
    """

    transformer: Any
    n_features_out: int

    @classmethod
    def fit(cls, expansion: Any, values: FloatArray) -> "Expander":
        """Clone the expansion and fit it to the complete rows of `values` (N, D).

        Raises
        ------
        ValueError
            If the expansion is not a transformer or returns too many columns for the memory, or if no row is
            complete.
        """
        if expansion is None:
            return cls(None, values.shape[1])
        if isinstance(expansion, type) or not (hasattr(expansion, "fit") and hasattr(expansion, "transform")):
            raise ValueError(
                "expansion must be None or a transformer with fit and transform, such as "
                f"probsfa.expansions.Polynomial(2); got {expansion!r:.80}."
            )
        n_columns = _n_columns_before_fit(expansion, values.shape[1])
        if n_columns is not None:
            _check_columns(expansion, n_columns)  # first, because even one expanded row may exceed the memory
        complete = ~np.isnan(values).any(axis=1)
        if not complete.any():
            raise ValueError("X has no complete row to fit the expansion to.")
        rows = values if complete.all() else values[complete]
        transformer = _condition_polynomial(clone(expansion), rows).fit(rows)
        first = int(np.argmax(complete))
        n_expanded = _apply(transformer, values[first : first + 1]).shape[1]
        _check_columns(expansion, n_expanded)
        return cls(transformer, n_expanded)

    @property
    def is_identity(self) -> bool:
        """Whether the expansion is the identity."""
        return self.transformer is None

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Return the expanded rows (N, n_features_out); incomplete rows become rows of NaN."""
        if self.transformer is None:
            return rows
        complete = ~np.isnan(rows).any(axis=1)
        if complete.all():
            return _apply(self.transformer, rows)
        expanded = np.full((len(rows), self.n_features_out), np.nan, dtype=np.float64)
        if complete.any():
            expanded[complete] = _apply(self.transformer, rows[complete])
        return expanded

    def inverse(self, rows: FloatArray) -> FloatArray:
        """Return the rows before the expansion.

        Raises
        ------
        ValueError
            If the expansion has no ``inverse_transform``.
        """
        if self.transformer is None:
            return rows
        if not hasattr(self.transformer, "inverse_transform"):
            raise ValueError(
                "inverse_transform requires expansion=None or an expansion with an inverse; "
                f"{type(self.transformer).__name__} has none."
            )
        return np.asarray(self.transformer.inverse_transform(rows), dtype=np.float64)


def _check_columns(expansion: Any, n_columns: float) -> None:
    """Raise a ValueError if the covariance of the expanded columns does not fit into memory."""
    check_memory(
        8.0 * n_columns * n_columns,
        f"expansion={expansion!r:.80} returns {readable_count(n_columns)} columns, whose covariance needs "
        "{size}",
        "Use an expansion with fewer columns, such as a lower degree, or use KernelSFA.",
    )


def _n_columns_before_fit(expansion: Any, n_features: int) -> float | None:
    """Return the number of expanded columns if it is known before the fit."""
    from probsfa.expansions import Expansion, Polynomial  # a slow import that linear methods do not need

    if isinstance(expansion, Expansion):
        return expansion.n_outputs(n_features)
    if _is_polynomial(expansion) and not expansion.interaction_only:
        return Polynomial(expansion.degree).n_outputs(n_features)
    return None


def _is_polynomial(expansion: Any) -> bool:
    """Return whether an expansion has the monomials up to a degree."""
    # These imports are slow, and linear methods do not use them.
    from sklearn.preprocessing import PolynomialFeatures

    from probsfa.expansions import Polynomial

    # A monomial of centred columns has terms of lower degree. A PolynomialFeatures with a range of degrees
    # lacks these terms.
    return isinstance(expansion, (Polynomial, PolynomialFeatures)) and isinstance(expansion.degree, int)


def _condition_polynomial(expansion: Any, rows: FloatArray) -> Any:
    """Return an equivalent polynomial expansion of standardized columns if the original is inaccurate.

    Both span the same functions, up to constants. If the mean of a column is r times its standard deviation,
    monomials of lower degree explain nearly all of the variance of a monomial of degree g. The unexplained
    share is about ``r^(2 - 2g)``.
    """
    if not _is_polynomial(expansion):
        return expansion
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    mean = rows[0] + (rows - rows[0]).mean(axis=0)
    std = (rows - mean).std(axis=0)
    varying = std > 0
    ratio = float(np.max(np.abs(mean[varying]) / std[varying], initial=0.0))
    # Logarithms are compared, because the power overflows for high degrees.
    if (2 * max(expansion.degree, 1) - 2) * np.log(max(ratio, 1.0)) < -np.log(_MIN_VARIANCE_SHARE):
        return expansion
    return make_pipeline(StandardScaler(), expansion)


def extend_stream(
    stream: MomentStream,
    sequences: Sequences,
    expander: Expander,
    *,
    new_sequence: bool = True,
    skip_incomplete: bool = False,
) -> MomentStream:
    """Return the stream of moments extended by sequences, which are expanded in blocks of rows.

    Parameters
    ----------
    stream : MomentStream
        Moments of earlier rows, after expansion.
    sequences : Sequences
        Rows before the expansion.
    expander : Expander
        Expansion of the rows.
    new_sequence : bool, default=True
        Whether the first row begins a new sequence; otherwise it continues the current one.
    skip_incomplete : bool, default=False
        Whether to leave out rows with missing values, and differences with such rows.
    """
    ends = np.cumsum(sequences.lengths)
    size = sequences.n_rows if expander.is_identity else block_rows(expander.n_features_out)
    for start in range(0, sequences.n_rows, size):
        stop = min(start + size, sequences.n_rows)
        inner_ends = ends[(ends > start) & (ends < stop)]
        stream = stream.extend(
            expander(sequences.values[start:stop]),
            lengths=np.diff([start, *inner_ends, stop]).tolist(),
            new_sequence=new_sequence if start == 0 else bool((ends == start).any()),
            skip_incomplete=skip_incomplete,
        )
    return stream


def _apply(transformer: Any, rows: FloatArray) -> FloatArray:
    expanded = transformer.transform(rows)
    if hasattr(expanded, "toarray"):
        expanded = expanded.toarray()
    expanded = np.asarray(expanded, dtype=np.float64)
    if expanded.ndim != 2 or len(expanded) != len(rows):
        raise ValueError(
            f"expansion must return a two-dimensional array with one row for each input row; "
            f"{type(transformer).__name__} returned shape {expanded.shape} for input of shape {rows.shape}."
        )
    if not np.isfinite(expanded).all():
        raise ValueError(
            f"expansion returned values that are not finite: {type(transformer).__name__} overflows on these "
            f"data. Scale the columns first, for example by a pipeline of StandardScaler and the expansion."
        )
    return expanded


# ---- the linear map of slow feature estimators: fit from moments, transform and inverse


def set_linear_attributes(
    estimator: Any,
    moments: Moments | GraphMoments,
    expander: Expander,
    *,
    lag: int = 1,
    directions: SlowDirections | None = None,
) -> None:
    """Compute the slow directions from moments, and set the fitted attributes.

    Parameters
    ----------
    estimator : SFA or GraphSFA
        Its `n_components` and `rank_tol` are used.
    moments : Moments or GraphMoments
        Moments of the expanded training rows.
    expander : Expander
        The fitted expansion, or the identity.
    lag : int, default=1
        Lag of the differences, in rows.
    directions : SlowDirections, optional
        The slow directions; computed from `moments` by default.

    Raises
    ------
    RankError
        If there are fewer directions than components; the estimator is then unchanged.
    """
    if directions is None:
        directions = slow_directions(
            moments.difference_moment,
            moments.covariance,
            estimator.n_components,
            estimator.rank_tol,
            variance_floor=moments.variance_floor,
        )
    estimator.moments_ = moments
    estimator.mean_ = moments.mean
    estimator.components_ = np.ascontiguousarray(directions.weights.T)
    estimator.loadings_ = directions.loadings
    estimator.delta_values_ = directions.delta_values
    estimator.timescales_ = timescale(directions.delta_values, lag=lag)
    estimator.rank_ = directions.rank
    estimator.expansion_ = expander.transformer


def transform_rows(
    values: FloatArray, expander: Expander, mean: FloatArray, components: FloatArray
) -> FloatArray:
    """Return ``(h(x) - mean) @ components.T`` (N, K), computed in blocks of rows."""
    outputs = np.empty((len(values), len(components)), dtype=np.float64)
    size = block_rows(len(mean))
    for start in range(0, len(values), size):
        rows = expander(values[start : start + size])
        outputs[start : start + size] = (rows - mean) @ components.T
    return outputs


# ---- a test of overfitting by cross-validation
#
# Outputs of a flexible expansion can be slow on the training rows for any data, also for noise. Rows are
# therefore divided into consecutive folds. Each fold is held out once, and its delta values are compared with
# those of the training rows.


_N_FOLDS = 5
# Minimum mean square of an output on a fold, relative to its variance over the training rows.
_MIN_MEAN_SQUARE = 0.1
# The delta value of n rows of white noise has mean 2 and standard deviation 2 / sqrt(n). The threshold of
# `noise_delta` is two standard deviations below the mean, but at least 1.0 and at most 1.8.
_MAX_NOISE_DELTA, _MIN_NOISE_DELTA, _N_STANDARD_DEVIATIONS = 1.8, 1.0, 2.0
# An output overfits if its time scale on held-out rows is below a quarter of its time scale on training rows
# and below 3 rows.
_MAX_TIMESCALE_RATIO, _MAX_SHORT_TIMESCALE = 1 / 4, 3.0
# With more rows for each direction there is no test: the smallest delta value of white noise on its training
# rows is then about 1.4 or more, which is not slow.
_ROWS_PER_DIRECTION = 20
_MAX_DIRECTIONS = 300  # at a higher rank, two folds are held out instead of five


def split_into_folds(lengths: tuple[int, ...], n_folds: int = _N_FOLDS) -> list[slice]:
    """Divide rows into consecutive folds of about equal length.

    Parameters
    ----------
    lengths : tuple of int
        Rows of every sequence. A fold boundary is moved to the nearest start of a sequence if the distance is
        at most a quarter of a fold.
    n_folds : int, default=5
        Number of folds; fewer if there are fewer rows.

    Returns
    -------
    list of slice

    Examples
    --------
    >>> split_into_folds((40, 60), 2)
    [slice(0, 40, None), slice(40, 100, None)]
    """
    n = sum(lengths)
    n_folds = min(n_folds, n)
    starts = np.cumsum([0, *lengths])
    boundaries = [0]
    for boundary in np.linspace(0, n, n_folds + 1)[1:-1]:
        nearest = int(starts[np.argmin(np.abs(starts - boundary))])
        fold_boundary = nearest if abs(nearest - boundary) <= n / n_folds / 4 else int(round(boundary))
        if fold_boundary > boundaries[-1]:
            boundaries.append(fold_boundary)
    if boundaries[-1] < n:
        boundaries.append(n)
    return [slice(a, b) for a, b in zip(boundaries[:-1], boundaries[1:], strict=True)]


def held_out_delta(changes: ArrayLike, squares: ArrayLike) -> FloatArray:
    """Return the delta values of outputs on held-out rows, averaged over folds.

    Parameters
    ----------
    changes : array-like (F, ...)
        Mean squared change of every output on each fold.
    squares : array-like (F, ...)
        Mean square of every output on each fold, about its mean over the *training* rows. The mean of the
        fold is not subtracted, because the variance of very slow outputs within a fold is small.

    Notes
    -----
    An output of a narrow kernel may be nearly zero on a fold, which makes its delta value random. The result
    is therefore computed as if white noise increased the mean square to a tenth of the training variance.
    """
    changes, squares = np.asarray(changes, dtype=np.float64), np.asarray(squares, dtype=np.float64)
    added_variance = np.maximum(_MIN_MEAN_SQUARE - squares, 0.0)
    deltas: FloatArray = ((changes + 2.0 * added_variance) / (squares + added_variance)).mean(axis=0)
    return deltas


def noise_delta(n_rows: int) -> float:
    """Return the delta value above which `n_rows` values of an output are not slower than white noise."""
    return float(
        np.clip(2.0 - 2.0 * _N_STANDARD_DEVIATIONS / np.sqrt(n_rows), _MIN_NOISE_DELTA, _MAX_NOISE_DELTA)
    )


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
    """Warn if the slowest outputs of expanded rows are not slow on held-out rows.

    Parameters
    ----------
    sequences : Sequences
        Training rows before the expansion.
    expander : Expander
        Expansion that was fitted to all rows of `sequences`.
    training : ndarray (K,)
        Delta values of the K slowest outputs over the training rows.
    rank : int
        Rank of the expanded rows. The check is skipped for more than 20 rows per dimension, because
        overfitting is then small. It is also skipped for fewer rows than dimensions, because any output can
        then be fitted.
    lag, rank_tol
        Parameters of the estimator.
    skip_incomplete : bool, default=False
        Whether rows with missing values are skipped.
    remedy, stacklevel
        As in :func:`warn_of_overfitting`.
    """
    if not _requires_test(rank, sequences.n_rows):
        return
    folds = split_into_folds(sequences.lengths)
    moments = [_moments(_rows_of_fold(sequences, fold), expander, lag, skip_incomplete) for fold in folds]

    def evaluate(index: int) -> tuple[FloatArray, FloatArray, int]:
        held_out, train = moments[index], Moments.empty(expander.n_features_out, lag)
        for number, part in enumerate(moments):
            if number != index:
                train = train.merge(part)
        W = slow_directions(
            train.difference_moment,
            train.covariance,
            len(training),
            rank_tol,
            variance_floor=train.variance_floor,
        ).weights
        change = np.sum(W * (held_out.difference_moment @ W), axis=0)
        square = np.sum(W * (held_out.covariance @ W), axis=0) + ((held_out.mean - train.mean) @ W) ** 2
        return change, square, held_out.n_rows

    _warn_by_folds(_tested_folds(folds, rank), evaluate, training, remedy, stacklevel=stacklevel + 1)


def check_overfitting_by_refits(
    sequences: Sequences,
    refit: Callable[[Sequences], Callable[[FloatArray], FloatArray]],
    training: FloatArray,
    rank: int,
    *,
    lag: int,
    remedy: str,
    stacklevel: int,
) -> None:
    """Warn like :func:`check_overfitting`, for an estimator that must be fitted again for each fold.

    Parameters
    ----------
    sequences : Sequences
        Training rows.
    refit : callable
        ``refit(train)`` fits the estimator to other sequences and returns a function from rows (N, D) to
        outputs (N, K).
    training, rank, lag, remedy, stacklevel
        As in :func:`check_overfitting`.
    """
    if not _requires_test(rank, sequences.n_rows):
        return
    folds = split_into_folds(sequences.lengths)
    parts = [_rows_of_fold(sequences, fold) for fold in folds]

    def evaluate(index: int) -> tuple[FloatArray, FloatArray, int]:
        others = [part for number, part in enumerate(parts) if number != index]
        train = Sequences(
            np.concatenate([part.values for part in others]),
            tuple(length for part in others for length in part.lengths),
        )
        outputs = refit(train)
        training_outputs, held_out_outputs = outputs(train.values), outputs(parts[index].values)
        scale = training_outputs.std(axis=0)
        scaled = (held_out_outputs - training_outputs.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
        identity = Expander(None, scaled.shape[1])
        moments = _moments(replace(parts[index], values=scaled), identity, lag, False)
        square = np.diag(moments.covariance) + moments.mean**2
        return np.diag(moments.difference_moment), square, moments.n_rows

    _warn_by_folds(_tested_folds(folds, rank), evaluate, training, remedy, stacklevel=stacklevel + 1)


def _warn_by_folds(
    folds: list[int],
    evaluate: Callable[[int], tuple[FloatArray, FloatArray, int]],
    training: FloatArray,
    remedy: str,
    *,
    stacklevel: int,
) -> None:
    """Warn of outputs that are not slow on held-out folds.

    ``evaluate(index)`` returns mean squared differences (K,) and mean squares (K,) of the outputs on a fold
    that is held out, and its number of rows.
    """
    changes, squares, n_rows = [], [], 0
    for index in folds:
        try:
            change, square, n_fold_rows = evaluate(index)
        except (RankError, ValueError):  # rows of too little variation, or too few for a difference
            continue
        changes.append(change)
        squares.append(square)
        n_rows += n_fold_rows
    if changes:
        held_out = held_out_delta(changes, squares)
        warn_of_overfitting(training, held_out, n_rows, remedy, stacklevel=stacklevel + 1)


def _requires_test(rank: int, n_rows: int) -> bool:
    return rank < n_rows - 1 < _ROWS_PER_DIRECTION * rank


def _tested_folds(folds: list[slice], rank: int) -> list[int]:
    """Return the indices of the folds that are held out in turn."""
    return list(range(len(folds))) if rank <= _MAX_DIRECTIONS else [0, len(folds) // 2]


def warn_of_overfitting(
    training: FloatArray, held_out: FloatArray, n_rows: int, remedy: str, *, stacklevel: int
) -> None:
    """Warn of the first output whose delta value is much larger on held-out rows than on training rows.

    Parameters
    ----------
    training, held_out : ndarray (K,)
        Delta values.
    n_rows : int
        Number of held-out rows.
    remedy : str
        Advice: "Use ...".
    stacklevel : int
        As in :func:`warnings.warn`.
    """
    is_noise = held_out > noise_delta(n_rows)
    is_noise[1:] &= held_out[1:] > training[1:]  # an output as fast in training does not overfit
    held_out_timescales = np.nan_to_num(timescale(held_out))
    is_faster = (held_out_timescales < _MAX_TIMESCALE_RATIO * timescale(training)) & (
        held_out_timescales < _MAX_SHORT_TIMESCALE
    )
    if not (is_noise | is_faster).any():
        return
    j = int(np.argmax(is_noise | is_faster))
    comparison = "is no slower than white noise" if is_noise[j] else "changes much faster than in training"
    warnings.warn(
        f"Output {j} {comparison} on held-out rows: its delta value is {held_out[j]:.3g} there and "
        f"{training[j]:.3g} on the training rows. {remedy}",
        stacklevel=stacklevel + 1,
    )


def _rows_of_fold(sequences: Sequences, fold: slice) -> Sequences:
    """Return the rows of a fold, divided into sequences."""
    starts = np.cumsum([0, *sequences.lengths])
    boundaries = np.unique(np.clip(starts, fold.start, fold.stop))
    return Sequences(sequences.values[fold], tuple(np.diff(boundaries).tolist()))


def _moments(sequences: Sequences, expander: Expander, lag: int, skip_incomplete: bool) -> Moments:
    stream = MomentStream.start(expander.n_features_out, lag)
    return extend_stream(stream, sequences, expander, skip_incomplete=skip_incomplete).moments
