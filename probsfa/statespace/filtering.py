"""Kalman filter, which can be resumed after its last row, and one-step prediction errors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from probsfa._like_input import like_array
from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.columns import autocorrelation
from probsfa.statespace.engine.dynamics import Transition, transition_over, transition_table
from probsfa.statespace.engine.posterior import Filtering, filter_rows, observation_moments
from probsfa.statespace.panel import Panel, make_panel, round_if_close
from probsfa.statespace.parameters import StateSpace
from probsfa.statespace.prediction import check_probability

#: Function that filters rows, such as :func:`probsfa.statespace.engine.posterior.filter_rows`.
FilterRows = Callable[[StateSpace, Panel, FloatArray, FloatArray, Transition | None], Filtering]


class FilterState(NamedTuple):
    """State of a Kalman filter after its last row, from which it can be resumed.

    Attributes
    ----------
    mean : ndarray of shape (K,)
        Mean of the state in the last row, given all rows up to this row.
    covariance : ndarray of shape (K, K)
        Covariance of the state in the last row, given all rows up to this row.
    time : float or None
        Time of the last row, in the model's unit of time; None for data without times.
    """

    mean: FloatArray
    covariance: FloatArray
    time: float | None = None


class OneStep(NamedTuple):
    """Distribution of each row given the previous rows.

    Attributes
    ----------
    means : ndarray of shape (T, D)
        Means of the observations.
    std : ndarray of shape (T, D)
        Standard deviations of the observations, noise included.
    """

    means: FloatArray
    std: FloatArray


@dataclass(frozen=True, eq=False)
class _FilteredStates:
    """Filtered moments of all states, from which predictions are computed.

    Attributes
    ----------
    means, covariances : ndarray of shape (T, S) and (T, S, S)
        Moments of all states in each row, given the rows up to it.
    params : StateSpace
        Parameters for predictions of the observations.
    values : ndarray of shape (T, D)
        Observations, NaN where missing.
    before : FilterState
        The state before the first row.
    steps : Transition
        Transitions from the previous row to each row.
    reported : ndarray of int
        Indices of the states in the result: all states except those of AR(1) noise.
    """

    means: FloatArray
    covariances: FloatArray
    params: StateSpace
    values: FloatArray
    before: FilterState
    steps: Transition
    reported: NDArray[np.intp]

    @cached_property
    def one_step(self) -> OneStep:
        """Distribution of each row given the previous rows."""
        return one_step(self.params, self.steps, self.means, self.covariances, self.before)

    @property
    def innovations(self) -> FloatArray:
        """Standardized prediction errors (T, D)."""
        return standardized_errors(self.values, *self.one_step)


@dataclass(frozen=True, eq=False)
class FilterResult:
    """Result of a Kalman filter: distributions of the factors, and one-step predictions.

    Attributes
    ----------
    means : ndarray or DataFrame of shape (T, K)
        Means of the factors in each row, given the rows up to it.
    covariances : ndarray of shape (T, K, K)
        Covariances of the factors in each row, given the rows up to it.
    row_log_likelihoods : ndarray of shape (T,)
        Log density of each row given the previous rows, in nats; zero for rows without observations.
    state : FilterState
        Distribution of the state vector after the last row; the vector includes the states of AR(1) noise.
        Pass it to `filter` as `state` to continue with later rows.
    predictions : ndarray or DataFrame of shape (T, D)
        Means of the observations given the previous rows. Predictions, their standard deviations and
        innovations are computed at first use.
    prediction_std : ndarray or DataFrame of shape (T, D)
        Standard deviations of the observations given the previous rows, noise included.
    innovations : ndarray or DataFrame of shape (T, D)
        Standardized prediction errors, ``(x - predictions) / prediction_std``; NaN where a value is missing.
        If the model is correct, they are independent and standard normal in each column.

    See Also
    --------
    probsfa.ProbabilisticSFA.diagnose : Tests of the innovations.
    """

    means: Any
    covariances: FloatArray
    row_log_likelihoods: FloatArray
    state: FilterState
    _filtered: _FilteredStates = field(repr=False)
    # Rows as passed by the user; results have the same type (array or DataFrame).
    _like: Any = field(default=None, repr=False, kw_only=True)

    def like(self, x: Any, factors: Any) -> Self:
        """Return the result in the type of the rows `x`; `factors` are the names of the factors."""
        return replace(self, means=like_array(x, self.means, factors, ()), _like=x)

    @property
    def arrays(self) -> Self:
        """The result with arrays instead of DataFrames."""
        return replace(self, means=np.asarray(self.means), _like=None)

    @property
    def _one_step(self) -> OneStep:
        return self._filtered.one_step

    @property
    def predictions(self) -> Any:
        """Means of the observations given the previous rows, shape (T, D)."""
        return like_array(self._like, self._one_step.means)

    @property
    def prediction_std(self) -> Any:
        """Standard deviations of the observations given the previous rows, shape (T, D)."""
        return like_array(self._like, self._one_step.std)

    @property
    def innovations(self) -> Any:
        """Standardized prediction errors, shape (T, D); NaN where a value is missing."""
        return like_array(self._like, self._filtered.innovations)

    def quantile(self, probability: float) -> Any:
        """Return quantiles of the observations given the previous rows, shape (T, D)."""
        means, std = self._one_step
        return like_array(self._like, means + float(ndtri(check_probability(probability))) * std)

    @property
    def std(self) -> Any:
        """Standard deviations of the factors, shape (T, K)."""
        return like_array(self.means, np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2)))

    @property
    def log_likelihood(self) -> float:
        """Log density of all rows, in nats. If the filter was resumed, it is conditional on earlier rows."""
        return float(np.sum(self.row_log_likelihoods))


def one_step(
    params: StateSpace,
    steps: Transition,
    means: FloatArray,
    covariances: FloatArray,
    before: FilterState | None = None,
) -> OneStep:
    """Predict each row from the previous rows.

    Parameters
    ----------
    params : StateSpace
        Parameters for predictions of the observations.
    steps : Transition
        Transitions from the previous row to each row; the first row of a sequence has the stationary
        distribution.
    means : ndarray of shape (T, K)
        Filtered means of the states.
    covariances : ndarray of shape (T, K, K)
        Filtered covariances of the states.
    before : FilterState, optional
        The state before the first row; not used if the first row begins a sequence.

    Returns
    -------
    OneStep
    """
    state_means, state_covariances = _predicted_states(steps, means, covariances, before)
    predictions, variances = observation_moments(params, state_means, state_covariances)
    return OneStep(predictions, np.sqrt(variances))


def _predicted_states(
    steps: Transition, means: FloatArray, covariances: FloatArray, before: FilterState | None
) -> tuple[FloatArray, FloatArray]:
    """Return means (T, K) and covariances (T, K, K) of the states given the previous rows."""
    k = means.shape[1]
    before = FilterState(np.zeros(k), np.eye(k)) if before is None else before
    previous_means = np.concatenate([before.mean[None], means[:-1]])
    previous_covariances: Any = np.concatenate([before.covariance[None], covariances[:-1]])
    batch = steps.as_batch()
    predicted_means = np.asarray(batch.move(previous_means.T)).T
    predicted_covariances = np.asarray(batch.predict_covariance(np.moveaxis(previous_covariances, 0, -1)))
    return predicted_means, np.moveaxis(predicted_covariances, -1, 0)


# Maximum number of entries of the correlation matrices inverted at a time.
_MAX_ENTRIES = 2**22


class RowErrors(NamedTuple):
    """Mahalanobis distance of each row from its one-step prediction.

    Attributes
    ----------
    distances : ndarray of shape (T,)
        Squared Mahalanobis distances over the observed values of a row; chi-squared with `n_values` degrees
        of freedom if the model is correct. NaN for rows without observations.
    n_values : ndarray of int of shape (T,)
        Number of observed values of each row.
    value_errors : ndarray of shape (T, D)
        Standardized error of each value given the previous rows and the other values of its row; NaN where a
        value is missing. Its square is the difference of the squared distances with and without the value.
    """

    distances: FloatArray
    n_values: NDArray[np.intp]
    value_errors: FloatArray


def row_errors(result: FilterResult) -> RowErrors:
    """Compare each row with its joint distribution given the previous rows.

    Parameters
    ----------
    result : FilterResult
        Result of a model with Gaussian noise.

    Returns
    -------
    RowErrors
    """
    filtered = result._filtered
    _, predicted = _predicted_states(filtered.steps, filtered.means, filtered.covariances, filtered.before)
    observed = ~np.isnan(filtered.innovations)
    errors = np.where(observed, filtered.innovations, 0.0)
    std = filtered.one_step.std
    n, d = errors.shape
    distances, value_errors = np.full(n, np.nan), np.full((n, d), np.nan)
    diagonal = np.arange(d)
    block = max(1, _MAX_ENTRIES // d**2)
    for start in range(0, n, block):
        rows = slice(start, start + block)
        scaled_loadings = filtered.params.loadings / std[rows, :, None]
        # Correlations of the errors, zero for missing values.
        correlations = scaled_loadings @ predicted[rows] @ np.swapaxes(scaled_loadings, 1, 2)
        is_pair = observed[rows, :, None] & observed[rows, None, :]
        correlations = np.where(is_pair, correlations, 0.0)
        correlations[:, diagonal, diagonal] = 1.0
        inverse = np.linalg.inv(correlations)
        solved = np.einsum("tij,tj->ti", inverse, errors[rows])
        distances[rows] = np.einsum("ti,ti->t", solved, errors[rows])
        value_errors[rows] = solved / np.sqrt(inverse[:, diagonal, diagonal])
    n_values = np.count_nonzero(observed, axis=1)
    return RowErrors(
        np.where(n_values > 0, distances, np.nan), n_values, np.where(observed, value_errors, np.nan)
    )


def transition_matrices(result: FilterResult) -> FloatArray:
    """Return transition matrices (T, K, K) from the previous row; zero in the first row of a sequence."""
    n, k = result._filtered.means.shape
    reported = result._filtered.reported
    batch = result._filtered.steps.as_batch()
    identity = np.eye(k)
    columns = [np.asarray(batch.move(np.repeat(identity[:, j, None], n, axis=1)))[reported] for j in reported]
    return np.ascontiguousarray(np.moveaxis(np.stack(columns, axis=1), -1, 0))


def gains(result: FilterResult) -> FloatArray:
    """Return the Kalman gain (T, K, D): derivatives of filtered means with respect to the values of the row.

    The gain is ``P C' R^-1`` with the filtered covariance ``P`` of the states; it is zero for missing values.
    """
    filtered = result._filtered
    covariances = filtered.covariances[:, filtered.reported]
    precisions = np.where(np.isnan(filtered.values), 0.0, 1.0 / filtered.params.noise_variance)
    return np.asarray((covariances @ filtered.params.loadings.T) * precisions[:, None, :])


def standardized_errors(values: FloatArray, means: FloatArray, std: FloatArray) -> FloatArray:
    """Return errors in predicted standard deviations; NaN for missing values or zero standard deviations."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(std > 0.0, (values - means) / std, np.nan)


# Minimum number of values of a tested column.
_MIN_VALUES = 50
# An autocorrelation is reported if its magnitude exceeds this number, and this number of standard errors.
_MIN_CORRELATION, _MIN_STANDARD_ERRORS = 0.3, 5.0


def misfit_message(innovations: FloatArray, lengths: Sequence[int], names: Sequence[str] | None) -> str:
    """Return a warning if one-step prediction errors are strongly autocorrelated, otherwise "".

    Parameters
    ----------
    innovations : ndarray of shape (N, D)
        Standardized one-step prediction errors of some of the rows.
    lengths : sequence of int
        Rows of each sequence.
    names : sequence of str or None
        Names of the columns.
    """
    counts = np.count_nonzero(~np.isnan(innovations), axis=0)
    is_tested = counts >= _MIN_VALUES
    if not is_tested.any():
        return ""
    lag_one = autocorrelation(np.where(is_tested, innovations, np.nan), lengths, np.array([1])).values[0]
    minimum = np.maximum(_MIN_CORRELATION, _MIN_STANDARD_ERRORS / np.sqrt(np.maximum(counts, 1)))
    with np.errstate(invalid="ignore"):
        is_large = is_tested & (np.abs(lag_one) > minimum)
    if not is_large.any():
        return ""
    largest = int(np.argmax(np.where(is_large, np.abs(lag_one), -1.0)))
    name = str(largest) if names is None else repr(str(names[largest]))
    number = f"{np.count_nonzero(is_large)} of {is_large.size} columns"
    return (
        f" One-step prediction errors are autocorrelated in {number} (column {name}: "
        f"{lag_one[largest]:.2f}), which makes forecasts less accurate; see diagnose(X)."
    )


def filter_all(params: StateSpace, panel: Panel) -> tuple[Filtering, Transition]:
    """Filter all rows of a panel.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model.
    panel : Panel
        Observations of any number of sequences.

    Returns
    -------
    filtering : Filtering
        Filtered distributions of the states in the ``N`` rows of data.
    steps : Transition
        Transitions from the previous row to each row.
    """
    k = params.n_states
    steps = transition_table(params, panel.gaps).at(panel.gap_index)
    filtering = filter_rows(params, panel, np.zeros(k), np.eye(k))
    return filtering, steps.at(slice(0, panel.n_rows))


def run_filter(
    params: StateSpace,
    sequence: Sequences,
    state: FilterState | None,
    *,
    predictive: StateSpace | None = None,
    filter_rows: FilterRows = filter_rows,
) -> FilterResult:
    """Filter one sequence.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model.
    sequence : Sequences
        One sequence, with times in the model's unit, or without times.
    state : FilterState, optional
        State after earlier rows; by default the first row has the stationary distribution.
    predictive : StateSpace, optional
        Parameters for predictions of the observations, if they differ from `params`.
    filter_rows : callable, optional
        Function that filters the rows, for non-Gaussian noise.

    Returns
    -------
    FilterResult

    Raises
    ------
    ValueError
        If ``state`` does not match the model, or the times begin before the time of ``state``.
    """
    states = params.state_space
    k = states.n_states
    panel = make_panel(sequence)
    transitions = transition_table(states, panel.gaps).at(panel.gap_index)
    mean, covariance, first_transition = np.zeros(k), np.eye(k), None
    times = sequence.times
    if state is not None:
        _check_state(state, k, times)
        mean, covariance = state.mean, state.covariance
        elapsed = 1.0
        if times is not None and state.time is not None:
            elapsed = float(times[0]) - state.time
            # For steps of a millisecond, rounding errors of seconds since 1970 are not negligible.
            if elapsed >= 0.5 and abs(elapsed - np.rint(elapsed)) <= 4.0 * np.spacing(abs(state.time)):
                elapsed = float(np.rint(elapsed))
        first_transition = transition_over(states, round_if_close(np.array([elapsed])))
        transitions = transitions.with_first(first_transition.at(0))
    filtering = filter_rows(params, panel, mean, covariance, first_transition)
    last = FilterState(
        filtering.means[-1].copy(),
        filtering.covariances[-1].copy(),
        None if times is None else float(times[-1]),
    )
    before = FilterState(mean, covariance)
    steps = transitions.at(slice(0, panel.n_rows))
    means, covariances, row_log_likelihoods = filtering
    reported = params.shared_states
    filtered = _FilteredStates(
        means, covariances, predictive or states, sequence.values, before, steps, reported=reported
    )
    if params.has_ar1_noise:
        means, covariances = means[:, reported], covariances[:, reported[:, None], reported]
    return FilterResult(means, covariances, row_log_likelihoods, last, filtered)


def _check_state(state: FilterState, n_states: int, times: FloatArray | None) -> None:
    if state.mean.shape != (n_states,) or state.covariance.shape != (n_states, n_states):
        raise ValueError(
            f"state has a mean of shape {state.mean.shape}, but the model has {n_states} states. Pass the "
            "state of a filter result of this model."
        )
    if (times is None) != (state.time is None):
        raise ValueError("state and X must both have times, or both have none.")
    if times is not None and state.time is not None and times[0] <= state.time:
        raise ValueError(f"times must start after the time of state, {state.time}; the first is {times[0]}.")
