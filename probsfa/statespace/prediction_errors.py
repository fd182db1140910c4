"""Standardized prediction errors of values that are left out one at a time, in rows, or in blocks of rows."""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from probsfa._typing import FloatArray
from probsfa.statespace.engine.posterior import observation_moments
from probsfa.statespace.filtering import standardized_errors
from probsfa.statespace.leave_one_out import leave_one_out_moments
from probsfa.statespace.parameters import StateSpace

__all__ = [
    "LEVELS",
    "PredictionErrors",
    "coverage",
    "left_out_errors",
    "left_out_row_moments",
    "left_out_rows",
]

#: Nominal probabilities of the calibration curves.
LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
# If an eigenvalue of ``1 - L' J L`` (see `left_out_row_moments`) is smaller, rounding errors dominate the
# moments of a left-out row.
_MIN_EIGENVALUE = 1e-7


class PredictionErrors(NamedTuple):
    """One-step predictions, and standardized errors by pattern of held-out values.

    Attributes
    ----------
    predictions, prediction_std : ndarray of shape (N, D)
        Means and standard deviations of the observations given the previous rows.
    by_kind : dict of ndarray of shape (M, D)
        Standardized errors of observed values in the ``M`` tested rows, NaN elsewhere. Keys are patterns of
        values that are held out when a value is predicted:

        - ``"one step"``: its row and all later rows
        - ``"cells"``: the value alone
        - ``"rows"``: its row
        - ``"blocks"``: a block of rows of its column
    block : int
        Number of rows of a block.
    """

    predictions: FloatArray
    prediction_std: FloatArray
    by_kind: dict[str, FloatArray]
    block: int


def coverage(errors: FloatArray) -> FloatArray:
    """Return the coverage (P, D) of central normal intervals by column; NaN for columns without errors."""
    observed = ~np.isnan(errors)
    limits = ndtri(0.5 + 0.5 * LEVELS)
    with np.errstate(invalid="ignore"):
        magnitudes = np.where(observed, np.abs(errors), np.inf)
        return np.array([np.sum(magnitudes <= limit, axis=0) / observed.sum(axis=0) for limit in limits])


def left_out_errors(
    values: FloatArray, means: FloatArray, variances: FloatArray, noise_variance: FloatArray
) -> FloatArray:
    """Return standardized leave-one-out errors (T, D) of values.

    Parameters are those of :func:`.leave_one_out_moments`.
    """
    means, variances = leave_one_out_moments(values, means, variances, noise_variance)
    return standardized_errors(values, means, np.sqrt(variances))


def left_out_rows(
    params: StateSpace, values: FloatArray, means: FloatArray, covariances: FloatArray
) -> FloatArray:
    """Return standardized errors of the values of each row given all other rows.

    The row adds ``J = C' R^-1 C`` to the posterior precision of its state, and ``h = C' R^-1 (x - mu)`` to
    the precision times the mean. Without the row, the mean is ``(1 - V J)^-1 (m - V h)`` and the covariance
    ``(1 - V J)^-1 V``, where ``m`` and ``V`` are the posterior mean and covariance.

    Parameters
    ----------
    params : StateSpace
        Parameters for predictions of the observations.
    values : ndarray of shape (T, D)
        Observations, NaN where missing.
    means, covariances : ndarray of shape (T, K) and (T, K, K)
        Moments of the latent states given all rows.

    Returns
    -------
    ndarray of shape (T, D)
        NaN where a value is missing, or where rounding errors dominate.
    """
    means, explained = left_out_row_moments(params, values, means, covariances)
    return standardized_errors(values, means, np.sqrt(explained + params.noise_variance))


def left_out_row_moments(
    params: StateSpace,
    values: FloatArray,
    means: FloatArray,
    covariances: FloatArray,
    weights: FloatArray | float = 1.0,
) -> tuple[FloatArray, FloatArray]:
    """Return means and variances (T, D) of noise-free observed values given all other rows.

    Parameters are those of :func:`left_out_rows`, and the weights (T, D) of the values under Student-t noise.
    The result is NaN where the result of :func:`left_out_rows` is NaN.
    """
    k = means.shape[1]
    has_noise = params.noise_variance > 0.0
    observed = ~np.isnan(values) & has_noise
    precisions = np.where(observed, weights / np.where(has_noise, params.noise_variance, 1.0), 0.0)
    outer_products = (params.loadings[:, :, None] * params.loadings[:, None, :]).reshape(
        params.n_features, k * k
    )
    information = (precisions @ outer_products).reshape(len(precisions), k, k)  # J
    score = (precisions * np.where(observed, values - params.offset, 0.0)) @ params.loadings  # h
    # With V = L L' and the symmetric matrix 1 - L' J L = U S U', (1 - V J)^-1 V = L U S^-1 U' L'.
    variances, axes = np.linalg.eigh(covariances)
    root = axes * np.sqrt(np.maximum(variances, 0.0))[:, None, :]
    transposed = np.swapaxes(root, 1, 2)
    eigenvalues, vectors = np.linalg.eigh(np.eye(k) - transposed @ information @ root)
    is_accurate = np.min(eigenvalues, axis=1, initial=1.0) > _MIN_EIGENVALUE
    eigenvalues = np.where(is_accurate[:, None], eigenvalues, 1.0)
    root_without_row = root @ vectors / np.sqrt(eigenvalues)[:, None, :]
    covariances_without_row = root_without_row @ np.swapaxes(root_without_row, 1, 2)
    # (1 - V J)^-1 y = y + (1 - V J)^-1 V J y.
    shifted = means - np.einsum("tij,tj->ti", covariances, score)
    means_without_row = shifted + np.einsum(
        "tij,tjk,tk->ti", covariances_without_row, information, shifted, optimize=True
    )
    predicted, predicted_variances = observation_moments(params, means_without_row, covariances_without_row)
    explained = predicted_variances - params.noise_variance
    has_result = is_accurate[:, None] & observed
    return np.where(has_result, predicted, np.nan), np.where(has_result, explained, np.nan)
