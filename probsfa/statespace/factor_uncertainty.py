"""Uncertainty of factors that is due to estimated loadings and means.

For any vector ``m`` and matrix ``M``, factors ``z`` and ``m + z + M z`` describe the same observations with
different loadings and means. Only their prior (mean zero, unit variances, different decays) distinguishes
them. A short series has few independent values of a slow factor, so that ``m`` and ``M`` are poorly
determined.

Let ``G = (C' R^-1 C)^-1 C' R^-1`` be the regression of the factors on the observations. Errors ``dC`` of the
loadings and ``d`` of the means change the factors by ``G (dC z + d)``. Let ``y = (z, 1)`` consist of the
posterior means and one, and let ``V_k`` be the covariance of row ``k`` of ``G (dC, d)``. By the delta method,
the variance of factor ``k`` increases by ``y' V_k y``. The covariance is computed from the expected
information of all parameters (Whittle's formula, :mod:`.fisher_metric`).

References
----------
Hamilton (1986), Journal of Econometrics 33:387, doi:10.1016/0304-4076(86)90004-7.
"""

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.statespace.learning.coordinates import Coordinates
from probsfa.statespace.learning.fisher_metric import CompleteData, make_metric
from probsfa.statespace.learning.maximum_likelihood import MaximumLikelihood
from probsfa.statespace.learning.standard_errors import free_coordinates
from probsfa.statespace.parameters import StateSpace

__all__ = ["covariances_of_fit", "covariances_of_mixture", "parameter_variances"]


def covariances_of_fit(fitted: MaximumLikelihood, *, evenly_sampled: bool) -> FloatArray | None:
    """Return the covariances ``V_k`` of a fit, or None if its parameters were not estimated.

    See :func:`covariances_of_mixture`.

    Parameters
    ----------
    fitted : MaximumLikelihood
        Parameters, with the numbers of values and rows of the training data.
    evenly_sampled : bool
        Whether rows are evenly sampled.
    """
    if fitted.n_values is None or fitted.lengths is None:
        return None
    params = fitted.standardized_params.state_space
    if fitted.tails is not None:
        params = params.replace(noise_variance=params.noise_variance * fitted.tails.location_variance)
    coordinates = fitted.coordinates(evenly_sampled=evenly_sampled)
    return covariances_of_mixture(coordinates, params, fitted.n_values, fitted.lengths)


def covariances_of_mixture(
    coordinates: Coordinates, params: StateSpace, n_values: FloatArray, lengths: NDArray[np.int64]
) -> FloatArray:
    """Return the covariance ``V_k`` of row ``k`` of ``G (dC, d)``, for each state with loadings.

    Parameters
    ----------
    coordinates : Coordinates
        Layout of the free parameters.
    params : StateSpace
        Parameters for standardized data, in state-space form.
    n_values : ndarray of shape (D,)
        Number of observed values of each column.
    lengths : ndarray of int of shape (M,)
        Number of rows of each sequence.

    Returns
    -------
    ndarray of shape (S, S + 1, S + 1)
        The covariances. Eigenvalues are limited to one, the variance of the factors. Covariances of trends
        are zero, because level and scale of a trend are not identified.
    """
    n_rows, n_columns = float(lengths.sum()), params.n_features
    loadings = params.nonzero_loadings
    n_shared = loadings.shape[1] - coordinates.n_ar1_noise
    noise = params.noise_variance.copy()
    if coordinates.n_ar1_noise:
        noise += np.diagonal(loadings[:, n_shared:]) ** 2
    # Moments are set to zero, because only damped optimizer steps depend on them.
    no_moments = np.zeros((loadings.shape[1], loadings.shape[1]))
    complete = CompleteData(np.maximum(n_values, 1.0), no_moments, n_rows, len(lengths))
    metric = make_metric(coordinates, params, complete)
    weighted = loadings[:, :n_shared] / noise[:, None]
    regression = np.linalg.pinv(weighted.T @ loadings[:, :n_shared], hermitian=True) @ weighted.T
    free = free_coordinates(coordinates, params, np.zeros((n_columns, 1)))
    stationary = np.flatnonzero(params.state_layout.stationary[params.state_layout.loaded_states[:n_shared]])
    covariances = np.zeros((n_shared, n_shared + 1, n_shared + 1))
    for k in stationary:
        row, directions = regression[k], np.zeros((n_shared + 1, coordinates.size))
        for j in stationary:
            change = np.zeros((n_columns, loadings.shape[1]))
            change[:, j] = row
            directions[j, coordinates.slices[1]] = change[coordinates.has_loading]
        directions[-1, coordinates.slices[3]] = row
        directions *= free
        covariance = directions @ np.array([metric.solve(direction, free) for direction in directions]).T
        values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
        covariances[k] = (vectors * np.clip(values, 0.0, 1.0)) @ vectors.T
    return covariances


def parameter_variances(means: FloatArray, states: NDArray[np.intp], covariances: FloatArray) -> FloatArray:
    """Return the increase of the variances of states due to estimated parameters.

    Parameters
    ----------
    means : ndarray of shape (N, K)
        Posterior means of all states.
    states : ndarray of int of shape (S,)
        States with loadings.
    covariances : ndarray of shape (S, S + 1, S + 1)
        See :func:`covariances_of_mixture`.

    Returns
    -------
    ndarray of shape (N, K)
        For states without loadings, such as velocities, the variances include only the uncertainty of the
        scale of the process.
    """
    scale_variances = np.einsum("kkk->k", covariances[:, :-1, :-1])
    # The state with loadings of each process precedes its other states.
    process_of_state = np.searchsorted(states, np.arange(means.shape[1]), side="right") - 1
    variances = means**2 * scale_variances[process_of_state]
    means_and_one = np.column_stack([means[:, states], np.ones(len(means))])
    for state, covariance in zip(states, covariances, strict=True):
        variances[:, state] = np.sum(means_and_one @ covariance * means_and_one, axis=1)
    return np.asarray(variances)
