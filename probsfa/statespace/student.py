r"""Variational inference of the weights of values under Student-t noise (:mod:`.noise.student`).

The posterior of latent states ``z`` and weights ``w`` is approximated by ``q(z) q(w)``. Alternating updates
of both distributions maximize a lower bound of the log-likelihood (Tipping & Lawrence 2005)::

    q(z)   is the posterior of the Gaussian model in which the noise of a value has variance ``r / E[w]``;
    q(w)   is Gamma((nu + n) / 2, (nu + s) / 2), hence E[w] = (nu + n) / (nu + s),

where ``n`` is the number of observed values with this weight (one value, or all values of a row), and ``s``
is the sum of ``E[(x - mu - C z)^2] / r`` under ``q(z)`` over these values. With the optimal ``q(w)``, the
bound is::

    -KL(q(z) || p(z)) + sum over weights of log t(s),
    log t(s) = -n/2 log(2 pi r) + log Gamma((nu + n) / 2) - log Gamma(nu / 2) - n/2 log(nu / 2)
               - (nu + n) / 2 log(1 + s / nu),

and the optimal degrees of freedom ``nu`` maximize the sum. The engine raises the density of each value to the
power of its weight (:class:`~probsfa.statespace.panel.Panel`). The result is a normal density with variance
``r / w``, times a constant factor. This module includes the factor in the bound.

References
----------
Tipping, M. E. & Lawrence, N. D. (2005). Variational inference for Student-t models. Neurocomputing 69,
123-141. https://doi.org/10.1016/j.neucom.2005.02.016
Varadhan, R. & Roland, C. (2008). Simple and globally convergent methods for accelerating the convergence of
any EM algorithm. Scandinavian Journal of Statistics 35, 335-353.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa.statespace.engine.core.algorithm import Core
from probsfa.statespace.engine.dynamics import Transition, transition_table
from probsfa.statespace.engine.moments import Filtering
from probsfa.statespace.engine.posterior import choose, visit_moments
from probsfa.statespace.idiosyncratic_posterior import N_DRAWS, IdiosyncraticPosterior
from probsfa.statespace.leave_one_out import leave_one_out_moments
from probsfa.statespace.noise import HeavyTails, StudentNoise
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateSpace

__all__ = [
    "InferredWeights",
    "ValueMoments",
    "Weights",
    "infer_weights",
    "left_out_moments",
    "value_moments",
]

# Filter: maximum number of iterations for a row, and relative change of a weight at which they end.
_MAX_ITERATIONS_OF_ROW, _WEIGHT_TOL = 100, 1e-10
# Smoother: expected remaining gain in nats below which the iteration ends, and maximum number of iterations.
_MIN_GAIN, _MAX_ITERATIONS = 1e-6, 200
# Upper bound of the estimated convergence rate, which determines the expected remaining gain.
_MAX_RATE = 0.999
# Largest change of the logarithm of a weight by extrapolation.
_MAX_LOG_CHANGE = 3.0
#: Number of draws for the posterior variances from which weights are computed, if AR(1) noise is integrated
#: out. The part of these variances that is estimated from draws is small compared with the noise variance.
N_DRAWS_FOR_WEIGHTS = 4
# Maximum number of updates of posterior variances that are estimated from draws.
_MAX_UPDATES_OF_VARIANCES = 3


class ValueMoments(NamedTuple):
    """Posterior moments of the noise-free values.

    Attributes
    ----------
    means : ndarray of shape (N, D)
        Posterior means of ``mu + C z``.
    explained : ndarray of shape (N, D)
        Posterior variances of ``mu + C z``.
    log_likelihood : float
        The engine's log-likelihood of the panel with its weights, in nats.
    """

    means: FloatArray
    explained: FloatArray
    log_likelihood: float

    def squared_residuals(self, params: StateSpace, panel: Panel) -> FloatArray:
        """Return expected squared residuals, ``E[(x - mu - C z)^2] / r``, (N, D); zero where missing."""
        n = panel.n_rows
        squares = (panel.values[:n] - self.means) ** 2 + self.explained
        return np.where(panel.mask[:n] > 0.0, squares / params.noise_variance, 0.0)


def value_moments(params: StateSpace, panel: Panel, n_draws: int = N_DRAWS) -> ValueMoments:
    """Compute posterior moments of the noise-free values, in blocks of rows to save memory.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model. AR(1) noise of columns is integrated out if it is not among the states; then
        variances and log-likelihood are estimates.
    panel : Panel
        Observations, with weights.
    n_draws : int, default=32
        Number of draws for variances if AR(1) noise is integrated out.

    Returns
    -------
    ValueMoments
    """
    if params.has_ar1_noise:
        integrated = IdiosyncraticPosterior(params, panel, n_draws=n_draws)
        weights = panel.value_weights[: panel.n_rows]
        used = weights > 0.0
        # The log-likelihood of the engine contains densities to the power of a weight w, which are not
        # normalized; that of `integrated` contains densities with variance r / w. `log_factors` is the
        # difference.
        log_factors = 0.5 * (used - weights) @ np.log(2.0 * np.pi * params.noise_variance)
        log_factors -= 0.5 * np.sum(np.log(weights, where=used, out=np.zeros(weights.shape)), axis=1)
        log_likelihood = integrated.log_likelihood() + float(np.sum(log_factors))
        return ValueMoments(integrated.value_means, integrated.value_variances(), log_likelihood)
    k, shape = params.n_states, (panel.n_rows, params.n_features)
    means, explained = np.empty(shape), np.empty(shape)
    outer_products = (
        (params.loadings[:, :, None] * params.loadings[:, None, :]).reshape(params.n_features, k * k).T
    )

    def store(rows: slice, states: FloatArray, covariances: FloatArray) -> None:
        means[rows] = params.offset + states @ params.loadings.T
        explained[rows] = np.maximum(covariances.reshape(len(covariances), k * k) @ outer_products, 0.0)

    log_likelihood = visit_moments(params, panel, store)
    return ValueMoments(means, explained, log_likelihood)


class Weights(NamedTuple):
    """Expected weights of the values, and the term of the bound that does not depend on the parameters.

    Attributes
    ----------
    values : ndarray of shape (T, D)
        ``E[w]`` under ``q(w)``; zero where a value is missing.
    constant : ndarray of shape (N,)
        ``n/2 E[log w] - KL(q(w) || p(w))`` of the weights of each row, in nats.
    """

    values: FloatArray
    constant: FloatArray

    def bound(self, params: StateSpace, panel: Panel, log_likelihood: float) -> float:
        """Return the lower bound, given the engine's log-likelihood with these weights."""
        return log_likelihood + float(np.sum(self.bound_minus_likelihood(params, panel)))

    def bound_minus_likelihood(self, params: StateSpace, panel: Panel) -> FloatArray:
        """Return the bound of each row (N,) less its log-likelihood from the engine.

        The difference is `constant` plus ``(w - 1) / 2 log(2 pi r)`` for each value. The second term exists
        because the engine uses the density with variance ``r`` to the power ``w``, which is not normalized.
        """
        n = panel.n_rows
        surplus = self.values[:n] - panel.mask[:n]
        return np.asarray(self.constant + 0.5 * surplus @ np.log(2.0 * np.pi * params.noise_variance))


def weights_at(noise: HeavyTails, squared_residuals: FloatArray, panel: Panel) -> Weights:
    """Return the optimal ``q(w)`` for expected squared residuals (N, D)."""
    n_rows = panel.n_rows
    mask = np.asarray(panel.mask[:n_rows])
    expected = noise.expected_weights(squared_residuals, mask) * mask
    values = np.zeros(panel.values.shape)
    values[:n_rows] = expected
    constant = noise.log_density(squared_residuals, mask) + 0.5 * np.sum(expected * squared_residuals, axis=1)
    return Weights(values, constant)


class InferredWeights(NamedTuple):
    """Weights at the fixed point of the iteration.

    Attributes
    ----------
    weights : Weights
        ``q(w)``.
    squared_residuals : ndarray of shape (N, D)
        Expected squared residuals that determine ``q(w)``; zero where missing.
    bound : float
        Lower bound of the log-likelihood, in nats.
    history : tuple of float
        The bound after each iteration; it never decreases.
    """

    weights: Weights
    squared_residuals: FloatArray
    bound: float
    history: tuple[float, ...]


def bound_at(
    params: StateSpace, panel: Panel, moments: ValueMoments, weights: FloatArray, noise: HeavyTails
) -> float:
    """Return the bound for the posterior ``q(z)`` at given weights (T, D) and the optimal ``q(w)``.

    The bound contains the negative KL divergence of ``q(z)`` from its prior. It is the log-likelihood of the
    engine at these weights, less the sum of the weights times the expected log densities of the values.
    """
    n = panel.n_rows
    mask, log_norm = np.asarray(panel.mask[:n]), np.log(2.0 * np.pi * params.noise_variance)
    s = moments.squared_residuals(params, panel)
    weights = weights[:n]
    surplus = weights.sum(axis=0) - mask.sum(axis=0)
    negative_divergence = (
        moments.log_likelihood + 0.5 * float(surplus @ log_norm) + 0.5 * float(np.sum(weights * s))
    )
    return negative_divergence + float(np.sum(noise.log_density(s, mask)))


def infer_weights(
    params: StateSpace,
    panel: Panel,
    noise: HeavyTails,
    start: FloatArray | None = None,
    tol: float = _MIN_GAIN,
) -> InferredWeights:
    """Compute ``q(z) q(w)`` at given parameters by coordinate ascent.

    The bound may have several maxima; the default initial weights are small for values with large
    leave-one-out errors (:func:`initial_weights`).

    Parameters
    ----------
    params : StateSpace
        Parameters of the model.
    panel : Panel
        Observations.
    noise : HeavyTails
        Distribution of the weights, and which values share one.
    start : ndarray of shape (T, D), optional
        Initial expected weights.
    tol : float, default=1e-6
        Expected remaining gain in nats below which the iteration ends.

    Returns
    -------
    InferredWeights
    """
    first = initial_weights(params, panel, noise) if start is None else start
    if params.has_ar1_noise:
        return _infer_integrated(params, panel, noise, first, tol)

    def evaluate(weights: FloatArray) -> _Evaluation:
        moments = value_moments(params, panel.weighted(weights), N_DRAWS_FOR_WEIGHTS)
        s = moments.squared_residuals(params, panel)
        bound = bound_at(params, panel, moments, weights, noise)
        return _Evaluation(weights, weights_at(noise, s, panel), s, bound)

    return _iterate(evaluate, first, tol)


def _infer_integrated(
    params: StateSpace, panel: Panel, noise: HeavyTails, weights: FloatArray, tol: float
) -> InferredWeights:
    """Infer weights with AR(1) noise of columns integrated out.

    Posterior variances take most of the time, but depend little on single weights. Weights and means are
    therefore iterated with fixed variances, which are then updated.
    """
    n = panel.n_rows
    mask = np.asarray(panel.mask[:n])
    values, means = np.asarray(panel.values[:n]), None
    for _ in range(_MAX_UPDATES_OF_VARIANCES):
        weighted = panel.weighted(weights)
        explained = IdiosyncraticPosterior(
            params, weighted, means, n_draws=N_DRAWS_FOR_WEIGHTS
        ).value_variances()

        def evaluate(weights: FloatArray, explained: FloatArray = explained) -> _Evaluation:
            nonlocal means
            integrated = IdiosyncraticPosterior(params, panel.weighted(weights), means)
            means = integrated.means
            squares = mask * (values - integrated.value_means) ** 2 / params.noise_variance
            s = squares + mask * explained / params.noise_variance
            # The variances of q(z) are fixed. Its divergence is therefore a function of its means, up to a
            # constant that is omitted.
            divergence = 0.5 * (integrated.quadratic_form - float(np.vdot(weights[:n], squares)))
            bound = float(np.sum(noise.log_density(s, mask))) - divergence
            return _Evaluation(weights, weights_at(noise, s, panel), s, bound)

        inferred = _iterate(evaluate, weights, tol)
        weights = inferred.weights.values
        if len(inferred.history) == 2:
            break
    moments = value_moments(params, panel.weighted(weights), N_DRAWS_FOR_WEIGHTS)
    bound = bound_at(params, panel, moments, weights, noise)
    return inferred._replace(bound=bound)


class _Evaluation(NamedTuple):
    """Weights (T, D), and results for the posterior of ``z`` given these weights.

    The results are the optimal ``q(w)``, the expected squared residuals and the bound.
    """

    weights: FloatArray
    optimum: Weights
    squared_residuals: FloatArray
    bound: float

    @property
    def step(self) -> FloatArray:
        """Changes (T, D) of the log weights; zero for values of weight zero."""
        used = self.weights > 0.0
        ratio = np.divide(self.optimum.values, self.weights, out=np.ones_like(self.weights), where=used)
        return np.asarray(np.log(ratio, out=np.zeros_like(ratio), where=used))


def _iterate(evaluate: Callable[[FloatArray], _Evaluation], first: FloatArray, tol: float) -> InferredWeights:
    """Iterate coordinate ascent to its fixed point, with squared extrapolation (Varadhan & Roland 2008).

    After two iterations, the logarithms of the weights are extrapolated. The result is used if the bound is
    not lower.
    """
    at = evaluate(first)
    history = [at.bound]
    n_evaluations = 1
    while n_evaluations < _MAX_ITERATIONS:
        following = evaluate(at.optimum.values)
        n_evaluations += 1
        history.append(following.bound)
        step, next_step = at.step, following.step
        square = float(np.vdot(step, step))
        # Gains are proportional to squared steps; the remaining gains are extrapolated as a geometric series.
        rate = min(float(np.vdot(next_step, next_step)) / square, _MAX_RATE) if square > 0.0 else 0.0
        gain = history[-1] - history[-2]
        if gain * rate / (1.0 - rate) < tol or gain <= 1e-15 * abs(history[-1]):
            at = following
            break
        change = next_step - step
        length = max(float(np.sqrt(square / np.vdot(change, change))), 1.0)
        total = np.clip(2.0 * length * step + length**2 * change, -_MAX_LOG_CHANGE, _MAX_LOG_CHANGE)
        extrapolated = evaluate(at.weights * np.exp(total))
        n_evaluations += 1
        at = extrapolated if extrapolated.bound >= following.bound else following
        if at is extrapolated:
            history.append(at.bound)
    return InferredWeights(at.optimum, at.squared_residuals, at.bound, tuple(history))


def initial_weights(params: StateSpace, panel: Panel, noise: HeavyTails) -> FloatArray:
    """Return initial expected weights (T, D) from the leave-one-out errors of the values.

    Leave-one-out predictions are computed with preliminary weights, which are small for values far from the
    mean of their column, so that gross outliers hardly affect them. Weights of rows (`noise.by_row`) are the
    preliminary ones.
    """
    n = panel.n_rows
    values, mask = np.asarray(panel.values[:n]), np.asarray(panel.mask[:n])
    variance = np.sum(params.loadings**2, axis=1) + params.noise_variance
    s = mask * (values - params.offset) ** 2 / variance
    weights = np.zeros(panel.values.shape)
    weights[:n] = np.minimum(noise.expected_weights(s, mask), 1.0) * mask
    if noise.by_row:
        return weights
    moments = value_moments(params, panel.weighted(weights), N_DRAWS_FOR_WEIGHTS)
    means, explained = left_out_moments(params, panel, moments, weights)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        s = (values - means) ** 2 / (explained + params.noise_variance)
    s = np.where(np.isfinite(s), s, moments.squared_residuals(params, panel))
    weights_of_errors = np.zeros(panel.values.shape)  # `weighted` made the array `weights` read-only
    weights_of_errors[:n] = noise.expected_weights(s * mask, mask) * mask
    return weights_of_errors


def left_out_moments(
    params: StateSpace, panel: Panel, moments: ValueMoments, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return means and variances of the noise-free values, each given all other observations.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model.
    panel : Panel
        Observations.
    moments : ValueMoments
        Moments of the posterior under the weights.
    weights : ndarray of shape (T, D)
        Expected weights.

    Returns
    -------
    means, explained : ndarray of shape (N, D)
        Means and variances; NaN where a value is missing, or where rounding errors dominate.
    """
    n = panel.n_rows
    observed = np.asarray(panel.mask[:n]) > 0.0
    values = np.where(observed, panel.values[:n], np.nan)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        noise = params.noise_variance / np.where(observed, weights[:n], 1.0)
        means, variances = leave_one_out_moments(values, moments.means, moments.explained + noise, noise)
    return means, np.maximum(variances - noise, 0.0)


def filter_rows(
    noise: HeavyTails,
    params: StateSpace,
    panel: Panel,
    mean: FloatArray,
    covariance: FloatArray,
    first_transition: Transition | None = None,
) -> Filtering:
    """Return approximate filtered distributions of the states under noise with heavy tails.

    The predicted distribution of a state is approximated as Gaussian. In each row, the updates of weights and
    state are iterated until convergence. Weights of earlier rows are not updated (Agamennoni, Nieto & Nebot
    2012, IEEE Transactions on Signal Processing 60, 5024-5037). After a level shift, the first values at the
    new level therefore have small weights; a smoother increases them later.

    Parameters
    ----------
    noise : HeavyTails
        Distribution of the weights, and which values share one.
    params, panel, mean, covariance, first_transition
        As of :func:`probsfa.statespace.engine.posterior.filter_rows`.

    Returns
    -------
    Filtering
        Log densities of rows are lower bounds.
    """
    states = params.state_space
    algorithm = choose(states)
    if not (isinstance(noise, StudentNoise) and isinstance(algorithm, Core)):
        return filter_row_by_row(noise, states, panel, mean, covariance, first_transition)
    degrees = float(noise.degrees_of_freedom)
    return algorithm.filter_student(states, panel, degrees, noise.by_row, mean, covariance, first_transition)


def filter_row_by_row(
    noise: HeavyTails,
    params: StateSpace,
    panel: Panel,
    mean: FloatArray,
    covariance: FloatArray,
    first_transition: Transition | None = None,
) -> Filtering:
    """Return filtered distributions as :func:`filter_rows`, for any noise, without the compiled engine.

    A row takes about half a millisecond.
    """
    n, k, loadings, r = panel.n_rows, params.n_states, params.loadings, params.noise_variance
    residuals, mask = np.asarray(panel.values[:n]) - params.offset, np.asarray(panel.mask[:n])
    log_norms = mask @ np.log(2.0 * np.pi * r)
    if k == 0:
        densities = noise.log_density(mask * residuals**2 / r, mask) - 0.5 * log_norms
        return Filtering(np.zeros((n, 0)), np.zeros((n, 0, 0)), densities)
    steps: Any = transition_table(params, panel.gaps).at(panel.gap_index[:n])
    filtering = Filtering(np.full((n, k), np.nan), np.full((n, k, k), np.nan), np.full(n, np.nan))
    for t in range(n):
        step: Any = first_transition.at(0) if t == 0 and first_transition is not None else steps.at(t)
        observed, predicted = mask[t : t + 1], step.move(mean)
        try:
            # The state is `predicted + prior_root v`, with a standard normal prior of v.
            prior_root = np.linalg.cholesky(step.predict_covariance(covariance))
            scaled_loadings = loadings @ prior_root
            errors = observed[0] * (residuals[t] - loadings @ predicted)
            s = (errors**2 / (r + np.sum(scaled_loadings**2, axis=1)))[None]
            weights = noise.expected_weights(s, observed) * observed
            for _ in range(_MAX_ITERATIONS_OF_ROW):
                weighted = (weights[0] / r)[:, None] * scaled_loadings
                # Cholesky factor of the posterior precision of v, and a square root of its covariance.
                factor = np.linalg.cholesky(np.eye(k) + scaled_loadings.T @ weighted)
                root = np.linalg.inv(factor)
                shift = root.T @ (root @ (errors @ weighted))  # posterior mean of v
                variances = np.sum((scaled_loadings @ root.T) ** 2, axis=1)
                s = observed * ((errors - scaled_loadings @ shift) ** 2 + variances) / r
                before, weights = weights, noise.expected_weights(s, observed) * observed
                if np.all(np.abs(weights - before) <= _WEIGHT_TOL * before):
                    break
        except np.linalg.LinAlgError:  # values too large for double precision
            return filtering
        divergence = np.sum(root**2) + shift @ shift - k + 2.0 * np.sum(np.log(np.diagonal(factor)))
        posterior_root = prior_root @ root.T
        mean, covariance = predicted + prior_root @ shift, posterior_root @ posterior_root.T
        filtering.means[t], filtering.covariances[t] = mean, covariance
        density = float(noise.log_density(s, observed)[0])
        filtering.log_likelihoods[t] = density - 0.5 * (log_norms[t] + divergence)
    return filtering
