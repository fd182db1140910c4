"""Observation noise in the fit: free variances, their lower bounds and their prior.

If a latent factor reproduces a single column, maximum likelihood may estimate a noise variance of zero for
this column (a Heywood case). The likelihood is then nearly constant for small variances, and the estimate is
arbitrary. Let ``rho`` be the noise variance as a fraction of the variance of the column. The weak prior is
flat on the logarithmic scale for large ``rho`` and proportional to ``rho`` for small ``rho``,

    p(log rho) ~ rho / (rho + s),        s = 1e-4.

Its logarithm changes by less than one nat if ``rho`` changes by a factor of e, so that noise-free data are
still fitted without noise. For noisy data it changes the objective by only ``s / rho`` nats. If the
likelihood is flat, the prior determines the estimate. For ``n`` values with the sum ``S`` of squared
residuals, the variance that maximizes ``-n/2 log rho - S / (2 rho) + log p`` is the positive root of ``n
rho^2 + (n s - S - 2 s) rho - S s = 0``.

References
----------
Martin, J. K. & McDonald, R. P. (1975). Bayesian estimation in unrestricted factor analysis: a treatment for
Heywood cases. Psychometrika 40, 505-517. https://doi.org/10.1007/BF02291552. Their prior
``exp(-d / (2 rho))`` prevents a fit without noise even for noise-free data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import BoolArray, FloatArray
from probsfa.statespace.quantities import Quantity

__all__ = [
    "FORMER_FLOOR",
    "MIN_KNOWN_NOISE",
    "MIN_NOISE",
    "MIN_WHITE_NOISE",
    "OF_AR1_NOISE",
    "OF_WHITE_NOISE",
    "STRUCTURES",
    "WEAK_PRIOR",
    "Noise",
    "NoiseVariances",
    "is_heywood",
    "gradient_for_metric",
]

#: Fitted attributes of white noise, and of AR(1) noise.
OF_WHITE_NOISE = (Quantity("noise_variance_", "noise variance", "data^2", ("column",), "log"),)
OF_AR1_NOISE = (
    Quantity("noise_decay_", "decay of AR(1) noise", "", ("column",), "atanh"),
    Quantity("noise_timescales_"),
    Quantity("noise_scale_", "std of AR(1) noise", "data", ("column",), "log"),
    Quantity("noise_share_"),
)

# ---------------------------------------------------------------------------- columns that share a variance

# A structure of the noise variances defines which columns share a variance, and which variances are known. It
# consists of groups of columns: one group for each column (``"diagonal"``), one group of all columns
# (``"isotropic"``), or no group if variances are known. :class:`NoiseVariances` maps free variances to
# columns and back. A new structure is an entry of :data:`STRUCTURES`.


@dataclass(frozen=True)
class NoiseVariances:
    """Groups of columns that share a noise variance.

    Parameters
    ----------
    groups : tuple of int
        Index of the free variance of each column, 0 to ``n_free - 1``; -1 for columns with a known variance.

    Examples
    --------
    >>> import numpy as np
    >>> from probsfa.statespace.noise import NoiseVariances
    >>> tied = NoiseVariances((0, 0, 1, -1))
    >>> tied.n_features, tied.n_free
    (4, 2)
    >>> tied.totals(np.array([1.0, 2.0, 3.0, 4.0])).tolist()
    [3.0, 3.0]
    """

    groups: tuple[int, ...]

    @classmethod
    def diagonal(cls, n_features: int) -> "NoiseVariances":
        """One variance per column."""
        return cls(tuple(range(n_features)))

    @classmethod
    def isotropic(cls, n_features: int) -> "NoiseVariances":
        """One variance for all columns."""
        return cls((0,) * n_features)

    @classmethod
    def known(cls, n_features: int) -> "NoiseVariances":
        """Known variances, not estimated."""
        return cls((-1,) * n_features)

    @classmethod
    def of_option(cls, noise: object, n_features: int) -> "NoiseVariances":
        """Return the structure of the white noise for the option `noise` of an estimator.

        Numbers are known variances. With ``"ar1"`` and ``"auto"`` each column has its own variance.
        """
        if not isinstance(noise, str):
            return cls.known(n_features)
        return STRUCTURES.get(noise, cls.diagonal)(n_features)

    @property
    def n_features(self) -> int:
        """Number of columns, ``D``."""
        return len(self.groups)

    @cached_property
    def n_free(self) -> int:
        """Number of free variances, ``F``."""
        return max(self.groups, default=-1) + 1

    @cached_property
    def separate(self) -> bool:
        """Whether each column has a separate free variance."""
        return self.groups == tuple(range(self.n_features))

    @cached_property
    def _columns(self) -> NDArray[np.intp]:
        """Indices of columns with a free variance."""
        return np.flatnonzero(np.array(self.groups, dtype=np.intp) >= 0)

    @cached_property
    def _group(self) -> NDArray[np.intp]:
        """Groups of the columns with a free variance."""
        return np.array(self.groups, dtype=np.intp)[self._columns]

    @cached_property
    def _first(self) -> NDArray[np.intp]:
        """First column of each group."""
        return np.array([self.groups.index(group) for group in range(self.n_free)], dtype=np.intp)

    @cached_property
    def indicator(self) -> FloatArray:
        """Matrix (D, F), one where a column belongs to a group and zero elsewhere."""
        return (np.array(self.groups)[:, None] == np.arange(self.n_free)).astype(np.float64)

    def totals(self, by_column: FloatArray) -> FloatArray:
        """Return sums (F, ...) over the columns (D, ...) of each group."""
        return by_column if self.separate else self.indicator.T @ by_column

    def largest(self, by_column: FloatArray) -> FloatArray:
        """Return the largest value (F,) among the columns (D,) of each group."""
        if self.separate:
            return by_column
        maxima = np.full(self.n_free, -np.inf)
        np.maximum.at(maxima, self._group, by_column[self._columns])
        return maxima

    def means(self, by_column: FloatArray) -> FloatArray:
        """Return means (F,) over the columns (D,) of each group."""
        return self.totals(by_column) / self.totals(np.ones(self.n_features))

    def group_values(self, by_column: FloatArray) -> FloatArray:
        """Return the value (F,) of each group from values (D,) that are equal within each group."""
        return by_column if self.separate else by_column[self._first]

    def column_values(self, by_group: FloatArray, known: FloatArray | float = 0.0) -> FloatArray:
        """Return the value (D,) of each column from values (F,) of the groups; `known` for other columns."""
        if self.separate:
            return by_group
        values = np.array(np.broadcast_to(known, self.n_features), dtype=np.float64)
        values[self._columns] = by_group[self._group]
        return values


#: Structures of noise variances by the name of the option.
STRUCTURES: dict[str, Callable[[int], NoiseVariances]] = {
    "diagonal": NoiseVariances.diagonal,
    "isotropic": NoiseVariances.isotropic,
}


# ----------------------------------------------------------------------------------------- bounds and prior

#: Minimum noise variance, as a fraction of a column's variance.
MIN_NOISE = 1e-9
#: Minimum variance of white noise in models with AR(1) noise, as a fraction of a column's variance. Smaller
#: white noise cannot be distinguished from AR(1) noise, and the engine would use a slower algorithm.
MIN_WHITE_NOISE = 1e-6
#: Lower bound of known noise variances, as a fraction of a column's variance. Rounding errors change a
#: log-likelihood by half a nat at 1e-14 and dominate it at 1e-16.
MIN_KNOWN_NOISE = 1e-12
#: Relative noise variance ``s`` below which the density of the weak prior decreases.
WEAK_PRIOR = 1e-4
#: Lower bound, in earlier versions, of the noise variance of some columns, as a fraction of their variance.
#: Models that were saved by these versions may have it.
FORMER_FLOOR = 1e-3
# Limits of relative noise variances in a Heywood case: the smallest one is below the first limit, and the
# median over all columns is above the second limit.
_MAX_HEYWOOD_VARIANCE, _MIN_MEDIAN_VARIANCE = 1e-4, 1e-3


class Noise(NamedTuple):
    """Settings for the estimation of noise variances: structure, lower bounds, prior and known values.

    Attributes
    ----------
    variances : NoiseVariances
        Which columns share a variance, and which variances are known.
    floor : ndarray of shape (D,)
        Lower bounds of the variances.
    prior : float, default=0.0
        Relative variance ``s`` below which the prior density decreases; zero for no prior.
    fixed : ndarray of shape (D,), optional
        Fixed variances, NaN where they are estimated. With None all free variances are estimated.
    """

    variances: NoiseVariances
    floor: FloatArray
    prior: float = 0.0
    fixed: FloatArray | None = None

    @property
    def estimated(self) -> BoolArray:
        """Mask (F,) of the free variances that are estimated, not fixed."""
        if self.fixed is None:
            return np.ones(self.variances.n_free, dtype=bool)
        return np.isnan(self.variances.group_values(self.fixed))

    def with_fixed(self, variance: FloatArray) -> FloatArray:
        """Return variances (D,), with fixed variances inserted."""
        return variance if self.fixed is None else np.where(np.isnan(self.fixed), variance, self.fixed)

    def log_prior(self, variance: FloatArray) -> float:
        """Return the log prior density of relative variances (D,), in nats, up to a constant."""
        free = self.variances.group_values(variance)
        return -float(np.sum(np.log1p(self.prior / free[self.estimated])))

    def prior_gradient(self, variance: FloatArray) -> FloatArray:
        """Return the gradient (F,) of the log prior with respect to the logarithm of each free variance."""
        free = self.variances.group_values(variance)
        gradient = self.prior / (free + self.prior) if self.prior > 0.0 else np.zeros_like(free)
        return np.where(self.estimated, gradient, 0.0)

    def best_variance(self, counts: FloatArray, squares: FloatArray) -> FloatArray:
        """Return variances that maximize the posterior density given sums of squares, without bounds.

        Parameters
        ----------
        counts, squares : ndarray of shape (M,)
            Number of values, and expected sum of their squared residuals.

        Returns
        -------
        ndarray of shape (M,)
        """
        if self.prior == 0.0:
            return squares / counts
        half = 0.5 * (counts * self.prior - squares - 2.0 * self.prior)
        product = counts * squares * self.prior
        root = np.sqrt(half**2 + product)
        # A form of the root without cancellation if `half` is positive.
        below = squares * self.prior / np.where(half > 0.0, half + root, 1.0)
        return np.asarray(np.where(half > 0.0, below, (root - half) / counts))

    def maximized(self, variance: FloatArray, counts: FloatArray, squares: FloatArray) -> FloatArray:
        """M-step: return variances (D,) from counts and sums of squares (D,); known values are unchanged."""
        best = self.best_variance(self.variances.totals(counts), self.variances.totals(squares))
        free = np.maximum(best, self.variances.largest(self.floor))
        return self.with_fixed(self.variances.column_values(free, variance))


def is_heywood(variance: FloatArray) -> bool:
    """Return whether a column has a noise variance near zero although most columns have noise.

    Parameters
    ----------
    variance : ndarray of shape (D,)
        Noise variances, as fractions of each column's variance.

    Returns
    -------
    bool
    """
    return bool(variance.min() < _MAX_HEYWOOD_VARIANCE and np.median(variance) > _MIN_MEDIAN_VARIANCE)


def gradient_for_metric(
    gradient: FloatArray, log_variances: slice, noise: Noise | None, noise_variance: FloatArray
) -> FloatArray:
    """Return the gradient from which a metric computes the curvature with respect to the noise variances.

    The curvature is minus the second derivative with respect to the logarithm of a variance. If the variance
    is small, the curvature of the log-likelihood is about minus its gradient, but the curvature of the log
    prior is positive and at most its gradient. :class:`.Metric` adds minus its argument `gradient`, if
    positive, to the expected information. Its argument is therefore the gradient of the log-likelihood minus
    the gradient of the log prior: the gradient of the log posterior density minus twice the gradient of the
    log prior.

    Parameters
    ----------
    gradient : ndarray of shape (P,)
        Gradient of the log posterior density.
    log_variances : slice
        Coordinates of the logarithms of the noise variances.
    noise : Noise or None
        Noise with its prior; None without prior.
    noise_variance : ndarray of shape (D,)
        Noise variances at which the gradient is taken.

    Returns
    -------
    ndarray of shape (P,)
    """
    if noise is None:
        return gradient
    changed = gradient.copy()
    changed[log_variances] -= 2.0 * noise.prior_gradient(noise_variance)
    return changed
