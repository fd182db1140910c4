"""The model in the notation of Turner & Sahani (2007), with innovation variances.

Their factors ``y_n`` (eq. 6) have decays ``lambda_n``, innovation variances ``sigma_n^2`` and recognition
weights ``W``::

    y_n,1 ~ N(0, sigma_n^2 / (1 - lambda_n^2)),   y_n,t = lambda_n y_n,t-1 + sigma_n e_n,t
    x_t   = mu + W^-1 y_t + noise,                noise ~ N(0, diag(r))

The scale of a factor is not identified. Elsewhere in the package factors have unit stationary variance,
``z_n = y_n / s_n`` with ``s_n^2 = sigma_n^2 / (1 - lambda_n^2)`` (their eq. 8), and loadings ``C = W^-1
diag(s)``. This module converts between the two forms.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from probsfa._typing import FloatArray
from probsfa.statespace.parameters import StateSpace

__all__ = ["InnovationParameters", "innovation_parameters", "make_innovation_parameters"]


class InnovationParameters(NamedTuple):
    """Parameters of a model with as many factors as columns.

    The parameters are ``theta`` of Turner & Sahani (2007, eq. 10), and the mean of the data.

    Attributes
    ----------
    decay : ndarray of shape (K,)
        Lag-one autocorrelation ``lambda_n`` of each factor, inside (-1, 1).
    innovation_variance : ndarray of shape (K,)
        Innovation variance ``sigma_n^2`` of each factor, in squared units of the factor.
    weights : ndarray of shape (K, K)
        Recognition weights ``W``: without noise, the factors are ``W (x_t - offset)``.
    noise_variance : ndarray of shape (K,)
        Variance of the observation noise of each column, in squared data units. In eq. 9 it is the same for
        all columns, ``sigma_x^2``.
    offset : ndarray of shape (K,)
        Mean of the observations, in data units; zero in the paper.

    See Also
    --------
    probsfa.statespace.noise_free_maximum_likelihood : Estimate the parameters.

    Examples
    --------
    >>> from probsfa.statespace.innovations import make_innovation_parameters
    >>> theta = make_innovation_parameters([0.9, 0.5], [[1.0, 0.0], [1.0, 2.0]], [1.0, 3.0])
    >>> print(theta.stationary_variance.round(3))
    [5.263 4.   ]
    >>> print(theta.unit_variance().loadings.round(3))
    [[ 2.294  0.   ]
     [-1.147  1.   ]]
    """

    decay: FloatArray
    innovation_variance: FloatArray
    weights: FloatArray
    noise_variance: FloatArray
    offset: FloatArray

    @property
    def stationary_variance(self) -> FloatArray:
        """Stationary variance of each factor, ``sigma_n^2 / (1 - lambda_n^2)``, shape (K,) (eq. 8)."""
        return np.asarray(self.innovation_variance / ((1.0 - self.decay) * (1.0 + self.decay)))

    def autocovariance(self, lags: ArrayLike) -> FloatArray:
        """Return the stationary autocovariances of each factor (eq. 7).

        Parameters
        ----------
        lags : array-like of int, shape (L,)
            Lags in time steps, positive or negative.

        Returns
        -------
        ndarray of shape (L, K)
            ``sigma_n^2 / (1 - lambda_n^2) * lambda_n ** abs(lag)``.

        Raises
        ------
        ValueError
            If `lags` are not a one-dimensional sequence of integers.
        """
        steps = np.asarray(lags)
        if steps.ndim != 1 or not np.issubdtype(steps.dtype, np.integer):
            raise ValueError(
                f"lags must be a sequence of integers; got {steps.dtype} of shape {steps.shape}."
            )
        return np.asarray(self.stationary_variance * self.decay ** np.abs(steps)[:, None])

    def unit_variance(self) -> StateSpace:
        """Return the same model with factors of unit stationary variance.

        Order and signs of the factors do not change; ``C = W^-1 diag(s)`` with the stationary standard
        deviations ``s``.

        Returns
        -------
        params : StateSpace
            Parameters; the noise variance may be zero, as in :class:`~probsfa.ProbabilisticSFA` with
            ``noise=0.0``.
        """
        loadings = np.linalg.inv(self.weights) * np.sqrt(self.stationary_variance)
        return StateSpace(self.decay, np.asarray(loadings), self.noise_variance, self.offset)


def make_innovation_parameters(
    decay: ArrayLike,
    weights: ArrayLike,
    innovation_variance: ArrayLike | None = None,
    noise_variance: ArrayLike = 0.0,
    offset: ArrayLike = 0.0,
) -> InnovationParameters:
    """Validate parameters of a model with as many factors as columns and broadcast them to their shapes.

    Parameters
    ----------
    decay : array-like of shape (K,)
        Values strictly inside (-1, 1).
    weights : array-like of shape (K, K)
        Recognition weights, an invertible matrix.
    innovation_variance : float or array-like of shape (K,), optional
        Positive. By default ``1 - decay ** 2``, which gives unit stationary variances.
    noise_variance : float or array-like of shape (K,), default=0.0
        Variance of the observation noise, not negative.
    offset : float or array-like of shape (K,), default=0.0
        Mean of the observations.

    Returns
    -------
    InnovationParameters

    Raises
    ------
    ValueError
        If shapes do not match, a value is not finite or out of range, or `weights` is singular.

    See Also
    --------
    probsfa.statespace.make_parameters : Parameters of a model whose factors have unit variance.

    References
    ----------
    Turner, R. & Sahani, M. (2007). A maximum-likelihood interpretation for slow feature analysis. Neural
    Computation 19, 1022-1038, eqs. 6-9. https://doi.org/10.1162/neco.2007.19.4.1022

    Examples
    --------
    >>> make_innovation_parameters([0.9, 0.6], [[1.0, 0.0], [0.0, 1.0]]).innovation_variance.round(2)
    array([0.19, 0.64])
    """
    a = np.atleast_1d(np.asarray(decay, dtype=np.float64))
    if a.ndim != 1 or a.size == 0:
        raise ValueError(f"decay must be one-dimensional and not empty, got shape {a.shape}.")
    if not np.all(np.abs(a) < 1.0):
        raise ValueError(f"decay must lie strictly inside (-1, 1), got {a[~(np.abs(a) < 1.0)][0]}.")
    k = a.shape[0]
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (k, k):
        raise ValueError(f"weights must have shape ({k}, {k}) to match decay, got shape {w.shape}.")
    if not np.all(np.isfinite(w)):
        raise ValueError(f"weights must be finite, got {w[~np.isfinite(w)][0]}.")
    # Rows and columns are scaled, so that the rank does not depend on their units.
    row_sizes = np.max(np.abs(w), axis=1, keepdims=True)
    scaled_rows = w / np.where(row_sizes > 0.0, row_sizes, 1.0)
    column_sizes = np.max(np.abs(scaled_rows), axis=0)
    if np.linalg.matrix_rank(scaled_rows / np.where(column_sizes > 0.0, column_sizes, 1.0)) < k:
        raise ValueError("weights is singular to double precision. Use an invertible matrix.")
    if innovation_variance is None:
        innovation_variance = (1.0 - a) * (1.0 + a)
    sigma2 = _vector("innovation_variance", innovation_variance, k)
    if np.any(sigma2 <= 0.0):
        raise ValueError(f"innovation_variance must be positive, got {sigma2[sigma2 <= 0.0][0]}.")
    r = _vector("noise_variance", noise_variance, k)
    if np.any(r < 0.0):
        raise ValueError(f"noise_variance must not be negative, got {r[r < 0.0][0]}.")
    return InnovationParameters(a, sigma2, w, r, _vector("offset", offset, k))


def innovation_parameters(
    params: StateSpace, innovation_variance: ArrayLike | None = None
) -> InnovationParameters:
    """Return a model of unit stationary variances in the form of Turner & Sahani (2007).

    Parameters
    ----------
    params : StateSpace
        Parameters with as many factors as columns.
    innovation_variance : float or array-like of shape (K,), optional
        Innovation variance, which determines the scale of each factor (not identified). The default ``1 -
        decay ** 2`` does not change the factors.

    Returns
    -------
    InnovationParameters
        The weights are ``diag(s) C^-1``, where ``s^2 = innovation_variance / (1 - decay^2)``.

    Raises
    ------
    ValueError
        If the numbers of factors and columns differ, the loadings are singular, a variance is not positive,
        or the model has AR(1) noise.

    See Also
    --------
    InnovationParameters.unit_variance : The inverse conversion.

    References
    ----------
    Turner, R. & Sahani, M. (2007). A maximum-likelihood interpretation for slow feature analysis. Neural
    Computation 19, 1022-1038, eqs. 6-9. https://doi.org/10.1162/neco.2007.19.4.1022

    Examples
    --------
    >>> from probsfa.statespace import make_parameters
    >>> params = make_parameters([0.9, 0.5], [[2.0, 0.0], [0.0, 4.0]], 0.1)
    >>> theta = innovation_parameters(params, innovation_variance=1.0)
    >>> print(theta.weights.round(3))
    [[1.147 0.   ]
     [0.    0.289]]
    """
    if params.has_ar1_noise:
        raise ValueError(
            "params has AR(1) noise, which InnovationParameters does not support. Fit a model with white "
            "noise."
        )
    if params.n_states != params.n_features:
        raise ValueError(
            f"params must have as many factors as columns; it has {params.n_states} factors and "
            f"{params.n_features} columns."
        )
    # Loadings are validated as weights, because they must be invertible.
    validated = make_innovation_parameters(
        params.decay, params.loadings, innovation_variance, params.noise_variance, params.offset
    )
    weights = np.linalg.inv(params.loadings) * np.sqrt(validated.stationary_variance)[:, None]
    return validated._replace(weights=np.asarray(weights))


def _vector(name: str, value: ArrayLike, size: int) -> FloatArray:
    """Validate a number or a vector, and return it as a vector of length `size`."""
    vector = np.asarray(value, dtype=np.float64)
    if vector.shape not in ((), (size,)):
        raise ValueError(f"{name} must be a number or have shape ({size},), got shape {vector.shape}.")
    if not np.all(np.isfinite(vector)):
        raise ValueError(f"{name} must be finite, got {vector[~np.isfinite(vector)][0]}.")
    return np.array(np.broadcast_to(vector, (size,)))
