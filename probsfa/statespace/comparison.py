"""Comparison of models by held-out values, for the default model and `select_model`."""

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

__all__ = ["Candidate", "Comparison", "calibrated", "scores"]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A fitted model, and its predictions of held-out values.

    Attributes
    ----------
    options : dict
        Options of `ProbabilisticSFA`.
    model : LinearGaussianModel
        Fit without the held-out values of the first draw; fit to all values if nothing was held out.
    predictions_by_draw : tuple of HeldOutPredictions, default=()
        Predictions of the held-out values of each draw, each by a fit without these values.
    n_rows : int, default=0
        Number of rows of the fit.
    bic : float, default=nan
        Bayesian information criterion of `full_fit` if it is available, otherwise of `model`. The
        log-likelihood is extrapolated to all rows.
    seconds : float, default=0.0
        Time of the fit and of the predictions, in seconds.
    full_fit : LinearGaussianModel or None, default=None
        The fit to all values of the same rows, if available.
    """

    options: dict[str, Any]
    model: LinearGaussianModel
    predictions_by_draw: tuple[HeldOutPredictions, ...] = ()
    n_rows: int = 0
    bic: float = np.nan
    seconds: float = 0.0
    full_fit: LinearGaussianModel | None = None

    @cached_property
    def predictions(self) -> HeldOutPredictions:
        """Predictions of the held-out values of all draws."""
        return HeldOutPredictions.joined(self.predictions_by_draw)

    @cached_property
    def joint_scores(self) -> FloatArray:
        """Scores (n,) of the held-out values of all draws, with one calibration for all draws."""
        return scores(self.predictions)

    @property
    def score(self) -> float:
        """Mean score of the held-out values of all draws, with a separate calibration for each draw."""
        return float(np.mean(np.concatenate([scores(each) for each in self.predictions_by_draw])))


@dataclass(frozen=True, eq=False)
class Comparison:
    """Draws of held-out values, and the comparison of candidates by predictions of these values.

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

    @property
    def columns(self) -> NDArray[np.intp]:
        """Column indices (n,) of the held-out values of all draws."""
        return np.concatenate([np.nonzero(held_out.all)[1] for held_out in self.draws])

    @property
    def interpolation_errors(self) -> FloatArray:
        """Errors (n,) of linear interpolation at the held-out values of all draws, in column units."""
        return np.concatenate(
            [
                (interpolation_errors(self.rows, held_out.all.astype(int)) / self.units)[held_out.all]
                for held_out in self.draws
            ]
        )

    def remaining(self, held_out: HeldOutValues) -> Sequences:
        """Return the rows without the held-out values of a draw."""
        return replace(self.rows, values=held_out.with_nan(self.rows.values))

    def predict(self, model: LinearGaussianModel, held_out: HeldOutValues) -> HeldOutPredictions:
        """Predict the held-out values of a draw from the values that are not held out.

        Predictions are in the order of ``values[held_out.all]``, in units of the columns.
        """
        remaining, is_held_out = self.remaining(held_out), held_out.all
        filled = model.impute(remaining, with_std=True)
        assert filled.std is not None
        rows, _ = np.nonzero(is_held_out)
        # Missing blocks of several columns that begin in the same row are not independent, and form one
        # group.
        first_row = np.full(held_out.group.max() + 1, len(is_held_out))
        np.minimum.at(first_row, held_out.group[is_held_out], rows)
        multipliers = _small_sample(model, remaining.mask)
        return HeldOutPredictions(
            ((filled.values - self.rows.values) / self.units)[is_held_out],
            (filled.std * multipliers / self.units)[is_held_out],
            distance_to_observed(remaining, model.fitted.time_unit)[is_held_out],
            first_row[held_out.group[is_held_out]],
        )

    def worse_columns(self, candidate: Candidate) -> NDArray[np.intp]:
        """Return columns whose held-out values are predicted worse than by linear interpolation."""
        errors, _, _, groups = candidate.predictions
        return worse_than_interpolation(
            errors, self.interpolation_errors, self.columns, groups, self.rows.n_features
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


def calibrated(
    model: LinearGaussianModel, mask: BoolArray, predictions: HeldOutPredictions | None
) -> LinearGaussianModel:
    """Return the model with intervals calibrated by predictions of held-out values, if any.

    Parameters
    ----------
    model : LinearGaussianModel
        Model fitted to all values.
    mask : ndarray of bool of shape (N, D)
        True where observed.
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
