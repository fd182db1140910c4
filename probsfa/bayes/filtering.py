"""Filtering with uncertain parameters: a Kalman filter for each draw, and the mixture of their results."""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from probsfa._like_input import like_array
from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.bayes.conditional import covariate_effects, mixture_draw_indices
from probsfa.bayes.draws import parameters_of_draw, posterior_mean
from probsfa.bayes.fitted import FittedPosterior
from probsfa.bayes.weights import degrees_of_draws
from probsfa.statespace import student
from probsfa.statespace.engine.posterior import check_finite, filter_rows
from probsfa.statespace.filtering import FilterRows, FilterState, run_filter
from probsfa.statespace.noise.student import StudentNoise
from probsfa.statespace.parameters import StateSpace

__all__ = ["BayesianFilterResult", "BayesianFilterState", "filter_sequences"]


class BayesianFilterState(NamedTuple):
    """State of the filters of all draws of the parameters after the last row, to continue with later rows.

    Attributes
    ----------
    means : ndarray of shape (M, K)
        Filtered means of the last state, for M draws.
    covariances : ndarray of shape (M, K, K)
        Their covariances.
    log_likelihoods : ndarray of shape (M,)
        Log density of the rows so far, in nats.
    time : float or None
        Time of the last row, in units of the model; None for even sampling.
    """

    means: FloatArray
    covariances: FloatArray
    log_likelihoods: FloatArray
    time: float | None = None


class BayesianFilterResult(NamedTuple):
    """Filtered distributions of the factors, averaged over the posterior of the parameters.

    Attributes
    ----------
    means : ndarray or DataFrame of shape (T, K)
        Means of the factors given the rows up to the current one.
    covariances : ndarray of shape (T, K, K)
        Their covariances, including the uncertainty of the parameters.
    row_log_likelihoods : ndarray of shape (T,)
        Log predictive density of each row given the rows before it, in nats.
    state : BayesianFilterState
        State from which to continue with later rows.

    See Also
    --------
    BayesianSFA.filter : The method that computes it.

    Examples
    --------
    >>> from probsfa import BayesianSFA
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(100, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
    >>> model = BayesianSFA(1, inference="svi", verbose=False, random_state=0).fit(X)
    >>> first = model.filter(X[:60])
    >>> model.filter(X[60:], first.state).means.shape
    (40, 1)
    """

    means: Any
    covariances: FloatArray
    row_log_likelihoods: FloatArray
    state: BayesianFilterState

    @property
    def std(self) -> Any:
        """Standard deviations of the factors, shape (T, K); a DataFrame if `means` is a DataFrame."""
        return like_array(self.means, np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2)))

    @property
    def log_likelihood(self) -> float:
        """Log predictive density of these rows given the rows before them, in nats."""
        return float(np.sum(self.row_log_likelihoods))


def filter_sequences(
    fitted: FittedPosterior, sequences: Sequences, n_predictive: int, state: BayesianFilterState | None
) -> list[BayesianFilterResult]:
    """Filter each sequence.

    Parameters
    ----------
    fitted : FittedPosterior
        A fit.
    sequences : Sequences
        Checked data, in data units.
    n_predictive : int
        Number of draws to average, evenly spaced in each chain.
    state : BayesianFilterState, optional
        State after the rows before a single sequence.

    Raises
    ------
    ValueError
        If a state is given with several sequences, or belongs to another model.
    """
    if state is not None and len(sequences.lengths) > 1:
        raise ValueError(
            f"state continues one sequence, but X has {len(sequences.lengths)} sequences. Filter each "
            "separately."
        )
    timed = fitted.units.with_time_unit(sequences)
    n_parameter_sets = len(sequences.lengths) if fitted.hierarchical else 1
    pairs = mixture_draw_indices(fitted, n_predictive)
    draws = [parameters_of_draw(fitted.draws, *pair, n_parameter_sets) for pair in pairs]
    if state is not None and len(state.means) != len(draws):
        raise ValueError(
            f"state has {len(state.means)} draws, but this model uses {len(draws)}. Use a state of this "
            "model's filter, with the same n_predictive."
        )
    filters: list[FilterRows] = [filter_rows] * len(draws)
    if fitted.degrees is not None:
        noises = map(StudentNoise, degrees_of_draws(fitted, n_predictive).tolist())
        filters = [partial(student.filter_rows, noise) for noise in noises]
    results = []
    for i in range(len(timed.lengths)):
        params, rows = [draw[i if fitted.hierarchical else 0] for draw in draws], timed.sequence(i)
        sequence_of_draws = [rows] * len(draws)
        if fitted.exog_names:
            effects = (covariate_effects(fitted, *pair, rows.exog) for pair in pairs)
            sequence_of_draws = [replace(rows, values=rows.values - effect, exog=None) for effect in effects]
        result = _filter_one(params, filters, sequence_of_draws, state)
        check_finite(sequences, posterior_mean(fitted.draws), *result[:3])
        results.append(result)
    return results


def _filter_one(
    draws: list[StateSpace],
    filters: list[FilterRows],
    sequences: list[Sequences],
    state: BayesianFilterState | None,
) -> BayesianFilterResult:
    """Filter one sequence with the parameters of each draw, and return the moments of the mixture.

    The entries of `sequences` are the sequence minus the effects of covariates, one for each draw.
    """
    n, k = sequences[0].n_rows, draws[0].n_states
    mean, between, within = np.zeros((n, k)), np.zeros((n, k, k)), np.zeros((n, k, k))
    log_likelihoods = np.zeros(len(draws)) if state is None else state.log_likelihoods
    total = np.full(n, -np.inf)
    final = []
    for m, (params, row_filter, sequence) in enumerate(zip(draws, filters, sequences, strict=True)):
        start = None if state is None else FilterState(state.means[m], state.covariances[m], state.time)
        result = run_filter(params, sequence, start, filter_rows=row_filter)
        change = result.means - mean
        mean += change / (m + 1)
        between += change[:, :, None] * (result.means - mean)[:, None, :]
        within += result.covariances
        cumulative_log_likelihood = log_likelihoods[m] + np.cumsum(result.row_log_likelihoods)
        total = np.logaddexp(total, cumulative_log_likelihood)
        final.append((result.state, cumulative_log_likelihood[-1]))
    # Likelihoods are averaged over the draws, not their logarithms.
    rows = np.diff(total, prepend=float(logsumexp(log_likelihoods)))
    last = BayesianFilterState(
        np.array([end.mean for end, _ in final]),
        np.array([end.covariance for end, _ in final]),
        np.array([cumulative_log_likelihood for _, cumulative_log_likelihood in final]),
        final[0][0].time,
    )
    return BayesianFilterResult(mean, (between + within) / len(draws), rows, last)
