"""One model, one set of data, one result, whoever computes them.

Every adapter takes a model of the oracles, which is the factorial AR(1) model in four arrays, and data with
NaN where missing, maps them to the arguments of a package, and maps the answer back to the conventions of
this one. What is mapped is therefore the list of differences of convention, which is in ``README.md``, beside
this file. Packages are imported where they are used, so that this module imports without them.
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

# The peers' programs are run a few times on a few rows: compiling them takes the time, so it is done cheaply.
_COMPILE_QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def compiled(function):
    """Compile a JAX function of a peer, with little optimisation."""
    return jax.jit(function, compiler_options=_COMPILE_QUICKLY)


class Inference(NamedTuple):
    """Causal and posterior moments of T latent states, in the conventions of this package.

    ``lag_one[t]`` is the covariance of state t + 1 (rows) with state t (columns).
    """

    filtered_means: np.ndarray
    filtered_covariances: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    lag_one: np.ndarray | None
    log_likelihood: float


def assert_same(computed, expected, tolerance):
    """Compare what was computed, field by field, relative to the size of what is expected (at least one)."""
    for name, one, other in zip(Inference._fields, computed, expected, strict=True):
        assert one is None or scaled_error(one, other) < tolerance, name


def match_signs(outputs, reference):
    """Outputs (T, K) with each column's sign changed to that of the reference."""
    return outputs * np.sign(np.sum(outputs * reference, axis=0))


def transitions(model, n_rows, times=None):
    """Decay (T, K) that leads to each row; that to the first row is the decay over one step."""
    gaps = np.ones(n_rows) if times is None else np.concatenate([[1.0], np.diff(times)])
    return model.decay ** gaps[:, None]


# ------------------------------------------------------------------------------------------- this package


def sequence_of(data, times=None):
    """One sequence, as the border hands it on."""
    return Sequences(data, (len(data),), times)


def ours(model, data, times=None):
    """Filter and smoother of this package."""
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
    """The same by the oracles: conditioning the joint Gaussian of all rows, and a textbook loop."""
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
    """Parameters of dynamax that do not change with time, for complete data at even times."""
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
    """Parameters for each row, data that dynamax takes, and the nats that its log-likelihood has too few.

    Element t of weights and covariance leads from row t - 1 to row t; element 0 leads nowhere and may hold
    anything (``unused``). dynamax has no missing cells: a missing one becomes a zero that depends on no
    latent, in noise of variance one, which adds ``-log(2 pi) / 2`` to the log-likelihood and nothing to the
    posterior.
    """
    from dynamax.linear_gaussian_ssm.inference import make_lgssm_params

    n, k = len(data), len(model.decay)
    over = transitions(model, n, times)
    over[0] = unused
    seen = ~np.isnan(data)
    covariances = (1 - over**2)[:, :, None] * np.eye(k)
    params = make_lgssm_params(
        initial_mean=jnp.zeros(k),
        initial_cov=jnp.eye(k),
        dynamics_weights=jnp.asarray(over[:, :, None] * np.eye(k)),
        dynamics_cov=jnp.asarray(covariances),
        emissions_weights=jnp.asarray(seen[:, :, None] * model.loadings),
        emissions_cov=jnp.asarray(np.where(seen, model.noise, 1.0)[:, :, None] * np.eye(data.shape[1])),
        emissions_bias=jnp.asarray(seen * model.offset),
    )
    return params, jnp.asarray(np.where(seen, data, 0.0)), 0.5 * np.log(2 * np.pi) * np.sum(~seen)


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
    """Filter and smoother of dynamax in one of its forms: serial, parallel or information.

    Its cross moments are raw, ``E[z_t z_t+1']``, and have the earlier state in their rows. The parallel and
    the information form give none; then the field is None.
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
    """For each row the arrays (F, c, chol Q, H, d, chol R, y) that cuthbert asks for, NaN where missing."""
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
    """Kalman filter of cuthbert that starts from a Gaussian of the state before the first row."""
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
    """Moments of cuthbert's T + 1 states as NumPy arrays: its own state before the first row comes first."""
    results = _cuthbert_passes(parallel)(jnp.asarray(mean), jnp.asarray(root), inputs)
    return tuple(tuple(map(np.asarray, part)) for part in results)


def squares(roots):
    """Covariances (..., K, K) from their generalised Cholesky factors."""
    return roots @ roots.swapaxes(-1, -2)


def cuthbert(model, data, times=None, *, parallel=False):
    """Filter and smoother of cuthbert, sequential or parallel.

    Its initial state is that before the first transition; being stationary, the model gives the first row
    the same distribution either way. Log-likelihoods are cumulative. The covariance of neighbours is the gain
    times the later covariance, with the earlier state in its rows.
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
