"""Posterior moments, log-likelihood and expected statistics of checked data.

All other modules call the engine through this one, with NumPy arrays. Parameters with AR(1) noise of columns
are used in the form :attr:`.Parameters.state_space`: moments are of all its states, including the noise.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.statespace.engine.choose import choose
from probsfa.statespace.engine.dynamics import Transition
from probsfa.statespace.engine.moments import Filtering, Statistics
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters

__all__ = [
    "Filtering",
    "Posterior",
    "cells_left_out",
    "draw_states",
    "expected_statistics",
    "filter_rows",
    "log_likelihood",
    "smooth",
    "visit_moments",
]

# Noise variance, relative to the variance that the latent states explain, below which it is rounding error.
_LEAST_NOISE = 1e-13


class Posterior(NamedTuple):
    """Distribution of the factors given all observations (Kalman smoother).

    Attributes
    ----------
    means : ndarray of shape (T, K)
        Posterior means.
    covariances : ndarray of shape (T, K, K)
        Posterior covariances of the factors at each row.
    lag_one_covariances : ndarray of shape (T - 1, K, K)
        ``lag_one_covariances[t]`` is the covariance of ``z_t+1`` (rows) with ``z_t`` (columns).
    row_log_likelihoods : ndarray of shape (T,)
        Log density of each row given the rows before it, in nats; zero for rows without observations.
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

    def of(self, states: NDArray[np.intp]) -> "Posterior":
        """Return the distribution of some of the states."""
        block = (slice(None), states[:, None], states)
        return self._replace(
            means=self.means[:, states],
            covariances=self.covariances[block],
            lag_one_covariances=self.lag_one_covariances[block],
        )

    def split(self, parts: Iterable[slice]) -> "list[Posterior]":
        """Return the distributions of segments of the rows, such as the sequences of a list."""
        return [
            Posterior(
                self.means[s],
                self.covariances[s],
                self.lag_one_covariances[s.start : s.stop - 1],
                self.row_log_likelihoods[s],
            )
            for s in parts
        ]


def smooth(params: Parameters, panel: Panel) -> Posterior:
    """Compute posterior moments of the latent states and the log-likelihood.

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
    states = params.state_space
    return Posterior(*choose(states).moments(states, panel))


def visit_moments(
    params: Parameters,
    panel: Panel,
    visit: Callable[[slice, FloatArray, FloatArray], None],
    *,
    for_steps: bool = False,
) -> float:
    """Pass posterior means (n, K) and covariances (n, K, K) to a function chunk by chunk, the last one first.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.
    visit : callable
        Called with the rows of a chunk, their means and their covariances, which are discarded afterwards.
    for_steps : bool, default=False
        Whether moments are used for optimizer steps only, for which five digits suffice.

    Returns
    -------
    float
        Log-likelihood of the observations, in nats.
    """
    states = params.state_space
    return choose(states, for_steps=for_steps).visit_moments(states, panel, visit)


def log_likelihood(params: Parameters, panel: Panel) -> float:
    """Return the log-likelihood of the observations in nats, by the forward pass alone."""
    states = params.state_space
    return choose(states).log_likelihood(states, panel)


def expected_statistics(params: Parameters, panel: Panel, *, for_steps: bool = False) -> Statistics:
    """Compute the expected sufficient statistics for EM and the score, and the log-likelihood.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.
    for_steps : bool, default=False
        Whether they are used for optimizer steps only, for which five digits suffice.
    """
    states = params.state_space
    return choose(states, for_steps=for_steps).expected_statistics(states, panel)


def filter_rows(
    params: Parameters,
    panel: Panel,
    mean: FloatArray,
    covariance: FloatArray,
    onward: Transition | None = None,
) -> Filtering:
    """Compute filtered distributions of the states, from that of the state before the first row.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.
    mean : ndarray of shape (K,)
        Mean of the state before the first row.
    covariance : ndarray of shape (K, K)
        Its covariance.
    onward : Transition, optional
        Transition (1, K) from that state to the first row, to continue earlier rows; by default the first
        row starts a sequence.

    Returns
    -------
    Filtering
    """
    states = params.state_space
    return choose(states).filter(states, panel, mean, covariance, onward)


def cells_left_out(params: Parameters, panel: Panel) -> tuple[FloatArray, FloatArray]:
    """Return leave-one-out means and variances of values, noise included, also for near-zero noise.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.

    Returns
    -------
    means, variances : ndarray of shape (T, D)
        NaN where a value is missing, or where rounding errors dominate: in columns whose noise variance is
        below 1e-13 of the variance that the latent states explain.
    """
    states = params.state_space
    scores, precisions = choose(states).leave_one_out(states, panel)
    resolved = states.noise_variance > _LEAST_NOISE * np.sum(states.loadings**2, axis=1)
    seen = (np.asarray(panel.mask[: panel.n_rows]) > 0.0) & resolved
    with np.errstate(divide="ignore", invalid="ignore"):
        means = panel.values[: panel.n_rows] - scores / precisions
        return np.where(seen, means, np.nan), np.where(seen, 1.0 / precisions, np.nan)


def draw_states(params: Parameters, panel: Panel, normals: FloatArray) -> FloatArray:
    """Transform standard normal numbers to draws of the states from their joint posterior.

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
    states = params.state_space
    return choose(states).draw(states, panel, normals)
