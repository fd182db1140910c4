"""Distributions of observed values, given the linear predictor ``eta = mu + C z``.

Each family computes the expectation of the log density of values under ``eta ~ N(m, v)``, or a lower bound of
it, with its derivatives. A Gaussian site replaces the likelihood of a value: its precision is ``-2 dE/dv``
and its information ``dE/dm + precision m`` (Khan & Lin 2017). A fixed point of these updates is the
variational Gaussian approximation.

================= ============================== ====================== ================================
family            ``x`` given ``eta``            shape                  expectation
================= ============================== ====================== ================================
gaussian          ``N(eta, r)``                  ``log r``              closed form
student_t         ``eta + sqrt(s) t_nu``         ``log s, log nu``      Gauss-Hermite; outliers: bound
bernoulli         1 with odds ``exp(eta)``       none                   Gauss-Hermite
poisson           mean ``exp(eta)``              none                   closed form
negative_binomial mean ``exp(eta)``, size ``n``  ``log n``              Gauss-Hermite
================= ============================== ====================== ================================

The variance of the negative binomial is ``mean + mean^2 / n``. The log density of Student's t is not concave
in ``eta`` for outliers; their expectation is replaced by a lower bound (:class:`StudentT`).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special, stats

from probsfa._typing import FloatArray
from probsfa.extensions.emissions.family import (
    MIN_NOISE,
    WEAK_PRIOR,
    Expectation,
    Family,
    weak_prior,
)
from probsfa.extensions.emissions.links import LINKS
from probsfa.extensions.emissions.quadrature import expected_softplus, gauss_hermite

__all__ = ["FAMILIES"]

# Scale of the prior of the inverse size of a negative binomial.
_WEAK_DISPERSION = 1e-3
# Largest predictor that is exponentiated; larger ones are clipped.
_MAX_EXPONENT = 600.0
# Number of quadrature nodes of expected Student-t log densities.
_N_STUDENT_NODES = 24
# Number of steps of the search for the variance with the largest expected Student-t log density.
_N_ROOT_STEPS = 8
# A predictor whose variance is smaller, relative to the squared scale of the Student-t noise, is treated as
# constant.
_MIN_VARIANCE_RATIO = 1e-8
# Smallest precision of the site of a value, relative to the precision of the Student-t noise. The
# pseudo-observation of an outlier is inversely proportional to this precision. Without a minimum, the square
# of the pseudo-observation would dominate the bound.
_MIN_STUDENT_PRECISION = 1e-5


def _exp(x: FloatArray) -> FloatArray:
    return np.exp(np.minimum(x, _MAX_EXPONENT))


class Gaussian(Family):
    """Gaussian noise; the model of :class:`probsfa.ProbabilisticSFA`."""

    name = "gaussian"
    n_shapes = 1
    has_scale = True

    def expectation(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> Expectation:
        """See :class:`Family`."""
        precision = np.exp(-shape[0])
        residual = x - mean
        value = -0.5 * (np.log(2.0 * np.pi) + shape[0] + precision * (residual**2 + variance))
        return Expectation(value, precision * residual, np.broadcast_to(precision, mean.shape))

    def shape_gradient(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> list[FloatArray]:
        """See :class:`Family`."""
        return [0.5 * (np.exp(-shape[0]) * ((x - mean) ** 2 + variance) - 1.0)]

    def log_density(self, x: FloatArray, eta: FloatArray, shape: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        return -0.5 * (np.log(2.0 * np.pi) + shape[0] + np.exp(-shape[0]) * (x - eta) ** 2)

    def moments(
        self, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """See :class:`Family`."""
        return mean, variance + np.exp(shape[0])

    def cdf(self, x: FloatArray, eta: FloatArray, shape: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        return np.asarray(special.ndtr((x - eta) * np.exp(-0.5 * shape[0])))

    def log_predictive(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> FloatArray:
        """See :class:`Family`."""
        total_variance = variance + np.exp(shape[0])
        return -0.5 * (np.log(2.0 * np.pi * total_variance) + (x - mean) ** 2 / total_variance)

    def predictive_cdf(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> FloatArray:
        """See :class:`Family`."""
        return np.asarray(special.ndtr((x - mean) / np.sqrt(variance + np.exp(shape[0]))))

    def quantile(self, p: float, mean: FloatArray, variance: FloatArray, shape: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        return np.asarray(mean + special.ndtri(p) * np.sqrt(variance + np.exp(shape[0])))

    def draw(self, eta: FloatArray, shape: FloatArray, rng: np.random.Generator) -> FloatArray:
        """See :class:`Family`."""
        return np.asarray(eta + np.exp(0.5 * shape[0]) * rng.standard_normal(eta.shape))

    def predictor_of(self, mean: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        return mean

    def initial_sites(
        self, x: FloatArray, mean: FloatArray, shape: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """See :class:`Family`."""
        return np.broadcast_to(np.exp(-shape[0]), x.shape), x

    def initial_shape(self, x: FloatArray, mask: FloatArray, noise: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        return np.log(np.maximum(noise, 10.0 * MIN_NOISE))[None]

    def min_shape(self) -> FloatArray:
        """See :class:`Family`."""
        return np.log(np.array([MIN_NOISE]))

    def log_prior(self, shape: FloatArray) -> tuple[float, FloatArray]:
        """See :class:`Family`; the weak noise prior."""
        value, slope = weak_prior(shape[0], WEAK_PRIOR)
        return value, slope[None]


class _StudentAverages(NamedTuple):
    """Averages over ``eta ~ N(m, v)`` of functions of ``d = x - eta``, with ``q = d^2 / s``.

    Attributes
    ----------
    logs, slope, curvature, square : ndarray
        Averages of ``log(1 + q / nu)``, ``d / (nu + q)``, ``(nu - q) / (nu + q)^2`` and ``q / (nu + q)``.
    """

    logs: FloatArray
    slope: FloatArray
    curvature: FloatArray
    square: FloatArray

    @classmethod
    def over(
        cls, residual: FloatArray, variance: FloatArray, precision: FloatArray, df: FloatArray
    ) -> "_StudentAverages":
        """Return the averages for residuals ``x - m``, variances ``v``, ``1 / s`` and ``nu``."""
        nodes, weights = gauss_hermite(_N_STUDENT_NODES)
        std = np.sqrt(variance)
        residuals = residual - np.multiply.outer(nodes, std)
        totals = df + residuals**2 * precision
        inverses = 1.0 / totals
        slopes = residuals * inverses
        logs, slope, inverse = (
            np.tensordot(weights, function, axes=1) for function in (np.log(totals), slopes, inverses)
        )
        # This is the exact derivative of the quadrature sum `logs` with respect to the variance, divided by
        # `precision`. It has no cancellation at small variances and agrees with `logs` also where the
        # quadrature is inaccurate.
        curvature = -np.tensordot(weights * nodes, slopes, axes=1) / np.maximum(std, 1e-300)
        at_mean = _at_mean(residual, variance, precision, df).curvature
        curvature = np.where(variance * precision > _MIN_VARIANCE_RATIO, curvature, at_mean)
        return cls(logs - np.log(df), slope, curvature, 1.0 - df * inverse)


def _at_mean(
    residual: FloatArray, variance: FloatArray, precision: FloatArray, df: FloatArray
) -> _StudentAverages:
    """Return the functions of `_StudentAverages` at ``eta = m``; `variance` is not used."""
    square = residual**2 * precision
    inverse = 1.0 / (df + square)
    return _StudentAverages(
        np.log1p(square / df), residual * inverse, (df - square) * inverse**2, square * inverse
    )


def _find_roots(
    function: Callable[[FloatArray], FloatArray], end_values: tuple[FloatArray, FloatArray], high: FloatArray
) -> FloatArray:
    """Return roots (n,) of a function between 0, where it is negative, and `high`, where it is positive.

    `end_values` are the values of the function at 0 and at `high`.

    The method of Anderson & Bjoerck (1973), Numerical Mathematics 13:253, computes secants between ends of
    opposite sign. The function value at an end that did not move is reduced, so that both ends approach the
    root.
    """
    low, (at_low, at_high) = np.zeros_like(high), end_values
    for _ in range(_N_ROOT_STEPS):
        root = high - at_high * (high - low) / (at_high - at_low)
        value = function(root)
        is_above = value > 0.0
        with np.errstate(invalid="ignore"):  # 0 / 0 after an exact root
            factor = 1.0 - value / np.where(is_above, at_high, at_low)
        factor = np.where(factor > 0.0, factor, 0.5)
        low, at_low = np.where(is_above, low, root), np.where(is_above, factor * at_low, value)
        high, at_high = np.where(is_above, root, high), np.where(is_above, value, factor * at_high)
    return np.where(np.abs(at_low) < np.abs(at_high), low, high)


class StudentT(Family):
    """Student-t noise, in which outliers get small weights.

    The expected log density ``E(m, v)`` of an outlier increases with the variance ``v``, so that its Gaussian
    site would have a negative precision. This family replaces ``E(m, v)`` by a lower bound: ``E(m, 0)`` plus
    the integral of ``min(dE/dv, 0)`` over the variance from 0 to ``v``. The bound equals ``E(m, v)`` for
    values within ``sqrt(nu s)`` of the mean, and its derivatives are continuous. ``dE/dv`` changes its sign
    at most once, at a variance ``u``. The bound is then ``E(m, v) + E(m, 0) - E(m, u)``. Its derivative with
    respect to ``u`` is zero; other derivatives therefore treat ``u`` as constant.
    """

    name = "student_t"
    n_nodes = 80  # more than for the other families, whose distribution functions are smoother
    n_shapes = 2
    has_scale = True
    _MIN_DF = 1.5

    def expectation(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> Expectation:
        """See :class:`Family`."""
        averages = self._bounded(x, mean, variance, shape)
        df, precision = np.exp(shape[1]), np.exp(-shape[0])
        factor = (df + 1.0) * precision
        return Expectation(
            self._kernel(averages.logs, df, shape), factor * averages.slope, factor * averages.curvature
        )

    @staticmethod
    def _kernel(logs: FloatArray, df: FloatArray, shape: FloatArray) -> FloatArray:
        """Return log densities from ``log(1 + (x - eta)^2 / (s nu))``, or their expectations."""
        norm = special.gammaln(0.5 * (df + 1.0)) - special.gammaln(0.5 * df)
        norm = norm - 0.5 * (np.log(np.pi * df) + shape[0])
        return np.asarray(norm - 0.5 * (df + 1.0) * logs)

    @staticmethod
    def _bounded(
        x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> "_StudentAverages":
        """Return averages with which the formulas of `expectation` give the bound and its derivatives."""
        arrays = np.broadcast_arrays(x - mean, variance, np.exp(-shape[0]), np.exp(shape[1]))
        residual, _, precision, df = arrays
        averages = _StudentAverages.over(*arrays)
        is_outlier = residual**2 * precision > df
        # dE/dv is positive up to `variance`, so that the bound is E(m, 0).
        selected = is_outlier & (averages.curvature <= 0.0)
        if np.any(selected):
            for part, zero in zip(averages, _at_mean(*(part[selected] for part in arrays)), strict=True):
                part[selected] = zero
            averages.curvature[selected] = 0.0
        # dE/dv changes its sign at a variance below `variance`.
        selected = is_outlier & (averages.curvature > 0.0)
        if np.any(selected):
            residual, variance, precision, df = (part[selected] for part in arrays)
            at_zero_variance = _at_mean(residual, variance, precision, df)
            peak = _find_roots(
                lambda v: _StudentAverages.over(residual, v, precision, df).curvature,
                (at_zero_variance.curvature, averages.curvature[selected]),
                variance,
            )
            peaks, curvature = _StudentAverages.over(residual, peak, precision, df), averages.curvature.copy()
            for part, zero, highest in zip(averages, at_zero_variance, peaks, strict=True):
                part[selected] += zero - highest
            averages.curvature[selected] = curvature[selected]
        return averages

    def shape_gradient(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> list[FloatArray]:
        """See :class:`Family`."""
        averages, df = self._bounded(x, mean, variance, shape), np.exp(shape[1])
        square = (df + 1.0) * averages.square
        norm = special.digamma(0.5 * (df + 1.0)) - special.digamma(0.5 * df) - 1.0 / df
        by_df = 0.5 * (norm - averages.logs + square / df)
        return [0.5 * (square - 1.0), df * by_df]

    def min_precision(self, shape: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        return _MIN_STUDENT_PRECISION * np.exp(-shape[0])

    def log_density(self, x: FloatArray, eta: FloatArray, shape: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        df = np.exp(shape[1])
        return self._kernel(np.log1p((x - eta) ** 2 * np.exp(-shape[0]) / df), df, shape)

    def moments(
        self, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """See :class:`Family`; the variance is infinite for two degrees of freedom or less."""
        df = np.exp(shape[1])
        with np.errstate(divide="ignore"):
            noise = np.where(df > 2.0, df / np.maximum(df - 2.0, 0.0), np.inf) * np.exp(shape[0])
        return mean, variance + noise

    def cdf(self, x: FloatArray, eta: FloatArray, shape: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        return np.asarray(special.stdtr(np.exp(shape[1]), (x - eta) * np.exp(-0.5 * shape[0])))

    def quantile(self, p: float, mean: FloatArray, variance: FloatArray, shape: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        if np.all(np.exp(shape[1]) > 2.0):
            return super().quantile(p, mean, variance, shape)
        # The variance may be infinite. The search interval is scaled by the quartiles of the distribution
        # with at least three degrees of freedom.
        bounded_shape = shape.copy()
        bounded_shape[1] = np.maximum(shape[1], np.log(3.0))
        low, high = (super(StudentT, self).quantile(q, mean, variance, bounded_shape) for q in (0.25, 0.75))
        width = high - low
        low, high = low - 1e3 * width, high + 1e3 * width
        for _ in range(60):
            middle = 0.5 * (low + high)
            is_above = self.predictive_cdf(middle, mean, variance, shape) >= p
            high, low = np.where(is_above, middle, high), np.where(is_above, low, middle)
        return np.asarray(high)

    def draw(self, eta: FloatArray, shape: FloatArray, rng: np.random.Generator) -> FloatArray:
        """See :class:`Family`."""
        df = np.broadcast_to(np.exp(shape[1]), eta.shape)
        return np.asarray(eta + np.exp(0.5 * shape[0]) * rng.standard_t(df))

    def predictor_of(self, mean: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        return mean

    def initial_sites(
        self, x: FloatArray, mean: FloatArray, shape: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """See :class:`Family`."""
        df, precision = np.exp(shape[1]), np.exp(-shape[0])
        return precision * (df + 1.0) / (df + precision * ((x - mean) ** 2 + 1.0)), x

    def gaussian_scores(self, x: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        """See :class:`Family`; outliers are clipped."""
        return np.clip(x, -4.0, 4.0), np.ones_like(mean)

    def initial_shape(self, x: FloatArray, mask: FloatArray, noise: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        return np.stack([np.log(np.maximum(0.5 * noise, 10.0 * MIN_NOISE)), np.full_like(noise, np.log(6.0))])

    def min_shape(self) -> FloatArray:
        """See :class:`Family`."""
        return np.log(np.array([MIN_NOISE, self._MIN_DF]))

    def log_prior(self, shape: FloatArray) -> tuple[float, FloatArray]:
        """See :class:`Family`; ``nu ~ Gamma(2, 0.1)`` (Juarez & Steel 2010)."""
        value, slope = weak_prior(shape[0], WEAK_PRIOR)
        df = np.exp(shape[1])
        return value + float(np.sum(shape[1] - 0.1 * df)), np.stack([slope, 1.0 - 0.1 * df])


class Bernoulli(Family):
    """Zeros and ones."""

    name = "bernoulli"
    is_integer = True

    def expectation(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> Expectation:
        """See :class:`Family`."""
        value, slope, curvature = expected_softplus(mean, variance)
        return Expectation(x * mean - value, x - slope, curvature)

    def log_density(self, x: FloatArray, eta: FloatArray, shape: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        return np.asarray(x * eta - np.logaddexp(0.0, eta))

    def moments(
        self, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """See :class:`Family`."""
        p = expected_softplus(mean, variance)[1]
        return p, p * (1.0 - p)

    def cdf(self, x: FloatArray, eta: FloatArray, shape: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        return np.where(x >= 1.0, 1.0, np.where(x >= 0.0, special.expit(-eta), 0.0))

    def draw(self, eta: FloatArray, shape: FloatArray, rng: np.random.Generator) -> FloatArray:
        """See :class:`Family`."""
        return (rng.random(eta.shape) < special.expit(eta)).astype(np.float64)

    def predictor_of(self, mean: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        return np.asarray(special.logit(mean))

    def initial_sites(
        self, x: FloatArray, mean: FloatArray, shape: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """See :class:`Family`; one step of reweighted least squares, from halfway between value and mean."""
        p = 0.5 * (0.5 * (x + 0.5) + mean)
        precision = p * (1.0 - p)
        return precision, special.logit(p) + (x - p) / precision

    def gaussian_scores(self, x: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        """See :class:`Family`."""
        return x, mean * (1.0 - mean)


class Poisson(Family):
    """Counts whose variance equals their mean."""

    name = "poisson"
    is_integer = True

    def expectation(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> Expectation:
        """See :class:`Family`."""
        rate = _exp(mean + 0.5 * variance)
        return Expectation(x * mean - rate, x - rate, rate)

    def constant(self, x: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        return -np.asarray(special.gammaln(x + 1.0))

    def log_density(self, x: FloatArray, eta: FloatArray, shape: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        return np.asarray(x * eta - _exp(eta) - special.gammaln(x + 1.0))

    def moments(
        self, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """See :class:`Family`."""
        rate = _exp(mean + 0.5 * variance)
        return rate, rate + rate**2 * np.expm1(np.minimum(variance, 0.5 * _MAX_EXPONENT))

    def cdf(self, x: FloatArray, eta: FloatArray, shape: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        return np.where(x < 0.0, 0.0, special.pdtr(np.maximum(np.floor(x), 0.0), _exp(eta)))

    def draw(self, eta: FloatArray, shape: FloatArray, rng: np.random.Generator) -> FloatArray:
        """See :class:`Family`."""
        return rng.poisson(np.minimum(_exp(eta), 1e15)).astype(np.float64)

    def predictor_of(self, mean: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        return np.log(mean)

    def initial_sites(
        self, x: FloatArray, mean: FloatArray, shape: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """See :class:`Family`; one step of reweighted least squares, from halfway between value and mean."""
        rate = 0.5 * (x + mean)
        return rate, np.log(rate) + (x - rate) / rate

    def gaussian_scores(self, x: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        """See :class:`Family`; square roots, which stabilize the variance (Anscombe 1948)."""
        return np.sqrt(x + 0.375), 0.5 * np.sqrt(mean)


class NegativeBinomial(Poisson):
    """Overdispersed counts: mean ``exp(eta)``, variance ``mean + mean^2 / size``."""

    name = "negative_binomial"
    n_shapes = 1

    def expectation(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> Expectation:
        """See :class:`Family`."""
        count_plus_size = x + np.exp(shape[0])
        value, slope, curvature = expected_softplus(mean - shape[0], variance)
        return Expectation(
            self._norm(x, shape) + x * (mean - shape[0]) - count_plus_size * value,
            x - count_plus_size * slope,
            count_plus_size * curvature,
        )

    def constant(self, x: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        return np.zeros_like(x)

    @staticmethod
    def _norm(x: FloatArray, shape: FloatArray) -> FloatArray:
        size = np.exp(shape[0])
        return np.asarray(-special.betaln(x + 1.0, size) - np.log(x + size))

    def shape_gradient(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> list[FloatArray]:
        """See :class:`Family`."""
        size = np.exp(shape[0])
        value, slope, _ = expected_softplus(mean - shape[0], variance)
        by_size = special.digamma(x + size) - special.digamma(size) - value
        return [size * by_size - x + (x + size) * slope]

    def log_density(self, x: FloatArray, eta: FloatArray, shape: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        scaled_eta = eta - shape[0]
        count_plus_size = x + np.exp(shape[0])
        return np.asarray(
            self._norm(x, shape) + x * scaled_eta - count_plus_size * np.logaddexp(0.0, scaled_eta)
        )

    def moments(
        self, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """See :class:`Family`."""
        rate, poisson_variance = super().moments(mean, variance, shape)
        return rate, poisson_variance + _exp(2.0 * (mean + variance) - shape[0])

    def cdf(self, x: FloatArray, eta: FloatArray, shape: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        size = np.broadcast_to(np.exp(shape[0]), eta.shape)
        p = special.expit(shape[0] - eta)
        return np.where(x < 0.0, 0.0, stats.nbinom.cdf(np.floor(x), size, p))

    def draw(self, eta: FloatArray, shape: FloatArray, rng: np.random.Generator) -> FloatArray:
        """See :class:`Family`."""
        size = np.broadcast_to(np.exp(shape[0]), eta.shape)
        rate = rng.gamma(size) * _exp(eta) / size
        return rng.poisson(np.minimum(rate, 1e15)).astype(np.float64)

    def initial_sites(
        self, x: FloatArray, mean: FloatArray, shape: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """See :class:`Family`."""
        rate = 0.5 * (x + mean)
        return rate / (1.0 + rate * np.exp(-shape[0])), np.log(rate) + (x - rate) / rate

    def initial_shape(self, x: FloatArray, mask: FloatArray, noise: FloatArray) -> FloatArray:
        """See :class:`Family`; twice the square root of a count has a variance of ``1 + mean / size``."""
        counts = np.maximum(mask.sum(axis=0), 1.0)
        mean = np.maximum((mask * x).sum(axis=0) / counts, 0.5 / counts)
        overdispersion = np.maximum(4.0 * noise - 1.0, 0.05)
        return np.clip(np.log(mean / overdispersion), -3.0, 6.0)[None]

    def min_shape(self) -> FloatArray:
        """See :class:`Family`."""
        return np.array([-6.0])

    def log_prior(self, shape: FloatArray) -> tuple[float, FloatArray]:
        """See :class:`Family`; the prior of ``log(1 / size)`` keeps the size finite for Poisson counts."""
        value, slope = weak_prior(-shape[0], _WEAK_DISPERSION)
        return value, -slope[None]


#: All families by their names; "categorical" columns are encoded as "bernoulli" ones.
FAMILIES: dict[str, Family] = {
    family.name: family for family in (Gaussian(), StudentT(), Bernoulli(), Poisson(), NegativeBinomial())
}
FAMILIES.update(LINKS)
