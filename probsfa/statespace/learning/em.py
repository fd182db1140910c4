"""Expectation maximization with the exact M-step, and Monte Carlo EM for AR(1) noise of many columns.

The expected complete-data log-likelihood is the sum of a term for the dynamics and a term for the
observations. The parameters of the observations are estimated by a regression of each column on the states
and a constant, over the rows in which the column is observed. Of the AR(1) noise processes, only the one of
the column is a regressor. With the stationary variance fixed at one, the decay of an AR(1) process is the
solution of a cubic equation (:func:`.ar1.cubic_decay`).
"""

from collections import deque

import numpy as np

from probsfa._threads import one_blas_thread
from probsfa._typing import BoolArray, FloatArray
from probsfa.statespace.engine.idiosyncratic import ColumnNoise, FactorSystem, Steps
from probsfa.statespace.engine.moments import Statistics
from probsfa.statespace.learning.coordinates import Limits, maximize_dynamics
from probsfa.statespace.learning.objective import CountedEStep, FitResult, Status, rounding_error
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateSpace

# Number of successive steps whose predicted remaining gain must be below the tolerance for convergence.
_N_CONVERGED_STEPS = 5


def maximize(
    params: StateSpace,
    stats: Statistics,
    noise: Noise,
    gaps: FloatArray,
    has_loading: BoolArray | None = None,
    limits: Limits | None = None,
) -> StateSpace:
    """M-step: maximize the expected complete-data log-likelihood plus the log prior density of the noise.

    Parameters
    ----------
    params : StateSpace
        Parameters at which ``stats`` were computed.
    stats : Statistics
        Expected statistics.
    noise : Noise
        Constraints and prior of the noise variances.
    gaps : ndarray of shape (U,)
        Times between successive rows; ``[1.0]`` for even sampling.
    has_loading : ndarray of bool of shape (D, n_loaded_states), optional
        Mask of free loadings; other loadings are zero. By default all loadings are free.
    limits : Limits, optional
        Fixed parameters, and ranges of frequencies.

    Returns
    -------
    params : StateSpace
    """
    if limits is not None and limits.any_fixed:
        free = np.isnan(limits.loadings[:, params.state_layout.loaded_states])
        has_loading = free if has_loading is None else has_loading & free
    loadings, offset, variance = _maximize_observations(params, stats, noise, has_loading)
    changed = maximize_dynamics(params, stats, gaps, limits).with_nonzero_loadings(loadings)
    return changed.replace(noise_variance=variance, offset=offset)


def _maximize_observations(
    params: StateSpace, stats: Statistics, noise: Noise, has_loading: BoolArray | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return loadings, offsets and noise variances that maximize the expected density of the observations."""
    # The statistics contain moments of the residuals at `params`. A regression of the residuals on the states
    # estimates the changes of loadings and offsets.
    moments, cross_products = stats.latent_moments, stats.residual_moments
    state_layout = params.state_layout
    if state_layout.n_loaded_states < state_layout.n_states:
        regressors = np.append(state_layout.loaded_states, params.n_states)
        moments, cross_products = moments[:, regressors[:, None], regressors], cross_products[:, regressors]
    if has_loading is not None and not has_loading.all():
        # Equations of fixed loadings are replaced by "change = 0".
        excluded = ~np.column_stack([has_loading, np.ones(len(has_loading), dtype=bool)])
        identity = np.eye(excluded.shape[1])
        moments = np.where(excluded[:, :, None] | excluded[:, None, :], identity, moments)
        cross_products = np.where(excluded, 0.0, cross_products)
    # Regressors are scaled, because moments of trends are larger by orders of magnitude.
    scale = np.sqrt(np.maximum(np.diagonal(moments, axis1=1, axis2=2), np.finfo(np.float64).tiny))
    scaled = moments / (scale[:, :, None] * scale[:, None, :])
    change = np.linalg.solve(scaled, (cross_products / scale)[:, :, None])[:, :, 0] / scale
    power = stats.residual_power - np.einsum("di,di->d", change, cross_products)
    variance = noise.maximized(params.noise_variance, stats.counts, power)
    return params.nonzero_loadings + change[:, :-1], params.offset + change[:, -1], variance


def fit_em(
    evaluate: CountedEStep,
    start: StateSpace,
    noise: Noise,
    tol: float,
    stats: Statistics | None = None,
    has_loading: BoolArray | None = None,
) -> FitResult:
    """Maximize the likelihood by EM from ``start``.

    The algorithm ends when the predicted remaining gain is below ``tol`` nats. The prediction is the sum of a
    geometric series, because EM converges linearly. The convergence is slow if the noise is small.

    Parameters
    ----------
    evaluate : CountedEStep
        Expected statistics, with a limited number of evaluations.
    start : StateSpace
        Initial parameters.
    noise : Noise
        Constraints and prior of the noise variances.
    tol : float
        Predicted remaining gain at which to stop, in nats.
    stats : Statistics, optional
        The statistics at ``start``, if they are already computed.
    has_loading : ndarray of bool of shape (D, n_loaded_states), optional
        Mask of free loadings, as in :func:`maximize`.

    Returns
    -------
    FitResult
    """
    gaps = evaluate.panel.gaps
    params, history = start, []
    status: Status = "max_iter"
    gain, n_converged = np.inf, 0
    rates: deque[float] = deque([1.0], maxlen=_N_CONVERGED_STEPS)
    try:
        stats = evaluate(params) if stats is None else stats
        history.append(stats.log_likelihood)
        while not evaluate.exhausted:
            proposal = maximize(params, stats, noise, gaps, has_loading, evaluate.limits)
            proposed = evaluate(proposal)
            previous_gain, gain = gain, proposed.log_likelihood - stats.log_likelihood
            rounding = rounding_error(stats.log_likelihood, evaluate.panel.n_rows)
            if gain <= rounding:
                status = "flat" if gain >= -rounding else "stalled"
                break
            params, stats = proposal, proposed
            history.append(stats.log_likelihood)
            rates.append(gain / previous_gain if np.isfinite(previous_gain) else 1.0)
            # The gains of the first steps decrease fast, because only some directions converge fast. The
            # prediction therefore uses the slowest recent rate, and several successive predictions must be
            # below the tolerance.
            rate = max(rates)
            n_converged = n_converged + 1 if rate < 1.0 and gain * rate / (1.0 - rate) < tol else 0
            if n_converged >= _N_CONVERGED_STEPS:
                status = "converged"
                break
    except KeyboardInterrupt:
        status = "interrupted"
    return FitResult(params, history[-1] if history else -np.inf, tuple(history), evaluate.count, status)


def warm_up(
    evaluate: CountedEStep,
    params: StateSpace,
    stats: Statistics,
    noise: Noise,
    max_steps: int,
    min_gain: float,
    has_loading: BoolArray | None = None,
) -> tuple[StateSpace, Statistics]:
    """Take up to ``max_steps`` EM steps; end after a step with a gain of less than ``min_gain`` nats.

    The first EM steps are efficient far from the optimum, in particular with missing values.

    Parameters
    ----------
    evaluate : CountedEStep
        Expected statistics, with a limited number of evaluations.
    params : StateSpace
        Initial parameters.
    stats : Statistics
        Expected statistics at ``params``.
    noise : Noise
        Constraints and prior of the noise variances.
    max_steps : int
        Maximum number of steps.
    min_gain : float
        Gain of a step, in nats, below which the steps end.
    has_loading : ndarray of bool of shape (D, n_loaded_states), optional
        Mask of free loadings, as in :func:`maximize`.

    Returns
    -------
    params : StateSpace
        The best parameters of the steps taken.
    stats : Statistics
        Expected statistics at ``params``.
    """
    for _ in range(max_steps):
        if evaluate.exhausted:
            break
        proposal = maximize(params, stats, noise, evaluate.panel.gaps, has_loading, evaluate.limits)
        proposed = evaluate(proposal)
        gain = proposed.log_likelihood - stats.log_likelihood
        if not gain > 0.0:
            break
        params, stats = proposal, proposed
        if gain < min_gain:
            break
    return params, stats


# ------------------------------------------------------------------------------------------- Monte Carlo EM

# Monte Carlo EM for AR(1) noise of many columns, with that noise integrated out.
#
# Only the factors are latent variables of this EM algorithm. The AR(1) noise of column ``d`` is part of
# the noise covariance ``S_d`` (T, T) of the column (:mod:`~probsfa.statespace.engine.idiosyncratic`). With
# the posterior means ``m`` (T, K) of the factors, draws ``e`` (T, K) of their deviations from the means, and
# the loadings ``C_d`` (K,), the expected complete-data log-likelihood is
#
#     sum_d log N(x_d - mu_d - m C_d; 0, S_d) - 1/2 mean_e (e C_d)' S_d^-1 (e C_d)  +  E log p(z).
#
# It is maximized in blocks (expectation conditional maximization, Meng & Rubin 1993): decays of the factors
# in closed form, loadings and offsets by generalized least squares, and the three parameters of the noise of
# each column by Fisher scoring. Scoring steps that lower the density are rejected. All iterations use the
# same random numbers, so that they converge (Levine & Casella 2001). Means are exact. Only sums over all rows
# depend on draws, and one draw of thousands of rows is sufficient for these sums.
#
# Meng, X.-L. & Rubin, D. B. (1993). Maximum likelihood estimation via the ECM algorithm: a general framework.
# Biometrika 80, 267-278.
# Levine, R. A. & Casella, G. (2001). Implementations of the Monte Carlo EM algorithm. Journal of
# Computational and Graphical Statistics 10, 422-439.

# Numbers for each EM iteration: conjugate gradient iterations for loadings and offsets, and scoring steps for
# the noise.
_N_REGRESSION_ITERATIONS, _N_SCORING_STEPS = 3, 2
# Initial AR(1) noise: its share of the noise variance, and its decay.
_INITIAL_AR1_SHARE, _INITIAL_DECAY = 0.5, 0.8
# Ranges of AR(1) noise of standardized columns: its variance, and the absolute atanh of its decay.
_MIN_VARIANCE, _MAX_VARIANCE, _MAX_ATANH_DECAY = 1e-8, 1e2, 6.5
# Minimum number of rows times draws; sums over rows then have Monte Carlo errors of 1 to 2 percent.
_N_DRAWN_ROWS = 3000
# Tolerance of posterior means during the fit, in posterior standard deviations.
_MEAN_TOL = 1e-2
# EM ends at a gain below this number of nats per free parameter, because Monte Carlo errors are larger than
# such a gain.
_TOL_PER_PARAMETER = 5e-3
# Largest scoring step in each coordinate.
_MAX_STEP = 1.5
# Frequencies at which the integrand of the expected information of the noise is evaluated.
_FREQUENCIES = np.concatenate([np.geomspace(1e-4, 1e-2, 24, endpoint=False), np.linspace(1e-2, np.pi, 160)])


def with_ar1_noise(params: StateSpace) -> StateSpace:
    """Return the model with half of the white noise of each column replaced by AR(1) noise."""
    return params.replace(
        noise_variance=(1.0 - _INITIAL_AR1_SHARE) * params.noise_variance,
        noise_decay=np.full(params.n_features, _INITIAL_DECAY),
        noise_scale=np.sqrt(_INITIAL_AR1_SHARE * params.noise_variance),
    )


class EMIteration:
    """E-step and M-step of Monte Carlo EM, with the current parameters and draws.

    Parameters
    ----------
    panel : Panel
        Packed observations, standardized.
    params : StateSpace
        Initial parameters, with AR(1) noise.
    noise : Noise
        Lower bounds and prior of the variances of white noise.
    n_draws : int, optional
        Number of draws of the factors. By default rows times draws are at least 3000.

    Attributes
    ----------
    params : StateSpace
        Current parameters.
    system : FactorSystem
        Linear system of the posterior of the factors at the last E-step.
    means : ndarray of shape (T, K)
        Posterior means of the factors at the last E-step.
    deviations : ndarray of shape (n_draws, T, K)
        Draws of the deviations of the factors from the means.
    """

    def __init__(self, panel: Panel, params: StateSpace, noise: Noise, n_draws: int | None = None) -> None:
        self.panel, self.params, self.noise = panel, params, noise
        self.steps = Steps.of(panel)
        self.n_draws = n_draws or -(-_N_DRAWN_ROWS // panel.n_rows)
        self._values = np.ascontiguousarray(panel.values[: panel.n_rows].T)
        self._observed = (self.steps.weights > 0.0).astype(np.float64)
        self._counts = self._observed.sum(axis=1)
        # Parameters of the noise of each column that are estimated: white noise may have known variances.
        self._free = np.array([True, noise.variances.n_free > 0, True])
        self._solutions: FloatArray | None = None
        # An expected product is the product of the means plus the average of products of the deviations.
        self._shares = np.append(1.0, np.full(self.n_draws, 1.0 / self.n_draws))
        self._damping = np.full(params.n_features, 1e-2)

    def centred(self) -> FloatArray:
        """Return the observed values minus the offset (D, T), zero where missing."""
        return np.asarray((self._values - self.params.offset[:, None]) * self._observed)

    def expect(self) -> None:
        """E-step: compute posterior means and draws of the factors.

        To draw deviations from the means, factors and observations are simulated from the model, and the
        posterior means given the simulated observations are subtracted from the simulated factors.
        """
        self.system = FactorSystem(self.params, self.steps)
        factors, _, values = self.system.simulate(np.random.default_rng(0), self.n_draws)
        right = self.system.information(np.concatenate([self.centred()[None], values]))
        solution = self.system.solve(right, self._solutions, tol=_MEAN_TOL)
        self._solutions = solution.values
        self.means, self.deviations = solution.values[0], factors - solution.values[1:]

    def maximize(self) -> float:
        """M-step in blocks; return the gain in nats, a lower bound that excludes the gain of the decays."""
        decay = self._maximize_decays()
        gain = self._regress() + self._score_noise()
        self.params = self.params.replace(decay=decay)
        return gain

    @property
    def _factors(self) -> FloatArray:
        """Posterior means and deviations from them, (1 + n_draws, T, K)."""
        return np.concatenate([self.means[None], self.deviations])

    def _maximize_decays(self) -> FloatArray:
        """Return the decays of the factors that maximize their expected log density."""
        factors, has_previous = self._factors, self.steps.has_previous[1:]
        previous = factors[:, :-1]
        innovations = factors[:, 1:] - self.system.decays.T[1:] * previous
        index = self.panel.gap_index[1 : self.panel.n_rows]
        n_gaps = self.panel.gaps.size
        has_gap = (index == np.arange(n_gaps)[:, None]).astype(np.float64)

        def expected_sum(left: FloatArray, right: FloatArray) -> FloatArray:
            return np.asarray(has_gap @ np.einsum("r,rtk,rtk->tk", self._shares, left, right))

        empty = np.zeros(0)
        stats = Statistics(
            *(0.0, empty, empty, empty, empty, empty),
            transitions=np.bincount(index[has_previous], minlength=n_gaps).astype(np.float64),
            innovation_power=expected_sum(innovations, innovations),
            innovation_moments=expected_sum(innovations, previous),
            previous_power=expected_sum(previous, previous),
        )
        factors_only = self.params.replace(noise_decay=empty, noise_scale=empty)
        return maximize_dynamics(factors_only, stats, self.panel.gaps).decay

    def _regress(self) -> float:
        """Change loadings and offsets towards their generalized least squares estimates; return the gain.

        The normal equations of each column are solved by a few preconditioned conjugate gradient iterations.
        """
        params, noise, shares = self.params, self.system.noise, self._shares[:, None, None]
        ones = np.zeros((1 + self.n_draws, self.panel.n_rows, 1))
        ones[0] = 1.0
        regressors = np.concatenate([self._factors, ones], axis=2)

        def weighted_moments(values: FloatArray) -> FloatArray:
            """Return expected ``X' S_d^-1 y`` (D, K + 1) of regressors ``X`` and values ``y`` (R, D, T)."""
            return np.asarray(np.sum(shares * (noise.solve(values) @ regressors), axis=0))

        def fitted_values(coefficients: FloatArray) -> FloatArray:
            return self._observed * (coefficients @ regressors.swapaxes(1, 2))

        errors = -fitted_values(np.column_stack([params.loadings, np.zeros(params.n_features)]))
        errors[0] += self.centred()
        residual = weighted_moments(errors)
        cholesky = np.asarray(np.linalg.cholesky(self._preconditioners(regressors)), np.float64)
        change, direction = np.zeros_like(residual), np.zeros_like(residual)
        previous_norm = np.full(len(residual), np.inf)
        gain = 0.0
        for _ in range(_N_REGRESSION_ITERATIONS):
            preconditioned = _solve_with(cholesky, residual)
            norm = np.sum(residual * preconditioned, axis=1)
            direction = preconditioned + (norm / previous_norm)[:, None] * direction
            product = weighted_moments(fitted_values(direction))
            curvature = np.sum(direction * product, axis=1)
            step = np.where(curvature > 0.0, norm / np.where(curvature > 0.0, curvature, 1.0), 0.0)
            change += step[:, None] * direction
            residual -= step[:, None] * product
            gain += 0.5 * float(np.sum(step * norm))
            previous_norm = np.where(norm > 0.0, norm, 1.0)
        self.params = params.replace(
            loadings=params.loadings + change[:, :-1], offset=params.offset + change[:, -1]
        )
        return gain

    def _preconditioners(self, regressors: FloatArray) -> FloatArray:
        """Return approximate matrices of the normal equations (D, K + 1, K + 1).

        ``S_d^-1`` is replaced by a tridiagonal matrix.
        """
        diagonal, off_diagonal = self.system.noise.markov_precision()
        n, m = regressors.shape[1:]
        same_row = np.einsum("r,rti,rtj->tij", self._shares, regressors, regressors).reshape(n, m * m)
        adjacent_rows = np.einsum("r,rti,rtj->tij", self._shares, regressors[:, 1:], regressors[:, :-1])
        adjacent_rows = (adjacent_rows + adjacent_rows.swapaxes(1, 2)).reshape(n - 1, m * m)
        matrices = (diagonal @ same_row + off_diagonal[:, 1:] @ adjacent_rows).reshape(-1, m, m)
        # A ridge is added, because factors may be linearly dependent.
        entries = np.arange(m)
        matrices[:, entries, entries] *= 1.0 + 1e-10
        matrices[:, entries, entries] += 1e-10
        return np.asarray(matrices)

    def _score_noise(self) -> float:
        """Take damped Fisher scoring steps of the noise of each column; return the gain."""
        residuals = -self._observed * self.system.effects(self._factors)
        residuals[0] += self.centred()
        params, noise = self.params, ColumnNoise(self.params, self.steps)
        value, gain = self._expected_density(params, noise, residuals), 0.0
        for _ in range(_N_SCORING_STEPS):
            score = self._noise_score(params, noise, residuals)
            information = _noise_information(params) * self._counts[:, None, None]
            information *= self._free[:, None] & self._free
            score *= self._free
            entries = np.arange(3)
            information[:, entries, entries] *= 1.0 + self._damping[:, None]
            information[:, entries, entries] += 1.0
            step = np.linalg.solve(information, score[:, :, None])[:, :, 0]
            proposed = _noise_after_step(params, np.clip(step, -_MAX_STEP, _MAX_STEP), self.noise)
            if not self.panel.evenly_sampled:
                proposed = proposed.replace(noise_decay=np.maximum(proposed.noise_decay, 1e-6))
            proposed_noise = ColumnNoise(proposed, self.steps)
            proposed_value = self._expected_density(proposed, proposed_noise, residuals)
            accepted = proposed_value >= value
            gain += float(np.sum(np.where(accepted, proposed_value - value, 0.0)))
            self._damping = np.clip(np.where(accepted, 0.25, 10.0) * self._damping, 1e-4, 1e6)
            params = _select_noise(accepted, proposed, params)
            value = np.where(accepted, proposed_value, value)
            noise = proposed_noise if accepted.all() else ColumnNoise(params, self.steps)
        self.params = params
        return gain

    def _expected_density(self, params: StateSpace, noise: ColumnNoise, residuals: FloatArray) -> FloatArray:
        """Return the expected log density of each column (D,) given the factors, plus the log prior.

        Constants are omitted.
        """
        power = np.einsum("r,rdt,rdt->d", self._shares, noise.solve(residuals), residuals)
        prior = np.log1p(self.noise.prior / params.noise_variance)
        return np.asarray(-0.5 * (noise.log_determinant + power) - prior)

    def _noise_score(self, params: StateSpace, noise: ColumnNoise, residuals: FloatArray) -> FloatArray:
        """Return the score (D, 3) with respect to ``log s^2``, ``log r`` and ``atanh b``.

        The score is computed by Fisher's identity. ``s`` and ``b`` are standard deviation and decay of AR(1)
        noise, ``r`` is the variance of white noise.
        """
        processes = noise.smooth(residuals)
        variances, lag_one_covariances = noise.moments

        def expected(left: FloatArray, right: FloatArray) -> FloatArray:
            return np.asarray(np.einsum("r,rdt,rdt->dt", self._shares, left, right))

        white, weights = residuals - noise.scale * processes, self.steps.weights
        cross_power = np.sum(weights * (expected(white, processes) - noise.scale * variances), axis=1)
        white_power = np.sum(weights * (expected(white, white) + noise.scale**2 * variances), axis=1)
        by_scale = 0.5 * params.noise_scale * cross_power / params.noise_variance
        prior_gradient = self.noise.prior / (params.noise_variance + self.noise.prior)
        by_noise = 0.5 * (white_power / params.noise_variance - self._counts) + prior_gradient
        second_moments = expected(processes, processes) + variances
        previous, current = second_moments[:, :-1], second_moments[:, 1:]
        cross = expected(processes[:, :, 1:], processes[:, :, :-1]) + lag_one_covariances[:, 1:]
        decay = noise.decays[:, 1:]
        variance = 1.0 - decay**2
        innovation_power = current - 2.0 * decay * cross + decay**2 * previous
        by_step_decay = (decay + cross - decay * previous - decay * innovation_power / variance) / variance
        by_decay = np.sum(by_step_decay * self._decay_derivatives(params.noise_decay), axis=1)
        return np.stack([by_scale, by_noise, by_decay * (1.0 - params.noise_decay**2)], axis=1)

    def _decay_derivatives(self, decay: FloatArray) -> FloatArray:
        """Differentiate the decay over each time step with respect to the unit-time decay: (D, T - 1)."""
        has_previous = self.steps.has_previous[1:]
        if self.panel.evenly_sampled:
            return has_previous.astype(np.float64)[None]
        elapsed = np.where(has_previous, self.steps.elapsed[1:], 1.0)
        return np.where(has_previous, elapsed * decay[:, None] ** (elapsed - 1.0), 0.0)


def _solve_with(cholesky: FloatArray, right: FloatArray) -> FloatArray:
    """Solve linear systems with right-hand sides (D, m), given Cholesky factors (D, m, m) of the matrices."""
    half = np.linalg.solve(cholesky, right[:, :, None])
    return np.asarray(np.linalg.solve(cholesky.swapaxes(1, 2), half)[:, :, 0])


def _noise_information(params: StateSpace) -> FloatArray:
    """Return the expected information (D, 3, 3) of one value on the parameters of the noise (Whittle 1953).

    For the parameters see :meth:`EMIteration._noise_score`.
    """
    decay, cosine = params.noise_decay[:, None], np.cos(_FREQUENCIES)
    unit_spectrum = (1.0 - decay**2) / (1.0 - 2.0 * decay * cosine + decay**2)
    ar1_spectrum = params.noise_scale[:, None] ** 2 * unit_spectrum
    # Derivative of the log spectrum of a unit-variance process with respect to atanh of its decay.
    by_decay = -2.0 * decay + 2.0 * (cosine - decay) * unit_spectrum
    ar1_share = ar1_spectrum / (ar1_spectrum + params.noise_variance[:, None])
    derivatives = np.stack([ar1_share, 1.0 - ar1_share, by_decay * ar1_share])
    weights = np.gradient(_FREQUENCIES) / np.pi
    return np.asarray(0.5 * np.einsum("idw,jdw,w->dij", derivatives, derivatives, weights))


def _noise_after_step(params: StateSpace, step: FloatArray, noise: Noise) -> StateSpace:
    """Apply a step (D, 3) to the parameters of the noise, within their ranges."""
    variance = np.clip(params.noise_scale**2 * np.exp(step[:, 0]), _MIN_VARIANCE, _MAX_VARIANCE)
    white = np.maximum(params.noise_variance * np.exp(step[:, 1]), noise.floor)
    atanh = np.clip(np.arctanh(params.noise_decay) + step[:, 2], -_MAX_ATANH_DECAY, _MAX_ATANH_DECAY)
    return params.replace(noise_scale=np.sqrt(variance), noise_variance=white, noise_decay=np.tanh(atanh))


def _select_noise(is_first: BoolArray, first: StateSpace, second: StateSpace) -> StateSpace:
    """Return the first parameters, with the noise of the second in columns where `is_first` is False."""
    names = ("noise_scale", "noise_variance", "noise_decay")
    return first.replace(
        **{name: np.where(is_first, getattr(first, name), getattr(second, name)) for name in names}
    )


def monte_carlo_tolerance(params: StateSpace) -> float:
    """Return the size of Monte Carlo errors, in nats; smaller gains are not significant."""
    return _TOL_PER_PARAMETER * (params.n_components * (params.n_features + 1) + 4 * params.n_features)


def fit_monte_carlo_em(
    panel: Panel,
    start: StateSpace,
    noise: Noise,
    *,
    max_iter: int,
    tol: float,
) -> FitResult:
    """Maximize the likelihood with AR(1) noise of all columns by Monte Carlo EM.

    Parameters
    ----------
    panel : Panel
        Packed observations, each column with mean near zero and variance near one.
    start : StateSpace
        Initial parameters. AR(1) noise is added if the noise is white.
    noise : Noise
        Lower bounds and prior of the variances of white noise.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Predicted remaining gain, in nats, below which the fit ends.

    Returns
    -------
    FitResult
        The log-likelihood is an estimate (:meth:`.FactorSystem.log_determinant`). Entries of the history are
        this estimate minus the gains of all later M-steps; a gain is a lower bound of the increase of the
        log-likelihood.
    """
    if not start.has_ar1_noise:
        start = with_ar1_noise(start)
    start = start.replace(noise_variance=np.maximum(start.noise_variance, noise.floor))
    tol = max(tol, monte_carlo_tolerance(start))
    gains: list[float] = []
    status: Status = "max_iter"
    with one_blas_thread():
        iteration = EMIteration(panel, start, noise)
        iteration.expect()
        try:
            while len(gains) < max_iter:
                gains.append(iteration.maximize())
                iteration.expect()
                if _predicted_gain(gains) < tol:
                    status = "converged"
                    break
        except KeyboardInterrupt:
            status = "interrupted"
            iteration.expect()
        value = estimate_log_likelihood(iteration)
    later_gains = np.append(np.cumsum(gains[::-1])[::-1], 0.0)
    history = tuple(value - float(later) for later in later_gains)
    return FitResult(iteration.params, value, history, len(gains) + 1, status)


def _predicted_gain(gains: list[float]) -> float:
    """Predict the sum of further gains as a geometric series; infinite if there are fewer than two gains."""
    if len(gains) < 2:
        return np.inf
    rate = np.clip(gains[-1] / max(gains[-2], 1e-300), 0.5, 0.95)
    return float(gains[-1] * rate / (1.0 - rate))


def estimate_log_likelihood(iteration: EMIteration) -> float:
    """Estimate the log-likelihood at the parameters of the last E-step."""
    system = iteration.system
    determinant, _ = system.log_determinant(4, tol=3e-2)
    return system.log_likelihood(iteration.centred(), iteration.means, determinant)
