"""Expectation maximisation with the exact M-step, and Monte Carlo EM for AR(1) noise of many columns.

The expected complete-data log-likelihood is the sum of a term for the dynamics and a term for the
observations. The latter is a regression of each column on ``(z, 1)`` over the rows in which it is observed;
of the AR(1) noise processes, only that of the column is a regressor. With the stationary variance fixed at
one, the decay of an AR(1) process solves a cubic equation (:func:`.ar1.cubic_decay`).
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

# Number of successive steps whose expected remaining gain must be below the tolerance.
_N_CONVERGED_STEPS = 5


def maximize(
    params: StateSpace,
    stats: Statistics,
    noise: Noise,
    gaps: FloatArray,
    has_loading: BoolArray | None = None,
    limits: Limits | None = None,
) -> StateSpace:
    """M-step: maximise the expected complete-data log-likelihood plus the log prior of the noise.

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
    has_loading : ndarray of bool of shape (D, n_seen), optional
        Which loadings are learned; the others are zero. By default all are learned.
    limits : Limits, optional
        Fixed parameters and ranges of frequencies, of all states.

    Returns
    -------
    params : StateSpace
    """
    if limits is not None and limits.any_fixed:
        free = np.isnan(limits.loadings[:, params.latents.seen])
        has_loading = free if has_loading is None else has_loading & free
    loadings, offset, variance = _maximize_observations(params, stats, noise, has_loading)
    changed = maximize_dynamics(params, stats, gaps, limits).with_seen_loadings(loadings)
    return changed.replace(noise_variance=variance, offset=offset)


def _maximize_observations(
    params: StateSpace, stats: Statistics, noise: Noise, has_loading: BoolArray | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    # The statistics hold residuals, so the regression gives the change of (C, mu).
    moments, cross_products = stats.latent_moments, stats.residual_moments
    latents = params.latents
    if latents.n_seen < latents.n_states:
        regressors = np.append(latents.seen, params.n_states)
        moments, cross_products = moments[:, regressors[:, None], regressors], cross_products[:, regressors]
    if has_loading is not None and not has_loading.all():
        # An identity equation sets the change of loadings that are not learned to zero.
        differences = ~np.column_stack([has_loading, np.ones(len(has_loading), dtype=bool)])
        moments = np.where(
            differences[:, :, None] | differences[:, None, :], np.eye(differences.shape[1]), moments
        )
        cross_products = np.where(differences, 0.0, cross_products)
    # In units of the states, because the moments of trends differ from others by orders of magnitude.
    size = np.sqrt(np.maximum(np.diagonal(moments, axis1=1, axis2=2), np.finfo(np.float64).tiny))
    scaled = moments / (size[:, :, None] * size[:, None, :])
    change = np.linalg.solve(scaled, (cross_products / size)[:, :, None])[:, :, 0] / size
    power = stats.residual_power - np.einsum("di,di->d", change, cross_products)
    variance = noise.maximized(params.noise_variance, stats.counts, power)
    return params.seen_loadings + change[:, :-1], params.offset + change[:, -1], variance


def fit_em(
    evaluate: CountedEStep,
    start: StateSpace,
    noise: Noise,
    tol: float,
    stats: Statistics | None = None,
    has_loading: BoolArray | None = None,
) -> FitResult:
    """Run plain EM from ``start``.

    It stops when the expected remaining gain is below ``tol`` nats. EM converges linearly, with a rate near
    one if the noise is small; the remaining gain is therefore extrapolated by a geometric series.

    Parameters
    ----------
    evaluate : CountedEStep
        Expected statistics, with a limited number of evaluations.
    start : StateSpace
        Initial parameters.
    noise : Noise
        Constraints and prior of the noise variances.
    tol : float
        Expected remaining gain at which to stop, in nats.
    stats : Statistics, optional
        The statistics at ``start``, if they are known.
    has_loading : ndarray of bool of shape (D, n_seen), optional
        Which loadings are learned, as in :func:`maximize`.

    Returns
    -------
    FitResult
    """
    gaps = evaluate.panel.gaps
    params, history = start, []
    status: Status = "max_iter"
    gain, promising = np.inf, 0
    rates: deque[float] = deque([1.0], maxlen=_N_CONVERGED_STEPS)
    try:
        stats = evaluate(params) if stats is None else stats
        history.append(stats.log_likelihood)
        while not evaluate.exhausted:
            proposal = maximize(params, stats, noise, gaps, has_loading, evaluate.limits)
            proposed = evaluate(proposal)
            previous_gain, gain = gain, proposed.log_likelihood - stats.log_likelihood
            noise_level = rounding_error(stats.log_likelihood, evaluate.panel.n_rows)
            if gain <= noise_level:
                status = "flat" if gain >= -noise_level else "stalled"
                break
            params, stats = proposal, proposed
            history.append(stats.log_likelihood)
            rates.append(gain / previous_gain if np.isfinite(previous_gain) else 1.0)
            # In the first steps only the fast directions converge: use the slowest recent rate, and require
            # several successive steps that meet the tolerance.
            rate = max(rates)
            promising = promising + 1 if rate < 1.0 and gain * rate / (1.0 - rate) < tol else 0
            if promising >= _N_CONVERGED_STEPS:
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
    """Take up to ``max_steps`` EM steps, as long as each gains more than ``min_gain`` nats.

    Far from the optimum, and with missing values, the first EM steps are efficient.

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
        Gain of a step below which to stop, in nats.
    has_loading : ndarray of bool of shape (D, n_seen), optional
        Which loadings are learned, as in :func:`maximize`.

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
# Only the factors are hidden variables of this EM algorithm; the AR(1) noise of a column is part of its
# noise covariance ``S_d`` (:mod:`~probsfa.statespace.engine.idiosyncratic`). With the posterior mean ``m`` of
# the factors and draws ``e`` of their deviation from it, the expected log density is
#
#     sum_d log N(x_d - mu_d - m C_d; 0, S_d) - 1/2 mean_e (e C_d)' S_d^-1 (e C_d)  +  E log p(z),
#
# which is maximized in blocks (expectation conditional maximisation, Meng & Rubin 1993): decays of the
# factors in closed form, loadings and offsets by generalised least squares, and the three parameters of the
# noise of each column by scoring steps. Scoring steps that lower the density are rejected, so that no block
# lowers it.  All iterations use the same random numbers, so that they converge. Means are exact; draws are
# used only in sums over all rows, for which one draw of thousands of rows is sufficient.  References
# ---------- Meng, X.-L. & Rubin, D. B. (1993). Maximum likelihood estimation via the ECM algorithm: a general
# framework. Biometrika 80, 267-278. Levine, R. A. & Casella, G. (2001). Implementations of the Monte Carlo EM
# algorithm. Journal of Computational and Graphical Statistics 10, 422-439.

# Conjugate gradient iterations of the regressions, and scoring steps of the noise, in each iteration of EM.
_N_REGRESSION_ITERATIONS, _N_SCORING_STEPS = 3, 2
# Initial fraction of the white noise that becomes AR(1) noise, and its initial decay.
_INITIAL_AR1_SHARE, _INITIAL_DECAY = 0.5, 0.8
# Ranges of the noise: variances of AR(1) noise, in variances of a column, and atanh of decays.
_MIN_VARIANCE, _MAX_VARIANCE, _MAX_ATANH_DECAY = 1e-8, 1e2, 6.5
# Largest scoring step, in each coordinate.
_MAX_STEP = 1.5
# Frequencies on which the expected information of the noise is computed.
_FREQUENCIES = np.concatenate([np.geomspace(1e-4, 1e-2, 24, endpoint=False), np.linspace(1e-2, np.pi, 160)])


def with_ar1_noise(params: StateSpace) -> StateSpace:
    """Return the model with half of each column's white noise as AR(1) noise."""
    return params.replace(
        noise_variance=(1.0 - _INITIAL_AR1_SHARE) * params.noise_variance,
        memory_decay=np.full(params.n_features, _INITIAL_DECAY),
        memory_scale=np.sqrt(_INITIAL_AR1_SHARE * params.noise_variance),
    )


class EMIteration:
    """State and steps of Monte Carlo EM.

    Parameters
    ----------
    panel : Panel
        Packed observations, standardised.
    params : StateSpace
        Initial values, with AR(1) noise.
    noise : Noise
        Floor and prior of the variances of white noise.
    n_draws : int, optional
        Number of draws of the factors; by default enough for 3000 rows times draws.

    Attributes
    ----------
    params : StateSpace
        Current parameters.
    system : FactorSystem
        The system of the last E-step.
    means : ndarray of shape (T, K)
        Posterior means of the factors at the last E-step.
    deviations : ndarray of shape (n_draws, T, K)
        Draws of their deviations from the means.
    """

    def __init__(self, panel: Panel, params: StateSpace, noise: Noise, n_draws: int | None = None) -> None:
        self.panel, self.params, self.noise = panel, params, noise
        self.steps = Steps.of(panel)
        # Number of rows times draws for which sums have an error of 1 to 2 percent.
        self.n_draws = n_draws or -(-3000 // panel.n_rows)
        self._values = np.ascontiguousarray(panel.values[: panel.n_rows].T)
        self._seen = self.steps.weights
        self._counts = self._seen.sum(axis=1)
        self._solutions: FloatArray | None = None
        # Weights of the mean and of the draws in expectations.
        self._shares = np.append(1.0, np.full(self.n_draws, 1.0 / self.n_draws))
        self._damping = np.full(params.n_features, 1e-2)

    def centred(self) -> FloatArray:
        """Return the observed values less the offset (D, T), zero where missing."""
        return np.asarray((self._values - self.params.offset[:, None]) * self._seen)

    def expect(self) -> None:
        """E-step: posterior means and draws of the factors."""
        self.system = FactorSystem(self.params, self.steps)
        factors, _, values = self.system.simulate(np.random.default_rng(0), self.n_draws)
        right = self.system.information(np.concatenate([self.centred()[None], values]))
        # Error of posterior means during the fit, in posterior standard deviations.
        found = self.system.solve(right, self._solutions, tol=1e-2)
        self._solutions = found.values
        self.means, self.deviations = found.values[0], factors - found.values[1:]

    def maximize(self) -> float:
        """M-step in blocks; return the increase of expected log density plus prior, in nats."""
        decay = self._best_decays()
        gain = self._regress() + self._score_noise()
        self.params = self.params.replace(decay=decay)
        return gain

    @property
    def _factors(self) -> FloatArray:
        """Means and deviations (1 + n_draws, T, K)."""
        return np.concatenate([self.means[None], self.deviations])

    def _best_decays(self) -> FloatArray:
        """Return the decays of the factors that maximize their expected log density."""
        factors, inside = self._factors, self.steps.inside[1:]
        previous = factors[:, :-1]
        innovations = factors[:, 1:] - self.system.decays.T[1:] * previous
        index = self.panel.gap_index[1 : self.panel.n_rows]
        n_gaps = self.panel.gaps.size
        of_gap = (index == np.arange(n_gaps)[:, None]).astype(np.float64)

        def total(left: FloatArray, right: FloatArray) -> FloatArray:
            return np.asarray(of_gap @ np.einsum("r,rtk,rtk->tk", self._shares, left, right))

        none = np.zeros(0)
        sums = Statistics(
            *(0.0, none, none, none, none, none),
            transitions=np.bincount(index[inside], minlength=n_gaps).astype(np.float64),
            innovation_power=total(innovations, innovations),
            innovation_moments=total(innovations, previous),
            previous_power=total(previous, previous),
        )
        alone = self.params.replace(memory_decay=none, memory_scale=none)
        return maximize_dynamics(alone, sums, self.panel.gaps).decay

    def _regress(self) -> float:
        """Move loadings and offsets towards their generalised least squares estimates; return the gain."""
        params, noise, shares = self.params, self.system.noise, self._shares[:, None, None]
        ones = np.zeros((1 + self.n_draws, self.panel.n_rows, 1))
        ones[0] = 1.0
        regressors = np.concatenate([self._factors, ones], axis=2)

        def against(values: FloatArray) -> FloatArray:
            """Sums (D, K + 1) of regressors times values (R, D, T) after multiplication by ``S_d^-1``."""
            return np.asarray(np.sum(shares * (noise.solve(values) @ regressors), axis=0))

        def fitted(coefficients: FloatArray) -> FloatArray:
            return self._seen * (coefficients @ regressors.swapaxes(1, 2))

        left = -fitted(np.column_stack([params.loadings, np.zeros(params.n_features)]))
        left[0] += self.centred()
        residual = against(left)
        root = np.asarray(np.linalg.cholesky(self._normal_matrices(regressors)), np.float64)
        change, direction, last = np.zeros_like(residual), np.zeros_like(residual), np.ones(len(residual))
        gain = 0.0
        for i in range(_N_REGRESSION_ITERATIONS):
            scaled = _solve_with(root, residual)
            power = np.sum(residual * scaled, axis=1)
            direction = scaled + (power / last if i else np.zeros_like(power))[:, None] * direction
            image = against(fitted(direction))
            curvature = np.sum(direction * image, axis=1)
            step = np.where(curvature > 0.0, power / np.where(curvature > 0.0, curvature, 1.0), 0.0)
            change += step[:, None] * direction
            residual -= step[:, None] * image
            gain += 0.5 * float(np.sum(step * power))
            last = np.where(power > 0.0, power, 1.0)
        self.params = params.replace(
            loadings=params.loadings + change[:, :-1], offset=params.offset + change[:, -1]
        )
        return gain

    def _normal_matrices(self, regressors: FloatArray) -> FloatArray:
        """Normal matrices (D, K + 1, K + 1) of the regressions, with tridiagonal precisions of the noise."""
        diagonal, before = self.system.noise.markov_precision()
        n, m = regressors.shape[1:]
        here = np.einsum("r,rti,rtj->tij", self._shares, regressors, regressors).reshape(n, m * m)
        across = np.einsum("r,rti,rtj->tij", self._shares, regressors[:, 1:], regressors[:, :-1])
        across = (across + across.swapaxes(1, 2)).reshape(n - 1, m * m)
        matrices = (diagonal @ here + before[:, 1:] @ across).reshape(-1, m, m)
        each = np.arange(m)
        matrices[:, each, each] *= 1.0 + 1e-10
        matrices[:, each, each] += 1e-10
        return np.asarray(matrices)

    def _score_noise(self) -> float:
        """Take scoring steps of the noise of each column; return the gain."""
        residuals = -self._seen * self.system.common(self._factors)
        residuals[0] += self.centred()
        params, noise = self.params, ColumnNoise(self.params, self.steps)
        value, gain = self._expected_density(params, noise, residuals), 0.0
        for _ in range(_N_SCORING_STEPS):
            score = self._noise_score(params, noise, residuals)
            information = _noise_information(params) * self._counts[:, None, None]
            each = np.arange(3)
            information[:, each, each] *= 1.0 + self._damping[:, None]
            information[:, each, each] += 1.0
            step = np.linalg.solve(information, score[:, :, None])[:, :, 0]
            proposed = _moved(params, np.clip(step, -_MAX_STEP, _MAX_STEP), self.noise)
            if not self.panel.evenly_sampled:
                proposed = proposed.replace(memory_decay=np.maximum(proposed.memory_decay, 1e-6))
            of_proposed = ColumnNoise(proposed, self.steps)
            reached = self._expected_density(proposed, of_proposed, residuals)
            better = reached >= value
            gain += float(np.sum(np.where(better, reached - value, 0.0)))
            self._damping = np.clip(np.where(better, 0.25, 10.0) * self._damping, 1e-4, 1e6)
            params = _chosen(better, proposed, params)
            value = np.where(better, reached, value)
            noise = of_proposed if better.all() else ColumnNoise(params, self.steps)
        self.params = params
        return gain

    def _expected_density(self, params: StateSpace, noise: ColumnNoise, residuals: FloatArray) -> FloatArray:
        """Expected log density of each column (D,) given the factors, with the prior, up to a constant."""
        power = np.einsum("r,rdt,rdt->d", self._shares, noise.solve(residuals), residuals)
        prior = np.log1p(self.noise.prior / params.noise_variance)
        return np.asarray(-0.5 * (noise.log_determinant + power) - prior)

    def _noise_score(self, params: StateSpace, noise: ColumnNoise, residuals: FloatArray) -> FloatArray:
        """Score (D, 3) of log ``s^2``, log ``r`` and ``atanh b`` by Fisher's identity."""
        processes = noise.smooth(residuals)
        variances, lagged = noise.moments

        def expected(left: FloatArray, right: FloatArray) -> FloatArray:
            return np.asarray(np.einsum("r,rdt,rdt->dt", self._shares, left, right))

        white = residuals - noise.scale * processes
        with_process = np.sum(self._seen * (expected(white, processes) - noise.scale * variances), axis=1)
        power = np.sum(self._seen * (expected(white, white) + noise.scale**2 * variances), axis=1)
        by_scale = 0.5 * params.memory_scale * with_process / params.noise_variance
        slope = self.noise.prior / (params.noise_variance + self.noise.prior)
        by_noise = 0.5 * (power / params.noise_variance - self._counts) + slope
        second = expected(processes, processes) + variances
        previous, current = second[:, :-1], second[:, 1:]
        cross = expected(processes[:, :, 1:], processes[:, :, :-1]) + lagged[:, 1:]
        over = noise.decays[:, 1:]
        left = 1.0 - over**2
        innovation = current - 2.0 * over * cross + over**2 * previous
        by_transition = (over + cross - over * previous - over * innovation / left) / left
        by_decay = np.sum(by_transition * self._slopes(params.memory_decay), axis=1)
        return np.stack([by_scale, by_noise, by_decay * (1.0 - params.memory_decay**2)], axis=1)

    def _slopes(self, decay: FloatArray) -> FloatArray:
        """Derivatives (D, T - 1) of decays over each step by the decay over one unit of time."""
        inside = self.steps.inside[1:]
        if self.panel.evenly_sampled:
            return inside.astype(np.float64)[None]
        elapsed = np.where(inside, self.steps.elapsed[1:], 1.0)
        return np.where(inside, elapsed * decay[:, None] ** (elapsed - 1.0), 0.0)


def _solve_with(root: FloatArray, right: FloatArray) -> FloatArray:
    """Solve systems (D, m) by Cholesky factors (D, m, m) of their matrices."""
    half = np.linalg.solve(root, right[:, :, None])
    return np.asarray(np.linalg.solve(root.swapaxes(1, 2), half)[:, :, 0])


def _noise_information(params: StateSpace) -> FloatArray:
    """Expected information (D, 3, 3) of a value on log ``s^2``, log ``r`` and ``atanh b`` (Whittle 1953)."""
    decay, cosine = params.memory_decay[:, None], np.cos(_FREQUENCIES)
    ratio = (1.0 - decay**2) / (1.0 - 2.0 * decay * cosine + decay**2)
    own = params.memory_scale[:, None] ** 2 * ratio
    # Derivative of the log spectrum of a unit-variance process by atanh of its decay.
    by_decay = -2.0 * decay + 2.0 * (cosine - decay) * ratio
    total = own + params.noise_variance[:, None]
    slopes = np.stack([own / total, 1.0 - own / total, by_decay * own / total])
    weights = np.gradient(_FREQUENCIES) / np.pi
    return np.asarray(0.5 * np.einsum("idw,jdw,w->dij", slopes, slopes, weights))


def _moved(params: StateSpace, step: FloatArray, noise: Noise) -> StateSpace:
    """Apply a step (D, 3) to the parameters of the noise, within their ranges."""
    variance = np.clip(params.memory_scale**2 * np.exp(step[:, 0]), _MIN_VARIANCE, _MAX_VARIANCE)
    white = np.maximum(params.noise_variance * np.exp(step[:, 1]), noise.floor)
    angle = np.clip(np.arctanh(params.memory_decay) + step[:, 2], -_MAX_ATANH_DECAY, _MAX_ATANH_DECAY)
    return params.replace(memory_scale=np.sqrt(variance), noise_variance=white, memory_decay=np.tanh(angle))


def _chosen(where: BoolArray, first: StateSpace, second: StateSpace) -> StateSpace:
    """Return the first parameters with the noise of the second in columns where `where` is False."""
    names = ("memory_scale", "noise_variance", "memory_decay")
    return first.replace(
        **{name: np.where(where, getattr(first, name), getattr(second, name)) for name in names}
    )


def fit_monte_carlo_em(
    panel: Panel,
    start: StateSpace,
    noise: Noise,
    *,
    max_iter: int,
    tol: float,
) -> FitResult:
    """Maximize the likelihood with AR(1) noise of all columns, from initial values.

    Parameters
    ----------
    panel : Panel
        Packed observations, each column with mean near zero and variance near one.
    start : StateSpace
        Initial values; AR(1) noise is added to a model with white noise.
    noise : Noise
        Floor and prior of the variances of white noise.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Predicted remaining gain, in nats, below which the fit stops.

    Returns
    -------
    FitResult
        The log-likelihood is an estimate (:meth:`.FactorSystem.log_determinant`). The history is this
        estimate minus the gains of later M-steps, which are lower bounds of the increase of the
        log-likelihood.
    """
    if not start.has_ar1_noise:
        start = with_ar1_noise(start)
    start = start.replace(noise_variance=np.maximum(start.noise_variance, noise.floor))
    n_parameters = start.n_components * (start.n_features + 1) + 4 * start.n_features
    # Gain in nats per free parameter below which EM stops, because the error of the draws is larger.
    minimum = max(tol, 5e-3 * n_parameters)
    gains: list[float] = []
    status: Status = "max_iter"
    with one_blas_thread():
        iteration = EMIteration(panel, start, noise)
        iteration.expect()
        try:
            while len(gains) < max_iter:
                gains.append(iteration.maximize())
                iteration.expect()
                if _to_come(gains) < minimum:
                    status = "converged"
                    break
        except KeyboardInterrupt:
            status = "interrupted"
            iteration.expect()
        value = estimate_log_likelihood(iteration)
    history = tuple(value - float(rest) for rest in np.append(np.cumsum(gains[::-1])[::-1], 0.0))
    return FitResult(iteration.params, value, history, len(gains) + 1, status)


def _to_come(gains: list[float]) -> float:
    """Extrapolate the sum of further gains geometrically from the last two."""
    if len(gains) < 2:
        return np.inf
    rate = np.clip(gains[-1] / max(gains[-2], 1e-300), 0.5, 0.95)
    return float(gains[-1] * rate / (1.0 - rate))


def estimate_log_likelihood(iteration: EMIteration) -> float:
    """Estimate the log-likelihood at the parameters of the last E-step."""
    system = iteration.system
    determinant, _ = system.log_determinant(4, tol=3e-2)
    return system.log_likelihood(iteration.centred(), iteration.means, determinant)
