"""Standard errors from the observed information, and profile likelihood intervals of time scales.

The second derivative of the log-likelihood is computed by central differences of the exact score, with
respect to the free coordinates (:mod:`.coordinates`), in which the log-likelihood is nearly quadratic.
Standard errors of the parameters follow by the delta method. A noise variance at its lower bound is not free
and has no standard error.
"""

import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray
from scipy.special import ndtri

from probsfa._renamed import renamed_attribute, warn_of_old_name
from probsfa._times import timescales_from_decay
from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import check_option
from probsfa.statespace.engine.posterior import expected_statistics
from probsfa.statespace.learning.coordinates import (
    Coordinates,
    dynamics_standard_errors,
    from_vector,
    score,
    to_vector,
)
from probsfa.statespace.learning.fisher_metric import complete_data_of, make_metric
from probsfa.statespace.learning.options import is_number
from probsfa.statespace.learning.short_series import ShortSeries
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import QUANTITIES, RENAMED_ARRAYS, StateSpace, fitted_attributes
from probsfa.statespace.processes.ar1 import MAX_DECAY
from probsfa.statespace.quantities import INTERVALS

# Quantities with standard errors, by attribute of StandardErrors.
_QUANTITIES_BY_NAME = {quantity.name: quantity for quantity in QUANTITIES.values() if quantity.scale}

# Step of the differences of the score, in expected standard errors.
_DIFFERENCE_STEP = 0.01
# Minimum share of AR(1) noise in the variance of a column; the decay of weaker noise is not identified.
_MIN_AR1_NOISE = 1e-8
# Maximum relative distance of a coordinate at a bound from the bound.
_BOUND_RTOL = 1e-9


class Interval(NamedTuple):
    """Confidence limits ``lower`` and ``upper``, both with the shape of the parameter."""

    lower: FloatArray
    upper: FloatArray


class _Errors(NamedTuple):
    """Fields of :class:`StandardErrors`."""

    decay: FloatArray
    loadings: FloatArray
    noise_variance: FloatArray
    offset: FloatArray
    timescales: FloatArray


class StandardErrors(_Errors):
    """Standard errors of the parameters, in their shapes and units.

    For confidence intervals use :meth:`interval`, which uses a logarithmic scale for time scales and
    variances.

    Attributes
    ----------
    decay : ndarray of shape (K,)
    loadings : ndarray of shape (D, S)
        NaN for loadings that are not estimated: fixed loadings; loadings on derivatives of smooth factors,
        which are zero; and for each cycle one loading that is zero by the convention for its phase.
    noise_variance : ndarray of shape (D,)
        NaN where the variance is fixed or at its lower bound.
    offset : ndarray of shape (D,)
        NaN for columns with a trend, because the trend contains the level of the column.
    timescales : ndarray of shape (K,)
        NaN where the decay is not positive.
    rhythm_decays, rhythm_periods : ndarray of shape (R,)
        Of stochastic cycles.
    smooth_timescales : ndarray of shape (M,)
        Of smooth factors.
    noise_decay, noise_scale : ndarray of shape (D,) or (0,)
        Of AR(1) noise; NaN for a column with a scale near zero.
    exog_coef : ndarray of shape (D, P) or (0,)
        Of the coefficients of covariates.
    names : tuple of str
        Names of the parameters of the model that have standard errors.
    estimates : StateSpace
        The estimated parameters.
    time_unit : float
        Unit of time of the decays.
    n_steps : float
        Total time of all sequences, in units of `time_unit`.

    See Also
    --------
    probsfa.ProbabilisticSFA.profile_timescale : Profile-likelihood interval, for short series.

    Notes
    -----
    Standard errors are asymptotic: if a series spans few time scales of a factor, they are too small.
    :meth:`interval` corrects for this (:mod:`.short_series`). For two factors with time scales of 19 and 4
    rows, in 200 series of 300 rows, 90 % intervals cover 89 % of time scales, 90 % of loadings and noise
    variances, and 87 % of offsets.

    Examples
    --------
    >>> from probsfa import ProbabilisticSFA
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(300, 3, decay=[0.95], noise_variance=0.3, random_state=0).data
    >>> errors = ProbabilisticSFA(1).fit(X).standard_errors(X)
    >>> lower, upper = errors.interval("timescales", level=0.9)
    >>> bool(0 < lower[0] < upper[0])
    True
    """

    estimates: StateSpace
    time_unit: float
    n_steps: float = np.inf
    _estimates_by_name: Mapping[str, FloatArray]

    memory_decay = renamed_attribute("StandardErrors.memory_decay", "noise_decay")
    memory_scale = renamed_attribute("StandardErrors.memory_scale", "noise_scale")

    @classmethod
    def of(
        cls,
        params: StateSpace,
        time_unit: float,
        errors: Mapping[str, FloatArray],
        other_estimates: Mapping[str, FloatArray] = MappingProxyType({}),
    ) -> Self:
        """Create standard errors from parameters and errors in data units.

        Parameters
        ----------
        params : StateSpace
            The estimates.
        time_unit : float
            Unit of time of the decays.
        errors : mapping of str to ndarray
            Standard errors by fitted attribute.
        other_estimates : mapping of str to ndarray
            Estimates that are not in `params`, by fitted attribute.
        """
        values = {**fitted_attributes(params, time_unit), **other_estimates}
        errors_by_name = {QUANTITIES[attribute].name: error for attribute, error in errors.items()}
        result = cls(**{name: errors_by_name[name] for name in cls._fields})
        for name in _QUANTITIES_BY_NAME.keys() - set(cls._fields):
            setattr(result, name, errors_by_name.get(name, np.zeros(0)))
        result._estimates_by_name = {QUANTITIES[attribute].name: values[attribute] for attribute in errors}
        result.estimates, result.time_unit = params, time_unit
        return result

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters of the model that have standard errors."""
        return tuple(name for name in _QUANTITIES_BY_NAME if name in self._estimates_by_name)

    def interval(self, name: str, level: float = 0.95) -> Interval:
        """Compute confidence intervals, on a scale on which the likelihood is close to a normal density.

        Parameters
        ----------
        name : str
            Name of an attribute, such as "timescales".
        level : float, default=0.95
            Nominal coverage.

        Returns
        -------
        Interval
            ``lower`` and ``upper``, NaN where there is no standard error. An upper limit of a time scale may
            be infinite.

        Raises
        ------
        ValueError
            If the name or the level is invalid.

        Notes
        -----
        Periods, noise variances, scales of AR(1) noise and time scales of smooth factors have intervals on
        the logarithmic scale, with positive limits. Intervals of positive decays are computed from intervals
        of the time scales. Negative decays and decays of AR(1) noise have intervals on the scale of ``atanh
        a``. Intervals of loadings, offsets and coefficients are symmetric.

        Intervals of time scales, loadings and offsets of AR(1) factors are corrected for the number of time
        scales that the series spans. These intervals are wider than with a normal quantile, and intervals of
        time scales and loadings are centred at larger values than the estimates.
        """
        if name in RENAMED_ARRAYS:
            old, name = name, RENAMED_ARRAYS[name]
            warn_of_old_name(f"name={old!r}", f"name={name!r}")
        check_option("name", name, tuple(_QUANTITIES_BY_NAME))
        error, estimate = getattr(self, name), self._estimates_by_name.get(name, np.zeros(0))
        limits = INTERVALS[_QUANTITIES_BY_NAME[name].scale](estimate, normal_quantile(level) * error)
        decay = self.estimates.decay
        k, short_series = len(decay), ShortSeries.of(decay, self.decay, self.n_steps)
        if name == "timescales":
            limits = short_series.timescales(estimate, error, level)
        elif name == "decay":
            corrected_limits = short_series.timescales(
                timescales_from_decay(decay, self.time_unit), self.timescales, level
            )
            lower, upper = (
                np.where(decay > 0.0, np.exp(-self.time_unit / end), other)
                for end, other in zip(corrected_limits, limits, strict=True)
            )
            limits = lower, upper
        elif name == "loadings":
            corrected_limits = short_series.loadings(estimate[:, :k], error[:, :k], level)
            lower, upper = (
                np.hstack([end, other[:, k:]]) for end, other in zip(corrected_limits, limits, strict=True)
            )
            limits = lower, upper
        elif name == "offset":
            limits = short_series.offset(estimate, error, self.estimates.loadings[:, :k], level)
        return Interval(*limits)


def normal_quantile(level: float) -> float:
    """Return the half-width of a central interval of probability `level`, in standard deviations.

    Raises
    ------
    ValueError
        If `level` is not strictly between 0 and 1.
    """
    if not (is_number(level) and 0.0 < level < 1.0):
        raise ValueError(f"level must be a probability above 0 and below 1; got {level!r}.")
    return float(ndtri(0.5 + 0.5 * level))


def observed_information(
    coordinates: Coordinates, params: StateSpace, panel: Panel, free: BoolArray
) -> FloatArray:
    """Return minus the second derivative (F, F) of the log-likelihood with respect to free coordinates."""
    vector = to_vector(coordinates, params)
    stats = expected_statistics(params, panel)
    expected_information = np.diag(
        make_metric(coordinates, params, complete_data_of(stats, params)).to_dense()
    )
    indices = np.flatnonzero(free)
    columns = []
    for i in indices:
        step = np.zeros_like(vector)
        step[i] = _DIFFERENCE_STEP / np.sqrt(max(float(expected_information[i]), 1.0))
        score_after, score_before = (
            _score_at(coordinates, vector + sign * step, params, panel)[indices] for sign in (1.0, -1.0)
        )
        columns.append((score_before - score_after) / (2.0 * step[i]))
    information = np.array(columns)
    return 0.5 * (information + information.T)


def free_coordinates(
    coordinates: Coordinates, params: StateSpace, floors: tuple[float, ...] | FloatArray
) -> BoolArray:
    """Return a mask (P,) of coordinates that are free at given parameters.

    The coordinates of these parameters are not free:

    - fixed parameters;
    - noise variances at a lower bound, and frequencies at a limit;
    - decay and scale of AR(1) noise, if the scale is near zero;
    - one loading of each stochastic cycle, which is zero in canonical form.
    """
    at_floor = np.any(np.isclose(params.noise_variance[:, None], floors, rtol=1e-6), axis=1)
    free = np.ones(coordinates.size, dtype=bool)
    loadings = params.free_loadings
    if coordinates.limits is not None:
        first = coordinates.limits_of_states.cycle_states.start if coordinates.limits_of_states else 0
        for j in np.flatnonzero(coordinates.limits.fixed_phases):
            loadings[:, np.searchsorted(coordinates.state_layout.loaded_states, first + 2 * j + 1)] = True
    if coordinates.n_ar1_noise:
        ar1_noise = coordinates.ar1_noise_states
        has_ar1_noise = np.diagonal(params.nonzero_loadings[:, ar1_noise]) ** 2 > _MIN_AR1_NOISE
        loadings[:, ar1_noise] &= has_ar1_noise
        free[ar1_noise] = has_ar1_noise
    free[coordinates.slices[1]] = loadings[coordinates.has_loading]
    free[coordinates.slices[2]] = coordinates.variances.totals(at_floor.astype(np.float64)) == 0.0
    lower, upper = coordinates.bounds
    vector = to_vector(coordinates, params)
    at_bound = (np.isclose(vector, bound, rtol=_BOUND_RTOL, atol=0.0) for bound in (lower, upper))
    return free & ~(np.any(list(at_bound), axis=0) | (lower == upper))


def offsets_in_trends(coordinates: Coordinates, params: StateSpace) -> NDArray[np.intp]:
    """Return coordinates of offsets to fix in a model with trends, one for each trend.

    The initial state of a trend is diffuse, so that a constant may be added to the trend and subtracted from
    the offsets. All parameters are identified if one offset is fixed for each trend. Offsets of columns with
    large loadings on the trends are chosen; only standard errors of offsets depend on this choice.
    """
    loadings = _trend_loadings(params)
    count = min(loadings.shape)
    if not count:
        return np.zeros(0, dtype=np.intp)
    columns = scipy.linalg.qr(loadings.T, mode="r", pivoting=True)[1][:count]
    return np.asarray(coordinates.slices[3].start + columns)


def _trend_loadings(params: StateSpace) -> FloatArray:
    """Return the loadings (D, n) on trends."""
    loaded_states = params.state_layout.loaded_states
    return np.asarray(params.loadings[:, loaded_states[~params.state_layout.stationary[loaded_states]]])


def warn_of_limits(coordinates: Coordinates, params: StateSpace, free: BoolArray) -> None:
    """Warn of parameters of the dynamics that are at a limit without being fixed by the user.

    Warns
    -----
    UserWarning
        Names the standard errors that are NaN.
    """
    lower, upper = coordinates.bounds
    at_limit = ~free & (lower < upper)
    if not at_limit[coordinates.slices[0]].any():
        return
    errors = errors_in_data_units(
        coordinates, params, np.diag(np.where(at_limit, np.nan, 1.0)), np.ones(coordinates.n_features), 1.0
    )
    others = ("timescales_", "loadings_", "noise_variance_", "mean_")
    names = [
        f"{QUANTITIES[attribute].name}[{i}]"
        for attribute, error in errors.items()
        if attribute not in others
        for i in np.flatnonzero(np.isnan(error))
    ]
    warnings.warn(
        f"Standard errors of {', '.join(names)} are NaN: these parameters are at a limit of their range, or "
        "AR(1) noise has a standard deviation near zero, so that its decay is not identified.",
        stacklevel=4,
    )


def _score_at(coordinates: Coordinates, vector: FloatArray, template: StateSpace, panel: Panel) -> FloatArray:
    params = from_vector(coordinates, vector, template)
    return score(coordinates, params, panel.gaps, expected_statistics(params, panel))


def standard_errors(
    coordinates: Coordinates,
    params: StateSpace,
    panel: Panel,
    floors: tuple[float, ...] | FloatArray,
    scale: FloatArray,
    time_unit: float,
    estimates: StateSpace,
) -> StandardErrors:
    """Compute standard errors at a maximum of the likelihood.

    Parameters
    ----------
    coordinates : Coordinates
        Coordinates of the parameters.
    params : StateSpace
        Maximum-likelihood parameters of the standardized data, with AR(1) noise as states.
    panel : Panel
        Standardized observations.
    floors : tuple of float, or ndarray of shape (D, n)
        Standardized noise variances that are treated as lower bounds, for all columns or for each column.
    scale : ndarray of shape (D,)
        Unit of each standardized column, in data units.
    time_unit : float
        Unit of time of the decays.
    estimates : StateSpace
        The parameters in data units.

    Returns
    -------
    StandardErrors
        In data units.

    Warns
    -----
    UserWarning
        If the information is not positive definite, or parameters are at a limit of their range; their
        standard errors are NaN.
    """
    free = free_coordinates(coordinates, params, floors)
    free[offsets_in_trends(coordinates, params)] = False
    warn_of_limits(coordinates, params, free)
    covariance = np.full((coordinates.size, coordinates.size), np.nan)
    covariance[np.ix_(free, free)] = covariance_of(observed_information(coordinates, params, panel, free))
    errors = errors_in_data_units(coordinates, params, covariance, scale, time_unit)
    errors_of_estimates = StandardErrors.of(estimates, time_unit, errors)
    errors_of_estimates.n_steps = panel.n_steps
    return errors_of_estimates


def covariance_of(information: FloatArray) -> FloatArray:
    """Invert an observed information matrix (F, F); entries of parameters that are not identified are NaN.

    Warns
    -----
    UserWarning
        If it is not positive definite.
    """
    diagonal = np.diag(information)
    unit = 1.0 / np.sqrt(np.maximum(diagonal, np.finfo(np.float64).eps * max(float(diagonal.max()), 1.0)))
    values, vectors = np.linalg.eigh(information * unit[:, None] * unit)
    if np.any(diagonal <= 0.0) or values[0] <= 1e-12 * values[-1]:
        warnings.warn(
            "The observed information is not positive definite: the fit is not at a maximum, or some "
            "parameters are not identified by the data. Their standard errors are NaN.",
            stacklevel=4,
        )
        positive = values > 1e-12 * values[-1]
        is_not_identified = np.sum(vectors[:, ~positive] ** 2, axis=1) > 1e-6
        values, vectors = values[positive], vectors[:, positive]
        inverse = (vectors / values) @ vectors.T
        inverse[is_not_identified] = inverse[:, is_not_identified] = np.nan
    else:
        inverse = (vectors / values) @ vectors.T
    return inverse * unit[:, None] * unit


def errors_in_data_units(
    coordinates: Coordinates, params: StateSpace, covariance: FloatArray, scale: FloatArray, time_unit: float
) -> dict[str, FloatArray]:
    """Return standard errors in data units by fitted attribute, from the covariance (P, P) of coordinates."""
    variances = np.diagonal(covariance)
    loadings_part, noise_part, offset_part = (np.sqrt(variances[part]) for part in coordinates.slices[1:])
    dynamics = coordinates.slices[0]
    errors = dynamics_standard_errors(
        params, covariance[dynamics, dynamics], time_unit, evenly_sampled=coordinates.evenly_sampled
    )
    observed_loadings = np.full(coordinates.has_loading.shape, np.nan)
    observed_loadings[coordinates.has_loading] = loadings_part
    loadings = np.full(params.loadings.shape, np.nan)
    loadings[:, params.state_layout.loaded_states] = observed_loadings
    if coordinates.n_ar1_noise:
        ar1_noise, k = coordinates.ar1_noise_states, coordinates.ar1_noise_states.start
        errors |= {
            "noise_decay_": errors["decay_"][ar1_noise],
            "noise_scale_": np.diagonal(loadings[:, ar1_noise]) * scale,
        }
        errors |= {name: errors[name][:k] for name in ("decay_", "timescales_")}
        loadings = np.delete(loadings, ar1_noise, axis=1)
    noise = coordinates.variances.column_values(noise_part, np.nan)
    in_trend = np.any(_trend_loadings(params) != 0.0, axis=1)
    return errors | {
        "loadings_": loadings * scale[:, None],
        "noise_variance_": noise * params.noise_variance * scale**2,
        "mean_": np.where(in_trend, np.nan, offset_part * scale),
    }


# --------------------------------------------------------------------------------------- profile likelihood

# Profile-likelihood intervals of time scales.
#
# At each of several decays of one factor, the log-likelihood is maximized over all other parameters. The
# interval contains the decays at which this maximum is within half a chi-square quantile of the overall
# maximum. Unlike an interval on a logarithmic scale, it is as skewed as the likelihood, and its limits may be
# zero or infinite.
#
# The other parameters are optimized in coordinates whitened by the observed information. Their initial values
# are extrapolated linearly from the nearest decay, so that each decay requires few evaluations.

# Search for a limit: maximum number of decays, and tolerance in standard deviations of the coordinate.
_MAX_STEPS, _LIMIT_TOL = 25, 2e-3
# Minimum curvature, relative to the largest curvature, to which the curvature of other directions is raised;
# and decay up to which a time scale is treated as zero.
_MIN_CURVATURE, _MIN_DECAY = 1e-10, 1e-4
# Maximum number of evaluations of the optimization over the other parameters at one decay.
_MAX_EVALUATIONS = 60


class TimescaleProfile(NamedTuple):
    """Profile likelihood of the time scale of a factor.

    Attributes
    ----------
    lower, upper : float
        Limits of the interval; zero if it includes a decay of zero, infinite if it includes a decay of one.
    timescale : float
        Maximum likelihood estimate.
    level : float
        Nominal coverage.
    timescales : ndarray of shape (G,)
        Time scales at which the other parameters were fitted, ascending.
    log_likelihoods : ndarray of shape (G,)
        Profile log-likelihoods at these time scales minus the log-likelihood of the estimate, in nats. If the
        noise has a prior, its log density is included.
    n_evaluations : int
        Number of likelihood evaluations.
    """

    lower: float
    upper: float
    timescale: float
    level: float
    timescales: FloatArray
    log_likelihoods: FloatArray
    n_evaluations: int


class _Profile:
    """Log-likelihood at decays of one factor, maximized over the other parameters."""

    def __init__(
        self,
        coordinates: Coordinates,
        params: StateSpace,
        panel: Panel,
        free: BoolArray,
        component: int,
        noise: Noise | None,
    ) -> None:
        self.coordinates, self.params, self.panel, self.component = coordinates, params, panel, component
        self.noise = noise
        self.vector = to_vector(coordinates, params)
        indices = np.flatnonzero(free)
        position = int(np.flatnonzero(indices == component)[0])  # decays come first
        information = observed_information(coordinates, params, panel, free)
        is_other = np.arange(len(indices)) != position
        self.others = indices[is_other]
        values, vectors = np.linalg.eigh(information[np.ix_(is_other, is_other)])
        values = np.maximum(np.abs(values), _MIN_CURVATURE * max(float(np.abs(values).max()), 1.0))
        # In whitened coordinates u, with others = start + whitening u, the log-likelihood is isotropic.
        self.whitening = vectors / np.sqrt(values)
        cross = information[is_other, position]
        self.linear_prediction = -vectors @ ((vectors.T @ cross) / values)
        curvature = information[position, position] + cross @ self.linear_prediction
        # Standard deviation of the decay's coordinate by the parabolic approximation of the profile.
        self.step_size = 1.0 / np.sqrt(max(float(curvature), 1e-6))
        self.n_evaluations = 2 * len(indices) + 1
        self.best, self.evaluated = self.log_likelihood(self.vector)[0], {0.0: (0.0, self.vector)}

    def log_likelihood(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Return log-likelihood plus log prior density of the noise, and the gradient (P,)."""
        self.n_evaluations += 1
        params = from_vector(self.coordinates, vector, self.params)
        stats = expected_statistics(params, self.panel)
        value = float(stats.log_likelihood)
        gradient = score(self.coordinates, params, self.panel.gaps, stats)
        if self.noise is not None:
            value += self.noise.log_prior(params.noise_variance)
            gradient[self.coordinates.slices[2]] += self.noise.prior_gradient(params.noise_variance)
        return value, gradient

    def decay(self, steps: float) -> float:
        """Return the decay at a distance from the estimate, in standard deviations of its coordinate."""
        vector = self.vector.copy()
        vector[self.component] += steps * self.step_size
        return float(from_vector(self.coordinates, vector, self.params).decay[self.component])

    def signed_root(self, steps: float) -> float:
        """Return the signed root of twice the decrease of the log-likelihood from the estimate."""
        if steps not in self.evaluated:
            nearest_step = min(self.evaluated, key=lambda known: abs(known - steps))
            start = self.evaluated[nearest_step][1].copy()
            start[self.component] = self.vector[self.component] + steps * self.step_size
            start[self.others] += (steps - nearest_step) * self.step_size * self.linear_prediction
            self.evaluated[steps] = self._maximize(start)
        return float(np.sign(steps) * np.sqrt(max(-2.0 * self.evaluated[steps][0], 0.0)))

    def _maximize(self, start: FloatArray) -> tuple[float, FloatArray]:
        """Maximize over the other parameters; return log-likelihood minus the maximum, and the vector."""

        def objective(u: FloatArray) -> tuple[float, FloatArray]:
            vector = start.copy()
            vector[self.others] += self.whitening @ u
            with np.errstate(all="ignore"):
                value, gradient = self.log_likelihood(vector)
            if not (np.isfinite(value) and np.isfinite(gradient).all()):
                return 1e100, np.zeros_like(u)
            return self.best - value, -self.whitening.T @ gradient[self.others]

        options: Any = {"maxfun": _MAX_EVALUATIONS, "ftol": 1e-10, "gtol": 1e-4}
        result = scipy.optimize.minimize(
            objective, np.zeros(len(self.others)), jac=True, method="L-BFGS-B", options=options
        )
        vector = start.copy()
        vector[self.others] += self.whitening @ result.x
        return -float(result.fun), vector


def profile_decay(
    coordinates: Coordinates,
    params: StateSpace,
    panel: Panel,
    free: BoolArray,
    component: int,
    level: float,
    time_unit: float,
    noise: Noise | None = None,
) -> TimescaleProfile:
    """Compute the interval of a time scale by profile likelihood (Venzon & Moolgavkar 1988).

    Parameters
    ----------
    coordinates : Coordinates
        Coordinates of the parameters.
    params : StateSpace
        Maximum-likelihood parameters of the standardized data.
    panel : Panel
        Standardized observations.
    free : ndarray of bool (P,)
        Mask of free coordinates.
    component : int
        Index of the factor.
    level : float
        Nominal coverage.
    time_unit : float
        Unit of time of the decays.
    noise : Noise, optional
        Noise with the prior under which the parameters were fitted.

    Returns
    -------
    TimescaleProfile

    Raises
    ------
    ValueError
        If the level is invalid, or the decay of the factor is at most 1e-4.
    """
    quantile = normal_quantile(level)
    decay = float(params.decay[component])
    if decay <= _MIN_DECAY:
        raise ValueError(f"Factor {component} has the decay {decay:.3g}, for which no time scale exists.")
    profile = _Profile(coordinates, params, panel, free, component, noise)
    lower, upper = (_interval_limit(profile, sign, quantile) for sign in (-1.0, 1.0))
    steps = np.array(sorted(profile.evaluated))
    decays = np.array([profile.decay(step) for step in steps])
    values = np.array([profile.evaluated[step][0] for step in steps])
    positive = decays > 0.0
    return TimescaleProfile(
        lower=_timescale(lower, time_unit),
        upper=_timescale(upper, time_unit),
        timescale=_timescale(decay, time_unit),
        level=float(level),
        timescales=timescales_from_decay(decays[positive], time_unit),
        log_likelihoods=values[positive],
        n_evaluations=profile.n_evaluations,
    )


def _timescale(decay: float, time_unit: float) -> float:
    """Return the time scale of a decay; zero if it is below 1e-4, infinite if it is at its upper limit."""
    if decay <= _MIN_DECAY:
        return 0.0
    return np.inf if decay >= MAX_DECAY else float(-time_unit / np.log(decay))


def _interval_limit(profile: _Profile, sign: float, quantile: float) -> float:
    """Return the decay on one side at which the absolute signed root is `quantile`.

    If the root is smaller at all decays in the range, return a decay at the end of the range.
    """
    inside, outside, step = 0.0, np.inf, quantile
    for _ in range(_MAX_STEPS):
        decay = profile.decay(sign * step)
        root = abs(profile.signed_root(sign * step))
        if abs(root - quantile) < _LIMIT_TOL or outside - inside < _LIMIT_TOL * step:
            break
        if root < quantile:
            inside = step
            if not _MIN_DECAY < decay < MAX_DECAY:
                break  # at the limit of the decay, and still in the interval
        else:
            outside = step
        # The root is nearly proportional to the step: extrapolate within the bracket.
        extrapolated = step * quantile / max(root, 0.1 * quantile)
        if np.isinf(outside):
            step = min(max(extrapolated, 1.1 * step), 3.0 * step)
        else:
            width = outside - inside
            step = (
                extrapolated
                if inside + 0.1 * width < extrapolated < outside - 0.1 * width
                else inside + 0.5 * width
            )
    return decay
