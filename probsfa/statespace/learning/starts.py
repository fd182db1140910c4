"""Initial parameters from the data.

Slow feature analysis of interpolated data estimates directions and decays. With noise, its decays are too
small and its directions avoid noisy columns. The lagged covariances ``G(l) = C diag(a^l) C'``, l > 0, do not
contain white noise; their joint eigenvectors are a second start, which is better for noisy data (Tong et al.
1991; Molgedey & Schuster 1994). Both are refined on Whittle's likelihood, at very little cost, and then
ranked by the exact likelihood.
"""

from collections.abc import Iterator

import numpy as np

from probsfa._typing import BoolArray, FloatArray
from probsfa.linalg import default_rank_tol, slow_directions
from probsfa.statespace.learning.coordinates import latent_spectra
from probsfa.statespace.learning.fisher_metric import factor_spectra
from probsfa.statespace.learning.options import InitialProcesses
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Latents, StateSpace, with_more_latents
from probsfa.statespace.processes.rhythm import Rhythm

# -------------------------------------------------------------------------------------------- AR(1) factors

_MAX_DECAY, _MIN_DECAY = 1.0 - 1e-4, 0.02
# Minimum share of the noise in the variance of each column, for different starts.
_NOISE_SHARES = (0.1, 1e-3)


def interpolate(panel: Panel) -> list[FloatArray]:
    """Impute missing values by linear interpolation, constant before the first and after the last value.

    If a column is never observed in a sequence, its mean over all sequences is used.
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
    """Return the symmetrised covariance of centred sequences at a lag; zero if all are too short."""
    d = sequences[0].shape[1]
    total, count = np.zeros((d, d)), 0
    for x in sequences:
        if len(x) > lag:
            total += x[lag:].T @ x[: len(x) - lag]
            count += len(x) - lag
    total /= max(count, 1)
    return 0.5 * (total + total.T)


def starts(sequences: list[FloatArray], offset: FloatArray, latents: Latents) -> Iterator[StateSpace]:
    """Yield different starts, the closest to slow feature analysis first.

    Parameters
    ----------
    sequences : list of ndarray of shape (T_i, D)
        Complete sequences, centred by ``offset``.
    offset : ndarray of shape (D,)
        Mean of the columns.
    latents : Latents
        Number of AR(1) factors.

    Yields
    ------
    params : StateSpace
    """
    n_components = latents.n_components
    variances = _variances(sequences)
    if n_components == 0:
        yield StateSpace(np.zeros(0), np.zeros((len(variances), 0)), variances, offset)
        return
    basis = _row_space(sequences)
    projected = sequences if basis is None else [x @ basis for x in sequences]
    covariance, lagged = lagged_covariance(projected, 0), lagged_covariance(projected, 1)
    by_slowness = _from_slowness(covariance, lagged, n_components)
    by_lags = _from_lagged_covariances(lagged, lagged_covariance(projected, 2), n_components)
    if by_lags[0].size == 0:  # no direction is positively autocorrelated
        by_lags = by_slowness
    for (decay, loadings), share in (
        (by_slowness, _NOISE_SHARES[0]),
        (by_lags, _NOISE_SHARES[1]),
        (by_slowness, _NOISE_SHARES[1]),
    ):
        decay, loadings = _split_components(decay, loadings, n_components)
        loadings = loadings if basis is None else basis @ loadings
        noise = np.maximum(variances - np.sum(loadings**2, axis=1), share * variances)
        yield StateSpace(decay, loadings, noise, offset)


def random_starts(
    sequences: list[FloatArray], offset: FloatArray, latents: Latents, n_starts: int
) -> Iterator[StateSpace]:
    """Yield random starts, the same in each call.

    Loadings are random combinations of the directions in which the data vary, and explain between a tenth and
    nine tenths of the variance; time scales are log-uniform from one step to the length of the longest
    sequence. Parameters are those of :func:`starts`, and the number of starts.
    """
    k, longest = latents.n_components, max(len(x) for x in sequences)
    variances = _variances(sequences)
    basis = _row_space(sequences)
    projected = sequences if basis is None else [x @ basis for x in sequences]
    values, vectors = np.linalg.eigh(lagged_covariance(projected, 0))
    covariance_root = vectors * np.sqrt(np.maximum(values, 0.0))
    covariance_root = covariance_root if basis is None else basis @ covariance_root
    for seed in range(n_starts):
        rng = np.random.default_rng(seed)
        timescales = np.exp(rng.uniform(0.0, np.log(max(longest, 2)), k))
        decay = np.clip(np.exp(-1.0 / timescales), _MIN_DECAY, _MAX_DECAY)
        share = rng.uniform(0.1, 0.9)
        loadings = covariance_root @ rng.standard_normal((covariance_root.shape[1], k)) * np.sqrt(share / k)
        noise = np.maximum(variances - np.sum(loadings**2, axis=1), (1.0 - share) * variances)
        order = np.argsort(-decay)
        yield StateSpace(decay[order], loadings[:, order], noise, offset)


def _variances(sequences: list[FloatArray]) -> FloatArray:
    """Return the variance (D,) of each column of centred sequences, at least 1e-12."""
    power = np.sum([np.sum(x**2, axis=0) for x in sequences], axis=0)
    return np.asarray(np.maximum(power / sum(map(len, sequences)), 1e-12))


def _row_space(sequences: list[FloatArray]) -> FloatArray | None:
    """Return an orthonormal basis (D, R) of the N rows if they are fewer than the D columns, or None.

    Eigenproblems of size D cost D^3 products, and all data lie in the span of the rows.
    """
    rows = np.concatenate(sequences)
    if rows.shape[0] >= rows.shape[1]:
        return None
    _, size, axes = np.linalg.svd(rows, full_matrices=False)
    retained = size > np.sqrt(default_rank_tol(rows.shape[1])) * size[0]
    retained[0] = True  # even if all rows are zero
    return np.asarray(axes[retained].T)


def _from_slowness(
    covariance: FloatArray, lagged: FloatArray, n_components: int
) -> tuple[FloatArray, FloatArray]:
    """Return decays and loadings by slow feature analysis; differences have moment ``2 (G(0) - G(1))``."""
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
    decay, rotation = np.linalg.eigh(whitener.T @ lag_two_covariance @ whitener)
    order = np.argsort(-decay)
    decay = np.clip(decay[order], 2.5 * _MIN_DECAY, _MAX_DECAY)
    return decay, loadings_of_whitened @ rotation[:, order] / np.sqrt(decay)


def _split_components(
    decay: FloatArray, loadings: FloatArray, n_components: int
) -> tuple[FloatArray, FloatArray]:
    """Split components into a slower and a faster one, the slowest first, until their number is reached."""
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

# Initial parameters of processes beside AR(1) factors.
#
# Stochastic cycles are detected one after the other, each at the frequency where the whitened periodogram
# ``x(w)* S(w)^-1 x(w)`` of the model so far exceeds adjacent frequencies most. Its mean is ``D`` if the model
# is correct. If the model is wrong, for example with too few factors, the mean varies slowly with the
# frequency, while a cycle is a narrow peak. Loadings are the principal axis of the Fourier transform around
# that frequency; its phases are those of the columns.
#
# Other kinds replace the AR(1) factors of :mod:`.starts` that explain most, by :meth:`.Process.like_ar1`.

# Initial damping times of a stochastic cycle, in periods; the better one is used.
DAMPING_TIMES = (10.0, 60.0)
# Number of frequencies at which the background of a periodogram is computed, and its smallest half-width.
_N_BACKGROUND_FREQUENCIES, _MIN_BACKGROUND_HALF_WIDTH = 200, 10
# Number of frequencies on each side of a peak that are a part of it.
_PEAK_HALF_WIDTH = 2
# Maximum number of rows of an even grid for each unevenly sampled row.
_MAX_GRID_ROWS_PER_ROW = 16


def on_even_grid(panel: Panel) -> list[FloatArray]:
    """Return sequences at even times, a row for each unit of time, by linear interpolation."""
    if panel.evenly_sampled:
        return interpolate(panel)
    filled, first = [], 0
    for length, rows in zip(panel.lengths, interpolate(panel), strict=True):
        gaps = np.append(panel.gaps, 0.0)[panel.gap_index[first : first + length]]
        times_of_rows = np.cumsum(gaps) - gaps[0]
        n = int(min(times_of_rows[-1], _MAX_GRID_ROWS_PER_ROW * length)) + 1
        grid = (
            np.linspace(0.0, times_of_rows[-1], n)
            if times_of_rows[-1] > _MAX_GRID_ROWS_PER_ROW * length
            else np.arange(float(n))
        )
        filled.append(np.column_stack([np.interp(grid, times_of_rows, column) for column in rows.T]))
        first += length
    return filled


def _transforms(sequences: list[FloatArray]) -> tuple[FloatArray, list[FloatArray]]:
    """Return frequencies of the longest sequence, and Fourier transforms divided by sqrt(length)."""
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
        _, left_factors, _, inverse, _ = factor_spectra(params, spectra)
        for x in scaled:
            projected = x @ left_factors
            reduction = np.einsum("wa,wab,wb->w", projected.conj(), inverse, projected).real
            power = power + reduction - np.sum(np.abs(projected) ** 2, axis=1)
    return np.asarray(power)


def strongest_frequency(params: StateSpace, sequences: list[FloatArray]) -> float:
    """Return the frequency with most power of centred sequences relative to a model and the background."""
    omega, transforms = _transforms(sequences)
    whitened = _whitened_power(params, omega, transforms)
    return float(omega[_strongest(params, omega, whitened, sequences)])


def likelihood_gain_of_cycle(params: StateSpace, sequences: list[FloatArray]) -> float:
    """Return the approximate gain in log-likelihood, in nats, of adding the strongest stochastic cycle.

    This is the power above the background of adjacent frequencies, relative to the background. It would be
    the gain of a model that explains all of this power, without the log determinant. For a correct model it
    is a few nats for each column, due to chance.

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
    peak = _strongest(params, omega, whitened, sequences)
    band = slice(max(peak - _PEAK_HALF_WIDTH, 1), peak + _PEAK_HALF_WIDTH + 1)
    excess = np.maximum(whitened[band] / _background(whitened)[band] - 1.0, 0.0)
    return float(excess.sum() * params.n_features * len(transforms))


def _strongest(
    params: StateSpace, omega: FloatArray, whitened: FloatArray, sequences: list[FloatArray]
) -> int:
    """Return the index of the frequency with most power above background, except near cycles of the model."""
    power = np.convolve(whitened, [0.25, 0.5, 0.25], mode="same")
    power /= _background(power)
    possible = _candidate_frequencies(params, omega, sequences)
    if not possible.any():  # a short series: the middle of the spectrum
        return max(len(omega) // 2, 1)
    return int(np.argmax(np.where(possible, power, -np.inf)))


def _candidate_frequencies(params: StateSpace, omega: FloatArray, sequences: list[FloatArray]) -> BoolArray:
    """Return the frequencies (W,) of cycles that the series can show and that the model does not have."""
    # Minimum number of periods of a detected stochastic cycle in a series.
    longest = 2.0 * np.pi * 3.0 / max(len(x) for x in sequences)
    differences = np.abs(omega[:, None] - np.abs(params.rhythm_frequency)) < 2.5 * omega[1]
    possible = (omega >= min(longest, 0.5 * np.pi)) & ~np.any(differences, axis=1)
    possible[-1] = False  # it has no phase
    return possible


def _background(power: FloatArray) -> FloatArray:
    """Return medians of the power from two thirds to three halves of each frequency, shape (W,)."""
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
    """Return the model with another stochastic cycle of that frequency; see :func:`estimated_cycle`."""
    return with_more_latents(params, estimated_cycle(params, frequency, sequences, damping_time))


def estimated_cycle(
    params: StateSpace, frequency: float, sequences: list[FloatArray], damping_time: float
) -> StateSpace:
    """Estimate a stochastic cycle of some frequency; noise and offset are those of the model.

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
    """
    omega, transforms = _transforms(sequences)
    nearest = int(np.argmin(np.abs(omega - frequency)))
    band = slice(max(nearest - 2, 1), nearest + 3)
    rows = np.concatenate([x[band] for x in transforms]) / np.sqrt(params.noise_variance)
    _, sizes, vectors = np.linalg.svd(rows, full_matrices=False)
    n_rows = np.mean([len(x) for x in sequences]) * len(transforms)
    vector = vectors[0] * sizes[0] * np.sqrt(2.0 / n_rows) * np.sqrt(params.noise_variance)
    # c z + c* z* is the real part of (c - i c*) (z + i z*), which rotates as exp(i w t).
    cycle = Rhythm(np.array([np.exp(-frequency / (2.0 * np.pi * damping_time))]), np.array([frequency]))
    loadings = np.stack([vector.real, -vector.imag], axis=1)
    return params.replace(decay=np.zeros(0), loadings=loadings, processes=(cycle,))


def from_ar1_factors(
    params: StateSpace, latents: Latents, initial_processes: InitialProcesses
) -> list[StateSpace]:
    """Return models in which processes of other kinds replace the AR(1) factors that explain most.

    Non-stationary processes replace the slowest of these. Cycles are not added here.
    """
    kinds = [kind for kind in latents.counts if not kind.from_periodogram]
    n = sum(latents.counts[kind] for kind in kinds)
    if not n:
        return [params]
    size = np.sum(params.loadings[:, : params.n_components] ** 2 / params.noise_variance[:, None], axis=0)
    selected = np.sort(np.argsort(-size, kind="stable")[:n])
    slowest_first = selected[np.argsort(-params.decay[selected], kind="stable")]
    others = np.setdiff1d(np.arange(params.n_components), selected)
    models = [params.replace(decay=params.decay[others], loadings=params.loadings[:, others])]
    for kind in sorted(kinds, key=lambda kind: kind.stationary):
        count = latents.counts[kind]
        replaced, slowest_first = np.sort(slowest_first[:count]), slowest_first[count:]
        new_processes = []
        for process, factors in kind.like_ar1(params.decay[replaced]):
            initial = initial_processes.processes.get(kind, process)
            process_model = params.replace(decay=np.zeros(0), processes=(initial,))
            new_processes.append(process_model.with_seen_loadings(params.loadings[:, replaced] * factors))
        models = [with_more_latents(model, new_process) for model in models for new_process in new_processes]
    return models


def silent_processes(
    latents: Latents, template: StateSpace, initial_processes: InitialProcesses
) -> StateSpace:
    """Return cycles, smooth factors and trends with zero loadings, which do not change a model."""
    processes = [
        initial_processes.processes.get(kind, kind.silent(count)) for kind, count in latents.counts.items()
    ]
    loadings = np.zeros((template.n_features, latents.n_states - latents.n_components))
    return template.replace(decay=np.zeros(0), loadings=loadings, processes=tuple(processes))


# ---------------------------------------------------------------------------------------------- AR(1) noise

# Initial values for AR(1) noise of the columns.
#
# The noise of each column is split into white and AR(1) noise. Scale and decay of the latter are then
# estimated on Whittle's likelihood; only the sign of the decay must be known before.

# Initial fraction of the noise that is AR(1) noise: in the frequency domain, and for the exact likelihood.
_WHITTLE_AR1_SHARE, _EXACT_AR1_SHARE = 0.5, 0.1
# Minimum fraction of noise in the variance of a noisy column, and lag-one correlation of alternating noise.
_MIN_NOISE_SHARE, _MAX_CORRELATION_OF_ALTERNATING = 0.1, -0.2


def with_ar1_noise(
    params: StateSpace, share: float = _WHITTLE_AR1_SHARE, sign: FloatArray | float = 1.0
) -> StateSpace:
    """Return the model with a fraction of each column's noise as AR(1) noise, in the state space.

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


def signs_of_ar1_noise(params: StateSpace, residuals: list[FloatArray]) -> FloatArray:
    """Return signs (D,) of the decays of AR(1) noise from the residuals of standardised sequences.

    Negative signs are used only for columns with much noise, because with little noise residuals alternate as
    an artefact of smoothing.
    """
    lagged, power = (
        np.sum([np.sum(x[lag:] * x[: len(x) - lag], axis=0) for x in residuals], axis=0) for lag in (1, 0)
    )
    has_much_noise = params.noise_variance > _MIN_NOISE_SHARE
    return np.where(has_much_noise & (lagged < _MAX_CORRELATION_OF_ALTERNATING * power), -1.0, 1.0)


def with_weak_ar1_noise(params: StateSpace) -> StateSpace:
    """Return the model with a tenth of each column's noise as AR(1) noise."""
    return _add_ar1_noise(params, _EXACT_AR1_SHARE)


def with_silent_ar1_noise(params: StateSpace) -> StateSpace:
    """Return the same model with AR(1) noise of scale zero, in the state space."""
    return _add_ar1_noise(params, 0.0).state_space


def _add_ar1_noise(params: StateSpace, share: float, sign: FloatArray | float = 1.0) -> StateSpace:
    variance: FloatArray = params.noise_variance
    # Initial decay.
    return params.replace(
        noise_variance=(1.0 - share) * variance,
        memory_decay=np.full(params.n_features, 0.8) * sign,
        memory_scale=np.sqrt(share * variance),
    )
