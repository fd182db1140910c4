"""Smoothers of several packages, each in its fastest setting, with one interface.

A function prepares everything that can be reused for data of the same shape (compilation, buffers), and
returns a function without arguments. That function returns the log-likelihood and the smoothed means, and
also computes the smoothed covariances.
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import threadpool_limits

from probsfa._validation import Sequences
from probsfa.statespace import make_parameters
from probsfa.statespace.engine.posterior import smooth
from probsfa.statespace.panel import make_panel
from probsfa.statespace.parameters import StateSpace

Answer = tuple[float, np.ndarray]
Run = Callable[[], Answer]


class Problem(NamedTuple):
    """Parameters of the model, and a series drawn from it (T, D), NaN where missing."""

    params: StateSpace
    X: np.ndarray

    @property
    def has_gaps(self) -> bool:
        """Whether any value is missing."""
        return bool(np.isnan(self.X).any())


class Unable(Exception):
    """The package cannot solve this problem; the message has the reason."""


def draw_problem(n_rows: int, n_features: int, n_components: int, missing: float, seed: int = 0) -> Problem:
    """Draw parameters and a series, and hide a share of its values."""
    rng = np.random.default_rng(seed)
    decay = np.linspace(0.98, 0.5, n_components)
    loadings = rng.standard_normal((n_features, n_components)) / np.sqrt(n_components)
    noise = rng.uniform(0.2, 1.0, n_features)
    latents = np.empty((n_rows, n_components))
    state, spread = rng.standard_normal(n_components), np.sqrt(1.0 - decay**2)
    for t in range(n_rows):
        latents[t] = state
        state = decay * state + spread * rng.standard_normal(n_components)
    X = rng.standard_normal((n_rows, n_features))
    X *= np.sqrt(noise)
    X += latents @ loadings.T
    if missing:
        X[rng.random(X.shape) < missing] = np.nan
    return Problem(make_parameters(decay, loadings, noise), X)


def ours(problem: Problem) -> Run:
    """Prepare probsfa: means, covariances, lag-one covariances and log-likelihood, in NumPy arrays."""
    panel = make_panel(Sequences(problem.X, (len(problem.X),)))

    def run() -> Answer:
        smoothed = smooth(problem.params, panel)
        return smoothed.log_likelihood, smoothed.means

    return run


def dynamax(problem: Problem, *, parallel: bool = False) -> Run:
    """Prepare dynamax: compiled, in double precision, with the diagonal noise variances as a vector."""
    from dynamax.linear_gaussian_ssm import inference, parallel_inference
    from dynamax.linear_gaussian_ssm.inference import make_lgssm_params

    if problem.has_gaps:
        raise Unable("does not support missing values")
    module = parallel_inference if parallel else inference
    a, C, r, mu = problem.params.to_arrays().values()
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        K = len(a)
        params = make_lgssm_params(
            np.zeros(K), np.eye(K), np.diag(a), np.diag(1.0 - a**2), C, r, emissions_bias=mu
        )
        smoother = jax.jit(module.lgssm_smoother)
        X = jax.device_put(problem.X)

    def run() -> Answer:
        with jax.enable_x64(True), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            smoothed = jax.block_until_ready(smoother(params, X))
            return float(smoothed.marginal_loglik), np.asarray(smoothed.smoothed_means)

    return run


def cuthbert(problem: Problem, *, parallel: bool = False) -> Run:
    """Prepare cuthbert's square-root smoother: compiled, in double precision."""
    from cuthbert import filter as run_filter
    from cuthbert import smoother as run_smoother
    from cuthbert.gaussian import kalman

    def program(params: tuple[jax.Array, ...], X: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        a, C, r, mu = params
        origin, identity = jnp.zeros_like(a), jnp.eye(len(a))
        dynamics, noise = (jnp.diag(a), origin, jnp.diag(jnp.sqrt(1.0 - a**2))), jnp.diag(jnp.sqrt(r))

        def transition(x: jax.Array) -> Any:
            return dynamics

        filtering = kalman.build_filter(origin, identity, transition, lambda x: (C, mu, noise, x))
        smoothing = kalman.build_smoother(transition)
        states = run_filter(filtering, X, filtering.init_prepare(), parallel=parallel)
        smoothed = run_smoother(smoothing, states, X, parallel=parallel)
        # The first state is one step before the first row.
        return states.log_normalizing_constant[-1], smoothed.mean[1:], smoothed.chol_cov[1:]

    compiled = jax.jit(program)
    with jax.enable_x64(True):
        params, X = jax.device_put((tuple(problem.params.to_arrays().values()), problem.X))

    def run() -> Answer:
        with jax.enable_x64(True):
            value, means, _ = jax.block_until_ready(compiled(params, X))
            return float(value), np.asarray(means)

    return run


def statsmodels(
    problem: Problem, *, collapse: bool = False, univariate: bool = False, smoothing: str = "default"
) -> Run:
    """Prepare statsmodels' compiled smoother, which computes only means and covariances."""
    from statsmodels.tsa.statespace import kalman_filter, kalman_smoother

    a, C, r, mu = problem.params.to_arrays().values()
    D, K = C.shape
    if collapse and D <= K:
        raise Unable("supports collapsing only if there are more features than factors")
    output = kalman_smoother.SMOOTHER_STATE | kalman_smoother.SMOOTHER_STATE_COV
    model = kalman_smoother.KalmanSmoother(k_endog=D, k_states=K, k_posdef=K, smoother_output=output)
    model.bind(np.asfortranarray(problem.X.T))
    model["design"], model["obs_cov"] = C, np.diag(r)
    model["obs_intercept"] = mu[:, None]
    model["transition"], model["selection"], model["state_cov"] = np.diag(a), np.eye(K), np.diag(1.0 - a**2)
    model.initialize_known(np.zeros(K), np.eye(K))
    model.filter_collapsed = collapse
    model.filter_univariate = univariate
    if smoothing != "default":
        model.set_smooth_method(getattr(kalman_smoother, f"SMOOTH_{smoothing.upper()}"))
    kept = kalman_filter.MEMORY_NO_STD_FORECAST

    def run() -> Answer:
        with _one_thread():
            smoothed = model.smooth(conserve_memory=kept)
        return float(smoothed.llf), smoothed.smoothed_state.T

    return run


def pykalman(problem: Problem) -> Run:
    """Prepare pykalman's smoother, and a separate pass for its log-likelihood."""
    from pykalman import KalmanFilter

    if problem.has_gaps:
        raise Unable("skips rows with missing values")
    a, C, r, mu = problem.params.to_arrays().values()
    model = KalmanFilter(
        transition_matrices=np.diag(a),
        observation_matrices=C,
        transition_covariance=np.diag(1.0 - a**2),
        observation_covariance=np.diag(r),
        observation_offsets=mu,
        initial_state_mean=np.zeros(len(a)),
        initial_state_covariance=np.eye(len(a)),
    )

    def run() -> Answer:
        with _one_thread():
            means = model.smooth(problem.X)[0]
            return float(model.loglikelihood(problem.X)), np.asarray(means)

    return run


def _one_thread() -> threadpool_limits:
    # For products of small matrices more threads are slower.
    return threadpool_limits(1, user_api="blas")


OURS = "probsfa"
IMPLEMENTATIONS: dict[str, Callable[[Problem], Run]] = {
    OURS: ours,
    "dynamax": dynamax,
    "dynamax, parallel": functools.partial(dynamax, parallel=True),
    "cuthbert": cuthbert,
    "cuthbert, parallel": functools.partial(cuthbert, parallel=True),
    "statsmodels": statsmodels,
    "statsmodels, collapsed": functools.partial(statsmodels, collapse=True),
    "statsmodels, univariate": functools.partial(statsmodels, univariate=True),
    "statsmodels, collapsed and univariate": functools.partial(statsmodels, collapse=True, univariate=True),
    "statsmodels, collapsed, classical": functools.partial(statsmodels, collapse=True, smoothing="classical"),
    "statsmodels, collapsed, alternative": functools.partial(
        statsmodels, collapse=True, smoothing="alternative"
    ),
    "pykalman": pykalman,
}
