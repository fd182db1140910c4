"""The structured variational posterior of the bilinear model, and its bound on the log-likelihood.

The posterior is approximated by ``q(Y) prod_m q(s_m)``: the joint distribution of all continuous factors at
all times, and one distribution for each binary chain. The update of one distribution, given the others, is
exact.

The log-likelihood, averaged over the gates, is quadratic in ``Y``. With the mask ``o_t`` of observed values,
its precision and information vector in row ``t`` are ::

    J_t = sum_mn E[s_m s_n] g_m' diag(o_t / r) g_n,      h_t = sum_m E[s_m] g_m' diag(o_t / r) (x_t - mu),

so that the Kalman smoother of the linear model computes ``q(Y)``. The log-likelihood of a chain, averaged
over all other variables, is a sum over rows of log odds of the two states. The forward-backward recursion
therefore computes ``q(s_m)``. No update decreases the bound ::

    E_q[log p(X | Y, S)] - KL(q(Y) || p(Y)) - sum_m KL(q(s_m) || p(s_m))
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from probsfa._fork_check import check_not_forked
from probsfa._threads import lost_interrupts_raised, one_blas_thread
from probsfa._typing import FloatArray
from probsfa.extensions.bilinear.parameters import BilinearParameters
from probsfa.statespace.engine.dynamics import Transition
from probsfa.statespace.engine.recursions import (
    Collapsed,
    filter_pass,
    smoother_pass,
    stationary,
    update_with_information,
)
from probsfa.statespace.engine.settings import engine_settings
from probsfa.statespace.panel import Panel

__all__ = [
    "BilinearPosterior",
    "Inferred",
    "Statistics",
    "infer",
    "joint_states",
    "sweeps",
    "white_factor_posterior",
]

# Maximum number M of chains for a start from the 2^M joint states of the chains.
MAX_JOINT_CHAINS = 5
_MAX_SWEEPS = 200
_MIN_GAIN = 1e-3  # sweeps end if one increases the bound by at most this number of nats


class BilinearPosterior(NamedTuple):
    """Approximate distribution of factors and gates given the observations.

    Attributes
    ----------
    means : ndarray (T, K)
        Means of the continuous factors.
    covariances : ndarray (T, K, K)
        Covariances of the continuous factors in each row.
    gate_probabilities : ndarray (T, M)
        Probability that each chain is active.
    lower_bound : float
        Lower bound on the log-likelihood of the observations, in nats.
    """

    means: FloatArray
    covariances: FloatArray
    gate_probabilities: FloatArray
    lower_bound: float


class Statistics(NamedTuple):
    """Sums of expected moments for the M-step.

    The vector ``w`` has the P = M K products of gates and factors, and ``e = x - mu - g w`` are residuals.
    Sums of a column are over the rows in which it is observed.

    Attributes
    ----------
    residual_power : array (D,)
        Sums of ``E[e^2]``.
    residual_moments : array (D, P + 1)
        Sums of ``E[e (w, 1)']``.
    latent_moments : array (D, P + 1, P + 1)
        Sums of ``E[(w, 1) (w, 1)']``; (1, P + 1, P + 1) for complete data, with equal sums for all columns.
    previous, cross, current : array (K,)
        Sums over transitions of the expectations of ``y_t-1^2``, ``y_t y_t-1`` and ``y_t^2``.
    initial : array (M, 2)
        Expected numbers of sequences that begin inactive and active.
    pairs : array (M, 2, 2)
        Expected numbers of transitions from each state to each state.
    """

    residual_power: Any
    residual_moments: Any
    latent_moments: Any
    previous: Any
    cross: Any
    current: Any
    initial: Any
    pairs: Any


class _Rows(NamedTuple):
    """Padded observations; ``starts`` marks first rows of sequences, ``is_row`` rows other than padding."""

    values: Array
    mask: Array
    starts: Array
    is_row: Array


class _SweepResult(NamedTuple):
    """Moments of the approximate posterior."""

    means: Array
    covariances: Array
    gates: Array
    bound: Array
    statistics: Statistics


class Inferred(NamedTuple):
    """Posteriors for a batch of R parameter sets, on the rows of a panel including padding.

    Attributes
    ----------
    means, covariances : ndarray (R, T, K) and (R, T, K, K)
        Moments of the continuous factors.
    gates : ndarray (R, T, M)
        Probabilities of active chains.
    bounds : ndarray (R,)
        Lower bounds on the log-likelihood, in nats.
    statistics : Statistics
        Sums for the M-step, with a leading axis of length R.
    """

    means: FloatArray
    covariances: FloatArray
    gates: FloatArray
    bounds: FloatArray
    statistics: Statistics


def _chain(log_odds: Array, switch_on: Array, switch_off: Array, starts: Array) -> tuple[Array, Array, Array]:
    """Return probabilities, expected transitions and log normalizer of a chain by forward-backward recursion.

    ``log_odds`` (T,) are the log-likelihood ratios of the active and the inactive state in each row. The
    probabilities (T,) are those of the active state. Entry t of the expected transitions (T, 2, 2) is for the
    transition from row t - 1 to row t. Entries at first rows of sequences are not used.
    """
    log_transition = jnp.log(jnp.array([[1.0 - switch_on, switch_on], [switch_off, 1.0 - switch_off]]))
    log_first = jnp.log(jnp.array([switch_off, switch_on])) - jnp.log(switch_on + switch_off)
    evidence = jnp.stack([jnp.zeros_like(log_odds), log_odds], axis=1)

    def forward(previous: Array, row: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        start, log_likelihoods = row
        predicted = jnp.logaddexp(previous[0] + log_transition[0], previous[1] + log_transition[1])
        joint = jnp.where(start, log_first, predicted) + log_likelihoods
        norm = jnp.logaddexp(joint[0], joint[1])
        return joint - norm, (joint - norm, norm)

    _, (filtered, norms) = jax.lax.scan(forward, log_first, (starts, evidence))

    def backward(next_message: Array, row: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        start, log_likelihoods, norm = row
        weighted = next_message + log_likelihoods - norm
        message = jnp.logaddexp(log_transition[:, 0] + weighted[0], log_transition[:, 1] + weighted[1])
        # The log message from a row to the previous row; zero at the start of a sequence.
        return jnp.where(start, 0.0, message), next_message

    _, backward_messages = jax.lax.scan(backward, jnp.zeros(2), (starts, evidence, norms), reverse=True)
    marginals = jnp.exp(filtered + backward_messages)
    previous_filtered = jnp.concatenate([filtered[:1], filtered[:-1]])
    weighted = backward_messages + evidence - norms[:, None]
    pairs = jnp.exp(previous_filtered[:, :, None] + log_transition + weighted[:, None, :])
    return marginals[:, 1], pairs, jnp.sum(norms)


def _second_moments(gates: Array) -> Array:
    """Return ``E[s_m s_n]`` (T, M, M) of chains that are independent given the data."""
    variances = gates * (1.0 - gates)
    return gates[:, :, None] * gates[:, None, :] + variances[:, :, None] * jnp.eye(gates.shape[1])


def _sweep(params: BilinearParameters, rows: _Rows, gates: Array, complete: bool) -> _SweepResult:
    """Update the continuous factors, then each chain; return moments, bound and statistics."""
    n_features, n_chains, n_components = params.loadings.shape
    n_products = n_chains * n_components
    loadings = params.loadings.reshape(n_features, n_products)
    scaled = loadings / params.noise_variance[:, None]
    outer_products = (scaled[:, :, None] * loadings[:, None, :]).reshape(n_features, n_products**2)
    precision = (rows.mask @ outer_products).reshape(-1, n_chains, n_components, n_chains, n_components)
    centred = rows.mask * (rows.values - params.offset)
    information = (centred @ scaled).reshape(-1, n_chains, n_components)

    # ---- the continuous factors, by the Kalman smoother of the linear model
    J = jnp.einsum("tmn,tmknl->tkl", _second_moments(gates), precision)
    h = jnp.einsum("tm,tmk->tk", gates, information)
    transitions = Transition(jnp.where(rows.starts[:, None], 0.0, params.decay))
    initial_transition = transitions.at(0).starting()
    stationary_state = stationary(n_components, J.dtype)
    filtered, _ = filter_pass(update_with_information, Collapsed(J, h), transitions, stationary_state)
    moments = smoother_pass(
        filtered, transitions.followed_by(initial_transition), stationary_state, full=False
    )
    means, covariances = moments.means, moments.covariances
    second_moments = covariances + means[:, :, None] * means[:, None, :]
    filtered_means = filtered.means
    log_normalizer = jnp.sum(h * filtered_means) - 0.5 * jnp.einsum(
        "tk,tkl,tl->", filtered_means, J, filtered_means
    )
    log_normalizer -= 0.5 * jnp.sum(filtered.log_dets + filtered.distances)
    divergence = jnp.sum(h * means) - 0.5 * jnp.sum(J * second_moments) - log_normalizer

    # ---- the chains
    A = jnp.einsum("tmknl,tkl->tmn", precision, second_moments)
    b = jnp.einsum("tmk,tk->tm", information, means)
    initial, pairs = [], []
    is_first_row = rows.starts & rows.is_row
    is_transition = ~rows.starts
    for n in range(n_chains):
        other_chains = jnp.sum(A[:, :, n] * gates, axis=1) - A[:, n, n] * gates[:, n]
        log_odds = b[:, n] - 0.5 * A[:, n, n] - other_chains
        active, expected, log_normalizer_of_chain = _chain(
            log_odds, params.switch_on[n], params.switch_off[n], rows.starts
        )
        gates = gates.at[:, n].set(active)
        divergence += jnp.sum(active * log_odds) - log_normalizer_of_chain
        n_active = jnp.sum(jnp.where(is_first_row, active, 0.0))
        initial.append(jnp.stack([jnp.sum(is_first_row) - n_active, n_active]))
        pairs.append(jnp.sum(jnp.where(is_transition[:, None, None], expected, 0.0), axis=0))

    # ---- the bound
    expected_log_likelihood = jnp.sum(gates * b) - 0.5 * jnp.sum(_second_moments(gates) * A)
    expected_log_likelihood -= 0.5 * jnp.sum(rows.mask @ jnp.log(2.0 * jnp.pi * params.noise_variance))
    expected_log_likelihood -= 0.5 * jnp.sum(centred**2 @ (1.0 / params.noise_variance))
    flat: Any = loadings
    offset: Any = params.offset
    statistics = _factorized_statistics(rows, flat, offset, means, second_moments, gates, complete)._replace(
        previous=jnp.sum(jnp.where(is_transition[1:, None], _diagonal(second_moments)[:-1], 0.0), axis=0),
        cross=jnp.sum(
            jnp.where(is_transition[1:, None], moments.lag_one[:-1] + means[1:] * means[:-1], 0.0), axis=0
        ),
        current=jnp.sum(jnp.where(is_transition[:, None], _diagonal(second_moments), 0.0), axis=0),
        initial=jnp.stack(initial),
        pairs=jnp.stack(pairs),
    )
    return _SweepResult(means, covariances, gates, expected_log_likelihood - divergence, statistics)


def _diagonal(matrices: Array) -> Array:
    return jnp.diagonal(matrices, axis1=1, axis2=2)


def _factorized_statistics(
    rows: _Rows,
    loadings: Array,
    offset: Array,
    means: Array,
    second_moments: Array,
    gates: Array,
    complete: bool,
) -> Statistics:
    """Return the statistics of the observation model if factors and gates are independent."""
    n_rows, n_products = means.shape[0], loadings.shape[1]
    products = (gates[:, :, None] * means[:, None, :]).reshape(n_rows, n_products)
    product_moments = jnp.einsum("tmn,tkl->tmknl", _second_moments(gates), second_moments).reshape(
        n_rows, n_products, n_products
    )
    return _observation_statistics(rows, loadings, offset, products, product_moments, complete)


def _observation_statistics(
    rows: _Rows, loadings: Array, offset: Array, products: Array, product_moments: Array, complete: bool
) -> Statistics:
    """Return the statistics of the observation model from ``E[w]`` (T, P) and ``E[w w']`` (T, P, P)."""
    n_rows, n_products = products.shape
    product_covariances = product_moments - products[:, :, None] * products[:, None, :]
    residuals = rows.mask * (rows.values - offset - products @ loadings.T)
    extended = jnp.concatenate([products, jnp.ones((n_rows, 1))], axis=1)
    moments = jnp.concatenate([product_moments, products[:, None, :]], axis=1)
    moments = jnp.concatenate([moments, extended[:, :, None]], axis=2)
    observed = rows.is_row[None, :].astype(products.dtype) if complete else rows.mask.T
    width = n_products + 1
    latent_moments = (observed @ moments.reshape(n_rows, width**2)).reshape(-1, width, width)
    summed_covariances = (observed @ product_covariances.reshape(n_rows, n_products**2)).reshape(
        -1, n_products, n_products
    )
    summed_covariances = jnp.broadcast_to(summed_covariances, (loadings.shape[0], n_products, n_products))
    covariances_with_fit = jnp.einsum("dij,dj->di", summed_covariances, loadings)
    cross_products = residuals.T @ extended
    cross_products = cross_products.at[:, :-1].add(-covariances_with_fit)
    residual_power = jnp.sum(residuals**2, axis=0) + jnp.sum(covariances_with_fit * loadings, axis=1)
    empty = jnp.zeros(0)
    return Statistics(residual_power, cross_products, latent_moments, empty, empty, empty, empty, empty)


def joint_states(n_chains: int) -> FloatArray:
    """Return all joint states (2^M, M) of M binary chains."""
    return np.array(
        [[(state >> m) & 1 for m in range(n_chains)] for state in range(2**n_chains)], dtype=np.float64
    )


def _joint_chain(
    evidence: Array, transition: Array, initial: Array, starts: Array
) -> tuple[Array, Array, Array]:
    """Run the forward-backward recursion over the joint states of all chains.

    Return probabilities (T, S) of the states, expected transitions (S, S) within sequences, and the log
    normalizer. ``evidence`` (T, S) are log-likelihoods of the rows.
    """
    largest = jnp.max(evidence, axis=1, keepdims=True)
    weights = jnp.exp(evidence - largest)

    def forward(previous: Array, row: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        start, likelihoods = row
        joint = jnp.where(start, initial, previous @ transition) * likelihoods
        norm = jnp.sum(joint)
        return joint / norm, (joint / norm, norm)

    _, (filtered, norms) = jax.lax.scan(forward, initial, (starts, weights))

    def backward(next_message: Array, row: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        start, likelihoods, norm = row
        return jnp.where(start, 1.0, transition @ (next_message * likelihoods / norm)), next_message

    _, backward_messages = jax.lax.scan(
        backward, jnp.ones_like(initial), (starts, weights, norms), reverse=True
    )
    weighted = jnp.where(starts[1:, None], 0.0, backward_messages[1:] * weights[1:] / norms[1:, None])
    pairs = transition * (filtered[:-1].T @ weighted)
    return filtered * backward_messages, pairs, jnp.sum(jnp.log(norms)) + jnp.sum(largest)


def _white_factor_posterior(params: BilinearParameters, rows: _Rows, complete: bool) -> _SweepResult:
    """Compute the exact posterior of the model whose continuous factors are independent between rows.

    This is a hidden Markov model of the joint states of the gates, with Gaussian emissions.
    """
    n_features, n_chains, n_components = params.loadings.shape
    states = jnp.asarray(joint_states(n_chains))
    loadings = jnp.einsum("sm,dmk->sdk", states, params.loadings)
    scaled = loadings / params.noise_variance[:, None]
    outer_products = jnp.einsum("sdk,sdl->sdkl", scaled, loadings)
    J = jnp.einsum("td,sdkl->tskl", rows.mask, outer_products) + jnp.eye(n_components)
    centred = rows.mask * (rows.values - params.offset)
    h = jnp.einsum("td,sdk->tsk", centred, scaled)
    covariances = jnp.linalg.inv(J)
    means = jnp.einsum("tskl,tsl->tsk", covariances, h)
    evidence = 0.5 * jnp.sum(h * means, axis=2) + 0.5 * jnp.linalg.slogdet(covariances)[1]

    initial_probabilities, transition = jnp.ones(1), jnp.ones((1, 1))
    for m in reversed(range(n_chains)):
        switch_on, switch_off = params.switch_on[m], params.switch_off[m]
        chain_transition = jnp.array([[1.0 - switch_on, switch_on], [switch_off, 1.0 - switch_off]])
        transition = jnp.kron(transition, chain_transition)
        initial_probabilities = jnp.kron(
            initial_probabilities, jnp.array([switch_off, switch_on]) / (switch_on + switch_off)
        )
    probabilities, pairs, log_normalizer = _joint_chain(
        evidence, transition, initial_probabilities, rows.starts
    )
    bound = log_normalizer - 0.5 * jnp.sum(rows.mask @ jnp.log(2.0 * jnp.pi * params.noise_variance))
    bound -= 0.5 * jnp.sum(centred**2 @ (1.0 / params.noise_variance))

    # ---- statistics, as sums over the joint states
    n_products = n_chains * n_components
    second_moments = covariances + means[..., :, None] * means[..., None, :]
    weighted = probabilities[:, :, None, None] * second_moments
    product_moments = jnp.einsum("sm,sn,tskl->tmknl", states, states, weighted).reshape(
        -1, n_products, n_products
    )
    weighted_means = probabilities[:, :, None] * means
    products = jnp.einsum("sm,tsk->tmk", states, weighted_means).reshape(-1, n_products)
    flat: Any = params.loadings.reshape(n_features, n_products)
    offset: Any = params.offset
    statistics = _observation_statistics(rows, flat, offset, products, product_moments, complete)
    gates = probabilities @ states
    initial_counts = jnp.sum(jnp.where((rows.starts & rows.is_row)[:, None], probabilities, 0.0), axis=0)
    indicators = jnp.stack([1.0 - states, states])  # (2, S, M)
    empty = jnp.zeros(n_components)
    statistics = statistics._replace(
        previous=empty,
        cross=empty,
        current=empty,
        initial=jnp.einsum("asm,s->ma", indicators, initial_counts),
        pairs=jnp.einsum("aim,bjm,ij->mab", indicators, indicators, pairs),
    )
    factor_means = jnp.sum(weighted_means, axis=1)
    factor_covariances = jnp.sum(weighted, axis=1) - factor_means[:, :, None] * factor_means[:, None, :]
    return _SweepResult(factor_means, factor_covariances, gates, bound, statistics)


@partial(jax.jit, static_argnames=("complete",))
def _batch_white_factor_posterior(params: BilinearParameters, rows: _Rows, complete: bool) -> _SweepResult:
    return jax.vmap(lambda one: _white_factor_posterior(one, rows, complete))(params)


@partial(jax.jit, static_argnames=("n_sweeps", "complete"))
def _sweeps(
    params: BilinearParameters, rows: _Rows, gates: Array, n_sweeps: int, complete: bool
) -> _SweepResult:
    """Run sweeps for a batch of R parameter sets and gates."""

    def run_sweeps(params: BilinearParameters, gates: Array) -> _SweepResult:
        for _ in range(n_sweeps - 1):
            gates = _sweep(params, rows, gates, complete).gates
        return _sweep(params, rows, gates, complete)

    return jax.vmap(run_sweeps)(params, gates)


def _pack(panel: Panel) -> _Rows:
    starts = panel.gap_index == len(panel.gaps)
    is_row = np.arange(len(starts)) < panel.n_rows
    return _Rows(*(jnp.asarray(part) for part in (panel.values, panel.mask, starts, is_row)))


def sweeps(params: BilinearParameters, panel: Panel, gates: FloatArray, n_sweeps: int = 1) -> Inferred:
    """Update all distributions of the posterior, for a batch of parameters.

    Parameters
    ----------
    params : BilinearParameters
        Parameters with a leading axis of length R.
    panel : Panel
        Packed observations.
    gates : ndarray (R, T, M)
        Initial probabilities of active chains; T includes the padding of the panel.
    n_sweeps : int, default=1
        Number of updates of each distribution.

    Returns
    -------
    Inferred
    """
    with _engine():
        return _as_numpy(
            _sweeps(_on_device(params), _pack(panel), jnp.asarray(gates), n_sweeps, panel.complete)
        )


def white_factor_posterior(params: BilinearParameters, panel: Panel) -> Inferred:
    """Compute the exact posterior of the model whose continuous factors are independent between rows.

    This model has the dynamics of the gates, but no dynamics of the continuous factors. Its posterior
    probabilities of the gates are starting values for variational EM.

    Parameters
    ----------
    params : BilinearParameters
        A batch of parameters with a leading axis of length R; decays are not used.
    panel : Panel
        Packed observations.

    Returns
    -------
    Inferred
        The bounds are the log-likelihoods of this model.
    """
    with _engine():
        return _as_numpy(_batch_white_factor_posterior(_on_device(params), _pack(panel), panel.complete))


def _on_device(params: BilinearParameters) -> BilinearParameters:
    parts: Any = [jnp.asarray(part) for part in params]
    return BilinearParameters(*parts)


@contextmanager
def _engine() -> Iterator[None]:
    """Apply the JAX settings of the engine, and defer interrupts."""
    check_not_forked()
    with lost_interrupts_raised(), engine_settings(), one_blas_thread():
        yield


def _as_numpy(result: _SweepResult) -> Inferred:
    statistics = Statistics(*(np.asarray(part) for part in result.statistics))
    means, covariances, gates, bounds = (np.asarray(part) for part in result[:-1])
    return Inferred(means, covariances, gates, bounds, statistics)


def infer(params: BilinearParameters, panel: Panel) -> BilinearPosterior:
    """Return the posterior with the largest bound over several starting values of the gates.

    Parameters
    ----------
    params : BilinearParameters
        Parameters of one model.
    panel : Panel
        Packed observations.

    Returns
    -------
    BilinearPosterior
        Posterior of the rows without padding.
    """
    batch = BilinearParameters(*(part[None] for part in params))
    shape = (1, len(panel.gap_index), len(params.switch_on))
    starts = [np.broadcast_to(params.probability, shape)]
    if shape[2] <= MAX_JOINT_CHAINS:
        gates = white_factor_posterior(batch, panel).gates
        starts += [gates, 0.5 * (gates + starts[0])]
    best: Inferred | None = None
    for gates in starts:
        result, previous_bound = sweeps(batch, panel, gates), -np.inf
        for _ in range(_MAX_SWEEPS):
            if result.bounds[0] - previous_bound <= _MIN_GAIN:
                break
            previous_bound = result.bounds[0]
            result = sweeps(batch, panel, result.gates)
        if best is None or result.bounds[0] > best.bounds[0]:
            best = result
    assert best is not None
    n = panel.n_rows
    return BilinearPosterior(
        best.means[0, :n], best.covariances[0, :n], best.gates[0, :n], float(best.bounds[0])
    )
