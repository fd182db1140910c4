"""How well a model finds observed cells again that are left out, one at a time, beside straight lines.

Leaving a cell out needs no posterior of its own: that of the cell's noise-free value is Gaussian, and so is
what the cell itself said of it, so that the second can be taken out of the first,

    1 / v' = 1 / v - 1 / r,        m' = v' (m / v - x / r),

with posterior mean ``m`` and variance ``v`` and noise variance ``r``.
"""

from typing import NamedTuple

import numpy as np

from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.parameters import Parameters

__all__ = [
    "Comparison",
    "compare_with_interpolation",
    "interpolated",
    "left_out",
    "left_out_moments",
    "straight_lines",
    "tell_hardly_more",
]

# A cell that its own observation determines but for this part has nothing left to be told by the others.
_LEAST_LEFT = 1e-7
# Part of what latents explain below which noise leaves little of the others in the posterior of a cell.
_HARDLY = 1e-5
# Fewer cells say nothing of a model.
_FEWEST = 20


class Comparison(NamedTuple):
    """Root mean square errors of the same cells, in units of each feature's standard deviation.

    Attributes
    ----------
    model, interpolation : float
        Errors of the model, and of straight lines in time.
    n_cells : int
        Number of cells left out.
    """

    model: float
    interpolation: float
    n_cells: int

    @property
    def sentence(self) -> str:
        """A warning where the model is no better than straight lines; or nothing."""
        if self.n_cells < _FEWEST or self.model < self.interpolation:
            return ""
        return (
            "Observed cells left out one at a time are found no better than by linear interpolation: RMSE "
            f"{self.model:.3g} against {self.interpolation:.3g} standard deviations, over {self.n_cells:,} "
            "cells. "
            "A memory of its own for each column may serve better (ProbabilisticSFA(noise='ar1')), or "
            "another number of latents (select_model), or interpolation."
        )


def left_out(
    values: FloatArray, means: FloatArray, variances: FloatArray, noise_variance: FloatArray
) -> FloatArray:
    """Return what a model says of each observed cell without it.

    Parameters
    ----------
    values : ndarray of shape (T, D)
        Observations, NaN where missing.
    means, variances : ndarray of shape (T, D)
        Moments of new observations given all cells, noise included.
    noise_variance : ndarray of shape (D,)
        Noise variance.

    Returns
    -------
    ndarray of shape (T, D)
        NaN where a cell is missing, or where rounding leaves nothing of what the others say.
    """
    return left_out_moments(values, means, variances, noise_variance)[0]


def left_out_moments(
    values: FloatArray, means: FloatArray, variances: FloatArray, noise_variance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return means and variances (T, D), noise included, of what a model says of observed cells without them.

    Parameters as of :func:`left_out`; NaN where that has NaN.
    """
    explained = variances - noise_variance
    with np.errstate(divide="ignore", invalid="ignore"):
        left = 1.0 - explained / noise_variance  # v / v'
        without = (means - values * (explained / noise_variance)) / left
        variance = explained / left + noise_variance
    told = (left > _LEAST_LEFT) & ~np.isnan(values)
    return np.where(told, without, np.nan), np.where(told, variance, np.nan)


def tell_hardly_more(params: Parameters) -> BoolArray:
    """Features (D,) whose cells may determine themselves so far that their posteriors hide what others say.

    Taking a cell out of its posterior then leaves rounding; see :func:`.cells_left_out`.
    """
    noise, explained = params.noise_variance, np.sum(params.loadings**2, axis=1)
    return np.asarray((noise > 0.0) & (noise < _HARDLY * explained))


def interpolated(sequences: Sequences) -> FloatArray:
    """Return the straight line between the neighbours of each observed cell, at the cell's time.

    At the ends of a sequence the only neighbour is repeated.

    Parameters
    ----------
    sequences : Sequences
        Rows, NaN where missing.

    Returns
    -------
    ndarray of shape (N, D)
        NaN where a cell is missing, or is the only one of its feature in its sequence.
    """
    times = np.arange(sequences.n_rows, dtype=np.float64) if sequences.times is None else sequences.times
    out = np.full(sequences.values.shape, np.nan)
    for rows in sequences.slices:
        for d in range(sequences.n_features):
            seen = rows.start + np.flatnonzero(sequences.mask[rows, d])
            if len(seen) < 2:
                continue
            x, t = sequences.values[seen, d], times[seen]
            out[seen[0], d], out[seen[-1], d] = x[1], x[-2]
            share = (t[1:-1] - t[:-2]) / (t[2:] - t[:-2])
            out[seen[1:-1], d] = x[:-2] + share * (x[2:] - x[:-2])
    return out


def straight_lines(sequences: Sequences) -> FloatArray:
    """Return straight lines in time through the observed cells, at all rows.

    Before the first and after the last observed cell of a sequence, that cell is repeated.

    Parameters
    ----------
    sequences : Sequences
        Rows, NaN where missing.

    Returns
    -------
    ndarray of shape (N, D)
        A feature that is never observed in a sequence has its mean over all of them there.
    """
    times = np.arange(sequences.n_rows, dtype=np.float64) if sequences.times is None else sequences.times
    out = np.empty_like(sequences.values)
    means = np.nanmean(sequences.values, axis=0)
    for rows in sequences.slices:
        for d in range(sequences.n_features):
            seen = rows.start + np.flatnonzero(sequences.mask[rows, d])
            if len(seen):
                out[rows, d] = np.interp(times[rows], times[seen], sequences.values[seen, d])
            else:
                out[rows, d] = means[d]
    return out


def compare_with_interpolation(sequences: Sequences, by_model: FloatArray) -> Comparison:
    """Compare a model with straight lines on the observed cells of data.

    Parameters
    ----------
    sequences : Sequences
        Rows, NaN where missing.
    by_model : ndarray of shape (T, D)
        What the model says of each observed cell without it, as from :func:`left_out`.

    Returns
    -------
    Comparison
        Over the cells of which both say something.
    """
    values = sequences.values
    by_lines = interpolated(sequences)
    both = ~np.isnan(by_model) & ~np.isnan(by_lines)
    seen = sequences.mask.any(axis=0)  # a column of data that come later may be empty
    scale = np.zeros(sequences.n_features)
    scale[seen] = np.nanstd(values[:, seen], axis=0)
    both &= scale > 0.0
    n_cells = int(np.count_nonzero(both))
    if n_cells == 0:
        return Comparison(np.nan, np.nan, 0)
    unit = np.broadcast_to(scale, values.shape)[both]
    errors = [(guess[both] - values[both]) / unit for guess in (by_model, by_lines)]
    model, interpolation = (float(np.sqrt(np.mean(error**2))) for error in errors)
    return Comparison(model, interpolation, n_cells)
