"""Causal inference that can stop and go on: the distribution of each state given the rows so far."""

from typing import NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.engine.dynamics import transition_over, transition_table
from probsfa.statespace.panel import make_panel, whole_if_close
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.posterior import filter_rows


class FilterState(NamedTuple):
    """Where a filter stopped, and all it needs to go on.

    Attributes
    ----------
    mean : ndarray of shape (K,)
        Mean of the last latent state given the rows so far.
    covariance : ndarray of shape (K, K)
        Its covariance.
    time : float or None
        Time of the last row, in units of the model's time; None for even sampling.
    """

    mean: FloatArray
    covariance: FloatArray
    time: float | None = None


class FilterResult(NamedTuple):
    """Causal distributions of the latents.

    Attributes
    ----------
    means : ndarray of shape (T, K)
        Means of the latents given the rows up to their own.
    covariances : ndarray of shape (T, K, K)
        Their covariances.
    row_log_likelihoods : ndarray of shape (T,)
        Log density of each row given the rows before it, in nats; zero where nothing is observed.
    state : FilterState
        From which to go on with the rows that follow.
    """

    means: FloatArray
    covariances: FloatArray
    row_log_likelihoods: FloatArray
    state: FilterState

    @property
    def std(self) -> FloatArray:
        """Standard deviations of the latents, shape (T, K)."""
        return np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))

    @property
    def log_likelihood(self) -> float:
        """Log density of these rows given the rows before them, in nats."""
        return float(np.sum(self.row_log_likelihoods))


def run_filter(params: Parameters, sequence: Sequences, state: FilterState | None) -> FilterResult:
    """Filter one sequence.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    sequence : Sequences
        One sequence, with times in units of the model's time or evenly sampled.
    state : FilterState, optional
        Where the rows before it ended; the stationary distribution when there are none.

    Returns
    -------
    FilterResult

    Raises
    ------
    ValueError
        If ``state`` does not fit the model, or the times do not go on from it.
    """
    k = params.n_states
    panel = make_panel(sequence)
    transitions = transition_table(params, panel.gaps).at(panel.gap_index)
    mean, covariance = np.zeros(k), np.eye(k)
    times = sequence.times
    if state is not None:
        _check_state(state, k, times)
        mean, covariance = state.mean, state.covariance
        elapsed = 1.0
        if times is not None and state.time is not None:
            elapsed = float(times[0]) - state.time
            # Seconds since 1970 round a step of a millisecond; it is a whole one all the same.
            if elapsed >= 0.5 and abs(elapsed - np.rint(elapsed)) <= 4.0 * np.spacing(abs(state.time)):
                elapsed = float(np.rint(elapsed))
        onward = transition_over(params, whole_if_close(np.array([elapsed])))
        transitions = transitions.with_first(onward.at(0))
    filtering = filter_rows(params, panel, transitions, mean, covariance)
    last = FilterState(
        filtering.means[-1].copy(),
        filtering.covariances[-1].copy(),
        None if times is None else float(times[-1]),
    )
    return FilterResult(*filtering, last)


def _check_state(state: FilterState, n_states: int, times: FloatArray | None) -> None:
    if state.mean.shape != (n_states,) or state.covariance.shape != (n_states, n_states):
        raise ValueError(
            f"state has a mean of shape {state.mean.shape}; a model with {n_states} components needs the "
            "state of its own filter."
        )
    if (times is None) != (state.time is None):
        raise ValueError("state and X must both come with times, or neither.")
    if times is not None and state.time is not None and times[0] <= state.time:
        raise ValueError(f"times must go on after the state's, {state.time}; they start at {times[0]}.")
