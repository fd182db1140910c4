"""Scores: slowness of features, agreement of components, error and coverage of predictions.

Slowness of an output ``y`` with the lag ``h`` (Wiskott & Sejnowski 2002, doi:10.1162/089976602317318938)::

    delta = <(y(t+h) - y(t))^2> / var(y)          0: constant in time; 2: white noise; 4: alternating
    eta   = T / (2 pi h) sqrt(delta)              periods in T rows of a slow sine with this delta
    timescale = -h / log(1 - delta / 2)           rows until the correlation has fallen to 1/e

The time scale is that of an AR(1) process with autocorrelation ``1 - delta/2`` at lag ``h``.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.special
from numpy.typing import ArrayLike, NDArray

from probsfa._arrays import as_float_array
from probsfa._typing import FloatArray
from probsfa.graphs._named import is_slow_feature_analysis

__all__ = [
    "Alignment",
    "align_components",
    "coverage",
    "delta_value",
    "eta_value",
    "mae",
    "principal_angles",
    "rmse",
    "slowness",
    "timescale",
]


def delta_value(y: Any, *, lag: int = 1, lengths: Sequence[int] | None = None) -> Any:
    """Return the delta value of each column: the mean squared difference over the variance.

    Parameters
    ----------
    y : array-like (T,) or (T, K), or list of such
        Signals; a list is several sequences. Differences that involve a NaN are omitted.
    lag : int, default=1
        Lag of the differences, in rows.
    lengths : sequence of int, optional
        Lengths of consecutive sequences in one array; there are no differences between sequences.

    Returns
    -------
    float or ndarray (K,)
        Between 0 and about 4; NaN for constant signals, or without observed differences.

    Raises
    ------
    ValueError
        If there is no pair of rows `lag` apart, or the lengths do not sum to the number of rows.

    See Also
    --------
    eta_value : Slowness as a number of periods.
    timescale : Slowness as a time scale.

    Examples
    --------
    >>> delta_value([1.0, -1.0, 1.0, -1.0])
    4.0
    """
    pieces = _sequences(y, lengths)
    if lag < 1 or all(len(piece) <= lag for piece in pieces):
        raise ValueError(f"lag must be at least 1 and smaller than the length of a sequence; got {lag}.")
    rows = np.concatenate(pieces)
    changes = np.concatenate([piece[lag:] - piece[:-lag] for piece in pieces if len(piece) > lag])
    first_values = np.take_along_axis(rows, np.argmax(~np.isnan(rows), axis=0)[None], axis=0)
    rows = rows - first_values  # a constant signal then has a variance of exactly zero
    variance = _observed_mean((rows - _observed_mean(rows)) ** 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        delta = _observed_mean(changes**2) / np.where(variance > 0, variance, np.nan)
    return float(delta) if delta.ndim == 0 else delta


def eta_value(y: Any, *, lag: int = 1, lengths: Sequence[int] | None = None) -> Any:
    """Return the number of periods, over all rows, of a slow sine with the delta value of the signal.

    Parameters
    ----------
    y : array-like (T,) or (T, K), or list of such
        Signals; a list is several sequences.
    lag : int, default=1
        Lag of the differences, in rows.
    lengths : sequence of int, optional
        Lengths of consecutive sequences in one array.

    Returns
    -------
    float or ndarray (K,)
        ``T / (2 pi lag) sqrt(delta)``.

    Raises
    ------
    ValueError
        As :func:`delta_value` does.

    See Also
    --------
    delta_value : Mean squared difference divided by the variance.

    Examples
    --------
    >>> import numpy as np
    >>> eta = eta_value(np.cos(np.linspace(0, 2 * np.pi * 4, 1000)))
    >>> round(eta, 4)
    4.0019
    """
    n_rows = sum(len(piece) for piece in _sequences(y, lengths))
    eta = n_rows / (2 * np.pi * lag) * np.sqrt(delta_value(y, lag=lag, lengths=lengths))
    return float(eta) if np.ndim(eta) == 0 else eta


def timescale(delta: ArrayLike, *, lag: int = 1) -> Any:
    """Return the time scale of an AR(1) process with a given delta value.

    Parameters
    ----------
    delta : array-like
        Delta values at the lag `lag`.
    lag : int, default=1
        Lag of the differences, in rows.

    Returns
    -------
    float or ndarray
        ``-lag / log(1 - delta/2)``, in rows; infinite for 0, and NaN for 2 and above, where the correlation
        is not positive.

    See Also
    --------
    delta_value : Delta values of signals.

    Examples
    --------
    >>> timescale([0.2, 0.02]).round(2)  # the correlations are 0.9 and 0.99
    array([ 9.49, 99.5 ])
    """
    delta = as_float_array(delta, "delta")
    with np.errstate(divide="ignore", invalid="ignore"):
        tau = -lag / np.log1p(-np.where(delta < 2, delta, np.nan) / 2)
    return np.where(delta == 0, np.inf, tau)[()]


def slowness(estimator: Any, X: Any, y: Any = None) -> float:
    """Return the slowness of the outputs of a fitted estimator on held-out data.

    Use it as ``scoring=`` in scikit-learn's model selection, with contiguous splits such as
    :class:`probsfa.model_selection.TrajectorySplit`. Outputs are scaled to unit variance on `X`.

    Parameters
    ----------
    estimator : fitted estimator
        An estimator with ``transform``; its attribute ``lag`` is used if it has one. If it has a training
        graph that is not temporal, the result is its ``score``: slowness along the edges of the graph. For a
        pipeline, lag and graph are those of the last step.
    X : array-like (T, D) or list of array-likes
        Data to transform.
    y : array-like, optional
        Labels, if the graph is built from them.

    Returns
    -------
    float
        Negative mean delta value of the outputs: larger is slower.

    See Also
    --------
    delta_value : Delta values of signals.

    Examples
    --------
    >>> from probsfa import SFA
    >>> phase = np.linspace(0.0, 20.0, 400)
    >>> X = np.column_stack([np.sin(phase) + np.sin(9.0 * phase), np.sin(9.0 * phase)])
    >>> slowness(SFA(1).fit(X[:300]), X[300:]) > slowness(SFA(2).fit(X[:300]), X[300:])
    True
    """
    final_step = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    graph = getattr(final_step, "graph", None)
    if not is_slow_feature_analysis(graph) and hasattr(final_step, "score"):
        return float(estimator.score(X, y))
    outputs = estimator.transform(X)
    deltas = np.asarray(delta_value(outputs, lag=getattr(final_step, "lag", 1)))
    return -float(np.mean(deltas))


def rmse(
    truth: ArrayLike, estimate: ArrayLike, *, mask: ArrayLike | None = None, scale: ArrayLike | None = None
) -> float:
    """Return the root mean squared error over values that are present in both arrays.

    Parameters
    ----------
    truth, estimate : array-like, same shape
        True values and their estimates; positions where either is missing are omitted.
    mask : array-like of bool, optional
        True for the values to use; by default all are used.
    scale : array-like, optional
        Positive divisors of the errors, such as the standard deviation of each column.

    Returns
    -------
    float
        In the units of `truth`; with `scale`, in multiples of `scale`.

    Raises
    ------
    ValueError
        If the shapes differ, a scale is not positive, or no value can be compared.

    See Also
    --------
    mae : Mean absolute error, which is less sensitive to large errors.
    coverage : Coverage of prediction intervals.

    Examples
    --------
    >>> rmse([0.0, 3.0, np.nan], [0.0, 0.0, 7.0], mask=[False, True, True])
    3.0
    """
    return float(np.sqrt(np.mean(_errors(truth, estimate, mask, scale) ** 2)))


def mae(
    truth: ArrayLike, estimate: ArrayLike, *, mask: ArrayLike | None = None, scale: ArrayLike | None = None
) -> float:
    """Return the mean absolute error over values that are present in both arrays.

    Parameters
    ----------
    truth, estimate : array-like, same shape
        True values and their estimates; positions where either is missing are omitted.
    mask : array-like of bool, optional
        True for the values to use; by default all are used.
    scale : array-like, optional
        Positive divisors of the errors, such as the standard deviation of each column.

    Returns
    -------
    float
        In the units of `truth`; with `scale`, in multiples of `scale`.

    Raises
    ------
    ValueError
        If the shapes differ, a scale is not positive, or no value can be compared.

    See Also
    --------
    rmse : The root of the mean squared error.

    Examples
    --------
    >>> mae([[1.0, 10.0], [2.0, 20.0]], [[1.0, 10.0], [4.0, 20.0]], scale=[0.5, 5.0])
    1.0
    """
    return float(np.mean(np.abs(_errors(truth, estimate, mask, scale))))


def coverage(
    truth: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    level: float = 0.9,
    *,
    mask: ArrayLike | None = None,
) -> float:
    """Return the fraction of true values inside central normal intervals.

    Parameters
    ----------
    truth, mean, std : array-like, same shape
        True values, predictive means and standard deviations; entries where any is missing are omitted.
    level : float, default=0.9
        Nominal probability of the interval, between 0 and 1; the coverage of calibrated intervals is close to
        this probability.
    mask : array-like of bool, optional
        True for the values to use; by default all are used.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If the shapes differ, a standard deviation is negative, `level` is out of range, or no value can be
        compared.

    See Also
    --------
    rmse : Error of the means.

    Examples
    --------
    >>> coverage([0.0, 1.0, 2.0, 3.0], np.zeros(4), np.ones(4), level=0.9)
    0.5
    """
    truth, mean, std = _same_shape(truth=truth, mean=mean, std=std)
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1; got {level}.")
    if (std < 0).any():
        raise ValueError("std must not be negative.")
    is_scored = _is_scored(mask, truth=truth, mean=mean, std=std)
    width = scipy.special.ndtri((1 + level) / 2)
    return float(np.mean(np.abs(truth - mean)[is_scored] <= width * std[is_scored]))


class Alignment(NamedTuple):
    """Assignment of estimated components to reference components, with signs.

    Attributes
    ----------
    permutation : ndarray (K,) of int
        ``permutation[k]`` is the column of the estimate that matches column k of the reference.
    signs : ndarray (K,)
        +1 or -1.
    correlations : ndarray (K,)
        Correlations after alignment, not negative.
    """

    permutation: NDArray[np.intp]
    signs: FloatArray
    correlations: FloatArray

    def apply(self, estimate: ArrayLike) -> FloatArray:
        """Return the columns of the estimate in the order and with the signs of the reference."""
        aligned: FloatArray = as_float_array(estimate, "estimate")[..., self.permutation] * self.signs
        return aligned


def align_components(estimate: ArrayLike, reference: ArrayLike) -> Alignment:
    """Find the signed permutation that matches estimated components to reference components.

    Parameters
    ----------
    estimate : array-like (T, K') with K' >= K
        Components in any order, each up to sign.
    reference : array-like (T, K)
        Reference components. Rows with a NaN in either array are omitted.

    Returns
    -------
    Alignment
        The assignment with the largest sum of absolute correlations (Hungarian method).

    Raises
    ------
    ValueError
        If the numbers of rows differ, `estimate` has fewer columns than `reference`, or fewer than two rows
        are complete.

    See Also
    --------
    principal_angles : Angles between the spaces that components span, which do not depend on order and signs.

    Examples
    --------
    >>> import numpy as np
    >>> truth = np.random.default_rng(0).standard_normal((50, 2))
    >>> alignment = align_components(-truth[:, ::-1], truth)
    >>> alignment.permutation, alignment.signs
    (array([1, 0]), array([-1., -1.]))
    """
    Y, Z = as_float_array(estimate, "estimate"), as_float_array(reference, "reference")
    if Y.ndim != 2 or Z.ndim != 2 or len(Y) != len(Z) or Y.shape[1] < Z.shape[1]:
        raise ValueError(
            "estimate and reference must be (T, K') and (T, K) with the same rows and K' >= K; "
            f"got {Y.shape} and {Z.shape}."
        )
    complete = ~(np.isnan(Y).any(axis=1) | np.isnan(Z).any(axis=1))
    if complete.sum() < 2:
        raise ValueError("estimate and reference have fewer than two complete rows in common.")
    correlations = _standardize(Z[complete]).T @ _standardize(Y[complete])
    rows, columns = scipy.optimize.linear_sum_assignment(-np.abs(correlations))
    matched = correlations[rows, columns]
    return Alignment(columns, np.where(matched < 0, -1.0, 1.0), np.abs(matched))


def principal_angles(first: ArrayLike, second: ArrayLike) -> FloatArray:
    """Return the angles between the spaces spanned by the columns of two matrices.

    Parameters
    ----------
    first, second : array-like (N, K) and (N, L)
        Matrices of full column rank, for example directions (D, K) or centred outputs (T, K).

    Returns
    -------
    ndarray (min(K, L),)
        Angles in radians, ascending. Small angles are also accurate (Knyazev & Argentati 2002, SIAM J. Sci.
        Comput. 23:2008).

    Raises
    ------
    ValueError
        If the matrices do not have the same number of rows.

    See Also
    --------
    align_components : Matching of single components.

    Examples
    --------
    >>> import numpy as np
    >>> principal_angles(np.eye(3)[:, :1], np.eye(3)[:, :2])
    array([0.])
    """
    A, B = as_float_array(first, "first"), as_float_array(second, "second")
    if A.ndim != 2 or B.ndim != 2 or len(A) != len(B):
        raise ValueError(
            f"first and second must be matrices with the same number of rows; got {A.shape} and {B.shape}."
        )
    angles: FloatArray = scipy.linalg.subspace_angles(A, B)[::-1]
    return angles


def _sequences(y: Any, lengths: Sequence[int] | None) -> list[FloatArray]:
    if isinstance(y, list) and all(hasattr(piece, "shape") and len(piece.shape) > 0 for piece in y):
        if lengths is not None:
            raise ValueError("lengths cannot be given when y is a list of sequences.")
        return [as_float_array(piece, f"y[{i}]") for i, piece in enumerate(y)]
    array = as_float_array(y, "y")
    if lengths is None:
        return [array]
    if sum(lengths) != len(array):
        raise ValueError(f"lengths must sum to the {len(array)} rows of y; they sum to {sum(lengths)}.")
    return np.split(array, np.cumsum(lengths)[:-1])


def _observed_mean(values: FloatArray) -> FloatArray:
    """Return the mean of each column without NaN; NaN for columns without values."""
    observed = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        mean: FloatArray = np.where(observed, values, 0.0).sum(axis=0) / observed.sum(axis=0)
    return mean


def _errors(
    truth: ArrayLike, estimate: ArrayLike, mask: ArrayLike | None, scale: ArrayLike | None
) -> FloatArray:
    """Return the differences of values that are present in both arrays, one-dimensional."""
    truth, estimate = _same_shape(truth=truth, estimate=estimate)
    is_scored = _is_scored(mask, truth=truth, estimate=estimate)
    errors: FloatArray = (estimate - truth)[is_scored]
    if scale is None:
        return errors
    scale = np.broadcast_to(as_float_array(scale, "scale"), truth.shape)[is_scored]
    if not (scale > 0).all():
        raise ValueError("scale must be positive. Remove constant columns.")
    return errors / scale


def _is_scored(mask: ArrayLike | None, **arrays: FloatArray) -> NDArray[np.bool_]:
    """Return where the mask is True and no array is NaN; raise an error if there is no such position."""
    has_values = ~np.any([np.isnan(array) for array in arrays.values()], axis=0)
    selected = _selected(mask, has_values.shape)
    is_scored: NDArray[np.bool_] = has_values & selected
    if is_scored.any():
        return is_scored
    *names, last = arrays
    names_text = f"{', '.join(names)} and {last}"
    if has_values.size == 0:
        raise ValueError(f"{names_text} are empty; at least one value is required.")
    if not selected.any():
        raise ValueError("mask is False at every position; at least one must be True.")
    where = "at every position" if selected.all() else "at every position where mask is True,"
    raise ValueError(f"{names_text} have no value in common: {where} at least one is NaN.")


def _selected(mask: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return the mask, broadcast to a shape; masked entries of NumPy masked arrays are False."""
    if mask is None:
        return np.ones(shape, dtype=bool)
    return np.broadcast_to(np.asarray(np.ma.filled(mask, False), dtype=bool), shape)


def _same_shape(**arrays: ArrayLike) -> list[FloatArray]:
    checked = [as_float_array(array, name) for name, array in arrays.items()]
    if len({a.shape for a in checked}) > 1:
        shapes = ", ".join(f"{name} {a.shape}" for name, a in zip(arrays, checked, strict=True))
        raise ValueError(f"The arrays must have the same shape; got {shapes}.")
    return checked


def _standardize(Y: FloatArray) -> FloatArray:
    """Return columns with mean zero and norm one; constant columns are zero."""
    centred = Y - Y.mean(axis=0)
    norms = np.linalg.norm(centred, axis=0)
    standard: FloatArray = centred / np.where(norms > 0, norms, 1.0)
    return standard
