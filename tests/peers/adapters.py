"""Conversions of one model, one data set and one result to the conventions of other packages and back.

Each function converts a factorial AR(1) model (`tests.oracles.statespace.Model`) and data with NaN where
missing to the arguments of a package, and its results to the conventions of this package. ``README.md`` in
this folder lists the differences. Packages are imported inside the functions, so that this module can be
imported without them.
"""

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from probsfa._validation import Sequences
from probsfa.statespace.engine.posterior import smooth
from probsfa.statespace.filtering import run_filter
from probsfa.statespace.panel import make_panel
from tests.oracles import statespace as oracle
from tests.statespace.support import scaled_error, to_parameters

# Functions of other packages process few rows: compilation takes most of the time, so its level is low.
_COMPILE_QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def compiled(function):
    """Compile a JAX function of another package with a low optimization level."""
    return jax.jit(function, compiler_options=_COMPILE_QUICKLY)


class Inference(NamedTuple):
    """Filtered and posterior moments of T states, in the conventions of this package.

    ``lag_one[t]`` is the covariance of state t + 1 (rows) with state t (columns).
    """

    filtered_means: np.ndarray
    filtered_covariances: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    lag_one: np.ndarray | None
    log_likelihood: float


def assert_same(computed, expected, tolerance):
    """Compare results field by field, relative to the size of the expected ones (at least one)."""
    for name, one, other in zip(Inference._fields, computed, expected, strict=True):
        assert one is None or scaled_error(one, other) < tolerance, name


def match_signs(outputs, reference):
    """Return outputs (T, K) with the signs of the reference."""
    return outputs * np.sign(np.sum(outputs * reference, axis=0))


def transitions(model, n_rows, times=None):
    """Return the decay (T, K) from the previous row to each row; the first one is that of one step."""
    gaps = np.ones(n_rows) if times is None else np.concatenate([[1.0], np.diff(times)])
    return model.decay ** gaps[:, None]


# ------------------------------------------------------------------------------------------- this package


def sequence_of(data, times=None):
    """Return one sequence as `Sequences`."""
    return Sequences(data, (len(data),), times)


def ours(model, data, times=None):
    """Return results of the filter and smoother of this package."""
    params = to_parameters(model)
    causal = run_filter(params, sequence_of(data, times), None)
    posterior = smooth(params, make_panel(sequence_of(data, times)))
    assert scaled_error(causal.log_likelihood, posterior.log_likelihood) < 1e-10
    return Inference(
        causal.means,
        causal.covariances,
        posterior.means,
        posterior.covariances,
        posterior.lag_one_covariances,
        posterior.log_likelihood,
    )


def dense(model, data, times=None):
    """Return results of the dense joint Gaussian distribution and of a textbook filter."""
    when = None if times is None else [times]
    loop = oracle.kalman_loop(model, [data], when)
    joint = oracle.joint_posterior(model, [data], when)
    return Inference(
        loop.filtered_means,
        loop.filtered_covariances,
        joint.means,
        joint.covariances,
        joint.lag_one.reshape(len(data) - 1, len(model.decay), len(model.decay)),
        joint.log_likelihood,
    )


# ------------------------------------------------------------------------------------------------ dynamax


def dynamax_static(model):
    """Return parameters of dynamax that are constant in time, for complete data at even times."""
    from dynamax.linear_gaussian_ssm.inference import make_lgssm_params

    k = len(model.decay)
    return make_lgssm_params(
        initial_mean=jnp.zeros(k),
        initial_cov=jnp.eye(k),
        dynamics_weights=jnp.diag(model.decay),
        dynamics_cov=jnp.diag(1 - model.decay**2),
        emissions_weights=jnp.asarray(model.loadings),
        emissions_cov=jnp.diag(model.noise),
        emissions_bias=jnp.asarray(model.offset),
    )


def dynamax_moving(model, data, times=None, unused=1.0):
    """Return parameters of dynamax for each row, its data, and the nats to add to its log-likelihood.

    Element t of weights and covariance is the transition from row t - 1 to row t; element 0 is ignored
    (``unused``). dynamax does not support missing values. Each is replaced by a zero with loadings of zero
    and unit noise. This adds ``-log(2 pi) / 2`` to the log-likelihood and does not change the posterior.
    """
    from dynamax.linear_gaussian_ssm.inference import make_lgssm_params

    n, k = len(data), len(model.decay)
    over = transitions(model, n, times)
    over[0] = unused
    observed = ~np.isnan(data)
    covariances = (1 - over**2)[:, :, None] * np.eye(k)
    params = make_lgssm_params(
        initial_mean=jnp.zeros(k),
        initial_cov=jnp.eye(k),
        dynamics_weights=jnp.asarray(over[:, :, None] * np.eye(k)),
        dynamics_cov=jnp.asarray(covariances),
        emissions_weights=jnp.asarray(observed[:, :, None] * model.loadings),
        emissions_cov=jnp.asarray(np.where(observed, model.noise, 1.0)[:, :, None] * np.eye(data.shape[1])),
        emissions_bias=jnp.asarray(observed * model.offset),
    )
    return params, jnp.asarray(np.where(observed, data, 0.0)), 0.5 * np.log(2 * np.pi) * np.sum(~observed)


@cache
def _dynamax_smoother(form):
    from dynamax.linear_gaussian_ssm import inference, info_inference, parallel_inference

    if form == "serial":
        return compiled(inference.lgssm_smoother)
    if form == "parallel":
        return compiled(parallel_inference.lgssm_smoother)

    def in_information_form(params, emissions):
        initial, dynamics, observed = params
        posterior = info_inference.lgssm_info_smoother(
            info_inference.ParamsLGSSMInfo(
                initial_mean=initial.mean,
                initial_precision=jnp.linalg.inv(initial.cov),
                dynamics_weights=dynamics.weights,
                dynamics_precision=jnp.linalg.inv(dynamics.cov),
                dynamics_input_weights=dynamics.input_weights,
                dynamics_bias=dynamics.bias,
                emission_weights=observed.weights,
                emission_precision=jnp.linalg.inv(observed.cov),
                emission_input_weights=observed.input_weights,
                emission_bias=observed.bias,
            ),
            emissions,
        )
        to_moments = info_inference.info_to_moment_form
        return inference.PosteriorGSSMSmoothed(
            posterior.marginal_loglik,
            *to_moments(posterior.filtered_etas, posterior.filtered_precisions),
            *to_moments(posterior.smoothed_etas, posterior.smoothed_precisions),
        )

    return compiled(in_information_form)


def dynamax(params, emissions, missing=0.0, form="serial"):
    """Return results of the serial, parallel or information filter and smoother of dynamax.

    Its cross moments are raw, ``E[z_t z_t+1']``, with the earlier state in the rows. The parallel and the
    information form return none; the field is None.
    """
    posterior = _dynamax_smoother(form)(params, emissions)
    means = np.asarray(posterior.smoothed_means)
    lag_one = posterior.smoothed_cross_covariances
    if lag_one is not None:
        lag_one = np.asarray(lag_one).swapaxes(1, 2) - means[1:, :, None] * means[:-1, None, :]
    return Inference(
        np.asarray(posterior.filtered_means),
        np.asarray(posterior.filtered_covariances),
        means,
        np.asarray(posterior.smoothed_covariances),
        lag_one,
        float(posterior.marginal_loglik) + missing,
    )


# ----------------------------------------------------------------------------------------------- cuthbert


def cuthbert_inputs(model, data, times=None):
    """Return the arrays (F, c, chol Q, H, d, chol R, y) of cuthbert for each row, NaN where missing."""
    n, (d, k) = len(data), model.loadings.shape
    over = transitions(model, n, times)
    return (
        jnp.asarray(over[:, :, None] * np.eye(k)),
        jnp.zeros((n, k)),
        jnp.asarray(np.sqrt(1 - over**2)[:, :, None] * np.eye(k)),
        jnp.broadcast_to(model.loadings, (n, d, k)),
        jnp.broadcast_to(model.offset, (n, d)),
        jnp.broadcast_to(np.diag(np.sqrt(model.noise)), (n, d, d)),
        jnp.asarray(data),
    )


def cuthbert_filter(mean, root):
    """Return the Kalman filter of cuthbert that starts from a Gaussian state before the first row."""
    from cuthbert.gaussian import kalman

    return kalman.build_filter(mean, root, lambda inputs: inputs[:3], lambda inputs: inputs[3:])


@cache
def _cuthbert_passes(parallel):
    import cuthbert as package
    from cuthbert.gaussian import kalman

    def passes(mean, root, inputs):
        filter_ = cuthbert_filter(mean, root)
        smoother = kalman.build_smoother(lambda inputs: inputs[:3], store_gain=True)
        states = package.filter(filter_, inputs, filter_.init_prepare(), parallel=parallel)
        smoothed = package.smoother(smoother, states, parallel=parallel)
        return (
            (states.mean, states.chol_cov, states.log_normalizing_constant),
            (smoothed.mean, smoothed.chol_cov, smoothed.gain),
        )

    return compiled(passes)


def cuthbert_passes(mean, root, inputs, *, parallel=False):
    """Return moments of cuthbert's T + 1 states; the first state precedes the first row."""
    results = _cuthbert_passes(parallel)(jnp.asarray(mean), jnp.asarray(root), inputs)
    return tuple(tuple(map(np.asarray, part)) for part in results)


def squares(roots):
    """Return covariances (..., K, K) from their generalized Cholesky factors."""
    return roots @ roots.swapaxes(-1, -2)


def cuthbert(model, data, times=None, *, parallel=False):
    """Return results of the sequential or parallel filter and smoother of cuthbert.

    Its initial state precedes the first transition; as the model is stationary, the first row has the same
    distribution as here. Log-likelihoods are cumulative. The covariance of successive states is the gain
    times the later covariance, with the earlier state in the rows.
    """
    k = len(model.decay)
    filtered, smoothed = cuthbert_passes(
        np.zeros(k), np.eye(k), cuthbert_inputs(model, data, times), parallel=parallel
    )
    means, roots, gains = smoothed
    covariances = squares(roots)
    return Inference(
        filtered[0][1:],
        squares(filtered[1])[1:],
        means[1:],
        covariances[1:],
        (gains[1:-1] @ covariances[2:]).swapaxes(1, 2),
        float(filtered[2][-1]),
    )
