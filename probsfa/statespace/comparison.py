"""Comparison of models by their predictions of held-out values, for the default call and `select_model`."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.calibration import (
    Calibration,
    HeldOut,
    calibrate,
    distance_to_observed,
    small_sample_factors,
)
from probsfa.statespace.held_out_values import HeldOutValues, crps
from probsfa.statespace.leave_one_out import interpolation_errors, worse_than_interpolation
from probsfa.statespace.models import LinearGaussianModel

__all__ = ["by_interpolation", "calibrated", "predict_held_out", "scores", "worse_columns"]


def predict_held_out(
    model: LinearGaussianModel, rest: Sequences, hidden: HeldOutValues, values: FloatArray, units: FloatArray
) -> HeldOut:
    """Predict all held-out values given the others.

    Parameters
    ----------
    model : LinearGaussianModel
        Model fitted without the held-out values.
    rest : Sequences
        Rows without the held-out values.
    hidden : HeldOutValues
        Which values are held out.
    values : ndarray of shape (N, D)
        All values.
    units : ndarray of shape (D,)
        Units of errors and standard deviations.

    Returns
    -------
    HeldOut
        Predictions in the order of ``values[hidden.all]``.
    """
    filled, here = model.impute(rest, with_std=True), hidden.all
    assert filled.std is not None
    rows, _ = np.nonzero(here)
    # Missing blocks of several columns that begin in the same row are not independent, and have the same
    # number.
    start = np.full(hidden.group.max() + 1, len(here))
    np.minimum.at(start, hidden.group[here], rows)
    factors = _small_sample(model, rest.mask)
    return HeldOut(
        ((filled.values - values) / units)[here],
        (filled.std * factors / units)[here],
        distance_to_observed(rest, model.fitted.time_unit)[here],
        start[hidden.group[here]],
    )


def scores(held_out: HeldOut, largest: float = np.inf) -> FloatArray:
    """Return the scores (n,) of predictions (see :func:`.crps`), with calibrated standard deviations.

    Parameters
    ----------
    held_out : HeldOut
        Predictions of held-out values.
    largest : float, default=inf
        Upper bound of a score.
    """
    factors = calibrate(held_out, np.ones(1)).by_distance(held_out.distances)
    return np.minimum(crps(held_out.errors, held_out.std * factors), largest)


def by_interpolation(rows: Sequences, hidden: HeldOutValues, units: FloatArray) -> FloatArray:
    """Return the errors (n,) of linear interpolation at held-out values, given all others."""
    here = hidden.all
    return np.asarray((interpolation_errors(rows, here.astype(int)) / units)[here])


def worse_columns(
    rows: Sequences, draws: Sequence[HeldOutValues], held_out: HeldOut, units: FloatArray
) -> NDArray[np.intp]:
    """Return columns whose held-out values are predicted worse than by linear interpolation.

    Parameters
    ----------
    rows : Sequences
        Rows with all values.
    draws : sequence of HeldOutValues
        The held-out values of each draw.
    held_out : HeldOut
        Predictions of the values of all draws.
    units : ndarray of shape (D,)
        Units of the errors.
    """
    by_lines = np.concatenate([by_interpolation(rows, each, units) for each in draws])
    columns = np.concatenate([np.nonzero(each.all)[1] for each in draws])
    return worse_than_interpolation(held_out.errors, by_lines, columns, held_out.gaps, rows.n_features)


def calibrated(model: LinearGaussianModel, mask: BoolArray, held_out: HeldOut | None) -> LinearGaussianModel:
    """Return the model with intervals that are calibrated by held-out values, if there are any.

    Parameters
    ----------
    model : LinearGaussianModel
        Model fitted to all values.
    mask : ndarray of bool of shape (N, D)
        Which values are observed.
    held_out : HeldOut or None
        Predictions by a model with the same options.
    """
    small_sample = _small_sample(model, mask)
    calibration = Calibration(np.ones(1), np.ones(1), small_sample)
    if held_out is not None:
        calibration = calibrate(held_out, small_sample)
    return replace(model, fitted=replace(model.fitted, calibration=calibration))


def _small_sample(model: LinearGaussianModel, mask: BoolArray) -> FloatArray:
    """Return small-sample factors (D,) for the estimated loadings, mean, and AR(1) noise of each column."""
    params = model.fitted.params
    return small_sample_factors(mask.sum(axis=0), params.n_components + (3 if params.has_ar1_noise else 1))
