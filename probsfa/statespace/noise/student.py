r"""Student-t noise: Gaussian noise whose precision differs between values, or between rows.

With ``w_td`` a weight for each value, or one weight ``w_t`` for all values of a row,

    x_td = mu_d + C_d z_t + n_td,   n_td ~ N(0, r_d / w_td),   w ~ Gamma(nu / 2, nu / 2),

the noise of each value is Student-t with ``nu`` degrees of freedom and scale ``sqrt(r_d)`` (Lange, Little &
Taylor 1989). This module computes expected weights, densities, normal scores and draws of single values or
rows. :mod:`probsfa.statespace.student` infers the weights of a panel.

References
----------
Lange, K. L., Little, R. J. A. & Taylor, J. M. G. (1989). Robust statistical modeling using the t
distribution. JASA 84, 881-896. https://doi.org/10.1080/01621459.1989.10478852
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betaln, digamma, gammaincinv, gammaln, logsumexp, ndtr, ndtri

from probsfa._typing import FloatArray
from probsfa.statespace.noise.tails import HeavyTails, LeftOut
from probsfa.statespace.quantities import Quantity

__all__ = ["MAX_DEGREES", "MIN_DEGREES", "StudentNoise"]

#: Limits of the degrees of freedom. The variance is finite above two; noise is nearly Gaussian at the upper
#: limit.
MIN_DEGREES, MAX_DEGREES = 2.1, 1000.0


# Number of nodes of the quadrature over the weight of a value: minimum for `left_out_density`, and number for
# normal scores.
_N_FAST_NODES, _N_NODES = 48, 120
# Number of values that are processed together.
_BLOCK_SIZE = 8192


@dataclass(frozen=True)
class StudentNoise(HeavyTails):
    """Student-t noise.

    Attributes
    ----------
    degrees_of_freedom : float, default=4.0
        ``nu``.
    by_row : bool, default=False
        Whether all values of a row share one weight; otherwise each value has its own.
    """

    degrees_of_freedom: float = 4.0
    by_row: bool = False
    shapes = (MIN_DEGREES, MAX_DEGREES)
    quantities = (Quantity("degrees_of_freedom_", "degrees of freedom", "", ("column",)),)

    @property
    def shape(self) -> float:
        """``nu``."""
        return self.degrees_of_freedom

    def with_shape(self, shape: float) -> "StudentNoise":
        """Return the noise with other degrees of freedom."""
        return replace(self, degrees_of_freedom=shape)

    @property
    def sentence(self) -> str:
        """Sentence on the noise for the status of a fit."""
        nu = self.degrees_of_freedom
        return f" Noise is Student-t with {nu:.3g} degrees of freedom; log-likelihoods are lower bounds."

    @property
    def variance(self) -> float:
        """Marginal variance of the noise, in units of ``r``: ``nu / (nu - 2)``."""
        return self.degrees_of_freedom / (self.degrees_of_freedom - 2.0)

    @property
    def location_variance(self) -> float:
        """Reciprocal of the Fisher information about a location: ``(nu + 3) / (nu + 1)``."""
        return (self.degrees_of_freedom + 3.0) / (self.degrees_of_freedom + 1.0)

    def expected_weights(self, squared_residuals: FloatArray, mask: FloatArray) -> FloatArray:
        """Return ``E[w]`` of all values (N, D), including missing values."""
        s, n = self.shared(squared_residuals), self.shared(mask)
        nu = self.degrees_of_freedom
        return np.asarray(np.broadcast_to((nu + n) / (nu + s), mask.shape))

    def expected_variances(self, squared_residuals: FloatArray, mask: FloatArray) -> FloatArray:
        """Return ``E[1 / w]`` of every value (N, D): the variance of its noise, in units of ``r``."""
        s, n = self.shared(squared_residuals), self.shared(mask)
        nu = self.degrees_of_freedom
        return np.asarray(np.broadcast_to((nu + s) / (nu + n - 2.0), mask.shape))

    def log_density(self, squared_residuals: FloatArray, mask: FloatArray) -> FloatArray:
        """Return the multivariate t log density of rows (N,), without ``-n/2 log(2 pi r)``, in nats."""
        s, n = self.shared(squared_residuals), self.shared(mask)
        nu = self.degrees_of_freedom
        terms = _log_norm(n, nu) - 0.5 * (nu + n) * np.log1p(s / nu)
        return np.asarray(np.sum(terms, axis=1))

    def at_best_shape(self, squared_residuals: FloatArray, mask: FloatArray) -> "StudentNoise":
        """Return the noise with the degrees of freedom that maximize the log density, within limits."""
        s, n = self.shared(squared_residuals), self.shared(mask)
        s, n = s[n > 0.0], n[n > 0.0]
        sizes, counts = np.unique(n, return_counts=True)

        def loss(log_nu: float) -> float:
            nu = float(np.exp(log_nu))
            return float(0.5 * np.sum((nu + n) * np.log1p(s / nu)) - counts @ _log_norm(sizes, nu))

        limits = (np.log(MIN_DEGREES), np.log(MAX_DEGREES))
        end = minimize_scalar(loss, bounds=limits, method="bounded", options={"xatol": 1e-6})
        current = min(max(self.degrees_of_freedom, MIN_DEGREES), MAX_DEGREES)
        candidates = [float(end.x), *limits, float(np.log(current))]
        return self.with_shape(float(np.exp(min(candidates, key=loss))))

    def scores(
        self,
        errors: FloatArray,
        explained: FloatArray,
        squared_scale: FloatArray,
        degrees_of_freedom: float | FloatArray | None = None,
    ) -> FloatArray:
        """Return normal scores of errors, which are standard normal if the predicted distribution is correct.

        The predicted distribution is that of the sum of a normal variable and an independent Student-t
        variable. Its distribution function is ``F(e) = integral of Phi(e / sqrt(v + r / w)) p(w) dw`` with
        ``w ~ Gamma(nu / 2, nu / 2)``. The integral is computed by the trapezoidal rule in ``log w``, where
        the integrand is smooth and decays at both ends.

        Parameters
        ----------
        errors : ndarray of shape (N, D)
            Values less predicted means, NaN where missing.
        explained : ndarray of shape (N, D)
            Variances of the normal part, ``v``.
        squared_scale : ndarray of shape (D,) or (N, D)
            Squared scales of the Student-t part, ``r``.
        degrees_of_freedom : float or ndarray of shape (N, D), optional
            ``nu``; by default the degrees of freedom of the noise.

        Returns
        -------
        ndarray of shape (N, D)
            ``Phi^-1(F(e))``; NaN where an input is NaN or the total variance is zero.
        """
        result = np.full(errors.shape, np.nan)
        degrees = self.degrees_of_freedom if degrees_of_freedom is None else degrees_of_freedom
        r, nu = np.broadcast_to(squared_scale, errors.shape), np.broadcast_to(degrees, errors.shape)
        is_valid = ~np.isnan(errors) & ~np.isnan(explained) & (explained + r > 0.0)
        for nu_value in np.unique(nu[is_valid]):
            has_nu = is_valid & (nu == nu_value)
            weights, probabilities = _gamma_nodes(float(nu_value))
            e, v, selected_r = np.abs(errors[has_nu]), np.maximum(explained[has_nu], 0.0), r[has_nu]
            tail = np.zeros_like(e)
            for w, p in zip(weights, probabilities, strict=True):
                tail += p * ndtr(-e / np.sqrt(v + selected_r / w))
            result[has_nu] = -np.sign(errors[has_nu]) * ndtri(np.maximum(tail, np.finfo(np.float64).tiny))
        return result

    def scores_in_rows(
        self,
        errors: FloatArray,
        explained: FloatArray,
        squared_scale: FloatArray,
        squared_residuals: FloatArray,
        mask: FloatArray,
    ) -> FloatArray:
        """Return normal scores (N, D) of values left out one at a time.

        If the values of a row share a weight, it is inferred from `squared_residuals` and `mask` (N, D) of
        the other values of the row.
        """
        if not self.by_row:
            return self.scores(errors, explained, squared_scale)
        others = mask.sum(axis=1, keepdims=True) - mask
        squared_error = np.maximum(squared_residuals.sum(axis=1, keepdims=True) - squared_residuals, 0.0)
        degrees = self.degrees_of_freedom + others
        return self.scores(
            errors, explained, squared_scale * (self.degrees_of_freedom + squared_error) / degrees, degrees
        )

    def left_out_density(
        self, left_out: LeftOut, squared_scales: FloatArray
    ) -> tuple[float, FloatArray, float]:
        """Compute the log density of leave-one-out errors and its derivatives, by quadrature.

        The log density is the sum over errors ``e_i`` of the logarithm of the integral of
        ``N(e_i; 0, v_i + r / w) Gamma(w; nu / 2, nu / 2) dw``. The trapezoidal rule is applied in ``log w``;
        derivatives are expectations over the distribution of ``w`` given ``e_i``.

        Parameters
        ----------
        left_out : LeftOut
            Leave-one-out predictions.
        squared_scales : ndarray of shape (D,)
            Squared scale of the noise of each column, ``r``.

        Returns
        -------
        value : float
            Log density in nats.
        by_log_scales : ndarray of shape (D,)
            Derivative with respect to ``log r``.
        by_log_shape : float
            Derivative with respect to ``log nu``.
        """
        degrees = self.degrees_of_freedom
        r = squared_scales[left_out.columns]
        max_squared_error = float(np.max(left_out.errors**2 / (left_out.explained + r), initial=0.0))
        weights, log_p = _log_gamma_nodes(degrees, max_squared_error)
        log_p_derivative = 0.5 * (
            1.0 + np.log(0.5 * degrees) - digamma(0.5 * degrees) + np.log(weights) - weights
        )
        value, slope, by_scales = 0.0, 0.0, np.zeros(left_out.errors.size)
        for first in range(0, left_out.errors.size, _BLOCK_SIZE):
            part = slice(first, first + _BLOCK_SIZE)
            noise = r[part] / weights[:, None]
            variance = left_out.explained[part] + noise
            squared_error = left_out.errors[part] ** 2 / variance
            log_q = log_p[:, None] - 0.5 * (squared_error + np.log(2.0 * np.pi * variance))
            largest = log_q.max(axis=0)
            q = np.exp(log_q - largest)
            total = q.sum(axis=0)
            value += float(np.sum(largest + np.log(total)))
            slope += float(np.sum((log_p_derivative @ q) / total))
            by_scales[part] = 0.5 * np.sum(q * noise * (squared_error - 1.0) / variance, axis=0) / total
        by_column = np.zeros(squared_scales.size)
        np.add.at(by_column, left_out.columns, by_scales)
        return value, by_column, degrees * slope

    def draw(
        self,
        shape: tuple[int, ...],
        squared_scale: FloatArray,
        rng: np.random.Generator,
        squared_residuals: FloatArray | None = None,
        mask: FloatArray | None = None,
    ) -> FloatArray:
        """Draw noise of new values (..., N, D) with squared scales (D,).

        With `squared_residuals` and `mask` (N, D) of the observed values of these rows, shared weights are
        drawn conditional on the observed values.
        """
        nu = self.degrees_of_freedom
        weights_shape = (*shape[:-1], 1) if self.by_row else shape
        a: FloatArray = np.array(0.5 * nu)
        b = a
        if squared_residuals is not None and mask is not None and self.by_row:
            a = 0.5 * (nu + mask.sum(axis=1, keepdims=True))
            b = 0.5 * (nu + squared_residuals.sum(axis=1, keepdims=True))
        weights = rng.gamma(np.broadcast_to(a, weights_shape)) / b
        return np.asarray(rng.standard_normal(shape) * np.sqrt(squared_scale / weights))


def _log_norm(n: FloatArray, nu: float) -> FloatArray:
    """Return ``log Gamma((nu + n) / 2) - log Gamma(nu / 2) - n/2 log(nu / 2)``, accurate at large ``nu``.

    ``n`` are numbers of values.
    """
    half = 0.5 * np.arange(1.0, np.max(n, initial=0.0) + 1.0)
    by_number = gammaln(half) - betaln(0.5 * nu, half) - half * np.log(0.5 * nu)
    return np.append(0.0, by_number)[n.astype(np.intp)]


def _log_gamma_nodes(nu: float, max_squared_error: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes of ``w ~ Gamma(nu / 2, nu / 2)`` and logarithms of their probabilities.

    The nodes cover the distribution of ``w`` given a value whose squared error, in units of its variance, is
    at most `max_squared_error`.
    """
    half = 0.5 * nu
    ends = np.log(gammaincinv(half, [1e-8, 1.0 - 1e-12]) / half)
    low = min(
        float(ends[0]),
        float(np.log(1e-3 * (nu + 1.0) / (nu + max_squared_error))) if max_squared_error > nu else 0.0,
    )
    # The logarithm of w has a standard deviation of about sqrt(2 / nu).
    max_spacing = 0.6 * np.sqrt(2.0 / nu)
    grid = np.linspace(low, float(ends[1]), max(_N_FAST_NODES, math.ceil((ends[1] - low) / max_spacing)))
    log_p = half * grid - half * np.exp(grid)
    return np.exp(grid), log_p - logsumexp(log_p)


def _gamma_nodes(nu: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes, evenly spaced in ``log w``, and probabilities of ``w ~ Gamma(nu / 2, nu / 2)``."""
    half = 0.5 * nu
    # The lower tail must cover squared errors up to 1e10.
    ends = np.log(gammaincinv(half, [1e-30, 1.0 - 1e-14]) / half)
    grid = np.linspace(ends[0], ends[1], _N_NODES)
    log_p = half * grid - half * np.exp(grid)
    p = np.exp(log_p - log_p.max())
    return np.exp(grid), p / p.sum()
