"""Initial parameters of processes beside AR(1) factors.

Stochastic cycles are detected one after the other, each at the frequency where the whitened periodogram
``x(w)* S(w)^-1 x(w)`` of the model so far exceeds adjacent frequencies most. Its mean is ``D`` wherever the
model is correct; a wrong model, as with few factors, changes it slowly with the frequency, unlike a cycle.
Loadings are the main axis of the Fourier transform around that frequency, whose phases are those of the
columns.

Other kinds replace the AR(1) factors of :mod:`.starts` that explain most, by :meth:`.Process.like_ar1`.
"""

import numpy as np

from probsfa._typing import FloatArray
from probsfa.statespace.learning.information import factor_spectra
from probsfa.statespace.learning.options import Given
from probsfa.statespace.learning.processes import latent_spectra
from probsfa.statespace.learning.starts import interpolate
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Latents, Parameters, with_more_latents
from probsfa.statespace.processes.rhythm import Rhythm

__all__ = [
    "from_slow",
    "on_even_grid",
    "power_of_a_rhythm",
    "rhythm",
    "silent_processes",
    "strongest_frequency",
    "with_rhythm",
]

# Fewest periods of a detected stochastic cycle that a series must contain.
_FEWEST_PERIODS = 3.0
# Initial damping times of a stochastic cycle, in periods; the better one is used.
MEMORIES = (10.0, 60.0)
# Number of frequencies at which the background of a periodogram is computed, and its smallest half-width.
_BACKGROUNDS, _LEAST_REACH = 200, 10
# Number of frequencies on each side of a peak that are a part of it.
_HALF_A_PEAK = 2
# Most rows of an even grid for each unevenly sampled row.
_MOST_ROWS = 16


def on_even_grid(panel: Panel) -> list[FloatArray]:
    """Return sequences at even times, a row for each unit of time, by linear interpolation."""
    if panel.evenly_sampled:
        return interpolate(panel)
    filled, first = [], 0
    for length, rows in zip(panel.lengths, interpolate(panel), strict=True):
        gaps = np.append(panel.gaps, 0.0)[panel.gap_index[first : first + length]]
        when = np.cumsum(gaps) - gaps[0]
        n = int(min(when[-1], _MOST_ROWS * length)) + 1
        grid = np.linspace(0.0, when[-1], n) if when[-1] > _MOST_ROWS * length else np.arange(float(n))
        filled.append(np.column_stack([np.interp(grid, when, column) for column in rows.T]))
        first += length
    return filled


def _transforms(sequences: list[FloatArray]) -> tuple[FloatArray, list[FloatArray]]:
    """Return frequencies of the longest sequence, and Fourier transforms divided by sqrt(length)."""
    n = max(len(x) for x in sequences)
    transforms = [np.fft.rfft(x, n, axis=0) / np.sqrt(len(x)) for x in sequences if len(x) >= n // 4]
    return 2.0 * np.pi * np.arange(n // 2 + 1) / n, transforms


def _whitened_power(params: Parameters, omega: FloatArray, transforms: list[FloatArray]) -> FloatArray:
    """Return the sum of ``x(w)* S(w)^-1 x(w)`` over all sequences, shape (W,)."""
    root = 1.0 / np.sqrt(params.noise_variance)
    scaled = [x * root for x in transforms]
    power = np.sum([np.sum(np.abs(x) ** 2, axis=1) for x in scaled], axis=0)
    if params.n_states:
        spectra = latent_spectra(params, omega, evenly_sampled=True).values
        _, left, _, inverse, _ = factor_spectra(params, spectra)
        for x in scaled:
            within = x @ left
            shrunk = np.einsum("wa,wab,wb->w", within.conj(), inverse, within).real
            power = power + shrunk - np.sum(np.abs(within) ** 2, axis=1)
    return np.asarray(power)


def strongest_frequency(params: Parameters, sequences: list[FloatArray]) -> float:
    """Return the frequency with most power of centred sequences relative to a model and the background."""
    omega, transforms = _transforms(sequences)
    whitened = _whitened_power(params, omega, transforms)
    return float(omega[_strongest(params, omega, whitened, sequences)])


def power_of_a_rhythm(params: Parameters, sequences: list[FloatArray]) -> float:
    """Return the approximate gain in log-likelihood, in nats, of adding the strongest stochastic cycle.

    That is the power above the background of adjacent frequencies, relative to the background: the gain of a
    model that explains all of it, before the log determinant is subtracted. For a correct model it is due to
    chance, some nats for each column.

    Parameters
    ----------
    params : Parameters
        The model so far.
    sequences : list of ndarray of shape (T_i, D)
        Complete, centred sequences.
    """
    omega, transforms = _transforms(sequences)
    whitened = _whitened_power(params, omega, transforms)
    at = _strongest(params, omega, whitened, sequences)
    near = slice(max(at - _HALF_A_PEAK, 1), at + _HALF_A_PEAK + 1)
    beyond = np.maximum(whitened[near] / _background(whitened)[near] - 1.0, 0.0)
    return float(beyond.sum() * params.n_features * len(transforms))


def _strongest(
    params: Parameters, omega: FloatArray, whitened: FloatArray, sequences: list[FloatArray]
) -> int:
    """Return the index of the frequency with most power above background, away from cycles of the model."""
    power = np.convolve(whitened, [0.25, 0.5, 0.25], mode="same")
    power /= _background(power)
    longest = 2.0 * np.pi * _FEWEST_PERIODS / max(len(x) for x in sequences)
    apart = np.abs(omega[:, None] - np.abs(params.rhythm_frequency)) < 2.5 * omega[1]
    power[(omega < min(longest, 0.5 * np.pi)) | np.any(apart, axis=1)] = -np.inf
    power[-1] = -np.inf  # it has no phase
    return int(np.argmax(power))


def _background(power: FloatArray) -> FloatArray:
    """Return medians of the power from two thirds to three halves of each frequency, shape (W,)."""
    n = len(power)
    centres = np.unique(np.geomspace(1, max(n - 1, 1), _BACKGROUNDS).astype(int))
    reach = [max(c // 3, _LEAST_REACH) for c in centres]
    medians = [
        np.median(power[max(c - r, 1) : c + max(c // 2, r) + 1]) for c, r in zip(centres, reach, strict=True)
    ]
    return np.interp(np.arange(n), centres, np.maximum(medians, np.finfo(np.float64).tiny))


def with_rhythm(
    params: Parameters, frequency: float, sequences: list[FloatArray], memory: float
) -> Parameters:
    """Return the model with another stochastic cycle of that frequency; see :func:`rhythm`."""
    return with_more_latents(params, rhythm(params, frequency, sequences, memory))


def rhythm(params: Parameters, frequency: float, sequences: list[FloatArray], memory: float) -> Parameters:
    """Estimate a stochastic cycle of some frequency; noise and offset are those of the model.

    Parameters
    ----------
    params : Parameters
        The model so far.
    frequency : float
        Radians per unit of time.
    sequences : list of ndarray of shape (T_i, D)
        Complete, centred sequences.
    memory : float
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
    found = Rhythm(np.array([np.exp(-frequency / (2.0 * np.pi * memory))]), np.array([frequency]))
    loadings = np.stack([vector.real, -vector.imag], axis=1)
    return params.replace(decay=np.zeros(0), loadings=loadings, processes=(found,))


def from_slow(params: Parameters, latents: Latents, given: Given) -> list[Parameters]:
    """Return models in which processes of other kinds replace the AR(1) factors that explain most.

    Non-stationary processes replace the slowest of these. Kinds that are detected in the periodogram are not
    added here.
    """
    kinds = [kind for kind in latents.counts if not kind.sought]
    n = sum(latents.counts[kind] for kind in kinds)
    if not n:
        return [params]
    size = np.sum(params.loadings[:, : params.n_components] ** 2 / params.noise_variance[:, None], axis=0)
    chosen = np.sort(np.argsort(-size, kind="stable")[:n])
    slowest_first = chosen[np.argsort(-params.decay[chosen], kind="stable")]
    others = np.setdiff1d(np.arange(params.n_components), chosen)
    made = [params.replace(decay=params.decay[others], loadings=params.loadings[:, others])]
    for kind in sorted(kinds, key=lambda kind: kind.stationary):
        count = latents.counts[kind]
        own, slowest_first = np.sort(slowest_first[:count]), slowest_first[count:]
        news = []
        for process, factors in kind.like_ar1(params.decay[own]):
            known = given.processes.get(kind, process)
            alone = params.replace(decay=np.zeros(0), processes=(known,))
            news.append(alone.with_seen_loadings(params.loadings[:, own] * factors))
        made = [with_more_latents(one, new) for one in made for new in news]
    return made


def silent_processes(latents: Latents, like: Parameters, given: Given) -> Parameters:
    """Return processes beside AR(1) factors with zero loadings, which do not change a model."""
    processes = [given.processes.get(kind, kind.silent(count)) for kind, count in latents.counts.items()]
    loadings = np.zeros((like.n_features, latents.n_states - latents.n_components))
    return like.replace(decay=np.zeros(0), loadings=loadings, processes=tuple(processes))
