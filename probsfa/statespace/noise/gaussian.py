"""The observation noise in learning: how many variances are free, how small, and the prior on them.

Maximum likelihood may leave a feature without noise where a latent follows it alone (a Heywood case): below
some size the likelihood does not depend on the variance any more, and where the climb ends is chance. The
weak prior takes relative variances ``rho``, in units of each feature's variance, to be equally likely on a
logarithmic scale as long as they are large, and less so in proportion to their size where they are small,

    p(log rho) ~ rho / (rho + s),        s = 1e-4.

It pulls upwards by less than one nat for each factor of e, at any size, so that data without noise are still
fitted without it; by ``s / rho`` nats only where there is noise; and in the flat part of a likelihood it is
what decides. The variance that maximises ``-n/2 log rho - S / (2 rho) + log p`` is the positive root of
``n rho^2 + (n s - S - 2 s) rho - S s = 0``.

References
----------
Martin, J. K. & McDonald, R. P. (1975). Bayesian estimation in unrestricted factor analysis: a treatment for
Heywood cases. Psychometrika 40, 505-517. https://doi.org/10.1007/BF02291552, whose prior
``exp(-d / (2 rho))`` keeps data without noise from being fitted so.
"""

from typing import NamedTuple

import numpy as np

from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.noise.variances import NoiseVariances

__all__ = [
    "FORMER_FLOOR",
    "LEAST_KNOWN_NOISE",
    "LEAST_NOISE",
    "LEAST_WHITE_NOISE",
    "WEAK_PRIOR",
    "Noise",
    "is_heywood",
    "resolution_variance",
    "slope_for_metric",
]

#: Smallest noise variance that is allowed at all, as a fraction of a feature's variance.
LEAST_NOISE = 1e-9
#: Smallest variance of white noise beside AR(1) noise, as such a fraction: a thousandth of the standard
#: deviation. With less, AR(1) noise and white noise cannot be told apart, and the engine takes its slow path.
LEAST_WHITE_NOISE = 1e-6
#: Smallest known noise variance that is computed with, as such a fraction. A cell enters with the weight
#: 1 / noise: rounding alone changes a log-likelihood by half a nat at 1e-14, and is all of it at 1e-16.
LEAST_KNOWN_NOISE = 1e-12
#: Relative noise variance below which the weak prior falls.
WEAK_PRIOR = 1e-4
# Curvature by ``log rho`` that a climb takes the posterior density to have besides the expected information,
# in units of the prior's slope: what the likelihood has where the prior balances it, and as much again.
_PRIOR_CURVATURE = 2.0
# Part of the noise variance with which linear interpolation would have the error that it has, up to which a
# column's resolution is a lower bound of its noise: a column that rests on one of few levels for long is
# interpolated nearly without error, and the distance of the levels is no measure of its noise.
_OF_INTERPOLATION = 0.01
# Rows from which the resolution of columns is determined, in so many segments: sorting more takes long.
_RESOLUTION_ROWS, _RESOLUTION_SEGMENTS = 20_000, 8
#: What earlier versions held single features to, and their files still do.
FORMER_FLOOR = 1e-3
# A feature has hardly any noise below the first, and others are typical above the second.
_HEYWOOD_LOW, _HEYWOOD_TYPICAL = 1e-4, 1e-3


class Noise(NamedTuple):
    """How the noise variances are learned: structure, lower bounds, prior and held values.

    Attributes
    ----------
    variances : NoiseVariances
        Which columns share a variance, and which variances are known.
    floor : ndarray of shape (D,)
        Smallest variance allowed.
    prior : float, default=0.0
        Relative variance below which the prior density of its logarithm falls; zero for no prior.
    held : ndarray of shape (D,), optional
        Variances that are held, NaN where they are learned. None where all are.
    """

    variances: NoiseVariances
    floor: FloatArray
    prior: float = 0.0
    held: FloatArray | None = None

    @property
    def learned(self) -> BoolArray:
        """Which of the free variances (F,) are learned and not held."""
        if self.held is None:
            return np.ones(self.variances.n_free, dtype=bool)
        return np.isnan(self.variances.of_groups(self.held))

    def with_held(self, variance: FloatArray) -> FloatArray:
        """Variances (D,) with those that are held in their places."""
        return variance if self.held is None else np.where(np.isnan(self.held), variance, self.held)

    def log_prior(self, variance: FloatArray) -> float:
        """Logarithm of the prior density of relative variances (D,), in nats, up to a constant."""
        free = self.variances.of_groups(variance)
        return -float(np.sum(np.log1p(self.prior / free[self.learned])))

    def prior_slope(self, variance: FloatArray) -> FloatArray:
        """Its derivative (F,) by the logarithm of each free variance."""
        free = self.variances.of_groups(variance)
        slope = self.prior / (free + self.prior) if self.prior > 0.0 else np.zeros_like(free)
        return np.where(self.learned, slope, 0.0)

    def best_variance(self, counts: FloatArray, power: FloatArray) -> FloatArray:
        """Variances that maximise their posterior density given sums of squares, without regard to the floor.

        Parameters
        ----------
        counts, power : ndarray of shape (M,)
            Number of values, and expected sum of their squared residuals.

        Returns
        -------
        ndarray of shape (M,)
        """
        if self.prior == 0.0:
            return power / counts
        half = 0.5 * (counts * self.prior - power - 2.0 * self.prior)
        product = counts * power * self.prior
        root = np.sqrt(half**2 + product)
        # Of both forms of the root the one without cancellation.
        below = power * self.prior / np.where(half > 0.0, half + root, 1.0)
        return np.asarray(np.where(half > 0.0, below, (root - half) / counts))

    def maximized(self, variance: FloatArray, counts: FloatArray, power: FloatArray) -> FloatArray:
        """M-step: variances (D,) from counts and sums of squares (D,) by column; known and held ones stay."""
        if self.variances.n_free == 0:
            return self.with_held(variance)
        best = self.best_variance(self.variances.totals(counts), self.variances.totals(power))
        free = np.maximum(best, self.variances.largest(self.floor))
        return self.with_held(self.variances.of_columns(free, variance))


def resolution_variance(sequences: Sequences) -> FloatArray:
    """Return the noise variance (D,) that the resolution of each column implies.

    Rounding to multiples of a step ``h`` adds an error of variance ``h^2 / 12`` to a signal that moves by
    several steps (Sheppard's correction). The step is the smallest distance of two distinct values. It is
    negligible for values that were not rounded.

    White noise of variance ``r`` gives an error of ``3 r / 2`` where a value is interpolated between its
    neighbours. The result is at most a hundredth of the variance for which that is the error of the column.

    Parameters
    ----------
    sequences : Sequences
        Rows, NaN where missing.

    Returns
    -------
    ndarray of shape (D,)
        In squared units of the data.
    """
    n_rows = sequences.n_rows
    length = -(-min(n_rows, _RESOLUTION_ROWS) // _RESOLUTION_SEGMENTS)
    first = np.unique(np.linspace(0, n_rows - length, _RESOLUTION_SEGMENTS).astype(int))
    rows = sequences.values[np.unique(first[:, None] + np.arange(length))]
    out = np.zeros(sequences.n_features)
    for j, column in enumerate(rows.T):
        seen = column[~np.isnan(column)]
        if seen.size < 3:
            continue
        steps = np.diff(np.unique(seen))
        # Smaller ones matter less than the least noise that is allowed.
        steps = steps[steps**2 > 12.0 * LEAST_NOISE * np.var(seen)]
        errors = seen[1:-1] - 0.5 * (seen[:-2] + seen[2:])
        if steps.size:
            largest = _OF_INTERPOLATION * float(np.mean(errors**2)) / 1.5
            out[j] = min(float(steps.min()) ** 2 / 12.0, largest)
    return out


def is_heywood(variance: FloatArray) -> bool:
    """Whether single features are left without noise while most are not.

    Parameters
    ----------
    variance : ndarray of shape (D,)
        Noise variances, as fractions of each feature's variance.

    Returns
    -------
    bool
    """
    return bool(variance.min() < _HEYWOOD_LOW and np.median(variance) > _HEYWOOD_TYPICAL)


def slope_for_metric(
    gradient: FloatArray, place: slice, noise: Noise | None, noise_variance: FloatArray
) -> FloatArray:
    """The gradient by which a metric judges how steeply noise variances curve what is climbed.

    The likelihood curves where its own gradient pushes a variance towards zero, whatever holds it up; and
    where it is flat, the prior alone would ask for steps so long that they shorten all others.

    Parameters
    ----------
    gradient : ndarray of shape (P,)
        Slope of the posterior density.
    place : slice
        Where the logarithms of the noise variances are.
    noise : Noise or None
        With the prior, where there is one.
    noise_variance : ndarray of shape (D,)
        Where the slope is taken.

    Returns
    -------
    ndarray of shape (P,)
    """
    if noise is None:
        return gradient
    slope = gradient.copy()
    slope[place] -= _PRIOR_CURVATURE * noise.prior_slope(noise_variance)
    return slope
