"""Fits of one model by several packages, and the time in which they reach a log-likelihood."""

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from common.side_by_side import timed
from threadpoolctl import threadpool_limits

PER_STEP = 1e-4  # tolerance of the target, in nats of log-likelihood per time step
STATSMODELS_ITERATIONS, DYNAMAX_ITERATIONS = 5, 25  # iterations of EM per evaluation of the log-likelihood
MIN_GAIN = 1e-7  # in nats per time step and iteration: smaller gains end the fit


class PeerFit(NamedTuple):
    """Seconds and iterations of a fit by another package, and its highest log-likelihood."""

    seconds: float
    n_iterations: int
    best: float


def follow(step: Callable[[], tuple[float, list[float]]], target: float, n: int, budget: float) -> PeerFit:
    """Run a fit until it reaches the target log-likelihood, stops improving, or exceeds the budget.

    A step returns its seconds and the log-likelihoods of its iterations. If the target is not finite, the
    target is the final log-likelihood less the tolerance.
    """
    seconds: list[float] = []
    values: list[float] = []
    while sum(seconds) < budget:
        spent, reached = step()
        seconds += [spent / len(reached)] * len(reached)
        values += reached
        rise = max(values) - max(values[: -len(reached)], default=-np.inf)
        if max(values) >= target or rise < MIN_GAIN * n * len(reached):
            break
    target = target if np.isfinite(target) else max(values) - PER_STEP * n
    arrived = np.flatnonzero(np.asarray(values) >= target)
    n_iterations = int(arrived[0]) + 1 if arrived.size else len(values)
    return PeerFit(sum(seconds[:n_iterations]), n_iterations, max(values))


def factor_model(X: np.ndarray, n_factors: int, *, collapsed: bool) -> Any:
    """Return the same model as a model of statsmodels, for centred data."""
    from statsmodels.tsa.statespace.dynamic_factor_mq import DynamicFactorMQ

    model = DynamicFactorMQ(X, factors=n_factors, factor_orders=1, idiosyncratic_ar1=False, standardize=False)
    if collapsed:
        model.ssm.filter_univariate = False
        model.ssm.filter_collapsed = True
    return model


def by_statsmodels(
    X: np.ndarray, n_factors: int, target: float, budget: float, *, collapsed: bool
) -> PeerFit:
    """Run statsmodels' EM."""
    model = factor_model(X, n_factors, collapsed=collapsed)
    options = {"tolerance": -1.0, "em_initialization": False, "disp": 0, "return_params": True}
    params = model.start_params
    n = STATSMODELS_ITERATIONS

    def step() -> tuple[float, list[float]]:
        nonlocal params
        seconds, params = timed(lambda: model.fit_em(params, maxiter=n, **options), time.process_time)
        # The log-likelihoods of the iterations before the last one are not known.
        return seconds, [-np.inf] * (n - 1) + [float(model.loglike(params))]

    with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return follow(step, target, len(X), budget)


def by_dynamax(X: np.ndarray, n_factors: int, target: float, budget: float, *, restricted: bool) -> PeerFit:
    """Run dynamax's EM from the starting point of statsmodels."""
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM

    class FactorialModel(LinearGaussianSSM):
        """A model with diagonal F, Q and R, and the stationary distribution as initial distribution."""

        def m_step(self, params: Any, props: Any, batch_stats: Any, m_step_state: Any) -> Any:
            _, (before, across, after, n), (zz, zy, yy, T) = jax.tree.map(
                lambda x: x.sum(axis=0), batch_stats
            )
            before, across, after = map(jnp.diag, (before, across, after))
            decay = across / before
            spread = (after - decay * across) / n
            loadings = jnp.linalg.solve(zz, zy).T
            noise = (jnp.diag(yy) - jnp.sum(loadings * zy.T, axis=1)) / T
            initial = params.initial._replace(cov=jnp.diag(spread / (1.0 - decay**2)))
            dynamics = params.dynamics._replace(weights=jnp.diag(decay), cov=jnp.diag(spread))
            emissions = params.emissions._replace(weights=loadings, cov=noise)
            return params._replace(initial=initial, dynamics=dynamics, emissions=emissions), m_step_state

    D, K = X.shape[1], n_factors
    start = factor_model(X, K, collapsed=True).start_params
    a, chol = start[D * K : D * K + K], start[D * K + K : D * K + 2 * K]
    noise = start[D * K + 2 * K :]
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = FactorialModel if restricted else LinearGaussianSSM
        model = kind(K, D, has_dynamics_bias=False, has_emissions_bias=False)
        params, props = model.initialize(
            initial_mean=np.zeros(K),
            initial_covariance=np.diag(chol**2 / (1.0 - a**2)),
            dynamics_weights=np.diag(a),
            dynamics_covariance=np.diag(chol**2),
            emission_weights=start[: D * K].reshape(D, K),
            emission_covariance=noise if restricted else np.diag(noise),
        )
        params = jax.tree.map(jnp.asarray, params)
        run = jax.jit(
            lambda params: model.fit_em(params, props, X, num_iters=DYNAMAX_ITERATIONS, verbose=False)
        )
        jax.block_until_ready(run(params))

        def step() -> tuple[float, list[float]]:
            nonlocal params
            seconds, (params, values) = timed(lambda: jax.block_until_ready(run(params)), time.process_time)
            return seconds, np.asarray(values).tolist()

        return follow(step, target, len(X), budget)
