"""Posterior moments, log-likelihood and expected statistics of checked data.

This is the one place through which everything else asks the engine, in float64 whatever the user's JAX
configuration is, with NumPy arrays going in and coming out. Parameters whose noise has memory are asked about
as :attr:`.Parameters.state_space`: moments are of all its states, the memories among them.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from probsfa._interrupts import interrupts_kept
from probsfa._processes import check_not_forked
from probsfa._threads import one_blas_thread
from probsfa._typing import FloatArray
from probsfa.statespace.engine.cell_scores import cell_scores
from probsfa.statespace.engine.compiler import program
from probsfa.statespace.engine.dynamics import Gaussian, Transition
from probsfa.statespace.engine.plan import Plan, in_turn, plan, settings_for_draws
from probsfa.statespace.engine.problem import Model, Problem, Rows, make_model
from probsfa.statespace.engine.recursions import Recursions
from probsfa.statespace.engine.settings import engine_settings
from probsfa.statespace.engine.statistics import Statistics
from probsfa.statespace.engine.sweep import draw_in_turn
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters

# Part of what latents explain below which noise is rounding of it.
_LEAST_NOISE = 1e-13


@contextmanager
def engine() -> Iterator[None]:
    """Settings under which the engine is asked."""
    check_not_forked()
    with interrupts_kept(), engine_settings(), one_blas_thread():
        yield


class Posterior(NamedTuple):
    """Distribution of the latents given the observations.

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

    def of(self, states: NDArray[np.intp]) -> "Posterior":
        """The distribution of some of the states alone."""
        block = (slice(None), states[:, None], states)
        return self._replace(
            means=self.means[:, states],
            covariances=self.covariances[block],
            lag_one_covariances=self.lag_one_covariances[block],
        )

    def split(self, parts: Iterable[slice]) -> "list[Posterior]":
        """The distributions of stretches of the rows, such as the sequences that a list holds."""
        return [
            Posterior(
                self.means[s],
                self.covariances[s],
                self.lag_one_covariances[s.start : s.stop - 1],
                self.row_log_likelihoods[s],
            )
            for s in parts
        ]


class Filtering(NamedTuple):
    """Distribution of each latent state given the rows up to its own.

    ``means`` (T, K), ``covariances`` (T, K, K) and ``log_likelihoods`` (T,): log density of each row given
    the rows before it; zero where nothing is observed.
    """

    means: FloatArray
    covariances: FloatArray
    log_likelihoods: FloatArray


def plan_for(params: Parameters, panel: Panel, *, for_steps: bool = False) -> Plan:
    """How the engine works through a panel, for results or for the steps of a climb, and why."""
    with engine():
        return plan(params.state_space, panel, for_steps=for_steps)


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
    with engine():
        states = params.state_space
        return Posterior(**plan(states, panel).route.moments(states, panel)._asdict())


def visit_moments(
    params: Parameters,
    panel: Panel,
    visit: Callable[[slice, FloatArray, FloatArray], None],
    *,
    for_steps: bool = False,
) -> float:
    """Show posterior means (n, K) and covariances (n, K, K) chunk by chunk, the last one first.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.
    visit : callable
        Called with the rows of a chunk, their means and their covariances, none of which is kept.
    for_steps : bool, default=False
        Whether they only tell a fit how to go on, for which eight digits serve where ten take longer.

    Returns
    -------
    float
        Log-likelihood of the observations, in nats.
    """
    with engine():
        states = params.state_space
        return in_turn(states, panel, for_steps=for_steps).visit_moments(states, panel, visit)


def log_likelihood(params: Parameters, panel: Panel) -> float:
    """Log-likelihood of the observations in nats; the forward pass alone."""
    with engine():
        states = params.state_space
        return plan(states, panel).route.log_likelihood(states, panel)


def expected_statistics(params: Parameters, panel: Panel, *, for_steps: bool = False) -> Statistics:
    """Sums of expected moments that EM and the score are made of, with the log-likelihood.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.
    for_steps : bool, default=False
        Whether they only tell a climb how to go on, for which eight digits serve where ten take longer.
    """
    with engine():
        states = params.state_space
        return plan(states, panel, for_steps=for_steps).route.expected_statistics(states, panel)


@program()
def _filter_program(
    values: Array, weights: Array, transitions: Transition, model: Model, before: Gaussian
) -> tuple[Array, Array, Array]:
    nothing = transitions.at(0).starting()
    problem = Problem(values, weights, transitions, nothing, *model[1:])
    result, log_likelihoods = Recursions().forward(problem, before)
    roots = result.filtered.roots
    return result.filtered.means, roots @ jnp.swapaxes(roots, 1, 2), log_likelihoods


def filter_rows(
    params: Parameters, panel: Panel, transitions: Transition, mean: FloatArray, covariance: FloatArray
) -> Filtering:
    """Causal distributions of the states, starting from that of the state before the first row.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.
    transitions : Transition
        From the row before to each row, (T, K); the first may lead there from a row before, to go on.
    mean : ndarray of shape (K,)
        Mean of the state before the first row.
    covariance : ndarray of shape (K, K)
        Its covariance.

    Returns
    -------
    Filtering
    """
    with engine():
        before = Gaussian(jnp.asarray(mean), jnp.asarray(covariance))
        model = make_model(params.state_space, panel)
        rows = (panel.values, panel.cell_weights)
        filtered = _filter_program(*rows, transitions.map(jnp.asarray), model, before)
        return Filtering(*(np.asarray(rows)[: panel.n_rows] for rows in filtered))


def cells_left_out(params: Parameters, panel: Panel) -> tuple[FloatArray, FloatArray]:
    """Means and variances of cells given all others, noise included, however small it is.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.

    Returns
    -------
    means, variances : ndarray of shape (T, D)
        NaN where a cell is missing, or where rounding leaves nothing: with noise below 1e-13 of what latents
        explain of its feature.
    """
    states = params.state_space
    with engine():
        model = make_model(states, panel)
        rows = Rows(*map(jnp.asarray, (panel.values, panel.mask, panel.gap_index)))
        scores, precisions = (np.asarray(a)[: panel.n_rows] for a in cell_scores(model, rows))
    resolved = states.noise_variance > _LEAST_NOISE * np.sum(states.loadings**2, axis=1)
    seen = (np.asarray(panel.mask[: panel.n_rows]) > 0.0) & resolved
    with np.errstate(divide="ignore", invalid="ignore"):
        means = panel.values[: panel.n_rows] - scores / precisions
        return np.where(seen, means, np.nan), np.where(seen, 1.0 / precisions, np.nan)


def draw_states(params: Parameters, panel: Panel, normals: FloatArray) -> FloatArray:
    """Draws from the joint distribution of the states given all rows, made of standard normals.

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
    with engine():
        states = params.state_space
        settings = settings_for_draws(panel.values.shape[0], states.n_states)
        return draw_in_turn(states, panel, normals, *settings)
