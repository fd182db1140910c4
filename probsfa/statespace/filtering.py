"""Kalman filter that can be resumed, and one-step prediction errors.

The filter computes the distribution of each state given the rows up to it.
"""

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
from probsfa.statespace.panel import Panel, make_panel, whole_if_close
from probsfa.statespace.parameters import StateSpace
from probsfa.statespace.prediction import check_probability

#: Function that filters rows, such as :func:`probsfa.statespace.engine.posterior.filter_rows`.
FilterRows = Callable[[StateSpace, Panel, FloatArray, FloatArray, Transition | None], Filtering]


class FilterState(NamedTuple):
    """State of a Kalman filter after its last row, from which it can be resumed.

    Attributes
    ----------
    mean : ndarray of shape (K,)
        Mean of the last state given the rows so far.
    covariance : ndarray of shape (K, K)
        Its covariance.
    time : float or None
        Time of the last row, in units of the model's time; None for regular data.
    """

    mean: FloatArray
    covariance: FloatArray
    time: float | None = None


class OneStep(NamedTuple):
    """Distribution of each row given the rows before it.

    Attributes
    ----------
    means : ndarray of shape (T, D)
        Means of the observations.
    std : ndarray of shape (T, D)
        Their standard deviations, including noise.
    """

    means: FloatArray
    std: FloatArray


@dataclass(frozen=True, eq=False)
class _Filtered:
    """Filtered moments of all states, from which predictions are computed.

    Attributes
    ----------
    means, covariances : ndarray of shape (T, S) and (T, S, S)
        Moments of all states given the rows up to theirs.
    params : StateSpace
        Parameters for predictions of the observations.
    values : ndarray of shape (T, D)
        Observations, NaN where missing.
    before : FilterState
        The state before the first row.
    steps : Transition
        Transitions into each row.
    reported : ndarray of int
        States in the result.
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
        """Distribution of each row given the rows before it."""
        return one_step(self.params, self.steps, self.means, self.covariances, self.before)

    @property
    def innovations(self) -> FloatArray:
        """Standardised prediction errors (T, D)."""
        return standardised_errors(self.values, *self.one_step)


@dataclass(frozen=True, eq=False)
class FilterResult:
    """Result of a Kalman filter: distributions of the factors, and one-step predictions.

    Attributes
    ----------
    means : ndarray or frame of shape (T, K)
        Means of the factors given the rows up to the current one.
    covariances : ndarray of shape (T, K, K)
        Their covariances.
    row_log_likelihoods : ndarray of shape (T,)
        Log density of each row given the rows before it, in nats; zero for rows without observations.
    state : FilterState
        State from which to continue with later rows; it includes the states of AR(1) noise.
    predictions : ndarray or frame of shape (T, D)
        Means of the observations given the previous rows. Computed at first use, like the next two.
    prediction_std : ndarray or frame of shape (T, D)
        Standard deviations of the observations given the previous rows, including the noise.
    innovations : ndarray or frame of shape (T, D)
        Standardized prediction errors, ``(x - predictions) / prediction_std``; NaN where a value is missing.
        If the model is correct, those of each column are independent and standard normal.

    See Also
    --------
    probsfa.ProbabilisticSFA.diagnose : Tests of the innovations.
    """

    means: Any
    covariances: FloatArray
    row_log_likelihoods: FloatArray
    state: FilterState
    _filtered: _Filtered = field(repr=False)
    # Rows passed by the user; results have their type (array or DataFrame).
    _like: Any = field(default=None, repr=False, kw_only=True)

    def like(self, x: Any, factors: Any) -> Self:
        """Return the result as frames if the rows `x` are a frame; `factors` are the names of the factors."""
        return replace(self, means=like_array(x, self.means, factors, ()), _like=x)

    @property
    def arrays(self) -> Self:
        """The result with arrays instead of frames."""
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
        """Log density of these rows given the rows before them, in nats."""
        return float(np.sum(self.row_log_likelihoods))


def one_step(
    params: StateSpace,
    steps: Transition,
    means: FloatArray,
    covariances: FloatArray,
    before: FilterState | None = None,
) -> OneStep:
    """Predict each row from the rows before it.

    Parameters
    ----------
    params : StateSpace
        Parameters for predictions of the observations.
    steps : Transition
        Transitions into each row, (T, K); into the first row of a sequence, the stationary distribution.
    means : ndarray of shape (T, K)
        Means of the factors given the rows so far.
    covariances : ndarray of shape (T, K, K)
        Their covariances.
    before : FilterState, optional
        The state before the first row; not used if a sequence starts there.

    Returns
    -------
    OneStep
    """
    moved, predicted = _predicted_states(steps, means, covariances, before)
    values, variances = observation_moments(params, moved, predicted)
    return OneStep(values, np.sqrt(variances))


def _predicted_states(
    steps: Transition, means: FloatArray, covariances: FloatArray, before: FilterState | None
) -> tuple[FloatArray, FloatArray]:
    """Return means (T, K) and covariances (T, K, K) of the states given the previous rows."""
    k = means.shape[1]
    first = FilterState(np.zeros(k), np.eye(k)) if before is None else before
    earlier = np.concatenate([first.mean[None], means[:-1]])
    spread = np.concatenate([first.covariance[None], covariances[:-1]])
    batch = steps.as_batch()
    moved = np.asarray(batch.move(earlier.T)).T
    state: Any = np.moveaxis(spread, 0, -1)
    return moved, np.moveaxis(np.asarray(batch.predict_covariance(state)), -1, 0)


class RowErrors(NamedTuple):
    """Mahalanobis distance of each row from its one-step prediction.

    Attributes
    ----------
    distances : ndarray of shape (T,)
        Squared Mahalanobis distances over the observed values of a row; chi-squared with `n_cells` degrees of
        freedom if the model is correct. NaN for rows without observations.
    n_cells : ndarray of int of shape (T,)
        Number of observed values of each row.
    cell_errors : ndarray of shape (T, D)
        Standardised error of each value given the previous rows and the other values of its row. Its square
        is the decrease of the distance without the value. NaN where a value is missing.
    """

    distances: FloatArray
    n_cells: NDArray[np.intp]
    cell_errors: FloatArray


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
    full = result._filtered
    _, predicted = _predicted_states(full.steps, full.means, full.covariances, full.before)
    errors = full.innovations
    observed = ~np.isnan(errors)
    scale = full.one_step.std
    n, d = errors.shape
    distances, cell_errors = np.full(n, np.nan), np.full((n, d), np.nan)
    diagonal = np.arange(d)
    # Maximum number of entries of the matrices that are inverted together.
    block = max(1, (2**22) // d**2)
    for start in range(0, n, block):
        rows = slice(start, start + block)
        loaded = full.params.loadings / scale[rows, :, None]
        # Correlations of the errors; a missing value is treated as uncorrelated.
        spread = loaded @ predicted[rows] @ np.swapaxes(loaded, 1, 2)
        spread = np.where(observed[rows, :, None] & observed[rows, None, :], spread, 0.0)
        spread[:, diagonal, diagonal] = 1.0
        inverse = np.linalg.inv(spread)
        solved = np.einsum("tij,tj->ti", inverse, np.where(observed[rows], errors[rows], 0.0))
        distances[rows] = np.einsum("ti,ti->t", solved, np.where(observed[rows], errors[rows], 0.0))
        cell_errors[rows] = solved / np.sqrt(inverse[:, diagonal, diagonal])
    n_cells = np.count_nonzero(observed, axis=1)
    return RowErrors(
        np.where(n_cells > 0, distances, np.nan), n_cells, np.where(observed, cell_errors, np.nan)
    )


def transition_matrices(result: FilterResult) -> FloatArray:
    """Return transition matrices (T, K, K) from the previous row to each row; zero for first rows."""
    n, k = result._filtered.means.shape
    which = result._filtered.reported
    batch = result._filtered.steps.as_batch()
    unit = np.eye(k)
    columns = [np.asarray(batch.move(np.repeat(unit[:, j, None], n, axis=1)))[which] for j in which]
    return np.ascontiguousarray(np.moveaxis(np.stack(columns, axis=1), -1, 0))


def gains(result: FilterResult) -> FloatArray:
    """Return the Kalman gain (T, K, D): change of the filtered means for one unit of each value of the row.

    ``Cov[z_t] C' diag(m_t / r)``, with the covariance given the rows up to ``t``; zero for missing values.
    """
    full = result._filtered
    rows = full.covariances[:, full.reported]
    weights = np.where(np.isnan(full.values), 0.0, 1.0 / full.params.noise_variance)
    return np.asarray((rows @ full.params.loadings.T) * weights[:, None, :])


def standardised_errors(values: FloatArray, means: FloatArray, std: FloatArray) -> FloatArray:
    """Return errors in predicted standard deviations; NaN where missing or with zero standard deviation."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(std > 0.0, (values - means) / std, np.nan)


def misfit_clause(innovations: FloatArray, lengths: Sequence[int], names: Sequence[str] | None) -> str:
    """Return a sentence on strongly autocorrelated prediction errors for the status of a fit, or "".

    Parameters
    ----------
    innovations : ndarray of shape (N, D)
        Standardised one-step prediction errors of some of the rows.
    lengths : sequence of int
        Rows of each sequence.
    names : sequence of str or None
        Names of the columns.
    """
    counts = np.count_nonzero(~np.isnan(innovations), axis=0)
    tested = counts >= 50  # fewer values do not resolve a correlation of 0.3
    if not tested.any():
        return ""
    first = autocorrelation(np.where(tested, innovations, np.nan), lengths, np.array([1]))
    with np.errstate(invalid="ignore"):
        gross = tested & (np.abs(first.values[0]) > np.maximum(0.3, 5.0 / np.sqrt(np.maximum(counts, 1))))
    size = np.nan_to_num(first.values[0])
    if not gross.any():
        return ""
    worst = int(np.argmax(np.where(gross, np.abs(size), -1.0)))
    who = str(worst) if names is None else repr(str(names[worst]))
    number = f"{np.count_nonzero(gross)} of {gross.size} columns"
    return (
        f" One-step prediction errors are autocorrelated in {number} (column {who}: {size[worst]:.2f}), "
        "which makes forecasts less accurate; see diagnose(X)."
    )


def filter_all(params: StateSpace, panel: Panel) -> tuple[Filtering, Transition]:
    """Filter all rows of a panel.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model.
    panel : Panel
        Packed observations of any number of sequences.

    Returns
    -------
    filtering : Filtering
        Filtered distributions of the ``N`` rows of data.
    steps : Transition
        Transitions into these rows, (N, K).
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
        One sequence, with times in units of the model's time or evenly sampled.
    state : FilterState, optional
        Filtered state of earlier rows; by default the stationary distribution.
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
        If ``state`` does not match the model, or the times do not follow its time.
    """
    states = params.state_space
    k = states.n_states
    panel = make_panel(sequence)
    transitions = transition_table(states, panel.gaps).at(panel.gap_index)
    mean, covariance, onward = np.zeros(k), np.eye(k), None
    times = sequence.times
    if state is not None:
        _check_state(state, k, times)
        mean, covariance = state.mean, state.covariance
        elapsed = 1.0
        if times is not None and state.time is not None:
            elapsed = float(times[0]) - state.time
            # Seconds since 1970 have rounding errors that are visible in steps of a millisecond.
            if elapsed >= 0.5 and abs(elapsed - np.rint(elapsed)) <= 4.0 * np.spacing(abs(state.time)):
                elapsed = float(np.rint(elapsed))
        onward = transition_over(states, whole_if_close(np.array([elapsed])))
        transitions = transitions.with_first(onward.at(0))
    filtering = filter_rows(params, panel, mean, covariance, onward)
    last = FilterState(
        filtering.means[-1].copy(),
        filtering.covariances[-1].copy(),
        None if times is None else float(times[-1]),
    )
    before = FilterState(mean, covariance)
    steps = transitions.at(slice(0, panel.n_rows))
    means, covariances, row_log_likelihoods = filtering
    reported = params.shared_states
    full = _Filtered(
        means, covariances, predictive or states, sequence.values, before, steps, reported=reported
    )
    if params.has_ar1_noise:
        means, covariances = means[:, reported], covariances[:, reported[:, None], reported]
    return FilterResult(means, covariances, row_log_likelihoods, last, full)


def _check_state(state: FilterState, n_states: int, times: FloatArray | None) -> None:
    if state.mean.shape != (n_states,) or state.covariance.shape != (n_states, n_states):
        raise ValueError(
            f"state has a mean of shape {state.mean.shape}; a model with {n_states} components requires a "
            "state of its own filter."
        )
    if (times is None) != (state.time is None):
        raise ValueError("state and X must both have times, or neither.")
    if times is not None and state.time is not None and times[0] <= state.time:
        raise ValueError(f"times must start after the time of state, {state.time}; the first is {times[0]}.")
