"""Fit under Student-t noise: alternate updates of parameters, weights and degrees of freedom.

The objective is the lower bound of :mod:`probsfa.statespace.student` plus the log prior density of the noise.
At fixed weights the bound is the log-likelihood of a Gaussian model, up to terms in ``log r``, and is
maximized with its exact score. Weights and degrees of freedom are then optimized given the posterior. Neither
step lowers the bound. Initial values are from a Gaussian fit to the data without outliers.

If each value has its own weight, the bound is below the likelihood by a difference that is larger for heavier
tails and for larger posterior uncertainty of the factors. Degrees of freedom and scales that maximize the
bound are therefore too large. Instead, they are estimated from leave-one-out predictions, by maximization of

    sum_i log p(x_i | all other values),       x_i = N(m_i, v_i) + Student-t,

where ``m_i`` and ``v_i`` are mean and variance of the noise-free part of ``x_i`` given all other values. This
is a composite likelihood (Varin, Reid & Firth 2011), whose maximum is consistent if ``m_i`` and ``v_i`` are
correct. The bound is then maximized over all other parameters. Both steps alternate until convergence.

References
----------
Varin, C., Reid, N. & Firth, D. (2011). An overview of composite likelihood methods. Statistica Sinica 21,
5-42.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, minimize

from probsfa._threads import one_blas_thread
from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.engine.moments import Statistics
from probsfa.statespace.engine.posterior import expected_statistics
from probsfa.statespace.gross_outliers import MAD, distance_from_adjacent, robust_scale
from probsfa.statespace.learning.coordinates import Coordinates, impose_limits
from probsfa.statespace.learning.em import fit_em, fit_monte_carlo_em, monte_carlo_tolerance
from probsfa.statespace.learning.fit import fit, fit_integrated, satisfy_constraints
from probsfa.statespace.learning.objective import (
    CountedEStep,
    FitResult,
    Report,
    Status,
    fit_quasi_newton,
    rounding_error,
)
from probsfa.statespace.learning.options import InitialProcesses, Optimizer
from probsfa.statespace.noise import HeavyTails, NoiseVariances
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.noise.tails import LeftOut
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateSpace
from probsfa.statespace.student import (
    N_DRAWS_FOR_WEIGHTS,
    Weights,
    bound_at,
    infer_weights,
    left_out_moments,
    value_moments,
    weights_at,
)

__all__ = ["clip_outliers", "fit_robust", "outlier_mask", "repetitive_columns"]

# A value is an outlier if its distance from adjacent observations, or from the median of its column, exceeds
# these numbers of robust standard deviations. The third number is the maximum share of outliers in a column.
_MAX_DEVIATION_FROM_ADJACENT, _MAX_DEVIATION_FROM_COLUMN, _MAX_OUTLIER_SHARE = 6.0, 8.0, 0.25
# Number of robust standard deviations at which values are clipped before the scale of a column is estimated.
_CLIPPING_LIMIT = 6.0
# Repetitive columns: minimum share of equal values, and lower bound of the noise variance, as a fraction of
# the variance of the column.
_MIN_REPETITIVE_SHARE, _MIN_NOISE_OF_REPETITIVE = 0.4, 0.1
# Maximum number of likelihood evaluations between two updates of the weights, and maximum number of updates.
_MAX_EVALUATIONS_PER_ITERATION, _MAX_ITERATIONS = 5, 200
# Leave-one-out updates of degrees of freedom and scales: maximum number of updates; number of iterations of
# the fit between two updates; change of the logarithms below which the updates end; and maximum number of
# values in an update.
_MAX_LEAVE_ONE_OUT_UPDATES, _ITERATIONS_BETWEEN_UPDATES, _LOG_TOLERANCE, _MAX_VALUES = 8, 2, 0.02, 2**17
# Noise is normal if the estimated degrees of freedom exceed the first number, and the leave-one-out log
# density is higher than with normal noise by less than the second number (nats).
_MIN_NORMAL_SHAPE, _MIN_GAIN_OF_TAILS = 20.0, 2.0


def clip_outliers(sequences: Sequences) -> FloatArray:
    """Return values (N, D), clipped at six robust standard deviations from the medians of their columns.

    Outliers have little influence on scales computed from the clipped values. Columns in which at least half
    of the values are equal are not clipped.
    """
    values = sequences.values.copy()
    for j in range(values.shape[1]):
        observed = values[~np.isnan(values[:, j]), j]
        if observed.size:
            centre = np.median(observed)
            limit = _CLIPPING_LIMIT * np.median(np.abs(observed - centre)) / MAD
            if limit > 0.0:
                values[:, j] = np.clip(values[:, j], centre - limit, centre + limit)
    return values


def outlier_mask(values: FloatArray, lengths: tuple[int, ...]) -> BoolArray:
    """Return a mask of values far from the median of adjacent observations, or of their column.

    Parameters
    ----------
    values : ndarray of shape (N, D)
        Observations, NaN where missing.
    lengths : tuple of int
        Rows of each sequence.

    Returns
    -------
    ndarray of bool of shape (N, D)
        All False in columns in which more than a quarter of the observed values would be outliers.
    """
    residuals = distance_from_adjacent(values, lengths)
    is_outlier = np.zeros(values.shape, dtype=bool)
    centred = values.copy()
    observed = ~np.isnan(values).all(axis=0)
    centred[:, observed] -= np.nanmedian(values[:, observed], axis=0)
    for errors, maximum in ((residuals, _MAX_DEVIATION_FROM_ADJACENT), (centred, _MAX_DEVIATION_FROM_COLUMN)):
        scales = robust_scale(errors)
        with np.errstate(invalid="ignore"):
            is_outlier |= (np.abs(errors) > maximum * scales) & (scales > 0.0)
    counts = np.maximum(np.count_nonzero(~np.isnan(values), axis=0), 1)
    is_outlier[:, is_outlier.sum(axis=0) > _MAX_OUTLIER_SHARE * counts] = False
    return is_outlier


def repetitive_columns(panel: Panel) -> BoolArray:
    """Return a mask (D,) of columns that are not constant, with at least 40 % equal values.

    Under Student-t noise the likelihood of such a column has no upper bound: at a noise variance of zero, the
    frequent value would have an infinite density, and all other values would be outliers. The noise variance
    therefore has a lower bound.
    """
    n = panel.n_rows
    values, observed = np.asarray(panel.values[:n]), np.asarray(panel.mask[:n]) > 0.0
    is_repetitive = np.zeros(values.shape[1], dtype=bool)
    for j in range(values.shape[1]):
        _, counts = np.unique(values[observed[:, j], j], return_counts=True)
        is_repetitive[j] = (
            len(counts) > 1 and counts.max() >= _MIN_REPETITIVE_SHARE * counts.sum() and counts.max() > 2
        )
    return is_repetitive


def _without_outliers(panel: Panel) -> Panel:
    """Return the panel without the outliers of :func:`outlier_mask`."""
    n = panel.n_rows
    mask = np.array(panel.mask[:])
    values = np.where(mask[:n] > 0.0, panel.values[:n], np.nan)
    mask[:n][outlier_mask(values, panel.lengths)] = 0.0
    return panel._replace(values=panel.values[:] * mask, mask=mask, complete=False)


class _WeightedEStep:
    """Compute expected statistics at fixed weights, with the bound as their log-likelihood.

    Parameters
    ----------
    panel : Panel
        Packed observations.
    """

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        self.counts = np.asarray(panel.mask[:].sum(axis=0))

    def set_weights(self, weights: Weights) -> None:
        """Set the weights of the following calls."""
        self.weights, self.weighted = weights, self.panel.weighted(weights.values)

    def __call__(self, params: StateSpace) -> Statistics:
        """Return the expected statistics at ``params``; counts of values are not weighted."""
        stats = expected_statistics(params, self.weighted, for_steps=True)
        value = self.weights.bound(params, self.panel, stats.log_likelihood)
        return stats._replace(counts=self.counts, log_likelihood=value)


class _Estimate:
    """Best estimate so far: parameters, noise tails, weights, and bound plus log prior density."""

    def __init__(self, params: StateSpace, tails: HeavyTails, weights: Weights, value: float) -> None:
        self.params, self.tails, self.weights, self.value = params, tails, weights, value


def fit_robust(
    panel: Panel,
    coordinates: Coordinates,
    noise: Noise,
    optimizer: Optimizer,
    *,
    tails: HeavyTails,
    integrated: bool = False,
    initial_processes: InitialProcesses | None = None,
    start: StateSpace | None = None,
    report: Report | None = None,
    fix_tails: bool = False,
) -> FitResult:
    """Maximize the lower bound of the likelihood of standardized data under Student-t noise.

    Parameters
    ----------
    panel : Panel
        Packed observations; without outliers each column has mean near zero and variance near one.
    coordinates, noise, initial_processes, start, report
        As in :func:`probsfa.statespace.learning.fit.fit`.
    optimizer : Optimizer
        Settings of the initial Gaussian fit and of the robust fit. The limit `max_iter` applies to the
        Gaussian fit, and again between leave-one-out updates of the robust fit.
    tails : HeavyTails
        Noise with the initial shape (degrees of freedom).
    integrated : bool, default=False
        Whether AR(1) noise of columns is integrated out; otherwise it is among the states.
    fix_tails : bool, default=False
        Whether the shape of the noise is fixed at that of `tails`, and its scales at those of `start`.
        Without `start` they are estimated.

    Returns
    -------
    FitResult
        The result, with the noise in ``tails``; after a keyboard interrupt, the best result so far.
        ``log_likelihood`` is the lower bound without the prior.
    """
    if noise.variances.separate:
        minimum = np.where(repetitive_columns(panel), _MIN_NOISE_OF_REPETITIVE, 0.0)
        noise = noise._replace(floor=np.maximum(noise.floor, minimum))
    interrupted, count = False, 0
    is_fixed = fix_tails and start is not None
    cleaned = panel
    if start is None:
        cleaned = _without_outliers(panel)
        fit_gaussian = fit_integrated if integrated else fit
        gaussian = fit_gaussian(
            cleaned, coordinates, noise, optimizer, initial_processes=initial_processes, report=report
        )
        params, count, interrupted = gaussian.params, gaussian.n_evaluations, gaussian.status == "interrupted"
    else:
        params = satisfy_constraints(start, coordinates, noise)
        if coordinates.limits is not None and not coordinates.n_ar1_noise:
            params = impose_limits(params, coordinates.limits)
    e_step = _WeightedEStep(panel)
    evaluate = CountedEStep(panel, count + optimizer.max_iter, report, e_step)
    evaluate.count, evaluate.limits = count, coordinates.limits_of_states
    evaluate.set_prior(noise)
    with one_blas_thread():
        if start is None:
            weights = np.array(cleaned.mask[:])
        else:
            weights = infer_weights(params, panel, tails).weights.values
        alternation = _Alternation(
            evaluate, e_step, coordinates, noise, optimizer.solver, optimizer.tol, integrated
        )
        if is_fixed:
            alternation = alternation.with_fixed_tails()
            evaluate.set_prior(alternation.noise)
        state = _reweighted(params, tails, weights, panel, evaluate, fix_shape=is_fixed)
        result, state = alternation(state, interrupted)
        if not (tails.by_row or is_fixed):
            result = _with_leave_one_out_tails(alternation, result, state, optimizer.max_iter)
        return result


def _reweighted(
    params: StateSpace,
    tails: HeavyTails,
    weights: FloatArray,
    panel: Panel,
    evaluate: CountedEStep,
    *,
    fix_shape: bool = False,
) -> _Estimate:
    """Update weights, and the shape unless it is fixed, given the posterior at previous weights."""
    mask = np.asarray(panel.mask[: panel.n_rows])
    moments = value_moments(params, panel.weighted(weights), N_DRAWS_FOR_WEIGHTS)
    squared_residuals = moments.squared_residuals(params, panel)
    updated_tails = tails if fix_shape else tails.at_best_shape(squared_residuals, mask)
    value = bound_at(params, panel, moments, weights, updated_tails) + evaluate.log_prior(params)
    return _Estimate(params, updated_tails, weights_at(updated_tails, squared_residuals, panel), value)


class _Alternation(NamedTuple):
    """Alternate between maximization at fixed weights and updates of the weights, until convergence."""

    evaluate: CountedEStep
    e_step: _WeightedEStep
    coordinates: Coordinates
    noise: Noise
    solver: str
    tol: float
    integrated: bool
    fix_shape: bool = False

    def with_fixed_tails(self) -> "_Alternation":
        """Return a copy for which shape and scales are fixed."""
        known = NoiseVariances.known(self.noise.floor.size)
        noise = Noise(known, self.noise.floor)
        coordinates = self.coordinates._replace(variances=known)
        return self._replace(coordinates=coordinates, noise=noise, fix_shape=True)

    def _maximize_integrated(
        self, evaluate: CountedEStep, start: StateSpace, noise: Noise, tol: float
    ) -> FitResult:
        """Maximize at fixed weights, with AR(1) noise of columns integrated out."""
        n_left = evaluate.limit - evaluate.count
        result = fit_monte_carlo_em(self.e_step.weighted, start, noise, max_iter=n_left, tol=tol)
        evaluate.count += result.n_evaluations
        return result

    def __call__(
        self, state: _Estimate, interrupted: bool = False, *, n_rounds: int | None = None
    ) -> tuple[FitResult, _Estimate]:
        """Optimize until convergence or for `n_rounds`; after an interrupt, return the best estimate."""
        evaluate, noise, tol = self.evaluate, self.noise, self.tol
        panel, limit, is_fixed = evaluate.panel, evaluate.limit, self.fix_shape
        optimize: Callable[..., FitResult]
        if self.integrated:
            optimize, tol = self._maximize_integrated, max(tol, monte_carlo_tolerance(state.params))
        elif self.solver == "em":
            optimize = partial(fit_em, has_loading=self.coordinates.has_loading)
        else:
            optimize = partial(fit_quasi_newton, coordinates=self.coordinates)
        history = [state.value]
        status: Status = "interrupted" if interrupted else "max_iter"
        gains: list[float] = []
        n_small_gains, has_restarted = 0, is_fixed
        max_rounds = _MAX_ITERATIONS if n_rounds is None else n_rounds
        try:
            while not interrupted and evaluate.count < limit and len(history) <= max_rounds:
                self.e_step.set_weights(state.weights)
                evaluate.limit = min(limit, evaluate.count + _MAX_EVALUATIONS_PER_ITERATION)
                optimum = optimize(evaluate=evaluate, start=state.params, noise=noise, tol=0.1 * tol)
                if optimum.history:
                    weights = state.weights.values
                    updated = _reweighted(
                        optimum.params, state.tails, weights, panel, evaluate, fix_shape=is_fixed
                    )
                    state = updated if updated.value >= state.value else state
                history.append(max(state.value, history[-1]))
                if optimum.status == "interrupted":
                    status = "interrupted"
                    break
                gains.append(history[-1] - history[-2])
                n_small_gains = n_small_gains + 1 if _predicted_gain(gains) < tol else 0
                # Convergence requires two successive iterations with a predicted gain below the tolerance.
                has_converged = n_small_gains >= 2 or gains[-1] <= rounding_error(history[-1], panel.n_rows)
                if not has_converged:
                    continue
                status = "converged"
                if has_restarted:
                    break
                has_restarted = True
                restarted = _restarted_from_data(state, panel, evaluate, tol)
                if restarted is None or not restarted.value > state.value + tol:
                    break
                state, n_small_gains, status = restarted, 0, "max_iter"
                history.append(state.value)
                gains.clear()
            if status != "interrupted" and n_rounds is None:
                final = infer_weights(state.params, panel, state.tails, state.weights.values)
                state.weights = final.weights
                state.value = max(final.bound + evaluate.log_prior(state.params), state.value)
                history.append(max(state.value, history[-1]))
        except KeyboardInterrupt:
            status = "interrupted"
        prior = evaluate.log_prior(state.params)
        values = tuple(value - prior for value in history)
        return FitResult(state.params, values[-1], values, evaluate.count, status, state.tails), state


def _with_leave_one_out_tails(
    alternation: _Alternation, result: FitResult, state: _Estimate, max_iter: int
) -> FitResult:
    """Alternate leave-one-out estimates of degrees of freedom and scales with maximization of the bound.

    Leave-one-out estimates depend little on the other parameters. Between two updates, the other parameters
    are therefore optimized for a few iterations only; after the last update, until convergence.
    """
    evaluate, panel = alternation.evaluate, alternation.evaluate.panel
    fixed_tails = alternation.with_fixed_tails()
    evaluate.set_prior(fixed_tails.noise)
    has_converged = True
    try:
        for _ in range(_MAX_LEAVE_ONE_OUT_UPDATES):
            if result.status == "interrupted" or (has_converged and not result.converged):
                break
            previous_tails, weights = state.tails, state.weights.values
            tails, scales = leave_one_out_tails(
                state.params, previous_tails, weights, panel, alternation.noise
            )
            previous_shape, shape = previous_tails.shape, tails.shape
            log_changes = np.append(
                np.log(scales / state.params.noise_variance),
                0.0 if previous_shape == shape else np.log(shape / previous_shape),
            )
            is_converged = np.max(np.abs(log_changes)) < _LOG_TOLERANCE or (
                previous_tails.is_normal and tails.is_normal
            )
            if is_converged and has_converged:
                break
            if not is_converged:
                params = state.params.replace(noise_variance=scales)
                state = _reweighted(params, tails, weights, panel, evaluate, fix_shape=True)
            evaluate.limit = evaluate.count + max_iter
            has_converged = is_converged
            result, state = fixed_tails(state, n_rounds=None if is_converged else _ITERATIONS_BETWEEN_UPDATES)
        if not has_converged and result.status != "interrupted":
            evaluate.limit = evaluate.count + max_iter
            result, _ = fixed_tails(state)
    except KeyboardInterrupt:
        return result._replace(status="interrupted")
    return result._replace(n_evaluations=evaluate.count)


def leave_one_out_tails(
    params: StateSpace, tails: HeavyTails, weights: FloatArray, panel: Panel, noise: Noise
) -> tuple[HeavyTails, FloatArray]:
    """Estimate shape and squared scales by maximizing the leave-one-out density.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model; initial scales.
    tails : HeavyTails
        Noise with the initial shape.
    weights : ndarray of shape (T, D)
        Expected weights of the values.
    panel : Panel
        Packed observations.
    noise : Noise
        Constraints and prior of the scales.

    Returns
    -------
    tails : HeavyTails
        Noise with the estimated shape; normal noise if this shape exceeds 20 and the gain in leave-one-out
        log density over normal noise is less than two nats.
    scales : ndarray of shape (D,)
        Squared scales.
    """
    moments = value_moments(params, panel.weighted(weights))
    means, explained = left_out_moments(params, panel, moments, weights)
    is_predicted = ~np.isnan(means)
    step = -(-np.count_nonzero(is_predicted) // _MAX_VALUES)
    rows, columns = np.nonzero(is_predicted[::step])
    if rows.size == 0:
        return tails, params.noise_variance
    errors = np.asarray(panel.values[: panel.n_rows : step])[rows, columns] - means[::step][rows, columns]
    left_out = LeftOut(errors, explained[::step][rows, columns], columns)
    groups = noise.variances
    counts = np.bincount(columns, minlength=params.n_features).astype(np.float64)
    free = noise.estimated & (groups.totals(counts) > 0.0)
    first = np.log(groups.group_values(params.noise_variance))

    def scales_at(log_scales: FloatArray) -> FloatArray:
        if not free.any():
            return params.noise_variance
        return groups.column_values(np.exp(np.where(free, first + log_scales, first)), params.noise_variance)

    # Each value has an information of about 0.3 on the logarithm of a scale, and of 0.05 on the logarithm of
    # the shape. In units of the inverse square root of this information, the curvature of the density is
    # about one, which saves half of the evaluations.
    units = 1.0 / np.sqrt(np.append(0.05 * counts.sum(), np.maximum(0.3 * groups.totals(counts), 1.0)))

    def loss(vector: FloatArray) -> tuple[float, FloatArray]:
        vector = units * vector
        scales = scales_at(vector[1:])
        value, by_scales, by_shape = tails.with_shape(float(np.exp(vector[0]))).left_out_density(
            left_out, scales
        )
        gradient = np.where(free, step * groups.totals(by_scales) + noise.prior_gradient(scales), 0.0)
        return -step * value - noise.log_prior(scales), -units * np.append(step * by_shape, gradient)

    def minimize_loss(shapes: tuple[float, float]) -> tuple[float, float, FloatArray]:
        """Return the loss, shape and scales at the minimum over shapes in a range."""
        floor = np.log(groups.largest(noise.floor)) - first
        lower = np.append(np.log(shapes[0]), np.minimum(floor, 0.0)) / units
        upper = np.append(np.log(shapes[1]), np.full(free.size, np.inf)) / units
        start = np.append(np.clip(np.log(tails.shape), *np.log(shapes)), np.zeros(free.size)) / units
        end = minimize(
            loss, start, jac=True, bounds=Bounds(lower, upper), method="L-BFGS-B", options={"ftol": 1e-8}
        )
        vector = units * end.x
        return float(end.fun), float(np.exp(vector[0])), scales_at(vector[1:])

    value, shape, scales = minimize_loss(tails.shapes)
    if shape > _MIN_NORMAL_SHAPE:
        normal = minimize_loss((tails.shapes[1], tails.shapes[1]))
        if normal[0] - value < _MIN_GAIN_OF_TAILS:
            value, shape, scales = normal
    return tails.with_shape(shape), np.maximum(scales, noise.floor)


def _predicted_gain(gains: list[float]) -> float:
    """Predict the remaining gain as a geometric series, with the slowest rate of the last iterations."""
    recent = gains[-3:]
    if len(recent) < 2 or min(recent) <= 0.0:
        return 0.0 if recent[-1] <= 0.0 else np.inf
    rate = max(b / a for a, b in zip(recent[:-1], recent[1:], strict=True))
    return recent[-1] * rate / (1.0 - rate) if rate < 1.0 else np.inf


def _restarted_from_data(
    state: _Estimate, panel: Panel, evaluate: CountedEStep, tol: float
) -> _Estimate | None:
    """Return the estimate with new weights, or None if its bound is not finite.

    The iteration for the weights does not start from the weights of `state`, because it may then converge to
    another fixed point.
    """
    inferred = infer_weights(state.params, panel, state.tails, tol=0.1 * tol)
    if not np.isfinite(inferred.bound):
        return None
    return _reweighted(state.params, state.tails, inferred.weights.values, panel, evaluate)
