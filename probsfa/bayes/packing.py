"""From checked sequences to what the model takes, and from a maximum of the likelihood to a start."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from probsfa._timescales import timescales_from_decay
from probsfa._validation import Sequences
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.model import Series, from_panel
from probsfa.statespace.panel import Panel, make_panel, padded_length
from probsfa.statespace.parameters import Parameters

FloatArray = NDArray[np.float64]

# Decays within which a start is kept: time scales from a fifth of a step to a hundred thousand steps.
_FASTEST, _SLOWEST = float(np.exp(-5.0)), float(np.exp(-1e-5))
# Smallest noise of a start, as a share of a column's variance; priors do not hold it there.
_LEAST_NOISE = 1e-12


def pack(found: Sequences, hierarchical: bool) -> Series:
    """All sequences on one axis of time; those of a hierarchical model each on its own, padded."""
    if not hierarchical:
        return from_panel(make_panel(found))
    whole = make_panel(found, pad=False)
    n_steps, d = padded_length(max(found.lengths)), found.n_features
    shape = (len(found.lengths), n_steps)
    values, mask = np.zeros((*shape, d)), np.zeros((*shape, d), dtype=bool)
    index = np.full(shape, whole.gaps.size, dtype=np.int32)
    for i, (rows, n) in enumerate(zip(found.slices, found.lengths, strict=True)):
        values[i, :n], mask[i, :n] = whole.values[rows], whole.mask[rows] > 0.0
        index[i, :n] = whole.gap_index[rows]
    return Series(values, mask, index, whole.gaps)


def panels_of(found: Sequences, hierarchical: bool) -> tuple[list[Panel], list[list[tuple[int, int]]]]:
    """Panels that share one noise, and for each the sequences it holds, with their last rows in it."""
    if not hierarchical:
        return [make_panel(found)], [[(i, s.stop - 1) for i, s in enumerate(found.slices)]]
    panels = []
    for rows, n in zip(found.slices, found.lengths, strict=True):
        times = None if found.times is None else found.times[rows]
        panels.append(make_panel(Sequences(found.values[rows], (n,), times)))
    return panels, [[(i, n - 1)] for i, n in enumerate(found.lengths)]


def start_values(params: Parameters, target: Target) -> dict[str, Any]:
    """Values of the model's sites at given parameters, as far as its priors allow."""
    noise = np.maximum(params.noise_variance, _LEAST_NOISE)
    if target.noise == "isotropic":
        noise = noise[:1]
    return {
        "timescale": timescales_from_decay(np.clip(params.decay, _FASTEST, _SLOWEST)),
        "loadings": params.loadings,
        "noise_std": np.sqrt(noise),
        "noise_variance": noise,
        "typical_noise_variance": noise,
        "noise_spread": 0.1,
        "noise_deviation": 0.0,
        "offset": params.offset,
    }
