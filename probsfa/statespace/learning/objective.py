"""Objectives of a fit: the exact and Whittle's likelihood, optimizer steps with rotations, and the result."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from probsfa._typing import FloatArray
from probsfa.statespace.engine.moments import Statistics
from probsfa.statespace.engine.posterior import expected_statistics
from probsfa.statespace.learning.coordinates import (
    Coordinates,
    Limits,
    from_vector,
    latent_spectra,
    longest_loading_steps,
    longest_steps,
    pack_gradient,
    score,
    to_vector,
)
from probsfa.statespace.learning.fisher_metric import (
    AR1NoiseMetric,
    Metric,
    coloured_spectra,
    complete_data_of,
    complete_data_without_missing_values,
    factor_spectra,
    make_metric,
)
from probsfa.statespace.learning.quasi_newton import (
    Ascent,
    Box,
    Evaluation,
    Transport,
    maximize_objective,
    straight_step,
)
from probsfa.statespace.noise import HeavyTails
from probsfa.statespace.noise.gaussian import Noise, gradient_for_metric
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateSpace

# ------------------------------------------------------------------------------------------------ rotations

# Retraction for rotations of the latent factors.
#
# A rotation ``C -> C Q`` with an orthogonal ``Q`` hardly changes the likelihood if it mixes only factors with
# nearly equal time scales, so that steps in these directions are long. A straight step with antisymmetric
# ``A``, ``C + C A``, is a rotation only to first order; terms of second order change explained variances. For
# small noise, the likelihood then decreases by thousands of nats, although a gain was predicted. The
# optimizer therefore splits a step ``S`` of the loadings into a rotation ``C A`` and the remainder
# ``S - C A``, and rotates exactly,
#
#     C  ->  (C + S - C A) exp(A),
#
# which equals the step to first order. ``A`` minimizes the norm of the remainder in units of the noise: with
# ``L = R^-1/2 C``, ``D = R^-1/2 S`` and ``G = L' L`` it solves ``G A + A G = L' D - D' L``. Steps and
# gradients that the optimizer has stored are rotated too (Absil, Mahony & Sepulchre 2008, Optimization
# algorithms on matrix manifolds, chapters 4 and 8, on retractions and vector transport).


@dataclass(frozen=True, eq=False)
class Rotation:
    """Rotation of all states except AR(1) noise, as vector transport of the optimizer.

    Attributes
    ----------
    coordinates : Coordinates
        Coordinates, which define the positions of loadings in a vector.
    matrix : ndarray of shape (n, n)
        Orthogonal matrix that multiplies the loadings of the rotated states from the right.
    """

    coordinates: Coordinates
    matrix: FloatArray

    def __call__(self, vector: FloatArray) -> FloatArray:
        """Rotate a vector (P,) of coordinates, of changes of coordinates, or of derivatives."""
        return self._rotated_by(self.matrix, vector)

    def back(self, vector: FloatArray) -> FloatArray:
        """Apply the inverse rotation to a vector (P,)."""
        return self._rotated_by(self.matrix.T, vector)

    def _rotated_by(self, matrix: FloatArray, vector: FloatArray) -> FloatArray:
        loadings = _loadings(self.coordinates, vector)
        shared = _rotated_states(self.coordinates)
        loadings[:, shared] = loadings[:, shared] @ matrix
        rotated = vector.copy()
        rotated[self.coordinates.slices[1]] = loadings[self.coordinates.has_loading]
        return rotated


def rotate_along(
    coordinates: Coordinates, vector: FloatArray, step: FloatArray, noise_variance: FloatArray
) -> tuple[FloatArray, Rotation]:
    """Take a step from a vector of coordinates, with an exact rotation of the factors.

    Parameters
    ----------
    coordinates : Coordinates
        Free coordinates.
    vector, step : ndarray of shape (P,)
        Initial coordinates, and the step.
    noise_variance : ndarray of shape (D,)
        Noise variance at the initial coordinates.

    Returns
    -------
    vector_after_step : ndarray of shape (P,)
        Coordinates after the step.
    rotation : Rotation
        Rotation of the factors in the step.
    """
    shared = _rotated_states(coordinates)
    loadings, change = (_loadings(coordinates, x)[:, shared] for x in (vector, step))
    inverse_noise_std = 1.0 / np.sqrt(noise_variance)[:, None]
    scaled = loadings * inverse_noise_std
    cross_products = scaled.T @ (change * inverse_noise_std)
    cross_products = cross_products - cross_products.T
    eigenvalues, basis = np.linalg.eigh(scaled.T @ scaled)
    eigenvalue_sums = eigenvalues[:, None] + eigenvalues
    # The equation for ``A`` is singular if factors are linearly dependent. Sums of two eigenvalues of ``G``
    # are therefore raised to at least a small fraction of the largest sum.
    minimum = max(1e-10 * float(eigenvalue_sums.max(initial=0.0)), np.finfo(np.float64).tiny)
    generator = basis @ ((basis.T @ cross_products @ basis) / np.maximum(eigenvalue_sums, minimum)) @ basis.T
    generator = 0.5 * (generator - generator.T)
    rotation = Rotation(coordinates, expm(generator))
    loadings_after_step = _loadings(coordinates, vector + step)
    loadings_after_step[:, shared] -= loadings @ generator
    vector_after_step = vector + step
    vector_after_step[coordinates.slices[1]] = loadings_after_step[coordinates.has_loading]
    return rotation(vector_after_step), rotation


def _rotated_states(coordinates: Coordinates) -> NDArray[np.intp]:
    """Return the indices of the rotated states: all states except AR(1) noise."""
    states = np.ones(coordinates.n_states, dtype=bool)
    if coordinates.n_ar1_noise:
        states[coordinates.ar1_noise_states] = False
    return np.flatnonzero(states)


def _loadings(coordinates: Coordinates, vector: FloatArray) -> FloatArray:
    """Return the loadings (D, n_states) of a vector of coordinates; loadings without coordinates are zero."""
    loadings = np.zeros((coordinates.n_features, coordinates.n_states))
    loadings[coordinates.has_loading] = vector[coordinates.slices[1]]
    return loadings


# ----------------------------------------------------------------------------------------- exact likelihood

Status = Literal["converged", "flat", "max_iter", "stalled", "interrupted", "closed_form"]

#: Description of each status, with advice.
STATUS_SENTENCES: dict[Status, str] = {
    "converged": "Converged: a further step is expected to gain less than tol nats.",
    "flat": "Converged: changes of the log-likelihood are below rounding errors in double precision.",
    "max_iter": (
        "Stopped at max_iter before converging: the log-likelihood was still rising. "
        "Raise max_iter, or raise tol if the result is good enough."
    ),
    "stalled": (
        "Stopped: no step raised the log-likelihood, although its gradient is not zero. The parameters are "
        "the best found; two factors may have the same time scale, or n_components may be too large."
    ),
    "interrupted": "Interrupted: the best parameters so far are kept.",
    "closed_form": "Closed form: the noise-free limit is slow feature analysis.",
}


class FitResult(NamedTuple):
    """Outcome of a fit.

    Attributes
    ----------
    params : StateSpace
        The best parameters found.
    log_likelihood : float
        Log-likelihood of these parameters, in nats.
    history : tuple of float
        Log-likelihood at the start and after each accepted step, non-decreasing.
    n_evaluations : int
        Number of evaluations of the log-likelihood, each by one run of the smoother.
    status : str
        A key of :data:`STATUS_SENTENCES`.
    tails : HeavyTails or None, default=None
        Noise with heavy tails; None for Gaussian noise.
    """

    params: StateSpace
    log_likelihood: float
    history: tuple[float, ...]
    n_evaluations: int
    status: Status
    tails: HeavyTails | None = None

    @property
    def converged(self) -> bool:
        """Whether the fit ended at a maximum."""
        return self.status in ("converged", "flat", "closed_form")


#: Progress callback: a function of the number of evaluations and the best log-likelihood so far.
Report = Callable[[int, float], None]


def whittle_step_callback(report: Report | None) -> Callable[[], None]:
    """Return the function to call at each evaluation of Whittle's likelihood.

    Parameters
    ----------
    report : callable, optional
        Progress callback. It may have a method ``on_whittle_step()`` (:class:`.Progress`).

    Returns
    -------
    callable
        The method ``on_whittle_step``, or a function without effect.
    """
    callback: Callable[[], None] = getattr(report, "on_whittle_step", _no_report)
    return callback


def _no_report() -> None:
    pass


#: Function of parameters that returns the expected statistics of the latent states.
EStep = Callable[[StateSpace], Statistics]


class CountedEStep:
    """E-step with a limited number of evaluations, which records the best parameters.

    Parameters
    ----------
    panel : Panel
        Packed observations.
    limit : int
        Maximum number of evaluations.
    report : callable, optional
        Called with the number of evaluations and the best log-likelihood so far.
    e_step : callable, optional
        Function that returns expected statistics over all data; required if the panel is only a sample.

    Attributes
    ----------
    count : int
        Number of evaluations so far.
    best, best_log_likelihood
        Parameters with the highest log-likelihood so far, and this log-likelihood.
    noise : Noise or None
        Noise model with the prior of :meth:`set_prior`. The log prior density is added to the log-likelihood
        of the statistics, so that optimizers maximize the posterior density.
    limits : Limits or None
        Fixed parameters and ranges of frequencies for EM steps, or None.
    on_whittle_step : callable
        Called at each evaluation of Whittle's likelihood.
    tol : float
        Expected gain in nats at which the fit ends.
    best_start : tuple of float and StateSpace, or None
        Highest Whittle likelihood so far and its parameters; used if the fit is interrupted before the first
        exact evaluation.
    """

    def __init__(
        self,
        panel: Panel,
        limit: int,
        report: Report | None = None,
        e_step: EStep | None = None,
    ) -> None:
        self.panel = panel
        self.limit = limit
        self.count = 0
        self.best: StateSpace | None = None
        self.best_log_likelihood = -np.inf
        self.tol = 0.0
        self._report = report
        self.on_whittle_step = whittle_step_callback(report)
        self.best_start: tuple[float, StateSpace] | None = None
        self._e_step = e_step
        self.noise: Noise | None = None
        self.limits: Limits | None = None

    def record_start(self, value: float, params: StateSpace) -> None:
        """Before the first evaluation, store the initial parameters with the highest Whittle likelihood."""
        if (
            self.best is None
            and np.isfinite(value)
            and (self.best_start is None or value > self.best_start[0])
        ):
            self.best_start = (value, params)

    def set_prior(self, noise: Noise) -> None:
        """Add the noise prior to the objective and discard the best parameters so far."""
        self.noise, self.best, self.best_log_likelihood = noise, None, -np.inf

    def log_prior(self, params: StateSpace) -> float:
        """Return the log prior density at given parameters, in nats, up to a constant."""
        return 0.0 if self.noise is None else self.noise.log_prior(params.noise_variance)

    @property
    def exhausted(self) -> bool:
        """Whether no evaluation is left."""
        return self.count >= self.limit

    def __call__(self, params: StateSpace) -> Statistics:
        """Return the expected statistics at ``params``."""
        stats = (
            self._e_step(params) if self._e_step else expected_statistics(params, self.panel, for_steps=True)
        )
        stats = stats._replace(log_likelihood=stats.log_likelihood + self.log_prior(params))
        self.count += 1
        if stats.log_likelihood > self.best_log_likelihood:
            self.best, self.best_log_likelihood = params, stats.log_likelihood
        if self._report is not None:
            prior = 0.0 if self.best is None else self.log_prior(self.best)
            self._report(self.count, self.best_log_likelihood - prior)
        return stats


def rounding_error(log_likelihood: float, n_rows: int) -> float:
    """Return the smallest change of a log-likelihood that exceeds rounding errors, in nats."""
    return 8.0 * np.finfo(np.float64).eps * (abs(log_likelihood) + n_rows)


class ExactObjective:
    """The exact log-likelihood as an objective; one run of the smoother gives its value and its score."""

    def __init__(self, evaluate: CountedEStep, coordinates: Coordinates, template: StateSpace) -> None:
        self.evaluate = evaluate
        self.coordinates = coordinates
        self.template = template

    @property
    def exhausted(self) -> bool:
        """Whether no evaluation is left."""
        return self.evaluate.exhausted

    def rounding(self, value: float) -> float:
        """Return the smallest change of the value that exceeds rounding errors."""
        return rounding_error(value, self.evaluate.panel.n_rows)

    def __call__(self, vector: FloatArray) -> Evaluation:
        """Return the log-likelihood and its score."""
        params = from_vector(self.coordinates, vector, self.template)
        return self.evaluation(params, self.evaluate(params))

    def evaluation(self, params: StateSpace, stats: Statistics) -> Evaluation:
        """Return the log-likelihood and its score from expected statistics at ``params``."""
        gradient = score(self.coordinates, params, self.evaluate.panel.gaps, stats)
        gradient[self.coordinates.slices[2]] += self._prior_gradient(params)
        return Evaluation(stats.log_likelihood, gradient, stats)

    def move(self, vector: FloatArray, step: FloatArray) -> tuple[FloatArray, Transport]:
        """Take a step by :func:`rotate_along`, or along a straight line if parameters are fixed."""
        if self.coordinates.any_fixed:
            return straight_step(vector, step)
        params = from_vector(self.coordinates, vector, self.template)
        return rotate_along(self.coordinates, vector, step, params.noise_variance)

    def _prior_gradient(self, params: StateSpace) -> FloatArray:
        noise = self.evaluate.noise
        size = self.coordinates.n_noise
        return np.zeros(size) if noise is None else noise.prior_gradient(params.noise_variance)

    def metric(self, vector: FloatArray, evaluation: Evaluation) -> Metric | AR1NoiseMetric:
        """Return the expected information, and the complete-data information as damping matrix."""
        params = from_vector(self.coordinates, vector, self.template)
        noise, log_variances = self.evaluate.noise, self.coordinates.slices[2]
        gradient = gradient_for_metric(evaluation.gradient, log_variances, noise, params.noise_variance)
        stats: Statistics = evaluation.detail
        # One sequence, whatever the true number: a lower bound of the number of independent parts of the
        # data.
        complete = complete_data_of(stats, params, 1.0, centred=True)
        return make_metric(self.coordinates, params, complete, gradient)


# Longest steps of one iteration: in ``log r``, and in the offset ``mu`` (in standard deviations of a column).
_MAX_STEPS = (1.5, 3.0)


def make_box(coordinates: Coordinates, noise: Noise, start: StateSpace) -> Box:
    """Return bounds of the coordinates, and longest steps for an optimization from ``start``."""
    lower, upper = coordinates.bounds
    variances, has_loading = coordinates.variances, coordinates.has_loading
    floor = variances.column_values(variances.largest(noise.floor))
    lower[coordinates.slices[2]] = np.log(variances.group_values(noise.with_fixed(floor)))
    loading_steps = np.broadcast_to(longest_loading_steps(start), has_loading.shape)[has_loading]
    noise_and_offset_steps = [
        np.full(part.stop - part.start, step)
        for part, step in zip(coordinates.slices[2:], _MAX_STEPS, strict=True)
    ]
    max_step = np.concatenate(
        [longest_steps(coordinates.state_layout), loading_steps, *noise_and_offset_steps]
    )
    return Box(lower, max_step, upper)


def fit_quasi_newton(
    evaluate: CountedEStep,
    coordinates: Coordinates,
    start: StateSpace,
    noise: Noise,
    tol: float,
    stats: Statistics | None = None,
) -> FitResult:
    """Maximize the exact likelihood from ``start`` by quasi-Newton steps.

    EM steps are short if the noise variance is small. Quasi-Newton steps are longer, because the metric
    (:mod:`.fisher_metric`) approximates the curvature of the likelihood.

    Parameters
    ----------
    evaluate : CountedEStep
        Expected statistics, with a limited number of evaluations.
    coordinates : Coordinates
        Free coordinates.
    start : StateSpace
        Initial parameters.
    noise : Noise
        Constraints and prior of the noise variances.
    tol : float
        Expected gain of a further step at which to stop, in nats.
    stats : Statistics, optional
        The statistics at ``start``, if they are known.

    Returns
    -------
    FitResult
    """
    objective = ExactObjective(evaluate, coordinates, start)
    evaluation = None if stats is None else objective.evaluation(start, stats)
    ascent: Ascent = maximize_objective(
        objective, to_vector(coordinates, start), make_box(coordinates, noise, start), tol, evaluation
    )
    params = from_vector(coordinates, ascent.vector, start)
    best = ascent.history[-1] if ascent.history else -np.inf
    return FitResult(params, best, ascent.history, evaluate.count, ascent.stop_reason)


# ------------------------------------------------------------------------------------ likelihood of Whittle

# Whittle's likelihood approximates the log-likelihood by a sum over the Fourier frequencies,
#
#     log p(X) ~ -1/2 sum_w (log|S(w)| + tr(S(w)^-1 I(w))),       S(w) = C diag(f(w)) C' + diag(r),
#
# with the periodogram matrix ``I``. With AR(1) noise of the columns, ``diag(n(w))`` replaces ``diag(r)``
# (:func:`.coloured_spectra`). Adjacent frequencies are averaged in bands, which are narrow near zero, where
# the spectra of slow factors have their peaks. The periodogram of a band is stored as a factor of at most D
# rows, ``I = Z' Z``. After one Fourier transform, an evaluation requires a few products of these rows with
# D-by-K matrices, for any length of the series. The ends of the series are neglected. The maximum is
# therefore not the maximum of the exact likelihood, but a good initial value. Many initial values can be
# compared at the cost of one evaluation of the exact likelihood.


# Width of a band of frequencies relative to its lower edge.
_BAND_GROWTH = 0.12


class Periodogram(NamedTuple):
    """Periodogram averaged over bands of frequencies.

    Attributes
    ----------
    frequencies : ndarray of shape (W,)
        Mean frequency of each band, in (0, pi].
    weights : ndarray of shape (W,)
        Degrees of freedom of each band. The sum over bands is the number of rows minus the number of
        sequences, because the mean of each sequence is subtracted. Sequences of less than three rows are not
        used.
    rows : ndarray of shape (M, D)
        Factors ``Z`` of all bands, stacked. For the rows ``z`` of a band, the sum of ``z z'`` is the real
        part of the periodogram matrix times the weight of the band.
    first : ndarray of shape (W,)
        First row of each band.
    """

    frequencies: FloatArray
    weights: FloatArray
    rows: FloatArray
    first: NDArray[np.intp]

    @property
    def by_band(self) -> FloatArray:
        """The rows of each band, padded with zeros to equal numbers: (W, m, D)."""
        numbers = np.diff(self.first, append=len(self.rows))
        padded = np.zeros((len(numbers), int(numbers.max()), self.rows.shape[1]))
        padded[self.band, np.arange(len(self.rows)) - np.repeat(self.first, numbers)] = self.rows
        return padded

    @property
    def band(self) -> NDArray[np.intp]:
        """Band of each row, shape (M,)."""
        return np.repeat(np.arange(len(self.first)), np.diff(self.first, append=len(self.rows)))


def band_edges(max_length: int) -> FloatArray:
    """Return the edges of the bands of a periodogram, for sequences of at most `max_length` rows.

    The first bands contain one Fourier frequency each; the widths of all other bands grow geometrically.
    """
    base = 2.0 * np.pi / max_length
    edges = [0.5 * base]
    while edges[-1] < np.pi:
        edges.append(edges[-1] + max(base, _BAND_GROWTH * edges[-1]))
    edges[-1] = np.nextafter(np.pi, 4.0)
    return np.array(edges)


def periodogram(sequences: list[FloatArray]) -> Periodogram:
    """Compute the banded periodogram of complete, centred sequences.

    Parameters
    ----------
    sequences : list of ndarray of shape (T_i, D)
        Centred data without missing values.

    Returns
    -------
    Periodogram
    """
    edges = band_edges(max(len(x) for x in sequences))
    d = sequences[0].shape[1]
    n_bands = len(edges) - 1
    weights, moments = np.zeros(n_bands), np.zeros(n_bands)
    rows: list[list[FloatArray]] = [[np.zeros((0, d))] for _ in range(n_bands)]
    for x in sequences:
        n = len(x)
        if n < 3:
            continue
        transform = np.fft.rfft(x, axis=0)[1:]
        transform /= np.sqrt(n)
        omega = 2.0 * np.pi * np.arange(1, len(transform) + 1) / n
        # Each frequency has a negative counterpart, except pi, which exists if the length is even.
        weight = np.full(len(omega), 2.0)
        weight[omega >= np.pi * (1.0 - 1e-12)] = 1.0
        first = np.searchsorted(omega, edges, side="left")
        for band, (i, j) in enumerate(zip(first[:-1], first[1:], strict=True)):
            scaled = transform[i:j] * np.sqrt(weight[i:j, None])
            rows[band] += [scaled.real, scaled.imag]
            # To limit memory, the rows of a band are reduced at once if they are many.
            if j - i > 4096:
                rows[band] = [_reduced_rows(np.concatenate(rows[band]))]
            weights[band] += weight[i:j].sum()
            moments[band] += weight[i:j] @ omega[i:j]
    used = np.flatnonzero(weights)
    factors = [_reduced_rows(np.concatenate(rows[band])) for band in used]
    first_rows = np.cumsum([0, *map(len, factors[:-1])])
    return Periodogram(moments[used] / weights[used], weights[used], np.concatenate(factors), first_rows)


def _reduced_rows(rows: FloatArray) -> FloatArray:
    """Return at most as many rows as there are columns, with the same second moments."""
    if len(rows) <= rows.shape[1]:
        return rows
    return np.asarray(np.linalg.qr(rows, mode="r"))


class WhittleObjective:
    """Whittle's log-likelihood as an objective of :func:`.maximize_objective`.

    This likelihood does not depend on the offset; its gradient with respect to the offset is zero.

    Parameters
    ----------
    coordinates : Coordinates
        Free coordinates.
    data : Periodogram
        Periodogram of the data.
    template : StateSpace
        Model that defines the parameters without coordinates.
    limit : int
        Maximum number of evaluations.
    on_step : callable, optional
        Called at each evaluation.
    noise : Noise, optional
        Noise whose log prior density is added.
    """

    def __init__(
        self,
        coordinates: Coordinates,
        data: Periodogram,
        template: StateSpace,
        limit: int,
        on_step: Callable[[], None] | None = None,
        noise: Noise | None = None,
    ) -> None:
        self.coordinates = coordinates
        self.noise = noise
        self.data = data
        self.template = template
        self._complete = complete_data_without_missing_values(float(data.weights.sum()), coordinates)
        self._band = data.band
        self.limit = limit
        self.count = 0
        self._on_step = on_step

    @property
    def exhausted(self) -> bool:
        """Whether the maximum number of evaluations is reached."""
        return self.count >= self.limit

    def rounding(self, value: float) -> float:
        """Return the smallest change of the value that exceeds rounding errors."""
        return float(1e-12 * (abs(value) + self.data.weights.sum()))

    def _with_prior(self, params: StateSpace, value: float, gradient: FloatArray) -> Evaluation:
        if self.noise is not None:
            value += self.noise.log_prior(params.noise_variance)
            gradient[self.coordinates.slices[2]] += self.noise.prior_gradient(params.noise_variance)
        return Evaluation(value, gradient)

    def _begin_evaluation(self) -> None:
        self.count += 1
        if self._on_step is not None:
            self._on_step()

    def __call__(self, vector: FloatArray) -> Evaluation:
        """Return value and gradient."""
        self._begin_evaluation()
        params = from_vector(self.coordinates, vector, self.template)
        evenly_sampled = self.coordinates.evenly_sampled
        spectra = latent_spectra(params, self.data.frequencies, evenly_sampled=evenly_sampled)
        spectrum = spectra.values
        weights = self.data.weights
        inverse_noise_std, left_singular, scaled_loadings, inverse, core = factor_spectra(params, spectrum)
        log_det = np.linalg.slogdet(core)[1] + float(np.sum(np.log(params.noise_variance)))
        # S^-1 = R^-1/2 (1 - U U' + U B^-1 U') R^-1/2 (see SpectralFactors): the component of a scaled row
        # R^-1/2 z outside the span of U is a residual; the component inside is multiplied by B^-1.
        rows = self.data.rows * inverse_noise_std
        projections = rows @ left_singular
        residuals = rows - projections @ left_singular.T
        shrunk = np.einsum("ma,mab->mb", projections, inverse[self._band])
        value = -0.5 * float(weights @ log_det + np.sum(residuals**2) + np.sum(shrunk * projections))

        whitened = residuals + shrunk @ left_singular.T  # R^1/2 S^-1 z
        explained = shrunk @ scaled_loadings  # C' S^-1 z
        transfer = inverse @ scaled_loadings
        expected = np.einsum("wak,w,wk->ak", transfer, weights, spectrum)
        by_loadings = whitened.T @ (explained * spectrum[self._band]) - left_singular @ expected
        signal_precision = np.einsum("ak,wak->wk", scaled_loadings, transfer)
        by_dynamics = spectra.whittle_gradient(weights, explained, self._band, signal_precision)
        shrunk_precision = np.einsum(
            "da,ab,db->d", left_singular, np.einsum("w,wab->ab", weights, inverse), left_singular
        )
        precision = weights.sum() * (1.0 - np.sum(left_singular**2, axis=1)) + shrunk_precision
        by_noise = 0.5 * (np.sum(whitened**2, axis=0) - precision)
        gradient = pack_gradient(
            self.coordinates,
            by_dynamics,
            inverse_noise_std[:, None] * by_loadings,
            by_noise,
            np.zeros_like(inverse_noise_std),
        )
        return self._with_prior(params, value, gradient)

    def metric(self, vector: FloatArray, evaluation: Evaluation) -> Metric:
        """Return the metric from expected and complete-data information, as for the exact likelihood."""
        params = from_vector(self.coordinates, vector, self.template)
        gradient = gradient_for_metric(
            evaluation.gradient, self.coordinates.slices[2], self.noise, params.noise_variance
        )
        # The maximum size of the complete matrix is smaller than for the exact likelihood, because
        # evaluations are faster.
        return Metric(self.coordinates, params, self._complete, gradient, max_dense_size=144)


class AR1NoiseWhittleObjective(WhittleObjective):
    """Whittle's log-likelihood with AR(1) noise of the columns, which the parameters contain as states."""

    @cached_property
    def _rows(self) -> FloatArray:
        return self.data.by_band

    def __call__(self, vector: FloatArray) -> Evaluation:
        """Return value and gradient."""
        self._begin_evaluation()
        coordinates = self.coordinates
        params = from_vector(coordinates, vector, self.template)
        spectra = coloured_spectra(coordinates, params, self.data.frequencies)
        weights = self.data.weights
        whitened = self._rows @ spectra.precision  # (S^-1 z)'
        value = -0.5 * float(weights @ spectra.log_det + np.sum(whitened * self._rows))
        # Twice the derivative of the log-likelihood with respect to S in each band.
        by_spectrum = np.swapaxes(whitened, 1, 2) @ whitened - weights[:, None, None] * spectra.precision
        gradient_times_loadings = by_spectrum @ spectra.loadings
        shared = spectra.shared
        by_loadings = np.zeros((coordinates.n_features, coordinates.n_states))
        ar1_noise = coordinates.ar1_noise_states
        other_states = np.delete(np.arange(coordinates.n_states), ar1_noise)
        by_loadings[:, other_states] = np.einsum("wdk,wk->dk", gradient_times_loadings, shared.values)
        by_state = np.einsum("dk,wdk->wk", spectra.loadings, gradient_times_loadings)
        by_dynamics = 0.5 * shared.sum_by_coordinate(
            np.sum(shared.derivatives * shared.select_states(by_state), axis=0)
        )
        diagonal = 0.5 * np.diagonal(by_spectrum, axis1=1, axis2=2)
        by_decay, by_scale, by_noise = (
            np.sum(derivative * diagonal, axis=0) for derivative in spectra.noise_derivatives
        )
        by_dynamics[ar1_noise] += by_decay
        by_loadings[:, ar1_noise] = np.diag(by_scale)
        gradient = pack_gradient(coordinates, by_dynamics, by_loadings, by_noise, np.zeros_like(by_noise))
        return self._with_prior(params, value, gradient)

    def metric(self, vector: FloatArray, evaluation: Evaluation) -> AR1NoiseMetric:  # type: ignore[override]
        """Return the metric from expected and complete-data information, as for the exact likelihood."""
        params = from_vector(self.coordinates, vector, self.template)
        gradient = gradient_for_metric(
            evaluation.gradient, self.coordinates.slices[2], self.noise, params.noise_variance
        )
        return AR1NoiseMetric(self.coordinates, params, self._complete, gradient)
