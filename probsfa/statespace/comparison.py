"""Comparison of models by held-out values, for `ProbabilisticSFA()` without arguments and `select_model`."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.calibration import (
    Calibration,
    HeldOutPredictions,
    calibrate,
    distance_to_observed,
    small_sample_factors,
)
from probsfa.statespace.held_out_values import HeldOutValues, crps
from probsfa.statespace.leave_one_out import interpolation_errors, worse_than_interpolation
from probsfa.statespace.models import LinearGaussianModel

__all__ = ["calibrated", "interpolation_errors_of_held_out", "predict_held_out", "scores", "worse_columns"]


def predict_held_out(
    model: LinearGaussianModel,
    remaining: Sequences,
    hidden: HeldOutValues,
    values: FloatArray,
    units: FloatArray,
) -> HeldOutPredictions:
    """Predict all held-out values from the values that are not held out.

    Parameters
    ----------
    model : LinearGaussianModel
        Model fitted without the held-out values.
    remaining : Sequences
        Rows without the held-out values.
    hidden : HeldOutValues
        Which values are held out.
    values : ndarray of shape (N, D)
        All values.
    units : ndarray of shape (D,)
        Units of errors and standard deviations.

    Returns
    -------
    HeldOutPredictions
        Predictions in the order of ``values[hidden.all]``.
    """
    filled, is_held_out = model.impute(remaining, with_std=True), hidden.all
    assert filled.std is not None
    rows, _ = np.nonzero(is_held_out)
    # Missing blocks of several columns that begin in the same row are not independent, and form one group.
    first_row = np.full(hidden.group.max() + 1, len(is_held_out))
    np.minimum.at(first_row, hidden.group[is_held_out], rows)
    multipliers = _small_sample(model, remaining.mask)
    return HeldOutPredictions(
        ((filled.values - values) / units)[is_held_out],
        (filled.std * multipliers / units)[is_held_out],
        distance_to_observed(remaining, model.fitted.time_unit)[is_held_out],
        first_row[hidden.group[is_held_out]],
    )


def scores(predictions: HeldOutPredictions, max_score: float = np.inf) -> FloatArray:
    """Return the scores (n,) of predictions (see :func:`.crps`), with calibrated standard deviations.

    Parameters
    ----------
    predictions : HeldOutPredictions
        Predictions of held-out values.
    max_score : float, default=inf
        Upper bound of a score.
    """
    multipliers = calibrate(predictions, np.ones(1)).by_distance(predictions.distances)
    return np.minimum(crps(predictions.errors, predictions.std * multipliers), max_score)


def interpolation_errors_of_held_out(rows: Sequences, hidden: HeldOutValues, units: FloatArray) -> FloatArray:
    """Return the errors (n,) of linear interpolation at held-out values, from values not held out."""
    is_held_out = hidden.all
    return np.asarray((interpolation_errors(rows, is_held_out.astype(int)) / units)[is_held_out])


def worse_columns(
    rows: Sequences,
    held_out_sets: Sequence[HeldOutValues],
    predictions: HeldOutPredictions,
    units: FloatArray,
) -> NDArray[np.intp]:
    """Return columns whose held-out values are predicted worse than by linear interpolation.

    Parameters
    ----------
    rows : Sequences
        Rows with all values.
    held_out_sets : sequence of HeldOutValues
        The held-out values of each draw.
    predictions : HeldOutPredictions
        Predictions of the values of all draws.
    units : ndarray of shape (D,)
        Units of the errors.
    """
    by_interpolation = np.concatenate(
        [interpolation_errors_of_held_out(rows, each, units) for each in held_out_sets]
    )
    columns = np.concatenate([np.nonzero(each.all)[1] for each in held_out_sets])
    return worse_than_interpolation(
        predictions.errors, by_interpolation, columns, predictions.groups, rows.n_features
    )


def calibrated(
    model: LinearGaussianModel, mask: BoolArray, predictions: HeldOutPredictions | None
) -> LinearGaussianModel:
    """Return the model with intervals that are calibrated by held-out values, if there are any.

    Parameters
    ----------
    model : LinearGaussianModel
        Model fitted to all values.
    mask : ndarray of bool of shape (N, D)
        Which values are observed.
    predictions : HeldOutPredictions or None
        Predictions by a model with the same options.
    """
    small_sample = _small_sample(model, mask)
    calibration = Calibration(np.ones(1), np.ones(1), small_sample)
    if predictions is not None:
        calibration = calibrate(predictions, small_sample)
    return replace(model, fitted=replace(model.fitted, calibration=calibration))


def _small_sample(model: LinearGaussianModel, mask: BoolArray) -> FloatArray:
    """Return small-sample factors (D,) for the estimated loadings, mean, and AR(1) noise of each column."""
    params = model.fitted.params
    return small_sample_factors(mask.sum(axis=0), params.n_components + (3 if params.has_ar1_noise else 1))
