"""Posterior moments, log-likelihood and expected statistics of checked data.

This is the one place through which everything else asks the engine, in float64 whatever the user's JAX
configuration is, with NumPy arrays going in and coming out.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from probsfa.statespace.engine import (
    Filtered,
    Smoothed,
    backward_draws,
    collapse,
    conditionals,
    filter_pass,
    smoother_pass,
)
from probsfa.statespace.panel import Panel, step_decay
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.statistics import Statistics, observation_statistics, transition_statistics

FloatArray = NDArray[np.float64]


class Posterior(NamedTuple):
    """Law of the latents given the observations.

    Attributes
    ----------
    means : ndarray of shape (T, K)
        Posterior means.
    covariances : ndarray of shape (T, K, K)
        Posterior covariances of the latents of one time step.
    lag_one_covariances : ndarray of shape (T - 1, K, K)
        ``lag_one_covariances[t]`` is the covariance of ``z_t+1`` (rows) with ``z_t`` (columns).
    row_log_likelihoods : ndarray of shape (T,)
        Log density of each row given the rows before it, in nats; zero where nothing is observed.
    """

    means: FloatArray
    covariances: FloatArray
    lag_one_covariances: FloatArray
    row_log_likelihoods: FloatArray

    @property
    def log_likelihood(self) -> float:
        """Log-likelihood of the observations, in nats."""
        return float(np.sum(self.row_log_likelihoods))

    @property
    def std(self) -> FloatArray:
        """Posterior standard deviations, shape (T, K)."""
        return np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))


class Filtering(NamedTuple):
    """Law of each latent state given the rows up to its own.

    ``means`` (T, K), ``covariances`` (T, K, K) and ``log_likelihoods`` (T,): log density of each row given
    the rows before it; zero where nothing is observed.
    """

    means: FloatArray
    covariances: FloatArray
    log_likelihoods: FloatArray


class _Problem(NamedTuple):
    """Parameters and data as the compiled programs take them."""

    values: Array
    mask: Array
    decays: Array
    loadings: Array
    noise_variance: Array
    offset: Array


def _problem(params: Parameters, panel: Panel) -> _Problem:
    arrays = (
        panel.values,
        panel.mask,
        step_decay(params.decay, panel),
        params.loadings,
        params.noise_variance,
        params.offset,
    )
    return _Problem(*map(jnp.asarray, arrays))


def _forward(problem: _Problem, mean: Array, covariance: Array) -> tuple[Filtered, Array]:
    """Filter, and the log density of each row given the rows before it.

    With the filtered mean in place of the predicted one, the quadratic form splits into two positive parts:
    the residual against the noise and the update against the predicted covariance.
    """
    collapsed = collapse(*problem[:2], *problem[3:])
    filtered = filter_pass(collapsed, problem.decays, mean, covariance)
    residuals = problem.values - problem.offset - filtered.means @ problem.loadings.T
    log_norm = jnp.log(2.0 * jnp.pi * problem.noise_variance)
    quadratic = jnp.sum(problem.mask * (log_norm + residuals**2 / problem.noise_variance), axis=1)
    return filtered, -0.5 * (quadratic + filtered.log_dets + filtered.distances)


def _forward_from_prior(problem: _Problem) -> tuple[Filtered, Array]:
    n_components = problem.loadings.shape[1]
    dtype = problem.values.dtype
    return _forward(problem, jnp.zeros(n_components, dtype), jnp.eye(n_components, dtype=dtype))


def _backward(filtered: Filtered, decays: Array) -> Smoothed:
    return smoother_pass(filtered, conditionals(filtered.roots, decays), decays)


@jax.jit
def _filter_program(problem: _Problem, mean: Array, covariance: Array) -> tuple[Array, Array, Array]:
    filtered, log_likelihoods = _forward(problem, mean, covariance)
    return filtered.means, filtered.roots @ jnp.swapaxes(filtered.roots, 1, 2), log_likelihoods


@jax.jit
def _posterior_program(problem: _Problem) -> tuple[Smoothed, Array]:
    filtered, log_likelihoods = _forward_from_prior(problem)
    return _backward(filtered, problem.decays), log_likelihoods


@jax.jit
def _likelihood_program(problem: _Problem) -> Array:
    return jnp.sum(_forward_from_prior(problem)[1])


@partial(jax.jit, static_argnames="n_gaps")
def _statistics_program(problem: _Problem, gap_index: Array, n_gaps: int) -> tuple[Array, ...]:
    filtered, log_likelihoods = _forward_from_prior(problem)
    smoothed = _backward(filtered, problem.decays)
    return (
        jnp.sum(log_likelihoods),
        *observation_statistics(problem.values, problem.mask, problem.loadings, problem.offset, smoothed),
        *transition_statistics(problem.decays, gap_index, n_gaps, smoothed),
    )


@jax.jit
def _draw_program(problem: _Problem, normals: Array) -> Array:
    filtered, _ = _forward_from_prior(problem)
    return backward_draws(filtered, conditionals(filtered.roots, problem.decays), problem.decays, normals)


def smooth(params: Parameters, panel: Panel) -> Posterior:
    """Posterior moments of the latents and log-likelihood.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.

    Returns
    -------
    Posterior
        Moments for the ``n_rows`` rows of the panel, one sequence after the other.
    """
    with jax.enable_x64(True):
        smoothed, log_likelihoods = _posterior_program(_problem(params, panel))
        n = panel.n_rows
        return Posterior(
            np.asarray(smoothed.means)[:n],
            np.asarray(smoothed.covariances)[:n],
            np.asarray(smoothed.lag_one)[1:n],
            np.asarray(log_likelihoods)[:n],
        )


def log_likelihood(params: Parameters, panel: Panel) -> float:
    """Log-likelihood of the observations in nats; the forward pass alone."""
    with jax.enable_x64(True):
        return float(_likelihood_program(_problem(params, panel)))


def filter_rows(
    params: Parameters, panel: Panel, decays: FloatArray, mean: FloatArray, covariance: FloatArray
) -> Filtering:
    """Causal law of the states, starting from a given law of the state before the first row.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.
    decays : ndarray of shape (T, K)
        Decay from the row before to each row; the first may differ from zero to resume a sequence.
    mean : ndarray of shape (K,)
        Mean of the state before the first row.
    covariance : ndarray of shape (K, K)
        Its covariance.

    Returns
    -------
    Filtering
    """
    with jax.enable_x64(True):
        problem = _problem(params, panel)._replace(decays=jnp.asarray(decays))
        means, covariances, log_likelihoods = _filter_program(problem, mean, covariance)
        n = panel.n_rows
        return Filtering(np.asarray(means)[:n], np.asarray(covariances)[:n], np.asarray(log_likelihoods)[:n])


def expected_statistics(params: Parameters, panel: Panel) -> Statistics:
    """Sums of expected moments that EM and the score are made of, with the log-likelihood."""
    with jax.enable_x64(True):
        sums = _statistics_program(_problem(params, panel), panel.gap_index, n_gaps=panel.gaps.shape[0])
        return Statistics(float(sums[0]), *(np.asarray(x) for x in sums[1:]))


def draw_states(params: Parameters, panel: Panel, normals: FloatArray) -> FloatArray:
    """Draws from the joint law of the states given all rows, made of standard normals.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.
    normals : ndarray of shape (T, n_draws, K)
        Independent standard normal numbers.

    Returns
    -------
    ndarray of shape (n_draws, N, K)
    """
    with jax.enable_x64(True):
        draws = _draw_program(_problem(params, panel), normals)
        return np.asarray(draws)[: panel.n_rows].swapaxes(0, 1)
