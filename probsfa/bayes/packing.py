"""From checked sequences to what the model takes, and from a maximum of the likelihood to a start."""

from typing import Any

import numpy as np

from probsfa._timescales import timescales_from_decay
from probsfa._validation import Sequences
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.model import Series, from_panel
from probsfa.statespace.panel import Panel, make_panel, padded_length
from probsfa.statespace.parameters import Parameters

# Decays within which a start is kept: time scales from a fifth of a step to a hundred thousand steps.
_FASTEST, _SLOWEST = float(np.exp(-5.0)), float(np.exp(-1e-5))
# Smallest standard deviation of the AR(1) noise of a start, as a share of a column's.
_LEAST_SCALE = 0.05
#: Smallest noise of a start, and of draws, as a share of a column's variance.
LEAST_NOISE = 1e-12


def pack(sequences: Sequences, hierarchical: bool) -> Series:
    """All sequences on one axis of time; those of a hierarchical model each on its own, padded."""
    if not hierarchical:
        return from_panel(make_panel(sequences))
    whole = make_panel(sequences, pad=False)
    n_steps, d = padded_length(max(sequences.lengths)), sequences.n_features
    shape = (len(sequences.lengths), n_steps)
    values, mask = np.zeros((*shape, d)), np.zeros((*shape, d), dtype=bool)
    index = np.full(shape, whole.gaps.size, dtype=np.int32)
    for i, (rows, n) in enumerate(zip(sequences.slices, sequences.lengths, strict=True)):
        values[i, :n], mask[i, :n] = whole.values[rows], whole.mask[rows] > 0.0
        index[i, :n] = whole.gap_index[rows]
    return Series(values, mask, index, whole.gaps)


def panels_of(sequences: Sequences, hierarchical: bool) -> tuple[list[Panel], list[list[tuple[int, int]]]]:
    """Panels that share one noise, and for each the sequences it holds, with their last rows in it."""
    if not hierarchical:
        return [make_panel(sequences)], [[(i, s.stop - 1) for i, s in enumerate(sequences.slices)]]
    panels = [make_panel(sequences.one(i)) for i in range(len(sequences.lengths))]
    return panels, [[(i, n - 1)] for i, n in enumerate(sequences.lengths)]


def start_values(params: Parameters, target: Target) -> dict[str, Any]:
    """Values of the model's sites at given parameters, as far as its priors allow."""
    noise = np.maximum(params.noise_variance, LEAST_NOISE)
    if target.noise == "isotropic":
        noise = noise[:1]
    pairs = params.loadings[:, params.n_components :]
    n_cycle_states = 2 * len(params.rhythm_decay)
    return {
        "timescale": timescales_from_decay(np.clip(params.decay, _FASTEST, _SLOWEST)),
        "loadings": params.loadings[:, : params.n_components],
        "noise_std": np.sqrt(noise),
        "noise_variance": noise,
        "typical_noise_variance": noise,
        "noise_spread": 0.1,
        "noise_deviation": 0.0,
        "offset": params.offset,
        "period": params.rhythm_periods,
        "cycle_timescale": timescales_from_decay(np.clip(params.rhythm_decay, _FASTEST, _SLOWEST)),
        "cycle_loadings": pairs[:, :n_cycle_states],
        "smooth_timescale": params.smooth_timescales,
        "smooth_loadings": pairs[:, n_cycle_states::2],
        "ar_noise_timescale": timescales_from_decay(np.clip(params.memory_decay, _FASTEST, _SLOWEST)),
        "ar_noise_std": np.maximum(params.memory_scale, _LEAST_SCALE),
    }
