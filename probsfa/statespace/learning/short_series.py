"""Confidence intervals of AR(1) factors in series that span only a few of their time scales.

Maximum likelihood estimates of the parameters of such factors are biased, in part because the mean is
estimated from the same rows. With ``n`` time steps, the bias of a decay ``a`` is ``-(1 + 3 a) / n`` (Marriott
& Pope 1954, Biometrika 41:390). The relative bias of squared loadings is minus the variance of the mean of
the factor, ``(1 + a) / ((1 - a) n)``. Because of both biases, the standard error of the offset is too small.
Intervals are therefore centred at corrected estimates.

The standard error of a time scale increases with the time scale. ``timescale ** -0.5`` has a nearly constant
standard error; intervals of time scales are symmetric on this scale. Standard errors are themselves
uncertain: quantiles are those of Student's t-distribution with ``n / timescale`` degrees of freedom, for the
corrected time scale. Several factors contribute to an offset, whose degrees of freedom are computed by
Satterthwaite's formula (1946, Biometrics Bulletin 2:110).
"""

from typing import NamedTuple, Self

import numpy as np
from scipy.stats import t as student

from probsfa._times import timescales_from_decay
from probsfa._typing import FloatArray

__all__ = ["ShortSeries"]

# Maximum increase of the logarithm of a time scale, maximum relative increase of a loading, and minimum
# degrees of freedom. The corrections are the first terms of expansions, which are not accurate beyond these
# limits.
_MAX_LOG_TIMESCALE_CORRECTION, _MAX_LOADING_CORRECTION, _MIN_DEGREES = 1.0, 0.5, 2.0

ConfidenceLimits = tuple[FloatArray, FloatArray]


class ShortSeries(NamedTuple):
    """Corrections of estimated parameters of AR(1) factors.

    Attributes
    ----------
    log_timescale_increase : ndarray of shape (K,)
        Increase of the logarithm of the time scale.
    loading_increase : ndarray of shape (K,)
        Relative increase of loadings.
    variance_of_mean : ndarray of shape (K,)
        Variance of the mean of the factor over all rows, at the estimates without corrections.
    degrees : ndarray of shape (K,)
        Degrees of freedom of Student's t-distribution.
    """

    log_timescale_increase: FloatArray
    loading_increase: FloatArray
    variance_of_mean: FloatArray
    degrees: FloatArray

    @classmethod
    def of(cls, decay: FloatArray, error: FloatArray, n_steps: float) -> Self:
        """Compute corrections for decays (K,) with standard errors `error`, in a series of `n_steps` steps.

        Decays without standard error, and decays that are not positive, have no corrections.
        """
        timescale = timescales_from_decay(decay)
        estimated = (decay > 0.0) & np.isfinite(error) & np.isfinite(timescale)
        a, timescale = np.where(estimated, decay, 0.5), np.where(estimated, timescale, 1.0)
        variance = (1.0 + a) / ((1.0 - a) * n_steps)
        log_timescale_increase = np.minimum(
            (1.0 + 3.0 * a) * timescale / (a * n_steps), _MAX_LOG_TIMESCALE_CORRECTION
        )
        return cls(
            np.where(estimated, log_timescale_increase, 0.0),
            np.where(estimated, np.minimum(0.5 * variance, _MAX_LOADING_CORRECTION), 0.0),
            np.where(estimated, variance, 0.0),
            np.where(
                estimated,
                np.maximum(n_steps / timescale * np.exp(-log_timescale_increase), _MIN_DEGREES),
                np.inf,
            ),
        )

    def timescales(self, estimate: FloatArray, error: FloatArray, level: float) -> ConfidenceLimits:
        """Return confidence limits of time scales (K,); upper limits may be infinite."""
        transformed = np.exp(-0.5 * self.log_timescale_increase) / np.sqrt(estimate)
        half_width = (
            self._quantile(level)
            * 0.5
            * transformed
            * error
            / estimate
            * np.exp(0.5 * self.log_timescale_increase)
        )
        with np.errstate(divide="ignore"):
            return (transformed + half_width) ** -2.0, np.maximum(transformed - half_width, 0.0) ** -2.0

    def loadings(self, estimate: FloatArray, error: FloatArray, level: float) -> ConfidenceLimits:
        """Return confidence limits of loadings (D, K) on the AR(1) factors."""
        factor = 1.0 + self.loading_increase
        half_width = self._quantile(level) * factor * error
        return factor * estimate - half_width, factor * estimate + half_width

    def offset(
        self, estimate: FloatArray, error: FloatArray, loadings: FloatArray, level: float
    ) -> ConfidenceLimits:
        """Return confidence limits of offsets (D,), from the loadings (D, K) on the AR(1) factors."""
        uncorrected = loadings**2 * self.variance_of_mean
        corrected = uncorrected * np.exp(self.log_timescale_increase) * (1.0 + self.loading_increase) ** 2
        variance = error**2 + np.sum(corrected - uncorrected, axis=1)
        variance_of_variance = np.sum(corrected**2 / self.degrees, axis=1)
        with np.errstate(divide="ignore"):
            degrees = np.maximum(variance**2 / variance_of_variance, _MIN_DEGREES)
        half_width = student.ppf(0.5 + 0.5 * level, degrees) * np.sqrt(variance)
        return estimate - half_width, estimate + half_width

    def _quantile(self, level: float) -> FloatArray:
        return np.asarray(student.ppf(0.5 + 0.5 * level, self.degrees))
