"""Comparison of models by held-out values, for `ProbabilisticSFA()` without arguments and `select_model`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

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
from probsfa.statespace.held_out_values import HeldOutValues, crps, units_of
from probsfa.statespace.leave_one_out import interpolation_errors, worse_than_interpolation
from probsfa.statespace.models import LinearGaussianModel

__all__ = [
    "Candidate",
    "Comparison",
    "calibrated",
    "interpolation_errors_of_held_out",
    "predict_held_out",
    "scores",
    "worse_columns",
]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A fitted model, and its predictions of held-out values.

    Attributes
    ----------
    options : dict
        Options of `ProbabilisticSFA`.
    model : LinearGaussianModel
        The fit without the held-out values of the first draw, or the fit to all values.
    predictions_by_draw : tuple of HeldOutPredictions, default=()
        Predictions of the held-out values of each draw, each by a fit without these values.
    rung : int, default=0
        Round of the comparison, from 0.
    n_rows : int, default=0
        Number of rows of the fit.
    bic : float, default=nan
        Bayesian information criterion of a fit to all values of these rows, extrapolated to all rows; without
        such a fit, that of the fit without held-out values.
    seconds : float, default=0.0
        Time of fit and scores.
    full_fit : LinearGaussianModel or None, default=None
        The fit to all values of the same rows, if available.
    """

    options: dict[str, Any]
    model: LinearGaussianModel
    predictions_by_draw: tuple[HeldOutPredictions, ...] = ()
    rung: int = 0
    n_rows: int = 0
    bic: float = np.nan
    seconds: float = 0.0
    full_fit: LinearGaussianModel | None = None

    @property
    def predictions(self) -> HeldOutPredictions:
        """Predictions of the held-out values of all draws."""
        return HeldOutPredictions.joined(self.predictions_by_draw)

    @property
    def score(self) -> float:
        """Mean score of the held-out values of all draws, each of which is calibrated separately."""
        return float(np.mean(np.concatenate([scores(each) for each in self.predictions_by_draw])))


@dataclass(frozen=True, eq=False)
class Comparison:
    """Values to hold out from fits; candidates are compared by their predictions of these values.

    Attributes
    ----------
    rows : Sequences
        Rows with all values.
    draws : list of HeldOutValues
        The held-out values of each draw.
    """

    rows: Sequences
    draws: list[HeldOutValues]

    @cached_property
    def units(self) -> FloatArray:
        """Units (D,) of errors and standard deviations."""
        return units_of(self.rows.values)

    def remaining(self, draw: int) -> Sequences:
        """Return the rows without the held-out values of a draw."""
        return replace(self.rows, values=self.draws[draw].with_nan(self.rows.values))

    def predict(self, model: LinearGaussianModel, draw: int) -> HeldOutPredictions:
        """Predict the held-out values of a draw from the values that are not held out."""
        hidden = self.draws[draw]
        return predict_held_out(model, self.remaining(draw), hidden, self.rows.values, self.units)

    def worse_columns(self, candidate: Candidate) -> NDArray[np.intp]:
        """Return columns whose held-out values are predicted worse than by linear interpolation."""
        return worse_columns(self.rows, self.draws, candidate.predictions, self.units)


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
