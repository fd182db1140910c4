"""Statistics of control charts, and contributions of columns.

Every statistic is the squared norm ``|v_t|^2`` of a vector that is linear in the row ``x_t``. The *reduction*
by a column is the decrease of the statistic if the value of this column is replaced by the value that
minimizes the statistic (reconstruction-based contributions, Alcala & Qin 2009). With the derivative ``b`` of
``v`` with respect to the value of the column, the minimum is ::

    min over c of |v - b c|^2 = |v|^2 - (b' v)^2 / (b' b)

*Slow features* ``y = W (x - mu)`` of unit variance, with delta values ``delta`` (Shang, Yang, Gao, Huang,
Suykens & Huang 2015)::

    T2 = sum y_k^2        S2 = sum (y_k,t - y_k,t-lag)^2 / delta_k

over the slow features; "T2 fast" and "S2 fast" are the sums over the other features. The residual is the
squared reconstruction error, divided by the variances of the columns.

*The probabilistic model.* The factors have the prior covariance ``I`` (identity), the transition matrix
``A``, filtered means ``m_t`` and filtered covariances ``P_t``. Under the model ``Cov(m_t) = I - P_t`` and
``Cov(m_t, m_t-1) = A (I - P_t-1)``, so that ::

    T2 = m_t' (I - P_t)^-1 m_t        S2 = (m_t - m_t-1)' Cov(m_t - m_t-1)^-1 (m_t - m_t-1)

have chi-squared distributions for any pattern of missing values. The residual, the squared Mahalanobis
distance of the observed values of a row from their one-step prediction, also has a chi-squared distribution.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import BoolArray, FloatArray
from probsfa.statespace.filtering import FilterResult, gains, row_errors, transition_matrices
from probsfa.statespace.parameters import StateSpace

__all__ = [
    "Chart",
    "count_slow_factors",
    "count_slower_features",
    "factor_charts",
    "slow_feature_charts",
    "convert_degrees_of_freedom",
]

# Directions of the filtered means with smaller variance are omitted; the observations do not determine them.
_MIN_VARIANCE = 1e-9


class Chart(NamedTuple):
    """A statistic over the rows of a sequence.

    Attributes
    ----------
    values : ndarray of shape (T,)
        The statistic; NaN if it is not defined.
    reductions : callable
        Function that returns the reduction (T, D) of the statistic by each value; zero where missing.
    """

    values: FloatArray
    reductions: Callable[[], FloatArray]


def count_slower_features(delta_values: FloatArray, column_delta_values: FloatArray) -> int:
    """Return the number of features slower than the fastest column (Shang et al. 2015), at least one."""
    return max(1, int(np.count_nonzero(delta_values <= np.max(column_delta_values))))


def count_slow_factors(params: StateSpace) -> int:
    """Return the number of AR(1) factors slower than the fastest column under the model."""
    loaded = params.loadings[:, : params.n_components] ** 2
    delta = 2.0 * (1.0 - params.decay)
    # Stochastic cycles and smooth factors are treated as slow: their differences are neglected.
    other_variance = np.sum(params.loadings[:, params.n_components :] ** 2, axis=1)
    ar1_noise = np.zeros(params.n_features) if not params.has_ar1_noise else params.noise_scale**2
    ar1_delta = np.zeros(params.n_features) if not params.has_ar1_noise else 2.0 * (1.0 - params.noise_decay)
    variance = loaded.sum(axis=1) + other_variance + ar1_noise + params.noise_variance
    # The mean squared difference of white noise is twice its variance.
    change = loaded @ delta + ar1_noise * ar1_delta + 2.0 * params.noise_variance
    return count_slower_features(delta, change / variance)


def slow_feature_charts(
    model: Any, features: FloatArray, values: FloatArray, n_slow: int
) -> dict[str, Chart]:
    """Compute the statistics of one sequence by linear slow feature analysis.

    Parameters
    ----------
    model : SFA
        The fitted estimator.
    features : ndarray of shape (T, K)
        Slow features; NaN for incomplete rows, which have no statistic.
    values : ndarray of shape (T, D)
        The rows.
    n_slow : int
        Number of slow features.

    Returns
    -------
    dict of Chart
        ``"T2"`` and ``"S2"`` of the slow features, ``"T2 fast"`` and ``"S2 fast"`` of other features, and
        ``"residual"`` if there are fewer features than the rank of the training rows.
    """
    changes = np.full_like(features, np.nan)
    changes[model.lag :] = features[model.lag :] - features[: -model.lag]
    changes = changes / np.sqrt(np.maximum(model.delta_values_, np.finfo(float).tiny))
    weights = None if model.expansion_ is not None else model.components_
    charts = {}
    for name, columns in (("", slice(0, n_slow)), (" fast", slice(n_slow, None))):
        if features[:, columns].shape[1] == 0:
            continue
        response = None if weights is None else weights[columns]
        charts["T2" + name] = _chart(features[:, columns], response)
        if response is not None:
            response = response / np.sqrt(
                np.maximum(model.delta_values_[columns, None], np.finfo(float).tiny)
            )
        charts["S2" + name] = _chart(changes[:, columns], response)
    if weights is not None and len(weights) < model.rank_:
        scale = np.sqrt(np.diagonal(model.moments_.covariance))
        units = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)
        response = units[:, None] * (np.eye(len(scale)) - model.loadings_ @ weights)
        charts["residual"] = _chart((values - model.mean_) @ response.T, response)
    return {name: charts[name] for name in sorted(charts, key=_ORDER.index)}


_ORDER = ["T2", "T2 fast", "S2", "S2 fast", "residual"]


def factor_charts(result: FilterResult, slow: BoolArray, missing: BoolArray) -> dict[str, Chart]:
    """Compute the statistics of one sequence by the probabilistic model.

    Parameters
    ----------
    result : FilterResult
        Filtered distributions of the factors of a sequence.
    slow : ndarray of bool of shape (K,)
        Which states are slow.
    missing : ndarray of bool of shape (T,)
        Rows without observations, which have no statistic.

    Returns
    -------
    dict of Chart
        As from :func:`slow_feature_charts`, always with ``"residual"``.
    """
    mean_covariances = np.eye(len(slow)) - result.covariances
    step = transition_matrices(result)
    previous_covariances = np.concatenate([np.zeros_like(mean_covariances[:1]), mean_covariances[:-1]])
    cross_covariances = step @ previous_covariances
    change_covariances = (
        mean_covariances + previous_covariances - cross_covariances - np.swapaxes(cross_covariances, 1, 2)
    )
    means = result.means
    changes = means - np.concatenate([np.zeros_like(means[:1]), means[:-1]])
    changes[0] = np.nan
    gain = gains(result)
    charts = {}
    for name, columns in (("", np.flatnonzero(slow)), (" fast", np.flatnonzero(~slow))):
        if columns.size == 0:
            continue
        for statistic, vectors, all_covariances in (
            ("T2", means, mean_covariances),
            ("S2", changes, change_covariances),
        ):
            covariances = all_covariances[:, columns[:, None], columns]
            charts[statistic + name] = _mahalanobis_chart(
                vectors[:, columns], covariances, gain[:, columns], missing
            )
    errors = row_errors(result)
    d = errors.value_errors.shape[1]
    charts["residual"] = Chart(
        convert_degrees_of_freedom(errors.distances, errors.n_values, d),
        lambda: np.nan_to_num(errors.value_errors) ** 2,
    )
    return {name: charts[name] for name in sorted(charts, key=_ORDER.index)}


def convert_degrees_of_freedom(values: FloatArray, degrees: NDArray[Any], target_degrees: int) -> FloatArray:
    """Map chi-squared values to other degrees of freedom with the same tail probability.

    The cube-root approximation of Wilson & Hilferty (1931) is used, which is monotone and accurate in the
    tail. Values that have the target degrees are unchanged; the result for zero degrees is NaN.
    """
    safe_degrees = np.maximum(degrees, 1).astype(np.float64)
    source_variance = 2.0 / (9.0 * safe_degrees)
    score = (np.cbrt(np.maximum(values, 0.0) / safe_degrees) - (1.0 - source_variance)) / np.sqrt(
        source_variance
    )
    target_variance = 2.0 / (9.0 * target_degrees)
    scaled = target_degrees * np.maximum(1.0 - target_variance + score * np.sqrt(target_variance), 0.0) ** 3
    return np.where(degrees == target_degrees, values, np.where(degrees > 0, scaled, np.nan))


def _chart(vectors: FloatArray, response: FloatArray | None) -> Chart:
    """Return a chart of squared norms of vectors (T, F).

    `response` (F, D) has their derivatives with respect to the columns; None for nonlinear features.
    """

    def reductions() -> FloatArray:
        if response is None:
            raise ValueError(
                "contributions require features that are linear in the columns; use no expansion."
            )
        squared_norms = np.sum(response**2, axis=0)
        squared_projections = (vectors @ response) ** 2
        return np.divide(
            squared_projections,
            squared_norms,
            out=np.zeros_like(squared_projections),
            where=squared_norms > 0.0,
        )

    return Chart(np.sum(vectors**2, axis=1), reductions)


def _mahalanobis_chart(
    vectors: FloatArray, covariances: FloatArray, gain: FloatArray, missing: BoolArray
) -> Chart:
    """Return a chart of squared Mahalanobis distances of vectors (T, F).

    `gain` (T, F, D) has the derivatives of the vectors with respect to the columns.
    """
    variance, axes = np.linalg.eigh(covariances)
    is_determined = variance > _MIN_VARIANCE
    scale = np.where(is_determined, 1.0 / np.sqrt(np.where(is_determined, variance, 1.0)), 0.0)
    white = scale[:, :, None] * np.swapaxes(axes, 1, 2)
    whitened = np.einsum("tfk,tk->tf", white, vectors)

    def reductions() -> FloatArray:
        response = white @ gain
        squared_norms = np.sum(response**2, axis=1)
        squared_projections = np.einsum("tf,tfd->td", whitened, response) ** 2
        return np.divide(
            squared_projections,
            squared_norms,
            out=np.zeros_like(squared_projections),
            where=squared_norms > 0.0,
        )

    values = convert_degrees_of_freedom(
        np.sum(whitened**2, axis=1), is_determined.sum(axis=1), vectors.shape[1]
    )
    return Chart(np.where(missing, np.nan, values), reductions)
