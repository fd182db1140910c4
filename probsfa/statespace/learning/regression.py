"""Regression on covariates, estimated by maximum likelihood jointly with all other parameters.

The model is ``x_t = mu + B u_t + C z_t + n_t`` with covariates ``u_t``. Given all other parameters, the
log-likelihood is quadratic in ``mu`` and ``B``. Its maximum is the generalized least squares estimate ``(X'
S^-1 X)^-1 X' S^-1 x``, with regressors ``X``, observations ``x`` and their covariance ``S`` (Harvey 1989,
section 3.4.2). The estimate is computed by conjugate gradients. The product of ``S^-1`` and a series is the
smoothing residual of the series divided by the noise variance, so that each step requires one run of the
smoother. The preconditioner is the expected information in the frequency domain, in which a covariate with
spectrum ``G(w)`` contributes ``G(w) S^-1(w)`` to the information on its coefficients.

The Fisher information between means (offsets and coefficients) and all other parameters is zero, because the
other parameters determine only covariances. Alternating between least squares and optimization of
the other parameters therefore converges quickly.

Under Student-t noise (:mod:`.robust`) a lower bound replaces the likelihood. For given weights ``w`` of the
values it is, up to constants, the log-likelihood of the Gaussian model with noise variances ``r / w``.
Generalized least squares estimates of this Gaussian model increase the bound.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from probsfa._threads import lost_interrupts_raised, one_blas_thread
from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.covariates import Regression
from probsfa.statespace.engine.posterior import expected_statistics, smooth
from probsfa.statespace.learning.coordinates import Coordinates, latent_spectra, score
from probsfa.statespace.learning.em import fit_em
from probsfa.statespace.learning.fisher_metric import factor_spectra, factorize
from probsfa.statespace.learning.maximum_likelihood import (
    FitProblem,
    InMemory,
    MaximumLikelihood,
    in_data_units,
    make_problem,
    maximize,
    start_of,
)
from probsfa.statespace.learning.objective import (
    CountedEStep,
    FitResult,
    Report,
    band_edges,
    fit_quasi_newton,
)
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.learning.robust import clip_outliers, fit_robust
from probsfa.statespace.learning.standard_errors import (
    StandardErrors,
    covariance_of,
    errors_in_data_units,
    free_coordinates,
    observed_information,
    offsets_in_trends,
    warn_of_limits,
)
from probsfa.statespace.noise import HeavyTails
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.panel import Panel, make_panel
from probsfa.statespace.parameters import StateSpace
from probsfa.statespace.student import infer_weights

__all__ = ["least_squares", "maximum_likelihood_with_covariates", "standard_errors_with_covariates"]

# Maximum number of alternations of least squares and optimization; minimum number of evaluations allowed
# after the first fit, even beyond `max_iter`; and maximum number of conjugate gradient steps.
_MAX_ROUNDS, _MIN_EVALUATIONS, _MAX_STEPS = 12, 12, 60
# Remaining gain at which least squares end, as a fraction of the tolerance of the fit.
_LEAST_SQUARES_TOL = 1e-4
# Minimum share of the variance of a column that covariates do not explain.
_MIN_RESIDUAL_SHARE = 1e-20
# Maximum number of factors times covariates for a complete preconditioner; otherwise only diagonal blocks are
# used.
_MAX_DENSE_SIZE = 1000


class _Design(NamedTuple):
    """Regressors: a constant column, then standardized covariates ``(u - centre) / unit``.

    Rows of zeros are added at the end, as in a panel.
    """

    regressors: FloatArray
    centre: FloatArray
    unit: FloatArray

    @classmethod
    def of(cls, exog: FloatArray, n_rows: int) -> "_Design":
        """Standardize covariates (N, P) and pad them to `n_rows` rows (T, P + 1)."""
        centre, unit = exog.mean(axis=0), exog.std(axis=0)
        regressors = np.zeros((n_rows, exog.shape[1] + 1))
        regressors[: len(exog), 0] = 1.0
        regressors[: len(exog), 1:] = (exog - centre) / unit
        return cls(regressors, centre, unit)


class _Solution(NamedTuple):
    """Generalized least squares: changes (D, P) of coefficients, gain in nats, number of smoother runs."""

    change: FloatArray
    gain: float
    n_evaluations: int


def least_squares(params: StateSpace, panel: Panel, regressors: FloatArray, tol: float) -> _Solution:
    """Maximize the likelihood over the coefficients of regressors, with all other parameters fixed.

    Parameters
    ----------
    params : StateSpace
        The other parameters.
    panel : Panel
        Packed observations.
    regressors : ndarray of shape (T, P)
        Values of the regressors in each row; rows of padding are zero.
    tol : float
        Remaining gain, in nats, at which the iteration ends.

    Returns
    -------
    change : ndarray of shape (D, P)
        Changes of the coefficients; effects of the previous coefficients are already subtracted from the
        observations.
    gain : float
        Gain in log-likelihood, in nats.
    n_evaluations : int
        Number of runs of the smoother.
    """
    gradient = _gradient(params, panel, regressors)
    precondition = _preconditioner(params, panel, regressors)
    change, gain, count = np.zeros_like(gradient), 0.0, 1
    residual, preconditioned = gradient, precondition(gradient)
    direction, residual_norm = preconditioned, float(np.sum(gradient * preconditioned))
    while 0.5 * residual_norm > tol and count <= _MAX_STEPS:
        product = _information_times(params, panel, regressors, direction)
        count += 1
        step = residual_norm / float(np.sum(direction * product))
        change, residual = change + step * direction, residual - step * product
        gain += 0.5 * step * residual_norm
        preconditioned = precondition(residual)
        previous_norm, residual_norm = residual_norm, float(np.sum(residual * preconditioned))
        direction = preconditioned + (residual_norm / previous_norm) * direction
    return _Solution(change, gain, count)


def _gradient(params: StateSpace, panel: Panel, regressors: FloatArray) -> FloatArray:
    """Compute the gradient (D, P) of the log-likelihood with respect to coefficients by Fisher's identity."""
    n = panel.n_rows
    means = smooth(params, panel).means
    errors = panel.value_weights[:n] * (panel.values[:n] - params.offset - means @ params.loadings.T)
    return np.asarray((errors / params.noise_variance).T @ regressors[:n])


def _information_times(
    params: StateSpace, panel: Panel, regressors: FloatArray, coefficients: FloatArray
) -> FloatArray:
    """Multiply coefficients (D, P) by the observed information on them."""
    effects = panel._replace(values=panel.mask[:] * (regressors @ coefficients.T))
    return _gradient(params.replace(offset=np.zeros_like(params.offset)), effects, regressors)


def _preconditioner(
    params: StateSpace, panel: Panel, regressors: FloatArray
) -> Callable[[FloatArray], FloatArray]:
    """Return a function that multiplies by the inverse expected information on the coefficients.

    The approximation by the expected information is most accurate if rows are evenly sampled and missing
    values are evenly distributed.
    """
    omega, power = _powers(regressors[: panel.n_rows], panel.lengths)
    share = np.maximum(panel.value_weights[:].sum(axis=0) / panel.n_rows, 1.0 / panel.n_rows)
    spectra = latent_spectra(params, omega, evenly_sampled=panel.evenly_sampled).values
    factors = factor_spectra(params.replace(noise_variance=params.noise_variance / share), spectra)
    inverse_noise_std, left_singular, core_inverse = (
        factors.inverse_noise_std[:, None],
        factors.left_singular,
        factors.core_inverse,
    )
    q, p = left_singular.shape[1], regressors.shape[1]
    solve_noise = factorize(power.sum(axis=0))
    if q * p <= _MAX_DENSE_SIZE:
        factor_information = np.einsum("wab,wij->aibj", core_inverse, power, optimize=True).reshape(
            q * p, q * p
        )
        solve_factors = factorize(factor_information)
    else:
        blocks = [factorize(np.einsum("w,wij->ij", core_inverse[:, a, a], power)) for a in range(q)]

        def solve_factors(x: FloatArray) -> FloatArray:
            return np.concatenate([solve(x[a * p : (a + 1) * p]) for a, solve in enumerate(blocks)])

    def solve(gradient: FloatArray) -> FloatArray:
        scaled = gradient / inverse_noise_std
        projected = left_singular.T @ scaled
        noise_part = solve_noise((scaled - left_singular @ projected).T).T
        return np.asarray(
            (noise_part + left_singular @ solve_factors(projected.ravel()).reshape(projected.shape))
            / inverse_noise_std
        )

    return solve


def _powers(regressors: FloatArray, lengths: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Return frequencies (W,) of bands, and second moments (W, P, P) of the regressors in each band.

    The sum of the second moments over the bands is ``regressors' regressors``.
    """
    edges = np.concatenate([[-1.0, 0.0], band_edges(max(max(lengths), 2))])
    p, n_bands = regressors.shape[1], len(edges) - 1
    power, moments, weights = np.zeros((n_bands, p, p)), np.zeros(n_bands), np.zeros(n_bands)
    first = 0
    for n in lengths:
        transform = np.fft.rfft(regressors[first : first + n], axis=0) / np.sqrt(n)
        omega = 2.0 * np.pi * np.arange(len(transform)) / n
        weight = np.where((omega == 0.0) | (omega >= np.pi * (1.0 - 1e-12)), 1.0, 2.0)
        band = np.clip(np.searchsorted(edges, omega, side="left") - 1, 0, n_bands - 1)
        order = np.searchsorted(band, np.arange(n_bands + 1))
        for b in np.unique(band):
            part = slice(order[b], order[b + 1])
            scaled = transform[part] * np.sqrt(weight[part, None])
            power[b] += scaled.real.T @ scaled.real + scaled.imag.T @ scaled.imag
            moments[b] += weight[part] @ omega[part]
            weights[b] += weight[part].sum()
        first += n
    used = weights > 0.0
    return moments[used] / weights[used], power[used]


# ------------------------------------------------------------------------------------------- fitting


class _FitState(NamedTuple):
    """State of a joint fit: last result, coefficients for standardized data, number of evaluations."""

    result: FitResult
    coefficients: FloatArray
    n_evaluations: int

    @property
    def log_likelihood(self) -> float:
        """Log-likelihood of the standardized data."""
        return self.result.log_likelihood


class _JointFit:
    """Joint fit of all parameters and the coefficients of covariates to standardized rows."""

    def __init__(self, problem: FitProblem, exog: FloatArray, report: Report | None) -> None:
        self.problem, self.report = problem, report
        self.panel = problem.observations.panel
        self.design = _Design.of(exog, self.panel.values.shape[0])

    @property
    def zero_coefficients(self) -> FloatArray:
        """Coefficients (D, P) of zero."""
        return np.zeros((self.problem.scale.size, self.design.unit.size))

    def panel_at(self, coefficients: FloatArray) -> Panel:
        """Return the panel without the effects of the covariates, at coefficients (D, P)."""
        effects = self.design.regressors[:, 1:] @ coefficients.T
        return self.panel._replace(values=self.panel.values[:] - self.panel.mask[:] * effects)

    def least_squares_at(self, result: FitResult, coefficients: FloatArray) -> _Solution:
        """Compute generalized least squares at the parameters and weights of a result."""
        params, panel = result.params.state_space, self.panel_at(coefficients)
        if result.tails is not None:
            panel = panel.weighted(infer_weights(params, panel, result.tails).weights.values)
        return least_squares(params, panel, self.design.regressors, _LEAST_SQUARES_TOL * self.problem.tol)

    def maximize_from(self, start: _FitState) -> _FitState:
        """Alternate least squares and optimization of the other parameters until convergence."""
        problem, tol = self.problem, self.problem.tol
        noise = problem.standardized_noise
        best, result, coefficients = start, start.result, start.coefficients
        params = result.params.state_space
        value = start.log_likelihood + noise.log_prior(params.noise_variance)
        count, history = start.n_evaluations, list(start.result.history)
        limit = max(problem.options.max_iter, count + _MIN_EVALUATIONS)
        status = start.result.status
        try:
            for _ in range(_MAX_ROUNDS):
                step = self.least_squares_at(result, coefficients)
                count += step.n_evaluations
                params = params.replace(offset=params.offset + step.change[:, 0])
                coefficients = coefficients + step.change[:, 1:]
                result = self._maximize(params, coefficients, noise, max(limit - count, 2), result.tails)
                count += result.n_evaluations
                params, status = result.params, result.status
                new_value = result.log_likelihood + noise.log_prior(params.noise_variance)
                history += [new for new in result.history if not history or new > history[-1]]
                best = _FitState(result, coefficients, count)
                gain, value = new_value - value, new_value
                if status == "interrupted" or gain < tol or count >= limit:
                    break
        except KeyboardInterrupt:
            status = "interrupted"
        result = best.result._replace(history=tuple(history), n_evaluations=count, status=status)
        if problem.options.has_ar1_noise and not result.params.has_ar1_noise:
            result = result._replace(params=result.params.without_ar1_noise_states())
        return _FitState(result, best.coefficients, count)

    def _maximize(
        self, params: StateSpace, coefficients: FloatArray, noise: Noise, limit: int, tails: HeavyTails | None
    ) -> FitResult:
        """Optimize all parameters except the coefficients.

        Under Student-t noise with a weight for each value, scales and degrees of freedom are estimated in the
        first fit only, and then fixed.
        """
        options, tol = self.problem.options, self.problem.tol
        initial_tails = options.tails
        if initial_tails is not None:
            fix_tails = tails is not None and not tails.by_row
            return fit_robust(
                self.panel_at(coefficients),
                self.problem.coordinates,
                noise,
                self.problem.optimizer._replace(max_iter=limit),
                tails=tails if tails is not None and fix_tails else initial_tails,
                start=params,
                report=self.report,
                fix_tails=fix_tails,
            )
        evaluate, coordinates = (
            CountedEStep(self.panel_at(coefficients), limit, self.report),
            self.problem.coordinates,
        )
        evaluate.limits = coordinates.limits_of_states
        if noise.variances.n_free and noise.prior > 0.0:
            evaluate.set_prior(noise)
        with one_blas_thread():
            if options.solver == "em":
                result = fit_em(evaluate, params, noise, tol, has_loading=coordinates.has_loading)
            else:
                result = fit_quasi_newton(evaluate, coordinates, params, noise, tol)
        prior = evaluate.log_prior(result.params)
        return result._replace(
            log_likelihood=result.log_likelihood - prior, history=tuple(v - prior for v in result.history)
        )

    def step_from(self, start: _FitState) -> _FitState:
        """Return the state after one least squares step; all other parameters are unchanged."""
        step = self.least_squares_at(start.result, start.coefficients)
        params = start.result.params
        params = params.replace(offset=params.offset + step.change[:, 0])
        log_likelihood = start.log_likelihood + step.gain
        result = start.result._replace(
            params=params, log_likelihood=log_likelihood, history=(*start.result.history, log_likelihood)
        )
        return _FitState(
            result, start.coefficients + step.change[:, 1:], start.n_evaluations + step.n_evaluations
        )


@lost_interrupts_raised()
def maximum_likelihood_with_covariates(
    sequences: Sequences,
    names: tuple[str, ...],
    options: FitOptions,
    *,
    init: Any = None,
    report: Report | None = None,
) -> tuple[MaximumLikelihood, Regression]:
    """Estimate parameters and coefficients of covariates jointly by maximum likelihood.

    Without `init`, a model without covariates is also fitted. If its likelihood is higher, the joint fit is
    repeated from this model.

    Parameters
    ----------
    sequences : Sequences
        Validated rows with covariates.
    names : tuple of str
        Names of the covariates.
    options : FitOptions
        Settings of the fit, including the noise.
    init : StateSpace or fitted estimator, optional
        Initial values; the model without covariates is then not fitted.
    report : callable, optional
        Called with the number of likelihood evaluations and the best log-likelihood so far.

    Returns
    -------
    fitted : MaximumLikelihood
        Fit to the rows minus the effects of the covariates.
    regression : Regression

    Raises
    ------
    ValueError
        If a column is a linear function of the covariates, up to rounding.
    """
    size = None
    if options.n_components is None:
        size = InMemory(replace(sequences, exog=None)).default_size()
        options = replace(options, n_components=size.n_components)
        sequences = sequences if size.segments is None else sequences.segments_as_sequences(size.segments)
    exog = sequences.exog
    assert exog is not None
    centre = exog.mean(axis=0)
    without_exog = replace(sequences, exog=None)
    clipped_rows = replace(sequences, values=clip_outliers(without_exog)) if options.robust else sequences
    initial_coefficients = _ordinary_least_squares(clipped_rows, centre)
    without_effects = replace(
        without_exog, values=sequences.values - (exog - centre) @ initial_coefficients.T
    )
    problem = make_problem(InMemory(without_effects), options)
    joint_fit = _JointFit(problem, exog, report)
    start = None if init is None else start_of(init, problem)
    if start is not None:  # the rows are centred, so that the offset of the start is not used
        start = start.replace(offset=np.zeros_like(start.offset))
    result = maximize(problem, start=start, report=report)
    state = _FitState(result, joint_fit.zero_coefficients, result.n_evaluations)
    if result.status != "interrupted":
        state = joint_fit.maximize_from(state)
    base_coefficients, nested_log_likelihood, n_before = initial_coefficients, None, 0
    if init is None and state.result.status != "interrupted":
        nested_problem = make_problem(InMemory(without_exog), options)
        nested_result = maximize(nested_problem, report=report)
        nested_log_likelihood, n_before = (
            nested_result.log_likelihood - nested_problem.log_jacobian,
            nested_result.n_evaluations,
        )
        if not state.log_likelihood - problem.log_jacobian >= nested_log_likelihood:
            n_before, nested_state = (
                state.n_evaluations,
                _FitState(nested_result, joint_fit.zero_coefficients, nested_result.n_evaluations),
            )
            problem, base_coefficients, joint_fit = (
                nested_problem,
                np.zeros_like(initial_coefficients),
                _JointFit(nested_problem, exog, report),
            )
            state = joint_fit.maximize_from(nested_state)
            if not state.log_likelihood >= nested_result.log_likelihood:
                state = joint_fit.step_from(nested_state)
        if nested_result.status == "interrupted":
            state = state._replace(result=state.result._replace(status="interrupted"))
    if size is not None:
        problem = problem._replace(size_sentence=size.sentence)
    result = state.result._replace(n_evaluations=state.n_evaluations + n_before)
    fitted = in_data_units(problem, result)
    coefficients = base_coefficients + problem.scale[:, None] * state.coefficients / joint_fit.design.unit
    shift = coefficients @ centre
    status = fitted.status
    if nested_log_likelihood is not None:
        gain = fitted.log_likelihood - nested_log_likelihood
        sentence = f"Covariates raise the log-likelihood by {gain:.4g} with {coefficients.size} coefficients."
        status = status.adding("covariates", sentence, gain=gain, n_coefficients=coefficients.size)
    fitted = replace(
        fitted,
        params=fitted.params.replace(offset=fitted.params.offset - shift),
        shift=fitted.shift - shift,
        status=status,
    )
    return fitted, Regression(coefficients, names)


def _ordinary_least_squares(sequences: Sequences, centre: FloatArray) -> FloatArray:
    """Regress each column on the covariates over the rows in which it is observed: coefficients (D, P)."""
    assert sequences.exog is not None
    regressors = np.column_stack([np.ones(sequences.n_rows), sequences.exog - centre])
    regressors /= np.sqrt(np.mean(regressors**2, axis=0))
    unit = np.sqrt(np.mean((sequences.exog - centre) ** 2, axis=0))
    coefficients = np.zeros((sequences.n_features, sequences.exog.shape[1]))
    for d in range(sequences.n_features):
        observed = sequences.mask[:, d]
        x = sequences.values[observed, d]
        centre_of_column = x.mean()
        solution = np.linalg.lstsq(regressors[observed], x - centre_of_column, rcond=None)[0]
        total_squares, residual_squares = (
            np.sum((x - centre_of_column) ** 2),
            np.sum((x - centre_of_column - regressors[observed] @ solution) ** 2),
        )
        if 0.0 < total_squares and residual_squares <= _MIN_RESIDUAL_SHARE * total_squares:
            names = sequences.feature_names
            name_clause = "" if names is None else f" ({names[d]!r})"
            raise ValueError(
                f"X has the column {d}{name_clause}, which is a linear function of exog: no variance "
                "remains. Remove the column, or the covariate."
            )
        coefficients[d] = solution[1:] / unit
    return coefficients


# ----------------------------------------------------------------------------------- standard errors


def standard_errors_with_covariates(
    regression: Regression, fitted: MaximumLikelihood, sequences: Sequences
) -> StandardErrors:
    """Compute standard errors from the joint observed information of parameters and coefficients.

    Parameters
    ----------
    regression : Regression
        The coefficients.
    fitted : MaximumLikelihood
        The fit, which contains all other parameters.
    sequences : Sequences
        Rows of the fit, with covariates. If columns have transforms, values are transformed.

    Returns
    -------
    StandardErrors

    Notes
    -----
    The smoother runs three times for each coefficient, and twice for each of the other parameters.
    """
    exog = sequences.exog
    assert exog is not None
    without_effects = replace(sequences, values=sequences.values - regression.effects(exog), exog=None)
    panel = make_panel(
        without_effects.standardized(fitted.shift, fitted.scale).with_time_unit(fitted.time_unit)
    )
    params, scale = fitted.standardized_params.state_space, fitted.scale
    coordinates = fitted.coordinates(evenly_sampled=panel.evenly_sampled)
    free = free_coordinates(coordinates, params, fitted.options.noise_floors)
    free[offsets_in_trends(coordinates, params)] = False
    warn_of_limits(coordinates, params, free)
    design = _Design.of(exog, panel.values.shape[0])
    regressors = design.regressors[:, 1:]
    n_first, shape = int(free.sum()), (coordinates.n_features, regressors.shape[1])
    size = n_first + shape[0] * shape[1]
    information = np.zeros((size, size))
    information[:n_first, :n_first] = observed_information(coordinates, params, panel, free)
    for i, position in enumerate(np.ndindex(shape)):
        unit = np.zeros(shape)
        unit[position] = 1.0
        product = _information_times(params, panel, regressors, unit)
        information[n_first:, n_first + i] = product.ravel()
        # The score of the other parameters is quadratic in the coefficients, so that central differences are
        # exact.
        step = 1.0 / np.sqrt(max(float(product[position]), 1.0))
        score_before, score_after = (
            _score(coordinates, params, panel, sign * step * unit, regressors) for sign in (-1.0, 1.0)
        )
        cross = (score_before - score_after)[free] / (2.0 * step)
        information[:n_first, n_first + i] = information[n_first + i, :n_first] = cross
    covariance = covariance_of(0.5 * (information + information.T))
    marginal = np.full((coordinates.size, coordinates.size), np.nan)
    marginal[np.ix_(free, free)] = covariance[:n_first, :n_first]
    # The fitted offset is the mean of the observations at the centre of the covariates. The offset in data
    # units is their mean at covariates of zero: offset - coefficients centre / unit.
    positions = np.cumsum(free) - 1
    ratio = design.centre / design.unit
    offsets = np.arange(coordinates.slices[3].start, coordinates.slices[3].stop)
    for d, coordinate in enumerate(offsets):
        if not free[coordinate]:
            continue
        weights = np.zeros(size)
        weights[positions[coordinate]] = 1.0
        first = n_first + d * shape[1]
        weights[first : first + shape[1]] = -ratio
        marginal[coordinate, coordinate] = weights @ covariance @ weights
    errors = errors_in_data_units(coordinates, params, marginal, scale, fitted.time_unit)
    coefficient_errors = np.sqrt(np.diag(covariance)[n_first:]).reshape(shape)
    errors["exog_coef_"] = coefficient_errors * scale[:, None] / design.unit
    others = {"exog_coef_": regression.coefficients}
    standard_errors = StandardErrors.of(fitted.params, fitted.time_unit, errors, others)
    standard_errors.n_steps = panel.n_steps
    return standard_errors


def _score(
    coordinates: Coordinates,
    params: StateSpace,
    panel: Panel,
    coefficients: FloatArray,
    regressors: FloatArray,
) -> FloatArray:
    """Return the score of the other parameters at given coefficients."""
    shifted = panel._replace(values=panel.values[:] - panel.mask[:] * (regressors @ coefficients.T))
    return score(coordinates, params, panel.gaps, expected_statistics(params, shifted))
