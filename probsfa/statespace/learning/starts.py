"""Initial parameters from the data.

Slow feature analysis of interpolated data estimates loadings and decays. With noise, its decays are too small
and its features have small weights on noisy columns. The lagged covariances ``G(l) = C diag(a^l) C'`` at lags
``l > 0`` do not contain white noise. Their joint eigenvectors are other initial values, which are better for
noisy data (Tong et al. 1991; Molgedey & Schuster 1994). The module :mod:`.fit` compares both.
"""

from collections.abc import Iterator

import numpy as np

from probsfa._typing import BoolArray, FloatArray
from probsfa.linalg import default_rank_tol, slow_directions
from probsfa.statespace.learning.coordinates import latent_spectra
from probsfa.statespace.learning.fisher_metric import factor_spectra
from probsfa.statespace.learning.options import InitialProcesses
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateLayout, StateSpace, with_more_factors
from probsfa.statespace.processes.rhythm import Rhythm

# -------------------------------------------------------------------------------------------- AR(1) factors

# Range of initial decays.
_MAX_DECAY, _MIN_DECAY = 1.0 - 1e-4, 0.02
# Two values of the minimum ratio of the noise variance to the variance of each column, for different
# candidates.
_LARGE_NOISE_SHARE, _SMALL_NOISE_SHARE = 0.1, 1e-3


def interpolate(panel: Panel) -> list[FloatArray]:
    """Impute missing values by linear interpolation over row numbers.

    Before the first and after the last observed value of a column, the imputed value is constant. If a column
    has no observed value in a sequence, its mean over all sequences is imputed.
    """
    counts = np.maximum(panel.mask[:].sum(axis=0), 1.0)
    means = panel.values[:].sum(axis=0) / counts
    filled = []
    first = 0
    for length in panel.lengths:
        values = panel.values[first : first + length].copy()
        mask = panel.mask[first : first + length] > 0.0
        rows = np.arange(length)
        for d in np.flatnonzero(~mask.all(axis=0)):
            observed = mask[:, d]
            values[~observed, d] = (
                np.interp(rows[~observed], rows[observed], values[observed, d])
                if observed.any()
                else means[d]
            )
        filled.append(values)
        first += length
    return filled


def lagged_covariance(sequences: list[FloatArray], lag: int) -> FloatArray:
    """Return the symmetrized covariance of centred sequences at a lag; zero if all are too short."""
    d = sequences[0].shape[1]
    total, count = np.zeros((d, d)), 0
    for x in sequences:
        if len(x) > lag:
            total += x[lag:].T @ x[: len(x) - lag]
            count += len(x) - lag
    total /= max(count, 1)
    return 0.5 * (total + total.T)


def starts(
    sequences: list[FloatArray], offset: FloatArray, state_layout: StateLayout
) -> Iterator[StateSpace]:
    """Yield different initial parameters, first the solution of slow feature analysis.

    Parameters
    ----------
    sequences : list of ndarray of shape (T_i, D)
        Complete sequences, centred by ``offset``.
    offset : ndarray of shape (D,)
        Mean of the columns.
    state_layout : StateLayout
        Number of AR(1) factors.

    Yields
    ------
    params : StateSpace
    """
    n_components = state_layout.n_components
    variances = _variances(sequences)
    if n_components == 0:
        yield StateSpace(np.zeros(0), np.zeros((len(variances), 0)), variances, offset)
        return
    basis = _row_space(sequences)
    projected = sequences if basis is None else [x @ basis for x in sequences]
    covariance, lag_one, lag_two = (lagged_covariance(projected, lag) for lag in (0, 1, 2))
    by_slowness = _from_slowness(covariance, lag_one, n_components)
    by_lags = _from_lagged_covariances(lag_one, lag_two, n_components)
    if by_lags[0].size == 0:  # no direction is positively autocorrelated
        by_lags = by_slowness
    for (decay, loadings), share in (
        (by_slowness, _LARGE_NOISE_SHARE),
        (by_lags, _SMALL_NOISE_SHARE),
        (by_slowness, _SMALL_NOISE_SHARE),
    ):
        decay, loadings = _split_components(decay, loadings, n_components)
        loadings = loadings if basis is None else basis @ loadings
        noise = np.maximum(variances - np.sum(loadings**2, axis=1), share * variances)
        yield StateSpace(decay, loadings, noise, offset)


def _variances(sequences: list[FloatArray]) -> FloatArray:
    """Return the variance (D,) of each column of centred sequences, at least 1e-12."""
    power = np.sum([np.sum(x**2, axis=0) for x in sequences], axis=0)
    return np.asarray(np.maximum(power / sum(map(len, sequences)), 1e-12))


def _row_space(sequences: list[FloatArray]) -> FloatArray | None:
    """Return an orthonormal basis (D, R) of the rows if there are fewer rows than columns, or None.

    Eigenproblems in this basis are faster than those of size D.
    """
    rows = np.concatenate(sequences)
    if rows.shape[0] >= rows.shape[1]:
        return None
    _, singular_values, axes = np.linalg.svd(rows, full_matrices=False)
    retained = singular_values > np.sqrt(default_rank_tol(rows.shape[1])) * singular_values[0]
    retained[0] = True  # also if all rows are zero
    return np.asarray(axes[retained].T)


def _from_slowness(
    covariance: FloatArray, lagged: FloatArray, n_components: int
) -> tuple[FloatArray, FloatArray]:
    """Return decays and loadings by slow feature analysis, from the covariances at lags zero and one."""
    solution = slow_directions(2.0 * (covariance - lagged), covariance)
    retained = min(n_components, solution.rank)
    decay = np.clip(1.0 - 0.5 * solution.delta_values[:retained], -_MAX_DECAY, _MAX_DECAY)
    return decay, solution.loadings[:, :retained]


def _from_lagged_covariances(
    lagged: FloatArray, lag_two_covariance: FloatArray, n_components: int
) -> tuple[FloatArray, FloatArray]:
    """Return decays and loadings from the covariances at lags one and two, which contain no white noise."""
    values, vectors = np.linalg.eigh(lagged)
    order = np.argsort(-values)[:n_components]
    values, vectors = values[order], vectors[:, order]
    positive = values > 1e-3 * max(float(values[0]), 0.0)
    loadings_of_whitened = vectors[:, positive] * np.sqrt(values[positive])
    whitener = vectors[:, positive] / np.sqrt(values[positive])
    # G(1) = C diag(a) C' is whitened; the eigenvalues of the whitened G(2) = C diag(a^2) C' are the decays.
    decay, rotation = np.linalg.eigh(whitener.T @ lag_two_covariance @ whitener)
    order = np.argsort(-decay)
    decay = np.clip(decay[order], 2.5 * _MIN_DECAY, _MAX_DECAY)
    return decay, loadings_of_whitened @ rotation[:, order] / np.sqrt(decay)


def _split_components(
    decay: FloatArray, loadings: FloatArray, n_components: int
) -> tuple[FloatArray, FloatArray]:
    """Split components into a slower and a faster one, slowest first, until there are `n_components`."""
    decay, loadings = decay.copy(), loadings.copy()
    n_initial = decay.shape[0]
    for j in range(n_components - n_initial):
        source = j % n_initial
        faster_decay = np.clip(
            1.0 - 4.0 * (1.0 - decay[source]), _MIN_DECAY, 0.9 * abs(decay[source]) + _MIN_DECAY
        )
        decay = np.append(decay, faster_decay)
        loadings = np.column_stack([loadings, np.sqrt(0.3) * loadings[:, source]])
        decay[source] = 1.0 - 0.3 * (1.0 - decay[source])
        loadings[:, source] *= np.sqrt(0.7)
    return decay, loadings


# --------------------------------------------------------------------------------- other kinds of processes

# Initial parameters of processes other than AR(1) factors.
#
# Stochastic cycles are added one after the other. The frequency of a new cycle is a peak of the whitened
# periodogram ``x(w)* S(w)^-1 x(w)``, with the Fourier transform ``x(w)`` of the data and the spectral matrix
# ``S(w)`` of the model so far. The expectation of this periodogram is the number of columns if the model is
# correct. With other errors of the model, such as too few factors, the expectation varies slowly with the
# frequency; with a missing cycle it has a narrow peak. Peaks are therefore compared with the background, the
# median over nearby frequencies. Loadings of the cycle are the principal axis of the Fourier transform near
# the peak, a complex vector with the amplitude and the phase of each column.
#
# Processes of other kinds replace those AR(1) factors that explain most of the variance
# (:meth:`.Process.like_ar1`).

# Initial damping times of a stochastic cycle, in periods; the likelihood selects one.
DAMPING_TIMES = (10.0, 60.0)
# Background of a periodogram: number of frequencies at which the median is computed, and minimum half-width
# of the range of the median, in Fourier frequencies.
_N_BACKGROUND_FREQUENCIES, _MIN_BACKGROUND_HALF_WIDTH = 200, 10
# Number of frequencies on each side of a peak that are part of the peak.
_PEAK_HALF_WIDTH = 2
# Detected cycles: minimum number of periods in the longest sequence, and minimum distance between the
# frequencies of two cycles, in Fourier frequencies.
_MIN_PERIODS, _MIN_FREQUENCY_DISTANCE = 3.0, 2.5
# Maximum number of rows of an even grid for each unevenly sampled row.
_MAX_GRID_ROWS_PER_ROW = 16


def interpolate_to_grid(panel: Panel) -> list[FloatArray]:
    """Interpolate sequences linearly to an even grid, with one row for each unit of time.

    Steps of the grid are longer if the grid would have more than 16 times as many rows as the sequence.
    """
    if panel.evenly_sampled:
        return interpolate(panel)
    interpolated, first = [], 0
    for length, rows in zip(panel.lengths, interpolate(panel), strict=True):
        gaps = np.append(panel.gaps, 0.0)[panel.gap_index[first : first + length]]
        times = np.cumsum(gaps) - gaps[0]
        n_steps = int(min(times[-1], _MAX_GRID_ROWS_PER_ROW * length))
        is_too_long = times[-1] > _MAX_GRID_ROWS_PER_ROW * length
        grid = np.linspace(0.0, times[-1], n_steps + 1) if is_too_long else np.arange(n_steps + 1.0)
        interpolated.append(np.column_stack([np.interp(grid, times, column) for column in rows.T]))
        first += length
    return interpolated


def _transforms(sequences: list[FloatArray]) -> tuple[FloatArray, list[FloatArray]]:
    """Return the Fourier frequencies of the longest sequence, and transforms divided by sqrt(length).

    Sequences that are shorter than a quarter of the longest sequence are not transformed.
    """
    n = max(len(x) for x in sequences)
    transforms = [np.fft.rfft(x, n, axis=0) / np.sqrt(len(x)) for x in sequences if len(x) >= n // 4]
    return 2.0 * np.pi * np.arange(n // 2 + 1) / n, transforms


def _whitened_power(params: StateSpace, omega: FloatArray, transforms: list[FloatArray]) -> FloatArray:
    """Return the sum of ``x(w)* S(w)^-1 x(w)`` over all sequences, shape (W,)."""
    inverse_noise_std = 1.0 / np.sqrt(params.noise_variance)
    scaled = [x * inverse_noise_std for x in transforms]
    power = np.sum([np.sum(np.abs(x) ** 2, axis=1) for x in scaled], axis=0)
    if params.n_states:
        spectra = latent_spectra(params, omega, evenly_sampled=True).values
        _, left_singular, _, core_inverse, _ = factor_spectra(params, spectra)
        for x in scaled:
            projected = x @ left_singular
            whitened = np.einsum("wa,wab,wb->w", projected.conj(), core_inverse, projected).real
            power = power + whitened - np.sum(np.abs(projected) ** 2, axis=1)
    return np.asarray(power)


def strongest_frequency(params: StateSpace, sequences: list[FloatArray]) -> float:
    """Return the frequency, in radians per row, at which the ratio of periodogram to background is largest.

    The periodogram is whitened by the model.
    """
    omega, transforms = _transforms(sequences)
    whitened = _whitened_power(params, omega, transforms)
    return float(omega[_highest_peak(params, omega, whitened, sequences)])


def likelihood_gain_of_cycle(params: StateSpace, sequences: list[FloatArray]) -> float:
    """Return the approximate gain in log-likelihood, in nats, from an additional stochastic cycle.

    The gain is the relative excess of the whitened periodogram over its background at the highest peak. It
    assumes a model that explains the complete peak, and neglects the change of the log determinant. For a
    correct model, the result is a few nats for each column by chance.

    Parameters
    ----------
    params : StateSpace
        The model so far.
    sequences : list of ndarray of shape (T_i, D)
        Complete, centred sequences.

    Returns
    -------
    float
        Zero if the series is too short to show another cycle.
    """
    omega, transforms = _transforms(sequences)
    if not _candidate_frequencies(params, omega, sequences).any():
        return 0.0
    whitened = _whitened_power(params, omega, transforms)
    peak = _highest_peak(params, omega, whitened, sequences)
    band = slice(max(peak - _PEAK_HALF_WIDTH, 1), peak + _PEAK_HALF_WIDTH + 1)
    excess = np.maximum(whitened[band] / _background(whitened)[band] - 1.0, 0.0)
    return float(excess.sum() * params.n_features * len(transforms))


def _highest_peak(
    params: StateSpace, omega: FloatArray, whitened: FloatArray, sequences: list[FloatArray]
) -> int:
    """Return the index of the candidate frequency with the largest ratio of power to background.

    For a short series without candidate frequencies, the result is the middle of the spectrum.
    """
    power = np.convolve(whitened, [0.25, 0.5, 0.25], mode="same")
    power /= _background(power)
    is_candidate = _candidate_frequencies(params, omega, sequences)
    if not is_candidate.any():
        return max(len(omega) // 2, 1)
    return int(np.argmax(np.where(is_candidate, power, -np.inf)))


def _candidate_frequencies(params: StateSpace, omega: FloatArray, sequences: list[FloatArray]) -> BoolArray:
    """Return a mask of possible frequencies (W,) of a new cycle.

    The longest sequence must contain several periods, and the model must not have a cycle of a similar
    frequency.
    """
    lowest = 2.0 * np.pi * _MIN_PERIODS / max(len(x) for x in sequences)
    distances = np.abs(omega[:, None] - np.abs(params.rhythm_frequency))
    is_near = np.any(distances < _MIN_FREQUENCY_DISTANCE * omega[1], axis=1)
    is_candidate = (omega >= min(lowest, 0.5 * np.pi)) & ~is_near
    is_candidate[-1] = False  # the Fourier transform is real there, so that the phase is not determined
    return is_candidate


def _background(power: FloatArray) -> FloatArray:
    """Return the median power from two thirds to three halves of each frequency, shape (W,).

    Medians are computed at some frequencies and interpolated.
    """
    n = len(power)
    centres = np.unique(np.geomspace(1, max(n - 1, 1), _N_BACKGROUND_FREQUENCIES).astype(int))
    half_widths = [max(centre // 3, _MIN_BACKGROUND_HALF_WIDTH) for centre in centres]
    medians = [
        np.median(power[max(centre - half_width, 1) : centre + max(centre // 2, half_width) + 1])
        for centre, half_width in zip(centres, half_widths, strict=True)
    ]
    return np.interp(np.arange(n), centres, np.maximum(medians, np.finfo(np.float64).tiny))


def with_cycle(
    params: StateSpace, frequency: float, sequences: list[FloatArray], damping_time: float
) -> StateSpace:
    """Return the model with an additional stochastic cycle; see :func:`estimated_cycle`."""
    return with_more_factors(params, estimated_cycle(params, frequency, sequences, damping_time))


def estimated_cycle(
    params: StateSpace, frequency: float, sequences: list[FloatArray], damping_time: float
) -> StateSpace:
    """Estimate the loadings of a stochastic cycle with given frequency and damping time.

    Parameters
    ----------
    params : StateSpace
        The model so far.
    frequency : float
        Radians per unit of time.
    sequences : list of ndarray of shape (T_i, D)
        Complete, centred sequences.
    damping_time : float
        Damping time of the cycle, in periods.

    Returns
    -------
    StateSpace
        Model with the cycle only, with noise and offset of `params`.
    """
    omega, transforms = _transforms(sequences)
    nearest = int(np.argmin(np.abs(omega - frequency)))
    band = slice(max(nearest - _PEAK_HALF_WIDTH, 1), nearest + _PEAK_HALF_WIDTH + 1)
    rows = np.concatenate([x[band] for x in transforms]) / np.sqrt(params.noise_variance)
    _, singular_values, axes = np.linalg.svd(rows, full_matrices=False)
    n_rows = np.mean([len(x) for x in sequences]) * len(transforms)
    amplitudes = axes[0] * singular_values[0] * np.sqrt(2.0 / n_rows) * np.sqrt(params.noise_variance)
    cycle = Rhythm(np.array([np.exp(-frequency / (2.0 * np.pi * damping_time))]), np.array([frequency]))
    # With states (cos w t, sin w t), the signal Re(v exp(i w t)) has the loadings (Re v, -Im v).
    loadings = np.stack([amplitudes.real, -amplitudes.imag], axis=1)
    return params.replace(decay=np.zeros(0), loadings=loadings, processes=(cycle,))


def from_ar1_factors(
    params: StateSpace, state_layout: StateLayout, initial_processes: InitialProcesses
) -> list[StateSpace]:
    """Return models in which other processes replace the AR(1) factors that explain most of the variance.

    Trends replace the slowest of these factors. Cycles are not added.
    """
    kinds = [kind for kind in state_layout.counts if not kind.from_periodogram]
    n = sum(state_layout.counts[kind] for kind in kinds)
    if not n:
        return [params]
    explained = np.sum(
        params.loadings[:, : params.n_components] ** 2 / params.noise_variance[:, None], axis=0
    )
    selected = np.sort(np.argsort(-explained, kind="stable")[:n])
    slowest_first = selected[np.argsort(-params.decay[selected], kind="stable")]
    others = np.setdiff1d(np.arange(params.n_components), selected)
    models = [params.replace(decay=params.decay[others], loadings=params.loadings[:, others])]
    for kind in sorted(kinds, key=lambda kind: kind.stationary):
        count = state_layout.counts[kind]
        replaced, slowest_first = np.sort(slowest_first[:count]), slowest_first[count:]
        alternatives = []
        for process, multipliers in kind.like_ar1(params.decay[replaced]):
            initial = initial_processes.processes.get(kind, process)
            process_model = params.replace(decay=np.zeros(0), processes=(initial,))
            loadings = params.loadings[:, replaced] * multipliers
            alternatives.append(process_model.with_nonzero_loadings(loadings))
        models = [with_more_factors(model, alternative) for model in models for alternative in alternatives]
    return models


def processes_without_loadings(
    state_layout: StateLayout, template: StateSpace, initial_processes: InitialProcesses
) -> StateSpace:
    """Return cycles, smooth factors and trends with zero loadings.

    Adding them to a model does not change its likelihood.
    """
    processes = [
        initial_processes.processes.get(kind, kind.arbitrary(count))
        for kind, count in state_layout.counts.items()
    ]
    loadings = np.zeros((template.n_features, state_layout.n_states - state_layout.n_components))
    return template.replace(decay=np.zeros(0), loadings=loadings, processes=tuple(processes))


# ---------------------------------------------------------------------------------------------- AR(1) noise

# Initial parameters of AR(1) noise of the columns.
#
# The noise of each column is split into white and AR(1) noise. The optimizer then estimates scale and decay
# of AR(1) noise. It may end at another maximum if the sign of the initial decay is wrong, so that the sign is
# estimated from residuals.

# Initial share of AR(1) noise in the noise variance: before optimization on Whittle's likelihood, and before
# optimization on the exact likelihood.
_WHITTLE_AR1_SHARE, _EXACT_AR1_SHARE = 0.5, 0.1
# Initial absolute decay of AR(1) noise.
_AR1_NOISE_DECAY = 0.8
# The initial decay of AR(1) noise is negative for columns with at least this share of noise in their variance
# and at most this lag-one correlation of residuals.
_MIN_NOISE_SHARE, _MAX_NEGATIVE_CORRELATION = 0.1, -0.2


def with_ar1_noise(
    params: StateSpace, share: float = _WHITTLE_AR1_SHARE, sign: FloatArray | float = 1.0
) -> StateSpace:
    """Return the model with a share of the noise of each column as AR(1) noise, in state-space form.

    Parameters
    ----------
    params : StateSpace
        A model with white noise.
    share : float, default=0.5
        Fraction of the noise.
    sign : float or ndarray of shape (D,), default=1.0
        Sign of the decays of AR(1) noise.
    """
    return _add_ar1_noise(params, share, sign).state_space


def ar1_noise_signs(params: StateSpace, residuals: list[FloatArray]) -> FloatArray:
    """Return initial signs (D,) of the decays of AR(1) noise from residuals of standardized sequences.

    Negative signs are used only for columns with much noise. With little noise, residuals of the smoother
    have a negative lag-one correlation even if the noise is white.
    """
    lagged, power = (
        np.sum([np.sum(x[lag:] * x[: len(x) - lag], axis=0) for x in residuals], axis=0) for lag in (1, 0)
    )
    has_much_noise = params.noise_variance > _MIN_NOISE_SHARE
    return np.where(has_much_noise & (lagged < _MAX_NEGATIVE_CORRELATION * power), -1.0, 1.0)


def with_weak_ar1_noise(params: StateSpace) -> StateSpace:
    """Return the model with a tenth of the noise of each column as AR(1) noise."""
    return _add_ar1_noise(params, _EXACT_AR1_SHARE)


def with_zero_ar1_noise(params: StateSpace) -> StateSpace:
    """Return the same model with AR(1) noise of scale zero, in state-space form."""
    return _add_ar1_noise(params, 0.0).state_space


def _add_ar1_noise(params: StateSpace, share: float, sign: FloatArray | float = 1.0) -> StateSpace:
    variance: FloatArray = params.noise_variance
    return params.replace(
        noise_variance=(1.0 - share) * variance,
        noise_decay=np.full(params.n_features, _AR1_NOISE_DECAY) * sign,
        noise_scale=np.sqrt(share * variance),
    )
