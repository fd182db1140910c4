"""The likelihood without observation noise, with and without its edge terms, and the maxima of both.

With as many latent factors as columns and no noise, the factors are ``y_t = W (x_t - mu)`` with a square
matrix ``W``. The log-likelihood of a series of ``T`` rows is that of Turner & Sahani (2007), eq. 13. In terms
of the moments of the data (their eq. 18) it is, up to a constant,

    T log|det W| - 1/2 sum_n [(T - 1) log s_n^2 + log v_n]
                 - T/2 sum_n w_n' [(1 - l_n)^2 B + (T - 1)/T l_n A + edges_n / T] w_n / s_n^2

For factor ``n``, ``w_n`` is the row of ``W``, ``l_n`` the decay, ``s_n^2`` the innovation variance, and
``v_n`` the variance in the first row. ``B`` is the second moment of the rows, and ``A`` that of their
differences. ``edges_n`` consists of outer products of the first and the last row. Their eq. 19 omits
``edges_n`` and replaces ``v_n`` with ``s_n^2`` and ``(T - 1)/T`` with 1. Its maximum has a closed form, slow
feature analysis. The difference between eq. 18 and eq. 19 is bounded as T grows, so that the parameters at
the two maxima differ by order 1/T.

Notes on the paper:

* Eqs. 13-20 omit terms that do not depend on the weights. Here they are included, because likelihoods with
  different decays and variances are compared. One of them, ``log v_n``, is an edge term that is not in eq.
  18.
* Eq. 18 assumes that the first row has the stationary variance, eq. 8. For another variance, the outer
  product of the first row is multiplied by ``s_n^2 / v_n - 1 + l_n`` instead of ``l_n (1 - l_n)``; the closed
  form is the same.
* Eq. 22 has the index n in its coefficients, but its derivation from eq. 21 leads to m. At a maximum both are
  correct, because both sides are symmetric.
* Eq. 23 requires different decays. This condition is sufficient only for decays inside (-1, 1), because
  ``l / (1 - l)^2`` has the same value at ``l`` and ``1 / l``. Inside (-1, 1) this function increases, so
  that larger decays correspond to slower directions also for negative decays. The paper discusses decays
  between 0 and 1.
* According to the paper, the weights do not depend on the decays. This is true of their directions; their
  lengths depend on the decays by eq. 22.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from probsfa._typing import FloatArray
from probsfa._validation import check_sequences
from probsfa.linalg import canonical_signs, slow_directions
from probsfa.statespace.innovations import InnovationParameters, make_innovation_parameters

__all__ = ["NoiseFreeLogLikelihood", "noise_free_log_likelihood", "noise_free_maximum_likelihood"]

# Maximum number of Newton steps; each step reduces the error by a factor of order T.
_MAX_STEPS = 1000
# Maximum number of times that a step is halved.
_MAX_HALVINGS = 40
# The iteration has converged if the relative change is below this number (times the number of factors).
_MIN_STEP = 1e-13
# It has also converged if the relative change is below this number and no longer decreases.
_SMALL_STEP = 1e-8


class NoiseFreeLogLikelihood(NamedTuple):
    """Log-likelihood without observation noise, in nats, and its edge terms.

    Attributes
    ----------
    exact : float
        Log-likelihood, Turner & Sahani (2007), eq. 13.
    without_edges : float
        Log-likelihood without edge terms, eqs. 19-20, which slow feature analysis maximizes.
    first_variance : float
        Edge term due to the variance of the first row, which differs from the variance of an innovation.
    edge_rows : float
        Edge term due to the first and the last row, which are in one difference instead of two (eqs. 15-18).
    missing_difference : float
        Edge term due to the number of differences of a sequence, which is smaller by one than the number of
        rows.
    """

    exact: float
    without_edges: float
    first_variance: float
    edge_rows: float
    missing_difference: float

    @property
    def edge_terms(self) -> float:
        """Sum of all edge terms: ``exact`` is ``without_edges + edge_terms``."""
        return self.first_variance + self.edge_rows + self.missing_difference


class _Moments(NamedTuple):
    """Sufficient statistics of centred rows.

    Attributes
    ----------
    covariance : ndarray of shape (D, D)
        Second moment ``B`` of all rows.
    difference : ndarray of shape (D, D)
        Second moment ``A`` of all differences of successive rows.
    first, last : ndarray of shape (D, D)
        Sums of the outer products of the first rows of all sequences, and of the last rows.
    n_rows, n_differences : int
        Numbers of rows and of differences.
    """

    covariance: FloatArray
    difference: FloatArray
    first: FloatArray
    last: FloatArray
    n_rows: int
    n_differences: int

    @property
    def n_sequences(self) -> int:
        return self.n_rows - self.n_differences

    def transformed(self, weights: FloatArray) -> "_Moments":
        """Return the moments of ``weights @ x``."""
        return self._replace(**{name: weights @ getattr(self, name) @ weights.T for name in self._fields[:4]})


def noise_free_log_likelihood(
    X: Any,
    params: InnovationParameters,
    *,
    first_variance: ArrayLike | None = None,
    lengths: Sequence[int] | None = None,
) -> NoiseFreeLogLikelihood:
    """Compute the log-likelihood of the noise-free model, exactly and without edge terms.

    The model has as many factors as columns. Edge terms are due to the first and the last row of each
    sequence.

    Parameters
    ----------
    X : array-like of shape (T, D), or list of them
        Complete rows, evenly spaced; the entries of a list are independent sequences.
    params : InnovationParameters
        Parameters of ``D`` factors, without noise.
    first_variance : array-like of shape (D,), optional
        Variance ``sigma_n,1^2`` of each factor in the first row of a sequence; by default the stationary
        variance (Turner & Sahani 2007, eq. 8).
    lengths : sequence of int, optional
        Lengths of consecutive, independent sequences.

    Returns
    -------
    NoiseFreeLogLikelihood

    Raises
    ------
    ValueError
        If values are missing or not finite, shapes of data or parameters do not match, there is noise, a
        variance is not positive, or no sequence has two rows.

    See Also
    --------
    noise_free_maximum_likelihood : Parameters that maximize the likelihood.
    probsfa.ProbabilisticSFA.log_likelihood : Log-likelihood with observation noise and missing values.

    References
    ----------
    Turner, R. & Sahani, M. (2007). A maximum-likelihood interpretation for slow feature analysis. Neural
    Computation 19, 1022-1038, eqs. 10-20. https://doi.org/10.1162/neco.2007.19.4.1022

    Examples
    --------
    >>> import numpy as np
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(500, 3, decay=[0.9, 0.7, 0.2], noise_variance=0.0, random_state=0).data
    >>> likelihood = noise_free_log_likelihood(X, noise_free_maximum_likelihood(X))
    >>> bool(np.isclose(likelihood.exact, likelihood.without_edges + likelihood.edge_terms))
    True
    """
    if np.any(params.noise_variance > 0.0):
        raise ValueError(
            "params must have noise_variance=0.0. For models with noise use ProbabilisticSFA.log_likelihood."
        )
    params = make_innovation_parameters(
        params.decay, params.weights, params.innovation_variance, params.noise_variance, params.offset
    )
    values, sizes = _rows(X, lengths, params.decay.shape[0])
    centred = values - params.offset
    decay, sigma2 = params.decay, params.innovation_variance
    v = (
        params.stationary_variance
        if first_variance is None
        else _first_variance(first_variance, decay.shape[0])
    )

    y = centred @ params.weights.T
    starts = np.zeros(len(y), dtype=bool)
    starts[np.cumsum([0, *sizes[:-1]])] = True
    innovations = y.copy()
    innovations[1:] -= decay * y[:-1]
    innovations[starts] = y[starts]
    variance = np.where(starts[:, None], v, sigma2)
    volume = float(np.linalg.slogdet(params.weights)[1])
    exact = len(y) * volume - 0.5 * float(np.sum(np.log(2.0 * np.pi * variance) + innovations**2 / variance))

    moments_of_factors = _moments(centred, sizes).transformed(params.weights)
    B, A, first, last = (np.diag(moment) for moment in moments_of_factors[:4])
    n, s = len(y), len(sizes)
    without_edges = n * volume - 0.5 * n * float(
        np.sum(np.log(2.0 * np.pi * sigma2) + ((1.0 - decay) ** 2 * B + decay * A) / sigma2)
    )
    rows = (sigma2 / v - 1.0 + decay) * first + decay * (1.0 - decay) * last
    return NoiseFreeLogLikelihood(
        exact=exact,
        without_edges=without_edges,
        first_variance=-0.5 * s * float(np.sum(np.log(v / sigma2))),
        edge_rows=-0.5 * float(np.sum(rows / sigma2)),
        missing_difference=0.5 * s * float(np.sum(decay * A / sigma2)),
    )


def noise_free_maximum_likelihood(
    X: Any,
    decay: ArrayLike | None = None,
    innovation_variance: ArrayLike | None = None,
    *,
    edge_terms: bool = False,
    lengths: Sequence[int] | None = None,
) -> InnovationParameters:
    """Compute maximum likelihood weights without observation noise, for fixed or estimated decays.

    Without edge terms this is slow feature analysis. If all decays are different, the rows of the weights are
    the directions of slow feature analysis, and the largest decay belongs to the slowest direction. The
    factors have variances ``sigma_n^2 / ((1 - lambda_n)^2 + lambda_n delta_n)`` (eqs. 22-23), with the delta
    value ``delta_n`` of the direction. With edge terms the likelihood is maximized by Newton's method, from
    this solution.

    Parameters
    ----------
    X : array-like of shape (T, D), or list of them
        Complete rows, evenly spaced, which vary in all ``D`` directions.
    decay : array-like of shape (D,), optional
        Fixed decays, all different, in any order. By default they are estimated: ``1 - delta_n / 2`` without
        edge terms.
    innovation_variance : float or array-like of shape (D,), optional
        Innovation variances, which set the scale of the factors; by default ``1 - decay ** 2``.
    edge_terms : bool, default=False
        Whether to maximize the exact likelihood instead of the likelihood without edge terms.
    lengths : sequence of int, optional
        Lengths of consecutive, independent sequences.

    Returns
    -------
    InnovationParameters
        Factors in the order of `decay`, or slowest first if decays are estimated. The offset is the mean of
        the rows, as in the paper.

    Raises
    ------
    ValueError
        If values are missing or not finite, shapes do not match, two decays are equal, no sequence has two
        rows, the data vary in fewer than ``D`` directions, or the likelihood is unbounded because a direction
        does not change in time, or alternates.
    RuntimeError
        If Newton's method does not converge to the exact maximum.

    See Also
    --------
    probsfa.ProbabilisticSFA : With ``noise=0.0``, the maximum without edge terms as an estimator.

    Notes
    -----
    With edge terms the result is the maximum that Newton's method reaches from slow feature analysis. Its
    distance from slow feature analysis is of order 1/T, in units of the standard deviation of the factors,
    and grows with the time scales.

    References
    ----------
    Turner, R. & Sahani, M. (2007). A maximum-likelihood interpretation for slow feature analysis. Neural
    Computation 19, 1022-1038, eqs. 18-23. https://doi.org/10.1162/neco.2007.19.4.1022

    Examples
    --------
    >>> from probsfa import SFA
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(500, 3, decay=[0.9, 0.7, 0.2], noise_variance=0.0, random_state=0).data
    >>> fixed = noise_free_maximum_likelihood(X, [0.3, 0.2, 0.1])
    >>> print((fixed.weights / SFA().fit(X).components_).round(3))
    [[1.299 1.299 1.299]
     [1.121 1.121 1.121]
     [1.017 1.017 1.017]]
    """
    from probsfa.graphs.moments import rounding_variance  # the import is slow

    values, sizes = _rows(X, lengths)
    mean = values.mean(axis=0)
    moments = _moments(values - mean, sizes)
    directions = slow_directions(
        moments.difference, moments.covariance, variance_floor=rounding_variance(mean)
    )
    n_features = values.shape[1]
    if directions.rank < n_features:
        raise ValueError(
            f"X varies in {directions.rank} directions, fewer than its {n_features} columns; without noise "
            "the likelihood is then unbounded."
        )
    delta, components = directions.delta_values, directions.weights.T
    if decay is None:
        if np.any(delta <= 0.0) or np.any(delta >= 4.0):
            raise ValueError(
                "The likelihood is unbounded: a direction does not change in time (delta value 0), or "
                f"alternates (delta value 4); the delta values are {delta.tolist()}."
            )
        a, direction_of_factor = 1.0 - 0.5 * delta, np.arange(n_features)
    else:
        a = np.asarray(decay, dtype=np.float64)
        if a.shape != (n_features,):
            raise ValueError(f"decay must have shape ({n_features},), one for each column, got {a.shape}.")
        if np.unique(a).size < n_features:
            raise ValueError(
                f"decay must contain different values, got {a.tolist()}; with equal decays every rotation of "
                "the factors has the same likelihood."
            )
        direction_of_factor = np.argsort(np.argsort(-a))  # the slowest direction has the largest decay
    # Validate decays and variances; weights are computed below.
    params = make_innovation_parameters(a, np.eye(n_features), innovation_variance, 0.0, mean)
    mean_squares = (1.0 - a) ** 2 + a * delta[direction_of_factor]
    if np.any(mean_squares <= 0.0):
        raise ValueError(
            "The likelihood without edge terms is unbounded at these decays: the delta values are "
            f"{delta.tolist()}, of which at least one exceeds 4."
        )
    # The diagonal of eq. 22 for innovations of unit variance, in coordinates of the slow features.
    weights = np.eye(n_features)[direction_of_factor] / np.sqrt(mean_squares)[:, None]
    if edge_terms:
        a, weights = _maximize(moments.transformed(components), a, weights, learn=decay is None)
        if decay is None:
            order = np.argsort(-a, kind="stable")
            a, weights = a[order], weights[order]
        if innovation_variance is None:
            params = params._replace(innovation_variance=(1.0 - a) * (1.0 + a))
    weights = np.sqrt(params.innovation_variance)[:, None] * weights @ components
    signs = canonical_signs(np.linalg.inv(weights), directions.scales)
    return params._replace(decay=a, weights=np.asarray(signs[:, None] * weights))


def _maximize(
    moments: _Moments, decay: FloatArray, weights: FloatArray, *, learn: bool
) -> tuple[FloatArray, FloatArray]:
    """Return decays and weights that maximize the exact likelihood, for innovations of unit variance.

    Updates are multiplicative, ``W <- (I + E) W``. The log-likelihood per row is, with the quadratic forms
    ``F_n`` of :func:`_quadratic_forms`,

        L(E) = log|det(I + E)| - 1/2 sum_n (I + E)_n F_n (I + E)_n'.

    Near the maximum the quadratic forms are diagonal up to edge terms. The equations of Newton's step are
    therefore first solved for each pair ``(E_nm, E_mn)`` separately. If there is no such step, or if it
    decreases the likelihood, the equations are solved jointly.
    """
    size, last_change = decay.shape[0], np.inf
    for _ in range(_MAX_STEPS):
        old_decay, lengths = decay, np.ones(size)
        moments_of_factors = moments.transformed(weights)
        if learn:
            decay = np.array([_maximize_over_decay(moments_of_factors, n) for n in range(size)])
            # The optimal norm of a row of the weights depends on its decay.
            forms = _quadratic_forms(moments_of_factors, decay)
            lengths = 1.0 / np.sqrt(np.einsum("nnn->n", forms))
            forms, weights = forms * np.outer(lengths, lengths), lengths[:, None] * weights
        else:
            forms = _quadratic_forms(moments_of_factors, decay)
        value = _log_likelihood_by_row(moments, decay, weights)
        gradient = np.eye(size) - np.einsum("nnm->nm", forms)
        step = _pairwise_newton_step(forms, gradient)
        if step is None or not _is_accepted(moments, decay, weights, step, value):
            step = _joint_newton_step(forms, gradient)
            for _ in range(_MAX_HALVINGS):
                if _is_accepted(moments, decay, weights, step, value):
                    break
                step = 0.5 * step
            else:
                return decay, weights
        weights = weights + step @ weights
        change = max(
            float(np.max(np.abs(step))),
            float(np.max(np.abs(lengths - 1.0))),
            float(np.max(np.abs(decay - old_decay) / (1.0 - np.abs(old_decay)))),
        )
        # With similar decays the maximum is flat, and rounding errors limit the accuracy of steps.
        if change < _MIN_STEP * size or (change < _SMALL_STEP and change >= last_change):
            return decay, weights
        last_change = change
    raise RuntimeError(
        f"Newton's method did not converge in {_MAX_STEPS} steps from slow feature analysis; the relative "
        f"change of the last step is {change:.1e}. Use more rows than columns."
    )


def _pairwise_newton_step(forms: FloatArray, gradient: FloatArray) -> FloatArray | None:
    """Return Newton's step as if the forms were diagonal; None if the likelihood then has no maximum."""
    curvature = np.einsum("nmm->nm", forms)
    determinant = curvature * curvature.T - 1.0
    np.fill_diagonal(determinant, 1.0)
    if np.any(determinant <= 0.0):
        return None
    step = (curvature.T * gradient - gradient.T) / determinant
    np.fill_diagonal(step, np.diag(gradient) / (1.0 + np.diag(curvature)))
    return np.asarray(step)


def _joint_newton_step(forms: FloatArray, gradient: FloatArray) -> FloatArray:
    """Return Newton's step for all weights.

    Eigenvalues of the Hessian are replaced by their absolute values, so that the step is an ascent direction.
    """
    size = len(forms)
    hessian = np.zeros((size, size, size, size))
    rows = np.arange(size)
    hessian[rows, :, rows, :] = forms
    hessian += np.einsum("nl,mk->nmkl", np.eye(size), np.eye(size))
    curvature, directions = np.linalg.eigh(hessian.reshape(size**2, size**2))
    minimum = np.finfo(np.float64).eps * np.max(np.abs(curvature))
    coordinates = directions.T @ gradient.ravel() / np.maximum(np.abs(curvature), minimum)
    return np.asarray((directions @ coordinates).reshape(size, size))


def _is_accepted(
    moments: _Moments, decay: FloatArray, weights: FloatArray, step: FloatArray, value: float
) -> bool:
    """Return whether the likelihood after a step is not below `value`, up to rounding errors."""
    new_value = _log_likelihood_by_row(moments, decay, weights + step @ weights)
    return bool(new_value >= value - 4.0 * np.finfo(np.float64).eps * max(1.0, abs(value)))


def _quadratic_forms(moments: _Moments, decay: FloatArray) -> FloatArray:
    """Return matrices ``F_n`` (D, D, D); ``w_n' F_n w_n`` is the mean square of the innovations (eq. 18)."""
    a = decay[:, None, None]
    total = (
        (1.0 - a) ** 2 * moments.n_rows * moments.covariance
        + a * moments.n_differences * moments.difference
        + a * (1.0 - a) * (moments.first + moments.last)
    )
    return np.asarray(total / moments.n_rows)


def _log_likelihood_by_row(moments: _Moments, decay: FloatArray, weights: FloatArray) -> float:
    """Return the exact log-likelihood per row, up to a constant, for innovations of unit variance."""
    squares = np.einsum("nd,nde,ne->", weights, _quadratic_forms(moments, decay), weights)
    first = np.sum(np.log((1.0 - decay) * (1.0 + decay))) * moments.n_sequences / moments.n_rows
    return float(np.linalg.slogdet(weights)[1] + 0.5 * (first - squares))


def _maximize_over_decay(moments: _Moments, n: int) -> float:
    """Return the maximum likelihood decay of a factor with a fixed direction and free variance.

    ``Q`` is the sum of squared innovations, in which the square of a first row is multiplied by ``1 -
    decay^2``. ``Q`` is a quadratic function of the decay. For ``T`` rows in ``S`` sequences, the decay
    minimizes ``T/2 log Q - S/2 log(1 - decay^2)`` and is a root of a cubic polynomial.
    """
    B, A, first, last = (moment[n, n] for moment in moments[:4])
    T, S, differences = moments.n_rows, moments.n_sequences, moments.n_differences
    edges = first + last
    Q = np.polynomial.Polynomial([T * B, differences * A - 2.0 * T * B + edges, T * B - edges])
    a = np.polynomial.Polynomial([0.0, 1.0])
    roots = (T * Q.deriv() * (1.0 - a**2) + 2.0 * S * a * Q).roots()
    inside = np.real(roots[(np.abs(np.imag(roots)) < 1e-9) & (np.abs(np.real(roots)) < 1.0)])
    if inside.size == 0:
        raise ValueError("The likelihood is unbounded: a direction does not change in time, or alternates.")
    gain = S * np.log((1.0 - inside) * (1.0 + inside)) - T * np.log(Q(inside))
    return float(inside[np.argmax(gain)])


def _moments(centred: FloatArray, lengths: tuple[int, ...]) -> _Moments:
    """Return the moments of centred rows."""
    ends = np.cumsum(lengths)
    within = np.ones(len(centred) - 1, dtype=bool)
    within[ends[:-1] - 1] = False
    steps = np.diff(centred, axis=0)[within]
    first, last = centred[ends - np.asarray(lengths)], centred[ends - 1]
    return _Moments(
        covariance=centred.T @ centred / len(centred),
        difference=steps.T @ steps / len(steps),
        first=first.T @ first,
        last=last.T @ last,
        n_rows=len(centred),
        n_differences=len(steps),
    )


class _Validation(BaseEstimator):
    """Substitute of an estimator, for the validation of data."""

    _advice_on_missing = "The likelihood without noise requires complete rows."


def _rows(
    X: Any, lengths: Sequence[int] | None, n_features: int | None = None
) -> tuple[FloatArray, tuple[int, ...]]:
    """Return validated rows, and the lengths of the sequences."""
    sequences = check_sequences(_Validation(), X, reset=True, allow_nan=False, lengths=lengths)
    values, sizes = sequences.values, sequences.lengths
    if n_features is not None and values.shape[1] != n_features:
        raise ValueError(
            f"X has {values.shape[1]} columns, but params has {n_features} factors. Use as many factors as "
            "columns."
        )
    if max(sizes) < 2:
        raise ValueError("X must have a sequence with at least two rows.")
    return values, sizes


def _first_variance(value: ArrayLike, size: int) -> FloatArray:
    """Return validated variances of the first row."""
    v = np.asarray(value, dtype=np.float64)
    if v.shape != (size,) or not np.all(np.isfinite(v)) or np.any(v <= 0.0):
        raise ValueError(f"first_variance must be {size} positive numbers, got {value!r}.")
    return v
