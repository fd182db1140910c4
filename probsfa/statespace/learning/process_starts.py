"""Where learning starts with processes beside AR(1) factors.

Rhythms are looked for one after the other, each where the whitened periodogram ``x(w)* S(w)^-1 x(w)`` of the
model so far stands out most from its neighbourhood. Its mean is ``D`` wherever the model is right; where it
is not, as with few latents, it rises and falls slowly with the frequency, which is no rhythm. Their loadings
are the main axis of the Fourier transform around that frequency, whose phases are those of the columns.

Other kinds start in the places of the AR(1) factors of :mod:`.starts` that explain most, as
:meth:`.Process.like_ar1` has it.
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

# Fewest periods that a series must hold of a rhythm that is looked for.
_FEWEST_PERIODS = 3.0
# Periods in which a rhythm forgets its phase, of which the better one is the start.
MEMORIES = (10.0, 60.0)
# Frequencies at which the background of a periodogram is taken, and least reach of one, in frequencies.
_BACKGROUNDS, _LEAST_REACH = 200, 10
# Frequencies to each side of a peak that are a part of it.
_HALF_A_PEAK = 2
# Most rows of an even grid for each row at uneven times.
_MOST_ROWS = 16


def on_even_grid(panel: Panel) -> list[FloatArray]:
    """Sequences without holes, a row for each unit of time, filled along straight lines."""
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
    """Frequencies of the longest sequence, and Fourier transforms of all there, of unit mean square."""
    n = max(len(x) for x in sequences)
    transforms = [np.fft.rfft(x, n, axis=0) / np.sqrt(len(x)) for x in sequences if len(x) >= n // 4]
    return 2.0 * np.pi * np.arange(n // 2 + 1) / n, transforms


def _whitened_power(params: Parameters, omega: FloatArray, transforms: list[FloatArray]) -> FloatArray:
    """``x(w)* S(w)^-1 x(w)`` of all sequences, shape (W,)."""
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
    """Frequency at which centred sequences have most power beyond that of a model, and of those around."""
    omega, transforms = _transforms(sequences)
    whitened = _whitened_power(params, omega, transforms)
    return float(omega[_strongest(params, omega, whitened, sequences)])


def power_of_a_rhythm(params: Parameters, sequences: list[FloatArray]) -> float:
    """What the strongest rhythm may add to the log-likelihood of a model, about, in nats.

    That is the power beyond the background of the frequencies around, in units of what noise has there: the
    gain of a model that has all of it, before the logarithms of its variances are taken off. Where a model is
    right it is that of chance, some nats for each column.

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
    """Which frequency has most power beyond the background, and is none of the rhythms that are there."""
    power = np.convolve(whitened, [0.25, 0.5, 0.25], mode="same")
    power /= _background(power)
    longest = 2.0 * np.pi * _FEWEST_PERIODS / max(len(x) for x in sequences)
    apart = np.abs(omega[:, None] - np.abs(params.rhythm_frequency)) < 2.5 * omega[1]
    power[(omega < min(longest, 0.5 * np.pi)) | np.any(apart, axis=1)] = -np.inf
    power[-1] = -np.inf  # it has no phase
    return int(np.argmax(power))


def _background(power: FloatArray) -> FloatArray:
    """Medians of power at frequencies around each, from two thirds of it to three halves, shape (W,)."""
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
    """The same model with a rhythm of that frequency; see :func:`rhythm`."""
    return with_more_latents(params, rhythm(params, frequency, sequences, memory))


def rhythm(params: Parameters, frequency: float, sequences: list[FloatArray], memory: float) -> Parameters:
    """A rhythm of some frequency, as it is in centred sequences; with the noise and offset of a model.

    Parameters
    ----------
    params : Parameters
        The model so far.
    frequency : float
        Radians for one unit of time.
    sequences : list of ndarray of shape (T_i, D)
        Complete, centred sequences.
    memory : float
        Periods in which the rhythm forgets its phase.
    """
    omega, transforms = _transforms(sequences)
    nearest = int(np.argmin(np.abs(omega - frequency)))
    band = slice(max(nearest - 2, 1), nearest + 3)
    rows = np.concatenate([x[band] for x in transforms]) / np.sqrt(params.noise_variance)
    _, sizes, vectors = np.linalg.svd(rows, full_matrices=False)
    n_rows = np.mean([len(x) for x in sequences]) * len(transforms)
    vector = vectors[0] * sizes[0] * np.sqrt(2.0 / n_rows) * np.sqrt(params.noise_variance)
    # c z + c* z* is the real part of (c - i c*) (z + i z*), which turns as exp(i w t).
    found = Rhythm(np.array([np.exp(-frequency / (2.0 * np.pi * memory))]), np.array([frequency]))
    loadings = np.stack([vector.real, -vector.imag], axis=1)
    return params.replace(decay=np.zeros(0), loadings=loadings, processes=(found,))


def from_slow(params: Parameters, latents: Latents, given: Given) -> list[Parameters]:
    """Models with processes of other kinds in the places of the AR(1) factors that explain most.

    Those that are not stationary take the slowest of them. Kinds that are looked for in the periodogram are
    not made here.
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
    """Processes beside AR(1) factors that no column sees, with which a model is the same as without."""
    processes = [given.processes.get(kind, kind.silent(count)) for kind, count in latents.counts.items()]
    loadings = np.zeros((like.n_features, latents.n_states - latents.n_components))
    return like.replace(decay=np.zeros(0), loadings=loadings, processes=tuple(processes))
