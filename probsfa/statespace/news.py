"""News: impacts of new observations on the revision of a prediction.

Posterior means are linear in the observations. Let ``V_ts`` be the posterior covariance of the states of rows
``t`` and ``s``. The posterior mean of ``mu_e + C_e' z_t``, the noise-free value of column ``e`` in row ``t``,
contains the observation of column ``d`` in row ``s`` with the weight ``C_e' V_ts C_d / r_d``.

If every new value equalled its prediction from the old data, the prediction of the target would not change.
The impact of a new value is therefore its weight times its prediction error (Banbura & Modugno 2014, section
2.3). ``V_ts`` is computed from lag-one covariances, because the states are a Markov chain.
"""

import numbers
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._times import TimeAxis
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_count
from probsfa.statespace.engine.posterior import Posterior
from probsfa.statespace.parameters import StateSpace
from probsfa.statespace.timeline import make_horizon

__all__ = ["News", "align_rows", "compute_news", "prediction_weights", "row_dates", "row_number"]

# Times that differ by less are treated as equal, in units of time.
_TIME_TOL = 1e-6
# Relative size of singular values of a covariance that are treated as zero.
_COVARIANCE_RTOL = 1e-14


class News(NamedTuple):
    """Revision of a prediction, attributed to new observations.

    Rows are identified by number, or by date if they have dates.

    Attributes
    ----------
    before, after : float
        Prediction of the target from the old and from the new data, in data units.
    rows, columns : ndarray of int of shape (M,)
        Positions of new or revised values.
    expected : ndarray of shape (M,)
        Predictions of the new values from the old data; for revised values, the old values.
    observed : ndarray of shape (M,)
        Values in the new data.
    weights : ndarray of shape (M,)
        Change of the prediction for each unit of ``observed - expected``.
    impacts : ndarray of shape (M,)
        ``weights * (observed - expected)``; they add up to ``after - before``.
    revised : ndarray of bool of shape (M,)
        Whether the value was also observed in the old data, and was different.
    feature_names : tuple of str
        Names of the columns.
    times : pandas.Index of shape (M,), or None
        Dates of the rows of the new values, if the new data are a DataFrame with dates.
    """

    before: float
    after: float
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    expected: FloatArray
    observed: FloatArray
    weights: FloatArray
    impacts: FloatArray
    revised: NDArray[np.bool_]
    feature_names: tuple[str, ...]
    times: Any = None

    @property
    def table(self) -> Any:
        """The new values as a pandas.DataFrame, largest impact first."""
        import pandas as pd

        order = np.argsort(-np.abs(self.impacts), kind="stable")
        columns = {
            "row": self.rows[order],
            **({} if self.times is None else {"time": self.times[order]}),
            "column": [self.feature_names[j] for j in self.columns[order]],
            "expected": self.expected[order],
            "observed": self.observed[order],
            "weight": self.weights[order],
            "impact": self.impacts[order],
            "revised": self.revised[order],
        }
        return pd.DataFrame(columns)


def row_dates(sequences: Sequences) -> Any:
    """Return the dates, durations or periods of the rows of one sequence as an index; None without these."""
    if sequences.labels is None:
        return None
    import pandas as pd

    return pd.Index(sequences.labels[0])


def row_number(row: Any, X: Any, sequences: Sequences, axis: TimeAxis, time_unit: float) -> int:
    """Return the number of a row that is identified by number or by date.

    Parameters
    ----------
    row : int or date
        Number of the row. If `X` is a DataFrame with dates, also a date of its index, or a later date that is
        a whole number of steps after the last row.
    X : object
        Data of the user.
    sequences : Sequences
        The same data, validated: one sequence in the time unit of the model.
    axis, time_unit
        As in :func:`probsfa.statespace.timeline.to_model_time`.

    Raises
    ------
    ValueError
        If the row does not exist.
    """
    if isinstance(row, numbers.Integral):
        return check_count("target's row", row, minimum=0)
    index = row_dates(sequences)
    if index is None:
        raise ValueError(f"target: the row must be a number, because X_new has no dates; got {row!r}.")
    import pandas as pd

    try:
        requested = pd.Index([row]).astype(index.dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"target: the row must be a number or a date; got {row!r}.") from error
    number = int(index.get_indexer(requested)[0])
    if number >= 0:
        return number
    steps = np.nan
    if requested[0] > index[-1]:
        [horizon] = make_horizon(X, sequences, axis, time_unit, n_steps=None, fh=requested)
        steps = float(horizon.steps[0])
    if not abs(steps - np.rint(steps)) <= _TIME_TOL * steps:
        raise ValueError(
            "target: the row must be a date of X_new, or a date that is a whole number of steps after its "
            f"last row; got {row!r}."
        )
    return sequences.n_rows - 1 + round(steps)


def align_rows(old: Sequences, new: Sequences, time_unit: float) -> Sequences:
    """Align old data with the rows of new data by time, or by row number without times.

    Parameters
    ----------
    old, new : Sequences
        One sequence each, in the same unit of time, or both without times.
    time_unit : float
        Unit of time of the model.

    Returns
    -------
    Sequences
        The rows of `new` with the values of `old`, NaN in rows that `old` does not have.

    Raises
    ------
    ValueError
        If a row of the old data does not exist in the new data.
    """
    if (old.times is None) != (new.times is None):
        raise ValueError("X_old and X_new must both have dates, or both have none.")
    values = np.full(new.values.shape, np.nan)
    if old.times is None or new.times is None:
        if old.n_rows > new.n_rows:
            raise ValueError(
                f"X_new has {new.n_rows} rows, fewer than X_old ({old.n_rows}). Add the rows of X_old."
            )
        values[: old.n_rows] = old.values
        return replace(new, values=values)
    rows = np.searchsorted(new.times, old.times - _TIME_TOL * time_unit)
    is_found = rows < new.n_rows
    is_found[is_found] = (
        np.abs(new.times[rows[is_found]] - old.times[is_found]) <= 2.0 * _TIME_TOL * time_unit
    )
    if not is_found.all():
        raise ValueError(
            f"X_new has no row at the time of row {int(np.argmin(is_found))} of X_old. Add the rows of X_old."
        )
    values[rows] = old.values
    return replace(new, values=values)


def compute_news(
    params: StateSpace,
    values: tuple[FloatArray, FloatArray],
    posteriors: tuple[Posterior, Posterior, Posterior],
    target: tuple[int, int],
    names: tuple[str, ...],
) -> News:
    """Attribute the change of a prediction to the values that changed.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model.
    values : tuple of two ndarrays of shape (N, D)
        Old and new values, NaN where missing.
    posteriors : tuple of three Posterior
        Posteriors given the old values, given the old values with revisions, and given all new values.
    target : tuple of int
        Row and column of the predicted value, which is missing in old and new values.
    names : tuple of str
        Names of the columns.

    Returns
    -------
    News
    """
    old, new = values
    posterior_of_old, posterior_of_revised, posterior_of_new = posteriors
    row, column = target
    loading = params.loadings[column]
    is_revised = ~np.isnan(old) & (old != new)
    is_new = np.isnan(old) & ~np.isnan(new)
    predicted = params.offset + posterior_of_revised.means @ params.loadings.T
    parts = []
    for selected, posterior, expected_values in (
        (is_revised, posterior_of_revised, old),
        (is_new, posterior_of_new, predicted),
    ):
        where = np.nonzero(selected)
        weights = prediction_weights(params, posterior, target, where[0], where[1])
        parts.append((*where, expected_values[where], new[where], weights))
    rows, columns, expected, observed, weights = (np.concatenate(each) for each in zip(*parts, strict=True))
    revised = np.arange(rows.size) < np.count_nonzero(is_revised)
    before, after = (
        float(params.offset[column] + loading @ posterior.means[row])
        for posterior in (posterior_of_old, posterior_of_new)
    )
    impacts = weights * (observed - expected)
    return News(before, after, rows, columns, expected, observed, weights, impacts, revised, names)


def prediction_weights(
    params: StateSpace,
    posterior: Posterior,
    target: tuple[int, int],
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
) -> FloatArray:
    """Return the weights (M,) of observed values in the noise-free posterior mean of a target value.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model.
    posterior : Posterior
        Posterior given all observed values.
    target : tuple of int
        Row and column of the target value.
    rows, columns : ndarray of int of shape (M,)
        Rows and columns of the observed values, in the sequence of the target.

    Returns
    -------
    ndarray of shape (M,)
    """
    row, column = target
    all_rows = np.append(rows, row)
    covariances, lag_one = posterior.covariances, posterior.lag_one_covariances
    # C_e' V_ts of each row s, by the recursion V_ts = V_t,s+1 V_s+1^-1 V_s+1,s.
    cross_covariances = {row: params.loadings[column] @ covariances[row]}
    for s in range(row - 1, int(all_rows.min()) - 1, -1):
        cross_covariances[s] = _times_inverse(cross_covariances[s + 1], covariances[s + 1]) @ lag_one[s]
    for s in range(row + 1, int(all_rows.max()) + 1):
        cross_covariances[s] = _times_inverse(cross_covariances[s - 1], covariances[s - 1]) @ lag_one[s - 1].T
    covariances_with_target = np.array([cross_covariances[int(s)] for s in rows]).reshape(
        len(rows), params.n_states
    )
    value_covariances = np.einsum("mk,mk->m", covariances_with_target, params.loadings[columns])
    return np.asarray(value_covariances / params.noise_variance[columns])


def _times_inverse(vector: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return ``x' V^-1``; the covariance ``V`` may be numerically singular."""
    return np.asarray(np.linalg.lstsq(covariance, vector, rcond=_COVARIANCE_RTOL)[0])
